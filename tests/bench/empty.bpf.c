// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A sampler that does nothing: what the timer and the call of a BPF program cost. See
 * bench_empty.c.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <bpf/bpf_helpers.h>

SEC("perf_event")
int on_sample(struct bpf_perf_event_data *ctx)
{
	(void)ctx;
	return 0;
}
