/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EXPORT_SOURCE_H
#define PYPERF_EXPORT_SOURCE_H
/*
 * Single lines of source text, for reports. Files are read as base/source.h says, each once while
 * lines of it are asked for one after the other.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/source.h"
#include "base/str.h"
#include "profile/view.h"

/*
 * Whose file a process's source is. Not `live`, from a file: whoever reads it may read what it
 * names.
 */
struct source_owner export_source_owner(const struct profile_proc *proc, bool live);

struct source_lines {
	const struct view *v;
	bool live;
	uint32_t *proc_of; /* function -> index of a process + 1; 0: none */
	str_id file;	   /* whose text this is; 0: none */
	struct strbuf text;
};

/* Borrows the view. 0 or -ENOMEM. */
int source_lines__init(struct source_lines *s, const struct view *v, bool live);
void source_lines__free(struct source_lines *s);
/*
 * Appends line `line` of a function's file without the blanks around it, safe and bounded; nothing
 * when it cannot be read.
 */
void source_lines__add(struct source_lines *s, struct strbuf *b, uint32_t function, uint32_t line);

#endif /* PYPERF_EXPORT_SOURCE_H */
