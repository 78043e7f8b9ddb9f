/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_WAIT_H
#define PYPERF_WAIT_H
/*
 * Common parts of the objects at the scheduler: which threads there is room for, and which waits
 * are sampled.
 * Cost:    look-ups.
 */
#include "shares.bpf.h"
#include "take.bpf.h"
#include "wait_reason.bpf.h"

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

/* ---- which ones count ------------------------------------------------------------------------ */

BPF_INLINE __u64 draw_any(__u64 ns)
{
	return wait_drawn(bpf_get_prandom_u32(), ns, wait_state().step_ns);
}

/* Samples a wait by its length. Returns the value that it counts; 0: not sampled. */
BPF_INLINE __u64 draw(__u64 ns)
{
	return ns < wait_cfg.least_ns ? 0 : draw_any(ns);
}

BPF_INLINE void count_verdict(struct counters *c, __u32 verdict)
{
	c->n[CTR_delivered]++;
	c->n[BOUND(verdict, COUNTER_SLOTS)]++;
}

#endif /* PYPERF_WAIT_H */
