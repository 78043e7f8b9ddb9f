/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_THREAD_H
#define PYPERF_THREAD_H
#include <pthread.h>

/*
 * Starts a thread with a small stack and with all signals blocked: the main thread takes them. 0 or
 * negative errno.
 */
int thread__start(pthread_t *thread, void *(*run)(void *), void *arg);

#endif /* PYPERF_THREAD_H */
