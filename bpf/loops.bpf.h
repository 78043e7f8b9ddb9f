/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_LOOPS_BPF_H
#define PYPERF_LOOPS_BPF_H
/*
 * Beside the stages: the iterations of event loops. A stretch is what a thread does between two
 * waits in its poll: from the switch to the thread, after a wait, to its switch away in the next
 * one. A poll that need not wait is not seen, so iterations without a wait make one stretch.
 *
 * A thread has one poll. Code that the loop calls may wait in others: a socket with a timeout waits
 * in poll(). So epoll goes before poll() and select(), and of two epoll descriptors that one is
 * the loop's which is waited for; after LOOP_OTHERS waits in another one, that is.
 *
 * Input:   switches of threads that poll; stacks that were taken meanwhile.
 * Output:  struct loop_thread.
 * Cost:    a look-up for each wait in a poll and for each stack; at the end of a stretch that is
 *          among the longest, a copy of 120 bytes.
 * Fails:   no room: note_loops_full.
 */
#include "take.bpf.h"
#include "shares.bpf.h"

/* ---- what runs in a stretch ------------------------------------------------------------------ */

BPF_INLINE int loop_counts(__u32 type)
{
	return cfg.loop_types >> (type % SAMPLED_MAX) & 1;
}

BPF_INLINE void add_loop_stack(struct loop_stretch *s, __u64 stack, __u64 ns)
{
	__u32 least = 0;

	for (__u32 i = 0; i < LOOP_STACKS; i++) {
		struct loop_stack *at = &s->stacks[i];

		if (!at->stack || at->stack == stack) {
			at->stack = stack;
			at->ns += ns;
			return;
		}
		if (at->ns < s->stacks[least % LOOP_STACKS].ns)
			least = i;
	}
	s->other_ns += s->stacks[least % LOOP_STACKS].ns;
	s->stacks[least % LOOP_STACKS].stack = stack;
	s->stacks[least % LOOP_STACKS].ns = ns;
}

/*
 * The stack that was taken last counts so much, in the stretch of the current thread. A sample may
 * come in the middle of another program's addition for the same thread: then a number is wrong by
 * one stack, no more.
 */
BPF_NOINLINE int note_in_loop(__u32 nr, __u64 ns)
{
	struct loop_thread *l = bpf_map_lookup_elem(&loops, &nr);
	__u64 stack = taken_stack();

	if (l && stack && l->now.begin_ns)
		add_loop_stack(&l->now, stack, ns);
	return 0;
}

/* The stack that was taken last is that of the current thread's poll. */
BPF_NOINLINE int note_poll(__u32 nr)
{
	struct loop_thread *l = bpf_map_lookup_elem(&loops, &nr);

	if (l)
		l->poll_stack = taken_stack();
	return 0;
}

/* ---- where it begins and ends ---------------------------------------------------------------- */

/* The binary logarithm of microseconds. */
BPF_INLINE __u32 loop_bucket(__u64 ns)
{
	__u64 us = ns / 1000;
	__u32 log = 0;

	for (__u32 bits = 32; bits; bits /= 2)
		if (us >> bits) {
			us >>= bits;
			log += bits;
		}
	return log < LOOP_BUCKETS ? log : LOOP_BUCKETS - 1;
}

/* The shortest of those that are kept, which are LOOP_LONGEST. */
BPF_INLINE __u32 shortest_kept(const struct loop_thread *l, __u64 *ns)
{
	__u32 at = 0;

	*ns = ~0ULL;
	for (__u32 i = 0; i < LOOP_LONGEST; i++) {
		__u64 len = l->longest[i].end_ns - l->longest[i].begin_ns;

		if (len < *ns) {
			*ns = len;
			at = i;
		}
	}
	return at;
}

/* It is longer than l->least_ns. A function of its own: verified once. */
BPF_NOINLINE int keep_stretch(__u32 nr)
{
	struct loop_thread *l = bpf_map_lookup_elem(&loops, &nr);
	__u32 at;
	__u64 ns;

	if (!l)
		return 0;
	at = l->longest_cnt < LOOP_LONGEST ? l->longest_cnt++ : shortest_kept(l, &ns);
	if (at < LOOP_LONGEST)
		l->longest[at] = l->now;
	if (l->longest_cnt == LOOP_LONGEST) {
		shortest_kept(l, &ns);
		l->least_ns = ns;
	}
	return 0;
}

BPF_INLINE __u32 loop_window(void)
{
	const struct shares *s = shares_of(&loop_shares);

	return s ? s->window : 0;
}

/* Those of an earlier window have been read, or nobody wants them. */
BPF_INLINE void begin_window(struct loop_thread *l)
{
	__u32 window = loop_window();

	if (l->window == window)
		return;
	l->window = window;
	l->longest_cnt = 0;
	l->least_ns = 0;
}

BPF_NOINLINE int end_stretch(__u32 nr, __u64 now)
{
	struct loop_thread *l = bpf_map_lookup_elem(&loops, &nr);
	__u64 ns;

	if (!l || !l->now.begin_ns)
		return 0;
	l->now.end_ns = now;
	ns = now - l->now.begin_ns;
	l->cnt++;
	l->busy_ns += ns;
	l->hist[BOUND(loop_bucket(ns), LOOP_BUCKETS)]++;
	if (ns >= LOOP_SLOW_NS) {
		l->slow_cnt++;
		l->slow_ns += ns;
	}
	begin_window(l);
	if (ns > l->least_ns)
		keep_stretch(nr);
	__builtin_memset(&l->now, 0, sizeof(l->now));
	return 0;
}

/* The thread comes back from its poll. */
BPF_NOINLINE int begin_stretch(__u32 nr, __u64 now)
{
	struct loop_thread *l = bpf_map_lookup_elem(&loops, &nr);

	if (l)
		l->now.begin_ns = now;
	return 0;
}

/* The thread ends. What it did after its last poll is no iteration. */
BPF_INLINE void end_loop(__u32 nr)
{
	struct loop_thread *l = bpf_map_lookup_elem(&loops, &nr);

	if (!l)
		return;
	l->now.begin_ns = 0;
	l->ended = 1;
}

/*
 * The thread goes on in another program, whose loops are none of the old one's. What it did is kept
 * as that of a thread that has ended, and user/ takes it out. Where that finds no room, the new
 * program has no iterations until user/ has read the old ones.
 */
BPF_NOINLINE int replace_loop(__u32 nr)
{
	struct loop_thread *l = bpf_map_lookup_elem(&loops, &nr);
	__u32 replaced = nr | LOOP_REPLACED;

	if (!l || l->ended)
		return 0;
	l->now.begin_ns = 0;
	if (bpf_map_update_elem(&loops, &replaced, l, BPF_NOEXIST)) {
		l->ended = 1;
		return 0;
	}
	bpf_map_delete_elem(&loops, &nr);
	l = bpf_map_lookup_elem(&loops, &replaced);
	if (l)
		l->ended = 1; /* last: from here on user/ may take it out */
	return 0;
}

#endif /* PYPERF_LOOPS_BPF_H */
