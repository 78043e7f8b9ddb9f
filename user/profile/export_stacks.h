/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EXPORT_STACKS_H
#define PYPERF_EXPORT_STACKS_H
/*
 * The first step of all formats: reduces the frames of a profile to what the format distinguishes,
 * and sorts and merges the stacks that become equal.
 *
 *    sym_ranks     numbers the syms by content: equal ones get one number, and the numbers are in
 *                  the order of the content. A list of frames is then a list of numbers, so output
 *                  depends on what is in a profile and not on the order in which it was collected.
 *    flat_stacks   the stacks as such lists, outermost first, sorted and merged
 *
 * A frame without a sym (frame_syms is NULL, or holds no valid index) has the sym of index sym_cnt:
 * a marker "[not-symbolized]". Every array by sym index has therefore sym_cnt + 1 elements.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

/*
 * The longest chain of functions inlined into each other that is followed: it comes from foreign
 * bytes.
 */
#define EXPORT_MAX_INLINED 64

/* The sym of any index. Borrowed from the profile. */
const struct sym *export_sym(const struct profile *p, uint32_t index);
/* Index of the sym inlined into sym `index`, or -1. */
int32_t export_sym_inlined(const struct profile *p, uint32_t index);

/* "python", "native", "kernel", "plain", "marker". */
const char *export_kind_name(uint8_t kind);

/* Like strcmp() for interned strings; embedded NULs count. */
int export_str_cmp(const struct profile *p, str_id a, str_id b);

/*
 * Orders functions by kind, name, file, module, and whether they are inlined. All unnamed code of a
 * module is one function, because its many addresses mean nothing to a reader.
 */
int export_function_cmp(const struct profile *p, const struct sym *a, const struct sym *b);

/*
 * What a viewer distinguishes besides functions: the lines being executed; functions of the same
 * name by their first lines, in formats that have them.
 */
enum place_parts {
	PLACE_LINES = 1 << 0,
	PLACE_DEFINITIONS = 1 << 1,
};

/*
 * Orders places: functions and `parts` of them (an unsigned of enum place_parts). Unnamed code is
 * ordered by its address.
 */
int export_place_cmp(const struct profile *p, uint32_t a, uint32_t b, const void *parts);

struct sym_ranks {
	uint32_t *of;	 /* sym index -> rank; sym_cnt + 1 elements */
	uint32_t *first; /* rank -> lowest index of a sym with this rank */
	uint32_t cnt;	 /* ranks */
};

/* Compares sym `a` with sym `b`, both indexes. */
typedef int (*sym_cmp_fn)(const struct profile *p, uint32_t a, uint32_t b, const void *arg);

/* 0 or -ENOMEM. */
int sym_ranks__init(struct sym_ranks *r, const struct profile *p, sym_cmp_fn cmp, const void *arg);
void sym_ranks__free(struct sym_ranks *r);

/* Orders processes by all their fields but the space. */
int export_proc_cmp(const struct profile *p, uint32_t a, uint32_t b);

/* Processes in the order of their content. A stack of an unknown process comes after the last. */
struct proc_order {
	uint32_t *at;	/* rank -> index; proc_cnt + 1 elements, the last is UINT32_MAX */
	uint32_t *rank; /* index -> rank */
};

/* 0 or -ENOMEM. */
int proc_order__init(struct proc_order *o, const struct profile *p);
void proc_order__free(struct proc_order *o);
/*
 * Makes keys for flat_stacks__init(): for each stack, the rank of its process in the high 32 bits
 * and its thread (0 without `threads`) in the low ones. The caller frees them; NULL: no memory.
 */
uint64_t *proc_order__keys(const struct proc_order *o, const struct profile *p, bool threads);

struct flat_stack {
	size_t first; /* in elems[] of the outermost element */
	uint32_t cnt;
	uint16_t type; /* index in stats.values */
	uint64_t key;
	uint64_t count, samples;
};

struct flat_stacks {
	uint32_t *elems;
	size_t elem_cnt;
	struct flat_stack *stacks;
	size_t cnt;
};

/*
 * Makes the stacks with each frame replaced by ids[its sym]. With `inlined`, functions inlined into
 * a frame follow it as elements of their own. `keys` (NULL: all 0) has one number per stack of the
 * profile. Sorts stacks by key, elements and value type, and adds up equal ones. 0 or -ENOMEM.
 */
int flat_stacks__init(struct flat_stacks *fs, const struct profile *p, const uint32_t *ids,
		      bool inlined, const uint64_t *keys);
void flat_stacks__free(struct flat_stacks *fs);

/*
 * The stacks with one key, which are neighbours in flat_stacks. Numbers are those of the first
 * value type.
 */
struct stack_group {
	size_t first, cnt;
	uint64_t key;
	uint64_t count, samples;
};

/* The groups, largest count first. The caller frees them; NULL: no memory. */
struct stack_group *flat_stacks__groups(const struct flat_stacks *fs, size_t *cnt);

/*
 * All of the above at once, for viewers: by process (and thread), with inlined functions as frames.
 */
struct export_view {
	/* by export_place_cmp(); only places in stacks; `of` is not valid */
	struct sym_ranks places;
	struct flat_stacks stacks; /* of places */
	struct proc_order procs;
	struct stack_group *groups;
	size_t group_cnt;
};

/* `parts`: enum place_parts. 0 or -ENOMEM. */
int export_view__init(struct export_view *v, const struct profile *p, unsigned parts, bool threads);
void export_view__free(struct export_view *v);
/* The process of a group, or NULL. */
const struct profile_proc *export_view__proc(const struct export_view *v, const struct profile *p,
					     const struct stack_group *g);

/* Time of `count` samples in nanoseconds; 0 when the frequency is not known. */
int64_t export_cpu_ns(const struct profile *p, uint64_t count);
/* The same of another value type than the first. */
int64_t export_value_ns(const struct value_type *v, uint64_t count);

#endif /* PYPERF_EXPORT_STACKS_H */
