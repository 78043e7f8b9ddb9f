/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_MAPS_H
#define PYPERF_MAPS_H
/*
 * Every map, in one place: the memory bill is this page. Hash maps are preallocated: perf event
 * programs may not allocate. Sizes are defaults; object__configure() sets them from options.
 *
 * Each object has all of them. What its programs write while no other object's can be at it is the
 * object's own; the others, and .bss, are the sampler's in every object: see own_maps[] in
 * user/sources/probe_source.c.
 */
#include "state.bpf.h"

/* Of bpf_map_update_elem() and bpf_map_delete_elem(). */
#define E_NOENT (-2)
#define E_2BIG	(-7)
#define E_EXIST (-17)

/*
 * tgid -> struct proc. BPF writes at fork and exec and deletes at exit; user/ adds what ran before.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct proc);
} procs SEC(".maps");

/*
 * Executables that were seen without Python, to whose processes user/ need not look at once. It
 * adds and takes away. Full: the next ones are looked at as all are.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512);
	__type(key, struct exe_key);
	__type(value, __u32);
} plain_exes SEC(".maps");

/*
 * space -> struct image. user/ writes and deletes. Full: the process stays "pending", user/ says
 * so.
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
	__uint(key_size,
	       sizeof(__u32)); /* no BTF: clang emits the type of an inner map's value as a mere */
	__uint(value_size, sizeof(struct uw_chunk)); /* forward declaration */
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
 * CPU -> the places of code that stacks came by, and their rules; a look-up in a table takes ten
 * times as long. 64 KiB a CPU. Shared with user space only because such an array begins at a page:
 * two places are a line of the cache.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct places);
} places SEC(".maps");

/* Code objects seen before, by a hash of their address: `codes` need not be asked. 64 KiB a CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CODE_SLOTS);
	__type(key, __u32);
	__type(value, struct known_code);
} known_codes SEC(".maps");

/*
 * The same by thread, for an epoch (set_epoch()): a row for each, by a hash. 1 MiB. Shared with
 * user space only for the rows to begin at lines of the cache.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, CODE_ROWS);
	__type(key, __u32);
	__type(value, struct code_row);
} code_rows SEC(".maps");

/*
 * File id modulo SEEN_SLOTS -> 1: a walk came by since user/ cleared it, so its table is of use.
 * user/ through its mapping: values of arrays lie at multiples of 8 bytes there, whatever their
 * size.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SEEN_SLOTS);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

/* Interpreter binaries. user/ writes once; BPF adds what it learns. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct interp);
} interps SEC(".maps");

/* Where a thread's PyThreadState is: a cache, checked at each use, so eviction only costs time. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct thread_key);
	__type(value, struct thread_val);
} threads SEC(".maps");

/* Identity of code objects. A cache as well: a code object that was evicted is announced again. */
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

/* All in one value: a sample adds to several of them, which are neighbours. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters SEC(".maps");

/* on_cpu_sample(), for the programs of further events; in the object of probes on_probe(). */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} samplers SEC(".maps");

/* --comm: see glob_step(). */
struct glob {
	__u32 p, s;	      /* where the match stands in pattern and name */
	__u32 star_p, star_s; /* behind the last '*', and where its part of the name began */
	__u32 star, hit, set;
	char c, pad[3];
	char comm[TASK_COMM_LEN];
};

/*
 * Who gives numbers to spaces: each has a counter per CPU of its own. No program runs while it runs
 * on the same CPU, but one may interrupt the other where tracepoints can be preempted, and an
 * atomic increment that returns the value needs Linux 5.12.
 */
enum space_maker {
	SPACE_FORK,
	SPACE_EXEC,
	SPACE_MAKERS,
};

/* What a CPU needs while it handles one sample. */
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
 * With CFG_NMI: stacks and threads that are in no map yet. No other program writes here, and
 * samples in NMI do not interrupt each other, so who holds the ring's lock is never the one that
 * was interrupted. From 6.15 on (a650d38915c1) the sample would wait for it for a quarter of a
 * second. Full: lost_nmi_miss.
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
 * DRAFT_WORD of the mappings that are about to become an image; 0: none. user/ writes it, one at a
 * time: BPF keeps them true, like those of an image, but shows nothing by them.
 */
__u64 draft;

__u64 events_lost; /* note_event_lost + note_proc_busy, to be seen without a system call */
__u32 told;	   /* user space was woken; it clears this before it reads `events` */
/*
 * Written by user/: what a sample of each event, if it is a clock, is worth; 0: what the kernel
 * says.
 */
__u64 clock_ns[SAMPLED_MAX];
__u32 active_window; /* 0 or 1: written by user/ */
__u32 code_epoch;    /* raised by user/: known_codes are forgotten */
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
 * For all programs: those that are not the sampler's can be interrupted, by it and by each other.
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

/* A failure costs another walk of the list, no more. */
BPF_INLINE void note_tstate(const struct walk *w, __u64 tstate)
{
	struct thread_key key = { .space = w->space, .bias = w->bias };
	struct thread_val val = {
		.tstate = tstate,
		.interp = w->scan_at,
		.heads = w->scan_heads,
	};

	key.tid = THREAD_PASSED_TID(buf64(w, w->in.layout.tstate_thread_id));
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

/* Ids are dealt out per CPU with a stride, so no CPU waits for another and none is used twice. */
BPF_INLINE __u64 stride_id(__u64 n)
{
	return n * cfg.cpu_cnt + bpf_get_smp_processor_id();
}

/* 0: they are used up, see session__worn(). */
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

BPF_INLINE int blob_send(const void *data, __u32 size, int urgent)
{
	/* Until user space has put a code object into `codes`, each CPU announces it in NMI. */
	__u64 wake = cfg.flags & CFG_NMI ? 0 : BPF_RB_NO_WAKEUP;

	if (urgent || bpf_ringbuf_query(&blobs, BPF_RB_AVAIL_DATA) >
			      bpf_ringbuf_query(&blobs, BPF_RB_RING_SIZE) / 4)
		wake = BPF_RB_FORCE_WAKEUP;
	return (int)bpf_ringbuf_output(&blobs, (void *)data, size, wake);
}

#endif /* PYPERF_MAPS_H */
