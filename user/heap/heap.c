/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "heap/heap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ending.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/opener.h"
#include "base/terminal.h"
#include "heap/fate.h"
#include "heap/growth.h"
#include "heap/ref_labels.h"
#include "heap/referrers.h"
#include "heap/scan.h"
#include "heap/show.h"
#include "heap/target.h"
#include "heap/usage.h"
#include "process/maps_read.h"

#define PATIENCE_S   60 /* for one reading */
#define PROGRESS_MS  200
#define LABELS_MS    2000 /* of a reading, at most, if two more are to be made for names */
#define THREADS_MAX  4096
#define SYSCALL_MAX  1024
#define SMAPS_MAX    (64U << 20)
#define PAGE	     4096ULL
#define PAGES_READ   512
#define PAGE_PRESENT (1ULL << 63)

/* The result of one reading of the heap. */
struct reading {
	struct heap_scan scan;
	struct heap_usage usage;
	int arrays;
	uint64_t at_ms, took_ms;
};

/* One run of the command: a process, and what its readings have found. */
struct heap_reader {
	const struct heap_opts *o;
	struct heap_target target;
	struct heap_life life;
	enum heap_fate fate;
	int end_fd;	    /* readable when the process has ended, or -1 */
	struct reading now; /* the last one that is whole */
	uint64_t start_ms;  /* of the first one */
	uint64_t gone_ms;   /* when the process was found to be gone */
	struct heap_growth growth;
	struct heap_scan holders; /* a scan of its own: the first one is shown */
	struct referrers referrers;
	struct ref_label labels[LARGEST_CNT];
	struct opened pagemap;
	uint64_t progress_ms;
	bool progress_shown;
};

/* ---- progress -------------------------------------------------------------------------------- */

static void show_progress(void *ctx, size_t done, size_t all)
{
	struct heap_reader *r = ctx;

	if (now_ms() - r->progress_ms < PROGRESS_MS)
		return;
	r->progress_ms = now_ms();
	r->progress_shown = true;
	dprintf(STDERR_FILENO, "\rheap: %zu of %zu arenas\033[K", done, all);
}

static void end_progress(struct heap_reader *r)
{
	if (r->progress_shown)
		dprintf(STDERR_FILENO, "\r\033[K");
	r->progress_shown = false;
}

/* ---- resident memory ------------------------------------------------------------------------- */

static uint64_t resident(void *ctx, uint64_t start, uint64_t end)
{
	const struct heap_reader *r = ctx;
	uint64_t pages[PAGES_READ], sum = 0;

	for (uint64_t at = start & ~(PAGE - 1); at < end;) {
		uint64_t cnt = (end - at + PAGE - 1) / PAGE;
		ssize_t n;

		cnt = cnt < PAGES_READ ? cnt : PAGES_READ;
		n = opened__read(&r->pagemap, pages, cnt * sizeof(*pages), at / PAGE * 8);
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

/* A file of /proc/PID that waits for the process's memory. */
static int read_text(struct heap_reader *r, const char *name, size_t max, struct strbuf *text)
{
	strbuf__clear(text);
	return opener__proc_text(r->target.readers, (uint32_t)r->o->pid, r->target.proc_fd, name,
				 max, text);
}

/* Addresses in the stacks of threads. */
static size_t read_stacks(struct heap_reader *r, uint64_t *stacks)
{
	int fd = openat(r->target.proc_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct strbuf text = { 0 };
	struct dirent *e;
	size_t cnt = 0;

	while (dir && cnt < THREADS_MAX && (e = readdir(dir))) {
		char name[sizeof("task/") + sizeof(e->d_name) + sizeof("/syscall")];

		if (e->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "task/%s/syscall", e->d_name);
		if (!read_text(r, name, SYSCALL_MAX, &text) && stack_pointer(&text, &stacks[cnt]))
			cnt++;
	}
	if (dir)
		closedir(dir);
	strbuf__free(&text);
	return cnt;
}

static int read_usage(struct heap_reader *r, struct reading *one)
{
	uint64_t *stacks = calloc(THREADS_MAX, sizeof(*stacks));
	struct usage_source src = {
		.mem = &r->target.mem, .resident = resident, .ctx = r, .stacks = stacks
	};
	struct usage_region *regions = NULL;
	size_t cnt = 0;
	int err = stacks ? read_text(r, "smaps", SMAPS_MAX, &r->target.text) : -ENOMEM;

	opener__proc_file(r->target.readers, (uint32_t)r->o->pid, r->target.proc_fd, "pagemap",
			  &r->pagemap);
	if (stacks)
		src.stack_cnt = read_stacks(r, stacks);
	if (!err)
		err = usage__parse(r->target.text.s, r->target.text.len, &regions, &cnt);
	if (!err)
		err = usage__sum(&src, regions, cnt, &one->scan, &one->usage);
	opened__close(&r->pagemap);
	free(regions);
	free(stacks);
	return err;
}

/* ---- arenas of the allocator ----------------------------------------------------------------- */

/* Writable memory of no file, and, with `heap`, that of brk(). */
static size_t anonymous_ranges(const struct usage_region *regions, size_t cnt, bool heap,
			       struct heap_range *ranges)
{
	size_t used = 0;

	for (size_t i = 0; i < cnt; i++) {
		bool wanted =
			regions[i].kind == USAGE_ANON || (heap && regions[i].kind == USAGE_HEAP);

		if (!wanted || !regions[i].write)
			continue;
		if (used && ranges[used - 1].end == regions[i].start)
			ranges[used - 1].end = regions[i].end;
		else
			ranges[used++] = (struct heap_range){ regions[i].start, regions[i].end };
	}
	return used;
}

/*
 * How many arrays of arenas, or segments, or negative errno. mimalloc's segments are anonymous
 * memory at multiples of 32 MiB; arrays of arenas are malloc's.
 */
static int find_arenas(struct heap_reader *r, struct heap_scan *s)
{
	bool segments = s->types.shape.free_threaded;
	struct usage_region *regions = NULL;
	struct heap_range *ranges = NULL;
	size_t cnt = 0;
	int err = read_text(r, "maps", SMAPS_MAX, &r->target.text);

	s->module = r->target.module;
	if (!err)
		err = usage__parse(r->target.text.s, r->target.text.len, &regions, &cnt);
	if (!err) {
		ranges = calloc(cnt + 1, sizeof(*ranges));
		err = ranges ? 0 : -ENOMEM;
	}
	cnt = err ? 0 : anonymous_ranges(regions, cnt, !segments, ranges);
	free(regions);
	if (!err)
		err = segments ? heap_scan__add_segments(s, ranges, cnt)
			       : heap_target__find_arenas(&r->target, ranges, cnt, s);
	free(ranges);
	return err;
}

/* ---- objects --------------------------------------------------------------------------------- */

/*
 * The gc header had 24 bytes in some releases before 3.8, and has had 32 in others (3.6.9, 3.7.4):
 * the size by which objects are found is the right one.
 */
static void choose_gc_size(struct heap_reader *r)
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
		    find_arenas(r, &s) > 0) {
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

static int read_objects(struct heap_reader *r, struct reading *one)
{
	uint64_t start = now_ms();
	int err = heap_scan__init(&one->scan, &r->target.mem, &r->target.shape);

	one->at_ms = start;
	one->scan.deadline_ns = now_ns() + PATIENCE_S * NS_PER_S;
	if (isatty(STDERR_FILENO)) {
		one->scan.progress = show_progress;
		one->scan.progress_ctx = r;
	}
	r->progress_ms = start;
	if (!err)
		err = one->arrays = find_arenas(r, &one->scan);
	if (err >= 0)
		err = heap_scan__run(&one->scan);
	end_progress(r);
	one->took_ms = now_ms() - start;
	return err < 0 ? err : 0;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* True: the process that was opened is gone, which explains any failure. */
static bool is_gone(struct heap_reader *r)
{
	if (r->fate == HEAP_RUNS) {
		r->fate = heap_life__fate(&r->life, r->target.proc_fd);
		r->gone_ms = now_ms();
	}
	return r->fate != HEAP_RUNS;
}

static int explain(struct heap_reader *r, const char *what, int err)
{
	if (is_gone(r) || err == -ESRCH)
		log_err("process %d (%s): it %s", r->o->pid, r->target.comm,
			r->fate == HEAP_EXECED ? "runs another program now" : "has ended");
	else
		log_err("process %d (%s): %s: %s", r->o->pid, r->target.comm, what,
			err == -ETIMEDOUT ? "its memory does not answer" : reader__why(err));
	return err;
}

/*
 * Replaces the last reading, unless the process has gone meanwhile: memory that is gone reads like
 * an empty heap.
 */
static int read_once(struct heap_reader *r)
{
	struct reading one = { 0 };
	const char *what = "its heap cannot be read";
	int err;

	pace__begin(&r->target.pace, r->target.readers);
	err = read_objects(r, &one);
	if (!err) {
		what = "its mappings cannot be read";
		err = read_usage(r, &one);
	}
	if (r->target.silent)
		err = -ETIMEDOUT;
	if (is_gone(r))
		err = -ESRCH;
	/* Of several, the last one counts only if it is whole: a signal came. */
	if (!err && one.scan.counts.late && ending__asked() && r->growth.readings) {
		heap_scan__free(&one.scan);
		return 0;
	}
	if (!err && r->o->every_s) {
		what = "growth";
		err = heap_growth__add(&r->growth, &one.scan.types,
				       (double)(one.at_ms - r->start_ms) / 60000);
	}
	if (err) {
		heap_scan__free(&one.scan);
		return r->growth.readings && is_gone(r) ? err : explain(r, what, err);
	}
	log_debug("%" PRIu64 " objects in %" PRIu64 " arenas, %" PRIu64 " ms",
		  one.scan.counts.object_cnt + one.scan.counts.outside_cnt,
		  one.scan.counts.arena_cnt, one.took_ms);
	heap_scan__trim(&one.scan);
	heap_scan__free(&r->now.scan);
	r->now = one;
	return 0;
}

/*
 * Sleeps until the next reading is due, or the process ends. True: somebody wants the end, or it is
 * there.
 */
static bool is_stopped(const struct heap_reader *r, uint64_t due_ms)
{
	struct pollfd p[] = { { .fd = r->o->stop_fd, .events = POLLIN },
			      { .fd = r->end_fd, .events = POLLIN } };
	uint64_t now = now_ms();

	return poll(p, 2, due_ms > now ? (int)(due_ms - now) : 0) > 0;
}

/*
 * When the next reading is due: one that took longer than the time between two of them leaves some
 * out, but not so many that too few are left.
 */
static uint64_t next_due(const struct heap_reader *r, uint64_t due_ms)
{
	uint64_t every = r->o->every_s * 1000ULL, now = now_ms();

	due_ms += every;
	if (due_ms >= now || r->growth.readings < HEAP_READINGS_MIN)
		return due_ms;
	return due_ms + (now - due_ms + every - 1) / every * every;
}

/* A process that ends leaves the readings that there are. */
static int read_often(struct heap_reader *r)
{
	uint64_t end_ms = r->start_ms + r->o->for_s * 1000ULL, due_ms = r->start_ms;
	int err;

	r->end_fd = heap_life__watch(r->o->pid);
	err = read_once(r);
	while (!err) {
		due_ms = next_due(r, due_ms);
		if (due_ms > end_ms || is_stopped(r, due_ms))
			break;
		err = read_once(r);
	}
	if (r->growth.readings && is_gone(r))
		err = 0;
	heap_growth__rank(&r->growth);
	if (r->end_fd >= 0)
		close(r->end_fd);
	return err;
}

static int prepare(void *ctx, struct heap_scan *scan)
{
	int cnt = find_arenas(ctx, scan);

	scan->deadline_ns = now_ns() + PATIENCE_S * NS_PER_S;
	return cnt < 0 ? cnt : 0;
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

static struct ref_source source_of(struct heap_reader *r)
{
	const struct py_layout *l = &r->target.py.interp.layout;

	return (struct ref_source){
		.scan = &r->holders,
		.prepare = prepare,
		.ctx = r,
		.layout = l,
		.frame_locals = py_layout__frame_locals(l),
		.code_locals = code_locals(l),
		.interp_head = r->target.bias + r->target.py.interp.interp_head,
	};
}

static int open_holders(struct heap_reader *r)
{
	return r->holders.mem ? 0 : heap_scan__init(&r->holders, &r->target.mem, &r->target.shape);
}

static int find_referrers(struct heap_reader *r)
{
	const struct ref_source src = source_of(r);
	int err = open_holders(r);

	if (!err)
		err = referrers__find(&src, r->o->referrers, &r->referrers);
	if (err == -ENOENT)
		log_err("process %d (%s): it has no object of type '%s'", r->o->pid, r->target.comm,
			r->o->referrers);
	else if (err || r->target.silent)
		err = explain(r, "who holds them", r->target.silent ? -ETIMEDOUT : err);
	return err;
}

/*
 * Names are for people, and cost two more readings: a heap that takes long to read, or that is gone
 * meanwhile, has none.
 */
static void label_largest(struct heap_reader *r)
{
	const struct ref_source src = source_of(r);
	size_t cnt = 0;

	if (is_gone(r) || ending__asked() || r->target.shape.free_threaded ||
	    r->now.took_ms > LABELS_MS || open_holders(r))
		return;
	while (cnt < LARGEST_CNT && r->now.scan.largest[cnt].type)
		cnt++;
	if (ref_labels__find(&src, r->now.scan.largest, cnt, r->labels) || is_gone(r))
		ref_labels__free(r->labels, LARGEST_CNT);
}

static int report(struct heap_reader *r, const struct heap_sink *sink)
{
	struct heap_view view = {
		.tgid = (uint32_t)r->o->pid,
		.comm = r->target.comm,
		.title = r->target.title,
		.version = r->target.py.version,
		.fate = r->fate,
		.gone_ms = r->gone_ms - r->start_ms,
		.last_ms = r->now.at_ms - r->start_ms,
		.scan = &r->now.scan,
		.usage = &r->now.usage,
		.growth = r->o->every_s ? &r->growth : NULL,
		.array_cnt = (uint32_t)r->now.arrays,
		.ms = r->now.took_ms,
		.all = r->o->all,
		.type = r->o->referrers,
		.referrers = r->o->referrers ? &r->referrers : NULL,
		.labels = r->labels,
	};

	return sink->write(sink->ctx, &view);
}

int heap(const struct heap_opts *o, const struct heap_sink *sink)
{
	struct heap_reader *r = calloc(1, sizeof(*r));
	char why[HEAP_WHY_LEN];
	int err;

	if (!r) {
		log_no_memory();
		return 1;
	}
	r->o = o;
	err = heap_target__open(&r->target, o->pid, why);
	if (err && r->target.proc_fd >= 0 &&
	    heap_life__fate(&r->life, r->target.proc_fd) == HEAP_ENDED)
		snprintf(why, sizeof(why), "it has ended");
	if (err)
		log_err("process %d%s%s%s: %s", o->pid, *r->target.comm ? " (" : "", r->target.comm,
			*r->target.comm ? ")" : "", why);
	if (!err) {
		heap_life__note(&r->life, r->target.proc_fd);
		choose_gc_size(r);
		r->start_ms = now_ms();
		err = o->every_s ? read_often(r) : read_once(r);
	}
	if (!err && o->referrers && r->target.shape.free_threaded) {
		log_err("process %d (%s): --referrers does not know the objects of free-threaded "
			"builds yet",
			o->pid, r->target.comm);
		err = -ENOTSUP;
	}
	if (!err && o->referrers)
		err = find_referrers(r);
	if (!err) {
		label_largest(r);
		err = report(r, sink);
	}
	ref_labels__free(r->labels, LARGEST_CNT);
	referrers__free(&r->referrers);
	heap_scan__free(&r->holders);
	heap_scan__free(&r->now.scan);
	heap_growth__free(&r->growth);
	heap_target__close(&r->target);
	free(r);
	return err != 0;
}
