/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Finding processes in /proc, at the start and when events were lost. */
#include "process/process_parts.h"

#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/foreign.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/opener.h"
#include "base/tenant.h"
#include "process/descendants.h"

#define MAX_SCAN_ROUNDS 16
#define MAX_ADOPT	(1 << 20)

/* Kernel threads and zombies have no executable. A process that we may not read has one. */
static bool has_program(int proc_fd)
{
	char byte;

	return readlinkat(proc_fd, "exe", &byte, 1) >= 0 || errno != ENOENT;
}

/* Fields of /proc/PID/stat: behind the name come state, parent and, four later, flags. */
static bool read_parent(int proc_fd, struct strbuf *text, uint32_t *ppid, uint32_t *flags)
{
	const char *behind;

	if (read_proc(proc_fd, "stat", text) || !text->len)
		return false;
	behind = strrchr(text->s, ')'); /* the name may hold anything */
	return behind && sscanf(behind + 1, " %*c %u %*d %*d %*d %*d %u", ppid, flags) == 2;
}

#define PF_FORKNOEXEC 0x40 /* include/linux/sched.h: forked, and never called exec */

/* Their names only: nothing of their file systems is touched. */
static bool same_program(int proc_fd, uint32_t tgid)
{
	char path[32], a[PATH_MAX], b[PATH_MAX];
	ssize_t len, other;

	snprintf(path, sizeof(path), "/proc/%u/exe", tgid);
	len = readlinkat(proc_fd, "exe", a, sizeof(a));
	other = readlink(path, b, sizeof(b));
	return len > 0 && len == other && !memcmp(a, b, (size_t)len);
}

struct process *discover__origin(struct process_table *pt, const struct process *p, int proc_fd)
{
	struct process *parent;
	uint32_t ppid, flags;

	if (!read_parent(proc_fd, &pt->text, &ppid, &flags) || !(flags & PF_FORKNOEXEC))
		return NULL;
	parent = idmap__get(&pt->by_tgid, ppid);
	/* Of an orphan it is init, or another one that took it in. */
	return parent && parent != p && same_program(proc_fd, ppid) ? parent : NULL;
}

static bool is_target(struct process_table *pt, uint32_t tgid, int proc_fd)
{
	uint32_t ppid, flags;

	if (!pt->opts.pid_cnt)
		return true;
	for (size_t i = 0; i < pt->opts.pid_cnt; i++) {
		if (pt->opts.pids[i] > 0 && (uint32_t)pt->opts.pids[i] == tgid)
			return true;
	}
	/* The scan repeats until it finds no new process, so the order does not matter. */
	return pt->opts.children && read_parent(proc_fd, &pt->text, &ppid, &flags) &&
	       idmap__get(&pt->by_tgid, ppid);
}

/* ---- its entry in `procs` -------------------------------------------------------------------- */

static void add_to_share(struct shares *s, uint32_t slot, int cnt)
{
	if (!s || slot >= SHARE_SLOTS)
		return;
	__atomic_fetch_add(&s->taken, (uint32_t)cnt, __ATOMIC_RELAXED);
	__atomic_fetch_add(&s->of[slot], (uint32_t)cnt, __ATOMIC_RELAXED);
}

/*
 * 0, or negative errno: -EEXIST, BPF has added it. Whose it is is asked where there are many: on a
 * machine with few it makes no difference.
 */
static int add_entry(struct process_table *pt, uint32_t tgid, struct proc *val)
{
	struct shares *s = pt->maps.proc_shares;

	if (s && s->taken > PROC_ENTRIES / 16) {
		val->slot = tenant__slot(tgid);
		if (!SHARE_HAS_ROOM(s, val->slot, PROC_ENTRIES))
			return -E2BIG;
	}
	if (bpf_map_update_elem(pt->maps.procs_fd, &tgid, val, BPF_NOEXIST))
		return -errno;
	add_to_share(s, val->slot, 1);
	return 0;
}

static void delete_entry(struct process_table *pt, uint32_t tgid, const struct proc *val)
{
	if (!bpf_map_delete_elem(pt->maps.procs_fd, &tgid))
		add_to_share(pt->maps.proc_shares, val->slot, -1);
}

/* ---- processes that ran before --------------------------------------------------------------- */

/* Adds a process that is not known yet. True: it was added. */
static bool discover(struct process_table *pt, uint32_t tgid)
{
	struct proc val = { .flags = pt->opts.pid_cnt ? PROC_TARGET : 0 };
	int proc_fd = opener__proc_dir(tgid);
	char comm[TASK_COMM_LEN + 1];
	struct process *p = NULL;
	int err;

	if (proc_fd < 0)
		return false;
	if (pt->next_space >= SPACE_FIRST_BPF || !is_target(pt, tgid, proc_fd) ||
	    !has_program(proc_fd))
		goto out;
	look__comm(proc_fd, comm);
	val.space = val.image = pt->next_space;
	/* BPF knows the process already, from its fork or exec: the event adds it. */
	err = add_entry(pt, tgid, &val);
	if (err) {
		pt->stats.procs_full += err == -E2BIG;
		goto out;
	}
	pt->next_space++;
	p = process_table__add(pt, val.space, tgid, comm, now_ns());
	if (!p)
		goto out;
	process_table__mark_dirty(pt, p);
	/*
	 * It may have ended before it was in `procs`, so that BPF missed the exit. Its entry stays:
	 * the next fork with this number overwrites it, and a deletion could hit that fork's entry.
	 */
	if (!has_program(proc_fd))
		process_table__retire(pt, p);
out:
	close(proc_fd);
	return p;
}

static bool entry_tgid(const struct dirent *de, uint32_t *tgid)
{
	long long n;

	if (de->d_name[0] < '0' || de->d_name[0] > '9' || parse_int(de->d_name, 1, INT32_MAX, &n))
		return false;
	*tgid = (uint32_t)n;
	return true;
}

/* One pass over /proc. The number of new processes or negative errno. */
static int discover_all(struct process_table *pt)
{
	DIR *dir = opendir("/proc");
	struct dirent *de;
	uint32_t tgid;
	int cnt = 0;

	if (!dir)
		return -errno;
	while ((de = readdir(dir))) {
		if (entry_tgid(de, &tgid) && !idmap__get(&pt->by_tgid, tgid))
			cnt += discover(pt, tgid);
	}
	closedir(dir);
	return cnt;
}

struct family_pass {
	struct process_table *pt;
	int cnt;
};

/* A descendants_fn. */
static int discover_member(void *ctx, uint32_t tgid)
{
	struct family_pass *pass = ctx;
	struct process_table *pt = pass->pt;

	if (!idmap__get(&pt->by_tgid, tgid))
		pass->cnt += discover(pt, tgid);
	return pt->opts.children && idmap__get(&pt->by_tgid, tgid);
}

/*
 * One pass over the requested processes and their descendants: the number of new processes, or
 * -errno.
 */
static int discover_family(struct process_table *pt)
{
	struct family_pass pass = { pt, 0 };
	int err = descendants__visit(pt->opts.pids, pt->opts.pid_cnt, discover_member, &pass);

	return err ? err : pass.cnt;
}

/*
 * BPF follows the forks of processes that are in `procs`. So after a pass that finds no new process
 * all are known: the parent of each child was in `procs`, or the pass would have found the child.
 */
static int discover_until_settled(struct process_table *pt)
{
	bool family = pt->opts.pid_cnt && (!pt->opts.children || descendants__are_listed());
	int cnt = 0;

	for (int i = 0; i < MAX_SCAN_ROUNDS; i++) {
		cnt = family ? discover_family(pt) : discover_all(pt);
		if (cnt <= 0)
			break;
	}
	return cnt < 0 ? cnt : 0;
}

static bool is_everywhere(const struct map_line *line)
{
	static const char *const names[] = { "/libc.so", "/libc-2", "/libm.so", "/libm-2", "/ld-" };

	if (!line->inode)
		return true; /* the vdso, or no file */
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (memmem(line->name, line->name_len, names[i], strlen(names[i])))
			return true;
	}
	return false;
}

static void prepare_file(struct process_table *pt, const struct map_line *line)
{
	struct mapped_file *file = file_table__get(pt->files, line);

	if (!file)
		return;
	file_table__build(pt->files, file);
	file_table__put(pt->files, file);
}

static bool is_of_use(struct process_table *pt, const struct map_line *line)
{
	return pt->opts.all || file_table__is_python(pt->files, line) == 1;
}

/* Prepares the file `inode` that we have mapped ourselves; 0: those that every process maps. */
static void prepare_own(struct process_table *pt, uint64_t inode)
{
	int proc_fd = opener__proc_dir((uint32_t)getpid());

	if (proc_fd < 0)
		return;
	if (look__enter(pt, (uint32_t)getpid(), proc_fd))
		pt->exec.cnt = 0;
	for (size_t i = 0; i < pt->exec.cnt; i++) {
		const struct map_line *line = &pt->exec.lines[i];

		if (inode ? line->inode == inode && is_of_use(pt, line) : is_everywhere(line))
			prepare_file(pt, line);
	}
	look__leave(pt, proc_fd);
}

/*
 * The tables of the C library take a third of the time until a first Python has all its tables. We
 * usually map the same file, and nothing waits for us yet.
 */
static void prepare_common_files(struct process_table *pt)
{
	prepare_own(pt, 0);
}

/*
 * The command would lack its tables in its first milliseconds. So we map its file here, and build
 * its tables as for any process; no code of it runs here.
 */
static void prepare_program(struct process_table *pt)
{
	/* Opening a terminal or a pipe must not block. */
	int fd = open(pt->opts.program, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	void *at = MAP_FAILED;
	struct stat st;

	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size)
		at = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (at != MAP_FAILED) {
		prepare_own(pt, st.st_ino);
		munmap(at, (size_t)st.st_size);
	}
	if (fd >= 0)
		close(fd);
}

/* Builds the tables that look__at() would need. */
static void prepare_files_of(struct process_table *pt, uint32_t tgid, int proc_fd)
{
	if (look__enter(pt, tgid, proc_fd) || (!pt->opts.all && !look__finds_python(pt)))
		return;
	for (size_t i = 0; i < pt->exec.cnt; i++)
		prepare_file(pt, &pt->exec.lines[i]);
}

/* Prepares one process of each program. Files that only others map are left to the scan. */
static void prepare_once(struct process_table *pt, uint32_t tgid, struct idmap *programs)
{
	int proc_fd = opener__proc_dir(tgid);
	struct stat st;

	/*
	 * If two programs on two file systems share an inode number, the scan analyses the second.
	 */
	if (proc_fd >= 0 && !foreign__stat_at(proc_fd, "exe", &st) &&
	    !idmap__get(programs, st.st_ino) && !idmap__set(programs, st.st_ino, pt))
		prepare_files_of(pt, tgid, proc_fd);
	look__leave(pt, proc_fd);
}

void process_table__prepare(struct process_table *pt)
{
	DIR *dir = pt->opts.pid_cnt ? NULL : opendir("/proc");
	struct idmap programs = { 0 };
	struct dirent *de;
	uint32_t tgid;

	if (pt->opts.program)
		prepare_program(pt);
	for (size_t i = 0; i < pt->opts.pid_cnt; i++)
		prepare_once(pt, (uint32_t)pt->opts.pids[i], &programs);
	while (dir && (de = readdir(dir))) {
		if (entry_tgid(de, &tgid))
			prepare_once(pt, tgid, &programs);
	}
	if (dir)
		closedir(dir);
	idmap__free(&programs);
}

int process_table__scan(struct process_table *pt)
{
	int err = discover_until_settled(pt);

	if (err) {
		log_err("processes cannot be listed: /proc: %s", strerror(-err));
		return err;
	}
	prepare_common_files(pt);
	process_table__refresh(pt);
	err = file_table__go_live(pt->files);
	if (err)
		log_warn("new processes will be noticed late: %s", strerror(-err));
	pt->live = true;
	return 0;
}

/* Adds the processes in `procs` that no event announced. */
static int adopt_procs(struct process_table *pt)
{
	uint32_t tgid, *prev = NULL, at;
	char comm[TASK_COMM_LEN + 1];
	struct process *p;
	struct proc val;
	int proc_fd;

	/* Deleting a key restarts the iteration: bound it. */
	for (int i = 0; i < MAX_ADOPT && !bpf_map_get_next_key(pt->maps.procs_fd, prev, &tgid);
	     i++) {
		at = tgid;
		prev = &at;
		if (bpf_map_lookup_elem(pt->maps.procs_fd, &tgid, &val) || val.flags & PROC_QUIET ||
		    idmap__get(&pt->by_space, val.space))
			continue;
		proc_fd = opener__proc_dir(tgid);
		if (proc_fd < 0) { /* its exit could not be noted: see count_refusal() */
			delete_entry(pt, tgid, &val);
			continue;
		}
		look__comm(proc_fd, comm);
		close(proc_fd);
		p = process_table__add(pt, val.space, tgid, comm, now_ns());
		if (!p)
			return -ENOMEM;
		process_table__mark_dirty(pt, p);
	}
	return 0;
}

/* Processes that `procs` lacks, or has with another space, have ended. */
static void retire_vanished(struct process_table *pt)
{
	struct process *p;
	struct proc val;

	for (size_t at = 0; (p = idmap__next(&pt->by_space, &at));) {
		if (!p->exited && (bpf_map_lookup_elem(pt->maps.procs_fd, &p->tgid, &val) ||
				   val.space != p->space))
			process_table__retire(pt, p);
	}
}

int process_table__resync(struct process_table *pt)
{
	int err;

	retire_vanished(pt);
	process_table__mark_all_dirty(pt); /* BPF may have taken an image away from any of them */
	err = adopt_procs(pt);
	if (err)
		return err;
	/* Processes that a full `procs` refused are in neither. */
	err = pt->opts.pid_cnt ? 0 : discover_until_settled(pt);
	process_table__refresh(pt);
	return err;
}
