// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The store: what was put is what comes back, and what goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "export/export.h"
#include "import/import.h"
#include "store/store.h"
#include "store/store_db.h"

#include "unit/profiles.h"
#include "unit/stepped_clock.h"

#define MIB   (1U << 20)
#define DAY_S 86400

/* ---- A store in a directory of its own ---- */

struct place {
	char dir[64];
	struct store_config c;
};

static int set_up(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	/* In memory: a disk would be waited for. */
	snprintf(p->dir, sizeof(p->dir), "%s/test_store.XXXXXX",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	assert_non_null(mkdtemp(p->dir));
	store_config__init(&p->c);
	snprintf(p->c.path, sizeof(p->c.path), "%s/sub/store.db", p->dir);
	p->c.keep_free = 0;
	*state = p;
	return 0;
}

static int tear_down(void **state)
{
	struct place *p = *state;
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", p->dir);
	assert_int_equal(system(command), 0);
	free(p);
	return 0;
}

static struct store *open_store(const struct place *p)
{
	struct store *s = store__open(&p->c);

	assert_non_null(s);
	return s;
}

static uint64_t now_unix_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return timespec_ns(t);
}

/*
 * Window `n` of a service: a minute after the one before, labels and content made of n and the
 * service.
 */
struct made {
	struct window w;
	struct label labels[4];
	char service[32], pod[32], pprof[4 * MIB];
};

static uint64_t base_ns; /* start of window 0 */

static const struct window *make(struct made *m, const char *service, unsigned n, size_t size)
{
	uint32_t x = n * 2654435761U + (unsigned char)*service;

	snprintf(m->service, sizeof(m->service), "%s", service);
	snprintf(m->pod, sizeof(m->pod), "%s-%u", service, n / 10);
	m->labels[0] = (struct label){ "host", "h1" };
	m->labels[1] = (struct label){ "pod", m->pod };
	m->labels[2] = (struct label){ "region", n % 2 ? "eu" : "us" };
	m->labels[3] = (struct label){ STORE_SERVICE, m->service };
	for (size_t i = 0; i < size; i++) {
		x = x * 1664525 + 1013904223;
		m->pprof[i] = (char)(x >> 24);
	}
	m->w = (struct window){
		.start_unix_ns = base_ns + n * 60 * NS_PER_S,
		.duration_ns = 60 * NS_PER_S,
		.labels = m->labels,
		.label_cnt = 4,
		.samples = n + 1,
		.frequency_hz = 19,
		.pprof = m->pprof,
		.pprof_size = size,
	};
	snprintf(m->w.id, sizeof(m->w.id), "%08x%08x%016x", (unsigned char)*service, 1, n);
	return &m->w;
}

static struct made made;

static void put(struct store *s, const char *service, unsigned n, size_t size)
{
	assert_int_equal(store__put(s, make(&made, service, n, size)), 0);
}

/* ---- What comes back ---- */

static const struct store_query all = { .to_ns = UINT64_MAX };

struct seen {
	size_t cnt;
	char text[2048]; /* a line for each */
	bool whole;	 /* what was put is expected, bytes and all */
	size_t size;
	int stop;
};

static int see_window(void *ctx, const struct window *w)
{
	struct seen *x = ctx;
	const char *service = w->labels[w->label_cnt - 1].value;
	unsigned n = (unsigned)((w->start_unix_ns - base_ns) / (60 * NS_PER_S));
	size_t len = strlen(x->text);

	x->cnt++;
	snprintf(x->text + len, sizeof(x->text) - len, "%s%u ", service, n);
	if (x->whole) {
		const struct window *e = make(&made, service, n, x->size);

		assert_string_equal(w->id, e->id);
		assert_int_equal(w->start_unix_ns, e->start_unix_ns);
		assert_int_equal(w->duration_ns, e->duration_ns);
		assert_int_equal(w->samples, e->samples);
		assert_int_equal(w->frequency_hz, e->frequency_hz);
		assert_int_equal(w->label_cnt, e->label_cnt);
		for (size_t i = 0; i < e->label_cnt; i++) {
			assert_string_equal(w->labels[i].name, e->labels[i].name);
			assert_string_equal(w->labels[i].value, e->labels[i].value);
		}
		assert_int_equal(w->pprof_size, e->pprof_size);
		assert_memory_equal(w->pprof, e->pprof, e->pprof_size);
	} else {
		assert_null(w->pprof);
	}
	return x->stop;
}

static size_t count(struct store *s)
{
	struct seen x = { 0 };

	assert_int_equal(store__windows(s, &all, false, see_window, &x), 0);
	return x.cnt;
}

static int see_service(void *ctx, const struct store_service *v)
{
	struct seen *x = ctx;
	size_t len = strlen(x->text);

	snprintf(x->text + len, sizeof(x->text) - len, "%s:%d:%d:%d-%d ", v->name, (int)v->windows,
		 (int)v->samples, (int)((v->first_ns - base_ns) / NS_PER_S),
		 (int)((v->last_ns - base_ns) / NS_PER_S));
	return x->stop;
}

static int see_label(void *ctx, const struct label *l)
{
	struct seen *x = ctx;
	size_t len = strlen(x->text);

	snprintf(x->text + len, sizeof(x->text) - len, "%s=%s ", l->name, l->value);
	return x->stop;
}

static void test_what_is_put_comes_back(void **state)
{
	struct place *p = *state;
	struct store *s = open_store(p), *r;
	struct seen x = { .whole = true, .size = 10000 };
	struct stat st;

	for (unsigned n = 0; n < 100; n++) {
		put(s, "web", n, 10000);
		put(s, "api", n, 10000);
	}
	r = store__open_read(p->c.path);
	assert_non_null(r);
	assert_int_equal(store__windows(r, &all, true, see_window, &x), 0);
	assert_int_equal(x.cnt, 200);
	store__close(r);
	store__close(s);
	/* Only for its owner. */
	assert_int_equal(stat(p->c.path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	snprintf(x.text, sizeof(x.text), "%s/sub", p->dir);
	assert_int_equal(stat(x.text, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
}

static void test_twice_is_once(void **state)
{
	struct store *s = open_store(*state);

	put(s, "web", 1, 100);
	put(s, "web", 1, 100);
	assert_int_equal(count(s), 1);
	store__close(s);
	s = open_store(*state);
	put(s, "web", 1, 100);
	put(s, "web", 2, 100);
	assert_int_equal(count(s), 2);
	store__close(s);
}

static void test_ranges_and_labels(void **state)
{
	struct store *s = open_store(*state);
	struct label web[] = { { STORE_SERVICE, "web" }, { "region", "eu" }, { "pod", "web-0" } };
	struct label none = { "region", "mars" };
	struct store_query q = { .from_ns = base_ns + 60 * NS_PER_S,
				 .to_ns = base_ns + 240 * NS_PER_S };
	struct seen x;

	for (unsigned n = 0; n < 20; n++) {
		put(s, "web", n, 10);
		put(s, "api", n, 10);
	}
#define EXPECT(call, want)                                                                         \
	do {                                                                                       \
		x = (struct seen){ 0 };                                                            \
		assert_int_equal(call, 0);                                                         \
		assert_string_equal(x.text, want);                                                 \
	} while (0)
	EXPECT(store__windows(s, &q, false, see_window, &x), "web1 api1 web2 api2 web3 api3 ");
	EXPECT(store__services(s, &q, see_service, &x), "api:3:9:60-240 web:3:9:60-240 ");
	EXPECT(store__labels(s, &q, see_label, &x),
	       "host=h1 pod=api-0 pod=web-0 region=eu region=us service_name=api "
	       "service_name=web ");
	q.labels = web;
	q.label_cnt = 1;
	EXPECT(store__windows(s, &q, false, see_window, &x), "web1 web2 web3 ");
	EXPECT(store__services(s, &q, see_service, &x), "web:3:9:60-240 ");
	q.label_cnt = 2;
	EXPECT(store__windows(s, &q, false, see_window, &x), "web1 web3 ");
	EXPECT(store__labels(s, &q, see_label, &x),
	       "host=h1 pod=web-0 region=eu service_name=web ");
	q.label_cnt = 3;
	q.to_ns = UINT64_MAX;
	EXPECT(store__windows(s, &q, false, see_window, &x), "web1 web3 web5 web7 web9 ");
	q.labels = &web[1];
	q.label_cnt = 1;
	q.from_ns = base_ns + 17 * 60 * NS_PER_S;
	EXPECT(store__windows(s, &q, false, see_window, &x), "web17 api17 web19 api19 ");
	q.labels = &none;
	EXPECT(store__windows(s, &q, false, see_window, &x), "");
	EXPECT(store__services(s, &q, see_service, &x), "");
	EXPECT(store__labels(s, &q, see_label, &x), "");
	q = (struct store_query){ .from_ns = 5, .to_ns = 5 };
	EXPECT(store__windows(s, &q, false, see_window, &x), "");
	/* The caller's word ends it. */
	x = (struct seen){ .stop = 7 };
	assert_int_equal(store__windows(s, &all, false, see_window, &x), 7);
	assert_int_equal(store__services(s, &all, see_service, &x), 7);
	assert_int_equal(store__labels(s, &all, see_label, &x), 7);
	assert_int_equal(x.cnt, 1);
	store__close(s);
}

/* ---- Keys of the configuration ---- */

static void test_config(void **state)
{
	static const char *const bad[][2] = {
		{ "path", "store.db" },	  { "path", "/etc/passwd" }, { "path", "/x/.db" },
		{ "path", "" },		  { "max-age", "7" },	     { "max-age", "1s" },
		{ "max-age", "forever" }, { "max-size", "1MB" },     { "max-size", "2 GiB" },
		{ "keep-free", "-1" },
	};
	struct store_config c, before;
	const char *why = NULL;

	(void)state;
	store_config__init(&c);
	assert_string_equal(c.path, STORE_PATH);
	assert_int_equal(store_config__set(&c, "path", "/x/y.db", &why), 0);
	assert_int_equal(store_config__set(&c, "max-age", "36h", &why), 0);
	assert_int_equal(store_config__set(&c, "max-size", "500MB", &why), 0);
	assert_int_equal(store_config__set(&c, "keep-free", "0", &why), 0);
	assert_string_equal(c.path, "/x/y.db");
	assert_int_equal(c.max_age_s, 36 * 3600);
	assert_int_equal(c.max_bytes, 500000000);
	assert_int_equal(c.keep_free, 0);
	assert_int_equal(store_config__set(&c, "size", "1GiB", &why), -ENOENT);
	before = c;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		why = NULL;
		assert_int_equal(store_config__set(&c, bad[i][0], bad[i][1], &why), -EINVAL);
		assert_non_null(why);
		assert_memory_equal(&c, &before, sizeof(c));
	}
}

/* ---- What goes ---- */

static struct store_stats stats(struct store *s)
{
	struct store_stats st;

	assert_int_equal(store__stats(s, &st), 0);
	return st;
}

/* Bytes of all files of the store, as the file system counts them. */
static uint64_t bytes(const struct place *p)
{
	static const char *const suffixes[] = { "", "-wal", "-shm", "-reserve" };
	char path[PATH_MAX + 16];
	uint64_t sum = 0;
	struct stat st;

	for (size_t i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s%s", p->c.path, suffixes[i]);
		sum += stat(path, &st) ? 0 : (uint64_t)st.st_size;
	}
	return sum;
}

static void test_size(void **state)
{
	struct place *p = *state;
	struct store_stats st;
	struct store *s;
	size_t cnt;

	p->c.max_bytes = 32 * MIB;
	s = open_store(p);
	for (unsigned n = 0; n < 400; n++) {
		put(s, "web", n, 100000);
		assert_in_range(bytes(p), 0, 32 * MIB);
	}
	st = stats(s);
	cnt = count(s);
	assert_in_range(cnt, 220, 300);
	assert_int_equal(st.windows, cnt);
	assert_int_equal(st.dropped[STORE_DROP_size], 400 - cnt);
	assert_int_equal(st.bytes, bytes(p));
	assert_int_equal(st.oldest_ns, base_ns + (400 - cnt) * 60 * NS_PER_S);
	assert_int_equal(st.newest_ns, base_ns + 399 * 60 * NS_PER_S);
	/* A smaller limit: the file shrinks, a little with each put. */
	p->c.max_bytes = 16 * MIB;
	store__configure(s, &p->c);
	for (unsigned n = 400; n < 600; n++)
		put(s, "web", n, 100000);
	assert_in_range(bytes(p), 8 * MIB, 16 * MIB);
	/* What a quarter of the store could not hold is refused, and counted. */
	assert_int_equal(store__put(s, make(&made, "web", 600, 4 * MIB)), 0);
	made.w.pprof_size++;
	assert_int_equal(store__put(s, &made.w), -E2BIG);
	assert_int_equal(stats(s).dropped[STORE_DROP_lost], 1);
	store__close(s);
	s = open_store(p);
	put(s, "web", 601, 10);
	assert_int_equal(stats(s).windows + stats(s).dropped[STORE_DROP_size], 602);
	store__close(s);
}

static void test_age(void **state)
{
	struct place *p = *state;
	struct seen x = { 0 };
	struct store *s;

	p->c.max_age_s = 30 * DAY_S;
	s = open_store(p);
	for (unsigned n = 0; n < 40; n++)
		put(s, "old", n, 1000);
	clock_later_s += 20 * DAY_S;
	put(s, "web", 0, 1000);
	assert_int_equal(stats(s).windows, 41);
	p->c.max_age_s = 10 * DAY_S;
	store__configure(s, &p->c);
	put(s, "web", 1, 1000);
	assert_int_equal(stats(s).dropped[STORE_DROP_age], 16); /* a few with each put */
	put(s, "web", 2, 1000);
	put(s, "web", 3, 1000);
	assert_int_equal(stats(s).dropped[STORE_DROP_age], 40);
	assert_int_equal(stats(s).windows, 4);
	/* Labels go with the last window that has them. */
	assert_int_equal(store__labels(s, &all, see_label, &x), 0);
	assert_string_equal(x.text, "host=h1 pod=web-0 region=eu region=us service_name=web ");
	store__close(s);

	/* While nobody writes, nothing becomes older; what was before counts. */
	clock_later_s += 100 * DAY_S;
	s = open_store(p);
	clock_later_s += 9 * DAY_S;
	put(s, "web", 4, 1000);
	assert_int_equal(stats(s).windows, 5);
	store__close(s);
	s = open_store(p);
	clock_later_s += 2 * DAY_S;
	put(s, "web", 5, 1000);
	assert_int_equal(stats(s).windows, 2);
	store__close(s);
}

/*
 * Windows from before the clock is set and from after, years off to either side, with and without
 * another start.
 */
static void test_clock_is_set(void **state)
{
	static const int64_t steps[] = { 0, 20LL * 365 * DAY_S, -20LL * 365 * DAY_S, 0 };
	struct place *p = *state;
	uint64_t right = base_ns;
	unsigned n = 0;
	struct store *s;

	p->c.max_age_s = DAY_S;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		s = open_store(p);
		put(s, "web", n++, 1000);
		clock_step_s = steps[i];
		base_ns = right + (uint64_t)(steps[i] * (int64_t)NS_PER_S);
		put(s, "web", n++, 1000);
		put(s, "web", n++, 1000);
		store__close(s);
	}
	s = open_store(p);
	assert_int_equal(stats(s).windows, n);
	assert_int_equal(stats(s).dropped[STORE_DROP_age], 0);
	store__close(s);
}

/*
 * The clock ran ahead for a while: what was stored then is neither kept for ever nor what came
 * later dropped.
 */
static void test_clock_ahead(void **state)
{
	struct place *p = *state;
	uint64_t right = base_ns;
	struct seen x = { 0 };
	struct store *s;

	p->c.max_bytes = 16 * MIB;
	s = open_store(p);
	base_ns += 365 * 86400 * NS_PER_S;
	for (unsigned n = 0; n < 50; n++)
		put(s, "web", n, 100000);
	base_ns = right;
	for (unsigned n = 0; n < 200; n++)
		put(s, "web", n, 100000);
	assert_int_equal(store__windows(s, &all, false, see_window, &x), 0);
	assert_int_equal(stats(s).newest_ns, base_ns + 199 * 60 * NS_PER_S);
	assert_in_range(x.cnt, 60, 150);
	store__close(s);
}

/* ---- Windows that cannot be stored ---- */

static void test_bad_windows(void **state)
{
	struct store *s = open_store(*state);
	struct label twice[] = { { "a", "1" }, { "a", "2" }, { STORE_SERVICE, "x" } };
	struct window w = *make(&made, "web", 0, 10);

	w.label_cnt = 3; /* no service */
	assert_int_equal(store__put(s, &w), -EINVAL);
	w.labels = twice;
	assert_int_equal(store__put(s, &w), -EINVAL);
	w = *make(&made, "web", 0, 10);
	w.id[3] = 'X';
	assert_int_equal(store__put(s, &w), -EINVAL);
	w = *make(&made, "web", 0, 10);
	w.start_unix_ns = UINT64_MAX;
	assert_int_equal(store__put(s, &w), -EINVAL);
	assert_int_equal(count(s), 0);
	assert_int_equal(stats(s).dropped[STORE_DROP_lost], 4);
	put(s, "web", 0, 0); /* an empty profile is one */
	assert_int_equal(count(s), 1);
	store__close(s);
}

/* ---- Damage ---- */

static const char *beside(const struct place *p, const char *suffix)
{
	static char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s%s", p->c.path, suffix);
	return path;
}

static void overwrite(const char *path, off_t at, size_t size)
{
	char junk[8192];
	int fd = open(path, O_WRONLY | O_CREAT, 0600);

	memset(junk, 0x5a, sizeof(junk));
	assert_true(fd >= 0);
	for (size_t done = 0; done < size; done += sizeof(junk))
		assert_int_equal(pwrite(fd, junk, sizeof(junk), at + (off_t)done), sizeof(junk));
	close(fd);
}

static void expect_new_begun(const struct place *p)
{
	struct store *s = open_store(p);

	put(s, "new", 1, 1000);
	assert_int_equal(stats(s).damaged, 1);
	assert_int_equal(count(s), 1);
	assert_int_equal(access(beside(p, "-damaged"), F_OK), 0);
	store__close(s);
	unlink(beside(p, "-damaged"));
}

static void fill(const struct place *p, unsigned cnt)
{
	struct store *s = open_store(p);

	for (unsigned n = 0; n < cnt; n++)
		put(s, "web", n, 1000);
	store__close(s);
}

static void remove_files(const struct place *p)
{
	unlink(p->c.path);
	unlink(beside(p, "-wal"));
}

static void test_damaged_file(void **state)
{
	struct place *p = *state;
	struct stat st;

	/* The log stays when a store is closed, and what it has is not lost. */
	fill(p, 50);
	overwrite(p->c.path, 0, 8192);
	fill(p, 60);
	assert_int_equal(access(beside(p, "-damaged"), F_OK), -1);
	unlink(beside(p, "-wal"));
	overwrite(p->c.path, 0, 8192);
	expect_new_begun(p);
	remove_files(p);
	overwrite(p->c.path, 0, 81920); /* nothing but garbage */
	expect_new_begun(p);
	remove_files(p);
	fill(p, 50);
	unlink(beside(p, "-wal"));
	assert_int_equal(stat(p->c.path, &st), 0);
	assert_int_equal(truncate(p->c.path, st.st_size / 2), 0);
	expect_new_begun(p);
}

/* An empty file is what a kill leaves right after it was made. */
static void test_empty_file(void **state)
{
	struct place *p = *state;

	fill(p, 1);
	assert_int_equal(truncate(p->c.path, 0), 0);
	fill(p, 3);
	assert_int_equal(access(beside(p, "-damaged"), F_OK), -1);
}

/* All pages but the first few become garbage while the store is open: the next window finds out. */
static void test_damaged_while_open(void **state)
{
	struct place *p = *state;
	struct store *s;
	struct stat st;

	fill(p, 200);
	s = open_store(p);
	assert_int_equal(stat(p->c.path, &st), 0);
	overwrite(p->c.path, 4096, (size_t)st.st_size - 4096);
	put(s, "web", 300, 1000);
	assert_int_equal(stats(s).damaged, 1);
	put(s, "web", 301, 1000);
	assert_int_equal(count(s), 2);
	store__close(s);
}

static void test_garbage_in_the_log(void **state)
{
	struct place *p = *state;

	fill(p, 50);
	overwrite(beside(p, "-wal"), 0, 65536);
	overwrite(beside(p, "-shm"), 0, 32768);
	fill(p, 60);
	assert_int_equal(access(beside(p, "-damaged"), F_OK), -1);
}

static void test_file_taken_away(void **state)
{
	struct place *p = *state;
	struct store *s = open_store(p);

	put(s, "web", 1, 1000);
	assert_int_equal(unlink(p->c.path), 0);
	put(s, "web", 2, 1000);
	assert_int_equal(count(s), 1);
	assert_int_equal(access(p->c.path, F_OK), 0);
	store__close(s);
}

/* ---- What is not ours, or not alone ours ---- */

static void exec_sql(const char *path, const char *sql)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static void expect_refused(const struct place *p, int err)
{
	assert_null(store__open(&p->c));
	assert_int_equal(errno, err);
	assert_null(store__open_read(p->c.path));
	assert_int_equal(errno, err);
	assert_int_equal(access(beside(p, "-damaged"), F_OK), -1);
}

static void test_foreign_files(void **state)
{
	struct place *p = *state;

	fill(p, 1);
	exec_sql(p->c.path, "PRAGMA user_version = 1000");
	expect_refused(p, EPROTO);
	unlink(p->c.path);
	exec_sql(p->c.path, "CREATE TABLE theirs(x)");
	expect_refused(p, EPROTO);
	unlink(p->c.path);
	assert_int_equal(mkdir(p->c.path, 0700), 0);
	expect_refused(p, EPROTO);
	rmdir(p->c.path);
	assert_null(store__open_read(p->c.path));
	assert_int_equal(errno, ENOENT);
	strcpy(p->c.path, "/dev/null/store.db");
	assert_null(store__open(&p->c));
	assert_int_equal(errno, ENOTDIR);
}

static void test_one_writer(void **state)
{
	struct place *p = *state;
	struct store *s = open_store(p);

	assert_null(store__open(&p->c));
	assert_int_equal(errno, EBUSY);
	put(s, "web", 1, 10);
	store__close(s);
	store__close(open_store(p));
}

/* Somebody else holds the file, for long: a period of many services waits for that once. */
static void test_held_by_another(void **state)
{
	struct place *p = *state;
	struct store *s = open_store(p);
	uint64_t begin = now_ns();
	sqlite3 *other;

	put(s, "web", 1, 10);
	assert_int_equal(sqlite3_open(p->c.path, &other), SQLITE_OK);
	assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	for (unsigned i = 2; i < 7; i++)
		assert_int_equal(store__put(s, make(&made, "web", i, 10)), -EBUSY);
	assert_true(now_ns() - begin < 2 * STORE_BUSY_MS * 1000000ULL);
	sqlite3_close(other);
	put(s, "web", 7, 10);
	store__close(s);
}

/* A reader in the middle keeps nobody from writing, and sees no window twice. */
struct reading {
	struct store *writer;
	unsigned cnt, last;
};

static int write_meanwhile(void *ctx, const struct window *w)
{
	struct reading *r = ctx;
	unsigned n = (unsigned)((w->start_unix_ns - base_ns) / (60 * NS_PER_S));

	assert_true(!r->cnt || n > r->last);
	r->last = n;
	if (r->cnt++ < 60)
		put(r->writer, "web", 1000 + r->cnt, 100000);
	return 0;
}

static void test_reading_while_writing(void **state)
{
	struct place *p = *state;
	struct reading r = { NULL, 0, 0 };
	struct store *reader;

	p->c.max_bytes = 16 * MIB;
	r.writer = open_store(p);
	for (unsigned n = 0; n < 60; n++)
		put(r.writer, "web", n, 100000);
	reader = store__open_read(p->c.path);
	assert_non_null(reader);
	assert_int_equal(store__windows(reader, &all, true, write_meanwhile, &r), 0);
	assert_true(r.cnt > 60);
	assert_in_range(bytes(p), 0, 16 * MIB);
	store__close(reader);
	store__close(r.writer);
}

/* ---- Profiles ---- */

static size_t write_pprof(const struct profile *p, char *out, size_t size)
{
	const struct export_opts o = { .lines = true, .threads = true };
	FILE *f = fmemopen(out, size, "w");
	long len;

	assert_non_null(f);
	assert_int_equal(export__pprof(p, &o, f), 0);
	len = ftell(f);
	fclose(f);
	assert_true(len > 0);
	return (size_t)len;
}

static uint64_t merged(struct store *s, const struct store_query *q, struct profile_stats *st)
{
	struct import *im = import__new(&(struct import_opts){ .sample_type = NULL });
	uint64_t total;
	size_t windows;

	assert_non_null(im);
	assert_int_equal(store__profile(s, q, im, &windows), 0);
	assert_int_equal(import__finish(im), 0);
	total = profile__total(import__profile(im));
	*st = import__profile(im)->stats;
	assert_int_equal(!windows, !total);
	import__free(im);
	return total;
}

static void test_profiles(void **state)
{
	struct store *s = open_store(*state);
	struct profile *p = service();
	uint64_t once = profile__total(p);
	struct label web = { STORE_SERVICE, "web" };
	struct store_query q = { .to_ns = UINT64_MAX, .labels = &web, .label_cnt = 1 };
	struct profile_stats st;
	uint32_t hz = p->stats.values[0].frequency_hz;
	struct window w;

	for (unsigned n = 0; n < 6; n++) {
		w = *make(&made, n % 2 ? "web" : "api", n / 2, 0);
		w.pprof_size = write_pprof(p, made.pprof, sizeof(made.pprof));
		w.frequency_hz = hz;
		assert_int_equal(store__put(s, &w), 0);
	}
	assert_int_equal(merged(s, &q, &st), 3 * once);
	assert_int_equal(st.values[0].frequency_hz, hz);
	assert_int_equal(st.duration_ns, 180 * NS_PER_S);
	/* Side by side, two services take no longer than one. */
	assert_int_equal(merged(s, &all, &st), 6 * once);
	assert_int_equal(st.duration_ns, 180 * NS_PER_S);
	/* Half as often: each sample stands for two. */
	w = *make(&made, "web", 4, 0);
	p->stats.values[0].frequency_hz /= 2;
	w.pprof_size = write_pprof(p, made.pprof, sizeof(made.pprof));
	w.frequency_hz = hz / 2;
	assert_int_equal(store__put(s, &w), 0);
	assert_int_equal(merged(s, &q, &st), 3 * once + once * hz / (hz / 2));
	assert_int_equal(st.counters[CTR_delivered], 0);
	q.from_ns = UINT64_MAX - 1;
	assert_int_equal(merged(s, &q, &st), 0);
	profile__free(p);
	/* A window that is no profile is an error, not a crash. */
	put(s, "bad", 9, 100);
	{
		struct import *im = import__new(&(struct import_opts){ .sample_type = NULL });

		assert_int_equal(store__profile(s, &all, im, NULL), -EBADMSG);
		import__free(im);
	}
	store__close(s);
}

/* ---- The system refuses: SQLite lets its system calls be replaced ---- */

static struct {
	unsigned calls, fail_at, fail_cnt;
	int err;
} fault;

static bool faulty(void)
{
	fault.calls++;
	if (!fault.fail_at || fault.calls < fault.fail_at ||
	    fault.calls >= fault.fail_at + fault.fail_cnt)
		return false;
	errno = fault.err;
	return true;
}

static ssize_t faulty_pwrite(int fd, const void *data, size_t size, off64_t at)
{
	return faulty() ? -1 : pwrite64(fd, data, size, at);
}

static int faulty_ftruncate(int fd, off_t size)
{
	return faulty() ? -1 : ftruncate(fd, size);
}

static void replace(const char *name, sqlite3_syscall_ptr function)
{
	sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

	if (vfs->xGetSystemCall(vfs, name))
		assert_int_equal(vfs->xSetSystemCall(vfs, name, function), SQLITE_OK);
}

static int see_suffix(void *ctx, const struct window *w)
{
	unsigned n = (unsigned)((w->start_unix_ns - base_ns) / (60 * NS_PER_S)), *next = ctx;

	assert_true(!*next || n == *next);
	*next = n + 1;
	return 0;
}

/* Fails `cnt` calls from the nth on while a window is put. False: there were fewer. */
static bool put_with_fault(const struct place *p, unsigned n, unsigned cnt, int err)
{
	struct store *s = open_store(p);
	struct store_stats before, after;
	unsigned next = 0;
	bool reached;
	int got;

	for (unsigned i = 0; i < 20; i++)
		put(s, "web", i, 20000);
	before = stats(s);
	fault.calls = 0;
	fault.fail_at = n;
	fault.fail_cnt = cnt;
	fault.err = err;
	got = store__put(s, make(&made, "web", 20, 30000));
	reached = fault.calls >= n;
	fault.fail_at = 0;
	if (got && got != -err)
		fail_msg("call %u, %s: %d", n, strerror(err), got);
	/* Well again: all that was stored is there, but for the oldest that made room. */
	put(s, "web", got ? 20 : 21, 30000);
	assert_int_equal(store__windows(s, &all, false, see_suffix, &next), 0);
	assert_int_equal(next, got ? 21 : 22);
	after = stats(s);
	assert_int_equal(after.dropped[STORE_DROP_lost] - before.dropped[STORE_DROP_lost], !!got);
	assert_int_equal(after.windows + after.dropped[STORE_DROP_full] -
				 before.dropped[STORE_DROP_full],
			 got ? 21 : 22);
	assert_int_equal(after.damaged, 0);
	store__close(s);
	exec_sql(p->c.path, "DELETE FROM window");
	return reached;
}

static void test_refusing_disk(void **state)
{
	static const int errs[] = { ENOSPC, EIO };
	sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
	unsigned n;

	replace("pwrite64", (sqlite3_syscall_ptr)faulty_pwrite);
	replace("pwrite", (sqlite3_syscall_ptr)faulty_pwrite);
	replace("ftruncate", (sqlite3_syscall_ptr)faulty_ftruncate);
	for (size_t i = 0; i < sizeof(errs) / sizeof(errs[0]); i++) {
		for (n = 1; put_with_fault(*state, n, 1, errs[i]); n++)
			;
		assert_true(n > 10);
		for (n = 1; put_with_fault(*state, n, 1000000, errs[i]); n += 3)
			;
		assert_true(n > 10);
	}
	vfs->xSetSystemCall(vfs, NULL, NULL);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_what_is_put_comes_back),
		TEST(test_twice_is_once),
		TEST(test_ranges_and_labels),
		cmocka_unit_test(test_config),
		TEST(test_size),
		TEST(test_age),
		TEST(test_clock_is_set),
		TEST(test_clock_ahead),
		TEST(test_bad_windows),
		TEST(test_damaged_file),
		TEST(test_empty_file),
		TEST(test_damaged_while_open),
		TEST(test_garbage_in_the_log),
		TEST(test_file_taken_away),
		TEST(test_foreign_files),
		TEST(test_one_writer),
		TEST(test_held_by_another),
		TEST(test_reading_while_writing),
		TEST(test_profiles),
		TEST(test_refusing_disk),
	};

	base_ns = now_unix_ns() / (60 * NS_PER_S) * 60 * NS_PER_S - 3600 * NS_PER_S;
	log_set_level(LOG_LEVEL_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
