/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_TASKINFO_H
#define PYPERF_TASKINFO_H
/*
 * What is asked of any task_struct, without maps: its numbers in a pid namespace, thread pointer and user
 * registers. Kernel differences live here and in task.bpf.h, each with its commit or release.
 */
#include "seam.bpf.h"
#include "kernel_types.bpf.h"

/*
 * The number of a task in the pid namespace `inum`, which is at `level`; 0 when it is not visible there.
 * Nested namespaces are: a pid has one number per level up to its own.
 */
BPF_INLINE __u32 task_nr_in(struct task_struct *task, __u32 level, __u32 inum)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	struct upid up;

	level &= 31; /* verifier: bound the index */
	if (BPF_CORE_READ(pid, level) < level)
		return 0;
	if (bpf_core_read(&up, sizeof(up), &pid->numbers[level]) ||
	    BPF_CORE_READ(up.ns, ns.inum) != inum)
		return 0;
	return (__u32)up.nr;
}

/* The number of a task as it sees itself; 0: it has ended. */
BPF_INLINE __u32 task_inner_nr(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	__u32 level = BPF_CORE_READ(pid, level) & 31; /* verifier: bound the index */
	struct upid up;

	if (!pid || bpf_core_read(&up, sizeof(up), &pid->numbers[level]))
		return 0;
	return (__u32)up.nr;
}

/* pthread_self() of a task: the ABI's thread pointer (x86-64 psABI 3.4.2: fs base). */
BPF_INLINE __u64 task_tp(struct task_struct *task)
{
#if defined(__TARGET_ARCH_arm64)
	return BPF_CORE_READ((struct task_struct___arm64 *)task, thread.uw.tp_value);
#else
	return BPF_CORE_READ(task, thread.fsbase);
#endif
}

#if defined(__TARGET_ARCH_x86)
typedef struct pt_regs user_regs;

BPF_INLINE int regs_are_user(const user_regs *r)
{
	return (r->cs & 3) == 3; /* privilege level */
}

#define X86_CS_USER32 0x23 /* __USER32_CS: arch/x86/include/asm/segment.h */

BPF_INLINE int regs_are_compat(const user_regs *r)
{
	return r->cs == X86_CS_USER32;
}

BPF_INLINE void copy_regs(__u64 *to, const user_regs *r)
{
	to[0] = r->rax;
	to[1] = r->rdx;
	to[2] = r->rcx;
	to[3] = r->rbx;
	to[4] = r->rsi;
	to[5] = r->rdi;
	to[6] = r->rbp;
	to[7] = r->rsp;
	to[8] = r->r8;
	to[9] = r->r9;
	to[10] = r->r10;
	to[11] = r->r11;
	to[12] = r->r12;
	to[13] = r->r13;
	to[14] = r->r14;
	to[15] = r->r15;
}
#endif

/*
 * Where the registers with which a task entered the kernel lie before bpf_task_pt_regs(), which is of 5.15
 * (dd6e10fbd9fb): at the end of its kernel stack (THREAD_SIZE is 16 KiB on x86-64 since 6538b8ea886e).
 */
BPF_INLINE void *task_stack_regs(struct task_struct *task)
{
	return BPF_CORE_READ(task, stack) + 16384 - sizeof(user_regs);
}

#endif /* PYPERF_TASKINFO_H */
