/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_NATIVE_TREE_H
#define PYPERF_NATIVE_TREE_H
/*
 * `trace --native-from`: makes a tree of the calls of each thread from events, and writes it as it
 * grows. Events come from two rings, so they are kept for a moment and taken in the order of time.
 *
 *	t = native_tree__new(&opts);
 *	native_tree__add(t, &step);		... in any order
 *	native_tree__flush(t, now - 100 ms);	takes and writes those before
 *	native_tree__write_table(t, 20);
 *	native_tree__free(t);
 *
 * Always: the open calls of a thread have descending CFAs, those of Python without one between
 * them; a native call ends all that do not lie further out than itself.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/call_picture.h"
#include "trace/native_functions.h"
#include "trace/tracer.h"

#define NATIVE_TREE_THREADS 4096 /* that may have open calls at a time */

enum native_step_kind {
	STEP_CALL,	  /* native */
	STEP_RETURN,	  /* native */
	STEP_OVER,	  /* all that is open in the thread has ended */
	STEP_PYTHON_CALL, /* or goes on behind a yield */
	STEP_PYTHON_END,
	STEP_PYTHON_RAISE, /* an exception is in this frame: what it called has ended */
	STEP_LOST,	   /* events were lost before this one: all threads begin anew */
};

struct native_step {
	uint64_t ns;
	uint64_t place; /* CFA of a native function, frame of a Python function */
	uint64_t id;	/* number of a native function, code of a Python function */
	uint32_t tid;
	enum native_step_kind kind;
};

struct native_tree_opts {
	const struct native_functions *functions; /* borrowed */
	const char *file;			  /* borrowed; their file, for people */
	struct tracer *tracer;			  /* borrowed; NULL: no Python */
	struct call_picture *picture;		  /* borrowed; NULL: none is wanted */
	uint64_t start_ns;
	bool ends; /* all native functions have events of their ends */
	bool json;
};

struct native_tree;

/* Copies `o`. NULL: no memory. */
struct native_tree *native_tree__new(const struct native_tree_opts *o);
void native_tree__free(struct native_tree *t);
/* 0 or -ENOMEM. */
int native_tree__add(struct native_tree *t, const struct native_step *s);
/* Takes steps before `until_ns`. True: there are more, as it takes 16,384 at a time. */
bool native_tree__flush(struct native_tree *t, uint64_t until_ns);
/* Steps that have not been taken. */
size_t native_tree__step_cnt(const struct native_tree *t);
/* Forgets these: how many they were. */
size_t native_tree__drop(struct native_tree *t);
/* Writes how often the functions were called, most first: `top` of them; 0: all. */
void native_tree__write_table(struct native_tree *t, uint32_t top);
/* Calls of the function from which on calls are wanted. */
uint64_t native_tree__root_cnt(const struct native_tree *t);
/* Calls that were left out: too many threads had open ones. */
uint64_t native_tree__dropped_cnt(const struct native_tree *t);

#endif /* PYPERF_NATIVE_TREE_H */
