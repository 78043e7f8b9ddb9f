// SPDX-License-Identifier: GPL-2.0-only
/*
 * The object: entry points, named by event. Each reads like the pipeline
 *
 *	sample -> walk -> merge -> aggregate
 *
 * Invariant: delivered = counted + filtered_* + lost_*. Every path through on_cpu_sample()
 * increments exactly one of the right-hand counters.
 */
#include "take.bpf.h"
#include "loops.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/*
 * What the event has counted on this CPU since its last sample there. With -F the period of a
 * sample is only what the kernel guessed: where it takes its guess back, it samples the next event
 * at once, with the old period (perf_adjust_period() in kernel/events/core.c), so that events that
 * come in bursts would be counted dozens of times.
 */
BPF_INLINE __u64 counted_since(struct bpf_perf_event_data *ctx, struct counters *c)
{
	__u64 *last = &c->counter_at[c->type % SAMPLED_MAX], since;

	if (bpf_perf_prog_read_value(ctx, (void *)&c->counter, 3 * sizeof(c->counter)))
		return ctx->sample_period;
	/* Less than before: the event was opened anew, on a CPU that came back. */
	since = c->counter < *last ? c->counter : c->counter - *last;
	*last = c->counter;
	return since;
}

/* In units of the event: see struct count_val. */
BPF_INLINE __u64 sample_value(struct bpf_perf_event_data *ctx, struct counters *c)
{
	__u64 ns = clock_ns[c->type % SAMPLED_MAX];

	return ns ? ns : counted_since(ctx, c);
}

/* The counter to increment. */
BPF_INLINE __u32 take_sample(struct bpf_perf_event_data *ctx, struct counters *c)
{
	int taken = in_share(c); /* says what the sample stands for */
	const struct trigger t = {
		.regs = &ctx->regs,
		.kernel_ctx = ctx,
		.value = sample_value(ctx, c) * c->stands_for,
		.type = c->type,
	};
	__u32 verdict;

	if (!taken)
		return CTR_filtered_share;
	verdict = take(&t, c);
	if (verdict == CTR_counted && loop_counts(t.type))
		note_in_loop((__u32)bpf_get_current_pid_tgid(), t.value);
	return verdict;
}

/*
 * Counts the sample, and times one of TIMED_EVERY: the cost of samples decides whether there are
 * too many, see rate__budget() in user/sample/rate.h. The time is kept beside the counters, because
 * the BPF stack is full below the walks.
 */
BPF_INLINE void begin_sample(struct counters *c)
{
	c->begin_ns = c->n[CTR_delivered]++ % TIMED_EVERY ? 0 : bpf_ktime_get_ns();
	c->type = c->next_type;
	c->next_type = 0;
}

/*
 * A longer time than the deepest stack can take is not due to the sample: meanwhile the hypervisor
 * or the firmware used this CPU.
 */
BPF_INLINE void end_sample(struct counters *c)
{
	__u64 ns, longest = (__u64)cfg.max_frames * TIMED_FRAME_NS;

	if (!c->begin_ns)
		return;
	ns = bpf_ktime_get_ns() - c->begin_ns;
	ns = ns < longest ? ns : longest;
	c->n[CTR_timed_samples]++;
	c->n[CTR_timed_ns] += ns;
	charge_sample(ns);
}

/*
 * Measures what kernel.bpf_stats_enabled measures, but needs no privilege, and slows down these
 * programs only.
 */
BPF_INLINE __u64 begin_following(void)
{
	return cfg.flags & CFG_TIMED ? bpf_ktime_get_ns() : 0;
}

BPF_INLINE void end_following(__u64 begin)
{
	__u64 ns;

	if (!begin)
		return;
	ns = bpf_ktime_get_ns() - begin;
	stat_add(CTR_follow_ns, ns);
	charge_following(ns);
}

SEC("raw_tp/sched_process_fork")
int on_fork(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 begin = begin_following();

	follow_fork((struct task_struct *)ctx->args[0], (struct task_struct *)ctx->args[1]);
	end_following(begin);
	return 0;
}

SEC("raw_tp/sched_process_exec")
int on_exec(struct bpf_raw_tracepoint_args *ctx)
{
	(void)ctx; /* its task is the current one */
	__u64 begin = begin_following();

	follow_exec(current_task());
	end_following(begin);
	return 0;
}

SEC("raw_tp/vm_unmapped_area")
int on_unmapped_area(struct bpf_raw_tracepoint_args *ctx)
{
	struct mmap_args args;
	__u64 begin;

	load_mmap_args(&args);
	if (is_no_news(&args)) /* some programs do it 20,000 times a second */
		return 0;
	begin = begin_following();
	follow_area(ctx->args[0], (const struct vm_unmapped_area_info *)ctx->args[1], &args);
	end_following(begin);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int on_exit(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 begin = begin_following();

	follow_exit((struct task_struct *)ctx->args[0]);
	end_following(begin);
	return 0;
}

/*
 * Each event but the first has a program of its own, which sets the value type and tail-calls
 * on_cpu_sample(). While it runs the kernel runs no other perf event program on its CPU
 * (bpf_prog_active in bpf_overflow_handler(), kernel/events/core.c), so the type belongs to this
 * sample.
 */
BPF_INLINE int sample_of(void *ctx, __u32 type)
{
	struct counters *c = the_counters();

	if (!c)
		return 0;
	c->next_type = type;
	bpf_tail_call(ctx, &samplers, 0);
	c->next_type = 0; /* the program is missing: nothing is counted */
	return 0;
}

SEC("perf_event")
int on_second_event(struct bpf_perf_event_data *ctx)
{
	return sample_of(ctx, 1);
}

SEC("perf_event")
int on_third_event(struct bpf_perf_event_data *ctx)
{
	return sample_of(ctx, 2);
}

SEC("perf_event")
int on_fourth_event(struct bpf_perf_event_data *ctx)
{
	return sample_of(ctx, 3);
}

/*
 * The last section of the object: the programs before it are used while it is being loaded
 * (user/follow/loader.h).
 */
SEC("perf_event")
int on_cpu_sample(struct bpf_perf_event_data *ctx)
{
	struct counters *c = the_counters();

	if (!c)
		return 0;
	begin_sample(c);
	c->n[BOUND(take_sample(ctx, c), COUNTER_SLOTS)]++;
	end_sample(c);
	return 0;
}
