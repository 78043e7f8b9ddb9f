/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "heap/collector.h"

#include <limits.h>
#include <stddef.h>

/*
 * struct _gc_runtime_state (Include/internal/pycore_gc.h@3.13.0, Include/internal/mem.h@3.7.16):
 *
 *	int enabled, debug;		and padding up to a multiple of a generation's alignment
 *	struct gc_generation generations[3];
 *	PyGC_Head *generation0;		points at the first of them
 *	struct gc_generation permanent_generation;
 *	struct gc_generation_stats generation_stats[3];
 */
#define BEFORE	      20	 /* `enabled`, at the earliest */
#define READ_MAX      (208 + 72) /* with generation_stats */
#define STATS_SIZE    24
#define COLLECTED_MAX (1ULL << 48)
#define VERSION_FIRST 0x0307
#define VERSION_LAST  0x030d

struct layout {
	uint32_t generation; /* sizeof(struct gc_generation) */
	uint32_t enabled;    /* bytes before the generations */
	uint32_t generation0, stats;
};

/*
 * Some builds have the generations packed to 4 bytes, right behind `debug` (seen in Debian's
 * 3.13.5).
 */
static bool find_layout(uint32_t version, uint16_t gc_size, bool packed, struct layout *out)
{
	uint32_t align = gc_size > 16 ? 16 : packed ? 4 : 8;

	if (version < VERSION_FIRST || version > VERSION_LAST || gc_size < 16 || gc_size > 32)
		return false;
	out->generation = (gc_size + 8U + align - 1) / align * align;
	out->enabled = align == 16 ? 20 : align == 8 ? 12 : 8;
	out->generation0 = 3 * out->generation + (align == 4 ? 4 : 0);
	out->stats = (out->generation0 + 8 + align - 1) / align * align + out->generation;
	return true;
}

/* It is in a circle of two directions with its neighbours, or with itself. */
static bool is_head(const struct heap_mem *mem, const uint8_t *bytes, uint64_t addr)
{
	uint64_t next = heap_word(bytes) & ~3ULL, prev = heap_word(bytes + 8) & ~3ULL;
	uint64_t words[2];

	mem->gather(mem->ctx, words, (const uint64_t[]){ next + 8, prev }, 2);
	return (words[0] & ~3ULL) == addr && (words[1] & ~3ULL) == addr;
}

static bool read_generations(const uint8_t *bytes, const struct layout *l, uint16_t gc_size,
			     struct heap_collector *c)
{
	for (uint32_t i = 0; i < COLLECTOR_GENERATIONS; i++) {
		const uint8_t *head = bytes + (size_t)i * l->generation;
		const uint8_t *stats = bytes + l->stats + (size_t)i * STATS_SIZE;

		c->generations[i] = (struct heap_generation){
			.threshold = heap_half(head + gc_size),
			.count = heap_half(head + gc_size + 4),
			.collections = heap_word(stats),
			.collected = heap_word(stats + 8),
			.uncollectable = heap_word(stats + 16),
		};
		if (c->generations[i].threshold > INT_MAX || c->generations[i].count > INT_MAX ||
		    c->generations[i].collections > COLLECTED_MAX ||
		    c->generations[i].collected > COLLECTED_MAX ||
		    c->generations[i].uncollectable > COLLECTED_MAX)
			return false;
	}
	return true;
}

static bool read_at(const struct heap_mem *mem, uint16_t gc_size, const struct layout *l,
		    uint64_t base, struct heap_collector *out)
{
	uint8_t bytes[BEFORE + READ_MAX];
	const uint8_t *heads = bytes + BEFORE;
	struct heap_collector c = { .known = true };

	if (mem->read(mem->ctx, bytes, sizeof(bytes), base - BEFORE) ||
	    heap_word(heads + l->generation0) != base)
		return false;
	for (uint32_t i = 0; i < COLLECTOR_GENERATIONS; i++)
		if (!is_head(mem, heads + (size_t)i * l->generation,
			     base + (uint64_t)i * l->generation))
			return false;
	c.enabled = heap_half(heads - l->enabled);
	if (!read_generations(heads, l, gc_size, &c))
		return false;
	*out = c;
	return true;
}

bool heap_collector__read(const struct heap_mem *mem, uint32_t version, uint16_t gc_size,
			  uint64_t head, struct heap_collector *out)
{
	struct layout l;

	for (int packed = 0; packed < 2; packed++) {
		if (!find_layout(version, gc_size, packed, &l))
			return false;
		for (uint32_t i = 0; i < COLLECTOR_GENERATIONS; i++)
			if (read_at(mem, gc_size, &l, head - (uint64_t)i * l.generation, out))
				return true;
	}
	return false;
}
