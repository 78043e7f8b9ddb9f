/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_WAITER_H
#define PYPERF_WAITER_H
/*
 * A thread as it is now, seen from outside: its state, what it waits for, and whether a session
 * samples it. Reads no memory of its process.
 */
#include <stdbool.h>
#include <stdint.h>

#include "bpf/pyperf.h"
#include "process/process.h"
#include "sample/session.h"
#include "threads/export_threads.h"

bool waiter__sleeps(const struct thread_now *t);
enum dumped_state waiter__state(const struct thread_now *t);
/*
 * Does the session sample the thread, which is one of `p`? As the kernel half filters
 * (bpf/sample.bpf.h), but for the control group, of which only the profile knows.
 */
bool waiter__is_chosen(const struct session *s, const struct process_maps *maps,
		       const struct thread_now *t, const struct process *p);
/* What it waits for, in the word of a profile of waits. `t` has its state; NULL: not known. */
const char *waiter__reason(const struct thread_now *now, const struct dumped_thread *t);

#endif /* PYPERF_WAITER_H */
