// SPDX-License-Identifier: GPL-2.0-only
/*
 * The object of -e gil: who waits for a GIL, and what its holders do meanwhile. It is loaded when
 * that is asked for.
 *
 *	sched_switch    a thread leaves its CPU: for the GIL? Another one comes
 *	sched_waking    who waited for a GIL may run: so long has it waited
 *	sched_exit_tp   the thread that came runs again, still in the kernel: its stack is taken
 *	sys_exit        ... in a kernel without that tracepoint (before 6.16)
 *	CPU clock       the thread that runs has a GIL that others wait for: its stack is taken
 *
 * Two value types: the one of waits is drawn by length, as in bpf/wait.bpf.h. The other one has the
 * same time once more, charged to who had the GIL. `waited` of a GIL is the time that all threads
 * together have waited for it. It is charged in two ways:
 *	- A holder comes back to a CPU: what was waited while it was away. A thread that is off its
 *	  CPU neither takes a GIL nor gives it up, so it is enough to ask when it is back.
 *	- The clock finds a holder on a CPU: all that was not charged until then. Who holds it twice
 *	  as long is found twice as often, so the sums are right on average.
 * What is charged is never charged again, so both trees have the same sum.
 *
 * Who interrupts whom: the clock interrupts the walk of the others. It leaves the scratch alone
 * then, and what it would have charged is charged with its next sample.
 *
 * Invariant: delivered = counted + filtered_* + lost_*, as in the sampler.
 */
#include "wait.bpf.h"
#include "arrival.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define LOOK_FIRST_NS 10000000U
#define LOOK_MOST_NS  640000000U

/*
 * Thread, by the kernel's number -> struct gil_thread. BPF inserts a thread at its first switch and
 * deletes it at its exit. Full, or too many of one user: note_wait_full, and its waits are missing.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WAIT_THREADS);
	__type(key, __u32);
	__type(value, struct gil_thread);
} gil_threads SEC(".maps");

/*
 * struct gil_key -> struct gil_state. BPF inserts a GIL when it finds its first thread, and deletes
 * it with its last one. A thread has one GIL, so there is room for all of them, whatever addresses
 * a process may name.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WAIT_THREADS);
	__type(key, struct gil_key);
	__type(value, struct gil_state);
} gils SEC(".maps");

/* ---- what was waited for a GIL --------------------------------------------------------------- */

#define WAITERS_BITS	 16
#define WAIT_BEGINS(now) (1 - ((now) << WAITERS_BITS))
#define WAIT_ENDS(now)	 (((now) << WAITERS_BITS) - 1)

/* The state that the thread counts in; NULL: none, or it has gone. */
BPF_INLINE struct gil_state *find_state(const struct gil_thread *t)
{
	struct gil_key key = { .gil = t->gil, .tgid = t->tgid };
	struct gil_state *g = t->gil ? bpf_map_lookup_elem(&gils, &key) : NULL;

	return g && g->made_ns == t->made_ns ? g : NULL;
}

/* The time that all threads have waited until now. Modulo 2^48: see after(). */
BPF_INLINE __u64 waited(const struct gil_state *g, __u64 now)
{
	__u64 w = *(volatile const __u64 *)&g->waiters;

	return (w >> WAITERS_BITS) + (w & ((1 << WAITERS_BITS) - 1)) * now;
}

/* The time from `from` to `to`; 0 if it is negative, which clocks of two CPUs can make it. */
BPF_INLINE __u64 after(__u64 to, __u64 from)
{
	__s64 d = (__s64)((to - from) << WAITERS_BITS) >> WAITERS_BITS;

	return d > 0 ? (__u64)d : 0;
}

/* ---- whose GIL ------------------------------------------------------------------------------- */

BPF_INLINE struct gil_thread *this_thread(void)
{
	__u32 nr = (__u32)bpf_get_current_pid_tgid();

	return nr ? bpf_map_lookup_elem(&gil_threads, &nr) : NULL;
}

/*
 * One thread less. The state goes with its last one, if it is still there under its own key: the
 * memory of one that was deleted is given to the next that is inserted. Not quite one by one, since
 * an atomic instruction that returns the old value needs Linux 5.12: several CPUs may see that no
 * thread is left, or count one too few for a moment. So a state may go too early. Its threads find
 * none then, and make it anew at their next looks.
 */
BPF_INLINE void drop_user(struct gil_state *g)
{
	struct gil_key key = g->key;

	__sync_fetch_and_add(&g->threads, -1);
	if ((__s32) * (volatile __u32 *)&g->threads <= 0 && bpf_map_lookup_elem(&gils, &key) == g)
		bpf_map_delete_elem(&gils, &key);
}

/* The thread has no GIL any more. */
BPF_INLINE void leave_gil(struct gil_thread *t)
{
	struct gil_state *g = find_state(t);

	t->gil = 0;
	if (g)
		drop_user(g);
}

/*
 * One thread more in the state of `key`. False: its last thread left it meanwhile. Then the memory
 * may already be another one's, which gets back what it was given.
 */
BPF_INLINE int add_user(struct gil_thread *t, const struct gil_key *key)
{
	struct gil_state *g = bpf_map_lookup_elem(&gils, key);
	__u64 made_ns;

	if (!g)
		return 0;
	made_ns = g->made_ns;
	__sync_fetch_and_add(&g->threads, 1);
	if (bpf_map_lookup_elem(&gils, key) != g || *(volatile __u64 *)&g->made_ns != made_ns) {
		drop_user(g);
		return 0;
	}
	t->made_ns = made_ns;
	return 1;
}

/* Of the thread that was walked. */
BPF_INLINE void learn_gil(struct gil_thread *t, const struct walk *w)
{
	struct gil_state *g, new = {
		.made_ns = bpf_ktime_get_ns(),
		.threads = 1,
		.size = w->interp.gil_size,
		.holder = w->interp.gil_holder,
		.locked = w->interp.gil_locked,
		.thread_id = (__u16)w->interp.layout.tstate_thread_id,
	};
	struct gil_key key = { .gil = gil_of_walk(w), .tgid = w->thread.tgid };
	int err;

	new.locks = key.gil ? locks_of_gil(w, key.gil) : 0;
	if (!new.locks)
		return;
	g = t->gil == key.gil ? find_state(t) : NULL;
	if (g) {
		g->locks = new.locks;
		return;
	}
	leave_gil(t);
	t->away = 0; /* of another one */
	new.key = key;
	err = bpf_map_update_elem(&gils, &key, &new, BPF_NOEXIST);
	if (!err)
		t->made_ns = new.made_ns;
	else if (err != E_EXIST)
		stat_inc(CTR_note_wait_full);
	if (!err || (err == E_EXIST && add_user(t, &key)))
		t->gil = key.gil;
}

/*
 * A thread may change to another interpreter, or exec() another program, so its GIL is looked for
 * again.
 */
BPF_INLINE int is_time_to_look(const struct gil_thread *t, __u64 now)
{
	return now >= t->look_ns;
}

BPF_INLINE void set_next_look(struct gil_thread *t, __u64 now)
{
	t->look_gap_ns = t->look_gap_ns ? 2 * t->look_gap_ns : LOOK_FIRST_NS;
	if (t->look_gap_ns > LOOK_MOST_NS)
		t->look_gap_ns = LOOK_MOST_NS;
	t->look_ns = now + t->look_gap_ns;
}

/* The caller has the scratch. */
BPF_NOINLINE int look_for_gil(NO_ARG)
{
	struct gil_thread *t = this_thread();
	struct walk *w = the_walk();

	if (!t || !w)
		return 0;
	set_next_look(t, bpf_ktime_get_ns());
	if (select_sample(w, current_task()) != SAMPLE_TAKE || !w->thread.has_mm ||
	    load_task_regs(0) != REGS_LOADED)
		return 0;
	w->thread.tp = current_tp(current_task());
	for (__u32 n = 0; n < IMAGE_INTERPS; n++)
		if (!begin_interp(n) || w->tstate.addr)
			break;
	learn_gil(t, w);
	return 0;
}

/* Does the current thread hold the GIL? */
BPF_INLINE int has_gil(const struct gil_thread *t, const struct gil_state *g)
{
	__u64 tstate, thread_id;

	if (!is_locked(t->gil, g->locked) ||
	    read_user(&tstate, sizeof(tstate), t->gil + g->holder) ||
	    read_user(&thread_id, sizeof(thread_id), tstate + g->thread_id))
		return 0;
	return thread_id == current_tp(current_task());
}

/* ---- a thread leaves its CPU ----------------------------------------------------------------- */

/* Found while it is off its CPU: the next wait tells what it waits for. */
BPF_INLINE void first_seen(struct task_struct *task, __u32 nr)
{
	struct gil_thread new = { .tgid = current_tgid(task) };

	if (!is_wanted(new.tgid) || BPF_CORE_READ(task, flags) & PF_EXITING)
		return;
	new.slot = wait_slot(task);
	if (new.slot)
		insert_thread(&gil_threads, &nr, &new, new.slot);
}

/* A function of its own: see load_task_regs(). 1: it is in a system call; 2: for that GIL. */
BPF_NOINLINE int call_of_thread(NO_ARG)
{
	const struct gil_thread *t = this_thread();
	const struct gil_state *g = t ? find_state(t) : NULL;
	struct call_now call = {};

	if (load_call(&call) || call.nr < 0)
		return 0;
	if (!g || call.nr >= WAIT_CALLS ||
	    wait_cfg.call[call.nr & (WAIT_CALLS - 1)] != WAIT_CALL_FUTEX)
		return 1;
	return call.arg0 - g->locks < g->size ? 2 : 1;
}

BPF_INLINE void switch_out(struct task_struct *task, int preempted, __u64 now)
{
	__u32 nr = (__u32)bpf_get_current_pid_tgid();
	struct gil_thread *t;
	struct gil_state *g;
	int call;

	if (!nr)
		return;
	t = FIND_THREAD(gil_threads, nr);
	if (!t) {
		first_seen(task, nr);
		return;
	}
	t->out_ns = now;
	t->away = 0;
	g = find_state(t);
	if (!g)
		return;
	t->waited_out = waited(g, now);
	call = call_of_thread(0);
	t->in_call = call > 0;
	t->preempted = preempted || !state_of(task);
	if (call < 2 || t->preempted || t->waits)
		return;
	t->waits = 1;
	__sync_fetch_and_add(&g->waiters, WAIT_BEGINS(now));
}

/* ---- it comes back --------------------------------------------------------------------------- */

BPF_INLINE void end_wait(struct gil_thread *t, __u64 now)
{
	struct gil_state *g = find_state(t);

	t->waits = 0;
	t->out_ns = t->out_ns < now ? t->out_ns : now;
	t->due_wait_ns += draw(now - t->out_ns);
	if (g)
		__sync_fetch_and_add(&g->waiters, WAIT_ENDS(now));
	t->out_ns = 0; /* no holder */
}

/*
 * The first one ends the wait; it may come before the thread is off its CPU, and switch_in() ends
 * the wait then.
 */
SEC("raw_tp/sched_waking")
int on_waking(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 nr = (__u32)BPF_CORE_READ((struct task_struct *)ctx->args[0], pid);
	struct gil_thread *t = bpf_map_lookup_elem(&gil_threads, &nr);

	if (t && t->waits)
		end_wait(t, bpf_ktime_get_ns());
	return 0;
}

BPF_INLINE void switch_in(struct gil_thread *t, __u64 now)
{
	const struct gil_state *g;

	if (t->waits)
		end_wait(t, now);
	g = t->out_ns ? find_state(t) : NULL;
	if (g)
		t->away = after(waited(g, now), t->waited_out);
	t->out_ns = 0;
}

/* Has is_due() to be asked? */
BPF_INLINE int may_be_due(const struct gil_thread *t, __u64 now)
{
	return t->away || t->due_wait_ns || t->due_held_ns || is_time_to_look(t, now);
}

SEC("raw_tp/sched_switch")
int on_switch(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	struct task_struct *task = current_task();
	__u32 nr = (__u32)BPF_CORE_READ(next_task(ctx, task), pid);
	struct gil_thread *t;

	switch_out(task, ctx->args[0] & 1, now);
	t = nr ? FIND_THREAD(gil_threads, nr) : NULL;
	if (t && (t->out_ns || t->waits))
		switch_in(t, now);
	note_arrival(nr, t && may_be_due(t, now));
	return 0;
}

BPF_INLINE void forget_thread(__u32 nr)
{
	struct gil_thread *t = bpf_map_lookup_elem(&gil_threads, &nr);

	if (!t)
		return;
	leave_gil(t);
	DELETE_THREAD(gil_threads, nr, t);
}

/* The new program has another GIL, perhaps at the same address. */
BPF_INLINE void leave_program(__u32 nr)
{
	struct gil_thread *t = bpf_map_lookup_elem(&gil_threads, &nr);

	if (!t)
		return;
	leave_gil(t);
	t->away = 0;
	t->look_ns = 0;
	t->look_gap_ns = 0;
}

/* ---- its stack ------------------------------------------------------------------------------- */

/*
 * Charges the current thread with what others waited while it was off its CPU, if it held the GIL.
 * The clock charges what has no stack here.
 */
BPF_INLINE void charge_away(struct gil_thread *t)
{
	struct gil_state *g = find_state(t);
	__u64 ns = t->away;

	if (g && has_gil(t, g) && !(wait_state().flags & WAIT_LATE && !t->in_call)) {
		__sync_fetch_and_add(&g->charged, ns);
		t->due_held_ns += draw(ns);
	}
	t->away = 0; /* last: the clock may come in between, and charges what is in neither */
}

/* Is there work for on_waited()? */
BPF_INLINE int is_due(struct gil_thread *t)
{
	if (t->away)
		charge_away(t);
	return t->due_wait_ns || t->due_held_ns || is_time_to_look(t, bpf_ktime_get_ns());
}

BPF_NOINLINE __u64 wait_leaf(NO_ARG)
{
	struct call_now call = {};

	return leaf_of_call(&call);
}

/* Counts for the current thread, which waited for a GIL, or was off its CPU while it held one. */
BPF_INLINE __u64 leaf_of_thread(const struct gil_thread *t)
{
	__u64 leaf = wait_leaf(0);

	if (t->due_wait_ns)
		return WAIT_WORD(WAIT_GIL, WAIT_CALL(leaf));
	return t->preempted ? WAIT_WORD(WAIT_CPU, WAIT_NO_CALL) : leaf;
}

/* Tail-called if is_due(), with preemption off. */
SEC("raw_tp")
int on_waited(void *ctx)
{
	struct counters *c = the_counters();
	struct gil_thread *th = this_thread();
	struct trigger t = { .type = wait_cfg.type };

	(void)ctx;
	if (!th || !c || !claim_scratch(c))
		return 0;
	if (!th->due_wait_ns && !th->due_held_ns) {
		look_for_gil(0);
		release_scratch(c);
		return 0;
	}
	t.value = th->due_wait_ns ? th->due_wait_ns : th->due_held_ns;
	t.leaf = leaf_of_thread(th);
	t.type += !th->due_wait_ns;
	th->due_wait_ns = th->due_held_ns = 0;
	count_verdict(c, take(&t, c));
	release_scratch(c);
	return 0;
}

/* See bpf/wait.bpf.c. */
SEC("raw_tp/sched_exit_tp")
int on_scheduled(void *ctx)
{
	__u32 nr = (__u32)bpf_get_current_pid_tgid();
	struct gil_thread *t;

	if (!nr || is_done_with(nr))
		return 0;
	t = bpf_map_lookup_elem(&gil_threads, &nr);
	if (!t)
		return 0;
	if (t->out_ns || t->waits)
		switch_in(t, bpf_ktime_get_ns());
	if (is_due(t))
		bpf_tail_call(ctx, &samplers, 0);
	return 0;
}

/* Every system call of every process comes here. */
SEC("raw_tp/sys_exit")
int on_sys_exit(void *ctx)
{
	struct gil_thread *t = this_thread();

	if (t && is_due(t))
		bpf_tail_call(ctx, &samplers, 0);
	return 0;
}

/* ---- a holder runs --------------------------------------------------------------------------- */

/*
 * Functions of their own: see load_task_regs(). Return the time to charge to the current thread,
 * which runs; 0: none.
 */
BPF_NOINLINE __u64 charge_running(NO_ARG)
{
	struct gil_thread *t = this_thread();
	struct gil_state *g = t ? find_state(t) : NULL;
	/* The clock may come before charge_away(), which charges its part. */
	__u64 ns = g ? after(waited(g, bpf_ktime_get_ns()), g->charged + t->away) : 0;

	if (!ns || !has_gil(t, g))
		return 0;
	/* while this thread runs, no other one holds the GIL */
	__sync_fetch_and_add(&g->charged, ns);
	return ns;
}

/* Should the current thread's GIL be looked for? */
BPF_NOINLINE int wants_look(NO_ARG)
{
	const struct gil_thread *t = this_thread();

	if (t)
		return is_time_to_look(t, bpf_ktime_get_ns());
	first_seen(current_task(), (__u32)bpf_get_current_pid_tgid());
	return this_thread() != NULL;
}

SEC("perf_event")
int on_clock(struct bpf_perf_event_data *ctx)
{
	struct counters *c = the_counters();
	struct trigger t = { .regs = &ctx->regs, .type = wait_cfg.type + 1 };

	if (!c || !(__u32)bpf_get_current_pid_tgid() || !claim_scratch(c))
		return 0;
	if (wants_look(0))
		look_for_gil(0);
	t.value = charge_running(0);
	if (t.value)
		count_verdict(c, take(&t, c));
	release_scratch(c);
	return 0;
}
