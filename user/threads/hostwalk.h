/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HOSTWALK_H
#define PYPERF_HOSTWALK_H
/*
 * Walks the stack of a thread that does not run, from outside its process, with the walkers and the
 * merge of bpf/ compiled for the host. The helper for memory reads the process (base/reader.h).
 * Frame words are those of the sampler: file ids are the process table's, and code objects are
 * announced to the caller as BPF does it, so the later stages give them names.
 *
 * The process runs on meanwhile. The caller checks that the thread did not run between the look at
 * its registers and the end of the walk (struct thread_now in bpf/pyperf_waits.h), and tries again
 * if it did. Nothing that is read is believed: the data of a changing process ends in a marker or
 * is thrown away, never in a loop.
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
	/* What Python knows about the thread; all 0: nothing. */
	uint64_t tstate;
	uint64_t bias;			/* of the interpreter ... */
	const struct py_binary *python; /* ... and the interpreter */
};

/* Copies `maps` and `sink` and borrows the rest. NULL and errno. */
struct hostwalk *hostwalk__new(const struct process_table *pt, const struct process_maps *maps,
			       const struct ring_sink *sink);
void hostwalk__free(struct hostwalk *h);
/*
 * How many numbers of code objects it has dealt out. A later walker with the same sink must not
 * deal these out again: it is told to skip them.
 */
uint64_t hostwalk__dealt_codes(const struct hostwalk *h);
void hostwalk__skip_codes(struct hostwalk *h, uint64_t cnt);

/*
 * Selects the process whose threads are walked next: takes over its mappings and interpreters. Call
 * it again when the process table has read the process again. 0; -ENODATA: the process is not
 * analysed; -EPERM, -ENOSYS: its memory cannot be read; -ESRCH; -ENOMEM.
 */
int hostwalk__begin(struct hostwalk *h, const struct process *p);
/* Walks a thread with THREAD_REGS. */
void hostwalk__walk(struct hostwalk *h, const struct thread_now *t, struct hoststack *out);
/* Finds only what Python knows about the thread, which may be running: no frames. */
void hostwalk__find(struct hostwalk *h, const struct thread_now *t, struct hoststack *out);
/*
 * Reads memory of the process; each page as it was at its first read since the walk began. Reads
 * all and returns 0, or negative errno.
 */
int hostwalk__read(struct hostwalk *h, void *dst, size_t size, uint64_t src);

#endif /* PYPERF_HOSTWALK_H */
