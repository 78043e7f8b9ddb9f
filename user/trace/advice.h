/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_ADVICE_H
#define PYPERF_ADVICE_H
/*
 * What to leave out of a trace that costs too much: the functions whose calls make the rate.
 *
 *	; 82% of the calls are of convert (/srv/batch.py:1): -f '!convert' would leave 470%, as
 *	each call still costs its trap
 */
#include <sys/types.h>

#include "base/str.h"
#include "trace/tracer.h"

/*
 * Appends it for a process, or 0: for all. Nothing if no calls were counted. `slowdown`: percent,
 * with all calls. `filtered`: not all calls are wanted; then it is about those that are.
 */
void advice__add(struct strbuf *b, struct tracer *tr, pid_t pid, double slowdown, bool filtered);

#endif /* PYPERF_ADVICE_H */
