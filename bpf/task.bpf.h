/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_TASK_H
#define PYPERF_TASK_H
/*
 * Reads the current task: its ids in the caller's pid namespace, registers, command name and
 * control groups. Kernel differences are handled here and in taskinfo.bpf.h, each with its commit
 * or release.
 */
#include "maps.bpf.h"
#include "taskinfo.bpf.h"

/* cfg's fields are read first: inside of an expression on kernel types they would be relocated. */
BPF_INLINE __u32 task_ns_nr(struct task_struct *task)
{
	__u32 level = cfg.pidns_level, inum = cfg.pidns_inum;

	return task_nr_in(task, level, inum);
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

/* ---- the current task ------------------------------------------------------------------------ */

/*
 * Members of it are read as they are from 5.11 on (3ca1032ab7ab); a call for each costs some 35 ns.
 */
BPF_INLINE int has_task_btf(void)
{
	return bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf);
}

BPF_INLINE struct task_struct *current_task(void)
{
	if (has_task_btf())
		return bpf_get_current_task_btf();
	return (void *)bpf_get_current_task();
}

/* Reads a member of the task of current_task(), or of a struct that it points to. */
#define CURRENT_READ(from, member)                                                                 \
	({                                                                                         \
		typeof((from)->member) value_;                                                     \
		if (has_task_btf())                                                                \
			value_ = (from)->member;                                                   \
		else                                                                               \
			value_ = BPF_CORE_READ(from, member);                                      \
		value_;                                                                            \
	})

BPF_INLINE __u32 current_tgid(struct task_struct *task)
{
	return cfg.flags & CFG_PIDNS ? task_tgid(task) : (__u32)(bpf_get_current_pid_tgid() >> 32);
}

BPF_INLINE __u32 current_tid(struct task_struct *task)
{
	return cfg.flags & CFG_PIDNS ? task_tid(task) : (__u32)bpf_get_current_pid_tgid();
}

/* task_tp() for the task of current_task(). */
BPF_INLINE __u64 current_tp(struct task_struct *task)
{
	return CURRENT_READ(task, ARCH_TP);
}

/* ---- users ---------------------------------------------------------------------------------- */

/*
 * The user who made the outermost user namespace around this one, below the first. Those who nest
 * deeper than anybody needs (create_user_ns() of kernel/user_namespace.c allows 33 levels) pay
 * together: the verifier looks at each step of the loop.
 */
BPF_NOINLINE int outermost_owner(__u64 user_ns)
{
	struct user_namespace *ns = (void *)user_ns;

	for (int i = 0; i < PAYER_LEVELS - 1 && BPF_CORE_READ(ns, level) > 1; i++)
		ns = BPF_CORE_READ(ns, parent);
	return BPF_CORE_READ(ns, level) > 1 ? PAYER_TOO_DEEP : (int)BPF_CORE_READ(ns, owner.val);
}

/*
 * Who pays for a task: its user; in a user namespace that is not root's, the user who made it. So
 * one who has users of its own by the thousand (/etc/subuid) counts as one.
 */
BPF_INLINE __u32 task_payer(struct task_struct *task)
{
	const struct cred *cred = BPF_CORE_READ(task, cred);
	struct user_namespace *ns = BPF_CORE_READ(cred, user_ns);
	__u32 uid = BPF_CORE_READ(cred, uid.val);
	__u32 owner = BPF_CORE_READ(ns, level) ? (__u32)outermost_owner((__u64)ns) : 0;

	return owner ? owner : uid;
}

/* ---- registers ----------------------------------------------------------------------------- */

BPF_INLINE int regs_in_exec(const user_regs *r)
{
	return arch_syscall(r) == ARCH_NR_EXECVE || arch_syscall(r) == ARCH_NR_EXECVEAT;
}

BPF_INLINE void load_regs(struct walk *w, const user_regs *r)
{
	arch_copy_regs(w->native.regs, r);
	w->native.pc = arch_pc(r);
	w->native.sp = arch_sp(r);
	w->native.fp = arch_fp(r);
	w->native.exact_pc = 1;
}

/*
 * The registers of any task: in its stack where the current task has them in its own. The kernel
 * may keep room behind them: 16 bytes with CONFIG_X86_FRED, from 6.9 on (65c9cc9e2c14).
 */
BPF_INLINE void *user_regs_of(struct task_struct *task)
{
	struct task_struct *current;
	__u64 at;

	if (!bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return task_stack_regs(task);
	/* verifier: the difference of two pointers is a number; so is the helper's result below */
	current = bpf_get_current_task_btf();
	at = (__u64)bpf_task_pt_regs(current) - (__u64)current;
	__asm__ volatile("" : "+r"(at));
	current = (void *)bpf_get_current_task();
	at += (__u64)current - (__u64)BPF_CORE_READ(current, stack);
	return BPF_CORE_READ(task, stack) + at;
}

enum regs_verdict {
	REGS_LOADED = 0,
	REGS_NONE = 1,	   /* a kernel thread, or not to be read */
	REGS_COMPAT32 = 2, /* of a 32-bit program */
	REGS_GONE = 3,	   /* of a program that execve() has just replaced */
};

BPF_INLINE int use_regs(struct walk *w, const user_regs *r)
{
	if (!arch_is_user(r))
		return REGS_NONE;
	if (arch_is_compat(r))
		return REGS_COMPAT32;
	load_regs(w, r);
	return REGS_LOADED;
}

/* The registers are still the old program's, its memory is gone. */
BPF_INLINE int exec_took_stack(const user_regs *regs)
{
	__u64 word;

	return regs_in_exec(regs) && read_user(&word, sizeof(word), arch_sp(regs));
}

/*
 * enum regs_verdict. A function of its own, because all functions that are under way at a time have
 * 512 bytes of stack together, and the registers are a third of that.
 */
BPF_NOINLINE int load_task_regs(NO_ARG)
{
	struct walk *w = the_walk();
	user_regs regs;

	if (!w || bpf_probe_read_kernel(&regs, sizeof(regs), task_user_regs()))
		return REGS_NONE;
	return exec_took_stack(&regs) ? REGS_GONE : use_regs(w, &regs);
}

/* ---- filters ------------------------------------------------------------------------------- */

#define MAX_CGROUP_DEPTH 32

BPF_INLINE struct cgroup *task_cgroup(struct task_struct *task)
{
	struct css_set *set = BPF_CORE_READ(task, cgroups);
	struct cgroup_subsys_state *css = NULL;
	void *at;

	if (cfg.cgroup_subsys < 0)
		return BPF_CORE_READ(set, dfl_cgrp);
	/* By hand: an index that is not a constant cannot be part of a relocation. */
	at = (void *)set + bpf_core_field_offset(set->subsys) + (cfg.cgroup_subsys & 15) * 8;
	bpf_probe_read_kernel(&css, sizeof(css), at);
	return BPF_CORE_READ(css, cgroup);
}

/* Is the task in the group that was asked for, or below it? v1 and v2 alike. */
BPF_NOINLINE int in_cgroup(NO_ARG)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct cgroup *cg = task_cgroup(task);

	for (int i = 0; i < MAX_CGROUP_DEPTH && cg; i++) {
		if (BPF_CORE_READ(cg, kn, id) == cfg.cgroup_id)
			return 1;
		cg = (struct cgroup *)BPF_CORE_READ(cg, self.parent);
	}
	return 0;
}

/*
 * The state of a match of the command name. In a map, not in registers: otherwise the verifier
 * would follow every combination of positions.
 */
BPF_INLINE char glob_at(__u32 i)
{
	return i < GLOB_LEN ? cfg.comm_glob[BOUND(i, GLOB_LEN)] : 0;
}

/* One entry of a [...] set, `c` or `a-z`. 0: go on; 1: the set ends at g->set. */
BPF_NOINLINE int glob_set_step(__u32 first)
{
	struct glob *g = the_glob();
	char lo, hi;

	if (!g)
		return 1;
	lo = hi = glob_at(g->set);
	if (!lo || (lo == ']' && !first))
		return 1;
	if (glob_at(g->set + 1) == '-' && glob_at(g->set + 2) && glob_at(g->set + 2) != ']') {
		hi = glob_at(g->set + 2);
		g->set += 2;
	}
	g->set++;
	if (g->c >= lo && g->c <= hi)
		g->hit = 1;
	return 0;
}

/* Does the pattern's element at g->p match g->c? Sets g->hit, and g->set to the next element. */
BPF_NOINLINE int glob_element(NO_ARG)
{
	struct glob *g = the_glob();
	__u32 negate;
	char p;

	if (!g)
		return 0;
	p = glob_at(g->p);
	g->set = g->p + 1;
	g->hit = p && (p == g->c || p == '?');
	if (p != '[')
		return 0;
	negate = glob_at(g->set) == '!';
	g->set += negate;
	g->hit = 0;
	for (__u32 i = 0; i < GLOB_LEN; i++)
		if (glob_set_step(!i))
			break;
	g->set++; /* behind the ] */
	g->hit ^= negate;
	return 0;
}

/* One step of the match: 0: go on; 1: it matches; -1: it does not. */
BPF_NOINLINE int glob_step(NO_ARG)
{
	struct glob *g = the_glob();

	if (!g)
		return -1;
	g->c = g->s < TASK_COMM_LEN ? g->comm[BOUND(g->s, TASK_COMM_LEN)] : 0;
	if (glob_at(g->p) == '*') {
		g->star_p = ++g->p;
		g->star_s = g->s;
		g->star = 1;
		return 0;
	}
	if (!g->c)
		return glob_at(g->p) ? -1 : 1;
	glob_element(0);
	if (g->hit) {
		g->p = g->set;
		g->s++;
		return 0;
	}
	if (!g->star)
		return -1;
	g->p = g->star_p; /* the last * takes one character more */
	g->s = ++g->star_s;
	return 0;
}

#define GLOB_STEPS (TASK_COMM_LEN * TASK_COMM_LEN + GLOB_LEN)

/* Is it one of cfg.tids? */
BPF_NOINLINE int tid_matches(__u32 tid)
{
	for (__u32 i = 0; i < TIDS_MAX; i++)
		if (i < cfg.tid_cnt && cfg.tids[i] == tid)
			return 1;
	return 0;
}

/* Shell-style match of the command name of the process with cfg.comm_glob. */
BPF_NOINLINE int comm_matches(NO_ARG)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct glob *g = the_glob();
	int verdict;

	if (!g)
		return 0;
	g->p = g->s = g->star = 0;
	BPF_CORE_READ_STR_INTO(&g->comm, task, group_leader, comm);
	for (int i = 0; i < GLOB_STEPS; i++) {
		verdict = glob_step(0);
		if (verdict)
			return verdict > 0;
	}
	return 0;
}

#endif /* PYPERF_TASK_H */
