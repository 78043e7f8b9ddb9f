/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_PROBE_COST_H
#define PYPERF_PROBE_COST_H
/*
 * Notes the hits of breakpoints by process, so that user space can judge what they cost
 * (user/trace/probe_price.h).
 * Input:   the current process; measuring, which user/ sets.
 * Output:  probe_costs.
 * Cost:    a look-up per hit, while it is measured.
 * Fails:   table full: hits of further processes are not noted, so their rate is not judged.
 */
#include "kernel_types.bpf.h"

/*
 * process -> its hits, while `measuring`. BPF adds, user/ reads; never deleted. 1,024 processes, of
 * 32 bytes each or so.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROBE_PROCESSES);
	__type(key, __u32);
	__type(value, struct probe_cost);
} probe_costs SEC(".maps");

/* Set by user space: the rate is measured now. */
__u32 measuring;

/* Each hit has its trap, whatever becomes of it. */
BPF_INLINE void note_cost(__u32 is_stepped)
{
	__u32 tgid = (__u32)(bpf_get_current_pid_tgid() >> 32);
	struct probe_cost none = {}, *cost;

	if (!*(volatile __u32 *)&measuring)
		return;
	cost = bpf_map_lookup_elem(&probe_costs, &tgid);
	if (!cost) {
		bpf_map_update_elem(&probe_costs, &tgid, &none, BPF_NOEXIST);
		cost = bpf_map_lookup_elem(&probe_costs, &tgid);
	}
	if (cost)
		__sync_fetch_and_add(is_stepped ? &cost->stepped : &cost->emulated, 1);
}

#endif /* PYPERF_PROBE_COST_H */
