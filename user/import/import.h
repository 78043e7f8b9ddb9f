/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_IMPORT_H
#define PYPERF_IMPORT_H
/*
 * Reads profile files into a profile with names, as symbolize leaves it: the reverse of export.
 * Adds up several files. Needs neither root nor a kernel.
 *
 *    import_pprof.c   pprof: ours (*.pb.gz) whole, other tools' CPU profiles as far as they go;
 *                     import_pprof_columns.c chooses among their sample types
 *    import_folded.c  folded stacks: ours with the kinds of their frames; those of py-spy, austin
 *                     and CPython's profiling.sampling as far as they go; others as plain names
 *    import_perf.c    the output of `perf script`
 *    import_speedscope.c  speedscope's JSON: ours, py-spy's, others with samples
 *
 * The content decides the format, not the name of the file. The message about a known format that
 * cannot be read says what to do.
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
	/* For comparing runs, whose pids and threads differ: a process is its command. */
	bool merge_processes;
	bool merge_threads;
	/* The sample type of a pprof file to read; NULL: the number of samples, else CPU time. */
	const char *sample_type;
	/* limit for all different stacks together; beyond it -E2BIG. 0: 2^25 */
	uint32_t max_frames;
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
/* The same for the contents of a file; `name` replaces the path in messages. Both are borrowed. */
int import__add_data(struct import *im, const char *name, const void *data, size_t size);
/*
 * Lets the files have been sampled at different frequencies: from now on samples are counted as if
 * at this one, rounded so that the sum of each file is right. The profile then does not say what
 * became of samples.
 */
void import__set_frequency(struct import *im, uint32_t hz);
/*
 * All processes of what is added from now on are one, of this name; NULL: they are as they are.
 * Borrowed until the next call.
 */
void import__set_owner(struct import *im, const char *name);
/* After the last file. 0 or -ENOMEM after a message. */
int import__finish(struct import *im);

/* The profile, valid after import__finish() and borrowed until import__free(). */
struct profile *import__profile(struct import *im);
/* Do the files have lines of Python frames? Do they keep stacks apart by thread? */
bool import__has_lines(const struct import *im);
bool import__has_threads(const struct import *im);

#endif /* PYPERF_IMPORT_H */
