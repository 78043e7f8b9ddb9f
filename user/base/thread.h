/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_THREAD_H
#define PYPERF_THREAD_H
#include <pthread.h>
#include <stdbool.h>

/*
 * Starts a thread with a small stack and with all signals blocked: the main thread takes them. 0 or
 * negative errno.
 */
int thread__start(pthread_t *thread, void *(*run)(void *), void *arg);
/*
 * Wakes a thread that waits for an eventfd that does not block. Who joins it then would wait for
 * ever if this failed, so it is tried again. False: it cannot be woken.
 */
bool thread__wake(int event_fd);

#endif /* PYPERF_THREAD_H */
