/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PYTHON_CONTRACT_H
#define PYPERF_PYTHON_CONTRACT_H
/*
 * Part of the contract (pyperf.h): layouts of CPython, interpreters, code objects, and which thread
 * state a thread has. user/ writes interpreters, but for what BPF learns; BPF writes the others.
 */
#include "pyperf_limits.h"

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
	 * The GIL is at `gil`; if that is 0, the interpreter of the thread has a pointer to it.
	 * From there on: its futexes, the PyThreadState that holds it, and the int that is 1
	 * meanwhile. gil_size 0: not known, or there is none.
	 */
	__u16 gil_size; /* of the memory with its futexes */
	__u16 pad;
	__u64 gil;
	__u32 gil_locks;
	__u32 gil_holder;
	/*
	 * PY_OFF_NONE: there is no such int, and while nobody holds the GIL the holder is NULL.
	 * Then its futex is in a semaphore, to which gil_locks has a pointer: 2.7.
	 */
	__u32 gil_locked;
	__u16 gil_interp;    /* in the PyThreadState: pointer to the interpreter ... */
	__u16 gil_of_interp; /* ... and in that: pointer to the GIL */
};
PYPERF_ASSERT_SIZE(struct interp, 96 + 16 + 16 * MAX_EVAL_RANGES + 40);

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

#endif /* PYPERF_PYTHON_CONTRACT_H */
