/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_COLLECTOR_H
#define PYPERF_COLLECTOR_H
/*
 * Finds the function that collects garbage: collect(), gc_collect_main() or _PyGC_Collect(), by
 * version. It is static or hidden, and a stripped file has no symbol for it. But only this function
 * writes "gc: collecting generation %d...\n" for gc.DEBUG_STATS (in 2.7 to 3.15). So it is the
 * function with an instruction that has the address of this text:
 *
 *	lea 0x1d3a2(%rip), %rdi		position-independent
 *	mov $0x8c12f0, %edi		or not
 *
 * If that instruction is in a part that the compiler has moved elsewhere (.cold), the function is
 * the one that jumps there. A compiler may have made several copies; all are found.
 */
#include <stddef.h>
#include <stdint.h>

#include "elf/elf.h"

#define COLLECTOR_ENTRIES_MAX 4
#define COLLECTOR_RETS_MAX    24

struct collector {
	uint64_t entries[COLLECTOR_ENTRIES_MAX]; /* link addresses: first instructions */
	size_t entry_cnt;
	uint64_t rets[COLLECTOR_RETS_MAX]; /* addresses of all `ret` in them */
	size_t ret_cnt;
};

/* 0; -ENOENT: there is none; -ENOTSUP: its code cannot be read; -E2BIG; -ENOMEM. */
int collector__find(const struct elf_file *ef, struct collector *out);

#endif /* PYPERF_COLLECTOR_H */
