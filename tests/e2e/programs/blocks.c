/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * An extension that allocates, called by ctypes: which calls, how many blocks of how many bytes. It
 * keeps the blocks, or frees them at once.
 */
#include <stdlib.h>
#include <string.h>

static void *kept;

static void keep(void **block)
{
	*block = kept;
	kept = block;
}

void leak(long cnt, long size)
{
	while (cnt--)
		keep(malloc((size_t)size));
}

void filled(long cnt, long size)
{
	while (cnt--)
		keep(memset(malloc((size_t)size), 1, (size_t)size));
}

void zeroed(long cnt, long size)
{
	while (cnt--)
		keep(calloc(16, (size_t)size / 16));
}

void aligned(long cnt, long size)
{
	void *block;

	for (long i = 0; i < cnt; i++) {
		if (i % 2)
			block = aligned_alloc(64, (size_t)size);
		else if (posix_memalign(&block, 4096, (size_t)size))
			abort();
		keep(block);
	}
}

/* realloc(NULL), then twice as much, then half of that: the last size counts. */
void resized(long cnt, long size)
{
	while (cnt--) {
		void *volatile block = realloc(NULL, (size_t)size);

		block = realloc(block, 2 * (size_t)size);
		keep(realloc(block, (size_t)size));
	}
}

void churn(long cnt, long size)
{
	while (cnt--) {
		void *volatile block = malloc((size_t)size);

		free(block);
	}
}

void drop(void)
{
	while (kept) {
		void *next = *(void **)kept;

		free(kept);
		kept = next;
	}
}
