/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * To be preloaded: time goes by $FAST_TIME times as fast, for all clocks, and for who waits in
 * poll().
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CLOCKS 16

static long factor(void)
{
	static long n;

	if (!n)
		n = atol(getenv("FAST_TIME"));
	return n;
}

static long long now_ns(clockid_t id)
{
	struct timespec t;

	syscall(SYS_clock_gettime, id, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static long long begin_ns[CLOCKS];

__attribute__((constructor)) static void begin(void)
{
	for (int id = 0; id < CLOCKS; id++)
		begin_ns[id] = now_ns(id);
}

int clock_gettime(clockid_t id, struct timespec *t)
{
	long long ns = now_ns(id);

	if (id >= 0 && id < CLOCKS)
		ns = begin_ns[id] + (ns - begin_ns[id]) * factor();
	t->tv_sec = ns / 1000000000;
	t->tv_nsec = ns % 1000000000;
	return 0;
}

time_t time(time_t *out)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	if (out)
		*out = t.tv_sec;
	return t.tv_sec;
}

int poll(struct pollfd *fds, nfds_t cnt, int ms)
{
	static int (*real)(struct pollfd *, nfds_t, int);

	if (!real)
		real = (int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll");
	return real(fds, cnt, ms > 0 ? (int)(ms / factor() + 1) : ms);
}
