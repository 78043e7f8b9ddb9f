/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The files that processes map, as the process table follows them: new ones, those without a name,
 * and the room for their unwind tables. Truth: /proc/PID/maps, and unwind tables built anew.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <time.h>

#include "process/maps_read.h"
#include "process/tables.h"
#include "process_table_fixture.h"

/* ---- what is mapped ------------------------------------------------------------------------- */

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

/* ---- room ------------------------------------------------------------------------------------ */

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(notes_dlopen),
		cmocka_unit_test(new_file_has_its_table_at_once),
		cmocka_unit_test(without_a_spare_it_is_published_twice),
		cmocka_unit_test(buries_old_mappings),
		cmocka_unit_test(knows_deleted_files_and_memfds),
		cmocka_unit_test(file_of_another_mapping_is_not_taken),
		cmocka_unit_test(shares_by_build_id),
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
