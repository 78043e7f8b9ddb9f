/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TRACE_H
#define PYPERF_TRACE_H
/*
 * The contract between bpf/trace.bpf.c and user/trace/: where the breakpoints are, what is counted
 * for each code object, and what a code object is called. The rules of pyperf.h hold.
 */
#include "pyperf.h"

#define TRACE_SPOTS	 64 /* a power of two */
#define TRACE_OPCODES	 16
#define TRACE_NAME_BYTES 512  /* sent of a name; user space reads longer ones itself */
#define TRACE_LINE_BYTES 2048 /* sent of a line table, likewise */
#define TRACE_REG_CNT	 16   /* registers by DWARF number in which a frame is looked for */

enum point_kind {
	POINT_ENTRY = 1,  /* of the eval function: a call, or a resumption */
	POINT_RESUME = 2, /* RESUME, of any form: the same */
	POINT_RETURN = 3, /* RETURN_VALUE, RETURN_CONST */
	/* YIELD_VALUE; RETURN_GENERATOR is none: the frame goes on as the generator's */
	POINT_YIELD = 4,
	POINT_EXIT = 5,		 /* the eval function is left: a return, a yield or an exception */
	POINT_RAISE = 6,	 /* PyTraceBack_Here(): an exception is in a frame */
	POINT_COLLECT = 7,	 /* the garbage collector begins */
	POINT_COLLECTED = 8,	 /* and returns how many objects it has found */
	POINT_AUDIT = 9,	 /* an audit event, the first argument, ... */
	POINT_AUDIT_INNER = 10,	 /* ... or the second one */
	POINT_AUDIT_PYTHON = 11, /* sys.audit() */
};

/* An instruction may be a branch that leaves a function on one side only. */
enum trace_condition {
	CONDITION_ALWAYS = 0,
	CONDITION_TAKEN = 0x10, /* with the condition code of the instruction in the low bits */
	CONDITION_NOT_TAKEN = 0x20,
};

/* Where the value is that a function is about to return. */
enum trace_place {
	PLACE_UNKNOWN = 0,
	PLACE_REGISTER = 1, /* `reg` */
	PLACE_MEMORY = 2,   /* at `reg` plus `offset` */
	PLACE_NOTHING = 3,  /* there is none: an exception */
};

/* A breakpoint. */
struct trace_spot {
	__u64 pc;   /* in the process; in another one all addresses are as far away as this is */
	__u32 kind; /* enum point_kind */
	__u32 condition;
	__u32 sp_below; /* POINT_EXIT: bytes to the stack pointer at entry */
	/* POINT_RETURN: the opcode, if its argument says which constant is returned; else 0 */
	__u32 constant;
	__u8 place; /* POINT_EXIT: enum trace_place */
	__u8 reg;   /* by DWARF number */
	/*
	 * POINT_RESUME: opcodes whose code may have jumped here, after a hit of their own; 0: none
	 */
	__u8 before[2];
	__s32 offset;
};
PYPERF_ASSERT_SIZE(struct trace_spot, 32);

#define TRACE_ARGS_MAX	  6
#define TRACE_VALUE_BYTES 64 /* sent of a value: characters, digits, the name of its type */
#define TRACE_PARAM_BYTES 64 /* sent of the name of a parameter, and one more */

/* What a value is, by the address of its type: only those that behave as everybody knows. */
enum trace_value_kind {
	VALUE_UNSET = 0, /* there is none, or it cannot be read */
	VALUE_INT = 1,	 /* number: ob_size or lv_tag; data: digits of 30 bits */
	VALUE_STR = 2,	 /* data: characters */
	VALUE_BYTES = 3, /* data */
	VALUE_FLOAT = 4, /* number: its bits */
	VALUE_CELL = 5,	 /* never sent: what is in it is */
	VALUE_WORD = 6,	 /* number: a small int (2.7 and tagged ones); */
	VALUE_WIDE = 7,	 /* 2.7: unicode; sent as VALUE_STR */
	VALUE_TYPES = 8, /* kinds below have a type in struct trace_values_cfg */
	VALUE_NONE = 8,
	VALUE_TRUE = 9,
	VALUE_FALSE = 10,
	VALUE_SINGLES = 11, /* kinds from VALUE_NONE to here are one object */
	VALUE_OTHER = 11,   /* data: the name of its type, in UTF-8, with a zero */
};

/* Where values are wanted. */
struct trace_values_cfg {
	__u32 args;    /* so many, of calls */
	__u32 returns; /* of ends by return: the value */
	__u32 tagged;  /* 3.14+: a local variable may be an int, with this tag */
	/* In a code object. */
	__u16 code_argcount, code_kwonly, code_flags, code_names, code_nlocals, code_consts;
	__u16 code_cell2arg;  /* up to 3.10: an argument is in a cell elsewhere; 0: never */
	__u16 cell2arg_width; /* bytes of one */
	__u16 tuple_items;
	__u16 wide_width;      /* 2.7: bytes of a character of unicode */
	__u16 opcode_extended; /* EXTENDED_ARG */
	__u16 pad[3];
	__u64 types[VALUE_TYPES]; /* by kind, as code_type; 0: there is none */
	__u64 singles[VALUE_SINGLES - VALUE_TYPES];
};
PYPERF_ASSERT_SIZE(struct trace_values_cfg, 40 + 8 * VALUE_SINGLES);

#define TRACE_AUDITS	  8
#define TRACE_AUDIT_WORDS 4

/* Names of events: all bytes that `mask` has are as in `name`. */
struct trace_audit {
	__u64 name[TRACE_AUDIT_WORDS];
	__u64 mask[TRACE_AUDIT_WORDS];
};
PYPERF_ASSERT_SIZE(struct trace_audit, 16 * TRACE_AUDIT_WORDS);

#define TRACE_THREADS 8

/* Threads that are wanted: one by number, or all whose name has these bytes (trace_audit). */
struct trace_thread {
	__u64 name[2]; /* task_struct.comm */
	__u64 mask[2];
	__u32 tid; /* 0: by name */
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct trace_thread, 40);

/* In .rodata: one interpreter, in a process and in what it starts. */
struct trace_cfg {
	struct py_layout layout;
	__u64 code_type;   /* PyCode_Type, in the process that the addresses in `spots` are of */
	__u32 by_opcode;   /* 3.11+: the spots are opcodes' code; else the eval function's entry */
	__u32 entry_reg;   /* ... where this register has the frame: an argument */
	__u32 resume_size; /* bytes of RESUME in the bytecode, with its cache */
	/* of its argument: where it stands (RESUME_OPARG_LOCATION_MASK); 0: where it begins */
	__u32 resume_mask;
	__u32 filtered;	       /* user space refuses functions */
	__u32 frame_of_object; /* 3.11+: where a frame object has its frame; 0: it is the frame */
	__u32 spot_cnt;
	__u32 by_cookie; /* the cookie of a breakpoint is its number in `spots` */
	__u64 pidns_dev; /* /proc/self/ns/pid of the caller, if it is not the initial one */
	__u32 pidns_inum;
	__u32 pidns_level;
	__u64 interp_head;   /* of the pointer to the first PyInterpreterState, as code_type */
	__u32 exc_at;	     /* in a PyThreadState: the exception, up to 3.11 its type */
	__u32 exc_traceback; /* 3.12+: in the exception: its traceback; 0: it is beside its type */
	__u32 lines;	     /* line tables are sent, too */
	/* Of the GIL: in it, how many threads wait for it (pthread_cond_t); 0: not known ... */
	__u32 gil_waiters;
	__u32 gil_locks; /* ... in it, its futexes, of so many bytes; 0: not known */
	__u32 gil_locks_size;
	__u32 tstate_interp; /* ... in a PyThreadState, the interpreter, and in that the GIL; */
	__u32 interp_gil;
	__u64 gil; /* or, if it is not 0, where it is, as code_type */
	/*
	 * 3.13 and later choose the generation later: where it is said (_Py_DebugOffsets) how far
	 * the collector's state is in the interpreter, as code_type, and how far its statistics are
	 * in that; 0: not needed.
	 */
	__u64 gc_said;
	__u32 gc_stats;
	__u32 gc_rings;	 /* 3.15: a pointer to rings is there */
	__u32 imports;	 /* functions of importlib alone are wanted ... */
	__u32 local_at;	 /* ... with their first argument, which is here in the frame */
	__u32 frame_max; /* of stacks, up to TRACE_RAISE_FRAMES */
	__u32 slow;	 /* beginnings of functions have their stack */
	__u32 callees;	 /* what wanted functions call is sent, too, without its stack */
	/*
	 * What happens inside of one function alone is wanted. Its name ends with so many bytes,
	 * and these: what may be it at first sight.
	 */
	__u32 from;
	__u32 from_len;
	__u32 cpu; /* events have CPU time; not with `from` */
	__u64 from_tail[2];
	__u32 audit_cnt;
	__u32 thread_cnt; /* 0: all are wanted */
	struct trace_audit audits[TRACE_AUDITS];
	struct trace_thread threads[TRACE_THREADS];
	struct trace_values_cfg values;
	struct trace_spot spots[TRACE_SPOTS];
	__u8 opcodes[TRACE_OPCODES]; /* what RESUME may be in memory; 0: no more */
};
PYPERF_ASSERT_SIZE(struct trace_cfg, 104 + 40 + 128 + 64 * TRACE_AUDITS + 40 * TRACE_THREADS +
					     sizeof(struct trace_values_cfg) + 32 * TRACE_SPOTS +
					     TRACE_OPCODES);

/*
 * In which registers the code at a breakpoint has the frame and the next instruction. The compiler
 * has decided it once for all hits, and it is learned from the first ones: a register is the frame
 * if a code object hangs on it, and another points at RESUME in that object's bytecode. Of a
 * tail-call interpreter user space knows it before.
 */
struct trace_way {
	__u8 frame;  /* register */
	__u8 instr;  /* register; unused if !by_opcode */
	__u8 back;   /* bytes from the opcode to where that register points */
	__u8 agreed; /* hits that gave this answer; see TRACE_LEARNED */
};
PYPERF_ASSERT_SIZE(struct trace_way, 4);

/*
 * So many hits have to agree before the answer is used at once: if one register alone has been
 * right each time, or up to 3.10; and if several have.
 */
#define TRACE_AGREED	     16
#define TRACE_LEARNED	     240

/*
 * 3.15: a generator expression is made; it begins at another RESUME
 * (Include/internal/pycore_opcode_utils.h).
 */
#define TRACE_RESUME_GENEXPR 4

/*
 * codes: a code object -> its calls. The fingerprint tells it from another one that had the address
 * before, or has it in another process.
 */
struct trace_key {
	__u64 addr;
	__u64 fingerprint;
};
PYPERF_ASSERT_SIZE(struct trace_key, 16);

/* Why calls of a function do not count. */
enum trace_refusal {
	TRACE_WANTED = 0,   /* they do, or its name is still on its way to user space */
	TRACE_UNWANTED = 1, /* set by user space: no filter means it */
	/*
	 * Its name was not read: it found no room in the ring, or user space could not read it
	 * either. Its next call asks again; until then no filter means it.
	 */
	TRACE_NAMELESS = 2,
};

struct trace_count {
	__u64 id; /* for its names: a hash of the key */
	__u64 calls;
	__u64 resumed; /* entered again behind yield or await */
	__u16 refused; /* enum trace_refusal */
	/* It may be the function of trace_cfg.from: until user space has read its name. */
	__u16 from;
	__u32 tgid; /* whose it is */
};
PYPERF_ASSERT_SIZE(struct trace_count, 32);

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

enum trace_event_kind {
	EVENT_CALL = 1,
	EVENT_RESUME = 2, /* a generator or coroutine goes on */
	EVENT_RETURN = 3,
	EVENT_YIELD = 4,
	EVENT_LEFT = 5,	 /* a return, a yield or an exception */
	EVENT_RAISE = 6, /* an exception has come to this frame */
	EVENT_WAITS = 7, /* struct trace_waits */
};

/* In `events`. */
struct trace_event {
	__u64 ns; /* CLOCK_MONOTONIC */
	__u64 frame;
	__u64 caller; /* the Python frame below, of a call, a resumption or an exception; 0: none */
	__u64 code;   /* of a call or a resumption: trace_count.id */
	__u32 tid;
	__u32 lost; /* events that found no room, before this one */
	__u16 kind; /* enum trace_event_kind */
	__u16 cpu;
	__u32 tgid;
	/*
	 * Where trace_cfg.from is set: trace_count.id of the outermost and the innermost function
	 * that it may be and that this is inside of.
	 *
	 * Where trace_cfg.cpu is set; else 0: 1 more than the CPU time of the thread when the
	 * kernel last added it up ...
	 */
	__u64 ran_ns;
	__u64 ran_lag; /* ... and since then; the upper 12 bits are the CPU, whose clock it is by */
};
PYPERF_ASSERT_SIZE(struct trace_event, 64);

#define TRACE_LAG_BITS	   52

#define TRACE_RAISE_FRAMES 128 /* a power of two */
#define TRACE_TYPE_BYTES   128

/* In `events`, where exceptions, or audit events, are wanted: one was raised. */
struct trace_raise {
	__u64 ns; /* CLOCK_MONOTONIC */
	__u32 tgid, tid;
	__u32 lost; /* that found no room, before this one */
	__u32 code_cnt;
	__u32 cut; /* there are more frames */
	__u32 pad;
	/* Its name, or the event's, in UTF-8, with a zero; empty: it was not read. */
	char type[TRACE_TYPE_BYTES];
	/* Of the frames, the innermost first: trace_count.id; 0: it was not read. */
	__u64 codes[TRACE_RAISE_FRAMES];
	/* In the bytecode of each, in bytes; or OFFSET_NOT_STARTED. */
	__u32 offsets[TRACE_RAISE_FRAMES];
};
PYPERF_ASSERT_SIZE(struct trace_raise, 32 + TRACE_TYPE_BYTES + 12 * TRACE_RAISE_FRAMES);

/* In `events`, where slow calls are wanted: a function begins. */
struct trace_call {
	struct trace_event e;
	struct trace_raise at; /* its stack, itself first; nothing else is set */
};
PYPERF_ASSERT_SIZE(struct trace_call, sizeof(struct trace_event) + sizeof(struct trace_raise));

/*
 * What a thread waited for: the kinds of enum wait_kind, and behind them what tells apart those
 * that are system calls. X(name, number, text)
 */
#define TRACE_REASONS(X)                                                                           \
	X(OTHER, WAIT_CALL, "other system calls")                                                  \
	X(CPU, WAIT_CPU, "CPU")                                                                    \
	X(FAULT, WAIT_FAULT, "page fault")                                                         \
	X(DISK, WAIT_DISK, "disk")                                                                 \
	X(NET, WAIT_SOCKET, "net")                                                                 \
	X(PIPE, WAIT_PIPE, "pipe")                                                                 \
	X(TERMINAL, WAIT_TERMINAL, "terminal")                                                     \
	X(LOCK, WAIT_LOCK, "lock")                                                                 \
	X(GIL, WAIT_GIL, "GIL")                                                                    \
	X(SLEEP, WAIT_SLEEP, "sleep")                                                              \
	X(POLL, 11, "poll")                                                                        \
	X(CHILD, 12, "child process")

enum trace_reason {
#define X(name, number, text) REASON_##name = (number),
	TRACE_REASONS(X)
#undef X
};

#define TRACE_REASON_CNT 16 /* a power of two, above all of them */

/* waiting: a thread, by the kernel's number -> what it waited for since its last event. */
struct trace_waiter {
	__u64 out_ns;	/* it left its CPU; 0: it is on one */
	__u64 moved;	/* distance of its process's addresses from those in trace_cfg */
	__u32 reason;	/* enum trace_reason of the wait at hand */
	__u32 has_news; /* it has waited since its last event */
	__u64 ns[TRACE_REASON_CNT];
};
PYPERF_ASSERT_SIZE(struct trace_waiter, 24 + 8 * TRACE_REASON_CNT);

/*
 * In `events`, where slow calls are wanted, before the next event of a thread that has waited: what
 * it waited for since its last event. Of `e` only kind, tgid, tid and lost are set.
 */
struct trace_waits {
	struct trace_event e;
	__u64 ns[TRACE_REASON_CNT]; /* by enum trace_reason */
};
PYPERF_ASSERT_SIZE(struct trace_waits, sizeof(struct trace_event) + 8 * TRACE_REASON_CNT);

struct trace_value {
	__u64 number;
	__u32 size; /* of all its characters, in bytes */
	__u8 kind;  /* enum trace_value_kind */
	__u8 width; /* VALUE_STR: bytes of a character */
	__u16 sent; /* bytes of `data` */
	__u8 data[TRACE_VALUE_BYTES];
};
PYPERF_ASSERT_SIZE(struct trace_value, 16 + TRACE_VALUE_BYTES);

/*
 * In `events`, where values are wanted: a call with its first arguments, or a return with its
 * value. As many as there are wanted are sent, whether the function has them or not.
 */
struct trace_valued {
	struct trace_event e;
	struct trace_value at[TRACE_ARGS_MAX];
};
PYPERF_ASSERT_SIZE(struct trace_valued,
		   sizeof(struct trace_event) + TRACE_ARGS_MAX * sizeof(struct trace_value));

struct trace_param {
	__u32 size; /* of the name, in bytes */
	__u8 width; /* 0: it could not be read */
	__u8 flags; /* as in struct trace_name */
	__u16 sent;
	__u8 data[TRACE_PARAM_BYTES];
};
PYPERF_ASSERT_SIZE(struct trace_param, 8 + TRACE_PARAM_BYTES);

/* In `news`, where values are wanted: the parameters of a code object. */
struct trace_params {
	__u64 id;
	__u32 argcount; /* positional */
	__u32 kwonly;
	__u32 flags; /* co_flags */
	__u32 pad;
	struct trace_param at[TRACE_ARGS_MAX];
};
PYPERF_ASSERT_SIZE(struct trace_params, 24 + TRACE_ARGS_MAX * sizeof(struct trace_param));

/* In `events`, where imports are wanted: a function of importlib was called. */
struct trace_import {
	__u64 frame, caller;
	struct trace_name name; /* the first argument, if it is a string; else nothing is sent */
	struct trace_raise at;	/* with that, its stack; else itself alone */
};
PYPERF_ASSERT_SIZE(struct trace_import, 32 + TRACE_NAME_BYTES + sizeof(struct trace_raise));

#define TRACE_GENERATIONS     3 /* this number: it is not known which one */
#define TRACE_WAITERS_UNKNOWN (~0U)

/* In `events`, where collections are wanted: one has ended. */
struct trace_collection {
	__u64 start_ns; /* CLOCK_MONOTONIC */
	__u64 found;	/* garbage: objects */
	__u32 generation;
	__u32 waiters;	       /* threads that wait for the GIL at its end */
	struct trace_raise at; /* its end; without a type */
};
PYPERF_ASSERT_SIZE(struct trace_collection, 24 + sizeof(struct trace_raise));

/* collecting: a thread -> the collection that it is in. */
struct trace_collecting {
	__u64 start_ns;
	__u64 before[TRACE_GENERATIONS]; /* collections, by generation; with gc_stats */
	__u32 generation;
	__u32 depth; /* 3.14 calls the function although a collection runs; it returns at once */
};
PYPERF_ASSERT_SIZE(struct trace_collecting, 16 + 8 * TRACE_GENERATIONS);

/* inside: a frame; or, with frame 0, a process and its thread in one word. */
struct trace_inside_key {
	__u64 frame;
	__u64 process;
};
PYPERF_ASSERT_SIZE(struct trace_inside_key, 16);

enum trace_inside_state {
	INSIDE_RUNS = 1,  /* it is inside of trace_cfg.from, or that itself */
	INSIDE_CALLS = 2, /* it is not, but has called it */
	INSIDE_SEEN = 3,  /* a thread whose stack was looked at */
};

struct trace_inside {
	__u64 from[2]; /* as in struct trace_event */
	__u64 caller;  /* of a frame that is in no other one: the frame with INSIDE_CALLS */
	__u32 state;   /* enum trace_inside_state */
	__u32 sent;    /* its beginning is an event */
};
PYPERF_ASSERT_SIZE(struct trace_inside, 32);

/* frames_by_sp: where the eval function was entered. */
struct trace_entry {
	__u64 sp;
	__u64 task; /* the process and, in the low half, its thread */
};
PYPERF_ASSERT_SIZE(struct trace_entry, 16);

/* In `news`: a code object at first sight, without its lines. */
struct trace_code {
	__u64 id;
	struct trace_key key;
	__u32 tgid;
	__s32 firstlineno;
	__u64 linetable;
	struct trace_name name, file;
};
PYPERF_ASSERT_SIZE(struct trace_code, 40 + 2 * (16 + TRACE_NAME_BYTES));

/* The same where stacks are wanted. */
struct trace_code_lines {
	struct trace_code code;
	__u32 size; /* of the line table, in bytes */
	__u32 sent; /* 0: it could not be read */
	__u8 data[TRACE_LINE_BYTES];
};
PYPERF_ASSERT_SIZE(struct trace_code_lines, sizeof(struct trace_code) + 8 + TRACE_LINE_BYTES);

/*
 * What is not counted in `codes`: all hits are in one of them, or refused, other, unknown,
 * nameless, lost_full; where exceptions are wanted, in `events`, `lost`, passed or unknown_raise.
 * X(name, text)
 */
#define TRACE_COUNTERS(X)                                                                          \
	X(refused, "hits that no filter means")                                                    \
	X(other, "hits of other opcodes that come by")                                             \
	X(unknown, "hits whose frame was not found")                                               \
	X(lost_full, "calls of functions that found no room in the table")                         \
	X(unknown_end, "ends of functions whose frame was not found")                              \
	X(passed, "frames that an exception reached behind its first one")                         \
	X(unknown_raise, "frames with an exception whose thread was not found")                    \
	X(idle, "calls of the collector that collected nothing")                                   \
	X(outside, "hits outside of the function that is wanted")                                  \
	X(nameless, "calls of functions whose names found no room in the ring buffer")             \
	X(note_searched, "hits whose frame was looked for in all registers")                       \
	X(note_nameless, "names of functions that found no room in the ring buffer")

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
