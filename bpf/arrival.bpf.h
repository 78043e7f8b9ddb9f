/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_ARRIVAL_H
#define PYPERF_ARRIVAL_H
/*
 * Beside the stages: what sched_switch tells sched_exit_tp, which comes right behind it on the same
 * CPU: that nothing is to be done, as after most switches.
 * Input:   the thread that comes.
 * Output:  arrivals.
 * Cost:    a look-up in an array at each of both, instead of one in a hash at the second.
 * Fails:   a switch that sched_switch did not report is looked at in full.
 */
#include "maps.bpf.h"

struct arrival {
	__u32 nr;  /* the thread that comes; 0: it was asked for, or is not known */
	__u32 due; /* there is something to do */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct arrival);
} arrivals SEC(".maps");

BPF_INLINE void note_arrival(__u32 nr, int due)
{
	__u32 zero = 0;
	struct arrival *a = bpf_map_lookup_elem(&arrivals, &zero);

	if (!a)
		return;
	a->nr = nr;
	a->due = (__u32)due;
}

/*
 * Has sched_switch seen this thread come, with nothing to do? It says so once, so that no earlier
 * switch answers for this one.
 */
BPF_INLINE int is_done_with(__u32 nr)
{
	__u32 zero = 0;
	struct arrival *a = bpf_map_lookup_elem(&arrivals, &zero);
	int seen = a && a->nr == nr;

	if (a)
		a->nr = 0;
	return seen && !a->due;
}

#endif /* PYPERF_ARRIVAL_H */
