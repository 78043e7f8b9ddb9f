/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/logger.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/rate_limit.h"
#include "base/str.h"

#define KINDS 256 /* a kind without a slot is not limited */

struct kind {
	const char *fmt;
	struct rate_limit limit;
};

static struct {
	pthread_mutex_t lock;
	bool json, journal;
	struct kind kinds[KINDS];
	uint64_t stuck; /* lines for which there was no room, since the last that was written */
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
static bool may_write(enum log_level level, const char *fmt, uint64_t *left_out)
{
	struct kind *k = level == LOG_LEVEL_DEBUG ? NULL : find_kind(fmt);

	*left_out = 0;
	return !k || rate_limit__allows_at(&k->limit, LOGGER_BURST, LOGGER_SPAN_S * NS_PER_S,
					   now_ns(), left_out);
}

/* How many messages were left out before a line: of its kind, and for want of room. */
struct rest {
	uint64_t left_out, stuck;
};

static void add_rest(struct strbuf *b, const struct rest *r)
{
	if (r->left_out)
		strbuf__addf(b, " (%" PRIu64 " more like it were left out)", r->left_out);
	if (r->stuck)
		strbuf__addf(b, " (nobody read the log: %" PRIu64 " lines before this are missing)",
			     r->stuck);
}

/*
 * Would writing return at once? The reader of the other end may stand still, and sampling must not.
 */
static bool has_room(uint64_t *stuck)
{
	struct pollfd fd = { .fd = STDERR_FILENO, .events = POLLOUT };
	bool room = poll(&fd, 1, 0) != 0;

	pthread_mutex_lock(&logger.lock);
	*stuck = logger.stuck;
	logger.stuck = room ? 0 : logger.stuck + 1;
	pthread_mutex_unlock(&logger.lock);
	return room;
}

static void write_json(enum log_level level, const char *text, size_t len, const struct rest *r)
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
	add_rest(&message, r);
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

static void write_text(enum log_level level, const char *text, size_t len, const struct rest *r)
{
	struct strbuf line = { 0 };

	if (logger.journal)
		strbuf__addf(&line, "<%d>", priorities[level]);
	strbuf__addz(&line, "pyperf-bpf: ");
	str_sanitise(&line, text, len, 0);
	add_rest(&line, r);
	strbuf__addc(&line, '\n');
	if (!line.err)
		fwrite(line.s, 1, line.len, stderr);
	strbuf__free(&line);
}

static void write_message(enum log_level level, const char *fmt, const char *text)
{
	struct rest r;
	bool json, may;

	pthread_mutex_lock(&logger.lock);
	json = logger.json;
	may = may_write(level, fmt, &r.left_out);
	pthread_mutex_unlock(&logger.lock);
	while (may && *text) {
		size_t len = strcspn(text, "\n");

		if (has_room(&r.stuck))
			(json ? write_json : write_text)(level, text, len, &r);
		r.left_out = 0;
		text += len + (text[len] == '\n');
	}
}

void logger__start(bool json)
{
	static char buffer[8192];
	static bool buffered; /* a stream in use must not get another one */

	pthread_mutex_lock(&logger.lock);
	logger.json = json;
	logger.journal = getenv("JOURNAL_STREAM") != NULL;
	pthread_mutex_unlock(&logger.lock);
	if (!buffered)
		setvbuf(stderr, buffer, _IOLBF, sizeof(buffer)); /* a line is one write */
	buffered = true;
	log_set_writer(write_message);
}
