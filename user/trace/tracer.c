/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/tracer.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/libbpf_text.h"
#include "base/log.h"
#include "base/str.h"
#include "follow/held.h"
#include "follow/readcode.h"
#include "process/pidns.h"
#include "trace.skel.h"
#include "trace/family.h"
#include "trace/pairs.h"
#include "trace/points.h"
#include "trace/price.h"
#include "follow/uprobe.h"

#define EVENTS_NEWS	(16U << 20) /* bytes: thousands of functions between two drains */
#define CODES_AT_ONCE	1024
#define CODES_OF_MANY	262144
#define IMPORT_FRAMES	24    /* of a stack: those of importlib and what has called them */
#define PROCESSES_MAX	65536 /* numbers of them fit in 16 bits */
#define EMULATED_HIT_NS 500   /* where it cannot be measured */

struct tracer {
	const struct target *t;
	struct trace_points points;
	struct trace_bpf *skel;
	struct ring_buffer *ring, *event_ring;
	struct tracer_events on_event; /* without take(): none are wanted */
	struct sym_python *names;
	struct values *values;
	const struct trace_filter *filters; /* borrowed; none: all functions are wanted */
	size_t filter_cnt;
	struct trace_values_cfg values_cfg;
	bool has_from;
	uint64_t from_code; /* the last code object that was found to be on_event.from; 0: none */
	struct family *family;	     /* the breakpoints; NULL: they are these, without children */
	int events[2 * TRACE_SPOTS]; /* descriptors of breakpoints and of programs at them */
	size_t event_cnt;
	bool by_cookie;
	bool many;	  /* processes */
	pid_t *processes; /* that were seen */
	size_t process_cnt, process_cap, last_process;
	int64_t trap_ns; /* of a breakpoint whose program does nothing */
	int stats_fd;	 /* while the kernel measures run times; -1 */
};

/* ---- processes ------------------------------------------------------------------------------- */

size_t tracer__process(struct tracer *tr, pid_t pid)
{
	if (tr->last_process < tr->process_cnt && tr->processes[tr->last_process] == pid)
		return tr->last_process;
	for (size_t i = tr->process_cnt; i-- > 0;)
		if (tr->processes[i] == pid)
			return tr->last_process = i;
	if (ARRAY_GROW(tr->processes, tr->process_cap, tr->process_cnt, PROCESSES_MAX))
		return 0;
	tr->processes[tr->process_cnt] = pid;
	return tr->last_process = tr->process_cnt++;
}

size_t tracer__process_cnt(const struct tracer *tr)
{
	return tr->process_cnt;
}

/* The CPU time of the children that a process has waited for. */
static uint64_t reaped_ns(pid_t pid)
{
	unsigned long user, system;
	char path[32], text[1024];
	uint64_t ticks = 0;
	const char *at;
	size_t len;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	len = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[len] = '\0';
	at = strrchr(text, ')'); /* proc(5): fields 16 and 17 are cutime and cstime */
	if (at && sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %lu %lu", &user,
			 &system) == 2)
		ticks = (uint64_t)user + system;
	return ticks * (1000000000ULL / (uint64_t)sysconf(_SC_CLK_TCK));
}

uint64_t tracer__cpu_ns(struct tracer *tr)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < tr->process_cnt; i++) {
		uint64_t ns;

		if (price__cpu_ns(tr->processes[i], &ns))
			sum += ns + reaped_ns(tr->processes[i]);
	}
	return sum;
}

/* ---- names ----------------------------------------------------------------------------------- */

/*
 * The bytes of a name as the sampler would have sent them. `known`: the code object came before,
 * but without all of its names.
 */
static void take_name(struct tracer *tr, const struct trace_code *c, const struct trace_name *n,
		      enum blob_kind kind, bool known, struct blob_info *info)
{
	struct ev_blob blob = { .type = EV_BLOB, .kind = kind, .id = c->id, .size = n->sent };

	*info = (struct blob_info){
		.uaddr = n->uaddr, .size = n->size, .width = n->width, .flags = n->flags
	};
	if (n->sent < n->size || !n->width)
		info->flags |= BLOB_MISSING;
	if (n->sent > TRACE_NAME_BYTES)
		return;
	if (known) {
		if (!(info->flags & BLOB_MISSING))
			sym_python__supply(tr->names, c->id, kind, n->data, info);
		return;
	}
	memcpy(blob.data, n->data, n->sent);
	sym_python__on_blob(tr->names, &blob, offsetof(struct ev_blob, data) + n->sent);
}

static const struct py_function unknown = {
	.name = "<unknown>",
	.name_len = sizeof("<unknown>") - 1,
	.file = "",
	.number = TRACER_UNKNOWN,
};

/*
 * False: its name was not read (yet), and `out` is unknown. Without filters half of a name is
 * better than none.
 */
static bool find_function(const struct tracer *tr, uint64_t code, struct py_function *out)
{
	int missing = sym_python__missing(tr->names, code);
	int needed = tr->filter_cnt || tr->on_event.from ? 1 << BLOB_NAME | 1 << BLOB_FILENAME : 0;

	if (missing >= 0 && !(missing & needed) && sym_python__find(tr->names, code, out))
		return true;
	*out = unknown;
	return false;
}

bool tracer__wants(const struct tracer *tr, const struct py_function *f)
{
	for (size_t i = 0; i < tr->filter_cnt && f->number != TRACER_UNKNOWN; i++)
		if (trace_filter__matches(&tr->filters[i], f->name, f->file))
			return true;
	return !tr->filter_cnt;
}

static bool is_from(const struct tracer *tr, const struct py_function *f)
{
	return f->number != TRACER_UNKNOWN &&
	       trace_filter__matches(tr->on_event.from, f->name, f->file);
}

bool tracer__is_inside(struct tracer *tr, const struct trace_event *e)
{
	const uint64_t codes[] = { e->ran_ns, e->ran_lag };
	struct py_function f;

	if (!tr->on_event.from || (tr->from_code && tr->from_code == codes[0]))
		return true;
	for (size_t i = 0; i < 2; i++) {
		if (!tracer__find(tr, codes[i], &f) || !is_from(tr, &f))
			continue;
		tr->from_code = codes[i];
		return true;
	}
	return false;
}

bool tracer__has_from(const struct tracer *tr)
{
	return tr->has_from;
}

/*
 * Tells the kernel that no filter selects this function, that it is not the one inside of which
 * calls are wanted, or that its name is still needed. Its counts stay; calls at this very moment
 * may be lost, but nobody wants them.
 */
static void refuse_unwanted(struct tracer *tr, const struct trace_code *c)
{
	int fd = bpf_map__fd(tr->skel->maps.codes);
	struct trace_count count;
	struct py_function f;
	bool named = find_function(tr, c->id, &f), wanted = tracer__wants(tr, &f);
	bool from = tr->on_event.from && is_from(tr, &f);

	tr->has_from |= from;
	if ((wanted && (from || !tr->on_event.from)) || bpf_map_lookup_elem(fd, &c->key, &count))
		return;
	if (!wanted)
		count.refused = named ? TRACE_UNWANTED : TRACE_NAMELESS;
	count.from &= from || !named;
	bpf_map_update_elem(fd, &c->key, &count, BPF_EXIST);
}

/* The line table as BPF has sent it. False: it has not. */
static bool take_lines(struct tracer *tr, const struct trace_code_lines *c)
{
	struct blob_info info = { .uaddr = c->code.linetable, .size = c->size, .width = 1 };

	return c->sent && c->sent == c->size && c->sent <= TRACE_LINE_BYTES &&
	       !sym_python__supply(tr->names, c->code.id, BLOB_LINETABLE, c->data, &info);
}

/* A callback of the ring buffer. Only stacks have lines: counts leave the tables where they are. */
static int on_code(void *ctx, void *data, size_t size)
{
	struct tracer *tr = ctx;
	const struct trace_code *c = data;
	int wanted = 1 << BLOB_NAME | 1 << BLOB_FILENAME;
	const struct py_layout *layout = &tr->t->py.interp.layout;
	struct ev_code ev;
	bool known;
	int err;

	if (size >= sizeof(struct trace_params) && size < sizeof(*c)) {
		values__take_params(tr->values, data);
		return 0;
	}
	if (size < sizeof(*c))
		return 0;
	ev = (struct ev_code){ .type = EV_CODE,
			       .tgid = c->tgid,
			       .id = c->id,
			       .addr = c->key.addr,
			       .firstlineno = c->firstlineno };
	known = sym_python__missing(tr->names, c->id) >= 0;
	take_name(tr, c, &c->name, BLOB_NAME, known, &ev.blob[BLOB_NAME]);
	take_name(tr, c, &c->file, BLOB_FILENAME, known, &ev.blob[BLOB_FILENAME]);
	ev.blob[BLOB_LINETABLE] =
		(struct blob_info){ .uaddr = c->linetable, .flags = BLOB_MISSING };
	err = known ? 0 : sym_python__on_code(tr->names, &ev, sizeof(ev), layout, 0);
	if (!err && size >= sizeof(struct trace_code_lines) && !take_lines(tr, data))
		wanted |= 1 << BLOB_LINETABLE;
	if (!err)
		err = readcode__supply(tr->t->readers, tr->names, &ev, layout, wanted);
	if (err)
		log_debug("code object at 0x%llx: %s", (unsigned long long)c->key.addr,
			  strerror(-err));
	refuse_unwanted(tr, c);
	tracer__process(tr, (pid_t)c->tgid);
	return 0;
}

static void take_valued(struct tracer *tr, const struct trace_valued *e, size_t size)
{
	size_t cnt = size / sizeof(struct trace_value);

	tr->on_event.take_valued(tr->on_event.ctx, e,
				 cnt < TRACE_ARGS_MAX ? (uint32_t)cnt : TRACE_ARGS_MAX);
}

static int on_event(void *ctx, void *data, size_t size)
{
	struct tracer *tr = ctx;

	if (tr->on_event.take_import && size >= sizeof(struct trace_import))
		tr->on_event.take_import(tr->on_event.ctx, data);
	else if (tr->on_event.take_collection && size >= sizeof(struct trace_collection))
		tr->on_event.take_collection(tr->on_event.ctx, data);
	else if (tr->on_event.take_raise && size >= sizeof(struct trace_raise))
		tr->on_event.take_raise(tr->on_event.ctx, data);
	else if (tr->on_event.take_audit && size >= sizeof(struct trace_raise))
		tr->on_event.take_audit(tr->on_event.ctx, data);
	else if (tr->on_event.take && size >= sizeof(struct trace_call))
		tr->on_event.take(tr->on_event.ctx, data, &((struct trace_call *)data)->at);
	else if (tr->on_event.take_valued && size > sizeof(struct trace_event))
		take_valued(tr, data, size - sizeof(struct trace_event));
	else if (tr->on_event.take && size >= sizeof(struct trace_event))
		tr->on_event.take(tr->on_event.ctx, data, NULL);
	return 0;
}

void tracer__drain(struct tracer *tr)
{
	ring_buffer__consume(tr->ring);
	if (tr->event_ring)
		ring_buffer__consume(tr->event_ring);
}

int tracer__news_fd(const struct tracer *tr)
{
	return ring_buffer__epoll_fd(tr->ring);
}

bool tracer__find(struct tracer *tr, uint64_t code, struct py_function *out)
{
	if (find_function(tr, code, out))
		return true;
	/* Names are sent before the first event. */
	ring_buffer__consume(tr->ring);
	return find_function(tr, code, out);
}

struct values *tracer__values(struct tracer *tr, uint64_t code)
{
	/* They are sent behind the name, before the first event. */
	if (tr->values_cfg.args && !values__knows(tr->values, code))
		ring_buffer__consume(tr->ring);
	return tr->values;
}

uint32_t tracer__line(const struct tracer *tr, uint64_t code, uint32_t offset)
{
	return sym_python__line(tr->names, code, offset);
}

/* ---- opening --------------------------------------------------------------------------------- */

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

static bool is_call(const struct trace_point *p)
{
	return p->kind == POINT_ENTRY || p->kind == POINT_RESUME;
}

static bool has_events(const struct tracer *tr)
{
	return tr->on_event.take || tr->on_event.take_raise || tr->on_event.take_collection ||
	       tr->on_event.take_import || tr->on_event.take_audit;
}

static bool is_used(const struct tracer *tr, const struct trace_point *p)
{
	return is_call(p) || (has_events(tr) && !tr->on_event.take_import);
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

	if (t->musl || py_layout__gil(&gil, t->py.version_hex, t->py.free_threaded))
		return;
	cfg->gil_waiters = gil.locks + COND_WREFS;
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

static void configure(const struct tracer *tr, struct trace_cfg *cfg)
{
	const struct pidns_file ns = pidns__file();
	const struct target *t = tr->t;
	bool is_315 = t->py.version_hex >= PY_VERSION_MINOR_HEX(3, 15);
	size_t opcode_cnt = 0;

	*cfg = (struct trace_cfg){ .layout = t->py.interp.layout,
				   .code_type = t->bias + t->py.interp.code_type,
				   .by_opcode = tr->points.table != 0,
				   .entry_reg = takes_state(t) ? ARCH_REG_ARG1 : ARCH_REG_ARG0,
				   .resume_size = is_315 ? 4 : 2,
				   .resume_mask = is_315 ? 7 : 3,
				   .filtered = tr->filter_cnt > 0,
				   .frame_of_object = frame_of_object(t),
				   .by_cookie = tr->by_cookie,
				   .imports = tr->on_event.take_import != NULL,
				   .local_at = py_layout__frame_locals(&t->py.interp.layout),
				   .slow = tr->on_event.slow,
				   .callees = tr->on_event.callees,
				   .frame_max = tr->on_event.take_import ? IMPORT_FRAMES
						: tr->on_event.slow	 ? PAIRS_FRAMES
									 : TRACE_RAISE_FRAMES,
				   .lines = has_events(tr) &&
					    (!tr->on_event.take || tr->on_event.slow),
				   .interp_head = t->bias + t->py.interp.interp_head,
				   .exc_at = tr->on_event.take_collection || tr->on_event.take_audit
						     ? 0
						     : exception_of_state(t->py.version_hex >> 16),
				   .exc_traceback = traceback_of_exception(t) };
	for (size_t i = 0; i < tr->points.cnt; i++) {
		const struct trace_point *p = &tr->points.at[i];

		if (!is_used(tr, p))
			continue;
		cfg->spots[cfg->spot_cnt++] = (struct trace_spot){ .pc = t->bias + p->addr,
								   .kind = p->kind,
								   .condition = p->condition,
								   .sp_below = p->sp_below,
								   .constant = constant_of(t, p),
								   .place = p->place,
								   .reg = p->reg,
								   .offset = p->value_offset };
		if (p->kind == POINT_RESUME)
			cfg->opcodes[opcode_cnt++] = p->opcode;
	}
	if (tr->on_event.from)
		set_from(cfg, tr->on_event.from->function);
	for (size_t i = 0; i < tr->on_event.audit_cnt && i < TRACE_AUDITS; i++)
		cfg->audits[cfg->audit_cnt++] = tr->on_event.audits[i];
	add_opcodes(cfg, t->py.version_hex >> 16);
	set_gil(t, cfg);
	set_gc(t, cfg);
	cfg->pidns_dev = ns.dev;
	cfg->pidns_inum = ns.inum;
}

static struct bpf_program *program_of(const struct tracer *tr)
{
	if (tr->on_event.take_import)
		return tr->skel->progs.on_import;
	if (tr->on_event.take_collection)
		return tr->skel->progs.on_collect;
	if (tr->on_event.take_audit)
		return tr->skel->progs.on_audit;
	if (tr->on_event.take_raise)
		return tr->skel->progs.on_raise;
	return tr->on_event.take ? tr->skel->progs.on_event : tr->skel->progs.on_call;
}

static int load(struct tracer *tr)
{
	struct trace_cfg cfg;
	int err;

	libbpf_set_print(libbpf_text);
	tr->skel = trace_bpf__open();
	if (!tr->skel)
		return -errno;
	configure(tr, &cfg);
	cfg.values = tr->values_cfg;
	memcpy((void *)&tr->skel->rodata->cfg, &cfg, sizeof(cfg));
	/* The verifier needs most of the time that a start takes. */
	bpf_program__set_autoload(tr->skel->progs.on_call, false);
	bpf_program__set_autoload(tr->skel->progs.on_event, false);
	bpf_program__set_autoload(tr->skel->progs.on_raise, false);
	bpf_program__set_autoload(tr->skel->progs.on_collect, false);
	bpf_program__set_autoload(tr->skel->progs.on_audit, false);
	bpf_program__set_autoload(tr->skel->progs.on_import, false);
	bpf_program__set_autoload(program_of(tr), true);
	if (!tr->on_event.from)
		bpf_map__set_max_entries(tr->skel->maps.inside, 1);
	if (!has_events(tr))
		bpf_map__set_max_entries(tr->skel->maps.events, (uint32_t)getpagesize());
	else /* Code of modules is gone when they are there; and what has no name is not shown. */
		bpf_map__set_max_entries(tr->skel->maps.news, EVENTS_NEWS);
	tr->skel->rodata->by_process = tr->many;
	if (tr->many) {
		bpf_program__set_expected_attach_type(program_of(tr),
						      (enum bpf_attach_type)UPROBE_MULTI_TYPE);
		/* Of each process its own. No memory until they come: these kernels permit that. */
		bpf_map__set_max_entries(tr->skel->maps.codes, CODES_OF_MANY);
		bpf_map__set_map_flags(tr->skel->maps.codes, BPF_F_NO_PREALLOC);
	} else {
		bpf_map__set_max_entries(tr->skel->maps.process_hits, 1);
	}
	err = trace_bpf__load(tr->skel);
	if (err)
		return err;
	tr->ring = ring_buffer__new(bpf_map__fd(tr->skel->maps.news), on_code, tr, NULL);
	if (tr->ring && has_events(tr))
		tr->event_ring =
			ring_buffer__new(bpf_map__fd(tr->skel->maps.events), on_event, tr, NULL);
	return tr->ring && (tr->event_ring || !has_events(tr)) ? 0 : -errno;
}

static int find_points(struct tracer *tr)
{
	const struct target *t = tr->t;
	const char *what = "calls";
	int err;

	if (tr->on_event.take_collection) {
		what = "collections";
		err = trace_points__find_collector(t->ef, &t->py, &tr->points);
	} else if (tr->on_event.take_audit) {
		what = "audit events";
		err = trace_points__find_auditor(t->ef, &t->py, &tr->points);
		if (!err && tr->points.why_not_all)
			log_warn("process %d: %s: %s", t->pid, t->path, tr->points.why_not_all);
	} else if (tr->on_event.take_raise) {
		what = "exceptions";
		err = trace_points__find_raise(t->ef, &t->py, &tr->points);
	} else {
		what = tr->on_event.take_import ? "imports" : "calls";
		err = trace_points__find(t->ef, &t->py, &tr->points);
		if (!err && tr->on_event.take_import &&
		    t->py.version_hex < PY_VERSION_MINOR_HEX(3, 3)) {
			err = -ENOTSUP;
			tr->points.why_not = "CPython imports in Python from 3.3 on";
		}
	}
	if (err && !tr->many)
		log_err("process %d: %s: %s cannot be traced: %s", t->pid, t->path, what,
			tr->points.why_not ? tr->points.why_not : strerror(-err));
	return err;
}

static int configure_values(struct tracer *tr)
{
	const struct target *t = tr->t;
	const char *why_not;
	int err = values__configure(&tr->values_cfg, t, tr->on_event.args, tr->on_event.returns,
				    &why_not);

	for (size_t i = 0; i < tr->points.cnt && tr->on_event.returns && !err; i++) {
		const struct trace_point *p = &tr->points.at[i];

		if (p->kind != POINT_EXIT || p->place != PLACE_UNKNOWN)
			continue;
		why_not = "where its eval function has the value that it returns cannot be told";
		err = -ENOTSUP;
	}
	if (err) {
		log_err("process %d: %s: %s", t->pid, t->path, why_not);
		return err;
	}
	tr->values = values__new(&t->py.interp.layout);
	return tr->values ? 0 : log_no_memory();
}

static struct tracer *open_tracer(const struct target *t, const struct trace_filter *filters,
				  size_t filter_cnt, const struct tracer_events *events, bool many,
				  const char **why_not)
{
	struct tracer *tr = calloc(1, sizeof(*tr));
	int err = -ENOMEM;

	if (tr)
		tr->names = sym_python__new();
	if (!tr || !tr->names) {
		log_no_memory();
		free(tr);
		return NULL;
	}
	tr->t = t;
	tr->filters = filters;
	tr->filter_cnt = filter_cnt;
	if (events)
		tr->on_event = *events;
	tr->many = many;
	tr->stats_fd = -1;
	tr->by_cookie = uprobe__has_cookies();
	tracer__process(tr, t->pid);
	err = find_points(tr);
	if (!err && t->proc_fd < 0 && !tr->by_cookie) {
		err = -ENOTSUP;
		log_err("a command can be traced from Linux 5.15 on: start it, and give -p PID");
	}
	if (!err && tr->on_event.take && tr->points.why_no_returns) {
		err = -ENOTSUP;
		log_err("process %d: %s: calls can be counted, not timed: %s", t->pid, t->path,
			tr->points.why_no_returns);
	}
	if (!err)
		err = configure_values(tr);
	if (!err && !many)
		err = held__refuse(t->readers);
	if (!err) {
		err = load(tr);
		if (err)
			libbpf_load_failed(err, "", LOAD_NEEDS_KERNEL);
	}
	if (!err && !many)
		tr->trap_ns = uprobe__measure(bpf_program__fd(tr->skel->progs.on_nothing));
	if (!err)
		return tr;
	if (why_not)
		*why_not = tr->points.why_not;
	tracer__close(tr);
	return NULL;
}

struct tracer *tracer__open(const struct target *t, const struct trace_filter *filters,
			    size_t filter_cnt, const struct tracer_events *events)
{
	return open_tracer(t, filters, filter_cnt, events, false, NULL);
}

struct tracer *tracer__open_many(const struct target *t, const struct trace_filter *filters,
				 size_t filter_cnt, int64_t trap_ns, const char **why_not)
{
	struct tracer *tr;

	*why_not = NULL;
	tr = open_tracer(t, filters, filter_cnt, NULL, true, why_not);
	if (!tr)
		return NULL;
	tr->trap_ns = trap_ns;
	tr->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	return tr;
}

void tracer__close(struct tracer *tr)
{
	if (!tr)
		return;
	tracer__detach(tr);
	tracer__stop_measuring(tr);
	ring_buffer__free(tr->ring);
	ring_buffer__free(tr->event_ring);
	trace_bpf__destroy(tr->skel);
	sym_python__free(tr->names);
	values__free(tr->values);
	free(tr->processes);
	free(tr);
}

/* ---- breakpoints ----------------------------------------------------------------------------- */

static void explain_attach(const struct tracer *tr, int err)
{
	const char *remedy = "";

	if (err == -ENOSYS)
		remedy = " (the kernel must be built with CONFIG_UPROBE_EVENTS=y)";
	else if (err == -EPERM || err == -EACCES)
		remedy = " (CAP_PERFMON is needed, on Debian and Ubuntu CAP_SYS_ADMIN)";
	log_err("process %d: breakpoint in %s: %s%s", tr->t->pid, tr->t->path, strerror(-err),
		remedy);
}

static int program_fd(const struct tracer *tr)
{
	return bpf_program__fd(program_of(tr));
}

/* The cookie of the point with this number among the used ones. */
static uint64_t cookie_of(const struct tracer *tr, uint32_t spot)
{
	return tr->by_cookie ? spot : UPROBE_NO_COOKIE;
}

static int attach_family(struct tracer *tr, const struct trace_point *p, uint32_t spot)
{
	return family__add(tr->family, elf_file__fd(tr->t->ef), p->offset, program_fd(tr),
			   cookie_of(tr, spot));
}

static int attach_alone(struct tracer *tr, const struct trace_point *p, uint32_t spot)
{
	int event = uprobe__open(tr->t->pid, elf_file__fd(tr->t->ef), p->offset), link;

	if (event < 0)
		return event;
	tr->events[tr->event_cnt++] = event;
	link = uprobe__run(event, program_fd(tr), cookie_of(tr, spot));
	if (link >= 0)
		tr->events[tr->event_cnt++] = link;
	return link >= 0 || link == UPROBE_NO_LINK ? 0 : link;
}

/* The last point comes first: calls follow where they end, so each that begins is seen to end. */
static int attach_points(struct tracer *tr)
{
	uint32_t spot = tr->skel->rodata->cfg.spot_cnt;
	int err = 0;

	for (size_t i = tr->points.cnt; i-- > 0 && !err;) {
		const struct trace_point *p = &tr->points.at[i];

		if (!is_used(tr, p))
			continue;
		spot--;
		log_debug("breakpoint %" PRIu32 " at 0x%" PRIx64 " in %s", spot, p->offset,
			  tr->t->path);
		err = tr->family ? attach_family(tr, p, spot) : attach_alone(tr, p, spot);
	}
	if (!err && tr->family)
		err = family__attach(tr->family);
	return err;
}

int tracer__attach(struct tracer *tr)
{
	int err;

	tr->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	tr->family = family__open(tr->t->pid);
	if (!tr->family && errno == ENOTSUP)
		log_info("processes that %d starts are not traced: that needs Linux 6.12",
			 tr->t->pid);
	else if (!tr->family)
		log_warn("processes that %d starts are not traced: tracefs: %s", tr->t->pid,
			 strerror(errno));
	err = attach_points(tr);
	if (!err)
		return 0;
	explain_attach(tr, err);
	tracer__detach(tr);
	return err;
}

int tracer__follow(struct tracer *tr, pid_t pid)
{
	struct uprobe_spot spots[TRACE_SPOTS];
	uint32_t cnt = 0;

	for (size_t i = 0; i < tr->points.cnt; i++) {
		if (!is_used(tr, &tr->points.at[i]))
			continue;
		spots[cnt] =
			(struct uprobe_spot){ .offset = tr->points.at[i].offset, .cookie = cnt };
		cnt++;
	}
	return uprobe__open_multi(pid, elf_file__fd(tr->t->ef), spots, cnt, program_fd(tr));
}

uint64_t tracer__hits(const struct tracer *tr, pid_t pid)
{
	uint32_t tgid = (uint32_t)pid;
	uint64_t hits;

	return bpf_map_lookup_elem(bpf_map__fd(tr->skel->maps.process_hits), &tgid, &hits) ? 0
											   : hits;
}

void tracer__forget(struct tracer *tr, pid_t pid)
{
	uint32_t tgid = (uint32_t)pid;

	bpf_map_delete_elem(bpf_map__fd(tr->skel->maps.process_hits), &tgid);
}

void tracer__stop(struct tracer *tr)
{
	tr->skel->bss->over = 1;
}

void tracer__detach(struct tracer *tr)
{
	while (tr->event_cnt)
		close(tr->events[--tr->event_cnt]);
	family__close(tr->family);
	tr->family = NULL;
}

void tracer__stop_measuring(struct tracer *tr)
{
	if (tr->stats_fd >= 0)
		close(tr->stats_fd);
	tr->stats_fd = -1;
}

/* ---- results --------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
	uint32_t x = ((const struct traced *)a)->function.number;
	uint32_t y = ((const struct traced *)b)->function.number;

	return (x > y) - (x < y);
}

static int by_calls(const void *a, const void *b)
{
	const struct traced *x = a, *y = b;

	if (x->calls + x->resumed != y->calls + y->resumed)
		return x->calls + x->resumed < y->calls + y->resumed ? 1 : -1;
	return by_number(a, b);
}

static int add_traced(struct tracer *tr, struct traced_list *list, const struct trace_count *c)
{
	struct traced *f;

	if (array_grow(&list->all, &list->cap, list->cnt, 1, sizeof(*list->all), SIZE_MAX / 64))
		return -ENOMEM;
	f = &list->all[list->cnt++];
	*f = (struct traced){ .calls = c->calls, .resumed = c->resumed };
	find_function(tr, c->id, &f->function);
	list->calls += c->calls;
	list->resumed += c->resumed;
	return 0;
}

/* Code objects that are one function become one. */
static void merge(struct traced_list *list)
{
	size_t kept = 0;

	if (!list->cnt)
		return;
	qsort(list->all, list->cnt, sizeof(*list->all), by_number);
	for (size_t i = 1; i < list->cnt; i++) {
		struct traced *last = &list->all[kept], *f = &list->all[i];

		if (last->function.number == f->function.number) {
			last->calls += f->calls;
			last->resumed += f->resumed;
		} else {
			list->all[++kept] = *f;
		}
	}
	list->cnt = kept + 1;
	qsort(list->all, list->cnt, sizeof(*list->all), by_calls);
}

int tracer__read(struct tracer *tr, struct traced_list *list)
{
	struct trace_key *keys = calloc(CODES_AT_ONCE, sizeof(*keys));
	struct trace_count *counts = calloc(CODES_AT_ONCE, sizeof(*counts));
	int fd = bpf_map__fd(tr->skel->maps.codes), err = keys && counts ? 0 : -ENOMEM;
	uint32_t batch = 0, got = 0;
	bool more = true;

	tracer__drain(tr);
	list->cnt = 0;
	list->calls = list->resumed = 0;
	for (void *in = NULL; !err && more; in = &batch) {
		got = CODES_AT_ONCE;
		err = bpf_map_lookup_batch(fd, in, &batch, keys, counts, &got, NULL);
		more = !err;
		if (err == -ENOENT)
			err = 0;
		for (uint32_t i = 0; i < got && !err; i++)
			err = add_traced(tr, list, &counts[i]);
	}
	free(keys);
	free(counts);
	merge(list);
	return err;
}

void traced_list__free(struct traced_list *list)
{
	free(list->all);
	*list = (struct traced_list){ 0 };
}

int tracer__counters(const struct tracer *tr, uint64_t out[TRACE_CTR_CNT])
{
	int cpu_cnt = libbpf_num_possible_cpus(), err;
	struct trace_counters *all;
	uint32_t zero = 0;

	if (cpu_cnt < 0)
		return cpu_cnt;
	all = calloc((size_t)cpu_cnt, sizeof(*all));
	if (!all)
		return -ENOMEM;
	err = bpf_map_lookup_elem(bpf_map__fd(tr->skel->maps.counters), &zero, all);
	memset(out, 0, TRACE_CTR_CNT * sizeof(*out));
	for (int cpu = 0; cpu < cpu_cnt && !err; cpu++)
		for (int i = 0; i < TRACE_CTR_CNT; i++)
			out[i] += all[cpu].n[i];
	free(all);
	return err;
}

/*
 * Run time of the program at a hit, beside the trap: what the kernel has measured, or a quarter of
 * the trap.
 */
double tracer__hit_ns(const struct tracer *tr)
{
	double trap = tr->trap_ns > 0 ? (double)tr->trap_ns : EMULATED_HIT_NS;
	struct bpf_prog_info info = { 0 };
	uint32_t size = sizeof(info);

	if (bpf_obj_get_info_by_fd(program_fd(tr), &info, &size) || !info.run_cnt)
		return trap + trap / 4;
	return trap + (double)info.run_time_ns / (double)info.run_cnt;
}
