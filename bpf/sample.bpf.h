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

BPF_INLINE void recall_row(const struct walk *w)
{
	struct code_row *row = code_row(w->row);

	for (__u32 i = 0; row && i < ROW_LINES; i++)
		(void)*(volatile __u64 *)&row->line[i][0].tag;
}

/*
 * Asks for the lines that the walk will want: those that the last sample used, if it was this
 * thread's, or the row of a Python process after another one's. None of the loads waits for
 * another, so they take the time of a few.
 */
BPF_NOINLINE int recall_lines(__u32 is_python)
{
	struct walk *w = the_walk();
	struct known_place *places = the_places();
	struct known_code *known;

	if (!w || !places)
		return 0;
	if (w->by_row && is_python)
		recall_row(w);
	if (w->by_row || w->recall.tid != w->tid)
		return 0;
	for (__u32 i = 0; i < RECALL_SLOTS && i < w->recall.code_cnt; i++) {
		known = code_slot(w->recall.code[i] % CODE_SLOTS);
		if (known)
			(void)*(volatile __u64 *)&known->addr;
	}
	for (__u32 i = 0; i < RECALL_SLOTS && i < w->recall.place_cnt; i++)
		(void)*(volatile __u64 *)&places[BOUND(w->recall.place[i], PLACE_SLOTS)].word;
	return 0;
}

/*
 * Fills in whose sample it is. SAMPLE_TAKE, CTR_note_pending (it counts, without a walk), or why
 * not.
 */
BPF_INLINE __u32 select_sample(struct walk *w, struct task_struct *task)
{
	const struct image *im;
	struct proc *p;

	if (!(__u32)bpf_get_current_pid_tgid() || CURRENT_READ(task, flags) & PF_KTHREAD)
		return CTR_filtered_idle;
	w->tgid = current_tgid(task);
	if (!w->tgid)
		return CTR_filtered_pidns;
	p = bpf_map_lookup_elem(&procs, &w->tgid);
	if (!p)
		return unknown_process(task);
	if ((cfg.flags & CFG_TARGETS) && !(p->flags & PROC_TARGET))
		return CTR_filtered_target;
	if ((cfg.flags & CFG_COMM) && !comm_matches(0))
		return CTR_filtered_comm;
	if ((cfg.flags & CFG_CGROUP) && !in_cgroup(0))
		return CTR_filtered_cgroup;
	w->tid = current_tid(task);
	w->interp_id = 0; /* not yet known, or never */
	w->space = p->space;
	im = find_image(p);
	watch_code(p, im, task, w->tgid);
	if (!im)
		return CTR_note_pending;
	if ((cfg.flags & CFG_PYTHON_ONLY) && !(im->flags & (IMAGE_PYTHON | IMAGE_NOT_WALKED)))
		return CTR_filtered_python;
	w->by_row = w->recall.space != w->space;
	w->row = (__u32)(mix64(mix64(0, w->space), w->tid) >> 32) % CODE_ROWS;
	if (cfg.flags & CFG_RECALL)
		recall_lines(im->flags & IMAGE_PYTHON);
	reset_walk(w);
	w->code_epoch = *(volatile __u32 *)&code_epoch; /* once: for all of the sample */
	load_image(w, im);
	return SAMPLE_TAKE;
}

/* ---- the thread state, through the cache ----------------------------------------------------- */

/* Of the interpreter at hand. `tid`: the thread's, or THREAD_PASSED_TID(). */
BPF_INLINE struct thread_val *find_thread(const struct walk *w, __u32 tid)
{
	struct thread_key key = { .space = w->space, .tid = tid, .bias = w->bias };

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
	w->scan_mode = SCAN_HEADS;
	err = scan_thread_states(0);
	w->scan_mode = SCAN_ALL;
	w->flags &= ~WALK_PY_LOST;
	return !err && !w->run_cnt && w->scan_heads == heads && (!w->tstate || w->tstate == tstate);
}

BPF_NOINLINE int scan_tstates(__u32 unused)
{
	struct walk *w = the_walk();
	struct ev_thread ev = { .type = EV_THREAD };

	if (!w)
		return (int)unused;
	if (!w->scan_known)
		stat_inc(CTR_note_tstate_scan);
	if (scan_thread_states(0))
		return 0;
	ev.key.space = w->space;
	ev.key.tid = w->tid;
	ev.key.bias = w->bias;
	ev.val.tstate = w->tstate;
	ev.val.interp = w->tstate_at;
	ev.val.only = w->only;
	ev.val.heads = w->scan_heads;
	if (!ev.val.tstate && !ev.val.heads)
		return 0; /* nothing to remember */
	/* A failure of either costs another search, no more. */
	if (cfg.flags & CFG_NMI)
		bpf_ringbuf_output(&misses, &ev, sizeof(ev), 0);
	else
		bpf_map_update_elem(&threads, &ev.key, &ev.val, BPF_ANY);
	return 0;
}

/*
 * The walk for another thread came by this one's state: it is still that as long as all lists begin
 * where they did, because a new state is put at the head.
 */
BPF_NOINLINE int recall_passed(__u32 unused)
{
	struct walk *w = the_walk();
	struct thread_val *val;

	if (!w)
		return (int)unused;
	val = find_thread(w, THREAD_PASSED_TID(w->tp));
	if (val && lists_unchanged(val->heads, val->tstate) && tstate_is_ours(w, val->tstate)) {
		w->scan_known = val->tstate;
		w->scan_known_at = val->interp;
	}
	return 0;
}

/*
 * Sets w->tstate and w->run[]; neither when Python never saw this thread. Where there are several
 * interpreters the thread may have got a state in another one since: only that in the interpreter
 * of the known state need not be searched.
 */
BPF_INLINE void find_tstate(struct walk *w)
{
	struct thread_val *val = find_thread(w, w->tid);
	__u64 newest;

	if (val && val->tstate && tstate_is_ours(w, val->tstate)) {
		if (val->only && !read_user(&newest, 8, w->in.interp_head) && newest == val->only) {
			w->tstate = val->tstate;
			w->only = val->only;
			return;
		}
		w->scan_known = val->tstate;
		w->scan_known_at = val->interp;
	} else if (val && !val->tstate && lists_unchanged(val->heads, 0)) {
		return;
	} else {
		recall_passed(0);
	}
	scan_tstates(0);
}

/*
 * A state from the cache without frames: it may have been freed, its memory is as it was, and the
 * thread has another one. So it is when C calls PyGILState_Ensure() and _Release() in turn, and
 * when an interpreter is ended and begun again. 1: the lists were searched once more.
 */
BPF_NOINLINE int search_if_stale(__u32 unused)
{
	struct walk *w = the_walk();
	struct thread_val *val;

	if (!w || w->py_cnt || (w->flags & WALK_PY_SCAN && !w->scan_known))
		return (int)(unused & 0);
	val = find_thread(w, w->tid);
	if (!val || !val->tstate || lists_unchanged(val->heads, val->tstate))
		return 0;
	reset_python(w);
	scan_tstates(0);
	return 1;
}

/*
 * Makes interpreter n of the process the one that is walked, and finds the thread there. 0: there
 * is none.
 */
BPF_NOINLINE int begin_interp(__u32 n)
{
	struct walk *w = the_walk();

	if (!w || n >= w->interp_cnt || load_interp(w, n))
		return 0;
	reset_python(w);
	find_tstate(w);
	return 1;
}

/*
 * All Python frames that the thread has in interpreter n of its process. 0: it has none there. A
 * thread that has some in both shows those of the first; the other's eval loops are native frames
 * then. Inline: the walk below it has as many calls one in the other as BPF allows.
 */
BPF_INLINE int walk_interp(struct walk *w, __u32 n)
{
	if (!begin_interp(n))
		return 1;
	walk_python(w);
	if (search_if_stale(0))
		walk_python(w);
	return w->py_cnt || w->flags & WALK_PY_LOST;
}

/*
 * Announces the new code object at hand and remembers it. Negative: there was no room to announce
 * it.
 */
BPF_INLINE int code_insert(struct walk *w)
{
	struct code_key key = { .addr = w->code, .fingerprint = w->fingerprint };
	struct code_val val = { .id = w->code_id };

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
