// SPDX-License-Identifier: GPL-2.0-only
/*
 * The object: entry points, named by event. Each reads like the pipeline
 *
 *	sample -> walk -> merge -> aggregate
 *
 * Invariant: delivered = counted + filtered_* + lost_*. Every path through on_cpu_sample() increments
 * exactly one of the right-hand counters.
 */
#include "sample.bpf.h"
#include "aggregate.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* User part of the stack: Python, native, merged behind the kernel frames. 0: there is none. */
BPF_INLINE int walk_user(struct bpf_perf_event_data *ctx, struct walk *w, struct task_struct *task)
{
	struct mm_struct *mm = CURRENT_READ(task, mm);
	int verdict;

	if (!mm) /* a thread's end outlives its memory */
		return 0;
	verdict = use_regs(w, &ctx->regs);
	if (verdict == REGS_NONE) /* the event came in the kernel */
		verdict = load_task_regs(0);
	if (verdict == REGS_GONE)
		return 0;
	if (verdict == REGS_NONE) {
		w->flags |= WALK_NO_REGS;
		push_frame(MARKER_WORD(MARK_NO_REGS, 0));
		return 1;
	}
	if (verdict != REGS_LOADED) {
		w->flags |= WALK_NATIVE_LOST;
		push_frame(MARKER_WORD(MARK_COMPAT32, 0));
		return 1;
	}
	w->tp = current_tp(task);
	w->stack_start = CURRENT_READ(mm, start_stack);
	for (__u32 n = 0; n < IMAGE_INTERPS; n++)
		if (walk_interp(w, n))
			break;
	if (cfg.flags & CFG_NATIVE)
		walk_native(0);
	merge(0);
	return 1;
}

/* Plain additions: nothing that counts interrupts the sampler on its CPU, whether that runs in NMI or not. */
BPF_INLINE void count_quality(struct counters *c, const struct walk *w, __u32 kernel_cnt)
{
	__u32 lost = w->flags & (WALK_NATIVE_LOST | WALK_PY_LOST | WALK_PY_UNMERGED |
				 WALK_TRUNCATED | WALK_NO_REGS);

	c->n[CTR_user_stacks]++;
	c->n[CTR_frames_native] += w->native_cnt;
	c->n[CTR_frames_python] += w->py_cnt;
	c->n[CTR_frames_kernel] += kernel_cnt;
	if (!lost && (w->flags & WALK_NATIVE_END || !(cfg.flags & CFG_NATIVE)))
		c->n[CTR_complete]++;
	if (w->flags & WALK_TRUNCATED)
		c->n[CTR_note_truncated]++;
	if (w->flags & WALK_NATIVE_LOST)
		c->n[CTR_note_native_lost]++;
	if (w->flags & WALK_PY_LOST)
		c->n[CTR_note_python_lost]++;
	if (w->flags & WALK_NO_REGS)
		c->n[CTR_note_no_regs]++;
	if (w->flags & WALK_SHIM_JUMP)
		c->n[CTR_note_shim_jump]++;
}

/* It has a user stack, of which nothing is known. */
BPF_INLINE void count_pending(struct counters *c)
{
	c->n[CTR_user_stacks]++;
	c->n[CTR_note_pending]++;
}

/* In units of the event: see struct count_val. */
BPF_INLINE __u64 sample_value(const struct bpf_perf_event_data *ctx, __u32 type)
{
	__u64 ns = clock_ns[type % SAMPLED_MAX];

	return ns ? ns : ctx->sample_period;
}

/* Everything but counting the outcome; returns the counter to increment. */
BPF_INLINE __u32 take_sample(struct bpf_perf_event_data *ctx, struct counters *c)
{
	struct task_struct *task = current_task();
	struct walk *w = the_walk();
	struct stack *st = the_stack();
	__u32 verdict, pending, has_user = 0, kernel_cnt;

	if (!w || !st)
		return CTR_lost_internal;
	verdict = select_sample(w, task);
	pending = verdict == CTR_note_pending;
	if (verdict != SAMPLE_TAKE && !pending)
		return verdict;
	st->cnt = st->cut = 0;
	if (cfg.flags & CFG_KERNEL)
		walk_kernel(ctx, st);
	kernel_cnt = st->cnt;
	if (pending)
		push_frame(MARKER_WORD(MARK_PENDING, 0));
	else
		has_user = walk_user(ctx, w, task);
	if (!st->cnt) /* a thread without Python under --no-native */
		push_frame(MARKER_WORD(MARK_EMPTY, 0));
	verdict = (__u32)aggregate(sample_value(ctx, c->type), c->type);
	if (verdict == CTR_counted && pending)
		count_pending(c);
	else if (verdict == CTR_counted && has_user)
		count_quality(c, w, kernel_cnt);
	return verdict;
}

/*
 * Counts the sample, and takes the time of one of TIMED_EVERY: what samples cost decides whether there are too
 * many, see rate__budget() in user/sample/rate.h. The time is kept beside the counters: the BPF stack is full below the walks.
 */
BPF_INLINE void begin_sample(struct counters *c)
{
	c->begin_ns = c->n[CTR_delivered]++ % TIMED_EVERY ? 0 : bpf_ktime_get_ns();
	c->type = c->next_type;
	c->next_type = 0;
}

/*
 * What took longer than a stack of the greatest depth can was not the sample: the hypervisor ran something else on this
 * CPU meanwhile, or the firmware did.
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

/* What the kernel tells with kernel.bpf_stats_enabled, but without a right, and at the cost of these programs alone. */
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
 * Each event but the first has a program of its own, which says whose sample it is and goes on in on_cpu_sample(). While
 * one of these runs the kernel runs no other on its CPU (bpf_prog_active in bpf_overflow_handler(), kernel/events/core.c),
 * so what is said is of this sample.
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

/* The last section of the object: the programs before it are used while it is being loaded (user/sample/loader.h). */
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
