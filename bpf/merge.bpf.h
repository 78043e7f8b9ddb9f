/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef PYPERF_MERGE_H
#define PYPERF_MERGE_H
/*
 * Stage 3: one stack out of two.
 * Input:   DEEP_NATIVE with the segments placed at each frame, DEEP_PY and its segments.
 * Output:  DEEP_FRAMES, innermost first; kernel frames are in it already.
 * Cost:    some five nanoseconds per frame.
 * Fails:   never; segments that found no native frame stand behind the marker that says why.
 */
#include "state.bpf.h"

/* If there is no room, it replaces the last word: merge_rest() puts the marker there. */
BPF_INLINE void put_frame(struct stack *st, __u64 *deep, __u64 word)
{
	__u32 full = (__u32)not_above(2 * deep_parts(), st->cnt), i = st->cnt - full;

	deep[deep_frame(i)] = word;
	st->cnt = i + 1;
	st->cut |= full;
}

/* For code outside of loops. */
BPF_NOINLINE int push_frame(__u64 word)
{
	struct stack *st = the_stack();
	__u64 *deep = the_deep();

	if (st && deep)
		put_frame(st, deep, word);
	return 0;
}

/*
 * <= 3.9: activation k from the innermost is segment k. If there is one activation more than
 * segments, the innermost has no frame yet or any more: it is about to enter or to leave its loop.
 * The thread's pc is then in that activation, or in a function that it calls at its end.
 */
#define EDGE_CALLS                                                                                 \
	3 /* 3.6: _Py_CheckFunctionResult(), PyErr_Occurred(), _PyThreadState_UncheckedGet() */

BPF_NOINLINE int pair_activation_step(__u32 i)
{
	struct walk *w = the_walk();
	__u64 *deep = the_deep();
	__u32 at = deep_at(DEEP_NATIVE_SEG, i);

	if (!w || !deep || i >= w->native.cnt)
		return 1;
	if (deep[at] != SEG_EVAL)
		return 0;
	deep[at] = SEG_NONE;
	if (w->merge.edge_eval && i <= EDGE_CALLS)
		w->merge.edge_eval = 0;
	else if (w->segs.next < w->segs.cnt)
		deep[at] = ++w->segs.next;
	return 0;
}

BLOCK_STEPS(pair_activation_block, pair_activation_step)

BPF_NOINLINE int pair_activations(NO_ARG)
{
	struct walk *w = the_walk();

	if (!w)
		return 0;
	w->merge.edge_eval = !(w->flags & (WALK_PY_LOST | WALK_PY_CUT)) &&
			     w->native.eval_cnt == w->segs.total + 1;
	RUN_BLOCKS(pair_activation_block, deep_parts());
	return 0;
}

#define MERGE_STEPS 8

/*
 * Goes to the next segment outwards. Nothing tells in which native functions compiled frames are:
 * they stand at the next activation outwards, or at the root, behind a marker.
 */
BPF_INLINE void open_segment(struct walk *w, struct stack *st, __u64 *deep)
{
	__u32 seg = (__u32)deep[deep_at(DEEP_SEG_ORDER, w->merge.seg)];

	w->merge.py_at = (__u32)deep[deep_at(DEEP_SEG_START, seg)];
	w->merge.py_end = (__u32)deep[deep_at(DEEP_SEG_END, seg)];
	w->merge.py_left -= w->merge.py_end - w->merge.py_at;
	w->merge.seg++;
	if (w->merge.py_at < w->merge.py_end &&
	    OFFSET_HAS_LINE(PYTHON_OFFSET(deep[deep_at(DEEP_PY, w->merge.py_at)])))
		put_frame(st, deep, MARKER_WORD(MARK_PY_COMPILED, 0));
}

BPF_INLINE int has_segment(const struct walk *w)
{
	return w->merge.seg < w->merge.seg_end && w->merge.seg < w->segs.cnt;
}

/* Copies some of the Python frames [py_at, py_end), which replace a native one. */
BPF_INLINE void merge_python(struct walk *w, struct stack *st, __u64 *deep)
{
	for (int i = 0; i < MERGE_STEPS && w->merge.py_at < w->merge.py_end; i++) {
		put_frame(st, deep, deep[deep_at(DEEP_PY, w->merge.py_at)]);
		w->merge.py_at++;
		w->merge.empty = 0;
	}
}

/* Copies some native frames, up to one that has segments. 1: there are no more. */
BPF_INLINE int merge_native(struct walk *w, struct stack *st, __u64 *deep)
{
	__u64 seg;

	for (int i = 0; i < MERGE_STEPS; i++) {
		if (w->merge.native_at >= w->native.cnt)
			return 1;
		seg = deep[deep_at(DEEP_NATIVE_SEG, w->merge.native_at)];
		if (seg != SEG_NONE && seg != SEG_EVAL) {
			w->merge.seg_end = (__u32)seg;
			w->merge.empty = 1;
			w->merge.native_at++;
			return 0;
		}
		put_frame(st, deep, deep[deep_at(DEEP_NATIVE, w->merge.native_at)]);
		w->merge.native_at++;
	}
	return 0;
}

/*
 * Copies the next words: Python frames [py_at, py_end), the next segment up to number seg_end, and
 * after the last of these, native frames. One kind per step: in one loop over all kinds the
 * verifier would follow each order of kinds. 1: there are no more.
 */
BPF_NOINLINE int merge_some(NO_ARG)
{
	struct walk *w = the_walk();
	struct stack *st = the_stack();
	__u64 *deep = the_deep();

	if (!w || !st || !deep)
		return 1;
	if (w->merge.py_at >= w->merge.py_end && has_segment(w))
		open_segment(w, st, deep);
	merge_python(w, st, deep);
	if (w->merge.py_at < w->merge.py_end || has_segment(w))
		return 0;
	if (w->merge.empty) { /* an activation without frames */
		put_frame(st, deep, deep[deep_at(DEEP_NATIVE, w->merge.native_at - 1)]);
		w->merge.empty = 0;
	}
	return merge_native(w, st, deep);
}

BLOCK_STEPS(merge_block, merge_some)

/* Copies all words: each step takes a segment or a native frame. */
BPF_NOINLINE int merge_words(NO_ARG)
{
	return RUN_BLOCKS(merge_block, 2 * deep_parts());
}

/*
 * Is the dynamic linker running? Then the interpreter's state could not be read because no page of
 * it was touched yet. The native stack shows that no Python is on it.
 */
BPF_INLINE int before_python(const struct walk *w)
{
	return w->flags & WALK_ENTRY && !w->native.eval_cnt && !w->python.cnt;
}

/*
 * After the last native frame: adds the marker that says why it is the last, and the remaining
 * Python frames.
 */
BPF_INLINE void merge_rest(struct walk *w, struct stack *st)
{
	__u64 *deep = the_deep();

	if (before_python(w))
		w->flags &= ~WALK_PY_LOST;
	if (w->flags & WALK_NATIVE_LOST)
		push_frame(w->native.marker);
	if (w->merge.py_left) {
		if (w->flags & WALK_NATIVE_END && !next_is_compiled(w)) {
			w->flags |= WALK_PY_UNMERGED;
			push_frame(MARKER_WORD(MARK_PY_UNMERGED, 0));
		}
		w->merge.seg_end = w->segs.cnt;
		merge_words(0);
		w->merge.py_at = w->segs.open_py; /* more activations than there is room for */
		w->merge.py_end = w->python.cnt;
		merge_words(0);
	}
	if (w->flags & WALK_GREENLET)
		push_frame(MARKER_WORD(MARK_GREENLET, 0));
	if (w->flags & WALK_PY_LOST)
		push_frame(w->python.marker);
	if (st->cut && deep) {
		deep[deep_frame(2 * deep_parts() - 1)] = MARKER_WORD(MARK_TRUNCATED, 0);
		w->flags |= WALK_TRUNCATED;
	}
}

/* Appends the whole stack to DEEP_FRAMES. */
BPF_NOINLINE int merge(NO_ARG)
{
	struct walk *w = the_walk();
	struct stack *st = the_stack();

	if (!w || !st)
		return 0;
	if (w->image.has_python && w->interp.layout.chain == PY_CHAIN_FRAME)
		pair_activations(0);
	w->merge.seg = w->merge.seg_end = w->merge.native_at = w->merge.empty = 0;
	w->merge.py_at = w->merge.py_end = 0;
	merge_words(0);
	merge_rest(w, st);
	return 0;
}

#endif /* PYPERF_MERGE_H */
