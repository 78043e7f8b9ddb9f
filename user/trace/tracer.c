/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/tracer_parts.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/loader.h"
#include "base/log.h"
#include "base/percpu.h"
#include "base/str.h"
#include "follow/held.h"
#include "trace/pairs.h"
#include "trace/trace_config.h"

#define EVENTS_NEWS	(16U << 20) /* bytes: thousands of functions between two drains */
#define EVENTS_AT_ONCE	16384	    /* then signals have their turn */
#define CODES_AT_ONCE	1024
#define CODES_OF_MANY	262144
#define NEWS_OF_MANY	(4U << 20) /* of each interpreter */
#define PROCESSES_MAX	65536	   /* numbers of them fit in 16 bits */
#define MEASURED_LEAST	1000	   /* hits, for the price of one */
#define EMULATED_HIT_NS 500	   /* where it cannot be measured */

/* ---- processes ------------------------------------------------------------------------------- */

/* PROCESSES_MAX: there is none, or no memory. */
static size_t free_number(struct tracer *tr)
{
	size_t i = tr->free_cnt ? 0 : tr->process_cnt;

	while (i < tr->process_cnt && tr->processes[i])
		i++;
	if (i < tr->process_cnt ||
	    !ARRAY_GROW(tr->processes, tr->process_cap, tr->process_cnt, PROCESSES_MAX))
		return i;
	return PROCESSES_MAX;
}

size_t tracer__process(struct tracer *tr, pid_t pid)
{
	size_t i;

	if (tr->last_process < tr->process_cnt && tr->processes[tr->last_process] == pid)
		return tr->last_process;
	i = (size_t)(uintptr_t)idmap__get(&tr->numbers, (uint64_t)pid);
	if (i)
		return tr->last_process = i - 1;
	i = free_number(tr);
	if (i == PROCESSES_MAX || idmap__set(&tr->numbers, (uint64_t)pid, (void *)(i + 1)))
		return 0;
	tr->free_cnt -= i < tr->process_cnt;
	tr->process_cnt += i == tr->process_cnt;
	tr->processes[i] = pid;
	return tr->last_process = i;
}

static void free_process(struct tracer *tr, pid_t pid)
{
	size_t i = (size_t)(uintptr_t)idmap__get(&tr->numbers, (uint64_t)pid);

	idmap__remove(&tr->numbers, (uint64_t)pid);
	idmap__remove(&tr->slots, (uint64_t)pid);
	if (!i)
		return;
	tr->processes[i - 1] = 0;
	tr->free_cnt++;
}

size_t tracer__process_cnt(const struct tracer *tr)
{
	return tr->process_cnt;
}

/* 0: there is no such process any more. */
static uint64_t cpu_ns(pid_t pid)
{
	uint64_t ns;

	return price__cpu_ns(pid, &ns) ? ns + price__reaped_ns(pid) : 0;
}

uint64_t tracer__cpu_ns(struct tracer *tr)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < tr->process_cnt; i++)
		sum += cpu_ns(tr->processes[i]);
	return sum;
}

uint64_t tracer__used_ns(struct tracer *tr)
{
	for (size_t i = 0; i < tr->process_cnt; i++)
		if (price_sum__take(&tr->used, i, cpu_ns(tr->processes[i])))
			break;
	return tr->used.ns;
}

/* ---- events --------------------------------------------------------------------------------- */

static void take_valued(struct tracer *tr, const struct trace_valued *e, size_t size)
{
	size_t cnt = size / sizeof(struct trace_value);

	tr->on_event.take_valued(tr->on_event.ctx, e,
				 cnt < TRACE_ARGS_MAX ? (uint32_t)cnt : TRACE_ARGS_MAX);
}

static int on_event(void *ctx, void *data, size_t size)
{
	struct tracer *tr = ctx;

	if (tr->drops)
		tr->dropped++;
	else if (tr->on_event.take_import && size >= sizeof(struct trace_import))
		tr->on_event.take_import(tr->on_event.ctx, data);
	else if (tr->on_event.take_collection && size >= sizeof(struct trace_collection))
		tr->on_event.take_collection(tr->on_event.ctx, data);
	else if (tr->on_event.take_raise && size >= sizeof(struct trace_raise))
		tr->on_event.take_raise(tr->on_event.ctx, data);
	else if (tr->on_event.take_audit && size >= sizeof(struct trace_raise))
		tr->on_event.take_audit(tr->on_event.ctx, data);
	else if (tr->on_event.take && size >= sizeof(struct trace_call))
		tr->on_event.take(tr->on_event.ctx, data, &((struct trace_call *)data)->at);
	else if (tr->on_event.slow && size >= sizeof(struct trace_waits))
		tr->on_event.take_waits(tr->on_event.ctx, data);
	else if (tr->on_event.take_valued && size > sizeof(struct trace_event))
		take_valued(tr, data, size - sizeof(struct trace_event));
	else if (tr->on_event.take && size >= sizeof(struct trace_event))
		tr->on_event.take(tr->on_event.ctx, data, NULL);
	return --tr->left ? 0 : -EAGAIN;
}

int tracer__news_fd(const struct tracer *tr)
{
	return ring_buffer__epoll_fd(tr->ring);
}

/* ---- counts --------------------------------------------------------------------------------- */

static int add_count(struct tracer *tr, struct traced_list *list, const struct trace_count *c)
{
	struct traced f = { .calls = c->calls, .resumed = c->resumed };

	tracer_names__find(tr, c->id, &f.function);
	return traced_list__add(list, &f);
}

/* The counts of a code object that the kernel forgets. Without memory they are lost. */
static void keep_count(void *ctx, const void *value)
{
	const struct trace_count *c = value;
	struct tracer *tr = ctx;

	if (!c->calls && !c->resumed)
		return;
	if (tr->past.cnt == tr->past_max) {
		traced_list__merge(&tr->past);
		tr->past_max = 2 * tr->past.cnt + CODES_AT_ONCE;
	}
	add_count(tr, &tr->past, c);
}

static pid_t owner_of_code(const void *key, const void *value)
{
	(void)key;
	return (pid_t)((const struct trace_count *)value)->tgid;
}

static pid_t owner_of_frame(const void *key, const void *value)
{
	(void)value;
	return (pid_t)(((const struct trace_entry *)key)->task >> 32);
}

/* ---- opening --------------------------------------------------------------------------------- */

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

/* Runs of a program that the kernel has measured, and their time. */
static uint64_t measured(int program_fd, uint64_t *ns)
{
	struct bpf_prog_info info = { 0 };
	uint32_t size = sizeof(info);

	if (bpf_obj_get_info_by_fd(program_fd, &info, &size))
		return 0;
	*ns = info.run_time_ns;
	return info.run_cnt;
}

static int program_fd(const struct tracer *tr)
{
	return bpf_program__fd(program_of(tr));
}

static void look_at_runs(struct tracer *tr)
{
	uint64_t ns, cnt = tr->stats_fd >= 0 ? measured(program_fd(tr), &ns) : 0;

	if (cnt)
		price_runs__look(&tr->runs, now_ns(), ns, cnt);
}

int tracer__look_ms(const struct tracer *tr)
{
	return tr->stats_fd >= 0 ? PRICE_SLICE_MS : INT_MAX;
}

bool tracer__drain(struct tracer *tr)
{
	look_at_runs(tr);
	ring_buffer__consume(tr->ring);
	if (!tr->event_ring)
		return false;
	tr->left = EVENTS_AT_ONCE;
	tr->drops = tr->until_ns && now_ns() >= tr->until_ns;
	return ring_buffer__consume(tr->event_ring) == -EAGAIN;
}

/* What threads wait for is wanted, or there is no program at each switch. */
static void configure_waits(struct tracer *tr)
{
	bool wanted = tr->on_event.slow;

	bpf_program__set_autoload(tr->skel->progs.on_switch, wanted);
	if (wanted)
		trace_config__fill_waits((void *)&tr->skel->rodata->wait_cfg,
					 (void *)tr->skel->rodata->call_reasons);
	else
		bpf_map__set_max_entries(tr->skel->maps.waiting, 1);
}

static int load(struct tracer *tr)
{
	const struct trace_config config = { .target = tr->t,
					     .points = &tr->points,
					     .events = &tr->on_event,
					     .threads = tr->threads,
					     .filtered = tr->filter_cnt > 0,
					     .by_cookie = tr->by_cookie };
	struct trace_cfg cfg;
	int err;

	tr->skel = trace_bpf__open();
	if (!tr->skel)
		return -errno;
	trace_config__fill(&cfg, &config);
	cfg.values = tr->values_cfg;
	memcpy((void *)&tr->skel->rodata->cfg, &cfg, sizeof(cfg));
	trace_config__set_ways(tr->skel->bss->ways, &tr->on_event, &tr->points);
	/* The verifier needs most of the time that a start takes. */
	bpf_program__set_autoload(tr->skel->progs.on_call, false);
	bpf_program__set_autoload(tr->skel->progs.on_event, false);
	bpf_program__set_autoload(tr->skel->progs.on_raise, false);
	bpf_program__set_autoload(tr->skel->progs.on_collect, false);
	bpf_program__set_autoload(tr->skel->progs.on_audit, false);
	bpf_program__set_autoload(tr->skel->progs.on_import, false);
	bpf_program__set_autoload(program_of(tr), true);
	configure_waits(tr);
	if (!tr->on_event.from)
		bpf_map__set_max_entries(tr->skel->maps.inside, 1);
	if (!tracer_events__any(&tr->on_event))
		bpf_map__set_max_entries(tr->skel->maps.events, (uint32_t)getpagesize());
	else /* Code of modules is gone when they are there; and what has no name is not shown. */
		bpf_map__set_max_entries(tr->skel->maps.news,
					 tr->many ? NEWS_OF_MANY : EVENTS_NEWS);
	tr->skel->rodata->by_process = tr->many;
	if (tr->many) {
		bpf_program__set_expected_attach_type(program_of(tr),
						      (enum bpf_attach_type)UPROBE_MULTI_TYPE);
		/* Of each process its own. No memory until they come: these kernels permit that. */
		bpf_map__set_max_entries(tr->skel->maps.codes, CODES_OF_MANY);
		bpf_map__set_map_flags(tr->skel->maps.codes, BPF_F_NO_PREALLOC);
		bpf_map__set_type(tr->skel->maps.running, BPF_MAP_TYPE_LRU_HASH);
	} else {
		bpf_map__set_max_entries(tr->skel->maps.process_hits, 1);
	}
	err = trace_bpf__load(tr->skel);
	if (err)
		return err;
	if (tr->on_event.slow) {
		tr->switches = bpf_program__attach(tr->skel->progs.on_switch);
		if (!tr->switches)
			return -errno;
	}
	tr->ring = ring_buffer__new(bpf_map__fd(tr->skel->maps.news), tracer_names__take, tr, NULL);
	if (tr->ring && tracer_events__any(&tr->on_event))
		tr->event_ring =
			ring_buffer__new(bpf_map__fd(tr->skel->maps.events), on_event, tr, NULL);
	return tr->ring && (tr->event_ring || !tracer_events__any(&tr->on_event)) ? 0 : -errno;
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
		tr->points.why_not = why_not;
		if (!tr->many)
			log_err("process %d: %s: %s", t->pid, t->path, why_not);
		return err;
	}
	tr->values = values__new(&t->py.interp.layout);
	return tr->values ? 0 : log_no_memory();
}

static struct tracer *open_tracer(const struct target *t, const struct trace_filter *filters,
				  size_t filter_cnt, const struct thread_filters *threads,
				  const struct tracer_events *events, bool many,
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
	tr->threads = threads;
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
		tr->points.why_not = tr->points.why_no_returns;
		if (!many)
			log_err("process %d: %s: calls can be counted, not timed: %s", t->pid,
				t->path, tr->points.why_not);
	}
	if (!err)
		err = configure_values(tr);
	if (!err && !many)
		err = held__refuse(t->readers);
	if (!err) {
		err = load(tr);
		if (err)
			loader__say_failed(err, "", LOAD_NEEDS_KERNEL);
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
			    size_t filter_cnt, const struct thread_filters *threads,
			    const struct tracer_events *events)
{
	return open_tracer(t, filters, filter_cnt, threads, events, false, NULL);
}

struct tracer *tracer__open_many(const struct target *t, const struct trace_filter *filters,
				 size_t filter_cnt, const struct thread_filters *threads,
				 const struct tracer_events *events, int64_t trap_ns,
				 const char **why_not)
{
	struct tracer *tr;

	*why_not = NULL;
	tr = open_tracer(t, filters, filter_cnt, threads, events, true, why_not);
	if (!tr)
		return NULL;
	tr->trap_ns = trap_ns;
	tr->codes_max = CODES_OF_MANY;
	tr->codes = (struct retired){ .fd = bpf_map__fd(tr->skel->maps.codes),
				      .key_size = sizeof(struct trace_key),
				      .value_size = sizeof(struct trace_count),
				      .owner = owner_of_code,
				      .take = keep_count,
				      .ctx = tr };
	tr->frames = (struct retired){ .fd = bpf_map__fd(tr->skel->maps.frames_by_sp),
				       .key_size = sizeof(struct trace_entry),
				       .value_size = sizeof(uint64_t),
				       .owner = owner_of_frame };
	tr->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	return tr;
}

/* What a switch costs all threads of the machine, is in no slowdown. */
static void stop_measuring(struct tracer *tr)
{
	int fd = tr->switches ? bpf_program__fd(tr->skel->progs.on_switch) : -1;
	uint64_t ns, cnt = tr->stats_fd >= 0 && fd >= 0 ? measured(fd, &ns) : 0;

	if (cnt)
		log_debug("what threads wait for: %.2f us at each of %" PRIu64 " switches",
			  (double)ns / (double)cnt / 1e3, cnt);
	if (tr->stats_fd >= 0)
		close(tr->stats_fd);
	tr->stats_fd = -1;
}

void tracer__close(struct tracer *tr)
{
	if (!tr)
		return;
	tracer__detach(tr);
	stop_measuring(tr);
	ring_buffer__free(tr->ring);
	ring_buffer__free(tr->event_ring);
	bpf_link__destroy(tr->switches);
	trace_bpf__destroy(tr->skel);
	sym_python__free(tr->names);
	values__free(tr->values);
	retired__free(&tr->codes);
	retired__free(&tr->frames);
	traced_list__free(&tr->past);
	idmap__free(&tr->numbers);
	idmap__free(&tr->slots);
	free(tr->processes);
	price_sum__free(&tr->used);
	free(tr);
}

/* ---- breakpoints ----------------------------------------------------------------------------- */

/* The cookie of the point with this number among the used ones. */
static uint64_t cookie_of(const struct tracer *tr, uint32_t spot)
{
	return tr->by_cookie ? spot : UPROBE_NO_COOKIE;
}

static pid_t python_pid(const struct tracer *tr)
{
	return tr->t->python ? tr->t->python : tr->t->pid;
}

static int attach_point(struct tracer *tr, const struct uprobe_spot *spot)
{
	int fd = elf_file__fd(tr->t->ef);

	return tr->family ? family__add(tr->family, fd, spot, program_fd(tr))
			  : uprobe_list__add(&tr->breakpoints, python_pid(tr), fd, spot,
					     program_fd(tr));
}

/* The last point comes first: calls follow where they end, so each that begins is seen to end. */
static int attach_points(struct tracer *tr)
{
	uint32_t spot = tr->skel->rodata->cfg.spot_cnt;
	int err = 0;

	for (size_t i = tr->points.cnt; i-- > 0 && !err;) {
		struct uprobe_spot at = { .offset = tr->points.at[i].offset };

		if (!trace_config__is_used(&tr->on_event, &tr->points.at[i]))
			continue;
		at.cookie = cookie_of(tr, --spot);
		log_debug("breakpoint %" PRIu32 " at 0x%" PRIx64 " in %s", spot, at.offset,
			  tr->t->path);
		err = attach_point(tr, &at);
	}
	if (!err && tr->family)
		err = family__attach(tr->family);
	return err;
}

int tracer__attach(struct tracer *tr)
{
	int err;

	tr->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	tr->family = family__open(tr->t->pid, tr->t->python);
	if (!tr->family && errno == ENOTSUP)
		log_info("processes that %d starts are not traced: that needs Linux 6.12",
			 python_pid(tr));
	else if (!tr->family)
		log_warn("processes that %d starts are not traced: tracefs: %s", python_pid(tr),
			 strerror(errno));
	err = attach_points(tr);
	if (!err)
		return 0;
	log_err("process %d: breakpoint in %s: %s%s", tr->t->pid, tr->t->path, strerror(-err),
		uprobe__remedy(err));
	tracer__detach(tr);
	return err;
}

/* What a process of that number has left, or the program that this one has replaced. */
static void remove_former(struct tracer *tr, pid_t pid)
{
	if (!retired__has(&tr->codes, pid) && !retired__has(&tr->frames, pid))
		return;
	ring_buffer__consume(tr->ring); /* those whose names are on their way have one then */
	retired__finish(&tr->codes, pid);
	retired__finish(&tr->frames, pid);
}

int tracer__follow(struct tracer *tr, pid_t pid)
{
	struct uprobe_spot spots[TRACE_SPOTS];
	uint32_t cnt = 0;
	int link;

	/* As in attach_points(): the ends first. */
	for (size_t i = tr->points.cnt; i-- > 0;) {
		if (!trace_config__is_used(&tr->on_event, &tr->points.at[i]))
			continue;
		spots[cnt] =
			(struct uprobe_spot){ .offset = tr->points.at[i].offset,
					      .cookie = tr->skel->rodata->cfg.spot_cnt - 1 - cnt };
		cnt++;
	}
	remove_former(tr, pid);
	tracer__process(tr, pid);
	link = uprobe__open_multi(pid, elf_file__fd(tr->t->ef), spots, cnt, program_fd(tr));
	if (link < 0)
		free_process(tr, pid);
	return link;
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
	/* Its first thread lives on over exec(). */
	const struct trace_inside_key thread = { .process = (uint64_t)tgid << 32 | tgid };

	bpf_map_delete_elem(bpf_map__fd(tr->skel->maps.process_hits), &tgid);
	bpf_map_delete_elem(bpf_map__fd(tr->skel->maps.inside), &thread);
	retired__add(&tr->codes, pid);
	if (!tr->points.table && tracer_events__any(&tr->on_event))
		retired__add(&tr->frames, pid);
	free_process(tr, pid);
}

static bool is_former(void *ctx, uint32_t tgid)
{
	const struct tracer *tr = ctx;

	return !idmap__get(&tr->numbers, tgid) && !retired__has(&tr->codes, (pid_t)tgid);
}

static bool is_named(void *ctx, uint64_t code)
{
	return sym_python__missing(((const struct tracer *)ctx)->names, code) >= 0;
}

static void forget_names(struct tracer *tr)
{
	if (sym_python__code_cnt(tr->names) < tr->codes_max)
		return;
	sym_python__forget(tr->names, is_former, tr);
	values__tidy(tr->values, is_named, tr);
	tr->codes_max = 2 * sym_python__code_cnt(tr->names) + CODES_OF_MANY;
}

bool tracer__tidy(struct tracer *tr)
{
	if (!retired__waits(&tr->codes) && !retired__waits(&tr->frames))
		return false;
	/* Those whose names are on their way have one then. */
	ring_buffer__consume(tr->ring);
	retired__step(&tr->codes);
	retired__step(&tr->frames);
	forget_names(tr);
	return true;
}

uint32_t tracer__lost(const struct tracer *tr)
{
	return *(volatile uint32_t *)&tr->skel->bss->lost + tr->dropped;
}

void tracer__stop(struct tracer *tr, uint64_t until_ns)
{
	tr->until_ns = until_ns;
	tr->skel->bss->over = 1;
}

void tracer__detach(struct tracer *tr)
{
	uprobe_list__close(&tr->breakpoints);
	family__close(tr->family);
	tr->family = NULL;
}

/* ---- results --------------------------------------------------------------------------------- */

int tracer__read_process(struct tracer *tr, pid_t pid, struct traced_list *list)
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
			if (!pid || counts[i].tgid == (uint32_t)pid)
				err = add_count(tr, list, &counts[i]);
	}
	for (size_t i = 0; i < tr->past.cnt && !err && !pid; i++)
		err = traced_list__add(list, &tr->past.all[i]);
	free(keys);
	free(counts);
	traced_list__merge(list);
	return err;
}

int tracer__read(struct tracer *tr, struct traced_list *list)
{
	return tracer__read_process(tr, 0, list);
}

int tracer__counters(const struct tracer *tr, uint64_t out[TRACE_CTR_CNT])
{
	struct trace_counters sum = { 0 };
	int err = percpu__add(bpf_map__fd(tr->skel->maps.counters), 0, &sum, sizeof(sum));

	memcpy(out, sum.n, TRACE_CTR_CNT * sizeof(*out));
	return err;
}

static double trap_ns(const struct tracer *tr)
{
	return tr->trap_ns > 0 ? (double)tr->trap_ns : EMULATED_HIT_NS;
}

void tracer__end_measuring(struct tracer *tr)
{
	uint64_t ns;

	if (tr->stats_fd >= 0 && measured(program_fd(tr), &ns) >= MEASURED_LEAST)
		stop_measuring(tr);
}

/* The trap, and the program as it was measured, or a quarter of the trap. */
double tracer__hit_ns(const struct tracer *tr)
{
	double trap = trap_ns(tr), run = price_runs__median(&tr->runs);
	uint64_t ns, cnt = run > 0 ? 0 : measured(program_fd(tr), &ns);

	if (cnt)
		run = (double)ns / (double)cnt;
	return trap + (run > 0 ? run : trap / 4);
}

double tracer__trap_share(const struct tracer *tr)
{
	return trap_ns(tr) / tracer__hit_ns(tr);
}
