/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_TASK_H
#define PYPERF_TASK_H
/*
 * What is asked of a task_struct: its ids in the caller's pid namespace, registers, thread pointer,
 * command name and control groups. Kernel differences live here, each with its commit or release.
 */
#include "maps.bpf.h"
#include "kernel_types.bpf.h"

/*
 * The number of a task in the caller's pid namespace, 0 when it is not visible there. Nested
 * namespaces are: a pid has one number per level up to its own.
 */
BPF_INLINE __u32 task_ns_nr(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	struct upid up;

	if (BPF_CORE_READ(pid, level) < cfg.pidns_level)
		return 0;
	if (bpf_core_read(&up, sizeof(up), &pid->numbers[cfg.pidns_level & 31]) ||
	    BPF_CORE_READ(up.ns, ns.inum) != cfg.pidns_inum)
		return 0;
	return (__u32)up.nr;
}

BPF_INLINE __u32 task_tgid(struct task_struct *task)
{
	if (cfg.flags & CFG_PIDNS)
		return task_ns_nr(BPF_CORE_READ(task, group_leader));
	return (__u32)BPF_CORE_READ(task, tgid);
}

BPF_INLINE __u32 task_tid(struct task_struct *task)
{
	if (cfg.flags & CFG_PIDNS)
		return task_ns_nr(task);
	return (__u32)BPF_CORE_READ(task, pid);
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

/* ---- registers ----------------------------------------------------------------------------- */

#if defined(__TARGET_ARCH_x86)
typedef struct pt_regs user_regs;

BPF_INLINE int regs_are_user(const user_regs *r)
{
	return (r->cs & 3) == 3; /* privilege level */
}

#define X86_CS_USER32 0x23 /* __USER32_CS: arch/x86/include/asm/segment.h */

BPF_INLINE void load_regs(struct walk *w, const user_regs *r)
{
	w->pc = r->rip;
	w->sp = r->rsp;
	w->fp = r->rbp;
	w->regs[0] = r->rax;
	w->regs[1] = r->rdx;
	w->regs[2] = r->rcx;
	w->regs[3] = r->rbx;
	w->regs[4] = r->rsi;
	w->regs[5] = r->rdi;
	w->regs[6] = r->rbp;
	w->regs[7] = r->rsp;
	w->regs[8] = r->r8;
	w->regs[9] = r->r9;
	w->regs[10] = r->r10;
	w->regs[11] = r->r11;
	w->regs[12] = r->r12;
	w->regs[13] = r->r13;
	w->regs[14] = r->r14;
	w->regs[15] = r->r15;
	w->exact_pc = 1;
}
#endif

/*
 * The registers with which the current task entered the kernel. bpf_task_pt_regs() is of 5.15
 * (dd6e10fbd9fb); before, they lie at the end of the kernel stack (THREAD_SIZE is 16 KiB on x86-64 since
 * 6538b8ea886e).
 */
BPF_INLINE int task_user_regs(struct task_struct *task, user_regs *regs)
{
	void *at;

	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		at = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	else
		at = BPF_CORE_READ(task, stack) + 16384 - sizeof(*regs);
	return bpf_probe_read_kernel(regs, sizeof(*regs), at);
}

/* ---- filters ------------------------------------------------------------------------------- */

#define MAX_CGROUP_DEPTH 32

BPF_INLINE struct cgroup *task_cgroup(struct task_struct *task)
{
	struct css_set *set = BPF_CORE_READ(task, cgroups);
	struct cgroup_subsys_state *css = NULL;

	if (cfg.cgroup_subsys < 0)
		return BPF_CORE_READ(set, dfl_cgrp);
	bpf_core_read(&css, sizeof(css), &set->subsys[cfg.cgroup_subsys & 15]);
	return BPF_CORE_READ(css, cgroup);
}

/* Is the task in the group that was asked for, or below it? v1 and v2 alike. */
BPF_NOINLINE int in_cgroup(__u32 unused)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct cgroup *cg = task_cgroup(task);

	for (int i = 0; i < MAX_CGROUP_DEPTH && cg; i++) {
		if (BPF_CORE_READ(cg, kn, id) == cfg.cgroup_id)
			return 1;
		cg = (struct cgroup *)BPF_CORE_READ(cg, self.parent);
	}
	return (int)(unused & 0);
}

struct glob_state {
	__u32 p, s;	      /* where we are in pattern and name */
	__u32 star_p, star_s; /* after the last '*', and where its match began */
	__u32 star;
};

/* One [...] set: where it ends, and whether it holds c. */
BPF_INLINE __u32 glob_set(__u32 p, char c, int *hit)
{
	__u32 i = p + 1, negate = 0;
	char lo, hi;

	*hit = 0;
	if (cfg.comm_glob[BOUND(i, GLOB_LEN)] == '!') {
		negate = 1;
		i++;
	}
	for (int n = 0; n < 20; n++) {
		lo = cfg.comm_glob[BOUND(i, GLOB_LEN)];
		if (!lo || (lo == ']' && n))
			break;
		hi = lo;
		if (cfg.comm_glob[BOUND(i + 1, GLOB_LEN)] == '-' &&
		    cfg.comm_glob[BOUND(i + 2, GLOB_LEN)] != ']') {
			hi = cfg.comm_glob[BOUND(i + 2, GLOB_LEN)];
			i += 2;
		}
		if (c >= lo && c <= hi)
			*hit = 1;
		i++;
	}
	*hit ^= negate;
	return i + 1;
}

/* Shell-style match of the command name of the process with cfg.comm_glob. */
BPF_NOINLINE int comm_matches(__u32 unused)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct glob_state g = { .p = unused & 0 };
	char comm[TASK_COMM_LEN];
	int hit;

	BPF_CORE_READ_STR_INTO(&comm, task, group_leader, comm);
	for (int i = 0; i < 192; i++) {
		char c = comm[BOUND(g.s, TASK_COMM_LEN)];
		char p = cfg.comm_glob[BOUND(g.p, GLOB_LEN)];
		__u32 next = g.p + 1;

		if (g.s >= TASK_COMM_LEN)
			c = 0;
		if (p == '*') {
			g.star = 1;
			g.star_p = ++g.p;
			g.star_s = g.s;
			continue;
		}
		if (!c)
			return !p;
		hit = p == c || p == '?';
		if (p == '[')
			next = glob_set(g.p, c, &hit);
		if (p && hit) {
			g.p = next;
			g.s++;
		} else if (g.star) {
			g.p = g.star_p;
			g.s = ++g.star_s;
		} else {
			return 0;
		}
	}
	return 0;
}

#endif /* PYPERF_TASK_H */
