/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_STACKED_H
#define PYPERF_STACKED_H
/*
 * Counts rare events by kind and stack of Python functions: `trace --exceptions`, by type of
 * exception, `trace --audit`, by name of audit event, and `trace --gc`, by generation, with the
 * pauses.
 *
 *	  RAISED/S         RAISED  EXCEPTION
 *	        12            120  KeyError
 *	                             Cart.price (/srv/shop.py:5)
 *	                             checkout (/srv/shop.py:20)
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "base/str.h"
#include "trace/tracer.h"

enum stacked_kind {
	STACKED_EXCEPTIONS,
	STACKED_COLLECTIONS,
	STACKED_AUDITS, /* with the names of stacked__audit() */
};

struct stacked;

/* `each`: also writes each event when it comes. NULL: no memory. */
struct stacked *stacked__new(enum stacked_kind kind, bool each, bool json);
void stacked__free(struct stacked *r);

/*
 * A list of names of events, like "open,socket.*". 0; -EINVAL: a name is empty or too long, or has
 * a wildcard elsewhere; -E2BIG: there are more than TRACE_AUDITS.
 */
int stacked__check_audits(const char *list);
/* Selects these events; of STACKED_AUDITS, before stacked__events(). 0 or -ENOMEM. */
int stacked__audit(struct stacked *r, const char *list);
/* Like timing__events() and timing__start(). */
const struct tracer_events *stacked__events(const struct stacked *r);
void stacked__start(struct stacked *r, struct tracer *tr, uint64_t now_ns);
/* So many events were lost (tracer__lost()), though none behind them has said so yet. */
void stacked__lose(struct stacked *r, uint32_t lost);

/* Appends "12 exceptions raised". */
void stacked__add_sum(const struct stacked *r, struct strbuf *b);
/*
 * Writes the table of `top` rows; 0: of all. `seconds`: since the last table; at the end, of the
 * whole run. 0 or negative errno.
 */
int stacked__write(struct stacked *r, uint32_t top, double seconds, bool final);
/* The same, as members of the open JSON object. */
int stacked__write_json(struct stacked *r, struct json *j, uint32_t top);

/* The number of events in wanted functions. */
uint64_t stacked__cnt(const struct stacked *r);
/* The number of hits that became an event, with those that were lost. */
uint64_t stacked__hit_cnt(const struct stacked *r);
/* Warns about events that are not counted. */
void stacked__report(const struct stacked *r);

/* Words for messages: "exceptions", and what a function did: "raised an ...". */
const char *stacked__name(const struct stacked *r);
const char *stacked__verb(const struct stacked *r);

#endif /* PYPERF_STACKED_H */
