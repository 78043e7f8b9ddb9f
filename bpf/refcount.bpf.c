// SPDX-License-Identifier: GPL-2.0-only
/*
 * The object of reference counts: a program at a watchpoint of the CPU, which stops each thread of
 * a process after an instruction that writes the count of one object. Loaded when -e refcount is
 * asked for.
 *
 * The difference between the values after two writes is the number of references that were taken or
 * dropped. Threads that write hold the GIL, and the trap comes before they continue, so each change
 * belongs to the current stack. An object whose count is 0 is being freed: later writes there
 * belong to another object's count, or to none.
 *
 * The trap is not an NMI, but perf runs no other program of perf events on its CPU meanwhile
 * (bpf_prog_active in bpf_overflow_handler(), kernel/events/core.c).
 *
 * Invariant: delivered = counted + filtered_* + lost_*, as in the sampler. A write that does not
 * change the count is not delivered.
 */
#include "take.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct refcount_cfg refcount_cfg = { .addr = 0 };

/* user/ switches counting on and writes the current count. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct refcount_state);
} refcounts SEC(".maps");

BPF_INLINE struct refcount_state *the_refcount(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&refcounts, &zero);
}

/* The change of the count by the write; 0: none, or not counted. */
BPF_INLINE __s32 change_of(struct refcount_state *s)
{
	__u32 now;
	__s32 change;

	if (!s->on || s->freed)
		return 0;
	if (read_user(&now, sizeof(now), refcount_cfg.addr)) {
		s->unread++;
		return 0;
	}
	/* 32 bits are enough everywhere: from 3.14 on the others are flags. */
	change = (__s32)(now - s->count);
	s->count = now;
	s->freed = !now;
	return change;
}

SEC("perf_event")
int on_write(struct bpf_perf_event_data *ctx)
{
	struct refcount_state *s = the_refcount();
	struct counters *c = the_counters();
	__s32 change;

	if (!c || !s)
		return 0;
	change = change_of(s);
	if (!change)
		return 0;
	s->changes++;
	if (!claim_delivered(c, 1))
		return 0;
	c->next_type = change > 0 ? refcount_cfg.taken_type : refcount_cfg.dropped_type;
	s->change = (__u32)(change > 0 ? change : -change);
	enter_sampler(ctx, c, 1);
	return 0;
}

SEC("perf_event")
int on_change(struct bpf_perf_event_data *ctx)
{
	const struct refcount_state *s = the_refcount();
	struct counters *c = the_counters();

	if (!c || !s)
		return 0;
	const struct trigger t = {
		.regs = &ctx->regs,
		.value = s->change,
		.type = c->next_type,
	};

	c->n[BOUND(take(&t, c), COUNTER_SLOTS)]++;
	release_scratch(c);
	return 0;
}
