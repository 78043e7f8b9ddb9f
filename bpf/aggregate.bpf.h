/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_AGGREGATE_H
#define PYPERF_AGGREGATE_H
/*
 * Stage 4: intern the stack by content, add to its count. Two steps, so that a value can be added
 * to a stack that was interned earlier.
 * Input:   DEEP_FRAMES, the key's process and thread.
 * Output:  counts of the active window, and its chunks when the stack is new.
 * Cost:    a hash over the words and one look-up; a new stack: one insertion per new chunk.
 * Fails:   tables full: the sample is lost, and counted as such.
 *
 * In NMI context (CFG_NMI) nothing is inserted: bucket locks may be held by what was interrupted. A
 * new stack goes to user space as it is, which adds it to the window and makes room for it in the
 * counts.
 *
 * A count is added only after all chunks of its stack are there, so a drained window is closed:
 * every stack that is counted can be read.
 */
#include "maps.bpf.h"
#include "codes.bpf.h" /* mix64() */

BPF_INLINE __u64 final64(__u64 h) /* every input bit reaches every output bit */
{
	h ^= h >> 33;
	h *= 0xff51afd7ed558ccdULL; /* MurmurHash3's finaliser constants */
	h ^= h >> 33;
	h *= 0xc4ceb9fe1a85ec53ULL;
	return h ^ (h >> 33);
}

/* The frames of the merged stack: where they begin in the_deep(), and the mask of an index. */
struct merged {
	const __u64 *frames;
	__u32 mask;
};

BPF_INLINE struct merged merged_frames(const __u64 *deep)
{
	return (struct merged){ &deep[DEEP_FRAMES * deep_parts()], 2 * deep_parts() - 1 };
}

/*
 * Word i of the chunk whose outermost frame is number `top` - 1 from the innermost; 0, which no
 * word is: there is none.
 */
BPF_INLINE __u64 chunk_word(const struct merged *m, __u32 top, __u32 i)
{
	/* A mask, not a branch: the verifier would follow both ways for each word. */
	__s64 past = (__s64)i - (__s64)top;
	__u32 at = top - i - 1;

	__asm__ volatile("" : "+r"(past), "+r"(at)); /* or clang makes it a branch: see BOUND() */
	return m->frames[at & m->mask] & (__u64)(past >> 63);
}

/* The hash of the chunk outwards of chunk k; 0: k is the outermost. */
BPF_INLINE __u64 parent_hash(const __u64 *deep, __u32 k)
{
	return deep[deep_hash(k - 1)] & (is_zero(k) - 1);
}

/*
 * Chunk k holds the frames [cnt - 16 k - 16, cnt - 16 k) of the innermost-first array, and so the
 * k-th sixteen from the root.
 */
BPF_NOINLINE int hash_chunk(__u32 k)
{
	struct stack *st = the_stack();
	__u64 *deep = the_deep(), a, b, c, d;
	struct merged m;
	__u32 top;

	if (!st || !deep || k * CHUNK_FRAMES >= st->cnt)
		return 1;
	m = merged_frames(deep);
	a = parent_hash(deep, k) + (is_zero(k) * cfg.hash_seed);
	b = ~a;
	c = a << 32 | a >> 32;
	d = ~c;
	top = st->cnt - k * CHUNK_FRAMES;
	for (__u32 i = 0; i < CHUNK_FRAMES; i += 4) { /* four lanes: the multiplications overlap */
		a = mix64(a, chunk_word(&m, top, i));
		b = mix64(b, chunk_word(&m, top, i + 1));
		c = mix64(c, chunk_word(&m, top, i + 2));
		d = mix64(d, chunk_word(&m, top, i + 3));
	}
	a = mix64(mix64(mix64(a, b), c), d);
	deep[deep_hash(k)] = COUNT_HASH(final64(a)) | 1; /* never 0, which ends a chain */
	return 0;
}

BLOCK_STEPS(hash_block, hash_chunk)

BPF_NOINLINE int hash_stack(NO_ARG)
{
	RUN_BLOCKS(hash_block, 2 * deep_parts() / CHUNK_FRAMES);
	return 0;
}

/* Stores chunk k in the active window unless it is there. 0: go on. */
BPF_NOINLINE int store_chunk(__u32 k, __u32 window)
{
	struct out_scratch *o = the_out();
	const __u64 *deep = the_deep();
	struct merged m;
	struct chunk *c;
	__u64 key;
	__u32 top;
	int err;

	if (!o || !deep || k * CHUNK_FRAMES >= o->stack.cnt)
		return 1;
	c = &o->chunk;
	c->parent = parent_hash(deep, k);
	m = merged_frames(deep);
	top = o->stack.cnt - k * CHUNK_FRAMES;
	c->cnt = (__u32)choose(not_above(top, CHUNK_FRAMES), top, CHUNK_FRAMES);
	for (__u32 i = 0; i < CHUNK_FRAMES; i++)
		c->frames[i] = chunk_word(&m, top, i);
	key = deep[deep_hash(k)];
	err = window ? bpf_map_update_elem(&chunks1, &key, c, BPF_NOEXIST)
		     : bpf_map_update_elem(&chunks0, &key, c, BPF_NOEXIST);
	if (!err)
		chunks_added[window & 1]++;
	return err && err != E_EXIST ? E_2BIG : 0;
}

/* BLOCK chunks from `first` on. 0: go on; 1: all are stored; negative: there is no room. */
BPF_NOINLINE int store_block(__u32 first, __u32 window)
{
	for (__u32 i = 0; i < BLOCK; i++) {
		int err = store_chunk(first + i, window);

		if (err)
			return err;
	}
	return 0;
}

/*
 * Stores the chunks of the merged stack that name_stack() has named. 0, or negative: there is no
 * room.
 */
BPF_NOINLINE int intern_stack(__u32 window)
{
	for (__u32 k = 0; k < 2 * deep_parts() / CHUNK_FRAMES / BLOCK; k++) {
		int err = store_block(k * BLOCK, window);

		if (err)
			return err < 0 ? err : 0;
	}
	return 0;
}

BPF_INLINE struct count_val *find_count(__u32 window, const struct count_key *key)
{
	return window ? bpf_map_lookup_elem(&counts1, key) : bpf_map_lookup_elem(&counts0, key);
}

BPF_INLINE void add_count(struct count_val *count, __u64 value)
{
	__sync_fetch_and_add(&count->samples, 1);
	__sync_fetch_and_add(&count->value, value);
}

BPF_INLINE int new_count(__u32 window, const struct count_key *key, __u64 value)
{
	struct count_val val = { .samples = 1, .value = value };
	int err = window ? bpf_map_update_elem(&counts1, key, &val, BPF_NOEXIST)
			 : bpf_map_update_elem(&counts0, key, &val, BPF_NOEXIST);

	if (!err)
		counts_added[window & 1]++;
	return err;
}

/*
 * Wakes user space once when one of the window's tables is nearly full: many threads with few
 * stacks fill the counts before the chunks. If the ring has no room, user space notices at its next
 * tick.
 */
BPF_INLINE void ask_for_drain(__u32 window, __u32 chunks_before, __u32 counts_before)
{
	struct ev_proc ev = { .type = EV_DRAIN, .space = window };
	__u32 chunks = chunks_added[window & 1], counts = counts_added[window & 1];

	if ((chunks_before < cfg.chunks_wake && chunks >= cfg.chunks_wake) ||
	    (counts_before < cfg.counts_wake && counts >= cfg.counts_wake))
		bpf_ringbuf_output(&events, &ev, sizeof(ev), BPF_RB_FORCE_WAKEUP);
}

#define EV_STACK_WORDS	(sizeof(struct ev_stack) / 8)
#define HAND_OVER_TRIES 4

/*
 * Sends the stack with its key to user space. The header is written in front of the words, into a
 * part of `deep` that is not needed any more. In NMI, up to 6.14, the ring's lock is only tried;
 * another CPU holds it for some 50 ns.
 */
BPF_INLINE __u32 hand_over(const struct count_key *key, __u64 value, __u32 cnt)
{
	__u64 *deep = the_deep(), size = sizeof(struct ev_stack) + (__u64)cnt * 8;
	struct ev_stack *ev;
	int err = -1;

	__asm__ volatile(""
			 : "+r"(size)); /* verifier: the bound is of the register that is passed */
	if (!deep || size > sizeof(*ev) + 2ULL * 8 * deep_parts())
		return CTR_lost_internal;
	ev = (struct ev_stack *)&deep[DEEP_FRAMES * deep_parts() - EV_STACK_WORDS];
	ev->type = EV_STACK;
	ev->cnt = cnt;
	ev->key = *key;
	ev->value = value;
	for (int i = 0; i < HAND_OVER_TRIES && err; i++)
		err = bpf_ringbuf_output(&misses, ev, size, 0);
	if (err)
		return CTR_lost_nmi_miss;
	stat_inc(CTR_note_handed_over);
	return CTR_counted;
}

/* Fills in the key of the merged stack. Afterwards `deep` has the hash of each of its chunks. */
BPF_INLINE int name_stack(struct count_key *key)
{
	const struct walk *w = the_walk();
	const struct stack *st = the_stack();
	const __u64 *deep = the_deep();
	__u32 last;

	if (!w || !st || !deep)
		return E_INVAL;
	key->space = w->thread.space;
	if (cfg.flags & CFG_THREADS)
		key->thread = THREAD_WORD(w->thread.tid, w->tstate.interp_id);
	hash_stack(0);
	last = st->cnt ? (st->cnt - 1) / CHUNK_FRAMES : 0;
	key->stack = COUNT_WORD(deep[deep_hash(last)], w->count.type % SAMPLED_MAX);
	return 0;
}

/*
 * Adds to the count of a stack whose chunks are in the window, put there by name_stack() and
 * intern_stack() now or earlier. Returns the counter to increment: counted, or why not.
 */
BPF_INLINE __u32 add_value(__u32 window, const struct count_key *key, __u64 value)
{
	struct count_val *count = find_count(window, key);

	if (!count && !new_count(window, key, value))
		return CTR_counted;
	if (!count)
		count = find_count(window, key); /* another CPU was first, or the table is full */
	if (!count)
		return CTR_lost_counts_full;
	add_count(count, value);
	return CTR_counted;
}

/*
 * Adds a stack that has no count in the window: first its chunks, so that every counted stack can
 * be read.
 */
BPF_INLINE __u32 add_stack(__u32 window, const struct count_key *key, __u64 value)
{
	__u32 chunks_before = chunks_added[window & 1], counts_before = counts_added[window & 1];
	__u32 verdict = CTR_lost_chunks_full;

	if (!intern_stack(window))
		verdict = add_value(window, key, value);
	ask_for_drain(window, chunks_before, counts_before);
	return verdict;
}

/*
 * Adds w->count.value to the count of the merged stack. Returns the counter to increment. A
 * function of its own, so that its variables do not use BPF stack during the walks.
 */
BPF_NOINLINE int aggregate(NO_ARG)
{
	struct count_key key = {};
	__u32 window = active_window & 1;
	const struct walk *w = the_walk();
	const struct stack *st = the_stack();
	struct count_val *count;

	if (!w || !st || name_stack(&key))
		return CTR_lost_internal;
	count = find_count(window, &key);
	if (!count)
		return cfg.flags & CFG_NMI ? hand_over(&key, w->count.value, st->cnt)
					   : add_stack(window, &key, w->count.value);
	add_count(count, w->count.value);
	return CTR_counted;
}

#endif /* PYPERF_AGGREGATE_H */
