// SPDX-License-Identifier: GPL-2.0-only
/*
 * The object of tracepoints of the kernel: programs at raw tracepoints, which need no tracefs. It
 * is loaded when such a source is asked for.
 *
 * Who interrupts whom: a tracepoint may be hit in a system call, in an interrupt, and by this
 * object's own programs (a lock that is contended, memory for a map). So a program claims the
 * scratch of its CPU before it uses it; who comes meanwhile is lost_busy. Samples and probes have
 * scratch of their own. An NMI may have interrupted who holds the lock of a map that all objects
 * share, so nothing is done there but count filtered_nmi.
 *
 * Invariant: delivered = counted + filtered_* + lost_*, as in the sampler. Other system calls than
 * the one that was asked for are not delivered.
 */
#include "take.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Number of the value type -> number of the system call that counts. user/ writes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SAMPLED_MAX);
	__type(key, __u32);
	__type(value, __s64);
} calls SEC(".maps");

/* The verifier lets nobody compute with the address of the stack, but read it as a number. */
BPF_INLINE int in_nmi(void)
{
	__u64 here = 0;
	void *at = &here;

	return bpf_probe_read_kernel(&here, sizeof(here), &at) || arch_in_nmi(here);
}

/* With the claim on_tracepoint() is entered; it releases it. */
BPF_INLINE int hit(void *ctx, __u32 type)
{
	struct counters *c = the_counters();

	if (!c)
		return 0;
	__sync_fetch_and_add(&c->n[CTR_delivered], 1);
	if (in_nmi()) {
		__sync_fetch_and_add(&c->n[CTR_filtered_nmi], 1);
		return 0;
	}
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

BPF_INLINE int is_call(__u32 type, __s64 nr)
{
	const __s64 *wanted = bpf_map_lookup_elem(&calls, &type);

	return wanted && *wanted == nr;
}

/* The number of the system call that ends, of the registers that the tracepoint is told. */
BPF_INLINE __s64 ending_call(const user_regs *regs)
{
	__s64 nr = -1;

	bpf_probe_read_kernel(&nr, sizeof(nr), arch_syscall_at(regs));
	return nr;
}

/*
 * Programs of one value type. The kernel refuses one that reads an argument at a tracepoint that
 * has none, and up to 6.9 a program cannot ask which tracepoint called it.
 */
#define PROGRAMS(n)                                                                                \
	SEC("raw_tp")                                                                              \
	int on_tracepoint##n(void *ctx)                                                            \
	{                                                                                          \
		return hit(ctx, n);                                                                \
	}                                                                                          \
	SEC("raw_tp")                                                                              \
	int on_enter##n(struct bpf_raw_tracepoint_args *ctx)                                       \
	{                                                                                          \
		return is_call(n, (__s64)ctx->args[1]) ? hit(ctx, n) : 0;                          \
	}                                                                                          \
	SEC("raw_tp")                                                                              \
	int on_exit##n(struct bpf_raw_tracepoint_args *ctx)                                        \
	{                                                                                          \
		return is_call(n, ending_call((const user_regs *)ctx->args[0])) ? hit(ctx, n) : 0; \
	}

PROGRAMS(0)
PROGRAMS(1)
PROGRAMS(2)
PROGRAMS(3)

SEC("raw_tp")
int on_tracepoint(void *ctx)
{
	struct counters *c = the_counters();

	if (!c)
		return 0;
	const struct trigger t = {
		.kernel_ctx = ctx,
		.kernel_skip = 3, /* the program, bpf_trace_runN(), __bpf_trace_NAME() */
		.value = 1,
		.type = c->next_type,
	};

	c->n[BOUND(take(&t, c), COUNTER_SLOTS)]++;
	release_scratch(c);
	return 0;
}
