/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_REFERRERS_H
#define PYPERF_HEAP_REFERRERS_H
/*
 * Finds the holders of the objects of a type: other objects, by an attribute, under a key, or as an
 * item; and for some of them a path of holders up to a root.
 *
 * The heap is read once for the objects, once for their holders, and twice for the paths, however
 * long they are. If there are many objects, an even sample of them is taken. Memory is bounded by
 * REF_TARGETS_MAX objects, and by REF_NODES_MAX holders and REF_EDGES_MAX references of the paths:
 * about 30 bytes for each object that can hold another one.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/idmap.h"
#include "heap/scan.h"

#define REF_TARGETS_MAX (1U << 17)
#define REF_GROUPS_MAX	1024
#define REF_NODES_MAX	(1U << 23)
#define REF_EDGES_MAX	(1U << 25)
#define REF_PATHS	5
#define REF_STEPS	48 /* twelve groups of four that repeat together */
#define REF_EXAMPLES	5

enum ref_kind {
	REF_ITEM,   /* of a list, a tuple, a set, or an unnamed field */
	REF_VALUE,  /* of a dict, `key` is a str */
	REF_VALUES, /* of a dict, under many keys or keys that are not str */
	REF_KEY,    /* of a dict: it is a key itself */
	REF_ATTR,   /* `key` is a str */
	REF_FIELD,  /* `key` is the offset of a field that the type names */
	/* of a frame, an object or not: `key` is its code object, `index` the variable's place */
	REF_LOCAL,
	REF_DICT, /* it is the object's __dict__ */
};

struct ref_group {
	const struct heap_type *type; /* of the holders */
	enum ref_kind kind;
	uint64_t key;
	uint32_t index;
	char *name;	 /* of the key, safe for a terminal; owned; or NULL */
	uint64_t cnt;	 /* references */
	uint64_t holder; /* one of them */
	uint64_t target; /* an object that it holds */
};

/* Some steps that repeat are one: this step, and the `together - 1` next to it, `times` times. */
struct ref_step {
	struct ref_group what; /* of the first time */
	uint32_t times, together;
	uint64_t left_out; /* number of holders between this step and the next, not shown */
};

enum ref_end {
	REF_END_OPEN, /* not known */
	REF_END_ROOT, /* a module, a class, or a local of a running function */
	REF_END_NONE, /* no other object holds the last one */
	REF_END_RING, /* they hold each other, and nothing else holds one of them */
};

/* A path upwards: step 0 holds the object, step 1 holds step 0 ... */
struct ref_path {
	struct ref_step steps[REF_STEPS];
	size_t step_cnt;
	uint64_t holders; /* on all of the path */
	enum ref_end end;
};

/* Addresses of some objects, ascending. */
struct ref_examples {
	uint64_t addrs[REF_EXAMPLES];
	size_t cnt;
};

struct referrers {
	uint64_t wanted;  /* objects of the type */
	uint64_t sampled; /* number of them whose holders were searched */
	uint64_t found;	  /* references to these */
	uint64_t unheld;  /* number of these objects that no other object holds */
	struct ref_examples held, not_held;
	bool late, full;
	struct ref_group *groups; /* most references first */
	size_t group_cnt, group_cap;
	struct ref_path paths[REF_PATHS];
	size_t path_cnt;
};

struct ref_source {
	struct heap_scan *scan; /* of its own; types live in it */
	/* Prepares a reading: arenas, deadline. 0 or negative errno. */
	int (*prepare)(void *ctx, struct heap_scan *scan);
	void *ctx;
	const struct py_layout *layout;
	uint16_t frame_locals; /* of a frame; until 3.10 of the frame object */
	uint16_t code_locals;  /* of a code object: the tuple of names */
	uint64_t interp_head;  /* where the first PyInterpreterState's address is; 0: not known */
};

/* 0; -ENOENT: there is no object of this type; or negative errno. */
int referrers__find(const struct ref_source *src, const char *type, struct referrers *out);
void referrers__free(struct referrers *r);

#endif /* PYPERF_HEAP_REFERRERS_H */
