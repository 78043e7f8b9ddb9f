/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EHFRAME_H
#define PYPERF_EHFRAME_H
/*
 * .eh_frame -> compact unwind rows, in the format of bpf/pyperf_unwind.h.
 *
 * Every CIE and FDE is run through the DWARF call frame machine; each change of the rules becomes a
 * row. What a row cannot express becomes rule 0 and is counted. Text that no FDE covers is rule 0
 * too. The result depends on the file alone, so it is shared by all processes that map it.
 *
 *	FDE [0x1139, 0x1150)  push %rbp; mov %rsp,%rbp; ...; ret	row	rule
 *	DW_CFA_def_cfa rsp+8, ra at cfa-8				0x1139	1 {rsp+8}
 *	DW_CFA_advance_loc 1; def_cfa_offset 16; offset rbp cfa-16	0x113a	2 {rsp+16, rbp -16}
 *	DW_CFA_advance_loc 3; def_cfa_register rbp			0x113d	3 {rbp+16, rbp -16}
 *	DW_CFA_advance_loc 18; def_cfa rsp+8				0x114f	4 {rsp+8, rbp -16}
 *	no FDE follows							0x1150	0
 *
 * Text that .eh_frame leaves open is covered by .debug_frame, if there is one. Where FDEs overlap,
 * the one that starts first wins, of those the longest, of those the first in the section.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/pyperf.h"
#include "elf/elf.h"

/* The reasons for rule 0 in text that an FDE covers. X(name, text) */
#define UNWIND_REASONS(X)                                                                          \
	X(cfa_expression, "CFA by an expression that is not known")                                \
	X(cfa_range, "register or offset of the CFA out of range")                                 \
	X(ra_rule, "return address not saved in memory relative to the CFA")                       \
	X(sp_rule, "caller's stack pointer is not the CFA")                                        \
	X(rules_full, "more than 65535 different rules")                                           \
	X(damaged, "instructions damaged or not known")

enum unwind_reason {
#define X(name, text) UNWIND_##name,
	UNWIND_REASONS(X)
#undef X
		UNWIND_REASON_CNT
};

struct unwind_stats {
	uint64_t fde_cnt; /* FDEs that became rows */
	uint64_t fde_bad; /* FDEs refused as damaged or unsupported as a whole, or in part */
	uint64_t row_cnt;
	uint64_t row_inexpressible; /* rows that became rule 0 although an FDE covers them */
	uint64_t row_reason[UNWIND_REASON_CNT]; /* the same by reason */
	uint64_t row_fp_lost; /* rows that cannot say where the frame pointer is saved: REG_UNDEF */
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

/*
 * Finds the range of the FDE that covers a link address. False: none. Keeps the section in memory
 * until elf_file__forget(): the first call reads it, further ones search .eh_frame_hdr.
 */
bool ehframe__fde_at(const struct elf_file *ef, uint64_t addr, uint64_t *start, uint64_t *end);

/* A function, or a part of one that the compiler has put elsewhere: link addresses. */
struct fde_range {
	uint64_t start, end;
};

/*
 * Lists the ranges of all FDEs, ascending by start, from .eh_frame_hdr. If there are more than
 * EHFRAME_RANGES_MAX, each range ends where the next one begins. The caller frees `*ranges`. 0;
 * -ENOENT: no table, or one that makes no sense; -ENOMEM.
 */
#define EHFRAME_RANGES_MAX (1U << 18)
int ehframe__ranges(const struct elf_file *ef, struct fde_range **ranges, size_t *cnt);
/* The range that covers a link address, or NULL. */
const struct fde_range *fde_range__find(const struct fde_range *ranges, size_t cnt, uint64_t addr);

#endif /* PYPERF_EHFRAME_H */
