/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "python/pycoro.h"

#include <errno.h>
#include <string.h>

#define THREADS_MAX	4096 /* of an interpreter */
#define CHAIN_MAX	2048 /* frames of a thread */
#define FRAME_BYTES	128
#define OWNER_SHIM	3
#define YIELD_FROM	72 /* the opcode, 3.7 to 3.10 */
#define AFTER_AWAIT	2  /* RESUME's argument from there on: yield from, await */
#define COROUTINE_INNER 16 /* what wrappers have behind ob_type: Objects/genobject.c */

/* ---- one frame ------------------------------------------------------------------------------- */

struct frame {
	uint64_t addr, code, lasti; /* lasti: as the frame has it */
	uint32_t offset;
	uint8_t bytes[FRAME_BYTES];
};

static uint32_t word32(const uint8_t *bytes, size_t at)
{
	uint32_t word;

	memcpy(&word, bytes + at, sizeof(word));
	return word;
}

/* As bpf/walk_python.bpf.h has it. */
static uint32_t offset_of(struct pymem *m, const struct frame *f)
{
	const struct py_layout *lay = m->lay;
	uint64_t base = f->code + lay->code_bytecode, tlbc = 0, offset;

	if (lay->lasti != PY_LASTI_POINTER) {
		if (f->lasti >> 31)
			return OFFSET_NOT_STARTED;
		return (uint32_t)f->lasti * (lay->lasti == PY_LASTI_UNITS ? 2 : 1);
	}
	if (lay->frame_tlbc_index != PY_OFF_NONE)
		tlbc = word32(f->bytes, lay->frame_tlbc_index);
	if (tlbc)
		base = pymem__pointer(m,
				      pymem__pointer(m, f->code + lay->code_tlbc) + 8 + 8 * tlbc);
	offset = f->lasti - base;
	return offset < FRAME_PYTHON_OFFSET ? (uint32_t)offset : OFFSET_NOT_STARTED;
}

/* `addr`: of a PyFrameObject up to 3.10, then of a _PyInterpreterFrame. */
static int read_frame(struct pymem *m, uint64_t addr, struct frame *f)
{
	const struct py_layout *lay = m->lay;

	if (!addr || addr & 7 || lay->frame_read > sizeof(f->bytes) ||
	    pymem__read(m, f->bytes, sizeof(f->bytes), addr))
		return -EBADMSG;
	f->addr = addr;
	f->code = pyword(f->bytes, lay->frame_code) & ~3ULL;
	f->lasti = lay->lasti == PY_LASTI_POINTER ? pyword(f->bytes, lay->frame_lasti)
						  : word32(f->bytes, lay->frame_lasti);
	f->offset = offset_of(m, f);
	return 0;
}

static bool is_shim(const struct pymem *m, const struct frame *f)
{
	return m->lay->chain >= PY_CHAIN_CFRAME_SHIM && f->bytes[m->lay->frame_owner] >= OWNER_SHIM;
}

static void push(struct pycoro *out, const struct frame *f)
{
	if (out->cnt == PYCORO_FRAMES) {
		out->cut = true;
		return;
	}
	out->frames[out->cnt++] = (struct pycoro_frame){ .code = f->code, .offset = f->offset };
}

/* ---- generators and coroutines --------------------------------------------------------------- */

/* gi_frame, and from 3.11 on the frame itself: Include/cpython/genobject.h. */
static uint64_t frame_of(struct pymem *m, uint64_t gen)
{
	if (m->version < 0x030b)
		return pymem__pointer(m, gen + pyfield(m, 16));
	return gen + pyfield(m, m->version == 0x030b ? 80 : 72);
}

/*
 * Up to 3.9 gi_running, in 3.10 the frame's f_state, then gi_frame_state: FRAME_CREATED and what
 * follows, Include/internal/pycore_frame.h. 3.15 numbers them anew.
 */
static enum pycoro_state state_of(struct pymem *m, uint64_t gen, const struct frame *f)
{
	int8_t state, first = m->version >= 0x030f ? 0 : m->version >= 0x030d ? -3 : -2;
	int8_t runs = m->version >= 0x030f ? 4 : 0;
	uint64_t at;

	if (m->version < 0x030a) {
		if (pymem__read(m, &state, 1, gen + pyfield(m, 24)))
			return PYCORO_UNKNOWN;
		if (state)
			return PYCORO_RUNS;
		return f->offset == OFFSET_NOT_STARTED ? PYCORO_NEW : PYCORO_WAITS;
	}
	at = m->version == 0x030a   ? f->addr + pyfield(m, 108)
	     : m->version == 0x030b ? gen + pyfield(m, 75)
				    : gen + pyfield(m, 67);
	if (pymem__read(m, &state, 1, at))
		return PYCORO_UNKNOWN;
	if (state == first)
		return PYCORO_NEW;
	if (state == runs)
		return PYCORO_RUNS;
	return state > first && state < runs ? PYCORO_WAITS : PYCORO_DONE;
}

/* It has stopped in an await, or in yield from: then the topmost value is what it waits for. */
static bool is_delegating(struct pymem *m, uint64_t gen, const struct frame *f)
{
	uint64_t code = m->version == 0x0307 ? 40 : 48;
	uint8_t byte = 0;
	int8_t state;

	if (m->version >= 0x030d) { /* FRAME_SUSPENDED_YIELD_FROM; 3.15: or ..._LOCKED */
		if (pymem__read(m, &state, 1, gen + pyfield(m, 67)))
			return false;
		return m->version >= 0x030f ? state == 2 || state == 3 : state == -1;
	}
	if (m->version >= 0x030b) /* RESUME, its second byte, is the next instruction */
		return !pymem__read(m, &byte, 1, f->lasti + 3) && (byte & 3) >= AFTER_AWAIT;
	code = pymem__pointer(m, f->code + pyfield(m, code)); /* co_code, a bytes object */
	return code && !pymem__read(m, &byte, 1, code + m->lay->bytes_data + f->offset + 2) &&
	       byte == YIELD_FROM;
}

/*
 * The topmost value: f_stacktop, f_stackdepth, stacktop, stackpointer. 0: there is none. In 3.15 an
 * iterator has a second word above it, for its index.
 */
static uint64_t top_value(struct pymem *m, const struct frame *f)
{
	uint64_t at;

	if (m->version >= 0x030e)
		at = pyword(f->bytes, 64) - (m->version >= 0x030f ? 16 : 8);
	else if (m->version >= 0x030b)
		at = f->addr + 72 + 8ULL * (word32(f->bytes, 64) - 1);
	else if (m->version == 0x030a)
		at = pyword(f->bytes, pyfield(m, 64)) +
		     8ULL * (word32(f->bytes, pyfield(m, 80)) - 1);
	else
		at = pyword(f->bytes, pyfield(m, 72)) - 8;
	return at & 7 || pymem__read(m, &at, sizeof(at), at) ? 0 : at & ~7ULL;
}

/* ---- what runs ------------------------------------------------------------------------------- */

/* The frames of a thread from `base` to the innermost. False: `base` is not among them. */
static bool push_running(struct pymem *m, uint64_t tstate, uint64_t base, struct pycoro *out)
{
	uint64_t addr = pythread__frame(m, tstate), before = 0;
	uint32_t first = out->cnt, depth = 0;
	struct frame f;

	/* Twice: how deep, and then from the base. What the thread changed meanwhile is cut. */
	for (; addr && addr != base && depth < CHAIN_MAX; depth++) {
		if (read_frame(m, addr, &f))
			return false;
		addr = pyword(f.bytes, m->lay->frame_back);
	}
	if (addr != base)
		return false;
	out->tid = pythread__tid(m, tstate);
	addr = pythread__frame(m, tstate);
	for (uint32_t i = 0; addr && addr != before && i <= depth; i++) {
		if (read_frame(m, addr, &f)) {
			out->cut = true;
			break;
		}
		if (!is_shim(m, &f))
			push(out, &f);
		before = addr;
		addr = pyword(f.bytes, m->lay->frame_back);
	}
	for (uint32_t i = first, k = out->cnt; i + 1 < k; i++) {
		struct pycoro_frame inner = out->frames[--k];

		out->frames[k] = out->frames[i];
		out->frames[i] = inner;
	}
	return true;
}

static bool find_running(struct pymem *m, uint64_t base, const uint64_t *interps, uint32_t cnt,
			 struct pycoro *out)
{
	for (uint32_t i = 0; i < cnt; i++) {
		uint64_t t = pythread__first(m, interps[i]);

		for (uint32_t n = 0; t && n < THREADS_MAX; n++, t = pythread__next(m, t))
			if (push_running(m, t, base, out))
				return true;
	}
	return false;
}

/* ---- the chain ------------------------------------------------------------------------------- */

static bool is_generator(struct pymem *m, uint64_t type)
{
	return pytype__is(m, type, "coroutine") || pytype__is(m, type, "generator") ||
	       pytype__is(m, type, "async_generator");
}

/* Objects that pass values on and have no frame. */
static bool is_wrapper(struct pymem *m, uint64_t type)
{
	return pytype__is(m, type, "coroutine_wrapper") ||
	       pytype__is(m, type, "async_generator_asend") ||
	       pytype__is(m, type, "async_generator_athrow") ||
	       pytype__is(m, type, "anext_awaitable");
}

/* Steps through one generator. Returns the object that it awaits; 0: none, or it is not known. */
static uint64_t step(struct pymem *m, uint64_t gen, const uint64_t *interps, uint32_t interp_cnt,
		     enum pycoro_state *state, struct pycoro *out)
{
	struct frame f;

	*state = PYCORO_DONE;
	if (!frame_of(m, gen))
		return 0;
	if (read_frame(m, frame_of(m, gen), &f)) {
		*state = PYCORO_UNKNOWN;
		out->cut = true;
		return 0;
	}
	*state = state_of(m, gen, &f);
	if (*state == PYCORO_RUNS && find_running(m, f.addr, interps, interp_cnt, out))
		return 0;
	if (*state == PYCORO_RUNS)
		out->cut = true;
	if (*state != PYCORO_DONE)
		push(out, &f);
	return *state == PYCORO_WAITS && is_delegating(m, gen, &f) ? top_value(m, &f) : 0;
}

void pycoro__read(struct pymem *m, uint64_t coro, const uint64_t *interps, uint32_t interp_cnt,
		  struct pycoro *out)
{
	enum pycoro_state state;

	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; coro && i < 2 * PYCORO_FRAMES && !out->cut; i++) {
		uint64_t type = pyobject__type(m, coro);

		if (is_wrapper(m, type)) {
			coro = pymem__pointer(m, coro + pyfield(m, COROUTINE_INNER));
		} else if (is_generator(m, type)) {
			coro = step(m, coro, interps, interp_cnt, &state, out);
			if (!out->state)
				out->state = state;
		} else {
			out->awaits = coro;
			return;
		}
	}
	out->cut |= coro != 0;
}
