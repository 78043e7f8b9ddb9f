/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EXPORT_SUMMARY_H
#define PYPERF_EXPORT_SUMMARY_H
/*
 * The sentences around the numbers: how much of what was sampled, what became of each sample, what
 * it has cost. The report prints them and the HTML pages show them, so that both say the same.
 *
 * Each function appends one sentence without a line end, or nothing when there is nothing to say.
 * Names in them are safe for a terminal (export_text.h); for HTML they have to be escaped.
 *
 *	summary_add_headline(&b, p);	10.0 s at 99 Hz on 8 CPUs: 1,250 samples (12.63 CPU s) of
 *					...
 *	text_add_samples(&b, p);	3,566 delivered = 1,250 counted + 2,310 filtered + 6 lost
 *	text_add_complete(&b, p);	99.0% of 1,250 user stacks are complete
 *	for (size_t at = 0; summary_next_counter(&b, p, &at); strbuf__clear(&b))
 *		use(&b);		6 samples dropped because the table of counts was full
 *	summary_add_cost(&b, &p->stats);
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "profile/profile.h"

/* Of a profile with samples; b->err is -ENOMEM on lack of memory. */
void summary_add_headline(struct strbuf *b, const struct profile *p);
/* Of a profile without samples: that there are none, and why. */
void summary_add_nothing(struct strbuf *b, const struct profile *p);
/* The next counter that a reader has to know of; *at is 0 at the first call. False: no more. */
bool summary_next_counter(struct strbuf *b, const struct profile *p, size_t *at);
/* Nothing was lost, and as good as all stacks are complete: one line says it. */
bool summary_is_fine(const struct profile *p);
/* "811 samples, none lost, all stacks complete; cost 0.4% of a CPU" */
void summary_add_fine(struct strbuf *b, const struct profile *p);
/* Run time, memory. */
void summary_add_cost(struct strbuf *b, const struct profile_stats *s);

/*
 * False: a profile that was made elsewhere, which does not say what became of samples, nor which
 * process has Python.
 */
bool summary_is_accounted(const struct profile *p);
#define SUMMARY_UNACCOUNTED "The profile does not say what became of the samples."
/* What the profile's counts are counts of: "sample", "page faults". */
const char *summary_noun(const struct profile *p, uint64_t count);
/* Seconds on a CPU that a number of samples stands for; 0 when the profile does not say. */
double summary_cpu_seconds(const struct profile *p, uint64_t samples);

#endif /* PYPERF_EXPORT_SUMMARY_H */
