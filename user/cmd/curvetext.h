/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CURVETEXT_H
#define PYPERF_CURVETEXT_H
/*
 * The curves of a profile for people: a sentence about the peak, and a table with a line for each
 * function that has most. A stack counts for its innermost function of own code, or else of Python;
 * what that called follows: "parse (orders.py:21) -> numpy".
 *
 *	Peak 201.3 MiB after 1.2 s, 190.0 MiB more than at the beginning. ...
 *
 *	In use over 60.0 s, by function
 *	  AT PEAK   AT END  OVER TIME      FUNCTION
 *	188.2 MiB  1.0 MiB  (bars)         parse (orders.py:21) -> numpy
 */
#include <stdbool.h>
#include <stdio.h>

#include "base/str.h"
#include "profile/profile.h"

/* Appends the sentence, or nothing without a peak. */
void curvetext__add_peak(struct strbuf *b, const struct profile *p);
/* Nothing without curves. */
void curvetext__print(const struct profile *p, FILE *f);

#endif /* PYPERF_CURVETEXT_H */
