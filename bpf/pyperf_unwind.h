/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_UNWIND_CONTRACT_H
#define PYPERF_UNWIND_CONTRACT_H
/*
 * Part of the contract (pyperf.h): the tables by which native frames are left. user/ writes a table
 * whole before a mapping names it; BPF reads.
 */
#include "pyperf_limits.h"

/*
 * tables: table index -> ARRAY of chunks of UW_CHUNK_WORDS u32 words. Addresses are offsets in the
 * file. All parts begin at multiples of four words, so no rule straddles a chunk.
 *
 *   word 0..7   struct unwind_header
 *   index       one word per page of 1 << UW_PAGE_BITS bytes of text, and one more: the number of
 *               the first row that lies in that page or later
 *   rows        (low 16 bits of the offset) << 16 | number of the rule, ascending by full offset
 *   rules       struct unwind_rule, four words each; rule 0 is "no information"
 *
 * A row is valid from its offset to the next row's. To look up offset o: p = (o >> UW_PAGE_BITS) -
 * first_page; the answer is the last row <= o among index[p] - 1 .. index[p + 1] - 1.
 * Text without an FDE is covered by a row with rule 0.
 */
#define UW_PAGE_BITS   8
#define UW_CHUNK_WORDS 1024
#define UW_CHUNK_BYTES (UW_CHUNK_WORDS * 4)
#define UW_MAX_RULES   65536
#define UW_MAX_WORDS   (1U << 28)

struct unwind_header {
	__u32 first_page; /* offset >> UW_PAGE_BITS of the first page of text */
	__u32 page_cnt;
	__u32 index_word; /* where the parts begin, in words */
	__u32 row_word;
	__u32 row_cnt;
	__u32 rule_word;
	__u32 rule_cnt;
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct unwind_header, 32);

enum cfa_kind {
	CFA_NONE = 0,	   /* no information: not covered by an FDE, or a rule we cannot express */
	CFA_END = 1,	   /* return address undefined: the outermost frame */
	CFA_REG = 2,	   /* reg + off */
	CFA_DEREF_REG = 3, /* *(reg + off) + add */
	CFA_PLT = 4,	   /* sp + off + ((pc & 15) >= add ? 8 : 0): the .plt's expression */
	CFA_SIGNAL = 5,	   /* signal frame: registers are in the ucontext at sp sp + off */
	CFA_DEREF_INDEX = 6, /* *(reg + 8 * index + off) + add: behind an array */
	CFA_BASE = 7,	     /* CFA_REG, of the first function of a greenlet */
	CFA_SWITCH = 8, /* CFA_REG, of the function that changes from one greenlet to another */
};

enum reg_rule {
	REG_SAME = 0,	 /* unchanged */
	REG_CFA_OFF = 1, /* saved at CFA + off */
	REG_UNDEF = 2,	 /* lost */
	REG_FP_OFF = 3,	 /* saved at this frame's frame pointer + off: realigned stacks (DRAP) */
};

/*
 * unwind_rule.cfa_add of CFA_REG: the extra register (arch/arch.h) is saved at CFA + this, or one
 * of these. It is read only if it is the CFA of a frame (the dynamic linker's, where it binds a
 * symbol at its first call).
 */
#define UW_EXTRA_SAME 0
#define UW_EXTRA_LOST 1

/*
 * How to leave one frame. Registers are DWARF numbers of the file's machine. The frame pointer and
 * the return address are tracked beyond the leaf, the extra register when it is needed. Rules on
 * other callee-saved registers can be followed in the leaf frame only.
 */
struct unwind_rule {
	__u8 cfa_kind; /* enum cfa_kind */
	__u8 cfa_reg;  /* DWARF register number; CFA_DEREF_INDEX: reg | index << 4 */
	__u8 fp_rule;  /* enum reg_rule */
	__u8 ra_rule;  /* enum reg_rule; REG_SAME: still in the link register */
	__s32 cfa_off;
	__s32 fp_off;  /* when fp_rule is REG_CFA_OFF or REG_FP_OFF */
	__s16 ra_off;  /* when ra_rule is REG_CFA_OFF */
	__s16 cfa_add; /* see enum cfa_kind; CFA_REG: see UW_EXTRA_SAME */
};
PYPERF_ASSERT_SIZE(struct unwind_rule, 16);

#endif /* PYPERF_UNWIND_CONTRACT_H */
