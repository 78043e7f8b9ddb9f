/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef PYPERF_MERGE_H
#define PYPERF_MERGE_H
/*
 * Stage 3: one stack out of two.
 * Input:   w->native[] with the segments placed at each frame, w->py[] with the segments' ends.
 * Output:  stack->frames[], innermost first; kernel frames are in it already.
 * Cost:    about a nanosecond per frame.
 * Fails:   never; segments that found no native frame stand behind the marker that says why.
 */
#include "state.bpf.h"

BPF_INLINE void push_frame(struct stack *st, __u64 word)
{
	__u32 i = st->cnt;

	if (i >= MAX_FRAMES) {
		st->cut = 1;
		return;
	}
	st->frames[BOUND(i, MAX_FRAMES)] = word;
	st->cnt = i + 1;
}

/*
 * <= 3.9: activation k from the innermost is segment k. One activation more than segments: the
 * innermost has no frame yet, or no more (it is about to enter or to leave its loop).
 */
BPF_NOINLINE int pair_activation_step(__u32 i)
{
	struct walk *w = the_walk();
	__u32 at;

	if (!w || i >= w->native_cnt || i >= MAX_NATIVE_FRAMES)
		return 1;
	at = BOUND(i, MAX_NATIVE_FRAMES);
	if (w->native_seg[at] != SEG_EVAL)
		return 0;
	w->native_seg[at] = SEG_NONE;
	if (w->words[0])
		w->words[0] = 0;
	else if (w->seg_next < w->seg_cnt)
		w->native_seg[at] = (__u16)++w->seg_next;
	return 0;
}

BPF_NOINLINE int pair_activations(__u32 unused)
{
	struct walk *w = the_walk();

	if (!w)
		return (int)unused;
	w->words[0] = !(w->flags & WALK_PY_LOST) &&
		      w->eval_cnt == w->seg_total + 1; /* skip the innermost */
	for (__u32 i = 0; i < MAX_NATIVE_FRAMES; i++)
		if (pair_activation_step(i))
			break;
	return 0;
}

/* Appends the next Python frame below `end`. 0: go on. */
BPF_NOINLINE int push_python_step(__u32 end)
{
	struct walk *w = the_walk();
	struct stack *st = the_stack();
	__u32 i;

	if (!w || !st)
		return -1;
	i = (__u32)w->words[0];
	if (i >= end || i >= MAX_PY_FRAMES)
		return 1;
	push_frame(st, w->py[BOUND(i, MAX_PY_FRAMES)]);
	w->words[0] = i + 1;
	return 0;
}

/* Appends py[w->words[0] .. end). */
BPF_NOINLINE int push_python(__u32 end)
{
	for (__u32 k = 0; k < MAX_PY_FRAMES; k++)
		if (push_python_step(end))
			break;
	return 0;
}

/* Appends the next segment outwards below number `end`. 0: go on. */
BPF_NOINLINE int push_segment_step(__u32 end)
{
	struct walk *w = the_walk();
	__u32 at, seg, start;

	if (!w)
		return -1;
	at = w->merge_seg;
	if (at >= end || at >= w->seg_cnt || at >= MAX_SEGMENTS)
		return 1;
	w->merge_seg = at + 1;
	seg = w->seg_order[BOUND(at, MAX_SEGMENTS)];
	start = w->seg_start[BOUND(seg, MAX_SEGMENTS)];
	end = w->seg_end[BOUND(seg, MAX_SEGMENTS)];
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

/* One native frame, or the Python frames that stand in its place. 0: go on. */
BPF_NOINLINE int merge_step(__u32 i)
{
	struct walk *w = the_walk();
	struct stack *st = the_stack();
	__u32 seg, before;

	if (!w || !st || i >= w->native_cnt || i >= MAX_NATIVE_FRAMES)
		return 1;
	before = st->cnt;
	seg = w->native_seg[BOUND(i, MAX_NATIVE_FRAMES)];
	if (seg != SEG_NONE && seg <= MAX_SEGMENTS)
		push_segments(seg);
	if (st->cnt == before) /* no activation, or one without frames */
		push_frame(st, w->native[BOUND(i, MAX_NATIVE_FRAMES)]);
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
	if (before_python(w))
		w->flags &= ~WALK_PY_LOST;
	if (w->flags & WALK_NATIVE_LOST)
		push_frame(st, w->native_marker);
	if (w->py_left) {
		if (w->flags & WALK_NATIVE_END) {
			w->flags |= WALK_PY_UNMERGED;
			push_frame(st, MARKER_WORD(MARK_PY_UNMERGED, 0));
		}
		for (__u32 k = 0; k < MAX_SEGMENTS / FRAME_SEGMENTS; k++)
			if (push_segments(w->seg_cnt))
				break;
		w->words[0] = w->seg_py; /* more activations than there is room for */
		push_python(w->py_cnt);
	}
	if (w->flags & WALK_PY_LOST)
		push_frame(st, w->py_marker);
	if (st->cut) {
		st->frames[MAX_FRAMES - 1] = MARKER_WORD(MARK_TRUNCATED, 0);
		w->flags |= WALK_TRUNCATED;
	}
}

/* The whole stack, behind what is in frames[] already. */
BPF_NOINLINE int merge(__u32 unused)
{
	struct walk *w = the_walk();
	struct stack *st = the_stack();

	if (!w || !st)
		return (int)unused;
	if (w->has_python && w->in.layout.chain == PY_CHAIN_FRAME)
		pair_activations(0);
	w->merge_seg = 0;
	for (int i = 0; i < MAX_NATIVE_FRAMES; i++)
		if (merge_step(i))
			break;
	merge_rest(w, st);
	return 0;
}

#endif /* PYPERF_MERGE_H */
