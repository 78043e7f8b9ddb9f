/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_VIEW_H
#define PYPERF_VIEW_H
/*
 * Turns a profile into rows for people, Python first.
 *
 * A stack is shown as its Python functions. The native and the kernel code that the innermost one
 * called is part of its own time, and is named by library. So is the code between two Python
 * functions: the interpreter's calls, extensions that call back, and CPython's code of the import
 * statement. A function compiled by Cython or mypyc is a Python function. A stack without Python is
 * shown as its native functions, without those where a process or a thread begins; the interpreter
 * is one of them.
 *
 *	view.c		functions, the parts of their own time, the totals of libraries
 *	view_tree.c	the call tree as rows: heaviest first, chains of other people's code in one
 *			row
 *	view_says.c	the sentences at the top
 *	view_waits.c	the sentence that says what the time went to, if threads waited
 *
 * Own code is code that is neither in the standard library nor in an installed package (origin.h).
 * A program that is itself an installed package (`python -m sphinx`) is shown as own code: the
 * package that is outermost in most samples.
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

#define VIEW_ROWS_MAX 28 /* of the tree */
#define VIEW_PACKAGES 3	 /* named in the row of a chain */

/* The parts of own time: a library, or one of these. */
enum view_library {
	VIEW_INTERPRETER, /* Python code, and native code of the interpreter's file */
	VIEW_COLLECTOR,	  /* the interpreter's garbage collector */
	VIEW_REGEX,	  /* ... its regular expressions */
	VIEW_SORTING,	  /* ... its sorting of lists */
	VIEW_KERNEL,
	VIEW_WAITING,	/* the thread was off its CPU: waits.h */
	VIEW_ENDING,	/* it ended another one's wait */
	VIEW_GENERATED, /* native code in no file: a JIT compiler's */
	VIEW_UNKNOWN,
	VIEW_FIRST_LIBRARY /* + rank of the library's name */
};

/* A part of VIEW_WAITING with its reason: this, and the number of the function "[waits: lock]". */
#define VIEW_WAIT 0x80000000U

/* The outermost import of a stack. */
enum view_import {
	VIEW_NO_IMPORT,
	VIEW_SOME_IMPORT,  /* the module does not run yet */
	VIEW_FIRST_MODULE, /* + the function "<module>" of it */
};

/* The key of a stack: what it imports, and the function that is the reason of its wait, plus 1. */
#define VIEW_KEY(import, reason) ((uint64_t)(reason) << 32 | (import))
#define VIEW_IMPORT(key)	 ((uint32_t)(key))
#define VIEW_REASON(key)	 ((uint32_t)((key) >> 32)) /* 0: it does not wait */

struct view_function {
	uint32_t sym; /* one of its syms */
	bool python;  /* or compiled from Python */
	bool muted;   /* of the standard library or of a package */
	enum origin origin;
	uint32_t root_len;  /* bytes of the path of own code that are not shown */
	uint64_t self;	    /* samples that end in it */
	uint64_t own;	    /* ... or in what is not Python, called by it */
	uint64_t total;	    /* samples that it is in */
	uint64_t charged;   /* samples of it: view_own_depth() */
	uint32_t self_line; /* hottest lines */
	uint32_t own_line;
	uint32_t charged_line;
	size_t first_part, part_cnt; /* in parts[] */

	/* private */
	uint32_t seen;
};

/* Own time of a function in one library; largest first. */
struct view_part {
	uint32_t function, library; /* enum view_library, or VIEW_WAIT */
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
	bool lines;				  /* functions have their hottest lines */
	struct sym_ranks functions_of, places_of; /* sym -> function, sym -> place */
	struct view_function *functions;
	struct view_place *places;
	/* Of places, as shown; sorted by functions. Keys: VIEW_KEY(). */
	struct flat_stacks stacks;
	struct view_part *parts;
	size_t part_cnt;
	uint32_t *library_of;	  /* module -> library */
	uint32_t *library_module; /* library - VIEW_FIRST_LIBRARY -> one of its modules */
	uint64_t *libraries;	  /* samples that end in each, and have no special part */
	uint32_t library_cnt;
	/* Samples with a special part of the interpreter in the stack: its collector ... */
	uint64_t special[VIEW_FIRST_LIBRARY];

	/* private */
	size_t part_cap;
	const char *promoted; /* package shown as own code: part of a string of the profile */
	size_t promoted_len;
	uint64_t spawned; /* samples below the line by which multiprocessing starts a process */
	int32_t promoted_module; /* the file that mypyc made of it; -1: there is none */
};

/* 0 or -ENOMEM. With `lines`, a function has its hottest line. */
int view__init(struct view *v, const struct profile *p, bool lines);
void view__free(struct view *v);

/* Appends "libcrypto", "lxml.etree", "interpreter", "kernel". */
void view_add_library(struct strbuf *b, const struct view *v, uint32_t library);
/*
 * Appends "libcrypto 71%, interpreter 3%": the parts of at least a percent of all, three at most.
 */
void view_add_parts(struct strbuf *b, const struct view *v, uint32_t function);
/* Appends "74.6%"; without decimals when there are few samples. */
void view_add_percent(struct strbuf *b, const struct view *v, uint64_t count);
/* Appends the place of a function, relative to its import directory: "flask/app.py:12". */
void view_add_place(struct strbuf *b, const struct view *v, uint32_t function, uint32_t line);
/*
 * The package of a function, or the library of a native one: part of a string of the profile,
 * unsafe.
 */
const char *view_package(const struct view *v, uint32_t function, size_t *len);
/*
 * The error of shares from few samples: 95 of 100 such profiles are within so many percentage
 * points of the truth. 0: there are enough samples.
 */
unsigned view_error_points(const struct view *v);

/*
 * The depth behind a stack's innermost function of own code; 0: it has none. A lambda or a
 * comprehension is a part of the function that it is written in.
 */
uint32_t view_own_depth(const struct view *v, const struct flat_stack *s);

/* Is `part` a lambda or a comprehension that is written in `function`? */
bool view_has_expression(const struct view *v, uint32_t function, uint32_t part);

/* ---- The call tree ---- */

struct view_row {
	uint32_t function; /* of a chain: its outermost */
	uint32_t line;	   /* the hottest of this row; 0: not known */
	uint32_t depth;	   /* of the row in the tree */
	uint32_t frames;   /* 0: one function. Else a chain of so many */
	/* Of a chain: functions of different packages, outermost first. */
	uint32_t packages[VIEW_PACKAGES];
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

/*
 * Appends the reasons for most of the time, of a profile with waits, and where they are.
 *
 *	53% of the thread time goes to a lock in update (shop.py:14), 22% to the network in query
 *	(shop.py:12) -> SocketIO.readinto, 6% to sleep with the GIL held in sign (shop.py:17).
 *
 * Appends nothing if no reason has a share that is worth a line. 0 or -ENOMEM.
 */
int view_add_causes(struct strbuf *b, const struct view *v);
/*
 * Appends the function that most is charged to, and the calls out of it: "price (app.py:12) -> get
 * -> ... -> connect". Nothing if there is none. 0 or -ENOMEM.
 */
int view_add_path(struct strbuf *b, const struct view *v);
/* Does it count the time of threads that wait? */
bool view_has_causes(const struct view *v);

#endif /* PYPERF_VIEW_H */
