/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/heap_command.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ending.h"
#include "base/log.h"
#include "base/signals.h"
#include "heap/held.h"

struct runner {
	struct heap_command *c;
	struct held held;
	bool holds; /* else the kernel cannot, and only -d reads */
	uint64_t due_ms;
	int status; /* of the command */
};

/* Ctrl-C reaches the command by itself, the others only us. */
static void pass_signals(const struct heap_command *c)
{
	struct signalfd_siginfo info;

	while (read(c->signal_fd, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo != SIGCHLD && info.ssi_signo != SIGINT)
			launch__signal(c->launch, (int)info.ssi_signo);
}

static enum held_state state_of(struct runner *r)
{
	if (r->holds)
		return held__look(&r->held);
	return launch__reap(r->c->launch, &r->status) ? HELD_GONE : HELD_RUNS;
}

/* Until it is at its end, or `due_ms` (0: never). */
static enum held_state await(struct runner *r, uint64_t due_ms)
{
	struct pollfd fd = { .fd = r->c->signal_fd, .events = POLLIN };
	enum held_state state;

	for (;;) {
		uint64_t now = now_ms(), left = due_ms > now ? due_ms - now : 0;

		state = state_of(r);
		if (state != HELD_RUNS || (due_ms && !left))
			return state;
		poll(&fd, 1, !due_ms ? -1 : left < INT_MAX ? (int)left : INT_MAX);
		pass_signals(r->c);
	}
}

static int read_heap(struct runner *r, enum held_state state)
{
	int status;

	if (state == HELD_GONE) {
		log_err("%s: it has ended before its heap could be read", r->c->name);
		return 1;
	}
	if (state == HELD_AT_END && r->held.python && r->held.exited)
		log_info("%s: it exits without Python's finalization (os._exit), or past it: what "
			 "Python has freed is not shown",
			 r->c->name);
	ending__forget(); /* what a signal ended was the command */
	status = r->c->read(r->c->ctx);
	if (status && state == HELD_AT_END && !r->held.python)
		log_err("%s: only the process of the command itself is held at its end; -d reads "
			"the Python that it starts, while that runs",
			r->c->name);
	return status;
}

static int begin(struct runner *r)
{
	struct heap_command *c = r->c;
	int err = held__begin(&r->held, launch__pid(c->launch));

	r->holds = !err;
	if (err && !c->duration_s) {
		log_err("%s: it cannot be held at its end: %s (needs Linux 5.13, and breakpoints "
			"of the CPU); -d reads it while it runs",
			c->name, strerror(-err));
		return err;
	}
	signals__keep_no_promise(); /* it may run for any time */
	signals__hand_over(1);
	err = launch__go(c->launch);
	if (!err && c->duration_s)
		r->due_ms = now_ms() + (uint64_t)(c->duration_s * 1000) + 1;
	return err;
}

int heap_command__run(struct heap_command *c)
{
	struct runner r = { .c = c };
	enum held_state state;
	int status;

	if (begin(&r))
		return 1;
	state = await(&r, r.due_ms);
	status = read_heap(&r, state);
	if (state == HELD_RUNS)
		await(&r, 0);
	if (r.holds)
		held__release(&r.held);
	r.holds = false;
	await(&r, 0);
	return status ? status : r.status;
}
