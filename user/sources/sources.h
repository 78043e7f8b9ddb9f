/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SOURCES_H
#define PYPERF_SOURCES_H
/*
 * Sources of stacks with a value (-e): a clock, an event of the kernel, a probe. One file has the
 * functions of a source, or of several of one kind, and their rows; sources.c lists the files. No
 * other code knows which sources there are.
 *
 *	source_spec__parse(&spec, "page-faults", 11);	the text of -e
 *	struct source_use u = { .spec = spec, .type = 1, .frequency_hz = 99 };
 *	u.spec.source->open(&u, &world);		its BPF object and maps, or perf events
 *	u.spec.source->start(&u);			last: from here on it counts
 *	u.spec.source->window(&u, &tables);		the tables of the window that has ended
 *	u.spec.source->stop(&u);
 *	u.spec.source->close(&u);
 *
 * All functions run in the session's thread, and each prints its own error. stop() and close()
 * accept a source that was not started, or whose open() failed.
 *
 * A sample of a clock stands for the time between two samples. A sample of another event stands for
 * a number of events: -c sets it, or the kernel chooses it so that there are -F samples a second.
 * The kernel tells the program this number (the period) with each sample, so sums are right at any
 * rate. With -F it tells the number of events until the next sample: docs/internals/sample.md,
 * "Events".
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/pyperf.h"
#include "follow/world.h"
#include "profile/value.h"

#define SOURCE_ARGS_MAX 256

struct source;
struct curves;
struct side_object;

/* The request of one -e: plain data. */
struct source_spec {
	const struct source *source;
	char args[SOURCE_ARGS_MAX]; /* the text behind the colon; "": none */
	/* name of its value type, set by parse(); "": that of the source */
	char name[VALUE_NAME_MAX];
	char unit[VALUE_UNIT_MAX]; /* likewise */
	bool sum;		   /* it adds up amounts that may be 0 */
};

/* A source in use by a session. */
struct source_use {
	struct source_spec spec;
	uint32_t type;	       /* number of its value type in the profile */
	uint32_t frequency_hz; /* 0: `period` was given */
	uint64_t period;       /* events per sample; 0: chosen by the frequency. Not of a clock */
	uint64_t least_ns;     /* shorter waits do not count */
	uint32_t slowed;       /* it runs at 1 / this of its rate */
	void *state;	       /* private to the source */
	struct side_object *side; /* for SIDE_SOURCE; NULL: another source has it, or none */
};

/*
 * Tables of a window that no program uses any more: count_key -> count_val, u64 -> chunk. The keys
 * hold the value type: COUNT_WORD() with source_use.type. The reader empties them. -1: another
 * source of the same object has handed them out.
 */
struct source_tables {
	int counts_fd, chunks_fd;
};

/*
 * The threads that still wait, in a source of waits that runs or was stopped. Its tables do not
 * have these waits.
 */
struct source_asleep {
	int threads_fd;	 /* struct wait_thread by number of the thread, as the kernel has it */
	int counted_fd;	 /* struct wait_counted by struct wait_thread.tid */
	int refusals_fd; /* when a thread last found no room, by slot of its user */
	uint32_t type;	 /* number of the value type */
	uint64_t since_ns, until_ns; /* when it began to count, and when it was stopped or 0 */
	uint64_t step_ns, least_ns;  /* see struct wait_state, struct wait_cfg */
};

struct source {
	struct value_type type; /* name, unit and words; its rate is the user's */
	const char *usage;	/* "uprobe:PATH:PLACE"; NULL: the name is all */
	const char *called;	/* name for -e; NULL: that of its value type */
	bool nmi;		/* its programs run in NMI */
	bool kernel;		/* every hit counts, in the kernel, descendants' at no extra cost */
	bool to_end;		/* its counts are known only at the end, so windows are long */
	uint64_t step;		/* units per sample, unless -c sets them; 0: chosen by -F */
	uint32_t with;		/* its programs also count this event, the next value type */
	uint32_t of;		/* comes with this event and cannot be asked for. 0 in other rows */
	bool perf;		/* it has a perf event on each CPU: its own, or a clock beside it */
	uint32_t kind;		/* of that event: type ... */
	uint64_t config;	/* ... and config of struct perf_event_attr */
	/*
	 * Checks the arguments of `spec`. 0, or negative errno after one line. NULL: it takes none.
	 */
	int (*parse)(struct source_spec *spec);
	/* 0 or negative errno. */
	int (*open)(struct source_use *u, const struct world *w);
	/*
	 * Starts counting; called when the BPF object is loaded. -EDQUOT: it would slow processes
	 * down too much.
	 */
	int (*start)(struct source_use *u);
	/*
	 * Continues at the rate that `u` has now, without a gap. 0 or negative errno: only a part
	 * of it does. NULL: it has no rate.
	 */
	int (*set_rate)(struct source_use *u);
	/*
	 * The set of online CPUs has changed: `online` by number. 0, or negative errno: it is
	 * called again soon. NULL: it does not depend on CPUs.
	 */
	int (*cpus)(struct source_use *u, const bool *online);
	/*
	 * The tables of the window that the sampler has just ended; one variable tells all objects
	 * which window is active. 0 or negative errno. NULL: it counts in the sampler's tables.
	 */
	int (*window)(struct source_use *u, struct source_tables *out);
	/*
	 * After start(): its own ring, to be read like the sampler's `blobs`. Negative: none. NULL:
	 * it uses the sampler's.
	 */
	int (*blobs)(const struct source_use *u);
	/* 0: *out is filled in. NULL: it does not count waits. */
	int (*asleep)(const struct source_use *u, struct source_asleep *out);
	/*
	 * From now on counted_fd may have parts of waits that began before `until_ns`. 0 or
	 * negative errno. NULL: it does not count waits.
	 */
	int (*tell)(struct source_use *u, uint64_t until_ns);
	/*
	 * What it kept of the bytes that were in use over time, after the last window; see
	 * tracker.h. Borrowed until close. NULL: nothing. No function: it counts no memory.
	 */
	const struct curves *(*curves)(const struct source_use *u);
	/* Adds the counters of its object, of all CPUs. NULL: it uses the sampler's. */
	void (*counters)(const struct source_use *u, uint64_t counters[CTR_CNT]);
	/*
	 * After this none of its programs begins. A reader of its tables first waits for the
	 * running ones: wait_for_programs().
	 */
	void (*stop)(struct source_use *u);
	void (*close)(struct source_use *u);
	/* Why it cannot work on this machine, in a few words, valid for ever; NULL: it works. */
	const char *(*check)(const struct source *s);
};

/*
 * Functions of a row with `of`, which do nothing: the programs of the row it comes with count its
 * value type, too.
 */
#define SOURCE_COMPANION                                                                           \
	.open = companion__open, .start = companion__start, .set_rate = companion__start,          \
	.stop = companion__stop, .close = companion__stop

int companion__open(struct source_use *u, const struct world *w);
int companion__start(struct source_use *u);
void companion__stop(struct source_use *u);

/* The rows of a file end with a row without check(). */
extern const struct source perf_sources[];
extern const struct source probe_sources[];
extern const struct source wait_sources[];
extern const struct source growth_sources[];
extern const struct source alloc_sources[];
extern const struct source refcount_sources[];
extern const struct source tracepoint_sources[];

/* Iterates over all sources in the order of the list; *at is 0 at the first call. NULL: no more. */
const struct source *source__next(size_t *at);
/* The source of an event (enum event_id). NULL: there is none. */
const struct source *source__of_event(uint32_t event);
/* The source with this name. NULL: there is none. */
const struct source *source__find(const char *name, size_t len);
/* Parses NAME or NAME:ARGUMENTS. 0, or negative errno after one line. */
int source_spec__parse(struct source_spec *spec, const char *text, size_t len);

/* The value type of the stacks that `spec` asks for; the user sets its rate. */
struct value_type source_spec__type(const struct source_spec *spec);
/* The name for --value: "page-faults". */
const char *source__name(const struct source *s);

#endif /* PYPERF_SOURCES_H */
