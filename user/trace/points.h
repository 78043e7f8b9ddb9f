/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_POINTS_H
#define PYPERF_POINTS_H
/*
 * Where the calls of an interpreter can be seen: instructions that are executed once per call.
 * Found in the file alone, without any symbol but the eval function's, which every interpreter
 * exports.
 *
 *   up to 3.10   each call of a Python function calls the eval function: its first instructions
 *   from 3.11    the eval loop calls Python functions itself. Each begins with the opcode RESUME,
 *                whose code the dispatch table names: 256 addresses in the eval loop, one for each
 *                opcode
 *
 * A breakpoint belongs on an instruction that the kernel emulates (insn.h): the first one of the
 * entry or of the opcode's code. The code before it has no branch, so each execution comes by. What
 * else comes by, because another branch leads in between, is `joined`: whoever counts there has to
 * look at the opcode.
 *
 *	struct trace_points tp;
 *	int err = trace_points__find(ef, &bin, &tp);
 *
 *	if (err == -ENOTSUP)
 *		log_err("%s: %s", elf_file__path(ef), tp.why_not);
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/elf.h"
#include "python/pyproc.h"

#define OPCODE_CNT	 256
#define TRACE_POINTS_MAX 16

enum point_kind {
	POINT_ENTRY = 1,  /* of the eval function: a call, or a resumption */
	POINT_RESUME = 2, /* RESUME, of any form: the same */
	POINT_RETURN = 3, /* RETURN_VALUE, RETURN_CONST */
	POINT_YIELD =
		4, /* YIELD_VALUE; RETURN_GENERATOR is none: the frame goes on as the generator's */
};

struct trace_point {
	uint64_t addr;	  /* link address of the breakpoint */
	uint64_t offset;  /* the same in the file */
	uint64_t handler; /* link address of the opcode's code */
	uint8_t opcode;	  /* 0: POINT_ENTRY */
	uint8_t kind;	  /* enum point_kind */
	bool emulated;
	bool joined;
	/* an opcode that is replaced by another one the first times that it is executed */
	bool seldom;
};

struct trace_points {
	struct trace_point at[TRACE_POINTS_MAX]; /* by kind */
	size_t cnt;
	uint64_t table;	      /* link address of the dispatch table; 0: none is needed */
	unsigned handler_cnt; /* different addresses in it */
	const char *why_not;  /* a constant sentence when the result is -ENOTSUP */
};

/*
 * 0; -ENOTSUP: they cannot be told, see why_not; -ENOMEM. `bin` is what py_binary__analyse() made
 * of the file. Reads all of the file but its code, once.
 */
int trace_points__find(const struct elf_file *ef, const struct py_binary *bin,
		       struct trace_points *out);

/* ---- its parts, for tests ------------------------------------------------------------------- */

struct code_range {
	uint64_t start, end; /* link addresses */
};

/*
 * The one run of exactly OPCODE_CNT words that all point into `r`. 0; -ENOENT: there is none;
 * -EEXIST: several; -ENOMEM.
 */
int dispatch__find(const struct elf_file *ef, const struct code_range *r, size_t cnt,
		   uint64_t table[OPCODE_CNT], uint64_t *addr);

#endif /* PYPERF_POINTS_H */
