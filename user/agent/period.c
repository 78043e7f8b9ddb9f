/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/period.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define OTHERS_SPACE UINT32_MAX /* no process has it: they are numbered from 1 on */

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

/* Distinct stacks are bounded; the samples of one that is there already always find room. */
static bool has_room(const struct period *p, const struct profile_stack *s, const uint64_t *words,
		     int proc, const struct period_limits *limits)
{
	return p->profile->stack_cnt < limits->stacks ||
	       profile__find_stack(p->profile, s->type, (uint32_t)proc, s->tid, words, s->cnt) >= 0;
}

static int add_stack(struct period *p, const struct profile *from, const struct profile_stack *s,
		     int proc, const struct period_limits *limits)
{
	static const uint64_t marker = MARKER_WORD(MARK_STACK_BUDGET, 0);
	const uint64_t *words = from->frames + s->first;
	bool others = p->profile->procs[proc].space == OTHERS_SPACE;
	int err;

	if (!others && has_room(p, s, words, proc, limits)) {
		err = profile__add_value(p->profile, s->type, (uint32_t)proc, s->tid, words, s->cnt,
					 s->samples, s->count);
	} else {
		err = profile__add_value(p->profile, s->type, (uint32_t)proc, 0, &marker, 1,
					 s->samples, s->count);
		*(others ? &p->over_processes : &p->over_stacks) += s->type ? 0 : s->count;
	}
	if (err >= 0 && !s->type)
		p->samples += s->count;
	return err < 0 ? err : 0;
}

int period__add(struct period *p, const struct profile *drained, const struct period_limits *limits)
{
	int *procs = calloc(drained->proc_cnt + 1, sizeof(*procs)), err = procs ? 0 : -ENOMEM;

	if (drained->stats.slowed > p->profile->stats.slowed)
		p->profile->stats.slowed = drained->stats.slowed;
	for (size_t i = 0; i < drained->proc_cnt && !err; i++) {
		procs[i] = add_proc(p->profile, drained, &drained->procs[i], limits->processes);
		err = procs[i] < 0 ? procs[i] : 0;
	}
	for (size_t i = 0; i < drained->stack_cnt && !err; i++)
		err = add_stack(p, drained, &drained->stacks[i], procs[drained->stacks[i].proc],
				limits);
	free(procs);
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
