/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CFI_STATE_H
#define PYPERF_CFI_STATE_H
/*
 * The state of the call frame machine: how the CFA is found and where the registers that are
 * followed are saved, as the instructions of a CIE or an FDE have said so far.
 *
 * Sources: System V ABI x86-64, section 3.7; DWARF for the Arm 64-bit Architecture (aadwarf64).
 */
#include <stdbool.h>
#include <stdint.h>

#include "bpf/pyperf.h"
#include "elf/elf.h"

enum saved_rule {
	SAVED_UNSET = 0, /* nothing said: the ABI's default; off is 0 */
	SAVED_CFA = 1,	 /* in memory at CFA + off */
	SAVED_SAME,
	SAVED_UNDEF,
	SAVED_AT,	 /* in memory at reg + off */
	SAVED_CFA_VALUE, /* the value CFA + off */
	SAVED_OTHER,
};

struct saved {
	uint8_t rule; /* enum saved_rule */
	uint8_t reg;
	int64_t off;
};

enum { CFA_UNSET = 0x80, CFA_UNKNOWN = 0x81 }; /* beside enum cfa_kind, in a state only */

struct cfa {
	uint8_t kind;
	uint8_t reg;
	int16_t add;
	int64_t off;
};

/* The registers that are followed. */
enum { SLOT_FP, SLOT_RA, SLOT_SP, SLOT_RBX, SLOT_CNT };

struct cfi_state {
	struct cfa cfa;
	struct saved regs[SLOT_CNT];
};

struct cfi_machine {
	uint8_t reg[SLOT_CNT]; /* DWARF numbers */
	bool aarch64;
};

/* Its row of register numbers. */
const struct cfi_machine *cfi_machine__of(const struct elf_file *ef);

static inline int slot_of(const struct cfi_machine *m, uint64_t reg)
{
	for (int i = 0; i < SLOT_CNT; i++) {
		if (reg == m->reg[i])
			return i;
	}
	return -1;
}

#endif /* PYPERF_CFI_STATE_H */
