// SPDX-License-Identifier: GPL-2.0-only
/*
 * The object of probes: programs at instructions of user space (uprobes). It is loaded when such a
 * source is asked for.
 *
 * Samples interrupt these programs, and where the kernel is preemptible they interrupt each other.
 * So the object has scratch, counts, counters and a ring of its own, and a program claims the
 * scratch of its CPU before it uses it.
 *
 * Invariant: delivered = counted + filtered_* + lost_*, as in the sampler; a claim that is refused
 * is lost_busy.
 */
#include "take.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/*
 * The program that counts itself from 0 to 1 has the scratch, until it counts itself off. An
 * addition and a look: an exchange with comparison needs Linux 5.12. Two that come at once may both
 * be refused, but never both be let in: whoever sees 1 was alone between its addition and its look,
 * and the next one adds to that. All of this is on one CPU, as no program of BPF migrates.
 */
BPF_INLINE int claim_scratch(struct counters *c)
{
	__sync_fetch_and_add(&c->claims, 1);
	if (*(volatile __u32 *)&c->claims == 1)
		return 1;
	__sync_fetch_and_add(&c->claims, -1);
	return 0;
}

BPF_INLINE void release_scratch(struct counters *c)
{
	__asm__ volatile("" ::: "memory"); /* what was done with the scratch comes first */
	__sync_fetch_and_add(&c->claims, -1);
}

/*
 * With the claim on_probe() is entered; it releases it. `delivered` may be counted by several at a
 * time.
 */
BPF_INLINE int hit(void *ctx, __u32 type)
{
	struct counters *c = the_counters();

	if (!c)
		return 0;
	__sync_fetch_and_add(&c->n[CTR_delivered], 1);
	if (!claim_scratch(c)) {
		__sync_fetch_and_add(&c->n[CTR_lost_busy], 1);
		return 0;
	}
	c->next_type = type;
	bpf_tail_call(ctx, &samplers, 0);
	c->n[CTR_lost_internal]++; /* it is not there */
	release_scratch(c);
	return 0;
}

/* A program for each value type: which probe called, a program can ask from Linux 5.15 on. */
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

	if (!c)
		return 0;
	const struct trigger t = {
		.regs = (const user_regs *)ctx,
		.kernel_ctx = ctx,
		.value = 1,
		.type = c->next_type,
	};

	c->n[BOUND(take(&t, c), COUNTER_SLOTS)]++;
	release_scratch(c);
	return 0;
}
