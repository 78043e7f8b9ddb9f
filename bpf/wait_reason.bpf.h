/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_WAIT_REASON_H
#define PYPERF_WAIT_REASON_H
/*
 * How a thread leaves its CPU at sched_switch, and what it waits for then: by its system call, and
 * by the file that this has to do with.
 *
 * Input:   the arguments of sched_switch; the registers with which the thread entered the kernel.
 * Output:  enum wait_kind, FRAME_WAIT. No maps.
 * Cost:    reads of kernel memory: a fifth of the registers; for a descriptor the way to its inode.
 */
#include "taskinfo.bpf.h"

const volatile struct wait_cfg wait_cfg = {};

/* ---- how it waits ---------------------------------------------------------------------------- */

/*
 * The thread that comes, of the arguments of sched_switch; `current` leaves. In the first kernels
 * that pass the state of the thread that leaves (fa2c3254d7cf, 5.18-rc1) that state stands before
 * the two threads; 9c2136be0878 moved it behind them. Others may have taken over one of both, so no
 * version tells the order, but the arguments do: the first of the two threads is the current one.
 * The fourth argument is read as memory, since a kernel that has three attaches no program that
 * names it.
 */
BPF_INLINE struct task_struct *next_task(struct bpf_raw_tracepoint_args *ctx,
					 const struct task_struct *current)
{
	struct task_struct *next;

	if (ctx->args[1] == (__u64)current)
		return (struct task_struct *)ctx->args[2];
	if (bpf_probe_read_kernel(&next, sizeof(next), &ctx->args[3]))
		return NULL;
	return next;
}

/*
 * Reads what tells the system call of a thread, and its first argument, of the registers with which
 * it entered the kernel: a fifth of them, and this comes at each wait.
 */
BPF_INLINE long read_call(user_regs *regs, void *from)
{
	return bpf_probe_read_kernel((char *)regs + ARCH_CALL_AT, ARCH_CALL_SIZE,
				     (char *)from + ARCH_CALL_AT);
}

/* Number of the system call that the current thread is in; negative: it is in none. */
BPF_NOINLINE __s64 current_call(NO_ARG)
{
	user_regs regs;

	if (read_call(&regs, task_user_regs()))
		return -1;
	return arch_syscall(&regs);
}

/* ---- what it waits for ----------------------------------------------------------------------- */

/* include/uapi/linux/stat.h */
#define FILE_TYPE   0170000
#define FILE_SOCKET 0140000
#define FILE_PIPE   0010000
#define FILE_DEVICE 0020000 /* of characters */
#define FILE_PLAIN  0100000
#define FILE_BLOCKS 0060000
#define FILE_FOLDER 0040000

BPF_INLINE struct file *file_of(struct task_struct *task, __u64 fd)
{
	struct fdtable *fdt = BPF_CORE_READ(task, files, fdt);
	struct file **slots = BPF_CORE_READ(fdt, fd);
	struct file *file = NULL;

	if ((__u32)fd >= BPF_CORE_READ(fdt, max_fds) ||
	    bpf_probe_read_kernel(&file, sizeof(file), &slots[(__u32)fd]))
		return NULL;
	return file;
}

/* The reason of a wait in a system call whose first argument is a descriptor. */
BPF_INLINE __u32 kind_of_file(struct task_struct *task, __u64 fd)
{
	struct file *file = file_of(task, fd);

	switch (file ? BPF_CORE_READ(file, f_inode, i_mode) & FILE_TYPE : 0) {
	case FILE_SOCKET:
		return WAIT_SOCKET;
	case FILE_PIPE:
		return WAIT_PIPE;
	case FILE_DEVICE:
		return WAIT_TERMINAL;
	case FILE_PLAIN:
	case FILE_BLOCKS:
	case FILE_FOLDER:
		return WAIT_DISK;
	}
	return WAIT_CALL;
}

BPF_INLINE __u32 kind_of_call(struct task_struct *task, __u64 nr, __u64 arg0)
{
	__u32 what = nr < WAIT_CALLS ? wait_cfg.call[nr & (WAIT_CALLS - 1)] : WAIT_CALL_OTHER;

	if (what == WAIT_CALL_FUTEX)
		return WAIT_LOCK;
	if (what == WAIT_CALL_SELECT)
		return arg0 ? WAIT_CALL : WAIT_SLEEP;
	if (what == WAIT_CALL_SLEEP)
		return WAIT_SLEEP;
	if (BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait))
		return WAIT_DISK;
	return what == WAIT_CALL_FILE ? kind_of_file(task, arg0) : WAIT_CALL;
}

/* The system call that the current thread is in. */
struct call_now {
	__s64 nr; /* negative: none */
	__u64 arg0;
};

BPF_INLINE int load_call(struct call_now *call)
{
	user_regs regs;

	if (read_call(&regs, task_user_regs()) || arch_is_compat(&regs))
		return -1; /* numbers of a 32-bit program are others */
	call->nr = arch_syscall(&regs);
	call->arg0 = arch_syscall_arg0(&regs);
	return 0;
}

/* The innermost frame for what the current thread waits for, or has just waited for. */
BPF_INLINE __u64 leaf_of_call(struct call_now *call)
{
	if (load_call(call))
		return WAIT_WORD(WAIT_CALL, WAIT_NO_CALL);
	if (call->nr < 0)
		return WAIT_WORD(WAIT_FAULT, WAIT_NO_CALL);
	return WAIT_WORD(kind_of_call((void *)bpf_get_current_task(), (__u64)call->nr, call->arg0),
			 call->nr);
}

#endif /* PYPERF_WAIT_REASON_H */
