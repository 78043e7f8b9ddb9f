/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_ARCH_H
#define PYPERF_ARCH_H
/*
 * The architecture of the tasks that are walked, and the numbers of its registers: what both halves
 * know of it. The verbs of the BPF half are in arch.bpf.h.
 *
 * BPF code is compiled for one architecture (-D__TARGET_ARCH_x86), the user half for the one it
 * runs on. Tests compile the walkers for another one with -DPYPERF_ARCH=PYPERF_ARM64, say.
 *
 *   GREG_CNT        registers that are kept of a thread, a power of two; indexed by DWARF number
 *   ARCH_REG_SP     stack pointer
 *   ARCH_REG_FP     frame pointer
 *   ARCH_REG_ARG0   first argument, of a function and of a system call
 *   ARCH_REG_ARG1   second argument of a function
 *   ARCH_REG_ARG2   third argument of a function
 *   ARCH_ARG_REGS   first six arguments of a function
 *   ARCH_REG_RETURN what a function returns
 *   ARCH_LANDING    instruction that does nothing but mark where calls may land; a trap at it is
 *                   dear
 *   ARCH_REG_EXTRA  the one other register that rows follow beyond the leaf, if ARCH_HAS_EXTRA; see
 *                   UW_EXTRA_SAME
 */

#define PYPERF_X86   1
#define PYPERF_ARM64 2 /* the walkers only */

#ifndef PYPERF_ARCH
#if defined(__TARGET_ARCH_x86) || defined(__x86_64__)
#define PYPERF_ARCH PYPERF_X86
#elif defined(__TARGET_ARCH_arm64) || defined(__aarch64__)
#define PYPERF_ARCH PYPERF_ARM64
#endif
#endif

#if PYPERF_ARCH == PYPERF_X86
/* System V ABI x86-64, figures 3.4 and 3.36. */
#define GREG_CNT      16
#define ARCH_REG_SP   7 /* rsp */
#define ARCH_REG_FP   6 /* rbp */
#define ARCH_REG_ARG0 5 /* rdi */
#define ARCH_REG_ARG1 4 /* rsi */
#define ARCH_REG_ARG2 1 /* rdx */
#define ARCH_ARG_REGS                                                                              \
	{                                                                                          \
		5, 4, 1, 2, 8, 9                                                                   \
	}
#define ARCH_REG_RETURN 0 /* rax */
#define ARCH_REG_EXTRA	3 /* rbx: glibc, sysdeps/x86_64/dl-trampoline.h */
#define ARCH_HAS_EXTRA	1
#define ARCH_LANDING	"\xf3\x0f\x1e\xfa" /* endbr64 */
#elif PYPERF_ARCH == PYPERF_ARM64
/* DWARF for the Arm 64-bit Architecture, 4.1. x30, the link register, and sp are among them. */
#define GREG_CNT      32
#define ARCH_REG_SP   31
#define ARCH_REG_FP   29
#define ARCH_REG_ARG0 0
#define ARCH_REG_ARG1 1
#define ARCH_REG_ARG2 2
#define ARCH_ARG_REGS                                                                              \
	{                                                                                          \
		0, 1, 2, 3, 4, 5                                                                   \
	}
#define ARCH_REG_RETURN 0
#define ARCH_REG_EXTRA	0 /* of no use */
#define ARCH_HAS_EXTRA	0
#define ARCH_LANDING	"\x5f\x24\x03\xd5" /* bti c */
#else
#error "no such architecture: see CONTRIBUTING.md, An architecture"
#endif

#endif /* PYPERF_ARCH_H */
