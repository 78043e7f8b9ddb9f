/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/windowdir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

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

static void write_labels(const struct window *w, FILE *f)
{
	fprintf(f,
		"id=%s\nstart_unix_ns=%" PRIu64 "\nduration_ns=%" PRIu64 "\nsamples=%" PRIu64
		"\nfrequency_hz=%" PRIu32 "\n",
		w->id, w->start_unix_ns, w->duration_ns, w->samples, w->frequency_hz);
	for (size_t i = 0; i < w->label_cnt; i++)
		fprintf(f, "label.%s=%s\n", w->labels[i].name, w->labels[i].value);
}

/* Never through a link: the directory may be one in which others can make files. */
static FILE *create(const char *path)
{
	int fd;
	FILE *f;

	if (unlink(path) && errno != ENOENT) /* of a run that was killed */
		return NULL;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	f = fd < 0 ? NULL : fdopen(fd, "w");
	if (fd >= 0 && !f)
		close(fd);
	return f;
}

/* Writes all or nothing: beside the file, then renames it. `labels`: these, not the profile. */
static int write_file(const char *directory, const struct window *w, bool labels)
{
	char name[128], path[PATH_MAX], temporary[PATH_MAX];
	int err = 0;
	FILE *f;

	file_name(w, name, sizeof(name));
	snprintf(path, sizeof(path), "%s/%s.%s", directory, name, labels ? "labels" : "pb.gz");
	snprintf(temporary, sizeof(temporary), "%s/.%s.new", directory, w->id);
	f = create(temporary);
	if (f && labels)
		write_labels(w, f);
	else if (f && fwrite(w->pprof, 1, w->pprof_size, f) != w->pprof_size)
		err = errno ? -errno : -EIO;
	if (!f || (fclose(f) && !err))
		err = -errno;
	if (!err && rename(temporary, path))
		err = -errno;
	if (err) {
		log_err("%s: %s", path, strerror(-err));
		unlink(temporary);
	}
	return err;
}

int windowdir__put(void *directory, const struct window *w)
{
	/* first, so that a profile always has its labels */
	int err = write_file(directory, w, true);

	return err ? err : write_file(directory, w, false);
}
