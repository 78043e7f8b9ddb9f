/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EHFRAME_H
#define PYPERF_EHFRAME_H
/*
 * .eh_frame -> compact unwind rows, in the format of "Unwind tables" in bpf/pyperf.h.
 *
 * Every CIE and FDE is run through the DWARF call frame machine; each change of the rules becomes a
 * row. What a row cannot express becomes rule 0 and is counted. Text that no FDE covers is rule 0
 * too. The result depends on the file alone, so it is shared by all processes that map it.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/pyperf.h"
#include "elf.h"

struct unwind_stats {
	uint64_t fde_cnt;
	uint64_t fde_bad; /* FDEs refused as damaged or unsupported as a whole */
	uint64_t row_cnt;
	uint64_t row_inexpressible; /* rows that became rule 0 although an FDE covers them */
	uint64_t eh_bytes;
};

struct unwind_table {
	uint32_t *words; /* word_cnt of them, padded with 0 to a multiple of UW_CHUNK_WORDS */
	size_t word_cnt;
	struct unwind_stats stats;
};

/* NULL and errno: ENOENT no unwind information, EBADMSG damaged, E2BIG, ENOMEM. */
struct unwind_table *unwind_table__build(const struct elf_file *ef);
void unwind_table__free(struct unwind_table *t);

/* The host's copy of the look-up that BPF does: the rule at a file offset. False: rule 0 or
 * outside. */
bool unwind_table__find(const struct unwind_table *t, uint64_t offset, struct unwind_rule *rule);

/* The FDE that covers a link address: its range. False: none. */
bool ehframe__fde_at(const struct elf_file *ef, uint64_t addr, uint64_t *start, uint64_t *end);

#endif /* PYPERF_EHFRAME_H */
