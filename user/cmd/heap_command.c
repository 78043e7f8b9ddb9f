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
#include "heap/stop_at_end.h"

#define RELEASE_MS 5000 /* until a command that does not answer is left alone */

struct runner {
	struct heap_command *c;
	struct stop_at_end stop;
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

static enum command_state state_of(struct runner *r)
{
	if (r->holds)
		return stop_at_end__look(&r->stop);
	return launch__reap(r->c->launch, &r->status) ? COMMAND_GONE : COMMAND_RUNS;
}

/* Until it is at its end, or `due_ms` (0: never). */
static enum command_state await(struct runner *r, uint64_t due_ms)
{
	struct pollfd fd = { .fd = r->c->signal_fd, .events = POLLIN };
	enum command_state state;

	for (;;) {
		uint64_t now = now_ms(), left = due_ms > now ? due_ms - now : 0;

		state = state_of(r);
		if (state != COMMAND_RUNS || (due_ms && !left))
			return state;
		poll(&fd, 1, !due_ms ? -1 : left < INT_MAX ? (int)left : INT_MAX);
		pass_signals(r->c);
	}
}

static int read_heap(struct runner *r, enum command_state state)
{
	int status;

	if (state == COMMAND_GONE) {
		log_err("%s: it has ended before its heap could be read", r->c->name);
		return 1;
	}
	if (state == COMMAND_AT_END && r->stop.python && r->stop.exited)
		log_info("%s: it exits without Python's finalization (os._exit), or past it: what "
			 "Python has freed is not shown",
			 r->c->name);
	ending__forget(); /* what a signal ended was the command */
	status = r->c->read(r->c->ctx);
	if (status && state == COMMAND_AT_END && !r->stop.python)
		log_err("%s: only the process of the command itself is held at its end; -d reads "
			"the Python that it starts, while that runs",
			r->c->name);
	return status;
}

static void say_why_not(const struct heap_command *c, int err)
{
	if (err == -EINVAL)
		log_err("%s: it cannot be held at its end, which needs Linux 5.13; -d SEC reads it "
			"while it runs",
			c->name);
	else
		log_err("%s: it cannot be held at its end: %s (that needs ptrace(2), and "
			"breakpoints of the CPU); -d SEC reads it while it runs",
			c->name, strerror(-err));
}

static int begin(struct runner *r)
{
	struct heap_command *c = r->c;
	int err = stop_at_end__begin(&r->stop, launch__pid(c->launch));

	r->holds = !err;
	if (err && !c->duration_s) {
		say_why_not(c, err);
		return err;
	}
	signals__keep_no_promise(); /* it may run for any time */
	signals__hand_over(1);
	err = launch__go(c->launch);
	if (!err && c->duration_s)
		r->due_ms = now_ms() + (uint64_t)(c->duration_s * 1000) + 1;
	return err;
}

static int release(struct runner *r)
{
	int err = stop_at_end__release(&r->stop, RELEASE_MS);

	if (err)
		log_err("%s: process %d cannot be let go: %s; it runs on as this program ends, and "
			"its exit status is unknown",
			r->c->name, launch__pid(r->c->launch), strerror(-err));
	return err;
}

int heap_command__run(struct heap_command *c)
{
	struct runner r = { .c = c };
	enum command_state state;
	int status;

	if (begin(&r))
		return 1;
	state = await(&r, r.due_ms);
	status = read_heap(&r, state);
	if (state == COMMAND_RUNS)
		await(&r, 0);
	if (r.holds && release(&r))
		return 1;
	r.holds = false;
	await(&r, 0);
	return status ? status : r.status;
}
