/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_TRACE_STATE_BPF_H
#define PYPERF_TRACE_STATE_BPF_H
/*
 * What the programs of trace.bpf.c have in common: the configuration, the maps, the counters.
 * Programs at breakpoints can be preempted by each other, so there is no scratch.
 */
#include "seam.bpf.h"
#include "kernel_types.bpf.h"
#include "taskinfo.bpf.h"
#include "own_stack.bpf.h"
#include "trace.h"

#define TRACE_UNSETTLED 4096

/* Not global: a kernel before 5.13 gives those no pointers to the stack (e5069b9c23b3). */
#define TRACE_NOINLINE	static __attribute__((noinline))

#define TRACE_REFUSED	16384 /* a power of two, as the next ones */
#define TRACE_STARTS	8192
#define TRACE_PLAIN	4096
#define TRACE_PROCESSES 16384

const volatile struct trace_cfg cfg = { .spot_cnt = 1 };

/* By spot. User space reads it. */
struct trace_way ways[TRACE_SPOTS];

/*
 * Code object -> its counts. BPF writes; user space writes to refuse one. Full: counted as
 * lost_full. 88 B each. Of many processes at once 262,144, without memory until they come; user
 * space removes those of processes that have ended.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct trace_key);
	__type(value, struct trace_count);
} codes SEC(".maps");

/*
 * Refused code objects, by mark_of(). BPF writes them when `codes` says so, and reads this first,
 * because an array costs less than a hash. A slot has the last code object that came; others are
 * looked up in `codes` again. 128 KiB.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TRACE_REFUSED);
	__type(key, __u32);
	__type(value, __u64);
} refused SEC(".maps");

/* Where a function begins or goes on in its bytecode. */
struct trace_start {
	__u64 code;	   /* with enum start_flag in the low bits */
	__u64 fingerprint; /* of its key in `codes` */
	__u64 mark;	   /* of all that, of where it is, and of co_version */
};

/*
 * By the address in the bytecode: what was found there. One read of the process tells whether it is
 * still there (known_start()). A slot has the last that came. 192 KiB.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TRACE_STARTS);
	__type(key, __u32);
	__type(value, struct trace_start);
} starts SEC(".maps");

/*
 * Code objects, by process, that are_plain(): not that of is_init_shim(), which is part of the
 * interpreter, so what is at another address never becomes it. A slot has the last that came. 32
 * KiB.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TRACE_PLAIN);
	__type(key, __u32);
	__type(value, __u64);
} plain SEC(".maps");

/*
 * Names of new code objects: struct trace_code. User space sleeps until it is half full, but for
 * its regular look. Full: the code object is TRACE_NAMELESS. 16 MiB where events are wanted.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} news SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct trace_counters);
} counters SEC(".maps");

/*
 * Events for user space, which pairs beginnings and ends. Full: counted in `lost`, and the next
 * event says so. 16 MiB, only if events are wanted (else a page).
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} events SEC(".maps");

/* Events without room. */
__u32 lost;

/*
 * Room for an event, which reads `lost` first: what is lost while the program is preempted between
 * the two, or before it fills the event, comes behind it in the ring. 0: there is no room.
 */
#define RESERVE_EVENT(size, before)                                                                \
	({                                                                                         \
		void *event_;                                                                      \
                                                                                                   \
		*(before) = *(volatile __u32 *)&lost;                                              \
		event_ = bpf_ringbuf_reserve(&events, size, 0);                                    \
		if (!event_)                                                                       \
			__sync_fetch_and_add(&lost, 1);                                            \
		event_;                                                                            \
	})

/*
 * User space sets it when the trace is over: removing all breakpoints can take seconds, and calls
 * meanwhile belong to no rate.
 */
__u32 over;

/*
 * Thread -> the frame that it runs: until the register is known that has the frame where functions
 * end. Full: nothing is learned from the thread; of many processes at once the least recently used
 * entry goes. 32 B each.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u64);
} running SEC(".maps");

/*
 * Up to 3.10: place where the eval function was entered -> the frame. Deleted where it is left, and
 * of many processes at once by user space when a process has ended. Full: the end of that call is
 * not seen. 64 B each.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct trace_entry);
	__type(value, __u64);
} frames_by_sp SEC(".maps");

/*
 * Thread -> its PyThreadState at its last exception. Full: the least recently used entry goes. 64 B
 * each.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64);
} states SEC(".maps");

/*
 * Thread -> the collection that it is in. Deleted at its end. Full: the collection is not seen.
 * 64 B each.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct trace_collecting);
} collecting SEC(".maps");

/* Hits are noted by process: many are traced at once. */
const volatile __u32 by_process;

/*
 * Process -> hits in it, whatever becomes of them. Full: the least recently used entry goes. 64 B
 * each; a single entry if `by_process` is not set.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, TRACE_PROCESSES);
	__type(key, __u32);
	__type(value, __u64);
} process_hits SEC(".maps");

/*
 * What runs inside of cfg.from. An entry is replaced when its frame begins again, so those that an
 * exception or the end of a process leaves do no harm. Full: the least recently used entry goes.
 * 96 B each, only if it is wanted (else one entry).
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct trace_inside_key);
	__type(value, struct trace_inside);
} inside SEC(".maps");

/* By spot: the registers that have held the frame at each hit for which it was known. */
__u32 candidates[TRACE_SPOTS];

/* The same of the next instruction, where functions begin. */
__u32 pointers[TRACE_SPOTS];

/* Number of further beginnings to note in `running`, because some spot is still to be learned. */
__u32 unsettled = TRACE_UNSETTLED;

/* A function that begins or continues. */
struct place {
	__u64 frame;
	__u64 code;
	__u64 type;	   /* PyCode_Type, in this process */
	__u64 instr;	   /* where its bytecode begins or goes on; 0: not known */
	__u64 fingerprint; /* of its key in `codes` */
	/* Small, because the BPF stack is: 512 bytes. */
	__u8 resumed;
	__u8 other;   /* it is another opcode */
	__u8 refused; /* it was found in `starts` or `refused` */
	__u8 callee;  /* not wanted itself, but called by what is */
	__u8 from;    /* trace_count.from */
	__u8 sent;    /* with cfg.from: it is wanted, if it is inside */
	__u8 opcode;  /* in memory: a form of RESUME, or what stands in its place */
};

/* Preemptible: two programs of one CPU may meet here. */
BPF_INLINE void count(enum trace_counter which)
{
	__u32 zero = 0;
	struct trace_counters *c = bpf_map_lookup_elem(&counters, &zero);

	if (c)
		__sync_fetch_and_add(&c->n[which], 1);
}

/* Global, so that the verifier checks it once, not wherever this_task() is. */
BPF_NOINLINE __u64 task_of_namespace(void)
{
	return task_seen_from(cfg.pidns_dev, cfg.pidns_inum, cfg.pidns_level);
}

/* The process and, in the low half, its thread, as the caller's PID namespace sees them. */
BPF_INLINE __u64 this_task(void)
{
	return cfg.pidns_inum ? task_of_namespace() : bpf_get_current_pid_tgid();
}

BPF_INLINE __u32 this_process(void)
{
	return this_task() >> 32;
}

BPF_INLINE void note_process(void)
{
	__u32 tgid = this_process();
	__u64 one = 1, *hits = bpf_map_lookup_elem(&process_hits, &tgid);

	if (hits)
		__sync_fetch_and_add(hits, 1);
	else
		bpf_map_update_elem(&process_hits, &tgid, &one, BPF_NOEXIST);
}

BPF_INLINE int is_over(void)
{
	return *(volatile __u32 *)&over;
}

BPF_INLINE __u64 read64(__u64 addr)
{
	__u64 word;

	return read_user(&word, sizeof(word), addr) ? 0 : word;
}

#define TRACE_MULT 0x9e3779b97f4a7c15ULL /* 2^64 / golden ratio, odd */

/*
 * The two are not to be exchanged for each other: versions and addresses both count up in small
 * steps, so that `h ^ x` alone is the same for many pairs of them.
 */
BPF_INLINE __u64 mix(__u64 h, __u64 x)
{
	h = ((h << 31 | h >> 33) ^ x) * TRACE_MULT;
	return h ^ (h >> 32);
}

/* The low bits of the pointer to the code object are a tag from 3.14 on (_PyStackRef). */
BPF_INLINE __u64 code_of(__u64 frame)
{
	return read64(frame + cfg.layout.frame_code) & ~7ULL;
}

BPF_INLINE int is_resume(__u8 opcode)
{
	for (int i = 0; i < TRACE_OPCODES; i++)
		if (cfg.opcodes[i] && cfg.opcodes[i] == opcode)
			return 1;
	return 0;
}

BPF_INLINE __u32 this_thread(void)
{
	return (__u32)this_task();
}

/* Nobody wants to know of it: counted as refused. Global, for its own stack. */
BPF_NOINLINE int is_other_thread(void)
{
	__u32 tid = this_thread();
	__u64 name[2] = { 0 };

	if (!cfg.thread_cnt)
		return 0;
	bpf_get_current_comm(name, sizeof(name));
	for (__u32 i = 0; i < TRACE_THREADS && i < cfg.thread_cnt; i++) {
		const volatile struct trace_thread *t = &cfg.threads[i];

		if (t->tid ? t->tid == tid
			   : !((name[0] ^ t->name[0]) & t->mask[0]) &&
				     !((name[1] ^ t->name[1]) & t->mask[1]))
			return 0;
	}
	count(TRACE_CTR_refused);
	return 1;
}

#endif /* PYPERF_TRACE_STATE_BPF_H */
