/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "heap/usage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"

#define REGIONS_MAX (1U << 20)
#define PAGE	    4096ULL

/* ---- /proc/PID/smaps ------------------------------------------------------------------------- */

static bool is_named(const struct map_line *line, const char *name)
{
	return line->name_len == strlen(name) && !memcmp(line->name, name, line->name_len);
}

/* glibc's file is libc.so.6, until 2.33 libc-2.31.so. */
static bool is_libc(const struct map_line *line)
{
	const char *base = memrchr(line->name, '/', line->name_len);
	size_t len = base ? line->name_len - (size_t)(base - line->name) : 0;

	return len > 8 && (!memcmp(base, "/libc.so", 8) || !memcmp(base, "/libc-2.", 8));
}

static enum usage_kind kind_of(const struct map_line *line)
{
	if (is_named(line, "[heap]"))
		return USAGE_HEAP;
	if (is_named(line, "[stack]"))
		return USAGE_STACK;
	return line->inode || (line->name_len && line->name[0] == '/') ? USAGE_FILE : USAGE_ANON;
}

/* "Rss:      12 kB", of this name: false for another. */
static bool take_amount(const char *line, size_t len, const char *name, uint64_t *bytes)
{
	size_t name_len = strlen(name);
	uint64_t amount = 0;

	if (len <= name_len || memcmp(line, name, name_len) != 0)
		return false;
	for (size_t i = name_len; i < len; i++) {
		if (line[i] >= '0' && line[i] <= '9' && amount < UINT64_MAX >> 20)
			amount = amount * 10 + (uint64_t)(line[i] - '0');
		else if (line[i] != ' ')
			break;
	}
	*bytes = amount << 10;
	return true;
}

int usage__parse(const char *text, size_t len, struct usage_region **out, size_t *cnt)
{
	struct usage_region *list = NULL, *last;
	size_t cap = 0, line_len;
	struct map_line m;
	const char *line;

	*cnt = 0;
	while (maps__next(&text, &len, &line, &line_len)) {
		last = *cnt ? &list[*cnt - 1] : NULL;
		if (last && (take_amount(line, line_len, "Rss:", &last->rss) ||
			     take_amount(line, line_len, "Swap:", &last->swap)))
			continue;
		if (map_line__parse(&m, line, line_len))
			continue;
		if (ARRAY_GROW(list, cap, *cnt, REGIONS_MAX)) {
			free(list);
			return -ENOMEM;
		}
		list[(*cnt)++] = (struct usage_region){ .start = m.start,
							.end = m.end,
							.kind = kind_of(&m),
							.write = m.write,
							.libc = is_libc(&m) };
	}
	*out = list;
	return 0;
}

/* ---- glibc ----------------------------------------------------------------------------------- */
/*
 * malloc/malloc.c and malloc/arena.c, 2.27 and later. In struct malloc_state the array of bins has
 * `top` before it and `next` behind it; where the array begins depends on the release (2.36: 112).
 * An empty bin points at itself, and the last one always is empty, so the array tells where it is.
 * Where no such array is, malloc is unknown.
 */
#define HEAP_MAX	(64ULL << 20) /* HEAP_MAX_SIZE: their alignment */
#define BINS_FIRST	16	      /* in a struct malloc_state, at the earliest ... */
#define BINS_LAST	256	      /* ... and at the latest */
#define BINS_BEFORE	16	      /* `top` and `last_remainder` */
#define BINS_NEXT	2048	      /* `next`, behind the bins and a bit map of 16 bytes */
#define BINS_READ	(BINS_BEFORE + BINS_NEXT + 8)
#define HEAP_INFO_READ	32
#define HEAP_STATE_MAX	128 /* a heap's first arena begins within so many bytes */
#define BIN_CNT		127 /* the last one is never used */
#define ARENAS_SEEN_MAX 4096
#define CHUNKS_MAX	(1U << 21)
#define CHUNKS_MS	5000
#define CHUNK_FLAGS	7ULL
#define PREV_IN_USE	1ULL
#define TRIES		4 /* to read a list that changes */
#define CHUNK_MAX	(1ULL << 40)
#define CHUNK_PART	(1ULL << 28) /* what is asked for at a time */
#define LIBC_DATA_MAX	(1ULL << 20)

struct malloc_look {
	const struct usage_source *src;
	struct usage_region *regions;
	size_t region_cnt;
	struct heap_usage *out;
	uint64_t arenas[ARENAS_SEEN_MAX]; /* their bins */
	uint64_t bins_at;		  /* in a struct malloc_state; 0: not known yet */
	size_t arena_cnt;
	size_t chunks; /* looked at */
	uint64_t end_ms;
};

static int read_mem(const struct malloc_look *l, void *dst, size_t size, uint64_t addr)
{
	return l->src->mem->read(l->src->mem->ctx, dst, size, addr);
}

/* bin_at(): the address that an empty bin has in both of its links. */
static uint64_t bin_addr(uint64_t bins, unsigned bin)
{
	return bins - 16 + 16ULL * bin;
}

/* `bytes` begin BINS_BEFORE bytes before `bins`. */
static bool are_bins(const uint8_t *bytes, uint64_t bins)
{
	uint64_t top = heap_word(bytes);

	for (unsigned i = 0; i < BIN_CNT; i++) {
		uint64_t first = heap_word(bytes + BINS_BEFORE + 16 * i);

		if (!first || first % 8)
			return false;
	}
	return heap_word(bytes + BINS_BEFORE + 16 * (BIN_CNT - 1)) == bin_addr(bins, BIN_CNT - 1) &&
	       top && top % 8 == 0;
}

static bool add_bins(struct malloc_look *l, uint64_t bins)
{
	uint8_t bytes[BINS_READ];

	for (size_t i = 0; i < l->arena_cnt; i++)
		if (l->arenas[i] == bins)
			return true;
	if (l->arena_cnt == ARENAS_SEEN_MAX ||
	    read_mem(l, bytes, sizeof(bytes), bins - BINS_BEFORE) || !are_bins(bytes, bins))
		return false;
	l->arenas[l->arena_cnt++] = bins;
	return true;
}

/* The bins of all arenas are at the same place as those of the first. */
static void add_arena(struct malloc_look *l, uint64_t state)
{
	if (state % 8)
		return;
	for (uint64_t at = BINS_FIRST; at <= BINS_LAST; at += 8) {
		if (l->bins_at && at != l->bins_at)
			continue;
		if (add_bins(l, state + at)) {
			l->bins_at = at;
			return;
		}
	}
}

/* The heap that begins at a multiple of HEAP_MAX: its resident bytes, or 0 if there is none. */
static uint64_t look_at_heap(struct malloc_look *l, uint64_t addr, uint64_t end)
{
	uint8_t info[HEAP_INFO_READ];
	uint64_t arena, prev, size;
	size_t before = l->arena_cnt;

	if (read_mem(l, info, sizeof(info), addr))
		return 0;
	arena = heap_word(info);
	prev = heap_word(info + 8);
	size = heap_word(info + 16);
	if (!size || size % PAGE || size > HEAP_MAX || size > end - addr || prev % HEAP_MAX)
		return 0;
	if (!prev && (arena <= addr || arena - addr > HEAP_STATE_MAX))
		return 0;
	add_arena(l, arena);
	if (!prev && l->arena_cnt == before)
		return 0;
	return l->src->resident(l->src->ctx, addr, addr + size);
}

/* Sizes are the target's words, and regions may be as large as it likes. */
static bool is_late(struct malloc_look *l)
{
	l->out->malloc_cut |= now_ms() > l->end_ms;
	return l->out->malloc_cut;
}

/* Heaps in an anonymous region, which may hold several: the kernel joins neighbours. */
static uint64_t look_at_region(struct malloc_look *l, const struct usage_region *r)
{
	uint64_t bytes = 0;

	for (uint64_t at = (r->start + HEAP_MAX - 1) & ~(HEAP_MAX - 1); at < r->end && !is_late(l);
	     at += HEAP_MAX)
		bytes += look_at_heap(l, at, r->end);
	return bytes < r->rss ? bytes : r->rss;
}

/* All arenas are in a ring; the main one is a variable of the C library. */
static void follow_ring(struct malloc_look *l)
{
	uint64_t next;

	for (size_t i = 0; i < l->arena_cnt; i++)
		if (!read_mem(l, &next, sizeof(next), l->arenas[i] + BINS_NEXT))
			add_arena(l, next);
}

static void find_main(struct malloc_look *l, const struct usage_region *r)
{
	uint64_t size = r->end - r->start;
	uint8_t *bytes = size <= LIBC_DATA_MAX ? malloc(size) : NULL;

	if (!bytes || read_mem(l, bytes, size, r->start))
		size = 0;
	for (uint64_t at = BINS_BEFORE; at - BINS_BEFORE + BINS_READ <= size; at += 8) {
		uint64_t last = heap_word(bytes + at + 16 * (BIN_CNT - 1));

		if (last == bin_addr(r->start + at, BIN_CNT - 1))
			add_bins(l, r->start + at);
	}
	free(bytes);
}

/* Regions ascend, as the kernel lists them. */
static int cmp_region(const void *addr, const void *region)
{
	uint64_t at = *(const uint64_t *)addr;
	const struct usage_region *r = region;

	return at < r->start ? -1 : at >= r->end;
}

static const struct usage_region *region_of(const struct malloc_look *l, uint64_t addr)
{
	return bsearch(&addr, l->regions, l->region_cnt, sizeof(*l->regions), cmp_region);
}

/* Where the memory that goes on from a region ends: neighbours may be one piece of a heap. */
static uint64_t end_of_memory(const struct malloc_look *l, const struct usage_region *r,
			      uint64_t end)
{
	const struct usage_region *last = l->regions + l->region_cnt - 1;

	while (r < last && r->end < end && r[1].start == r->end)
		r++;
	return end < r->end ? end : r->end;
}

/*
 * Resident bytes of a free chunk: glibc gives pages in its middle back (malloc_trim()). No chunk
 * goes on where there is no memory.
 */
static uint64_t chunk_resident(struct malloc_look *l, uint64_t addr, uint64_t size)
{
	const struct usage_region *r;
	uint64_t end, next, sum = 0;

	if (size < 4 * PAGE)
		return size;
	r = region_of(l, addr);
	end = r ? end_of_memory(l, r, addr + size) : 0;
	for (; addr < end && !is_late(l); addr = next) {
		next = end - addr > CHUNK_PART ? (addr & ~(PAGE - 1)) + CHUNK_PART : end;
		sum += l->src->resident(l->src->ctx, addr, next);
	}
	return sum;
}

/*
 * Resident bytes of the chunks of a bin. -EAGAIN: the list changed while it was read. Each chunk
 * must point back at the one before it, so no stale link leads round a ring that lacks the head.
 */
static int sum_bin(struct malloc_look *l, uint64_t head, uint64_t *sum)
{
	uint64_t at, before = head;

	*sum = 0;
	if (read_mem(l, &at, sizeof(at), head + 16))
		return -EAGAIN;
	while (at != head) {
		uint8_t chunk[32];
		uint64_t size;

		if (++l->chunks > CHUNKS_MAX || (l->chunks % 1024 == 0 && now_ms() > l->end_ms)) {
			l->out->malloc_cut = true;
			return 0;
		}
		if (at % 8 || read_mem(l, chunk, sizeof(chunk), at))
			return -EAGAIN;
		size = heap_word(chunk + 8) & ~CHUNK_FLAGS;
		if (!size || size > CHUNK_MAX || heap_word(chunk + 24) != before)
			return -EAGAIN;
		*sum += chunk_resident(l, at, size);
		before = at;
		at = heap_word(chunk + 16);
	}
	return 0;
}

/*
 * The chunk at the end of an arena's memory: it ends where a page does, and the one before it is in
 * use. The memory may have grown since its region was read. -EAGAIN: what was read is no such
 * chunk, because it has moved meanwhile or because there is none.
 */
static int sum_top(struct malloc_look *l, uint64_t bins, uint64_t *sum)
{
	const struct usage_region *r;
	uint64_t top, head, end;

	*sum = 0;
	if (read_mem(l, &top, sizeof(top), bins - BINS_BEFORE) ||
	    read_mem(l, &head, sizeof(head), top + 8))
		return -EAGAIN;
	end = top + (head & ~CHUNK_FLAGS);
	r = region_of(l, top);
	if (!r || end <= top || end - top > CHUNK_MAX || end % PAGE || !(head & PREV_IN_USE))
		return -EAGAIN;
	*sum = chunk_resident(l, top, (end < r->end ? end : r->end) - top);
	return 0;
}

/* A list that changes each time counts as far as it was read. */
static uint64_t sum_steady(struct malloc_look *l, uint64_t at,
			   int (*sum_up)(struct malloc_look *l, uint64_t at, uint64_t *sum))
{
	uint64_t sum = 0, most = 0;

	for (int i = 0; i < TRIES; i++) {
		if (!sum_up(l, at, &sum))
			return sum;
		most = sum > most ? sum : most;
		if (l->src->mem->renew)
			l->src->mem->renew(l->src->mem->ctx);
	}
	return most;
}

static uint64_t arena_free(struct malloc_look *l, uint64_t bins)
{
	uint64_t sum = sum_steady(l, bins, sum_top);

	for (unsigned i = 0; i < BIN_CNT && !l->out->malloc_cut; i++)
		sum += sum_steady(l, bin_addr(bins, i), sum_bin);
	return sum;
}

static void sum_malloc(struct malloc_look *l)
{
	struct heap_usage *u = l->out;

	follow_ring(l);
	for (size_t i = 0; i < l->region_cnt; i++)
		if (l->regions[i].libc && l->regions[i].write)
			find_main(l, &l->regions[i]);
	for (size_t i = 0; i < l->arena_cnt; i++)
		u->malloc_free += arena_free(l, l->arenas[i]);
	if (u->malloc_free > u->malloc)
		u->malloc_free = u->malloc;
	u->malloc_arenas = (uint32_t)l->arena_cnt;
	u->malloc_known = l->arena_cnt;
}

/* ---- sums ------------------------------------------------------------------------------------ */

static bool has_stack(const struct usage_source *src, const struct usage_region *r)
{
	for (size_t i = 0; i < src->stack_cnt; i++)
		if (src->stacks[i] >= r->start && src->stacks[i] < r->end)
			return true;
	return false;
}

/* The resident bytes of Python's arenas in a region. Arenas ascend. */
static uint64_t pools_in(const struct usage_source *src, const struct heap_scan *scan,
			 const struct usage_region *r)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < scan->arena_cnt; i++) {
		uint64_t start = scan->arenas[i].address;
		uint64_t end = start + scan->geometry.arena_size;

		if (end <= r->start || start >= r->end)
			continue;
		start = start > r->start ? start : r->start;
		bytes += src->resident(src->ctx, start, end < r->end ? end : r->end);
	}
	return bytes < r->rss ? bytes : r->rss;
}

static bool is_anon(const struct usage_region *r)
{
	return r->kind != USAGE_FILE && r->kind != USAGE_STACK;
}

static void sum_anon(struct malloc_look *l, const struct usage_region *r)
{
	uint64_t pools = r->pools, heaps = 0;

	if (!pools && r->kind == USAGE_ANON && has_stack(l->src, r)) {
		l->out->stacks += r->rss;
		return;
	}
	if (r->kind == USAGE_HEAP)
		heaps = r->rss - pools;
	else if (r->write)
		heaps = look_at_region(l, r);
	if (heaps > r->rss - pools)
		heaps = r->rss - pools;
	l->out->pools += pools;
	l->out->malloc += heaps;
	l->out->other += r->rss - pools - heaps;
}

int usage__sum(const struct usage_source *src, struct usage_region *regions, size_t cnt,
	       const struct heap_scan *scan, struct heap_usage *out)
{
	struct malloc_look *l = calloc(1, sizeof(*l));
	uint64_t live = scan->counts.object_bytes + scan->counts.storage_bytes;

	*out = (struct heap_usage){ 0 };
	if (!l)
		return -ENOMEM;
	*l = (struct malloc_look){ .src = src, .regions = regions, .region_cnt = cnt, .out = out };
	for (size_t i = 0; i < cnt; i++)
		regions[i].pools = is_anon(&regions[i]) ? pools_in(src, scan, &regions[i]) : 0;
	l->end_ms = now_ms() + CHUNKS_MS;
	for (size_t i = 0; i < cnt; i++) {
		out->rss += regions[i].rss;
		out->swap += regions[i].swap;
		if (regions[i].kind == USAGE_FILE)
			out->files += regions[i].rss;
		else if (regions[i].kind == USAGE_STACK)
			out->stacks += regions[i].rss;
		else
			sum_anon(l, &regions[i]);
	}
	sum_malloc(l);
	out->pools_empty = out->pools > live ? out->pools - live : 0;
	free(l);
	return 0;
}
