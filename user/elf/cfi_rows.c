/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Rows, index and dictionary of rules. See cfi_rows.h. */
#include "elf/cfi_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define MAX_PAGES	(1U << 24) /* 4 GiB from the first FDE to the last */
#define MIN_TABLE_SLOTS 4096
#define NO_RULE		UINT32_MAX

bool cfi_rows__rehash(struct cfi_rows *t)
{
	uint32_t cnt = t->slot_mask ? 2 * (t->slot_mask + 1) : MIN_TABLE_SLOTS;
	uint32_t *slots = calloc(cnt, sizeof(*slots));

	if (!slots) {
		t->err = -ENOMEM;
		return false;
	}
	for (uint32_t n = 1; n < t->rule_cnt; n++) {
		uint32_t i = packed_hash(t->rules[n]) & (cnt - 1);

		while (slots[i])
			i = (i + 1) & (cnt - 1);
		slots[i] = n;
	}
	free(t->slots);
	t->slots = slots;
	t->slot_mask = cnt - 1;
	return true;
}

uint32_t cfi_rows__add_rule(struct cfi_rows *t, uint32_t slot, struct packed_rule p)
{
	if (t->rule_cnt == UW_MAX_RULES)
		return 0;
	if (ARRAY_GROW(t->rules, t->rule_cap, t->rule_cnt, UW_MAX_RULES)) {
		t->err = -ENOMEM;
		return 0;
	}
	t->rules[t->rule_cnt] = p;
	t->slots[slot] = t->rule_cnt;
	return t->rule_cnt++;
}

bool cfi_rows__add(struct cfi_rows *t, uint64_t off, uint32_t rule)
{
	uint32_t page = (uint32_t)(off >> UW_PAGE_BITS) - t->first_page;

	if (rule == t->last_rule)
		return false;
	if (t->word_cnt == t->word_cap &&
	    ARRAY_GROW(t->words, t->word_cap, t->word_cnt, SIZE_MAX)) {
		t->err = -ENOMEM;
		return false;
	}
	while (t->next_page <= page)
		t->words[8 + t->next_page++] = (uint32_t)t->word_cnt - t->row_word;
	t->words[t->word_cnt++] = (uint32_t)(off & 0xffff) << 16 | rule;
	t->last_rule = rule;
	return true;
}

static size_t align_to(size_t v, size_t to)
{
	return (v + to - 1) / to * to;
}

/* Header and index have their final size before the first row. */
int cfi_rows__begin(struct cfi_rows *t, uint64_t first, uint64_t end, size_t fde_cnt)
{
	uint64_t last = end >> UW_PAGE_BITS;

	first >>= UW_PAGE_BITS;
	if (last > UINT32_MAX || last - first >= MAX_PAGES)
		return -E2BIG;
	t->first_page = (uint32_t)first;
	t->page_cnt = (uint32_t)(last - first) + 1;
	t->row_word = (uint32_t)align_to(8 + (size_t)t->page_cnt + 1, 4);
	t->word_cnt = t->row_word;
	/* Three rows per FDE, and rarely more than six. */
	t->word_cap = t->word_cnt + 4 * fde_cnt;
	t->words = calloc(t->word_cap, sizeof(*t->words));
	t->rules = calloc(64, sizeof(*t->rules));
	if (!t->words || !t->rules)
		return -ENOMEM;
	t->rule_cap = 64;
	t->rule_cnt = 1;
	t->last_rule = NO_RULE;
	return 0;
}

static int add_rules(struct cfi_rows *t)
{
	struct unwind_header h = { .first_page = t->first_page,
				   .page_cnt = t->page_cnt,
				   .index_word = 8,
				   .row_word = t->row_word,
				   .row_cnt = (uint32_t)t->word_cnt - t->row_word,
				   .rule_cnt = t->rule_cnt };
	size_t rule_word = align_to(t->word_cnt, 4);
	size_t total = align_to(rule_word + 4 * (size_t)t->rule_cnt, UW_CHUNK_WORDS);
	uint32_t *words;

	if (total > UW_MAX_WORDS)
		return -E2BIG;
	words = reallocarray(t->words, total, sizeof(*words));
	if (!words)
		return -ENOMEM;
	t->words = words;
	h.rule_word = (uint32_t)rule_word;
	memset(words + t->word_cnt, 0, (total - t->word_cnt) * sizeof(*words));
	memcpy(words, &h, sizeof(h));
	memcpy(words + rule_word, t->rules, t->rule_cnt * sizeof(*t->rules));
	t->word_cnt = total;
	t->stats.row_cnt = h.row_cnt;
	return 0;
}

int cfi_rows__finish(struct cfi_rows *t, uint64_t end)
{
	cfi_rows__add(t, end, 0);
	while (t->next_page <= t->page_cnt)
		t->words[8 + t->next_page++] = (uint32_t)t->word_cnt - t->row_word;
	return t->err ? t->err : add_rules(t);
}

void cfi_rows__free(struct cfi_rows *t)
{
	free(t->rules);
	free(t->slots);
	free(t->words);
}
