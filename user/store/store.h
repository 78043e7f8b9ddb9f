/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_STORE_H
#define PYPERF_STORE_H
/*
 * The agent's windows in one file, for days: put by one writer, read by any number of readers, in
 * other threads and processes, at the same time. An SQLite database in WAL mode;
 * docs/internals/store.md says why and shows the tables.
 *
 *	store.db, store.db-wal, store.db-shm	SQLite's
 *	store.db-reserve	the writer's lock, and room to work with when the disk is full
 *	store.db-damaged	the last one that was found damaged and set aside
 *
 * Invariants: a window whose put returned 0 is there, whole, until it is the oldest and must go,
 * also after a kill -9 (after a power cut the last seconds may be missing). The files together stay
 * below the configured size. A damaged file or a full disk never stops the writer: it goes on
 * without the oldest windows, says so and counts.
 *
 * A window belongs to the time at which it starts: of ranges that follow each other each window is
 * in one. Times are nanoseconds since 1970 (UTC), ranges are [from, to).
 *
 *	struct store_config c;			struct store *s = store__open_read(path);
 *	struct store *s;
 *						struct store_query q = { .from_ns = ..., .to_ns =
 *						... };
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
	uint64_t max_age_s;  /* since it was stored, not counting when nobody has the store open */
	uint64_t max_bytes;  /* of all files together */
	uint64_t
		/* bytes of the file system: with less than that free, the store does not grow */
		keep_free;
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
/* What of the configuration can change while open: all but the path. */
void store__configure(struct store *s, const struct store_config *c);
/*
 * 0; a window that is there already is no error, and changes nothing. Else negative errno, and the
 * window is counted as lost, after a message (of each kind one a minute). Takes some of the oldest
 * windows away if there is no room for it or they are too old: a few at a time, so that no put
 * takes long.
 */
int store__put(struct store *s, const struct window *w);
/*
 * Says what is in it, and how long it keeps windows at the rate at which they came, as far as that
 * is known.
 */
void store__say(struct store *s);
void store__close(struct store *s); /* either kind; NULL is fine */

/* ---- Readers --------------------------------------------------------------------------------- */

/* NULL and errno after a message. Of a path that is not there the message is ENOENT's. */
struct store *store__open_read(const char *path);

/*
 * What is asked for: windows that start in the range and have all these labels. The arrays are
 * borrowed.
 */
struct store_query {
	uint64_t from_ns, to_ns;
	const struct label *labels; /* { STORE_SERVICE, "web" }, { "region", "eu" } */
	size_t label_cnt;
};

struct store_service {
	const char *name;
	uint64_t windows, samples;
	uint64_t first_ns; /* start of the first window */
	uint64_t last_ns;  /* end of the last one */
};

/*
 * Each calls `fn` once for every element, with what is borrowed until it returns; a return value
 * other than 0 ends it and is returned. 0 or negative errno, after a message if it was not `fn`'s.
 */
/* By name. */
int store__services(struct store *s, const struct store_query *q,
		    int (*fn)(void *ctx, const struct store_service *x), void *ctx);
/* The labels of these windows, by name and value. */
int store__labels(struct store *s, const struct store_query *q,
		  int (*fn)(void *ctx, const struct label *x), void *ctx);
/*
 * By start. Without `pprof`, that of the windows is NULL and its size right, and `fn` must be
 * quick: it holds up the writer's clearing of its log.
 */
int store__windows(struct store *s, const struct store_query *q, bool pprof,
		   int (*fn)(void *ctx, const struct window *x), void *ctx);

/*
 * Adds the profiles of these windows to an import, one after the other: memory is that of the
 * merged profile and one window. *windows (may be NULL) says how many. No window is no error. 0 or
 * negative errno after a message. import__finish() is the caller's.
 */
struct import;
int store__profile(struct store *s, const struct store_query *q, struct import *im,
		   size_t *windows);

/* Why windows are gone. X(name, what is said of it) */
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
	uint64_t
		damaged; /* files that were set aside: how many windows were in them is not known */
};

/*
 * For how long `limit` bytes are enough, in seconds, when `used` of them hold what came in
 * `span_s`; 0: it is not to be told from so short a time. At most max_age_s.
 */
uint64_t store__keeps_s(uint64_t limit, uint64_t used, uint64_t span_s, uint64_t max_age_s);

/* 0 or negative errno after a message. Cheap: no table of windows is read through. */
int store__stats(struct store *s, struct store_stats *out);

#endif /* PYPERF_STORE_H */
