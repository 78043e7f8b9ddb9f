/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sample/bills.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"

void bills__init(struct bills *b, struct object *object)
{
	*b = (struct bills){ .object = object };
}

static struct bill *find(struct bills *b, uint32_t uid)
{
	for (size_t i = 0; i < b->cnt; i++)
		if (b->list[i].uid == uid)
			return &b->list[i];
	return NULL;
}

static struct bill *find_or_add(struct bills *b, uint32_t uid)
{
	struct bill *x = find(b, uid);

	if (x || b->cnt == USERS_MAX)
		return x;
	x = &b->list[b->cnt++];
	*x = (struct bill){ .uid = uid, .one_of = 1 };
	return x;
}

void bills__note(struct bills *b, const struct profile *drained)
{
	for (size_t i = 0; i < drained->stack_cnt; i++) {
		const struct profile_proc *proc = &drained->procs[drained->stacks[i].proc];
		struct bill *x = proc->ids_known ? find_or_add(b, proc->payer) : NULL;

		if (x)
			x->stacks++;
		b->noted++;
	}
}

void bills__note_read(struct bills *b, uint32_t uid)
{
	struct bill *x = find_or_add(b, uid);

	if (x)
		x->stacks++;
	b->noted++;
}

static uint64_t part(uint64_t ns, uint64_t of, uint64_t all)
{
	return all ? (uint64_t)((double)ns * (double)of / (double)all) : 0;
}

/*
 * Reads what the kernel has charged to each user since the last time. Returns the sum for
 * following.
 */
static uint64_t read_kernel(struct bills *b)
{
	struct user_cost cost;
	uint64_t follow_ns = 0;
	uint32_t uid;

	for (bool more = object__next_user(b->object, NULL, &uid, &cost); more;
	     more = object__next_user(b->object, &uid, &uid, &cost)) {
		struct bill *x = find_or_add(b, uid);

		if (!x)
			continue;
		x->samples_ns = TIMED_EVERY * (cost.sample_ns - x->seen_sample_ns);
		x->follow_ns = cost.follow_ns - x->seen_follow_ns;
		x->seen_sample_ns = cost.sample_ns;
		x->seen_follow_ns = cost.follow_ns;
		x->seen = true;
		follow_ns += x->follow_ns;
	}
	return follow_ns;
}

/* Frees the kernel's entry for another user. */
static void forget_idle(struct bills *b)
{
	size_t kept = 0;

	for (size_t i = 0; i < b->cnt; i++) {
		struct bill *x = &b->list[i];

		if (x->samples_ns || x->follow_ns || x->one_of > 1)
			b->list[kept++] = *x;
		else if (x->seen)
			object__forget_user(b->object, x->uid);
	}
	b->cnt = kept;
}

void bills__charge(struct bills *b, uint64_t own_ns, uint64_t looks_ns)
{
	uint64_t follow_ns;

	for (size_t i = 0; i < b->cnt; i++)
		b->list[i].samples_ns = b->list[i].follow_ns = 0;
	follow_ns = read_kernel(b);
	for (size_t i = 0; i < b->cnt; i++) {
		struct bill *x = &b->list[i];

		/* The kernel does not know a user yet that forks and executes nothing. */
		if (!x->seen && x->stacks)
			x->seen = !object__set_user(b->object, x->uid, 0);
		x->samples_ns += part(own_ns, x->stacks, b->noted);
		x->follow_ns += part(looks_ns, x->follow_ns, follow_ns);
		x->all_samples_ns += x->samples_ns;
		x->all_follow_ns += x->follow_ns;
	}
	forget_idle(b);
}

void bills__begin(struct bills *b)
{
	for (size_t i = 0; i < b->cnt; i++)
		b->list[i].stacks = 0;
	b->noted = 0;
}

int bills__cut(struct bills *b, uint32_t uid, uint32_t one_of)
{
	struct bill *x = find_or_add(b, uid);
	int err = x ? object__set_user(b->object, uid, one_of) : -ENOSPC;
	uint32_t cut = 0;

	if (err) {
		log_debug("user %u: one of %u samples: %s", uid, one_of, strerror(-err));
		return err;
	}
	x->one_of = one_of;
	for (size_t i = 0; i < b->cnt; i++)
		cut += b->list[i].one_of > 1;
	object__cut_users(b->object, cut);
	return 0;
}

uint32_t bills__most_cut(const struct bills *b)
{
	uint32_t most = 1;

	for (size_t i = 0; i < b->cnt; i++)
		most = b->list[i].one_of > most ? b->list[i].one_of : most;
	return most;
}

static uint64_t sum(const struct bill *x)
{
	return x->all_samples_ns + x->all_follow_ns;
}

size_t bills__costliest(const struct bills *b, struct bill *out, size_t max)
{
	size_t cnt = 0;

	for (size_t i = 0; i < b->cnt; i++) {
		const struct bill *x = &b->list[i];
		size_t at = cnt < max ? cnt++ : max;

		for (; at && sum(&out[at - 1]) < sum(x); at--)
			if (at < max)
				out[at] = out[at - 1];
		if (at < max)
			out[at] = *x;
	}
	return cnt;
}
