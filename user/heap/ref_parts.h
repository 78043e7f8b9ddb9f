/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_REF_PARTS_H
#define PYPERF_HEAP_REF_PARTS_H
/*
 * What the files that search for holders share: referrers.c knows what an object refers to and
 * counts references to the objects of a type; ref_frames.c knows what running functions refer to;
 * ref_paths.c goes on to what holds the holders; ref_labels.c asks for a few objects.
 *
 * A reading of the heap calls `hit` for each reference to an object that `is_target` knows.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/idmap.h"
#include "heap/names.h"
#include "heap/referrers.h"
#include "heap/scan.h"

#define STORAGE_CHUNK 4096 /* words */
#define KEYS_SEEN     8	   /* keys of one dict that are told apart */

struct ref_finder {
	const struct ref_source *src;
	struct heap_scan *scan;
	struct heap_names names;
	struct referrers *out;
	/* Whose holders are searched: their lowest and highest address, and a test of others. */
	uint64_t low, high;
	bool (*is_target)(struct ref_finder *f, uint64_t addr);
	void (*hit)(struct ref_finder *f, const struct ref_group *g);
	struct idmap targets; /* address -> anything */
	const char *wanted;
	uint64_t every; /* of so many one is taken */
	struct idmap held;
	struct idmap running; /* frames of running functions, by address */
	void *paths;	      /* of ref_paths.c, ref_labels.c */
	/* scratch: of an object, and of a dict */
	uint64_t words[STORAGE_CHUNK];
	struct ref_group seen[KEYS_SEEN];
	size_t seen_cnt;
};

/* NULL: no memory. Borrows both. */
struct ref_finder *ref_finder__new(const struct ref_source *src, struct referrers *out);
void ref_finder__free(struct ref_finder *f);

static inline int ref_read(const struct ref_finder *f, void *dst, size_t size, uint64_t addr)
{
	return f->scan->mem->read(f->scan->mem->ctx, dst, size, addr);
}

static inline uint16_t ref_version(const struct ref_finder *f)
{
	return (uint16_t)f->scan->types.shape.version;
}

/* The target that a word refers to, or 0. The lowest bit is a tag in frames of 3.14 and later. */
static inline uint64_t ref_target(struct ref_finder *f, uint64_t word)
{
	word &= ~1ULL;
	return word >= f->low && word <= f->high && f->is_target(f, word) ? word : 0;
}

/* Is the time of this reading up? An object that lies about its size takes hours to read. */
bool ref_is_late(struct ref_finder *f);
/* Reports what an object refers to. */
void ref_look_at_object(struct ref_finder *f, const struct heap_seen *o);
/* The bytes of the object that refer to others; 0: none. Items that are a part of it count. */
uint64_t ref_own_size(struct ref_finder *f, const struct heap_type *type, uint64_t addr);
/* Visits all objects, and before them the frames of running functions. 0 or negative errno. */
int ref_read_heap(struct ref_finder *f, void (*visit)(void *ctx, const struct heap_seen *o));
/* Are they of one kind: of holders that hold their objects in the same way? */
bool ref_group__is_same(const struct ref_group *a, const struct ref_group *b);
/* Names the holders of a step. */
void ref_name_step(struct ref_finder *f, struct ref_group *g);

/* ref_frames.c: frames that are not objects, or are those of running functions. */

extern const struct heap_type ref_frame_type; /* of frames that are not objects */

/* Learns the frames of running functions. */
void ref_frames__find(struct ref_finder *f);
/* Reports the locals of those that are not objects. */
void ref_frames__report(struct ref_finder *f);
/* Reports the locals of a frame; `type` and `holder` are of what has it. */
void ref_look_at_frame(struct ref_finder *f, const struct heap_type *type, uint64_t holder,
		       uint64_t frame);

/* ref_paths.c: finds the paths of the first groups. 0 or -ENOMEM. */
int ref_paths__find(struct ref_finder *f);

#endif /* PYPERF_HEAP_REF_PARTS_H */
