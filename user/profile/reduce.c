/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "profile/reduce.h"

#include "base/str.h"

static bool is_called(const struct profile *p, const struct profile_proc *x, const char *glob)
{
	return glob_match(glob, profile__str(p, x->comm)) ||
	       glob_match(glob, profile__str(p, profile_proc__name(x)));
}

static bool is_wanted(const struct profile *p, uint32_t proc, const struct reduction *n)
{
	const struct profile_proc *x = proc < p->proc_cnt ? &p->procs[proc] : NULL;
	bool found = !n->pid_cnt;

	for (size_t i = 0; x && i < n->pid_cnt && !found; i++)
		found = x->tgid && (uint32_t)n->pids[i] == x->tgid;
	return found && (!n->comm || (x && is_called(p, x, n->comm)));
}

static bool is_shown(const struct profile *p, size_t frame, const struct reduction *n)
{
	uint32_t sym = p->frame_syms ? p->frame_syms[frame] : UINT32_MAX;
	uint8_t kind = sym < p->sym_cnt ? p->syms[sym].kind : SYM_MARKER;

	return !(kind == SYM_NATIVE && n->no_native) && !(kind == SYM_KERNEL && n->no_kernel);
}

static void narrow_stack(struct profile *p, struct profile_stack *s, const struct reduction *n)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < s->cnt; i++) {
		if (!is_shown(p, s->first + i, n))
			continue;
		p->frame_syms[s->first + kept] = p->frame_syms[s->first + i];
		if (p->frames)
			p->frames[s->first + kept] = p->frames[s->first + i];
		kept++;
	}
	s->cnt = kept;
}

static void narrow_loops(struct profile *p, const struct reduction *n)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->loop_cnt; i++)
		if (is_wanted(p, (uint32_t)profile__find_proc(p, p->loops[i].space), n))
			p->loops[kept++] = p->loops[i];
	p->loop_cnt = kept;
	kept = 0;
	for (size_t i = 0; i < p->await_cnt; i++)
		if (is_wanted(p, (uint32_t)profile__find_proc(p, p->awaits[i].space), n))
			p->awaits[kept++] = p->awaits[i];
	p->await_cnt = kept;
}

void profile__reduce(struct profile *p, const struct reduction *n)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->stack_cnt; i++) {
		struct profile_stack *s = &p->stacks[i];

		if (!is_wanted(p, s->proc, n)) {
			p->stats.hidden_samples += profile__new_samples(p, s);
			continue;
		}
		if (p->frame_syms && (n->no_native || n->no_kernel))
			narrow_stack(p, s, n);
		p->stacks[kept++] = *s;
	}
	p->stack_cnt = kept;
	narrow_loops(p, n);
}
