/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CFI_RULE_H
#define PYPERF_CFI_RULE_H
/*
 * A state of the call frame machine -> struct unwind_rule, or the reason why no rule expresses it.
 * Inlined is what nearly all states need: a call for each row is a tenth of all the time.
 */
#include <stdbool.h>
#include <stdint.h>

#include "elf/cfi_state.h"

/*
 * struct unwind_rule as two words, as it lies in memory (both machines are little-endian). Hashed
 * and compared as such: read back from the members' bytes they would wait for the stores, which
 * was a third of all the time.
 */
struct packed_rule {
	uint64_t w[2];
};

static inline bool fits32(int64_t v)
{
	return v >= INT32_MIN && v <= INT32_MAX;
}

static inline uint64_t pack_cfa(uint8_t kind, uint8_t reg, int64_t off)
{
	return kind | (uint64_t)reg << 8 | (uint64_t)(uint32_t)off << 32;
}

static inline uint64_t pack_rules(enum reg_rule fp, enum reg_rule ra)
{
	return (uint64_t)fp << 16 | (uint64_t)ra << 24;
}

static inline uint64_t pack_offs(int64_t fp_off, int64_t ra_off, int16_t cfa_add)
{
	return (uint32_t)fp_off | (uint64_t)(uint16_t)ra_off << 32 |
	       (uint64_t)(uint16_t)cfa_add << 48;
}

/*
 * cfi_make_rule() for nearly all states: CFA by a register, and of the others only said where they
 * are saved, if at all. False: not one of these.
 */
static inline bool make_plain_rule(const struct cfi_state *st, struct packed_rule *rule)
{
	const struct saved *fp = &st->regs[SLOT_FP], *ra = &st->regs[SLOT_RA];
	const struct saved *rbx = &st->regs[SLOT_RBX];

	_Static_assert((int)SAVED_UNSET == (int)REG_SAME && (int)SAVED_CFA == (int)REG_CFA_OFF, "");
	_Static_assert((int)SAVED_UNSET == UW_EXTRA_SAME, "");
	if (st->cfa.kind != CFA_REG || ra->rule != SAVED_CFA ||
	    (fp->rule | rbx->rule) > SAVED_CFA || st->regs[SLOT_SP].rule != SAVED_UNSET ||
	    !fits32(st->cfa.off) || !fits32(fp->off) || ra->off != (int16_t)ra->off ||
	    rbx->off != (int16_t)rbx->off)
		return false;
	if (rbx->rule == SAVED_CFA && (rbx->off == UW_EXTRA_SAME || rbx->off == UW_EXTRA_LOST))
		return false;
	rule->w[0] = pack_cfa(CFA_REG, st->cfa.reg, st->cfa.off) |
		     pack_rules((enum reg_rule)fp->rule, REG_CFA_OFF);
	rule->w[1] = pack_offs(fp->off, ra->off, (int16_t)rbx->off);
	return true;
}

/* What remains for cfi_make_rule(). */
int cfi_make_other_rule(const struct cfi_machine *m, const struct cfi_state *st, bool signal,
			struct packed_rule *rule, bool *fp_lost);

/*
 * `signal`: of the return trampoline of a signal handler. *fp_lost: the rule cannot say where the
 * frame pointer is saved. 0, or 1 + enum unwind_reason.
 */
static inline int cfi_make_rule(const struct cfi_machine *m, const struct cfi_state *st,
				bool signal, struct packed_rule *rule, bool *fp_lost)
{
	if (!signal && make_plain_rule(st, rule))
		return 0;
	return cfi_make_other_rule(m, st, signal, rule, fp_lost);
}

#endif /* PYPERF_CFI_RULE_H */
