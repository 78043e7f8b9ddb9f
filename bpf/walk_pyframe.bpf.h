/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef PYPERF_WALK_PYFRAME_H
#define PYPERF_WALK_PYFRAME_H
/*
 * Stage 2: one Python frame: its fields, its place in the code, and what it is if no frame of a
 * function.
 * Input:   w->interp.layout; the address of a frame.
 * Output:  the frame in w->frames.bytes, of which frame64(), frame32() and frame8() give the
 *          fields.
 * Cost:    one read per frame, from 3.11 on per window of frames.
 * Fails:   unreadable memory: the caller says so.
 */
#include "state.bpf.h"
#include "walk_tstate.bpf.h"

#define OWNER_SHIM   3	 /* 3.12+: FRAME_OWNED_BY_CSTACK, _BY_INTERPRETER */
#define COMPILED_MAX 192 /* of a frame in its frame object: is_compiled() */

/* A field of the current frame. As in buf64(): fields are aligned, masks bound the access. */
BPF_INLINE __u64 frame64(const struct walk *w, __u32 off)
{
	return ((const __u64 *)w->frames.bytes)[((w->frames.at + off) & (FRAMES_BYTES - 8)) / 8];
}
BPF_INLINE __u32 frame32(const struct walk *w, __u32 off)
{
	return ((const __u32 *)w->frames.bytes)[((w->frames.at + off) & (FRAMES_BYTES - 4)) / 4];
}
BPF_INLINE __u8 frame8(const struct walk *w, __u32 off)
{
	return w->frames.bytes[BOUND(w->frames.at + off, FRAMES_BYTES)];
}

/*
 * From 3.11 on most frames lie in the data stack of their thread, each behind its caller's. A read
 * costs the same for 8 as for 1000 bytes, so the callers are read at once, back to where the page
 * begins: a page before it need not be there. Frame objects, and the shims on the C stack, lie
 * alone.
 */
BPF_INLINE int read_frames(struct walk *w, __u64 frame)
{
	__u32 size = w->interp.layout.frame_read & (FRAMES_BYTES - WINDOW - 1);
	__u32 before = frame & (PAGE_BYTES - 1);

	if (w->interp.layout.chain < PY_CHAIN_CFRAME || on_our_stack(w, frame)) {
		w->frames.at = WINDOW;
		return read_user(w->frames.bytes + WINDOW, size, frame);
	}
	if (before > WINDOW - size)
		before = WINDOW - size;
	w->frames.at = before;
	w->frames.addr = frame - before;
	w->frames.size = before + size;
	if (!read_user(w->frames.bytes, BOUND(w->frames.size, FRAMES_BYTES), w->frames.addr))
		return 0;
	w->frames.size = 0;
	return -1;
}

/* Makes this frame the current one. */
BPF_INLINE int load_frame(struct walk *w, __u64 frame)
{
	__u64 at = frame - w->frames.addr;

	if (at < w->frames.size && at + w->interp.layout.frame_read <= w->frames.size)
		w->frames.at = (__u32)at;
	else if (read_frames(w, frame))
		return -1;
	note_frame(w, frame);
	return 0;
}

/* Byte offset of the current frame's instruction in the bytecode. */
BPF_INLINE __u32 frame_offset(struct walk *w, __u64 code)
{
	__u64 base, off, lasti, tlbc = 0;

	if (w->interp.layout.lasti != PY_LASTI_POINTER) {
		off = frame32(w, w->interp.layout.frame_lasti);
		if ((__s32)off < 0 || off >= OFFSET_LINE / 2)
			return OFFSET_NOT_STARTED;
		return (__u32)(w->interp.layout.lasti == PY_LASTI_UNITS ? off * 2 : off);
	}
	lasti = frame64(w, w->interp.layout.frame_lasti);
	if (w->interp.layout.frame_tlbc_index != PY_OFF_NONE)
		tlbc = frame32(w, w->interp.layout.frame_tlbc_index);
	base = code + w->interp.layout.code_bytecode;
	if (tlbc &&
	    (read_user(&w->code.tlbc_array, 8, code + w->interp.layout.code_tlbc) ||
	     read_user(&base, 8, w->code.tlbc_array + 8 + 8 * tlbc))) /* _PyCodeArray, 3.14t */
		return OFFSET_NOT_STARTED;
	off = lasti - base;
	if (off >= OFFSET_LINE) /* prev_instr starts one unit below the bytecode (3.11, 3.12) */
		return OFFSET_NOT_STARTED;
	return (__u32)off;
}

/*
 * The frame object of the current frame, from 3.11 on: frame_obj, two fields (3.11) or one before
 * prev_instr or instr_ptr (Include/internal/pycore_frame.h@3.11.7, @3.12.1, @3.13.0).
 */
BPF_INLINE __u64 frame_object(const struct walk *w)
{
	return frame64(w, (__u32)w->interp.layout.frame_lasti -
				  (w->interp.layout.chain == PY_CHAIN_CFRAME ? 16 : 8));
}

/*
 * From 3.11 on: is the current frame, which is at `frame`, of compiled code? Nuitka links one
 * for each function that it has compiled to C, so that tracebacks show it
 * (pushFrameStackCompiledFrame(), nuitka/compiled_frame.h). No eval loop runs it, and so there
 * is no shim and no CFrame of it. It lies in its own frame object, right behind CPython's part,
 * 56 to 80 bytes, and a few fields of Nuitka's. CPython's own frames that run never do: their
 * frame object is made later, and even that of a generator's frame which happens to lie before
 * it is longer, with its head, than 192 bytes.
 */
BPF_INLINE int is_compiled(const struct walk *w, __u64 frame)
{
	return w->interp.layout.chain >= PY_CHAIN_CFRAME &&
	       frame8(w, w->interp.layout.frame_owner) < OWNER_SHIM &&
	       frame - frame_object(w) < COMPILED_MAX;
}

/*
 * The line of such a frame is not in its bytecode, but in f_lineno of its frame object, where
 * CPython looks first (PyFrame_GetLineNumber(), Objects/frameobject.c): behind f_back, f_frame and
 * f_trace, which are behind the head, whose last field is ob_type. Up to 3.10 it follows f_lasti.
 */
BPF_INLINE __u32 compiled_offset(const struct walk *w)
{
	__u32 line;

	if (w->interp.layout.chain < PY_CHAIN_CFRAME)
		line = frame32(w, (__u32)w->interp.layout.frame_lasti + 4);
	else if (read_user(&line, 4, frame_object(w) + w->interp.layout.ob_type + 32) ||
		 line >= OFFSET_LINES)
		return OFFSET_LINE;
	return OFFSET_LINE + line;
}

BPF_INLINE int is_shim(const struct walk *w)
{
	return w->interp.layout.chain >= PY_CHAIN_CFRAME_SHIM &&
	       frame8(w, w->interp.layout.frame_owner) >= OWNER_SHIM;
}

/*
 * 3.9: while a generator delegates throw(), the thread state names its frame as the innermost one
 * (gen_throw, Objects/genobject.c). It has no activation of its own, and no caller: so the chain
 * ends there. That f_executing is 0 does not tell it from a frame that the eval function has just
 * linked, or is about to leave, or whose call is being traced: these have a caller, or have not
 * begun.
 */
BPF_INLINE int is_phantom(const struct walk *w)
{
	return w->interp.layout.frame_executing != PY_OFF_NONE &&
	       !frame8(w, w->interp.layout.frame_executing) &&
	       (__s32)frame32(w, w->interp.layout.frame_lasti) >= 0 &&
	       !frame64(w, w->interp.layout.frame_back);
}

/*
 * Up to 3.10: a frame whose code has no instructions, and so needs no stack, never runs. Nuitka's
 * compiled functions link such frames (makeCodeObject(), CompiledCodeHelpers.c); in 2.7, pyexpat
 * puts one around each of its callbacks (call_with_frame, Modules/pyexpat.c; PyCode_NewEmpty).
 * Negative: it cannot be read.
 */
BPF_INLINE int is_empty(const struct walk *w, __u64 code)
{
	__u32 stack;

	if (w->interp.layout.chain >= PY_CHAIN_CFRAME ||
	    w->interp.layout.code_stacksize == PY_OFF_NONE ||
	    (__s32)frame32(w, w->interp.layout.frame_lasti) >= 0)
		return 0;
	if (read_user(&stack, 4, code + w->interp.layout.code_stacksize))
		return -1;
	return !stack;
}

#endif /* PYPERF_WALK_PYFRAME_H */
