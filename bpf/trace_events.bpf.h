/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_TRACE_EVENTS_BPF_H
#define PYPERF_TRACE_EVENTS_BPF_H
/*
 * Events for user space: a function begins or ends.
 *
 * Output:  struct trace_event in the ring buffer `events`.
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

	e->ran_ns = BPF_CORE_READ(task, se.sum_exec_runtime);
	e->ran_lag = (lag & ((1ULL << TRACE_LAG_BITS) - 1)) | (__u64)bpf_get_smp_processor_id()
								      << TRACE_LAG_BITS;
}

BPF_INLINE void fill_event(struct trace_event *e, __u32 kind, __u64 frame, __u64 caller, __u64 code)
{
	e->ns = bpf_ktime_get_ns();
	e->frame = frame;
	e->caller = caller;
	e->code = code;
	e->tid = this_thread();
	e->lost = *(volatile __u32 *)&lost;
	e->kind = (__u16)kind;
	e->cpu = (__u16)bpf_get_smp_processor_id();
	e->tgid = this_process();
	e->ran_ns = e->ran_lag = 0;
	if (cfg.slow)
		set_ran(e);
}

BPF_INLINE void send_event(__u32 kind, __u64 frame, __u64 caller, __u64 code)
{
	struct trace_event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e) {
		__sync_fetch_and_add(&lost, 1);
		return;
	}
	fill_event(e, kind, frame, caller, code);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP); /* user space looks often enough */
}

#endif /* PYPERF_TRACE_EVENTS_BPF_H */
