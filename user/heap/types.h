/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_TYPES_H
#define PYPERF_HEAP_TYPES_H
/*
 * The types of the objects of a heap. An address is a type if its own type is `type`, or a
 * metaclass, which derives from `type` and is a type itself; the anchor is PyType_Type, an exported
 * symbol. Everything else about a type is untrusted. Bounded: HEAP_TYPES_MAX types, names of
 * HEAP_NAME_MAX bytes.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/idmap.h"
#include "bpf/pyperf.h"
#include "heap/mem.h"

#define HEAP_TYPES_MAX (1U << 18)
#define HEAP_NAME_MAX  200

struct heap_type {
	uint64_t addr;
	uint64_t flags; /* tp_flags */
	uint64_t basic_size, item_size;
	uint32_t prefix; /* bytes of an object's block before the object */
	bool gc;	 /* objects of it have a gc header */
	bool unnamed;	 /* its name cannot be read */
	bool is_meta;	 /* its objects are types */
	bool is_weak;	 /* its objects are weak references */
	/* offset of an object's list of weak references, none of which holds the other */
	uint64_t weaklist;
	char *name; /* safe for a terminal; owned */
	/* Objects */
	uint64_t cnt, bytes;
	uint64_t outside_cnt; /* number of them outside the pools */
	uint64_t largest, largest_addr;
	uint64_t spare_cnt, spare_bytes; /* in a free list of the type's */
};

/* The facts that depend on the version. */
struct heap_shape {
	uint32_t version;   /* 0x030b for 3.11 */
	bool free_threaded; /* objects are in mimalloc's segments, and have no gc header */
	uint16_t ob_type;
	uint16_t gc_size;	      /* of a gc header */
	uint16_t str_min;	      /* of the smallest str */
	uint64_t type_type, str_type; /* in the process; str_type may be 0 */
};

#define TYPES_REJECTED (1U << 16)

struct heap_types {
	const struct heap_mem *mem;
	struct heap_shape shape;
	struct idmap by_addr;
	struct heap_type **list;
	size_t cnt, cap;
	uint64_t *rejected; /* TYPES_REJECTED addresses that are not types */
	bool any_rejected;
	bool full; /* there were more types */
};

/* `mem` is borrowed. 0 or -ENOMEM. */
int heap_types__init(struct heap_types *t, const struct heap_mem *mem,
		     const struct heap_shape *shape);
void heap_types__free(struct heap_types *t);
/* The type at an address; NULL: there is none. Borrowed until heap_types__free(). */
struct heap_type *heap_types__get(struct heap_types *t, uint64_t addr);
/* Forgets the counts and the rejected addresses, which may be types by now. */
void heap_types__reset(struct heap_types *t);

#endif /* PYPERF_HEAP_TYPES_H */
