/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TIMING_PARTS_H
#define PYPERF_TIMING_PARTS_H
/*
 * The parts of struct timing, for the files that implement it:
 *
 *	timing.c	functions and their sums; each call as a line; the table and the histograms
 *	timing_hist.c	how the times are distributed
 *	timing_slow.c	calls that took long, and how they differ from the others
 *	timing_slow_picture.c	... as a picture
 *	timing_format.c	lines as other tools have them
 *	timing_chrome.c	Chrome's trace events
 */
#include "base/hash.h"
#include "base/idmap.h"
#include "base/str.h"
#include "trace/call_paths.h"
#include "trace/comparison.h"
#include "trace/pairs.h"
#include "trace/thread_names.h"
#include "trace/timing.h"
#include "trace/window.h"

enum timing_hist {
	HIST_TOTAL,
	HIST_OWN,
	HIST_CPU, /* this and the next one: of calls whose CPU time is known */
	HIST_WAITING,
	HIST_CNT
};

/* One function, or at first one code object. */
struct timed {
	uint64_t code;
	struct py_function function;
	bool named, wanted;
	uint64_t calls, resumed, ended, exceptions, unknown_ends;
	uint64_t total_ns; /* without recursion: of the outermost ones */
	uint64_t own_ns, longest_ns;
	uint64_t hists[HIST_CNT][TIMING_BUCKETS]; /* ended activations, by log2 */
	uint32_t first; /* of the code objects that are this function, in `all` */
	/* Of the first one: of slow calls by a time, or by percentile; NULL: none has ended. */
	struct comparison *compared;
	struct window *window;
};

struct timing {
	enum timing_mode mode;
	enum timing_format format;
	bool json;
	struct timing_slow slow;
	struct windows *windows; /* NULL: no percentile is wanted */
	size_t slow_room;	 /* bytes that are left to all `compared` */
	uint32_t *firsts;	 /* by number of a function; HASH_NONE: there is none */
	size_t first_cnt, first_cap;
	struct tracer *tracer;
	struct tracer_events events;
	struct pairs *pairs;
	struct timed *all;
	size_t cnt, cap;
	struct idmap by_code; /* one more than the number in `all`, by a hash of the code object */
	struct hash_key key;
	struct strbuf line;
	uint64_t start_ns, event_cnt, lost_cnt, unknown_ends;
	uint64_t nameless_cnt; /* calls not taken: the name of their function was not read */
	/* Of the event at hand: its CPU and frame, and values; NULL: it has none. */
	uint32_t cpu;
	uint64_t frame;
	const struct trace_value *values;
	uint32_t value_cnt;
	uint32_t arg_cnt;	      /* that are shown */
	const struct condition *only; /* NULL: all calls are taken */
	bool refused;		      /* the call at hand is not */
	struct call_paths *paths;     /* NULL: no picture is wanted */
	struct call_picture *picture; /* of many processes; NULL: it is one, or none */
	struct idmap tops;	      /* of these, in `paths`, by process */
	bool headed;		      /* the line above the first call is written */
	struct blocks *blocks;	      /* NULL: it is one process with what it starts */
	const char *version;	      /* ... of Python in `blocks` */
	struct thread_names threads;  /* for TIMING_SYSTEMTAP and TIMING_CHROME */
	uint64_t latest_ns;	      /* of what TIMING_CHROME has written */
	int err;
};

/* By enum pairs_how: the event, and the remark after the name if it is no plain call and return. */
extern const char *const timing_hows[], *const timing_remarks[];

/* Writes t->line to stdout. */
void timing__flush_line(struct timing *t);
/* Writes t->line, which is about a call in this process. */
void timing__put_line(struct timing *t, uint32_t tgid);
/* The members of such a line in JSON that say which process it was at that time. */
void timing__add_process(const struct timing *t, struct json *j, uint32_t tgid, uint64_t ns);

/* Appends which process it was at that time, if there are many. */
void timing__say_process(const struct timing *t, struct strbuf *b, uint32_t tgid, uint64_t ns);

/* Is the line above the first one still to be written? It is said once. */
static inline bool timing__heads(struct timing *t)
{
	bool *headed = t->blocks ? blocks__headed(t->blocks) : &t->headed, first = !*headed;

	*headed = true;
	return first;
}

static inline double timing__seconds(const struct timing *t, uint64_t ns)
{
	return ns > t->start_ns ? (double)(ns - t->start_ns) / 1e9 : 0;
}

static inline uint64_t timing__waiting_ns(const struct pairs_times *times)
{
	return times->cpu_ns == PAIRS_CPU_UNKNOWN ? 0 : times->total_ns - times->cpu_ns;
}

/* Appends what an activation was called with, or " -> " and what it returned, if that is known. */
void timing__add_values(struct timing *t, struct strbuf *b, const struct activation *a,
			const struct py_function *f, enum pairs_how how);

/* Appends the line of a beginning, or, with `times`, of an end, in t->format. */
void timing_format__add_line(struct timing *t, const struct activation *a,
			     const struct py_function *f, enum pairs_how how,
			     const struct pairs_times *times);

/* Writes a beginning, or an end, to stdout as TIMING_CHROME has it. */
void timing_chrome__begin(struct timing *t, struct activation *a, const struct py_function *f,
			  enum pairs_how how);
void timing_chrome__end(struct timing *t, const struct activation *a, const struct py_function *f,
			enum pairs_how how, const struct pairs_times *times);
/* So many events were lost here. */
void timing_chrome__write_lost(struct timing *t, uint32_t cnt);

/* As members of the open JSON object. */
void timing__values_json(struct timing *t, struct json *j, const struct activation *a,
			 const struct py_function *f, enum pairs_how how);

/* Counts an activation whose end was seen. */
void timing_hist__take(struct timed *f, const struct pairs_times *times);
void timing_hist__sum(struct timed *sum, const struct timed *f);
/* Writes the histograms; as members of the open JSON object. */
void timing_hist__write(struct timing *t, const struct timed *f);
void timing_hist__json(const struct timing *t, struct json *j, const struct timed *f);

/* Only slow calls are written as they come. */
static inline bool timing_slow__wanted(const struct timing *t)
{
	return t->slow.ns || t->slow.percentile > 0;
}

/* Writes a call that has ended if it is a slow one; `times` NULL: it has begun. */
void timing_slow__write_call(struct timing *t, const struct activation *a, const struct timed *f,
			     enum pairs_how how, const struct pairs_times *times);
/* What has called it spent so much time in it. */
void timing_slow__note_callee(struct timing *t, const struct activation *a, const struct timed *f,
			      enum pairs_how how, const struct pairs_times *times);
/* Keeps a call whose end was seen. */
void timing_slow__take(struct timing *t, struct timed *f, const struct activation *a,
		       enum pairs_how how, const struct pairs_times *times);

/* The slow calls of a function and its others. */
struct slow_view {
	const struct comparison *c; /* empty after an error */
	uint64_t limit_ns;	    /* slow ones took so long, or longer */
	struct comparison own;	    /* and what follows: private */
	size_t room;
};

/*
 * 0; -EAGAIN: too few calls have ended; -ENOMEM. In each case timing_slow__end() is to be called
 * before the next event. `v` must not move.
 */
int timing_slow__compare(struct timing *t, const struct timed *f, struct slow_view *v);
void timing_slow__end(struct slow_view *v);
/* Writes what is kept of a function. */
void timing_slow__write(struct timing *t, const struct timed *f);
void timing_slow__json(struct timing *t, struct json *j, const struct timed *f);
/* What a wait is called; NULL: it is none. `on`: an enum spent_on. */
const char *timing_slow__reason(uint32_t on);
/* Of all functions, what an average slow call took, and an average other one. 0 or -ENOMEM. */
int timing_slow__draw(struct timing *t, struct call_picture *const pictures[PICTURES]);

#endif /* PYPERF_TIMING_PARTS_H */
