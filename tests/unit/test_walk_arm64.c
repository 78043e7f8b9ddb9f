/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The walkers and the merge, compiled for aarch64, on processes made by hand. What does not depend
 * on the machine is in test_walk.c. As there, each case runs with each of its reads failing, too.
 */
#define PYPERF_ARCH PYPERF_ARM64
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "walk_check.h"

/* ---- frames ---------------------------------------------------------------------------------- */

static void test_frames(void **state)
{
	(void)state;
	RUN_ALL(ROOT, { FN_C });
	RUN_ALL(ROOT, { FN_EVAL, 3 }, { FN_C });
	RUN_ALL(ROOT, { FN_CFP }, { FN_EVAL, 2 }, { FN_CSAVE }, { FN_C }, { FN_EVAL_COLD, 2 });
	RUN_ALL(ROOT, { FN_CSAVE }, { FN_CFP }, { FN_CSAVE }, { FN_CFP }, { FN_EVAL, 1 },
		{ FN_CFP });
	RUN_ALL({ FN_ROOT0 }, { FN_EVAL, 2 }, { FN_C }); /* a return address of 0, signed */
}

/*
 * Places that are known are left by the short way: what frames keep is read at once, not frame by
 * frame.
 */
static void test_known_frames(void **state)
{
	struct world *w =
		BUILD(CHAIN_313, ROOT, { FN_C }, { FN_C }, { FN_CSAVE }, { FN_C }, { FN_C },
		      { FN_CFP }, { FN_C }, { FN_C }, { FN_CSAVE }, { FN_C }, { FN_C });
	__u64 first;

	(void)state;
	world__sample(w);
	first = w->reads;
	world__clear(w);
	world__sample(w);
	check(w, is_exact(w, 0));
	check(w, w->reads < first);
	world__free(w);
}

/* The return address is still in x30, and the function may have no stack at all. */
static void test_leaves(void **state)
{
	(void)state;
	RUN_ALL(ROOT, { FN_LEAF });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_C }, { FN_LEAF });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_LEAF });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_UNSAVED });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_LEAFREG });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_SYSCALL });
}

/* x30 is another function's by then: of a caller that did not save it nothing is known. */
static void test_only_leaf_has_x30(void **state)
{
	(void)state;
	RUN_ON(CHAIN_313, ROOT, { FN_UNSAVED, 0, ACT_STOP, MARK_BAD_FRAME }, { FN_C });
	RUN_ON(CHAIN_313, ROOT, { FN_LEAF, 0, ACT_STOP, MARK_BAD_FRAME }, { FN_C });
}

/* All registers are in the signal's frame: whoever was stopped may be a leaf. */
static void test_signals(void **state)
{
	(void)state;
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_C }, { FN_SIGRET }, { FN_C });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_LEAF }, { FN_SIGRET }, { FN_EVAL, 1 });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_UNSAVED }, { FN_SIGRET }, { FN_C });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_LEAFREG }, { FN_SIGRET }, { FN_C });
	RUN_ALL(ROOT, { FN_C }, { FN_SIGRET_ALT }, { FN_C });
}

static void test_greenlet(void **state)
{
	struct world *w = BUILD(CHAIN_313, { FN_C, 0, ACT_STOP, 0 }, { FN_BASE }, { FN_EVAL, 2 });

	(void)state;
	world__sample(w);
	check_sane(w);
	check(w, w->walk->flags & WALK_GREENLET);
	world__free(w);
	RUN_ON(CHAIN_313, ROOT, { FN_EVAL, 2 }, { FN_C }, { FN_BASE }, { FN_EVAL, 1 });
}

/* ---- code without rows ----------------------------------------------------------------------- */

static void test_leaf_without_rows(void **state)
{
	struct world *w;

	(void)state;
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_CFP }, { FN_FIRST_INSN });
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_CFP }, { FN_CLONE });
	for (int i = 0; i < 2; i++) { /* paciasp; the adrp of a stub of .plt */
		w = BUILD(CHAIN_313, ROOT, { FN_C }, { FN_FIRST_INSN });
		set_insn(w, FN_FIRST_INSN, i ? 0xb0001230 : 0xd503233f, 0);
		run_built(w);
	}
	w = BUILD(CHAIN_313, ROOT, { FN_FIRST_INSN, 0, ACT_STOP, MARK_NO_UNWIND_INFO });
	set_insn(w, FN_FIRST_INSN, 0xd503201f, 0); /* nop */
	w->fp = JUNK;
	run_built(w);
}

/* In a new thread the system call has returned 0. */
static void test_clone(void **state)
{
	struct world *w = BUILD(CHAIN_313, { FN_CLONE });

	(void)state;
	w->regs[0] = 0;
	run_built(w);
}

static void test_frame_pointer(void **state)
{
	(void)state;
	RUN_ON(CHAIN_313, ROOT, { FN_EVAL, 2 }, { FN_LIB_FP }, { FN_C });
	RUN_ON(CHAIN_313, ROOT, { FN_LIB_FP }, { FN_LIB_FP }, { FN_EVAL, 2 });
}

static void test_trampolines(void **state)
{
	(void)state;
	RUN_ALL(ROOT, { FN_EVAL, 2 }, { FN_TRAMP }, { FN_EVAL, 2 }, { FN_C });
}

static void test_entry(void **state)
{
	struct world *w = BUILD(CHAIN_313, { FN_ENTRY }, { FN_C });

	(void)state;
	run_built(w);
}

static void test_shim_jump(void **state)
{
	(void)state;
	run_shim_jumps();
}

static void test_distances_are_learned(void **state)
{
	struct world *w = BUILD(CHAIN_313, ROOT, { FN_EVAL, 2 }, { FN_C });

	(void)state;
	world__sample(w);
	check(w, w->interp.anchor_delta == SHIM_BELOW);
	check(w, w->interp.anchor_fp_off == EVAL_FP_OFF);
	world__free(w);
}

/* ---- verbs ----------------------------------------------------------------------------------- */

/* As llvm-mc assembles them. */
static void test_calls(void **state)
{
	static const struct {
		__u32 insn;
		int is_call;
	} cases[] = {
		{ 0x94000015, 1 }, /* bl */
		{ 0x97ffffff, 1 }, /* bl, backwards */
		{ 0xd63f0060, 1 }, /* blr x3 */
		{ 0xd63f03c0, 1 }, /* blr x30 */
		{ 0xd73f0864, 1 }, /* blraa x3, x4 */
		{ 0xd73f0c64, 1 }, /* blrab x3, x4 */
		{ 0xd63f087f, 1 }, /* blraaz x3 */
		{ 0xd63f0c7f, 1 }, /* blrabz x3 */
		{ 0x14000007, 0 }, /* b */
		{ 0xd61f0200, 0 }, /* br x16 */
		{ 0xd65f03c0, 0 }, /* ret */
		{ 0xd65f0bff, 0 }, /* retaa */
		{ 0xd4000001, 0 }, /* svc #0 */
		{ 0xd503201f, 0 }, /* nop */
		{ 0, 0 },
	};
	struct world *w = BUILD(CHAIN_313, ROOT, { FN_C });

	(void)state;
	for (size_t i = 0; i < CNT(cases); i++) {
		set_insn(w, FN_C, cases[i].insn, 0);
		check(w, arch_is_call_before(fn_addr(FN_C) + CALL_AT) == cases[i].is_call);
	}
	check(w, !arch_is_call_before(NO_MAP));
	world__free(w);
}

static void test_signature(void **state)
{
	(void)state;
	assert_true(arch_code_address(0xaaaad5c40740ULL | PAC) == 0xaaaad5c40740ULL);
	assert_true(arch_code_address(0xaaaad5c40740ULL) == 0xaaaad5c40740ULL);
	assert_true(arch_code_address(PAC) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_known_frames),
		cmocka_unit_test(test_leaves),
		cmocka_unit_test(test_only_leaf_has_x30),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_greenlet),
		cmocka_unit_test(test_leaf_without_rows),
		cmocka_unit_test(test_clone),
		cmocka_unit_test(test_frame_pointer),
		cmocka_unit_test(test_trampolines),
		cmocka_unit_test(test_entry),
		cmocka_unit_test(test_shim_jump),
		cmocka_unit_test(test_distances_are_learned),
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_signature),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
