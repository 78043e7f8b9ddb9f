// SPDX-License-Identifier: GPL-2.0-only
/*
 * The object of `trace -e`: programs at instructions of user space that count their hits, and the
 * values of an argument by powers of two. It takes no stacks, and shares no map with others.
 *
 * Programs interrupt each other where the kernel is preemptible, so all additions are atomic.
 */
#include "rule.bpf.h"
#include "probe_cost.bpf.h"
#include "own_stack.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct probe_cfg probe_cfg = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PROBE_RULES);
	__type(key, __u32);
	__type(value, struct probe_rule);
} probe_rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SAMPLED_MAX);
	__type(key, __u32);
	__type(value, struct probe_hist);
} probe_hists SEC(".maps");

/* Set by user space: places where the kernel single-steps. */
__u8 stepped[PROBE_RULES];

/* How many bits a number has: 0 to 64. */
BPF_INLINE __u32 bits_of(__u64 v)
{
	__u32 n = 0;

#define HALVE(bits)                                                                                \
	if (v >> (bits)) {                                                                         \
		v >>= (bits);                                                                      \
		n += (bits);                                                                       \
	}
	HALVE(32)
	HALVE(16)
	HALVE(8)
	HALVE(4)
	HALVE(2)
	HALVE(1)
#undef HALVE
	return n + (__u32)v;
}

BPF_INLINE void add_value(struct probe_hist *h, __u64 value)
{
	__u32 bucket = bits_of(value);

	__sync_fetch_and_add(&h->hits, 1);
	__sync_fetch_and_add(&h->sum, value);
	if (bucket < PROBE_BUCKETS)
		__sync_fetch_and_add(&h->bucket[bucket], 1);
}

BPF_INLINE int hit(struct pt_regs *ctx, __u32 type)
{
	__u32 number = probe_cfg.by_cookie ? (__u32)bpf_get_attach_cookie(ctx) : type * PROBE_SPOTS;
	const struct probe_rule *r = bpf_map_lookup_elem(&probe_rules, &number);
	struct probe_hist *h = bpf_map_lookup_elem(&probe_hists, &type);
	__u64 value;

	if (number < PROBE_RULES)
		note_cost(stepped[number]);
	if (!r || !h)
		return 0;
	switch (judge((const user_regs *)ctx, r, &value)) {
	case RULE_COUNTS:
		add_value(h, value);
		break;
	case RULE_OTHER:
		__sync_fetch_and_add(&h->others, 1);
		break;
	default:
		__sync_fetch_and_add(&h->unread, 1);
	}
	return 0;
}

#define PROGRAM(n)                                                                                 \
	SEC("uprobe")                                                                              \
	int on_value##n(struct pt_regs *ctx)                                                       \
	{                                                                                          \
		KEEP_OWN_STACK(ctx);                                                               \
		return hit(ctx, n);                                                                \
	}

PROGRAM(0)
PROGRAM(1)
PROGRAM(2)
PROGRAM(3)
