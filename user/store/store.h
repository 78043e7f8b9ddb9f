/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_STORE_H
#define PYPERF_STORE_H
/*
 * Keeps the agent's windows for days in one file, with one writer and any number of readers, in
 * other threads and processes, at the same time. An SQLite database in WAL mode;
 * docs/internals/store.md says why and shows the tables.
 *
 *	store.db, store.db-wal, store.db-shm	SQLite's
 *	store.db-reserve	the writer's lock, and room to work with when the disk is full
 *	store.db-damaged	the last file that was found damaged and set aside
 *
 * Invariants: a window whose put returned 0 is there, whole, until it is the oldest and must go,
 * also after a kill -9 (after a power cut the last seconds may be missing). The files together stay
 * below the configured size. A damaged file or a full disk never stops the writer: it continues
 * without the oldest windows, says so and counts them.
 *
 * A window belongs to the time at which it starts, so each window is in exactly one of several
 * consecutive ranges. Times are nanoseconds since 1970 (UTC), ranges are [from, to).
 *
 *	writer					reader
 *	struct store_config c;			struct store *s = store__open_read(path);
 *	struct store *s;			struct store_query q = { .from_ns = ..., ... };
 *	store_config__init(&c);
 *	s = store__open(&c);			err = store__services(s, &q, print, ctx);
 *	err = store__put(s, window);		err = store__profile(s, &q, import, NULL);
 *	store__close(s);			store__close(s);
 */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/window.h"

#define STORE_PATH    "/var/lib/pyperf-bpf/store.db"
#define STORE_SERVICE "service_name" /* the label that every window has */

struct store_config {
	char path[PATH_MAX]; /* absolute, ends in ".db" */
	/* age since a window was stored, not counting the time when nobody has the store open */
	uint64_t max_age_s;
	uint64_t max_bytes; /* of all files together */
	uint64_t keep_free; /* bytes: with less free on the file system the store does not grow */
};

/* STORE_PATH, 7 days, 2 GiB, 256 MiB. */
void store_config__init(struct store_config *c);
/*
 * A key of the section [store]: path, max-age (36h, 7d), max-size (500MB, 2GiB), keep-free. 0;
 * -ENOENT: no such key; -EINVAL: *why says what is wanted. Changes nothing unless 0.
 */
int store_config__set(struct store_config *c, const char *key, const char *value, const char **why);

/* ---- The writer ------------------------------------------------------------------------------ */

struct store; /* for one thread at a time */

/*
 * Makes the directory (0700) and the file (0600) if need be; a damaged file is set aside. NULL and
 * errno after a message: EBUSY another process writes to it, EPROTO it is of a newer version or not
 * ours. A full disk is no reason: then it is tried again with each window.
 */
struct store *store__open(const struct store_config *c);
/* Changes the configuration of an open store: all but the path. */
void store__configure(struct store *s, const struct store_config *c);
/*
 * Stores a window. 0, also if the window is there already, which changes nothing. Else negative
 * errno, after a message (of each kind one a minute), and the window is counted as lost. Removes
 * some of the oldest windows if there is no room or they are too old: a few at a time, so that no
 * put takes long.
 */
int store__put(struct store *s, const struct window *w);
/*
 * Logs what is in the store, and how long it keeps windows at their present rate, as far as that is
 * known.
 */
void store__say(struct store *s);
void store__close(struct store *s); /* a writer's or a reader's; may be NULL */

/* ---- Readers --------------------------------------------------------------------------------- */

/* NULL and errno after a message; ENOENT if there is no such file. */
struct store *store__open_read(const char *path);

/* A query: windows that start in the range and have all these labels. The arrays are borrowed. */
struct store_query {
	uint64_t from_ns, to_ns;
	const struct label *labels; /* { STORE_SERVICE, "web" }, { "region", "eu" } */
	size_t label_cnt;
	bool by_service; /* store__profile(): a service is one process, named after it */
};

struct store_service {
	const char *name;
	uint64_t windows, samples;
	uint64_t first_ns; /* start of the first window */
	uint64_t last_ns;  /* end of the last one */
};

/*
 * Each of these calls `fn` for every element, which is borrowed until `fn` returns; a return value
 * other than 0 ends it and is returned. 0 or negative errno, after a message if the error was not
 * `fn`'s.
 */
/* The services, by name. */
int store__services(struct store *s, const struct store_query *q,
		    int (*fn)(void *ctx, const struct store_service *x), void *ctx);
/* The labels of these windows, by name and value. */
int store__labels(struct store *s, const struct store_query *q,
		  int (*fn)(void *ctx, const struct label *x), void *ctx);
/*
 * The windows, by start. Without `pprof`, their pprof is NULL and its size right, and `fn` must be
 * quick, because it keeps the writer from clearing its log.
 */
int store__windows(struct store *s, const struct store_query *q, bool pprof,
		   int (*fn)(void *ctx, const struct window *x), void *ctx);

/*
 * Adds the profiles of these windows to an import, one after the other: needs memory for the merged
 * profile and one window. *windows (may be NULL) gets their number. Having no window is not an
 * error. 0 or negative errno after a message. The caller calls import__finish().
 */
struct import;
int store__profile(struct store *s, const struct store_query *q, struct import *im,
		   size_t *windows);

/* The reasons for removing windows. X(name, text) */
#define STORE_DROPS(X)                                                                             \
	X(age, "older than max-age")                                                               \
	X(size, "the oldest, when the store had its max-size")                                     \
	X(full, "the oldest, when the disk was full or nearly")                                    \
	X(lost, "could not be stored")

enum store_drop {
#define X(name, text) STORE_DROP_##name,
	STORE_DROPS(X)
#undef X
		STORE_DROP_CNT
};

const char *store_drop__name(enum store_drop d);

struct store_stats {
	uint64_t bytes; /* of all files */
	uint64_t windows;
	uint64_t oldest_ns, newest_ns; /* starts; 0: none */
	/* Since the store was begun. */
	uint64_t dropped[STORE_DROP_CNT];
	uint64_t damaged; /* files that were set aside, with an unknown number of windows */
};

/*
 * How long `limit` bytes last, in seconds, if `used` of them hold the windows of `span_s`; at most
 * max_age_s. 0: the time is too short to tell.
 */
uint64_t store__keeps_s(uint64_t limit, uint64_t used, uint64_t span_s, uint64_t max_age_s);

/* 0 or negative errno after a message. Cheap: does not read through the windows. */
int store__stats(struct store *s, struct store_stats *out);

#endif /* PYPERF_STORE_H */
