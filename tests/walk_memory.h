/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_WALK_MEMORY_H
#define PYPERF_WALK_MEMORY_H
/*
 * What a process of walk_world.h consists of, and its memory: a heap, a stack, an alternate signal
 * stack. An address that is in none of them, or in a hole, cannot be read. The test that builds a
 * world owns it; the_world is the one that the walkers read.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define PLACE_SLOTS 32 /* few, so that places compete for them */
#include "bpf/walk_python.bpf.h"
#include "bpf/walk_native.bpf.h"
#include "bpf/merge.bpf.h"

#define HEAP_BASE  0x500000000000ULL
#define HEAP_SIZE  (1U << 20)
#define STACK_BASE 0x7ffc00000000ULL
#define STACK_SIZE (1U << 19)
#define ALT_BASE   0x7ffd00000000ULL /* an alternate signal stack, above the thread's own */
#define ALT_SIZE   65536
#define TEXT_BASE  0x400000ULL
#define LIB_BASE   0x7f0000000000ULL /* a file without rows */
#define ANON_BASE  0x7f1000000000ULL /* executable memory of no file */
#define MAP_LEN	   0x10000ULL
#define NO_MAP	   0x300000ULL
#define TEXT_FILE  7
#define LIB_FILE   9
#define FN_FIRST   0x1000
#define FN_STRIDE  0x400
#define FN_LEN	   0x300
#define CALL_AT	   0x40	 /* where a function is when it calls another: the return address */
#define LEAF_AT	   0x180 /* where it is at the sample, behind the window of SETUP_BYTES */
#define STOP_AT	   0x190 /* where a signal stopped it */
#define SETUP_AT   0x60
#define EVAL_SIZE  512
#define SHIM_BELOW 144 /* CFA - shim */
#define CFR_BELOW  256 /* CFA - CFrame */
#define WORLD_TP   0x7f7700001740ULL
#define CODE_CNT   12
#define CODE_INIT  CODE_CNT /* _Py_InitCleanup */
#define JUNK	   0xdeadbeefdeadbeefULL

enum fn {
	FN_START, /* return address undefined */
	FN_ROOT0, /* return address 0 */
	FN_MAIN,
	FN_C,	  /* CFA = rsp + n, rbp untouched */
	FN_CSAVE, /* the same, rbp saved and overwritten */
	FN_CFP,	  /* CFA = rbp + 16 */
	FN_EVAL,
	FN_EVAL_COLD,
	FN_DRAP, /* realigned: CFA = *(rbp - 8), caller's rbp at *rbp */
	FN_PLT,	 /* leaf: first instruction of a .plt entry */
	FN_PLT_PUSHED,
	FN_SIGRET,     /* signal frame; what called it was stopped anywhere */
	FN_SIGRET_ALT, /* ... and the handler runs on the alternate stack */
	FN_SYSCALL,    /* the leaf, behind a system call with which its rows end */
	FN_LEAFREG,    /* CFA = r12 + 8 */
	FN_KEPT,       /* CFA = r11 + 8, and what it calls leaves r11 alone */
	FN_DRAP_END,   /* at the end of FN_DRAP: rbp is restored, the rule does not know */
	FN_RESOLVE,    /* CFA = rbx + 24: the dynamic linker's, on the way to bind a symbol */
	FN_BXSAVE,     /* the same as FN_C, rbx saved and overwritten */
	FN_BXLOST,     /* ... and saved where nobody knows */
	FN_INDEX,      /* CFA = *(rsp + 8 * r9 + 8) + 8 */
	FN_BADCFA,     /* CFA = rsp: not above the stack pointer */
	FN_BASE,       /* a greenlet's first function */
	FN_SWITCH,     /* what switches greenlets */
	FN_LEAF,       /* aarch64: the leaf, which has no stack and its return address in x30 */
	FN_UNSAVED,    /* ... the same, with a stack */
	FN_TABLE_CNT,  /* below: no rows */
	FN_LIB,	       /* in a file without rows, no frame pointer */
	FN_LIB_FP,     /* ... with one */
	FN_CLONE,      /* ... the leaf, right behind a system call */
	FN_VFORK,      /* ... the same, its return address in a register */
	FN_FIRST_INSN, /* ... the leaf, at its first instruction */
	FN_ENTRY,      /* ... where the process began: ld.so's _start */
	FN_ANON,
	FN_TRAMP,     /* a perf trampoline: push %rbp ... pop %rbp; ret */
	FN_TRAMP_312, /* ... sub $8, %rsp ... add $8, %rsp; ret */
	FN_UNMAPPED,
};

enum chain_case {
	CHAIN_39,
	CHAIN_310,
	CHAIN_311,
	CHAIN_312,
	CHAIN_313,
	CHAIN_314T, /* tagged code pointers, thread-local bytecode */
	CHAIN_315,  /* base_frame sentinel */
	CHAIN_27,
	CHAIN_CNT,
};

enum act_flags {
	ACT_NO_FRAME = 1 << 0,	  /* entering or leaving: nothing of Python yet, or no more */
	ACT_EMPTY = 1 << 1,	  /* CFrame or shim linked, no frame */
	ACT_NO_CFRAME = 1 << 2,	  /* 3.10, leaving: CFrame unlinked, frame still there */
	ACT_GARBAGE = 1 << 3,	  /* 3.11, 3.12, entering: CFrame linked before it is filled in */
	ACT_PHANTOM = 1 << 4,	  /* on top of the frames, one without an activation */
	ACT_HIDDEN = 1 << 5,	  /* an __init__ shim below the last frame */
	ACT_NOT_STARTED = 1 << 6, /* the last frame has not executed anything */
	ACT_STOP = 1 << 7,	  /* the native walk must end here, with act.why */
	ACT_RECURSE = 1 << 8,	  /* all frames have the first code object */
	ACT_TLBC = 1 << 9,	  /* 3.14t: the frames run a thread-local copy of the bytecode */
	ACT_JUMPED = 1 << 10,	  /* native code that the walk must jump over: not expected */
	ACT_GENERATOR = 1 << 11,  /* 3.11, 3.12: the last frame is a generator's */
	ACT_GENERATORS = 1 << 12, /* ... all are */
	ACT_SETUP = 1 << 13,	  /* the thread stands among the first instructions */
	ACT_CHUNK = 1 << 14,	  /* 3.11, 3.12: the last frame begins a chunk of the data stack */
};

struct act {
	enum fn fn;
	/* Python frames. Of another function than the eval loop: of code compiled into it */
	__u32 py;
	__u32 flags;
	enum marker_why why;
};

/* One frame of the stack that must come out, or of which the result is a part. */
struct item {
	__u64 word; /* native or marker; 0: Python */
	int code;   /* index in codes[] */
	__u32 off;
	int replaced; /* an eval loop in whose place its Python frames stand */
};

struct seen_code {
	struct ev_code ev;
	__u8 *data[BLOB_CNT];
	__u32 size[BLOB_CNT];
};

#define MAX_ITEMS   4096
#define WORLD_DEPTH 512
#define WORLD_SLOTS 2
#define MAX_SEEN    2048
#define MAX_HOLES   8

struct world {
	/* the machine */
	__u8 *heap, *stack, *alt;
	__u8 insn[FN_UNMAPPED + 1][16]; /* at insn_at() */
	__u32 heap_used;
	struct {
		__u64 start, end;
	} hole[MAX_HOLES];
	__u32 hole_cnt;
	__u32 *words; /* unwind table 1 */
	__u32 word_cnt;
	struct mapping map[3];
	/* faults */
	__u64 reads, fail_at; /* 0: none */
	int faulted;
	int ring_full; /* blob_send() fails */
	/* what the walkers work on and give */
	struct walk *walk;
	struct stack *out;
	struct known_code known_codes[WORLD_SLOTS];
	struct code_row code_rows[WORLD_SLOTS];
	__u32 row, by_row; /* of the sample's thread */
	__u32 code_epoch;
	__u64 samples;
	struct known_place places[PLACE_SLOTS];
	__u64 deep[DEEP_WORDS(WORLD_DEPTH)];
	struct interp interp;
	struct ev_blob blob;
	struct ev_code code_ev;
	struct seen_code seen[MAX_SEEN];
	__u32 seen_cnt;
	struct code_key keys[MAX_SEEN];
	__u64 ids[MAX_SEEN];
	__u32 key_cnt;
	__u64 next_id;
	/* the process */
	enum chain_case chain;
	__u64 runtime, interp_state, tstate, code_type;
	__u64 codes[CODE_CNT + 1];
	__u64 bytecode2; /* of codes[], 3.14t */
	__u64 frame[MAX_ITEMS];
	__u32 frame_cnt;
	__u64 chunk, data_top; /* of the data stack (3.11, 3.12); 0: frames lie anywhere */
	__u64 shim[MAX_ITEMS];
	__u32 shim_cnt;
	__u64 sp, fp, pc, regs[GREG_CNT]; /* of the thread */
	__u64 start_sp;			  /* of the process; 0: not known */
	/* what must come out, innermost first once built */
	struct item item[MAX_ITEMS];
	__u32 item_cnt;
	__u32 own_cnt; /* ... up to the last Python frame, while it is built */
	int compiled;  /* ... which is of compiled code */
	int uneven;    /* paired by counting, and the counts differ: a lost end shifts the pairs */
	/* under construction */
	__u64 top_frame, top_cframe, below_cframe; /* ... of the activation below */
	__u32 next_code;
	int last_native; /* item whose position in its function is not known yet */
	int started;
	enum fn last_fn;
	__u64 base_cframe; /* in the frame of FN_BASE: where greenlet has its own CFrame */
};

static struct world *the_world;

/* ---- memory --------------------------------------------------------------------------------- */

static __u64 fn_addr(enum fn fn);
static __u64 insn_at(int fn);

static void *world__mem(struct world *w, __u64 addr, __u64 size)
{
	for (int fn = 0; fn < FN_UNMAPPED; fn++) {
		__u64 at = insn_at(fn);

		if (addr - at < 16 && size <= 16 - (addr - at))
			return w->insn[fn] + (addr - at);
	}
	if (addr - HEAP_BASE < HEAP_SIZE && size <= HEAP_SIZE - (addr - HEAP_BASE))
		return w->heap + (addr - HEAP_BASE);
	if (addr - STACK_BASE < STACK_SIZE && size <= STACK_SIZE - (addr - STACK_BASE))
		return w->stack + (addr - STACK_BASE);
	if (addr - ALT_BASE < ALT_SIZE && size <= ALT_SIZE - (addr - ALT_BASE))
		return w->alt + (addr - ALT_BASE);
	return NULL;
}

static void put(struct world *w, __u64 addr, const void *data, __u64 size)
{
	void *at = world__mem(w, addr, size);

	if (!at)
		abort(); /* the test is wrong */
	memcpy(at, data, size);
}

static void put64(struct world *w, __u64 addr, __u64 value)
{
	put(w, addr, &value, 8);
}

static void put32(struct world *w, __u64 addr, __u32 value)
{
	put(w, addr, &value, 4);
}

static void put8(struct world *w, __u64 addr, __u8 value)
{
	put(w, addr, &value, 1);
}

static void get(struct world *w, __u64 addr, void *data, __u64 size)
{
	void *at = world__mem(w, addr, size);

	if (!at)
		abort();
	memcpy(data, at, size);
}

static __u32 get32(struct world *w, __u64 addr)
{
	__u32 value;

	get(w, addr, &value, 4);
	return value;
}

static __u64 get64(struct world *w, __u64 addr)
{
	__u64 value;

	get(w, addr, &value, 8);
	return value;
}

static __u64 heap_alloc(struct world *w, __u32 size)
{
	__u64 addr = HEAP_BASE + w->heap_used;

	w->heap_used += (size + 15) & ~15U;
	if (w->heap_used > HEAP_SIZE)
		abort();
	return addr;
}

static inline void world__hole(struct world *w, __u64 start, __u64 size)
{
	w->hole[w->hole_cnt].start = start;
	w->hole[w->hole_cnt++].end = start + size;
}

#endif /* PYPERF_WALK_MEMORY_H */
