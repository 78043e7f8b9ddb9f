/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Threads that Python did not start: see native_threads.py, which builds and loads this. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef void (*callback)(void);

volatile int stop;
static volatile long sink;
static pthread_t threads[3];
volatile int tids[3]; /* 0: it has not begun */
callback again, keeping;
int (*ensure)(void);
void (*release)(int);
void *(*save)(void);
void (*restore)(void *);

__attribute__((noinline)) void native_work(void)
{
	for (long i = 0; i < 100000; i++)
		sink += i;
}

/* Never in Python. */
static void *native_spin(void *arg)
{
	tids[0] = (int)syscall(SYS_gettid);
	while (!stop)
		native_work();
	return arg;
}

/* Each call makes a thread state and frees it. */
static void *native_again(void *arg)
{
	tids[1] = (int)syscall(SYS_gettid);
	while (!stop)
		again();
	return arg;
}

/* Keeps its thread state, without the GIL. */
static void *native_keeping(void *arg)
{
	int state = ensure();
	void *saved = save();

	tids[2] = (int)syscall(SYS_gettid);
	while (!stop) {
		keeping();
		native_work();
	}
	restore(saved);
	release(state);
	return arg;
}

void begin(int cnt)
{
	static void *(*const run[])(void *) = { native_spin, native_again, native_keeping };

	for (int i = 0; i < cnt; i++)
		pthread_create(&threads[i], NULL, run[i], NULL);
	for (int i = 0; i < cnt; i++) {
		while (!tids[i])
			sched_yield();
	}
}

void end(int cnt)
{
	stop = 1;
	for (int i = 0; i < cnt; i++)
		pthread_join(threads[i], NULL);
}
