// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Windows on disk: order, limits, what is damaged, a writer that is killed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/push/spool.h"
#include "base/clock.h"
#include "base/log.h"

#include "unit/stepped_clock.h"

#define KILLS 50
#define NO_LIMIT                                                                                   \
	&(struct spool_limits)                                                                     \
	{                                                                                          \
		1ULL << 40, 1ULL << 60                                                             \
	}

struct fixture {
	char dir[64], spool[80];
};

static const struct label labels[] = { { "host", "h" }, { "service_name", "s" } };
static char pprof[21000];

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->dir, "/tmp/pyperf-spool-XXXXXX");
	if (!f || !mkdtemp(f->dir))
		return -1;
	sprintf(f->spool, "%s/spool", f->dir);
	for (size_t i = 0; i < sizeof(pprof); i++)
		pprof[i] = (char)(i * 7);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	char command[128];

	sprintf(command, "rm -rf '%s'", f->dir);
	free(f);
	return system(command);
}

static struct window window(unsigned number, size_t size)
{
	struct window w = {
		.start_unix_ns = number,
		.duration_ns = 10,
		.labels = labels,
		.label_cnt = 2,
		.samples = 3,
		.frequency_hz = 19,
		.pprof = pprof,
		.pprof_size = size,
	};

	snprintf(w.id, sizeof(w.id), "%032x", number);
	return w;
}

static int put(struct spool *s, unsigned number, size_t size)
{
	struct window w = window(number, size);

	return spool__put(s, &w);
}

/* The number of the next window, which must be whole; -1: none. */
static int take(struct spool *s, enum spool_end end)
{
	struct spool_item item = { 0 };
	int number;

	if (spool__take(s, PUSH_TURN_WELL, &item))
		return -1;
	number = (int)item.file.w.start_unix_ns;
	assert_int_equal(item.file.w.label_cnt, 2);
	assert_string_equal(window__label(&item.file.w, "service_name"), "s");
	assert_memory_equal(item.file.w.pprof, pprof, item.file.w.pprof_size);
	assert_int_equal(strtoul(item.file.w.id, NULL, 16), number);
	spool__done(s, &item, end, true);
	return number;
}

static struct spool_stats stats(struct spool *s)
{
	struct spool_stats st;
	uint64_t dropped = 0;

	spool__stats(s, &st);
	for (int i = 0; i < SPOOL_DROP_CNT; i++)
		dropped += st.dropped[i];
	assert_int_equal(st.put + st.found, st.sent + dropped + st.windows);
	return st;
}

static void first_in_first_out(void **state)
{
	struct fixture *f = *state;
	struct spool *s = spool__open(f->spool, "t", NO_LIMIT);

	assert_non_null(s);
	assert_int_equal(take(s, SPOOL_SENT), -1);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(put(s, i, 1 + i * 100), 0);
	assert_int_equal(take(s, SPOOL_KEEP), 0);
	assert_int_equal(take(s, SPOOL_SENT), 0);
	assert_int_equal(take(s, SPOOL_DROP_rejected), 1);
	spool__close(s);

	s = spool__open(f->spool, "t", NO_LIMIT);
	assert_int_equal(stats(s).found, 98);
	assert_int_equal(put(s, 100, 10), 0);
	for (int i = 2; i <= 100; i++)
		assert_int_equal(take(s, SPOOL_SENT), i);
	assert_int_equal(take(s, SPOOL_SENT), -1);
	assert_int_equal(stats(s).sent, 99);
	assert_int_equal(stats(s).bytes, 0);
	spool__close(s);
}

static void several_at_once(void **state)
{
	struct fixture *f = *state;
	struct spool *s = spool__open(f->spool, "t", NO_LIMIT);
	struct spool_item a = { 0 }, b = { 0 }, c = { 0 };

	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(put(s, i, 10), 0);
	assert_int_equal(spool__take(s, PUSH_TURN_WELL, &a), 0);
	assert_int_equal(a.file.w.start_unix_ns, 0);
	for (int i = 0; i < PUSH_SUSPECT_TRIES; i++)
		assert_int_equal(spool__suspect(s, &a), 0);
	spool__done(s, &a, SPOOL_KEEP, true);
	assert_int_equal(spool__take(s, PUSH_TURN_WELL, &b), 0);
	assert_int_equal(b.file.w.start_unix_ns, 1);
	assert_true(b.probe);
	assert_int_equal(spool__take(s, PUSH_TURN_WELL, &a), 0);
	assert_int_equal(a.file.w.start_unix_ns, 0);
	assert_int_equal(spool__take(s, PUSH_TURN_WELL, &c), 0);
	assert_int_equal(c.file.w.start_unix_ns, 2);
	spool__done(s, &c, SPOOL_KEEP, false);
	spool__done(s, &b, SPOOL_SENT, false);
	spool__done(s, &a, SPOOL_KEEP, true);
	assert_int_equal(spool__take(s, PUSH_TURN_WELL, &a), 0);
	assert_int_equal(a.file.w.start_unix_ns, 0);
	assert_int_equal(a.tries, 2);
	spool__done(s, &a, SPOOL_SENT, false);
	assert_int_equal(take(s, SPOOL_SENT), 2);
	stats(s);
	spool__close(s);
}

static void services_are_known_after_a_restart(void **state)
{
	static char longer[60000]; /* labels that do not fit into the first block of the file */
	struct label of[] = { { "a", longer }, { "host", "h" }, { "service_name", "" } };
	struct window w = window(0, 100);
	struct fixture *f = *state;
	struct spool *s = spool__open(f->spool, "t", NO_LIMIT);
	struct strbuf text = { 0 };
	struct spool_item item;

	memset(longer, 'x', sizeof(longer) - 1);
	w.labels = of;
	w.label_cnt = 3;
	for (int i = 0; i < 4; i++) {
		of[2].value = i % 2 ? "good" : "limited";
		assert_int_equal(spool__put(s, &w), 0);
	}
	spool__close(s);

	s = spool__open(f->spool, "t", NO_LIMIT);
	assert_int_equal(stats(s).services, 2);
	assert_int_equal(spool__take(s, PUSH_TURN_WELL, &item), 0);
	assert_string_equal(item.service->name, "limited");
	spool__judge(s, &item, PUSH_SERVICE_HOLD, now_ms() + 1000000, 429);
	spool__done(s, &item, SPOOL_KEEP, true);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(spool__take(s, PUSH_TURN_WELL, &item), 0);
		assert_string_equal(item.service->name, "good");
		spool__done(s, &item, SPOOL_SENT, false);
	}
	assert_int_equal(spool__take(s, PUSH_TURN_WELL, &item), -ENOENT);
	assert_int_equal(stats(s).held_services, 1);
	spool__print_waiting(s, &text);
	assert_string_equal(text.s, "2 windows of 1 service: limited 2 (status 429)");
	strbuf__free(&text);
	spool__close(s);
}

static void the_oldest_go_when_it_is_full(void **state)
{
	struct fixture *f = *state;
	struct spool *s =
		spool__open(f->spool, "t", &(struct spool_limits){ 5 * 4096, 1ULL << 60 });
	struct spool_item item = { 0 };

	for (unsigned i = 0; i < 12; i++)
		assert_int_equal(put(s, i, 10), 0);
	assert_int_equal(stats(s).windows, 5);
	assert_int_equal(stats(s).bytes, 5 * 4096);
	assert_int_equal(stats(s).dropped[SPOOL_DROP_size], 7);
	assert_int_equal(spool__take(s, PUSH_TURN_WELL, &item), 0); /* what is on its way stays */
	assert_int_equal(item.file.w.start_unix_ns, 7);
	assert_int_equal(put(s, 12, 10), 0);
	assert_int_equal(stats(s).dropped[SPOOL_DROP_size], 8);
	spool__done(s, &item, SPOOL_SENT, false);
	assert_int_equal(take(s, SPOOL_SENT), 9);
	assert_int_equal(put(s, 13, sizeof(pprof)), -EFBIG);
	spool__close(s);
	s = spool__open(f->spool, "t", &(struct spool_limits){ 4096, 1ULL << 60 });
	assert_int_equal(take(s, SPOOL_SENT), 12);
	assert_int_equal(take(s, SPOOL_SENT), -1);
	stats(s);
	spool__close(s);
}

#define DAY_S 86400
#define NINE_DAYS                                                                                  \
	&(struct spool_limits)                                                                     \
	{                                                                                          \
		1ULL << 40, 9ULL * DAY_S * NS_PER_S                                                \
	}

static void the_old_go(void **state)
{
	struct fixture *f = *state;
	struct spool *s = spool__open(f->spool, "t", NINE_DAYS);

	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(put(s, i, 10), 0);
		clock_later_s += 4 * DAY_S;
	}
	assert_int_equal(take(s, SPOOL_KEEP), 1); /* the first is 12 days old, this one 8 */
	assert_int_equal(stats(s).dropped[SPOOL_DROP_age], 1);
	assert_in_range(stats(s).oldest_age_ns / NS_PER_S, 8 * DAY_S, 8 * DAY_S + 60);
	spool__close(s);

	/* It goes on with what is known: when the last one came. */
	clock_later_s += 100 * DAY_S;
	s = spool__open(f->spool, "t", NINE_DAYS);
	assert_in_range(stats(s).oldest_age_ns / NS_PER_S, 4 * DAY_S, 4 * DAY_S + 60);
	clock_later_s += 6 * DAY_S;
	assert_int_equal(put(s, 3, 10), 0);
	assert_int_equal(stats(s).dropped[SPOOL_DROP_age], 1);
	assert_int_equal(take(s, SPOOL_SENT), 2);
	assert_int_equal(take(s, SPOOL_SENT), 3);
	spool__close(s);
}

/*
 * One window before the clock is set, one after, and another start: years off, to either side, and
 * back.
 */
static void the_clock_does_not_matter(void **state)
{
	static const int64_t steps[] = { 0, 20LL * 365 * DAY_S, -20LL * 365 * DAY_S, 0 };
	struct fixture *f = *state;
	unsigned next = 0;
	struct spool *s;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		s = spool__open(f->spool, "t", NINE_DAYS);
		assert_int_equal(put(s, next++, 10), 0);
		clock_step_s = steps[i];
		assert_int_equal(put(s, next++, 10), 0);
		spool__close(s);
	}
	s = spool__open(f->spool, "t", NINE_DAYS);
	assert_int_equal(stats(s).dropped[SPOOL_DROP_age], 0);
	for (unsigned i = 0; i < next; i++)
		assert_int_equal(take(s, SPOOL_SENT), i);
	spool__close(s);
}

static void write_to(const char *dir, const char *name, const char *text, size_t size, int flags)
{
	char path[256];
	int fd;

	sprintf(path, "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | flags, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, size), size);
	close(fd);
}

static int is_window(const struct dirent *e)
{
	return strstr(e->d_name, ".window") != NULL;
}

/* The names of the windows in a spool, in their order, without ".window". */
static void list_windows(const char *dir, char (*names)[17], int cnt)
{
	struct dirent **list;

	assert_int_equal(scandir(dir, &list, is_window, alphasort), cnt);
	for (int i = 0; i < cnt; i++) {
		snprintf(names[i], sizeof(names[i]), "%.16s", list[i]->d_name);
		free(list[i]);
	}
	free(list);
}

static void what_is_damaged_is_set_aside(void **state)
{
	struct fixture *f = *state;
	struct spool *s = spool__open(f->spool, "t", NO_LIMIT);
	char path[256], names[6][17], name[32];

	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(put(s, i, 5000), 0);
	spool__close(s);
	list_windows(f->spool, names, 6);
	sprintf(path, "%s/%s.window", f->spool, names[0]);
	assert_int_equal(truncate(path, 200), 0); /* cut */
	sprintf(path, "%s/%s.window", f->spool, names[1]);
	assert_int_equal(truncate(path, 0), 0); /* empty */
	sprintf(name, "%s.window", names[2]);
	write_to(f->spool, name, "x", 1, 0); /* not what was written */
	sprintf(name, "%s.window", names[3]);
	write_to(f->spool, name, "x", 1, O_APPEND);
	sprintf(path, "%s/%s.window", f->spool, names[4]);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	write_to(f->spool, "window.tmp", "x", 1, 0);
	write_to(f->spool, "notes.txt", "x", 1, 0);
	write_to(f->spool, "ffffffffffffffff.window", "x", 1, 0);
	sprintf(path, "%s/0ffffffffffffff9.window", f->spool);
	assert_int_equal(mkdir(path, 0700), 0);

	s = spool__open(f->spool, "t", NO_LIMIT);
	assert_int_equal(stats(s).found, 5);
	assert_int_equal(take(s, SPOOL_SENT), 5);
	assert_int_equal(stats(s).dropped[SPOOL_DROP_damaged], 4);
	sprintf(path, "%s/%s.damaged", f->spool, names[0]);
	assert_int_equal(access(path, F_OK), 0);
	sprintf(path, "%s/window.tmp", f->spool);
	assert_int_equal(access(path, F_OK), -1);
	sprintf(path, "%s/notes.txt", f->spool);
	assert_int_equal(access(path, F_OK), 0);
	spool__close(s);
}

static void one_at_a_time(void **state)
{
	struct fixture *f = *state;
	struct spool *s = spool__open(f->spool, "t", NO_LIMIT);

	assert_null(spool__open(f->spool, "t", NO_LIMIT));
	assert_int_equal(errno, EBUSY);
	spool__close(s);
	s = spool__open(f->spool, "t", NO_LIMIT);
	assert_non_null(s);
	spool__close(s);
}

static void not_windows(void **state)
{
	struct fixture *f = *state;
	struct spool *s = spool__open(f->spool, "t", NO_LIMIT);
	struct window w = window(1, 10);
	const struct label bad[] = { { "not-a-name", "" } };

	w.pprof_size = 0;
	assert_int_equal(spool__put(s, &w), -EINVAL);
	w = window(1, 10);
	w.id[0] = 'x';
	assert_int_equal(spool__put(s, &w), -EINVAL);
	w = window(1, 10);
	w.labels = bad;
	w.label_cnt = 1;
	assert_int_equal(spool__put(s, &w), -EINVAL);
	assert_int_equal(stats(s).dropped[SPOOL_DROP_unfit], 3);
	spool__close(s);
}

/*
 * A file system of 256 KiB; what it does not take is in memory, and is written when there is room
 * again.
 */
static void a_full_disk(void **state)
{
	struct fixture *f = *state;
	struct spool *s;
	unsigned i, on_disk = 0;

	if (mount("tmpfs", f->dir, "tmpfs", 0, "size=256k")) {
		print_message("skipped: a file system cannot be mounted: %s\n", strerror(errno));
		skip();
	}
	s = spool__open(f->spool, "t", NO_LIMIT);
	for (i = 0; i < 40; i++)
		on_disk += put(s, i, 20000) == 0;
	assert_in_range(on_disk, 5, 15);
	assert_int_equal(stats(s).memory_windows, 40 - on_disk);
	assert_int_equal(stats(s).disk_errors, 40 - on_disk);
	assert_int_equal(stats(s).disk_error, ENOSPC);
	for (i = 0; i < 35; i++)
		assert_int_equal(take(s, SPOOL_SENT), i);
	spool__close(s); /* five in memory */
	s = spool__open(f->spool, "t", NO_LIMIT);
	assert_int_equal(stats(s).found, 5);
	for (; i < 40; i++)
		assert_int_equal(take(s, SPOOL_SENT), i);
	/* And when memory is full, too: the newest are lost, and counted. */
	for (i = 0; i < SPOOL_MEMORY_MAX / 20000 + 40; i++)
		put(s, i, 20000);
	assert_true(stats(s).dropped[SPOOL_DROP_disk] > 0);
	while (take(s, SPOOL_SENT) >= 0)
		;
	spool__close(s);
	assert_int_equal(umount(f->dir), 0);
}

/* Puts windows without end and says which are durable. */
static void put_until_killed(const char *path, int fd, unsigned first)
{
	struct spool *s = spool__open(path, "t", NO_LIMIT);

	for (unsigned i = first; s; i++) {
		if (put(s, i, 1000 + i * 37 % 20000) || write(fd, &i, sizeof(i)) != sizeof(i))
			break;
		if (i % 3 == 0)
			take(s, SPOOL_SENT);
	}
	_exit(1);
}

static void a_writer_that_is_killed(void **state)
{
	struct fixture *f = *state;
	unsigned next = 0;

	for (int i = 0; i < KILLS; i++) {
		unsigned durable = next, number;
		int fds[2], status, last = -1;
		struct spool *s;
		pid_t pid;

		assert_int_equal(pipe(fds), 0);
		pid = fork();
		if (!pid)
			put_until_killed(f->spool, fds[1], next);
		close(fds[1]);
		/* At another point each time: a window is written in several steps. */
		for (int n = 0; n < 1 + i % 4; n++)
			assert_int_equal(read(fds[0], &durable, sizeof(durable)), sizeof(durable));
		for (volatile int spin = 0; spin < i * 4000; spin++)
			;
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		while (read(fds[0], &number, sizeof(number)) == sizeof(number))
			durable = number;
		close(fds[0]);

		s = spool__open(f->spool, "t", NO_LIMIT);
		assert_non_null(s);
		for (int got; (got = take(s, SPOOL_SENT)) >= 0;) {
			assert_true(got > last); /* in order, none twice */
			assert_true(last < 0 || got == last + 1);
			last = got;
		}
		/*
		 * The last durable one was there, unless it was the first and the writer had sent
		 * it.
		 */
		assert_true(last >= (int)durable || (last < 0 && durable == next));
		assert_int_equal(stats(s).dropped[SPOOL_DROP_damaged], 0);
		spool__close(s);
		next = (last < 0 ? durable : (unsigned)last) + 1;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(first_in_first_out, setup, teardown),
		cmocka_unit_test_setup_teardown(several_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(services_are_known_after_a_restart, setup,
						teardown),
		cmocka_unit_test_setup_teardown(the_oldest_go_when_it_is_full, setup, teardown),
		cmocka_unit_test_setup_teardown(the_old_go, setup, teardown),
		cmocka_unit_test_setup_teardown(the_clock_does_not_matter, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_damaged_is_set_aside, setup, teardown),
		cmocka_unit_test_setup_teardown(one_at_a_time, setup, teardown),
		cmocka_unit_test_setup_teardown(not_windows, setup, teardown),
		cmocka_unit_test_setup_teardown(a_full_disk, setup, teardown),
		cmocka_unit_test_setup_teardown(a_writer_that_is_killed, setup, teardown),
	};

	log_set_level(LOG_LEVEL_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
