/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SELFMEM_H
#define PYPERF_SELFMEM_H
/* The memory of this process in bytes, from /proc/self/statm. All 0 if that cannot be read. */
#include <stdint.h>

struct self_memory {
	uint64_t size;	   /* of the address space */
	uint64_t resident; /* ... of it in memory */
	/* ... of that, files and memory shared with other processes or the kernel */
	uint64_t shared;
};

void self_memory(struct self_memory *out);

#endif /* PYPERF_SELFMEM_H */
