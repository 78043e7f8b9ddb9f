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

/* ---- places that are known ------------------------------------------------------------------- */

static void sample_again(struct world *w)
{
	world__clear(w);
	world__sample(w);
	check_sane(w);
}

/* What was remembered for one address is asked for at another: where two share a slot. */
static void places_are_told_apart(struct world *w)
{
	struct known_place places[PLACE_SLOTS];

	memcpy(places, w->places, sizeof(places));
	for (int i = 0; i < PLACE_SLOTS; i++) {
		for (int k = 0; k < PLACE_SLOTS; k++)
			w->places[k] = places[i];
		sample_again(w);
		check(w, is_exact(w, 0));
	}
	memcpy(w->places, places, sizeof(places));
}

static void test_known_places(void **state)
{
	struct world *w =
		BUILD(CHAIN_313, ROOT, { FN_CSAVE }, { FN_EVAL, .py = 2 }, { FN_CFP }, { FN_C });

	(void)state;
	expect_built(w);
	places_are_told_apart(w);
	w->map[0].file++; /* another library is mapped where this one was */
	sample_again(w);
	for (__u32 i = 0; i < w->out->cnt; i++)
		check(w, FRAME_TAG(out_word(w, i)) != FRAME_NATIVE ||
				 NATIVE_FILE(out_word(w, i)) == TEXT_FILE + 1);
	w->map[0].end = w->map[0].start; /* something that BPF does not know yet */
	sample_again(w);
	check(w, FRAME_TAG(out_word(w, 0)) == FRAME_ANON && w->walk->flags & WALK_NATIVE_LOST);
	world__free(w);
}

static int is_recalled(const struct world *w, __u64 word)
{
	const struct recall *r = &w->walk->recall;

	for (__u32 i = 0; i < r->place_cnt && i < RECALL_SLOTS; i++)
		if (w->places[r->place[i]].word == word)
			return 1;
	return 0;
}

/* What the next sample asks for at once is where this one found its code objects and places. */
static void test_slots_are_noted(void **state)
{
	struct world *w =
		BUILD(CHAIN_313, ROOT, { FN_CSAVE }, { FN_EVAL, .py = 1 }, { FN_CFP }, { FN_C });
	const struct recall *r = &w->walk->recall;

	(void)state;
	sample_again(w); /* what is known from now on */
	sample_again(w);
	assert_int_equal(r->code_cnt, 1);
	assert_int_equal(code_slot(r->code[0])->addr, w->codes[0]);
	assert_int_equal(r->place_cnt, w->walk->native_cnt);
	for (__u32 i = 1; i < r->place_cnt; i++) /* the leaf's is another's by now: there are few */
		assert_true(is_recalled(w, w->deep[deep_at(DEEP_NATIVE, i)]));
	world__free(w);
}

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
			k->regs[i] += i == RSP || i == RBP ? 0 : (__u64)i * 3;
		memcpy(regs, k->regs, sizeof(regs));
		cframe_below_setup(0);
		check(w, k->cframe);
		check(w, !memcmp(regs, k->regs, sizeof(regs)));
		check(w, k->pc == w->pc && k->sp == w->sp && k->fp == w->fp && k->exact_pc);
		check(w, !k->native_cnt && !k->eval_cnt && !k->seg_next && !k->flags);
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
		check(w,
		      w->walk->py_cnt == 0 && w->walk->py_marker == MARKER_WORD(MARK_PY_SETUP, 0));
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
		check(w,
		      w->walk->py_cnt == 1 && w->walk->py_marker == MARKER_WORD(MARK_PY_SETUP, 0));
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
		check(w,
		      w->walk->py_cnt == 2 && w->walk->py_marker == MARKER_WORD(MARK_PY_SETUP, 0));
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
	check(w, !w->walk->compiled && w->walk->py_cnt == 2);
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
			check(w, w->walk->py_cnt == 1 && w->walk->run_cnt == 1);
			check(w, !!w->walk->compiled == cases[i].is);
		}
		put64(w, field, 0);
		world__sample(w);
		check(w, !w->walk->compiled);
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
		check(w, w->walk->run_cnt == 2 && w->walk->py_cnt == 6);
		check(w, w->walk->interp_id == (inner_too ? 7 : 0));
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
			check(w, w->walk->run_cnt == 1);
			check(w, w->walk->interp_id == (ours ? 7 : 0));
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
		check(w, w->walk->py_cnt == 0 && w->walk->flags & WALK_PY_LOST);
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
	check(w, w->walk->py_cnt == py_cnt && MARKER_WHY(w->walk->py_marker) == why);
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
		check(w, w->walk->py_cnt == WORLD_DEPTH && w->walk->flags & WALK_TRUNCATED);
		check(w, w->walk->py_marker == MARKER_WORD(MARK_PY_TRUNCATED, 0));
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
		check(w, w->walk->py_marker == MARKER_WORD(MARK_PY_READ_FAILED, 0));
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
	check(w, w->walk->py_cnt == (depth < WORLD_DEPTH ? depth : WORLD_DEPTH));
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

/* ---- native ---------------------------------------------------------------------------------- */

static void test_native_rules(void **state)
{
	(void)state;
	RUN_ALL(ROOT, { FN_C }, { FN_CSAVE }, { FN_CFP }, { FN_C });
	RUN_ALL(ROOT, { FN_CFP }, { FN_DRAP }, { FN_C }, { FN_CFP });
	RUN_ALL(ROOT, { FN_CFP }, { FN_EVAL, 2 }, { FN_DRAP });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_PLT });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_PLT_PUSHED });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_LEAFREG });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_INDEX });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_KEPT }, { FN_C });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_DRAP_END });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_RESOLVE });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_C }, { FN_RESOLVE }, { FN_C });
	RUN_ALL(ROOT, { FN_RESOLVE }, { FN_BXSAVE }, { FN_EVAL, 2 }, { FN_RESOLVE }, { FN_BXSAVE },
		{ FN_C }, { FN_BXSAVE });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_RESOLVE }, { FN_C }, { FN_SIGRET }, { FN_BXSAVE });
}

static void test_signals(void **state)
{
	(void)state;
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_CFP }, { FN_SIGRET }, { FN_C }, { FN_EVAL, 1 },
		{ FN_C });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_LEAFREG }, { FN_SIGRET }, { FN_C });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_CFP }, { FN_SIGRET_ALT }, { FN_C }, { FN_CFP });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_C }, { FN_EVAL, 2 }, { FN_SIGRET_ALT }, { FN_C });
}

static void test_frame_pointer(void **state)
{
	struct world *w;

	(void)state;
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_CFP }, { FN_LIB_FP }, { FN_LIB_FP });
	RUN_ALL(ROOT, { FN_CFP }, { FN_LIB_FP }, { FN_C }, { FN_EVAL, 1 }, { FN_C });
	/* An address of code is no return address unless a call is before it. */
	w = BUILD(CHAIN_313, ROOT, { FN_CFP }, { FN_LIB_FP, 0, ACT_STOP, MARK_NO_UNWIND_INFO });
	memset(w->insn[FN_CFP], 0x90, 16);
	run_built(w);
}

/* Every form of a call, and what only looks like one. */
static void test_behind_call(void **state)
{
	static const struct {
		char insn[8];
		int is_call;
	} cases[] = {
		{ "\x90\x90\xe8\x01\x02\x03\x04", 1 }, /* call rel32 */
		{ "\x90\x90\x90\x90\x90\xff\xd0", 1 }, /* call *%rax */
		{ "\x90\x90\x90\x90\x41\xff\xd4", 1 }, /* call *%r12 */
		{ "\x90\x90\x90\x90\xff\x50\x08", 1 }, /* call *8(%rax) */
		{ "\x90\x90\x90\xff\x54\xc8\x08", 1 }, /* call *8(%rax,%rcx,8) */
		{ "\x90\xff\x15\x01\x02\x03\x04", 1 }, /* call *GOT(%rip) */
		{ "\xff\x94\xc8\x01\x02\x03\x04", 1 }, /* call *disp32(%rax,%rcx,8) */
		{ "\x90\x90\x90\x90\x90\x90\x90", 0 },
		{ "\x90\x90\xe9\x01\x02\x03\x04", 0 }, /* jmp rel32 */
		{ "\x90\x90\x90\x90\x90\xff\xe0", 0 }, /* jmp *%rax */
		{ "\x90\xff\x25\x01\x02\x03\x04", 0 }, /* jmp *GOT(%rip) */
	};
	struct world *w = BUILD(CHAIN_313, ROOT, { FN_C });

	(void)state;
	for (size_t i = 0; i < CNT(cases); i++) {
		memcpy(w->insn[FN_C], cases[i].insn, 7);
		check(w, !arch_is_call_before(fn_addr(FN_C) + CALL_AT) == !cases[i].is_call);
	}
	check(w, !arch_is_call_before(NO_MAP));
	world__free(w);
}

static void test_native_ends_early(void **state)
{
	(void)state;
	/* from 3.10 on the inner activation would teach the way across */
	RUN_ON(CHAIN_39, ROOT, { FN_EVAL, 2 }, { FN_LIB, 0, ACT_STOP, MARK_NO_UNWIND_INFO },
	       { FN_C }, { FN_EVAL, 2 }, { FN_C });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_LIB, 0, ACT_STOP, MARK_NO_UNWIND_INFO }, { FN_C });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_BADCFA, 0, ACT_STOP, MARK_BAD_FRAME }, { FN_C });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_LEAFREG, 0, ACT_STOP, MARK_NO_UNWIND_INFO }, { FN_C });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_RESOLVE, 0, ACT_STOP, MARK_NO_UNWIND_INFO },
		{ FN_BXLOST }, { FN_C });
	RUN_ALL(ROOT, { FN_UNMAPPED, 0, ACT_STOP, MARK_UNMAPPED }, { FN_C }, { FN_EVAL, 2 });
	RUN_ALL(ROOT, { FN_ANON, 0, ACT_STOP, MARK_NO_UNWIND_INFO }, { FN_C });
}

/* Code without rows that shows at its return address how it returns. */
static void test_trampolines(void **state)
{
	(void)state;
	RUN_ALL(ROOT, { FN_EVAL, 1 }, { FN_CFP }, { FN_TRAMP }, { FN_EVAL, 1 }, { FN_C },
		{ FN_TRAMP }, { FN_EVAL, 1 });
	RUN_ALL(ROOT, { FN_EVAL, 1 }, { FN_CFP }, { FN_TRAMP_312 }, { FN_EVAL, 1 }, { FN_C },
		{ FN_TRAMP_312 }, { FN_EVAL, 1 });
}

/* glibc's clone(): in its caller the leaf, in the new thread the outermost frame. */
static void test_clone(void **state)
{
	struct world *w;

	(void)state;
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_CFP }, { FN_CLONE });
	w = BUILD(CHAIN_313, { FN_CLONE });
	w->regs[0] = 0;
	run_built(w);
	/* Right behind other instructions: nothing is known. */
	w = BUILD(CHAIN_313, ROOT, { FN_CLONE, 0, ACT_STOP, MARK_NO_UNWIND_INFO });
	memset(w->insn[FN_CLONE], 0x90, 2);
	run_built(w);
}

/* musl's start code has no rows: whatever called from the base of the stack is the root. */
static void test_stack_base(void **state)
{
	struct world *w;

	(void)state;
	for (int c = 0; c < CHAIN_CNT; c++) {
		w = BUILD((enum chain_case)c, { FN_LIB }, { FN_MAIN }, { FN_EVAL, 2 }, { FN_CFP });
		w->start_sp = STACK_BASE + STACK_SIZE - 256;
		run_built(w);
		w = BUILD((enum chain_case)c, { FN_LIB, 0, ACT_STOP, MARK_NO_UNWIND_INFO },
			  { FN_MAIN }, { FN_EVAL, 2 }, { FN_CFP });
		w->start_sp = STACK_BASE + STACK_SIZE - 256 + BASE_ROOM;
		run_built(w);
	}
	/* Frame pointers lead further. */
	w = BUILD(CHAIN_313, ROOT, { FN_CFP }, { FN_LIB_FP }, { FN_LIB_FP }, { FN_C });
	w->start_sp = STACK_BASE + STACK_SIZE - 256;
	run_built(w);
	/* A leaf stands anywhere in its function, and has callers. */
	w = BUILD(CHAIN_313, ROOT, { FN_LIB, 0, ACT_STOP, MARK_NO_UNWIND_INFO });
	w->start_sp = STACK_BASE + STACK_SIZE - 256;
	run_built(w);
	/* It is no root while Python frames are left. */
	w = BUILD(CHAIN_313, ROOT, { FN_EVAL, 1 }, { FN_ANON }, { FN_C });
	w->start_sp = STACK_BASE + STACK_SIZE - 256;
	w->interp.anchor_delta = SHIM_BELOW;
	w->interp.anchor_fp_off = -16;
	run_built(w);
}

/*
 * Where the process began there is nothing below, whatever the code is: ld.so's _start has no rows.
 */
static void test_entry(void **state)
{
	struct world *w;

	(void)state;
	RUN_ALL({ FN_ENTRY }, { FN_C }, { FN_CSAVE });
	RUN_ALL({ FN_ENTRY });
	/* Rows say nothing where the stack pointer is another one. */
	w = BUILD(CHAIN_313, { FN_ENTRY, 0, ACT_STOP, MARK_NO_UNWIND_INFO }, { FN_C });
	w->start_sp -= ENTRY_ROOM;
	run_built(w);
	/* The page of the interpreter's state was never touched: there is no Python yet. */
	w = BUILD(CHAIN_313, { FN_ENTRY }, { FN_C });
	world__hole(w, w->runtime, 8);
	world__sample(w);
	check(w, is_exact(w, 0) && !(w->walk->flags & WALK_PY_LOST));
	world__free(w);
	w = BUILD(CHAIN_313, { FN_ENTRY }, { FN_EVAL, 1 }, { FN_C });
	world__hole(w, w->runtime, 8);
	world__sample(w);
	check(w, w->walk->flags & WALK_PY_LOST);
	world__free(w);
}

/* A leaf whose rows end with its system call, and one that has pushed nothing. */
static void test_leaf_without_rows(void **state)
{
	struct world *w;

	(void)state;
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_CFP }, { FN_SYSCALL });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_CFP }, { FN_FIRST_INSN });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_CFP }, { FN_VFORK });
	w = BUILD(CHAIN_313, ROOT, { FN_FIRST_INSN, 0, ACT_STOP, MARK_NO_UNWIND_INFO });
	memset(w->insn[FN_FIRST_INSN], 0x90, 4);
	run_built(w);
}

/*
 * Code without rows, called by the eval loop: the anchor leads across, once its distance is known.
 */
static void test_shim_jump(void **state)
{
	(void)state;
	for (int c = CHAIN_310; c <= CHAIN_315; c++) {
		struct world *w =
			BUILD((enum chain_case)c, ROOT, { FN_CFP }, { FN_EVAL, 2 }, { FN_C },
			      { FN_EVAL, 2 }, { FN_C, 0, ACT_JUMPED }, { FN_ANON });
		int by_cframe = c == CHAIN_310 || c == CHAIN_311;

		w->interp.anchor_delta = by_cframe ? CFR_BELOW : SHIM_BELOW;
		w->interp.anchor_fp_off = -16;
		expect_built(w);
		check(w, w->walk->flags & WALK_SHIM_JUMP);
		check(w, !(w->walk->flags & WALK_SKIPPED)); /* no file's code */
		fail_each_read(w, 1);
		world__free(w);
	}
}

static void test_unreadable_stack(void **state)
{
	struct world *w = BUILD(CHAIN_313, ROOT, { FN_C }, { FN_C });

	(void)state;
	world__hole(w, w->sp + 48, 8); /* of the second C function: its return address */
	world__sample(w);
	check_sane(w);
	check(w, is_part(w));
	world__free(w);
}

/* ---- identity of code objects ---------------------------------------------------------------- */

static __u64 id_of(struct world *w, __u64 code)
{
	struct walk *k = w->walk;

	world__load(w); /* else it may have been seen in this sample */
	if (code_identify(k, code))
		return 0;
	return k->code_id;
}

static void test_code_identity(void **state)
{
	(void)state;
	for (int c = 0; c < CHAIN_CNT; c++) {
		struct world *w = BUILD((enum chain_case)c, ROOT, { FN_C });
		const struct py_layout *lay = &w->interp.layout;
		__u64 code = w->codes[1], name = get64(w, code + lay->code_name);
		__u64 file = get64(w, code + lay->code_filename);
		__u64 lines = get64(w, code + lay->code_linetable);
		__u64 chars = lay->str == PY_STR_BYTES ? lay->bytes_data : lay->str_ascii;
		__u64 id = id_of(w, code), now;

		check(w, id && id_of(w, code) == id);
		check(w, id_of(w, w->codes[2]) != id && id_of(w, code) == id);
		if (lay->code_version != PY_OFF_NONE) {
			put32(w, code + lay->code_version, 4000);
			check(w, (now = id_of(w, code)) && now != id);
			put32(w, code + lay->code_version, 0); /* numbers ran out */
			id = id_of(w, code);
		}
		/* what lies behind the objects belongs to others */
		put64(w, name + ((chars + 16 + 7) & ~7ULL), 77);
		put64(w, file + ((chars + 15 + 7) & ~7ULL), 77);
		put64(w, lines + ((lay->bytes_data + 20 + 7) & ~7ULL), 77);
		check(w, id_of(w, code) == id);
		put8(w, name + chars + 2, 'X');
		check(w, (now = id_of(w, code)) && now != id);
		id = now;
		put8(w, file + chars + 14, 'X');
		check(w, (now = id_of(w, code)) && now != id);
		id = now;
		put8(w, lines + lay->bytes_data + 19, 0xff);
		check(w, (now = id_of(w, code)) && now != id);
		id = now;
		put64(w, lines + lay->bytes_size, 21);
		check(w, (now = id_of(w, code)) && now != id);
		id = now;
		put32(w, code + lay->code_firstlineno, 4711);
		check(w, (now = id_of(w, code)) && now != id);
		world__free(w);
	}
}

/* Of functions that are announced already. */
static __u64 reads_again(struct world *w)
{
	world__sample(w);
	world__sample(w);
	return w->reads;
}

/*
 * The functions of one file share its name: up to 3.11, where names are read, it is read once a
 * sample.
 */
static void test_shared_file_name(void **state)
{
	struct world *w = BUILD(CHAIN_39, ROOT, { FN_EVAL, 10 });
	const struct py_layout *lay = &w->interp.layout;
	__u64 ten = reads_again(w);

	(void)state;
	for (int i = 1; i < 10; i++)
		put64(w, w->codes[i] + lay->code_filename,
		      get64(w, w->codes[0] + lay->code_filename));
	assert_int_equal(ten - reads_again(w), 9);
	world__free(w);
}

/* While the only interpreter makes no code object, what was seen before is not read again. */
static void test_code_epochs(void **state)
{
	struct world *w = BUILD(CHAIN_313, ROOT, { FN_EVAL, 1 });
	__u64 count = w->interp_state + 56, other = heap_alloc(w, 64);
	__u64 version = w->codes[0] + w->interp.layout.code_version, id;

	(void)state;
	w->interp.layout.interp_codes = 56 / 8;
	put64(w, count, 100);
	world__sample(w);
	id = w->walk->code_id;
	put32(w, version, 4000);
	world__sample(w);
	assert_true(id && w->walk->code_id == id);
	put64(w, count, 101);
	world__sample(w);
	assert_true(w->walk->code_id != id);
	id = w->walk->code_id;
	/* Another interpreter may have made it, or there are no numbers any more. */
	put64(w, other + 56, 101);
	put64(w, w->interp_state + w->interp.layout.interp_next, other);
	world__sample(w);
	put32(w, version, 4001);
	world__sample(w);
	assert_true(w->walk->code_id != id);
	id = w->walk->code_id;
	put64(w, w->interp_state + w->interp.layout.interp_next, 0);
	put64(w, count, 0);
	world__sample(w);
	put32(w, version, 4002);
	world__sample(w);
	assert_true(w->walk->code_id != id);
	world__free(w);
}

/* Samples the thread after another process's, when the slots are that one's. */
static __u64 id_by_row(struct world *w)
{
	memset(w->known_codes, 0, sizeof(w->known_codes));
	w->by_row = 1;
	world__sample(w);
	return w->walk->code_id;
}

static struct row_code *in_row(struct world *w, __u64 id)
{
	struct row_code *all = w->code_rows[w->row].line[0];

	for (int i = 0; i < ROW_LINES * LINE_CODES; i++)
		if (all[i].tag && (all[i].id & FRAME_PYTHON_CODE) == id)
			return &all[i];
	return NULL;
}

/*
 * A thread's row holds what it was seen with, for as long as no code object is made; another's is
 * not believed.
 */
static void test_code_rows(void **state)
{
	struct world *w = BUILD(CHAIN_313, ROOT, { FN_EVAL, 1 });
	__u64 count = w->interp_state + 56, version = w->codes[0] + w->interp.layout.code_version;
	struct row_code *entry;
	__u64 id;

	(void)state;
	w->interp.layout.interp_codes = 56 / 8;
	put64(w, count, 100);
	id = id_by_row(w);
	entry = in_row(w, id);
	assert_non_null(entry);
	put32(w, version, 4000); /* not read again */
	assert_int_equal(id_by_row(w), id);
	/* Another thread has written one half of it. */
	entry->id ^= 1ULL << ROW_ID_SHIFT;
	assert_int_not_equal(id_by_row(w), id);
	id = w->walk->code_id;
	in_row(w, id)->tag++;
	put32(w, version, 4001);
	assert_int_not_equal(id_by_row(w), id);
	id = w->walk->code_id;
	w->row = 1;
	put32(w, version, 4002);
	assert_int_not_equal(id_by_row(w), id);
	id = w->walk->code_id;
	put64(w, count, 101);
	put32(w, version, 4003);
	assert_int_not_equal(id_by_row(w), id);
	world__free(w);
}

static __u64 id_by_slot(struct world *w)
{
	w->by_row = 0;
	world__sample(w);
	return w->walk->code_id;
}

/*
 * The slots come first for the process that had the CPU before, a row behind another process; each
 * helps out.
 */
static void test_rows_and_slots(void **state)
{
	struct world *w = BUILD(CHAIN_313, ROOT, { FN_EVAL, 1 });
	__u64 version = w->codes[0] + w->interp.layout.code_version, by_row, by_slot;

	(void)state;
	w->interp.layout.interp_codes = 56 / 8;
	put64(w, w->interp_state + 56, 100);
	by_row = id_by_row(w);
	memset(w->known_codes, 0, sizeof(w->known_codes));
	put32(w, version, 4000);
	assert_int_equal(id_by_slot(w), by_row);
	/* Which is a slot's now. */
	memset(w->code_rows, 0, sizeof(w->code_rows));
	put32(w, version, 4001);
	assert_int_equal(id_by_slot(w), by_row);
	/* And a row's again. */
	w->by_row = 1;
	world__sample(w);
	assert_int_equal(w->walk->code_id, by_row);
	assert_non_null(in_row(w, by_row));
	/* In a slot there is something else than in the row. */
	in_row(w, by_row)->tag++;
	memset(w->known_codes, 0, sizeof(w->known_codes));
	put32(w, version, 4002);
	by_slot = id_by_slot(w);
	assert_int_not_equal(by_slot, by_row);
	in_row(w, by_slot)->tag = 0;
	in_row(w, by_row)->tag--;
	assert_int_equal(id_by_slot(w), by_slot);
	w->by_row = 1;
	world__sample(w);
	assert_int_equal(w->walk->code_id, by_row);
	world__free(w);
}

/* What a slot has from a row is known for this epoch only. */
static void test_slot_from_row(void **state)
{
	struct world *w = BUILD(CHAIN_313, ROOT, { FN_EVAL, 1 });
	__u64 version = w->codes[0] + w->interp.layout.code_version, id;

	(void)state;
	w->interp.layout.interp_codes = 56 / 8;
	put64(w, w->interp_state + 56, 100);
	id = id_by_row(w);
	memset(w->known_codes, 0, sizeof(w->known_codes));
	assert_int_equal(id_by_slot(w), id);
	put64(w, w->interp_state + 56, 101);
	assert_int_equal(id_by_slot(w), id); /* read again, and the same */
	put64(w, w->interp_state + 56, 102);
	put32(w, version, 4000);
	assert_int_not_equal(id_by_slot(w), id);
	world__free(w);
}

/* The last frame of the stack is in its row; the innermost always is. */
static int outermost_in_row(struct world *w)
{
	__u64 outermost, innermost;
	int found;

	w->interp.layout.interp_codes = 56 / 8;
	put64(w, w->interp_state + 56, 100);
	id_by_row(w);
	innermost = PYTHON_CODE(w->deep[deep_at(DEEP_PY, 0)]);
	outermost = PYTHON_CODE(w->deep[deep_at(DEEP_PY, w->walk->py_cnt - 1)]);
	assert_int_not_equal(innermost, outermost);
	assert_non_null(in_row(w, innermost));
	found = in_row(w, outermost) != NULL;
	world__free(w);
	return found;
}

/* A row is of the innermost frames. */
static void test_deep_row(void **state)
{
	(void)state;
	assert_true(outermost_in_row(
		BUILD(CHAIN_313, ROOT, { FN_EVAL, 1 }, { FN_EVAL, ROW_FRAMES - 1, ACT_RECURSE })));
	assert_false(outermost_in_row(
		BUILD(CHAIN_313, ROOT, { FN_EVAL, 1 }, { FN_EVAL, ROW_FRAMES, ACT_RECURSE })));
}

/*
 * A full line loses one for another; who comes round in a line of one too many is found now and
 * then.
 */
static void test_full_line(void **state)
{
	struct row_code line[LINE_CODES] = {};
	struct walk w = {};
	__u32 found = 0;

	(void)state;
	for (__u64 i = 1; i <= LINE_CODES; i++) {
		w.code_id = i;
		add_to_row(&w, line, i << 36 | i);
	}
	for (__u64 i = 1; i <= LINE_CODES; i++) {
		assert_true(find_in_row(&w, line, i << 36 | i));
		assert_int_equal(w.code_id, i);
	}
	for (w.sample = 0; w.sample < 100; w.sample++)
		for (__u64 i = 1; i <= LINE_CODES + 1; i++) {
			w.code_id = i;
			if (find_in_row(&w, line, i << 36 | i))
				found++;
			else
				add_to_row(&w, line, i << 36 | i);
			assert_true(find_in_row(&w, line, i << 36 | i));
			assert_int_equal(w.code_id, i);
		}
	assert_true(found > 100);
	/* Those of an old epoch go. */
	for (w.sample = 0; w.sample < 100; w.sample++)
		for (__u64 i = 11; i < 11 + LINE_CODES; i++)
			if (!find_in_row(&w, line, i << 36 | i))
				add_to_row(&w, line, i << 36 | i);
	for (__u64 i = 11; i < 11 + LINE_CODES; i++)
		assert_true(find_in_row(&w, line, i << 36 | i));
}

/* An epoch of one count of the interpreter and of user space is never that of another. */
static void test_epochs_differ(void **state)
{
	struct world *w = BUILD(CHAIN_313, ROOT, { FN_EVAL, 1 });
	__u64 epochs[64];

	(void)state;
	w->interp.layout.interp_codes = 56 / 8;
	for (__u32 i = 0; i < 64; i++) {
		put64(w, w->interp_state + 56, 100 + i % 8);
		w->code_epoch = i / 8;
		world__sample(w);
		epochs[i] = w->walk->epoch;
		assert_true(epochs[i] & EPOCH_HASH);
		for (__u32 k = 0; k < i; k++)
			assert_int_not_equal(epochs[i], epochs[k]);
	}
	world__free(w);
}

/* Names that found no room are announced again, though no code object was made. */
static void test_epoch_of_the_unannounced(void **state)
{
	struct world *w = BUILD(CHAIN_313, ROOT, { FN_EVAL, 1 });

	(void)state;
	w->interp.layout.interp_codes = 56 / 8;
	put64(w, w->interp_state + 56, 100);
	w->ring_full = 1;
	world__sample(w);
	assert_int_equal(w->seen_cnt, 0);
	w->ring_full = 0;
	world__sample(w);
	assert_int_equal(w->seen_cnt, 1);
	world__free(w);
}

/* ---- names ----------------------------------------------------------------------------------- */

static struct seen_code *announced(struct world *w, __u64 code)
{
	__u64 id = id_of(w, code);

	check(w, id);
	return world__seen(w, id);
}

static void test_names(void **state)
{
	(void)state;
	for (int c = 0; c < CHAIN_CNT; c++) {
		struct world *w = BUILD((enum chain_case)c, ROOT, { FN_C });
		struct seen_code *s = announced(w, w->codes[4]);

		check(w, s->size[BLOB_NAME] == 16);
		check(w, !memcmp(s->data[BLOB_NAME], "module.function4", 16));
		check(w, !memcmp(s->data[BLOB_FILENAME], "/app/module4.py", 15));
		check(w, s->size[BLOB_LINETABLE] == 20);
		check(w, s->ev.firstlineno == 14 && s->ev.tgid == 4711 && s->ev.space == 5);
		check(w, s->ev.blob[BLOB_NAME].flags == (c == CHAIN_27 ? BLOB_PY2 : BLOB_ASCII));
		check(w, s->ev.blob[BLOB_NAME].size == 16 && s->ev.blob[BLOB_NAME].width == 1);
		check(w,
		      s->ev.blob[BLOB_LINETABLE].size == 20 && !s->ev.blob[BLOB_LINETABLE].flags);
		world__free(w);
	}
}

static void test_string_kinds(void **state)
{
	static __u32 text[3000];

	(void)state;
	for (__u32 i = 0; i < 3000; i++)
		text[i] = i * 2654435761U;
	for (int c = 0; c < CHAIN_27; c++)
		for (__u32 kind = 1; kind <= 4; kind *= 2)
			for (__u32 cnt = 0; cnt <= 3000; cnt += cnt < 4 ? 1 : 749) {
				struct world *w = BUILD((enum chain_case)c, ROOT, { FN_C });
				__u64 code = w->codes[4], name;
				struct seen_code *s;

				name = make_str(w, text, cnt, kind, 0);
				set_code(w, code, name, name, get64(w, code + 136), 3, 999);
				put64(w, code + w->interp.layout.code_filename,
				      get64(w, w->codes[5] + w->interp.layout.code_filename));
				s = announced(w, code);
				check(w, s->size[BLOB_NAME] == cnt * kind);
				check(w, s->ev.blob[BLOB_NAME].size == cnt * kind);
				check(w, s->ev.blob[BLOB_NAME].width == kind);
				check(w, !s->ev.blob[BLOB_NAME].flags);
				check(w, !cnt || !memcmp(s->data[BLOB_NAME], text, cnt * kind));
				world__free(w);
			}
}

static void check_missing(struct world *w, __u32 kind)
{
	struct seen_code *s = announced(w, w->codes[4]);

	for (__u32 k = 0; k < BLOB_CNT; k++)
		check(w, !!(s->ev.blob[k].flags & BLOB_MISSING) == (k == kind));
	world__free(w);
}

static void test_missing_names(void **state)
{
	struct world *w;

	(void)state;
	for (int c = 0; c < CHAIN_CNT; c++) {
		const struct py_layout lay = world__layout((enum chain_case)c);
		__u64 long_name;

		w = BUILD((enum chain_case)c, ROOT, { FN_C });
		world__hole(w, get64(w, w->codes[4] + lay.code_filename) + 16, 8);
		check_missing(w, BLOB_FILENAME);
		w = BUILD((enum chain_case)c, ROOT, { FN_C });
		world__hole(w, get64(w, w->codes[4] + lay.code_linetable) + lay.bytes_data + 8, 8);
		check_missing(w, BLOB_LINETABLE);
		w = BUILD((enum chain_case)c, ROOT, { FN_C }); /* longer than the pieces allow */
		long_name = get64(w, w->codes[4] + 136);
		put64(w, long_name + lay.bytes_size, MAX_BLOB_PIECES * BLOB_DATA + 1);
		check_missing(w, BLOB_LINETABLE);
		w = BUILD((enum chain_case)c, ROOT, { FN_C }); /* absurd */
		put64(w, get64(w, w->codes[4] + 136) + lay.bytes_size, ~0ULL);
		check_missing(w, BLOB_LINETABLE);
	}
	w = BUILD(CHAIN_312, ROOT, { FN_C }); /* not compact: the characters are elsewhere */
	put32(w, get64(w, w->codes[4] + 120) + 32, 1 << 2 | 1 << 6);
	check_missing(w, BLOB_NAME);
	w = BUILD(CHAIN_312, ROOT, { FN_C }); /* no such kind */
	put32(w, get64(w, w->codes[4] + 120) + 32, 3 << 2 | 1 << 5 | 1 << 6);
	check_missing(w, BLOB_NAME);
}

/* What could not be announced is announced at its next sight. */
static void test_ring_full(void **state)
{
	struct world *w = BUILD(CHAIN_312, ROOT, { FN_EVAL, 1 });

	(void)state;
	w->ring_full = 1;
	world__sample(w);
	assert_int_equal(w->seen_cnt, 0);
	w->ring_full = 0;
	expect_built(w);
	world__free(w);
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
		cmocka_unit_test(test_native_rules),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_frame_pointer),
		cmocka_unit_test(test_native_ends_early),
		cmocka_unit_test(test_trampolines),
		cmocka_unit_test(test_clone),
		cmocka_unit_test(test_stack_base),
		cmocka_unit_test(test_entry),
		cmocka_unit_test(test_leaf_without_rows),
		cmocka_unit_test(test_behind_call),
		cmocka_unit_test(test_shim_jump),
		cmocka_unit_test(test_unreadable_stack),
		cmocka_unit_test(test_known_places),
		cmocka_unit_test(test_slots_are_noted),
		cmocka_unit_test(test_code_identity),
		cmocka_unit_test(test_shared_file_name),
		cmocka_unit_test(test_code_epochs),
		cmocka_unit_test(test_code_rows),
		cmocka_unit_test(test_rows_and_slots),
		cmocka_unit_test(test_slot_from_row),
		cmocka_unit_test(test_deep_row),
		cmocka_unit_test(test_epochs_differ),
		cmocka_unit_test(test_full_line),
		cmocka_unit_test(test_epoch_of_the_unannounced),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_string_kinds),
		cmocka_unit_test(test_missing_names),
		cmocka_unit_test(test_ring_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
