/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EXPORT_SUMMARY_H
#define PYPERF_EXPORT_SUMMARY_H
/*
 * The sentences around the numbers: how much was sampled of what, what became of each sample, and
 * what it cost. The report and the HTML pages use them, so that both say the same.
 *
 * Each function appends one sentence without a line end, or nothing when there is nothing to say.
 * Names in the sentences are safe for a terminal (export_text.h); for HTML they have to be escaped.
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

/* The first sentence about a profile with samples; b->err is -ENOMEM on lack of memory. */
void summary_add_headline(struct strbuf *b, const struct profile *p);
/* Says that a profile has no samples, and why. */
void summary_add_nothing(struct strbuf *b, const struct profile *p);
/*
 * After it, in a report: a line about the Python processes that wait, and its indentation, then the
 * next step. *at is 0 at the first call. False: no more.
 */
bool summary_next_resting(struct strbuf *b, const struct profile *p, size_t *at, unsigned *indent);
/* Likewise a line on an owner whose files and memory were not read. */
bool summary_next_refused(struct strbuf *b, const struct profile *p, size_t *at);
/* The next counter that a reader should know about; *at is 0 at the first call. False: no more. */
bool summary_next_counter(struct strbuf *b, const struct profile *p, size_t *at);
/* Nothing was lost, and nearly all stacks are complete: one line is enough. */
bool summary_is_fine(const struct profile *p);
/* "811 samples, none lost, all stacks complete; cost 0.4% of a CPU" */
void summary_add_fine(struct strbuf *b, const struct profile *p);
/* Run time, memory. */
void summary_add_cost(struct strbuf *b, const struct profile_stats *s);

/*
 * False: another program made the profile, which does not say what became of samples, nor which
 * process has Python.
 */
bool summary_is_accounted(const struct profile *p);
#define SUMMARY_UNACCOUNTED "The profile does not say what became of the samples."
/* The noun for the profile's counts: "sample", "page faults". */
const char *summary_noun(const struct profile *p, uint64_t count);
/* The seconds that `count` stands for; 0 if the profile does not say, or does not count time. */
double summary_seconds(const struct profile *p, uint64_t count);
/* "825 samples", "1 page fault", "2.35 s waiting" */
void summary_add_amount(struct strbuf *b, const struct profile *p, uint64_t count);
/* The text after a number of seconds of time that is not sampled: " s waiting", " s of delay". */
void summary_add_unit_of_time(struct strbuf *b, const struct value_type *v);
/*
 * Are the counts samples of a clock whose frequency is known? Then both the number of samples and
 * the seconds are worth printing.
 */
bool summary_is_sampled_time(const struct profile *p);

#endif /* PYPERF_EXPORT_SUMMARY_H */
