/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_REFERRERS_H
#define PYPERF_HEAP_REFERRERS_H
/*
 * Who holds the objects of a type: other objects, in an attribute, under a key, as an item; and for
 * some of them who holds those, up to a root.
 *
 * The heap is read once for the objects, once for their holders, and once for each step of the
 * paths. Of many objects an even sample is taken.
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

enum ref_kind {
	REF_ITEM,   /* of a list, a tuple, a set, or an unnamed field */
	REF_VALUE,  /* of a dict, `key` is a str */
	REF_VALUES, /* of a dict, under many keys or such as are no str */
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
	uint64_t target; /* that it holds */
};

/* A path upwards: step 0 holds the object, step 1 holds step 0 ... */
struct ref_path {
	struct ref_group steps[REF_STEPS];
	size_t step_cnt;
	bool ends; /* nobody holds the last one, or it is a module */
};

struct referrers {
	uint64_t wanted;  /* objects of the type */
	uint64_t sampled; /* of them that were looked for */
	uint64_t found;	  /* references to these */
	uint64_t unheld;  /* of these objects: no other object holds them */
	bool late, full;
	struct ref_group *groups; /* most references first */
	size_t group_cnt, group_cap;
	struct ref_path paths[REF_PATHS];
	size_t path_cnt;
};

struct ref_source {
	struct heap_scan *scan; /* of its own; types live in it */
	/* Makes it ready for a reading: arenas, deadline. 0 or negative errno. */
	int (*prepare)(void *ctx, struct heap_scan *scan);
	void *ctx;
	uint16_t str_length, str_state, str_ascii, str_compact; /* of struct py_layout */
	uint16_t frame_code, frame_locals; /* of a frame; until 3.10 of the frame object */
	uint16_t code_name, code_locals;   /* of a code object: co_name, and the tuple of names */
	bool str_is_bytes;		   /* 2.7 */
};

/* 0; -ENOENT: there is no object of such a type; or negative errno. */
int referrers__find(const struct ref_source *src, const char *type, struct referrers *out);
void referrers__free(struct referrers *r);

#endif /* PYPERF_HEAP_REFERRERS_H */
