/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HOSTWALK_H
#define PYPERF_HOSTWALK_H
/*
 * The stack of a thread that does not run, from outside of its process: the walkers and the merge
 * of bpf/, compiled for the host over process_vm_readv(). Frame words are those of the sampler:
 * file ids are the process table's, code objects are announced to the caller as BPF does it, so the
 * later stages give them names.
 *
 * The process runs on meanwhile. Whoever calls has to make sure that the thread did not run between
 * the look at its registers and the end of the walk (struct thread_now in bpf/pyperf.h), and to try
 * again if it did. Nothing that is read is believed: what a changing process shows ends in a marker
 * or is thrown away, never in a loop.
 *
 *	h = hostwalk__new(pt, &maps, &sink);
 *	hostwalk__begin(h, process);
 *	hostwalk__walk(h, thread, &stack);
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/pyperf.h"
#include "follow/rings.h"
#include "process/process.h"

struct hostwalk;

struct hoststack {
	const __u64 *frames; /* frame words, innermost first; borrowed until the next walk */
	size_t cnt;
	/* What Python knows of the thread; all 0: nothing. */
	uint64_t tstate;
	uint64_t bias;			/* of the interpreter ... */
	const struct py_binary *python; /* ... which is this one */
};

/* All is borrowed but `maps` and `sink`, which are copied. NULL and errno. */
struct hostwalk *hostwalk__new(const struct process_table *pt, const struct process_maps *maps,
			       const struct ring_sink *sink);
void hostwalk__free(struct hostwalk *h);

/*
 * The process whose threads come next: takes over its mappings and interpreters. To be called again
 * when the process table has looked again. 0; -ENODATA: the process is not analysed; -EPERM,
 * -ENOSYS: its memory cannot be read; -ESRCH; -ENOMEM.
 */
int hostwalk__begin(struct hostwalk *h, const struct process *p);
/* A thread with THREAD_REGS. */
void hostwalk__walk(struct hostwalk *h, const struct thread_now *t, struct hoststack *out);
/* Only what Python knows of the thread, which may be running: no frames. */
void hostwalk__find(struct hostwalk *h, const struct thread_now *t, struct hoststack *out);
/* Reads memory of the process: all of it and 0, or negative errno. */
int hostwalk__read(const struct hostwalk *h, void *dst, size_t size, uint64_t src);

#endif /* PYPERF_HOSTWALK_H */
