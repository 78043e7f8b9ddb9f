/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_WALK_X86_H
#define PYPERF_WALK_X86_H
/* The machine of walk_world.h, which includes this: x86-64. */

#define EVAL_FP_OFF (-16) /* from the CFA of the eval loop's frame */

#define RSP	    ARCH_REG_SP
#define RBP	    ARCH_REG_FP
#define RBX	    ARCH_REG_EXTRA
#define R9	    9
#define R11	    11
#define R12	    12

static const struct unwind_rule fn_rules[FN_TABLE_CNT] = {
	[FN_START] = { .cfa_kind = CFA_END },
	[FN_ROOT0] = { CFA_REG, RSP, REG_SAME, REG_CFA_OFF, 64, 0, -8, 0 },
	[FN_MAIN] = { CFA_REG, RSP, REG_SAME, REG_CFA_OFF, 64, 0, -8, 0 },
	[FN_C] = { CFA_REG, RSP, REG_SAME, REG_CFA_OFF, 48, 0, -8, 0 },
	[FN_CSAVE] = { CFA_REG, RSP, REG_CFA_OFF, REG_CFA_OFF, 80, -24, -8, 0 },
	[FN_CFP] = { CFA_REG, RBP, REG_CFA_OFF, REG_CFA_OFF, 16, -16, -8, 0 },
	[FN_EVAL] = { CFA_REG, RSP, REG_CFA_OFF, REG_CFA_OFF, EVAL_SIZE, -16, -8, 0 },
	[FN_EVAL_COLD] = { CFA_REG, RSP, REG_CFA_OFF, REG_CFA_OFF, EVAL_SIZE, -16, -8, 0 },
	[FN_DRAP] = { CFA_DEREF_REG, RBP, REG_FP_OFF, REG_CFA_OFF, -8, 0, -8, 0 },
	[FN_PLT] = { CFA_PLT, RSP, REG_SAME, REG_CFA_OFF, 8, 0, -8, 11 },
	[FN_PLT_PUSHED] = { CFA_PLT, RSP, REG_SAME, REG_CFA_OFF, 8, 0, -8, 11 },
	[FN_SIGRET] = { .cfa_kind = CFA_SIGNAL },
	[FN_SIGRET_ALT] = { .cfa_kind = CFA_SIGNAL },
	[FN_SYSCALL] = { CFA_REG, RSP, REG_SAME, REG_CFA_OFF, 64, 0, -8, 0 },
	[FN_LEAFREG] = { CFA_REG, R12, REG_SAME, REG_CFA_OFF, 8, 0, -8, 0 },
	[FN_KEPT] = { CFA_REG, R11, REG_SAME, REG_CFA_OFF, 8, 0, -8, 0 },
	[FN_DRAP_END] = { CFA_REG, R11, REG_FP_OFF, REG_CFA_OFF, 0, 0, -8, 0 },
	[FN_RESOLVE] = { CFA_REG, RBX, REG_SAME, REG_CFA_OFF, 24, 0, -8, -24 },
	[FN_BXSAVE] = { CFA_REG, RSP, REG_SAME, REG_CFA_OFF, 64, 0, -8, -16 },
	[FN_BXLOST] = { CFA_REG, RSP, REG_SAME, REG_CFA_OFF, 64, 0, -8, UW_EXTRA_LOST },
	[FN_INDEX] = { CFA_DEREF_INDEX, RSP | R9 << 4, REG_SAME, REG_CFA_OFF, 8, 0, -8, 8 },
	[FN_BASE] = { CFA_BASE, RSP, REG_SAME, REG_CFA_OFF, 64, 0, -8, 0 },
	[FN_SWITCH] = { CFA_SWITCH, RSP, REG_SAME, REG_CFA_OFF, 64, 0, -8, 0 },
	[FN_BADCFA] = { CFA_REG, RSP, REG_SAME, REG_CFA_OFF, 0, 0, -8, 0 },
};

static __u64 insn_at(int fn)
{
	__u64 at = fn_addr((enum fn)fn);

	switch (fn) {
	case FN_SYSCALL:
		return at + FN_LEN - 2;
	case FN_CLONE:
	case FN_VFORK:
		return at + LEAF_AT - 2;
	case FN_FIRST_INSN:
		return at + LEAF_AT;
	case FN_TRAMP:
	case FN_TRAMP_312:
		return at + CALL_AT;
	default: /* the call */
		return at + CALL_AT - 7;
	}
}

static void make_insns(struct world *w)
{
	for (int fn = 0; fn < FN_UNMAPPED; fn++)
		memcpy(w->insn[fn], "\x90\x90\xe8", 3); /* call rel32 */
	memcpy(w->insn[FN_SYSCALL], "\x0f\x05", 2);
	memcpy(w->insn[FN_CLONE], "\x0f\x05", 2);
	memcpy(w->insn[FN_VFORK], "\x0f\x05\x57", 3);
	memcpy(w->insn[FN_FIRST_INSN], "\xf3\x0f\x1e\xfa", 4);
	memcpy(w->insn[FN_TRAMP], "\x5d\xc3", 2);
	memcpy(w->insn[FN_TRAMP_312], "\x48\x83\xc4\x08\xc3", 5);
}

static void add_signal(struct world *w, enum fn fn)
{
	__u64 uc, greg;

	place_last(w, STOP_AT, 1);
	uc = (fn == FN_SIGRET_ALT ? ALT_BASE + ALT_SIZE : w->sp - 128) - 1024;
	greg = uc + 40;
	put64(w, greg + 8 * 4, 0x1212); /* r12 */
	if (w->last_fn == FN_LEAFREG)
		put64(w, greg + 8 * 4, w->regs[R12]);
	put64(w, greg + 8 * 10, w->fp);
	put64(w, greg + 8 * 11, w->regs[RBX]);
	put64(w, greg + 8 * 15, w->sp);
	put64(w, greg + 8 * 16, fn_addr(w->last_fn) + STOP_AT);
	w->sp = uc;
	w->fp = w->regs[RBX] = JUNK;
}

static void enter_fn(struct world *w, enum fn fn)
{
	__u64 cfa = w->sp, aligned;

	place_last(w, CALL_AT, 0);
	if (fn != FN_START && fn != FN_ENTRY)
		put64(w, cfa - 8, w->started ? fn_addr(w->last_fn) + CALL_AT : 0);
	w->sp = cfa - 64;
	switch (fn) {
	case FN_C:
		w->sp = cfa - 48;
		break;
	case FN_CSAVE:
		put64(w, cfa - 24, w->fp);
		w->fp = JUNK;
		w->sp = cfa - 80;
		break;
	case FN_CFP:
	case FN_LIB_FP:
		put64(w, cfa - 16, w->fp);
		w->fp = cfa - 16;
		break;
	case FN_TRAMP:
		put64(w, cfa - 16, w->fp);
		w->fp = JUNK; /* it is not needed */
		w->sp = cfa - 16;
		break;
	case FN_TRAMP_312:
		w->sp = cfa - 16;
		break;
	case FN_ENTRY:
		w->sp = w->start_sp = cfa;
		break;
	case FN_VFORK:
		w->regs[0] = 0; /* as in the child */
		w->regs[5] = get64(w, cfa - 8);
		put64(w, cfa - 8, JUNK);
		w->sp = cfa;
		break;
	case FN_FIRST_INSN:
		w->sp = cfa - 8;
		break;
	case FN_CLONE:
		w->regs[0] = (__u64)-38; /* ENOSYS: in the system call */
		w->sp = cfa - 8;
		break;
	case FN_EVAL:
	case FN_EVAL_COLD:
		put64(w, cfa - 16, w->fp);
		w->fp = JUNK;
		w->sp = cfa - EVAL_SIZE;
		break;
	case FN_DRAP:
		aligned = (cfa - 64) & ~63ULL;
		put64(w, aligned, w->fp);
		put64(w, aligned - 8, cfa);
		w->fp = aligned;
		w->sp = aligned - 64;
		break;
	case FN_PLT:
		w->sp = cfa - 8;
		break;
	case FN_PLT_PUSHED:
		w->sp = cfa - 16;
		break;
	case FN_LEAFREG:
		w->regs[R12] = cfa - 8;
		w->sp = cfa - 200;
		break;
	case FN_KEPT:
		w->regs[R11] = cfa - 8;
		w->sp = cfa - 200;
		break;
	case FN_DRAP_END:
		w->regs[R11] = cfa;
		w->fp = JUNK;
		w->sp = cfa - 200;
		break;
	case FN_RESOLVE:
		put64(w, cfa - 24, w->regs[RBX]);
		w->regs[RBX] = cfa - 24;
		w->sp = (cfa - 600) & ~63ULL;
		break;
	case FN_BXSAVE:
		put64(w, cfa - 16, w->regs[RBX]);
		w->regs[RBX] = JUNK;
		break;
	case FN_BXLOST:
		w->regs[RBX] = JUNK;
		break;
	case FN_INDEX:
		w->regs[R9] = 3;
		w->sp = cfa - 200;
		put64(w, w->sp + 8 * 3 + 8, cfa - 8);
		break;
	case FN_BASE:
		w->base_cframe = cfa - 32;
		break;
	case FN_LIB:
	case FN_ANON:
	case FN_UNMAPPED:
		w->fp = JUNK;
		break;
	default:
		break;
	}
}

#endif /* PYPERF_WALK_X86_H */
