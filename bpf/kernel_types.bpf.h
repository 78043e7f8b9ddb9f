/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_KERNEL_TYPES_H
#define PYPERF_KERNEL_TYPES_H
/*
 * The few kernel types and fields that the programs read. Offsets are relocated against the running
 * kernel's BTF at load (CO-RE), so only names and types matter here, not positions.
 */
#include "arch/arch.bpf.h"
#include "pyperf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct mnt_namespace {
	struct ns_common ns;
};

struct nsproxy {
	struct mnt_namespace *mnt_ns;
};

typedef struct {
	unsigned int val;
} kuid_t;

struct user_namespace {
	struct user_namespace *parent;
	int level; /* 0: the first one */
	kuid_t owner;
};

struct cred {
	kuid_t uid;
	struct user_namespace *user_ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct kernfs_node {
	__u64 id;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	/* The parent of `self` is the `self` of the parent group. */
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup_subsys_state *subsys[16];
	struct cgroup *dfl_cgrp;
};

struct signal_struct {
	struct {
		int counter;
	} live;
	int group_exit_code;
};

struct super_block {
	unsigned int s_dev;
};

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
	unsigned short i_mode;
};

struct file {
	struct inode *f_inode;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct mm_struct {
	unsigned long exec_vm; /* pages that are executable */
	unsigned long start_stack;
	struct file *exe_file;
};

struct vm_unmapped_area_info {
	unsigned long length;
};

struct sched_entity {
	__u64 exec_start;	/* by the CPU's own clock: when that was */
	__u64 sum_exec_runtime; /* ns on a CPU, as of the last tick or switch */
};

struct task_struct {
	int pid;
	int tgid;
	int exit_code;
	int exit_state;
	unsigned int flags;
	unsigned int __state; /* 5.14 and later (2f064a59a11f) */
	int on_cpu;	      /* not in a kernel for one CPU */
	unsigned int in_iowait : 1;
	__u64 start_time; /* ns of CLOCK_MONOTONIC, without suspension */
	unsigned long nvcsw;
	unsigned long nivcsw;
	void *stack;
	struct mm_struct *mm;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct signal_struct *signal;
	const struct cred *cred;
	struct nsproxy *nsproxy;
	struct css_set *cgroups;
	struct files_struct *files;
	struct sched_entity se;
	struct thread_struct thread;
	char comm[TASK_COMM_LEN];
};

/* Of an address space, in pages; each CPU adds to one of its own from 6.2 on (f1a7941243c1). */
struct percpu_counter {
	__s64 count;
	__s32 *counters;
};

struct mm_struct___rss {
	struct percpu_counter rss_stat[4];
};

/* Before 6.2. */
struct mm_rss_stat {
	struct {
		__s64 counter;
	} count[4];
};

struct mm_struct___rss_old {
	struct mm_rss_stat rss_stat;
};

struct bpf_array {
	void *pptrs[1];
};

/* Before 5.14. */
struct task_struct___state {
	volatile long state;
};

struct seq_file;

/* The context of a program on iter/task. */
struct bpf_iter_meta {
	struct seq_file *seq;
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000

#endif /* PYPERF_KERNEL_TYPES_H */
