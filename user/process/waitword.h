/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_WAITWORD_H
#define PYPERF_WAITWORD_H
/*
 * What a thread waits for, as a frame word (FRAME_WAIT): by its system call, and by the file that
 * this has to do with. The kernel half says it of waits that have ended (kind_of_call() of
 * bpf/wait_reason.bpf.h); here it is said of a thread that sleeps, from outside.
 */
#include <stdint.h>

#include "bpf/pyperf.h"

/* What waiting in a system call depends on. */
enum wait_call wait_class_of(uint64_t nr);

/* Asks for the kind of a file, but no server for it. */
uint64_t wait_word_of_sleeper(const struct thread_now *t);

/* "lock" or the name of the system call; NULL: a call that has no name, or none. */
const char *wait_word_text(uint64_t word);

#endif /* PYPERF_WAITWORD_H */
