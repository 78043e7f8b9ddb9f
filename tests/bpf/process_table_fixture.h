/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TESTS_PROCESS_TABLE_FIXTURE_H
#define PYPERF_TESTS_PROCESS_TABLE_FIXTURE_H
/*
 * The process table as its tests see it: a table on the maps of process_fixture.h, events as BPF
 * would send them, and what must be true of an image. Behind cmocka.h.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/clock.h"
#include "elf/ehframe.h"
#include "process_fixture.h"
#include "unit/pythons.h"

static struct fixture fx;
static struct pythons pythons;
static char workdir[] = "/tmp/test_process.XXXXXX";

static inline struct process_table *table_for(const pid_t *pids, size_t cnt,
					      struct process_opts opts)
{
	struct process_table *pt;

	opts.pids = pids;
	opts.pid_cnt = cnt;
	pt = fixture_table(&fx, &opts);
	assert_non_null(pt);
	return pt;
}

static inline void scan(struct process_table *pt)
{
	assert_int_equal(process_table__scan(pt), 0);
}

static inline void table_done(struct process_table *pt)
{
	fixture_table_done(&fx, pt);
}

static inline struct proc proc_of(pid_t pid)
{
	uint32_t tgid = (uint32_t)pid;
	struct proc val;

	assert_int_equal(bpf_map_lookup_elem(fx.maps.procs_fd, &tgid, &val), 0);
	return val;
}

static inline bool image_of(uint32_t space, struct image *out)
{
	return !bpf_map_lookup_elem(fx.maps.images_fd, &space, out);
}

/* What BPF finds: the space's own image or the one it shares. */
static inline struct image effective_image(const struct proc *p)
{
	struct image val;

	assert_true(image_of(p->space, &val) || image_of(p->image, &val));
	return val;
}

/* ---- events as BPF makes them --------------------------------------------------------------- */

static uint32_t next_space = SPACE_FIRST_BPF;

static inline struct proc make_fork(struct process_table *pt, pid_t parent, pid_t child)
{
	struct proc from = proc_of(parent), p = { .image = from.image, .flags = from.flags };
	struct ev_proc ev = { .type = EV_FORK, .tgid = (uint32_t)child, .comm = "child" };
	uint32_t tgid = (uint32_t)child;

	p.space = ev.space = next_space++;
	ev.image = p.image;
	ev.parent = from.space;
	ev.time_ns = now_ns();
	assert_int_equal(bpf_map_update_elem(fx.maps.procs_fd, &tgid, &p, BPF_ANY), 0);
	assert_int_equal(process_table__on_event(pt, &ev), 0);
	return p;
}

static inline struct proc make_exec(struct process_table *pt, pid_t pid)
{
	struct proc old = proc_of(pid), p = { .flags = old.flags };
	struct ev_proc ev = { .type = EV_EXEC, .tgid = (uint32_t)pid, .comm = "execed" };
	uint32_t tgid = (uint32_t)pid;

	p.space = p.image = ev.space = ev.image = next_space++;
	ev.parent = old.space;
	ev.time_ns = now_ns();
	assert_int_equal(bpf_map_update_elem(fx.maps.procs_fd, &tgid, &p, BPF_ANY), 0);
	assert_int_equal(process_table__on_event(pt, &ev), 0);
	return p;
}

static inline void make_exit(struct process_table *pt, pid_t pid)
{
	struct proc p = proc_of(pid);
	struct ev_proc ev = { .type = EV_EXIT, .tgid = (uint32_t)pid, .space = p.space };
	uint32_t tgid = (uint32_t)pid;

	bpf_map_delete_elem(fx.maps.procs_fd, &tgid);
	assert_int_equal(process_table__on_event(pt, &ev), 0);
}

/* Perf says that the process has mapped a file that nobody knows. */
static inline void made_mapping(struct process_table *pt, pid_t pid)
{
	process_table__on_mmap(pt, &(struct mmap_event){ .type = MMAP_EVENT_MMAP,
							 .tgid = (uint32_t)pid,
							 .tid = (uint32_t)pid,
							 .time_ns = now_ns(),
							 .inode = 1 });
}

/* ---- truth ---------------------------------------------------------------------------------- */

/* The image's mappings are the executable lines of /proc/PID/maps; files by inode of their fd. */
static inline void check_mappings(const struct process_table *pt, pid_t pid, const struct image *im)
{
	unsigned long long start, end, offset, inode;
	unsigned int major, minor;
	char path[64], line[8192], perms[8];
	uint32_t i = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		const struct mapping *m = &fx.maps.mappings[im->map_first + i];
		const struct elf_file *ef;
		struct stat st;
		int at = 0;

		assert_int_equal(sscanf(line, "%llx-%llx %7s %llx %x:%x %llu %n", &start, &end,
					perms, &offset, &major, &minor, &inode, &at),
				 7);
		if (perms[2] != 'x' || strstr(line + at, "[vsyscall]"))
			continue;
		assert_true(i < im->map_cnt);
		assert_true(m->start == start && m->end == end);
		i++;
		ef = process_table__file(pt, m->file);
		if (!inode && !strstr(line + at, "[vdso]")) {
			assert_null(ef);
			continue;
		}
		assert_non_null(ef);
		assert_true(m->offset == offset);
		if (elf_file__fd(ef) < 0)
			continue; /* the vdso */
		assert_int_equal(fstat(elf_file__fd(ef), &st), 0);
		assert_true(st.st_ino == inode && st.st_dev == makedev(major, minor));
	}
	fclose(f);
	assert_true(i == im->map_cnt && i > 3);
}

/* Each table in the kernel is what the file's rows are. The number of tables. */
static inline int check_tables(const struct process_table *pt, const struct image *im)
{
	int cnt = 0;

	for (uint32_t i = 0; i < im->map_cnt; i++) {
		const struct mapping *m = &fx.maps.mappings[im->map_first + i];
		static uint32_t chunk[UW_CHUNK_WORDS];
		struct unwind_table *t;
		uint32_t inner_id;
		int inner;

		if (!m->table)
			continue;
		t = unwind_table__build(process_table__file(pt, m->file));
		assert_non_null(t);
		assert_int_equal(bpf_map_lookup_elem(fx.maps.tables_fd, &m->table, &inner_id), 0);
		inner = bpf_map_get_fd_by_id(inner_id);
		assert_true(inner >= 0);
		for (uint32_t c = 0; c < t->word_cnt / UW_CHUNK_WORDS; c++) {
			assert_int_equal(bpf_map_lookup_elem(inner, &c, chunk), 0);
			assert_memory_equal(chunk, t->words + c * UW_CHUNK_WORDS, UW_CHUNK_BYTES);
		}
		close(inner);
		unwind_table__free(t);
		cnt++;
	}
	return cnt;
}

static inline bool maps_file(const struct process_table *pt, const struct image *im,
			     const char *name)
{
	for (uint32_t i = 0; i < im->map_cnt; i++) {
		const struct elf_file *ef =
			process_table__file(pt, fx.maps.mappings[im->map_first + i].file);

		if (ef && strstr(elf_file__path(ef), name))
			return true;
	}
	return false;
}

/*
 * A library that no Python has mapped: a copy of one that is surely there, with a byte more,
 * because a Python that has that one (Debian's) would make them the same file.
 */
static inline void make_library(const char *name, char *path, size_t size)
{
	char command[1024];
	FILE *f = fopen("/proc/self/maps", "r");
	char line[4096], *libc = NULL;

	while (!libc && fgets(line, sizeof(line), f))
		libc = strstr(line, "/libz.so") ? strchr(line, '/') : NULL;
	fclose(f);
	assert_non_null(libc);
	libc[strcspn(libc, "\n")] = '\0';
	snprintf(path, size, "%s/%s", workdir, name);
	snprintf(command, sizeof(command), "cp %s %s && echo >>%s", libc, path, path);
	assert_int_equal(system(command), 0);
}

static inline void dlopen_in(struct child *c, const char *path)
{
	char line[1024];

	snprintf(line, sizeof(line), "import ctypes; x = ctypes.CDLL('%s')", path);
	assert_non_null(child_ask(c, line));
	if (c->answer[0])
		fail_msg("%s", c->answer);
}

static inline int set_up(void **state)
{
	(void)state;
	pythons_find(&pythons);
	if (!mkdtemp(workdir))
		return -1;
	return fixture_open(&fx);
}

static inline int tear_down(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", workdir);
	pythons_free(&pythons);
	fixture_close(&fx);
	return system(command);
}

#endif /* PYPERF_TESTS_PROCESS_TABLE_FIXTURE_H */
