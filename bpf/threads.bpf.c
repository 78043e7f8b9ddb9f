// SPDX-License-Identifier: GPL-2.0-only
/*
 * The threads of one process, or of all, as they are now: an iterator over all tasks (kernel 5.8)
 * that writes a struct thread_now for each. An object of its own, because the sampler does not need
 * it. Nothing is stopped; what was running meanwhile is marked.
 */
#include "taskinfo.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* As the caller's pid namespace sees it; 0: all that have memory, without kernel stacks. */
const volatile __u32 target_tgid;
const volatile __u32 target_level;
const volatile __u32 target_inum; /* 0: the initial pid namespace */

/* Too big for the stack. An iterator can be preempted, but not by another one of this object. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct thread_now);
} scratch SEC(".maps");

BPF_INLINE __u32 nr_of(struct task_struct *task, __u32 global)
{
	__u32 level = target_level, inum = target_inum;

	return inum ? task_nr_in(task, level, inum) : global;
}

/* As wide as the kernel has it: an int up to 6.18, in 7.3 a byte with other flags behind it. */
BPF_INLINE int is_on_cpu(struct task_struct *task)
{
	return bpf_core_field_exists(task->on_cpu) && BPF_CORE_READ_BITFIELD_PROBED(task, on_cpu);
}

BPF_INLINE void read_regs(struct thread_now *t, struct task_struct *task)
{
	user_regs regs;
	void *at;

	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		at = (void *)bpf_task_pt_regs(task);
	else
		at = task_stack_regs(task);
	if (bpf_probe_read_kernel(&regs, sizeof(regs), at) || !arch_is_user(&regs))
		return;
	if (arch_is_compat(&regs)) {
		t->flags |= THREAD_COMPAT32;
		return;
	}
	t->flags |= THREAD_REGS;
	t->pc = arch_pc(&regs);
	t->syscall = arch_syscall(&regs);
	arch_copy_regs(t->regs, &regs);
}

BPF_INLINE void read_kernel_stack(struct thread_now *t, struct task_struct *task)
{
	long size = bpf_get_task_stack(task, t->kernel, sizeof(t->kernel), 0);

	if (size > 0)
		t->kernel_cnt = (__u32)size / 8;
}

BPF_INLINE int is_target(struct task_struct *task, __u32 tgid)
{
	return target_tgid ? tgid == target_tgid : tgid && BPF_CORE_READ(task, mm);
}

SEC("iter/task")
int each_task(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u32 zero = 0, tgid;
	struct thread_now *t = bpf_map_lookup_elem(&scratch, &zero);

	if (!task || !t)
		return 0;
	tgid = nr_of(BPF_CORE_READ(task, group_leader), BPF_CORE_READ(task, tgid));
	if (!is_target(task, tgid))
		return 0;
	__builtin_memset(t, 0, sizeof(*t));
	t->tid = nr_of(task, BPF_CORE_READ(task, pid));
	t->tgid = tgid;
	t->start_ns = BPF_CORE_READ(task, start_time);
	t->inner_tid = task_inner_nr(task);
	t->switches = BPF_CORE_READ(task, nvcsw) + BPF_CORE_READ(task, nivcsw);
	t->state = state_of(task);
	t->exit_state = BPF_CORE_READ(task, exit_state);
	t->tp = task_tp(task);
	t->syscall = -1;
	BPF_CORE_READ_STR_INTO(&t->comm, task, comm);
	BPF_CORE_READ_STR_INTO(&t->leader_comm, task, group_leader, comm);
	if (is_on_cpu(task)) {
		t->flags |= THREAD_ON_CPU;
	} else if (!t->exit_state) {
		read_regs(t, task);
		if (target_tgid)
			read_kernel_stack(t, task);
	}
	return bpf_seq_write(ctx->meta->seq, t, sizeof(*t)) ? 1 : 0;
}
