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

char LICENSE[] SEC("license") = "GPL";

/* In units of the event: see struct count_val. */
BPF_INLINE __u64 sample_value(const struct bpf_perf_event_data *ctx, __u32 type)
{
	__u64 ns = clock_ns[type % SAMPLED_MAX];

	return ns ? ns : ctx->sample_period;
}

/* The counter to increment. */
BPF_INLINE __u32 take_sample(struct bpf_perf_event_data *ctx, struct counters *c)
{
	const struct trigger t = {
		.regs = &ctx->regs,
		.kernel_ctx = ctx,
		.value = sample_value(ctx, c->type),
		.type = c->type,
	};

	return take(&t, c);
}

/*
 * Counts the sample, and takes the time of one of TIMED_EVERY: what samples cost decides whether
 * there are too many, see rate__budget() in user/sample/rate.h. The time is kept beside the
 * counters: the BPF stack is full below the walks.
 */
BPF_INLINE void begin_sample(struct counters *c)
{
	c->begin_ns = c->n[CTR_delivered]++ % TIMED_EVERY ? 0 : bpf_ktime_get_ns();
	c->type = c->next_type;
	c->next_type = 0;
}

/*
 * What took longer than a stack of the greatest depth can was not the sample: the hypervisor ran
 * something else on this CPU meanwhile, or the firmware did.
 */
BPF_INLINE void end_sample(struct counters *c)
{
	__u64 ns, longest = (__u64)cfg.max_frames * TIMED_FRAME_NS;

	if (!c->begin_ns)
		return;
	ns = bpf_ktime_get_ns() - c->begin_ns;
	c->n[CTR_timed_samples]++;
	c->n[CTR_timed_ns] += ns < longest ? ns : longest;
}

/*
 * What the kernel tells with kernel.bpf_stats_enabled, but without a right, and at the cost of
 * these programs alone.
 */
BPF_INLINE __u64 begin_following(void)
{
	return cfg.flags & CFG_TIMED ? bpf_ktime_get_ns() : 0;
}

BPF_INLINE void end_following(__u64 begin)
{
	if (begin)
		stat_add(CTR_follow_ns, bpf_ktime_get_ns() - begin);
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
 * Each event but the first has a program of its own, which says whose sample it is and goes on in
 * on_cpu_sample(). While one of these runs the kernel runs no other on its CPU (bpf_prog_active in
 * bpf_overflow_handler(), kernel/events/core.c), so what is said is of this sample.
 */
BPF_INLINE int sample_of(void *ctx, __u32 type)
{
	struct counters *c = the_counters();

	if (!c)
		return 0;
	c->next_type = type;
	bpf_tail_call(ctx, &samplers, 0);
	c->next_type = 0; /* it is not there: nothing is counted */
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
