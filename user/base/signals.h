/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SIGNALS_H
#define PYPERF_SIGNALS_H
/*
 * SIGINT, SIGTERM and SIGHUP, which end a run. While it samples they are held, and read from a
 * descriptor; before and after they reach a handler that ends the program at once, without a report
 * and without temporary files:
 *
 *	fd = signals__open(fn);	 while preparing the first one aborts
 *	signals__hold();	 from here on they are readable
 *	signals__release(2);	while reporting the second one aborts: the first may have been meant
 *				 for the sampling that has just ended
 *
 * SIGHUP stays ignored where it was (nohup). SIGQUIT aborts at any time. SIGCHLD is held all the
 * time. A command has to be started before: what it inherits is not ours.
 */

/*
 * A descriptor that is readable when a held signal waits (struct signalfd_siginfo), or negative
 * errno. The handler calls `at_abort` (async-signal-safe; NULL: nothing) before it ends the
 * program.
 */
int signals__open(void (*at_abort)(void));
/* The signal that came since the release and did not abort, or 0: it is not readable any more. */
int signals__hold(void);
/* The nth signal from now on aborts. */
void signals__release(int nth);

#endif /* PYPERF_SIGNALS_H */
