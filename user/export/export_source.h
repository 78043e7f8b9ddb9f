/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EXPORT_SOURCE_H
#define PYPERF_EXPORT_SOURCE_H
/*
 * Reads single lines of source text, for reports. Reads files as base/source.h says, each once as
 * long as consecutive calls ask for lines of it.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/source.h"
#include "base/str.h"
#include "profile/view.h"

/*
 * The owner of a process's source files. Not `live`: the profile is from a file, and its reader may
 * read the files that it names.
 */
struct source_owner export_source_owner(const struct profile_proc *proc, bool live);

struct source_lines {
	const struct profile *p;
	const struct view *v; /* or NULL, for source_lines__add_of() alone */
	bool live;
	struct readers *readers;
	uint32_t *proc_of; /* function -> index of a process + 1; 0: none */
	str_id file;	   /* the file whose text this is; 0: none */
	uint32_t proc;	   /* the process as which it was read: another may not be able to */
	struct strbuf text;
};

/*
 * What is given may be written by a process under observation: file and line of `p`, and the number
 * of a process that has it. Appends at most `most` characters of that line.
 */
void source_lines__add_of(struct source_lines *s, struct strbuf *b, str_id file, uint32_t proc,
			  uint32_t line, size_t most);
/* Borrows the view. 0 or -ENOMEM. */
int source_lines__init(struct source_lines *s, const struct view *v, bool live, struct readers *rs);
void source_lines__free(struct source_lines *s);
/*
 * Appends line `line` of a function's file without the blanks around it, safe and bounded; nothing
 * when it cannot be read.
 */
void source_lines__add(struct source_lines *s, struct strbuf *b, uint32_t function, uint32_t line);

#endif /* PYPERF_EXPORT_SOURCE_H */
