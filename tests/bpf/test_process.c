/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The process table against living processes: real Pythons, real BPF maps, made-up events of BPF.
 * Truth: /proc/PID/maps read here in another way, what the interpreters say of their own addresses,
 * and unwind tables built anew.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <time.h>

#include "base/clock.h"
#include "elf/ehframe.h"
#include "process/maps_read.h"
#include "process/tables.h"
#include "process_fixture.h"
#include "unit/pythons.h"

static struct fixture fx;
static struct pythons pythons;
static char workdir[] = "/tmp/test_process.XXXXXX";

static struct process_table *table_for(const pid_t *pids, size_t cnt, struct process_opts opts)
{
	struct process_table *pt;

	opts.pids = pids;
	opts.pid_cnt = cnt;
	pt = fixture_table(&fx, &opts);
	assert_non_null(pt);
	return pt;
}

static void scan(struct process_table *pt)
{
	assert_int_equal(process_table__scan(pt), 0);
}

static void table_done(struct process_table *pt)
{
	fixture_table_done(&fx, pt);
}

static struct proc proc_of(pid_t pid)
{
	uint32_t tgid = (uint32_t)pid;
	struct proc val;

	assert_int_equal(bpf_map_lookup_elem(fx.maps.procs_fd, &tgid, &val), 0);
	return val;
}

static bool image_of(uint32_t space, struct image *out)
{
	return !bpf_map_lookup_elem(fx.maps.images_fd, &space, out);
}

/* What BPF finds: the space's own image or the one it shares. */
static struct image effective_image(const struct proc *p)
{
	struct image val;

	assert_true(image_of(p->space, &val) || image_of(p->image, &val));
	return val;
}

/* ---- events as BPF makes them --------------------------------------------------------------- */

static uint32_t next_space = SPACE_FIRST_BPF;

static struct proc make_fork(struct process_table *pt, pid_t parent, pid_t child)
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

static struct proc make_exec(struct process_table *pt, pid_t pid)
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

static void make_exit(struct process_table *pt, pid_t pid)
{
	struct proc p = proc_of(pid);
	struct ev_proc ev = { .type = EV_EXIT, .tgid = (uint32_t)pid, .space = p.space };
	uint32_t tgid = (uint32_t)pid;

	bpf_map_delete_elem(fx.maps.procs_fd, &tgid);
	assert_int_equal(process_table__on_event(pt, &ev), 0);
}

/* Perf says that the process has mapped a file that nobody knows. */
static void made_mapping(struct process_table *pt, pid_t pid)
{
	process_table__on_mmap(pt, &(struct mmap_event){ .type = MMAP_EVENT_MMAP,
							 .tgid = (uint32_t)pid,
							 .tid = (uint32_t)pid,
							 .time_ns = now_ns(),
							 .inode = 1 });
}

/* ---- truth ---------------------------------------------------------------------------------- */

/* The image's mappings are the executable lines of /proc/PID/maps; files by inode of their fd. */
static void check_mappings(const struct process_table *pt, pid_t pid, const struct image *im)
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
static int check_tables(const struct process_table *pt, const struct image *im)
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

static uint64_t peek(pid_t pid, uint64_t addr)
{
	uint64_t val = 0;
	struct iovec to = { &val, sizeof(val) }, from = { (void *)(uintptr_t)addr, sizeof(val) };

	assert_true(process_vm_readv(pid, &to, 1, &from, 1, 0) == sizeof(val));
	return val;
}

/* The addresses that the image leads to are those that the interpreter gives. */
static void check_interp(struct child *c, const struct image *im)
{
	struct interp in;
	const char *answer;

	assert_int_equal(bpf_map_lookup_elem(fx.maps.interps_fd, &im->interps[0].interp, &in), 0);
	answer = child_ask(c, "out = '%d' % id(type((lambda: 0).__code__))");
	assert_non_null(answer);
	assert_true(strtoull(answer, NULL, 10) == im->interps[0].bias + in.code_type);
	answer = child_ask(c, "import ctypes; f = ctypes.pythonapi.PyInterpreterState_Head; "
			      "f.restype = ctypes.c_void_p; out = '%d' % f()");
	assert_non_null(answer);
	if (!strncmp(answer, "error", 5)) {
		print_message("no ctypes: %s\n", answer);
		return;
	}
	assert_true(strtoull(answer, NULL, 10) ==
		    peek(c->pid, im->interps[0].bias + in.interp_head));
}

static bool maps_file(const struct process_table *pt, const struct image *im, const char *name)
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
static void make_library(const char *name, char *path, size_t size)
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

static void dlopen_in(struct child *c, const char *path)
{
	char line[1024];

	snprintf(line, sizeof(line), "import ctypes; x = ctypes.CDLL('%s')", path);
	assert_non_null(child_ask(c, line));
	if (c->answer[0])
		fail_msg("%s", c->answer);
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void finds_each_interpreter(void **state)
{
	(void)state;
	for (size_t i = 0; i < pythons.cnt; i++) {
		struct child c;
		struct process_table *pt;
		struct process *p;
		struct image im;
		struct proc proc;
		const char *version;

		print_message("%s\n", pythons.path[i]);
		assert_int_equal(child_start(&c, pythons.path[i]), 0);
		pt = table_for(&c.pid, 1, (struct process_opts){ 0 });
		scan(pt);
		proc = proc_of(c.pid);
		assert_int_equal(proc.flags, PROC_TARGET);
		assert_true(proc.space == proc.image && proc.space < SPACE_FIRST_BPF);
		p = process_table__find(pt, proc.space);
		assert_non_null(p);
		assert_ptr_equal(p, process_table__find_tgid(pt, (uint32_t)c.pid));
		assert_string_equal(p->exe, pythons.path[i]);
		assert_string_equal(p->container, "");
		assert_null(p->native_only);
		assert_true(image_of(proc.space, &im));
		assert_int_equal(im.flags, IMAGE_PYTHON);
		check_mappings(pt, c.pid, &im);
		assert_true(check_tables(pt, &im) > 2);
		check_interp(&c, &im);
		assert_string_equal(process_table__interp(pt, im.interps[0].interp)->version,
				    p->python);
		assert_null(process_table__interp(pt, im.interps[0].interp + 1));
		version = child_ask(&c, "out = '%d.%d' % sys.version_info[:2]");
		assert_non_null(version);
		assert_int_equal(strncmp(p->python, version, strlen(version)), 0);
		child_stop(&c);
		table_done(pt);
	}
}

/* Alive, and we may look at it. */
static bool has_maps(pid_t pid)
{
	char path[64], byte;
	bool some = false;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		some = read(fd, &byte, 1) == 1;
		close(fd);
	}
	return some;
}

/* A process that lives and was not analysed; 0: all were. */
static uint32_t find_pending(struct process_table *pt)
{
	struct process *p;

	for (size_t at = 0; (p = process_table__next(pt, &at));) {
		if (!p->image && !p->exited && has_maps((pid_t)p->tgid))
			return p->tgid;
	}
	return 0;
}

static void scans_the_machine(void **state)
{
	uint32_t pending, before = 0;
	struct process_table *pt;
	struct process_stats st;
	struct process *self, *p;
	struct image im;
	struct child c;

	(void)state;
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	/*
	 * Whoever is between two programs, and has no memory for a moment, is somebody else the
	 * next time.
	 */
	for (int tries = 10;; table_done(pt)) {
		pt = table_for(NULL, 0, (struct process_opts){ 0 });
		scan(pt);
		pending = find_pending(pt);
		if (!pending)
			break;
		if (pending == before || !--tries)
			fail_msg("process %u is pending", pending);
		before = pending;
	}
	process_table__stats(pt, &st);
	assert_true(st.live >= 2 && st.python >= 1);
	/* We are no Python: known, and nothing of us is in the kernel. */
	self = process_table__find_tgid(pt, (uint32_t)getpid());
	assert_non_null(self);
	assert_true(self->analysed && !self->is_python);
	assert_true(image_of(self->space, &im));
	assert_true(!im.flags && !im.map_cnt);
	p = process_table__find_tgid(pt, (uint32_t)c.pid);
	assert_true(p && p->is_python);
	assert_int_equal(proc_of(c.pid).flags, 0);
	/* Kernel threads are not processes. */
	assert_null(process_table__find_tgid(pt, 2));
	child_stop(&c);
	table_done(pt);
}

static void all_walks_everyone(void **state)
{
	pid_t self = getpid();
	struct process_table *pt = table_for(&self, 1, (struct process_opts){ .all = true });
	struct image im;

	(void)state;
	scan(pt);
	assert_true(image_of(proc_of(self).space, &im));
	assert_int_equal(im.flags, 0);
	check_mappings(pt, self, &im);
	assert_true(maps_file(pt, &im, "[vdso]"));
	check_tables(pt, &im);
	table_done(pt);
}

static void racing_fork_wins(void **state)
{
	pid_t self = getpid();
	struct process_table *pt = table_for(&self, 1, (struct process_opts){ .all = true });
	struct proc theirs = { .space = SPACE_FIRST_BPF + 77, .image = 5 }, found;
	uint32_t tgid = (uint32_t)self;

	(void)state;
	assert_int_equal(bpf_map_update_elem(fx.maps.procs_fd, &tgid, &theirs, BPF_ANY), 0);
	scan(pt);
	found = proc_of(self);
	assert_memory_equal(&found, &theirs, sizeof(found));
	assert_null(process_table__find_tgid(pt, tgid));
	/* Its event was lost: a resync takes it over. */
	assert_int_equal(process_table__resync(pt), 0);
	assert_non_null(process_table__find(pt, theirs.space));
	assert_true(image_of(theirs.space, &(struct image){ 0 }));
	table_done(pt);
}

static void notes_dlopen(void **state)
{
	struct mmapwatch *w = mmapwatch__new(0, MMAPWATCH_EACH);
	struct pollfd pfd = { .fd = mmapwatch__fd(w), .events = POLLIN };
	struct process_table *pt;
	struct child c;
	struct image before, after;
	char lib[256];

	(void)state;
	assert_non_null(w);
	make_library("libdlopened.so", lib, sizeof(lib));
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	child_ask(&c, "import ctypes");
	pt = table_for(&c.pid, 1, (struct process_opts){ 0 });
	scan(pt);
	assert_true(image_of(proc_of(c.pid).space, &before));
	mmapwatch__read(w, process_table__on_mmap, pt);
	process_table__refresh(pt);

	dlopen_in(&c, lib);
	assert_int_equal(poll(&pfd, 1, 10000), 1);
	assert_true(mmapwatch__read(w, process_table__on_mmap, pt) > 0);
	assert_int_equal(process_table__refresh(pt), 0);
	assert_true(image_of(proc_of(c.pid).space, &after));
	assert_true(after.map_first != before.map_first && after.map_cnt > before.map_cnt);
	assert_false(maps_file(pt, &before, "libdlopened"));
	assert_true(maps_file(pt, &after, "libdlopened"));
	check_mappings(pt, c.pid, &after);
	assert_true(check_tables(pt, &after) > 2);
	child_stop(&c);
	table_done(pt);
	mmapwatch__free(w);
}

/* A library that no one has seen: one that is another file by its size. */
static void make_unseen_library(const char *name, char *path, size_t size)
{
	static int unseen;
	FILE *f;

	make_library(name, path, size);
	f = fopen(path, "a");
	assert_non_null(f);
	for (int i = ++unseen; i >= 0; i--)
		fputc('x', f);
	assert_int_equal(fclose(f), 0);
}

static const struct mapping *mapping_of(const struct process_table *pt, const struct image *im,
					const char *name)
{
	for (uint32_t i = 0; i < im->map_cnt; i++) {
		const struct mapping *m = &fx.maps.mappings[im->map_first + i];
		const struct elf_file *ef = process_table__file(pt, m->file);

		if (ef && strstr(elf_file__path(ef), name))
			return m;
	}
	return NULL;
}

static void new_file_has_its_table_at_once(void **state)
{
	struct file_stats before, after;
	struct process_table *pt;
	const struct mapping *m;
	struct process_stats st;
	struct image im;
	struct child c;
	char lib[256];

	(void)state;
	make_unseen_library("libspare.so", lib, sizeof(lib));
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	child_ask(&c, "import ctypes");
	pt = table_for(&c.pid, 1, (struct process_opts){ 0 });
	scan(pt);
	process_table__file_stats(pt, &before);
	process_table__stats(pt, &st);
	assert_true(before.publish_waits > 0 && before.spares > 0 && !before.spares_used);
	assert_true(before.spare_bytes > 0 && before.spare_bytes <= SPARE_BYTES_DEFAULT);
	assert_true(!st.early && !st.late); /* before sampling nothing has to be quick */

	dlopen_in(&c, lib);
	made_mapping(pt, c.pid);
	assert_int_equal(process_table__refresh(pt), 0);
	assert_true(image_of(proc_of(c.pid).space, &im));
	m = mapping_of(pt, &im, "libspare.so");
	assert_true(m && m->table);
	check_mappings(pt, c.pid, &im);
	assert_true(check_tables(pt, &im) > 2);
	process_table__file_stats(pt, &after);
	assert_true(after.publish_waits == before.publish_waits);
	assert_true(after.spares_used == 1 && !after.spares_missed);
	assert_true(after.table_bytes > before.table_bytes);
	process_table__stats(pt, &st);
	assert_true(st.early == 1 && !st.late);
	child_stop(&c);
	table_done(pt);
}

static void without_a_spare_it_is_published_twice(void **state)
{
	struct file_stats before, after;
	struct process_table *pt;
	const struct mapping *m;
	struct process_stats st;
	struct image im;
	struct child c;
	char lib[256];
	int tries = 0;

	(void)state;
	make_unseen_library("libnospare.so", lib, sizeof(lib));
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	child_ask(&c, "import ctypes");
	pt = table_for(&c.pid, 1, (struct process_opts){ .spare_bytes = 1 });
	scan(pt);
	process_table__file_stats(pt, &before);
	assert_true(!before.spares && !before.spare_bytes);
	dlopen_in(&c, lib);
	made_mapping(pt, c.pid);
	assert_int_equal(process_table__refresh(pt), 1); /* ask again */
	assert_true(image_of(proc_of(c.pid).space, &im));
	assert_int_equal(im.flags, IMAGE_PYTHON);
	m = mapping_of(pt, &im, "libnospare.so");
	assert_true(m && !m->table);
	check_mappings(pt, c.pid, &im);
	process_table__stats(pt, &st);
	assert_true(st.early == 1 && st.late == 1);
	while (process_table__refresh(pt) && tries++ < 10000)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	assert_true(image_of(proc_of(c.pid).space, &im));
	m = mapping_of(pt, &im, "libnospare.so");
	assert_true(m && m->table);
	assert_true(check_tables(pt, &im) > 2);
	process_table__file_stats(pt, &after);
	assert_true(after.publish_waits == before.publish_waits && after.spares_missed == 1);
	child_stop(&c);
	table_done(pt);
}

/* The old range is not given out again before reclaim, and is after it. */
static void buries_old_mappings(void **state)
{
	struct process_table *pt;
	struct process_stats st;
	struct image first, second;
	struct child c;
	char lib[256];
	uint64_t used;

	(void)state;
	make_library("libburied.so", lib, sizeof(lib));
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	child_ask(&c, "import ctypes");
	pt = table_for(&c.pid, 1, (struct process_opts){ 0 });
	scan(pt);
	assert_true(image_of(proc_of(c.pid).space, &first));
	dlopen_in(&c, lib);
	process_table__on_mmap(pt, &(struct mmap_event){ .type = MMAP_EVENT_LOST });
	process_table__refresh(pt);
	assert_true(image_of(proc_of(c.pid).space, &second));
	process_table__stats(pt, &st);
	used = st.mappings_used;
	/* The second one twice: before its new table was built, and with it. */
	assert_true(used == first.map_cnt + 2 * second.map_cnt);
	process_table__reclaim(pt);
	process_table__stats(pt, &st);
	assert_true(st.mappings_used == second.map_cnt);
	/* Nothing new: nothing is written. */
	process_table__on_mmap(pt, &(struct mmap_event){ .type = MMAP_EVENT_LOST });
	process_table__refresh(pt);
	assert_true(image_of(proc_of(c.pid).space, &first));
	assert_memory_equal(&first, &second, sizeof(first));
	make_exit(pt, c.pid);
	process_table__reclaim(pt);
	process_table__stats(pt, &st);
	assert_true(st.mappings_used == 0);
	child_stop(&c);
	table_done(pt);
}

/* A file without a name, and one that never had one. */
static void knows_deleted_files_and_memfds(void **state)
{
	struct process_table *pt;
	struct image im;
	struct child c;
	char lib[256], line[1024];

	(void)state;
	make_library("libgone.so", lib, sizeof(lib));
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	dlopen_in(&c, lib);
	snprintf(line, sizeof(line),
		 "l = ctypes.CDLL(None); fd = l.syscall(%d, b'anonymous', 0); "
		 "d = open('%s', 'rb').read(); os.write(fd, d + b'x'); "
		 "x2 = ctypes.CDLL('/proc/self/fd/%%d' %% fd)",
		 319 /* memfd_create, x86-64 */, lib);
#ifdef __x86_64__
	assert_non_null(child_ask(&c, line));
	assert_string_equal(c.answer, "");
#endif
	unlink(lib);
	pt = table_for(&c.pid, 1, (struct process_opts){ 0 });
	scan(pt);
	assert_true(image_of(proc_of(c.pid).space, &im));
	check_mappings(pt, c.pid, &im);
	assert_true(maps_file(pt, &im, "libgone.so"));
#ifdef __x86_64__
	assert_true(maps_file(pt, &im, "memfd:anonymous"));
#endif
	child_stop(&c);
	table_done(pt);
}

/*
 * Between the look at a mapping and at its file another file was mapped there: it is not that file.
 */
static void file_of_another_mapping_is_not_taken(void **state)
{
	const struct file_maps fm = { .tables_fd = fx.maps.tables_fd,
				      .interps_fd = fx.maps.interps_fd,
				      .table_cap = fx.maps.table_cap,
				      .interp_cap = fx.maps.interp_cap };
	int proc_fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct symbolizer *sym = symbolizer__new(NULL);
	struct file_table *ft = file_table__new(&fm, symbolizer__sink(sym));
	const struct map_line *libc = NULL, *other = NULL;
	const struct mapped_file *file;
	struct exec_maps now = { 0 };
	struct map_line moved;

	(void)state;
	assert_non_null(ft);
	assert_int_equal(exec_maps__read(&now, proc_fd), 0);
	for (size_t i = 0; i < now.cnt; i++) {
		if (memmem(now.lines[i].name, now.lines[i].name_len, "/libc", 5))
			libc = &now.lines[i];
		else if (now.lines[i].inode)
			other = &now.lines[i];
	}
	assert_true(libc && other);
	moved = *libc;
	moved.start = other->start;
	moved.end = other->end;
	moved.name = "/gone";
	moved.name_len = 5;
	file_table__begin(ft);
	file_table__enter(ft, (uint32_t)getpid(), proc_fd, NULL, 0);
	assert_null(file_table__get(ft, &moved));
	file = file_table__get(ft, libc);
	assert_non_null(file);
	assert_non_null(strstr(elf_file__path(file->elf), "/libc"));
	assert_ptr_equal(file_table__get(ft, &moved), file); /* it is known by now */
	exec_maps__free(&now);
	close(proc_fd);
	symbolizer__free(sym);
	file_table__free(ft);
}

/* The same library under two inodes is one file with one table. */
static void shares_by_build_id(void **state)
{
	struct process_table *pt;
	const struct mapping *m;
	char one[256], two[256];
	uint32_t id = 0, seen = 0;
	struct image im;
	struct child c;

	(void)state;
	make_library("libtwin1.so", one, sizeof(one));
	make_library("libtwin2.so", two, sizeof(two));
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	dlopen_in(&c, one);
	dlopen_in(&c, two);
	pt = table_for(&c.pid, 1, (struct process_opts){ 0 });
	scan(pt);
	assert_true(image_of(proc_of(c.pid).space, &im));
	for (uint32_t i = 0; i < im.map_cnt; i++) {
		m = &fx.maps.mappings[im.map_first + i];
		if (!m->file ||
		    !strstr(elf_file__path(process_table__file(pt, m->file)), "libtwin"))
			continue;
		assert_true(!seen || m->file == id);
		id = m->file;
		seen++;
	}
	assert_int_equal(seen, 2);
	child_stop(&c);
	table_done(pt);
}

static int forked_pid(struct child *c)
{
	/* The child waits for its end of a pipe to close, so it ends with its parent. */
	const char *answer = child_ask(
		c, "r, w = os.pipe(); pid = os.fork(); "
		   "out = str(pid) if pid else [os.close(w), os.read(r, 1), os._exit(0)]");

	assert_non_null(answer);
	return atoi(answer);
}

static void fork_shares_until_someone_changes(void **state)
{
	struct process_table *pt;
	struct proc parent, kid;
	struct image shared, im;
	struct process *p;
	struct child c;
	char lib[256];
	pid_t pid;

	(void)state;
	make_library("libforked.so", lib, sizeof(lib));
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	child_ask(&c, "import ctypes");
	pt = table_for(&c.pid, 1, (struct process_opts){ .children = true });
	scan(pt);
	parent = proc_of(c.pid);
	assert_true(image_of(parent.space, &shared));
	pid = forked_pid(&c);
	kid = make_fork(pt, c.pid, pid);
	p = process_table__find(pt, kid.space);
	assert_true(p && p->is_python && p->tgid == (uint32_t)pid);
	assert_int_equal(process_table__refresh(pt), 0);
	assert_false(image_of(kid.space, &im));
	im = effective_image(&kid);
	assert_memory_equal(&im, &shared, sizeof(im));

	/* The parent changes: the child keeps what it had. */
	dlopen_in(&c, lib);
	made_mapping(pt, c.pid);
	process_table__refresh(pt);
	process_table__reclaim(pt);
	im = effective_image(&parent);
	assert_true(maps_file(pt, &im, "libforked"));
	check_mappings(pt, c.pid, &im);
	assert_true(image_of(kid.space, &im));
	assert_false(maps_file(pt, &im, "libforked"));
	check_mappings(pt, pid, &im);

	/* The parent goes first; its image goes with it, the child's stays. */
	make_exit(pt, c.pid);
	assert_false(image_of(parent.space, &im));
	assert_true(image_of(kid.space, &im));
	make_exit(pt, pid);
	assert_false(image_of(kid.space, &im));
	child_stop(&c);
	table_done(pt);
}

static void image_outlives_its_owner(void **state)
{
	struct process_table *pt;
	struct proc parent, kid, grandkid;
	struct image im;
	struct child c;
	pid_t pid;

	(void)state;
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	pt = table_for(&c.pid, 1, (struct process_opts){ .children = true });
	scan(pt);
	parent = proc_of(c.pid);
	pid = forked_pid(&c);
	kid = make_fork(pt, c.pid, pid);
	make_exit(pt, c.pid);
	im = effective_image(&kid);
	assert_int_equal(im.flags, IMAGE_PYTHON);
	grandkid = make_fork(pt, pid, getpid()); /* any other living process */
	assert_true(grandkid.image == parent.space);
	make_exit(pt, pid);
	im = effective_image(&grandkid);
	assert_int_equal(im.flags, IMAGE_PYTHON);
	make_exit(pt, getpid());
	assert_false(image_of(parent.space, &im));
	child_stop(&c);
	table_done(pt);
}

/* A child maps something before its fork was read: it is looked at all the same. */
static void mapping_before_fork_is_remembered(void **state)
{
	struct process_stats before, after;
	struct process_table *pt;
	struct child c;
	struct image im;
	struct proc kid;
	pid_t pid;

	(void)state;
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	pt = table_for(&c.pid, 1, (struct process_opts){ .children = true });
	scan(pt);
	pid = forked_pid(&c);
	made_mapping(pt, pid);
	process_table__refresh(pt);
	process_table__stats(pt, &before);
	kid = make_fork(pt, c.pid, pid);
	process_table__refresh(pt);
	process_table__stats(pt, &after);
	assert_true(after.refreshed == before.refreshed + 1);
	im = effective_image(&kid);
	check_mappings(pt, pid, &im);
	child_stop(&c);
	table_done(pt);
}

static void exec_is_a_new_process(void **state)
{
	struct mmapwatch *w = mmapwatch__new(0, MMAPWATCH_EACH);
	struct process_table *pt;
	struct process *old, *p;
	struct proc before, after;
	struct image im;
	struct child c;
	char line[4096];

	(void)state;
	assert_non_null(w);
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	pt = table_for(&c.pid, 1, (struct process_opts){ 0 });
	scan(pt);
	before = proc_of(c.pid);
	/* To cat, which answers with what it is told. */
	fprintf(c.to, "os.execv('/bin/cat', ['cat'])\n");
	assert_string_equal(child_ask(&c, "hello"), "hello");
	mmapwatch__read(w, process_table__on_mmap, pt);
	assert_true(process_table__refresh(pt) > 0); /* in exec: not looked at */
	assert_true(image_of(before.space, &im) && im.flags == IMAGE_PYTHON);
	after = make_exec(pt, c.pid);
	process_table__refresh(pt);
	old = process_table__find(pt, before.space);
	p = process_table__find(pt, after.space);
	assert_true(old && old->exited && old->is_python && old->python[0]);
	assert_true(p && !p->exited && !p->is_python);
	assert_ptr_equal(p, process_table__find_tgid(pt, (uint32_t)c.pid));
	assert_string_equal(p->comm, "execed");
	assert_false(image_of(before.space, &im));
	assert_true(image_of(after.space, &im));
	assert_int_equal(im.flags, 0);

	make_exit(pt, c.pid);
	child_stop(&c);
	table_done(pt);

	/* And from Python to Python. */
	snprintf(line, sizeof(line), "os.execv('%s', ['python', '-c', %s])", pythons.path[0],
		 "'import sys; sys.stdout.write(sys.stdin.readline()); sys.stdout.flush(); "
		 "sys.stdin.readline()'");
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	pt = table_for(&c.pid, 1, (struct process_opts){ 0 });
	scan(pt);
	fprintf(c.to, "%s\n", line);
	assert_string_equal(child_ask(&c, "hello"), "hello");
	mmapwatch__read(w, process_table__on_mmap, pt);
	after = make_exec(pt, c.pid);
	process_table__refresh(pt);
	assert_true(image_of(after.space, &im));
	assert_int_equal(im.flags, IMAGE_PYTHON);
	child_stop(&c);
	table_done(pt);
	mmapwatch__free(w);
}

/* The second exec of a program that was looked at a moment ago costs no look at /proc. */
static void plain_exec_is_settled_by_its_mappings(void **state)
{
	struct mmapwatch *w = mmapwatch__new(0, MMAPWATCH_EACH);
	struct process_stats st;
	struct process_table *pt;
	struct proc after;
	struct image im;
	pid_t self = getpid();
	bool settled = false;

	(void)state;
	assert_non_null(w);
	pt = table_for(&self, 1, (struct process_opts){ .children = true });
	scan(pt);
	for (int i = 0; i < 5 && !settled; i++) {
		struct child c = { 0 };
		int in[2], out[2];

		assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
		mmapwatch__read(w, process_table__on_mmap, pt);
		c.pid = fork();
		if (!c.pid) {
			char byte;

			if (read(in[0], &byte, 1) < 0) /* until our parent told of the fork */
				_exit(1);
			dup2(in[0], 0);
			dup2(out[1], 1);
			execl("/bin/cat", "cat", (char *)NULL);
			_exit(127);
		}
		make_fork(pt, self, c.pid);
		close(in[0]);
		close(out[1]);
		c.to = fdopen(in[1], "w");
		c.from = fdopen(out[0], "r");
		assert_string_equal(child_ask(&c, "xhello"), "hello");
		mmapwatch__read(w, process_table__on_mmap, pt);
		after = make_exec(pt, c.pid);
		process_table__stats(pt, &st);
		settled = st.exec_plain > 0;
		if (settled)
			assert_true(image_of(after.space, &im) && !im.flags && !im.map_cnt);
		process_table__refresh(pt);
		assert_true(image_of(after.space, &im));
		make_exit(pt, c.pid);
		child_stop(&c);
	}
	assert_true(settled);
	table_done(pt);
	mmapwatch__free(w);
}

static void exited_are_kept_for_the_report(void **state)
{
	struct process_table *pt;
	struct child c;
	struct image im;
	struct proc proc;

	(void)state;
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	pt = table_for(&c.pid, 1, (struct process_opts){ 0 });
	scan(pt);
	proc = proc_of(c.pid);
	make_exit(pt, c.pid);
	assert_false(image_of(proc.space, &im));
	assert_null(process_table__find_tgid(pt, (uint32_t)c.pid));
	assert_true(process_table__find(pt, proc.space)->exited);
	process_table__forget_exited(pt); /* its last counts may be in the next window */
	assert_non_null(process_table__find(pt, proc.space));
	process_table__forget_exited(pt);
	assert_null(process_table__find(pt, proc.space));
	child_stop(&c);
	table_done(pt);
}

static void lost_exit_is_found_by_resync(void **state)
{
	struct process_table *pt;
	struct child c;
	struct proc proc;
	uint32_t tgid;

	(void)state;
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	pt = table_for(&c.pid, 1, (struct process_opts){ 0 });
	scan(pt);
	proc = proc_of(c.pid);
	tgid = (uint32_t)c.pid;
	child_stop(&c);
	bpf_map_delete_elem(fx.maps.procs_fd, &tgid);
	assert_int_equal(process_table__resync(pt), 0);
	assert_true(process_table__find(pt, proc.space)->exited);
	table_done(pt);
}

static void existing_descendants_are_targets(void **state)
{
	struct process_table *pt;
	struct child c;
	pid_t pid;

	(void)state;
	assert_int_equal(child_start(&c, pythons.path[0]), 0);
	pid = forked_pid(&c);
	pt = table_for(&c.pid, 1, (struct process_opts){ .children = true });
	scan(pt);
	assert_int_equal(proc_of(pid).flags, PROC_TARGET);
	assert_null(process_table__find_tgid(pt, (uint32_t)getpid()));
	table_done(pt);
	pt = table_for(&c.pid, 1, (struct process_opts){ 0 });
	scan(pt);
	assert_null(process_table__find_tgid(pt, (uint32_t)pid));
	child_stop(&c);
	table_done(pt);
}

/* Two different interpreters; the bytes of the second one's tables. Skips if there is one only. */
static uint64_t start_two(struct child *a, struct child *b)
{
	struct process_table *pt;
	struct file_stats fs;

	if (pythons.cnt < 2) {
		printf("skip: only one Python interpreter here\n");
		skip();
	}
	assert_int_equal(child_start(a, pythons.path[0]), 0);
	assert_int_equal(child_start(b, pythons.path[1]), 0);
	pt = table_for(&b->pid, 1, (struct process_opts){ 0 });
	scan(pt);
	process_table__file_stats(pt, &fs);
	assert_true(fs.table_bytes > 0);
	table_done(pt);
	return fs.table_bytes;
}

#define SPARE_LOSS 65536 /* spares are larger than what is in them */

/* Tables of the dead make room, those of the living do not. */
static void evicts_unused_tables(void **state)
{
	struct file_stats fs;
	struct process_table *pt;
	struct child a, b;
	struct image im;
	struct proc proc;
	uint64_t need;

	(void)state;
	need = start_two(&a, &b) + SPARE_LOSS;

	/* Room for one of them; the other one comes by exec, as far as the table knows. */
	pt = table_for(&a.pid, 1, (struct process_opts){ .children = true, .table_budget = need });
	scan(pt);
	process_table__file_stats(pt, &fs);
	assert_true(fs.tables > 0 && fs.tables_evicted == 0);
	make_fork(pt, a.pid, b.pid);
	make_exec(pt, b.pid);
	process_table__refresh(pt);
	process_table__file_stats(pt, &fs);
	assert_true(fs.tables_refused > 0 && fs.tables_evicted == 0);
	assert_true(fs.table_bytes <= need);

	make_exit(pt, a.pid);
	process_table__on_mmap(pt, &(struct mmap_event){ .type = MMAP_EVENT_LOST });
	process_table__refresh(pt);
	process_table__file_stats(pt, &fs);
	assert_true(fs.tables_evicted > 0 && fs.table_bytes <= need);
	proc = proc_of(b.pid);
	im = effective_image(&proc);
	assert_true(check_tables(pt, &im) > 2);
	child_stop(&a);
	child_stop(&b);
	table_done(pt);
}

#define SEEN_CAP 4096
static __u64 seen[SEEN_CAP];

/* A window in which stacks came by all files of one process (0: of none). */
static void window_of(struct process_table *pt, pid_t pid)
{
	struct image im = { 0 };
	struct proc proc;

	if (pid) {
		proc = proc_of(pid);
		im = effective_image(&proc);
	}
	for (uint32_t i = 0; i < im.map_cnt; i++)
		seen[fx.maps.mappings[im.map_first + i].file % SEEN_CAP] = 1;
	process_table__tick(pt);
	process_table__refresh(pt);
}

static uint32_t named_tables(pid_t pid)
{
	struct proc proc = proc_of(pid);
	struct image im = effective_image(&proc);
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < im.map_cnt; i++)
		cnt += fx.maps.mappings[im.map_first + i].table != 0;
	return cnt;
}

/* No image may have an index under which another file's table lies now. */
static void check_images(struct process_table *pt, pid_t a, pid_t b)
{
	pid_t pids[] = { a, b };

	for (int i = 0; i < 2; i++) {
		struct proc proc = proc_of(pids[i]);
		struct image im = effective_image(&proc);

		check_tables(pt, &im);
	}
}

/* Room for one of two: the one whose stacks are seen has its tables, and they change places. */
static void evicts_tables_that_are_not_seen(void **state)
{
	struct file_stats fs;
	struct process_table *pt;
	struct child a, b;
	uint64_t need;

	(void)state;
	need = start_two(&a, &b);

	memset(seen, 0, sizeof(seen));
	fx.maps.seen = seen;
	fx.maps.seen_cap = SEEN_CAP;
	pt = table_for(
		&a.pid, 1,
		(struct process_opts){ .children = true, .table_budget = need + SPARE_LOSS });
	scan(pt);
	make_fork(pt, a.pid, b.pid);
	make_exec(pt, b.pid);
	process_table__refresh(pt);
	process_table__file_stats(pt, &fs);
	assert_true(fs.tables_refused > 0 && fs.tables_evicted == 0);
	for (int round = 0; round < 3; round++) {
		pid_t hot = round & 1 ? a.pid : b.pid;
		uint64_t evicted = fs.tables_evicted;
		uint32_t before = named_tables(hot);

		/* Two windows until the other one counts as cold, and a while for the kernel. */
		for (int i = 0; i < 400 && (i < 4 || named_tables(hot) <= before ||
					    process_table__refresh(pt));
		     i++) {
			window_of(pt, hot);
			usleep(5000);
		}
		process_table__file_stats(pt, &fs);
		assert_true(fs.tables_evicted > evicted);
		assert_true(named_tables(hot) > before);
		assert_true(fs.table_bytes <= need + SPARE_LOSS);
		check_images(pt, a.pid, b.pid);
	}
	child_stop(&a);
	child_stop(&b);
	table_done(pt);
	fx.maps.seen = NULL;
}

/*
 * Files that no one maps and no stack names are closed; interpreters stay, and come back at once.
 */
static void releases_unused_files(void **state)
{
	struct file_stats fs;
	struct process_table *pt;
	struct child a, b;

	(void)state;
	if (pythons.cnt < 2) {
		printf("skip: only one Python interpreter here\n");
		skip();
	}
	memset(seen, 0, sizeof(seen));
	fx.maps.seen = seen;
	fx.maps.seen_cap = SEEN_CAP;
	assert_int_equal(child_start(&a, pythons.path[0]), 0);
	assert_int_equal(child_start(&b, pythons.path[1]), 0);
	pt = table_for(&a.pid, 1, (struct process_opts){ .children = true });
	scan(pt);
	for (int round = 0; round < 2; round++) {
		make_fork(pt, a.pid, b.pid);
		make_exec(pt, b.pid);
		for (int i = 0; i < 400 && process_table__refresh(pt); i++)
			usleep(5000);
		assert_true(named_tables(b.pid) > 2);
		check_images(pt, a.pid, b.pid);
		make_exit(pt, b.pid);
		for (int i = 0; i < 3; i++)
			window_of(pt, 0);
		process_table__file_stats(pt, &fs);
		assert_true(fs.released > (uint64_t)round && fs.released < fs.files);
	}
	child_stop(&a);
	child_stop(&b);
	table_done(pt);
	fx.maps.seen = NULL;
}

static int set_up(void **state)
{
	(void)state;
	pythons_find(&pythons);
	if (!mkdtemp(workdir))
		return -1;
	return fixture_open(&fx);
}

static int tear_down(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", workdir);
	pythons_free(&pythons);
	fixture_close(&fx);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_each_interpreter),
		cmocka_unit_test(scans_the_machine),
		cmocka_unit_test(all_walks_everyone),
		cmocka_unit_test(racing_fork_wins),
		cmocka_unit_test(notes_dlopen),
		cmocka_unit_test(new_file_has_its_table_at_once),
		cmocka_unit_test(without_a_spare_it_is_published_twice),
		cmocka_unit_test(buries_old_mappings),
		cmocka_unit_test(knows_deleted_files_and_memfds),
		cmocka_unit_test(file_of_another_mapping_is_not_taken),
		cmocka_unit_test(shares_by_build_id),
		cmocka_unit_test(fork_shares_until_someone_changes),
		cmocka_unit_test(image_outlives_its_owner),
		cmocka_unit_test(mapping_before_fork_is_remembered),
		cmocka_unit_test(exec_is_a_new_process),
		cmocka_unit_test(plain_exec_is_settled_by_its_mappings),
		cmocka_unit_test(exited_are_kept_for_the_report),
		cmocka_unit_test(lost_exit_is_found_by_resync),
		cmocka_unit_test(existing_descendants_are_targets),
		cmocka_unit_test(evicts_unused_tables),
		cmocka_unit_test(evicts_tables_that_are_not_seen),
		cmocka_unit_test(releases_unused_files),
	};

	if (geteuid()) {
		printf("needs root\n");
		return 77;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
