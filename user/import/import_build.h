/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_IMPORT_BUILD_H
#define PYPERF_IMPORT_BUILD_H
/*
 * What the readers of all formats share: equal things become one, whichever file they come from.
 *
 * A frame word of an imported stack is (tag of its kind, index of its sym): enough to tell stacks
 * apart, and import__finish() turns it into profile.frame_syms.
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
	struct strtab *procs;  /* what makes a process -> its number, which is its space */
	struct strbuf scratch; /* of import_proc() */
	uint64_t *words;       /* of import_stack() */
	size_t word_cap;

	const char *path;
	struct profile_stats stats; /* of the file being read */
	bool has_lines, has_threads;
	bool unaccounted; /* a file does not say what was lost */
	size_t file_cnt;
	uint32_t as_hz; /* 0: all files must have the same frequency */
	uint64_t carry; /* of the file being read: what is left of divisions by its frequency */
};

/* What a damaged file is told: -EBADMSG, after a message that names the file. */
int import_bad(const struct import *im, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Each returns an index, or -ENOMEM. Fields that mean nothing for the kind are 0 (indexes: -1). */
int import_sym(struct import *im, const struct sym *s);
int import_module(struct import *im, const struct profile_module *m);
/* `life` tells processes apart whose other fields are equal. `space` is set here. */
int import_proc(struct import *im, struct profile_proc *proc, uint64_t life);
/* `name` may be 0. 0 or -ENOMEM. */
int import_thread(struct import *im, int proc, uint32_t tid, str_id name);
/*
 * Syms outermost first; `samples` were taken, which count for `count`. 0, -ENOMEM, or -E2BIG after
 * a message.
 */
int import_stack(struct import *im, uint32_t type, int proc, uint32_t tid, const uint32_t *syms,
		 size_t cnt, uint64_t samples, uint64_t count);

/* The readers. `data` is not changed, and not kept. 0 or negative errno after a message. */
int import_pprof(struct import *im, const uint8_t *data, size_t size);
int import_folded(struct import *im, const char *text, size_t size);

#endif /* PYPERF_IMPORT_BUILD_H */
