/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_FRAMES_CONTRACT_H
#define PYPERF_FRAMES_CONTRACT_H
/*
 * Part of the contract (pyperf.h): the words that frames are, why a stack ends, what a thread waits
 * for. Numbers are given by hand, appended, and never used again.
 */
#include "pyperf_limits.h"

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
 * that an extension has compiled (is_compiled(), walk_pyframe.bpf.h). Bytecode is shorter.
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

#endif /* PYPERF_FRAMES_CONTRACT_H */
