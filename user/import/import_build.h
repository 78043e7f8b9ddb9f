/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_IMPORT_BUILD_H
#define PYPERF_IMPORT_BUILD_H
/*
 * What the readers of all formats share: equal elements become one, whichever file they come from.
 * A frame word of an imported stack is (tag of its kind, index of its sym): enough to tell stacks
 * apart. import__finish() turns it into profile.frame_syms.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/str.h"
#include "import/import.h"

#define IMPORT_MAX_DEPTH 65536U /* frames of a stack */

struct import {
	struct profile *p;
	struct import_opts o;
	struct hash_key key;
	struct hash_index syms, modules;
	/* the text that identifies a process -> its number, which is its space */
	struct strtab *procs;
	struct strbuf scratch; /* of import_proc() */
	uint64_t *words;       /* of import_stack() */
	size_t word_cap;

	const char *path;
	const char *owner;	    /* one process of this name stands for all; NULL: none does */
	struct profile_stats stats; /* of the file being read */
	bool has_lines, has_threads;
	bool unaccounted; /* a file does not say what was lost */
	size_t file_cnt;
	uint32_t as_hz; /* 0: all files must have the same frequency */
	uint64_t carry; /* the remainder of divisions by the frequency of the file being read */
	uint64_t sums[VALUES_MAX]; /* of all stacks, by value type: more than any count */
};

/* Prints a message about a damaged file, which it names. Returns -EBADMSG. */
int import_bad(const struct import *im, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Each returns an index, or -ENOMEM. A field without meaning for the kind is 0 (indexes: -1). */
int import_sym(struct import *im, const struct sym *s);
int import_module(struct import *im, const struct profile_module *m);
/* `life` distinguishes processes with otherwise equal fields. Sets `space`. */
int import_proc(struct import *im, struct profile_proc *proc, uint64_t life);
/* `name` may be 0. 0 or -ENOMEM. */
int import_thread(struct import *im, int proc, uint32_t tid, str_id name);
/*
 * Adds a stack, as syms, outermost first: `samples` samples that count for `count`. 0, -ENOMEM, or
 * -E2BIG or -EBADMSG after a message.
 */
int import_stack(struct import *im, uint32_t type, int proc, uint32_t tid, const uint32_t *syms,
		 size_t cnt, uint64_t samples, uint64_t count);

/* The readers. They neither change nor keep `data`. 0 or negative errno after a message. */
int import_pprof(struct import *im, const uint8_t *data, size_t size);
int import_folded(struct import *im, const char *text, size_t size);
int import_perf(struct import *im, const char *text, size_t size);
int import_speedscope(struct import *im, const char *text, size_t size);
/* Does the text begin like the output of `perf script`? */
bool import_is_perf(const char *text, size_t size);

/* What can be read, in messages about what cannot. */
#define IMPORT_READ "readable are pprof, folded stacks, speedscope's JSON, perf script's text"

#endif /* PYPERF_IMPORT_BUILD_H */
