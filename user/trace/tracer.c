/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/tracer.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/libbpf_text.h"
#include "base/log.h"
#include "base/str.h"
#include "follow/readcode.h"
#include "trace.skel.h"
#include "trace/points.h"
#include "trace/uprobe.h"

#define CODES_AT_ONCE	1024
#define EMULATED_HIT_NS 500 /* where it cannot be measured */

struct tracer {
	const struct target *t;
	struct trace_points points;
	struct trace_bpf *skel;
	struct ring_buffer *ring;
	struct sym_python *names;
	int events[TRACE_SPOTS]; /* descriptors of breakpoints */
	size_t event_cnt;
	int64_t trap_ns; /* of a breakpoint whose program does nothing */
	int stats_fd;	 /* while the kernel measures run times; -1 */
};

/* ---- names ----------------------------------------------------------------------------------- */

/* The bytes of a name as the sampler would have sent them. */
static void take_name(struct tracer *tr, const struct trace_code *c, const struct trace_name *n,
		      enum blob_kind kind, struct blob_info *info)
{
	struct ev_blob blob = { .type = EV_BLOB, .kind = kind, .id = c->id, .size = n->sent };

	*info = (struct blob_info){
		.uaddr = n->uaddr, .size = n->size, .width = n->width, .flags = n->flags
	};
	if (n->sent < n->size || !n->width)
		info->flags |= BLOB_MISSING;
	if (n->sent > TRACE_NAME_BYTES)
		return;
	memcpy(blob.data, n->data, n->sent);
	sym_python__on_blob(tr->names, &blob, offsetof(struct ev_blob, data) + n->sent);
}

/* A callback of the ring buffer. Line tables are left where they are: counts have no lines. */
static int on_code(void *ctx, void *data, size_t size)
{
	struct tracer *tr = ctx;
	const struct trace_code *c = data;
	const struct py_layout *layout = &tr->t->py.interp.layout;
	struct ev_code ev;
	int err;

	if (size < sizeof(*c))
		return 0;
	ev = (struct ev_code){ .type = EV_CODE,
			       .tgid = (uint32_t)tr->t->pid,
			       .id = c->id,
			       .addr = c->addr,
			       .firstlineno = c->firstlineno };
	take_name(tr, c, &c->name, BLOB_NAME, &ev.blob[BLOB_NAME]);
	take_name(tr, c, &c->file, BLOB_FILENAME, &ev.blob[BLOB_FILENAME]);
	ev.blob[BLOB_LINETABLE] =
		(struct blob_info){ .uaddr = c->linetable, .flags = BLOB_MISSING };
	err = sym_python__on_code(tr->names, &ev, sizeof(ev), layout);
	if (!err)
		err = readcode__supply(tr->names, &ev, layout, 1 << BLOB_NAME | 1 << BLOB_FILENAME);
	if (err)
		log_debug("code object at 0x%llx: %s", (unsigned long long)c->addr, strerror(-err));
	return 0;
}

void tracer__drain(struct tracer *tr)
{
	ring_buffer__consume(tr->ring);
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

/*
 * _PyEval_EvalFrameDefault(tstate, f, throwflag) from 3.9 on, (f, throwflag) before:
 * Python/ceval.c.
 */
static bool takes_state(const struct target *t)
{
	return t->py.version_hex >= PY_VERSION_MINOR_HEX(3, 9);
}

static void configure(const struct tracer *tr, struct trace_cfg *cfg)
{
	const struct target *t = tr->t;
	bool is_315 = t->py.version_hex >= PY_VERSION_MINOR_HEX(3, 15);
	size_t opcode_cnt = 0;

	*cfg = (struct trace_cfg){ .layout = t->py.interp.layout,
				   .code_type = t->bias + t->py.interp.code_type,
				   .by_opcode = tr->points.table != 0,
				   .entry_reg = takes_state(t) ? ARCH_REG_ARG1 : ARCH_REG_ARG0,
				   .resume_size = is_315 ? 4 : 2,
				   .resume_mask = is_315 ? 7 : 3 };
	for (size_t i = 0; i < tr->points.cnt; i++) {
		const struct trace_point *p = &tr->points.at[i];

		if (!is_call(p))
			continue;
		cfg->spots[cfg->spot_cnt++] = (struct trace_spot){ .pc = t->bias + p->addr,
								   .kind = p->kind,
								   .joined = p->joined };
		if (p->opcode)
			cfg->opcodes[opcode_cnt++] = p->opcode;
	}
	add_opcodes(cfg, t->py.version_hex >> 16);
}

static void explain_load(int err)
{
	if (err == -EPERM || err == -EACCES)
		log_err("loading the BPF programs: %s (CAP_BPF and CAP_PERFMON are needed; -vv "
			"shows the kernel's log)",
			strerror(-err));
	else
		log_err("loading the BPF programs: %s (-vv shows the kernel's log)",
			strerror(-err));
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
	memcpy((void *)&tr->skel->rodata->cfg, &cfg, sizeof(cfg));
	err = trace_bpf__load(tr->skel);
	if (err)
		return err;
	tr->ring = ring_buffer__new(bpf_map__fd(tr->skel->maps.news), on_code, tr, NULL);
	return tr->ring ? 0 : -errno;
}

struct tracer *tracer__open(const struct target *t)
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
	tr->stats_fd = -1;
	err = trace_points__find(t->ef, &t->py, &tr->points);
	if (err)
		log_err("process %d: %s: calls cannot be traced: %s", t->pid, t->path,
			tr->points.why_not ? tr->points.why_not : strerror(-err));
	if (!err) {
		err = load(tr);
		if (err)
			explain_load(err);
	}
	if (!err)
		tr->trap_ns = uprobe__measure(bpf_program__fd(tr->skel->progs.on_nothing));
	if (!err)
		return tr;
	tracer__close(tr);
	return NULL;
}

void tracer__close(struct tracer *tr)
{
	if (!tr)
		return;
	tracer__detach(tr);
	tracer__stop_measuring(tr);
	ring_buffer__free(tr->ring);
	trace_bpf__destroy(tr->skel);
	sym_python__free(tr->names);
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

int tracer__attach(struct tracer *tr)
{
	int prog = bpf_program__fd(tr->skel->progs.on_call);

	tr->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	for (size_t i = 0; i < tr->points.cnt; i++) {
		const struct trace_point *p = &tr->points.at[i];
		int event;

		if (!is_call(p))
			continue;
		event = uprobe__open(tr->t->pid, elf_file__fd(tr->t->ef), p->offset, prog);
		if (event < 0) {
			explain_attach(tr, event);
			tracer__detach(tr);
			return event;
		}
		tr->events[tr->event_cnt++] = event;
	}
	return 0;
}

void tracer__detach(struct tracer *tr)
{
	while (tr->event_cnt)
		close(tr->events[--tr->event_cnt]);
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
	if (!sym_python__find(tr->names, c->id, &f->function)) {
		f->function = (struct py_function){ .name = "<unknown>", .number = UINT32_MAX };
		f->function.name_len = strlen(f->function.name);
		f->function.file = "";
	}
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

	if (bpf_obj_get_info_by_fd(bpf_program__fd(tr->skel->progs.on_call), &info, &size) ||
	    !info.run_cnt)
		return trap + trap / 4;
	return trap + (double)info.run_time_ns / (double)info.run_cnt;
}
