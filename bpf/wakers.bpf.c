// SPDX-License-Identifier: GPL-2.0-only
/*
 * The object of -e wakers: who ends the waits of others. It is loaded when that is asked for.
 *
 *	sched_switch    a thread leaves its CPU to wait
 *	sched_waking    another one wakes it: the current task, whose stack is taken
 *	hrtimer_expire_entry, hrtimer_expire_exit, timer_expire_entry, timer_expire_exit
 *	                what happens between them on a CPU, a timer does
 *
 * Waits are drawn by their length, as in bpf/wait.bpf.h, so the sums are those of off-cpu, without
 * the waits that nobody of the targets ends: sleeps, disks, timeouts, messages from elsewhere. The
 * innermost frame is the reason of the wait that ended.
 *
 * An interrupt that ends a wait has the thread that it interrupted as the current task. So nothing
 * counts while a timer expires: that is a time-out. A message from elsewhere comes by an interrupt,
 * one of this machine in the sender's system call, and no tracepoint tells which it is: only a
 * thread in a system call counts, and one that ends a wait for a lock only in futex().
 *
 * Who interrupts whom: sched_waking runs with interrupts off, and no other program of this object
 * takes stacks.
 *
 * Invariant: delivered = counted + filtered_* + lost_*, as in the sampler.
 */
#include "wait.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/*
 * Thread, by the kernel's number -> struct waker_thread. BPF inserts a thread at its first wait and
 * deletes it at its exit. Full, or too many of one user: note_wait_full, and its wakers are
 * missing.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WAIT_THREADS);
	__type(key, __u32);
	__type(value, struct waker_thread);
} sleepers SEC(".maps");

/*
 * Whether a timer expires on this CPU now: one of high resolution, and one of the timer wheel,
 * which expires in a softirq, and which the first kind may interrupt.
 */
enum timer_kind {
	HRTIMER,
	TIMER,
	TIMER_KINDS,
};

struct expiring {
	__u32 of[TIMER_KINDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct expiring);
} expiring SEC(".maps");

BPF_INLINE struct expiring *this_expiring(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&expiring, &zero);
}

BPF_INLINE int is_expiring(void)
{
	const struct expiring *now = this_expiring();

	return now && (now->of[HRTIMER] || now->of[TIMER]);
}

BPF_INLINE int set_expiring(enum timer_kind kind, __u32 expires)
{
	struct expiring *now = this_expiring();

	if (now)
		now->of[kind] = expires;
	return 0;
}

SEC("raw_tp/hrtimer_expire_entry")
int on_hrtimer_expiry(void *ctx)
{
	(void)ctx;
	return set_expiring(HRTIMER, 1);
}

SEC("raw_tp/hrtimer_expire_exit")
int on_hrtimer_expired(void *ctx)
{
	(void)ctx;
	return set_expiring(HRTIMER, 0);
}

SEC("raw_tp/timer_expire_entry")
int on_timer_expiry(void *ctx)
{
	(void)ctx;
	return set_expiring(TIMER, 1);
}

SEC("raw_tp/timer_expire_exit")
int on_timer_expired(void *ctx)
{
	(void)ctx;
	return set_expiring(TIMER, 0);
}

BPF_INLINE void first_seen(struct task_struct *task, __u32 nr, __u64 now)
{
	struct waker_thread new = { .out_ns = now, .tgid = current_tgid(task) };

	if (!is_wanted(new.tgid) || BPF_CORE_READ(task, flags) & PF_EXITING)
		return;
	new.slot = wait_slot(task);
	if (new.slot)
		insert_thread(&sleepers, &nr, &new, new.slot);
}

BPF_INLINE void forget_thread(__u32 nr)
{
	struct waker_thread *t = bpf_map_lookup_elem(&sleepers, &nr);

	if (t)
		DELETE_THREAD(sleepers, nr, t);
}

BPF_INLINE void leave_program(__u32 nr)
{
	(void)nr;
}

SEC("raw_tp/sched_switch")
int on_switch(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 nr = (__u32)bpf_get_current_pid_tgid();
	struct task_struct *task = current_task();
	struct waker_thread *t = nr ? FIND_THREAD(sleepers, nr) : NULL;
	int preempted = ctx->args[0] & 1 || !state_of(task);

	if (t)
		t->out_ns = preempted ? 0 : bpf_ktime_get_ns();
	else if (nr && !preempted)
		first_seen(task, nr, bpf_ktime_get_ns());
	return 0;
}

/* The class of the waker's system call: enum wait_call; negative: it is in none. */
BPF_INLINE int class_of_call(void)
{
	__s64 nr = current_call(0);

	if (nr < 0)
		return -1;
	return nr < WAIT_CALLS ? wait_cfg.call[nr & (WAIT_CALLS - 1)] : WAIT_CALL_OTHER;
}

/*
 * The reason of the woken thread's wait, a frame word. `address`: its task. 0: a thread cannot end
 * such a wait, or the current one is not in a system call that does. A function of its own: see
 * load_task_regs().
 */
BPF_NOINLINE __u64 leaf_of_sleeper(__u64 address)
{
	struct task_struct *task = (void *)address;
	__u32 tid = (__u32)BPF_CORE_READ(task, pid), kind;
	struct waker_thread *t = bpf_map_lookup_elem(&sleepers, &tid);
	int class = class_of_call();
	user_regs regs;
	__s64 nr;

	if (!t || class < 0 || read_call(&regs, user_regs_of(task)))
		return 0;
	nr = arch_syscall(&regs);
	if (nr < 0)
		return 0;
	kind = kind_of_call(task, (__u64)nr, arch_syscall_arg0(&regs));
	t->futex = kind == WAIT_LOCK ? arch_syscall_arg0(&regs) : 0;
	if (kind == WAIT_SLEEP || kind == WAIT_DISK ||
	    (kind == WAIT_LOCK) != (class == WAIT_CALL_FUTEX))
		return 0;
	return WAIT_WORD(kind, nr) | WAIT_ENDED;
}

SEC("raw_tp/sched_waking")
int on_waking(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 nr = (__u32)BPF_CORE_READ((struct task_struct *)ctx->args[0], pid);
	struct waker_thread *t = bpf_map_lookup_elem(&sleepers, &nr);
	__u64 now, since = wait_state().since_ns;

	if (!t || !t->out_ns)
		return 0;
	now = bpf_ktime_get_ns();
	if (since < t->out_ns)
		since = t->out_ns;
	t->out_ns = 0;
	if (is_expiring())
		return 0;
	t->due_ns = (__u32)bpf_get_current_pid_tgid() && now > since ? draw(now - since) : 0;
	if (t->due_ns)
		bpf_tail_call(ctx, &samplers, 0);
	return 0;
}

/* Tail-called when a wait is due. */
SEC("raw_tp")
int on_waited(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 nr = (__u32)BPF_CORE_READ((struct task_struct *)ctx->args[0], pid);
	struct waker_thread *th = bpf_map_lookup_elem(&sleepers, &nr);
	struct counters *c = the_counters();
	struct trigger t = { .type = wait_cfg.type };

	if (!th || !c)
		return 0;
	t.value = th->due_ns;
	th->due_ns = 0;
	t.leaf = leaf_of_sleeper(ctx->args[0]);
	if (!t.leaf)
		return 0;
	t.waited = WAITED_OTHER;
	t.futex = th->futex;
	count_verdict(c, take(&t, c));
	return 0;
}
