/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_H
#define PYPERF_H
/*
 * The contract between bpf/ and user/: frame words, map keys and values, events, limits, counters.
 *
 * It is the only header that both halves include; its parts by topic are pyperf_*.h. Everything
 * here is stored in a map or sent through a ring buffer, so it has fixed-size members, explicit
 * padding and an asserted size. Numbers that leave the process are given by hand and never reused.
 *
 * Who owns what:
 *   procs, threads, codes, counts, chunks   written by BPF (procs also by user/ at start-up)
 *   images, mappings, interps, tables       written by user/, read by BPF
 *   seen                                    set by BPF, cleared by user/
 *   events, blobs, misses                   ring buffers, BPF -> user/
 * With CFG_NMI, user/ inserts into threads, codes and counts; BPF still adds to counts.
 */
#include "pyperf_counters.h"
#include "pyperf_frames.h"
#include "pyperf_limits.h"
#include "pyperf_memory.h"
#include "pyperf_probes.h"
#include "pyperf_python.h"
#include "pyperf_unwind.h"
#include "pyperf_waits.h"

/* ---- Users -------------------------------------------------------------------------------- */
/*
 * users: user who pays for a thread (task_payer()) -> its cost and its rate. BPF adds to the cost,
 * with CFG_TIMED only. user/ reads it, and deletes users that cost nothing any more.
 */
#define USERS_MAX      512
#define PAYER_LEVELS   8     /* of user namespaces; below these one pays for all: */
#define PAYER_TOO_DEEP 65534 /* the kernel's overflow user */
struct user_cost {
	__u64 sample_ns; /* run time of the timed samples, one of TIMED_EVERY */
	__u64 follow_ns; /* as CTR_follow_ns */
	__u32 one_of;	 /* one of so many samples is taken; 0: all. user/ writes */
	__u32 pad;
};
_Static_assert(sizeof(struct user_cost) == 24, "struct user_cost");

/* ---- Configuration (.rodata, written before load by object__configure()) ------------------ */

enum cfg_flags {
	CFG_PYTHON_ONLY = 1 << 0, /* drop samples of processes without an interpreter */
	CFG_TARGETS = 1 << 1,	  /* only processes with PROC_TARGET (-p) */
	CFG_CHILDREN = 1 << 2,	  /* PROC_TARGET is inherited by fork (--children, COMMAND) */
	CFG_COMM = 1 << 3,	  /* comm_glob is set */
	CFG_CGROUP = 1 << 4,	  /* cgroup_id is set */
	CFG_THREADS = 1 << 5,	  /* count per thread */
	CFG_NATIVE = 1 << 6,	  /* walk native frames */
	CFG_KERNEL = 1 << 7,	  /* take kernel frames */
	CFG_PIDNS = 1 << 8,	  /* pids are those of namespace pidns_inum at level pidns_level */
	CFG_NMI = 1 << 9, /* the event fires in NMI context: user/ inserts, see struct ev_stack */
	CFG_TIMED = 1 << 10,  /* programs that follow processes time themselves: follow_ns */
	CFG_RECALL = 1 << 11, /* samples are far apart: see struct recall */
	CFG_USER = 1 << 12,   /* only processes of cfg.uid */
	CFG_TIDS = 1 << 13,   /* only the threads cfg.tids */
};

#define OBJECTS_MAX 16
#define TIDS_MAX    16 /* threads that -t can name */

struct pyperf_cfg {
	__u32 flags;
	__u32 pidns_level;
	__u32 pidns_inum;
	__s32 cgroup_subsys; /* index in css_set.subsys, -1: the default (v2) hierarchy */
	__u64 cgroup_id;     /* kernfs node id, which is st_ino of the directory */
	__u64 hash_seed;
	/* Number of new entries in a window after which BPF wakes user space to drain it. */
	__u32 chunks_wake;
	__u32 counts_wake;
	__u32 cpu_cnt; /* possible CPUs: the stride of the ids that each CPU hands out */
	/* limit per stack, of Python and of native frames: STACK_DEPTH_MIN .. depth */
	__u32 max_frames;
	__u32 depth;  /* the power of two up to STACK_DEPTH_MAX by which `deep` is divided */
	__u32 object; /* which object: 0 sampler, 1 probes, 2 waits, 3 growth, 4 GIL ... */
	__u32 uid;    /* of the initial user namespace */
	__u32 tid_cnt;
	__u32 tids[TIDS_MAX]; /* as the caller's pid namespace sees them */
	__u32 loop_types;     /* bits of value types that struct loop_thread has; 0: no loops */
	__u32 pad;
	char comm_glob[GLOB_LEN];
};
PYPERF_ASSERT_SIZE(struct pyperf_cfg, 72 + 4 * TIDS_MAX + GLOB_LEN);

/*
 * deep: CPU -> the words of the current sample, in parts of `depth` words. An option sets their
 * number, so they are not in a struct.
 */
enum deep_part {
	DEEP_PY = 0,	 /* PYTHON words, innermost first */
	DEEP_NATIVE = 1, /* native words, innermost first */
	/* Segments placed up to and including this native frame, or SEG_EVAL. */
	DEEP_NATIVE_SEG = 2,
	DEEP_ANCHOR = 3,    /* of each segment */
	DEEP_SEG_START = 4, /* index in DEEP_PY of the segment's first frame */
	DEEP_SEG_END = 5,   /* ... and the index behind its last one */
	DEEP_SEG_ORDER = 6, /* the segments from the innermost outwards */
	DEEP_FRAMES = 7,    /* merged, innermost first: two parts */
	DEEP_HASH = 9,	    /* of each chunk: an eighth of a part */
};
#define DEEP_WORDS(depth) (9 * (depth) + (depth) / 8)

/* ---- Processes ---------------------------------------------------------------------------- */

enum proc_flags {
	PROC_TARGET = 1 << 0,
	PROC_PLAIN = 1 << 1, /* its executable is in plain_exes */
	/* user space was not told about it: see announce() in lifecycle.bpf.h */
	PROC_QUIET = 1 << 2,
};

/*
 * user/ gives numbers below this to processes that ran before; BPF gives higher ones at fork and
 * exec.
 */
#define SPACE_FIRST_BPF 0x01000000U

/*
 * procs: tgid -> struct proc. `space` names one life of one address space and is never reused, so
 * counts survive the process and a recycled pid cannot be confused with its predecessor.
 * exec sets {space = image = new}; fork sets {space = new, image = the parent's image}.
 */
struct proc {
	__u32 space;
	__u32 image;	  /* key of images to use when images has no entry for `space` */
	__u16 flags;	  /* enum proc_flags */
	__u16 code_pages; /* executable pages at its last sample, modulo 2^16; 0: not sampled yet */
	/*
	 * number of address ranges that the kernel has given it: shows whether its mappings changed
	 */
	__u32 areas;
	__u32 slot; /* slot of struct shares that counts the entry */
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct proc, 24);

#define PROC_ENTRIES		     16384 /* of procs */

/*
 * The users of a table's entries: how many entries it has, and how many each user has. A user of a
 * container or of this machine has one slot; root has one for each mount namespace; two users may
 * share a slot. Slot 0: the entry is not charged to anybody.
 *
 * A user may have as many entries as SHARE_OF_FREE times the free ones. So one user that takes all
 * it can leaves a fifth of the table, ten such users leave a fortieth, and a user with few entries
 * always finds room. (The rule of switches that share memory among ports: Choudhury and Hahne,
 * "Dynamic Queue Length Thresholds", 1998.)
 */
#define SHARE_SLOTS		     1024
#define SHARE_SLOT(who)		     (1 + ((__u32)(who)*2654435761U >> 16) % (SHARE_SLOTS - 1))
#define SHARE_OF_FREE		     4ULL
#define SHARE_HAS_ROOM(s, slot, cap) ((s)->of[slot] < SHARE_OF_FREE * ((cap) - (s)->taken))

struct shares {
	__u32 taken;
	__u32 window; /* of loop_shares: number of the window, for struct loop_thread */
	__u32 of[SHARE_SLOTS];
};
PYPERF_ASSERT_SIZE(struct shares, 8 + 4 * SHARE_SLOTS);

/* An executable, by the kernel's own numbers; on some file systems stat() gives others. */
struct exe_key {
	__u64 ino;
	__u32 dev;
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct exe_key, 16);

enum image_flags {
	IMAGE_PYTHON = 1 << 0,	   /* interpreters were found and trusted: interps[] */
	IMAGE_NOT_WALKED = 1 << 1, /* an interpreter is there but is not trusted: native only */
	IMAGE_CUT = 1 << 2,	   /* `mappings` had no room for all */
};

#define IMAGE_INTERPS 2 /* interpreters of one process that are walked */

struct image_interp {
	__u64 bias;   /* load address minus link address of the file that holds it */
	__u32 interp; /* index in interps */
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct image_interp, 16);

/* images: space -> what user/ knows about the address space. Absent: not analysed yet. */
struct image {
	__u32 flags;	 /* enum image_flags */
	__u32 map_first; /* first entry in `mappings`, sorted by start */
	__u32 map_cnt;
	__u32 interp_cnt;
	struct image_interp interps[IMAGE_INTERPS];
	/*
	 * When Python was found in a process that was known to have none, by bpf_ktime_get_ns();
	 * 0: there was none such time.
	 */
	__u64 python_ns;
};
PYPERF_ASSERT_SIZE(struct image, 24 + 16 * IMAGE_INTERPS);

/* steps of a binary search in `mappings`, which has at most 1 << MAP_STEPS */
#define MAP_STEPS      17
#define IMAGE_MAX_BITS 14 /* an image has fewer than 1 << IMAGE_MAX_BITS mappings */

/*
 * The mappings that are a draft, and their space: one word, so that a reader never sees half of
 * another.
 */
#define DRAFT_WORD(space, first, cnt)                                                              \
	((__u64)(space) << 32 | (__u64)(first) << IMAGE_MAX_BITS | (__u64)(cnt))
#define DRAFT_SPACE(word) ((__u32)((word) >> 32))
#define DRAFT_FIRST(word) ((__u32)((word) >> IMAGE_MAX_BITS) & ((1U << MAP_STEPS) - 1))
#define DRAFT_CNT(word)	  ((__u32)(word) & ((1U << IMAGE_MAX_BITS) - 1))

/*
 * One executable mapping of a process. When the kernel gives its addresses to another mapping, BPF
 * sets `end` to `start`, because new code there must not be shown as the old one.
 */
struct mapping {
	__u64 start;
	__u64 end;
	__u64 offset; /* in the file, of `start` */
	__u32 file;   /* file id for frame words; 0: no file (anonymous memory) */
	__u32 table;  /* index in tables; 0: no unwind rows */
};
PYPERF_ASSERT_SIZE(struct mapping, 32);

/* ---- Stacks and counts -------------------------------------------------------------------- */

/*
 * A thread and the interpreter that it runs: a tid is below PID_MAX_LIMIT, 1 << 22
 * (linux/threads.h). Interpreter 0 is the main one; the last number stands for all above it, too.
 */
#define THREAD_INTERP_SHIFT 22
#define THREAD_INTERP_MAX   1023U
#define THREAD_WORD(tid, interp)                                                                   \
	((tid) | ((interp) < THREAD_INTERP_MAX ? (interp) : THREAD_INTERP_MAX)                     \
			 << THREAD_INTERP_SHIFT)
#define THREAD_TID(word)    ((word) & ((1U << THREAD_INTERP_SHIFT) - 1))
#define THREAD_INTERP(word) ((word) >> THREAD_INTERP_SHIFT)

struct count_key {
	__u32 space;
	__u32 thread; /* THREAD_WORD(); 0 unless CFG_THREADS */
	__u64 stack;  /* hash of the innermost chunk, with the event: COUNT_WORD() */
};
PYPERF_ASSERT_SIZE(struct count_key, 16);

/*
 * Several events may be sampled at once. The event of a count stands in bits that no chunk's hash
 * uses, so the key is as short as for one event.
 */
#define COUNT_TYPE_SHIFT       1
#define COUNT_TYPE_MASK	       ((SAMPLED_MAX - 1ULL) << COUNT_TYPE_SHIFT)
#define COUNT_WORD(hash, type) ((hash) | (__u64)(type) << COUNT_TYPE_SHIFT)
#define COUNT_HASH(word)       ((word) & ~COUNT_TYPE_MASK)
#define COUNT_TYPE(word)       ((__u32)(((word)&COUNT_TYPE_MASK) >> COUNT_TYPE_SHIFT))

struct count_val {
	__u64 samples;
	__u64 value; /* sum in units of the event: nanoseconds of a clock, else events */
};
PYPERF_ASSERT_SIZE(struct count_val, 16);

/*
 * chunks: hash -> up to CHUNK_FRAMES frames, and the chunk of their callers. A stack is cut from
 * the root inwards: the first chunk holds the outermost frames, so stacks with the same callers
 * share it. frames[0] is the outermost of the chunk. To read a stack, follow `parent` up to 0.
 */
struct chunk {
	__u64 parent;
	__u32 cnt;
	__u32 pad;
	__u64 frames[CHUNK_FRAMES];
};
PYPERF_ASSERT_SIZE(struct chunk, 16 + 8 * CHUNK_FRAMES);

/* ---- Events ------------------------------------------------------------------------------- */

enum event_type {
	EV_FORK = 1,
	EV_EXEC = 2,
	EV_EXIT = 3,
	EV_DRAIN = 4, /* a window is getting full */
	EV_CODE = 5,
	EV_BLOB = 6,
	EV_UNSHARE = 7, /* the shared image of the process is wrong for it: it has none now */
	EV_STACK = 8,
	EV_THREAD = 9,
	EV_AREA = 10, /* its code has changed, or will change within microseconds */
};

/* In `events`. A record of 8 bytes is only there to wake user space. */
struct ev_proc {
	__u32 type;
	__u32 tgid;    /* as the caller's pid namespace sees it */
	__u32 space;   /* EV_DRAIN: the window */
	__u32 parent;  /* EV_FORK: the parent's space */
	__u64 time_ns; /* CLOCK_MONOTONIC */
	char comm[TASK_COMM_LEN];
	__u32 status; /* EV_EXIT: wait status; EV_EXEC: enum proc_flags; EV_AREA: enum area_state */
	__u32 image;  /* EV_FORK: the image that the child shares */
	struct exe_key exe; /* EV_EXEC */
};
PYPERF_ASSERT_SIZE(struct ev_proc, 64);

enum area_state {
	AREA_COMING = 0,
	AREA_THERE = 1,
};

enum blob_kind {
	BLOB_FILENAME = 0,
	BLOB_NAME = 1, /* co_qualname where there is one */
	BLOB_LINETABLE = 2,
	BLOB_CNT = 3,
};

enum blob_flags {
	BLOB_ASCII = 1 << 0,
	BLOB_MISSING = 1 << 1, /* could not be read completely: read it at `uaddr` */
	BLOB_PY2 = 1 << 2,     /* bytes, not characters */
};

/* Length and kind of one name or line table. */
struct blob_info {
	__u64 uaddr; /* of the object */
	__u32 size;  /* of its data, in bytes */
	__u8 width;  /* bytes per character: 1 (Latin-1 unless BLOB_ASCII), 2, 4 */
	__u8 flags;  /* enum blob_flags */
	__u16 pad;
};
PYPERF_ASSERT_SIZE(struct blob_info, 16);

/* In `blobs`: a code object at first sight. Its pieces (EV_BLOB) come first. */
struct ev_code {
	__u32 type;
	__u32 tgid;
	__u64 id;
	__u64 addr;
	__u32 space;
	__s32 firstlineno;
	__u32 interp; /* index in interps: how to read it */
	__u32 pad;
	struct blob_info blob[BLOB_CNT];
	__u64 fingerprint; /* with `addr` the key in codes */
};
PYPERF_ASSERT_SIZE(struct ev_code, 96);

struct ev_blob {
	__u32 type;
	__u32 kind; /* enum blob_kind */
	__u64 id;   /* code id */
	__u32 offset;
	__u32 size; /* of data */
	__u8 data[BLOB_DATA];
};
PYPERF_ASSERT_SIZE(struct ev_blob, 24 + BLOB_DATA);

/*
 * In `misses`: an entry that a sample in NMI context could not insert into a map, because it may
 * not take the map's lock. user/ inserts it (CFG_NMI).
 */
struct ev_stack {
	__u32 type;
	__u32 cnt; /* words, innermost first, behind this */
	struct count_key key;
	__u64 value; /* of this one sample */
};
PYPERF_ASSERT_SIZE(struct ev_stack, 32);

struct ev_thread {
	__u32 type;
	__u32 pad;
	struct thread_key key;
	struct thread_val val;
};
PYPERF_ASSERT_SIZE(struct ev_thread, 56);

#endif /* PYPERF_H */
