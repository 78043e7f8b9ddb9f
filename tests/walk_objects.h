/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_WALK_OBJECTS_H
#define PYPERF_WALK_OBJECTS_H
/*
 * The objects of Python in the memory of a world: strings, code objects, thread states; and the
 * layout that they have in each version.
 */
#include "walk_memory.h"

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
	char text[64] = { 0 }; /* a line table is some more of it than a name */

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

#endif /* PYPERF_WALK_OBJECTS_H */
