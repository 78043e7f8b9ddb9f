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

BPF_INLINE void put_frame(struct stack *st, __u64 *deep, __u64 word)
{
	__u32 i = st->cnt;

	if (i >= 2 * deep_parts()) {
		st->cut = 1;
		return;
	}
	deep[deep_frame(i)] = word;
	st->cnt = i + 1;
}

/* For what is not in a loop. */
BPF_NOINLINE int push_frame(__u64 word)
{
	struct stack *st = the_stack();
	__u64 *deep = the_deep();

	if (st && deep)
		put_frame(st, deep, word);
	return 0;
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

#define MERGE_STEPS 16

/* Goes to the next segment outwards. */
BPF_INLINE void open_segment(struct walk *w, const __u64 *deep)
{
	__u32 seg = (__u32)deep[deep_at(DEEP_SEG_ORDER, w->merge_seg)];

	w->py_at = (__u32)deep[deep_at(DEEP_SEG_START, seg)];
	w->py_end = (__u32)deep[deep_at(DEEP_SEG_END, seg)];
	w->py_left -= w->py_end - w->py_at;
	w->merge_seg++;
}

/*
 * The next word: of the Python frames [py_at, py_end), of the segments up to number merge_to, or the next
 * native frame, if no Python frame stands in its place. 1: there is none.
 */
BPF_INLINE int merge_word(struct walk *w, struct stack *st, __u64 *deep)
{
	__u64 seg, word = 0; /* which no word is */

	if (w->py_at < w->py_end) {
		word = deep[deep_at(DEEP_PY, w->py_at)];
		w->py_at++;
		w->merge_empty = 0;
	} else if (w->merge_seg < w->merge_to && w->merge_seg < w->seg_cnt) {
		open_segment(w, deep);
	} else if (w->merge_empty) { /* no activation, or one without frames */
		word = deep[deep_at(DEEP_NATIVE, w->merge_at - 1)];
		w->merge_empty = 0;
	} else {
		if (w->merge_at >= w->native_cnt)
			return 1;
		seg = deep[deep_at(DEEP_NATIVE_SEG, w->merge_at)];
		w->merge_at++;
		w->merge_empty = 1;
		if (seg != SEG_NONE && seg != SEG_EVAL)
			w->merge_to = (__u32)seg;
	}
	if (word)
		put_frame(st, deep, word);
	return 0;
}

BPF_NOINLINE int merge_some(__u32 unused)
{
	struct walk *w = the_walk();
	struct stack *st = the_stack();
	__u64 *deep = the_deep();

	if (!w || !st || !deep)
		return 1 + (int)(unused & 0);
	for (int i = 0; i < MERGE_STEPS; i++)
		if (merge_word(w, st, deep))
			return 1;
	return 0;
}

BLOCK_STEPS(merge_block, merge_some)

/* All words there are. */
BPF_INLINE void merge_words(void)
{
	RUN_BLOCKS(merge_block, 4 * STACK_DEPTH_MAX / MERGE_STEPS);
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
		push_frame(w->native_marker);
	if (w->py_left) {
		if (w->flags & WALK_NATIVE_END) {
			w->flags |= WALK_PY_UNMERGED;
			push_frame(MARKER_WORD(MARK_PY_UNMERGED, 0));
		}
		w->merge_to = w->seg_cnt;
		merge_words();
		w->py_at = w->seg_py; /* more activations than there is room for */
		w->py_end = w->py_cnt;
		merge_words();
	}
	if (w->flags & WALK_PY_LOST)
		push_frame(w->py_marker);
	if (st->cut && deep) {
		deep[deep_frame(2 * deep_parts() - 1)] = MARKER_WORD(MARK_TRUNCATED, 0);
		w->flags |= WALK_TRUNCATED;
	}
}

/* The whole stack, behind what is in DEEP_FRAMES already. */
BPF_NOINLINE int merge(__u32 unused)
{
	struct walk *w = the_walk();
	struct stack *st = the_stack();

	if (!w || !st)
		return (int)unused;
	if (w->has_python && w->in.layout.chain == PY_CHAIN_FRAME)
		pair_activations(0);
	w->merge_seg = w->merge_to = w->merge_at = w->merge_empty = 0;
	w->py_at = w->py_end = 0;
	merge_words();
	merge_rest(w, st);
	return 0;
}

#endif /* PYPERF_MERGE_H */
