// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A breakpoint that does nothing: what the trap and the call of a BPF program cost. See
 * bench_trap.c.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("uprobe")
int on_hit(void *ctx)
{
	(void)ctx;
	return 0;
}
