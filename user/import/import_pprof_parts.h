/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_IMPORT_PPROF_PARTS_H
#define PYPERF_IMPORT_PPROF_PARTS_H
/*
 * The parts of the reader of pprof files, for the files that implement it:
 *
 *	import_pprof.c		the message, field by field; names; samples
 *	import_pprof_columns.c	which columns of the samples become which value types
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/idmap.h"
#include "import/import_build.h"

#define TYPES_MAX 64

struct slice {
	const uint8_t *p;
	size_t len;
};

struct binary {
	int32_t module; /* -1: none */
	bool python, kernel, generated, bracketed;
	uint64_t start, offset;
	int64_t filename, build_id;
	uint64_t limit;
};

struct function {
	int64_t name, file, start_line;
};

struct location {
	uint64_t id, mapping, address;
	struct slice msg; /* its lines are read when it is used */
	uint32_t sym;	  /* + 1; 0: not used yet */
};

struct column_type {
	int64_t type, unit;
};

/* The column of a value type in the samples of the file. */
struct column {
	size_t count; /* which value counts */
	/* which value is the number of samples, where `count` is not; else `count` */
	size_t samples;
	uint64_t divisor; /* value -> samples; 0: it is a number of samples */
	struct value_type type;
};

struct table {
	void *items;
	size_t cnt, cap;
	struct idmap by_id;
};

struct pprof_reader {
	struct import *im;
	struct slice file;
	struct table strings, mappings, functions, locations;
	struct column_type types[TYPES_MAX];
	size_t type_cnt;
	uint64_t values[TYPES_MAX]; /* of the current sample */
	struct column_type period_type;
	int64_t period, time_ns, duration_ns, default_type;
	bool ours;
	struct column columns[VALUES_MAX]; /* by value type of this profile */
	uint32_t column_cnt;
	uint32_t *frames; /* of a sample */
	size_t frame_cap;
	struct slice loops; /* text of pprof.h; empty: none */
	/* Of samples, where it is not empty: index + 1; 0: it was left out. */
	uint32_t *sample_procs;
	size_t sample_cnt, sample_cap;
	str_id main_comm, main_exe;
};

static inline struct slice get_string(const struct pprof_reader *r, int64_t index)
{
	const struct slice *strings = r->strings.items;

	if (index < 0 || (uint64_t)index >= r->strings.cnt)
		return (struct slice){ NULL, 0 };
	return strings[index];
}

static inline bool is(struct slice s, const char *text)
{
	return s.len == strlen(text) && !memcmp(s.p, text, s.len);
}

/* Chooses the columns, by types and stats. 0, or -EBADMSG: there is none, or not the wanted one. */
int pprof_columns__choose(struct pprof_reader *r);
/* Makes the columns the value types of the profile. */
void pprof_columns__set_values(struct pprof_reader *r);

#endif /* PYPERF_IMPORT_PPROF_PARTS_H */
