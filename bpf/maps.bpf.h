/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_MAPS_H
#define PYPERF_MAPS_H
/*
 * All maps of the sampler on one page, which is the memory bill. Hash maps are preallocated,
 * because perf event programs may not allocate. Sizes are defaults; object__configure() sets them
 * from options.
 */
#include "state.bpf.h"

/*
 * Errors of bpf_map_update_elem() and bpf_map_delete_elem(). Up to Linux 6.3 (d7ba4cc900bf) only
 * the lower half of what they return is set: compare an int, as a long is none of these there.
 */
#define E_NOENT (-2)
#define E_2BIG	(-7)
#define E_EXIST (-17)

/*
 * tgid -> struct proc. BPF writes at fork and exec and deletes at exit; user/ adds the processes
 * that ran before. Full, or too many of one user: note_proc_full, and samples of the process are
 * lost_no_proc.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROC_ENTRIES);
	__type(key, __u32);
	__type(value, struct proc);
} procs SEC(".maps");

/* The shares of a table: whose its entries are. User space counts through its mapping. */
#define SHARES_MAP(name)                                                                           \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                  \
		__uint(map_flags, BPF_F_MMAPABLE);                                                 \
		__uint(max_entries, 1);                                                            \
		__type(key, __u32);                                                                \
		__type(value, struct shares);                                                      \
	} name SEC(".maps")

/*
 * The users of the entries of `procs`. The side that adds or deletes an entry counts it; user/ does
 * so through its mapping.
 */
SHARES_MAP(proc_shares);

/* User -> its cost. Full: further users are not charged, and not slowed down. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, USERS_MAX);
	__type(key, __u32);
	__type(value, struct user_cost);
} users SEC(".maps");

/*
 * Executables without Python so far: user space need not read their processes at once. User space
 * writes and deletes. Full: further executables are read like any other.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512);
	__type(key, struct exe_key);
	__type(value, __u32);
} plain_exes SEC(".maps");

/*
 * space -> struct image. user/ writes and deletes. Full: the process stays "pending", and user/
 * reports it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct image);
} images SEC(".maps");

/*
 * Executable mappings of all images, in sorted runs. user/ writes through its mapping. 32 B each.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct mapping);
} mappings SEC(".maps");

struct uw_chunk {
	__u32 words[UW_CHUNK_WORDS];
};

/* The shape of the maps inside `tables`; each has as many chunks as its file's rows need. */
struct uw_inner {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_INNER_MAP);
	__uint(max_entries, 1);
	/* No BTF: clang emits the type of an inner map's value as a mere forward declaration. */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct uw_chunk));
};

/* table index -> unwind rows of one ELF file. user/ writes. 8 B an entry, plus the rows. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__array(values, struct uw_inner);
} tables SEC(".maps");

struct places {
	struct known_place slot[PLACE_SLOTS];
};

/*
 * CPU -> known places of code with their rules; a look-up in a table takes ten times as long. 64
 * KiB per CPU. User space can map it only because such an array begins at a page: two places fill a
 * cache line.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct places);
} places SEC(".maps");

/* Known code objects, by a hash of their address; saves the look-up in `codes`. 64 KiB a CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CODE_SLOTS);
	__type(key, __u32);
	__type(value, struct known_code);
} known_codes SEC(".maps");

/*
 * The same by thread, valid for an epoch (set_epoch()): a row for each hash of a thread. 1 MiB.
 * User space can map it only so that rows begin at cache lines.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, CODE_ROWS);
	__type(key, __u32);
	__type(value, struct code_row);
} code_rows SEC(".maps");

/*
 * File id modulo SEEN_SLOTS -> 1: a walk has used the file's table since user/ cleared the entry.
 * user/ writes through its mapping, in which array values lie at multiples of 8 bytes.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SEEN_SLOTS);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

/*
 * Index -> interpreter binary. user/ writes once, each user at most four fifths of them (struct
 * shares); BPF adds what it learns.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 320);
	__type(key, __u32);
	__type(value, struct interp);
} interps SEC(".maps");

/* Thread -> its PyThreadState: a cache, checked at each use, so eviction only costs time. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct thread_key);
	__type(value, struct thread_val);
} threads SEC(".maps");

/*
 * Identity of code objects -> their id. A code object that was evicted is announced again, with
 * another id.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, struct code_key);
	__type(value, struct code_val);
} codes SEC(".maps");

/* Two windows. BPF adds to one; user/ reads and empties the other. Full: lost_counts_full. */
struct counts_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct count_key);
	__type(value, struct count_val);
};
struct counts_map counts0 SEC(".maps");
struct counts_map counts1 SEC(".maps");

/* Frames of the stacks of each window. Full: lost_chunks_full. */
struct chunks_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 24576);
	__type(key, __u64);
	__type(value, struct chunk);
};
struct chunks_map chunks0 SEC(".maps");
struct chunks_map chunks1 SEC(".maps");

/* The counters are one value: a sample increments several of them, which are neighbours. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters SEC(".maps");

/*
 * The program that takes the stack, for tail calls: on_cpu_sample(); in the object of probes
 * on_probe().
 */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} samplers SEC(".maps");

/*
 * See struct loop_thread, 1.5 MB. Full, or too many of one user: note_loops_full, the thread has no
 * iterations. Without cfg.loop_types it has room for one.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct loop_thread);
} loops SEC(".maps");

/* Whose the entries of `loops` are. BPF adds; user/ takes out, through its mapping. */
SHARES_MAP(loop_shares);

/* --comm: see glob_step(). */
struct glob {
	__u32 p, s;	      /* position in pattern and name */
	__u32 star_p, star_s; /* position behind the last '*', and start of its part of the name */
	__u32 star, hit, set;
	char c, pad[3];
	char comm[TASK_COMM_LEN];
};

/*
 * The programs that number spaces: each has a counter per CPU. A program does not run twice at once
 * on a CPU, but two programs may interrupt each other where tracepoints can be preempted, and an
 * atomic increment that returns the value needs Linux 5.12.
 */
enum space_maker {
	SPACE_FORK,
	SPACE_EXEC,
	SPACE_MAKERS,
};

/* The scratch of a CPU for one sample. */
struct scratch {
	struct walk walk;
	struct glob glob;
	__u64 next_code; /* ids handed out by this CPU */
	__u64 next_space[SPACE_MAKERS];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

struct out_scratch {
	struct stack stack;
	struct ev_code code;
	struct ev_blob blob;
	struct chunk chunk;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct out_scratch);
} outs SEC(".maps");

/* CPU -> the words of its sample, DEEP_WORDS(depth); 73 B per frame of the depth and CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32)); /* no type: the size of the value is an option */
	__uint(value_size, DEEP_WORDS(STACK_DEPTH_DEFAULT) * 8);
} deep SEC(".maps");

/*
 * Process events. They wake user space, see wake_user(). Full: note_event_lost, and user/ scans
 * /proc again.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} events SEC(".maps");

/* Names and line tables of code objects. Wakes user space when a quarter full. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 2 * 1024 * 1024);
} blobs SEC(".maps");

/*
 * With CFG_NMI: stacks and threads that are in no map yet. Only samples write here, and samples in
 * NMI do not interrupt each other, so a sample never waits for a lock that the interrupted code
 * holds. From 6.15 on (a650d38915c1) it would wait for a quarter of a second. Full: lost_nmi_miss.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} misses SEC(".maps");

const volatile struct pyperf_cfg cfg = {
	.flags = CFG_NATIVE | CFG_KERNEL,
	.cgroup_subsys = -1,
	.chunks_wake = 8192,
	.counts_wake = 8192,
	.cpu_cnt = 1,
	.max_frames = STACK_DEPTH_DEFAULT,
	.depth = STACK_DEPTH_DEFAULT,
};

/*
 * DRAFT_WORD of the mappings that are about to become an image; 0: none. user/ writes it, for one
 * process at a time. BPF keeps these mappings up to date like those of an image, but does not walk
 * with them.
 */
__u64 draft;

__u64 events_lost; /* note_event_lost + note_proc_busy, readable without a system call */
__u32 user_woken;  /* user space was woken; it clears this before it reads `events` */
/*
 * Written by user/: the value of one sample of each event that is a clock. 0: the event is none,
 * and its counter tells.
 */
__u64 clock_ns[SAMPLED_MAX];
__u32 active_window; /* 0 or 1: written by user/ */
__u32 users_cut;     /* number of users with a one_of: written by user/ */
__u32 code_epoch;    /* raised by user/ to invalidate known_codes */
/* In each window; approximate under contention, reset by user/. */
__u32 chunks_added[2];
__u32 counts_added[2];

/* ---- the seam's BPF bodies ------------------------------------------------------------------ */

BPF_INLINE struct counters *the_counters(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&counters, &zero);
}

/*
 * Adds to a counter, in any program. Atomic, because programs other than the sampler can be
 * interrupted, by it and by each other.
 */
BPF_INLINE void stat_add(__u32 counter, __u64 n)
{
	struct counters *c = the_counters();

	if (c)
		__sync_fetch_and_add(&c->n[BOUND(counter, COUNTER_SLOTS)], n);
}

BPF_INLINE void stat_inc(__u32 counter)
{
	stat_add(counter, 1);
}

BPF_INLINE struct scratch *the_scratch(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&scratches, &zero);
}

BPF_INLINE struct out_scratch *the_out(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&outs, &zero);
}

BPF_INLINE struct walk *the_walk(void)
{
	struct scratch *s = the_scratch();

	return s ? &s->walk : NULL;
}

BPF_INLINE struct glob *the_glob(void)
{
	struct scratch *s = the_scratch();

	return s ? &s->glob : NULL;
}

BPF_INLINE struct stack *the_stack(void)
{
	struct out_scratch *o = the_out();

	return o ? &o->stack : NULL;
}

BPF_INLINE __u64 *the_deep(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&deep, &cpu);
}

BPF_INLINE __u32 deep_parts(void)
{
	return cfg.depth;
}

BPF_INLINE __u32 max_frames(void)
{
	return cfg.max_frames;
}

BPF_INLINE const struct mapping *get_mapping(__u32 index)
{
	return bpf_map_lookup_elem(&mappings, &index);
}

BPF_INLINE struct known_place *the_places(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct places *p = bpf_map_lookup_elem(&places, &cpu);

	return p ? p->slot : NULL;
}

BPF_INLINE struct known_code *code_slot(__u32 index)
{
	return bpf_map_lookup_elem(&known_codes, &index);
}

BPF_INLINE struct code_row *code_row(__u32 index)
{
	return bpf_map_lookup_elem(&code_rows, &index);
}

/* A failure only costs another walk of the list. */
BPF_INLINE void note_tstate(const struct walk *w, __u64 tstate)
{
	struct thread_key key = { .space = w->thread.space, .bias = w->image.bias };
	struct thread_val val = {
		.tstate = tstate,
		.interp = w->scan.interp,
		.heads = w->scan.heads,
	};

	key.tid = THREAD_PASSED_TID(buf64(w, w->interp.layout.tstate_thread_id));
	if (!(cfg.flags & CFG_NMI))
		bpf_map_update_elem(&threads, &key, &val, BPF_ANY);
}

BPF_INLINE void note_frame(const struct walk *w, __u64 frame)
{
	(void)w, (void)frame;
}

BPF_INLINE void note_seen(__u32 file)
{
	__u32 slot = file % SEEN_SLOTS;
	__u64 *flag = bpf_map_lookup_elem(&seen, &slot);

	if (flag && !*flag) /* no store: the line stays shared among the CPUs */
		*flag = 1;
}

BPF_INLINE struct interp *get_interp(__u32 index)
{
	return bpf_map_lookup_elem(&interps, &index);
}

BPF_INLINE void *uw_table(__u32 index)
{
	return bpf_map_lookup_elem(&tables, &index);
}

/* `cnt` words that do not straddle a chunk. */
BPF_INLINE const __u32 *uw_words(void *table, __u32 word, __u32 cnt)
{
	__u32 index = word / UW_CHUNK_WORDS, at = word % UW_CHUNK_WORDS;
	struct uw_chunk *c = bpf_map_lookup_elem(table, &index);

	if (!c || at > UW_CHUNK_WORDS - cnt)
		return NULL;
	return &c->words[at];
}

/* Each CPU hands out ids with a stride, so no CPU waits for another and no id is used twice. */
BPF_INLINE __u64 stride_id(__u64 n)
{
	return n * cfg.cpu_cnt + bpf_get_smp_processor_id();
}

/* A new space. 0: all numbers are used up, see session__worn(). */
BPF_INLINE __u32 new_space(enum space_maker who)
{
	struct scratch *s = the_scratch();
	__u64 n = s ? stride_id(s->next_space[who]++) * SPACE_MAKERS + who : 0;
	__u64 space = s ? SPACE_FIRST_BPF + n : 0;

	return space >> 32 ? 0 : (__u32)space;
}

BPF_INLINE __u64 code_new_id(void)
{
	struct scratch *s = the_scratch();

	return s ? 1 + stride_id(s->next_code++) * OBJECTS_MAX + cfg.object : 0;
}

BPF_INLINE __u64 code_lookup(__u64 addr, __u64 fingerprint)
{
	struct code_key key = { .addr = addr, .fingerprint = fingerprint };
	struct code_val *val = bpf_map_lookup_elem(&codes, &key);

	return val ? val->id : 0;
}

BPF_INLINE struct ev_blob *blob_scratch(void)
{
	struct out_scratch *o = the_out();

	return o ? &o->blob : NULL;
}

BPF_INLINE struct ev_code *code_scratch(void)
{
	struct out_scratch *o = the_out();

	return o ? &o->code : NULL;
}

BPF_INLINE int blob_send(const void *data, __u32 size, int wake_now)
{
	/*
	 * In NMI each CPU announces a code object until user space has put it into `codes`, so do
	 * not wait for more.
	 */
	__u64 flags = cfg.flags & CFG_NMI ? 0 : BPF_RB_NO_WAKEUP;

	if (wake_now || bpf_ringbuf_query(&blobs, BPF_RB_AVAIL_DATA) >
				bpf_ringbuf_query(&blobs, BPF_RB_RING_SIZE) / 4)
		flags = BPF_RB_FORCE_WAKEUP;
	return (int)bpf_ringbuf_output(&blobs, (void *)data, size, flags);
}

#endif /* PYPERF_MAPS_H */
