/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_TRACE_GC_BPF_H
#define PYPERF_TRACE_GC_BPF_H
/*
 * Collections of the garbage collector, with the stack that each one interrupts.
 *
 * Output:  struct trace_collection in the ring buffer `events`.
 * Fails:   it had begun before: counted as unknown_end.
 */
#include "trace_stack.bpf.h"

/*
 * The generation is the first argument, behind a pointer from 3.8 on that the compiler may have
 * left away.
 */
BPF_INLINE __u32 generation_of(user_regs *ctx)
{
	__u64 first = arch_reg(ctx, ARCH_REG_ARG0), second = arch_reg(ctx, ARCH_REG_ARG1);

	if (first < TRACE_GENERATIONS)
		return (__u32)first;
	return second < TRACE_GENERATIONS ? (__u32)second : TRACE_GENERATIONS;
}

#define GC_STATS_BYTES 24 /* struct gc_generation_stats, Include/internal/pycore_gc.h */

/*
 * 3.15, struct gc_stats in Include/internal/pycore_interp_structs.h: a ring of 11 entries of 64
 * bytes and the number of the newest, and then two rings of three.
 */
#define GC_RING_INDEX  704
#define GC_RING_BYTES  200

/*
 * The number of collections of this generation that the interpreter has counted; with rings, a
 * number that changes with each of them.
 */
BPF_NOINLINE __u64 collections_of(__u64 tstate, __u64 moved, __u32 generation)
{
	__u64 gc = read64(tstate + cfg.tstate_interp) + read64(cfg.gc_said + moved);

	if (!cfg.gc_rings)
		return read64(gc + cfg.gc_stats + (__u64)generation * GC_STATS_BYTES);
	return (__u8)read64(read64(gc + cfg.gc_stats) + GC_RING_INDEX +
			    (__u64)generation * GC_RING_BYTES);
}

/* The generation that has one collection more than before; 0: none. */
BPF_INLINE int set_generation(struct trace_collecting *c, __u64 tstate, __u64 moved)
{
	for (__u32 i = 0; i < TRACE_GENERATIONS; i++) {
		if (collections_of(tstate, moved, i) == c->before[i])
			continue;
		c->generation = i;
		return 1;
	}
	return 0;
}

TRACE_NOINLINE int begin_collection(user_regs *ctx, __u64 moved)
{
	struct trace_collecting fresh = { .generation = generation_of(ctx), .depth = 1 }, *known;
	__u32 tid = this_thread();

	known = bpf_map_lookup_elem(&collecting, &tid);
	if (known) {
		known->depth++;
		return 0;
	}
	if (cfg.gc_stats) {
		__u64 tstate = find_state(moved);

		for (__u32 i = 0; i < TRACE_GENERATIONS; i++)
			fresh.before[i] = collections_of(tstate, moved, i);
	}
	fresh.start_ns = bpf_ktime_get_ns();
	bpf_map_update_elem(&collecting, &tid, &fresh, BPF_NOEXIST);
	return 0;
}

/*
 * glibc counts the waiters in a condition variable, above three bits of flags (__wrefs, from 2.25
 * on).
 */
BPF_INLINE __u32 gil_waiters(__u64 tstate, __u64 moved)
{
	__u64 gil = cfg.gil ? cfg.gil + moved
			    : read64(read64(tstate + cfg.tstate_interp) + cfg.interp_gil);
	__u32 refs;

	if (!cfg.gil_waiters || !gil || read_user(&refs, sizeof(refs), gil + cfg.gil_waiters))
		return TRACE_WAITERS_UNKNOWN;
	return refs >> 3;
}

TRACE_NOINLINE int send_collection(user_regs *ctx, struct trace_collecting *c, __u64 moved)
{
	__u64 now = bpf_ktime_get_ns(), tstate = find_state(moved);
	struct trace_collection *e;
	__u32 before;

	if (!c)
		return 0;
	if (cfg.gc_stats && !set_generation(c, tstate, moved)) {
		count(TRACE_CTR_idle);
		return 0;
	}
	e = RESERVE_EVENT(sizeof(*e), &before);
	if (!e)
		return 0;
	e->start_ns = c->start_ns;
	e->generation = c->generation;
	e->found = arch_reg(ctx, ARCH_REG_RETURN);
	e->waiters = gil_waiters(tstate, moved);
	e->at.ns = now;
	e->at.tgid = this_process();
	e->at.tid = this_thread();
	e->at.lost = before;
	e->at.pad = 0;
	e->at.type[0] = 0;
	walk_raise(&e->at, tstate ? running_frame(tstate) : 0, 0);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

/* The collector begins, or returns, in the thread that it interrupts. */
SEC("uprobe")
int on_collect(user_regs *ctx)
{
	__u32 spot = spot_of(ctx), tid = this_thread();
	const volatile struct trace_spot *s = &cfg.spots[BOUND(spot, TRACE_SPOTS)];
	struct trace_collecting *known, ended;

	KEEP_OWN_STACK(ctx);
	if (spot == TRACE_SPOTS || is_over())
		return 0;
	if (s->kind == POINT_COLLECT)
		return begin_collection(ctx, arch_pc(ctx) - s->pc);
	known = bpf_map_lookup_elem(&collecting, &tid);
	if (!known) {
		count(TRACE_CTR_unknown_end); /* it had begun before */
		return 0;
	}
	if (--known->depth)
		return 0;
	ended = *known;
	bpf_map_delete_elem(&collecting, &tid);
	return send_collection(ctx, &ended, arch_pc(ctx) - s->pc);
}

#endif /* PYPERF_TRACE_GC_BPF_H */
