/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TOPWORDS_H
#define PYPERF_TOPWORDS_H
/*
 * The words of `top` for a value type: numbers that fit their columns, and the help. Shows time in
 * percent of one thread's time and in seconds, anything else per second and as a count. Each
 * function appends to `b`.
 *
 *				of time		of anything else
 *	topwords__add_rate	99.0		1234		at most 6 columns
 *	topwords__add_amount	41.58		56789		at most 8
 *	topwords__add_sum	99.0% CPU	1234 page faults/s
 */
#include <stdint.h>

#include "base/str.h"
#include "profile/value.h"

void topwords__add_rate(struct strbuf *b, const struct value_type *v, uint64_t count,
			uint64_t interval_ns);
void topwords__add_amount(struct strbuf *b, const struct value_type *v, uint64_t count);
void topwords__add_sum(struct strbuf *b, const struct value_type *v, uint64_t count,
		       uint64_t interval_ns);
/* Five characters or fewer. */
void topwords__add_percent(struct strbuf *b, double percent);
/* Appends the keys, then the meaning of the columns, in whole lines. */
void topwords__add_help(struct strbuf *b, const struct value_type *v);

#endif /* PYPERF_TOPWORDS_H */
