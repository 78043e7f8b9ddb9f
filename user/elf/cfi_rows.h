/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CFI_ROWS_H
#define PYPERF_CFI_ROWS_H
/*
 * The table under construction, as the words of bpf/pyperf_unwind.h: header, index and
 * rows; the rules, each of which is there once, follow at the end.
 *
 *	cfi_rows__begin(t, first, end, n)	header and index get their final size
 *	cfi_rows__add(t, off, number)		... for each change, ascending by offset
 *	cfi_rows__finish(t, end)		t->words is the table; the caller may take it
 *	cfi_rows__free(t)
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/cfi_rule.h"
#include "elf/ehframe.h"

struct cfi_rows {
	uint32_t *words; /* header, index, rows; rules are added at the end */
	size_t word_cnt, word_cap;
	uint32_t first_page, page_cnt, next_page, row_word;
	uint32_t last_rule;
	struct packed_rule *rules;
	size_t rule_cap;
	uint32_t rule_cnt;
	uint32_t *slots; /* hash of a rule -> its number; 0: free */
	uint32_t slot_mask;
	struct unwind_stats stats;
	int err; /* -ENOMEM: what was added since is not there */
};

/* For the text of so many FDEs, file offsets `first` to `end`. 0, -E2BIG or -ENOMEM. */
int cfi_rows__begin(struct cfi_rows *t, uint64_t first, uint64_t end, size_t fde_cnt);
/* Rows come in ascending order. True: a row was added; false: it continues the last one. */
bool cfi_rows__add(struct cfi_rows *t, uint64_t off, uint32_t rule);
/* The last text ends at `end`. 0, -E2BIG or -ENOMEM. */
int cfi_rows__finish(struct cfi_rows *t, uint64_t end);
void cfi_rows__free(struct cfi_rows *t);

/* ---- The number of a rule ------------------------------------------------------------------ */

/* Two parts of cfi_rows__rule_number(). */
bool cfi_rows__rehash(struct cfi_rows *t);
uint32_t cfi_rows__add_rule(struct cfi_rows *t, uint32_t slot, struct packed_rule p);

static inline uint32_t packed_hash(struct packed_rule p)
{
	return (uint32_t)(((p.w[0] ^ p.w[1] * 0x9e3779b97f4a7c15ULL) * 0xff51afd7ed558ccdULL) >>
			  32);
}

/* The number of a rule, which is added when it is new. 0: no room for it, or t->err. */
static inline uint32_t cfi_rows__rule_number(struct cfi_rows *t, struct packed_rule p)
{
	uint32_t i, n;

	if (t->rule_cnt * 4 > t->slot_mask && !cfi_rows__rehash(t))
		return 0;
	i = packed_hash(p) & t->slot_mask;
	while ((n = t->slots[i])) {
		if (t->rules[n].w[0] == p.w[0] && t->rules[n].w[1] == p.w[1])
			return n;
		i = (i + 1) & t->slot_mask;
	}
	return cfi_rows__add_rule(t, i, p);
}

#endif /* PYPERF_CFI_ROWS_H */
