/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_JIT_CODES_H
#define PYPERF_JIT_CODES_H
/*
 * The functions of generated code that one file or list names: they come in any order and overlap,
 * as code is freed and its memory used again. Settled, there is at each address the one that came
 * last. Code of a jitdump that moved has the name that it was loaded with.
 *
 * list[0 .. settled) are disjoint and ascending, the rest as they came. The owner adds at the end,
 * and frees the list.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ID_MOVED UINT32_MAX /* in struct jit_code */

struct jit_code {
	uint64_t start, end;
	uint64_t name;	/* where it is in the file, or in memory; 0: there is no code any more */
	uint64_t index; /* of a jitdump: what a move refers to; of a list: the length of the name */
	uint32_t order; /* the later wins; only while settling */
	uint32_t id;	/* of the name, 0: not read; ID_MOVED: `name` is not known yet */
};

struct jit_codes {
	struct jit_code *list;
	size_t cnt, cap, settled;
	bool moves; /* some ids are ID_MOVED */
};

/* Brings the list in order. 0 or -ENOMEM: then only the settled ones are found. */
int jit_codes__settle(struct jit_codes *l);
/* The settled one that covers an address, or NULL. */
struct jit_code *jit_codes__find(const struct jit_codes *l, uint64_t addr);

#endif /* PYPERF_JIT_CODES_H */
