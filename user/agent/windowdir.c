/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/windowdir.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "export/draft.h"

/* Letters, digits and a few others; _ for the rest. */
static void file_name(const struct window *w, char *out, size_t size)
{
	const char *service = window__label(w, "service_name");
	time_t start = (time_t)(w->start_unix_ns / NS_PER_S);
	size_t n = 0;
	struct tm tm;

	for (const char *s = service ? service : "unknown"; *s && n < 64 && n < size - 1; s++)
		out[n++] = strchr("/ .\\", *s) || (unsigned char)*s > 126 ? '_' : *s;
	gmtime_r(&start, &tm);
	n += strftime(out + n, size - n, "-%Y%m%dT%H%M%SZ", &tm);
	snprintf(out + n, size - n, "-%.8s", w->id);
}

static void add_labels(struct strbuf *b, const struct window *w)
{
	strbuf__addf(b,
		     "id=%s\nstart_unix_ns=%" PRIu64 "\nduration_ns=%" PRIu64 "\nsamples=%" PRIu64
		     "\nfrequency_hz=%" PRIu32 "\n",
		     w->id, w->start_unix_ns, w->duration_ns, w->samples, w->frequency_hz);
	for (size_t i = 0; i < w->label_cnt; i++)
		strbuf__addf(b, "label.%s=%s\n", w->labels[i].name, w->labels[i].value);
}

static int put(const char *directory, const struct window *w, const char *suffix,
	       const void *content, size_t size)
{
	char name[128];
	size_t len;
	int err;

	file_name(w, name, sizeof(name));
	len = strlen(name);
	snprintf(name + len, sizeof(name) - len, ".%s", suffix);
	err = draft__put(directory, name, 0600, content, size);
	if (err)
		log_err("%s/%s: %s", directory, name, strerror(-err));
	return err;
}

int windowdir__put(void *directory, const struct window *w)
{
	struct strbuf labels = { 0 };
	int err;

	/* first, so that a profile always has its labels */
	add_labels(&labels, w);
	err = labels.err ? log_no_memory() : put(directory, w, "labels", labels.s, labels.len);
	strbuf__free(&labels);
	return err ? err : put(directory, w, "pb.gz", w->pprof, w->pprof_size);
}
