/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TIMING_H
#define PYPERF_TIMING_H
/*
 * `trace --calls` and `trace --hist`: adds up the times of each function from its events, and
 * writes them as lines when they come, as a table, or as histograms.
 *
 *	    SECONDS  THREAD      TOTAL        OWN  FUNCTION
 *	   0.000012    4711                        => main (app.py:9)
 *	   0.000020    4711                          => price (cart.py:20)
 *	   0.000031    4711    11.0 us    11.0 us    <= price
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/json.h"
#include "base/str.h"
#include "trace/blocks.h"
#include "trace/call_picture.h"
#include "trace/tracer.h"

#define TIMING_BUCKETS 40 /* of a histogram: below 2 ns, 4 ns, 8 ns ... */

enum timing_mode {
	TIMING_NONE, /* calls are only counted */
	TIMING_CALLS,
	TIMING_HIST,
};

/* Lines of TIMING_CALLS. */
enum timing_format {
	TIMING_LINES,	   /* with times, and a table behind them */
	TIMING_PYTHONFLOW, /* as bcc's tool of this name has them */
	TIMING_SYSTEMTAP,  /* as scripts for SystemTap with thread_indent() have them */
	TIMING_CHROME,	   /* events of Chrome's trace format, JSON */
};

struct timing;
struct windows;

/* Calls that are kept, and with TIMING_CALLS alone written: those that took ... */
struct timing_slow {
	uint64_t ns;	   /* ... so long; */
	double percentile; /* or longer than so many percent of the function's; 0: none */
	/* Borrowed, with a percentile: shared with others, so that all have room; NULL: its own */
	struct windows *windows;
};

/* NULL: no memory. */
/* `slow`: keeps such calls, and with TIMING_CALLS writes only these. */
struct timing *timing__new(enum timing_mode mode, bool json, struct timing_slow slow);
void timing__free(struct timing *t);
/* TIMING_LINES unless it is called. Not with `json` or `slow`. */
void timing__set_format(struct timing *t, enum timing_format format);
/*
 * Writes what stands behind all lines in a format. `any`: there was a line, of whichever struct
 * timing.
 */
void timing__end_lines(enum timing_format format, bool any);
bool timing__wrote_lines(const struct timing *t); /* of a single process */
/*
 * With TIMING_CALLS: each call has its first arguments, and each end what it has returned. Unless
 * `only` (borrowed) is NULL, only calls for which it holds are taken, with TIMING_HIST, too.
 */
void timing__want_values(struct timing *t, uint32_t args, bool returns,
			 const struct condition *only);
/* Only what happens inside of calls of this function (borrowed), before timing__events(). */
void timing__want_from(struct timing *t, const struct trace_filter *from);
/*
 * Calls of many processes that run this version of Python: lines go to `blocks` (borrowed), and in
 * JSON they have the process. In a format of other tools the names in `blocks` are remarks.
 */
void timing__set_many(struct timing *t, struct blocks *blocks, const char *version);
/* A process has ended, or is not traced any more: its calls have no end. */
void timing__end_process(struct timing *t, pid_t pid);
/* So many events were lost (tracer__lost()), though none behind them has said so yet. */
void timing__lose(struct timing *t, uint32_t lost);
/*
 * Keeps what timing__draw() needs, before the first event. 0 or -ENOMEM. Slow calls do not need it.
 * `of_many` (borrowed): gets the processes as they come; NULL: it is one process.
 */
int timing__want_picture(struct timing *t, struct call_picture *of_many);
/*
 * Puts all calls that have ended into the first picture, once; with `slow` what an average slow
 * call of each function took, and into the other one what an average other call did. 0 or -ENOMEM.
 */
int timing__draw(struct timing *t, struct call_picture *const pictures[PICTURES]);
/* Calls that were taken. */
uint64_t timing__call_cnt(const struct timing *t);
uint64_t timing__resumed_cnt(const struct timing *t);

/* The argument for tracer__open(); timing__start() then gets the tracer. Borrowed. */
const struct tracer_events *timing__events(const struct timing *t);
void timing__start(struct timing *t, struct tracer *tr, uint64_t now_ns);

/* Writes the table or the histograms of `top` functions; 0: of all. 0 or negative errno. */
int timing__write(struct timing *t, uint32_t top);
/* The same, as members of the open JSON object. */
int timing__write_json(struct timing *t, struct json *j, uint32_t top);

/* Writes the members that all JSON of trace has for a function. */
void timing__function_json(struct json *j, const struct py_function *f, uint64_t calls,
			   uint64_t resumed);

uint64_t timing__lost_cnt(const struct timing *t);
uint64_t timing__event_cnt(const struct timing *t); /* with those that were lost */
/* Calls that were not taken, because the names of their functions were not read. */
uint64_t timing__nameless_cnt(const struct timing *t);
/* Warns about events that could not be paired. */
void timing__report(const struct timing *t, bool filtered);

/* For lines of calls, here and elsewhere. Appends "12.3 us", in `width` columns or more. */
void timing__add_time(struct strbuf *b, uint64_t ns, int width);
/* Appends " (FILE:LINE)". */
void timing__add_place(struct strbuf *b, const struct py_function *f);

#endif /* PYPERF_TIMING_H */
