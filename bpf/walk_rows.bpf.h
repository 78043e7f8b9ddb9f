/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef PYPERF_WALK_ROWS_H
#define PYPERF_WALK_ROWS_H
/*
 * Stage 2: what is known of an address: its mapping, and the rule by which a frame there is left.
 * Input:   w->image.map_first, map_cnt; the mappings and tables of user/; the places of the samples
 *          before.
 * Output:  w->place.map, w->place.map_index, w->place.rule.
 * Cost:    two binary searches, and for a place that is known one look.
 * Fails:   no mapping, no table, no row: the caller says what that means.
 */
#include "arch/arch.bpf.h"
#include "state.bpf.h"

#define ROW_STEPS 9 /* a page has at most 1 << UW_PAGE_BITS rows */

/* Puts the mapping that holds `addr` into w->place.map. */
BPF_NOINLINE int find_mapping(__u64 addr)
{
	struct walk *w = the_walk();
	const struct mapping *m;
	__u32 lo, hi, mid;
	__u64 below;

	if (!w)
		return -1;
	if (addr - w->place.map.start < w->place.map.end - w->place.map.start)
		return 0;
	if (addr >> 63)
		return -1;
	lo = w->image.map_first;
	hi = lo + w->image.map_cnt;
	for (int i = 0; i < MAP_STEPS && lo < hi; i++) { /* first entry that starts above addr */
		mid = (lo + hi) / 2;
		m = get_mapping(mid);
		if (!m)
			return -1;
		below = not_above(m->start, addr);
		lo = (__u32)choose(below, mid + 1, lo);
		hi = (__u32)choose(below, hi, mid);
	}
	if (lo == w->image.map_first)
		return -1;
	m = get_mapping(lo - 1);
	if (!m || addr >= m->end)
		return -1;
	w->place.map = *m;
	w->place.map_index = lo - 1 - w->image.map_first;
	note_seen(m->file);
	return 0;
}

/* Puts the rule at a file offset of w->place.map.table into w->place.rule. */
BPF_NOINLINE int search_rule(__u64 offset)
{
	struct walk *w = the_walk();
	const __u32 *words;
	__u32 page, lo, hi, mid, low = (__u32)offset & 0xffff;
	__u64 below;
	void *table;

	if (!w)
		return -1;
	w->place.rule.cfa_kind = CFA_NONE;
	if (!w->place.map.table)
		return -1;
	table = uw_table(w->place.map.table);
	if (!table)
		return -1;
	if (w->place.header_table != w->place.map.table) {
		words = uw_words(table, 0, 8);
		if (!words)
			return -1;
		__builtin_memcpy(&w->place.header, words, sizeof(w->place.header));
		w->place.header_table = w->place.map.table;
	}
	page = (__u32)(offset >> UW_PAGE_BITS) - w->place.header.first_page;
	if (page >= w->place.header.page_cnt)
		return -1;
	words = uw_words(table, w->place.header.index_word + page, 1);
	if (!words)
		return -1;
	lo = *words;
	words = uw_words(table, w->place.header.index_word + page + 1, 1);
	if (!words)
		return -1;
	hi = *words;
	for (int i = 0; i < ROW_STEPS && lo < hi; i++) { /* first row above the offset */
		mid = (lo + hi) / 2;
		words = uw_words(table, w->place.header.row_word + mid, 1);
		if (!words)
			return -1;
		below = not_above(*words >> 16, low);
		lo = (__u32)choose(below, mid + 1, lo);
		hi = (__u32)choose(below, hi, mid);
	}
	if (!lo)
		return -1;
	words = uw_words(table, w->place.header.row_word + lo - 1, 1);
	if (!words)
		return -1;
	words = uw_words(table, w->place.header.rule_word + (*words & 0xffff) * 4, 4);
	if (!words)
		return -1;
	__builtin_memcpy(&w->place.rule, words, sizeof(w->place.rule));
	return 0;
}

/* What to do with the rule of a place that is known by its address. */
enum how {
	/* CFA = sp or fp + cfa_off, return address at arch_ra_at(), fp kept or saved below that */
	HOW_KNOWN = 1 << 0,
	HOW_FROM_FP = 1 << 1,  /* ... fp + cfa_off */
	HOW_FP_SAVED = 1 << 2, /* ... saved at CFA + fp_off */
	HOW_END = 1 << 3,      /* the outermost frame */
};

BPF_INLINE __u32 rule_how(const struct unwind_rule *rule)
{
	__u32 how = HOW_KNOWN;

	if (rule->cfa_kind == CFA_END)
		return HOW_END;
	if (rule->cfa_kind != CFA_REG || !arch_ra_is_plain(rule))
		return 0;
	if (rule->cfa_reg == ARCH_REG_FP)
		how |= HOW_FROM_FP;
	else if (rule->cfa_reg != ARCH_REG_SP)
		return 0;
	if (rule->fp_rule == REG_CFA_OFF && rule->fp_off <= -16)
		return how | HOW_FP_SAVED;
	return rule->fp_rule == REG_SAME ? how : 0;
}

BPF_INLINE __u32 place_slot(__u64 key)
{
	return BOUND(key * 0x9e3779b97f4a7c15ULL >> 32, PLACE_SLOTS);
}

BPF_INLINE struct known_place *place_of(struct known_place *places, __u64 key)
{
	return &places[place_slot(key)];
}

BPF_INLINE void remember_place(const struct walk *w, struct known_place *known, __u64 word)
{
	known->word = word;
	known->rule = w->place.rule;
	known->map = w->place.map_index;
	known->how = rule_how(&w->place.rule);
}

/* The same, by what was found before. */
BPF_INLINE int find_rule(struct walk *w, __u64 offset)
{
	__u64 word = NATIVE_WORD(w->place.map.file, offset);
	struct known_place *places = the_places(), *known = places ? place_of(places, word) : NULL;

	if (known && known->word == word) {
		w->place.rule = known->rule;
		return 0;
	}
	if (search_rule(offset))
		return -1;
	if (known && w->place.map.file)
		remember_place(w, known, word);
	return 0;
}

/* Notes the place, so that walk_known_frames() finds it by its address. */
BPF_INLINE void remember_address(const struct walk *w, __u64 addr, __u64 word)
{
	struct known_place *places = the_places();

	if (places && w->place.map.file)
		remember_place(w, place_of(places, addr), word);
}

#endif /* PYPERF_WALK_ROWS_H */
