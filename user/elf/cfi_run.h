/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CFI_RUN_H
#define PYPERF_CFI_RUN_H
/*
 * The call frame machine: runs the instructions of a CIE, which leave its first state, or of an
 * FDE, whose states become rows.
 *
 * The work is linear in the instructions: the stack of remembered states is bounded, and each row
 * costs at least one byte of them.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/cfi_read.h"
#include "elf/cfi_rows.h"
#include "elf/cfi_state.h"

#define MAX_REMEMBERED 16 /* compilers use one or two */

struct cie {
	uint32_t pos;
	bool bad, signal, augmented;
	uint8_t fde_enc;
	uint64_t code_align;
	int64_t data_align;
	struct cfi_state initial;
};

struct cfi_run {
	struct cfi_rows *rows; /* NULL while a CIE is run: no rows */
	const struct cfi_machine *m;
	const struct cfi_section *sec;
	const struct cie *cie;
	struct cfi_state st;
	struct cfi_state stack[MAX_REMEMBERED];
	size_t depth;
	bool dirty;		   /* st is not in a row yet */
	enum cfa_kind kind;	   /* of rows that would be CFA_REG */
	uint64_t addr;		   /* of the FDE */
	uint64_t off, limit, clip; /* file offsets: now, end of the FDE, end of the FDE before */
};

/*
 * `start` is the file offset of run->addr. False: damaged; the state is the one before the damage.
 */
bool cfi_run__instructions(struct cfi_run *run, struct cfi_reader r, uint64_t start);
/* The state holds from run->off to `next`: make it a row. */
void cfi_run__flush(struct cfi_run *run, uint64_t next);

#endif /* PYPERF_CFI_RUN_H */
