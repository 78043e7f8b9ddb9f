/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_TRACE_WAITS_BPF_H
#define PYPERF_TRACE_WAITS_BPF_H
/*
 * What threads wait for between their events, where slow calls are wanted.
 *
 * Input:   a thread leaves its CPU, or comes to one (sched_switch).
 * Output:  sums by reason in `waiting`; send_waits() sends them before the thread's next event.
 * Cost:    two look-ups for each switch of the machine; in a thread that is traced also its system
 *          call, and for a lock two reads of the process for each interpreter that it has.
 * Fails:   full: the thread that was idle longest is forgotten, and its sums begin at 0 again.
 *
 * A wait lasts until the thread is on a CPU again. A switch that is not reported is noticed at the
 * next event.
 */
#include "trace_stack.bpf.h"
#include "wait_reason.bpf.h"

#define GILS_MAX 16 /* interpreters whose GIL is looked at */

/* By number of the system call, of those that are WAIT_CALL: enum trace_reason. */
const volatile __u8 call_reasons[WAIT_CALLS];

/* Interpreters have a GIL each, or share one. */
BPF_INLINE int is_gil(__u64 futex, __u64 moved)
{
	__u64 interp;

	if (!cfg.gil_locks)
		return 0;
	if (cfg.gil)
		return futex - (cfg.gil + moved + cfg.gil_locks) < cfg.gil_locks_size;
	interp = read64(cfg.interp_head + moved);
	for (__u64 i = 0; i < GILS_MAX && interp; i++) {
		__u64 gil = read64(interp + cfg.interp_gil);

		if (futex - (gil + cfg.gil_locks) < cfg.gil_locks_size)
			return 1;
		interp = next_interpreter(interp);
	}
	return 0;
}

/* Why the current thread leaves its CPU. */
BPF_INLINE __u32 reason_now(struct task_struct *task, const struct trace_waiter *w)
{
	struct call_now call = {};
	__u32 kind;

	if (load_call(&call))
		return REASON_OTHER;
	if (call.nr < 0)
		return REASON_FAULT;
	kind = kind_of_call(task, (__u64)call.nr, call.arg0);
	if (kind == WAIT_LOCK)
		return is_gil(call.arg0, w->moved) ? REASON_GIL : REASON_LOCK;
	if (kind == WAIT_CALL && call.nr < WAIT_CALLS)
		return call_reasons[call.nr & (WAIT_CALLS - 1)];
	return kind;
}

SEC("raw_tp/sched_switch")
int on_switch(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task(), *next;
	__u32 nr = (__u32)bpf_get_current_pid_tgid();
	struct trace_waiter *w;

	if (is_over())
		return 0;
	w = nr ? bpf_map_lookup_elem(&waiting, &nr) : NULL;
	if (w) {
		w->reason = ctx->args[0] & 1 || !state_of(task) ? REASON_CPU : reason_now(task, w);
		w->out_ns = bpf_ktime_get_ns();
	}
	next = next_task(ctx, task);
	nr = next ? (__u32)BPF_CORE_READ(next, pid) : 0;
	w = nr ? bpf_map_lookup_elem(&waiting, &nr) : NULL;
	if (w && w->out_ns)
		end_wait(w, bpf_ktime_get_ns());
	return 0;
}

#endif /* PYPERF_TRACE_WAITS_BPF_H */
