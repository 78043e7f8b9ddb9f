/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>

#define THREAD_STACK ((size_t)512 * 1024)
#define WAKE_TRIES   3

int thread__start(pthread_t *thread, void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, THREAD_STACK);
	err = pthread_create(thread, &attr, run, arg);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -err;
}

bool thread__wake(int event_fd)
{
	for (int i = 0; i < WAKE_TRIES; i++)
		if (!eventfd_write(event_fd, 1) || errno == EAGAIN) /* it is full: awake */
			return true;
	return false;
}
