/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Writes windows into a store, for tests and measurements: the agent's code, without the agent.
 *
 *	windows put STORE FILE SERVICE START_S DURATION_S HZ SAMPLES [NAME=VALUE...]
 *		one window, whose profile is the content of FILE
 *	windows write STORE FIRST CNT SIZE [KEY=VALUE...]
 *		windows FIRST, FIRST + 1, ... of SIZE pseudo-random bytes, each a minute after the
 *		one before, of
 *		services s0 ... s9 in turn; "N\n" on stdout when window N is stored. Keys of
 *		store_config__set().
 *	windows check STORE
 *		"N\n" for each window of those that is there, or an error if one is not what was
 *		written
 *	windows fill STORE DAYS SERVICES SIZE MINUTES
 *		windows of so many minutes up to now, for measurements
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "store/store.h"

#define MAX_SIZE  (64U << 20)
#define HZ	  19
#define SERVICES  10
#define MINUTE_NS (60 * NS_PER_S)

static uint8_t content[MAX_SIZE];

static int usage(void)
{
	fprintf(stderr, "usage: see the head of tests/store/windows.c\n");
	return 2;
}

static void set_id(struct window *w, uint64_t number)
{
	snprintf(w->id, sizeof(w->id), "%016" PRIx64 "%016" PRIx64, w->start_unix_ns, number);
}

static struct store *open_store(const char *path, char **settings)
{
	struct store_config c;
	const char *why;

	store_config__init(&c);
	c.keep_free = 0;
	if (store_config__set(&c, "path", path, &why)) {
		fprintf(stderr, "%s: not %s\n", path, why);
		return NULL;
	}
	for (; *settings; settings++) {
		char *value = strchr(*settings, '=');

		if (value)
			*value++ = '\0';
		if (!value || store_config__set(&c, *settings, value, &why)) {
			fprintf(stderr, "%s: bad setting\n", *settings);
			return NULL;
		}
	}
	return store__open(&c);
}

static size_t read_file(const char *path)
{
	FILE *f = fopen(path, "r");
	size_t size = f ? fread(content, 1, sizeof(content), f) : 0;

	if (f)
		fclose(f);
	return size;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct label *)a)->name, ((const struct label *)b)->name);
}

static int put(int argc, char **argv)
{
	struct label labels[64] = { { STORE_SERVICE, argv[2] } };
	struct window w = { .labels = labels, .label_cnt = 1, .pprof = content };
	struct store *s;
	int err;

	w.start_unix_ns = (uint64_t)(strtod(argv[3], NULL) * 1e9);
	w.duration_ns = (uint64_t)(strtod(argv[4], NULL) * 1e9);
	w.frequency_hz = (uint32_t)strtoul(argv[5], NULL, 10);
	w.samples = strtoull(argv[6], NULL, 10);
	for (int i = 7; i < argc && w.label_cnt < 64; i++) {
		char *value = strchr(argv[i], '=');

		if (!value)
			return usage();
		*value++ = '\0';
		labels[w.label_cnt++] = (struct label){ argv[i], value };
	}
	qsort(labels, w.label_cnt, sizeof(labels[0]), by_name);
	w.pprof_size = read_file(argv[1]);
	set_id(&w, (uint64_t)getpid() << 32 | w.pprof_size);
	s = open_store(argv[0], (char *[]){ NULL });
	err = s ? store__put(s, &w) : -EIO;
	store__close(s);
	return err ? 1 : 0;
}

/* The window with this number. */
static void make(struct window *w, struct label *labels, char *service, uint64_t n, size_t size)
{
	uint64_t x = n * 0x9e3779b97f4a7c15ULL + size;

	snprintf(service, 8, "s%u", (unsigned)(n % SERVICES));
	labels[0] = (struct label){ "host", "test" };
	labels[1] = (struct label){ STORE_SERVICE, service };
	for (size_t i = 0; i < size; i += 8) {
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		memcpy(content + i, &x, 8);
	}
	*w = (struct window){
		.start_unix_ns = 1700000000 * NS_PER_S + n * MINUTE_NS,
		.duration_ns = MINUTE_NS,
		.labels = labels,
		.label_cnt = 2,
		.samples = n,
		.frequency_hz = HZ,
		.pprof = content,
		.pprof_size = size,
	};
	set_id(w, n);
}

static int write_windows(char **argv)
{
	uint64_t first = strtoull(argv[1], NULL, 10), cnt = strtoull(argv[2], NULL, 10);
	size_t size = strtoull(argv[3], NULL, 10);
	struct store *s = size <= MAX_SIZE - 8 ? open_store(argv[0], argv + 4) : NULL;
	struct label labels[2];
	struct window w;
	char service[8], line[32];
	int err = s ? 0 : -EIO;

	for (uint64_t n = first; n < first + cnt && !err; n++) {
		make(&w, labels, service, n, size);
		err = store__put(s, &w);
		if (err)
			break;
		snprintf(line, sizeof(line), "%" PRIu64 "\n", n);
		if (write(STDOUT_FILENO, line, strlen(line)) < 0)
			err = -errno;
	}
	store__close(s);
	return err ? 1 : 0;
}

static int check_window(void *ctx, const struct window *w)
{
	uint64_t n = w->samples;
	struct label labels[2];
	char service[8];
	struct window e;

	(void)ctx;
	if (w->pprof_size > MAX_SIZE - 8)
		return 1;
	make(&e, labels, service, n, w->pprof_size);
	if (strcmp(e.id, w->id) || e.start_unix_ns != w->start_unix_ns || w->label_cnt != 2 ||
	    strcmp(w->labels[1].value, service) || memcmp(w->pprof, content, w->pprof_size)) {
		fprintf(stderr, "window %" PRIu64 " is not what was stored\n", n);
		return 1;
	}
	printf("%" PRIu64 "\n", n);
	return 0;
}

static int check(const char *path)
{
	const struct store_query q = { .to_ns = UINT64_MAX };
	struct store *s = store__open_read(path);
	int err = s ? store__windows(s, &q, true, check_window, NULL) : -EIO;

	store__close(s);
	return err ? 1 : 0;
}

static int fill(char **argv)
{
	uint64_t minutes = strtoull(argv[1], NULL, 10) * 1440, now = (uint64_t)time(NULL) / 60;
	uint64_t length = strtoull(argv[4], NULL, 10);
	unsigned services = (unsigned)strtoul(argv[2], NULL, 10);
	size_t size = strtoull(argv[3], NULL, 10);
	char *settings[] = { strdup("max-size=1024GiB"), strdup("max-age=3650d"), NULL };
	struct store *s = size <= MAX_SIZE - 8 ? open_store(argv[0], settings) : NULL;
	struct label labels[2];
	char service[32], line[8];
	struct window w;
	int err = s ? 0 : -EIO;

	for (uint64_t m = 0; length && m < minutes && !err; m += length) {
		for (unsigned i = 0; i < services && !err; i++) {
			make(&w, labels, line, m, size);
			snprintf(service, sizeof(service), "service-%u", i);
			labels[1].value = service;
			w.start_unix_ns = (now - minutes + m) * MINUTE_NS;
			w.duration_ns = length * MINUTE_NS;
			set_id(&w, i);
			err = store__put(s, &w);
		}
	}
	store__close(s);
	free(settings[0]);
	free(settings[1]);
	return err ? 1 : 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "put") && argc >= 9)
		return put(argc - 2, argv + 2);
	if (!strcmp(what, "write") && argc >= 6)
		return write_windows(argv + 2);
	if (!strcmp(what, "check") && argc == 3)
		return check(argv[2]);
	if (!strcmp(what, "fill") && argc == 7)
		return fill(argv + 2);
	return usage();
}
