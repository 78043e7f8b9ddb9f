/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_IMPORT_TEXT_H
#define PYPERF_IMPORT_TEXT_H
/*
 * Pieces of a text file, and the frames of the tools that write folded stacks. A struct text is a
 * part of the file: not NUL-terminated, borrowed, valid as long as the file.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "import/import_build.h"

struct text {
	const char *s;
	size_t len;
};

bool text__is(struct text t, const char *s);
bool text__begins(struct text t, const char *start);
bool text__ends(struct text t, const char *end);
/* Where `what` begins in `t`: first or last occurrence. t.len: nowhere. */
size_t text__find(struct text t, const char *what, bool last);
/* [from, to) of `t`; empty if from >= to. */
struct text text__part(struct text t, size_t from, size_t to);
struct text text__trim(struct text t); /* without blanks and tabs at both ends */
/* A whole decimal (or hexadecimal) number. */
bool text__number(struct text t, int base, uint64_t *out);
/* Takes the line at `*at`, without its end, and moves `*at` behind it. False: there is none. */
bool text__next_line(struct text all, size_t *at, struct text *line);

/* The parts of a frame's text; an empty text or 0 if it does not name them. */
struct frame {
	uint8_t kind;			/* enum sym_kind */
	struct text func, file, module; /* module: of native ones, a path or one of PATH_... */
	uint32_t line;
	/* address of a native frame without a name, unless its name is the address: "0x12" */
	uint64_t addr;
};

#define PATH_ANON    "anon"
#define PATH_INLINED "inlined"
#define PATH_UNKNOWN "unknown"

/* "path:LINE" or "path": sets file and line. */
void frame__set_place(struct frame *f, struct text place);
/* The kind of a frame that has a file and perhaps a line; a library becomes its module. */
void frame__set_kind_by_file(struct frame *f);
/* The index of the sym, or -ENOMEM. Sets has_lines of the import. */
int frame__sym(struct import *im, const struct frame *f);
/* Interns a name in the profile. 0 for "", and also with *err = -ENOMEM. */
str_id text__intern(struct import *im, struct text t, int *err);

/* The process and the thread that the first elements of a folded stack name. */
struct head {
	struct text process;
	struct text thread;
	uint64_t tgid; /* 0: not known */
	uint32_t tid;  /* THREAD_WORD(); 0: not known */
	size_t first;  /* element that is the outermost frame */
};

/*
 * The form of a tool's folded stacks. Both functions return false for a text that the tool does not
 * write.
 */
struct dialect {
	const char *name;
	bool (*head)(const struct text *elems, size_t cnt, struct head *h);
	bool (*frame)(struct text t, struct frame *f);
};

extern const struct dialect import_dialects[];
extern const size_t import_dialect_cnt;

#endif /* PYPERF_IMPORT_TEXT_H */
