/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef PYPERF_WALK_TSTATE_H
#define PYPERF_WALK_TSTATE_H
/*
 * Stage 2: the PyThreadState of a thread.
 * Input:   w->interp (layout and addresses), w->thread.tp; what is known of the thread
 *          (w->tstate.addr).
 * Output:  w->tstate.addr, w->tstate.only_interp, w->tstate.run[]; WALK_PY_LOST and
 *          w->python.marker.
 * Cost:    none for a thread that is known; else a read for each state up to its own.
 * Fails:   unreadable memory, more states than MAX_THREAD_SCAN.
 */
#include "codes.bpf.h" /* mix64() */
#include "state.bpf.h"

BPF_INLINE int python_lost(struct walk *w, __u32 why)
{
	w->python.marker = MARKER_WORD(why, 0);
	w->flags |= WALK_PY_LOST;
	return 1;
}

BPF_INLINE int python_truncated(struct walk *w)
{
	w->flags |= WALK_TRUNCATED;
	return python_lost(w, MARK_PY_TRUNCATED);
}

BPF_INLINE int has_cframe(const struct walk *w)
{
	return w->interp.layout.chain == PY_CHAIN_CFRAME ||
	       w->interp.layout.chain == PY_CHAIN_CFRAME_SHIM ||
	       w->interp.layout.chain == PY_CHAIN_FRAME_C;
}

BPF_INLINE int has_data_stack(const struct walk *w)
{
	return w->interp.layout.chain == PY_CHAIN_CFRAME ||
	       w->interp.layout.chain == PY_CHAIN_CFRAME_SHIM;
}

/*
 * 3.11, 3.12: has an extension linked a frame outside of all eval loops (see is_compiled())? Then
 * it is in the root CFrame, where CPython has none.
 */
BPF_INLINE int has_root_frame(const struct walk *w, __u64 tstate)
{
	__u64 frame;

	return has_data_stack(w) &&
	       !read_user(&frame, 8,
			  tstate + w->interp.layout.root_cframe + w->interp.layout.cframe_frame) &&
	       frame;
}

/*
 * Does the thread state in w->buf have frames? Up to 3.9, in 3.13 and in 3.14 a leaf of 0 means
 * that it has none.
 */
BPF_INLINE int has_frames(const struct walk *w, __u64 tstate, __u64 leaf)
{
	if (has_cframe(w) && leaf == tstate + w->interp.layout.root_cframe)
		return has_root_frame(w, tstate);
	if (w->interp.layout.base_frame != PY_OFF_NONE &&
	    leaf == buf64(w, w->interp.layout.base_frame))
		return 0;
	return !!leaf;
}

/* Notes where the frames of the thread state in w->buf begin. */
BPF_INLINE void keep_leaf(struct walk *w, __u64 tstate)
{
	w->tstate.leaf_of = tstate;
	w->tstate.leaf = buf64(w, w->interp.layout.tstate_frame);
	if (w->interp.layout.chain == PY_CHAIN_FRAME_C)
		w->tstate.leaf_cframe = buf64(w, w->interp.layout.cframe_tstate);
}

/* Reads a thread state and tells whether it is this thread's. */
BPF_INLINE int tstate_is_ours(struct walk *w, __u64 tstate)
{
	if (buf_read(w, tstate, w->interp.layout.tstate_read) ||
	    buf64(w, w->interp.layout.tstate_thread_id) != w->thread.tp)
		return 0;
	keep_leaf(w, tstate);
	return 1;
}

/*
 * One thread can have a state in each of several interpreters, all of them with frames: code of one
 * has called into C, which runs code of another. The frames of all are on the stack, and their
 * anchors say in which order (order_segments()). Up to 3.9 there are no anchors: the newest
 * interpreter, which comes first in the list, is taken for the innermost.
 */

/*
 * 3.10, 3.11: _xxsubinterpreters runs an interpreter with the state, and the id, of the thread that
 * created it (_run_script_in_interpreter, Modules/_xxsubinterpretersmodule.c). But the CFrame lies
 * on the stack of the thread that runs it, between the stack pointer and the thread pointer; the
 * first thread, which has no thread pointer above it, has its stack above all others.
 */
BPF_INLINE int on_our_stack(const struct walk *w, __u64 addr)
{
	return addr >= w->native.sp && (addr < w->thread.tp || w->thread.tp < w->native.sp);
}

BPF_INLINE int several_interpreters(const struct walk *w)
{
	return w->scan.interp_cnt > 1 || w->scan.next_interp;
}

/* The thread state in w->buf. 1: it is this thread's and has frames. */
BPF_INLINE int consider_tstate(struct walk *w, __u64 tstate)
{
	__u64 leaf = buf64(w, w->interp.layout.tstate_frame);
	__u64 anchor = w->interp.layout.chain == PY_CHAIN_FRAME_C
			       ? buf64(w, w->interp.layout.cframe_tstate)
			       : leaf;
	int ours = buf64(w, w->interp.layout.tstate_thread_id) == w->thread.tp;
	int framed = (ours || several_interpreters(w)) && has_frames(w, tstate, leaf);
	int running = framed && ours;
	struct tstate_run *run;

	if (framed && has_cframe(w) && several_interpreters(w) &&
	    leaf != tstate + w->interp.layout.root_cframe)
		running = on_our_stack(w, anchor);
	/*
	 * Up to 3.11 the state of a thread that is being started carries its parent's id for a
	 * moment (t_bootstrap, _threadmodule.c): the one that has frames is the one that runs.
	 */
	if (ours && (running || (!w->tstate.addr && !framed))) {
		w->tstate.addr = tstate;
		w->tstate.interp = w->scan.interp;
	}
	if (!running)
		return 0;
	if (w->tstate.run_cnt >= MAX_TSTATES)
		return python_lost(w, MARK_PY_SCAN_LIMIT);
	run = &w->tstate.run[BOUND(w->tstate.run_cnt, MAX_TSTATES)];
	run->tstate = tstate;
	run->leaf = leaf;
	run->interp_id = (__u32)w->scan.interp_id;
	w->tstate.run_cnt++;
	return 1;
}

/* Goes to the next interpreter's thread states. 1: there is none. */
BPF_INLINE int next_interpreter(struct walk *w)
{
	__u64 head_id, interp = w->scan.next_interp;

	if (!interp)
		return 1;
	if (read_user(&w->scan.next_tstate, 8, interp + w->interp.layout.interp_threads_head) ||
	    read_user(&w->scan.next_interp, 8, interp + w->interp.layout.interp_next))
		return python_lost(w, MARK_PY_READ_FAILED);
	w->scan.interp_id = 0;
	w->scan.interp = interp;
	w->scan.interp_cnt++;
	if (w->interp.layout.interp_id != PY_OFF_NONE && several_interpreters(w))
		read_user(&w->scan.interp_id, 8,
			  interp + w->interp.layout.interp_id); /* 0 on failure */
	/* The memory of the first state may be another thread's by now: its id tells. */
	if (read_user(&head_id, 8, w->scan.next_tstate + w->interp.layout.tstate_thread_id))
		head_id = 0;
	w->scan.heads = mix64(mix64(w->scan.heads, w->scan.next_tstate ^ interp), head_id);
	if (interp == w->scan.known_interp)
		w->scan.next_tstate = w->scan.known;
	return 0;
}

/*
 * The state that seemed to be the thread's has no frames: it may be a freed one of an earlier
 * thread with the same stack. So the whole list of its interpreter is searched.
 */
BPF_INLINE int forget_known(struct walk *w)
{
	w->scan.known_interp = 0;
	if (read_user(&w->scan.next_tstate, 8,
		      w->scan.interp + w->interp.layout.interp_threads_head))
		return python_lost(w, MARK_PY_READ_FAILED);
	return 0;
}

/*
 * Notes the state of another thread for its first sample, or each of a thousand threads would
 * search for its own. One walk does not note all states that it passes, which would make the
 * longest sample twice as long; a few walks cover all of them.
 */
BPF_INLINE int is_noted(const struct walk *w, __u32 i)
{
	__u64 turn = w->cache.sample * CODE_MULT >> 32; /* others in each walk */

	return w->scan.mode == SCAN_ALL && (i + turn) % PASSED_SHARE == 0 &&
	       buf64(w, w->interp.layout.tstate_thread_id) != w->thread.tp;
}

/* One entry of the lists interpreters -> thread states. 0: go on; else it is done. */
BPF_NOINLINE int find_tstate_step(__u32 i)
{
	struct walk *w = the_walk();
	__u64 cur;
	int found;

	if (!w)
		return -1;
	cur = w->scan.next_tstate;
	if (!cur)
		return next_interpreter(w);
	if (buf_read(w, cur, w->interp.layout.tstate_read))
		return python_lost(w, MARK_PY_READ_FAILED);
	w->scan.next_tstate = buf64(w, w->interp.layout.tstate_next);
	if (w->scan.next_tstate == cur)
		return python_lost(w, MARK_PY_SCAN_LIMIT);
	found = consider_tstate(w, cur);
	if (is_noted(w, i))
		note_tstate(w, cur);
	/* A thread has one state in an interpreter. */
	if (found || w->scan.mode == SCAN_HEADS)
		w->scan.next_tstate = 0;
	else if (w->scan.interp == w->scan.known_interp && forget_known(w))
		return 1;
	return found && !w->scan.next_interp;
}

BLOCK_STEPS(find_tstate_block, find_tstate_step)

/* Prepares the walk of the lists. 0: go on; 1: no interpreter is initialised, or python_lost(). */
BPF_INLINE int find_tstate_start(struct walk *w)
{
	w->tstate.addr = w->tstate.interp = w->scan.next_tstate = w->scan.interp = w->scan.heads =
		0;
	w->tstate.run_cnt = w->scan.interp_cnt = w->tstate.only_interp = 0;
	w->flags |= WALK_PY_SCAN;
	if (read_user(&w->scan.next_interp, 8, w->interp.interp_head))
		return python_lost(w, MARK_PY_READ_FAILED);
	return !w->scan.next_interp ||
	       !w->thread.tp; /* a thread state has the id 0 until its thread runs */
}

BPF_INLINE int scan_result(struct walk *w)
{
	if (!(w->flags & WALK_PY_LOST)) {
		w->tstate.only_interp = several_interpreters(w) ? 0 : w->scan.interp;
		return 0;
	}
	w->tstate.addr = w->tstate.run_cnt = 0; /* the innermost may be missing */
	return -1;
}

/*
 * Sets w->tstate.addr and w->tstate.run[]; neither: Python never saw this thread. Negative: the
 * lists were not read to their end.
 */
BPF_NOINLINE int scan_thread_states(NO_ARG)
{
	struct walk *w = the_walk();

	if (!w)
		return -1;
	if (find_tstate_start(w))
		return scan_result(w);
	if (!RUN_BLOCKS(find_tstate_block, MAX_THREAD_SCAN))
		python_lost(w, MARK_PY_SCAN_LIMIT);
	return scan_result(w);
}

#endif /* PYPERF_WALK_TSTATE_H */
