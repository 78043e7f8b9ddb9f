/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_BUILDER_H
#define PYPERF_BUILDER_H
/*
 * Builds the unwind tables of very large files in a thread of its own, so that other processes need
 * not wait for them: 35 MB of .eh_frame take 0.2 s, in which a process could come and go unseen.
 *
 *	table_builder__add(b, id, elf)	the file; the builder duplicates its descriptor
 *	table_builder__take(b, &r)	... later: the result
 *
 * All functions are for one thread. The builder starts its own thread with the first file.
 */
#include <stdbool.h>
#include <stdint.h>

#include "elf/ehframe.h"
#include "elf/elf.h"

struct builder_result {
	uint32_t id;
	struct unwind_table *table; /* owned by the caller; NULL: there is none, or no memory */
	uint64_t took_ns;
	bool put_off; /* there was no time to read all of the file: see readers__due() */
};

struct table_builder;

struct table_builder *table_builder__new(void); /* NULL and errno */
/* Waits for the file that is being worked on. */
void table_builder__free(struct table_builder *b);
/* 0 or negative errno: then there will be no result. */
int table_builder__add(struct table_builder *b, uint32_t id, const struct elf_file *elf);
/* Takes a finished result; false: there is none. */
bool table_builder__take(struct table_builder *b, struct builder_result *out);

#endif /* PYPERF_BUILDER_H */
