// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's own walk of a user stack, by frame pointers, for comparison: see bench_getstack.c.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <bpf/bpf_helpers.h>

#define FRAMES 127

struct words {
	__u64 word[FRAMES];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct words);
} words SEC(".maps");

__u64 frames, samples, helper_ns;

char LICENSE[] SEC("license") = "GPL";

SEC("perf_event")
int on_sample(struct bpf_perf_event_data *ctx)
{
	__u32 zero = 0;
	struct words *w = bpf_map_lookup_elem(&words, &zero);
	__u64 begin = bpf_ktime_get_ns();
	long size;

	if (!w)
		return 0;
	size = bpf_get_stack(ctx, w->word, sizeof(w->word), BPF_F_USER_STACK);
	if (size <= 0)
		return 0;
	__sync_fetch_and_add(&helper_ns, bpf_ktime_get_ns() - begin);
	__sync_fetch_and_add(&frames, (__u64)size / 8);
	__sync_fetch_and_add(&samples, 1);
	return 0;
}
