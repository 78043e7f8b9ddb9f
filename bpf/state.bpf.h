/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef PYPERF_STATE_H
#define PYPERF_STATE_H
/*
 * The scratch of one sample. It is too big for the BPF stack, so it lives in a per-CPU map; every
 * step of the walk is a global function that fetches it anew (docs/internals/walk.md, "One function
 * per step").
 *
 * A sample cannot be interrupted by another one on the same CPU: the kernel refuses to run a perf
 * event program inside a perf event program (bpf_prog_active in kernel/events/core.c).
 */
#include "seam.bpf.h"

enum walk_flags {
	WALK_NATIVE_END = 1 << 0,  /* the native stack was unwound to its root */
	WALK_NATIVE_LOST = 1 << 1, /* it ended early: native.marker says why */
	WALK_PY_LOST = 1 << 2,	   /* the Python chain ended early: python.marker says why */
	WALK_TRUNCATED = 1 << 3,
	WALK_SHIM_JUMP = 1 << 4,
	WALK_PY_SCAN = 1 << 5,	   /* the list of thread states was walked */
	WALK_PY_UNMERGED = 1 << 6, /* Python frames were left when the native stack ended */
	WALK_NO_REGS = 1 << 7,	   /* nothing to begin with */
	WALK_ENTRY = 1 << 8,	   /* the root is code without rows, where the process began */
	/* A frame's CFA is in the extra register: walk again and track it. */
	WALK_WANT_EXTRA = 1 << 9,
	WALK_HAVE_EXTRA = 1 << 10, /* ... and has it */
	WALK_GREENLET = 1 << 11,   /* the root is a greenlet's */
	WALK_PY_CUT = 1 << 12,	   /* <= 3.9: Python itself has cut the chain (is_phantom()) */
	WALK_SKIPPED = 1 << 13,	   /* frames of files may be missing: shim_jump() left them out */
};

#define SEG_NONE       0
/* An eval-loop activation without an anchor (<= 3.9): paired in merge */
#define SEG_EVAL       0xffff
#define NO_ANCHOR      (~0ULL) /* of a segment whose end was not seen */
#define FRAME_SEGMENTS 8       /* limit per native frame */
#define OBJECT_SLOTS   64      /* a power of two */
#define MAX_TSTATES    4       /* limit per thread: one in each interpreter that it runs */
#define PASSED_SHARE   4       /* a walk of the list notes one of so many states that it passes */
#define BUF_BYTES      512     /* bytes of the target that are read at once; a power of two */
#define RECALL_SLOTS   64      /* of each kind; a power of two */
#define STACK_BYTES    512     /* the same for its stack */
#define FRAMES_BYTES   2048    /* room for Python frames; a power of two */
#define WINDOW	       1536    /* part of it for a piece of the data stack */
/* the smallest page size: memory within one can be read as a whole or not at all */
#define PAGE_BYTES     4096ULL

/* A thread state with frames of the current thread, and the result of its walk. */
struct tstate_run {
	__u64 tstate;
	__u64 leaf; /* tstate->frame, cframe or current_frame, by layout.chain */
	__u32 interp_id;
	__u32 seg_next, seg_end; /* its segments that are not in DEEP_SEG_ORDER yet */
	__u32 lost;		 /* its chain ended early */
};

/* A string or bytes object that was read. */
struct known_object {
	__u64 addr;
	__u64 hash;
	__u64 sample; /* the sample that read it */
};

/*
 * The cache lines in which the last sample of this CPU found its code objects and places. At low
 * rates these lines have left the CPU's caches by the next sample, and a walk would wait for one
 * after the other. The next sample of the same thread prefetches them all at once (recall_lines()).
 * For a deep stack these are the lines of the outer frames.
 */
struct recall {
	__u32 space, tid; /* whose sample it was */
	__u32 code_cnt, place_cnt;
	__u16 code[RECALL_SLOTS], place[RECALL_SLOTS];
};

enum scan_mode {
	SCAN_ALL = 0,
	SCAN_HEADS = 1, /* only the first thread state of each interpreter */
};

/* ---- the parts of struct walk ---------------------------------------------------------------- */

/*
 * Addresses are those of the target. A count is of entries, a size in bytes. "By" says which code
 * writes a part; on the host, that and who calls the walkers.
 *
 * What is cleared together lies side by side, so that one store clears two members. The first
 * member of a part is none whose address is taken: clang keeps the part's address in a register
 * then.
 */

/* Whose stack it is. By select_sample() and look_at_memory(), tp by walk_user(). */
struct walk_thread {
	__u32 tgid, tid;   /* as the caller's pid namespace sees them */
	__u32 space;	   /* number of the address space */
	__u32 code_pages;  /* executable ones that the process has mapped; the low 16 bits */
	__u64 stack_start; /* stack pointer with which the process began; 0: not known */
	__u64 tp;	   /* thread pointer */
	__u32 has_mm;	   /* 0: the thread's memory is gone; the pages and the start not valid */
	__u32 pad0;
};

/*
 * What user space found out about the process, and the interpreter of it that is walked. By
 * load_image() and load_interp().
 */
struct walk_image {
	__u32 map_first, map_cnt; /* its entries of `mappings` */
	__u32 is_cut;		  /* some mappings are missing there */
	__u32 interp_cnt;
	struct image_interp interps[IMAGE_INTERPS];
	__u64 bias;	  /* what the interpreter's addresses have more than those of its file */
	__u32 interp;	  /* its index in the map `interps` */
	__u32 has_python; /* walk.interp is set */
};

/* What the stack counts. By take(), and by a program between the walk and aggregate(). */
struct walk_count {
	__u64 value; /* in units of ... */
	__u32 type;  /* ... this value type */
	__u32 pad0;
};

/*
 * The native walk: the registers of the frame at hand, and the frames that are in DEEP_NATIVE. By
 * load_regs() and walk_native.bpf.h.
 */
struct walk_native {
	__u64 pc, sp, fp;
	__u64 regs[GREG_CNT];	   /* by DWARF number; only while exact_pc */
	__u64 leaf_regs[GREG_CNT]; /* of the innermost frame: rewind_native() puts them back */
	__u32 exact_pc;		   /* pc is where the thread stands, not a return address */
	__u32 cnt;		   /* frames in DEEP_NATIVE */
	__u32 eval_cnt;		   /* activations of the eval loop among them (<= 3.9) */
	__u32 own_cnt;		   /* frames up to the last one that has a segment */
	__u64 marker;		   /* the word behind WALK_NATIVE_LOST */
	__u64 cfa, caller_pc, caller_fp; /* of the frame at hand, by its rule */
	/* A frame's two words as they lie side by side on the stack, for one read. */
	struct {
		__u64 fp, ra;
	} saved;
};

/* The last address looked up: its mapping, the rule to leave a frame there. By walk_rows.bpf.h. */
struct walk_place {
	struct mapping map;	     /* start == end: none yet */
	struct unwind_header header; /* of header_table */
	__u32 header_table;	     /* index in `tables`; 0: none */
	__u32 map_index;	     /* of `map` among the mappings of the process */
	struct unwind_rule rule;
};

/* The state of walk_known_frames(), in memory for the verifier. By begin_known(). */
struct walk_known {
	__u64 anchor;	/* of the next segment; 0: there is none */
	__u32 eval_seg; /* SEG_EVAL, or SEG_NONE where segments have anchors */
	__u32 learning; /* learn_anchor() wants to see an eval loop's frame */
};

/* The search of the lists interpreters -> thread states. By walk_tstate.bpf.h. */
struct walk_scan {
	__u64 next_interp;	   /* PyInterpreterState to look at next; 0: no more */
	__u64 next_tstate;	   /* PyThreadState to look at next, of `interp` */
	__u64 interp, interp_id;   /* whose list is searched, and its number */
	__u64 heads;		   /* hash of the heads of all lists, and of the known state */
	__u64 known, known_interp; /* the thread's, found before by any walk; 0: none */
	__u32 mode;		   /* enum scan_mode, by lists_unchanged() */
	__u32 interp_cnt;	   /* interpreters searched */
};

/* The thread's states. By find_tstate(), the scan and walk_run(). */
struct walk_tstate {
	__u64 addr;	   /* PyThreadState at hand: the thread's, or of one of its runs; 0: none */
	__u64 interp;	   /* PyInterpreterState of the one that the scan found */
	__u64 only_interp; /* the only interpreter that there is; 0: not known, or several */
	__u64 leaf_of;	   /* state to which leaf and leaf_cframe belong; 0: not read */
	__u64 leaf, leaf_cframe;
	struct tstate_run run[MAX_TSTATES];
	__u32 run_cnt;	 /* thread states with frames, if they were searched */
	__u32 interp_id; /* of the innermost one; 0 is the main interpreter */
};

/*
 * The Python walk: the position in the chain of frames, and the frames in DEEP_PY. By
 * walk_python.bpf.h.
 */
struct walk_python {
	__u64 marker;	   /* the word behind WALK_PY_LOST */
	__u64 frame;	   /* address of the frame to look at next; 0: the chain has ended */
	__u64 cframe;	   /* of the segment at hand (3.10 - 3.12) */
	__u64 root_cframe; /* the one in the thread state, of no activation */
	/* CFrame of the innermost activation while it is being set up (3.11, 3.12); else 0 */
	__u64 set_up;
	__u64 setup_cframe; /* CFrame of the activation below that one; 0: none is being set up */
	__u64 seg_stop;	    /* first frame of the next segment (3.11) */
	__u64 leaf_anchor;  /* tstate->cframe, to learn cframe_delta */
	__u32 cnt;	    /* frames in DEEP_PY */
	__u32 compiled;	   /* the last frame is, see is_compiled(): so no activation is behind it */
	__u32 setup_evals; /* eval activations passed while looking for a CFrame */
	__u32 pad0;
};

/*
 * The segments: runs of Python frames, one for each activation, and where the two walks meet. The
 * Python walk makes them; push_native() and take_segment() give each to the native frame that holds
 * its anchor.
 */
struct walk_segs {
	__u32 cnt;     /* in DEEP_ANCHOR, DEEP_SEG_START and DEEP_SEG_END */
	__u32 total;   /* the same without the limit, max_frames */
	__u32 open;    /* Python frames since the last one ended */
	__u32 open_py; /* where they, or frames without a segment, begin in DEEP_PY */
	__u32 run_seg, run_py, run_total; /* cnt, python.cnt, total at the start of this run */
	__u32 next;			  /* first one that has no native frame yet */
	/* By pair_cframes(), 3.10: frames that are not compiled */
	__u32 pair_frames;
	__u32 pair_lead;  /* 1, if the innermost frame has no CFrame any more */
	__u32 pair_skip;  /* CFrames without a frame */
	__u32 pair_extra; /* frames without a CFrame, which join the innermost one's */
	/* By order_segments(), which puts those of several thread states into one order: */
	__u32 ordered; /* entries of DEEP_SEG_ORDER */
	/* The run with the innermost next one; in memory, like the result of next_anchor() */
	__u32 best_run;
	__u64 best_anchor; /* ... its anchor */
};

/* The merge of both kinds of frames into DEEP_FRAMES. By merge.bpf.h. */
struct walk_merge {
	__u32 seg, seg_end;  /* segments merged, and number up to which to merge now */
	__u32 native_at;     /* native frames done ... */
	__u32 empty;	     /* ... the last of which has no Python frame in its place yet */
	__u32 py_at, py_end; /* Python frames to merge now, in DEEP_PY */
	__u32 py_left;	     /* Python frames left to merge; walk_python() sets it */
	__u32 edge_eval;     /* the innermost activation has no frame yet, or none any more */
};

/* The code object at hand. By codes.bpf.h. */
struct walk_code {
	__u64 addr;	   /* PyCodeObject */
	__u64 fingerprint; /* of its contents */
	__u64 id;	   /* what frame words carry */
	__u64 blob_addr[BLOB_CNT];
	__u64 piece_addr, piece_left; /* of its name or line table: bytes left to send */
	__u64 tlbc_array;	      /* its copies of the bytecode, one per thread (3.14t) */
	__s32 firstlineno;
	__u32 pad0;
};

/* What samples leave for later ones, and which of it this sample may use. */
struct walk_cache {
	__u64 sample;	  /* number of the sample on this CPU: objects seen in it stay valid */
	__u64 code_epoch; /* of known_codes: see maps.bpf.h; by select_sample() */
	/* `sample`, but constant while the process makes no code object; by set_epoch() */
	__u64 epoch;
	/* By select_sample(); not used where code_row() has none: */
	__u32 row;    /* of code_rows */
	__u32 by_row; /* the last sample of this CPU was another process's: see code_identify() */
};

/* A piece of the thread's C stack. By move_window(). */
struct stack_window {
	__u64 words[STACK_BYTES / 8];
	__u64 addr; /* of words[0] */
	__u32 size; /* bytes; 0: none */
	__u32 pad0;
};

/* A piece of its data stack, followed by room for a frame elsewhere. By walk_pyframe.bpf.h. */
struct frame_window {
	__u64 addr; /* of bytes[0] */
	__u32 size; /* bytes of the piece; 0: none */
	__u32 at;   /* offset of the frame at hand in bytes[] */
	__u8 bytes[FRAMES_BYTES] __attribute__((aligned(8)));
};

struct walk {
	struct walk_thread thread;
	__u32 flags; /* enum walk_flags, by all stages */
	__u32 pad0;
	struct walk_image image;
	struct walk_count count;
	struct walk_native native;
	struct walk_place place;
	struct walk_known known;
	/* The interpreter at hand, with the bias added to its addresses. By load_interp(). */
	struct interp interp;
	struct walk_scan scan;
	struct walk_tstate tstate;
	struct walk_python python;
	struct walk_segs segs;
	struct walk_merge merge;
	struct walk_code code;
	struct walk_cache cache;
	struct recall recall; /* by note_code_slot() and note_place_slot() */
	/* What was read in this sample, by a hash of its address. By object_hash(). */
	struct known_object objects[OBJECT_SLOTS];
	/* What buf_read() has read last, of any object of the target. */
	__u8 buf[BUF_BYTES] __attribute__((aligned(8)));
	struct frame_window frames;
	struct stack_window stack;
};

struct stack {
	__u32 cnt;
	__u32 cut; /* frames without room */
};

/* Resets the state of the Python walk, before the first walk or a repeated one. */
BPF_INLINE void reset_python(struct walk *w)
{
	w->flags &= ~(WALK_PY_LOST | WALK_PY_SCAN | WALK_TRUNCATED | WALK_PY_CUT);
	w->python.cnt = w->segs.cnt = w->segs.total = w->segs.open = w->python.setup_evals = 0;
	w->segs.open_py = w->segs.run_seg = w->segs.run_py = w->segs.run_total = w->merge.py_left =
		0;
	w->tstate.run_cnt = w->tstate.interp_id = w->scan.mode = 0;
	w->scan.known = w->scan.known_interp = w->tstate.only_interp = w->tstate.leaf_of = 0;
	w->frames.size = w->python.compiled = 0;
	w->tstate.addr = w->python.frame = w->python.cframe = w->python.leaf_anchor =
		w->python.seg_stop = 0;
}

/* The next segment is the last, and has compiled frames only: it belongs to no activation. */
BPF_INLINE int next_is_compiled(const struct walk *w)
{
	return w->python.compiled && w->tstate.run_cnt <= 1 && w->segs.next + 1 == w->segs.cnt;
}

BPF_INLINE void note_code_slot(struct walk *w, __u32 slot)
{
	w->recall.code[BOUND(w->recall.code_cnt, RECALL_SLOTS)] = (__u16)slot;
	w->recall.code_cnt++;
}

BPF_INLINE void note_place_slot(struct walk *w, __u32 slot)
{
	w->recall.place[BOUND(w->recall.place_cnt, RECALL_SLOTS)] = (__u16)slot;
	w->recall.place_cnt++;
}

/* Resets the state before each sample. All other members are written before they are read. */
BPF_INLINE void reset_walk(struct walk *w)
{
	w->flags = 0;
	w->cache.epoch = ++w->cache.sample;
	w->native.cnt = w->segs.next = w->native.eval_cnt = w->native.own_cnt = 0;
	w->place.header_table = 0;
	w->stack.size = 0;
	w->recall.space = w->thread.space;
	w->recall.tid = w->thread.tid;
	w->recall.code_cnt = w->recall.place_cnt = 0;
	reset_python(w);
}

/*
 * A place of a file and its rule, which never changes: file ids are not used again. It is found by
 * the place or by an address. An entry found by address is valid only if mapping `map` of the
 * process contains that address and makes it this place, so no mapping or unmapping has to update
 * the entries.
 */
struct known_place {
	__u64 word; /* NATIVE_WORD(); 0: free */
	struct unwind_rule rule;
	__u32 map; /* for a place found by address: number of the mapping in the process */
	__u32 how; /* the same: enum how */
};

#ifndef PLACE_SLOTS
#define PLACE_SLOTS 2048
#endif

/* The rest of the seam: see seam.bpf.h. */
#ifdef __bpf__
BPF_INLINE struct walk *the_walk(void);
BPF_INLINE struct stack *the_stack(void);
BPF_INLINE __u64 *the_deep(void);
BPF_INLINE __u32 deep_parts(void);
BPF_INLINE __u32 max_frames(void);
BPF_INLINE const struct mapping *get_mapping(__u32 index);
BPF_INLINE void note_seen(__u32 file);
BPF_INLINE struct known_code *code_slot(__u32 index);
BPF_INLINE struct code_row *code_row(__u32 index);
BPF_INLINE void note_tstate(const struct walk *w, __u64 tstate);
BPF_INLINE void note_frame(const struct walk *w, __u64 frame);
BPF_INLINE struct known_place *the_places(void);
BPF_INLINE void *uw_table(__u32 index);
BPF_INLINE const __u32 *uw_words(void *table, __u32 word, __u32 cnt);
BPF_INLINE struct interp *get_interp(__u32 index);
#else
struct walk *the_walk(void);
struct stack *the_stack(void);
__u64 *the_deep(void);	/* DEEP_WORDS(deep_parts()) words */
__u32 deep_parts(void); /* size of a part */
__u32 max_frames(void);
const struct mapping *get_mapping(__u32 index);
void note_seen(__u32 file);
struct known_code *code_slot(__u32 index);
struct code_row *code_row(__u32 index);
void note_tstate(const struct walk *w, __u64 tstate);
void note_frame(const struct walk *w, __u64 frame);
struct known_place *the_places(void);
void *uw_table(__u32 index);
const __u32 *uw_words(void *table, __u32 word, __u32 cnt);
struct interp *get_interp(__u32 index);
#endif

/*
 * Branch-free arithmetic. It costs the verifier less, because that follows both ways of each
 * branch, and in a loop all sequences of them. Returns 0 or 1: x == 0; a <= b, for numbers below 1
 * << 63.
 */
BPF_INLINE __u64 is_zero(__u64 x)
{
	return ~(x | -x) >> 63;
}
BPF_INLINE __u64 not_above(__u64 a, __u64 b)
{
	return ~(b - a) >> 63;
}

/* cond ? yes : no; `cond` is 0 or 1. */
BPF_INLINE __u64 choose(__u64 cond, __u64 yes, __u64 no)
{
	__u64 mask = -cond;

	__asm__ volatile("" : "+r"(mask)); /* or clang makes it a branch */
	return no ^ ((yes ^ no) & mask);
}

/*
 * Positions in the_deep(). The size of a part is a constant of .rodata that the verifier knows, so
 * the masks bound the access for it.
 */
BPF_INLINE __u32 deep_at(enum deep_part part, __u32 i)
{
	__u32 n = BOUND(i, deep_parts());

	/* Members that are used together share cache lines. */
	if (part == DEEP_NATIVE || part == DEEP_NATIVE_SEG)
		return DEEP_NATIVE * deep_parts() + 2 * n + (part - DEEP_NATIVE);
	if (part >= DEEP_ANCHOR && part <= DEEP_SEG_ORDER)
		return DEEP_ANCHOR * deep_parts() + 4 * n + (part - DEEP_ANCHOR);
	return (__u32)part * deep_parts() + n;
}
BPF_INLINE __u32 deep_frame(__u32 i)
{
	return DEEP_FRAMES * deep_parts() + BOUND(i, 2 * deep_parts());
}
BPF_INLINE __u32 deep_hash(__u32 i)
{
	return DEEP_HASH * deep_parts() + BOUND(i, deep_parts() / 8);
}

/*
 * A loop over a function that returns 0 to continue, in blocks that are functions of their own: the
 * verifier then follows the sum of the two bounds, not their product. The bounds come from
 * deep_parts(), which the verifier knows, not from the greatest possible depth, because it follows
 * each round of a loop.
 */
#define BLOCK 32
#define BLOCK_STEPS(name, step)                                                                    \
	BPF_NOINLINE int name(__u32 first)                                                         \
	{                                                                                          \
		for (__u32 i = 0; i < BLOCK; i++)                                                  \
			if (step(first + i))                                                       \
				return 1;                                                          \
		return 0;                                                                          \
	}
/* Runs `cnt` steps, or up to the one that ends the loop: then not 0. */
#define RUN_BLOCKS(name, cnt)                                                                      \
	({                                                                                         \
		int ended_ = 0;                                                                    \
		for (__u32 k_ = 0; k_ < (cnt) / BLOCK && !ended_; k_++)                            \
			ended_ = name(k_ * BLOCK);                                                 \
		ended_;                                                                            \
	})

/*
 * All fields are naturally aligned, so offsets are, too. The casts come first: clang knows only
 * that an array's byte is a byte, and would load words of it byte by byte. verifier: masks bound
 * the access
 */
BPF_INLINE __u64 buf64(const struct walk *w, __u32 off)
{
	return ((const __u64 *)w->buf)[(off & (BUF_BYTES - 8)) / 8];
}
BPF_INLINE __u64 *buf_word(struct walk *w, __u32 off)
{
	return &((__u64 *)w->buf)[(off & (BUF_BYTES - 8)) / 8];
}
BPF_INLINE __u32 buf32(const struct walk *w, __u32 off)
{
	return ((const __u32 *)w->buf)[(off & (BUF_BYTES - 4)) / 4];
}
BPF_INLINE __u8 buf8(const struct walk *w, __u32 off)
{
	return w->buf[BOUND(off, BUF_BYTES)];
}

/* Reads `size` bytes of the target (cut to the buffer) into w->buf. */
BPF_INLINE int buf_read(struct walk *w, __u64 addr, __u32 size)
{
	return read_user(w->buf, size & (BUF_BYTES - 1), addr); /* verifier: bound size */
}

#endif /* PYPERF_STATE_H */
