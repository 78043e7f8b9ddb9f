/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/period.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define OTHERS_SPACE UINT32_MAX /* not a process: these are numbered from 1 */
#define PERIOD_LOOPS 2048	/* threads that poll, kept apart; what others did is left out */

struct period *period__new(void)
{
	struct period *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->profile = profile__new();
	if (!p->profile) {
		free(p);
		return NULL;
	}
	return p;
}

void period__free(struct period *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->label_cnt; i++)
		label_set__put(p->labels[i]);
	free(p->labels);
	profile__free(p->profile);
	free(p);
}

static str_id copy_string(struct profile *to, const struct profile *from, str_id id)
{
	return profile__intern(to, profile__str(from, id), profile__str_len(from, id));
}

static int add_others(struct profile *p)
{
	const struct profile_proc others = {
		.space = OTHERS_SPACE,
		.comm = profile__intern_z(p, PERIOD_OTHERS),
	};

	return profile__add_proc(p, &others);
}

/* The index in `to`, or -ENOMEM. What was learned since the last drain replaces what was known. */
static int add_proc(struct profile *to, const struct profile *from, const struct profile_proc *proc,
		    uint32_t max)
{
	struct profile_proc copy = *proc;

	if (profile__find_proc(to, proc->space) < 0 && to->proc_cnt >= max)
		return add_others(to);
	copy.comm = copy_string(to, from, proc->comm);
	copy.exe = copy_string(to, from, proc->exe);
	copy.container = copy_string(to, from, proc->container);
	copy.python = copy_string(to, from, proc->python);
	copy.native_only = copy_string(to, from, proc->native_only);
	return profile__add_proc(to, &copy);
}

/* NULL: there is no room for one more, or the user of the process is not known. */
static struct period_user *user_of(struct period *p, int proc)
{
	const struct profile_proc *owner = &p->profile->procs[proc];
	size_t i = 0;

	if (!owner->ids_known)
		return NULL;
	while (i < p->user_cnt && p->users[i].uid != owner->payer)
		i++;
	if (i == PERIOD_USERS)
		return NULL;
	if (i == p->user_cnt)
		p->users[p->user_cnt++] = (struct period_user){ .uid = owner->payer };
	return &p->users[i];
}

/* May a user with few stacks add one, although others have filled the room? */
static bool has_share(const struct period *p, const struct period_user *user, uint32_t max)
{
	return user && user->stacks < max / 16 && p->profile->stack_cnt < max + max / 4;
}

/* Distinct stacks are bounded; samples of a known stack always find room. */
static bool has_room(const struct period *p, const struct period_user *user,
		     const struct profile_stack *s, const uint64_t *words, int proc,
		     const struct period_limits *limits)
{
	return p->profile->stack_cnt < limits->stacks || has_share(p, user, limits->stacks) ||
	       profile__find_stack(p->profile, s->type, (uint32_t)proc, s->tid, words, s->cnt) >= 0;
}

/* Its index, UINT32_MAX if there was no room for it; or -ENOMEM. */
static int64_t add_stack(struct period *p, const struct profile *from,
			 const struct profile_stack *s, int proc,
			 const struct period_limits *limits)
{
	static const uint64_t marker = MARKER_WORD(MARK_STACK_BUDGET, 0);
	const uint64_t *words = from->frames + s->first;
	bool others = p->profile->procs[proc].space == OTHERS_SPACE;
	struct period_user *user = others ? NULL : user_of(p, proc);
	size_t before = p->profile->stack_cnt;
	bool fits = !others && has_room(p, user, s, words, proc, limits);
	int err;

	if (fits) {
		err = profile__add_value(p->profile, s->type, (uint32_t)proc, s->tid, words, s->cnt,
					 s->samples, s->count);
		if (user)
			user->stacks += p->profile->stack_cnt > before;
	} else {
		err = profile__add_value(p->profile, s->type, (uint32_t)proc, 0, &marker, 1,
					 s->samples, s->count);
		*(others ? &p->over_processes : &p->over_stacks) += s->type ? 0 : s->count;
	}
	if (err >= 0 && !s->type)
		p->samples += s->count;
	return err < 0 || fits ? err : (int64_t)UINT32_MAX;
}

/* `stacks`: where those of the drained profile are here. */
static int add_loops(struct period *p, const struct profile *drained, const uint32_t *stacks)
{
	int err = 0;

	for (size_t i = 0; i < drained->loop_cnt && !err; i++) {
		struct profile_loop l = drained->loops[i];

		l.longest_cnt = 0; /* nobody asks for them */
		if (l.poll.stack < drained->stack_cnt)
			l.poll.stack = stacks[l.poll.stack];
		if (p->profile->loop_cnt < PERIOD_LOOPS)
			err = profile__merge_loop(p->profile, &l);
	}
	return err;
}

int period__add(struct period *p, const struct profile *drained, const struct period_limits *limits)
{
	int *procs = calloc(drained->proc_cnt + 1, sizeof(*procs));
	uint32_t *stacks = calloc(drained->stack_cnt + 1, sizeof(*stacks));
	int err = procs && stacks ? 0 : -ENOMEM;

	if (drained->stats.slowed > p->profile->stats.slowed)
		p->profile->stats.slowed = drained->stats.slowed;
	for (size_t i = 0; i < drained->proc_cnt && !err; i++) {
		procs[i] = add_proc(p->profile, drained, &drained->procs[i], limits->processes);
		err = procs[i] < 0 ? procs[i] : 0;
	}
	for (size_t i = 0; i < drained->stack_cnt && !err; i++) {
		int64_t at = add_stack(p, drained, &drained->stacks[i],
				       procs[drained->stacks[i].proc], limits);

		err = at < 0 ? (int)at : 0;
		stacks[i] = (uint32_t)at;
	}
	if (!err)
		err = add_loops(p, drained, stacks);
	free(procs);
	free(stacks);
	return err;
}

int period__label(struct period *p, period_labels_fn fn, void *ctx)
{
	p->labels = calloc(p->profile->proc_cnt + 1, sizeof(struct label_set *));
	if (!p->labels)
		return -ENOMEM;
	for (size_t i = 0; i < p->profile->proc_cnt; i++) {
		p->labels[i] = fn(ctx, p->profile, &p->profile->procs[i]);
		if (!p->labels[i])
			return -ENOMEM;
		p->label_cnt++;
	}
	return 0;
}
