/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_TASKINFO_H
#define PYPERF_TASKINFO_H
/*
 * Reads any task_struct, without maps: its numbers in a pid namespace, thread pointer, state and
 * user registers. Kernel differences are handled here and in task.bpf.h, each with its commit or
 * release.
 */
#include "seam.bpf.h"
#include "kernel_types.bpf.h"

/*
 * The number of a task in the pid namespace `inum`, which is at `level`; 0 when it is not visible
 * there. Nested namespaces are: a pid has one number per level up to its own.
 */
BPF_INLINE __u32 task_nr_in(struct task_struct *task, __u32 level, __u32 inum)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	struct pid_namespace *ns;
	int nr;

	level &= 31; /* verifier: bound the index */
	if (BPF_CORE_READ(pid, level) < level)
		return 0;
	if (bpf_core_read(&ns, sizeof(ns), &pid->numbers[level].ns) ||
	    BPF_CORE_READ(ns, ns.inum) != inum ||
	    bpf_core_read(&nr, sizeof(nr), &pid->numbers[level].nr))
		return 0;
	return (__u32)nr;
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

/* Of task_within() and task_seen_from(). `always`: a constant. */
BPF_INLINE __u64 task_numbers(__u64 dev, __u32 inum, __u32 level, int always)
{
	struct bpf_pidns_info here;
	struct task_struct *task;
	__u32 tid;

	if (!inum)
		return bpf_get_current_pid_tgid();
	if (!bpf_get_ns_current_pid_tgid(dev, inum, &here, sizeof(here)))
		return (__u64)here.tgid << 32 | here.pid;
	task = (void *)bpf_get_current_task();
	tid = task_nr_in(task, level, inum);
	if (!tid)
		return always ? bpf_get_current_pid_tgid() : 0;
	return (__u64)task_nr_in(BPF_CORE_READ(task, group_leader), level, inum) << 32 | tid;
}

/*
 * The current process and, in the low half, its thread, as a pid namespace sees them: that at
 * `level` whose file has this device and inode; inum 0: the initial one. 0: it is not visible
 * there. The helper answers only in a process whose own namespace that is (kernel/bpf/helpers.c);
 * of one in a namespace within it the kernel's structs tell.
 */
BPF_INLINE __u64 task_within(__u64 dev, __u32 inum, __u32 level)
{
	return task_numbers(dev, inum, level, 0);
}

/*
 * The same, or the numbers of the initial namespace, which tell threads apart, but which other
 * threads may have in the one that asks: for those that are known to be visible there.
 */
BPF_INLINE __u64 task_seen_from(__u64 dev, __u32 inum, __u32 level)
{
	return task_numbers(dev, inum, level, 1);
}

/* The thread pointer of a task. */
BPF_INLINE __u64 task_tp(struct task_struct *task)
{
	return BPF_CORE_READ(task, ARCH_TP);
}

/*
 * The registers with which a task entered the kernel, at the end of its kernel stack: for kernels
 * before bpf_task_pt_regs(), which is of 5.15 (dd6e10fbd9fb).
 */
BPF_INLINE void *task_stack_regs(struct task_struct *task)
{
	return BPF_CORE_READ(task, stack) + ARCH_THREAD_SIZE - sizeof(user_regs);
}

/* The registers with which the current task entered the kernel. */
BPF_INLINE void *task_user_regs(void)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	return task_stack_regs((void *)bpf_get_current_task());
}

/* The state that the kernel has set before it looks for another thread: 0 means it could run on. */
BPF_INLINE __u32 state_of(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state);
	return (__u32)BPF_CORE_READ((struct task_struct___state *)task, state);
}

#endif /* PYPERF_TASKINFO_H */
