/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_IMPORT_H
#define PYPERF_IMPORT_H
/*
 * Profile files -> a profile with names, as symbolize leaves it: the way back from export. Several
 * files are added up. Needs neither root nor a kernel.
 *
 *   import_pprof.c   pprof: ours (*.pb.gz) whole, other tools' CPU profiles as far as they go
 *   import_folded.c  folded stacks: ours with the kinds of their frames, others as plain names
 *
 * Files are hostile: the size of what they unpack to is bounded (IMPORT_MAX_SIZE), memory is
 * proportional to it, and every index in them is checked.
 *
 *	struct import *im = import__new(&(struct import_opts){ 0 });
 *
 *	err = import__add(im, "a.pb.gz");
 *	err = err ? err : import__add(im, "b.pb.gz");
 *	err = err ? err : import__finish(im);
 *	export__report(import__profile(im), &opts, stdout);
 *	import__free(im);
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

#define IMPORT_MAX_SIZE (256U << 20) /* bytes of one file, unpacked */

struct import_opts {
	/* For runs that are compared: pids and threads mean nothing, a process is its command. */
	bool merge_processes;
	bool merge_threads;
	/* Which of a pprof file's sample types; NULL: the number of samples, else CPU time. */
	const char *sample_type;
	uint32_t max_frames; /* of all different stacks together; beyond it -E2BIG. 0: 2^25 */
};

struct import;

/* NULL and errno on lack of memory. `o` is copied; the string is borrowed. */
struct import *import__new(const struct import_opts *o);
void import__free(struct import *im);
/*
 * Adds a file; "-" is stdin. 0 or negative errno, after a message; only import__free() may follow
 * then.
 */
int import__add(struct import *im, const char *path);
/*
 * The same of what such a file would hold; `name` stands for the path in messages. Both are
 * borrowed.
 */
int import__add_data(struct import *im, const char *name, const void *data, size_t size);
/*
 * Files may have been sampled at other frequencies from now on: their samples are counted as if it
 * had been this one, rounded so that the sum of each file is right. What became of samples is not
 * said then.
 */
void import__set_frequency(struct import *im, uint32_t hz);
/* After the last file. 0 or -ENOMEM after a message. */
int import__finish(struct import *im);

/* All of it is borrowed until import__free(), and valid after import__finish(). */
struct profile *import__profile(struct import *im);
/* What the files have: lines of Python frames; stacks kept apart by thread. */
bool import__has_lines(const struct import *im);
bool import__has_threads(const struct import *im);

#endif /* PYPERF_IMPORT_H */
