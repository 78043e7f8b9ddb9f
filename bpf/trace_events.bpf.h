/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_TRACE_EVENTS_BPF_H
#define PYPERF_TRACE_EVENTS_BPF_H
/*
 * Events for user space: a function begins or ends.
 *
 * Output:  struct trace_event in the ring buffer `events`; where slow calls are wanted, before it
 *          what the thread has waited for.
 * Fails:   no room: counted in `lost`.
 */
#include "trace_state.bpf.h"

/*
 * CPU time of the thread. The kernel adds it up at ticks and switches; the time since then is the
 * growth of the difference between the clocks.
 */
BPF_INLINE void set_ran(struct trace_event *e)
{
	struct task_struct *task = (void *)(unsigned long)bpf_get_current_task();
	__u64 lag = e->ns - BPF_CORE_READ(task, se.exec_start);

	/* 0 is for what is not known, and it counts from 0 in a thread that has just begun. */
	e->ran_ns = BPF_CORE_READ(task, se.sum_exec_runtime) + 1;
	e->ran_lag = (lag & ((1ULL << TRACE_LAG_BITS) - 1)) | (__u64)bpf_get_smp_processor_id()
								      << TRACE_LAG_BITS;
}

/* Notes the frame that the thread runs; 0: not known. */
BPF_INLINE void note_running(__u64 frame)
{
	__u32 tid = this_thread();

	bpf_map_update_elem(&running, &tid, &frame, BPF_ANY);
}

/* A frame begins, by which the ends of functions may learn where it is. */
BPF_INLINE void note_begin(__u64 frame)
{
	if (!cfg.by_opcode || !unsettled)
		return;
	unsettled--;
	note_running(frame);
}

/* NULL: it neither is inside nor has called what is. */
BPF_INLINE struct trace_inside *inside_of(__u64 frame)
{
	struct trace_inside_key key = { .frame = frame, .process = this_process() };

	return frame ? bpf_map_lookup_elem(&inside, &key) : 0;
}

/* What the event is inside of; of an event that only ends what its caller had called: that. */
BPF_INLINE void set_from(struct trace_event *e)
{
	struct trace_inside *in = inside_of(e->frame);

	if (!in)
		in = inside_of(e->caller);
	if (!in)
		return;
	e->ran_ns = in->from[0];
	e->ran_lag = in->from[1];
}

/* All but `lost`. */
BPF_INLINE void fill_event(struct trace_event *e, __u32 kind, __u64 frame, __u64 caller, __u64 code)
{
	e->ns = bpf_ktime_get_ns();
	e->frame = frame;
	e->caller = caller;
	e->code = code;
	e->tid = this_thread();
	e->kind = (__u16)kind;
	e->cpu = (__u16)bpf_get_smp_processor_id();
	e->tgid = this_process();
	e->ran_ns = e->ran_lag = 0;
	if (cfg.cpu)
		set_ran(e);
	if (cfg.from)
		set_from(e);
}

/*
 * struct trace_waiter by thread. Full: the least recently used entry goes. 216 B each; a single
 * entry if it is not wanted.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct trace_waiter);
} waiting SEC(".maps");

/* The current thread has an event: from now on trace_waits.bpf.h notes what it waits for. */
BPF_NOINLINE int note_waiter(__u64 moved)
{
	struct trace_waiter new = { .moved = moved };
	__u32 nr = (__u32)bpf_get_current_pid_tgid();

	if (!bpf_map_lookup_elem(&waiting, &nr))
		bpf_map_update_elem(&waiting, &nr, &new, BPF_NOEXIST);
	return 0;
}

BPF_INLINE void end_wait(struct trace_waiter *w, __u64 now)
{
	if (now > w->out_ns)
		w->ns[w->reason & (TRACE_REASON_CNT - 1)] += now - w->out_ns;
	w->out_ns = 0;
	w->has_news = 1;
}

/* Comes before the thread's event. Without room that event says that something was lost. */
BPF_NOINLINE int send_waits(NO_ARG)
{
	__u32 nr = (__u32)bpf_get_current_pid_tgid(), before;
	struct trace_waiter *w = bpf_map_lookup_elem(&waiting, &nr);
	struct trace_waits *e;

	if (!w)
		return 0;
	if (w->out_ns) /* a switch was not reported */
		end_wait(w, bpf_ktime_get_ns());
	if (!w->has_news)
		return 0;
	e = RESERVE_EVENT(sizeof(*e), &before);
	if (!e)
		return 0;
	w->has_news = 0;
	__builtin_memset(&e->e, 0, sizeof(e->e));
	e->e.kind = EVENT_WAITS;
	e->e.lost = before;
	e->e.tid = this_thread();
	e->e.tgid = this_process();
	__builtin_memcpy(e->ns, w->ns, sizeof(e->ns));
	__builtin_memset(w->ns, 0, sizeof(w->ns));
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

BPF_INLINE void send_event(__u32 kind, __u64 frame, __u64 caller, __u64 code)
{
	struct trace_event *e;
	__u32 before;

	if (cfg.slow)
		send_waits(0);
	e = RESERVE_EVENT(sizeof(*e), &before);
	if (!e)
		return;
	e->lost = before;
	fill_event(e, kind, frame, caller, code);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP); /* user space looks often enough */
}

#endif /* PYPERF_TRACE_EVENTS_BPF_H */
