/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Stacks that are not one chain of activations from the thread's root to its leaf, on processes
 * made by hand: greenlets, a frame that is being set up, loose frames, compiled ones. As in
 * test_walk.c, each case runs with each of its reads failing, too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "walk_check.h"

/* ---- greenlets ------------------------------------------------------------------------------- */

#define OTHERS                                                                                     \
	ROOT, { FN_EVAL, 0, ACT_NO_FRAME }, { FN_C }, { FN_EVAL, 0, ACT_NO_FRAME },                \
	{                                                                                          \
		FN_C                                                                               \
	}

/* All that lies outwards of item `at` is another greenlet's. */
static struct world *end_at(struct world *w, __u32 at)
{
	w->item_cnt = at;
	w->item[w->item_cnt++] = (struct item){ .word = MARKER_WORD(MARK_GREENLET, 0) };
	return w;
}

/* The number of items up to the native frame of a function, from the leaf. */
static __u32 up_to(const struct world *w, enum fn fn)
{
	for (__u32 i = 0; i < w->item_cnt; i++) {
		__u64 off = fn_addr(fn) - TEXT_BASE;

		if (FRAME_TAG(w->item[i].word) == FRAME_NATIVE &&
		    NATIVE_OFFSET(w->item[i].word) - off < FN_LEN)
			return i + 1;
	}
	fail();
	return 0;
}

/* 3.10: greenlet's own CFrame lies in its first function. */
static void add_greenlet_cframe(struct world *w)
{
	__u64 outermost = w->top_cframe, back;

	if (w->chain != CHAIN_310)
		return;
	while ((back = get64(w, outermost + 8)) != w->tstate + LAY_ROOT_CFRAME)
		outermost = back;
	put64(w, outermost + 8, w->base_cframe);
	put64(w, w->base_cframe + 8, back);
}

static void test_greenlet(void **state)
{
	(void)state;
	for (int chain = 0; chain < CHAIN_CNT; chain++) {
		struct world *w = BUILD((enum chain_case)chain, OTHERS, { FN_BASE }, { FN_C },
					{ FN_EVAL, 2 }, { FN_CFP }, { FN_EVAL, 1 }, { FN_C });

		end_at(w, up_to(w, FN_BASE));
		add_greenlet_cframe(w);
		run_built(w);
		/* Of one that has no Python frame yet. */
		w = BUILD((enum chain_case)chain, OTHERS, { FN_BASE }, { FN_C });
		run_built(end_at(w, up_to(w, FN_BASE)));
		/*
		 * The one that starts it is still running, and its Python code looks up what to
		 * run.
		 */
		run_built(BUILD((enum chain_case)chain, ROOT, { FN_EVAL, 2 }, { FN_C }, { FN_BASE },
				{ FN_C }, { FN_EVAL, 1 }, { FN_C }));
	}
}

static void test_greenlet_switch(void **state)
{
	(void)state;
	for (int chain = 0; chain < CHAIN_CNT; chain++) {
		struct world *w = BUILD((enum chain_case)chain, ROOT, { FN_EVAL, 2 }, { FN_C },
					{ FN_SWITCH }, { FN_C });

		end_at(w, up_to(w, FN_SWITCH));
		expect_built(w);
		world__free(w);
		run_built(BUILD((enum chain_case)chain, ROOT, { FN_EVAL, 2 }, { FN_C },
				{ FN_SWITCH }, { FN_C }, { FN_EVAL, 1 }, { FN_C }));
	}
}

/* Of a greenlet whose first function is not known, more activations than Python frames tell. */
static void test_unknown_greenlet(void **state)
{
	(void)state;
	for (int chain = 0; chain < CHAIN_CNT; chain++) {
		struct world *w = BUILD((enum chain_case)chain, OTHERS, { FN_C }, { FN_CSAVE },
					{ FN_EVAL, 1 }, { FN_C }, { FN_C });

		end_at(w, up_to(w, FN_EVAL));
		expect_built(w);
		world__free(w);
	}
}

static void run_setup(enum chain_case chain, const struct act *acts, __u32 cnt)
{
	struct world *w = world__build(chain, acts, cnt);

	w->interp.cframe_delta = CFR_BELOW;
	run_built(w);
}

static void test_setup_window(void **state)
{
	static const struct act nested[] = { ROOT,	   { FN_EVAL, 2 },
					     { FN_C },	   { FN_EVAL_COLD, 2 },
					     { FN_CSAVE }, { FN_EVAL, 1, ACT_GARBAGE } };
	static const struct act outermost[] = { ROOT, { FN_C }, { FN_EVAL, 1, ACT_GARBAGE } };
	static const struct act in_handler[] = { ROOT,		 { FN_EVAL, 2 },
						 { FN_LEAFREG }, { FN_SIGRET },
						 { FN_C },	 { FN_EVAL, 1, ACT_GARBAGE } };

	(void)state;
	for (int c = CHAIN_311; c <= CHAIN_312; c++) {
		run_setup((enum chain_case)c, nested, CNT(nested));
		run_setup((enum chain_case)c, outermost, CNT(outermost));
		run_setup((enum chain_case)c, in_handler, CNT(in_handler));
	}
}

/* The search for the activation below leaves no trace in the registers. */
static void test_setup_window_restores(void **state)
{
	(void)state;
	for (int c = CHAIN_311; c <= CHAIN_312; c++) {
		struct world *w = BUILD((enum chain_case)c, ROOT, { FN_EVAL, 2 }, { FN_C },
					{ FN_SIGRET }, { FN_C }, { FN_EVAL, 1, ACT_GARBAGE });
		struct walk *k = w->walk;
		__u64 regs[GREG_CNT];

		w->interp.cframe_delta = CFR_BELOW;
		world__load(w);
		for (int i = 0; i < GREG_CNT; i++)
			k->native.regs[i] += i == RSP || i == RBP ? 0 : (__u64)i * 3;
		memcpy(regs, k->native.regs, sizeof(regs));
		cframe_below_setup(0);
		check(w, k->python.cframe);
		check(w, !memcmp(regs, k->native.regs, sizeof(regs)));
		check(w, k->native.pc == w->pc && k->native.sp == w->sp && k->native.fp == w->fp &&
				 k->native.exact_pc);
		check(w, !k->native.cnt && !k->native.eval_cnt && !k->segs.next && !k->flags);
		world__free(w);
	}
}

/* The distance is not known yet: no Python frames, and that is said. */
static void test_setup_window_unlearned(void **state)
{
	(void)state;
	for (int c = CHAIN_311; c <= CHAIN_312; c++) {
		struct world *w = BUILD((enum chain_case)c, ROOT, { FN_EVAL, 2 }, { FN_C },
					{ FN_EVAL, 1, ACT_GARBAGE });

		world__sample(w);
		check_sane(w);
		check(w, is_part(w));
		check(w, w->walk->python.cnt == 0 &&
				 w->walk->python.marker == MARKER_WORD(MARK_PY_SETUP, 0));
		fail_each_read(w, 1);
		world__free(w);
	}
}

/* Behind the setup there is more that lies in the window: what runs with each call and return. */
static void test_setup_is_over(void **state)
{
	(void)state;
	for (int c = CHAIN_311; c <= CHAIN_312; c++) {
		enum chain_case chain = (enum chain_case)c;

		RUN_ON(chain, ROOT, { FN_EVAL, 2 }, { FN_C }, { FN_EVAL, 2, ACT_SETUP });
		RUN_ON(chain, ROOT, { FN_EVAL, 2, ACT_SETUP });
		RUN_ON(chain, ROOT, { FN_EVAL, 2, ACT_SETUP | ACT_CHUNK });
		RUN_ON(chain, ROOT, { FN_EVAL, 2 }, { FN_C },
		       { FN_EVAL, 1, ACT_SETUP | ACT_GENERATORS });
		RUN_ON(chain, ROOT, { FN_EVAL, 2, ACT_GENERATOR }, { FN_C },
		       { FN_EVAL, 1, ACT_SETUP | ACT_NOT_STARTED });
	}
	RUN_ON(CHAIN_312, ROOT, { FN_EVAL, 3, ACT_SETUP | ACT_GENERATOR });
	RUN_ON(CHAIN_312, ROOT, { FN_EVAL, 3, ACT_SETUP | ACT_GENERATORS });
}

enum named {
	NAMED_ENDED,	 /* linked, but no longer in the data stack */
	NAMED_LOOSE,	 /* the right one, which has no caller yet */
	NAMED_SHIM,	 /* ... but a shim, which has none yet (3.12) */
	NAMED_SUSPENDED, /* a generator's */
	NAMED_CNT,
};

/*
 * What the CFrame of an activation that is being set up names: the caller's frames are shown, and
 * no other.
 */
static void run_named(enum chain_case chain, enum named what)
{
	struct world *w = BUILD(chain, ROOT, { FN_EVAL, 2 }, { FN_C }, { FN_EVAL, 1, ACT_GARBAGE });
	const struct py_layout *lay = &w->interp.layout;
	__u64 frame, shim = w->top_cframe + CFR_BELOW - SHIM_BELOW;
	__u64 caller = w->frame[1], loose = w->frame[0];

	w->data_top -= FRAME_ROOM;
	frame = make_frame(w, what == NAMED_SUSPENDED ? ACT_GENERATORS : 0, 5, OFFSET_NOT_STARTED);
	w->top_frame = what == NAMED_SHIM ? loose : caller;
	if (chain == CHAIN_312)
		add_shim(w, shim);
	else
		put8(w, frame + lay->frame_owner - IS_ENTRY, 1);
	put64(w, frame + lay->frame_back,
	      what == NAMED_LOOSE  ? loose
	      : chain == CHAIN_312 ? shim
				   : caller);
	if (what == NAMED_SUSPENDED)
		put8(w, frame - GENERATOR_STATE, 0xff);
	set_data_stack(w, w->chunk, what == NAMED_ENDED ? frame : w->data_top);
	put64(w, w->top_cframe + lay->cframe_frame, frame);
	put64(w, w->top_cframe + lay->cframe_previous, w->below_cframe);
	w->interp.cframe_delta = CFR_BELOW;
	run_built(w);
}

static void test_setup_names_a_frame(void **state)
{
	(void)state;
	for (int what = 0; what < NAMED_CNT; what++) {
		if (what != NAMED_SHIM)
			run_named(CHAIN_311, (enum named)what);
		run_named(CHAIN_312, (enum named)what);
	}
}

/*
 * A frame was entered, or a generator is left, that has no caller yet, or no more: the eval loop
 * knows it.
 */
static void run_loose(enum chain_case chain, const struct act *acts, __u32 cnt)
{
	static const __u64 stale[] = { 0, JUNK & ~7ULL, HEAP_BASE, STACK_BASE };

	for (__u32 i = 0; i < CNT(stale); i++) {
		struct world *w = world__build(chain, acts, cnt);
		__u64 leaf = w->frame[w->frame_cnt - 1], caller = w->frame[w->frame_cnt - 2];

		if (stale[i] && acts[cnt - 1].flags & (ACT_GENERATOR | ACT_GENERATORS)) {
			world__free(w);
			continue;
		}
		put64(w, leaf + w->interp.layout.frame_back, stale[i]);
		world__sample(w);
		check_sane(w);
		check(w, is_part(w));
		check(w, w->walk->python.cnt == 1 &&
				 w->walk->python.marker == MARKER_WORD(MARK_PY_SETUP, 0));
		w->regs[12] = leaf;
		w->regs[13] = w->frame[0] + 8;
		w->regs[14] = caller;
		run_built(w);
	}
}

static void test_loose_frame(void **state)
{
	static const struct act call[] = { ROOT, { FN_EVAL, 3, ACT_NOT_STARTED } };
	static const struct act chunk[] = { ROOT, { FN_EVAL, 3, ACT_NOT_STARTED | ACT_CHUNK } };
	static const struct act generator[] = { ROOT, { FN_EVAL, 3, ACT_GENERATOR } };
	static const struct act generators[] = { ROOT, { FN_EVAL, 3, ACT_GENERATORS } };

	(void)state;
	for (int c = CHAIN_311; c <= CHAIN_312; c++) {
		run_loose((enum chain_case)c, call, CNT(call));
		run_loose((enum chain_case)c, chunk, CNT(chunk));
	}
	run_loose(CHAIN_312, generator, CNT(generator));
	run_loose(CHAIN_312, generators, CNT(generators));
}

/* A chain that ends where it cannot: what is missing is said. */
static void test_chain_ends_early(void **state)
{
	(void)state;
	for (int c = CHAIN_311; c <= CHAIN_315; c++) {
		struct world *w =
			BUILD((enum chain_case)c, ROOT, { FN_EVAL, 1 }, { FN_C }, { FN_EVAL, 2 });

		put64(w, w->frame[1] + w->interp.layout.frame_back, 0);
		world__sample(w);
		check_sane(w);
		check(w, is_part(w));
		check(w, w->walk->python.cnt == 2 &&
				 w->walk->python.marker == MARKER_WORD(MARK_PY_SETUP, 0));
		world__free(w);
	}
}

/*
 * Frames of code that Nuitka has compiled: no activation runs them, and their line is in their
 * frame object. They may be the outermost ones, and those to which eval loops return.
 */
static void test_compiled_frames(void **state)
{
	(void)state;
	for (int c = CHAIN_39; c <= CHAIN_315; c++) {
		enum chain_case chain = (enum chain_case)c;

		RUN_ON(chain, ROOT, { FN_C, 1 });
		RUN_ON(chain, ROOT, { FN_C, 1 }, { FN_C }, { FN_CSAVE, 2 }, { FN_C });
		RUN_ON(chain, ROOT, { FN_C, 1 }, { FN_C }, { FN_EVAL, 2 });
		RUN_ON(chain, ROOT, { FN_EVAL, 2 }, { FN_C }, { FN_C, 1 }, { FN_CFP, 1 });
		RUN_ON(chain, ROOT, { FN_C, 2 }, { FN_EVAL, 2 }, { FN_C }, { FN_C, 1 },
		       { FN_EVAL, 1 }, { FN_C, 3 }, { FN_C });
	}
}

/* Up to 3.10 activations and frames are counted: compiled frames have none. */
static void test_compiled_old(void **state)
{
	struct world *w;

	(void)state;
	for (int c = CHAIN_39; c <= CHAIN_310; c++) {
		enum chain_case chain = (enum chain_case)c;

		RUN_ON(chain, ROOT, { FN_C, 2 }, { FN_EVAL, 1 }, { FN_C, 1 }, { FN_EVAL, 3 },
		       { FN_C, 2 }, { FN_C });
		RUN_ON(chain, ROOT, { FN_C, 2 }, { FN_EVAL, 1, ACT_NOT_STARTED });
		RUN_ON(chain, ROOT, { FN_EVAL, 1 }, { FN_C, 1 }, { FN_EVAL, 0, ACT_NO_FRAME });
		RUN_ON(chain, ROOT, { FN_C, 1 }, { FN_EVAL, 1 }, { FN_C, 2 },
		       { FN_EVAL, 0, ACT_NO_FRAME });
	}
	/* What has not begun is compiled only if its code has no instructions. */
	w = BUILD(CHAIN_310, ROOT, { FN_EVAL, 1 }, { FN_C }, { FN_EVAL, 1, ACT_NOT_STARTED });
	world__sample(w);
	check(w, !w->walk->python.compiled && w->walk->python.cnt == 2);
	world__free(w);
}

/* The eval loop is set up, or its frame is entered, with a compiled frame as the caller. */
static void test_compiled_callers(void **state)
{
	static const struct act first[] = { ROOT, { FN_C, 2 }, { FN_EVAL, 1, ACT_GARBAGE } };
	static const struct act second[] = {
		ROOT, { FN_C, 1 }, { FN_EVAL, 1 }, { FN_C, 2 }, { FN_EVAL, 1, ACT_GARBAGE }
	};

	(void)state;
	for (int c = CHAIN_311; c <= CHAIN_312; c++) {
		enum chain_case chain = (enum chain_case)c;

		run_setup(chain, first, CNT(first));
		run_setup(chain, second, CNT(second));
		RUN_ON(chain, ROOT, { FN_C, 2 }, { FN_EVAL, 2, ACT_SETUP });
		RUN_ON(chain, ROOT, { FN_C, 2 }, { FN_EVAL, 1, ACT_SETUP | ACT_NOT_STARTED });
	}
}

/* The outermost frame of a greenlet is compiled: its stack ends as that of any other greenlet. */
static void run_compiled_greenlet(struct world *w, enum fn root)
{
	struct item *last = &w->item[w->item_cnt - 2]; /* the marker and the frame */
	struct item marker = last[0], frame = last[1];
	__u32 at = up_to(w, root);

	w->item[at] = marker;
	w->item[at + 1] = frame;
	end_at(w, at + 2);
	expect_built(w);
	world__free(w);
}

static void test_compiled_greenlet(void **state)
{
	(void)state;
	for (int c = CHAIN_311; c <= CHAIN_315; c++) {
		enum chain_case chain = (enum chain_case)c;

		run_compiled_greenlet(BUILD(chain, OTHERS, { FN_BASE }, { FN_CFP, 1 }, { FN_C }),
				      FN_BASE);
		run_compiled_greenlet(BUILD(chain, OTHERS, { FN_CFP, 1 }, { FN_EVAL, 1 }, { FN_C }),
				      FN_EVAL);
	}
}

/* What lies before a frame of CPython's own does not make it a compiled one. */
static void test_is_compiled(void **state)
{
	(void)state;
	for (int c = CHAIN_311; c <= CHAIN_315; c++) {
		struct world *w = BUILD((enum chain_case)c, ROOT, { FN_C, 1 });
		const struct py_layout *lay = &w->interp.layout;
		__u64 field = w->frame[0] + lay->frame_lasti - (c == CHAIN_311 ? 16 : 8);
		static const struct {
			__s64 below;
			int is;
		} cases[] = { { 56, 1 },  { 80, 1 }, { 191, 1 },    { 192, 0 },
			      { 224, 0 }, { -8, 0 }, { 1 << 20, 0 } };

		for (size_t i = 0; i < CNT(cases); i++) {
			put64(w, field, w->frame[0] - (__u64)cases[i].below);
			world__sample(w);
			check(w, w->walk->python.cnt == 1 && w->walk->tstate.run_cnt == 1);
			check(w, !!w->walk->python.compiled == cases[i].is);
		}
		put64(w, field, 0);
		world__sample(w);
		check(w, !w->walk->python.compiled);
		world__free(w);
	}
}

static void test_distances_are_learned(void **state)
{
	(void)state;
	for (int c = CHAIN_310; c <= CHAIN_315; c++) {
		struct world *w = BUILD((enum chain_case)c, ROOT, { FN_EVAL, 2 }, { FN_C });
		int by_cframe = c == CHAIN_310 || c == CHAIN_311;

		world__sample(w);
		check(w, w->interp.anchor_delta == (by_cframe ? CFR_BELOW : SHIM_BELOW));
		check(w, w->interp.anchor_fp_off == -16);
		check(w,
		      w->interp.cframe_delta == (c == CHAIN_311 || c == CHAIN_312 ? CFR_BELOW : 0));
		world__free(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_greenlet),
		cmocka_unit_test(test_greenlet_switch),
		cmocka_unit_test(test_unknown_greenlet),
		cmocka_unit_test(test_setup_window),
		cmocka_unit_test(test_setup_window_restores),
		cmocka_unit_test(test_setup_window_unlearned),
		cmocka_unit_test(test_setup_is_over),
		cmocka_unit_test(test_setup_names_a_frame),
		cmocka_unit_test(test_loose_frame),
		cmocka_unit_test(test_chain_ends_early),
		cmocka_unit_test(test_compiled_frames),
		cmocka_unit_test(test_compiled_old),
		cmocka_unit_test(test_compiled_callers),
		cmocka_unit_test(test_compiled_greenlet),
		cmocka_unit_test(test_is_compiled),
		cmocka_unit_test(test_distances_are_learned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
