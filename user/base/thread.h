/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_THREAD_H
#define PYPERF_THREAD_H
#include <pthread.h>

/*
 * A thread with a small stack that gets no signals: those are the main thread's. 0 or negative
 * errno.
 */
int thread__start(pthread_t *thread, void *(*run)(void *), void *arg);

#endif /* PYPERF_THREAD_H */
