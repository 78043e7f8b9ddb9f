/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_POINTS_H
#define PYPERF_POINTS_H
/*
 * Finds instructions of an interpreter that are executed once per call, from the file alone and
 * without any symbol but the eval function's, which every interpreter exports.
 *
 *    up to 3.10   each call of a Python function calls the eval function: its first instructions
 *    from 3.11    the eval loop calls Python functions itself. Each begins with the opcode RESUME,
 *                 whose code the dispatch table names: 256 addresses in the eval loop, one for each
 *                 opcode; in a tail-call interpreter, of functions
 *
 * A breakpoint is set on an instruction that the kernel emulates (insn.h): the first one of the
 * entry or of the opcode's code. The code before it has no branch, so each execution passes it. If
 * other executions pass it too, because a branch leads to a place in between, the point is
 * `joined`: the program there has to check the opcode.
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

#include "bpf/trace.h"
#include "elf/elf.h"
#include "python/pyproc.h"

#define OPCODE_CNT	 256
#define TRACE_POINTS_MAX TRACE_SPOTS

struct trace_point {
	uint64_t addr;	   /* link address of the breakpoint */
	uint64_t offset;   /* the same in the file */
	uint64_t handler;  /* link address of the opcode's code */
	uint8_t opcode;	   /* 0: POINT_ENTRY */
	uint8_t kind;	   /* enum point_kind */
	uint8_t condition; /* POINT_EXIT: enum trace_condition */
	uint32_t sp_below; /* POINT_EXIT: bytes to the stack pointer at entry */
	uint8_t place;	   /* POINT_EXIT: of the value, enum trace_place, as in struct trace_spot */
	uint8_t reg;
	int32_t value_offset;
	bool emulated;
	bool joined;
	/* an opcode that another one replaces after its first executions */
	bool first_calls_only;
	bool by_convention; /* by_function: the registers are as handlers.h says */
	/* by_function: other opcodes whose code may have jumped here, after a hit; 0: none */
	uint8_t before[2];
};

struct trace_points {
	struct trace_point at[TRACE_POINTS_MAX]; /* by kind */
	size_t cnt;
	uint64_t table;		    /* link address of the dispatch table; 0: none is needed */
	unsigned handler_cnt;	    /* different addresses in it */
	bool by_function;	    /* a tail-call interpreter: see handlers.h */
	const char *why_not;	    /* a constant sentence when the result is -ENOTSUP */
	const char *why_not_all;    /* of audit events: NULL, or which may not be seen */
	const char *why_no_returns; /* the same if calls can be counted but not timed; or NULL */
};

/*
 * 0; -ENOTSUP: they cannot be found, see why_not; -ENOMEM. `bin`: the result of
 * py_binary__analyse() for the file. Reads all of the file but its code, once.
 */
int trace_points__find(const struct elf_file *ef, const struct py_binary *bin,
		       struct trace_points *out);

/* The same for POINT_RAISE alone, which needs no eval loop. */
int trace_points__find_raise(const struct elf_file *ef, const struct py_binary *bin,
			     struct trace_points *out);

/* The same for POINT_COLLECT and POINT_COLLECTED, see collector.h. */
int trace_points__find_collector(const struct elf_file *ef, const struct py_binary *bin,
				 struct trace_points *out);

/* The same for POINT_AUDIT, _INNER and _PYTHON, see auditor.h. The last one may be missing. */
int trace_points__find_auditor(const struct elf_file *ef, const struct py_binary *bin,
			       struct trace_points *out);

/* ---- its parts, for tests ------------------------------------------------------------------- */

struct code_range {
	uint64_t start, end; /* link addresses */
};

/*
 * Finds the only run of exactly OPCODE_CNT words that all point into the ranges `r`. 0; -ENOENT:
 * there is none; -EEXIST: several; -ENOMEM.
 */
int dispatch__find(const struct elf_file *ef, const struct code_range *r, size_t cnt,
		   uint64_t table[OPCODE_CNT], uint64_t *addr);

#endif /* PYPERF_POINTS_H */
