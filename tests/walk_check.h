/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_WALK_CHECK_H
#define PYPERF_WALK_CHECK_H
/*
 * What the tests of the walkers have in common: is the stack that came out the one that was built?
 * For programs that include cmocka.h first.
 */
#include "walk_world.h"

/* A description names what it needs. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define CNT(array) ((__u32)(sizeof(array) / sizeof((array)[0])))

/* ---- what came out --------------------------------------------------------------------------- */

/* Which code object an id was given to; -1: to none of this process. */
static int code_of(struct world *w, __u64 id)
{
	for (__u32 i = 0; i < w->seen_cnt; i++) {
		if (w->seen[i].ev.id != id)
			continue;
		for (int c = 0; c <= CODE_CNT; c++)
			if (w->codes[c] == w->seen[i].ev.addr)
				return c;
	}
	return -1;
}

static int same_frame(struct world *w, __u64 word, const struct item *it, int any_offset)
{
	if (it->word)
		return word == it->word;
	return FRAME_TAG(word) == FRAME_PYTHON && code_of(w, PYTHON_CODE(word)) == it->code &&
	       (PYTHON_OFFSET(word) == it->off ||
		(any_offset && (PYTHON_OFFSET(word) == OFFSET_NOT_STARTED ||
				PYTHON_OFFSET(word) == OFFSET_LINE)));
}

static void print_stack(struct world *w)
{
	for (__u32 i = 0; i < w->out->cnt; i++) {
		__u64 word = out_word(w, i);

		if (FRAME_TAG(word) == FRAME_PYTHON)
			fprintf(stderr, "  got  python %d + %u\n", code_of(w, PYTHON_CODE(word)),
				PYTHON_OFFSET(word));
		else
			fprintf(stderr, "  got  %#llx\n", (unsigned long long)word);
	}
	for (__u32 i = 0; i < w->item_cnt; i++) {
		struct item *it = &w->item[i];

		if (it->word)
			fprintf(stderr, "  want %#llx%s\n", (unsigned long long)it->word,
				it->replaced ? " (replaced)" : "");
		else
			fprintf(stderr, "  want python %d + %u\n", it->code, it->off);
	}
}

#define check(w, cond)                                                                             \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "chain %d, fail_at %llu: %s\n", (int)(w)->chain,           \
				(unsigned long long)(w)->fail_at, #cond);                          \
			if ((w)->out->cnt < 64)                                                    \
				print_stack(w);                                                    \
			fail();                                                                    \
		}                                                                                  \
	} while (0)

/* The stack is the one that was built, to the last frame. */
static int is_exact(struct world *w, int any_offset)
{
	__u32 n = 0;

	for (__u32 i = 0; i < w->item_cnt; i++) {
		if (w->item[i].replaced)
			continue;
		if (n >= w->out->cnt || !same_frame(w, out_word(w, n), &w->item[i], any_offset))
			return 0;
		n++;
	}
	return n == w->out->cnt;
}

static int known_marker(__u64 word)
{
	switch (MARKER_WHY(word)) {
#define X(name, number, text) case number:
		PYPERF_MARKERS(X)
#undef X
		return 1;
	}
	return 0;
}

/*
 * All frames but markers are frames of the built stack, in its order; Python's from the leaf on.
 * Only behind a marker, Python frames stand apart from their activations.
 */
static int is_part(struct world *w)
{
	__u32 native = 0, py = 0; /* items behind the last that was matched */
	int apart = 0;

	for (__u32 i = 0; i < w->out->cnt; i++) {
		__u64 word = out_word(w, i);
		__u32 *k = FRAME_TAG(word) == FRAME_PYTHON ? &py : &native;

		if (FRAME_TAG(word) == FRAME_MARKER) {
			apart = 1;
			if (!known_marker(word))
				return 0;
			continue;
		}
		if (k == &native && !apart && !w->uneven && native < py)
			native = py;
		while (*k < w->item_cnt &&
		       (k == &py ? w->item[*k].word != 0 : w->item[*k].word != word))
			++*k;
		if (*k == w->item_cnt || !same_frame(w, word, &w->item[*k], 1))
			return 0;
		if (k == &py && !apart && !w->uneven && py < native)
			return 0;
		++*k;
	}
	return 1;
}

static __u32 marker_cnt(struct world *w, __u64 marker)
{
	__u32 n = 0;

	for (__u32 i = 0; i < w->out->cnt; i++)
		n += out_word(w, i) == marker;
	return n;
}

/* What holds for every stack, whatever memory did. */
static void check_sane(struct world *w)
{
	struct walk *k = w->walk;

	check(w, w->out->cnt <= 2 * WORLD_DEPTH);
	check(w, k->native.cnt <= WORLD_DEPTH);
	check(w, k->python.cnt <= WORLD_DEPTH);
	check(w, k->segs.cnt <= WORLD_DEPTH);
	check(w, !(k->flags & WALK_NATIVE_END) != !(k->flags & WALK_NATIVE_LOST));
	for (__u32 i = 0; i < k->python.cnt; i++)
		check(w, code_of(w, PYTHON_CODE(w->deep[deep_at(DEEP_PY, i)])) >= 0);
	if (k->flags & WALK_NATIVE_LOST)
		check(w, marker_cnt(w, k->native.marker) >= 1);
	if (k->flags & WALK_PY_LOST)
		check(w, out_word(w, w->out->cnt - 1) == k->python.marker);
}

static int says_complete(const struct walk *k)
{
	return !(k->flags & (WALK_NATIVE_LOST | WALK_PY_LOST | WALK_TRUNCATED | WALK_SHIM_JUMP |
			     WALK_PY_UNMERGED)) &&
	       k->flags & WALK_NATIVE_END;
}

/* Every read fails once. A stack that calls itself complete must be complete. */
static void fail_each_read(struct world *w, __u64 step)
{
	const struct interp learned = w->interp;
	struct known_place places[PLACE_SLOTS];
	__u64 n = 1;

	memcpy(places, w->places, sizeof(places));
	for (;; n += step) {
		world__clear(w);
		w->interp = learned;
		memcpy(w->places, places, sizeof(places)); /* the number of reads depends on it */
		w->fail_at = n;
		world__sample(w);
		if (!w->faulted)
			break;
		check_sane(w);
		check(w, is_part(w));
		if (says_complete(w->walk))
			check(w, is_exact(w, 1));
	}
	check(w, n > 1 && n > w->reads && n - w->reads <= step);
	w->fail_at = 0;
	w->interp = learned;
}

/* No place is known at first, and all of them when it is walked again. */
static void expect_built(struct world *w)
{
	const struct interp learned = w->interp;

	for (int i = 0; i < 2; i++) {
		world__clear(w);
		world__sample(w);
		check_sane(w);
		check(w, is_exact(w, 0));
		w->interp = learned;
	}
}

static void run_built(struct world *w)
{
	expect_built(w);
	fail_each_read(w, 1);
	world__free(w);
}

static void run_on(enum chain_case chain, const struct act *acts, __u32 cnt)
{
	run_built(world__build(chain, acts, cnt));
}

static inline void run_all(const struct act *acts, __u32 cnt)
{
	for (int chain = 0; chain < CHAIN_CNT; chain++)
		run_on((enum chain_case)chain, acts, cnt);
}

#define RUN_ALL(...)                                                                               \
	do {                                                                                       \
		static const struct act acts_[] = { __VA_ARGS__ };                                 \
		run_all(acts_, CNT(acts_));                                                        \
	} while (0)
#define RUN_ON(chain, ...)                                                                         \
	do {                                                                                       \
		static const struct act acts_[] = { __VA_ARGS__ };                                 \
		run_on(chain, acts_, CNT(acts_));                                                  \
	} while (0)
#define BUILD(chain, ...)                                                                          \
	({                                                                                         \
		static const struct act acts_[] = { __VA_ARGS__ };                                 \
		world__build(chain, acts_, CNT(acts_));                                            \
	})
#define ROOT                                                                                       \
	{ FN_START },                                                                              \
	{                                                                                          \
		FN_MAIN                                                                            \
	}

/*
 * Code without rows, called by the eval loop: the anchor leads across, once its distance is known.
 * The return address lies behind the frame pointer, which the eval loop has saved.
 */
static inline void run_shim_jumps(void)
{
	for (int c = CHAIN_310; c <= CHAIN_315; c++) {
		struct world *w =
			BUILD((enum chain_case)c, ROOT, { FN_CFP }, { FN_EVAL, 2 }, { FN_C },
			      { FN_EVAL, 2 }, { FN_C, 0, ACT_JUMPED }, { FN_ANON });
		int by_cframe = c == CHAIN_310 || c == CHAIN_311;

		w->interp.anchor_delta = by_cframe ? CFR_BELOW : SHIM_BELOW;
		w->interp.anchor_fp_off = EVAL_FP_OFF;
		expect_built(w);
		check(w, w->walk->flags & WALK_SHIM_JUMP);
		check(w, !(w->walk->flags & WALK_SKIPPED)); /* no file's code */
		fail_each_read(w, 1);
		world__free(w);
	}
}

#endif /* PYPERF_WALK_CHECK_H */
