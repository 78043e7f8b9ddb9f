/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_RINGS_H
#define PYPERF_RINGS_H
/*
 * Reads the records that BPF sends (process events, code objects and their names, samples that BPF
 * may not count itself) and passes each one to its sink.
 *
 *	r = rings__open(object, &sink);
 *	poll(rings__fd(r), POLLIN) ...
 *	rings__consume(r);
 *	rings__close(r);			before the object is closed
 */
#include <stddef.h>

#include "bpf/pyperf.h"
#include "follow/object.h"

struct rings;

typedef void (*ring_proc_fn)(void *ctx, const struct ev_proc *ev);
typedef void (*ring_code_fn)(void *ctx, const struct ev_code *ev, size_t size);
typedef void (*ring_blob_fn)(void *ctx, const struct ev_blob *ev, size_t size);
typedef void (*ring_stack_fn)(void *ctx, unsigned window, const struct ev_stack *ev, size_t size);

/* The functions that take the records. `proc` gets EV_DRAIN as well: ask object__wants_flip(). */
struct ring_sink {
	void *ctx;
	ring_proc_fn proc;
	ring_code_fn code; /* NULL: names are not wanted */
	ring_blob_fn blob; /* likewise */
	/*
	 * With CFG_NMI: takes a sample that BPF has counted, with its stack, to be added to
	 * `window`. The counts of the window for the same key come on top of it.
	 */
	ring_stack_fn stack;
};

/* `object` is borrowed until close. NULL after a message. */
struct rings *rings__open(struct object *object, const struct ring_sink *sink);
void rings__close(struct rings *r);

/*
 * Reads names of code objects from this ring of another object, too. 0 or negative errno, printed.
 */
int rings__add_blobs(struct rings *r, int fd);

/* Readable when there are records. Borrowed. */
int rings__fd(const struct rings *r);
/*
 * Passes at least the records that wait now to the sink. 0: all of them, and rings__fd() reports
 * further ones; 1: there may be more, which rings__fd() does not report: call this again before
 * waiting; or negative errno.
 */
int rings__consume(struct rings *r);
/*
 * Tells BPF not to wake us for process events until the next rings__consume(), which must come
 * soon.
 */
void rings__hush(struct rings *r);

#endif /* PYPERF_RINGS_H */
