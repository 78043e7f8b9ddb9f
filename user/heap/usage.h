/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_USAGE_H
#define PYPERF_HEAP_USAGE_H
/*
 * Divides the resident memory of a process: Python's pools, malloc's heaps and their free parts,
 * files, stacks, the rest. From /proc/PID/smaps, /proc/PID/pagemap and the heads of glibc's arenas
 * (malloc/arena.c: each heap but the main one begins at a multiple of 64 MiB with a struct
 * heap_info).
 *
 * glibc's lists of free chunks are read while the process changes them: the sum is an estimate, and
 * bounded.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/mem.h"
#include "heap/scan.h"
#include "process/maps_parse.h"

struct heap_usage {
	uint64_t rss;
	uint64_t pools;	      /* resident parts of Python's arenas */
	uint64_t pools_empty; /* of them: free */
	uint64_t malloc;      /* resident parts of malloc's heaps */
	uint64_t malloc_free; /* of them: free, about */
	uint32_t malloc_arenas;
	bool malloc_known; /* it is glibc's, and malloc_free is known */
	bool malloc_cut;   /* there were more free chunks than are read */
	uint64_t files, stacks;
	uint64_t other; /* anonymous: large blocks of malloc, mmap() of libraries */
	uint64_t swap;
};

struct usage_region {
	uint64_t start, end;
	uint64_t rss, swap;
	enum usage_kind { USAGE_FILE, USAGE_HEAP, USAGE_STACK, USAGE_ANON } kind;
	bool write;
	bool libc;	/* of glibc's file */
	uint64_t pools; /* of rss: in Python's arenas; usage__sum() sets it */
};

/* Parses the text of /proc/PID/smaps into regions, which the caller frees. 0 or -ENOMEM. */
int usage__parse(const char *text, size_t len, struct usage_region **out, size_t *cnt);

struct usage_source {
	const struct heap_mem *mem;
	const uint64_t *stacks; /* an address in each thread's stack that is known */
	size_t stack_cnt;
	/* Bytes of [start, end) that are resident. */
	uint64_t (*resident)(void *ctx, uint64_t start, uint64_t end);
	void *ctx;
};

/* Computes the sums; call it after heap_scan__run(). 0 or -ENOMEM. */
int usage__sum(const struct usage_source *src, struct usage_region *regions, size_t cnt,
	       const struct heap_scan *scan, struct heap_usage *out);

#endif /* PYPERF_HEAP_USAGE_H */
