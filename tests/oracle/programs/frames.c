/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Frames of every kind, without Python: recursion, alloca, realigned stacks, callbacks, signals. */
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile int sink;

static NOINLINE void use(const void *p, size_t size)
{
	const unsigned char *b = p;

	for (size_t i = 0; i < size; i += 17)
		sink += b[i];
}

static NOINLINE int realigned(int n)
{
	int v[16] __attribute__((aligned(64)));
	char *p = alloca((size_t)n * 16 + 1);

	memset(v, n, sizeof(v));
	memset(p, n, (size_t)n * 16 + 1);
	use(v, sizeof(v));
	use(p, (size_t)n * 16 + 1);
	return v[n & 15];
}

static NOINLINE int recurse(int n)
{
	return n ? recurse(n - 1) + realigned(n) : realigned(3);
}

static int order(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b - realigned(1) * 0;
}

static void on_signal(int sig)
{
	recurse(sig & 3);
}

static void *work(void *arg)
{
	int v[64];
	char text[64];

	for (unsigned int i = 0;; i++) {
		for (int k = 0; k < 64; k++)
			v[k] = (int)(i * 2654435761u >> (k & 15));
		qsort(v, 64, sizeof(v[0]), order);
		recurse((int)(i & 31));
		snprintf(text, sizeof(text), "%d %s %f", v[0], "x", (double)v[1]);
		use(text, sizeof(text));
		free(malloc(i & 4095));
	}
	return arg;
}

int main(void)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK };
	struct itimerval timer = { { 0, 1000 }, { 0, 1000 } };
	stack_t alt = { .ss_sp = malloc(65536), .ss_size = 65536 };
	pthread_t thread;

	sigaltstack(&alt, NULL);
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	pthread_create(&thread, NULL, work, NULL);
	work(NULL);
	return 0;
}
