/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_VIEW_SPEECH_H
#define PYPERF_VIEW_SPEECH_H
/*
 * The sentences above a report while they are made: view_says.c says what has the time, view_who.c
 * which process or thread has it. A speech owns nothing; what fails is in the error of its buffer.
 */
#include <stdbool.h>
#include <stdint.h>

#include "profile/view.h"

#define MOST_MIN 50 /* percent: of one process, of one thread, of imports */

/* Sentences so far. */
struct speech {
	const struct view *v;
	struct strbuf *b;
	unsigned cnt, room;
	uint32_t library;	/* that the path's sentence named; VIEW_UNKNOWN: none */
	uint64_t library_count; /* the share that it gave */
};

/* Before a sentence; false: there is no room for one more. */
bool speech__begin(struct speech *s);
/* Appends "60%", of all of the view. */
void speech__add_share(const struct speech *s, uint64_t count);
bool view_is_share(const struct view *v, uint64_t count, unsigned percent);

/* The process and the thread that stand out; of an only process, how it waited. 0 or -ENOMEM. */
int speech__say_who(struct speech *s);
/* It waits in the main, which a profile of the CPU does not show. */
bool speech__was_idle(const struct speech *s);
/* It had no CPU for so long that this comes before what is smaller. */
bool speech__was_starved(const struct speech *s);

#endif /* PYPERF_VIEW_SPEECH_H */
