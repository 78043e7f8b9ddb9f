/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_STALL_WATCH_H
#define PYPERF_AGENT_STALL_WATCH_H
/*
 * A thread beside those that work, which waits for nothing but time and signals:
 *
 *	- it says when one of them stands still, where and what it waits for (waits.h), and when it
 *	  goes on;
 *	- it takes the signals and hands their numbers on;
 *	- after SIGTERM or SIGINT it ends the process when nothing goes on for 2 s (ending.h), and
 *	  at a second one at once, whatever the others wait for.
 *
 *	s = stall_watch__start(signal_fd, look, ctx);
 *	while ((number = stall_watch__next(s)))
 *	stall_watch__stop(s);
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define STALL_WATCH_THREADS 2

/* A thread that should not stand still. */
struct watched_thread {
	const char *name;  /* a literal: "sampling" */
	const char *doing; /* a literal: "reading the configuration" */
	pid_t tid;
	uint64_t moved_ns;    /* when it was last seen to go on; 0: it has nothing to do */
	uint64_t patience_ns; /* a shorter time is no stall */
};

struct stall_watch;

/*
 * `look` fills in STALL_WATCH_THREADS; it must not wait. signal_fd is a signalfd that does not
 * block, its signals are blocked in all threads, and nobody else reads it. NULL and errno after a
 * message.
 */
struct stall_watch *
stall_watch__start(int signal_fd, void (*look)(void *ctx, struct watched_thread *out), void *ctx);
/* Readable when there are signals to be handed over; nobody else reads it. */
int stall_watch__fd(const struct stall_watch *s);
/* The number of a signal, those of the same number as often as they came, or 0. Does not block. */
int stall_watch__next(struct stall_watch *s);
void stall_watch__stop(struct stall_watch *s);

#endif /* PYPERF_AGENT_STALL_WATCH_H */
