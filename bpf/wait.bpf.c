// SPDX-License-Identifier: GPL-2.0-only
/*
 * The object of waits: programs in the scheduler. It is loaded when such a source is asked for.
 *
 *	sched_switch    a thread leaves its CPU, another one comes: how long has that been away?
 *	sched_waking    a thread that waits may run: from here on it waits for a CPU
 *	sched_exit_tp   the thread that came runs again, still in the kernel: its stack is taken
 *	sys_exit        ... in a kernel without that tracepoint (before 6.16)
 *
 * Most waits are short, and a stack costs a hundred times as much as the look at the clock. So a
 * wait of length d below step_ns is drawn with probability d / step_ns and counts step_ns; a longer
 * one counts d. Sums are right on average, long waits are exact, and no thread is walked more than
 * once in step_ns of its waiting.
 *
 * What the thread waited for is the innermost frame (FRAME_WAIT). It is asked for late, too: the
 * thread is still in its system call when it comes back.
 *
 * Who interrupts whom: sched_switch runs with interrupts off, the other ones with preemption off,
 * and a walk neither sleeps nor switches. So no two walks of this object meet on a CPU. Samples
 * interrupt them and have scratch of their own.
 *
 * user/ may count a part of a wait before it ends (struct wait_counted). At its end the rest of
 * such a wait counts, which is drawn by its own length.
 *
 * Invariant: delivered = counted + filtered_* + lost_*, as in the sampler; a wait that is drawn is
 * delivered.
 */
#include "wait.bpf.h"
#include "arrival.bpf.h"
#include "counted.bpf.h"
#include "loops.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/*
 * Thread, by the kernel's number -> struct wait_thread. BPF inserts a thread at its first switch
 * and deletes it at its exit. Full, or too many of one user: note_wait_full, and its waits are
 * missing.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WAIT_THREADS);
	__type(key, __u32);
	__type(value, struct wait_thread);
} waits SEC(".maps");

/*
 * Slot of struct shares -> when a thread of that user last found no room in `waits`. Whatever of
 * its threads is not there has not run since, for it would have been refused then; what it did
 * before is not known.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SHARE_SLOTS);
	__type(key, __u32);
	__type(value, __u64);
} refusals SEC(".maps");

BPF_INLINE void refuse(__u32 slot, __u64 now)
{
	__u64 *at = bpf_map_lookup_elem(&refusals, &slot);

	stat_inc(CTR_note_wait_full);
	if (at && *at < now)
		*at = now;
}

BPF_INLINE __u64 refused_ns(__u32 slot)
{
	const __u64 *at = bpf_map_lookup_elem(&refusals, &slot);

	return at ? *at : 0;
}

/* Sets new->slot. False: its user may have no further thread in the table. */
BPF_INLINE int find_room(struct wait_thread *new, struct task_struct *task, __u64 now)
{
	new->slot = share_slot(task);
	if (share_has_room(shares_of(&wait_shares), new->slot, WAIT_THREADS))
		return 1;
	refuse(new->slot, now);
	return 0;
}

BPF_INLINE struct wait_thread *new_thread(__u32 nr, const struct wait_thread *t, __u64 now)
{
	int err = bpf_map_update_elem(&waits, &nr, t, BPF_NOEXIST);

	if (err && err != E_EXIST)
		refuse(t->slot, now);
	if (err)
		return NULL;
	add_to_share(shares_of(&wait_shares), t->slot, 1);
	return bpf_map_lookup_elem(&waits, &nr);
}

/* ---- event loops ----------------------------------------------------------------------------- */

/* What a new entry is made from: it is too large for the stack. Always zero. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct loop_thread);
} loop_blanks SEC(".maps");

#define NO_POLL	     (-1)
#define POLL_FD(p)   ((__u32)(p))
#define POLL_CALL(p) ((__u32)((p) >> 32))

/* Number of the system call << 32 | descriptor; negative: the current thread is in no poll. */
BPF_NOINLINE __s64 current_poll(NO_ARG)
{
	user_regs regs;
	__s64 nr;
	__u32 what;

	if (read_call(&regs, task_user_regs()))
		return NO_POLL;
	nr = arch_syscall(&regs);
	if (nr < 0 || nr >= WAIT_CALLS)
		return NO_POLL;
	what = wait_cfg.call[nr & (WAIT_CALLS - 1)];
	if (what == WAIT_CALL_EPOLL)
		return nr << 32 | (__u32)arch_syscall_arg0(&regs);
	if (what == WAIT_CALL_POLL || (what == WAIT_CALL_SELECT && arch_syscall_arg0(&regs)))
		return nr << 32 | LOOP_NO_FD;
	return NO_POLL;
}

/* `flags`: BPF_NOEXIST, or BPF_ANY, and what was known of the thread is forgotten. */
BPF_NOINLINE int blank_loop(__u32 nr, __s64 poll, __u64 flags)
{
	const struct wait_thread *t = bpf_map_lookup_elem(&waits, &nr);
	__u32 zero = 0, tgid = t ? t->tgid : 0;
	const void *blank = bpf_map_lookup_elem(&loop_blanks, &zero);
	const struct proc *p = bpf_map_lookup_elem(&procs, &tgid);
	struct loop_thread *l;

	if (!t || !blank || !p || bpf_map_update_elem(&loops, &nr, blank, flags))
		return -1;
	l = bpf_map_lookup_elem(&loops, &nr);
	if (!l)
		return -1;
	l->known_ns = bpf_ktime_get_ns();
	l->call = POLL_CALL(poll);
	l->fd = POLL_FD(poll);
	l->space = p->space;
	l->tgid = tgid;
	l->tid = t->tid;
	l->slot = t->slot;
	return 0;
}

BPF_INLINE int new_loop(__u32 nr, __s64 poll)
{
	const struct wait_thread *t = bpf_map_lookup_elem(&waits, &nr);
	struct shares *shares = shares_of(&loop_shares);

	if (!t)
		return 0;
	if (!share_has_room(shares, t->slot, LOOP_THREADS) || blank_loop(nr, poll, BPF_NOEXIST)) {
		stat_inc(CTR_note_loops_full);
		return 0;
	}
	add_to_share(shares, t->slot, 1);
	return 1;
}

/* The thread waits in this poll. Is it the loop's? */
BPF_INLINE int is_its_poll(struct loop_thread *l, __u32 nr, __s64 poll)
{
	int was_epoll = l->fd != LOOP_NO_FD, is_epoll = POLL_FD(poll) != LOOP_NO_FD;

	if (l->call == POLL_CALL(poll) && l->fd == POLL_FD(poll)) {
		l->others = 0;
		return 1;
	}
	if (is_epoll && !was_epoll)
		return !blank_loop(nr, poll, BPF_ANY);
	if (was_epoll != is_epoll || ++l->others < LOOP_OTHERS)
		return 0;
	l->call = POLL_CALL(poll);
	l->fd = POLL_FD(poll);
	l->others = 0;
	__builtin_memset(&l->now, 0, sizeof(l->now));
	return 1;
}

/* The current thread leaves its CPU to wait. 1: in its poll, so a stretch ends. */
BPF_NOINLINE int leave_in_poll(__u32 nr, __u64 now)
{
	__s64 poll = current_poll(0);
	struct loop_thread *l;

	if (poll < 0)
		return 0;
	l = bpf_map_lookup_elem(&loops, &nr);
	if (!l)
		return new_loop(nr, poll);
	/* One that has ended is of an earlier thread of this number, or of an earlier program. */
	if (l->ended || !is_its_poll(l, nr, poll))
		return 0;
	end_stretch(nr, now);
	return 1;
}

/* ---- a thread leaves its CPU ----------------------------------------------------------------- */

/* If stacks are taken at the end of system calls, only a thread in one can be sampled. */
BPF_INLINE __u8 leaves_in_call(void)
{
	return wait_state().flags & WAIT_LATE && current_call(0) >= 0;
}

/*
 * A thread leaves its CPU; one that exits leaves for ever. 1: it has a wait without a stack to
 * report.
 */
BPF_INLINE int switch_out(struct task_struct *task, int preempted, __u64 now)
{
	__u32 nr = (__u32)bpf_get_current_pid_tgid();
	struct wait_thread *t, new = { .out_ns = now };

	if (!nr)
		return 0;
	preempted = preempted || !state_of(task);
	t = FIND_THREAD(waits, nr);
	if (t) {
		if (t->in_ns)
			t->ran_ns += now - t->in_ns;
		t->preempted = (__u16)preempted;
		t->in_call = leaves_in_call();
		t->polls = !preempted && cfg.loop_types && leave_in_poll(nr, now);
		t->out_ns = now;
		return (t->bare_wait_ns || t->bare_queue_ns) && !t->due_wait_ns && !t->due_queue_ns;
	}
	new.tgid = current_tgid(task);
	if (!is_wanted(new.tgid) || BPF_CORE_READ(task, flags) & PF_EXITING)
		return 0;
	if (!find_room(&new, task, now))
		return 0;
	new.tid = current_tid(task);
	new.preempted = (__u16)preempted;
	new.in_call = leaves_in_call();
	t = new_thread(nr, &new, now);
	if (t)
		t->polls = !preempted && cfg.loop_types && leave_in_poll(nr, now);
	return 0;
}

/* ---- a thread comes to a CPU ----------------------------------------------------------------- */

/* What its process did before is not known. */
BPF_INLINE __u64 counts_since(__u32 tgid)
{
	const struct proc *p = bpf_map_lookup_elem(&procs, &tgid);
	const struct image *im = p ? find_image(p) : NULL;
	__u64 since = wait_state().since_ns;

	return im && im->python_ns > since ? im->python_ns : since;
}

/*
 * It has been off its CPU since we began, or since there was no room for it, or it is new. `woken`:
 * it wakes up now, so it has waited. Else it comes to a CPU, and what was not woken all the while
 * has waited for that CPU.
 */
BPF_INLINE struct wait_thread *first_seen(struct task_struct *task, __u32 nr, int woken, __u64 now)
{
	struct wait_thread new = { .out_ns = BPF_CORE_READ(task, start_time) };
	__u64 since, refused;

	new.tgid = task_tgid(task);
	if (!is_wanted(new.tgid) || BPF_CORE_READ(task, flags) & PF_EXITING)
		return NULL;
	if (!find_room(&new, task, now))
		return NULL;
	refused = refused_ns(new.slot);
	new.tid = task_tid(task);
	new.preempted = (__u16)!woken;
	new.in_call = (__u8)woken; /* likely, and its stack is taken as it is then */
	since = counts_since(new.tgid);
	if (since < refused)
		since = refused;
	if (new.out_ns < since)
		new.out_ns = since;
	return new_thread(nr, &new, now);
}

/* Up to when user/ has counted the wait that ends; 0: nothing of it. It learns what is left out. */
BPF_INLINE __u64 take_counted(const struct wait_thread *t)
{
	return t->out_ns < wait_state().counted_ns ? take_part(t->tid, t->out_ns) : 0;
}

/*
 * Samples what user/ has not counted of a stretch of a wait. Whether that counts depends on its
 * length.
 */
BPF_INLINE __u64 draw_rest(__u64 from, __u64 to, __u64 counted_ns)
{
	if (counted_ns <= from)
		return draw(to - from);
	return to > counted_ns && to - from >= wait_cfg.least_ns ? draw_any(to - counted_ns) : 0;
}

/* A wake-up before the thread left its CPU does not belong to this wait: it may be an old one. */
BPF_INLINE void end_wait(struct wait_thread *t, __u32 nr, __u64 now)
{
	__u64 woken = t->preempted ? t->out_ns : t->woken_ns, counted_ns = take_counted(t);
	int bare = wait_state().flags & WAIT_LATE && !t->in_call;

	if (woken < t->out_ns || woken > now)
		woken = now;
	t->waited_ns += woken - t->out_ns;
	t->queued_ns += now - woken;
	*(bare ? &t->bare_wait_ns : &t->due_wait_ns) += draw_rest(t->out_ns, woken, counted_ns);
	*(bare ? &t->bare_queue_ns : &t->due_queue_ns) += draw_rest(woken, now, counted_ns);
	t->out_ns = 0; /* after take_counted() */
	t->in_ns = now;
	if (t->polls)
		begin_stretch(nr, now);
}

/* 1: its wait is due. */
BPF_INLINE int switch_in(struct task_struct *task, __u32 nr, __u64 now)
{
	struct wait_thread *t = FIND_THREAD(waits, nr);

	if (!t && nr)
		t = first_seen(task, nr, 0, now);
	if (!t)
		return 0;
	if (t->out_ns)
		end_wait(t, nr, now);
	return t->due_wait_ns || t->due_queue_ns;
}

SEC("raw_tp/sched_switch")
int on_switch(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	struct task_struct *task = current_task();
	struct task_struct *next = next_task(ctx, task);
	__u32 nr = (__u32)BPF_CORE_READ(next, pid);
	int bare;

	bare = switch_out(task, ctx->args[0] & 1, now);
	note_arrival(nr, switch_in(next, nr, now));
	if (bare)
		bpf_tail_call(ctx, &samplers, 0);
	return 0;
}

/* On its way from its CPU; on_switch() inserts such a thread, or has done so. */
BPF_INLINE int is_on_cpu(struct task_struct *task)
{
	return bpf_core_field_exists(task->on_cpu) && BPF_CORE_READ(task, on_cpu);
}

/*
 * The first one ends the wait; it may come before the thread is off its CPU: see end_wait(). It is
 * attached before on_switch(), so on_switch() knows who was woken.
 */
SEC("raw_tp/sched_waking")
int on_waking(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	__u32 nr = (__u32)BPF_CORE_READ(task, pid);
	struct wait_thread *t = bpf_map_lookup_elem(&waits, &nr);

	if (!t && !is_on_cpu(task))
		t = first_seen(task, nr, 1, bpf_ktime_get_ns());
	if (t && t->out_ns && t->woken_ns < t->out_ns)
		t->woken_ns = bpf_ktime_get_ns();
	return 0;
}

BPF_INLINE void forget_thread(__u32 nr)
{
	struct wait_thread *t = bpf_map_lookup_elem(&waits, &nr);

	if (t)
		DELETE_THREAD(waits, nr, t);
	if (cfg.loop_types)
		end_loop(nr);
}

BPF_INLINE void leave_program(__u32 nr)
{
	if (cfg.loop_types)
		replace_loop(nr);
}

/* ---- what it waited for ---------------------------------------------------------------------- */

/*
 * The innermost frame of the current thread, which returns from a wait. A function of its own: see
 * load_task_regs().
 */
BPF_NOINLINE __u64 wait_leaf(NO_ARG)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct wait_thread *t = bpf_map_lookup_elem(&waits, &tid);
	struct call_now call = {};
	__u64 leaf;

	leaf = leaf_of_call(&call);
	if (t)
		t->futex = WAIT_KIND(leaf) == WAIT_LOCK ? call.arg0 : 0;
	return leaf;
}

/* ---- its stack ------------------------------------------------------------------------------- */

/* Counts the same stack for the time that the thread then waited for a CPU. */
BPF_INLINE __u32 count_queued(__u64 ns)
{
	struct walk *w = the_walk();
	__u64 *deep = the_deep();

	if (!w || !deep)
		return CTR_lost_internal;
	deep[deep_frame(0)] = WAIT_WORD(WAIT_CPU, WAIT_NO_CALL);
	w->count.value = ns;
	return (__u32)aggregate(0);
}

/* A stack of so much was counted: it is of the loop's poll, or of what the loop called. */
BPF_INLINE void note_wait(const struct wait_thread *t, __u32 nr, __u64 ns)
{
	if (!loop_counts(wait_cfg.type))
		return;
	if (t->polls)
		note_poll(nr);
	else
		note_in_loop(nr, ns);
}

/* The wait that is due has no stack; else it has one. */
BPF_INLINE int is_bare(const struct wait_thread *th)
{
	return !th->due_wait_ns && !th->due_queue_ns;
}

/* The parts of the wait that is due, which is settled then. */
BPF_INLINE __u64 take_due(struct wait_thread *th, __u64 *queue_ns)
{
	__u64 wait_ns;

	if (is_bare(th)) {
		wait_ns = th->bare_wait_ns;
		*queue_ns = th->bare_queue_ns;
		th->bare_wait_ns = th->bare_queue_ns = 0;
	} else {
		wait_ns = th->due_wait_ns;
		*queue_ns = th->due_queue_ns;
		th->due_wait_ns = th->due_queue_ns = 0;
	}
	return wait_ns;
}

/*
 * Counts the outcome of the wait that is due, and its time in the run queue by the same stack. A
 * function of its own, for the BPF stack below on_waited() is full.
 */
BPF_NOINLINE int settle(__u32 verdict)
{
	__u32 nr = (__u32)bpf_get_current_pid_tgid();
	struct wait_thread *th = bpf_map_lookup_elem(&waits, &nr);
	struct counters *c = the_counters();
	__u64 wait_ns, queue_ns;
	int bare;

	if (!th || !c)
		return 0;
	bare = is_bare(th);
	wait_ns = take_due(th, &queue_ns);
	count_verdict(c, verdict);
	if (verdict == CTR_counted && !bare)
		note_wait(th, nr, wait_ns ? wait_ns : queue_ns);
	if (!wait_ns || !queue_ns)
		return 0;
	if (verdict == CTR_counted)
		verdict = count_queued(queue_ns);
	count_verdict(c, verdict);
	if (verdict == CTR_counted && !bare && !th->polls)
		note_wait(th, nr, queue_ns);
	return 0;
}

/*
 * Tail-called when a wait is due, with preemption off. A wait without a stack is reported when the
 * thread next leaves its CPU, because its stack has changed by then.
 */
SEC("raw_tp")
int on_waited(void *ctx)
{
	__u32 nr = (__u32)bpf_get_current_pid_tgid();
	struct wait_thread *th = bpf_map_lookup_elem(&waits, &nr);
	struct counters *c = the_counters();
	struct trigger t = { .type = wait_cfg.type };
	__u64 wait_ns;

	(void)ctx;
	if (!th || !c)
		return 0;
	t.bare = (__u8)is_bare(th);
	wait_ns = t.bare ? th->bare_wait_ns : th->due_wait_ns;
	t.value = wait_ns ? wait_ns : t.bare ? th->bare_queue_ns : th->due_queue_ns;
	t.leaf = !wait_ns ? WAIT_WORD(WAIT_CPU, WAIT_NO_CALL)
		 : t.bare ? WAIT_WORD(WAIT_FAULT, WAIT_NO_CALL)
			  : wait_leaf(0);
	t.waited = !t.bare && WAIT_KIND(t.leaf) != WAIT_CPU && WAIT_KIND(t.leaf) != WAIT_FAULT;
	t.futex = t.waited ? th->futex : 0;
	settle(take(&t, c));
	return 0;
}

/*
 * The end of __schedule(), in the thread that got the CPU: its memory is accessible, and it has not
 * run in user space yet. In some virtual machines sched_switch does not report each switch; this
 * tracepoint does.
 */
SEC("raw_tp/sched_exit_tp")
int on_scheduled(void *ctx)
{
	__u32 nr = (__u32)bpf_get_current_pid_tgid();
	struct wait_thread *t;

	if (!nr || is_done_with(nr))
		return 0;
	t = bpf_map_lookup_elem(&waits, &nr);
	if (!t)
		return 0;
	if (t->out_ns)
		end_wait(t, nr, bpf_ktime_get_ns());
	if (t->due_wait_ns || t->due_queue_ns)
		bpf_tail_call(ctx, &samplers, 0);
	return 0;
}

/* Every system call of every process comes here. */
SEC("raw_tp/sys_exit")
int on_sys_exit(void *ctx)
{
	__u32 nr = (__u32)bpf_get_current_pid_tgid();
	const struct wait_thread *t = bpf_map_lookup_elem(&waits, &nr);

	if (t && (t->due_wait_ns || t->due_queue_ns))
		bpf_tail_call(ctx, &samplers, 0);
	return 0;
}
