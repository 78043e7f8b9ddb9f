/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Generated code in order of address. See jit_codes.h. */
#include "symbolize/jit_codes.h"

#include <errno.h>
#include <stdlib.h>

static int by_index(const void *a_, const void *b_)
{
	const struct jit_code *a = a_, *b = b_;

	if (a->index != b->index)
		return a->index < b->index ? -1 : 1;
	return (a->id == ID_MOVED) - (b->id == ID_MOVED);
}

static int by_start(const void *a_, const void *b_)
{
	const struct jit_code *a = a_, *b = b_;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

/* Code that moved has the name that it was loaded with. */
static void name_moved(struct jit_codes *l)
{
	const struct jit_code *loaded = NULL;

	qsort(l->list, l->cnt, sizeof(*l->list), by_index);
	for (size_t i = 0; i < l->cnt; i++) {
		struct jit_code *c = &l->list[i];

		if (c->id != ID_MOVED) {
			loaded = c->name ? c : loaded;
			continue;
		}
		c->id = 0;
		if (loaded && loaded->index == c->index)
			c->name = loaded->name;
	}
	l->moves = false;
}

/* A heap of positions in codes[], that of the latest on top. */
struct heap {
	uint32_t *at;
	size_t cnt;
};

static void heap_push(struct heap *h, const struct jit_code *codes, uint32_t value)
{
	size_t i = h->cnt++;

	for (; i && codes[h->at[(i - 1) / 2]].order < codes[value].order; i = (i - 1) / 2)
		h->at[i] = h->at[(i - 1) / 2];
	h->at[i] = value;
}

static void heap_pop(struct heap *h, const struct jit_code *codes)
{
	uint32_t last = h->at[--h->cnt];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < h->cnt) {
		if (child + 1 < h->cnt && codes[h->at[child]].order < codes[h->at[child + 1]].order)
			child++;
		if (codes[h->at[child]].order <= codes[last].order)
			break;
		h->at[i] = h->at[child];
		i = child;
	}
	h->at[i] = last;
}

/* Adds [start, end) of `c` behind out[cnt - 1], as one with it where it goes on. */
static size_t add_piece(struct jit_code *out, size_t cnt, const struct jit_code *c, uint64_t start,
			uint64_t end)
{
	if (!c->name)
		return cnt;
	if (cnt && out[cnt - 1].end == start && out[cnt - 1].name == c->name) {
		out[cnt - 1].end = end;
		return cnt;
	}
	out[cnt] = *c;
	out[cnt].start = start;
	out[cnt].end = end;
	return cnt + 1;
}

/*
 * At each address the latest code that covers it. out[] has room for 2 * cnt. The number of pieces.
 */
static size_t sweep(const struct jit_code *codes, size_t cnt, struct heap *h, struct jit_code *out)
{
	size_t next = 0, pieces = 0;
	uint64_t at = 0, end;

	for (;;) {
		while (h->cnt && codes[h->at[0]].end <= at)
			heap_pop(h, codes);
		if (!h->cnt && next == cnt)
			return pieces;
		if (!h->cnt)
			at = codes[next].start;
		while (next < cnt && codes[next].start <= at)
			heap_push(h, codes, (uint32_t)next++);
		end = codes[h->at[0]].end;
		if (next < cnt && codes[next].start < end)
			end = codes[next].start;
		pieces = add_piece(out, pieces, &codes[h->at[0]], at, end);
		at = end;
	}
}

int jit_codes__settle(struct jit_codes *l)
{
	struct heap h = { 0 };
	struct jit_code *out;

	if (l->settled == l->cnt)
		return 0;
	for (size_t i = 0; i < l->cnt; i++)
		l->list[i].order = (uint32_t)i;
	h.at = calloc(l->cnt, sizeof(*h.at));
	out = calloc(2 * l->cnt, sizeof(*out));
	if (!h.at || !out) {
		free(h.at);
		free(out);
		return -ENOMEM;
	}
	if (l->moves)
		name_moved(l);
	qsort(l->list, l->cnt, sizeof(*l->list), by_start);
	l->settled = sweep(l->list, l->cnt, &h, out);
	l->cap = 2 * l->cnt;
	l->cnt = l->settled;
	free(h.at);
	free(l->list);
	l->list = out;
	return 0;
}

struct jit_code *jit_codes__find(const struct jit_codes *l, uint64_t addr)
{
	size_t low = 0, high = l->settled;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (l->list[mid].start <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low && addr < l->list[low - 1].end ? &l->list[low - 1] : NULL;
}
