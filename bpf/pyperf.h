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

/* Python frames, and native frames, kept of one stack, innermost first: struct pyperf_cfg. */
#define STACK_DEPTH_DEFAULT	       1024
#define STACK_DEPTH_MIN		       128 /* kernel frames need so much, see DEEP_WORDS() */
#define STACK_DEPTH_MAX		       16384
/* PERF_MAX_STACK_DEPTH, see sysctl kernel.perf_event_max_stack */
#define MAX_KERN_FRAMES		       127
#define MAX_FRAMES		       (2 * STACK_DEPTH_MAX) /* words of one merged stack */
#define CHUNK_FRAMES		       16		     /* words of one stored chunk */
#define MAX_CHUNKS		       (MAX_FRAMES / CHUNK_FRAMES)
#define MAX_THREAD_SCAN		       4096  /* thread states looked at to find a thread's own */
#define BLOB_DATA		       2048  /* bytes of one piece of a name or line table */
#define MAX_BLOB_PIECES		       64    /* pieces of one name or line table */
#define SEEN_SLOTS		       16384 /* of files in `seen`, by id modulo that */
#define TASK_COMM_LEN		       16
#define GLOB_LEN		       64
#define TIMED_EVERY		       16   /* samples, of which one is timed */
#define TIMED_FRAME_NS		       1000 /* no frame takes longer, native and Python together */

/* ---- Frame words -------------------------------------------------------------------------- */
/*
 * A frame is one 64-bit word that means something without the process it was taken in:
 *
 *   63..60 tag   59 ............................................................. 0
 *   NATIVE       file id (24 bits)            | offset in the file (36 bits)
 *   PYTHON       code id (36 bits)            | bytecode offset in bytes (24 bits)
 *   KERNEL       address, upper four bits cut (always ones)
 *   MARKER       reason (12 bits)             | detail (48 bits)
 *   ANON         user address in memory that belongs to no ELF file: JIT code, trampolines, a memfd
 *                that is no ELF file, an address outside all known mappings. It means something in
 *                one address space only: the `space` of the stack's struct count_key
 *   JIT          number of a name, see user/symbolize/sym_jit.h: what user/ makes of ANON when it
 *                reads a window, because of that; BPF never writes it
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
/* Bytecode offset of a frame that has not executed its first instruction: shown at co_firstlineno.
 */
#define OFFSET_NOT_STARTED  FRAME_PYTHON_OFFSET

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
	X(NO_ROOM, 18, "no-room-for-mappings") /* of all the process's: IMAGE_CUT */

enum marker_why {
#define X(name, number, text) MARK_##name = (number),
	PYPERF_MARKERS(X)
#undef X
};

/* ---- Counters ----------------------------------------------------------------------------- */
/*
 * delivered = counted + filtered_* + lost_*, always. The note_* counters qualify samples that were
 * counted (a sample may have several) and events beside the samples; they are in no sum. Those on
 * tables and files are user space's.
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
	X(filtered_python, "samples of processes without Python")                                  \
	X(filtered_exited, "samples of processes past their exit")                                 \
	X(filtered_pidns, "samples of processes outside the caller's pid namespace")               \
	X(filtered_unknown, "samples of processes that ended before they were analysed")           \
	X(lost_no_proc, "samples of processes that were not known")                                \
	X(lost_counts_full, "samples dropped because the table of counts was full")                \
	X(lost_chunks_full, "samples dropped because the table of stacks was full")                \
	X(lost_nmi_miss, "samples of new stacks in NMI context that found no way to user space")   \
	X(lost_internal, "samples dropped by an internal look-up that cannot fail")                \
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
	X(note_throttled, "times that the kernel stopped sampling a CPU until its next tick")

enum pyperf_counter {
#define X(name, text) CTR_##name,
	PYPERF_COUNTERS(X)
#undef X
		CTR_CNT
};

/* counters: of one CPU. A power of two, for a bound that the verifier sees. */
#define COUNTER_SLOTS 64
struct counters {
	__u64 n[COUNTER_SLOTS];
	__u64 begin_ns;	 /* of the sample at hand, if it is timed; else 0 */
	__u32 type;	 /* ... and which of the events it is of */
	__u32 next_type; /* of the sample that begins: set in front of the tail call */
	__u32 claims;	 /* programs of probes between claim and release: see bpf/probe.bpf.c */
	__u32 pad;
};
_Static_assert(CTR_CNT <= COUNTER_SLOTS, "COUNTER_SLOTS");

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
	CFG_RECALL = 1 << 11, /* samples are seldom: see struct recall */
};

#define OBJECTS_MAX 2

struct pyperf_cfg {
	__u32 flags;
	__u32 pidns_level;
	__u32 pidns_inum;
	__s32 cgroup_subsys; /* index in css_set.subsys, -1: the default (v2) hierarchy */
	__u64 cgroup_id;     /* kernfs node id, which is st_ino of the directory */
	__u64 hash_seed;
	/* New entries in one window after which user space is woken to drain. */
	__u32 chunks_wake;
	__u32 counts_wake;
	__u32 cpu_cnt;	  /* possible CPUs: stride of the ids that each CPU hands out */
	__u32 max_frames; /* Python frames, and native ones, of a stack: STACK_DEPTH_MIN .. depth */
	__u32 depth;	  /* the power of two up to STACK_DEPTH_MAX by which `deep` is divided */
	__u32 object;	  /* which of those that walk: 0 the sampler, 1 probes */
	char comm_glob[GLOB_LEN];
};
PYPERF_ASSERT_SIZE(struct pyperf_cfg, 56 + GLOB_LEN);

/*
 * deep: CPU -> the words of the sample at hand, in parts of `depth` words. Their number is an
 * option, so they are not in a struct.
 */
enum deep_part {
	DEEP_PY = 0,	 /* PYTHON words, innermost first */
	DEEP_NATIVE = 1, /* native words, innermost first */
	DEEP_NATIVE_SEG =
		2,	    /* segments placed up to and including this native frame, or SEG_EVAL */
	DEEP_ANCHOR = 3,    /* of each segment */
	DEEP_SEG_START = 4, /* index in DEEP_PY of the segment's first frame */
	DEEP_SEG_END = 5,   /* ... and behind its last one */
	DEEP_SEG_ORDER = 6, /* the segments from the innermost outwards */
	DEEP_FRAMES = 7,    /* merged, innermost first: two parts */
	DEEP_HASH = 9,	    /* of each chunk: an eighth of a part */
};
#define DEEP_WORDS(depth) (9 * (depth) + (depth) / 8)

/* ---- Processes ---------------------------------------------------------------------------- */

enum proc_flags {
	PROC_TARGET = 1 << 0,
	PROC_PLAIN = 1 << 1, /* its executable is in plain_exes */
};

/*
 * Spaces below are given by user/ to processes that ran before, those above by BPF at fork and
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
	__u16 code_pages; /* executable ones at its last sample, modulo 2^16; 0: not sampled yet */
	__u32 areas; /* address ranges that the kernel has given to it: did its mappings change? */
};
PYPERF_ASSERT_SIZE(struct proc, 16);

/*
 * An executable, by the numbers that the kernel has for it; a file system may tell others by
 * stat().
 */
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

/* images: space -> what user/ knows of the address space. Absent: not analysed yet. */
struct image {
	__u32 flags;	 /* enum image_flags */
	__u32 map_first; /* first entry in `mappings`, sorted by start */
	__u32 map_cnt;
	__u32 interp_cnt;
	struct image_interp interps[IMAGE_INTERPS];
};
PYPERF_ASSERT_SIZE(struct image, 16 + 16 * IMAGE_INTERPS);

#define MAP_STEPS      17 /* halvings of `mappings`, which has no more than 1 << MAP_STEPS */
#define IMAGE_MAX_BITS 14 /* an image has fewer than 1 << IMAGE_MAX_BITS of them */

/*
 * Which mappings, and of which space, are a draft: one word, so that it is never half of another.
 */
#define DRAFT_WORD(space, first, cnt)                                                              \
	((__u64)(space) << 32 | (__u64)(first) << IMAGE_MAX_BITS | (__u64)(cnt))
#define DRAFT_SPACE(word) ((__u32)((word) >> 32))
#define DRAFT_FIRST(word) ((__u32)((word) >> IMAGE_MAX_BITS) & ((1U << MAP_STEPS) - 1))
#define DRAFT_CNT(word)	  ((__u32)(word) & ((1U << IMAGE_MAX_BITS) - 1))

/*
 * One executable mapping of a process. When the kernel gives its addresses out anew, BPF sets `end`
 * to `start`: what lies there now must not be shown as what was there.
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
 * of these. It is read only for a frame whose CFA it is (the dynamic linker's, where it binds a
 * symbol at its first call).
 */
#define UW_EXTRA_SAME 0
#define UW_EXTRA_LOST 1

/*
 * How to leave one frame. Registers by DWARF number of the file's machine. Frame pointer and return
 * address are tracked past the leaf, the extra register when it is needed. A rule on another
 * register that calls preserve can be followed in the leaf frame only.
 */
struct unwind_rule {
	__u8 cfa_kind; /* enum cfa_kind */
	__u8 cfa_reg;  /* DWARF register number; CFA_DEREF_INDEX: reg | index << 4 */
	__u8 fp_rule;  /* enum reg_rule */
	__u8 ra_rule;  /* enum reg_rule; REG_SAME: still in the register that a call sets */
	__s32 cfa_off;
	__s32 fp_off;  /* when fp_rule is REG_CFA_OFF or REG_FP_OFF */
	__s16 ra_off;  /* when ra_rule is REG_CFA_OFF */
	__s16 cfa_add; /* see enum cfa_kind; CFA_REG: see UW_EXTRA_SAME */
};
PYPERF_ASSERT_SIZE(struct unwind_rule, 16);

/* ---- Python ------------------------------------------------------------------------------- */

/* How frames hang together: cpython Include/internal/pycore_frame.h and its predecessors. */
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
	__u16 code_stacksize;	   /* int, in words (2.7), as ... (3.11, 3.12) */
	__u16 code_nlocalsplus;	   /* ... this */
	__u16 code_bytecode;	   /* co_code_adaptive (3.11+) */
	__u16 code_tlbc;	   /* co_tlbc (3.14t+) */
	__u16 code_read;	   /* bytes to read to have all fields of the code object */
	__u16 code_first;	   /* those that tell it from others: where they begin ... */
	__u16 code_last;	   /* ... and end */
	__u16 frame_tlbc_index;
	__u16 ob_type;
	__u16 str_length;
	__u16 str_hash;
	__u16 str_state;
	__u16 str_ascii;   /* where the characters begin: ASCII */
	__u16 str_compact; /* ... and otherwise */
	__u16 bytes_size;
	__u16 bytes_data;
	__u16 interp_codes; /* what set_epoch() reads, in units of 8 bytes; 0: not known */
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
	/* Learned by BPF at the first good unwind, constants of the binary; 0: not known yet. */
	__s32 anchor_delta;  /* CFA - anchor, in the eval loop's native frame */
	__s32 anchor_fp_off; /* where that frame saved the frame pointer: CFA + this */
	__s32 cframe_delta;  /* CFA - CFrame (3.11, 3.12) */
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct interp, 96 + 16 + 16 * MAX_EVAL_RANGES + 16);

/* ---- Code objects ------------------------------------------------------------------------- */

/*
 * codes: which code object is at this address. The fingerprint is part of the key: an address that
 * is reused for another code object is another key, so an old name cannot be shown for a new
 * function.
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
 * known_codes: a code object that was seen, see code_identify(). BPF finds its id here without
 * asking `codes`.
 */
struct known_code {
	__u64 addr;	   /* 0: free */
	__u64 fingerprint; /* and the epoch, see known_fingerprint() */
	__u64 id;
	__u64 epoch; /* in which it was seen last: see set_epoch() */
};
PYPERF_ASSERT_SIZE(struct known_code, 32);

#define CODE_ROWS    1024
#define ROW_LINES    16
#define LINE_CODES   4
#define ROW_ID_SHIFT 36 /* ids are smaller: FRAME_PYTHON_CODE */

/*
 * code_rows: the code objects that a thread was seen with, in one row, so that their lines are
 * neighbours. Threads of one hash share a row, on any CPU, and nobody locks: the tag tells an entry
 * of another process, of another epoch, and one half of which is of another.
 */
struct row_code {
	__u64 tag; /* of the code object and its epoch; 0: free */
	__u64 id;  /* and behind ROW_ID_SHIFT the low bits of the tag */
};
struct code_row {
	struct row_code line[ROW_LINES][LINE_CODES];
};
PYPERF_ASSERT_SIZE(struct code_row, ROW_LINES * 64);

/*
 * threads: where the PyThreadState of a thread is. A cache, checked at each use. The states that a
 * walk of the list passed on its way to another thread's are there by the thread pointers of
 * theirs.
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
	__u64 tstate; /* 0: it had none when the lists began where `heads` says */
	__u64 interp; /* the interpreter that the state belongs to */
	__u64 only;   /* the only interpreter, 0 if there were several */
	__u64 heads;
};
PYPERF_ASSERT_SIZE(struct thread_val, 32);

/* ---- Threads, as they are now ---------------------------------------------------------------- */

enum thread_flags {
	THREAD_ON_CPU = 1 << 0,	  /* running while it was looked at: what it was given is old */
	THREAD_REGS = 1 << 1,	  /* regs and pc are set */
	THREAD_COMPAT32 = 1 << 2, /* of a 32-bit program: they are not */
};

/* Of include/linux/sched.h, the same in all kernels from 4.14 on. */
enum thread_state {
	THREAD_RUNNABLE = 0,
	THREAD_SLEEPING = 0x1,
	THREAD_BLOCKED = 0x2, /* cannot be interrupted */
	THREAD_STOPPED = 0x4,
	THREAD_TRACED = 0x8,
};

#define THREAD_KERN_FRAMES 64

/*
 * What the iterator of threads.bpf.c writes for each thread of the process. If a thread is not on a
 * CPU now and at a later look, and `switches` is the same, it did not run in between: the kernel
 * adds to it whenever it takes a thread off its CPU, before on_cpu becomes 0 (__schedule()).
 */
struct thread_now {
	__u32 tid;	  /* as the caller's pid namespace sees it */
	__u32 flags;	  /* enum thread_flags */
	__u32 state;	  /* enum thread_state, and bits that are of no interest */
	__u32 exit_state; /* not 0: it has ended, and is waited for */
	__u64 switches;
	__u64 tp; /* thread pointer */
	__u64 pc;
	__u64 regs[GREG_CNT]; /* sp, fp and arguments of a system call among them */
	__s64 syscall;	      /* number of the system call that it is in; negative: it is in none */
	char comm[TASK_COMM_LEN];
	__u32 kernel_cnt;
	__u32 inner_tid;		  /* as the process itself sees it */
	__u64 kernel[THREAD_KERN_FRAMES]; /* addresses, innermost first */
};
PYPERF_ASSERT_SIZE(struct thread_now, 48 + 8 * GREG_CNT + 24 + 8 * THREAD_KERN_FRAMES);

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
	__u64 stack;  /* hash of the innermost chunk, and which event is counted: COUNT_WORD() */
};
PYPERF_ASSERT_SIZE(struct count_key, 16);

/*
 * Several events may be sampled at once. Which one a count is of stands in bits of the hash that no
 * chunk has: the key is no longer than for one event.
 */
#define SAMPLED_MAX	       4
#define COUNT_TYPE_SHIFT       1
#define COUNT_TYPE_MASK	       ((SAMPLED_MAX - 1ULL) << COUNT_TYPE_SHIFT)
#define COUNT_WORD(hash, type) ((hash) | (__u64)(type) << COUNT_TYPE_SHIFT)
#define COUNT_HASH(word)       ((word) & ~COUNT_TYPE_MASK)
#define COUNT_TYPE(word)       ((__u32)(((word)&COUNT_TYPE_MASK) >> COUNT_TYPE_SHIFT))

struct count_val {
	__u64 samples;
	__u64 value; /* their sum in units of the event: nanoseconds of a clock, else events */
};
PYPERF_ASSERT_SIZE(struct count_val, 16);

/*
 * chunks: hash -> up to CHUNK_FRAMES frames and the chunk of their callers. Cut from the root
 * outwards-in: the first chunk holds the outermost frames, so stacks with the same callers share
 * it. frames[0] is the outermost of the chunk. A stack is read by following `parent` up to 0.
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
	EV_UNSHARE = 7, /* the image that the process shared is not true of it: it has none */
	EV_STACK = 8,
	EV_THREAD = 9,
	EV_AREA = 10, /* it has other code than before, or will have in some microseconds */
};

/* In `events`. A record of 8 bytes beside these is there to wake user space, and says nothing. */
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
	BLOB_MISSING = 1 << 1, /* could not be read, or not all of it: read it at `uaddr` */
	BLOB_PY2 = 1 << 2,     /* bytes, not characters */
};

/* What to expect of one name or line table. */
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
 * In `misses`: what a sample in NMI context would have inserted into a map, where it may not take
 * the map's lock. user/ inserts it (CFG_NMI).
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
