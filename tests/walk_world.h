/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_WALK_WORLD_H
#define PYPERF_WALK_WORLD_H
/*
 * A process made by hand, for the walkers of bpf/ compiled on the host.
 *
 * A test describes a thread as a list of activations, outermost first:
 *
 *	static const struct act prog[] = { { FN_START }, { FN_MAIN }, { FN_EVAL, .py = 2 }, { FN_C }
 *	};
 *	world__build(w, CHAIN_313, prog, 4);
 *	world__sample(w);
 *
 * world__build() lays out the native stack, the thread state, frames, code objects, and writes down
 * the stack that must come out. What it writes down follows from the description, never from the
 * memory.
 *
 *	heap   runtime, interpreters, thread states, frames, code objects, strings
 *	stack  native frames; in the eval loop's: its CFrame and its shim frame
 *	text addresses only: functions of FN_LEN bytes with one unwind rule each; instructions where
 *	       the walkers look at them, which is in functions without a rule
 *
 * The machine is PYPERF_ARCH; walk_arm64.h says which functions there are on aarch64.
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

/* ---- the seam ------------------------------------------------------------------------------- */

int read_user(void *dst, __u32 sz, uaddr_t src)
{
	struct world *w = the_world;
	const void *at = world__mem(w, src, sz);

	for (__u32 i = 0; i < w->hole_cnt; i++)
		if (src < w->hole[i].end && w->hole[i].start < src + sz)
			at = NULL;
	if (++w->reads == w->fail_at) {
		w->faulted = 1;
		at = NULL;
	}
	if (!at) {
		memset(dst, 0, sz);
		return E_FAULT;
	}
	memcpy(dst, at, sz);
	return 0;
}

struct walk *the_walk(void)
{
	return the_world->walk;
}

struct stack *the_stack(void)
{
	return the_world->out;
}

__u64 *the_deep(void)
{
	return the_world->deep;
}

__u32 deep_parts(void)
{
	return WORLD_DEPTH;
}

__u32 max_frames(void)
{
	return WORLD_DEPTH;
}

/* Word `i` of the merged stack, innermost first. */
static __u64 out_word(const struct world *w, __u32 i)
{
	return w->deep[deep_frame(i)];
}

struct known_place *the_places(void)
{
	return the_world->places;
}

/* Few, so that code objects compete for them. */
struct known_code *code_slot(__u32 index)
{
	return &the_world->known_codes[index % WORLD_SLOTS];
}

struct code_row *code_row(__u32 index)
{
	return &the_world->code_rows[index % WORLD_SLOTS];
}

void note_tstate(const struct walk *w, __u64 tstate)
{
	(void)w, (void)tstate;
}

void note_frame(const struct walk *w, __u64 frame)
{
	(void)w, (void)frame;
}

void note_seen(__u32 file)
{
	(void)file;
}

const struct mapping *get_mapping(__u32 index)
{
	return index < 3 ? &the_world->map[index] : NULL;
}

void *uw_table(__u32 index)
{
	return index == 1 ? the_world : NULL;
}

const __u32 *uw_words(void *table, __u32 word, __u32 cnt)
{
	struct world *w = table;

	return word <= w->word_cnt && cnt <= w->word_cnt - word ? w->words + word : NULL;
}

struct interp *get_interp(__u32 index)
{
	return index ? NULL : &the_world->interp;
}

__u64 code_lookup(__u64 addr, __u64 fingerprint)
{
	struct world *w = the_world;

	for (__u32 i = 0; i < w->key_cnt; i++)
		if (w->keys[i].addr == addr && w->keys[i].fingerprint == fingerprint)
			return w->ids[i];
	return 0;
}

__u64 code_new_id(void)
{
	return the_world->next_id++;
}

int code_insert(struct walk *walk)
{
	struct world *w = the_world;

	if (announce_code(0))
		return -1;
	if (w->key_cnt < MAX_SEEN) {
		w->keys[w->key_cnt].addr = walk->code;
		w->keys[w->key_cnt].fingerprint = walk->fingerprint;
		w->ids[w->key_cnt++] = walk->code_id;
	}
	return 0;
}

struct ev_blob *blob_scratch(void)
{
	return &the_world->blob;
}

struct ev_code *code_scratch(void)
{
	return &the_world->code_ev;
}

static struct seen_code *world__seen(struct world *w, __u64 id)
{
	for (__u32 i = 0; i < w->seen_cnt; i++)
		if (w->seen[i].ev.id == id)
			return &w->seen[i];
	if (w->seen_cnt == MAX_SEEN)
		abort();
	w->seen[w->seen_cnt].ev.id = id;
	return &w->seen[w->seen_cnt++];
}

int blob_send(const void *data, __u32 size, int urgent)
{
	struct world *w = the_world;
	const struct ev_blob *b = data;
	struct seen_code *s;
	__u32 end;

	(void)urgent;
	if (w->ring_full)
		return -11;
	s = world__seen(w, b->id);
	if (b->type == EV_CODE) {
		assert(size == sizeof(s->ev));
		memcpy(&s->ev, data, size);
		return 0;
	}
	assert(b->type == EV_BLOB && b->kind < BLOB_CNT);
	assert(b->size && b->size <= BLOB_DATA && size == offsetof(struct ev_blob, data) + b->size);
	assert(b->offset == s->size[b->kind]);
	end = b->offset + b->size;
	s->data[b->kind] = realloc(s->data[b->kind], end);
	if (!s->data[b->kind])
		abort();
	memcpy(s->data[b->kind] + b->offset, b->data, b->size);
	s->size[b->kind] = end;
	return 0;
}

/* ---- layouts --------------------------------------------------------------------------------- */

#define LAY_ROOT_CFRAME 200
#define LAY_BASE_FRAME	80
#define LAY_F_LINENO	40  /* of a frame object */
#define COMPILED_AT	104 /* in a frame object: its frame, if it is Nuitka's */
#define LAY_CODE_TLBC	192
#define LAY_BYTECODE	200
#define DATA_STACK	(256U << 10) /* a chunk */
#define FRAME_ROOM	128	     /* no frame is larger */

static struct py_layout world__layout(enum chain_case chain)
{
	static const struct py_layout base = {
		.str = PY_STR_STATE32,
		.interp_next = 0,
		.interp_threads_head = 16,
		.interp_id = 24,
		.tstate_next = 8,
		.tstate_thread_id = 152,
		.tstate_frame = 24,
		.tstate_chunk = PY_OFF_NONE,
		.tstate_read = 160,
		.root_cframe = PY_OFF_NONE,
		.base_frame = PY_OFF_NONE,
		.cframe_frame = 8,
		.cframe_previous = 16,
		.cframe_tstate = 56,
		.frame_back = 8,
		.frame_code = 0,
		.frame_lasti = 56,
		.frame_owner = PY_OFF_NONE,
		.frame_locals = PY_OFF_NONE,
		.frame_executing = PY_OFF_NONE,
		.frame_read = 80,
		.code_firstlineno = 72,
		.code_filename = 112,
		.code_name = 120,
		.code_qualname = 128,
		.code_linetable = 136,
		.code_version = PY_OFF_NONE,
		.code_firsttraceable = 152,
		.code_stacksize = PY_OFF_NONE,
		.code_nlocalsplus = PY_OFF_NONE,
		.code_bytecode = LAY_BYTECODE,
		.code_tlbc = PY_OFF_NONE,
		.code_read = 200,
		.code_first = 72,
		.code_last = 152,
		.frame_tlbc_index = PY_OFF_NONE,
		.ob_type = 8,
		.str_length = 16,
		.str_hash = 24,
		.str_state = 32,
		.str_ascii = 48,
		.str_compact = 72,
		.bytes_size = 16,
		.bytes_data = 32,
	};
	static const __u16 version[CHAIN_CNT] = { 0x0309, 0x030a, 0x030b, 0x030c,
						  0x030d, 0x030e, 0x030f, 0x0207 };
	static const __u8 kind[CHAIN_CNT] = { PY_CHAIN_FRAME,  PY_CHAIN_FRAME_C,
					      PY_CHAIN_CFRAME, PY_CHAIN_CFRAME_SHIM,
					      PY_CHAIN_SHIM,   PY_CHAIN_SHIM,
					      PY_CHAIN_SHIM,   PY_CHAIN_FRAME };
	struct py_layout lay = base;

	lay.version = version[chain];
	lay.chain = kind[chain];
	lay.lasti = PY_LASTI_POINTER;
	if (lay.chain == PY_CHAIN_FRAME || lay.chain == PY_CHAIN_FRAME_C) {
		lay.lasti = chain == CHAIN_310 ? PY_LASTI_UNITS : PY_LASTI_BYTES;
		lay.code_qualname = PY_OFF_NONE;
		lay.frame_back = 24;
		lay.frame_code = 32;
		lay.frame_lasti = 68;
	}
	if (chain == CHAIN_39)
		lay.frame_executing = 76;
	if (lay.chain < PY_CHAIN_CFRAME)
		lay.code_stacksize = 88;
	if (chain == CHAIN_310)
		lay.cframe_previous = 8;
	if (chain == CHAIN_310 || chain == CHAIN_311 || chain == CHAIN_312)
		lay.root_cframe = LAY_ROOT_CFRAME;
	if (chain == CHAIN_311 || chain == CHAIN_312) {
		lay.tstate_frame = 56;
		lay.tstate_chunk = 224;
		lay.frame_owner = 70;
		lay.frame_locals = 80;
		lay.code_stacksize = 88;
		lay.code_nlocalsplus = 96;
	}
	if (lay.chain >= PY_CHAIN_CFRAME_SHIM) {
		lay.frame_owner = 70;
		lay.code_version = 148;
	}
	if (chain == CHAIN_314T) {
		lay.frame_tlbc_index = 72;
		lay.code_tlbc = LAY_CODE_TLBC;
		lay.str = PY_STR_STATE_T14;
	}
	if (chain == CHAIN_315)
		lay.base_frame = LAY_BASE_FRAME;
	if (chain == CHAIN_27) {
		lay.str = PY_STR_BYTES;
		lay.bytes_data = 36;
	}
	return lay;
}

/* ---- objects --------------------------------------------------------------------------------- */

/* A string of `cnt` characters of `kind` bytes, or a bytes string of Python 2. */
static __u64 make_str(struct world *w, const void *chars, __u32 cnt, __u32 kind, int ascii)
{
	const struct py_layout *lay = &w->interp.layout;
	__u64 addr = heap_alloc(w, 80 + cnt * kind);
	__u32 state = kind << 2 | 1 << 5 | (__u32)ascii << 6;

	if (lay->str == PY_STR_BYTES) {
		put64(w, addr + lay->bytes_size, cnt);
		put(w, addr + lay->bytes_data, chars, cnt);
		return addr;
	}
	if (lay->str == PY_STR_STATE_T14)
		state = 1 | kind << 8 | 1 << 11 | (__u32)ascii << 12;
	put64(w, addr + lay->str_length, cnt);
	put64(w, addr + lay->str_hash, 0x1234567 + cnt);
	put32(w, addr + lay->str_state, state);
	put(w, addr + (ascii ? lay->str_ascii : lay->str_compact), chars, (__u64)cnt * kind);
	return addr;
}

static __u64 make_ascii(struct world *w, const char *s)
{
	return make_str(w, s, (__u32)strlen(s), 1, 1);
}

static __u64 make_bytes(struct world *w, const void *data, __u32 size)
{
	__u64 addr = heap_alloc(w, 40 + size);

	put64(w, addr + w->interp.layout.bytes_size, size);
	put(w, addr + w->interp.layout.bytes_data, data, size);
	return addr;
}

static void set_code(struct world *w, __u64 code, __u64 name, __u64 file, __u64 lines,
		     __u32 firstlineno, __u32 version)
{
	const struct py_layout *lay = &w->interp.layout;

	put64(w, code + lay->ob_type, w->code_type);
	put32(w, code + lay->code_firstlineno, firstlineno);
	put64(w, code + lay->code_filename, file);
	put64(w, code + lay->code_name, name);
	if (lay->code_qualname != PY_OFF_NONE)
		put64(w, code + lay->code_qualname, name);
	put64(w, code + lay->code_linetable, lines);
	if (lay->code_version != PY_OFF_NONE)
		put32(w, code + lay->code_version, version);
	if (lay->code_stacksize != PY_OFF_NONE)
		put32(w, code + lay->code_stacksize, 1 + version % 3);
	if (lay->tstate_chunk != PY_OFF_NONE) {
		put32(w, code + lay->code_nlocalsplus, version % 4);
	}
}

static void make_codes(struct world *w)
{
	char text[64];

	for (__u32 i = 0; i < CODE_CNT; i++) {
		__u64 name, file, lines, tlbc;

		snprintf(text, sizeof(text), "module.function%u", i);
		name = make_ascii(w, text);
		snprintf(text, sizeof(text), "/app/module%u.py", i);
		file = make_ascii(w, text);
		lines = make_bytes(w, text, 20);
		w->codes[i] = heap_alloc(w, LAY_BYTECODE + 4096);
		set_code(w, w->codes[i], name, file, lines, 10 + i, 100 + i);
		if (w->chain != CHAIN_314T)
			continue;
		tlbc = heap_alloc(w, 32); /* {size, entries[2]} */
		put64(w, tlbc, 2);
		put64(w, tlbc + 8, w->codes[i] + LAY_BYTECODE);
		put64(w, tlbc + 16, w->codes[i] + LAY_BYTECODE + 2048);
		put64(w, w->codes[i] + LAY_CODE_TLBC, tlbc);
	}
	w->codes[CODE_INIT] = heap_alloc(w, LAY_BYTECODE + 64);
	set_code(w, w->codes[CODE_INIT], get64(w, w->codes[0] + 120), get64(w, w->codes[0] + 120),
		 get64(w, w->codes[0] + 136), 1, 99);
}

static __u64 make_tstate(struct world *w, __u64 next, __u64 thread_id)
{
	__u64 addr = heap_alloc(w, 256);
	const struct py_layout *lay = &w->interp.layout;

	put64(w, addr + lay->tstate_next, next);
	put64(w, addr + lay->tstate_thread_id, thread_id);
	if (lay->base_frame != PY_OFF_NONE) {
		__u64 base = heap_alloc(w, 96);

		put8(w, base + lay->frame_owner, 3);
		put64(w, addr + lay->base_frame, base);
		put64(w, addr + lay->tstate_frame, base);
	}
	if (lay->root_cframe == PY_OFF_NONE)
		return addr;
	put64(w, addr + (w->chain == CHAIN_310 ? lay->cframe_tstate : lay->tstate_frame),
	      addr + lay->root_cframe);
	return addr;
}

/* Sets where a thread state's Python stack begins. */
static void set_leaf(struct world *w, __u64 tstate, __u64 frame, __u64 cframe)
{
	const struct py_layout *lay = &w->interp.layout;

	if (w->chain == CHAIN_311 || w->chain == CHAIN_312) {
		put64(w, tstate + lay->tstate_frame, cframe);
		return;
	}
	put64(w, tstate + lay->tstate_frame, frame);
	if (w->chain == CHAIN_310)
		put64(w, tstate + lay->cframe_tstate, cframe);
}

/* ---- text ------------------------------------------------------------------------------------ */

static __u64 fn_addr(enum fn fn)
{
	switch (fn) {
	case FN_LIB:
	case FN_LIB_FP:
	case FN_CLONE:
	case FN_VFORK:
	case FN_FIRST_INSN:
	case FN_ENTRY:
		return LIB_BASE + FN_FIRST + (__u64)(fn - FN_LIB) * FN_STRIDE;
	case FN_ANON:
	case FN_TRAMP:
	case FN_TRAMP_312:
		return ANON_BASE + FN_FIRST + (__u64)(fn - FN_ANON) * FN_STRIDE;
	case FN_UNMAPPED:
		return NO_MAP;
	default:
		return TEXT_BASE + FN_FIRST + (__u64)fn * FN_STRIDE;
	}
}

static void place_last(struct world *w, __u64 at, int exact);

/*
 * The machine. Each has
 *   fn_rules[]     one rule per function, so that row i * 2 is function i with rule i + 1
 *   make_insns()   the instructions that the walkers look at, at insn_at()
 *   enter_fn()     the registers and the stack when a function has been called and made its frame
 *   add_signal()   the same, when a signal handler is to be called
 *   EVAL_FP_OFF    where the eval loop saves the frame pointer, from the CFA
 */
#if PYPERF_ARCH == PYPERF_X86
#include "walk_x86.h"
#else
#include "walk_arm64.h"
#endif

static void make_table(struct world *w)
{
	__u32 pages = (FN_TABLE_CNT * FN_STRIDE + 255) >> UW_PAGE_BITS, row = 0, rows;
	struct unwind_header h = { .first_page = FN_FIRST >> UW_PAGE_BITS, .page_cnt = pages };

	rows = 2 * FN_TABLE_CNT;
	h.index_word = 8;
	h.row_word = (8 + pages + 1 + 3) & ~3U;
	h.row_cnt = rows;
	h.rule_word = (h.row_word + rows + 3) & ~3U;
	h.rule_cnt = FN_TABLE_CNT + 1;
	w->word_cnt = h.rule_word + h.rule_cnt * 4;
	w->word_cnt += -w->word_cnt % UW_CHUNK_WORDS; /* as in the map: whole chunks */
	w->words = calloc(w->word_cnt, 4);
	if (!w->words)
		abort();
	memcpy(w->words, &h, sizeof(h));
	for (__u32 f = 0; f < FN_TABLE_CNT; f++) {
		__u32 off = FN_FIRST + f * FN_STRIDE;

		w->words[h.row_word + 2 * f] = off << 16 | (f + 1);
		w->words[h.row_word + 2 * f + 1] = (off + FN_LEN) << 16;
		memcpy(&w->words[h.rule_word + 4 * (f + 1)], &fn_rules[f], 16);
	}
	for (__u32 p = 0; p <= pages; p++) {
		while (row < rows && w->words[h.row_word + row] >> 16 < (h.first_page + p)
										<< UW_PAGE_BITS)
			row++;
		w->words[h.index_word + p] = row;
	}
	w->map[0] = (struct mapping){ TEXT_BASE, TEXT_BASE + MAP_LEN, 0, TEXT_FILE, 1 };
	w->map[1] = (struct mapping){ LIB_BASE, LIB_BASE + MAP_LEN, 0x2000, LIB_FILE, 0 };
	w->map[2] = (struct mapping){ ANON_BASE, ANON_BASE + MAP_LEN, 0, 0, 0 };
}

/* ---- the stack ------------------------------------------------------------------------------- */

static struct item *add_item(struct world *w, __u64 word)
{
	if (w->item_cnt == MAX_ITEMS)
		abort();
	w->item[w->item_cnt] = (struct item){ .word = word };
	return &w->item[w->item_cnt++];
}

static __u64 native_word(enum fn fn, __u64 addr)
{
	if (fn >= FN_LIB && fn < FN_ANON)
		return NATIVE_WORD(LIB_FILE, addr - LIB_BASE + 0x2000);
	if (fn >= FN_ANON)
		return FRAME_WORD(FRAME_ANON, addr);
	return NATIVE_WORD(TEXT_FILE, addr - TEXT_BASE);
}

/* The last native frame is at `at` of its function, and a caller's word is one byte below. */
static void place_last(struct world *w, __u64 at, int exact)
{
	__u64 addr = fn_addr(w->last_fn) + at;

	if (w->last_native >= 0)
		w->item[w->last_native].word = native_word(w->last_fn, exact ? addr : addr - 1);
}

/* The root chunk's first word stays free (push_chunk(), Python/pystate.c). */
static void new_chunk(struct world *w)
{
	__u64 before = w->chunk, chunk = heap_alloc(w, DATA_STACK);

	if (before)
		put64(w, before + CHUNK_TOP, (w->data_top - before - CHUNK_DATA) / 8);
	put64(w, chunk, before);
	w->chunk = chunk;
	w->data_top = chunk + CHUNK_DATA + (before ? 0 : 8);
}

static void set_data_stack(struct world *w, __u64 chunk, __u64 top)
{
	put64(w, w->tstate + w->interp.layout.tstate_chunk, chunk);
	put64(w, w->tstate + w->interp.layout.tstate_chunk + 8, top);
}

/*
 * Room for a frame: in the data stack behind the last one, in a generator that runs, or anywhere.
 */
static __u64 alloc_frame(struct world *w, __u32 flags, __u64 code)
{
	const struct py_layout *lay = &w->interp.layout;
	__u64 addr = w->data_top;

	if (!addr)
		return heap_alloc(w, 96);
	if (flags & ACT_GENERATORS) {
		addr = heap_alloc(w, 16 + FRAME_ROOM) + 16;
		put8(w, addr - GENERATOR_STATE, FRAME_EXECUTING);
		put8(w, addr + lay->frame_owner, OWNER_GENERATOR);
		return addr;
	}
	w->data_top += lay->frame_locals + 8ULL * (get32(w, code + lay->code_stacksize) +
						   get32(w, code + lay->code_nlocalsplus));
	return addr;
}

static __u64 make_frame(struct world *w, __u32 flags, int code, __u32 off)
{
	const struct py_layout *lay = &w->interp.layout;
	__u64 addr = alloc_frame(w, flags, w->codes[code]);
	__u64 bytecode = w->codes[code] + LAY_BYTECODE;

	put64(w, addr + lay->frame_back, w->top_frame);
	put64(w, addr + lay->frame_code, w->codes[code] | (w->chain == CHAIN_314T ? 1 : 0));
	if (flags & ACT_TLBC && lay->frame_tlbc_index != PY_OFF_NONE) {
		put32(w, addr + lay->frame_tlbc_index, 1);
		bytecode += 2048;
	}
	if (lay->lasti == PY_LASTI_POINTER)
		put64(w, addr + lay->frame_lasti,
		      off == OFFSET_NOT_STARTED ? bytecode - 2 : bytecode + off);
	else if (off == OFFSET_NOT_STARTED)
		put32(w, addr + lay->frame_lasti, ~0U);
	else
		put32(w, addr + lay->frame_lasti, lay->lasti == PY_LASTI_UNITS ? off / 2 : off);
	if (lay->frame_executing != PY_OFF_NONE)
		put8(w, addr + lay->frame_executing, 1);
	w->top_frame = addr;
	w->frame[w->frame_cnt++] = addr;
	return addr;
}

static void add_shim(struct world *w, __u64 addr)
{
	const struct py_layout *lay = &w->interp.layout;

	put64(w, addr + lay->frame_code, 0x5150); /* None, or the trampoline */
	put64(w, addr + lay->frame_back, w->top_frame);
	put8(w, addr + lay->frame_owner, 3);
	w->top_frame = addr;
	w->shim[w->shim_cnt++] = addr;
}

static void add_python_frames(struct world *w, const struct act *a, __u32 cnt, int last)
{
	__u32 first = w->next_code;

	for (__u32 i = 0; i < cnt; i++) {
		int code = (int)((a->flags & ACT_RECURSE ? first : w->next_code++) % CODE_CNT);
		__u32 off = 2 + w->frame_cnt * 6 % 1000;
		struct item *it;

		if (a->flags & ACT_HIDDEN && i == cnt - 1)
			make_frame(w, 0, CODE_INIT, 4);
		if (a->flags & ACT_CHUNK && i == cnt - 1 && w->chunk)
			new_chunk(w);
		if (last && a->flags & ACT_NOT_STARTED && i == cnt - 1)
			off = OFFSET_NOT_STARTED;
		make_frame(w,
			   i == cnt - 1 && a->flags & ACT_GENERATOR ? a->flags | ACT_GENERATORS
								    : a->flags,
			   code, off);
		if (!i && w->chain == CHAIN_311)
			put8(w, w->top_frame + w->interp.layout.frame_owner - IS_ENTRY, 1);
		it = add_item(w, 0);
		it->code = code;
		it->off = off;
		w->own_cnt = w->item_cnt;
		w->compiled = 0;
	}
	if (a->flags & ACT_RECURSE)
		w->next_code++;
	if (last && a->flags & ACT_PHANTOM) {
		__u64 f = make_frame(w, a->flags, 3, 8);
		struct item *it = add_item(w, 0);

		it->code = 3;
		it->off = 8;
		if (w->interp.layout.frame_executing != PY_OFF_NONE) {
			put8(w, f + w->interp.layout.frame_executing, 0);
			put64(w, f + w->interp.layout.frame_back, 0);
		} else if (w->chain == CHAIN_27) {
			put32(w, f + w->interp.layout.frame_lasti, ~0U);
			put32(w, w->codes[3] + w->interp.layout.code_stacksize, 0);
			it->off = OFFSET_NOT_STARTED;
		}
	}
}

/* The eval loop's frame has been made: what it links into the thread state. */
static void add_activation(struct world *w, const struct act *a, __u32 cnt, int last)
{
	const struct py_layout *lay = &w->interp.layout;
	__u64 cfa = w->sp + EVAL_SIZE, cframe = cfa - CFR_BELOW;
	int eval_item = w->last_native;

	if (a->flags & ACT_NO_FRAME)
		return;
	if (lay->root_cframe != PY_OFF_NONE && !(a->flags & ACT_NO_CFRAME)) {
		put64(w, cframe + lay->cframe_previous, w->top_cframe);
		w->below_cframe = w->top_cframe;
		w->top_cframe = cframe;
	}
	if (a->flags & ACT_GARBAGE) { /* an old frame that looks like one */
		put64(w, cframe + lay->cframe_frame, w->frame_cnt ? w->frame[0] : STACK_BASE);
		put64(w, cframe + lay->cframe_previous, JUNK & ~7ULL);
		w->data_top += FRAME_ROOM; /* its new one is there */
		return;
	}
	if (lay->chain >= PY_CHAIN_CFRAME_SHIM)
		add_shim(w, cfa - SHIM_BELOW);
	if (!(a->flags & ACT_EMPTY)) {
		add_python_frames(w, a, cnt, last);
		w->item[eval_item].replaced = !(a->flags & ACT_NO_CFRAME);
	}
	if (w->chain == CHAIN_311 || w->chain == CHAIN_312)
		put64(w, cframe + lay->cframe_frame, w->top_frame);
}

/* The walk must end here: what lies outside of the native frame is expected behind the marker. */
static void add_stop(struct world *w, const struct act *a)
{
	__u64 detail = a->fn < FN_TABLE_CNT ? TEXT_FILE : a->fn < FN_ANON ? LIB_FILE : 0;
	__u32 kept = 0;

	for (__u32 i = 0; i < w->item_cnt; i++)
		if (!w->item[i].word)
			w->item[kept++] = w->item[i];
	w->item_cnt = kept;
	add_item(w, MARKER_WORD(a->why, detail));
}

static void add_native(struct world *w, const struct act *a, enum fn fn)
{
	if (fn == FN_SIGRET || fn == FN_SIGRET_ALT)
		add_signal(w, fn);
	else
		enter_fn(w, fn);
	if (a->flags & ACT_STOP)
		add_stop(w, a);
	w->last_fn = fn;
	w->started = 1;
	w->last_native = (int)w->item_cnt;
	add_item(w, 1);
	if (a->flags & ACT_JUMPED)
		w->last_native = -1, w->item_cnt--;
}

static void insert_item(struct world *w, const struct item *it)
{
	add_item(w, 0);
	memmove(w->item + w->own_cnt + 1, w->item + w->own_cnt,
		(w->item_cnt - 1 - w->own_cnt) * sizeof(*it));
	w->item[w->own_cnt++] = *it;
	w->last_native++;
}

/* Up to 3.10: an ordinary frame, whose code has no instructions. */
static void make_compiled(struct world *w, int code, __u32 line)
{
	const struct py_layout *lay = &w->interp.layout;

	put32(w, w->codes[code] + lay->code_stacksize, 0);
	put32(w, make_frame(w, 0, code, OFFSET_NOT_STARTED) + lay->frame_lasti + 4, line);
}

/* From 3.11 on it lies in its frame object. */
static void link_compiled(struct world *w, int code, __u32 line)
{
	const struct py_layout *lay = &w->interp.layout;
	__u64 object = heap_alloc(w, COMPILED_AT + 96), addr = object + COMPILED_AT;

	put32(w, object + LAY_F_LINENO, line);
	put64(w, addr + lay->frame_lasti - (w->chain == CHAIN_311 ? 16 : 8), object);
	put64(w, addr + lay->frame_lasti, w->codes[code] + LAY_BYTECODE);
	put64(w, addr + lay->frame_back, w->top_frame);
	put64(w, addr + lay->frame_code, w->codes[code] | (w->chain == CHAIN_314T ? 1 : 0));
	put8(w, addr + lay->frame_owner, OWNER_GENERATOR);
	if (lay->root_cframe != PY_OFF_NONE)
		put64(w, w->top_cframe + lay->cframe_frame, addr);
	w->top_frame = addr;
	w->frame[w->frame_cnt++] = addr;
}

/*
 * A frame that Nuitka links for a function that it has compiled. It comes out behind the Python
 * frames of the activation outwards.
 */
static void add_compiled(struct world *w)
{
	int code = (int)(w->next_code++ % CODE_CNT);
	__u32 line = 100 + w->frame_cnt;
	struct item it = { .code = code, .off = OFFSET_LINE + line };

	if (w->interp.layout.chain < PY_CHAIN_CFRAME)
		make_compiled(w, code, line);
	else
		link_compiled(w, code, line);
	if (!w->compiled) {
		insert_item(w, &(struct item){ .word = MARKER_WORD(MARK_PY_COMPILED, 0) });
		w->own_cnt--; /* inwards of all of them */
	}
	w->compiled = 1;
	insert_item(w, &it);
}

static void add_act(struct world *w, const struct act *a)
{
	__u32 chain = w->interp.layout.chain;
	static const struct act call = { .fn = FN_C };

	if (a->fn != FN_EVAL && a->fn != FN_EVAL_COLD) {
		add_native(w, a, a->fn);
		for (__u32 i = 0; i < a->py; i++)
			add_compiled(w);
		return;
	}
	if (chain != PY_CHAIN_FRAME && chain != PY_CHAIN_FRAME_C) {
		add_native(w, a, a->fn);
		add_activation(w, a, a->py, 1);
		return;
	}
	for (__u32 i = 0; i < a->py || !i; i++) { /* every Python call goes through C */
		if (i)
			add_native(w, &call, FN_C);
		add_native(w, a, a->fn);
		add_activation(w, a, a->py ? 1 : 0, i + 1 >= a->py);
	}
}

static void reverse_items(struct world *w)
{
	for (__u32 i = 0, j = w->item_cnt; i + 1 < j; i++) {
		struct item t = w->item[i];

		w->item[i] = w->item[--j];
		w->item[j] = t;
	}
}

/* ---- building -------------------------------------------------------------------------------- */

static void make_process(struct world *w, enum chain_case chain)
{
	w->chain = chain;
	w->interp = (struct interp){ .layout = world__layout(chain) };
	w->runtime = heap_alloc(w, 64);
	w->code_type = heap_alloc(w, 64);
	w->interp_state = heap_alloc(w, 64);
	put64(w, w->runtime, w->interp_state);
	w->interp.interp_head = w->runtime;
	w->interp.code_type = w->code_type;
	w->interp.eval[0].start = fn_addr(FN_EVAL);
	w->interp.eval[0].end = fn_addr(FN_EVAL) + FN_LEN;
	w->interp.eval[1].start = fn_addr(FN_EVAL_COLD);
	w->interp.eval[1].end = fn_addr(FN_EVAL_COLD) + FN_LEN;
	make_codes(w);
	if (chain == CHAIN_311 || chain == CHAIN_312)
		new_chunk(w);
	w->tstate = make_tstate(w, make_tstate(w, 0, WORLD_TP + 8192), WORLD_TP);
	put64(w, w->interp_state + w->interp.layout.interp_threads_head, w->tstate);
	w->top_cframe = w->tstate + LAY_ROOT_CFRAME;
	if (chain == CHAIN_315)
		add_shim(w, get64(w, w->tstate + LAY_BASE_FRAME));
}

static void world__clear(struct world *w)
{
	for (__u32 i = 0; i < w->seen_cnt; i++)
		for (int k = 0; k < BLOB_CNT; k++)
			free(w->seen[i].data[k]);
	memset(w->seen, 0, w->seen_cnt * sizeof(w->seen[0]));
	memset(w->known_codes, 0, sizeof(w->known_codes));
	memset(w->code_rows, 0, sizeof(w->code_rows));
	w->seen_cnt = w->key_cnt = 0;
	w->next_id = 0x1000;
}

static void world__free(struct world *w)
{
	if (!w)
		return;
	world__clear(w);
	free(w->heap);
	free(w->stack);
	free(w->alt);
	free(w->words);
	free(w->walk);
	free(w->out);
	free(w);
}

static struct world *world__new(void)
{
	struct world *w = calloc(1, sizeof(*w));

	if (!w)
		abort();
	w->heap = calloc(1, HEAP_SIZE);
	w->stack = calloc(1, STACK_SIZE);
	w->alt = calloc(1, ALT_SIZE);
	w->walk = malloc(sizeof(*w->walk));
	w->out = malloc(sizeof(*w->out));
	if (!w->heap || !w->stack || !w->alt || !w->walk || !w->out)
		abort();
	w->next_id = 0x1000;
	w->last_native = -1;
	make_table(w);
	make_insns(w);
	the_world = w;
	return w;
}

static struct world *world__build(enum chain_case chain, const struct act *acts, __u32 cnt)
{
	struct world *w = world__new();
	__u64 at = LEAF_AT;

	make_process(w, chain);
	w->sp = STACK_BASE + STACK_SIZE - 256;
	w->fp = 0;
	for (__u32 i = 0; i < cnt; i++)
		add_act(w, &acts[i]);
	if (cnt && acts[cnt - 1].flags & (ACT_GARBAGE | ACT_SETUP))
		at = SETUP_AT;
	if (cnt && acts[cnt - 1].flags & ACT_EMPTY && chain == CHAIN_310)
		at = SETUP_AT; /* only there the frame is not linked when the CFrame is */
	if (cnt && acts[cnt - 1].flags & ACT_NO_FRAME) {
		at = SETUP_AT;
		w->interp.cframe_delta = CFR_BELOW;
	}
	for (__u32 i = 0; i < cnt; i++)
		if (acts[i].flags & (ACT_NO_FRAME | ACT_EMPTY | ACT_NO_CFRAME | ACT_PHANTOM))
			w->uneven = chain == CHAIN_27 || chain == CHAIN_39 || chain == CHAIN_310;
	if (w->last_fn == FN_PLT_PUSHED)
		at = LEAF_AT + 11;
	if (w->last_fn == FN_SYSCALL)
		at = FN_LEN;
	place_last(w, at, 1);
	w->pc = fn_addr(w->last_fn) + at;
	set_leaf(w, w->tstate, w->top_frame, w->top_cframe);
	if (w->data_top)
		set_data_stack(w, w->chunk, w->data_top);
	reverse_items(w);
	return w;
}

/* ---- sampling -------------------------------------------------------------------------------- */

/* A sample's beginning: what select_sample() and load_regs() do. */
static void world__load(struct world *w)
{
	struct walk *k = w->walk;

	memset(k, 0xa5, sizeof(*k)); /* of the sample before */
	k->is_cut = 0;
	memset(w->out, 0xa5, sizeof(*w->out));
	memset(w->deep, 0xa5, sizeof(w->deep));
	w->reads = 0;
	w->faulted = 0;
	w->out->cnt = 0;
	k->sample = w->samples++;
	reset_walk(k);
	k->tgid = k->tid = 4711;
	k->space = 5;
	k->row = w->row;
	k->by_row = w->by_row;
	k->code_epoch = w->code_epoch;
	k->map_first = 0;
	k->map_cnt = 3;
	k->map.start = k->map.end = 0;
	k->interp = 0;
	k->has_python = 1;
	k->bias = 0;
	k->in = w->interp;
	k->tp = WORLD_TP;
	k->stack_start = w->start_sp;
	k->pc = w->pc;
	k->sp = w->sp;
	k->fp = w->fp;
	memcpy(k->regs, w->regs, sizeof(k->regs));
	k->regs[ARCH_REG_SP] = w->sp;
	k->regs[ARCH_REG_FP] = w->fp;
	k->exact_pc = 1;
}

/* One sample, as walk_user() takes it. */
static void world__sample(struct world *w)
{
	world__load(w);
	scan_thread_states(0);
	walk_python(w->walk);
	walk_native(0);
	merge(0);
}

#endif /* PYPERF_WALK_WORLD_H */
