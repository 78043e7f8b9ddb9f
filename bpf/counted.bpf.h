/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef PYPERF_COUNTED_H
#define PYPERF_COUNTED_H
/*
 * Takes the part of a wait that user/ has counted, while user/ may put a longer one in its place.
 *
 * Since Linux 6.1 the place of an element that was replaced is used again at once (bpf_mem_alloc of
 * hash tables), for the part of any thread. What was looked up may be that of another thread by
 * then, as a hypervisor may let a CPU stand between two instructions. So it counts only if it is
 * still this wait's when it has been read, and what is written then, wherever it comes, means
 * nothing in the part of another wait.
 * Input:   counted_part(): the element of a thread, or NULL; on the host a test supplies it.
 */
#include "seam.bpf.h"

#ifdef __bpf__

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WAIT_THREADS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct wait_counted);
} counted_waits SEC(".maps");

BPF_INLINE struct wait_counted *counted_part(__u32 tid)
{
	return bpf_map_lookup_elem(&counted_waits, &tid);
}

#else

struct wait_counted *counted_part(__u32 tid);

#endif /* __bpf__ */

#define COUNTED_LOOKS 2 /* user/ replaces the parts of a thread once a quarter second at most */

/* Up to when user/ has counted the wait of this thread that began at `out_ns`; 0: nothing of it. */
BPF_INLINE __u64 take_part(__u32 tid, __u64 out_ns)
{
	for (int i = 0; i < COUNTED_LOOKS; i++) {
		volatile struct wait_counted *part = counted_part(tid);
		__u64 until_ns;

		if (!part)
			return 0;
		until_ns = part->until_ns;
		if (part->out_ns != out_ns)
			continue;
		part->left_ns = out_ns;
		return until_ns;
	}
	return 0;
}

#endif /* PYPERF_COUNTED_H */
