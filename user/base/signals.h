/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SIGNALS_H
#define PYPERF_SIGNALS_H
/*
 * Handles SIGINT, SIGTERM and SIGHUP, which end a run. A thread of its own takes them and waits for
 * nothing else, so the program obeys them whatever its other threads wait for:
 *
 *	fd = signals__open(fn, true);	 while preparing, the first one ends the program
 *	signals__hand_over(1);		 from here on the first one makes fd readable, and
 *					 the second one ends the program at once, without a
 *					 report and without temporary files
 *
 * After it has handed over a SIGTERM or SIGHUP, the thread keeps the promise of ending.h: when the
 * program stands still, the thread ends it, with a message that says what it waited for. A person
 * who presses Ctrl-C can press it again.
 *
 * The same signal within 100 ms counts once, because timeout(1) sends two; so does a SIGHUP beside
 * another signal. SIGHUP stays ignored where it was ignored (nohup).
 *
 * SIGQUIT ends the program at any time. With `children`, SIGCHLD makes fd readable, too. Start a
 * command before signals__open(), so that it inherits none of this.
 */
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#define SIGNALS_ALL INT_MAX

/*
 * Call once. Returns a descriptor, which the caller owns and which is readable when a signal was
 * handed over (struct signalfd_siginfo), or negative errno. `at_abort` (async-signal-safe; NULL:
 * nothing) runs before the program ends early, as a rule in a child process.
 */
int signals__open(void (*at_abort)(void), bool children);
/* Hands over the next `cnt` signals; the one after them ends the program. */
void signals__hand_over(int cnt);
/*
 * Says that the main thread only waits for this child, so a standstill is the child's. 0: not any
 * more.
 */
void signals__wait_for(pid_t child);
/*
 * Says that the results are written: the program may now wait for a command for as long as that
 * takes.
 */
void signals__keep_no_promise(void);

#endif /* PYPERF_SIGNALS_H */
