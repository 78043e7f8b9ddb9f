/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_FOLLOW_H
#define PYPERF_FOLLOW_H
/*
 * The world, whoever asks about it: processes and their files, unwind tables, news of mappings,
 * what BPF sends, names. Nothing is sampled here.
 *
 *	f = follow__open(&opts);	loaded in a thread; fork, exec, exit and mappings are told
 *					from here on
 *	follow__scan(f);		the processes that run already
 *	while (...) {
 *		poll(follow__fd(f), ...)
 *		follow__look(f);	takes over what has happened since
 *	}
 *	follow__names(f, p, &so);	modules and names of a profile
 *	follow__close(f);
 *
 * Times are those of now_ns() (clock.h). Every error is printed where it happens, once.
 */
#include <stdbool.h>
#include <stdint.h>

#include "follow/object.h"
#include "follow/perf.h"
#include "follow/rings.h"
#include "process/mmapwatch.h"
#include "process/process.h"
#include "profile/profile.h"
#include "symbolize/symbolize.h"

struct follow;

enum follow_watch {
	FOLLOW_NO_WATCH,   /* of mappings: the processes are looked at once */
	FOLLOW_WATCH_EACH, /* each wakes */
	FOLLOW_WATCH_HALF, /* see mmapwatch.h */
};

struct follow_opts {
	struct object_opts object;
	struct process_opts processes; /* its lists are borrowed as process.h says */
	enum follow_watch watch;
	struct perf_events *events; /* opened before; borrowed until close. NULL: none */
	bool prepare;		    /* analyse files while programs are being loaded */
	bool names;		    /* code objects are named */
	ring_stack_fn stack;	    /* see struct ring_sink; NULL: none */
	void *stack_ctx;
};

/* NULL after a message. */
struct follow *follow__open(const struct follow_opts *o);
void follow__close(struct follow *f);
/* 0 or negative errno, printed. */
int follow__scan(struct follow *f);

/* Readable when BPF has sent something, and, with a watch, when there may be mappings. Borrowed. */
int follow__fd(const struct follow *f);
int follow__watch_fd(const struct follow *f);
/* Takes records, in the order in which they have to be looked at, and looks at no process. */
void follow__read(struct follow *f);
/* Takes over all that has happened. */
void follow__look(struct follow *f);
/*
 * What comes right behind the last look is looked at together: see wake.h. Returns when it is time
 * to look.
 */
void follow__gather(struct follow *f, uint32_t frequency_hz);
/* When to look, whatever happens before; 0: at once. */
uint64_t follow__due_ns(const struct follow *f);
/* After how many ns the rings are to be read for a mapping that is about to be made; 0: none is. */
uint64_t follow__await_ns(struct follow *f);
/* A process of interest may begin from now on. */
void follow__stir(struct follow *f);
/*
 * Process events were lost, or BPF could not note one in its table: takes over what the kernel and
 * /proc say now.
 */
void follow__make_good(struct follow *f);
/*
 * CPUs that came online are watched. By number, borrowed, if others are online than at the last
 * call; else NULL.
 */
const bool *follow__cpus(struct follow *f);
/* The next follow__cpus() tells them whatever has changed. */
void follow__cpus_again(struct follow *f);
uint32_t follow__cpu_cnt(const struct follow *f); /* that were online at some time */

/*
 * What happened since it was last asked: processes ended; processes began, ended or execute another
 * program.
 */
bool follow__take_exits(struct follow *f);
bool follow__take_changes(struct follow *f);
bool follow__changed(const struct follow *f); /* the same, without taking it */
/* How often the kernel stopped an event that tells the watch: see mmapwatch__ring(). */
uint64_t follow__throttled(const struct follow *f);

/* Modules and names of what is in `p`. 0 or negative errno, printed. */
int follow__names(struct follow *f, struct profile *p, const struct symbolize_opts *so);
/*
 * All profiles are named for the last time: what only they needed is released. That is files that
 * no process maps, names of code objects that BPF has forgotten, and names of generated code.
 * Python names may have `budget` bytes; 0: the default.
 */
void follow__forget_names(struct follow *f, size_t budget);
/* Numbers that are given once are half used up: see session__worn(). */
bool follow__worn(const struct follow *f);
/*
 * Nothing comes any more: gives back the memory that is shared with the kernel. Then only
 * follow__names() and close.
 */
void follow__end(struct follow *f);

/* Borrowed until close. */
struct object *follow__object(const struct follow *f);
struct process_table *follow__procs(const struct follow *f);
struct symbolizer *follow__symbolizer(const struct follow *f);
/* See rings__add_blobs(). */
int follow__add_blobs(struct follow *f, int fd);
/* For sources. */
void follow__world(const struct follow *f, struct world *w);
/* Names of code objects go where those that BPF sends go. */
void follow__sink(struct follow *f, struct ring_sink *sink);

#endif /* PYPERF_FOLLOW_H */
