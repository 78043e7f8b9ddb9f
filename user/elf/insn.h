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

#endif /* PYPERF_INSN_H */
