/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_PROBE_COST_H
#define PYPERF_PROBE_COST_H
/*
 * Notes the hits of breakpoints by process, so that user space can judge what they cost
 * (user/trace/probe_price.h).
 * Input:   the current process; measuring and probe_namespace, which user/ sets.
 * Output:  probe_costs.
 * Cost:    a look-up per hit, while it is measured.
 * Fails:   table full: hits of further processes are not noted, so their rate is not judged.
 */
#include "taskinfo.bpf.h"

const volatile struct probe_namespace probe_namespace = {};

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
	struct probe_cost none = {}, *cost;
	__u32 tgid;

	if (!*(volatile __u32 *)&measuring)
		return;
	tgid = (__u32)(task_within(probe_namespace.dev, probe_namespace.inum,
				   probe_namespace.level) >>
		       32);
	cost = bpf_map_lookup_elem(&probe_costs, &tgid);
	if (!cost) {
		bpf_map_update_elem(&probe_costs, &tgid, &none, BPF_NOEXIST);
		cost = bpf_map_lookup_elem(&probe_costs, &tgid);
	}
	if (cost)
		__sync_fetch_and_add(is_stepped ? &cost->stepped : &cost->emulated, 1);
}

#endif /* PYPERF_PROBE_COST_H */
