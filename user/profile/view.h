/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_VIEW_H
#define PYPERF_VIEW_H
/*
 * A profile as a person reads it, Python first: a profile goes in, rows come out.
 *
 * A stack is read as its Python functions. The native and the kernel code that the innermost one
 * called is its own time, and is named by library. So is what stands between two Python functions:
 * the interpreter's calls, and extensions that call back, and CPython's code of the import
 * statement. A function compiled by Cython or mypyc is a Python function. A stack without Python is
 * read as its native functions, without those where a process or a thread begins; the interpreter
 * is one of them.
 *
 *	view.c		functions, what their own time is made of, the totals of libraries
 *	view_tree.c	the call tree as rows: heaviest first, chains of other people's code in one
 *			row
 *	view_says.c	the sentences at the top
 *
 * Own code is what is neither in the standard library nor an installed package (origin.h). A
 * program that is itself an installed package (`python -m sphinx`) is read as own code: the
 * outermost package of most samples.
 *
 * All arrays belong to the view, which borrows the profile. Only the first value type is read; see
 * profile__view().
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "profile/export_stacks.h"
#include "profile/origin.h"
#include "profile/profile.h"

#define VIEW_DEPTH_MAX 1024 /* functions of a stack; those further in count for the last */
#define VIEW_ROWS_MAX  28   /* of the tree */
#define VIEW_PACKAGES  3    /* named in the row of a chain */

/* What own time is made of: a library, or one of these. */
enum view_library {
	VIEW_INTERPRETER, /* Python code, and native code of the interpreter's file */
	VIEW_COLLECTOR,	  /* of the interpreter: the collection of garbage */
	VIEW_KERNEL,
	VIEW_UNKNOWN,	   /* native code of no file, and what is not known */
	VIEW_FIRST_LIBRARY /* + rank of the library's name */
};

/* What a stack imports outermost. */
enum view_import {
	VIEW_NO_IMPORT,
	VIEW_SOME_IMPORT,  /* the module does not run yet */
	VIEW_FIRST_MODULE, /* + the function "<module>" of it */
};

struct view_function {
	uint32_t sym; /* one of its syms */
	bool python;  /* or compiled from Python */
	bool muted;   /* of the standard library or of a package */
	enum origin origin;
	uint32_t root_len;  /* bytes of the path of own code that are not shown */
	uint64_t self;	    /* samples that end in it */
	uint64_t own;	    /* ... or in what is not Python, called by it */
	uint64_t total;	    /* samples that it is in */
	uint64_t charged;   /* samples whose innermost function of own code it is */
	uint32_t self_line; /* hottest lines */
	uint32_t own_line;
	uint32_t charged_line;
	size_t first_part, part_cnt; /* in parts[] */

	/* private */
	uint32_t seen;
};

/* Own time of a function in one library; largest first. */
struct view_part {
	uint32_t function, library;
	uint64_t count;
};

struct view_place {
	uint32_t function, line;
	uint64_t self, own, charged;
};

struct view {
	const struct profile *p;
	uint64_t total, samples;
	bool has_native;			  /* else libraries are not known */
	struct sym_ranks functions_of, places_of; /* sym -> function, sym -> place */
	struct view_function *functions;
	struct view_place *places;
	/* Of places, as they are read; sorted by functions. The key is enum view_import. */
	struct flat_stacks stacks;
	struct view_part *parts;
	size_t part_cnt;
	uint32_t *library_of;	  /* module -> library */
	uint32_t *library_module; /* library - VIEW_FIRST_LIBRARY -> one of its modules */
	uint64_t *libraries;	  /* samples that end in each */
	uint32_t library_cnt;
	uint64_t collecting; /* samples with the collector in the stack */

	/* private */
	size_t part_cap;
	const char
		*promoted; /* package that is read as own code, part of a string of the profile */
	size_t promoted_len;
};

/* 0 or -ENOMEM. With `lines`, a function has its hottest line. */
int view__init(struct view *v, const struct profile *p, bool lines);
void view__free(struct view *v);

/* Appends "libcrypto", "interpreter", "kernel". */
void view_add_library(struct strbuf *b, const struct view *v, uint32_t library);
/*
 * Appends "libcrypto 71%, interpreter 3%": the parts of at least a percent of all, three at most.
 */
void view_add_parts(struct strbuf *b, const struct view *v, uint32_t function);
/* Appends "74.6%"; without decimals when there are few samples. */
void view_add_percent(struct strbuf *b, const struct view *v, uint64_t count);
/* Appends where a function stands, relative to what it is imported from: "flask/app.py:12". */
void view_add_place(struct strbuf *b, const struct view *v, uint32_t function, uint32_t line);
/*
 * The package of a function, or the library of a native one: part of a string of the profile,
 * unsafe.
 */
const char *view_package(const struct view *v, uint32_t function, size_t *len);
/*
 * Few samples say little: then 95 of 100 such profiles are within so many points of the truth. 0:
 * there are enough.
 */
unsigned view_error_points(const struct view *v);

/* ---- The call tree ---- */

struct view_row {
	uint32_t function; /* of a chain: its outermost */
	uint32_t line;	   /* the hottest of this row; 0: not known */
	uint32_t depth;	   /* of the row in the tree */
	uint32_t frames;   /* 0: one function. Else a chain of so many */
	uint32_t packages
		[VIEW_PACKAGES]; /* of a chain: functions of different packages, outermost first */
	uint32_t package_cnt;
	uint64_t total, own;
};

struct view_tree {
	struct view_row *rows;
	size_t cnt, cap;
	unsigned cut;  /* branches below so many percent are left out */
	bool left_out; /* there are such */
};

/* 0 or -ENOMEM. */
int view_tree__init(struct view_tree *t, const struct view *v);
void view_tree__free(struct view_tree *t);

/* ---- What it says ---- */

/*
 * Appends at most three sentences, each with its number, a line each; nothing for an empty profile.
 * 0 or -ENOMEM.
 */
int view_add_sentences(struct strbuf *b, const struct view *v);

#endif /* PYPERF_VIEW_H */
