/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_WALK_ARM64_H
#define PYPERF_WALK_ARM64_H
/*
 * The machine of walk_world.h, which includes this: aarch64, and of the functions those that have a
 * line here. All but leaves save {x29, x30} somewhere in their frame, and sign x30 before; x30 is
 * overwritten by their next call.
 */

#define X29	    ARCH_REG_FP
#define X30	    30
#define SP	    ARCH_REG_SP
#define EVAL_FP_OFF (-EVAL_SIZE) /* from the CFA of the eval loop's frame */
#define PAC	    (0x2bULL << 48)
#define X30_SAVED   REG_CFA_OFF, REG_CFA_OFF

static const struct unwind_rule fn_rules[FN_TABLE_CNT] = {
	[FN_START] = { .cfa_kind = CFA_END },
	[FN_ROOT0] = { CFA_REG, SP, X30_SAVED, 64, -64, -56, 0 },
	[FN_MAIN] = { CFA_REG, SP, X30_SAVED, 64, -64, -56, 0 },
	[FN_C] = { CFA_REG, SP, X30_SAVED, 48, -48, -40, 0 },
	[FN_CSAVE] = { CFA_REG, SP, X30_SAVED, 80, -32, -24,
		       0 }, /* behind its arguments for others */
	[FN_CFP] = { CFA_REG, X29, X30_SAVED, 32, -32, -24, 0 },
	[FN_EVAL] = { CFA_REG, SP, X30_SAVED, EVAL_SIZE, -EVAL_SIZE, 8 - EVAL_SIZE, 0 },
	[FN_EVAL_COLD] = { CFA_REG, SP, X30_SAVED, EVAL_SIZE, -EVAL_SIZE, 8 - EVAL_SIZE, 0 },
	[FN_SIGRET] = { CFA_SIGNAL, SP, .cfa_off = 128 }, /* as user/elf/cfi_rule.c has it */
	[FN_SIGRET_ALT] = { CFA_SIGNAL, SP, .cfa_off = 128 },
	[FN_SYSCALL] = { CFA_REG, SP, REG_SAME, REG_SAME, 0, 0, 0, 0 },
	[FN_LEAFREG] = { CFA_REG, 20, REG_SAME, REG_SAME, 16, 0, 0, 0 },
	[FN_BASE] = { CFA_BASE, SP, X30_SAVED, 64, -64, -56, 0 },
	[FN_SWITCH] = { CFA_SWITCH, SP, X30_SAVED, 64, -64, -56, 0 },
	[FN_LEAF] = { CFA_REG, SP, REG_SAME, REG_SAME, 0, 0, 0, 0 },
	[FN_UNSAVED] = { CFA_REG, SP, REG_SAME, REG_SAME, 32, 0, 0, 0 },
};

static __u64 insn_at(int fn)
{
	__u64 at = fn_addr((enum fn)fn);

	switch (fn) {
	case FN_SYSCALL:
		return at + FN_LEN - 4;
	case FN_CLONE:
		return at + LEAF_AT - 4;
	case FN_FIRST_INSN:
		return at + LEAF_AT;
	case FN_TRAMP:
		return at + CALL_AT;
	default: /* the call */
		return at + CALL_AT - 4;
	}
}

static void set_insn(struct world *w, enum fn fn, __u32 first, __u32 second)
{
	memcpy(w->insn[fn], &first, 4);
	memcpy(w->insn[fn] + 4, &second, 4);
}

static void make_insns(struct world *w)
{
	for (int fn = 0; fn < FN_UNMAPPED; fn++)
		set_insn(w, (enum fn)fn, 0x97ffff00, 0); /* bl */
	set_insn(w, FN_SYSCALL, 0xd4000001, 0);		 /* svc #0 */
	set_insn(w, FN_CLONE, 0xd4000001, 0);
	set_insn(w, FN_FIRST_INSN, 0xd503245f, 0);     /* bti c */
	set_insn(w, FN_TRAMP, 0xa8c17bfd, 0xd65f03c0); /* ldp x29, x30, [sp], #16; ret */
}

/*
 * The kernel puts siginfo and ucontext on the stack; regs[31], sp, pc are 184 bytes into the
 * latter.
 */
static void add_signal(struct world *w, enum fn fn)
{
	__u64 frame, regs;

	place_last(w, STOP_AT, 1);
	frame = (fn == FN_SIGRET_ALT ? ALT_BASE + ALT_SIZE : w->sp) - 1024;
	regs = frame + 128 + 184;
	for (__u32 i = 0; i < 31; i++)
		put64(w, regs + 8 * i, i == X29 ? w->fp : w->regs[i]);
	put64(w, regs + 8 * 31, w->sp);
	put64(w, regs + 8 * 32, fn_addr(w->last_fn) + STOP_AT);
	w->sp = frame;
	w->fp = w->regs[X30] = JUNK;
}

/* {x29, x30} at `at`; x29 points there, and x30 changes with the next call. */
static void save_record(struct world *w, __u64 at)
{
	put64(w, at, w->fp);
	put64(w, at + 8, w->regs[X30] | PAC);
	w->fp = at;
	w->regs[X30] = JUNK;
}

static void enter_fn(struct world *w, enum fn fn)
{
	__u64 cfa = w->sp;

	place_last(w, CALL_AT, 0);
	w->regs[X30] = w->started ? fn_addr(w->last_fn) + CALL_AT : 0;
	switch (fn) {
	case FN_START:
		w->sp = cfa - 64;
		w->regs[X30] = JUNK;
		break;
	case FN_ROOT0:
	case FN_MAIN:
	case FN_BASE:
	case FN_SWITCH:
		w->sp = cfa - 64;
		save_record(w, w->sp);
		w->base_cframe = fn == FN_BASE ? cfa - 32 : w->base_cframe;
		break;
	case FN_C:
		w->sp = cfa - 48;
		save_record(w, w->sp);
		break;
	case FN_CSAVE: /* x29 is a register like others here */
		w->sp = cfa - 80;
		save_record(w, cfa - 32);
		w->fp = JUNK;
		break;
	case FN_CFP:
		w->sp = cfa - 200;
		save_record(w, cfa - 32);
		break;
	case FN_EVAL:
	case FN_EVAL_COLD:
		w->sp = cfa - EVAL_SIZE;
		save_record(w, w->sp);
		break;
	case FN_LEAFREG:
		w->sp = cfa - 208;
		w->regs[20] = cfa - 16;
		break;
	case FN_LIB_FP:
	case FN_TRAMP:
		w->sp = cfa - 16;
		save_record(w, w->sp);
		break;
	case FN_CLONE:
	case FN_SYSCALL:
		w->regs[0] = (__u64)-38; /* ENOSYS: in the system call */
		break;
	case FN_ENTRY:
		w->start_sp = cfa;
		break;
	case FN_UNSAVED:
		w->sp = cfa - 32;
		break;
	case FN_FIRST_INSN:
	case FN_LEAF:
		break;
	case FN_LIB:
	case FN_ANON:
	case FN_UNMAPPED:
		w->sp = cfa - 64;
		w->fp = w->regs[X30] = JUNK;
		break;
	default:
		abort(); /* the test is wrong */
	}
}

#endif /* PYPERF_WALK_ARM64_H */
