/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "follow/follow.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/idmap.h"
#include "base/log.h"
#include "follow/cpus.h"
#include "follow/readcode.h"
#include "follow/wake.h"

#define RETRY_MS     10	  /* an interpreter that is still starting is asked again */
#define MAKE_GOOD_MS 1000 /* lost events are made good this often at most */
#define CODES_MAX    256  /* code objects whose names wait until there is time to read them */

struct follow {
	struct follow_opts o;
	struct readers *readers;
	struct object *object;
	struct rings *rings;
	struct symbolizer *sym;
	struct mmapwatch *watch;
	struct process_table *procs;
	struct cpus cpus;
	struct wake wake;
	uint64_t looked_ns;    /* the last follow__look() has ended */
	uint64_t events_lost;  /* which were made good */
	uint64_t make_good_ns; /* not before that again */
	uint64_t throttled;
	int retry;	       /* processes that are to be asked again soon */
	bool exits;	       /* since follow__take_exits() */
	bool changed;	       /* since follow__take_changes() */
	bool hurry;	       /* a process lives without an image */
	bool behind;	       /* there may be events that wake nobody */
	bool areas;	       /* BPF runs where address ranges are given out, see follow_areas() */
	struct ev_code *codes; /* CODES_MAX; NULL: none was put off yet */
	size_t code_cnt;
};

/* ---- what the kernel tells ------------------------------------------------------------------- */

/* A process of interest begins, or has other code. */
static bool is_stir(const struct ev_proc *ev)
{
	return ev->type == EV_AREA || ev->type == EV_UNSHARE ||
	       (ev->type == EV_EXEC && !(ev->status & PROC_PLAIN));
}

static void on_proc(void *ctx, const struct ev_proc *ev)
{
	struct follow *f = ctx;

	f->exits |= ev->type == EV_EXIT;
	f->changed |= ev->type != EV_DRAIN && ev->type != EV_AREA;
	f->hurry |= ev->type == EV_UNSHARE || (ev->type == EV_EXEC && !(ev->status & PROC_PLAIN));
	if (is_stir(ev))
		wake__stir(&f->wake, now_ns());
	if (ev->type == EV_AREA && ev->status == AREA_COMING)
		wake__coming(&f->wake, ev->tgid, ev->time_ns);
	process_table__on_event(f->procs, ev);
}

static void on_blob(void *ctx, const struct ev_blob *ev, size_t size)
{
	struct follow *f = ctx;

	sym_python__on_blob(symbolizer__python(f->sym), ev, size);
}

static void on_code(void *ctx, const struct ev_code *ev, size_t size)
{
	struct follow *f = ctx;

	if (readcode__take(symbolizer__python(f->sym), f->procs, ev, size) != -EBUSY)
		return;
	if (!f->codes)
		f->codes = calloc(CODES_MAX, sizeof(*f->codes));
	if (f->codes && f->code_cnt < CODES_MAX)
		f->codes[f->code_cnt++] = *ev;
}

static void read_codes_again(struct follow *f)
{
	size_t kept = 0;

	for (size_t i = 0; i < f->code_cnt; i++)
		if (readcode__again(symbolizer__python(f->sym), f->procs, &f->codes[i]) == -EBUSY)
			f->codes[kept++] = f->codes[i];
	f->code_cnt = kept;
}

static void on_stack(void *ctx, unsigned window, const struct ev_stack *ev, size_t size)
{
	struct follow *f = ctx;

	f->o.stack(f->o.stack_ctx, window, ev, size);
}

static void on_watch(void *ctx, const struct mmap_event *ev)
{
	struct follow *f = ctx;

	if (ev->type == MMAP_EVENT_THROTTLE) {
		f->throttled++;
		return;
	}
	if (ev->type == MMAP_EVENT_MMAP)
		wake__mapped(&f->wake, ev->tgid, ev->time_ns);
	process_table__on_mmap(f->procs, ev);
}

void follow__sink(struct follow *f, struct ring_sink *sink)
{
	*sink = (struct ring_sink){ .ctx = f, .proc = on_proc };
	if (f->o.names) {
		sink->code = on_code;
		sink->blob = on_blob;
	}
	if (f->o.stack)
		sink->stack = on_stack;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int open_object(struct follow *f)
{
	struct ring_sink sink;

	f->object = object__open(&f->o.object);
	if (!f->object)
		return -EIO;
	follow__sink(f, &sink);
	f->rings = rings__open(f->object, &sink);
	if (!f->rings)
		return -EIO;
	return cpus__init(&f->cpus, object__cpu_cap(f->object)) ? log_no_memory() : 0;
}

static int open_procs(struct follow *f)
{
	struct process_maps maps;

	f->sym = symbolizer__new(f->o.processes.readers);
	if (!f->sym)
		return log_no_memory();
	object__process_maps(f->object, &maps);
	f->procs = process_table__new(&maps, symbolizer__sink(f->sym), &f->o.processes);
	if (f->procs)
		return 0;
	log_err("the table of processes: %s", strerror(errno));
	return -errno;
}

static int open_watch(struct follow *f)
{
	bool each = f->o.watch == FOLLOW_WATCH_EACH;

	if (f->o.watch == FOLLOW_NO_WATCH)
		return 0;
	f->watch = perf_events__take_watch(f->o.events);
	if (!f->watch)
		f->watch = mmapwatch__new(0, each ? MMAPWATCH_EACH : MMAPWATCH_HALF);
	if (!f->watch) {
		int err = -errno;

		perf__explain("watching for new mappings", err);
		return err;
	}
	return 0;
}

static int open_all(struct follow *f)
{
	int err = open_object(f);

	if (!err)
		err = open_procs(f);
	if (err)
		return err;
	if (f->o.prepare)
		process_table__prepare(f->procs); /* while programs are being loaded */
	err = object__attach_lifecycle(f->object);
	f->areas = !err;
	return err ? err : open_watch(f);
}

struct follow *follow__open(const struct follow_opts *o)
{
	struct follow *f = calloc(1, sizeof(*f));

	if (!f) {
		log_no_memory();
		return NULL;
	}
	f->o = *o;
	f->readers = f->o.processes.readers = readers__new();
	readers__start(f->readers);
	f->exits = true; /* no event reports a process that ended during the look */
	if (!open_all(f))
		return f;
	follow__close(f);
	return NULL;
}

struct readers *follow__take_readers(struct follow *f)
{
	struct readers *rs = f->readers;

	f->readers = NULL;
	return rs;
}

void follow__close(struct follow *f)
{
	if (!f)
		return;
	symbolizer__free(f->sym);
	process_table__free(f->procs);
	mmapwatch__free(f->watch);
	rings__close(f->rings);
	object__close(f->object);
	cpus__free(&f->cpus);
	readers__free(f->readers);
	free(f->codes);
	free(f);
}

int follow__scan(struct follow *f)
{
	int err = process_table__scan(f->procs);

	f->retry = process_table__to_read(f->procs);
	return err;
}

void follow__end(struct follow *f)
{
	rings__close(f->rings);
	f->rings = NULL;
	object__unmap(f->object);
}

/* ---- looking --------------------------------------------------------------------------------- */

int follow__fd(const struct follow *f)
{
	return rings__fd(f->rings);
}

int follow__watch_fd(const struct follow *f)
{
	return f->watch ? mmapwatch__fd(f->watch) : -1;
}

void follow__read(struct follow *f)
{
	if (f->watch)
		mmapwatch__read(f->watch, on_watch, f);
	f->behind = rings__consume(f->rings) > 0;
}

/*
 * Attaches the BPF program at the allocation of address ranges while it is needed: see wake.h. In
 * NMI no sample reports new code, so there it stays attached. It is attached before a process is
 * read, and so sees mappings that come after the reading.
 */
static void follow_areas(struct follow *f)
{
	bool nmi = f->o.object.flags & CFG_NMI;
	size_t restless = process_table__restless(f->procs);

	f->areas = nmi || wake__follow(&f->wake, now_ns(), restless);
	object__follow_areas(f->object, f->areas);
}

void follow__look(struct follow *f)
{
	read_codes_again(f);
	follow__read(f);
	f->hurry = false;
	follow_areas(f);
	f->retry = process_table__refresh(f->procs);
	f->looked_ns = now_ns();
}

/*
 * If the processes were named (-p), a new program is looked at without delay, because its samples
 * would have no image.
 */
void follow__gather(struct follow *f, uint32_t frequency_hz)
{
	struct pollfd fd = { .fd = follow__fd(f), .events = POLLIN };
	uint64_t now, end = wake__gather_until(f->looked_ns, frequency_hz);
	bool some = f->o.processes.pid_cnt;
	struct timespec rest;

	if (!some)
		rings__hush(f->rings); /* a wake-up costs 6 us, and would not end the wait */
	for (now = now_ns(); now < end && !f->hurry; now = now_ns()) {
		rest = (struct timespec){ (time_t)((end - now) / NS_PER_S),
					  (long)((end - now) % NS_PER_S) };
		if (some)
			follow__read(f); /* before: they would end the wait */
		if (!f->hurry && ppoll(&fd, some, &rest, NULL) < 0)
			return;
	}
}

uint64_t follow__due_ns(const struct follow *f)
{
	uint64_t now = now_ns(), due = process_table__check_ns(f->procs);

	if (f->behind)
		return 0;
	if (f->retry && now + RETRY_MS * NS_PER_MS < due)
		due = now + RETRY_MS * NS_PER_MS;
	if (f->areas && now < f->wake.calm_ns && f->wake.calm_ns < due)
		due = f->wake.calm_ns;
	return due;
}

uint64_t follow__await_ns(struct follow *f)
{
	return wake__await_ns(&f->wake, now_ns());
}

void follow__stir(struct follow *f)
{
	wake__stir(&f->wake, now_ns());
}

void follow__make_good(struct follow *f)
{
	uint64_t lost = object__events_lost(f->object);

	if (lost == f->events_lost || now_ns() < f->make_good_ns)
		return;
	f->make_good_ns = now_ns() + MAKE_GOOD_MS * NS_PER_MS;
	f->events_lost = lost;
	process_table__resync(f->procs);
}

const bool *follow__cpus(struct follow *f)
{
	if (!cpus__look(&f->cpus))
		return NULL;
	for (int cpu = 0; f->watch && cpu < f->cpus.cap; cpu++)
		if (f->cpus.came[cpu])
			mmapwatch__cpu_online(f->watch, cpu);
	return f->cpus.online;
}

void follow__cpus_again(struct follow *f)
{
	cpus__again(&f->cpus);
}

uint32_t follow__cpu_cnt(const struct follow *f)
{
	return cpus__seen(&f->cpus);
}

bool follow__take_exits(struct follow *f)
{
	bool exits = f->exits;

	f->exits = false;
	return exits;
}

bool follow__take_changes(struct follow *f)
{
	bool changed = f->changed;

	f->changed = false;
	return changed;
}

bool follow__changed(const struct follow *f)
{
	return f->changed;
}

uint64_t follow__throttled(const struct follow *f)
{
	return f->throttled;
}

/* ---- names ----------------------------------------------------------------------------------- */

static int add_module(const struct process_table *pt, struct profile *p, uint32_t file)
{
	const struct elf_file *ef = process_table__file(pt, file);
	char hex[2 * BUILD_ID_MAX + 1];
	struct profile_module m = { .file = file };

	if (!ef)
		return 0;
	elf_file__id_hex(ef, hex);
	m.path = profile__intern_z(p, elf_file__path(ef));
	m.build_id = profile__intern_z(p, hex);
	elf_file__text(ef, &m.start, &m.limit);
	return profile__add_module(p, &m);
}

static int add_modules(const struct process_table *pt, struct profile *p)
{
	struct idmap seen = { 0 };
	int err = 0;

	for (size_t i = 0; i < p->module_cnt && !err; i++)
		err = idmap__set(&seen, p->modules[i].file, p);
	for (size_t i = 0; i < p->frame_cnt && !err; i++) {
		uint32_t file = NATIVE_FILE(p->frames[i]);

		if (FRAME_TAG(p->frames[i]) != FRAME_NATIVE || idmap__get(&seen, file))
			continue;
		err = idmap__set(&seen, file, p);
		if (!err)
			err = add_module(pt, p, file);
		err = err < 0 ? err : 0;
	}
	idmap__free(&seen);
	return err;
}

int follow__names(struct follow *f, struct profile *p, const struct symbolize_opts *so)
{
	int err = add_modules(f->procs, p);

	if (!err)
		err = symbolizer__run(f->sym, p, so);
	if (err)
		log_err("names: %s", strerror(-err));
	return err;
}

static bool code_was_named(void *python, uint64_t id)
{
	return sym_python__was_named(python, id);
}

/*
 * Makes BPF forget the code objects that no profile has named lately. No later sample uses a code
 * object that BPF does not remember, and earlier samples are in the window that the next drain
 * reads. So a code object that BPF knows neither now nor after the profile of that drain will not
 * be named any more.
 */
static void forget_codes(struct follow *f, size_t budget)
{
	struct sym_python *python = symbolizer__python(f->sym);
	size_t cnt;
	uint64_t *ids = NULL;
	int err = 0;

	sym_python__begin_round(python);
	if (!sym_python__wants_sweep(python, budget ? budget : SYM_PYTHON_BUDGET))
		return;
	err = object__code_ids(f->object, code_was_named, python, &ids, &cnt);
	if (!err)
		err = sym_python__sweep(python, ids, cnt);
	if (err)
		log_debug("forgetting code objects: %s", strerror(-err));
	free(ids);
}

void follow__forget_names(struct follow *f, size_t budget)
{
	process_table__forget_names(f->procs);
	sym_jit__forget_names(symbolizer__jit(f->sym));
	forget_codes(f, budget);
}

bool follow__worn(const struct follow *f)
{
	struct process_stats procs;
	struct file_stats files;

	process_table__stats(f->procs, &procs);
	process_table__file_stats(f->procs, &files);
	return procs.last_space > UINT32_MAX / 2 || files.last_id > FRAME_NATIVE_FILE / 2 ||
	       sym_python__last_id(symbolizer__python(f->sym)) > CODE_IDS_HOST / 2;
}

/* ---- what others take ------------------------------------------------------------------------ */

struct object *follow__object(const struct follow *f)
{
	return f->object;
}

struct process_table *follow__procs(const struct follow *f)
{
	return f->procs;
}

struct symbolizer *follow__symbolizer(const struct follow *f)
{
	return f->sym;
}

int follow__add_blobs(struct follow *f, int fd)
{
	return rings__add_blobs(f->rings, fd);
}

void follow__world(const struct follow *f, struct world *w)
{
	*w = (struct world){ .events = f->o.events, .watch = f->watch, .readers = f->readers };
	object__world(f->object, w);
}
