/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_SPOOL_H
#define PYPERF_AGENT_SPOOL_H
/*
 * The windows that wait to be sent to one backend: a directory with one file for each, in the order
 * of their arrival; a queue for each service (push_services.h).
 *
 *	0000000000000a31.window		a window (winfile.h); its number is its place in the queue
 *					and its age (arrivals.h)
 *	window.tmp			a window that is being written
 *	0000000000000a2f.damaged	set aside: not what was written; the last few are kept
 *
 * Invariants: put + found = sent + dropped (by reason) + waiting, at any time. A window whose put
 * returned 0 survives a kill -9; after a power cut the windows of the last half minute may be
 * missing, but none is incomplete. A window leaves when it was sent, or dropped with a reason; a
 * crash between sending and removing sends it again, with the same id.
 *
 * If the disk does not take a window, it is kept in memory as long as there is room for it
 * (SPOOL_MEMORY_MAX).
 *
 * spool__put() is for one thread, spool__take() and spool__done() for one (another); spool__stats()
 * for any. No lock is held while a file is written or read.
 */
#include <stdbool.h>
#include <stdint.h>

#include "agent/push/push_services.h"
#include "agent/push/winfile.h"
#include "base/str.h"
#include "store/window.h"

#define SPOOL_MEMORY_MAX (16U << 20) /* bytes of windows in memory */

/* The reasons for losing windows. X(name, text) */
#define SPOOL_DROPS(X)                                                                             \
	X(rejected, "refused by the backend for good")                                             \
	X(unfit, "not to be had in the format of the backend")                                     \
	X(age, "older than spool-max-age")                                                         \
	X(size, "the oldest, when the spool had its spool-max-size")                               \
	X(damaged, "found damaged in the spool")                                                   \
	X(disk, "not taken by the disk, and no room in memory")

enum spool_end {
#define X(name, text) SPOOL_DROP_##name,
	SPOOL_DROPS(X)
#undef X
		SPOOL_DROP_CNT,
	SPOOL_SENT = SPOOL_DROP_CNT,
	SPOOL_KEEP, /* not sent: it goes back to its place */
};

/* The name and the text of the table above, for labels of metrics and for messages. Never NULL. */
const char *spool_drop__name(enum spool_end drop);
const char *spool_drop__text(enum spool_end drop);

struct spool_limits {
	uint64_t max_bytes;  /* on disk; a window takes whole blocks of 4096 bytes */
	uint64_t max_age_ns; /* age while the spool is open; whole milliseconds count */
};

struct spool_stats {
	uint64_t put, found; /* found: at open */
	uint64_t sent, dropped[SPOOL_DROP_CNT];
	uint64_t windows, bytes;	  /* waiting, on disk and in memory */
	uint64_t memory_windows;	  /* of them in memory only */
	uint64_t services, held_services; /* with waiting windows; of them refused the last time */
	uint64_t oldest_age_ns;		  /* as max_age_ns; 0: none waits */
	uint64_t disk_errors, disk_error; /* how many, and the last one's errno */
};

struct spool;

/*
 * Creates the directory (0700) if need be, and takes over its contents. `name` is for messages and
 * is borrowed. NULL and errno after a message; EBUSY: another process uses it.
 */
struct spool *spool__open(const char *dir, const char *name, const struct spool_limits *limits);
/* Writes windows that are only in memory, if the disk takes them now. */
void spool__close(struct spool *s);

/*
 * Stores a window. 0: it is in its file. -ENOSPC or another errno of the disk: it waits in memory,
 * or was dropped (counted, after a message). -EINVAL: not a window that can be kept (winfile.h):
 * dropped.
 */
int spool__put(struct spool *s, const struct window *w);

struct spool_item {
	struct winfile file;	      /* the window is file.w */
	struct push_window *window;   /* for spool__done() */
	struct push_service *service; /* for comparisons; its name may be read */
	unsigned tries;		      /* number of tries that spool__done() has counted */
	unsigned failures;	      /* of its service in a row; 0: it is well */
	uint64_t waiting;	      /* windows of its service */
	bool probe;		      /* not the first of its service, which is suspect */
};

/*
 * Takes the window whose turn it is. `which`: PUSH_TURN_WELL | PUSH_TURN_TROUBLED. Drops windows
 * that are too old. 0, -ENOENT: none, or another errno (out of memory): try again later. Call
 * spool__done() for every item.
 */
int spool__take(struct spool *s, unsigned which, struct spool_item *item);
/* SPOOL_KEEP counts a try if `tried`. */
void spool__done(struct spool *s, struct spool_item *item, enum spool_end end, bool tried);

/* As push_services.h has them, about the service of an item; before spool__done(). */
void spool__judge(struct spool *s, const struct spool_item *item, enum push_service_verdict v,
		  uint64_t until_ms, int status);
uint64_t spool__suspect(struct spool *s, const struct spool_item *item);
bool spool__is_alone(struct spool *s, const struct spool_item *item);
void spool__due(struct spool *s, uint64_t *well_ms, uint64_t *other_ms);
/* "131 windows of 4 services: web 100 (status 429), ..." */
void spool__print_waiting(struct spool *s, struct strbuf *out);
/* Logs losses that were held back since the last message about them. */
void spool__say_losses(struct spool *s);

void spool__stats(struct spool *s, struct spool_stats *out);

/* Is it the name of a file of a spool? *window: of a waiting window. */
bool spool__is_file(const char *name, bool *window);

#endif /* PYPERF_AGENT_SPOOL_H */
