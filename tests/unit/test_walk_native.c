/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The walker of native frames on processes made by hand: rules, ends, signals, trampolines, what
 * has no rows. As in test_walk.c, each case runs with each of its reads failing, too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "walk_check.h"

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

static void test_shim_jump(void **state)
{
	(void)state;
	run_shim_jumps();
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_native_rules),	  cmocka_unit_test(test_signals),
		cmocka_unit_test(test_frame_pointer),	  cmocka_unit_test(test_native_ends_early),
		cmocka_unit_test(test_trampolines),	  cmocka_unit_test(test_clone),
		cmocka_unit_test(test_stack_base),	  cmocka_unit_test(test_entry),
		cmocka_unit_test(test_leaf_without_rows), cmocka_unit_test(test_behind_call),
		cmocka_unit_test(test_shim_jump),	  cmocka_unit_test(test_unreadable_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
