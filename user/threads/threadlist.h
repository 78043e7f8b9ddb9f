/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_THREADLIST_H
#define PYPERF_THREADLIST_H
/*
 * The threads of a process as they are now: numbers, states, registers, kernel stacks. The kernel
 * lists them (a BPF iterator over tasks, bpf/threads.bpf.c); nothing is stopped, and no ptrace is
 * used.
 *
 *	struct threadlist *l = threadlist__open(4711);
 *
 *	threadlist__read(l);
 *	for (size_t i = 0; i < threadlist__cnt(l); i++)
 *		threadlist__at(l, i) ...
 */
#include <stddef.h>
#include <stdint.h>

#include "bpf/pyperf.h"

struct threadlist;

/* NULL after one message that names the reason. */
struct threadlist *threadlist__open(uint32_t tgid);
void threadlist__close(struct threadlist *l);

/* Looks again. 0 or negative errno, printed; the list is empty when the process is gone. */
int threadlist__read(struct threadlist *l);
size_t threadlist__cnt(const struct threadlist *l);
/* Borrowed until the next read. By tid, ascending. */
const struct thread_now *threadlist__at(const struct threadlist *l, size_t i);
/* NULL: it is not there. */
const struct thread_now *threadlist__find(const struct threadlist *l, uint32_t tid);

#endif /* PYPERF_THREADLIST_H */
