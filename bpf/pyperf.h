/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_H
#define PYPERF_H
/*
 * The contract between bpf/ and user/: frame words, map keys and values, events, limits, counters.
 *
 * It is the only header that both halves include. Everything here is stored in a map or sent
 * through a ring buffer, so it has fixed-size members, explicit padding and an asserted size.
 * Numbers that leave the process are given by hand and never reused.
 *
 * Who owns what:
 *   procs, threads, codes, counts, chunks   written by BPF (procs also by user/ at start-up)
 *   images, mappings, interps, tables       written by user/, read by BPF
 *   seen                                    set by BPF, cleared by user/
 *   events, blobs, misses                   ring buffers, BPF -> user/
 * With CFG_NMI, user/ inserts into threads, codes and counts; BPF still adds to counts.
 */
#include <linux/types.h>

#include "arch/arch.h"

#define PYPERF_ASSERT_SIZE(type, size) _Static_assert(sizeof(type) == (size), #type " has holes")

/* ---- Limits ------------------------------------------------------------------------------- */

/*
 * Limits of Python frames, and of native frames, per stack; the innermost are kept: struct
 * pyperf_cfg.
 */
#define STACK_DEPTH_DEFAULT	       1024
#define STACK_DEPTH_MIN		       128 /* kernel frames need so much, see DEEP_WORDS() */
#define STACK_DEPTH_MAX		       16384
/* PERF_MAX_STACK_DEPTH, see sysctl kernel.perf_event_max_stack */
#define MAX_KERN_FRAMES		       127
#define MAX_FRAMES		       (2 * STACK_DEPTH_MAX) /* words of one merged stack */
#define CHUNK_FRAMES		       16		     /* words of one stored chunk */
#define MAX_CHUNKS		       (MAX_FRAMES / CHUNK_FRAMES)
/* thread states that a search for a thread's own reads */
#define MAX_THREAD_SCAN		       4096
#define BLOB_DATA		       2048  /* bytes of one piece of a name or line table */
#define MAX_BLOB_PIECES		       64    /* pieces of one name or line table */
#define SEEN_SLOTS		       16384 /* of files in `seen`, by id modulo that */
#define TASK_COMM_LEN		       16
#define GLOB_LEN		       64
#define TIMED_EVERY		       16 /* one of so many samples is timed */
/* upper bound for a frame, native and Python together */
#define TIMED_FRAME_NS		       1000

/* ---- Frame words -------------------------------------------------------------------------- */
/*
 * A frame is one 64-bit word that means something without the process it was taken in:
 *
 *   63..60 tag   59 ............................................................. 0
 *   NATIVE       file id (24 bits)            | offset in the file (36 bits)
 *   PYTHON       code id (36 bits)            | bytecode offset in bytes, or OFFSET_LINE + line
 *                (24 bits)
 *   KERNEL       address, upper four bits cut (always ones)
 *   MARKER       reason (12 bits)             | detail (48 bits)
 *   ANON         user address in memory that belongs to no ELF file: JIT code, trampolines, a memfd
 *                that is no ELF file, an address outside all known mappings. It means something in
 *                one address space only: the `space` of the stack's struct count_key
 *   JIT          number of a name, see user/symbolize/sym_jit.h: what user/ makes of ANON when it
 *                reads a window, because of that; BPF never writes it
 *   WAIT         what the thread waited for, as the innermost frame: WAIT_FLAGS (2 bits) |
 *                kind (10 bits) | number of the system call, or WAIT_NO_CALL
 *                (48 bits)
 *
 * For return addresses the word holds "address - 1": the last byte of the call instruction, so that
 * neither the line nor the function of the next instruction is shown.
 */
enum frame_tag {
	FRAME_NATIVE = 1,
	FRAME_PYTHON = 2,
	FRAME_KERNEL = 3,
	FRAME_MARKER = 4,
	FRAME_ANON = 5,
	FRAME_JIT = 6,
	FRAME_WAIT = 7,
};

#define FRAME_TAG_SHIFT	     60
#define FRAME_PAYLOAD	     ((1ULL << FRAME_TAG_SHIFT) - 1)
#define FRAME_NATIVE_SHIFT   36
#define FRAME_NATIVE_OFFSET  ((1ULL << FRAME_NATIVE_SHIFT) - 1)
#define FRAME_NATIVE_FILE    0xffffffULL
#define FRAME_PYTHON_SHIFT   24
#define FRAME_PYTHON_OFFSET  ((1ULL << FRAME_PYTHON_SHIFT) - 1)
#define FRAME_PYTHON_CODE    0xfffffffffULL
#define FRAME_MARKER_SHIFT   48
#define FRAME_MARKER_DETAIL  ((1ULL << FRAME_MARKER_SHIFT) - 1)
#define FRAME_TAG(word)	     ((__u32)((word) >> FRAME_TAG_SHIFT))
#define FRAME_WORD(tag, pay) (((__u64)(tag) << FRAME_TAG_SHIFT) | ((__u64)(pay)&FRAME_PAYLOAD))
#define NATIVE_WORD(file, off)                                                                     \
	FRAME_WORD(FRAME_NATIVE,                                                                   \
		   ((__u64)(file) << FRAME_NATIVE_SHIFT) | ((__u64)(off)&FRAME_NATIVE_OFFSET))
#define PYTHON_WORD(code, off)                                                                     \
	FRAME_WORD(FRAME_PYTHON,                                                                   \
		   ((__u64)(code) << FRAME_PYTHON_SHIFT) | ((__u64)(off)&FRAME_PYTHON_OFFSET))
#define MARKER_WORD(why, detail)                                                                   \
	FRAME_WORD(FRAME_MARKER,                                                                   \
		   ((__u64)(why) << FRAME_MARKER_SHIFT) | ((__u64)(detail)&FRAME_MARKER_DETAIL))
#define NATIVE_FILE(word)   ((__u32)(((word) >> FRAME_NATIVE_SHIFT) & FRAME_NATIVE_FILE))
#define NATIVE_OFFSET(word) ((word)&FRAME_NATIVE_OFFSET)
#define PYTHON_CODE(word)   (((word) >> FRAME_PYTHON_SHIFT) & FRAME_PYTHON_CODE)
#define PYTHON_OFFSET(word) ((__u32)((word)&FRAME_PYTHON_OFFSET))
#define MARKER_WHY(word)    ((__u32)(((word)&FRAME_PAYLOAD) >> FRAME_MARKER_SHIFT))
#define KERNEL_ADDR(word)   ((word) | ~FRAME_PAYLOAD)
#define WAIT_WORD(kind, nr)                                                                        \
	FRAME_WORD(FRAME_WAIT,                                                                     \
		   ((__u64)(kind) << FRAME_MARKER_SHIFT) | ((__u64)(nr)&FRAME_MARKER_DETAIL))
/* Flags: the thread held the GIL meanwhile; the wait is another thread's, and this one ended it. */
#define WAIT_HELD	     (1ULL << (FRAME_TAG_SHIFT - 1))
#define WAIT_ENDED	     (1ULL << (FRAME_TAG_SHIFT - 2))
#define WAIT_FLAGS	     (WAIT_HELD | WAIT_ENDED)
#define WAIT_KIND(word)	     ((__u32)(((word)&FRAME_PAYLOAD & ~WAIT_FLAGS) >> FRAME_MARKER_SHIFT))
#define WAIT_CALL(word)	     ((word)&FRAME_MARKER_DETAIL)
#define WAIT_NO_CALL	     FRAME_MARKER_DETAIL
/*
 * Bytecode offset of a frame that has not executed its first instruction. It is shown at
 * co_firstlineno.
 */
#define OFFSET_NOT_STARTED   FRAME_PYTHON_OFFSET
/*
 * Instead of an offset, OFFSET_LINE + line, or + 0 if the line is not known: of a frame of code
 * that an extension has compiled (is_compiled(), walk_python.bpf.h). Bytecode is shorter.
 */
#define OFFSET_LINE	     (1U << (FRAME_PYTHON_SHIFT - 1))
#define OFFSET_LINES	     (OFFSET_LINE - 1) /* limit: this one would be OFFSET_NOT_STARTED */
#define OFFSET_HAS_LINE(off) ((off) >= OFFSET_LINE && (off) != OFFSET_NOT_STARTED)

/*
 * Why a stack, or a part of it, ends early. X(name, number, text shown as "[text]").
 * With a native file as detail (a file id), the text is followed by the file's name.
 */
#define PYPERF_MARKERS(X)                                                                          \
	X(TRUNCATED, 1, "truncated")                                                               \
	X(NO_UNWIND_INFO, 2, "no-unwind-info")                                                     \
	X(UNMAPPED, 3, "unmapped")                                                                 \
	X(READ_FAILED, 4, "read-failed")                                                           \
	X(BAD_FRAME, 5, "bad-native-frame")                                                        \
	X(PY_READ_FAILED, 6, "python-read-failed")                                                 \
	X(PY_BAD_CODE, 7, "bad-python-frame")                                                      \
	X(PY_TRUNCATED, 8, "python-truncated")                                                     \
	X(PENDING, 9, "process-not-yet-analysed")                                                  \
	X(COMPAT32, 10, "32-bit-process")                                                          \
	X(NO_REGS, 11, "no-user-registers")                                                        \
	X(PY_SCAN_LIMIT, 12, "too-many-python-threads")                                            \
	X(PY_UNMERGED, 13, "python-frames-below-lost-native-stack")                                \
	X(PY_SETUP, 14, "python-frame-in-setup")                                                   \
	X(EMPTY, 15, "no-frames")                                                                  \
	X(STACK_BUDGET, 16, "too-many-stacks") /* of user space only */                            \
	X(GREENLET, 17, "greenlet")	       /* the root of its stack: nothing is missing */     \
	X(NO_ROOM, 18, "no-room-for-mappings") /* of all the process's: IMAGE_CUT */               \
	X(NOT_TAKEN, 19, "stack-not-taken")    /* of a wait: WAIT_LATE */                          \
	/* Outwards of it are compiled frames, inwards the native ones in which they are. */       \
	X(PY_COMPILED, 20, "native-stack-of-compiled-python")

enum marker_why {
#define X(name, number, text) MARK_##name = (number),
	PYPERF_MARKERS(X)
#undef X
};

/*
 * Why a thread is off its CPU, as far as the kernel half knows; the number of the system call adds
 * the detail. X(name, number, text shown as "[waits: text]"; NULL: the name of the system call).
 */
#define PYPERF_WAITS(X)                                                                            \
	X(CALL, 1, NULL)                                                                           \
	X(CPU, 2, "CPU") /* it could run: it was preempted, or woken */                            \
	X(FAULT, 3, "page fault")                                                                  \
	X(DISK, 4, "disk")                                                                         \
	X(SOCKET, 5, "net")                                                                        \
	X(PIPE, 6, "pipe")                                                                         \
	X(TERMINAL, 7, "terminal")                                                                 \
	X(LOCK, 8, "lock")                                                                         \
	X(GIL, 9, "GIL")                                                                           \
	X(SLEEP, 10, "sleep")

enum wait_kind {
#define X(name, number, text) WAIT_##name = (number),
	PYPERF_WAITS(X)
#undef X
};

/* ---- Counters ----------------------------------------------------------------------------- */
/*
 * delivered = counted + filtered_* + lost_*, always. The note_* counters describe counted samples
 * (a sample may have several) and other events; no sum includes them. User space counts those about
 * tables and files.
 */
#define PYPERF_COUNTERS(X)                                                                         \
	X(delivered, "samples that the kernel delivered to the program")                           \
	X(counted, "samples added to a stack's count")                                             \
	X(complete, "counted samples whose user stack reached its root, native and Python")        \
	X(user_stacks, "counted samples that have a user stack")                                   \
	X(filtered_idle, "samples of the idle task or a kernel thread")                            \
	X(filtered_target, "samples of processes that were not asked for (-p)")                    \
	X(filtered_comm, "samples of other command names (--comm)")                                \
	X(filtered_cgroup, "samples of other control groups (-C)")                                 \
	X(filtered_user, "samples of processes of other users (-u)")                               \
	X(filtered_thread, "samples of other threads (-t)")                                        \
	X(filtered_python, "samples of processes without Python")                                  \
	X(filtered_exited, "samples of processes past their exit")                                 \
	X(filtered_pidns, "samples of processes outside the caller's pid namespace")               \
	X(filtered_unknown, "samples of processes that ended before they were analysed")           \
	X(filtered_released, "samples of memory that was given back before the end")               \
	X(filtered_share, "samples of users over their share: others of theirs stand for them")    \
	X(filtered_condition, "hits of probes whose condition was not true (if)")                  \
	X(filtered_nmi, "hits of tracepoints in NMI context, where nothing may be kept")           \
	X(lost_no_proc, "samples of processes that were not known")                                \
	X(lost_counts_full, "samples dropped because the table of counts was full")                \
	X(lost_chunks_full, "samples dropped because the table of stacks was full")                \
	X(lost_nmi_miss, "samples of new stacks in NMI context that found no way to user space")   \
	X(lost_internal, "samples dropped by an internal look-up that cannot fail")                \
	X(lost_argument, "hits of probes whose argument could not be read")                        \
	X(lost_busy, "hits of probes while their CPU was in the middle of another hit")            \
	X(note_truncated, "counted samples whose outermost frames were cut")                       \
	X(note_native_lost, "counted samples whose native stack ended early")                      \
	X(note_python_lost, "counted samples whose Python stack ended early")                      \
	X(note_pending, "counted samples of processes not yet analysed")                           \
	X(note_shim_jump, "native stacks continued at a Python frame across code without rows")    \
	X(note_no_regs, "counted samples without user registers")                                  \
	X(note_code_new, "code objects seen for the first time")                                   \
	X(note_code_lost, "code objects whose names found no room in the ring buffer")             \
	X(note_code_table, "code objects that found no room in the table")                         \
	X(note_proc_full, "processes that found no room in the table")                             \
	X(note_event_lost, "process events that found no room in the ring buffer")                 \
	X(note_fork, "forks followed")                                                             \
	X(note_exec, "execs seen")                                                                 \
	X(note_exit, "exits seen")                                                                 \
	X(note_tstate_scan, "walks of the list of thread states")                                  \
	X(note_remapped, "executable mappings whose address range was reused")                     \
	X(note_table_evicted, "unwind tables evicted to make room for others (--table-memory)")    \
	X(note_table_refused, "unwind tables that found no room (--table-memory)")                 \
	X(note_file_released, "files closed because no process maps and no stack names them")      \
	X(follow_ns,                                                                               \
	  "ns that the programs ran that follow processes (in record if the kernel counts it)")    \
	X(frames_native, "native frames unwound")                                                  \
	X(frames_python, "Python frames walked")                                                   \
	X(frames_kernel, "kernel frames")                                                          \
	X(note_handed_over, "counted samples of new stacks that NMI context left to user space")   \
	X(note_proc_busy, "changes to the table of processes that the kernel refused")             \
	X(timed_samples, "samples whose run time was measured")                                    \
	X(timed_ns, "nanoseconds that these ran")                                                  \
	X(note_rate_lowered, "times that sampling was slowed down because it took too much CPU")   \
	X(note_kernel_rate, "times that kernel.perf_event_max_sample_rate was lowered")            \
	X(note_throttled, "times that the kernel stopped sampling a CPU until its next tick")      \
	X(note_wait_full, "times that a thread found no room in the table of waiting threads")     \
	X(note_missed, "samples of the clock that never came")                                     \
	X(note_amount_cut, "hits of probes whose amount was negative or more than 1 TiB (sum)")    \
	X(note_refused, "users or processes of which nothing is read, because they do not answer") \
	X(note_loops_full, "times that a thread found no room in the table of event loops")        \
	X(note_memory_full, "sampled pages or blocks of memory that found no room in their table")

enum pyperf_counter {
#define X(name, text) CTR_##name,
	PYPERF_COUNTERS(X)
#undef X
		CTR_CNT
};

/* Value types that are counted in one run. */
#define SAMPLED_MAX   4

/* The counters of one CPU. A power of two, so that the verifier sees the bound. */
#define COUNTER_SLOTS 64
struct counters {
	__u64 n[COUNTER_SLOTS];
	/* What the counter of the event shows: struct bpf_perf_event_value. */
	__u64 counter, counter_enabled, counter_running;
	__u64 counter_at[SAMPLED_MAX]; /* ... and what it showed at the last sample of each event */
	__u64 begin_ns;		       /* start of the current sample, if it is timed; else 0 */
	__u64 next_value;	       /* value of the next sample, where that is not 1 */
	__u32 type;		       /* ... and the number of its event */
	__u32 next_type;	       /* event of the next sample: set before the tail call */
	__u32 claims;		       /* programs between claim and release: claim_scratch() */
	__u32 stands_for; /* number of its user's samples that the current one stands for */
};
_Static_assert(CTR_CNT <= COUNTER_SLOTS, "COUNTER_SLOTS");

/* ---- Arguments of probes ------------------------------------------------------------------- */

enum probe_arg_kind {
	PROBE_ARG_REG = 0,
	PROBE_ARG_MEMORY = 1, /* at base + index * scale + value */
	PROBE_ARG_CONST = 2,
};

/* Where an argument is when a probe is hit. Registers by DWARF number. */
#define PROBE_NO_REG 0xff
struct probe_arg {
	__u8 kind;
	__u8 reg;   /* of memory: the base */
	__u8 index; /* of memory; or PROBE_NO_REG */
	__u8 scale;
	__u8 size; /* bytes: 1, 2, 4 or 8 */
	__u8 is_signed;
	__u8 pad[2];
	__s64 value; /* displacement; or the constant */
};
PYPERF_ASSERT_SIZE(struct probe_arg, 16);

enum probe_op {
	PROBE_EQ = 0,
	PROBE_NE = 1,
	PROBE_LT = 2,
	PROBE_LE = 3,
	PROBE_GT = 4,
	PROBE_GE = 5,
};

struct probe_test {
	struct probe_arg arg;
	__u64 value;
	__u32 op; /* enum probe_op; signed if the argument is */
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct probe_test, 32);

/*
 * What a hit of a probe must be like, and what it is worth. Valid when all zero: each hit counts
 * one.
 */
#define PROBE_TESTS 4
struct probe_rule {
	__u32 test_cnt; /* all must be true */
	__u32 has_amount;
	struct probe_arg amount;
	struct probe_test tests[PROBE_TESTS];
};
PYPERF_ASSERT_SIZE(struct probe_rule, 24 + 32 * PROBE_TESTS);

/* probe_rules: number of a place -> its rule. */
#define PROBE_SPOTS	 64 /* places of one static probe, with a breakpoint each */
#define PROBE_RULES	 (SAMPLED_MAX * PROBE_SPOTS)
#define PROBE_AMOUNT_MAX (1ULL << 40) /* of one hit: a sum stays a sum */

struct probe_cfg {
	__u32 by_cookie; /* a hit brings the number of its place; else that of its value type */
	__u32 pad;
};

/* probe_hists: CPU, number of the value type -> what arguments were. */
#define PROBE_BUCKETS 65 /* [n]: from 2^(n-1) to 2^n - 1; [0]: 0 */
struct probe_hist {
	__u64 hits, others, unread; /* that counted; whose test failed; that could not be read */
	__u64 sum;
	__u64 bucket[PROBE_BUCKETS];
};

/*
 * probe_costs: process of the kernel's numbering -> its hits of all probes while the rate is
 * measured, also those that do not count.
 */
#define PROBE_PROCESSES 1024
struct probe_cost {
	__u64 emulated, stepped; /* what the kernel does with the instruction that it replaced */
};
PYPERF_ASSERT_SIZE(struct probe_cost, 16);

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
};
PYPERF_ASSERT_SIZE(struct image, 16 + 16 * IMAGE_INTERPS);

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

/* ---- Unwind tables ------------------------------------------------------------------------ */
/*
 * tables: table index -> ARRAY of chunks of UW_CHUNK_WORDS u32 words. Addresses are offsets in the
 * file. All parts begin at multiples of four words, so no rule straddles a chunk.
 *
 *   word 0..7   struct unwind_header
 *   index       one word per page of 1 << UW_PAGE_BITS bytes of text, and one more: the number of
 *               the first row that lies in that page or later
 *   rows        (low 16 bits of the offset) << 16 | number of the rule, ascending by full offset
 *   rules       struct unwind_rule, four words each; rule 0 is "no information"
 *
 * A row is valid from its offset to the next row's. To look up offset o: p = (o >> UW_PAGE_BITS) -
 * first_page; the answer is the last row <= o among index[p] - 1 .. index[p + 1] - 1.
 * Text without an FDE is covered by a row with rule 0.
 */
#define UW_PAGE_BITS   8
#define UW_CHUNK_WORDS 1024
#define UW_CHUNK_BYTES (UW_CHUNK_WORDS * 4)
#define UW_MAX_RULES   65536
#define UW_MAX_WORDS   (1U << 28)

struct unwind_header {
	__u32 first_page; /* offset >> UW_PAGE_BITS of the first page of text */
	__u32 page_cnt;
	__u32 index_word; /* where the parts begin, in words */
	__u32 row_word;
	__u32 row_cnt;
	__u32 rule_word;
	__u32 rule_cnt;
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct unwind_header, 32);

enum cfa_kind {
	CFA_NONE = 0,	   /* no information: not covered by an FDE, or a rule we cannot express */
	CFA_END = 1,	   /* return address undefined: the outermost frame */
	CFA_REG = 2,	   /* reg + off */
	CFA_DEREF_REG = 3, /* *(reg + off) + add */
	CFA_PLT = 4,	   /* sp + off + ((pc & 15) >= add ? 8 : 0): the .plt's expression */
	CFA_SIGNAL = 5,	   /* signal frame: registers are in the ucontext at sp sp + off */
	CFA_DEREF_INDEX = 6, /* *(reg + 8 * index + off) + add: behind an array */
	CFA_BASE = 7,	     /* CFA_REG, of the first function of a greenlet */
	CFA_SWITCH = 8, /* CFA_REG, of the function that changes from one greenlet to another */
};

enum reg_rule {
	REG_SAME = 0,	 /* unchanged */
	REG_CFA_OFF = 1, /* saved at CFA + off */
	REG_UNDEF = 2,	 /* lost */
	REG_FP_OFF = 3,	 /* saved at this frame's frame pointer + off: realigned stacks (DRAP) */
};

/*
 * unwind_rule.cfa_add of CFA_REG: the extra register (arch/arch.h) is saved at CFA + this, or one
 * of these. It is read only if it is the CFA of a frame (the dynamic linker's, where it binds a
 * symbol at its first call).
 */
#define UW_EXTRA_SAME 0
#define UW_EXTRA_LOST 1

/*
 * How to leave one frame. Registers are DWARF numbers of the file's machine. The frame pointer and
 * the return address are tracked beyond the leaf, the extra register when it is needed. Rules on
 * other callee-saved registers can be followed in the leaf frame only.
 */
struct unwind_rule {
	__u8 cfa_kind; /* enum cfa_kind */
	__u8 cfa_reg;  /* DWARF register number; CFA_DEREF_INDEX: reg | index << 4 */
	__u8 fp_rule;  /* enum reg_rule */
	__u8 ra_rule;  /* enum reg_rule; REG_SAME: still in the link register */
	__s32 cfa_off;
	__s32 fp_off;  /* when fp_rule is REG_CFA_OFF or REG_FP_OFF */
	__s16 ra_off;  /* when ra_rule is REG_CFA_OFF */
	__s16 cfa_add; /* see enum cfa_kind; CFA_REG: see UW_EXTRA_SAME */
};
PYPERF_ASSERT_SIZE(struct unwind_rule, 16);

/* ---- Python ------------------------------------------------------------------------------- */

/* How frames are linked: cpython Include/internal/pycore_frame.h and its predecessors. */
enum py_chain {
	PY_CHAIN_FRAME = 1, /* <= 3.9: tstate->frame, f_back; no anchor: one frame per activation */
	PY_CHAIN_FRAME_C = 2, /* 3.10: the same, with one CFrame on the C stack per activation */
	PY_CHAIN_CFRAME = 3,  /* 3.11: tstate->cframe->current_frame, split by CFrames */
	PY_CHAIN_CFRAME_SHIM = 4, /* 3.12: the same leaf, split by shim frames */
	PY_CHAIN_SHIM = 5,	  /* 3.13+: tstate->current_frame, split by shim frames */
};

enum py_lasti {
	PY_LASTI_BYTES = 1,   /* <= 3.9: f_lasti, an int, in bytes */
	PY_LASTI_UNITS = 2,   /* 3.10: f_lasti, an int, in units of two bytes */
	PY_LASTI_POINTER = 3, /* 3.11+: a pointer into the bytecode */
};

enum py_str {
	PY_STR_BYTES = 1,     /* 2.7: a bytes object */
	PY_STR_STATE32 = 2,   /* 3.3 - 3.13: u32 state: kind bits 2-4, compact 5, ascii 6 */
	PY_STR_STATE_T14 = 3, /* 3.14t+: byte 1 of state: kind bits 0-2, compact 3, ascii 4 */
};

#define PY_OFF_NONE 0xffff

/* Offsets in bytes of one CPython version and build. PY_OFF_NONE: the field does not exist. */
struct py_layout {
	__u32 version;	     /* PY_VERSION_HEX >> 16: 0x030b for 3.11 */
	__u8 chain;	     /* enum py_chain */
	__u8 lasti;	     /* enum py_lasti */
	__u8 str;	     /* enum py_str */
	__u8 linetable_kind; /* enum py_linetable */
	__u16 interp_next;
	__u16 interp_threads_head;
	__u16 interp_id; /* int64; PY_OFF_NONE below 3.7 */
	__u16 tstate_next;
	__u16 tstate_thread_id;
	__u16 tstate_frame; /* frame, cframe or current_frame, by `chain` */
	__u16 tstate_chunk; /* datastack_chunk, and behind it datastack_top (3.11, 3.12) */
	__u16 tstate_read;  /* bytes to read to have all fields of the tstate */
	__u16 root_cframe;  /* in the tstate: end of the CFrame list (3.10 - 3.12) */
	__u16 base_frame;   /* in the tstate: pointer to the end of the frame chain (3.15) */
	__u16 cframe_frame; /* current_frame */
	__u16 cframe_previous;
	__u16 cframe_tstate;   /* tstate->cframe where tstate_frame is not it (3.10) */
	__u16 frame_back;      /* f_back or previous */
	__u16 frame_code;      /* f_code or f_executable */
	__u16 frame_lasti;     /* f_lasti, prev_instr or instr_ptr */
	__u16 frame_owner;     /* u8: 3 and above is a shim (3.12+) */
	__u16 frame_locals;    /* localsplus (3.11, 3.12) */
	__u16 frame_executing; /* u8, f_executing (3.6 - 3.9) */
	__u16 frame_read;      /* bytes to read to have all fields of the frame */
	__u16 code_firstlineno;
	__u16 code_filename;
	__u16 code_name;
	__u16 code_qualname; /* PY_OFF_NONE below 3.11 */
	__u16 code_linetable;
	__u16 code_version;	   /* u32, unique per code object (3.12+), 0 when exhausted */
	__u16 code_firsttraceable; /* int, in code units (3.11+) */
	__u16 code_stacksize;	   /* int, in words (until 3.10), as ... (3.11, 3.12) */
	__u16 code_nlocalsplus;	   /* ... this */
	__u16 code_bytecode;	   /* co_code_adaptive (3.11+) */
	__u16 code_tlbc;	   /* co_tlbc (3.14t+) */
	__u16 code_read;	   /* bytes to read to have all fields of the code object */
	__u16 code_first;	   /* the fields that identify it: where they begin ... */
	__u16 code_last;	   /* ... and end */
	__u16 frame_tlbc_index;
	__u16 ob_type;
	__u16 str_length;
	__u16 str_hash;
	__u16 str_state;
	__u16 str_ascii;   /* where the characters begin: of ASCII */
	__u16 str_compact; /* ... and of other strings */
	__u16 bytes_size;
	__u16 bytes_data;
	/* place of the count that set_epoch() reads, in units of 8 bytes; 0: not known */
	__u16 interp_codes;
};
PYPERF_ASSERT_SIZE(struct py_layout, 96);

enum py_linetable {
	PY_LINES_LNOTAB_27 = 1, /* 2.7: unsigned line deltas */
	PY_LINES_LNOTAB = 2,	/* 3.6 - 3.9 */
	PY_LINES_310 = 3,
	PY_LINES_311 = 4, /* 3.11+ */
};

#define MAX_EVAL_RANGES 4

/* interps: index -> one interpreter binary. Addresses are link addresses; add image_interp.bias. */
struct interp {
	struct py_layout layout;
	__u64 interp_head; /* of the pointer to the first PyInterpreterState */
	__u64 code_type;   /* PyCode_Type */
	struct {
		__u64 start, end;
	} eval[MAX_EVAL_RANGES]; /* the eval loop and its cold parts, by their FDEs; 0, 0: unused */
	/*
	 * BPF learns these at the first good unwind; they are constants of the binary; 0: not known
	 * yet.
	 */
	__s32 anchor_delta;  /* CFA - anchor, in the eval loop's native frame */
	__s32 anchor_fp_off; /* that frame saved the frame pointer at CFA + this */
	__s32 cframe_delta;  /* CFA - CFrame (3.11, 3.12) */
	/*
	 * Offset of the GIL's futexes in its struct. The struct is at `gil`; if that is 0, the
	 * interpreter of the thread has a pointer to it. gil_size 0: not known, or there is none.
	 */
	__u16 gil_locks, gil_size;
	__u64 gil;
	__u16 gil_interp;    /* in the PyThreadState: pointer to the interpreter ... */
	__u16 gil_of_interp; /* ... and in that: pointer to the GIL */
	__u16 gil_holder;    /* in the struct: the PyThreadState that holds it ... */
	__u16 gil_locked;    /* ... while this int is 1 */
};
PYPERF_ASSERT_SIZE(struct interp, 96 + 16 + 16 * MAX_EVAL_RANGES + 32);

/* ---- Code objects ------------------------------------------------------------------------- */

/*
 * codes: the code object at an address. The fingerprint is part of the key: an address that is
 * reused for another code object is another key, so a new function is never shown under an old
 * name.
 */
struct code_key {
	__u64 addr;
	__u64 fingerprint; /* of contents, and of the address space */
};
struct code_val {
	__u64 id;
};

#define CODE_SLOTS 2048

/*
 * known_codes: a known code object, see code_identify(). BPF finds its id here without a look-up in
 * `codes`.
 */
struct known_code {
	__u64 addr;	   /* 0: free */
	__u64 fingerprint; /* and the epoch, see known_fingerprint() */
	__u64 id;
	__u64 epoch; /* of its last use: see set_epoch() */
};
PYPERF_ASSERT_SIZE(struct known_code, 32);

#define CODE_ROWS    1024
#define ROW_LINES    16
#define LINE_CODES   4
#define ROW_ID_SHIFT 36 /* ids are smaller: FRAME_PYTHON_CODE */

/*
 * code_rows: the code objects of a thread in one row, so that their cache lines are neighbours.
 * Threads with the same hash share a row, on any CPU and without a lock. The tag rejects an entry
 * of another process or another epoch, and an entry of which half was overwritten.
 */
struct row_code {
	__u64 tag; /* of the code object and its epoch; 0: free */
	__u64 id;  /* with the low bits of the tag above ROW_ID_SHIFT */
};
struct code_row {
	struct row_code line[ROW_LINES][LINE_CODES];
};
PYPERF_ASSERT_SIZE(struct code_row, ROW_LINES * 64);

/*
 * threads: thread -> its PyThreadState. A cache, checked at each use. A walk of the list notes the
 * states that it passes on its way to another thread's, under their thread pointers.
 */
#define THREAD_PASSED	      (1U << 31) /* which no tid has */
#define THREAD_PASSED_TID(tp) (THREAD_PASSED | (__u32)((tp) >> 6))

struct thread_key {
	__u32 space;
	__u32 tid;  /* or THREAD_PASSED_TID() */
	__u64 bias; /* of the interpreter: a thread may be known to two */
};
PYPERF_ASSERT_SIZE(struct thread_key, 16);
struct thread_val {
	__u64 tstate; /* 0: it had none while the lists began as `heads` says */
	__u64 interp; /* the interpreter that the state belongs to */
	__u64 only;   /* the only interpreter, 0 if there were several */
	__u64 heads;
};
PYPERF_ASSERT_SIZE(struct thread_val, 32);

/* ---- Threads, as they are now ---------------------------------------------------------------- */

enum thread_flags {
	THREAD_ON_CPU = 1 << 0,	  /* was running: the data are old */
	THREAD_REGS = 1 << 1,	  /* regs and pc are set */
	THREAD_COMPAT32 = 1 << 2, /* of a 32-bit program: regs and pc are not set */
};

/* From include/linux/sched.h, the same in all kernels from 4.14 on. */
enum thread_state {
	THREAD_RUNNABLE = 0,
	THREAD_SLEEPING = 0x1,
	THREAD_BLOCKED = 0x2, /* cannot be interrupted */
	THREAD_STOPPED = 0x4,
	THREAD_TRACED = 0x8,
};

#define THREAD_KERN_FRAMES 64

/*
 * The record that the iterator of threads.bpf.c writes for each thread of the process. If a thread
 * is not on a CPU now and at a later look, and `switches` is the same, it did not run in between:
 * the kernel adds to it whenever it takes a thread off its CPU, before on_cpu becomes 0
 * (__schedule()).
 */
struct thread_now {
	__u32 tid;	  /* as the caller's pid namespace sees it */
	__u32 flags;	  /* enum thread_flags */
	__u32 state;	  /* enum thread_state, and other bits */
	__u32 exit_state; /* not 0: it has ended, and nobody has waited for it yet */
	__u64 switches;
	__u64 tp; /* thread pointer */
	__u64 pc;
	__u64 regs[GREG_CNT]; /* includes sp, fp and the arguments of a system call */
	__s64 syscall;	      /* number of its system call; negative: it is in none */
	char comm[TASK_COMM_LEN];
	__u32 kernel_cnt;
	__u32 inner_tid; /* as the process itself sees it */
	__u32 tgid;	 /* as `tid` */
	__u32 pad;
	__u64 start_ns;			  /* when it began, by bpf_ktime_get_ns() */
	__u64 kernel[THREAD_KERN_FRAMES]; /* addresses, innermost first */
};
PYPERF_ASSERT_SIZE(struct thread_now, 48 + 8 * GREG_CNT + 40 + 8 * THREAD_KERN_FRAMES);

/* ---- Waiting ------------------------------------------------------------------------------ */

#define WAIT_CALLS   512   /* numbers of system calls in wait_cfg.call */
#define WAIT_THREADS 16384 /* of waits, and of gil_threads */

/* The meaning of the first argument of a system call. */
enum wait_call {
	WAIT_CALL_OTHER = 0,
	WAIT_CALL_FILE = 1, /* a descriptor: the kind of its file is the reason of the wait */
	WAIT_CALL_FUTEX = 2,
	WAIT_CALL_SELECT = 3, /* a number of descriptors: 0 means a sleep */
	WAIT_CALL_SLEEP = 4,
	WAIT_CALL_POLL = 5,
	WAIT_CALL_EPOLL = 6, /* a descriptor that tells one poll from another */
};

/*
 * wait_state: user/ writes it before it attaches the scheduler's program. Waits before `since_ns`
 * do not count.
 */
enum wait_state_flags {
	/*
	 * The stack is taken when the thread leaves its system call, so a wait outside a system
	 * call has no stack.
	 */
	WAIT_LATE = 1 << 0,
};

struct wait_state {
	__u64 since_ns;
	/* a shorter wait is sampled with probability length / step_ns, and counts as step_ns */
	__u64 step_ns;
	__u32 flags;
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct wait_state, 24);

/* In .rodata of the object of waits, written before it is loaded. */
struct wait_cfg {
	__u64 least_ns; /* shorter waits do not count */
	__u32 type;	/* number of the value type */
	__u32 pad;
	__u8 call[WAIT_CALLS]; /* enum wait_call, by number of the system call */
};
PYPERF_ASSERT_SIZE(struct wait_cfg, 16 + WAIT_CALLS);

/*
 * waits: thread, by the kernel's number -> where its time goes. Times are those of
 * bpf_ktime_get_ns(). BPF writes; user/ reads who waits when a window ends.
 */
struct wait_thread {
	__u64 out_ns;	/* it left its CPU; 0: it is on one */
	__u64 woken_ns; /* when it was woken last */
	__u64 in_ns;	/* when it came to its CPU; 0: not seen */
	/* Sampled waits that are still to be counted with a stack, and those without a stack. */
	__u64 due_wait_ns, due_queue_ns;
	__u64 bare_wait_ns, bare_queue_ns;
	/* Sums over all of its life that was seen. */
	__u64 ran_ns, queued_ns, waited_ns;
	__u32 tgid, tid; /* as the caller's pid namespace sees them */
	__u16 preempted; /* it left its CPU although it could run */
	__u8 in_call;	 /* ... in a system call; of WAIT_LATE only */
	__u8 polls;	 /* ... to wait in the poll of struct loop_thread */
	__u32 slot;	 /* of struct shares */
	__u64 futex;	 /* the futex of its last wait, if that is known */
};
PYPERF_ASSERT_SIZE(struct wait_thread, 104);

/* ---- Event loops ---------------------------------------------------------------------------- */

#define LOOP_THREADS 1024
#define LOOP_BUCKETS                                                                               \
	32 /* by the binary logarithm of microseconds; what is less counts in the first */
#define LOOP_LONGEST 10
#define LOOP_STACKS  6
#define LOOP_SLOW_NS 100000000 /* asyncio's own threshold: slow_callback_duration */
#define LOOP_NO_FD   0xffffffffU
#define LOOP_OTHERS  16 /* waits in another poll after which that one is the loop's */

struct loop_stack {
	__u64 stack; /* COUNT_HASH() of its key; 0: none */
	__u64 ns;    /* counted there */
};

/* What a thread did between two waits in its poll. */
struct loop_stretch {
	__u64 begin_ns, end_ns;
	__u64 other_ns; /* counted at stacks that found no room */
	struct loop_stack stacks[LOOP_STACKS];
};
PYPERF_ASSERT_SIZE(struct loop_stretch, 24 + 16 * LOOP_STACKS);

/*
 * loops: number of a thread, as the kernel has it -> how it waits in its poll, and what it does
 * between. BPF writes; user/ reads, and takes out those of threads that have ended. Whether the
 * poll is an event loop's, its stack says. The longest are those that ended in the window of this
 * number, which user/ counts up where it wants them anew: struct shares.
 */
struct loop_thread {
	__u64 poll_stack; /* COUNT_HASH(), as of struct loop_stack */
	__u64 busy_ns,
		slow_ns; /* sums of stretches that have ended, and of those of LOOP_SLOW_NS */
	__u64 least_ns;	 /* of the longest, once there are LOOP_LONGEST */
	__u32 cnt, slow_cnt;
	__u32 call, fd; /* its poll: number of the system call, descriptor or LOOP_NO_FD */
	__u32 space, tgid, tid;
	__u32 slot;   /* of struct shares */
	__u32 others; /* waits in another poll since the last in its own */
	__u32 ended;  /* the thread has */
	__u32 longest_cnt, window;
	__u32 hist[LOOP_BUCKETS];
	struct loop_stretch now;		   /* begin_ns is 0 while it polls */
	struct loop_stretch longest[LOOP_LONGEST]; /* in no order */
};
PYPERF_ASSERT_SIZE(struct loop_thread,
		   80 + 4 * LOOP_BUCKETS + (LOOP_LONGEST + 1) * (24 + 16 * LOOP_STACKS));

/* sleepers: thread, by the kernel's number -> its wait, as far as its waker needs it. */
struct waker_thread {
	__u64 out_ns; /* it left its CPU to wait; 0: it does not wait */
	__u64 due_ns; /* length of a sampled wait, to be counted with the stack of its waker */
	__u64 futex;  /* on which it waited; 0: on none */
	__u32 slot;   /* of struct shares */
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct waker_thread, 32);

/* A GIL, by the address of its struct and the process. */
struct gil_key {
	__u64 gil;
	__u32 tgid; /* as the caller's pid namespace sees it */
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct gil_key, 16);

/* gils: struct gil_key -> its waiters. BPF inserts and updates. */
struct gil_state {
	/*
	 * The number of waiters (the low 16 bits) and, modulo 2^48, the sum of the times at which
	 * waits ended minus the sum of the times at which they began. One word, so that one
	 * addition changes both.
	 */
	__u64 waiters;
	__u64 charged; /* the part of the waited time with which holders have been charged */
	/* Offsets in its struct: see struct interp. thread_id is an offset in a PyThreadState. */
	__u16 locks, size, holder, locked;
	__u16 thread_id;
	__u16 pad;
	__u32 threads; /* threads that use this GIL; the entry of a GIL without any is deleted */
};
PYPERF_ASSERT_SIZE(struct gil_state, 32);

/*
 * gil_threads: thread, by the kernel's number -> its relation to the GIL of its interpreter.
 * "Waited" is the time that all threads have waited for that GIL. BPF writes.
 */
struct gil_thread {
	__u64 gil;	  /* 0: not known */
	__u64 look_ns;	  /* when to look for it */
	__u64 out_ns;	  /* it left its CPU; 0: it is on one */
	__u64 waited_out; /* "waited" when it left its CPU */
	__u64 away;	  /* increase of "waited" while it was off its CPU; 0: used already */
	/* To be counted with its stack. */
	__u64 due_wait_ns, due_held_ns;
	__u32 tgid;	   /* as the caller's pid namespace sees it */
	__u32 slot;	   /* of struct shares */
	__u32 look_gap_ns; /* until the next look */
	__u16 waits;	   /* it is off its CPU for the GIL, and counted in gil_state.waiters */
	__u8 preempted;	   /* see struct wait_thread */
	__u8 in_call;
};
PYPERF_ASSERT_SIZE(struct gil_thread, 72);

/* ---- Growth of resident memory ------------------------------------------------------------ */

/* The kernel's counters of an address space: MM_FILEPAGES ... (mm_types_task.h) */
#define RSS_KINDS     4
#define RSS_SWAP      2 /* not resident */
#define PAGE_BITS_MAX 16
#define HUGE_BITS     21

/* In .rodata of the object of growth, written before it is loaded. */
struct growth_cfg {
	__u64 step;	   /* bytes that a sample stands for; 0: chosen by the interval */
	__u64 interval_ns; /* wanted between two samples of a process */
	__u32 type;	   /* number of the value type */
	__u32 page_bits;
};
PYPERF_ASSERT_SIZE(struct growth_cfg, 24);

/* growths: address of a struct mm_struct -> its memory. BPF writes. */
struct growth {
	__u64 due_ns;		/* of the next sample, at the rate asked for */
	__s64 pages[RSS_KINDS]; /* last value of the kernel's counter that all CPUs share */
	__u32 space;		/* its space: struct proc */
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct growth, 16 + 8 * RSS_KINDS);

/* growth_cpus: the same key -> pages that one CPU has added but not yet to the shared counter. */
struct growth_cpu {
	__s32 pages[RSS_KINDS];
	__u32 space;
	__u32 seen; /* bits: kinds whose `pages` is known */
};
PYPERF_ASSERT_SIZE(struct growth_cpu, 8 + 4 * RSS_KINDS);

/*
 * faults: of a CPU, the last page fault; the sample that is due; and the address space that it
 * counted last, so that most pages need no look-up.
 */
struct growth_fault {
	__u64 addr;
	__u64 value;
	__u64 map, map_value; /* see cpu_offset() */
	__u32 tid;	      /* as the kernel has it */
	__u32 bits;	      /* size of the page, as a number of bits */
	__u64 mm;
	__u64 step;		  /* see draw() */
	__u64 counter[RSS_KINDS]; /* addresses of the kernel's counters for this CPU */
	struct growth_cpu cpu;
	__u64 other; /* another address space, which does not count */
	__u32 tgid;
	__u32 others; /* its pages */
};
PYPERF_ASSERT_SIZE(struct growth_fault, 72 + 8 * RSS_KINDS + sizeof(struct growth_cpu));

/*
 * pages: a sampled page, until it is touched anew -> the count that it is in. Pages that are gone
 * when the window ends are subtracted from their count.
 */
struct page_key {
	__u64 addr; /* of the page's first byte */
	__u32 space;
	__u32 bits; /* of the page */
};
PYPERF_ASSERT_SIZE(struct page_key, 16);

/*
 * page_marks: was a page near this one ever in `pages`? A few cache lines answer most questions; a
 * mark too many costs a look-up.
 */
#define PAGE_MARKS     16384
#define PAGE_MARK_BITS 16 /* bytes that share a mark */
#define PAGE_MARK(at)  ((__u32)(((at)->addr >> PAGE_MARK_BITS) ^ (at)->space) % PAGE_MARKS)

struct page_val {
	__u64 stack; /* struct count_key */
	__u32 space, thread;
	__u64 value;
	__u32 tgid; /* as the caller's pid namespace sees it */
	__u32 window;
	__u32 slot; /* slot of struct shares that counts the entry */
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct page_val, 40);

#define PAGE_ENTRIES 65536 /* of pages */

/* ---- Blocks of memory --------------------------------------------------------------------- */

/* A function of the allocator: the cookie of its breakpoint, with BLOCK_GLIBC or without. */
enum block_call {
	BLOCK_MALLOC = 0,  /* (size) */
	BLOCK_CALLOC = 1,  /* (cnt, size) */
	BLOCK_REALLOC = 2, /* (block, size) */
	BLOCK_ALIGNED = 3, /* (alignment, size) */
	BLOCK_POSIX = 4,   /* (&block, alignment, size) */
	BLOCK_FREE = 5,	   /* (block) */
};
#define BLOCK_GLIBC	  (1 << 8) /* of glibc, which calls malloc() itself if that is enough */
#define BLOCK_LEAST_BITS  4	   /* ... for alignments of up to so many bits, among others */
#define BLOCK_CALL(word)  ((__u32)(word)&0xff)

/*
 * In .rodata of the object of blocks, written before it is loaded. Fractions are in units of
 * 1 / 65536.
 */
#define BLOCK_LOGS	  256
#define BLOCK_WORTHS	  256
#define BLOCK_WORTH_SHIFT 5 /* bits of an index that make up one interval */
struct blocks_cfg {
	__u64 interval;		/* bytes from one sample to the next, on average: up to 1 << 30 */
	__u64 gap;		/* interval * ln 2 */
	__u32 space_type;	/* number of the value type of the bytes that were allocated ... */
	__u32 object_type;	/* ... and of the blocks */
	__u32 log2[BLOCK_LOGS]; /* of 1 + (i + 1/2) / BLOCK_LOGS */
	__u32 worth[BLOCK_WORTHS + 2]; /* x / (1 - exp(-x)) of x = i / 32: see worth_of() */
};
PYPERF_ASSERT_SIZE(struct blocks_cfg, 24 + 4 * (BLOCK_LOGS + BLOCK_WORTHS + 2));

/* block_cpus: counts of one CPU, and the distance to its next sample. BPF writes. */
struct block_cpu {
	__u64 calls, frees; /* hits */
	__u64 bytes;	    /* that were asked for */
	__s64 left;	    /* bytes until the next sample */
	/* The sampled block, while the scratch of the CPU is claimed for it. */
	__u64 size, out;
	__u32 begun;
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct block_cpu, 56);

/* drawn: thread -> its sampled block, until the allocator's function returns. BPF writes. */
struct block_val {
	__u64 stack; /* struct count_key */
	__u32 space, thread;
	__u64 bytes, objects; /* bytes and objects that it stands for */
	__u64 out;	      /* where the function writes its address; 0: it returns it */
	__u32 tgid;	      /* as the kernel has it */
	__u32 window;
	__u32 slot; /* slot of struct shares that counts the entry */
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct block_val, 56);

#define BLOCK_ENTRIES 65536 /* of blocks */

/* blocks: start of a sampled block -> struct block_val. Freed blocks are deleted. */
struct block_key {
	__u64 addr;
	__u32 tgid; /* as the kernel has it */
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct block_key, 16);

/* block_marks: was a block with such an address ever in `blocks`? */
#define BLOCK_MARKS	 65536
#define BLOCK_MARK(addr) ((__u32)(((addr) >> 4) ^ ((addr) >> 20)) % BLOCK_MARKS)

/* In .rodata of the object of reference counts, written before it is loaded. */
struct refcount_cfg {
	__u64 addr;	    /* of the count, of one process */
	__u32 taken_type;   /* number of the value type of references that were taken ... */
	__u32 dropped_type; /* ... and of those that were dropped */
};
PYPERF_ASSERT_SIZE(struct refcount_cfg, 16);

/* refcounts: the only count. user/ writes it before counting begins, BPF after that. */
struct refcount_state {
	__u32 on;
	__u32 count; /* the last value that was read */
	__u32 freed; /* it has been 0: the object was freed */
	__u32 change;
	__u64 changes;
	__u64 unread; /* writes after which the count could not be read */
};
PYPERF_ASSERT_SIZE(struct refcount_state, 32);

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
