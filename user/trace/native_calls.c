/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/native_calls.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/libbpf_text.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/opener.h"
#include "base/signals.h"
#include "bpf/native.h"
#include "follow/held.h"
#include "follow/uprobe.h"
#include "native.skel.h"
#include "process/maps_read.h"
#include "process/mapped.h"
#include "process/pidns.h"
#include "trace/native_tree.h"
#include "trace/price.h"
#include "trace/probe_price.h"

#define DRAIN_MS 50
#define LATE_MS	 100 /* after which an event has come from either ring */

struct native {
	const struct native_opts *o;
	struct readers *readers;
	struct elf_file *ef;
	const char *file; /* its last part */
	struct native_functions functions;
	uint32_t first;
	uint32_t spots; /* that are set */
	struct native_bpf *skel;
	struct ring_buffer *ring;
	struct target target; /* with Python */
	struct tracer *tracer;
	struct native_tree *tree;
	int link, signal_fd, pid_fd;
	uint32_t lost, python_lost; /* said by the last events */
	uint64_t python_hits;
	uint64_t start_ns;
	bool over;
	int err;
};

/* ---- the file -------------------------------------------------------------------------------- */

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/*
 * Of a path all. Of a name the last part, which may have more behind its first dot: _mysql and
 * _mysql.so are _mysql.cpython-311-x86_64-linux-gnu.so, too.
 */
static bool is_lib(const struct map_line *line, const char *lib)
{
	char path[4096];
	const char *name;
	size_t len = strlen(lib), so = strlen(".so");

	if (!line->inode || map_line__path(line, path, sizeof(path)) < 0)
		return false;
	name = last_part(path);
	if (strchr(lib, '/'))
		return !strcmp(path, lib) || !strcmp(path, lib + 1);
	if (!strcmp(name, lib))
		return true;
	if (len > so && !strcmp(lib + len - so, ".so"))
		len -= so;
	return !strncmp(name, lib, len) && name[len] == '.';
}

static int open_lib(struct native *n)
{
	int proc_fd = opener__proc_dir((uint32_t)n->o->pid);
	struct exec_maps maps = { 0 };
	int err = proc_fd < 0 ? proc_fd
			      : exec_maps__ask(&maps, n->readers, (uint32_t)n->o->pid, proc_fd);
	size_t i = 0;

	if (err) {
		log_err("process %d: its mappings cannot be read: %s (needs CAP_SYS_PTRACE)",
			n->o->pid, strerror(-err));
	} else {
		while (i < maps.cnt && !is_lib(&maps.lines[i], n->o->lib))
			i++;
		if (i < maps.cnt)
			n->ef = mapped__open(n->readers, (uint32_t)n->o->pid, proc_fd,
					     &maps.lines[i]);
		err = i == maps.cnt ? -ENOENT : n->ef ? 0 : -errno;
		if (i == maps.cnt)
			log_err("process %d has not loaded %s", n->o->pid, n->o->lib);
		else if (err)
			log_err("process %d: %s: %s", n->o->pid, n->o->lib, strerror(-err));
	}
	exec_maps__free(&maps);
	if (proc_fd >= 0)
		close(proc_fd);
	return err;
}

static void say_no_function(const struct native *n)
{
	const char **names = calloc(n->functions.cnt + 1, sizeof(*names));
	size_t near = n->functions.cnt;

	for (size_t i = 0; names && i < n->functions.cnt; i++)
		names[i] = n->functions.all[i].name;
	if (names)
		near = nearest_name(n->o->function, names, n->functions.cnt);
	log_err("%s has no function %s%s%s%s", n->file, n->o->function,
		near < n->functions.cnt ? "; did you mean " : "",
		near < n->functions.cnt ? names[near] : "", near < n->functions.cnt ? "?" : "");
	free(names);
}

static int find_functions(struct native *n)
{
	int err = native_functions__find(&n->functions, n->ef);
	size_t first;

	if (!err)
		err = native_functions__name(&n->functions, n->ef, n->readers);
	if (err == -ENOTSUP)
		log_err("trace: --native-from needs x86-64");
	else if (err)
		log_err("%s: its functions cannot be found: %s", n->file, strerror(-err));
	if (err)
		return err;
	first = native_functions__by_name(&n->functions, n->ef, n->o->function);
	if (first == SIZE_MAX) {
		say_no_function(n);
		return -ENOENT;
	}
	n->first = (uint32_t)first;
	return 0;
}

/* ---- the kernel half ------------------------------------------------------------------------- */

/* The first function's ends are always wanted. */
static bool is_wanted(const struct native *n, const struct native_spot *s)
{
	return !s->is_end || n->o->ends || s->function == n->first;
}

static int load(struct native *n)
{
	struct native_cfg *cfg;
	struct pidns_file ns;
	int err;

	libbpf_set_print(libbpf_text);
	n->skel = native_bpf__open();
	if (!n->skel)
		return log_no_memory();
	cfg = (struct native_cfg *)&n->skel->rodata->native_cfg;
	ns = pidns__file();
	cfg->pidns_dev = ns.dev;
	cfg->pidns_inum = ns.inum;
	cfg->first = n->first;
	cfg->ra_below = NATIVE_RA_BELOW;
	bpf_program__set_expected_attach_type(n->skel->progs.on_place,
					      (enum bpf_attach_type)UPROBE_MULTI_TYPE);
	err = native_bpf__load(n->skel);
	if (err)
		libbpf_load_failed(err, " of native functions", "");
	return err;
}

static int put_place(struct native *n, const struct native_spot *s, struct uprobe_spot *out)
{
	const struct native_place p = { .function = s->function,
					.cfa_off = s->cfa_off,
					.is_end = s->is_end,
					.stepped = !s->emulated };
	uint32_t number = n->spots;

	if (number == NATIVE_PLACES_MAX) {
		log_err("%s: its functions begin%s at more than %d places", n->file,
			n->o->ends ? " and end" : "", NATIVE_PLACES_MAX);
		return -E2BIG;
	}
	*out = (struct uprobe_spot){ .offset = s->offset, .cookie = number };
	n->spots++;
	return bpf_map_update_elem(bpf_map__fd(n->skel->maps.native_places), &number, &p, BPF_ANY)
		       ? -errno
		       : 0;
}

static int attach(struct native *n)
{
	struct uprobe_spot *spots = calloc(n->functions.spot_cnt + 1, sizeof(*spots));
	int err = spots ? 0 : log_no_memory();

	for (size_t i = 0; i < n->functions.spot_cnt && !err; i++)
		if (is_wanted(n, &n->functions.spots[i]))
			err = put_place(n, &n->functions.spots[i], &spots[n->spots]);
	if (!err) {
		n->link = uprobe__open_multi(n->o->pid, elf_file__fd(n->ef), spots, n->spots,
					     bpf_program__fd(n->skel->progs.on_place));
		err = n->link < 0 ? n->link : 0;
		if (err)
			log_err("process %d: breakpoints in %s: %s%s", n->o->pid, n->file,
				strerror(-err),
				err == -EINVAL || err == -EOPNOTSUPP ? " (needs Linux 6.6)" : "");
	}
	free(spots);
	return err;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void add(struct native *n, const struct native_step *s)
{
	if (native_tree__add(n->tree, s) && !n->err)
		n->err = log_no_memory();
}

static void note_lost(struct native *n, uint32_t *known, uint32_t lost, uint64_t ns)
{
	const struct native_step s = { .ns = ns, .kind = STEP_LOST };

	if (lost == *known)
		return;
	*known = lost;
	add(n, &s);
}

static int on_native(void *ctx, void *data, size_t size)
{
	static const enum native_step_kind kinds[] = {
		[NATIVE_CALL] = STEP_CALL, [NATIVE_RETURN] = STEP_RETURN, [NATIVE_OVER] = STEP_OVER
	};
	const struct native_event *e = data;
	struct native *n = ctx;

	if (size < sizeof(*e) || e->kind < NATIVE_CALL || e->kind > NATIVE_OVER ||
	    e->function >= n->functions.cnt)
		return 0;
	note_lost(n, &n->lost, e->lost, e->ns);
	add(n, &(struct native_step){ .ns = e->ns,
				      .place = e->cfa,
				      .id = e->function,
				      .tid = e->tid,
				      .kind = kinds[e->kind] });
	return 0;
}

static void on_python(void *ctx, const struct trace_event *e, const struct trace_raise *stack)
{
	struct native *n = ctx;
	struct native_step s = { .ns = e->ns,
				 .place = e->frame,
				 .id = e->code,
				 .tid = e->tid,
				 .kind = STEP_PYTHON_END };

	(void)stack;
	n->python_hits++;
	note_lost(n, &n->python_lost, e->lost, e->ns);
	if (e->kind == EVENT_CALL || e->kind == EVENT_RESUME)
		s.kind = STEP_PYTHON_CALL;
	else if (e->kind == EVENT_RAISE)
		s.kind = STEP_PYTHON_RAISE;
	add(n, &s);
}

static int open_python(struct native *n)
{
	const struct tracer_events events = { .take = on_python, .ctx = n };
	int err = target__open_process(&n->target, n->o->pid);

	if (err)
		return err;
	n->tracer = tracer__open(&n->target, n->o->filters, n->o->filter_cnt, &events);
	return n->tracer ? tracer__attach(n->tracer) : -EIO;
}

static void drain(struct native *n)
{
	if (n->tracer)
		tracer__drain(n->tracer);
	ring_buffer__consume(n->ring);
}

/* ---- the run --------------------------------------------------------------------------------- */

static int open_tree(struct native *n)
{
	const struct native_tree_opts o = { .functions = &n->functions,
					    .file = n->file,
					    .tracer = n->tracer,
					    .start_ns = n->start_ns,
					    .ends = n->o->ends,
					    .json = n->o->json };

	n->tree = native_tree__new(&o);
	n->ring = ring_buffer__new(bpf_map__fd(n->skel->maps.native_events), on_native, n, NULL);
	return n->tree && n->ring ? 0 : log_no_memory();
}

static int prepare(struct native *n)
{
	int err;

	n->readers = readers__new();
	if (n->readers)
		readers__start(n->readers);
	err = held__refuse(n->readers);
	if (!err)
		err = open_lib(n);
	if (err)
		return err;
	n->file = last_part(elf_file__path(n->ef));
	err = find_functions(n);
	if (!err)
		err = load(n);
	if (err)
		return err;
	n->signal_fd = signals__open(NULL, false);
	n->pid_fd = (int)syscall(SYS_pidfd_open, n->o->pid, 0);
	if (n->signal_fd < 0 || n->pid_fd < 0) {
		log_err("process %d: %s", n->o->pid,
			strerror(n->pid_fd < 0 ? errno : -n->signal_fd));
		return -EIO;
	}
	return 0;
}

static void wait_until(struct native *n, uint64_t until_ns)
{
	struct pollfd fds[] = { { .fd = n->signal_fd, .events = POLLIN },
				{ .fd = n->pid_fd, .events = POLLIN } };

	for (uint64_t now = now_ns(); now < until_ns && !n->over && !n->err; now = now_ns()) {
		uint64_t left = (until_ns - now) / NS_PER_MS + 1;

		if (poll(fds, 2, left < DRAIN_MS ? (int)left : DRAIN_MS) > 0)
			n->over = true;
		drain(n);
		native_tree__flush(n->tree, now_ns() - LATE_MS * NS_PER_MS);
		if (fflush(stdout) || ferror(stdout)) {
			n->err = errno ? -errno : -EIO;
			log_err("stdout: %s", strerror(-n->err));
		}
	}
}

/* What the breakpoints in the interpreter have cost. */
static double python_ns(struct native *n)
{
	uint64_t c[TRACE_CTR_CNT] = { 0 };

	if (!n->tracer || tracer__counters(n->tracer, c))
		return 0;
	return tracer__hit_ns(n->tracer) *
	       (double)(n->python_hits + c[TRACE_CTR_refused] + c[TRACE_CTR_other] +
			c[TRACE_CTR_unknown] + c[TRACE_CTR_unknown_end]);
}

static const char *advice(const struct native *n)
{
	if (n->o->ends)
		return "leave --ret out: the kernel single-steps the ends of functions";
	return n->o->python ? "leave --calls out, or choose a smaller file"
			    : "choose a smaller file";
}

/* Ends with an error what costs too much. */
static int judge(struct native *n)
{
	struct probe_price_opts o = { .pid = n->o->pid,
				      .max_slowdown = n->o->max_slowdown,
				      .costs_fd = bpf_map__fd(n->skel->maps.probe_costs),
				      .advice = advice(n) };
	struct probe_price *price;
	int err;

	uprobe__prices(-1, &o.prices);
	price = probe_price__begin(&o);
	if (!price)
		return log_no_memory();
	n->skel->bss->measuring = 1;
	n->python_hits = 0;
	wait_until(n, now_ns() + PRICE_MEASURE_MS * NS_PER_MS);
	n->skel->bss->measuring = 0;
	probe_price__add(price, python_ns(n));
	if (n->tracer)
		tracer__stop_measuring(n->tracer);
	err = n->over ? n->err : probe_price__judge(price);
	probe_price__free(price);
	return err;
}

static int begin(struct native *n)
{
	int err;

	signals__hand_over(1);
	err = n->o->python ? open_python(n) : 0;
	if (!err)
		err = attach(n);
	n->start_ns = now_ns();
	if (!err)
		err = open_tree(n);
	if (!err && !n->o->force)
		err = judge(n);
	if (!err)
		log_info("tracing %s and what it calls in %s of process %d: %zu functions, %" PRIu32
			 " breakpoints; Ctrl-C ends it",
			 n->functions.all[n->first].name, n->file, n->o->pid, n->functions.cnt,
			 n->spots);
	return err;
}

static int finish(struct native *n)
{
	n->skel->bss->over = 1;
	if (n->tracer)
		tracer__stop(n->tracer);
	drain(n);
	native_tree__flush(n->tree, UINT64_MAX);
	if (!n->o->json)
		native_tree__write_table(n->tree, n->o->top);
	if (fflush(stdout) || ferror(stdout))
		n->err = n->err ? n->err : -EIO;
	if (n->lost || n->python_lost)
		log_warn("%" PRIu32 " events found no room", n->lost + n->python_lost);
	if (!native_tree__root_cnt(n->tree))
		log_warn("%s was not called", n->functions.all[n->first].name);
	return n->err;
}

static void end(struct native *n)
{
	if (n->link >= 0)
		close(n->link);
	tracer__close(n->tracer);
	if (n->target.pid)
		target__close(&n->target);
	native_tree__free(n->tree);
	ring_buffer__free(n->ring);
	native_bpf__destroy(n->skel);
	native_functions__free(&n->functions);
	elf_file__close(n->ef);
	readers__free(n->readers);
	if (n->signal_fd >= 0)
		close(n->signal_fd);
	if (n->pid_fd >= 0)
		close(n->pid_fd);
}

int native_calls__run(const struct native_opts *o)
{
	struct native n = { .o = o, .link = -1, .signal_fd = -1, .pid_fd = -1 };
	int err = prepare(&n);

	if (!err)
		err = begin(&n);
	if (!err) {
		wait_until(&n, o->duration_s > 0 ? n.start_ns + (uint64_t)(o->duration_s * 1e9)
						 : UINT64_MAX);
		err = finish(&n);
	}
	end(&n);
	return err != 0;
}
