/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_MEM_H
#define PYPERF_HEAP_MEM_H
/* The memory that a heap is read from: a process's, or a test's. It changes while it is read. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct heap_mem {
	void *ctx;
	/* Reads all `size` bytes and returns 0, or negative errno. */
	int (*read)(void *ctx, void *dst, size_t size, uint64_t src);
	/* The word at each of `cnt` addresses; 0 where there is none. */
	void (*gather)(void *ctx, uint64_t *words, const uint64_t *addrs, size_t cnt);
	/*
	 * Discards cached pages, so that later reads are not older than this call; NULL: there is
	 * no cache.
	 */
	void (*renew)(void *ctx);
};

#define HEAP_GATHER_MAX 1024 /* addresses of one gather() */

static inline uint64_t heap_word(const uint8_t *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return word;
}

static inline uint32_t heap_half(const uint8_t *p)
{
	uint32_t half;

	memcpy(&half, p, sizeof(half));
	return half;
}

#endif /* PYPERF_HEAP_MEM_H */
