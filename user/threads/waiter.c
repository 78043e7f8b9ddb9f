/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "threads/waiter.h"

#include <bpf/bpf.h>
#include <fnmatch.h>

#include "process/waitword.h"

bool waiter__sleeps(const struct thread_now *t)
{
	return !(t->flags & THREAD_ON_CPU) && !t->exit_state;
}

enum dumped_state waiter__state(const struct thread_now *t)
{
	if (t->exit_state)
		return DUMPED_ENDED;
	if (t->flags & THREAD_ON_CPU)
		return DUMPED_RUNNING;
	if (t->state & THREAD_SLEEPING)
		return DUMPED_SLEEPING;
	if (t->state & THREAD_BLOCKED)
		return DUMPED_BLOCKED;
	if (t->state & THREAD_STOPPED)
		return DUMPED_STOPPED;
	return t->state & THREAD_TRACED ? DUMPED_TRACED : DUMPED_RUNNABLE;
}

/* As bpf/sample.bpf.h. */
bool waiter__is_chosen(const struct session *s, const struct process_maps *maps,
		       const struct thread_now *t, const struct process *p)
{
	const struct session_opts *o = session__opts(s);
	const struct sample_spec *spec = o->spec;
	bool chosen = !spec->tid_cnt;
	struct proc proc;

	if (p->exited || bpf_map_lookup_elem(maps->procs_fd, &p->tgid, &proc) ||
	    proc.space != p->space)
		return false;
	if ((spec->pid_cnt || o->command) && !(proc.flags & PROC_TARGET))
		return false;
	if (!spec->all && !o->command && !p->is_python && !p->native_only)
		return false;
	for (uint32_t i = 0; i < spec->tid_cnt; i++)
		chosen |= spec->tids[i] == t->tid;
	return chosen && !(spec->by_user && p->ids_known && p->uid != spec->uid) &&
	       !(spec->comm && fnmatch(spec->comm, t->leader_comm, 0));
}

const char *waiter__reason(const struct thread_now *now, const struct dumped_thread *t)
{
	if (t->gil == GIL_WAITS)
		return wait_word_text(WAIT_WORD(WAIT_GIL, WAIT_NO_CALL));
	if (t->state == DUMPED_RUNNABLE)
		return wait_word_text(WAIT_WORD(WAIT_CPU, WAIT_NO_CALL));
	if ((t->state != DUMPED_SLEEPING && t->state != DUMPED_BLOCKED) ||
	    !(now->flags & THREAD_REGS))
		return NULL;
	return wait_word_text(wait_word_of_sleeper(now));
}
