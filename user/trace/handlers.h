/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HANDLERS_H
#define PYPERF_HANDLERS_H
/*
 * The opcodes of a tail-call interpreter (CPython 3.14 and later, built by clang 19 or newer). Each
 * is a function of its own, its handler, and ends with a jump to the next one's. The eval function
 * calls the first one. Both go by a table of 256 addresses (instruction_funcptr_table).
 *
 *    eval function           RESUME_CHECK             another one's, behind BOLT
 *      ...                     push %rbp                cmpq $RESUME_CHECK, table(,%rax,8)
 *      call *table(,%rax,8)    ...                      jne  1f
 *      ...                     jmp  *table(,%rax,8)     push %rbp     <- a copy of RESUME_CHECK
 *                                                       ...
 *                                                    1: jmp  *table(,%rax,8)
 *
 * BOLT puts a copy of a handler where one dispatch leads to it often (-indirect-call-promotion,
 * -inline-all: configure --enable-bolt of CPython). Such an execution never comes to the handler.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/ehframe.h"
#include "elf/elf.h"
#include "trace/points.h"

struct handlers {
	const struct elf_file *ef; /* borrowed */
	struct fde_range *functions;
	size_t function_cnt;
	size_t left; /* bytes of code that are still read: a file may say anything */
	uint64_t table[OPCODE_CNT];
	uint64_t addr; /* link address of the table */
};

/*
 * Finds the table by the code of the eval function, which has these parts. 0; -ENOENT: it has none;
 * -EEXIST: several; -ENOMEM. In every case handlers__free() is called at the end.
 */
int handlers__find(struct handlers *h, const struct elf_file *ef, const struct code_range *eval,
		   size_t cnt);
void handlers__free(struct handlers *h);

/*
 * Where a handler begins, its frame and the next instruction are in the registers of the first and
 * the fourth argument (TAIL_CALL_PARAMS in Python/ceval_macros.h, preserve_none of clang's x86-64
 * calling conventions): r12 and r15, by DWARF number.
 */
#define HANDLER_FRAME 12
#define HANDLER_INSTR 15

/*
 * Does this handler, or a copy of it, note r15 as the next instruction, at this offset in the frame
 * at r12? They all begin so.
 */
bool handlers__is_by_convention(const struct elf_file *ef, uint64_t handler, uint32_t instr_offset);

struct handler_copy {
	uint64_t addr; /* link address where it begins */
	size_t of;     /* number of the handler in `wanted` */
};

/*
 * Finds the copies of these handlers in the whole file. 0; -ENOTSUP: a handler's address is used in
 * a way that is not known, so some executions of it might not be seen; -E2BIG: more than `max`;
 * -ENOMEM.
 */
int handlers__find_copies(struct handlers *h, const uint64_t *wanted, size_t wanted_cnt,
			  struct handler_copy *out, size_t *cnt, size_t max);

/*
 * Lists the parts of the function that `addr` is in: its FDE and those to which it jumps, but for
 * the table's. 0; -E2BIG: more than `max`; -ENOENT: no FDE is there; -ENOMEM.
 */
int handlers__parts(struct handlers *h, uint64_t addr, struct code_range *parts, size_t *cnt,
		    size_t max);

#endif /* PYPERF_HANDLERS_H */
