// SPDX-License-Identifier: GPL-2.0-only
/*
 * The object of blocks: programs at the functions of the C library's allocator. Loaded when -e
 * alloc is asked for.
 *
 *	malloc() and the like	a block is requested. If it is sampled, its stack is taken, and its
 *				address when the function returns
 *	free()			if the block was sampled, it is forgotten
 *
 * One sample per so many bytes, at distances from an exponential distribution. So a block of s
 * bytes is sampled with the probability 1 - exp(-s / interval), whatever came before, and stands
 * for s / that many bytes: sums are right on average, for large blocks and for small ones.
 *
 * The programs are sessions (Linux 6.13): a program that returns 1 at the entry of a function does
 * not see its return, which costs as much again. A block that is not sampled costs one trap.
 *
 * user/ finds the sampled blocks that still exist when the window ends.
 *
 * The programs can be preempted, and samples interrupt them. As in the object of probes, a program
 * claims the scratch of its CPU before it takes a stack. A program that is preempted while it
 * counts bytes may count some twice, or not at all.
 *
 * Invariant: delivered = counted + filtered_* + lost_*, as in the sampler. A sampled block delivers
 * two: its bytes, and the number of such blocks.
 */
#include "shares.bpf.h"
#include "take.bpf.h"
#include "own_stack.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct blocks_cfg blocks_cfg = { .interval = 1 };

#define FRACTION_BITS 16
#define VALUES_DRAWN  2

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct block_cpu);
} block_cpus SEC(".maps");

/* user/ writes 1 to start sampling; until then calls are only counted. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} block_switch SEC(".maps");

/*
 * Thread -> its sampled block, until malloc() returns. LRU, because no event reports a thread that
 * ends in malloc().
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct block_val);
} drawn SEC(".maps");

/*
 * Sampled blocks that are not freed yet. Full, or too many of one user: note_memory_full, and the
 * block counts as freed.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, BLOCK_ENTRIES);
	__type(key, struct block_key);
	__type(value, struct block_val);
} blocks SEC(".maps");

/* Whose the entries of `blocks` are. BPF and user/ count what they add and take out. */
SHARES_MAP(block_shares);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u8[BLOCK_MARKS]);
} block_marks SEC(".maps");

BPF_INLINE struct block_cpu *the_block_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&block_cpus, &zero);
}

BPF_INLINE int is_on(void)
{
	__u32 zero = 0;
	const __u32 *on = bpf_map_lookup_elem(&block_switch, &zero);

	return on && *on;
}

BPF_INLINE __u8 *block_mark(__u64 addr)
{
	__u32 zero = 0;
	__u8 *marks = bpf_map_lookup_elem(&block_marks, &zero);

	return marks ? &marks[BOUND(BLOCK_MARK(addr), BLOCK_MARKS)] : NULL;
}

/* ---- sampling -------------------------------------------------------------------------------- */

/* The binary logarithm of a number that is not 0, as a fraction. */
BPF_INLINE __u64 log2_of(__u32 n)
{
	__u32 whole = 0, m = n;

	for (__u32 step = 16; step; step >>= 1) {
		if (m >> step) {
			m >>= step;
			whole += step;
		}
	}
	m = (__u32)(((__u64)n << 32) >> whole >> 24); /* the eight bits behind the first one */
	return ((__u64)whole << FRACTION_BITS) + blocks_cfg.log2[BOUND(m, BLOCK_LOGS)];
}

/* Bytes until the next sample: -interval * ln(u), u evenly between 0 and 1. */
BPF_INLINE __s64 next_gap(void)
{
	__u64 log = log2_of(bpf_get_prandom_u32() | 1);
	__u64 most = 32ULL << FRACTION_BITS;

	return log < most ? (__s64)((most - log) * blocks_cfg.gap >> FRACTION_BITS) : 0;
}

/* Is a block of this size sampled? */
BPF_INLINE int is_drawn(struct block_cpu *b, __u64 size)
{
	if (!b->begun) {
		b->begun = 1;
		b->left = next_gap();
	}
	b->left -= (__s64)size;
	if (b->left >= 0)
		return 0;
	b->left = next_gap();
	return 1;
}

/* The bytes that a sampled block stands for, interpolated between two known values. */
BPF_INLINE __u64 worth_of(__u64 size)
{
	__u64 at, low, high, interval = blocks_cfg.interval;
	__u32 i;

	if (size >> 3 >= interval) /* sampled nearly always */
		return size;
	at = (size << (FRACTION_BITS + BLOCK_WORTH_SHIFT)) / interval;
	i = (__u32)(at >> FRACTION_BITS);
	low = blocks_cfg.worth[BOUND(i, BLOCK_WORTHS)];
	high = blocks_cfg.worth[BOUND(i, BLOCK_WORTHS) + 1];
	low += ((high - low) * (at & ((1 << FRACTION_BITS) - 1))) >> FRACTION_BITS;
	return low * interval >> FRACTION_BITS;
}

/*
 * The number of blocks of this size in `bytes`; rounds a fraction up or down at random, by its
 * size.
 */
BPF_INLINE __u64 objects_of(__u64 bytes, __u64 size)
{
	__u64 whole = bytes / size, rest = bytes % size;
	__u32 draw = bpf_get_prandom_u32();

	/* Both below 1 << 31 where it matters: a larger block is worth its size. */
	return whole + ((((__u64)draw) * size >> 32) < rest);
}

/* ---- the calls ------------------------------------------------------------------------------- */

#define BLOCK_NONE (~0ULL) /* the call fails, or calls another function that is probed */

BPF_INLINE __u64 calloc_size(__u64 cnt, __u64 size)
{
	return (cnt | size) >> 32 ? BLOCK_NONE : cnt * size;
}

/* glibc's own calls of malloc() hit the breakpoint there. */
BPF_INLINE __u64 size_asked(const struct pt_regs *r, __u64 word)
{
	__u64 glibc = word & BLOCK_GLIBC;

	switch (BLOCK_CALL(word)) {
	case BLOCK_MALLOC:
		return arch_reg(r, ARCH_REG_ARG0);
	case BLOCK_CALLOC:
		return calloc_size(arch_reg(r, ARCH_REG_ARG0), arch_reg(r, ARCH_REG_ARG1));
	case BLOCK_REALLOC:
		return glibc && !arch_reg(r, ARCH_REG_ARG0) ? BLOCK_NONE
							    : arch_reg(r, ARCH_REG_ARG1);
	case BLOCK_ALIGNED:
		return glibc && !(arch_reg(r, ARCH_REG_ARG0) >> (BLOCK_LEAST_BITS + 1))
			       ? BLOCK_NONE
			       : arch_reg(r, ARCH_REG_ARG1);
	case BLOCK_POSIX:
		return glibc && !(arch_reg(r, ARCH_REG_ARG1) >> (BLOCK_LEAST_BITS + 1))
			       ? BLOCK_NONE
			       : arch_reg(r, ARCH_REG_ARG2);
	}
	return BLOCK_NONE;
}

/* Forgets a sampled block that is freed or whose address is used again. */
BPF_INLINE void forget_block(__u64 addr)
{
	const __u8 *mark = block_mark(addr);
	const struct block_val *val;
	struct block_key key = {};
	__u32 slot;

	if (!mark || !*mark)
		return;
	key.addr = addr;
	key.tgid = (__u32)(bpf_get_current_pid_tgid() >> 32);
	val = bpf_map_lookup_elem(&blocks, &key);
	if (!val)
		return;
	slot = val->slot;
	share_delete(&blocks, &key, shares_of(&block_shares), slot);
}

/* 0, or an error: there is no room, or too many are of this user. */
BPF_INLINE int put_block(const struct block_key *at, struct block_val *val)
{
	const struct block_val *old = bpf_map_lookup_elem(&blocks, at);

	if (old) {
		val->slot = old->slot;
		return bpf_map_update_elem(&blocks, at, val, BPF_EXIST);
	}
	val->slot = share_slot(current_task());
	return share_insert(&blocks, at, val, shares_of(&block_shares), val->slot, BLOCK_ENTRIES);
}

/* The function returns: notes the address of the sampled block. */
BPF_NOINLINE int keep_block(__u64 returned)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct block_val *val = bpf_map_lookup_elem(&drawn, &tid);
	struct block_key key = {};
	__u8 *mark;

	if (!val)
		return 0;
	key.addr = returned;
	key.tgid = val->tgid;
	if (val->out && (returned || read_user(&key.addr, sizeof(key.addr), val->out)))
		key.addr = 0;
	mark = block_mark(key.addr);
	if (key.addr && mark && val->window == (active_window & 1)) {
		*mark = 1;
		if (put_block(&key, val))
			stat_inc(CTR_note_memory_full);
	}
	bpf_map_delete_elem(&drawn, &tid);
	return 0;
}

/* Counts a call, and samples its block. 1: it is not sampled, or there is no room. */
BPF_INLINE int look_at_call(struct pt_regs *ctx, __u64 word, struct block_cpu *b)
{
	const user_regs *r = (const user_regs *)ctx;
	__u64 size = size_asked(r, word);
	struct counters *c = the_counters();

	if (size == BLOCK_NONE)
		return 1;
	size += !size;			    /* malloc(0) makes a block, too */
	__sync_fetch_and_add(&b->calls, 1); /* this program can be preempted by itself */
	__sync_fetch_and_add(&b->bytes, size);
	if (!is_on() || !is_drawn(b, size) || !c || !claim_delivered(c, VALUES_DRAWN))
		return 1;
	b->size = size;
	b->out = BLOCK_CALL(word) == BLOCK_POSIX ? arch_reg(r, ARCH_REG_ARG0) : 0;
	enter_sampler(ctx, c, VALUES_DRAWN);
	return 1;
}

/*
 * user/ loads this program and the next as BPF_TRACE_UPROBE_SESSION. 1: do not call it at the
 * return.
 */
SEC("uprobe")
int on_block(struct pt_regs *ctx)
{
	const user_regs *r = (const user_regs *)ctx;
	__u64 word = bpf_get_attach_cookie(ctx);
	struct block_cpu *b = the_block_cpu();

	if (!b)
		return 1;
	/* at the return, the kernel has set pc to the return address */
	if (arch_pc(r) != bpf_get_func_ip(ctx)) {
		keep_block(arch_reg(r, ARCH_REG_RETURN));
		return 0;
	}
	if (BLOCK_CALL(word) == BLOCK_FREE) {
		__sync_fetch_and_add(&b->frees, 1);
		forget_block(arch_reg(r, ARCH_REG_ARG0));
		return 1;
	}
	if (BLOCK_CALL(word) == BLOCK_REALLOC)
		forget_block(arch_reg(r, ARCH_REG_ARG0));
	return look_at_call(ctx, word, b);
}

/* ---- its stack ------------------------------------------------------------------------------- */

/* Counts the number of blocks for the same stack as the bytes, and waits for the address. */
BPF_NOINLINE __u32 note_drawn(__u32 window)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	const struct block_cpu *b = the_block_cpu();
	struct walk *w = the_walk();
	struct block_val val = { .window = window };
	struct count_key key = {};

	if (!b || !w)
		return CTR_lost_internal;
	w->count.type = blocks_cfg.object_type;
	if (name_stack(&key))
		return CTR_lost_internal;
	val.bytes = w->count.value;
	val.objects = objects_of(val.bytes, b->size);
	val.stack = COUNT_HASH(key.stack);
	val.space = key.space;
	val.thread = key.thread;
	val.out = b->out;
	val.tgid = (__u32)(bpf_get_current_pid_tgid() >> 32);
	bpf_map_update_elem(&drawn, &tid, &val, BPF_ANY);
	return add_value(window, &key, val.objects);
}

/* Tail-called for a sampled block. 0: call it at the return, too. */
SEC("uprobe")
int on_drawn(struct pt_regs *ctx)
{
	const struct block_cpu *b = the_block_cpu();
	struct counters *c = the_counters();
	__u32 verdict, window = active_window & 1;
	struct trigger t = {
		.regs = (const user_regs *)ctx,
		.kernel_ctx = ctx,
		.type = blocks_cfg.space_type,
	};

	KEEP_OWN_STACK(ctx);
	if (!b || !c)
		return 1;
	t.value = worth_of(b->size);
	verdict = take(&t, c);
	c->n[BOUND(verdict, COUNTER_SLOTS)]++;
	if (verdict != CTR_counted) {
		c->n[BOUND(verdict, COUNTER_SLOTS)]++;
		release_scratch(c);
		return 1;
	}
	c->n[BOUND(note_drawn(window), COUNTER_SLOTS)]++;
	release_scratch(c);
	return 0;
}
