/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/logger.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "json.h"
#include "log.h"
#include "str.h"

#define KINDS 256 /* a kind that finds no place is not limited */

struct kind {
	const char *fmt;
	uint64_t since_ns;
	unsigned written, left_out;
};

static struct {
	pthread_mutex_t lock;
	bool json, journal;
	struct kind kinds[KINDS];
} logger = { .lock = PTHREAD_MUTEX_INITIALIZER };

static const char *const level_names[] = { "error", "warning", "info", "debug" };
static const int priorities[] = { 3, 4, 6, 7 };

static struct kind *find_kind(const char *fmt)
{
	for (size_t i = 0; i < KINDS; i++) {
		struct kind *k = &logger.kinds[((uintptr_t)fmt / 8 + i) % KINDS];

		if (!k->fmt)
			k->fmt = fmt;
		if (k->fmt == fmt)
			return k;
	}
	return NULL;
}

/* `left_out`: how many of this kind were not written before it. */
static bool may_write(enum log_level level, const char *fmt, unsigned *left_out)
{
	struct kind *k = level == LOG_LEVEL_DEBUG ? NULL : find_kind(fmt);
	uint64_t now = now_ns();

	*left_out = 0;
	if (!k)
		return true;
	if (!k->since_ns || now - k->since_ns >= LOGGER_SPAN_S * NS_PER_S) {
		*left_out = k->left_out;
		k->since_ns = now;
		k->written = k->left_out = 0;
	}
	if (k->written == LOGGER_BURST) {
		k->left_out++;
		return false;
	}
	k->written++;
	return true;
}

static void add_rest(struct strbuf *b, unsigned left_out)
{
	if (left_out)
		strbuf__addf(b, " (%u more like it were left out)", left_out);
}

static void write_json(enum log_level level, const char *text, size_t len, unsigned left_out)
{
	struct json j = { .f = stderr };
	struct strbuf message = { 0 };
	char when[64];
	struct timespec t;
	struct tm tm;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &t);
	gmtime_r(&t.tv_sec, &tm);
	n = strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(when + n, sizeof(when) - n, ".%03ldZ", t.tv_nsec / 1000000);
	strbuf__add(&message, text, len);
	add_rest(&message, left_out);
	flockfile(stderr);
	json__object(&j, NULL);
	json__stringz(&j, "time", when);
	json__stringz(&j, "level", level_names[level]);
	json__string(&j, "message", message.s ? message.s : "", message.len);
	json__end(&j, '}');
	fputc('\n', stderr);
	fflush(stderr);
	funlockfile(stderr);
	strbuf__free(&message);
}

static void write_text(enum log_level level, const char *text, size_t len, unsigned left_out)
{
	struct strbuf line = { 0 };

	if (logger.journal)
		strbuf__addf(&line, "<%d>", priorities[level]);
	strbuf__addz(&line, "pyperf-bpf: ");
	str_sanitise(&line, text, len, 0);
	add_rest(&line, left_out);
	strbuf__addc(&line, '\n');
	if (!line.err)
		fwrite(line.s, 1, line.len, stderr);
	strbuf__free(&line);
}

static void write_message(enum log_level level, const char *fmt, const char *text)
{
	unsigned left_out;
	bool json;

	pthread_mutex_lock(&logger.lock);
	json = logger.json;
	if (!may_write(level, fmt, &left_out)) {
		pthread_mutex_unlock(&logger.lock);
		return;
	}
	pthread_mutex_unlock(&logger.lock);
	while (*text) {
		size_t len = strcspn(text, "\n");

		if (json)
			write_json(level, text, len, left_out);
		else
			write_text(level, text, len, left_out);
		left_out = 0;
		text += len + (text[len] == '\n');
	}
}

void logger__start(bool json)
{
	static char buffer[8192];

	pthread_mutex_lock(&logger.lock);
	logger.json = json;
	logger.journal = getenv("JOURNAL_STREAM") != NULL;
	pthread_mutex_unlock(&logger.lock);
	setvbuf(stderr, buffer, _IOLBF, sizeof(buffer)); /* a line is one write */
	log_set_writer(write_message);
}
