/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef PYPERF_MERGE_H
#define PYPERF_MERGE_H
/*
 * Stage 3: one stack out of two.
 * Input:   DEEP_NATIVE with the segments placed at each frame, DEEP_PY and its segments.
 * Output:  DEEP_FRAMES, innermost first; kernel frames are in it already.
 * Cost:    about a nanosecond per frame.
 * Fails:   never; segments that found no native frame stand behind the marker that says why.
 */
#include "state.bpf.h"

BPF_INLINE void push_frame(struct stack *st, __u64 word)
{
	__u64 *deep = the_deep();
	__u32 i = st->cnt;

	if (!deep || i >= 2 * deep_parts()) {
		st->cut = 1;
		return;
	}
	deep[deep_frame(i)] = word;
	st->cnt = i + 1;
}

/*
 * <= 3.9: activation k from the innermost is segment k. One activation more than segments: the
 * innermost has no frame yet, or no more (it is about to enter or to leave its loop).
 */
BPF_NOINLINE int pair_activation_step(__u32 i)
{
	struct walk *w = the_walk();
	__u64 *deep = the_deep();
	__u32 at = deep_at(DEEP_NATIVE_SEG, i);

	if (!w || !deep || i >= w->native_cnt)
		return 1;
	if (deep[at] != SEG_EVAL)
		return 0;
	deep[at] = SEG_NONE;
	if (w->words[0])
		w->words[0] = 0;
	else if (w->seg_next < w->seg_cnt)
		deep[at] = ++w->seg_next;
	return 0;
}

BLOCK_STEPS(pair_activation_block, pair_activation_step)

BPF_NOINLINE int pair_activations(__u32 unused)
{
	struct walk *w = the_walk();

	if (!w)
		return (int)unused;
	w->words[0] = !(w->flags & WALK_PY_LOST) &&
		      w->eval_cnt == w->seg_total + 1; /* skip the innermost */
	RUN_BLOCKS(pair_activation_block, STACK_DEPTH_MAX);
	return 0;
}

/* Appends a block of the Python frames from w->words[0] to `end`. 0: go on. */
BPF_NOINLINE int push_python_block(__u32 end)
{
	struct walk *w = the_walk();
	struct stack *st = the_stack();
	const __u64 *deep = the_deep();

	if (!w || !st || !deep)
		return -1;
	for (__u32 i = 0; i < BLOCK; i++) {
		if (w->words[0] >= end)
			return 1;
		push_frame(st, deep[deep_at(DEEP_PY, (__u32)w->words[0])]);
		w->words[0]++;
	}
	return 0;
}

/* Appends the Python frames from w->words[0] to `end`. */
BPF_NOINLINE int push_python(__u32 end)
{
	for (__u32 k = 0; k <= STACK_DEPTH_MAX / BLOCK; k++)
		if (push_python_block(end))
			break;
	return 0;
}

/* Appends the next segment outwards below number `end`. 0: go on. */
BPF_NOINLINE int push_segment_step(__u32 end)
{
	struct walk *w = the_walk();
	const __u64 *deep = the_deep();
	__u32 at, seg, start;

	if (!w || !deep)
		return -1;
	at = w->merge_seg;
	if (at >= end || at >= w->seg_cnt)
		return 1;
	w->merge_seg = at + 1;
	seg = (__u32)deep[deep_at(DEEP_SEG_ORDER, at)];
	start = (__u32)deep[deep_at(DEEP_SEG_START, seg)];
	end = (__u32)deep[deep_at(DEEP_SEG_END, seg)];
	w->words[0] = start;
	w->py_left -= end - start;
	return push_python(end);
}

/* Appends the segments up to, not including, number `end`, of which one native frame has few. 0: go on. */
BPF_NOINLINE int push_segments(__u32 end)
{
	for (__u32 k = 0; k < FRAME_SEGMENTS; k++)
		if (push_segment_step(end))
			return 1;
	return 0;
}

BPF_NOINLINE int push_segments_block(__u32 end)
{
	for (__u32 k = 0; k < BLOCK; k++)
		if (push_segments(end))
			return 1;
	return 0;
}

/* One native frame, or the Python frames that stand in its place. 0: go on. */
BPF_NOINLINE int merge_step(__u32 i)
{
	struct walk *w = the_walk();
	struct stack *st = the_stack();
	const __u64 *deep = the_deep();
	__u64 seg;
	__u32 before;

	if (!w || !st || !deep || i >= w->native_cnt)
		return 1;
	before = st->cnt;
	seg = deep[deep_at(DEEP_NATIVE_SEG, i)];
	if (seg != SEG_NONE && seg != SEG_EVAL)
		push_segments((__u32)seg);
	if (st->cnt == before) /* no activation, or one without frames */
		push_frame(st, deep[deep_at(DEEP_NATIVE, i)]);
	return 0;
}

/*
 * The dynamic linker is at work: the interpreter's state could not be read because no one has touched
 * that page yet. The native stack shows that there is nothing of Python on it.
 */
BPF_INLINE int before_python(const struct walk *w)
{
	return w->flags & WALK_ENTRY && !w->eval_cnt && !w->py_cnt;
}

/* Behind the last native frame: why it was the last, and the Python frames that are left. */
BPF_INLINE void merge_rest(struct walk *w, struct stack *st)
{
	__u64 *deep = the_deep();

	if (before_python(w))
		w->flags &= ~WALK_PY_LOST;
	if (w->flags & WALK_NATIVE_LOST)
		push_frame(st, w->native_marker);
	if (w->py_left) {
		if (w->flags & WALK_NATIVE_END) {
			w->flags |= WALK_PY_UNMERGED;
			push_frame(st, MARKER_WORD(MARK_PY_UNMERGED, 0));
		}
		for (__u32 k = 0; k < STACK_DEPTH_MAX / FRAME_SEGMENTS / BLOCK; k++)
			if (push_segments_block(w->seg_cnt))
				break;
		w->words[0] = w->seg_py; /* more activations than there is room for */
		push_python(w->py_cnt);
	}
	if (w->flags & WALK_PY_LOST)
		push_frame(st, w->py_marker);
	if (st->cut && deep) {
		deep[deep_frame(2 * deep_parts() - 1)] = MARKER_WORD(MARK_TRUNCATED, 0);
		w->flags |= WALK_TRUNCATED;
	}
}

BLOCK_STEPS(merge_block, merge_step)

/* The whole stack, behind what is in DEEP_FRAMES already. */
BPF_NOINLINE int merge(__u32 unused)
{
	struct walk *w = the_walk();
	struct stack *st = the_stack();

	if (!w || !st)
		return (int)unused;
	if (w->has_python && w->in.layout.chain == PY_CHAIN_FRAME)
		pair_activations(0);
	w->merge_seg = 0;
	RUN_BLOCKS(merge_block, STACK_DEPTH_MAX);
	merge_rest(w, st);
	return 0;
}

#endif /* PYPERF_MERGE_H */
