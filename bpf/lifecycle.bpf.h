/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_LIFECYCLE_H
#define PYPERF_LIFECYCLE_H
/*
 * Beside the stages: fork, exec and exit keep `procs` true at once, in the kernel, and tell user space.
 * Input:   the tracepoints' tasks.
 * Output:  procs; struct ev_proc in `events`.
 * Cost:    1 us per fork, exec, exit of a process; nothing for threads but the test.
 * Fails:   table or ring full: counted (note_proc_full, note_event_lost).
 */
#include "task.bpf.h"

BPF_INLINE void send_event(__u32 type, __u32 tgid, const struct proc *p, __u32 parent,
			   struct task_struct *task)
{
	struct ev_proc *ev = bpf_ringbuf_reserve(&events, sizeof(*ev), 0);

	if (!ev) {
		stat_inc(CTR_note_event_lost);
		return;
	}
	__builtin_memset(ev, 0, sizeof(*ev));
	ev->type = type;
	ev->tgid = tgid;
	ev->space = p->space;
	ev->image = p->image;
	ev->parent = parent;
	ev->time_ns = bpf_ktime_get_ns();
	BPF_CORE_READ_STR_INTO(&ev->comm, task, comm);
	if (type == EV_EXIT)
		ev->status = (__u32)BPF_CORE_READ(task, exit_code);
	/* The others must be known before the next sample. With -p an exit may be the end of the run. */
	bpf_ringbuf_submit(ev, type == EV_EXIT && !(cfg.flags & CFG_TARGETS) ? BPF_RB_NO_WAKEUP
									     : BPF_RB_FORCE_WAKEUP);
}

/* The child shares the parent's image until it maps something or calls exec. */
BPF_INLINE void follow_fork(struct task_struct *parent, struct task_struct *child)
{
	__u32 tgid = task_tgid(child), parent_tgid = task_tgid(parent);
	struct proc p = {}, *from;

	if (BPF_CORE_READ(child, pid) != BPF_CORE_READ(child, tgid) || !tgid)
		return; /* a thread */
	from = bpf_map_lookup_elem(&procs, &parent_tgid);
	if (!from)
		return;
	if ((cfg.flags & CFG_TARGETS) && !(cfg.flags & CFG_CHILDREN))
		return;
	p.space = new_space();
	p.image = bpf_map_lookup_elem(&images, &from->space) ? from->space : from->image;
	p.flags = from->flags;
	stat_inc(CTR_note_fork);
	if (bpf_map_update_elem(&procs, &tgid, &p, BPF_ANY))
		stat_inc(CTR_note_proc_full);
	else
		send_event(EV_FORK, tgid, &p, from->space, child);
}

/* A new address space: nothing that was known of the old one holds. */
BPF_INLINE void follow_exec(struct task_struct *task)
{
	__u32 tgid = task_tgid(task);
	struct proc p = {}, *old;

	if (!tgid)
		return;
	old = bpf_map_lookup_elem(&procs, &tgid);
	if (!old && (cfg.flags & CFG_TARGETS))
		return;
	p.space = p.image = new_space();
	p.flags = old ? old->flags : 0;
	stat_inc(CTR_note_exec);
	if (bpf_map_update_elem(&procs, &tgid, &p, BPF_ANY))
		stat_inc(CTR_note_proc_full);
	else
		send_event(EV_EXEC, tgid, &p, 0, task); /* what `old` points to is reused by now */
}

/* do_exit() has counted the thread off signal->live by now: 0 is the last one. */
BPF_INLINE void follow_exit(struct task_struct *task)
{
	__u32 tgid = task_tgid(task);
	struct proc *p, last;

	if (BPF_CORE_READ(task, signal, live.counter) > 0)
		return;
	p = bpf_map_lookup_elem(&procs, &tgid);
	if (!p)
		return;
	last = *p;
	if (bpf_map_delete_elem(&procs, &tgid))
		return; /* two last threads on two CPUs may both find nobody alive: one of them tells */
	stat_inc(CTR_note_exit);
	send_event(EV_EXIT, tgid, &last, 0, task);
}

#endif /* PYPERF_LIFECYCLE_H */
