/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The reference count of one object (-e refcount:ADDRESS): the stacks that took references to it,
 * and those that dropped some. The CPU has watchpoints, four of them, of which perf gives one to
 * each thread of the process; the programs and the tables are those of an object of its own
 * (bpf/refcount.bpf.c).
 *
 * Each write to the count costs the process a trap. So a thread of our own looks how many there
 * are, and ends it when they become too many.
 */
#include "sources/sources.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/opener.h"
#include "base/reader.h"
#include "pyperf.skel.h"
#include "refcount.skel.h"
#include "sources/side_object.h"
#include "sources/watcher.h"

SIDE_SAME_BSS(refcount_bpf__bss);

#define REFCOUNT_OBJECT 6 /* see pyperf_cfg.object */
#define ALIGNED		8
#define THREADS_MAX	4096
#define LISTS_MAX	8    /* of threads, until one has no new ones */
#define CHANGES_MAX	4000 /* a second: 25 us each on a virtual machine, a tenth of a CPU */

struct watchpoint {
	pid_t tid;
	int fd;
	struct bpf_link *link; /* closes it as well */
};

struct refcounting {
	struct readers *readers; /* helpers that read memory of processes; borrowed, or NULL */
	struct refcount_bpf *skel;
	struct side_object side;
	pid_t pid;
	uint64_t addr;
	struct watchpoint *points; /* owned */
	size_t cnt, cap;
	struct watcher watcher; /* it has the watchpoints while it runs */
};

/* ---- the object ------------------------------------------------------------------------------ */

static bool parse_address(const char *text, uint64_t *addr)
{
	char *end;

	errno = 0;
	*addr = strtoull(text, &end, 16);
	return !strncmp(text, "0x", 2) && !*end && !errno && *addr && *addr % ALIGNED == 0;
}

static int parse(struct source_spec *spec)
{
	uint64_t addr;

	if (parse_address(spec->args, &addr))
		return 0;
	log_err("-e refcount:%s: must be refcount:0xADDRESS, the address of an object, "
		"which pyperf-bpf heap --referrers TYPE and id() show",
		spec->args);
	return -EINVAL;
}

static int open_object(struct source_use *u, const struct world *w)
{
	struct refcounting *x = u->state;
	struct refcount_cfg *cfg;

	x->skel = refcount_bpf__open_opts(side_object__begin(&x->side, w));
	if (!x->skel)
		return -errno;
	cfg = (struct refcount_cfg *)&x->skel->rodata->refcount_cfg;
	cfg->addr = x->addr;
	cfg->taken_type = u->type;
	cfg->dropped_type = u->type + 1;
	u->side = &x->side;
	return side_object__load(&x->side, x->skel->skeleton,
				 (struct pyperf_cfg *)&x->skel->rodata->cfg, REFCOUNT_OBJECT);
}

static int refcount_open(struct source_use *u, const struct world *w)
{
	struct refcounting *x;
	int err;

	if (w->pid_cnt != 1) {
		log_err("-e refcount: an object belongs to one process: name that with -p");
		return -EINVAL;
	}
	u->state = x = calloc(1, sizeof(*x));
	if (!x)
		return log_no_memory();
	x->readers = w->readers;
	x->pid = w->pids[0];
	parse_address(u->spec.args, &x->addr);
	err = open_object(u, w);
	if (err)
		log_err("the BPF object of reference counts: %s", strerror(-err));
	return err;
}

/* ---- watchpoints ----------------------------------------------------------------------------- */

/* Threads that it starts have it, too; not what it forks or executes, whose memory is another. */
static int open_watchpoint(pid_t tid, uint64_t addr)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_BREAKPOINT,
		.bp_type = HW_BREAKPOINT_W,
		.bp_addr = addr,
		.bp_len = HW_BREAKPOINT_LEN_4,
		.sample_period = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.disabled = 1,
		.inherit = 1,
		.inherit_thread = 1,
		.remove_on_exec = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static bool is_watched(const struct refcounting *x, pid_t tid)
{
	for (size_t i = 0; i < x->cnt; i++)
		if (x->points[i].tid == tid)
			return true;
	return false;
}

/* 1: it is watched now; 0: it has ended; or negative errno. */
static int watch_thread(struct refcounting *x, pid_t tid)
{
	struct watchpoint p = { .tid = tid };
	int err = ARRAY_GROW(x->points, x->cap, x->cnt, THREADS_MAX);

	if (err)
		return err;
	p.fd = open_watchpoint(tid, x->addr);
	if (p.fd < 0)
		return p.fd == -ESRCH ? 0 : p.fd;
	p.link = bpf_program__attach_perf_event(x->skel->progs.on_write, p.fd);
	if (!p.link) {
		err = -errno;
		close(p.fd);
		return err;
	}
	x->points[x->cnt++] = p;
	return 1;
}

/* How many are new, or negative errno. */
static int watch_new_threads(struct refcounting *x, int proc_fd)
{
	int fd = openat(proc_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC), cnt = 0, err = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!dir)
		return -ESRCH;
	while (err >= 0 && (e = readdir(dir))) {
		pid_t tid = atoi(e->d_name);

		if (tid <= 0 || is_watched(x, tid))
			continue;
		err = watch_thread(x, tid);
		cnt += err > 0;
	}
	closedir(dir);
	return err < 0 ? err : cnt;
}

static void detach(struct refcounting *x)
{
	while (x->cnt)
		bpf_link__destroy(x->points[--x->cnt].link);
}

static void explain(const struct refcounting *x, int err)
{
	if (err == -ENOSPC)
		log_err("-e refcount: process %d: no watchpoint is free: a debugger may have them",
			x->pid);
	else if (err == -ENOENT || err == -EOPNOTSUPP || err == -ENODEV || err == -EINVAL)
		log_err("-e refcount: this machine or this kernel (before Linux 5.13) has no "
			"watchpoints: %s",
			strerror(-err));
	else
		log_err("-e refcount: watching 0x%" PRIx64 " of process %d: %s", x->addr, x->pid,
			strerror(-err));
}

/* A thread that starts another one while its own watchpoint is missing: the next list has both. */
static int watch_all(struct refcounting *x)
{
	int proc_fd = opener__proc_dir((uint32_t)x->pid), err = proc_fd;

	for (int i = 0; proc_fd >= 0 && i < LISTS_MAX; i++) {
		err = watch_new_threads(x, proc_fd);
		if (err <= 0)
			break;
	}
	if (proc_fd >= 0)
		close(proc_fd);
	if (!err && !x->cnt)
		err = -ESRCH;
	if (err < 0)
		explain(x, err);
	return err < 0 ? err : 0;
}

/* ---- counting -------------------------------------------------------------------------------- */

static int state_fd(const struct refcounting *x)
{
	return side_object__map_fd(&x->side, "refcounts");
}

static struct refcount_state state_of(const struct refcounting *x)
{
	struct refcount_state s = { 0 };
	uint32_t zero = 0;

	bpf_map_lookup_elem(state_fd(x), &zero, &s);
	return s;
}

/* From the count that it has now, which the next change is compared with. */
static int switch_on(struct refcounting *x)
{
	struct refcount_state s = { .on = 1 };
	uint32_t zero = 0;
	int err = reader__read(x->readers, (uint32_t)x->pid, &s.count, sizeof(s.count), x->addr);

	if (!err && !s.count) {
		log_err("-e refcount: process %d: there is no object at 0x%" PRIx64
			": its count is 0",
			x->pid, x->addr);
		return -EINVAL;
	}
	if (err) {
		log_err("-e refcount: process %d: 0x%" PRIx64 " cannot be read: %s", x->pid,
			x->addr, strerror(-err));
		return err;
	}
	return bpf_map_update_elem(state_fd(x), &zero, &s, BPF_ANY);
}

static void *watch(void *arg)
{
	struct refcounting *x = arg;
	uint64_t before = 0;
	int dear = 0;

	while (watcher__goes_on(&x->watcher)) {
		uint64_t now = state_of(x).changes;

		dear = (now - before) * 1000 > CHANGES_MAX * WATCHER_MS ? dear + 1 : 0;
		if (dear == WATCHER_DEAR_MAX) {
			detach(x);
			log_warn("-e refcount: the count changes %" PRIu64
				 " times a second, and each change costs a trap: stopped. The "
				 "results are those up to then",
				 (now - before) * 1000 / WATCHER_MS);
			break;
		}
		before = now;
	}
	return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int refcount_start(struct source_use *u)
{
	struct refcounting *x = u->state;
	int err = side_object__ready(&x->side, x->skel->progs.on_change, "reference counts");

	if (!err)
		err = watch_all(x);
	if (!err)
		err = switch_on(x);
	if (!err)
		err = watcher__start(&x->watcher, "refcount", watch, x);
	if (err)
		detach(x);
	return err;
}

static int refcount_set_rate(struct source_use *u)
{
	(void)u; /* each change counts */
	return 0;
}

static void refcount_stop(struct source_use *u)
{
	struct refcounting *x = u->state;
	struct refcount_state s;

	if (!x || !x->watcher.runs)
		return;
	watcher__stop(&x->watcher);
	detach(x);
	s = state_of(x);
	log_debug("-e refcount: %" PRIu64 " changes; the count is %" PRIu32, (uint64_t)s.changes,
		  s.count);
	if (s.freed)
		log_warn(
			"-e refcount: the object was freed: later uses of its memory do not count");
	if (s.unread)
		log_warn("-e refcount: %" PRIu64 " changes could not be read", (uint64_t)s.unread);
}

static void refcount_close(struct source_use *u)
{
	struct refcounting *x = u->state;

	if (!x)
		return;
	refcount_stop(u);
	side_object__end(&x->side);
	refcount_bpf__destroy(x->skel);
	free(x->points);
	free(x);
	u->state = NULL;
}

/* A word of our own. */
static const char *check(const struct source *s)
{
	uint32_t word = 0;
	int fd = open_watchpoint(0, (uint64_t)(uintptr_t)&word & ~7ULL);

	(void)s;
	if (fd == -EACCES || fd == -EPERM)
		return "not permitted: ask as root";
	if (fd < 0)
		return "no watchpoints here (Linux 5.13)";
	close(fd);
	return NULL;
}

const struct source refcount_sources[] = {
	{ .type = { .event = EVENT_REFS_TAKEN },
	  .usage = "refcount:ADDRESS",
	  .called = "refcount",
	  .step = 1,
	  .with = EVENT_REFS_DROPPED,
	  .parse = parse,
	  .open = refcount_open,
	  .start = refcount_start,
	  .set_rate = refcount_set_rate,
	  SIDE_SOURCE,
	  .stop = refcount_stop,
	  .close = refcount_close,
	  .check = check },
	{ .type = { .event = EVENT_REFS_DROPPED },
	  .of = EVENT_REFS_TAKEN,
	  SOURCE_COMPANION,
	  .check = check },
	{ .check = NULL },
};
