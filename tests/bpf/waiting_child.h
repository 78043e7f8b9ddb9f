/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TESTS_WAITING_CHILD_H
#define PYPERF_TESTS_WAITING_CHILD_H
/*
 * A child that does what a test wants of it, and then waits for its end. Behind cmocka.h.
 *
 *	struct waiting w;
 *
 *	start_waiting(&w, wait_for_end);
 *	stop_waiting(&w);		 closes its pipe: its wait status
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct waiting {
	pid_t pid;
	int to; /* closed: it ends */
	int from;
};

static inline void start_waiting(struct waiting *w, void (*body)(int in, int out))
{
	int in[2], out[2];

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	w->pid = fork();
	assert_true(w->pid >= 0);
	if (!w->pid) {
		close(in[1]);
		close(out[0]);
		body(in[0], out[1]);
		_exit(0);
	}
	close(in[0]);
	close(out[1]);
	w->to = in[1];
	w->from = out[0];
}

static inline int stop_waiting(struct waiting *w)
{
	int status = -1;

	close(w->to);
	close(w->from);
	assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
	return status;
}

/* The child has got as far as writing a byte. */
static inline void await_byte(const struct waiting *w)
{
	char byte;

	assert_int_equal(read(w->from, &byte, 1), 1);
}

static inline void wait_for_end(int in, int out)
{
	char byte;

	(void)out;
	while (read(in, &byte, 1) > 0)
		;
}

/* Spins until it is killed, or its parent has died. */
static inline void spin_for_ever(int in, int out)
{
	(void)in;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (write(out, "x", 1) == 1)
		for (;;)
			__asm__ volatile("");
}

static inline void kill_waiting(struct waiting *w)
{
	kill(w->pid, SIGKILL);
	stop_waiting(w);
}

static inline void cat_body(int in, int out)
{
	dup2(in, 0);
	dup2(out, 1);
	execl("/bin/cat", "cat", (char *)NULL);
}

/* What it writes comes back: the exec is over. */
static inline void await_cat(const struct waiting *w)
{
	assert_int_equal(write(w->to, "x", 1), 1);
	await_byte(w);
}

#endif /* PYPERF_TESTS_WAITING_CHILD_H */
