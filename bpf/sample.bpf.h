/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_SAMPLE_H
#define PYPERF_SAMPLE_H
/*
 * Stage 1: does this event count, and whose is it? And the walks of one thread, in order.
 * Input:   the current task.
 * Output:  w filled in for the walkers, or the filtered_* / lost_* counter that says why not.
 * Cost:    two look-ups; with -C a walk up the control groups, with --comm one match.
 * Fails:   a process that no event announced: lost_no_proc.
 */
#include "lifecycle.bpf.h"
#include "image.bpf.h"
#include "walk_kernel.bpf.h"
#include "walk_python.bpf.h"
#include "walk_native.bpf.h"
#include "merge.bpf.h"

#define SAMPLE_TAKE CTR_counted /* select_sample(): the sample counts */

BPF_INLINE __u32 unknown_process(struct task_struct *task)
{
	if (BPF_CORE_READ(task, flags) & PF_EXITING)
		return CTR_filtered_exited;
	return cfg.flags & CFG_TARGETS ? CTR_filtered_target : CTR_lost_no_proc;
}

/* The image of a process: its own, or the one that it shares with its parent since fork. */
BPF_INLINE const struct image *find_image(const struct proc *p)
{
	const struct image *im = bpf_map_lookup_elem(&images, &p->space);

	return im ? im : bpf_map_lookup_elem(&images, &p->image);
}

/*
 * Does the process count for programs that do more than sample? select_sample() checks names,
 * control groups and users later.
 */
BPF_INLINE int is_wanted(__u32 tgid)
{
	const struct proc *p = bpf_map_lookup_elem(&procs, &tgid);
	const struct image *im;

	if (!p || ((cfg.flags & CFG_TARGETS) && !(p->flags & PROC_TARGET)))
		return 0;
	if (!(cfg.flags & CFG_PYTHON_ONLY))
		return 1;
	im = find_image(p);
	return image_counts(im);
}

BPF_INLINE void recall_row(const struct walk *w)
{
	struct code_row *row = code_row(w->cache.row);

	for (__u32 i = 0; row && i < ROW_LINES; i++)
		(void)*(volatile __u64 *)&row->line[i][0].tag;
}

#define RECALL_STEPS 8 /* slots per call: the verifier then follows the sum of two loops */

BPF_NOINLINE int recall_codes(__u32 first)
{
	const struct walk *w = the_walk();

	for (__u32 i = 0; w && i < RECALL_STEPS && first + i < w->recall.code_cnt; i++) {
		__u32 slot = w->recall.code[BOUND(first + i, RECALL_SLOTS)];
		const struct known_code *known = code_slot(slot % CODE_SLOTS);

		if (known)
			(void)*(volatile __u64 *)&known->addr;
	}
	return 0;
}

BPF_NOINLINE int recall_places(__u32 first)
{
	const struct walk *w = the_walk();
	struct known_place *places = the_places();

	if (!w || !places)
		return 0;
	for (__u32 i = 0; i < RECALL_STEPS && first + i < w->recall.place_cnt; i++) {
		__u32 slot = w->recall.place[BOUND(first + i, RECALL_SLOTS)];

		(void)*(volatile __u64 *)&places[BOUND(slot, PLACE_SLOTS)].word;
	}
	return 0;
}

/*
 * Prefetches the cache lines that the walk will need: those of this thread's last sample, or the
 * row of a Python process when another process ran before. No load depends on another, so together
 * they take the time of a few.
 */
BPF_NOINLINE int recall_lines(__u32 is_python)
{
	const struct walk *w = the_walk();

	if (!w)
		return 0;
	if (w->cache.by_row && is_python)
		recall_row(w);
	if (w->cache.by_row || w->recall.tid != w->thread.tid)
		return 0;
	for (__u32 i = 0; i < RECALL_SLOTS && i < w->recall.code_cnt; i += RECALL_STEPS)
		recall_codes(i);
	for (__u32 i = 0; i < RECALL_SLOTS && i < w->recall.place_cnt; i += RECALL_STEPS)
		recall_places(i);
	return 0;
}

/*
 * Reads the fields of the current task's memory descriptor. A function of its own because the
 * verifier searches all types of the kernel each time that it sees a pointer loaded from a task.
 */
BPF_NOINLINE int look_at_memory(NO_ARG)
{
	struct task_struct *task = current_task();
	struct mm_struct *mm = CURRENT_READ(task, mm);
	struct walk *w = the_walk();

	if (!w)
		return 0;
	w->thread.has_mm = 0;
	w->thread.stack_start = 0;
	if (!mm)
		return 0;
	w->thread.has_mm = 1;
	w->thread.code_pages = (__u16)CURRENT_READ(mm, exec_vm);
	w->thread.stack_start = CURRENT_READ(mm, start_stack);
	return 0;
}

/*
 * Fills in the process and thread of the sample. Returns SAMPLE_TAKE, CTR_note_pending (the sample
 * counts, without a walk), or the counter that says why it does not count.
 */
BPF_INLINE __u32 select_sample(struct walk *w, struct task_struct *task)
{
	const struct image *im;
	struct proc *p;

	if (!(__u32)bpf_get_current_pid_tgid() || CURRENT_READ(task, flags) & PF_KTHREAD)
		return CTR_filtered_idle;
	w->thread.tgid = current_tgid(task);
	if (!w->thread.tgid)
		return CTR_filtered_pidns;
	p = bpf_map_lookup_elem(&procs, &w->thread.tgid);
	if (!p)
		return unknown_process(task);
	if ((cfg.flags & CFG_TARGETS) && !(p->flags & PROC_TARGET))
		return CTR_filtered_target;
	if ((cfg.flags & CFG_COMM) && !comm_matches(0))
		return CTR_filtered_comm;
	if ((cfg.flags & CFG_CGROUP) && !in_cgroup(0))
		return CTR_filtered_cgroup;
	if ((cfg.flags & CFG_USER) && (__u32)bpf_get_current_uid_gid() != cfg.uid)
		return CTR_filtered_user;
	w->thread.tid = current_tid(task);
	if ((cfg.flags & CFG_TIDS) && !tid_matches(w->thread.tid))
		return CTR_filtered_thread;
	w->tstate.interp_id = 0; /* not yet known, or never */
	w->thread.space = p->space;
	im = find_image(p);
	look_at_memory(0);
	watch_code(p, im, w);
	if (!im)
		return CTR_note_pending;
	if ((cfg.flags & CFG_PYTHON_ONLY) && !image_counts(im))
		return CTR_filtered_python;
	w->cache.by_row = w->recall.space != w->thread.space;
	w->cache.row = (__u32)(mix64(mix64(0, w->thread.space), w->thread.tid) >> 32) % CODE_ROWS;
	if (cfg.flags & CFG_RECALL)
		recall_lines(im->flags & IMAGE_PYTHON);
	reset_walk(w);
	w->cache.code_epoch = *(volatile __u32 *)&code_epoch; /* once: for all of the sample */
	load_image(w, im);
	return SAMPLE_TAKE;
}

/* ---- the thread state, through the cache ----------------------------------------------------- */

/*
 * The entry of a thread for the current interpreter. `tid`: the thread's, or THREAD_PASSED_TID().
 */
BPF_INLINE struct thread_val *find_thread(const struct walk *w, __u32 tid)
{
	struct thread_key key = { .space = w->thread.space, .tid = tid, .bias = w->image.bias };

	return bpf_map_lookup_elem(&threads, &key);
}

/*
 * The lists of thread states begin where they did when they were scanned for this thread, and none
 * begins with a new state of it in the memory of the old first one. New states are put at the head.
 */
BPF_NOINLINE int lists_unchanged(__u64 heads, __u64 tstate)
{
	struct walk *w = the_walk();
	int err;

	if (!w || !heads)
		return 0;
	w->scan.mode = SCAN_HEADS;
	err = scan_thread_states(0);
	w->scan.mode = SCAN_ALL;
	w->flags &= ~WALK_PY_LOST;
	return !err && !w->tstate.run_cnt && w->scan.heads == heads &&
	       (!w->tstate.addr || w->tstate.addr == tstate);
}

/*
 * A thread that Python starts finds its state in the list: the starter has put it there, with its
 * own thread id. The thread writes its id at its first steps (thread_run(), t_bootstrap() up to
 * 3.11: Modules/_threadmodule.c). Until it has, it looks like a thread without a state, and the
 * lists may stay as they are.
 */
#define THREAD_STARTS_NS 10000000

BPF_INLINE int thread_starts(void)
{
	return CURRENT_READ(current_task(), se.sum_exec_runtime) < THREAD_STARTS_NS;
}

BPF_NOINLINE int scan_tstates(NO_ARG)
{
	struct walk *w = the_walk();
	struct ev_thread ev = { .type = EV_THREAD };

	if (!w)
		return 0;
	if (!w->scan.known)
		stat_inc(CTR_note_tstate_scan);
	if (scan_thread_states(0))
		return 0;
	ev.key.space = w->thread.space;
	ev.key.tid = w->thread.tid;
	ev.key.bias = w->image.bias;
	ev.val.tstate = w->tstate.addr;
	ev.val.interp = w->tstate.interp;
	ev.val.only = w->tstate.only_interp;
	ev.val.heads = w->scan.heads;
	if (!ev.val.tstate && (!ev.val.heads || thread_starts()))
		return 0; /* nothing to remember */
	/* A failure of either only costs another search. */
	if (cfg.flags & CFG_NMI)
		bpf_ringbuf_output(&misses, &ev, sizeof(ev), 0);
	else
		bpf_map_update_elem(&threads, &ev.key, &ev.val, BPF_ANY);
	return 0;
}

/*
 * A walk for another thread has noted this thread's state. It is still valid if all lists begin
 * where they did, because a new state is put at the head.
 */
BPF_NOINLINE int recall_passed(NO_ARG)
{
	struct walk *w = the_walk();
	struct thread_val *val;

	if (!w)
		return 0;
	val = find_thread(w, THREAD_PASSED_TID(w->thread.tp));
	if (val && lists_unchanged(val->heads, val->tstate) && tstate_is_ours(w, val->tstate)) {
		w->scan.known = val->tstate;
		w->scan.known_interp = val->interp;
	}
	return 0;
}

/*
 * Sets w->tstate.addr and w->tstate.run[]; neither when Python never saw this thread. Where there
 * are several interpreters the thread may have got a state in another one since: only that in the
 * interpreter of the known state need not be searched.
 */
BPF_INLINE void find_tstate(struct walk *w)
{
	struct thread_val *val = find_thread(w, w->thread.tid);
	__u64 newest;

	if (val && val->tstate && tstate_is_ours(w, val->tstate)) {
		if (val->only && !read_user(&newest, 8, w->interp.interp_head) &&
		    newest == val->only) {
			w->tstate.addr = val->tstate;
			w->tstate.only_interp = val->only;
			return;
		}
		w->scan.known = val->tstate;
		w->scan.known_interp = val->interp;
	} else if (val && !val->tstate && lists_unchanged(val->heads, 0)) {
		return;
	} else {
		recall_passed(0);
	}
	scan_tstates(0);
}

/*
 * The cached state has no frames. It may have been freed, with its memory unchanged, and the thread
 * may have a new one: this happens when C calls PyGILState_Ensure() and _Release() in turn, and
 * when an interpreter ends and starts again. 1: the lists were searched again.
 */
BPF_NOINLINE int search_if_stale(NO_ARG)
{
	struct walk *w = the_walk();
	struct thread_val *val;

	if (!w || w->python.cnt || (w->flags & WALK_PY_SCAN && !w->scan.known))
		return 0;
	val = find_thread(w, w->thread.tid);
	if (!val || !val->tstate || lists_unchanged(val->heads, val->tstate))
		return 0;
	reset_python(w);
	scan_tstates(0);
	return 1;
}

/*
 * Selects interpreter n of the process for the walk, and finds the thread's state in it. 0: there
 * is none.
 */
BPF_NOINLINE int begin_interp(__u32 n)
{
	struct walk *w = the_walk();

	if (!w || n >= w->image.interp_cnt || load_interp(w, n))
		return 0;
	reset_python(w);
	find_tstate(w);
	return 1;
}

/*
 * Walks all Python frames of the thread in interpreter n of its process. 0: it has none there. If a
 * thread has frames in both interpreters, those of the first are shown, and the eval loops of the
 * other are native frames. Inline, because the call chain of the walk below is as deep as BPF
 * allows.
 */
BPF_INLINE int walk_interp(struct walk *w, __u32 n)
{
	if (!begin_interp(n))
		return 1;
	walk_python(w);
	if (search_if_stale(0))
		walk_python(w);
	return w->python.cnt || w->flags & WALK_PY_LOST;
}

/*
 * Announces the current code object, which is new, and remembers it. Negative: there was no room to
 * announce it.
 */
BPF_INLINE int code_insert(struct walk *w)
{
	struct code_key key = { .addr = w->code.addr, .fingerprint = w->code.fingerprint };
	struct code_val val = { .id = w->code.id };

	stat_inc(CTR_note_code_new);
	if (announce_code(0)) {
		stat_inc(CTR_note_code_lost);
		return -1;
	}
	if (!(cfg.flags & CFG_NMI) && bpf_map_update_elem(&codes, &key, &val, BPF_ANY))
		stat_inc(CTR_note_code_table);
	return 0;
}

#endif /* PYPERF_SAMPLE_H */
