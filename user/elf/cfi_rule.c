/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* States of the call frame machine -> rules. See cfi_rule.h. */
#include "elf/cfi_rule.h"

#include <elf.h>

#include "elf/ehframe.h"

#define AARCH64_UCONTEXT 128 /* offset in struct rt_sigframe, behind a siginfo_t */

#define NO_REGISTER	 0xff /* not one of either machine */

static const struct cfi_machine x86_64 = { .reg = { 6, 16, 7, 3 } };
static const struct cfi_machine aarch64 = { .reg = { 29, 30, 31, NO_REGISTER }, .aarch64 = true };

const struct cfi_machine *cfi_machine__of(const struct elf_file *ef)
{
	return elf_file__machine(ef) == EM_AARCH64 ? &aarch64 : &x86_64;
}

/* Finds the place of a saved register, relative to the CFA. */
static bool cfa_relative(const struct cfi_state *st, const struct saved *s, int64_t *off)
{
	*off = s->off;
	if (s->rule == SAVED_CFA)
		return true;
	if (s->rule != SAVED_AT || st->cfa.kind != CFA_REG || s->reg != st->cfa.reg)
		return false;
	*off = (int64_t)((uint64_t)s->off - (uint64_t)st->cfa.off);
	return true;
}

static bool saved_at(const struct saved *s, uint8_t reg, int64_t off)
{
	return s->rule == SAVED_AT && s->reg == reg && s->off == off;
}

/*
 * The return trampoline of a signal handler. x86-64: all registers are said to be in the gregs of
 * the ucontext (glibc sysdeps/unix/sysv/linux/x86_64/libc_sigaction.c; offsets of the kernel's
 * struct sigcontext, asm/sigcontext.h, 40 bytes into struct ucontext). Where that lies from sp is
 * taken from the CFA's expression, and the others must agree. aarch64: the kernel's vdso describes
 * the frame record that it leaves below the frame; the registers themselves are in the ucontext.
 */
static bool signal_rule(const struct cfi_machine *m, const struct cfi_state *st,
			struct packed_rule *rule)
{
	enum { UC_RBP = 120, UC_RSP = 160, UC_RIP = 168 };
	uint8_t sp = m->reg[SLOT_SP];
	int64_t off;

	if (m->aarch64) {
		*rule = (struct packed_rule){ { pack_cfa(CFA_SIGNAL, sp, AARCH64_UCONTEXT) } };
		return true;
	}
	if (st->cfa.kind != CFA_DEREF_REG || st->cfa.reg != sp || st->cfa.add ||
	    !fits32(st->cfa.off))
		return false;
	off = st->cfa.off - UC_RSP;
	if (!fits32(off) || !saved_at(&st->regs[SLOT_FP], sp, off + UC_RBP) ||
	    !saved_at(&st->regs[SLOT_RA], sp, off + UC_RIP) ||
	    !saved_at(&st->regs[SLOT_SP], sp, off + UC_RSP))
		return false;
	*rule = (struct packed_rule){ { pack_cfa(CFA_SIGNAL, sp, off) } };
	return true;
}

/*
 * *lost: saved at a place that a rule cannot express. The walk continues without the register,
 * which most frames do not need.
 */
static inline enum reg_rule fp_rule(const struct cfi_machine *m, const struct cfi_state *st,
				    int64_t *off, bool *lost)
{
	const struct saved *fp = &st->regs[SLOT_FP];
	enum reg_rule rule = REG_UNDEF;

	*off = 0;
	*lost = false;
	if (fp->rule == SAVED_UNSET || fp->rule == SAVED_SAME)
		return REG_SAME;
	if (fp->rule == SAVED_UNDEF)
		return REG_UNDEF;
	if (cfa_relative(st, fp, off))
		rule = REG_CFA_OFF;
	else if (fp->rule == SAVED_AT && fp->reg == m->reg[SLOT_FP])
		rule = REG_FP_OFF;
	if (rule != REG_UNDEF && fits32(*off))
		return rule;
	*off = 0;
	*lost = true;
	return REG_UNDEF;
}

/* For cfa_add of CFA_REG. */
static inline int16_t rbx_rule(const struct cfi_state *st)
{
	const struct saved *rbx = &st->regs[SLOT_RBX];
	int64_t off;

	if (rbx->rule == SAVED_UNSET || rbx->rule == SAVED_SAME)
		return UW_EXTRA_SAME;
	if (!cfa_relative(st, rbx, &off) || off != (int16_t)off || off == UW_EXTRA_SAME ||
	    off == UW_EXTRA_LOST)
		return UW_EXTRA_LOST;
	return (int16_t)off;
}

/* False: not in memory relative to the CFA, nor, on aarch64, still in its register. */
static inline bool ra_rule(const struct cfi_machine *m, const struct cfi_state *st,
			   enum reg_rule *rule, int64_t *off)
{
	const struct saved *ra = &st->regs[SLOT_RA];

	*rule = REG_CFA_OFF;
	if (cfa_relative(st, ra, off) && *off >= INT16_MIN && *off <= INT16_MAX)
		return true;
	*rule = REG_SAME;
	*off = 0;
	return m->aarch64 && (ra->rule == SAVED_UNSET || ra->rule == SAVED_SAME);
}

int cfi_make_other_rule(const struct cfi_machine *m, const struct cfi_state *st, bool signal,
			struct packed_rule *rule, bool *fp_lost)
{
	const struct saved *sp = &st->regs[SLOT_SP];
	const struct cfa *cfa = &st->cfa;
	enum reg_rule fp, ra;
	int64_t fp_off, ra_off;

	if (st->regs[SLOT_RA].rule == SAVED_UNDEF) {
		*rule = (struct packed_rule){ { CFA_END } };
		return 0;
	}
	if (signal && signal_rule(m, st, rule))
		return 0;
	if (cfa->kind == CFA_UNKNOWN)
		return 1 + UNWIND_cfa_expression;
	if (cfa->kind == CFA_UNSET)
		return 1 + UNWIND_damaged;
	if (!fits32(cfa->off))
		return 1 + UNWIND_cfa_range;
	if (sp->rule != SAVED_UNSET && (sp->rule != SAVED_CFA_VALUE || sp->off))
		return 1 + UNWIND_sp_rule;
	if (!ra_rule(m, st, &ra, &ra_off))
		return 1 + UNWIND_ra_rule;
	fp = fp_rule(m, st, &fp_off, fp_lost);
	rule->w[0] = pack_cfa(cfa->kind, cfa->reg, cfa->off) | pack_rules(fp, ra);
	rule->w[1] = pack_offs(fp_off, ra_off, cfa->kind == CFA_REG ? rbx_rule(st) : cfa->add);
	return 0;
}
