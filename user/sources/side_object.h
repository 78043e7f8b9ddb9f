/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SIDE_OBJECT_H
#define PYPERF_SIDE_OBJECT_H
/*
 * A BPF object beside the sampler's. Its programs walk with the maps of the sampler, except for the
 * maps that a program writes while it holds the scratch and those that only this object has. Loaded
 * in a thread of its own (base/loader.h).
 *
 *	skel = ...__open_opts(side_object__begin(&o, w))
 *	side_object__load(&o, skel->skeleton, cfg, 2);
 *	side_object__ready(&o, skel->progs.on_walk, "waits");	0: it is loaded
 *	loader__attach(o.loader, skel->progs.on_x);
 *	side_object__end(&o);			before the skeleton is destroyed
 *
 * A source that sets source_use.side has its ring, tables and counters handed out by
 * side_source__blobs(), side_source__window() and side_source__counters().
 */
#include <bpf/libbpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loader.h"
#include "follow/world.h"
#include "sources/sources.h"

/*
 * These variables are shared by all objects, so all programs see the same window, epoch and draft.
 */
#define SIDE_SAME_PLACE(bss, member)                                                               \
	_Static_assert(offsetof(struct bss, member) == offsetof(struct pyperf_bpf__bss, member),   \
		       #member " lies elsewhere in " #bss)
#define SIDE_SAME_BSS(bss)                                                                         \
	SIDE_SAME_PLACE(bss, user_woken);                                                          \
	SIDE_SAME_PLACE(bss, chunks_added);                                                        \
	SIDE_SAME_PLACE(bss, active_window);                                                       \
	SIDE_SAME_PLACE(bss, draft);                                                               \
	SIDE_SAME_PLACE(bss, events_lost);                                                         \
	SIDE_SAME_PLACE(bss, clock_ns);                                                            \
	SIDE_SAME_PLACE(bss, code_epoch);                                                          \
	SIDE_SAME_PLACE(bss, counts_added);                                                        \
	_Static_assert(sizeof(struct bss) == sizeof(struct pyperf_bpf__bss),                       \
		       #bss " has other variables")

struct side_object {
	struct loader *loader;
	struct bpf_object *obj; /* of its skeleton */
	const struct bpf_object *sampler;
	const uint32_t *active_window;
	bool kernel; /* set before the load: stacks have the kernel's frames if the sampler's do */
	void *skel;
	struct shares *shares; /* of its table, mapped; NULL: it has none */
};

/* What its skeleton is opened with. */
const struct bpf_object_open_opts *side_object__begin(struct side_object *o, const struct world *w);
/*
 * Lets the object share the sampler's maps, and begins to load it. `cfg`: the configuration in its
 * .rodata, which becomes the sampler's without the flags for perf events. `number`: see
 * pyperf_cfg.object. 0 or negative errno.
 */
int side_object__load(struct side_object *o, struct bpf_object_skeleton *skel,
		      struct pyperf_cfg *cfg, uint32_t number);
void side_object__end(struct side_object *o);

/*
 * Maps the array `name` with the struct shares of a table of the object, once it is loaded, until
 * side_object__end(). 0 or negative errno.
 */
int side_object__map_shares(struct side_object *o, const char *name);
/* Deletes an entry of that table, and gives its room back to the user of that slot. */
void side_object__take_out(const struct side_object *o, int fd, const void *key, uint32_t slot);
/*
 * Warns if sampled `what` ("pages") of `source` ("-e growth") found no room in that table; `as`
 * says what they count as.
 */
void side_object__say_refused(const struct side_object *o, const char *source, const char *what,
			      const char *as);

/* Makes `program` the target of the tail calls of its other programs. 0 or negative errno. */
int side_object__go_on_in(const struct side_object *o, const struct bpf_program *program);
/*
 * Waits for the load, and makes `program` that target. `what` its programs are of, like "waits", is
 * for the message if they cannot be loaded. 0 or negative errno.
 */
int side_object__ready(struct side_object *o, const struct bpf_program *program, const char *what);
int side_object__map_fd(const struct side_object *o, const char *name);
/* 0 or 1: the one that BPF writes to. */
uint32_t side_object__active_window(const struct side_object *o);
/* The tables of the other window than the active one. */
void side_object__tables(const struct side_object *o, uint32_t active_window,
			 struct source_tables *out);
/* Adds its counters of all CPUs. */
void side_object__counters(const struct side_object *o, uint64_t counters[CTR_CNT]);

/* See source.blobs, .window and .counters. */
int side_source__blobs(const struct source_use *u);
int side_source__window(struct source_use *u, struct source_tables *out);
void side_source__counters(const struct source_use *u, uint64_t counters[CTR_CNT]);
#define SIDE_SOURCE                                                                                \
	.blobs = side_source__blobs, .window = side_source__window,                                \
	.counters = side_source__counters

/*
 * One object of all sources of a kind in a session: the first source opens it, and the last one
 * closes it. It is the `side` of the first one alone, so nothing counts twice.
 */
struct side_shared {
	struct side_object side;
	uint32_t user_cnt; /* 0: it is not open */
};

struct side_kind {
	const char *name; /* for messages: "probes" */
	/*
	 * Opens the skeleton with side_object__begin(), puts it into `skel`, and begins to load it.
	 * 0 or negative errno; destroy() is called in any case.
	 */
	int (*open)(struct side_object *o, const struct world *w);
	void (*destroy)(void *skel); /* NULL: does nothing */
};

/* What one source has of it. Zeroed: nothing. */
struct side_use {
	const struct side_kind *kind;
	struct side_shared *shared; /* borrowed */
};

/* 0, or negative errno after a message. Call side_use__close() in any case. */
int side_use__open(struct source_use *u, struct side_use *use, const struct side_kind *kind,
		   struct side_shared *shared, const struct world *w);
void side_use__close(struct side_use *use);

#endif /* PYPERF_SIDE_OBJECT_H */
