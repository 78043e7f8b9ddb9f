// SPDX-License-Identifier: GPL-2.0-only
/*
 * The object of probes: programs at instructions of user space (uprobes). Loaded when a probe is
 * asked for.
 *
 * Samples interrupt these programs, and where the kernel is preemptible they interrupt each other.
 * So the object has its own scratch, counts, counters and ring, and a program claims the scratch of
 * its CPU before it uses it.
 *
 * Whether a hit counts, and how much, may depend on its arguments. That is found out first, without
 * the scratch.
 *
 * Invariant: delivered = counted + filtered_* + lost_*, as in the sampler; a refused claim is
 * lost_busy.
 */
#include "rule.bpf.h"
#include "take.bpf.h"
#include "own_stack.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct probe_cfg probe_cfg = {};

/* user/ writes, before the probe is there. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PROBE_RULES);
	__type(key, __u32);
	__type(value, struct probe_rule);
} probe_rules SEC(".maps");

BPF_INLINE const struct probe_rule *rule_of(void *ctx, __u32 type)
{
	__u32 number = type * PROBE_SPOTS;

	if (probe_cfg.by_cookie)
		number = (__u32)bpf_get_attach_cookie(ctx);
	return bpf_map_lookup_elem(&probe_rules, &number);
}

/* The counter that says why it does not count; CTR_counted: it does. */
BPF_INLINE __u32 judge_hit(struct pt_regs *ctx, __u32 type, __u64 *value)
{
	const struct probe_rule *r = rule_of(ctx, type);

	*value = 1;
	if (!r || (!r->test_cnt && !r->has_amount))
		return CTR_counted;
	switch (judge((const user_regs *)ctx, r, value)) {
	case RULE_OTHER:
		return CTR_filtered_condition;
	case RULE_UNREAD:
		return CTR_lost_argument;
	}
	if (r->has_amount && *value > PROBE_AMOUNT_MAX) {
		*value = r->amount.is_signed && (__s64)*value < 0 ? 0 : PROBE_AMOUNT_MAX;
		stat_inc(CTR_note_amount_cut);
	}
	return CTR_counted;
}

BPF_INLINE int hit(struct pt_regs *ctx, __u32 type)
{
	struct counters *c = the_counters();
	__u32 verdict;
	__u64 value;

	if (!c)
		return 0;
	verdict = judge_hit(ctx, type, &value);
	if (verdict != CTR_counted) {
		__sync_fetch_and_add(&c->n[CTR_delivered], 1);
		__sync_fetch_and_add(&c->n[BOUND(verdict, COUNTER_SLOTS)], 1);
		return 0;
	}
	if (!claim_delivered(c, 1))
		return 0;
	c->next_type = type;
	c->next_value = value;
	enter_sampler(ctx, c, 1);
	return 0;
}

/*
 * A program for each value type: before Linux 5.15 a program cannot ask which probe has called it.
 */
SEC("uprobe")
int on_first_probe(struct pt_regs *ctx)
{
	return hit(ctx, 0);
}

SEC("uprobe")
int on_second_probe(struct pt_regs *ctx)
{
	return hit(ctx, 1);
}

SEC("uprobe")
int on_third_probe(struct pt_regs *ctx)
{
	return hit(ctx, 2);
}

SEC("uprobe")
int on_fourth_probe(struct pt_regs *ctx)
{
	return hit(ctx, 3);
}

SEC("uprobe")
int on_probe(struct pt_regs *ctx)
{
	struct counters *c = the_counters();

	KEEP_OWN_STACK(ctx);
	if (!c)
		return 0;
	const struct trigger t = {
		.regs = (const user_regs *)ctx,
		.kernel_ctx = ctx,
		.value = c->next_value,
		.type = c->next_type,
	};

	c->n[BOUND(take(&t, c), COUNTER_SLOTS)]++;
	release_scratch(c);
	return 0;
}
