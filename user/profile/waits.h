/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_WAITS_H
#define PYPERF_WAITS_H
/*
 * Tells what the threads of a profile waited for, by the innermost frames of its stacks: "[waits:
 * lock]". These are names, so it works on profiles from files, too.
 *
 *	WAITING 31.2 s: sleep 11.4, poll 9.0, lock 2.9   RUN QUEUE 0.9 s   ON CPU 4.1 s
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "profile/profile.h"

/* The end of a reason if the thread had the GIL meanwhile: "[waits: sleep with the GIL held]". */
#define WAIT_HELD_TEXT " with the GIL held"

/*
 * The reason in a name: "lock" of "[waits: lock]", and its length unless `len` is NULL; NULL: not
 * such a name.
 */
const char *wait_reason(const char *func, size_t *len);
/* Is it the name of a wait of another thread that this one has ended: "[ends a wait: lock]"? */
bool wait_is_ended(const char *func);
/* Does the reason say that the thread waited for a CPU? */
bool wait_is_for_cpu(const char *reason, size_t len);

/*
 * Appends the line above, without a newline; nothing for a profile without waits. The profile has
 * one value type, which is a time.
 */
void waits_add_line(struct strbuf *b, const struct profile *p);

/* Is one of its stacks a wait? */
bool waits_are_in(const struct profile *p);

/*
 * Appends, for a thread, a bar of its states, as long as its title, which is also its key, and what
 * it waited for, the longest first, in seconds:
 *
 *	#CPU =QUEUE .WAIT
 *	###=.............  sleep 9.0, lock 0.4
 */
#define WAITS_BAR_TITLE "#CPU =QUEUE .WAIT"
void waits_add_thread(struct strbuf *bar, struct strbuf *reasons, const struct profile *p,
		      uint32_t proc, uint32_t tid);

/*
 * Appends who waited for the GIL and what its holders did meanwhile, first the holder that slept
 * with it:
 *
 *	GIL: 2.6 s waited by 3 threads; 68% while hold_by_sleep (app.py:31) slept in C with the GIL
 *	held; 20% while spinning (app.py:40) ran
 *
 * Takes a profile with all its value types; appends nothing if no thread waited for the GIL.
 * Threads are counted if they are kept apart.
 */
void waits_add_gil_line(struct strbuf *b, const struct profile *p);

#endif /* PYPERF_WAITS_H */
