/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/trace_config.h"

#include <string.h>

#include "process/pidns.h"
#include "process/waitword.h"
#include "python/pylayout.h"
#include "trace/handlers.h"
#include "trace/pairs.h"

#define IMPORT_FRAMES 24 /* of a stack: those of importlib and what has called them */

/*
 * Instrumented bytecode (sys.monitoring, sys.settrace) names RESUME elsewhere: these stand in its
 * place.
 */
static void add_opcodes(struct trace_cfg *cfg, uint32_t version)
{
	static const struct {
		uint32_t version;
		/* INSTRUMENTED_LINE, INSTRUMENTED_INSTRUCTION, ENTER_EXECUTOR */
		uint8_t opcodes[3];
	} others[] = {
		{ 0x030c, { 254, 253, 0 } },
		{ 0x030d, { 254, 247, 0 } },
		{ 0x030e, { 254, 238, 255 } },
		{ 0x030f, { 253, 237, 254 } },
	};
	size_t cnt = 0;

	while (cfg->opcodes[cnt])
		cnt++;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (others[i].version == version)
			memcpy(cfg->opcodes + cnt, others[i].opcodes, sizeof(others[i].opcodes));
}

/* Several breakpoints may be of one opcode. */
static void add_opcode(struct trace_cfg *cfg, uint8_t opcode)
{
	size_t i = 0;

	while (i < TRACE_OPCODES && cfg->opcodes[i] && cfg->opcodes[i] != opcode)
		i++;
	if (i < TRACE_OPCODES)
		cfg->opcodes[i] = opcode;
}

static bool is_call(const struct trace_point *p)
{
	return p->kind == POINT_ENTRY || p->kind == POINT_RESUME;
}

bool tracer_events__any(const struct tracer_events *e)
{
	return e->take || e->take_raise || e->take_collection || e->take_import || e->take_audit;
}

bool trace_config__is_used(const struct tracer_events *e, const struct trace_point *p)
{
	return is_call(p) || (tracer_events__any(e) && !e->take_import);
}

/*
 * _PyEval_EvalFrameDefault(tstate, f, throwflag) from 3.9 on, (f, throwflag) before:
 * Python/ceval.c.
 */
static bool takes_state(const struct target *t)
{
	return t->py.version_hex >= PY_VERSION_MINOR_HEX(3, 9);
}

/* PyObject_HEAD, f_back, f_frame: Include/internal/pycore_frame.h. */
static uint32_t frame_of_object(const struct target *t)
{
	return t->py.version_hex < PY_VERSION_MINOR_HEX(3, 11) ? 0
							       : t->py.interp.layout.ob_type + 16U;
}

/*
 * PyThreadState.curexc_type, from 3.12 on current_exception: Include/pystate.h, later
 * Include/cpython/pystate.h.
 */
static uint32_t exception_of_state(uint32_t version)
{
	static const struct {
		uint32_t below, at;
	} offsets[] = {
		{ 0x0300, 72 }, { 0x0307, 80 }, { 0x030b, 88 }, { 0x030d, 96 }, { 0x030f, 112 }
	};

	for (size_t i = 0; i < sizeof(offsets) / sizeof(*offsets); i++)
		if (version < offsets[i].below)
			return offsets[i].at;
	return 136;
}

/* dict, args and notes are before it: Include/cpython/pyerrors.h. */
static uint32_t traceback_of_exception(const struct target *t)
{
	if (t->py.version_hex < PY_VERSION_MINOR_HEX(3, 12))
		return 0;
	return t->py.interp.layout.ob_type + 8U + 24;
}

/* pthread_cond_t.__data.__wrefs: glibc, sysdeps/nptl/bits/thread-shared-types.h; musl has none. */
#define COND_WREFS 36

static void set_gil(const struct target *t, struct trace_cfg *cfg)
{
	struct py_gil gil;

	if (py_layout__gil(&gil, t->py.version_hex, t->py.free_threaded))
		return;
	if (!t->musl)
		cfg->gil_waiters = gil.locks + COND_WREFS;
	cfg->gil_locks = gil.locks;
	cfg->gil_locks_size = gil.locks_size;
	cfg->tstate_interp = gil.tstate_interp;
	cfg->interp_gil = gil.interp_gil;
	if (gil.interp_gil == PY_OFF_NONE)
		cfg->gil = t->bias + t->py.runtime + gil.runtime_gil;
}

/*
 * _Py_DebugOffsets.interpreter_state.gc, and _gc_runtime_state.generation_stats of builds with a
 * GIL: Include/internal/pycore_runtime.h and pycore_gc.h of 3.13, later pycore_debug_offsets.h and
 * pycore_interp_structs.h.
 */
static void set_gc(const struct target *t, struct trace_cfg *cfg)
{
	static const struct {
		uint32_t version, at_gc, stats;
		bool rings;
	} versions[] = {
		{ 0x030d, 80, 128, false },
		{ 0x030e, 88, 120, false },
		{ 0x030f, 88, 104, true },
	};

	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions) && !t->py.free_threaded; i++) {
		if (versions[i].version != t->py.version_hex >> 16)
			continue;
		cfg->gc_said = t->bias + t->py.runtime + versions[i].at_gc;
		cfg->gc_stats = versions[i].stats;
		cfg->gc_rings = versions[i].rings;
		cfg->tstate_interp = 16;
	}
}

/* The opcode, if it returns a constant. */
static uint32_t constant_of(const struct target *t, const struct trace_point *p)
{
	return p->kind == POINT_RETURN ? values__constant_opcode(t, p->opcode) : 0;
}

/* What all names end with that the filter selects, as far as it is plain ASCII. */
static void set_from(struct trace_cfg *cfg, const char *pattern)
{
	size_t len = strlen(pattern), max = sizeof(cfg->from_tail) - 1, cnt = 0;

	while (cnt < len && cnt < max && !strchr("*?[]\\", pattern[len - cnt - 1]) &&
	       (unsigned char)pattern[len - cnt - 1] < 0x80)
		cnt++;
	cfg->from = 1;
	cfg->from_len = (uint32_t)cnt;
	memcpy(cfg->from_tail, pattern + len - cnt, cnt);
}

void trace_config__fill(struct trace_cfg *cfg, const struct trace_config *c)
{
	const struct pidns_file ns = pidns__file();
	const struct tracer_events *e = c->events;
	const struct target *t = c->target;
	bool is_315 = t->py.version_hex >= PY_VERSION_MINOR_HEX(3, 15);

	*cfg = (struct trace_cfg){ .layout = t->py.interp.layout,
				   .code_type = t->bias + t->py.interp.code_type,
				   .by_opcode = c->points->table != 0,
				   .entry_reg = takes_state(t) ? ARCH_REG_ARG1 : ARCH_REG_ARG0,
				   .resume_size = is_315 ? 4 : 2,
				   .resume_mask = is_315 ? 7 : 3,
				   .filtered = c->filtered,
				   .frame_of_object = frame_of_object(t),
				   .by_cookie = c->by_cookie,
				   .imports = e->take_import != NULL,
				   .local_at = py_layout__frame_locals(&t->py.interp.layout),
				   .slow = e->slow,
				   .cpu = e->slow || e->cpu,
				   .callees = e->callees,
				   .frame_max = e->take_import ? IMPORT_FRAMES
						: e->slow      ? PAIRS_FRAMES
							       : TRACE_RAISE_FRAMES,
				   .lines = tracer_events__any(e) && (!e->take || e->slow),
				   .interp_head = t->bias + t->py.interp.interp_head,
				   .exc_at = e->take_collection || e->take_audit
						     ? 0
						     : exception_of_state(t->py.version_hex >> 16),
				   .exc_traceback = traceback_of_exception(t) };
	for (size_t i = 0; i < c->points->cnt; i++) {
		const struct trace_point *p = &c->points->at[i];

		if (!trace_config__is_used(e, p))
			continue;
		cfg->spots[cfg->spot_cnt++] =
			(struct trace_spot){ .pc = t->bias + p->addr,
					     .kind = p->kind,
					     .condition = p->condition,
					     .sp_below = p->sp_below,
					     .constant = constant_of(t, p),
					     .place = p->place,
					     .reg = p->reg,
					     .before = { p->before[0], p->before[1] },
					     .offset = p->value_offset };
		if (p->kind == POINT_RESUME)
			add_opcode(cfg, p->opcode);
	}
	if (e->from)
		set_from(cfg, trace_filter__tail(e->from));
	for (size_t i = 0; i < e->audit_cnt && i < TRACE_AUDITS; i++)
		cfg->audits[cfg->audit_cnt++] = e->audits[i];
	for (size_t i = 0; c->threads && i < c->threads->cnt; i++)
		cfg->threads[cfg->thread_cnt++] = c->threads->at[i];
	add_opcodes(cfg, t->py.version_hex >> 16);
	set_gil(t, cfg);
	set_gc(t, cfg);
	cfg->pidns_dev = ns.dev;
	cfg->pidns_inum = ns.inum;
	cfg->pidns_level = ns.level;
}

static enum trace_reason reason_of_call(uint32_t nr)
{
	static const struct {
		const char *text; /* of wait_word_text() */
		enum trace_reason reason;
	} reasons[] = {
		{ "net", REASON_NET },	       { "accept", REASON_NET },
		{ "connect", REASON_NET },     { "poll", REASON_POLL },
		{ "epoll_wait", REASON_POLL }, { "child process", REASON_CHILD },
	};
	const char *text = wait_word_text(WAIT_WORD(WAIT_CALL, nr));

	for (size_t i = 0; text && i < sizeof(reasons) / sizeof(*reasons); i++)
		if (!strcmp(reasons[i].text, text))
			return reasons[i].reason;
	return REASON_OTHER;
}

void trace_config__fill_waits(struct wait_cfg *cfg, uint8_t reasons[WAIT_CALLS])
{
	for (uint32_t nr = 0; nr < WAIT_CALLS; nr++) {
		cfg->call[nr] = (uint8_t)wait_class_of(nr);
		reasons[nr] = (uint8_t)reason_of_call(nr);
	}
}

void trace_config__set_ways(struct trace_way ways[TRACE_SPOTS], const struct tracer_events *e,
			    const struct trace_points *points)
{
	size_t spot = 0;

	for (size_t i = 0; i < points->cnt; i++) {
		const struct trace_point *p = &points->at[i];

		if (!trace_config__is_used(e, p))
			continue;
		if (p->by_convention)
			ways[spot] = (struct trace_way){ .frame = HANDLER_FRAME,
							 .instr = HANDLER_INSTR,
							 .agreed = TRACE_LEARNED };
		spot++;
	}
}
