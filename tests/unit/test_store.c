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

#include "clock.h"
#include "export.h"
#include "import.h"
#include "log.h"
#include "store.h"

#include "unit/profiles.h"

#define MIB (1U << 20)

/* ---- A store in a directory of its own ---- */

struct place {
	char dir[64];
	struct store_config c;
};

static int set_up(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	strcpy(p->dir, "/tmp/test_store.XXXXXX");
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

/* Window `n` of a service: a minute after the one before, labels and content made of n and the service. */
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
	struct store_query q = { base_ns + 60 * NS_PER_S, base_ns + 240 * NS_PER_S, NULL, 0 };
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
	q = (struct store_query){ 5, 5, NULL, 0 };
	EXPECT(store__windows(s, &q, false, see_window, &x), "");
	/* The caller's word ends it. */
	x = (struct seen){ .stop = 7 };
	assert_int_equal(store__windows(s, &all, false, see_window, &x), 7);
	assert_int_equal(store__services(s, &all, see_service, &x), 7);
	assert_int_equal(store__labels(s, &all, see_label, &x), 7);
	assert_int_equal(x.cnt, 1);
	store__close(s);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_what_is_put_comes_back),
		TEST(test_twice_is_once),
		TEST(test_ranges_and_labels),
	};

	base_ns = now_unix_ns() / (60 * NS_PER_S) * 60 * NS_PER_S - 3600 * NS_PER_S;
	log_set_level(LOG_LEVEL_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
