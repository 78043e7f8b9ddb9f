/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef PYPERF_WALK_PYTHON_H
#define PYPERF_WALK_PYTHON_H
/*
 * Stage 2: PyThreadState -> Python frames, cut into segments: one per activation of the eval loop.
 * Input:   w->interp (layout and addresses), w->thread.tp, w->tstate.run[] or w->tstate.addr
 *          (scan_thread_states()).
 * Output:  DEEP_PY, the segments' ends and anchors, DEEP_SEG_ORDER from the innermost outwards;
 *          WALK_PY_LOST and w->python.marker.
 * Cost:    one read per frame, from 3.11 on per window of frames; plus what code_identify() costs.
 * Fails:   unreadable or implausible memory; the frames up to there are kept.
 *
 * The anchor of a segment is an address inside the native frame of its activation: the shim frame
 * (3.12+: _PyEval_EvalFrameDefault's local `entry_frame`, Python/ceval.c) or the CFrame (3.10,
 * 3.11). Up to 3.9 nothing of Python lies on the C stack; each frame is a segment without anchor
 * then.
 */
#include "state.bpf.h"
#include "codes.bpf.h"
#include "walk_native.bpf.h" /* find_cframe_step() unwinds */
#include "walk_pyframe.bpf.h"
#include "walk_tstate.bpf.h"

#define OWNER_GENERATOR 1    /* FRAME_OWNED_BY_GENERATOR */
#define TAG_BITS	3ULL /* _PyStackRef, 3.14+ (pycore_stackref.h); always 0 before */
/*
 * 3.11, 3.12: gi_iframe less gi_frame_state, and a value of that (Include/internal/pycore_frame.h)
 */
#define GENERATOR_STATE 5
#define FRAME_EXECUTING 0
#define IS_ENTRY	1  /* 3.11: owner less is_entry */
#define CHUNK_TOP	16 /* 3.11, 3.12: struct _stack_chunk, Include/cpython/pystate.h */
#define CHUNK_DATA	24

/* ---- segments ------------------------------------------------------------------------------ */

BPF_INLINE void set_segment(__u64 *deep, __u32 s, __u64 anchor, __u32 start, __u32 end)
{
	deep[deep_at(DEEP_ANCHOR, s)] = anchor;
	deep[deep_at(DEEP_SEG_START, s)] = start;
	deep[deep_at(DEEP_SEG_END, s)] = end;
	deep[deep_at(DEEP_SEG_ORDER, s)] = s;
}

/* Keeps an activation without frames, too: it has none yet, or none any more. */
BPF_INLINE void close_segment(struct walk *w, __u64 anchor)
{
	__u64 *deep = the_deep();
	__u32 s = w->segs.cnt;

	w->segs.total++;
	if (!deep || s >= max_frames())
		return;
	set_segment(deep, s, anchor, w->segs.open_py, w->python.cnt);
	w->segs.cnt = s + 1;
	w->segs.open_py = w->python.cnt;
	w->segs.open = 0;
}

/* Steps to the caller's CFrame: 3.11, 3.12 {current_frame, previous}, 3.10 {previous} only. */
BPF_INLINE int load_cframe(struct walk *w, __u64 cframe, __u64 *frame, __u64 *previous)
{
	if (buf_read(w, cframe, 32))
		return -1;
	*frame = buf64(w, w->interp.layout.cframe_frame);
	*previous = buf64(w, w->interp.layout.cframe_previous);
	return 0;
}

/*
 * 3.11: sets the end of the segment of w->python.cframe: the frame that its caller's CFrame names.
 */
BPF_INLINE int next_stop(struct walk *w)
{
	__u64 frame, previous;

	w->python.seg_stop = 0;
	if (w->python.cframe == w->python.root_cframe)
		return 0;
	if (load_cframe(w, w->python.cframe, &frame, &previous))
		return -1;
	if (!previous)
		return 0;
	return load_cframe(w, previous, &w->python.seg_stop, &frame);
}

/* The anchor of the segment that ends now, and the move to the next one (CFrame versions). */
BPF_INLINE int cframe_advance(struct walk *w)
{
	__u64 frame, previous;

	close_segment(w, w->python.cframe);
	if (load_cframe(w, w->python.cframe, &frame, &previous))
		return -1;
	w->python.cframe = previous;
	return w->interp.layout.chain == PY_CHAIN_CFRAME && previous ? next_stop(w) : 0;
}

/* Is a frame that never runs, in this version, pyexpat's? */
BPF_INLINE int has_pseudo(const struct walk *w)
{
	return w->interp.layout.chain == PY_CHAIN_FRAME &&
	       w->interp.layout.frame_executing == PY_OFF_NONE;
}

/* ---- a frame that is being entered or left --------------------------------------------------- */

/*
 * The end of the current frame, by the sizes in _PyThreadState_PushFrame() (Python/pystate.c). 0:
 * not known.
 */
BPF_INLINE __u64 frame_end(struct walk *w, __u64 frame)
{
	__u64 code = frame64(w, w->interp.layout.frame_code);
	__u32 stack, locals;

	if (read_user(&stack, 4, code + w->interp.layout.code_stacksize) ||
	    read_user(&locals, 4, code + w->interp.layout.code_nlocalsplus))
		return 0;
	return frame + w->interp.layout.frame_locals + 8 * ((__u64)stack + locals);
}

/*
 * Is this frame executing, with no callee but one that begins at `end`? Then it extends to `end` in
 * the data stack, or its generator is marked as executing (gi_frame_state,
 * Include/cpython/genobject.h).
 */
BPF_NOINLINE int ends_at(__u64 frame, __u64 end)
{
	struct walk *w = the_walk();
	__s8 state;

	if (!w || !frame || frame & 7 || load_frame(w, frame) || is_compiled(w, frame))
		return 0;
	if (frame8(w, w->interp.layout.frame_owner) == OWNER_GENERATOR)
		return !read_user(&state, 1, frame - GENERATOR_STATE) && state == FRAME_EXECUTING;
	return end && frame_end(w, frame) == end;
}

/* The memory block in which the data stack of a thread state ends, and its end there. */
struct data_stack {
	__u64 chunk, top;
};

/*
 * The end of the caller of the current frame: the beginning of the frame, or the end of the
 * previous chunk. The frame of a generator is not in the data stack.
 */
BPF_NOINLINE __u64 end_of_caller(__u64 frame, __u64 tstate)
{
	const struct walk *w = the_walk();
	__u64 before, words;
	struct data_stack now;

	if (!w || read_user(&now, sizeof(now), tstate + w->interp.layout.tstate_chunk))
		return 0;
	if (frame8(w, w->interp.layout.frame_owner) == OWNER_GENERATOR)
		return now.top;
	if (frame != now.chunk + CHUNK_DATA)
		return frame;
	if (read_user(&before, 8, now.chunk) || read_user(&words, 8, before + CHUNK_TOP))
		return 0;
	return before + CHUNK_DATA + 8 * words;
}

/*
 * Is the caller that the innermost frame (of w->python.cframe) names its real caller, and not an
 * earlier value of that field? The real one is the current frame in the caller's CFrame, from 3.12
 * on with a shim between them, or a frame of the same activation.
 */
BPF_NOINLINE int is_linked(__u64 frame, __u64 tstate)
{
	struct walk *w = the_walk();
	__u64 back, end, outer, previous;
	int entry;

	if (!w || load_frame(w, frame))
		return 0;
	entry = w->interp.layout.chain == PY_CHAIN_CFRAME &&
		frame8(w, w->interp.layout.frame_owner - IS_ENTRY);
	back = frame64(w, w->interp.layout.frame_back);
	end = end_of_caller(frame, tstate);
	if (load_cframe(w, w->python.cframe, &outer, &previous) ||
	    load_cframe(w, previous, &outer, &previous))
		return 0;
	if (entry)
		return back == outer;
	if (back & 7 || load_frame(w, back))
		return 0;
	if (is_shim(w))
		return frame64(w, w->interp.layout.frame_back) == outer;
	return ends_at(back, end);
}

/*
 * Compilers reorder the stores of DISPATCH_INLINED() and of a yield (Python/bytecodes.c): the
 * caller field of the innermost frame may be unset, cleared, or stale. This concerns a frame before
 * its first instruction and, from 3.12 on, where generators run in their callers' activation, a
 * frame without a caller.
 */
BPF_INLINE int is_loose(const struct walk *w, __u64 frame, __u32 offset)
{
	if (w->python.cnt > 1 || !w->native.exact_pc || !has_data_stack(w))
		return 0;
	if (offset != OFFSET_NOT_STARTED &&
	    (w->python.frame || w->interp.layout.chain == PY_CHAIN_CFRAME))
		return 0;
	return !is_linked(frame, w->tstate.addr);
}

BPF_INLINE int is_code(const struct walk *w, __u64 addr)
{
	__u64 type;

	return !read_user(&type, 8, addr + w->interp.layout.ob_type) && type == w->interp.code_type;
}

/* Register `i` holds the caller, which ends at `end`, of a frame. Then w->python.frame is set. */
BPF_NOINLINE int is_caller(__u64 frame, __u64 end, __u32 i)
{
	struct walk *w = the_walk();
	__u64 caller;

	if (!w)
		return 0;
	caller = w->native.regs[BOUND(i, GREG_CNT)];
	if (caller == frame || !ends_at(caller, end) ||
	    !is_code(w, frame64(w, w->interp.layout.frame_code)))
		return 0;
	w->python.frame = caller;
	return 1;
}

/*
 * Finds the caller of a frame whose link is missing: the eval loop has it in a callee-saved
 * register. The caller is recognised by its end, where the new frame begins or a generator's frame
 * would begin; the caller of a generator by its code, too.
 */
BPF_NOINLINE int find_caller(__u64 frame)
{
	struct walk *w = the_walk();
	__u64 end;

	if (!w || load_frame(w, frame))
		return -1;
	end = end_of_caller(frame, w->tstate.addr);
	for (__u32 i = 0; i < GREG_CNT; i++)
		if ((ARCH_CALLEE_SAVED | 1 << ARCH_REG_FP) >> i & 1 && is_caller(frame, end, i))
			return 0;
	return -1;
}

/*
 * The chain has ended. But the outermost frame of each activation has a shim behind it (3.12+), and
 * up to the outermost activation a caller (3.11): a frame that is being left may have no caller
 * already. A compiled frame may be the outermost.
 */
BPF_INLINE int end_of_chain(struct walk *w)
{
	int cut = w->interp.layout.chain == PY_CHAIN_CFRAME  ? !!w->python.seg_stop
		  : w->interp.layout.chain > PY_CHAIN_CFRAME ? w->segs.open && !w->python.compiled
							     : 0;

	return cut ? python_lost(w, MARK_PY_SETUP) : 1;
}

/* Goes to the frame's caller. A frame that is its own caller ends the walk. */
BPF_INLINE int go_to_caller(struct walk *w, __u64 frame)
{
	return w->python.frame == frame ? python_lost(w, MARK_PY_BAD_CODE) : 0;
}

/*
 * Up to 3.10 each frame is a segment. Compiled frames have no activation: they join that of the
 * next frame outwards which has one. pyexpat's pseudo frame stands outwards of its callee's
 * activation, with the C functions that called the callback between it and its caller: it joins the
 * callee's segment.
 */
BPF_INLINE void end_frame_segment(struct walk *w, __u64 *deep, int pseudo)
{
	if (is_phantom(w))
		w->flags |= WALK_PY_CUT;
	if (w->python.compiled)
		return;
	if (!pseudo) {
		close_segment(w, NO_ANCHOR);
		return;
	}
	deep[deep_at(DEEP_SEG_END, w->segs.cnt - 1)] = w->python.cnt;
	w->segs.open_py = w->python.cnt;
	w->segs.open = 0;
}

/* One frame of the chain. 0: go on; else the walk is over. */
BPF_NOINLINE int walk_python_step(__u32 i)
{
	struct walk *w = the_walk();
	__u64 *deep = the_deep(), frame, code;
	int err, empty, pseudo;
	__u32 offset;

	if (!w || !deep)
		return -1;
	frame = w->python.frame;
	if (!frame)
		return end_of_chain(w);
	if (i >= 2 * max_frames()) /* frames and shims */
		return python_truncated(w);
	if (w->interp.layout.chain == PY_CHAIN_CFRAME && frame == w->python.seg_stop)
		return cframe_advance(w) ? python_lost(w, MARK_PY_READ_FAILED) : 0;
	if (w->python.cnt >= max_frames())
		return python_truncated(w);
	if (frame & 7 || load_frame(w, frame))
		return python_lost(w, MARK_PY_READ_FAILED);
	w->python.frame = frame64(w, w->interp.layout.frame_back);
	if (is_shim(w)) {
		close_segment(w, frame);
		return go_to_caller(w, frame);
	}
	code = frame64(w, w->interp.layout.frame_code) & ~TAG_BITS;
	empty = is_empty(w, code);
	if (empty < 0)
		return python_lost(w, MARK_PY_READ_FAILED);
	pseudo = empty && has_pseudo(w);
	err = pseudo && w->segs.cnt == w->segs.run_seg ? CODE_HIDDEN : code_identify(w, code);
	if (err < 0)
		return python_lost(w, MARK_PY_BAD_CODE);
	if (err == CODE_HIDDEN)
		return go_to_caller(w, frame);
	w->python.compiled = (empty && !pseudo) || is_compiled(w, frame);
	offset = w->python.compiled ? compiled_offset(w) : frame_offset(w, code);
	deep[deep_at(DEEP_PY, w->python.cnt)] = PYTHON_WORD(w->code.id, offset);
	w->python.cnt++;
	w->segs.open++;
	if (!w->python.compiled && is_loose(w, frame, offset) && find_caller(frame))
		return python_lost(w, MARK_PY_SETUP);
	if (w->interp.layout.chain < PY_CHAIN_CFRAME)
		end_frame_segment(w, deep, pseudo);
	return go_to_caller(w, frame);
}

/* 3.10: frames and CFrames are separate lists; this collects the anchors. 0: go on. */
BPF_NOINLINE int walk_cframe_step(__u32 i)
{
	struct walk *w = the_walk();
	__u64 *deep = the_deep(), frame, previous;

	if (!w || !deep)
		return -1;
	if (!w->python.cframe || w->python.cframe == w->python.root_cframe)
		return 1;
	if (i > max_frames()) /* one more than frames: see pair_cframe_step() */
		return python_truncated(w);
	if (w->segs.cnt < max_frames()) {
		deep[deep_at(DEEP_ANCHOR, w->segs.cnt)] = w->python.cframe;
		w->segs.cnt++;
	} else if (w->flags & WALK_PY_LOST) { /* pair_cframes() asks no more for their number */
		return 1;
	}
	w->segs.total++;
	if (load_cframe(w, w->python.cframe, &frame, &previous))
		return python_lost(w, MARK_PY_READ_FAILED);
	if (previous == w->python.cframe)
		return python_lost(w, MARK_PY_BAD_CODE);
	w->python.cframe = previous;
	return 0;
}

/*
 * 3.10: one frame per CFrame, with the compiled ones inwards of it, paired from the outermost.
 * The segments of CFrames replace those of frames, at the same number or a lower one. One CFrame
 * too many: the innermost activation has no frame yet, or a greenlet has its own. Frames too
 * many (generators under throw()): they join the innermost. When the end of one list was not
 * seen, the counts say nothing: one to one from the innermost.
 */
BPF_NOINLINE int pair_cframe_step(__u32 s)
{
	struct walk *w = the_walk();
	__u64 *deep = the_deep();
	__u32 at, skip, extra, start, end;

	if (!w || !deep)
		return 1;
	skip = w->segs.pair_skip;
	extra = w->segs.pair_extra;
	at = w->segs.run_seg + s;
	if (at + skip >= w->segs.cnt)
		return 1;
	start = w->segs.open_py;
	end = (__u32)deep[deep_at(DEEP_SEG_END, at + w->segs.pair_lead + extra)];
	w->segs.open_py = end;
	set_segment(deep, at, deep[deep_at(DEEP_ANCHOR, at + skip)], start, end);
	if (w->segs.pair_lead)
		deep[deep_at(DEEP_SEG_ORDER, at)] = at - 1; /* add_lead() sets the first */
	return 0;
}

BLOCK_STEPS(pair_cframe_block, pair_cframe_step)

/*
 * 3.10: the outermost CFrame of a greenlet belongs to no activation; it lies in greenlet's
 * g_initialstub(). Only in its first instructions has the eval function linked its CFrame but not
 * its frame. So anywhere else, one CFrame too many is greenlet's. In those instructions, the word
 * at the place of an activation's return address decides.
 */
BPF_NOINLINE int is_greenlet_cframe(__u64 cframe)
{
	struct walk *w = the_walk();
	__u64 ra;

	if (!w)
		return 0;
	if (!in_prologue(w))
		return 1;
	if (!w->interp.anchor_delta || read_user(&ra, 8, cframe + w->interp.anchor_delta - 8))
		return 0;
	return find_mapping(ra - 1) || w->interp.eval[0].start - w->place.map.start >=
					       w->place.map.end - w->place.map.start;
}

/* 3.10: the eval loop unlinks its CFrame before its frame. */
BPF_INLINE int may_be_leaving(const struct walk *w)
{
	return w->tstate.run_cnt <= 1 && w->native.exact_pc && in_eval(w, w->native.pc) &&
	       !in_prologue(w) && w->segs.cnt + 1 < max_frames();
}

/*
 * Makes the innermost frame a segment of its own, for the activation whose CFrame is already
 * unlinked. It is the last one in memory.
 */
BPF_INLINE void add_lead(struct walk *w, __u64 *deep, __u32 end)
{
	__u32 at = w->segs.cnt;

	set_segment(deep, at, NO_ANCHOR, w->segs.run_py, end);
	deep[deep_at(DEEP_SEG_ORDER, at)] = at - 1;
	deep[deep_at(DEEP_SEG_ORDER, w->segs.run_seg)] = at;
	w->segs.cnt = at + 1;
}

/* Compiled frames are the outermost ones: no activation called them. */
BPF_INLINE int has_compiled_rest(const struct walk *w)
{
	return w->python.compiled && w->segs.open_py < w->python.cnt && !(w->flags & WALK_PY_LOST);
}

BPF_NOINLINE int pair_cframes(NO_ARG)
{
	struct walk *w = the_walk();
	__u64 *deep = the_deep();
	__u32 cframes, kept, frames, lead = 0;

	if (!w || !deep)
		return 0;
	w->segs.pair_skip = w->segs.pair_extra = w->segs.pair_lead = 0;
	cframes = w->segs.total - w->segs.run_total;
	kept = w->segs.cnt - w->segs.run_seg;
	frames = w->segs.pair_frames;
	if (w->flags & WALK_PY_LOST) {
		kept = kept < frames ? kept : frames;
		w->segs.cnt = w->segs.run_seg + kept;
	} else if (cframes > frames) {
		if (frames && kept == cframes &&
		    is_greenlet_cframe(deep[deep_at(DEEP_ANCHOR, w->segs.cnt - 1)])) {
			w->segs.cnt--;
			kept--;
			cframes--;
		}
		w->segs.pair_skip = cframes - frames;
		if (w->segs.pair_skip > kept)
			w->segs.pair_skip = kept;
	} else {
		w->segs.pair_lead = frames > cframes && kept && may_be_leaving(w);
		w->segs.pair_extra = frames - cframes - w->segs.pair_lead;
	}
	if (w->segs.pair_lead)
		w->segs.open_py = lead = (__u32)deep[deep_at(DEEP_SEG_END, w->segs.run_seg)];
	RUN_BLOCKS(pair_cframe_block, deep_parts());
	w->segs.cnt -= w->segs.pair_skip;
	kept = w->segs.cnt - w->segs.run_seg;
	if (!kept ? frames || w->python.compiled : has_compiled_rest(w)) {
		close_segment(w, NO_ANCHOR);
		if (w->segs.pair_lead)
			deep[deep_at(DEEP_SEG_ORDER, w->segs.cnt - 1)] = w->segs.cnt - 2;
	}
	if (w->segs.pair_lead)
		add_lead(w, deep, lead);
	return 0;
}

/* ---- the leaf ------------------------------------------------------------------------------ */

/*
 * Sets w->python.set_up if the innermost CFrame names the current frame, and that frame's caller is
 * linked.
 */
BPF_NOINLINE int check_setup(NO_ARG)
{
	struct walk *w = the_walk();
	__u64 tstate, frame, previous, top;

	if (!w || w->tstate.run_cnt > 1)
		return 0;
	tstate = w->tstate.run_cnt ? w->tstate.run[0].tstate : w->tstate.addr;
	if (!read_user(&w->python.cframe, 8, tstate + w->interp.layout.tstate_frame) &&
	    !load_cframe(w, w->python.cframe, &frame, &previous) &&
	    /* One that has ended, and left its address on the C stack, does not end there. */
	    !read_user(&top, 8, tstate + w->interp.layout.tstate_chunk + 8) &&
	    ends_at(frame, top) && is_linked(frame, tstate))
		w->python.set_up = w->python.cframe;
	w->python.cframe = 0; /* not known yet */
	return 0;
}

/*
 * Unwinds to the activation below the one that is being set up; its CFrame is at a fixed distance.
 * 0: go on; 1: w->python.cframe is set, or is 0 when there is no such activation.
 */
BPF_NOINLINE int find_cframe_step(NO_ARG)
{
	struct walk *w = the_walk();
	__u32 evals;

	if (!w)
		return -1;
	evals = w->native.eval_cnt;
	if (walk_native_step(0))
		return 1;
	if (w->native.eval_cnt == evals || ++w->python.setup_evals < 2)
		return 0;
	w->python.cframe = w->native.sp - w->interp.cframe_delta; /* sp is that frame's CFA now */
	return 1;
}

/*
 * Reads where the frames of w->tstate.addr begin, if that was not read already. States in
 * w->tstate.run[] are known to be this thread's.
 */
BPF_INLINE int read_leaf(struct walk *w)
{
	if (w->tstate.leaf_of == w->tstate.addr)
		return 0;
	if (!w->tstate.run_cnt)
		return tstate_is_ours(w, w->tstate.addr) ? 0 : -1;
	if (buf_read(w, w->tstate.addr, w->interp.layout.tstate_read))
		return -1;
	keep_leaf(w, w->tstate.addr);
	return 0;
}

/*
 * Sets w->python.frame (and w->python.cframe) from the thread state. 0, or the walk is over before
 * it began.
 */
BPF_NOINLINE int python_leaf(__u64 cframe)
{
	struct walk *w = the_walk();
	__u64 leaf, previous;

	if (!w)
		return -1;
	if (read_leaf(w))
		return python_lost(w, MARK_PY_READ_FAILED);
	leaf = w->tstate.leaf;
	w->python.root_cframe = w->tstate.addr + w->interp.layout.root_cframe;
	if (w->interp.layout.chain == PY_CHAIN_FRAME_C)
		w->python.cframe = w->tstate.leaf_cframe;
	if (w->interp.layout.chain != PY_CHAIN_CFRAME &&
	    w->interp.layout.chain != PY_CHAIN_CFRAME_SHIM) {
		w->python.frame = leaf;
		return 0;
	}
	w->python.cframe = cframe ? cframe : leaf;
	w->python.leaf_anchor =
		cframe || w->tstate.run_cnt > 1 || leaf == w->python.root_cframe ? 0 : leaf;
	if (!w->python.cframe)
		return 1;
	if (load_cframe(w, w->python.cframe, &w->python.frame, &previous))
		return python_lost(w, MARK_PY_READ_FAILED);
	if (w->python.cframe == w->python.root_cframe && !w->python.frame)
		return 1;
	if (w->interp.layout.chain == PY_CHAIN_CFRAME && next_stop(w))
		return python_lost(w, MARK_PY_READ_FAILED);
	return 0;
}

/* ---- the walk -------------------------------------------------------------------------------- */

BLOCK_STEPS(find_cframe_block, find_cframe_step)

/*
 * Finds the CFrame below an activation that is being set up, by unwinding: the root's, if there is
 * no other activation. 0: not known.
 */
BPF_NOINLINE int cframe_below_setup(NO_ARG)
{
	struct walk *w = the_walk();
	__u64 pc, sp, fp;

	if (!w)
		return 0;
	pc = w->native.pc;
	sp = w->native.sp;
	fp = w->native.fp;
	__builtin_memcpy(w->native.leaf_regs, w->native.regs, sizeof(w->native.regs));
	if (!w->interp.cframe_delta) {
		python_lost(w, MARK_PY_SETUP);
		return 0;
	}
	RUN_BLOCKS(find_cframe_block, deep_parts());
	if (!w->python.cframe && !(w->flags & WALK_NATIVE_END))
		python_lost(w, MARK_PY_SETUP);
	else if (!w->python.cframe && w->tstate.run_cnt <= 1)
		w->python.cframe = (w->tstate.run_cnt ? w->tstate.run[0].tstate : w->tstate.addr) +
				   w->interp.layout.root_cframe;
	rewind_native(w, pc, sp, fp);
	return 0;
}

BLOCK_STEPS(walk_cframe_block, walk_cframe_step)
BLOCK_STEPS(walk_python_block, walk_python_step)

/* 3.10: collects the CFrames and pairs them with frames. */
BPF_INLINE void walk_cframes(struct walk *w)
{
	w->segs.pair_frames = w->segs.cnt - w->segs.run_seg;
	w->segs.open_py = w->segs.run_py;
	w->segs.cnt = w->segs.run_seg;
	w->segs.total = w->segs.run_total;
	if (!RUN_BLOCKS(walk_cframe_block, deep_parts() + BLOCK))
		python_truncated(w);
	pair_cframes(0);
}

/*
 * Walks all frames of w->tstate.addr, from `cframe` instead of the thread state's own if it is set.
 * Inline: from walk_run() to send_piece() calls nest to the allowed depth, eight.
 */
BPF_INLINE void walk_frames(struct walk *w, __u64 cframe)
{
	w->segs.run_seg = w->segs.cnt;
	w->segs.run_total = w->segs.total;
	w->segs.run_py = w->segs.open_py = w->python.cnt;
	if (python_leaf(cframe))
		return;
	if (!RUN_BLOCKS(walk_python_block, 2 * deep_parts() /* frames and shims */))
		python_truncated(w);
	if (w->interp.layout.chain == PY_CHAIN_FRAME_C) {
		walk_cframes(w);
		return;
	}
	if (!w->segs.open)
		return;
	close_segment(w, w->interp.layout.chain == PY_CHAIN_CFRAME &&
					 w->python.cframe != w->python.root_cframe
				 ? w->python.cframe
				 : NO_ANCHOR);
	if (w->interp.layout.chain == PY_CHAIN_FRAME)
		w->segs.total--; /* compiled frames only: it is no activation's */
}

/*
 * Finds the next segment outwards of all runs: the one with the lowest anchor. 0: go on. If one of
 * the chains was lost, the order ends: segments beyond a gap would look like its callers.
 */
BPF_NOINLINE int order_step(__u32 at)
{
	struct walk *w = the_walk();
	__u64 *deep = the_deep(), anchor;
	struct tstate_run *run;
	__u32 seg;

	if (!w || !deep || at >= w->segs.cnt)
		return 1;
	w->segs.best_run = MAX_TSTATES;
	for (__u32 r = 0; r < MAX_TSTATES && r < w->tstate.run_cnt; r++) {
		run = &w->tstate.run[r];
		anchor = run->seg_next < run->seg_end ? deep[deep_at(DEEP_ANCHOR, run->seg_next)]
						      : NO_ANCHOR;
		if (anchor == NO_ANCHOR && run->lost)
			return 1;
		if (run->seg_next >= run->seg_end ||
		    (w->segs.best_run < MAX_TSTATES && anchor >= w->segs.best_anchor))
			continue;
		w->segs.best_anchor = anchor;
		w->segs.best_run = r;
	}
	if (w->segs.best_run >= MAX_TSTATES)
		return 1;
	run = &w->tstate.run[BOUND(w->segs.best_run, MAX_TSTATES)];
	if (!at)
		w->tstate.interp_id = run->interp_id;
	seg = run->seg_next++;
	deep[deep_at(DEEP_SEG_ORDER, at)] = seg;
	w->merge.py_left +=
		(__u32)(deep[deep_at(DEEP_SEG_END, seg)] - deep[deep_at(DEEP_SEG_START, seg)]);
	w->segs.ordered = at + 1;
	return 0;
}

BLOCK_STEPS(order_block, order_step)

/* Makes DEEP_SEG_ORDER of the runs, each of which is in order. */
BPF_NOINLINE int order_segments(NO_ARG)
{
	struct walk *w = the_walk();

	if (!w)
		return 0;
	w->merge.py_left = w->segs.ordered = 0;
	RUN_BLOCKS(order_block, deep_parts());
	w->segs.cnt = w->segs.ordered;
	w->segs.open_py = w->python.cnt;
	return 0;
}

/* Another state's innermost activation is the one whose CFrame this is. */
BPF_INLINE int is_leaf_of_other(const struct walk *w, __u32 r, __u64 cframe)
{
	for (__u32 k = 0; k < MAX_TSTATES; k++)
		if (k != r && k < w->tstate.run_cnt && w->tstate.run[k].leaf == cframe)
			return 1;
	return 0;
}

/*
 * Where to begin with w->tstate.run[r]: 0, at its own leaf, or at the activation below the one that
 * is being set up. NO_ANCHOR: that is its first, so there is nothing of it yet.
 */
BPF_INLINE __u64 run_begin(const struct walk *w, __u32 r)
{
	const struct tstate_run *run = &w->tstate.run[BOUND(r, MAX_TSTATES)];
	__u64 cframe = w->python.setup_cframe;

	if (cframe == run->tstate + w->interp.layout.root_cframe)
		return cframe;
	if (run->leaf >= cframe)
		return 0;
	return is_leaf_of_other(w, r, cframe) ? NO_ANCHOR : cframe;
}

/*
 * Walks the frames of w->tstate.run[r]; if there is no run, those of w->tstate.addr. 0: go on with
 * the next.
 */
BPF_NOINLINE int walk_run(__u32 r)
{
	struct walk *w = the_walk();
	struct tstate_run *run;
	__u64 cframe;
	__u32 lost;

	if (!w || (r && r >= w->tstate.run_cnt))
		return 1;
	run = &w->tstate.run[BOUND(r, MAX_TSTATES)];
	run->seg_next = w->segs.cnt;
	cframe = w->python.setup_cframe;
	if (w->tstate.run_cnt) {
		w->tstate.addr = run->tstate;
		cframe = run_begin(w, r);
	}
	lost = w->flags & WALK_PY_LOST;
	w->flags &= ~WALK_PY_LOST;
	if (cframe != NO_ANCHOR)
		walk_frames(w, cframe);
	if (r + 1 < w->tstate.run_cnt && w->segs.open_py < w->python.cnt)
		python_truncated(w);
	run->seg_end = w->segs.cnt;
	run->lost = w->flags & WALK_PY_LOST;
	w->flags |= lost;
	return run->lost && w->interp.layout.chain == PY_CHAIN_FRAME;
}

/* Prepares the walk. 0: there are no frames. */
BPF_NOINLINE int begin_python(NO_ARG)
{
	struct walk *w = the_walk();

	if (!w || (!w->tstate.addr && !w->tstate.run_cnt))
		return 0;
	set_epoch(w);
	w->python.setup_cframe = w->python.set_up = 0;
	if (w->tstate.run_cnt)
		w->tstate.interp_id = w->tstate.run[0].interp_id;
	if (!has_data_stack(w) || !in_prologue(w))
		return 1;
	/* Much of the code there also runs with each call and return. */
	check_setup(0);
	if (w->python.set_up)
		return 1;
	cframe_below_setup(0);
	w->python.setup_cframe = w->python.cframe;
	return !!w->python.cframe;
}

/* Walks all Python frames of the thread. */
BPF_INLINE void walk_python(struct walk *w)
{
	if (!begin_python(0))
		return;
	for (__u32 r = 0; r < MAX_TSTATES; r++)
		if (walk_run(r))
			break;
	w->merge.py_left = w->python.cnt;
	if (w->tstate.run_cnt > 1 && w->interp.layout.chain != PY_CHAIN_FRAME)
		order_segments(0);
}

#endif /* PYPERF_WALK_PYTHON_H */
