/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "heap/heap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/terminal.h"
#include "heap/growth.h"
#include "heap/referrers.h"
#include "heap/scan.h"
#include "heap/show.h"
#include "heap/target.h"
#include "heap/usage.h"
#include "process/maps_read.h"

#define PATIENCE_S    60 /* for one reading */
#define PROGRESS_MS   200
#define NICE_PRIORITY 19
#define THREADS_MAX   4096
#define PAGE	      4096ULL
#define PAGES_READ    512
#define PAGE_PRESENT  (1ULL << 63)

struct reader {
	const struct heap_opts *o;
	struct heap_target target;
	struct heap_scan scan;
	struct heap_usage usage;
	struct heap_growth growth;
	struct heap_scan holders; /* a scan of its own: the first one is shown */
	struct referrers referrers;
	int arrays;
	int pagemap;
	uint64_t progress_ms, took_ms;
	bool progress_shown;
};

/* ---- progress -------------------------------------------------------------------------------- */

static void show_progress(void *ctx, size_t done, size_t all)
{
	struct reader *r = ctx;

	if (now_ms() - r->progress_ms < PROGRESS_MS)
		return;
	r->progress_ms = now_ms();
	r->progress_shown = true;
	dprintf(STDERR_FILENO, "\rheap: %zu of %zu arenas\033[K", done, all);
}

static void end_progress(struct reader *r)
{
	if (r->progress_shown)
		dprintf(STDERR_FILENO, "\r\033[K");
	r->progress_shown = false;
}

/* ---- resident memory ------------------------------------------------------------------------- */

static uint64_t resident(void *ctx, uint64_t start, uint64_t end)
{
	const struct reader *r = ctx;
	uint64_t pages[PAGES_READ], sum = 0;

	for (uint64_t at = start & ~(PAGE - 1); at < end;) {
		uint64_t cnt = (end - at + PAGE - 1) / PAGE;
		ssize_t n;

		cnt = cnt < PAGES_READ ? cnt : PAGES_READ;
		n = pread(r->pagemap, pages, cnt * sizeof(*pages), (off_t)(at / PAGE * 8));
		if (n <= 0)
			break;
		for (size_t i = 0; i < (size_t)n / sizeof(*pages); i++)
			sum += pages[i] & PAGE_PRESENT ? PAGE : 0;
		at += (uint64_t)n / sizeof(*pages) * PAGE;
	}
	return sum;
}

/* The last but one word of /proc/PID/task/TID/syscall, while the thread does not run. */
static bool stack_pointer(const struct strbuf *text, uint64_t *sp)
{
	const char *last = text->len ? strrchr(text->s, ' ') : NULL;
	const char *at = last;

	while (at && at > text->s && at[-1] != ' ')
		at--;
	if (!at || at == text->s)
		return false;
	*sp = strtoull(at, NULL, 16);
	return *sp != 0;
}

/* Addresses in the stacks of threads. */
static size_t read_stacks(struct reader *r, uint64_t *stacks)
{
	int fd = openat(r->target.proc_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct strbuf text = { 0 };
	struct dirent *e;
	size_t cnt = 0;

	while (dir && cnt < THREADS_MAX && (e = readdir(dir))) {
		char name[sizeof(e->d_name) + sizeof("/syscall")];

		snprintf(name, sizeof(name), "%s/syscall", e->d_name);
		if (e->d_name[0] != '.' && !read_proc(dirfd(dir), name, &text) &&
		    stack_pointer(&text, &stacks[cnt]))
			cnt++;
	}
	if (dir)
		closedir(dir);
	strbuf__free(&text);
	return cnt;
}

static int read_usage(struct reader *r)
{
	uint64_t *stacks = calloc(THREADS_MAX, sizeof(*stacks));
	struct usage_source src = {
		.mem = &r->target.mem, .resident = resident, .ctx = r, .stacks = stacks
	};
	struct usage_region *regions = NULL;
	size_t cnt = 0;
	int err = stacks ? read_proc(r->target.proc_fd, "smaps", &r->target.text) : -ENOMEM;

	r->pagemap = openat(r->target.proc_fd, "pagemap", O_RDONLY | O_CLOEXEC);
	if (stacks)
		src.stack_cnt = read_stacks(r, stacks);
	if (!err)
		err = usage__parse(r->target.text.s, r->target.text.len, &regions, &cnt);
	if (!err)
		err = usage__sum(&src, regions, cnt, &r->scan, &r->usage);
	if (r->pagemap >= 0)
		close(r->pagemap);
	free(regions);
	free(stacks);
	return err;
}

/* ---- objects --------------------------------------------------------------------------------- */

/*
 * The gc header had 24 bytes in some releases before 3.8, and has had 32 in others (3.6.9, 3.7.4):
 * the size by which objects are found is the right one.
 */
static void choose_gc_size(struct reader *r)
{
	static const uint16_t sizes[] = { 32, 24 };
	uint64_t best = 0;
	uint16_t chosen = sizes[0];

	if (r->target.shape.version > 0x0307)
		return;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct heap_scan s;
		uint64_t linked = 0;

		r->target.shape.gc_size = sizes[i];
		if (!heap_scan__init(&s, &r->target.mem, &r->target.shape) &&
		    heap_target__find_arenas(&r->target, &s) > 0) {
			s.arena_cnt = s.arena_cnt < 4 ? s.arena_cnt : 4;
			heap_scan__run(&s);
			for (size_t k = 0; k < s.types.cnt; k++)
				linked += s.types.list[k]->gc ? s.types.list[k]->cnt : 0;
		}
		heap_scan__free(&s);
		if (linked > best) {
			best = linked;
			chosen = sizes[i];
		}
	}
	r->target.shape.gc_size = chosen;
}

static int read_objects(struct reader *r)
{
	uint64_t start = now_ms();
	int err = heap_scan__init(&r->scan, &r->target.mem, &r->target.shape);

	r->scan.deadline_ns = now_ns() + PATIENCE_S * NS_PER_S;
	if (isatty(STDERR_FILENO)) {
		r->scan.progress = show_progress;
		r->scan.progress_ctx = r;
	}
	r->progress_ms = start;
	if (!err)
		err = r->arrays = heap_target__find_arenas(&r->target, &r->scan);
	if (err >= 0)
		err = heap_scan__run(&r->scan);
	end_progress(r);
	r->took_ms = now_ms() - start;
	return err;
}

/* ---- all ------------------------------------------------------------------------------------- */

static int explain(const struct reader *r, const char *what, int err)
{
	if (err == -ESRCH || (kill(r->o->pid, 0) && errno == ESRCH))
		log_err("process %d (%s): it has ended", r->o->pid, r->target.comm);
	else
		log_err("process %d (%s): %s: %s", r->o->pid, r->target.comm, what, strerror(-err));
	return err;
}

/* What was found stays in the scan until the next reading. */
static int read_once(struct reader *r, uint64_t start_ms)
{
	int err;

	heap_scan__free(&r->scan);
	err = read_objects(r);
	if (err < 0)
		return explain(r, "its heap cannot be read", err);
	if (r->o->every_s)
		err = heap_growth__add(&r->growth, &r->scan.types,
				       (double)(now_ms() - start_ms) / 60000);
	if (err)
		return explain(r, "growth", err);
	log_debug("%" PRIu64 " objects in %" PRIu64 " arenas, %" PRIu64 " ms",
		  r->scan.counts.object_cnt + r->scan.counts.outside_cnt, r->scan.counts.arena_cnt,
		  r->took_ms);
	return 0;
}

/* Sleeps until the next reading is due. True: somebody wants the end. */
static bool is_stopped(const struct heap_opts *o, uint64_t due_ms)
{
	struct pollfd p = { .fd = o->stop_fd, .events = POLLIN };
	uint64_t now = now_ms();

	return poll(&p, 1, due_ms > now ? (int)(due_ms - now) : 0) > 0;
}

/* A process that ends leaves the readings that there are. */
static int read_often(struct reader *r)
{
	uint64_t start = now_ms(), every = r->o->every_s * 1000ULL;
	int err = read_once(r, start);

	for (uint64_t n = 1; !err && n * every <= r->o->for_s * 1000ULL; n++) {
		if (is_stopped(r->o, start + n * every))
			break;
		err = read_once(r, start);
	}
	heap_growth__rank(&r->growth);
	return err;
}

static int prepare(void *ctx, struct heap_scan *scan)
{
	const struct reader *r = ctx;
	int cnt = heap_target__find_arenas(&r->target, scan);

	scan->deadline_ns = now_ns() + PATIENCE_S * NS_PER_S;
	return cnt < 0 ? cnt : 0;
}

/*
 * f_localsplus of a PyFrameObject; from 3.11 on localsplus of a _PyInterpreterFrame: behind its
 * owner, with padding.
 */
static uint16_t frame_locals(const struct py_layout *l)
{
	uint16_t shift = (uint16_t)(l->ob_type - 8);

	if (l->version >= 0x030b)
		return (uint16_t)((l->frame_owner + 8) & ~7U);
	return (uint16_t)(shift + (l->version <= 0x0306 ? 376 : l->version <= 0x0309 ? 360 : 352));
}

/*
 * co_varnames; from 3.11 on co_localsplusnames: 16 bytes before co_filename
 * (Include/cpython/code.h@3.11.7 - 3.15.2).
 */
static uint16_t code_locals(const struct py_layout *l)
{
	uint16_t shift = (uint16_t)(l->ob_type - 8);

	if (l->version >= 0x030b)
		return (uint16_t)(l->code_filename - 16);
	return (uint16_t)(shift + (l->version == 0x0207 ? 56 : l->version <= 0x0307 ? 64 : 72));
}

static int find_referrers(struct reader *r)
{
	const struct py_layout *l = &r->target.py.interp.layout;
	const struct ref_source src = {
		.scan = &r->holders,
		.prepare = prepare,
		.ctx = r,
		.str_length = l->str_length,
		.str_state = l->str_state,
		.str_ascii = l->str_ascii,
		.str_compact = l->str_compact,
		.frame_code = l->frame_code,
		.frame_locals = frame_locals(l),
		.code_name = l->code_name,
		.code_locals = code_locals(l),
		.str_is_bytes = l->str == PY_STR_BYTES,
	};
	int err = heap_scan__init(&r->holders, &r->target.mem, &r->target.shape);

	if (!err)
		err = referrers__find(&src, r->o->referrers, &r->referrers);
	if (err == -ENOENT)
		log_err("process %d (%s): it has no object of type '%s'", r->o->pid, r->target.comm,
			r->o->referrers);
	else if (err)
		explain(r, "who holds them", err);
	return err;
}

static int report(struct reader *r, const struct heap_sink *sink)
{
	struct heap_view view = {
		.tgid = (uint32_t)r->o->pid,
		.comm = r->target.comm,
		.version = r->target.py.version,
		.scan = &r->scan,
		.usage = &r->usage,
		.growth = r->o->every_s ? &r->growth : NULL,
		.array_cnt = (uint32_t)r->arrays,
		.ms = r->took_ms,
		.all = r->o->all,
		.type = r->o->referrers,
		.referrers = r->o->referrers ? &r->referrers : NULL,
	};
	int err = read_usage(r);

	return err ? explain(r, "its mappings cannot be read", err) : sink->write(sink->ctx, &view);
}

int heap(const struct heap_opts *o, const struct heap_sink *sink)
{
	struct reader *r = calloc(1, sizeof(*r));
	char why[HEAP_WHY_LEN];
	int err;

	if (!r) {
		log_no_memory();
		return 1;
	}
	r->o = o;
	if (setpriority(PRIO_PROCESS, 0, NICE_PRIORITY))
		log_debug("priority: %s", strerror(errno));
	err = heap_target__open(&r->target, o->pid, why);
	if (err)
		log_err("process %d%s%s%s: %s", o->pid, *r->target.comm ? " (" : "", r->target.comm,
			*r->target.comm ? ")" : "", why);
	if (!err) {
		choose_gc_size(r);
		err = o->every_s ? read_often(r) : read_once(r, 0);
	}
	if (!err && o->referrers)
		err = find_referrers(r);
	if (!err)
		err = report(r, sink);
	referrers__free(&r->referrers);
	heap_scan__free(&r->holders);
	heap_scan__free(&r->scan);
	heap_growth__free(&r->growth);
	heap_target__close(&r->target);
	free(r);
	return err != 0;
}
