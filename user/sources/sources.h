/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SOURCES_H
#define PYPERF_SOURCES_H
/*
 * A source is where stacks with a value come from (-e): a clock, an event of the kernel, a probe.
 * One file has the functions of a source, or of several of one kind, and its rows; sources.c lists
 * the files. No other place knows which sources there are.
 *
 *	source_spec__parse(&spec, "page-faults", 11);	what -e names
 *	struct source_use u = { .spec = spec, .type = 1, .frequency_hz = 99 };
 *	u.spec.source->open(&u, &world);		its BPF object and maps, or perf events
 *	u.spec.source->start(&u);			last: from here on it counts
 *	u.spec.source->window(&u, &tables);		the tables of the window that has ended
 *	u.spec.source->stop(&u);
 *	u.spec.source->close(&u);
 *
 * All run in the session's thread, and each prints its own error. stop() and close() cope with a
 * source that was not started, or whose open() failed.
 *
 * A clock is sampled so many times a second, and a sample stands for the time between two. Of other
 * events a sample stands for a number of them: the kernel chooses it so that there are -F samples a
 * second, or -c says it. The kernel tells the program with each sample (its period), so sums are
 * right whatever the rate was. With -F it tells the number of those until the next sample:
 * docs/internals/sample.md, "Events".
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/pyperf.h"
#include "follow/world.h"
#include "profile/value.h"

#define SOURCE_ARGS_MAX 256

struct source;

/* What one -e asks for: plain data. */
struct source_spec {
	const struct source *source;
	char args[SOURCE_ARGS_MAX]; /* behind the colon; "": none */
	char name[VALUE_NAME_MAX];  /* of its value type, by parse(); "": the source's */
};

/* A source at work, in a session. */
struct source_use {
	struct source_spec spec;
	uint32_t type;	       /* number of its value type in the profile */
	uint32_t frequency_hz; /* 0: `period` was given */
	uint64_t period;       /* events per sample; 0: as the frequency needs it. Not of a clock */
	uint32_t slowed;       /* it goes at 1 / this of its rate; 1: at all of it */
	void *state;	       /* of the source */
};

/*
 * Tables of a window that no program uses any more: count_key -> count_val, u64 -> chunk. Keys say
 * which value type they count: COUNT_WORD() with source_use.type. To be emptied by the reader. -1:
 * another source of the same object has handed them out.
 */
struct source_tables {
	int counts_fd, chunks_fd;
};

struct source {
	struct value_type type; /* name, unit and words; its rate is the user's */
	const char *usage;	/* "uprobe:PATH:PLACE"; NULL: the name is all */
	bool nmi;		/* its programs run in NMI */
	uint32_t kind;		/* of perf events: type ... */
	uint64_t config;	/* ... and config of struct perf_event_attr */
	/*
	 * Are the arguments of `spec` right? 0, or negative errno after one line. NULL: it takes
	 * none.
	 */
	int (*parse)(struct source_spec *spec);
	/* 0 or negative errno. */
	int (*open)(struct source_use *u, const struct world *w);
	int (*start)(struct source_use *u); /* the object is loaded */
	/*
	 * It goes on at the rate that `u` has now, without a gap. 0 or negative errno: part of it
	 * does. NULL: it has no rate.
	 */
	int (*set_rate)(struct source_use *u);
	/*
	 * CPUs went or came: `online` by number. 0, or negative errno: it is asked again soon.
	 * NULL: it does not go by CPUs.
	 */
	int (*cpus)(struct source_use *u, const bool *online);
	/*
	 * The window that the sampler has just ended: one variable says to all objects which one is
	 * active. 0 or negative errno. NULL: it counts into the tables that the sampler has.
	 */
	int (*window)(struct source_use *u, struct source_tables *out);
	/*
	 * After start(): a ring of its own, to be read like the sampler's `blobs`. Negative: none.
	 * NULL: the sampler's is its.
	 */
	int (*blobs)(const struct source_use *u);
	/* Adds those of its object, of all CPUs. NULL: they are the sampler's. */
	void (*counters)(const struct source_use *u, uint64_t counters[CTR_CNT]);
	/*
	 * No program of it begins any more. Who reads its tables after that waits for those that
	 * run: wait_for_programs().
	 */
	void (*stop)(struct source_use *u);
	void (*close)(struct source_use *u);
	/* Why it cannot work on this machine, in a few words, for ever; NULL: it works. */
	const char *(*check)(const struct source *s);
};

/* Rows of one file end with one that has no check(). */
extern const struct source perf_sources[];
extern const struct source probe_sources[];

/* All sources, in the order in which they are listed; *at is 0 at the first call. NULL: no more. */
const struct source *source__next(size_t *at);
/* The source of an event (enum event_id). NULL: there is none. */
const struct source *source__of_event(uint32_t event);
/* The one that is called so. NULL: there is none. */
const struct source *source__find(const char *name, size_t len);
/* NAME or NAME:ARGUMENTS. 0, or negative errno after one line. */
int source_spec__parse(struct source_spec *spec, const char *text, size_t len);

/* What the stacks count that `spec` asks for; its rate is the user's. */
struct value_type source_spec__type(const struct source_spec *spec);
/* "page-faults", as -e has it */
const char *source__name(const struct source *s);

#endif /* PYPERF_SOURCES_H */
