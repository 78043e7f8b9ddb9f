/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EXITS_H
#define PYPERF_EXITS_H
/*
 * Finds the exits of a function, at instructions that the kernel emulates. It emulates neither
 * `ret` nor the instructions before it: pops, and an addition to the stack pointer. So the
 * breakpoints are at the instructions that lead there:
 *
 *	call check		<- the last emulated instruction before ret
 *	add  $0xe8, %rsp	<- a branch leads here: a breakpoint at the branch, too
 *	pop  %rbx
 *	ret
 *
 * Each execution that reaches ret has passed exactly one of them. A conditional branch is an exit
 * either when it is taken or when it is not.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/elf.h"
#include "trace/points.h"

/* Where the function's value is before the instruction at an exit is executed. */
struct exit_value {
	uint8_t place; /* enum trace_place */
	uint8_t reg;
	int32_t offset;
	bool called; /* it is what the instruction calls that returns it; `place` is unknown */
};

struct exit_point {
	uint64_t addr;	   /* link address */
	uint32_t sp_below; /* bytes from the stack pointer here to the one at entry */
	uint8_t condition; /* enum trace_condition, and the condition code of a jcc */
	struct exit_value value;
};

/*
 * Finds the exits of the function with these parts. 0; -ENOTSUP: they cannot be found; -E2BIG: more
 * than `max`; -ENOMEM.
 */
int exits__find(const struct elf_file *ef, const struct code_range *parts, size_t part_cnt,
		struct exit_point *out, size_t *cnt, size_t max);

#endif /* PYPERF_EXITS_H */
