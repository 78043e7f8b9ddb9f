/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_INSN_H
#define PYPERF_INSN_H
/*
 * One x86-64 instruction: how long it is, where it branches to, and what a breakpoint on it costs.
 *
 * The kernel emulates a few instructions that a uprobe replaces (arch/x86/kernel/uprobes.c). Any
 * other one it executes out of line and takes a second trap behind it, which costs several times as
 * much, in a virtual machine a hundred times.
 *
 * Nothing is executed and nothing is believed: bytes that are no instruction give -EINVAL.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_file;

#define INSN_MAX 15 /* bytes; Intel SDM vol. 2, 2.3.11 */

struct insn {
	uint8_t size;
	bool emulated; /* by the kernel, from Linux 4.17 on */
	bool direct;   /* jumps or calls to `target` */
	bool ends;     /* what follows is not executed next: jmp, ret, ud2 */
	uint64_t target;
};

/*
 * The instruction at `code`, of which `left` bytes are there; it lies at address `pc`. 0 or
 * -EINVAL.
 */
int insn__decode(const uint8_t *code, size_t left, uint64_t pc, struct insn *out);

/*
 * The instruction at an address of a file, and its bytes, with others behind them. 0; -EINVAL: none
 * is there, or the file is of another machine.
 */
int insn__at(const struct elf_file *ef, uint64_t addr, uint8_t code[INSN_MAX], struct insn *out);

/* May a breakpoint stand behind this instruction instead of on it? */
typedef bool insn_pass_fn(const uint8_t *code, const struct insn *insn);
/*
 * Where a breakpoint is cheap: the first instruction from `from` on that the kernel emulates, of
 * `max`, if all before it may be passed. 0; -ENOENT: there is none; -EINVAL: no code is at `from`.
 */
int insn__find_emulated(const struct elf_file *ef, uint64_t from, unsigned max,
			insn_pass_fn *may_pass, uint64_t *found);

#endif /* PYPERF_INSN_H */
