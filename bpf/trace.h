/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TRACE_H
#define PYPERF_TRACE_H
/*
 * The contract between bpf/trace.bpf.c and user/trace/: where the breakpoints are, what is counted
 * for each code object, and what a code object is called. The rules of pyperf.h hold.
 */
#include "pyperf.h"

#define TRACE_SPOTS	 16
#define TRACE_OPCODES	 16
#define TRACE_NAME_BYTES 512 /* sent of a name; user space reads longer ones itself */
#define TRACE_REG_CNT	 16  /* registers by DWARF number in which a frame is looked for */

/* A breakpoint. */
struct trace_spot {
	__u64 pc;     /* in the process */
	__u32 kind;   /* enum point_kind of user/trace/points.h */
	__u32 joined; /* more than the opcode comes by */
};
PYPERF_ASSERT_SIZE(struct trace_spot, 16);

/* In .rodata: one interpreter in one process. */
struct trace_cfg {
	struct py_layout layout;
	__u64 code_type;   /* PyCode_Type, in the process */
	__u32 by_opcode;   /* 3.11+: the spots are opcodes' code; else the eval function's entry */
	__u32 entry_reg;   /* ... where this register has the frame: an argument */
	__u32 resume_size; /* bytes of RESUME in the bytecode, with its cache */
	/* of its argument: where it stands (RESUME_OPARG_LOCATION_MASK); 0: where it begins */
	__u32 resume_mask;
	__u32 pad;
	__u32 spot_cnt;
	struct trace_spot spots[TRACE_SPOTS];
	__u8 opcodes[TRACE_OPCODES]; /* what RESUME may be in memory; 0: no more */
};
PYPERF_ASSERT_SIZE(struct trace_cfg, 96 + 32 + 16 * TRACE_SPOTS + TRACE_OPCODES);

/*
 * In which registers the code at a breakpoint has the frame and the next instruction. The compiler
 * has decided it once for all hits, and it is learned from the first ones: a register is the frame
 * if a code object hangs on it, and another points at RESUME in that object's bytecode.
 */
struct trace_way {
	__u8 frame;  /* register */
	__u8 instr;  /* register; unused if !by_opcode */
	__u8 back;   /* bytes from the opcode to where that register points */
	__u8 agreed; /* hits that gave this answer, up to TRACE_AGREED: then it is used at once */
};
PYPERF_ASSERT_SIZE(struct trace_way, 4);

#define TRACE_AGREED	     16

/*
 * 3.15: a generator expression is made; it begins at another RESUME
 * (Include/internal/pycore_opcode_utils.h).
 */
#define TRACE_RESUME_GENEXPR 4

/*
 * codes: a code object -> its calls. The fingerprint tells it from another one that had the address
 * before.
 */
struct trace_key {
	__u64 addr;
	__u64 fingerprint;
};
PYPERF_ASSERT_SIZE(struct trace_key, 16);

struct trace_count {
	__u64 id; /* for its names: a hash of the key */
	__u64 calls;
	__u64 resumed; /* entered again behind yield or await */
};
PYPERF_ASSERT_SIZE(struct trace_count, 24);

/* What a name is, and its first bytes. */
struct trace_name {
	__u64 uaddr; /* of the object */
	__u32 size;  /* of its data, in bytes */
	__u8 width;  /* as in struct blob_info */
	__u8 flags;
	__u16 sent; /* bytes of data; 0: it could not be read */
	__u8 data[TRACE_NAME_BYTES];
};
PYPERF_ASSERT_SIZE(struct trace_name, 16 + TRACE_NAME_BYTES);

/* In `news`: a code object at first sight. */
struct trace_code {
	__u64 id;
	__u64 addr;
	__u32 tgid;
	__s32 firstlineno;
	__u64 linetable;
	struct trace_name name, file;
};
PYPERF_ASSERT_SIZE(struct trace_code, 32 + 2 * (16 + TRACE_NAME_BYTES));

/*
 * What is not counted in `codes`: all hits are in one of them, or other, unknown, lost_full.
 * X(name, text)
 */
#define TRACE_COUNTERS(X)                                                                          \
	X(other, "hits of other opcodes that come by")                                             \
	X(unknown, "hits whose frame was not found")                                               \
	X(lost_full, "calls of functions that found no room in the table")                         \
	X(note_searched, "hits whose frame was looked for in all registers")                       \
	X(note_nameless, "functions whose names found no room in the ring buffer")

enum trace_counter {
#define X(name, text) TRACE_CTR_##name,
	TRACE_COUNTERS(X)
#undef X
		TRACE_CTR_CNT
};

#define TRACE_COUNTER_SLOTS 16
struct trace_counters {
	__u64 n[TRACE_COUNTER_SLOTS];
};
_Static_assert(TRACE_CTR_CNT <= TRACE_COUNTER_SLOTS, "TRACE_COUNTER_SLOTS");

#endif /* PYPERF_TRACE_H */
