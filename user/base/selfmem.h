/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SELFMEM_H
#define PYPERF_SELFMEM_H
/*
 * How much memory this process takes now, in bytes, as /proc/self/statm has it. All 0 where there
 * is none.
 */
#include <stdint.h>

struct self_memory {
	uint64_t size;	   /* of the address space */
	uint64_t resident; /* of it in memory */
	uint64_t shared; /* of that, files and what is shared with others, the kernel among them */
};

void self_memory(struct self_memory *out);

#endif /* PYPERF_SELFMEM_H */
