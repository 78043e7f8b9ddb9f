/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/family.h"

#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/mount.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/hash.h"
#include "bpf/trace.h"
#include "follow/uprobe.h"
#include "process/descendants.h"

#define THREADS_MAX   100000
#define LISTINGS_MAX  16  /* of the threads, until no new one is seen */
#define DELETIONS_MAX 100 /* attempts: the events of a killed program take a moment to go */
#define DELETION_US   20000
#define KEPT_FDS      64

struct family {
	pid_t pid, python;
	int tracefs_fd;
	int keeper_fd; /* its end tells the keeper that we have ended */
	pid_t keeper;
	pid_t *tids; /* threads of the processes */
	size_t tid_cnt, tid_cap;
	uint64_t ids[TRACE_SPOTS]; /* the kernel's, of the definitions */
	uint32_t def_cnt;
	struct uprobe_list events;
};

/* ---- tracefs --------------------------------------------------------------------------------- */

/* An instance of our own where none is mounted: it is seen by nobody else, and goes with `fd`. */
static int mount_tracefs(void)
{
	int fs = (int)syscall(SYS_fsopen, "tracefs", FSOPEN_CLOEXEC), fd = -1;

	if (fs < 0)
		return -1;
	if (!syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		fd = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, 0);
	close(fs);
	return fd;
}

static int open_tracefs(void)
{
	int fd = open("/sys/kernel/tracing", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0 && !faccessat(fd, "uprobe_events", W_OK, 0))
		return fd;
	if (fd >= 0)
		close(fd);
	fd = mount_tracefs();
	if (fd >= 0 && faccessat(fd, "uprobe_events", W_OK, 0)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int write_definition(int tracefs_fd, const char *line)
{
	int fd = openat(tracefs_fd, "uprobe_events", O_WRONLY | O_APPEND | O_CLOEXEC), err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, line, strlen(line)) < 0)
		err = -errno;
	close(fd);
	return err;
}

/* The name of the group of one tracer. */
static void group_name(char name[32], pid_t tracer)
{
	snprintf(name, 32, "pyperf_bpf_%d", tracer);
}

/* From the one of number *next on. 0: all are gone; -EBUSY: that one still has an open event. */
static int delete_definitions(int tracefs_fd, pid_t tracer, unsigned *next)
{
	char group[32], line[64];
	int err = 0;

	group_name(group, tracer);
	for (; !err; *next += !err) {
		snprintf(line, sizeof(line), "-:%s/at%u", group, *next);
		err = write_definition(tracefs_fd, line);
	}
	return err == -EBUSY ? err : 0;
}

/* ---- the keeper ------------------------------------------------------------------------------ */

/* A child of ours: when we have ended, however, it deletes the definitions, and ends. */
static void keep(int tracefs_fd, int fd, pid_t tracer)
{
	unsigned next = 0;
	char nothing;

	setsid();
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_IGN);
	/* Whoever reads our output must not wait for the keeper. */
	tracefs_fd = fcntl(tracefs_fd, F_DUPFD, KEPT_FDS);
	fd = fcntl(fd, F_DUPFD, tracefs_fd + 1);
	if (tracefs_fd < 0 || fd < 0)
		_exit(1);
	syscall(SYS_close_range, 0U, (unsigned)tracefs_fd - 1, 0U);
	syscall(SYS_close_range, (unsigned)fd + 1, ~0U, 0U);
	while (read(fd, &nothing, 1) < 0 && errno == EINTR)
		;
	for (int i = 0; i < DELETIONS_MAX; i++) {
		if (!delete_definitions(tracefs_fd, tracer, &next))
			break;
		usleep(DELETION_US);
	}
	_exit(0);
}

static int start_keeper(struct family *f)
{
	pid_t self = getpid();
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	f->keeper = fork();
	if (!f->keeper) {
		close(ends[1]);
		keep(f->tracefs_fd, ends[0], self);
	}
	close(ends[0]);
	f->keeper_fd = ends[1];
	return f->keeper < 0 ? -errno : 0;
}

/* ---- threads --------------------------------------------------------------------------------- */

static bool is_known(const struct family *f, pid_t tid)
{
	for (size_t i = 0; i < f->tid_cnt; i++)
		if (f->tids[i] == tid)
			return true;
	return false;
}

/* Threads of a process that are not known yet. Their number or negative errno. */
static int list_threads_of(struct family *f, pid_t pid)
{
	char path[32];
	struct dirent *e;
	int cnt = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while ((e = readdir(dir))) {
		pid_t tid = (pid_t)atoi(e->d_name);

		if (tid <= 0 || is_known(f, tid))
			continue;
		if (ARRAY_GROW(f->tids, f->tid_cap, f->tid_cnt, THREADS_MAX)) {
			cnt = -ENOMEM;
			break;
		}
		f->tids[f->tid_cnt++] = tid;
		cnt++;
	}
	closedir(dir);
	return cnt;
}

struct listing {
	struct family *f;
	int cnt;
};

/* A descendants_fn. What has ended meanwhile has no threads. */
static int add_threads(void *ctx, uint32_t tgid)
{
	struct listing *l = ctx;
	int cnt = list_threads_of(l->f, (pid_t)tgid);

	if (cnt == -ENOMEM)
		return cnt;
	l->cnt += cnt > 0 ? cnt : 0;
	return 1;
}

/* Of the process; with `python` also of all that it has started before. */
static int list_threads(struct family *f)
{
	const pid_t pids[] = { f->pid, f->python };
	struct listing l = { .f = f };
	int err;

	if (!f->python)
		return list_threads_of(f, f->pid);
	err = descendants__visit(pids, 2, add_threads, &l);
	return err ? err : l.cnt;
}

/* ---- breakpoints ----------------------------------------------------------------------------- */

static int read_id(const struct family *f, const char *name, uint64_t *id)
{
	char path[96], text[32] = "";
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "events/%s/id", name);
	fd = openat(f->tracefs_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len <= 0)
		return -EIO;
	*id = strtoull(text, NULL, 10);
	return 0;
}

/*
 * Where two tasks of a family follow each other on a CPU, the kernel would let them change their
 * events instead of switching them (perf_event_context_sched_out()). Then the end of one takes the
 * breakpoints of the other away, as each event still names the task that it was made for. It does
 * not do so with inherited events that are read into samples (7e8b255650fc, 6.12), which older
 * kernels refuse. No sample is taken.
 */
static int open_inherited(uint32_t type, uint64_t config, pid_t tid)
{
	struct perf_event_attr attr = { .size = sizeof(attr),
					.type = type,
					.config = config,
					.sample_type = PERF_SAMPLE_READ | PERF_SAMPLE_TID,
					.inherit = 1 };

	return (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static bool is_possible(void)
{
	int event = open_inherited(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY, 0);

	if (event >= 0)
		close(event);
	return event >= 0;
}

/* Opens the event of a thread. 0 or negative errno; -ESRCH: it has ended. */
static int open_event(struct family *f, uint64_t id, pid_t tid)
{
	int event = open_inherited(PERF_TYPE_TRACEPOINT, id, tid);

	return uprobe_list__keep(&f->events, event < 0 ? -errno : event);
}

static int open_own_event(struct family *f, uint64_t id)
{
	struct perf_event_attr attr = { .size = sizeof(attr),
					.type = PERF_TYPE_TRACEPOINT,
					.config = id };
	int event = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	return uprobe_list__keep(&f->events, event < 0 ? -errno : event);
}

/*
 * The program belongs to the definition: it runs at each hit, whichever event lets the breakpoint
 * be there. It is given to an event of our own, which nobody inherits: the kernel would take the
 * program away with the first child that ends (perf_event_detach_bpf_prog()), and let that child
 * wait for it.
 */
static int run_program(struct family *f, int prog_fd, uint64_t cookie)
{
	int event = open_own_event(f, f->ids[f->def_cnt]), link;

	if (event < 0)
		return event;
	link = uprobe__run(event, prog_fd, cookie);
	if (link == UPROBE_NO_LINK)
		return 0;
	link = uprobe_list__keep(&f->events, link);
	return link < 0 ? link : 0;
}

/* In these threads: children inherit from the thread that starts them. */
static int open_events(struct family *f, size_t first_tid)
{
	for (uint32_t i = 0; i < f->def_cnt; i++) {
		for (size_t k = first_tid; k < f->tid_cnt; k++) {
			int event = open_event(f, f->ids[i], f->tids[k]);

			if (event < 0 && event != -ESRCH)
				return event;
		}
	}
	return 0;
}

int family__add(struct family *f, int fd, const struct uprobe_spot *spot, int prog_fd)
{
	char group[32], name[64], line[160];
	int err;

	if (f->def_cnt == TRACE_SPOTS)
		return -E2BIG;
	group_name(group, getpid());
	snprintf(name, sizeof(name), "%s/at%u", group, f->def_cnt);
	/* The file itself: its name may lead to another one by now. */
	snprintf(line, sizeof(line), "p:%s /proc/self/fd/%d:0x%" PRIx64, name, fd, spot->offset);
	err = write_definition(f->tracefs_fd, line);
	if (!err)
		err = read_id(f, name, &f->ids[f->def_cnt]);
	if (!err)
		err = run_program(f, prog_fd, spot->cookie);
	f->def_cnt += !err;
	return err;
}

/*
 * A thread that was started meanwhile by one that had no events yet has none either, so threads are
 * listed until none is new.
 */
int family__attach(struct family *f)
{
	size_t first = 0;
	int cnt, err = 0;

	descriptors__allow(); /* one for each thread and breakpoint */
	for (int i = 0; i < LISTINGS_MAX && !err; i++) {
		cnt = list_threads(f);
		if (cnt <= 0)
			return cnt;
		err = open_events(f, first);
		first = f->tid_cnt;
	}
	return err;
}

struct family *family__open(pid_t pid, pid_t python)
{
	struct family *f;
	unsigned stale = 0;
	int err;

	if (!is_possible()) {
		errno = ENOTSUP;
		return NULL;
	}
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->pid = pid;
	f->python = python;
	f->keeper_fd = -1;
	f->tracefs_fd = open_tracefs();
	err = f->tracefs_fd < 0 ? -errno : 0;
	/* An earlier tracer of our number, whose keeper was killed too, may have left some. */
	if (!err)
		err = delete_definitions(f->tracefs_fd, getpid(), &stale);
	if (!err)
		err = start_keeper(f);
	if (!err)
		return f;
	family__close(f);
	errno = -err;
	return NULL;
}

void family__close(struct family *f)
{
	if (!f)
		return;
	uprobe_list__close(&f->events);
	if (f->keeper_fd >= 0)
		close(f->keeper_fd);
	if (f->keeper > 0)
		waitpid(f->keeper, NULL, 0);
	if (f->tracefs_fd >= 0)
		close(f->tracefs_fd);
	free(f->tids);
	free(f);
}
