/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_THREADLIST_H
#define PYPERF_THREADLIST_H
/*
 * Lists the threads of a process, or of all (0), as they are now: numbers, states, registers,
 * kernel stacks. A BPF iterator over tasks reads them (bpf/threads.bpf.c); nothing is stopped, and
 * ptrace is not used.
 *
 *	struct threadlist *l = threadlist__open(4711);
 *	threadlist__read(l);
 *	for (size_t i = 0; i < threadlist__cnt(l); i++)
 *		threadlist__at(l, i) ...
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/pyperf.h"

struct threadlist;

typedef bool (*threadlist_fn)(void *ctx, const struct thread_now *t);

/* NULL after one message that names the reason. */
struct threadlist *threadlist__open(uint32_t tgid);
void threadlist__close(struct threadlist *l);
/* Later reads leave out the threads that `wants` does not want. */
void threadlist__filter(struct threadlist *l, threadlist_fn wants, void *ctx);

/*
 * Reads the list again. 0 or negative errno, printed; the list is empty when the process is gone.
 */
int threadlist__read(struct threadlist *l);
/* Gives the memory of the list back, which is empty then. */
void threadlist__forget(struct threadlist *l);
size_t threadlist__cnt(const struct threadlist *l);
/* Borrowed until the next read. By tid, ascending. */
const struct thread_now *threadlist__at(const struct threadlist *l, size_t i);
/* NULL: it is not there. */
const struct thread_now *threadlist__find(const struct threadlist *l, uint32_t tid);

#endif /* PYPERF_THREADLIST_H */
