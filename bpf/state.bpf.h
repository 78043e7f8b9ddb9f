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
	WALK_NATIVE_LOST = 1 << 1, /* it ended early: native_marker says why */
	WALK_PY_LOST = 1 << 2,	   /* the Python chain ended early: py_marker says why */
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

struct walk {
	/* whose */
	__u32 tgid, tid; /* as the caller's pid namespace sees them */
	__u32 space;
	__u32 flags; /* enum walk_flags */
	__u32 map_first, map_cnt;
	__u32 interp_cnt; /* of the process: image[] */
	struct image_interp image[IMAGE_INTERPS];
	__u32 interp;	  /* index of the current one in `interps` */
	__u32 has_python; /* `in` is set */
	__u64 bias;
	__u64 tp;	   /* thread pointer */
	__u64 stack_start; /* stack pointer with which the process began; 0: not known */
	__u32 code_pages;  /* executable ones that the process has mapped; the low 16 bits */
	/* false: the memory of the thread is gone, and the two above are not valid */
	__u32 has_mm;
	__u64 value;  /* value of the stack, in units of ... */
	__u32 type;   /* ... this value type */
	__u32 is_cut; /* some of its mappings are missing */

	/* native position: the registers of the next frame */
	__u64 pc, sp, fp;
	__u64 regs[GREG_CNT];	   /* by DWARF number; only while exact_pc */
	__u64 leaf_regs[GREG_CNT]; /* rewind_native() puts them back */
	__u32 exact_pc;		   /* pc is where the thread stands, not a return address */
	__u32 native_cnt;
	__u32 seg_next;	   /* first segment not yet placed */
	__u32 eval_cnt;	   /* activations seen (<= 3.9) */
	__u32 own_cnt;	   /* native frames up to the last one that has a segment */
	__u32 pair_frames; /* 3.10: frames that are not compiled */
	__u32 pair_lead;   /* 3.10: 1, if the innermost frame has no CFrame any more */
	__u64 native_marker;
	__u64 py_marker;
	struct mapping map;	     /* the last one hit */
	struct unwind_header header; /* of header_table */
	__u32 header_table;
	__u32 pad0;
	struct unwind_rule rule;
	__u64 words[2]; /* read off the stack, side by side */
	/* of the current frame */
	__u64 cfa, caller_pc, caller_fp;
	__u32 map_index; /* index of `map` among the process's mappings */
	__u32 stack_size;
	__u64 stack_at; /* the address of stack[0] */
	__u64 anchor;	/* of segment seg_next; 0: there is none */
	__u32 eval_seg; /* SEG_EVAL, or SEG_NONE where segments have anchors */
	__u32 learning; /* learn_anchor() wants to see an eval loop's frame */

	/* Python position */
	struct interp in;	/* copy of interps[interp], addresses with bias added */
	__u64 scan_interp;	/* looked at next */
	__u64 scan_tstate;	/* next thread state, of interpreter scan_at */
	__u64 scan_at, scan_id; /* interpreter whose list is searched, and its number */
	__u64 scan_heads;	/* hash of the heads of all lists, and of the known state */
	__u64 scan_known, scan_known_at; /* the thread's state in that interpreter; 0: not known */
	__u32 scan_mode;		 /* enum scan_mode */
	__u32 scan_cnt;			 /* interpreters */
	__u64 tstate;			 /* the thread's, or the first of several */
	__u64 tstate_at;		 /* its interpreter */
	__u64 only;			 /* the only interpreter that there is; 0: not known */
	__u64 leaf_of; /* state to which leaf and leaf_cframe belong; 0: not read */
	__u64 leaf, leaf_cframe;
	struct tstate_run run[MAX_TSTATES];
	__u32 run_cnt;	 /* thread states with frames, if they were searched */
	__u32 interp_id; /* of the innermost one; 0 is the main interpreter */
	__u64 frame;	 /* looked at next */
	__u64 cframe;	 /* of the segment at hand (3.10 - 3.12) */
	__u64 root_cframe;
	/* of the innermost activation while it is being set up (3.11, 3.12) */
	__u64 set_up;
	__u64 setup_cframe; /* CFrame of the activation below that one; 0: none is being set up */
	__u64 seg_stop;	    /* first frame of the next segment (3.11) */
	__u64 leaf_anchor;  /* tstate->cframe, to learn cframe_delta */
	__u32 py_cnt;
	__u32 seg_cnt;
	__u32 seg_total; /* the same without the limit, max_frames */
	__u32 seg_open;	 /* frames since the last segment ended */
	__u32 compiled;	 /* the last frame is, see is_compiled(): so no activation is behind it */
	__u32 seg_py;	 /* where they, or frames without a segment, begin in DEEP_PY */
	__u32 run_seg, run_py, run_total; /* seg_cnt, py_cnt, seg_total at the start of this run */
	__u32 seg_ordered;		  /* entries of DEEP_SEG_ORDER */
	/* the run with the innermost next segment; in memory, like the result of next_anchor() */
	__u32 order_best;
	__u64 order_lowest;	  /* ... its anchor */
	__u32 merge_seg, py_left; /* segments merged; Python frames left to merge */
	__u32 merge_to, merge_at; /* segments to merge now; native frames done ... */
	__u32 edge_eval;	  /* the innermost activation has no frame yet, or none any more */
	__u32 merge_empty;	  /* ... the last of which has no Python frame in its place yet */
	__u32 py_at, py_end;	  /* Python frames to merge now */
	__u32 scan_eval;	  /* eval activations passed while looking for a CFrame */
	__u64 window;		  /* address of the bytes in frames[] */
	__u32 window_len;
	__u32 frame_at; /* the current frame in frames[] */

	/* the current code object (codes.bpf.h) */
	__u64 code;
	__u64 fingerprint;
	__u64 code_id;
	__u64 blob_addr[BLOB_CNT];
	__s32 firstlineno;
	__s32 firsttraceable;
	__u64 piece_addr, piece_left; /* of its name or line table: the rest to send */

	/* number of the sample on this CPU: objects seen in it stay valid until its end */
	__u64 sample;
	__u64 code_epoch; /* of known_codes: see maps.bpf.h */
	/* the same, but constant while the process makes no code object: see set_epoch() */
	__u64 epoch;
	/* Set by select_sample(); not used where code_row() has none: */
	__u32 row;    /* of code_rows */
	__u32 by_row; /* the last sample of this CPU was another process's: see code_identify() */
	struct recall recall;
	__u8 buf[BUF_BYTES] __attribute__((aligned(8)));
	struct known_object objects[OBJECT_SLOTS]; /* by a hash of their address */
	/* The window, followed by room for a frame elsewhere. */
	__u8 frames[FRAMES_BYTES] __attribute__((aligned(8)));
	__u64 stack[STACK_BYTES / 8]; /* a piece of it */
};

struct stack {
	__u32 cnt;
	__u32 cut; /* frames without room */
};

/* Resets the state of the Python walk, before the first walk or a repeated one. */
BPF_INLINE void reset_python(struct walk *w)
{
	w->flags &= ~(WALK_PY_LOST | WALK_PY_SCAN | WALK_TRUNCATED | WALK_PY_CUT);
	w->py_cnt = w->seg_cnt = w->seg_total = w->seg_open = w->scan_eval = 0;
	w->seg_py = w->run_seg = w->run_py = w->run_total = w->py_left = 0;
	w->run_cnt = w->interp_id = w->scan_mode = 0;
	w->scan_known = w->scan_known_at = w->only = w->leaf_of = 0;
	w->window_len = w->compiled = 0;
	w->tstate = w->frame = w->cframe = w->leaf_anchor = w->seg_stop = 0;
}

/* The next segment is the last, and has compiled frames only: it belongs to no activation. */
BPF_INLINE int next_is_compiled(const struct walk *w)
{
	return w->compiled && w->run_cnt <= 1 && w->seg_next + 1 == w->seg_cnt;
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
	w->epoch = ++w->sample;
	w->native_cnt = w->seg_next = w->eval_cnt = w->own_cnt = 0;
	w->header_table = 0;
	w->stack_size = 0;
	w->recall.space = w->space;
	w->recall.tid = w->tid;
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
