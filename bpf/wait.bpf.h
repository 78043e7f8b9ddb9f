/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_WAIT_H
#define PYPERF_WAIT_H
/*
 * Common parts of the objects at the scheduler: which waits are sampled, and what a thread waits
 * for.
 * Cost:    look-ups; reads the registers of a thread if its system call matters.
 */
#include "shares.bpf.h"
#include "take.bpf.h"

const volatile struct wait_cfg wait_cfg = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wait_state);
} wait_states SEC(".maps");

BPF_INLINE struct wait_state wait_state(void)
{
	__u32 zero = 0;
	struct wait_state *s = bpf_map_lookup_elem(&wait_states, &zero);

	return s ? *s : (struct wait_state){};
}

/* ---- room for threads ------------------------------------------------------------------------ */

/* The users of the threads in the object's table. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct shares);
} wait_shares SEC(".maps");

/*
 * May the task's user have one more thread in the table? Returns its slot; 0: no, and counts that.
 */
BPF_INLINE __u32 wait_slot(struct task_struct *task)
{
	__u32 slot = share_slot(task);

	if (share_has_room(shares_of(&wait_shares), slot, WAIT_THREADS))
		return slot;
	stat_inc(CTR_note_wait_full);
	return 0;
}

/*
 * Inserts the entry of a thread whose slot wait_slot() has given. The clock may have done so before
 * a switch did.
 */
BPF_INLINE void insert_thread(void *table, const __u32 *nr, const void *t, __u32 slot)
{
	int err = bpf_map_update_elem(table, nr, t, BPF_NOEXIST);

	if (!err)
		add_to_share(shares_of(&wait_shares), slot, 1);
	else if (err != E_EXIST)
		stat_inc(CTR_note_wait_full);
}

/*
 * Deletes the entry `t` of a thread that has ended. One that cannot be deleted now (two CPUs wait
 * for each other's locks) is nobody's: FIND_THREAD() deletes it.
 */
#define DELETE_THREAD(table, nr, t)                                                                \
	({                                                                                         \
		__u32 slot_ = (t)->slot;                                                           \
		int err_ = share_delete(&(table), &(nr), shares_of(&wait_shares), slot_);          \
                                                                                                   \
		if (err_ && err_ != E_NOENT)                                                       \
			(t)->tgid = 0;                                                             \
	})

/* The entry of a thread at a switch, or NULL; not that of an earlier thread of its number. */
#define FIND_THREAD(table, nr)                                                                     \
	({                                                                                         \
		typeof((table).value) t_ = bpf_map_lookup_elem(&(table), &(nr));                   \
                                                                                                   \
		if (t_ && !t_->tgid) {                                                             \
			share_delete(&(table), &(nr), shares_of(&wait_shares), t_->slot);          \
			t_ = NULL;                                                                 \
		}                                                                                  \
		t_;                                                                                \
	})

/* Each object defines this: deletes the entry of a thread, if there is one, and frees its share. */
BPF_INLINE void forget_thread(__u32 nr);

SEC("raw_tp/sched_process_exit")
int on_thread_exit(void *ctx)
{
	(void)ctx;
	forget_thread((__u32)bpf_get_current_pid_tgid());
	return 0;
}

/* Each object defines this: a thread goes on in another program. */
BPF_INLINE void leave_program(__u32 nr);

/*
 * A thread that calls exec() takes the number of the first one, so no exit event has its old
 * number.
 */
SEC("raw_tp/sched_process_exec")
int on_thread_exec(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 before = (__u32)ctx->args[1], nr = (__u32)bpf_get_current_pid_tgid();

	if (before != nr)
		forget_thread(before);
	leave_program(nr);
	return 0;
}

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

/* The state that the kernel has set before it looks for another thread: 0 means it could run on. */
BPF_INLINE __u32 state_of(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state);
	return (__u32)BPF_CORE_READ((struct task_struct___state *)task, state);
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

BPF_INLINE __u64 draw_any(__u64 ns)
{
	return wait_drawn(bpf_get_prandom_u32(), ns, wait_state().step_ns);
}

/* Samples a wait by its length. Returns the value that it counts; 0: not sampled. */
BPF_INLINE __u64 draw(__u64 ns)
{
	return ns < wait_cfg.least_ns ? 0 : draw_any(ns);
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

BPF_INLINE void count_verdict(struct counters *c, __u32 verdict)
{
	c->n[CTR_delivered]++;
	c->n[BOUND(verdict, COUNTER_SLOTS)]++;
}

#endif /* PYPERF_WAIT_H */
