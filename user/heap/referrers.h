/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_REFERRERS_H
#define PYPERF_HEAP_REFERRERS_H
/*
 * Finds the holders of the objects of a type: other objects, by an attribute, under a key, or as an
 * item; and for some of them a path of holders up to a root.
 *
 * The heap is read once for the objects, once for their holders, and once for each step of the
 * paths. If there are many objects, an even sample of them is taken.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/idmap.h"
#include "heap/scan.h"

#define REF_TARGETS_MAX (1U << 17)
#define REF_GROUPS_MAX	1024
#define REF_PATHS	5
#define REF_STEPS	12
#define REF_NAME_MAX	64 /* characters of a key */
#define REF_EXAMPLES	5

enum ref_kind {
	REF_ITEM,   /* of a list, a tuple, a set, or an unnamed field */
	REF_VALUE,  /* of a dict, `key` is a str */
	REF_VALUES, /* of a dict, under many keys or keys that are not str */
	REF_KEY,    /* of a dict: it is a key itself */
	REF_ATTR,   /* `key` is a str */
	REF_FIELD,  /* `key` is the offset of a field that the type names */
	REF_LOCAL,  /* of a frame: `key` is its code object, `index` the variable's place */
	REF_DICT,   /* it is the object's __dict__ */
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

/* A path upwards: step 0 holds the object, step 1 holds step 0 ... */
struct ref_path {
	struct ref_group steps[REF_STEPS];
	size_t step_cnt;
	bool ends; /* nobody holds the last one, or it is a module */
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
};

/* 0; -ENOENT: there is no object of this type; or negative errno. */
int referrers__find(const struct ref_source *src, const char *type, struct referrers *out);
void referrers__free(struct referrers *r);

#endif /* PYPERF_HEAP_REFERRERS_H */
