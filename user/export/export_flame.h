/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EXPORT_FLAME_H
#define PYPERF_EXPORT_FLAME_H
/*
 * The data of a picture: the stacks of one profile, or of two that are compared, as lists of
 * places.
 *
 *	text    every name, once, safe to show (str_sanitise()), at most FLAME_NAME_MAX characters
 *	group   what a colour stands for: a package of Python code, a native file, the kernel;
 *	        numbered by weight, the heaviest is 0
 *	func    a function: name, file, kind
 *	place   a line of a function; without lines, a function
 *	task    a process, or a thread of one
 *	stack   places, outermost first, with the samples of the profile and those of the base
 *
 * Funcs, places and stacks are in the order of their texts, so the same content gives the same
 * picture. All numbers are indexes in the arrays of struct flame, which owns everything.
 *
 * Plumbing is the interpreter's glue (profile/glue.h), in a profile that marks it; others have
 * none.
 *
 *	struct flame f;
 *
 *	err = flame__init(&f, profile, NULL, &opts);
 *	for (size_t i = 0; !err && i < f.stack_cnt; i++)
 *		use(&f.stacks[i]);
 *	flame__free(&f);
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "export/export.h"
#include "profile/profile.h"

#define FLAME_NAME_MAX 1000

enum flame_plumbing {
	PLUMBING_NONE,
	PLUMBING_FRAME, /* where a Python frame is in the stack, too */
	PLUMBING_BOX,	/* stands for the plumbing behind it */
};

struct flame_func {
	uint8_t kind;	  /* enum sym_kind */
	uint8_t plumbing; /* enum flame_plumbing */
	bool own; /* Python code that is neither installed nor the interpreter's (origin.h) */
	uint32_t name;
	uint32_t file; /* text; of native functions the path of the module */
	uint32_t start_line;
	uint32_t group;
};

struct flame_place {
	uint32_t func;
	uint32_t line; /* 0: not known, or without lines */
	uint32_t sym;  /* one of the profile's that stand here, + 1; 0: only the base's do */
};

struct flame_task {
	uint32_t comm, exe, python; /* texts */
	uint32_t tgid;		    /* 0: all of this name (two profiles are compared) */
	uint32_t tid;		    /* 0: all threads */
	uint32_t thread;	    /* text */
};

struct flame_stack {
	size_t first; /* in elems[], of the outermost place */
	uint32_t cnt;
	uint32_t task;
	uint64_t value, base; /* samples */
	size_t curve;	      /* first of struct flame.point_cnt in values[] */
};

struct flame_opts {
	bool lines;   /* places are lines; else functions */
	bool tasks;   /* stacks are kept apart by process and, if recorded, by thread */
	double scale; /* of the base's samples, to be comparable; 0: equal totals */
};

struct flame {
	struct strtab *texts;
	struct flame_func *funcs;
	size_t func_cnt, func_cap;
	struct flame_place *places;
	size_t place_cnt, place_cap;
	struct flame_task *tasks;
	size_t task_cnt, task_cap;
	uint32_t *groups; /* texts */
	size_t group_cnt;
	int stdlib;	 /* the group of the interpreter's own Python code, or -1 */
	uint32_t *elems; /* places */
	size_t elem_cnt, elem_cap;
	struct flame_stack *stacks;
	size_t stack_cnt, stack_cap;
	uint64_t total, base_total;
	bool compared; /* there is a base */
	/* Of a profile by curves: what each stack had at each point; else there are 0. */
	uint32_t point_cnt;
	uint64_t *values;
	double scale;
	double weight, base_weight; /* profile__weight() of both */
};

/*
 * `base`: the profile to compare with, or NULL. Processes of two profiles are the same if they have
 * the same name. 0 or -ENOMEM.
 */
int flame__init(struct flame *f, const struct profile *p, const struct profile *base,
		const struct flame_opts *o);
void flame__free(struct flame *f);
const char *flame__text(const struct flame *f, uint32_t text, size_t *len); /* borrowed */

/*
 * How much more (red, up to 1) or less (blue, down to -1) something was sampled than in the base. 0
 * when the difference is within what chance makes of equal rates: two standard deviations of a
 * Poisson process, of which each event counts for the profile's weight. user/web/flame.js has the
 * same rule.
 */
double flame__delta(const struct flame *f, uint64_t value, uint64_t base);

/*
 * struct flame_opts.scale for o->absolute: the ratio of the lengths of a sample, which both
 * profiles must have.
 */
double flame__scale(const struct profile *before, const struct profile *after,
		    const struct export_opts *o);

/*
 * The pictures of one profile, as export__html() and export__svg() write them, or of `p` compared
 * with `base`; `scale` as in struct flame_opts. Headline and account of the samples are those of
 * `p`. 0 or negative errno.
 */
int flame__html(const struct profile *p, const struct profile *base, const struct export_opts *o,
		double scale, FILE *out);
int flame__svg(const struct profile *p, const struct profile *base, const struct export_opts *o,
	       double scale, FILE *out);

#endif /* PYPERF_EXPORT_FLAME_H */
