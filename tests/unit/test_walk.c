/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The walkers and the merge on processes made by hand. Each case runs twice: as it is, and with its
 * first, second, third ... read failing, until it no longer makes that many.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "walk_check.h"

/* ---- nesting --------------------------------------------------------------------------------- */

static void test_recursion(void **state)
{
	(void)state;
	RUN_ALL(ROOT, { FN_EVAL, 6, ACT_RECURSE }, { FN_C });
}

static __u64 reads_of(struct world *w)
{
	__u64 reads;

	expect_built(w);
	reads = w->reads;
	world__free(w);
	return reads;
}

/* The data stack is read by pieces: twenty frames more are a few reads more. */
static void test_frames_read_at_once(void **state)
{
	(void)state;
	for (int chain = CHAIN_311; chain <= CHAIN_315; chain++) {
		__u64 few =
			reads_of(BUILD((enum chain_case)chain, ROOT, { FN_EVAL, 20, ACT_RECURSE }));
		__u64 more =
			reads_of(BUILD((enum chain_case)chain, ROOT, { FN_EVAL, 40, ACT_RECURSE }));

		assert_true(more > few && more - few < 10);
	}
}

static void test_nesting_leaf_native(void **state)
{
	(void)state;
	RUN_ALL(ROOT, { FN_EVAL, 3 }, { FN_C }, { FN_CSAVE }, { FN_EVAL, 1 }, { FN_CFP },
		{ FN_EVAL_COLD, 2 }, { FN_C });
}

static void test_nesting_leaf_python(void **state)
{
	(void)state;
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_CFP }, { FN_EVAL, 3 });
}

static void test_root_without_address(void **state)
{
	(void)state;
	RUN_ALL({ FN_ROOT0 }, { FN_EVAL, 2 }, { FN_C });
}

static void test_not_started(void **state)
{
	(void)state;
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_C }, { FN_EVAL, 1, ACT_NOT_STARTED });
}

static void test_thread_bytecode(void **state)
{
	(void)state;
	RUN_ON(CHAIN_314T, ROOT, { FN_EVAL, 2, ACT_TLBC }, { FN_C }, { FN_EVAL, 1 });
}

static void test_init_shim_is_hidden(void **state)
{
	(void)state;
	RUN_ON(CHAIN_313, ROOT, { FN_EVAL, 2, ACT_HIDDEN }, { FN_C });
	RUN_ON(CHAIN_315, ROOT, { FN_EVAL, 1, ACT_HIDDEN }, { FN_C }, { FN_EVAL, 3, ACT_HIDDEN });
}

/* ---- windows --------------------------------------------------------------------------------- */

static void test_entering_and_leaving(void **state)
{
	(void)state;
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_C }, { FN_EVAL, 1, ACT_NO_FRAME });
	RUN_ALL(ROOT, { FN_EVAL, 0, ACT_NO_FRAME });
}

static void test_activation_without_frame(void **state)
{
	(void)state;
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_C }, { FN_EVAL, 1, ACT_EMPTY });
	RUN_ALL(ROOT, { FN_EVAL, 1, ACT_EMPTY });
}

/* One frame more than CFrames: the thread is leaving its activation, which is the frame's. */
static void test_310_cframe_unlinked(void **state)
{
	static const struct act leaving = { FN_EVAL, 1, ACT_NO_CFRAME };
	struct world *w;

	(void)state;
	for (__u32 outer = 0; outer <= 3; outer++) {
		const struct act acts[] = { ROOT, { FN_EVAL, outer }, { FN_C }, leaving };
		const struct act alone[] = { ROOT, leaving };

		w = outer ? world__build(CHAIN_310, acts, CNT(acts))
			  : world__build(CHAIN_310, alone, CNT(alone));
		w->item[1].replaced = 1;
		run_built(w);
	}
}

static void drop_item(struct world *w, __u32 at)
{
	w->item_cnt--;
	memmove(&w->item[at], &w->item[at + 1], (w->item_cnt - at) * sizeof(w->item[0]));
}

static void swap_items(struct world *w, __u32 at)
{
	struct item t = w->item[at];

	w->item[at] = w->item[at + 1];
	w->item[at + 1] = t;
}

/* Index of an item of Python's, counted from the leaf. */
static __u32 python_item(const struct world *w, __u32 n)
{
	for (__u32 i = 0; i < w->item_cnt; i++)
		if (!w->item[i].word && !n--)
			return i;
	fail();
	return 0;
}

/*
 * 3.9: it ends the chain, and takes the place of the activation that threw; callers are native
 * frames then.
 */
static void test_phantom_39(void **state)
{
	struct world *w = BUILD(CHAIN_39, ROOT, { FN_EVAL, 1 }, { FN_C },
				{ FN_EVAL, 1, ACT_PHANTOM }, { FN_C }, { FN_EVAL, 1 }, { FN_C });

	(void)state;
	w->item[python_item(w, 3) + 1].replaced = 0;
	drop_item(w, python_item(w, 3));
	drop_item(w, python_item(w, 2));
	run_built(w);
	/* The generator that it delegates to is not running yet. */
	w = BUILD(CHAIN_39, ROOT, { FN_EVAL, 1 }, { FN_C }, { FN_EVAL, 1, ACT_PHANTOM }, { FN_C });
	w->item[python_item(w, 2) + 1].replaced = 0;
	drop_item(w, python_item(w, 2));
	drop_item(w, python_item(w, 1));
	run_built(w);
}

/* 2.7: pyexpat's frame stands at the activation of what it calls; without that, nowhere. */
static void test_pseudo_27(void **state)
{
	struct world *w = BUILD(CHAIN_27, ROOT, { FN_EVAL, 1 }, { FN_C },
				{ FN_EVAL, 1, ACT_PHANTOM }, { FN_C }, { FN_EVAL, 2 }, { FN_C });

	(void)state;
	swap_items(w, python_item(w, 2) - 1);
	run_built(w);
	w = BUILD(CHAIN_27, ROOT, { FN_EVAL, 1, ACT_PHANTOM }, { FN_C },
		  { FN_EVAL, 1, ACT_NOT_STARTED });
	swap_items(w, python_item(w, 1) - 1);
	run_built(w);
	w = BUILD(CHAIN_27, ROOT, { FN_EVAL, 1 }, { FN_C }, { FN_EVAL, 1, ACT_PHANTOM }, { FN_C });
	drop_item(w, python_item(w, 0));
	run_built(w);
}

static void test_phantom(void **state)
{
	(void)state;
	RUN_ON(CHAIN_310, ROOT, { FN_EVAL, 1 }, { FN_C }, { FN_EVAL, 1, ACT_PHANTOM }, { FN_C });
	RUN_ON(CHAIN_311, ROOT, { FN_EVAL, 1 }, { FN_C }, { FN_EVAL, 2, ACT_PHANTOM }, { FN_C },
	       { FN_EVAL, 2 });
	RUN_ON(CHAIN_313, ROOT, { FN_EVAL, 2, ACT_PHANTOM }, { FN_C }, { FN_EVAL, 2 });
}

/*
 * Up to 3.9, of the innermost frame: linked before f_executing is set, and until after that is
 * cleared.
 */
static void test_not_executing(void **state)
{
	static const __u32 flags[] = { 0, ACT_NOT_STARTED };

	(void)state;
	for (__u32 i = 0; i < CNT(flags); i++) {
		const struct act acts[] = {
			ROOT, { FN_EVAL, 2 }, { FN_C }, { FN_C }, { FN_EVAL, 1, flags[i] }
		};
		struct world *w = world__build(CHAIN_39, acts, CNT(acts));

		put8(w, w->top_frame + w->interp.layout.frame_executing, 0);
		run_built(w);
	}
}

/* While its call is traced, a frame is not executing either, and is not the innermost one. */
static void test_traced_call(void **state)
{
	struct world *w =
		BUILD(CHAIN_39, ROOT, { FN_EVAL, 1 }, { FN_C }, { FN_EVAL, 1, ACT_NOT_STARTED },
		      { FN_C }, { FN_EVAL, 1 }, { FN_C });

	(void)state;
	put8(w, w->frame[1] + w->interp.layout.frame_executing, 0);
	run_built(w);
}

/* ---- the thread state ------------------------------------------------------------------------ */

static void test_thread_without_state(void **state)
{
	struct world *w = BUILD(CHAIN_312, ROOT, { FN_C });

	(void)state;
	put64(w, w->tstate + w->interp.layout.tstate_thread_id, WORLD_TP + 4096);
	run_built(w);
}

static void test_python_not_initialised(void **state)
{
	struct world *w = BUILD(CHAIN_311, ROOT, { FN_C });

	(void)state;
	put64(w, w->runtime, 0);
	run_built(w);
}

static void test_other_states_in_list(void **state)
{
	(void)state;
	for (int c = 0; c < CHAIN_CNT; c++) {
		struct world *w = BUILD((enum chain_case)c, ROOT, { FN_EVAL, 2 }, { FN_C });
		__u64 head = w->tstate;

		for (int i = 0; i < 5; i++)
			head = make_tstate(w, head, WORLD_TP + 65536 * (i + 1));
		put64(w, w->interp_state + w->interp.layout.interp_threads_head, head);
		run_built(w);
	}
}

/* Another interpreter comes first in the list; it may even have a state of this thread, idle. */
static void test_several_interpreters(void **state)
{
	(void)state;
	for (int with_state = 0; with_state < 2; with_state++)
		for (int c = 0; c < CHAIN_CNT; c++) {
			struct world *w = BUILD((enum chain_case)c, ROOT, { FN_EVAL, 2 }, { FN_C });
			__u64 second = heap_alloc(w, 64);

			put64(w, second + w->interp.layout.interp_next, w->interp_state);
			put64(w, w->runtime, second);
			if (with_state)
				put64(w, second + w->interp.layout.interp_threads_head,
				      make_tstate(w, 0, WORLD_TP));
			run_built(w);
		}
}

/* A newer interpreter with number 7, in which the thread has this state. */
static void add_interpreter(struct world *w, __u64 tstate)
{
	const struct py_layout *lay = &w->interp.layout;
	__u64 second = heap_alloc(w, 64);

	put64(w, second + lay->interp_next, w->interp_state);
	put64(w, second + lay->interp_id, 7);
	put64(w, second + lay->interp_threads_head, tstate);
	put64(w, w->runtime, second);
}

/*
 * Three activations, of which the middle one, or all but the outermost, belong to another
 * interpreter: the chain is cut in two, the stack that must come out stays the same.
 */
static void test_interpreters_nested(void **state)
{
	(void)state;
	for (int inner_too = 0; inner_too < 2; inner_too++) {
		struct world *w = BUILD(CHAIN_313, ROOT, { FN_EVAL, 2 }, { FN_C }, { FN_EVAL, 2 },
					{ FN_C }, { FN_EVAL_COLD, 2 });
		__u16 back = w->interp.layout.frame_back;
		__u64 other = make_tstate(w, 0, WORLD_TP);

		if (!inner_too)
			put64(w, w->shim[2] + back, w->frame[1]);
		put64(w, w->shim[1] + back, 0);
		set_leaf(w, other, w->frame[inner_too ? 5 : 3], 0);
		if (inner_too)
			set_leaf(w, w->tstate, w->frame[1], 0);
		add_interpreter(w, other);
		world__sample(w);
		check(w, w->walk->tstate.run_cnt == 2 && w->walk->python.cnt == 6);
		check(w, w->walk->tstate.interp_id == (inner_too ? 7 : 0));
		run_built(w);
	}
}

/*
 * 3.10, 3.11: a state with this thread's id whose frames lie on the stack of the one that runs it.
 */
static void test_interpreter_run_elsewhere(void **state)
{
	(void)state;
	for (int c = CHAIN_310; c <= CHAIN_312; c++)
		for (int ours = 0; ours < 2; ours++) {
			struct world *w = BUILD((enum chain_case)c, ROOT, { FN_EVAL, 1 }, { FN_C });
			__u64 other = make_tstate(w, 0, ours ? WORLD_TP + 8192 : WORLD_TP);
			__u64 cframe = heap_alloc(w, 64);

			if (!ours) {
				set_leaf(w, other, w->frame[0], cframe);
			} else {
				set_leaf(w, other, w->top_frame, w->top_cframe);
				set_leaf(w, w->tstate, 0, w->tstate + LAY_ROOT_CFRAME);
				put64(w, w->top_cframe + w->interp.layout.cframe_previous,
				      other + LAY_ROOT_CFRAME);
			}
			add_interpreter(w, other);
			world__sample(w);
			check(w, w->walk->tstate.run_cnt == 1);
			check(w, w->walk->tstate.interp_id == (ours ? 7 : 0));
			run_built(w);
		}
}

/* <= 3.11: the state of a thread that is being started has its parent's id, and no frames. */
static void test_starting_thread(void **state)
{
	(void)state;
	for (int c = CHAIN_39; c <= CHAIN_311; c++) {
		struct world *w = BUILD((enum chain_case)c, ROOT, { FN_EVAL, 2 }, { FN_C });

		put64(w, w->interp_state + w->interp.layout.interp_threads_head,
		      make_tstate(w, w->tstate, WORLD_TP));
		run_built(w);
	}
}

static void test_state_list_cycles(void **state)
{
	(void)state;
	for (int self = 0; self < 2; self++) {
		struct world *w = BUILD(CHAIN_313, ROOT, { FN_EVAL, 2 }, { FN_C });
		__u64 a = make_tstate(w, 0, WORLD_TP + 65536),
		      b = make_tstate(w, a, WORLD_TP + 131072);

		put64(w, a + w->interp.layout.tstate_next, self ? a : b);
		put64(w, w->interp_state + w->interp.layout.interp_threads_head, b);
		world__sample(w);
		check_sane(w);
		check(w, w->walk->python.cnt == 0 && w->walk->flags & WALK_PY_LOST);
		check(w, w->reads < (self ? 20 : 2 * MAX_THREAD_SCAN));
		world__free(w);
	}
}

/* ---- damaged chains -------------------------------------------------------------------------- */

static void check_lost(struct world *w, enum marker_why why, __u32 py_cnt)
{
	world__sample(w);
	check_sane(w);
	check(w, is_part(w));
	check(w, w->walk->flags & WALK_PY_LOST);
	check(w, w->walk->python.cnt == py_cnt && MARKER_WHY(w->walk->python.marker) == why);
}

static __u64 back_of(struct world *w, __u64 frame)
{
	return frame + w->interp.layout.frame_back;
}

static void test_cycles(void **state)
{
	(void)state;
	for (int c = 0; c < CHAIN_CNT; c++) {
		struct world *w = BUILD((enum chain_case)c, ROOT, { FN_EVAL, 4 }, { FN_C });

		put64(w, back_of(w, w->frame[1]), w->frame[1]);
		check_lost(w, MARK_PY_BAD_CODE, 3);
		fail_each_read(w, 1);
		put64(w, back_of(w, w->frame[1]), w->frame[2]);
		world__sample(w);
		check_sane(w);
		check(w, w->walk->python.cnt == WORLD_DEPTH && w->walk->flags & WALK_TRUNCATED);
		check(w, w->walk->python.marker == MARKER_WORD(MARK_PY_TRUNCATED, 0));
		world__free(w);
	}
}

static void test_cycle_of_shims(void **state)
{
	(void)state;
	for (int c = CHAIN_312; c <= CHAIN_315; c++) {
		struct world *w = BUILD((enum chain_case)c, ROOT, { FN_EVAL, 1 }, { FN_C },
					{ FN_EVAL, 1 }, { FN_C });
		__u64 outer = w->shim[w->shim_cnt - 2];

		put64(w, back_of(w, outer), w->shim[w->shim_cnt - 1]);
		put64(w, back_of(w, w->shim[w->shim_cnt - 1]), outer);
		check_lost(w, MARK_PY_TRUNCATED, 1);
		check(w, w->walk->flags & WALK_TRUNCATED);
		check(w, w->reads < 4 * WORLD_DEPTH); /* its cost goes by the depth */
		put64(w, back_of(w, outer), outer);
		check_lost(w, MARK_PY_BAD_CODE, 1);
		world__free(w);
	}
}

static void test_cycle_of_cframes(void **state)
{
	(void)state;
	for (int two = 0; two < 2; two++) {
		struct world *w = BUILD(CHAIN_310, ROOT, { FN_EVAL, 1 }, { FN_C }, { FN_EVAL, 1 });
		__u64 leaf = w->top_cframe, outer = get64(w, leaf + 8);

		put64(w, outer + 8, two ? leaf : outer);
		world__sample(w);
		check_sane(w);
		check(w, w->reads < 4 * WORLD_DEPTH);
		check(w, w->walk->flags & WALK_PY_LOST);
		check(w, is_part(w));
		world__free(w);
		w = BUILD(CHAIN_311, ROOT, { FN_EVAL, 1 }, { FN_C }, { FN_EVAL, 1 });
		leaf = w->top_cframe;
		outer = get64(w, leaf + 16);
		put64(w, outer + 16, two ? leaf : outer);
		world__sample(w);
		check_sane(w);
		check(w, is_part(w));
		world__free(w);
	}
}

static void test_bad_frames(void **state)
{
	(void)state;
	for (int c = 0; c < CHAIN_CNT; c++) {
		struct world *w = BUILD((enum chain_case)c, ROOT, { FN_EVAL, 4 }, { FN_C });
		__u64 code = w->frame[1] + w->interp.layout.frame_code;

		put64(w, code, w->tstate); /* not a code object */
		check_lost(w, MARK_PY_BAD_CODE, 2);
		put64(w, code, 0); /* NULL */
		check_lost(w, MARK_PY_BAD_CODE, 2);
		put64(w, code, 1); /* NULL, tagged */
		check_lost(w, MARK_PY_BAD_CODE, 2);
		put64(w, code, 0x1000);
		check_lost(w, MARK_PY_BAD_CODE, 2);
		put64(w, w->frame[3] + w->interp.layout.frame_code, 0); /* the innermost */
		check_lost(w, MARK_PY_BAD_CODE, 0);
		put64(w, back_of(w, w->frame[3]), 0x1001);
		put64(w, w->frame[3] + w->interp.layout.frame_code, w->codes[1]);
		world__sample(w);
		check_sane(w);
		check(w, w->walk->python.marker == MARKER_WORD(MARK_PY_READ_FAILED, 0));
		world__free(w);
	}
}

/* ---- truncation ------------------------------------------------------------------------------ */

static void test_truncated_python(void **state)
{
	(void)state;
	for (int c = CHAIN_311; c <= CHAIN_315; c++) {
		struct world *w =
			BUILD((enum chain_case)c, ROOT, { FN_EVAL, WORLD_DEPTH + 50 }, { FN_C });

		check_lost(w, MARK_PY_TRUNCATED, WORLD_DEPTH);
		check(w, w->walk->flags & WALK_TRUNCATED && w->walk->flags & WALK_NATIVE_END);
		fail_each_read(w, 97);
		world__free(w);
	}
}

/* One activation per frame; the native stack is cut first, or the segments are. */
static void run_deep(enum chain_case chain, __u32 depth, enum fn between)
{
	struct act acts[2 * (WORLD_DEPTH + 100) + 2] = { { .fn = FN_START }, { .fn = FN_MAIN } };
	struct world *w;
	__u32 n = 2;

	for (__u32 i = 0; i < depth; i++) {
		acts[n++] = (struct act){ .fn = FN_EVAL, .py = 1 };
		if (between)
			acts[n++] = (struct act){ .fn = between };
	}
	w = world__build(chain, acts, n);
	world__sample(w);
	check_sane(w);
	check(w, is_part(w));
	check(w, w->walk->python.cnt == (depth < WORLD_DEPTH ? depth : WORLD_DEPTH));
	check(w, is_exact(w, 0) || w->walk->flags & WALK_TRUNCATED ||
			 marker_cnt(w, MARKER_WORD(MARK_PY_UNMERGED, 0)));
	/* the innermost 200 activations are where they belong */
	for (__u32 i = 0, at = 0; i < w->item_cnt && at < 200; i++)
		if (!w->item[i].replaced)
			check(w, same_frame(w, out_word(w, at++), &w->item[i], 0));
	fail_each_read(w, 97);
	world__free(w);
}

static void test_truncated_native(void **state)
{
	(void)state;
	for (int c = 0; c < CHAIN_CNT; c++)
		run_deep((enum chain_case)c, WORLD_DEPTH / 2 + 50, FN_C);
}

static void test_truncated_segments(void **state)
{
	(void)state;
	for (int c = 0; c < CHAIN_CNT; c++)
		run_deep((enum chain_case)c, WORLD_DEPTH + 50, FN_START);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recursion),
		cmocka_unit_test(test_frames_read_at_once),
		cmocka_unit_test(test_nesting_leaf_native),
		cmocka_unit_test(test_nesting_leaf_python),
		cmocka_unit_test(test_root_without_address),
		cmocka_unit_test(test_not_started),
		cmocka_unit_test(test_thread_bytecode),
		cmocka_unit_test(test_init_shim_is_hidden),
		cmocka_unit_test(test_entering_and_leaving),
		cmocka_unit_test(test_activation_without_frame),
		cmocka_unit_test(test_310_cframe_unlinked),
		cmocka_unit_test(test_phantom),
		cmocka_unit_test(test_phantom_39),
		cmocka_unit_test(test_pseudo_27),
		cmocka_unit_test(test_not_executing),
		cmocka_unit_test(test_traced_call),
		cmocka_unit_test(test_thread_without_state),
		cmocka_unit_test(test_python_not_initialised),
		cmocka_unit_test(test_other_states_in_list),
		cmocka_unit_test(test_several_interpreters),
		cmocka_unit_test(test_interpreters_nested),
		cmocka_unit_test(test_interpreter_run_elsewhere),
		cmocka_unit_test(test_starting_thread),
		cmocka_unit_test(test_state_list_cycles),
		cmocka_unit_test(test_cycles),
		cmocka_unit_test(test_cycle_of_shims),
		cmocka_unit_test(test_cycle_of_cframes),
		cmocka_unit_test(test_bad_frames),
		cmocka_unit_test(test_truncated_python),
		cmocka_unit_test(test_truncated_native),
		cmocka_unit_test(test_truncated_segments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
