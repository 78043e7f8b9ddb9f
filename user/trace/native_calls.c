/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/native_calls.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/foreign.h"
#include "base/hash.h"
#include "base/loader.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/opener.h"
#include "base/signals.h"
#include "base/str.h"
#include "base/stream.h"
#include "bpf/native.h"
#include "follow/held.h"
#include "follow/object.h"
#include "follow/uprobe.h"
#include "native.skel.h"
#include "process/called.h"
#include "process/maps_read.h"
#include "process/mapped.h"
#include "process/mmapwatch.h"
#include "process/pidns.h"
#include "trace/call_picture.h"
#include "trace/lost.h"
#include "trace/native_tree.h"
#include "trace/price.h"
#include "trace/probe_price.h"

#define DRAIN_MS       50
#define LATE_MS	       100	  /* after which an event has come from either ring */
#define EVENTS_AT_ONCE 262144	  /* of a ring: as many as have room */
#define STEPS_ROOM     (1U << 19) /* events that wait for those of the other ring, and for us */
#define LINKS_MAX      1024
#define CLOSE_MAX      64   /* at once: nothing is drained meanwhile */
#define CLOSE_MS       1000 /* from one time to the next one */
#define LOOK_MS	       100  /* at least, from one look at all processes to the next one */
#define LOOK_PART      10   /* ... and so many times the time that it took */
#define NAMES_MAX      8    /* a program that was just executed has no arguments for a moment */

/* A process with breakpoints. */
struct followed {
	pid_t pid;
	int link;
};

struct native {
	const struct native_opts *o;
	struct readers *readers;
	struct elf_file *ef;
	const char *file;    /* its last part */
	char path[PATH_MAX]; /* of the file, if --lib names it; "" */
	struct native_functions functions;
	uint32_t first;
	uint32_t spots; /* that are set */
	struct native_bpf *skel;
	struct ring_buffer *ring;
	struct target target; /* with Python */
	struct tracer *tracer;
	struct native_tree *tree;
	struct call_picture *picture; /* NULL: not wanted */
	struct mmapwatch *watch;      /* of a command: who maps the file; else NULL */
	struct uprobe_spot *all;      /* the breakpoints that are wanted */
	struct followed *links;
	size_t link_cnt, link_cap, links_max;
	uint64_t closed_ns; /* when links were last looked through */
	struct held_watch held;
	bool asked, permitted; /* in this round, by may_break() */
	bool missed;	       /* processes of the command that have the file may be unknown */
	uint64_t look_ns;      /* not before then they are looked for */
	int names_left;	       /* attempts to read the names of the command */
	int signal_fd, pid_fd;
	uint32_t lost, python_lost; /* said by the last events */
	uint64_t ns, python_ns;	    /* their times */
	uint32_t left;		    /* events that drain() still takes */
	bool more, python_more;	    /* others wait in the rings */
	bool behind;		    /* events that were read are not written yet */
	bool drops;		    /* the user does not wait for what is left */
	uint32_t dropped;
	uint64_t python_hits;
	uint64_t start_ns;
	bool over, interrupted; /* by the user */
	bool said_other;	/* a process has another file of that name */
	bool said_full;		/* there are too many processes */
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

/* Opens what the process has mapped of that name. NULL and errno; ENOENT: nothing. */
static struct elf_file *open_mapped(const struct native *n, pid_t pid)
{
	int proc_fd = opener__proc_dir((uint32_t)pid);
	struct exec_maps maps = { 0 };
	int err = proc_fd < 0 ? proc_fd : exec_maps__ask(&maps, n->readers, (uint32_t)pid, proc_fd);
	const char *lib = n->path[0] ? n->path : n->o->lib;
	struct elf_file *ef = NULL;
	size_t i = 0;

	while (!err && i < maps.cnt && !is_lib(&maps.lines[i], lib))
		i++;
	if (!err && i < maps.cnt) {
		ef = mapped__open(n->readers, (uint32_t)pid, proc_fd, &maps.lines[i]);
		err = ef ? 0 : -errno;
	} else if (!err) {
		err = -ENOENT;
	} else if (err == -ENOENT) {
		err = -ESRCH; /* its directory is gone */
	}
	exec_maps__free(&maps);
	if (proc_fd >= 0)
		close(proc_fd);
	errno = -err;
	return ef;
}

static int open_lib(struct native *n)
{
	int err;

	n->ef = open_mapped(n, n->o->pid);
	err = n->ef ? 0 : -errno;
	if (err == -ENOENT)
		log_err("process %d has not loaded %s", n->o->pid, n->o->lib);
	else if (err)
		log_err("process %d: %s: %s", n->o->pid, n->o->lib, strerror(-err));
	return err;
}

/* Before any process maps it: only a path says which file it is. */
static int open_named(struct native *n)
{
	char *real = realpath(n->o->lib, NULL);
	int fd = real ? foreign__open(real) : -errno, err = fd < 0 ? fd : 0;

	if (!err) {
		snprintf(n->path, sizeof(n->path), "%s", real);
		n->ef = elf_file__open(fd, real);
		err = n->ef ? 0 : -errno;
	}
	if (err)
		log_err("--lib %s: %s", n->o->lib,
			err == -ENOEXEC ? "not a program or library of this machine"
					: strerror(-err));
	free(real);
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

	/* What kernels before 5.15 say of the program is no reason that helps. */
	if (!uprobe__has_cookies()) {
		log_err("trace --native-from needs Linux 6.6");
		return -EOPNOTSUPP;
	}
	n->skel = native_bpf__open();
	if (!n->skel)
		return log_no_memory();
	cfg = (struct native_cfg *)&n->skel->rodata->native_cfg;
	ns = pidns__file();
	cfg->pidns_dev = ns.dev;
	cfg->pidns_inum = ns.inum;
	cfg->pidns_level = ns.level;
	cfg->first = n->first;
	cfg->ra_below = NATIVE_RA_BELOW;
	bpf_program__set_expected_attach_type(n->skel->progs.on_place,
					      (enum bpf_attach_type)UPROBE_MULTI_TYPE);
	return loader__load_now(n->skel->skeleton, " of native functions", "");
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

static int choose_places(struct native *n)
{
	int err;

	n->all = calloc(n->functions.spot_cnt + 1, sizeof(*n->all));
	err = n->all ? 0 : log_no_memory();
	for (size_t i = 0; i < n->functions.spot_cnt && !err; i++)
		if (is_wanted(n, &n->functions.spots[i]))
			err = put_place(n, &n->functions.spots[i], &n->all[n->spots]);
	return err;
}

static int attach(struct native *n, pid_t pid)
{
	int link, err;

	if (ARRAY_GROW(n->links, n->link_cap, n->link_cnt, LINKS_MAX))
		return -ENOMEM;
	link = uprobe__open_multi(pid, elf_file__fd(n->ef), n->all, n->spots,
				  bpf_program__fd(n->skel->progs.on_place));
	err = link < 0 ? link : 0;
	if (!err)
		n->links[n->link_cnt++] = (struct followed){ .pid = pid, .link = link };
	else if (err != -ESRCH)
		log_err("process %d: breakpoints in %s: %s%s", pid, n->file, strerror(-err),
			err == -EINVAL || err == -EOPNOTSUPP ? " (needs Linux 6.6)"
							     : uprobe__remedy(err));
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

	if (lost_since(known, lost))
		add(n, &s);
}

static int on_native(void *ctx, void *data, size_t size)
{
	static const enum native_step_kind kinds[] = {
		[NATIVE_CALL] = STEP_CALL, [NATIVE_RETURN] = STEP_RETURN, [NATIVE_OVER] = STEP_OVER
	};
	const struct native_event *e = data;
	struct native *n = ctx;

	n->left--;
	n->dropped += n->drops;
	if (n->drops || size < sizeof(*e) || e->kind < NATIVE_CALL || e->kind > NATIVE_OVER ||
	    e->function >= n->functions.cnt)
		return n->left ? 0 : -EAGAIN;
	n->ns = e->ns;
	note_lost(n, &n->lost, e->lost, e->ns);
	add(n, &(struct native_step){ .ns = e->ns,
				      .place = e->cfa,
				      .id = e->function,
				      .tid = e->tid,
				      .kind = kinds[e->kind] });
	return n->left ? 0 : -EAGAIN;
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
	n->python_ns = e->ns;
	if (!n->tree) /* the file is not loaded yet */
		return;
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
	int err;

	if (n->o->command) {
		err = target__open_file(&n->target, n->o->command->interpreter);
		n->target.pid = n->o->pid;
		n->target.python = n->o->command->python;
	} else {
		err = target__open_process(&n->target, n->o->pid);
	}
	if (err)
		return err;
	n->tracer = tracer__open(&n->target, n->o->filters, n->o->filter_cnt, NULL, &events);
	return n->tracer ? tracer__attach(n->tracer) : -EIO;
}

/* What has come, but not all while lines are written more slowly: then it stays in the rings. */
static void drain(struct native *n)
{
	if (n->tree && native_tree__step_cnt(n->tree) >= STEPS_ROOM)
		return;
	n->python_more = n->tracer != NULL;
	for (int i = 0; i < TRACER_DRAINS && n->python_more; i++)
		n->python_more = tracer__drain(n->tracer);
	n->left = EVENTS_AT_ONCE;
	n->more = n->ring && ring_buffer__consume(n->ring) == -EAGAIN;
}

/* No event that has not been read yet is older. */
static uint64_t complete_ns(const struct native *n)
{
	uint64_t ns = now_ns();

	if (n->more && n->ns < ns)
		ns = n->ns;
	if (n->python_more && n->python_ns < ns)
		ns = n->python_ns;
	/* At the end no event is on its way. */
	return n->skel->bss->over ? ns : ns - LATE_MS * NS_PER_MS;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* They may have changed: the command has executed a program. */
static void name_picture(struct native *n)
{
	if (!n->picture || !n->names_left)
		return;
	n->names_left--;
	if (call_picture__name(n->picture, n->readers))
		n->names_left = 0;
}

static int open_tree(struct native *n)
{
	const struct call_picture_opts po = { .pid = n->o->pid,
					      .path = elf_file__path(n->ef),
					      .functions = &n->functions,
					      .times = n->o->ends };
	struct native_tree_opts o = { .functions = &n->functions,
				      .file = n->file,
				      .tracer = n->tracer,
				      .start_ns = n->start_ns,
				      .ends = n->o->ends,
				      .json = n->o->json };

	if (n->o->picture)
		n->picture = call_picture__new(n->o->picture, &po);
	if (n->o->picture && !n->picture)
		return log_no_memory();
	o.picture = n->picture;
	if (!n->path[0]) /* else the command has not begun yet */
		name_picture(n);
	n->tree = native_tree__new(&o);
	n->ring = ring_buffer__new(bpf_map__fd(n->skel->maps.native_events), on_native, n, NULL);
	return n->tree && n->ring ? 0 : log_no_memory();
}

/* Once the file is open. */
static int prepare_file(struct native *n)
{
	int err;

	n->file = last_part(elf_file__path(n->ef));
	err = find_functions(n);
	if (!err)
		err = load(n);
	return err ? err : choose_places(n);
}

static int prepare(struct native *n)
{
	int err = 0;

	n->links_max = descriptors__allow() / 2;
	if (!n->links_max || n->links_max > LINKS_MAX)
		n->links_max = LINKS_MAX;
	n->readers = readers__new();
	if (n->readers)
		readers__start(n->readers);
	err = held__refuse(n->readers);
	if (err)
		return err;
	if (!n->o->command)
		err = open_lib(n);
	else if (strchr(n->o->lib, '/'))
		err = open_named(n);
	if (!err && n->ef)
		err = prepare_file(n);
	if (err)
		return err;
	n->signal_fd = signals__open(NULL, false);
	n->pid_fd = (int)syscall(SYS_pidfd_open, n->o->pid, 0);
	if (n->signal_fd < 0 || n->pid_fd < 0) {
		log_err("process %d: %s", n->o->pid,
			strerror(n->pid_fd < 0 ? errno : -n->signal_fd));
		return -EIO;
	}
	if (n->o->command)
		n->watch = mmapwatch__new(0, MMAPWATCH_EACH);
	/* What has the file by now has said so to nobody. */
	n->missed = n->o->command && n->o->command->python;
	if (n->o->command && !n->watch) {
		err = -errno;
		log_err("trace: what the command loads cannot be watched: %s (needs CAP_PERFMON)",
			strerror(-err));
	}
	return err;
}

/* ---- processes of the command ---------------------------------------------------------------- */

static bool is_followed(const struct native *n, pid_t pid)
{
	for (size_t i = 0; i < n->link_cnt; i++)
		if (n->links[i].pid == pid)
			return true;
	return false;
}

/* Is it the command, or was it started by it? */
static bool is_of_command(const struct native *n, pid_t pid)
{
	return pid == n->o->pid || called__descends(pid, n->o->pid);
}

static bool is_same_file(const struct elf_file *a, const struct elf_file *b)
{
	struct stat sa, sb;

	return !fstat(elf_file__fd(a), &sa) && !fstat(elf_file__fd(b), &sb) &&
	       sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

static bool is_over(const struct followed *f)
{
	return kill(f->pid, 0) && errno == ESRCH;
}

static bool has_ended(const struct native *n)
{
	size_t i = 0;

	while (i < n->link_cnt && !is_over(&n->links[i]))
		i++;
	return i < n->link_cnt;
}

static void close_links(const struct followed *links, size_t cnt,
			void (*close_all)(const int *, size_t))
{
	int fds[LINKS_MAX];

	for (size_t i = 0; i < cnt; i++)
		fds[i] = links[i].link;
	close_all(fds, cnt);
}

/* Some of those that have ended make room. */
static void forget_ended(struct native *n)
{
	struct followed ended[CLOSE_MAX];
	size_t kept = 0, cnt = 0;

	for (size_t i = 0; i < n->link_cnt; i++) {
		if (cnt < CLOSE_MAX && is_over(&n->links[i]))
			ended[cnt++] = n->links[i];
		else
			n->links[kept++] = n->links[i];
	}
	n->link_cnt = kept;
	close_links(ended, cnt, uprobe__close_links);
}

/* May the kernel set and remove breakpoints? Asked once in a round of wait_until(). */
static bool may_break(struct native *n)
{
	if (!n->asked)
		n->permitted = held__permits(&n->held);
	n->asked = true;
	return n->permitted;
}

/* Makes room for one more. False, after a message, if there are too many. */
static bool has_room(struct native *n, pid_t pid)
{
	if (n->link_cnt >= n->links_max)
		forget_ended(n);
	if (n->link_cnt < n->links_max)
		return true;
	if (!n->said_full)
		log_warn("process %d, and further ones, are not traced: at most %zu at a time%s",
			 pid, n->links_max,
			 n->links_max < LINKS_MAX ? ", half of the open files (ulimit -Hn)" : "");
	n->said_full = true;
	return false;
}

/* The first file of that name is the one that is meant. 0 or negative errno after a message. */
static int follow(struct native *n, pid_t pid, struct elf_file *ef)
{
	bool same;
	int err;

	if (!n->ef) {
		n->ef = ef;
		err = prepare_file(n);
		if (!err)
			err = open_tree(n);
		if (err)
			return err;
	} else {
		same = is_same_file(n->ef, ef);
		if (!same && !n->said_other)
			log_warn("process %d has another %s; its functions are not traced", pid,
				 n->file);
		n->said_other |= !same;
		elf_file__close(ef);
		if (!same)
			return 0;
	}
	if (!may_break(n)) {
		n->missed = true;
		return 0;
	}
	if (!has_room(n, pid))
		return 0;
	err = attach(n, pid);
	return err == -ESRCH ? 0 : err;
}

static void look_at(struct native *n, pid_t pid)
{
	struct elf_file *ef;

	if (n->err || is_followed(n, pid) || !is_of_command(n, pid))
		return;
	ef = open_mapped(n, pid);
	if (ef)
		n->err = follow(n, pid, ef);
}

static void look_at_all(struct native *n)
{
	DIR *dir = opendir("/proc");
	uint64_t start = now_ns();
	struct dirent *de;
	long long pid;

	n->missed = false;
	while (dir && (de = readdir(dir)))
		if (!parse_int(de->d_name, 1, INT32_MAX, &pid))
			look_at(n, (pid_t)pid);
	if (dir)
		closedir(dir);
	n->look_ns = now_ns() + LOOK_MS * NS_PER_MS + LOOK_PART * (now_ns() - start);
}

static void on_mmap(void *ctx, const struct mmap_event *e)
{
	struct native *n = ctx;
	pid_t pid = (pid_t)e->tgid;

	n->missed |= e->type == MMAP_EVENT_LOST;
	if (e->type == MMAP_EVENT_EXEC && pid == n->o->pid)
		n->names_left = NAMES_MAX;
	if (e->type != MMAP_EVENT_MMAP)
		return;
	if (pid == n->o->pid)
		name_picture(n);
	look_at(n, pid);
}

/* Who has the file now, and who has ended. */
static void look_at_processes(struct native *n)
{
	uint64_t now = now_ns();

	if (!n->watch)
		return;
	n->asked = false;
	mmapwatch__read(n->watch, on_mmap, n);
	if (n->missed && now >= n->look_ns)
		look_at_all(n);
	if (now >= n->closed_ns + CLOSE_MS * NS_PER_MS && has_ended(n) && may_break(n)) {
		forget_ended(n);
		n->closed_ns = now_ns();
	}
}

static void flush_stdout(struct native *n)
{
	int err = n->err ? 0 : stream__flush(stdout);

	if (!err)
		return;
	log_err("standard output: %s", strerror(-err));
	n->err = err;
}

/* Also until a process has the file and breakpoints, with `for_file`. */
static void wait_until(struct native *n, uint64_t until_ns, bool for_file)
{
	struct pollfd fds[] = { { .fd = n->signal_fd, .events = POLLIN },
				{ .fd = n->pid_fd, .events = POLLIN },
				{ .fd = n->watch ? mmapwatch__fd(n->watch) : -1,
				  .events = POLLIN } };

	for (uint64_t now = now_ns();
	     now < until_ns && !n->over && !n->err && !(for_file && n->link_cnt); now = now_ns()) {
		uint64_t left = (until_ns - now) / NS_PER_MS + 1;

		if (n->more || n->python_more || n->behind)
			left = 0;
		poll(fds, 3, left < DRAIN_MS ? (int)left : DRAIN_MS);
		n->interrupted = fds[0].revents != 0;
		n->over = n->interrupted || fds[1].revents;
		look_at_processes(n);
		drain(n);
		if (n->tree)
			n->behind = native_tree__flush(n->tree, complete_ns(n));
		flush_stdout(n);
	}
}

/* ---- the run --------------------------------------------------------------------------------- */

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
	struct probe_price_opts o = { .pid = n->links[0].pid,
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
	wait_until(n, now_ns() + PRICE_MEASURE_MS * NS_PER_MS, false);
	n->skel->bss->measuring = 0;
	probe_price__add(price, python_ns(n));
	if (n->tracer)
		tracer__end_measuring(n->tracer);
	err = n->over ? n->err : probe_price__judge(price);
	probe_price__free(price);
	return err;
}

static uint64_t end_of(const struct native *n)
{
	return n->o->duration_s > 0 ? n->start_ns + (uint64_t)(n->o->duration_s * 1e9) : UINT64_MAX;
}

static int attach_target(struct native *n)
{
	int err = attach(n, n->o->pid);

	if (err == -ESRCH)
		log_err("process %d: there is no such process", n->o->pid);
	return err;
}

static int begin(struct native *n)
{
	int err;

	signals__hand_over(1);
	err = n->o->python ? open_python(n) : 0;
	if (!err && n->ef)
		err = attach_target(n);
	n->start_ns = now_ns();
	if (!err && n->ef)
		err = open_tree(n);
	if (!err && n->o->command)
		err = n->o->command->go(n->o->command->ctx);
	if (!err && !n->link_cnt)
		wait_until(n, end_of(n), true);
	err = err ? err : n->err;
	if (!err && n->link_cnt && !n->o->force)
		err = judge(n);
	if (!err && n->link_cnt)
		log_info("tracing %s and what it calls in %s of process %d: %zu functions, %" PRIu32
			 " breakpoints; Ctrl-C ends it",
			 n->functions.all[n->first].name, n->file, n->o->pid, n->functions.cnt,
			 n->spots);
	return err;
}

static int finish_picture(struct native *n)
{
	if (n->picture && call_picture__finish(n->picture, now_ns() - n->start_ns))
		return log_no_memory();
	return 0;
}

static int finish(struct native *n)
{
	uint64_t until_ns;

	if (!n->tree) {
		log_err("process %d, the command, has not loaded %s", n->o->pid, n->o->lib);
		return -ENOENT;
	}
	n->skel->bss->over = 1;
	until_ns = n->interrupted ? now_ns() + TRACER_END_MS * NS_PER_MS : 0;
	if (n->tracer)
		tracer__stop(n->tracer, until_ns);
	wait_for_programs();
	do { /* no more come */
		n->drops = until_ns && now_ns() >= until_ns;
		if (n->drops)
			n->dropped += (uint32_t)native_tree__drop(n->tree);
		drain(n);
		n->behind = native_tree__flush(n->tree, complete_ns(n));
	} while (n->more || n->python_more || n->behind ||
		 native_tree__step_cnt(n->tree) >= STEPS_ROOM);
	note_lost(n, &n->lost, n->skel->bss->lost + n->dropped, now_ns());
	if (n->tracer)
		note_lost(n, &n->python_lost, tracer__lost(n->tracer), now_ns());
	while (native_tree__flush(n->tree, UINT64_MAX))
		;
	n->err = n->err ? n->err : finish_picture(n);
	if (!n->o->json)
		native_tree__write_table(n->tree, n->o->top);
	flush_stdout(n);
	if (native_tree__dropped_cnt(n->tree))
		log_warn("%" PRIu64 " calls in further threads are not shown: at most %d threads "
			 "at a time can be inside of %s",
			 native_tree__dropped_cnt(n->tree), NATIVE_TREE_THREADS,
			 n->functions.all[n->first].name);
	if (n->lost || n->python_lost)
		log_warn("%" PRIu32 " events found no room", n->lost + n->python_lost);
	if (!native_tree__root_cnt(n->tree))
		log_warn("%s was not called", n->functions.all[n->first].name);
	if (mapped__has_other(n->readers, n->o->pid, n->ef))
		log_warn("process %d has loaded another %s since, as the file was replaced; its "
			 "functions are not shown: trace it anew",
			 n->o->pid, n->file);
	return n->err;
}

static void end(struct native *n)
{
	close_links(n->links, n->link_cnt, uprobe__leave_links);
	free(n->links);
	free(n->all);
	mmapwatch__free(n->watch);
	held__end(&n->held);
	tracer__close(n->tracer);
	if (n->target.pid)
		target__close(&n->target);
	native_tree__free(n->tree);
	call_picture__free(n->picture);
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
	struct native n = { .o = o, .names_left = NAMES_MAX, .signal_fd = -1, .pid_fd = -1 };
	int err = prepare(&n);

	if (!err)
		err = begin(&n);
	if (!err) {
		wait_until(&n, end_of(&n), false);
		err = finish(&n);
	}
	end(&n);
	return err != 0;
}
