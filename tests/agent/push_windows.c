// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Drives the push code for tests/e2e/test_push.py and scripts/test-backends: commands on stdin,
 * answers on stdout.
 *
 *	push_windows SPOOL_DIR CONFIG...	a CONFIG is a file of "key = value", its name is the
 *						destination's
 *
 *	put PPROF COUNT [label=value...]	COUNT windows with this file; answers "put DONE
 *						FAILED LAST_ID"
 *	stats					one line of "name=value" for each destination, then
 *						"."
 *	rss					"rss BYTES" and "fds N"
 *	close MS				closes and ends; so does the end of the input
 *
 * Times that the configuration counts in seconds are in milliseconds here where the key ends in
 * "-ms".
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/push/push.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

#define DESTINATIONS_MAX 8
#define LABELS_MAX	 16

static struct push_config configs[DESTINATIONS_MAX];
static struct push *push;
static size_t config_cnt;
static uint64_t window_cnt;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "push_windows: %s: %s\n", what, why);
	exit(2);
}

static bool set_ms(struct push_config *c, const char *key, const char *value)
{
	uint64_t ms = strtoull(value, NULL, 10);

	if (!strcmp(key, "retry-min-ms"))
		c->retry_min_ms = ms;
	else if (!strcmp(key, "retry-max-ms"))
		c->retry_max_ms = ms;
	else if (!strcmp(key, "spread-ms"))
		c->spread_ms = ms;
	else if (!strcmp(key, "timeout-ms"))
		c->timeout_ms = ms;
	else if (!strcmp(key, "spool-max-age-ms"))
		c->spool.max_age_ns = ms * 1000000;
	else if (!strcmp(key, "spool-max-bytes"))
		c->spool.max_bytes = ms;
	else
		return false;
	return true;
}

static void read_config(struct push_config *c, const char *path)
{
	const char *slash = strrchr(path, '/'), *why = "";
	FILE *f = fopen(path, "r");
	char line[8192];

	if (!f)
		die(path, strerror(errno));
	if (push_config__init(c, slash ? slash + 1 : path))
		die(path, "not a name");
	c->spread_ms = 0;
	while (fgets(line, sizeof(line), f)) {
		char *value = strstr(line, " = ");

		line[strcspn(line, "\n")] = 0;
		if (!value)
			die(path, line);
		*value = 0;
		value += 3;
		if (!set_ms(c, line, value) && push_config__set(c, line, value, &why)) {
			printf("wrong %s: %s\n", line, why);
			exit(3);
		}
	}
	fclose(f);
	if (push_config__check(c, &why)) {
		printf("wrong: %s\n", why);
		exit(3);
	}
}

static char *read_file(const char *path, size_t *size)
{
	FILE *f = fopen(path, "r");
	char *data = malloc(1 << 24);

	if (!f || !data)
		die(path, strerror(errno));
	*size = fread(data, 1, 1 << 24, f);
	fclose(f);
	return data;
}

static int cmp_labels(const void *a, const void *b)
{
	return strcmp(((const struct label *)a)->name, ((const struct label *)b)->name);
}

static void put(char *args)
{
	struct label labels[LABELS_MAX] = { { "host", "test-host" }, { "service_name", "test" } };
	struct window w = { .labels = labels, .label_cnt = 2, .duration_ns = 10 * NS_PER_S };
	const char *path = strtok(args, " "), *cnt_text = strtok(NULL, " ");
	uint64_t cnt = cnt_text ? strtoull(cnt_text, NULL, 10) : 0, failed = 0;
	struct timespec now;
	char *pprof = read_file(path, &w.pprof_size), *label;

	while ((label = strtok(NULL, " ")) && w.label_cnt < LABELS_MAX) {
		struct label l = { label, "" };
		size_t i = 0;

		label[strcspn(label, "=")] = 0;
		l.value = label + strlen(label) + 1;
		while (i < w.label_cnt && strcmp(labels[i].name, l.name))
			i++;
		labels[i] = l;
		w.label_cnt += i == w.label_cnt;
	}
	qsort(labels, w.label_cnt, sizeof(*labels), cmp_labels);
	w.pprof = pprof;
	w.frequency_hz = 19;
	w.samples = 1;
	clock_gettime(CLOCK_REALTIME, &now);
	for (uint64_t i = 0; i < cnt; i++) {
		w.start_unix_ns = timespec_ns(now);
		snprintf(w.id, sizeof(w.id), "%08x%08x%016" PRIx64, (unsigned)getpid(),
			 (unsigned)now.tv_sec, window_cnt++);
		failed += push__put(push, &w) != 0;
	}
	printf("put %" PRIu64 " %" PRIu64 " %s\n", cnt - failed, failed, w.id);
	free(pprof);
}

static void print_stats(void)
{
	for (size_t i = 0; i < push__count(push); i++) {
		struct push_stats s;

		push__stats(push, i, &s);
		printf("name=%s kind=%s put=%" PRIu64 " found=%" PRIu64 " sent=%" PRIu64
		       " windows=%" PRIu64 " bytes=%" PRIu64 " memory=%" PRIu64 " age_ns=%" PRIu64
		       " disk_errors=%" PRIu64 " requests=%" PRIu64 " retries=%" PRIu64
		       " failures=%" PRIu64 " sent_bytes=%" PRIu64 " latency_sum=%" PRIu64
		       " latency_max=%" PRIu64 " status=%d failing=%d",
		       s.name, s.kind, s.spool.put, s.spool.found, s.spool.sent, s.spool.windows,
		       s.spool.bytes, s.spool.memory_windows, s.spool.oldest_age_ns,
		       s.spool.disk_errors, s.requests, s.retries, s.failures, s.sent_bytes,
		       s.latency_sum_ns, s.latency_max_ns, s.last_status, s.failing);
		for (int d = 0; d < SPOOL_DROP_CNT; d++)
			printf(" %s=%" PRIu64, spool_drop__name((enum spool_end)d),
			       s.spool.dropped[d]);
		putchar('\n');
	}
	puts(".");
}

static void print_rss(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	DIR *d = opendir("/proc/self/fd");
	int fds = 0;

	if (!f || fscanf(f, "%*u %lu", &pages) != 1 || !d)
		die("/proc/self", strerror(errno));
	fclose(f);
	while (readdir(d))
		fds++;
	closedir(d);
	printf("rss %lu fds %d\n", pages * (unsigned long)sysconf(_SC_PAGESIZE), fds);
}

int main(int argc, char **argv)
{
	uint64_t deadline_ms = 0;
	char line[8192];

	if (argc < 3 || argc > DESTINATIONS_MAX + 2)
		die("usage", "push_windows SPOOL_DIR CONFIG...");
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (; (int)config_cnt < argc - 2; config_cnt++)
		read_config(&configs[config_cnt], argv[config_cnt + 2]);
	push = push__open(configs, config_cnt, argv[1]);
	if (!push)
		return 1;
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!strncmp(line, "put ", 4)) {
			put(line + 4);
		} else if (!strcmp(line, "stats")) {
			print_stats();
		} else if (!strcmp(line, "rss")) {
			print_rss();
		} else if (!strncmp(line, "close ", 6)) {
			deadline_ms = strtoull(line + 6, NULL, 10);
			break;
		} else {
			die(line, "unknown command");
		}
	}
	push__close(push, deadline_ms);
	for (size_t i = 0; i < config_cnt; i++)
		push_config__free(&configs[i]);
	puts("closed");
	return 0;
}
