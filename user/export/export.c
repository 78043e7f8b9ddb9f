/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "export/export.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ending.h"
#include "base/log.h"
#include "base/str.h"
#include "export/draft.h"

#define READER_WAIT_MS	 30000 /* for a FIFO that nobody reads */
#define READER_ENDING_MS 1000  /* ... when the end is wanted */
#define READER_LOOK_MS	 20

/* ---- Formats ---- */

/* A suffix that ends in another one comes first. */
static const struct export_format formats[] = {
	{ ".pb.gz", "pprof", "pprof", true, export__pprof, NULL, GLUE_KEEP },
	{ ".pprof.gz", "pprof", "pprof", true, export__pprof, NULL, GLUE_KEEP },
	{ ".pprof", "pprof", "pprof", true, export__pprof, NULL, GLUE_KEEP },
	{ ".pb", "pprof", "pprof", true, export__pprof, NULL, GLUE_KEEP },
	{ ".folded", "folded", "folded stacks", false, export__folded, export__diff_folded,
	  GLUE_HIDE },
	{ ".collapsed", "folded", "folded stacks", false, export__folded, export__diff_folded,
	  GLUE_HIDE },
	{ ".txt", "report", "report", true, export__report, export__diff_report, GLUE_KEEP },
	{ ".md", "markdown", "Markdown", false, export__markdown, export__diff_markdown,
	  GLUE_KEEP },
	{ ".lines.html", "lines", "source by line", false, export__lines, NULL, GLUE_KEEP },
	{ ".html", "html", "flame graph page", false, export__html, export__html_diff, GLUE_MARK },
	{ ".svg", "svg", "flame graph", false, export__svg, export__svg_diff, GLUE_HIDE },
	{ ".speedscope.json", "speedscope", "speedscope profile", false, export__speedscope, NULL,
	  GLUE_HIDE },
	{ ".callgrind", "callgrind", "callgrind profile", false, export__callgrind, NULL,
	  GLUE_HIDE },
	{ ".csv", "csv", "table of functions", true, export__csv, NULL, GLUE_HIDE },
	{ ".firefox.json", "firefox", "Firefox profile", false, export__firefox, NULL, GLUE_HIDE },
	{ ".json", "json", "JSON", true, export__json, export__diff_json, GLUE_KEEP },
	{ NULL, NULL, NULL, false, NULL, NULL, GLUE_KEEP },
};

const struct export_format *export__formats(void)
{
	return formats;
}

const struct export_format *export__find(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t len = strlen(path);

	if (!strcmp(name, "lines.html")) /* needs no name in front */
		return export__find(".lines.html");
	for (const struct export_format *x = formats; x->suffix; x++) {
		size_t suffix = strlen(x->suffix);

		if (len >= suffix && !strcmp(path + len - suffix, x->suffix))
			return x;
	}
	return NULL;
}

/* ---- What is written ---- */

/* As the format shows the interpreter's own frames. */
static int write_one(const struct export_format *format, const struct profile *base,
		     const struct profile *p, const struct export_opts *o, FILE *f)
{
	enum glue_mode mode = o->glue ? GLUE_KEEP : format->glue;
	const struct profile *shown = glue__view(p, mode);
	const struct profile *before = base ? glue__view(base, mode) : NULL;
	int err = -ENOMEM;

	if (shown && base && before)
		err = format->write_diff(before, shown, o, f);
	else if (shown && !base)
		err = format->write(shown, o, f);
	profile__free_view(before, base);
	profile__free_view(shown, p);
	return err;
}

/* How it went over time. */
static bool shows_curves(const struct export_format *format)
{
	return format->write == export__html;
}

/* The profile itself where it has no other value type. NULL: no memory. */
static const struct profile *one_value(const struct profile *p, int type, bool curves)
{
	if (curves && p->curves)
		return profile__curve_view(p, (uint32_t)type);
	return profile__value_cnt(p) > 1 ? profile__view(p, (uint32_t)type) : p;
}

/* All values in one page, each as the page would show it alone. */
static int write_all_values(const struct export_format *format, const struct profile *p,
			    const struct export_opts *o, FILE *f)
{
	enum glue_mode mode = o->glue ? GLUE_KEEP : format->glue;
	const struct profile *ones[VALUES_MAX] = { NULL }, *shown[VALUES_MAX] = { NULL };
	uint32_t cnt = profile__value_cnt(p);
	int err = 0;

	for (uint32_t i = 0; i < cnt && !err; i++) {
		ones[i] = one_value(p, (int)i, shows_curves(format));
		shown[i] = ones[i] ? glue__view(ones[i], mode) : NULL;
		err = shown[i] ? 0 : -ENOMEM;
	}
	if (!err)
		err = export__html_values(shown, cnt, o, f);
	for (uint32_t i = 0; i < cnt; i++) {
		profile__free_view(shown[i], ones[i]);
		profile__free_view(ones[i], p);
	}
	return err;
}

int export__write(const struct export_format *format, const struct profile *base,
		  const struct profile *p, const struct export_opts *o, FILE *f)
{
	int type = o->value ? profile__find_value(p, o->value) : 0;
	int base_type = base && o->value ? profile__find_value(base, o->value) : 0;
	const struct profile *one, *before;
	int err = -ENOMEM;

	if (type < 0 || base_type < 0)
		return -ENOENT;
	if (format->all_values && !o->value && !base)
		return write_one(format, base, p, o, f);
	if (format->write == export__html && !o->value && !base && profile__value_cnt(p) > 1)
		return write_all_values(format, p, o, f);
	one = one_value(p, type, shows_curves(format) && !base);
	before = base ? one_value(base, base_type, false) : NULL;
	if (one && (before || !base))
		err = write_one(format, before, one, o, f);
	profile__free_view(before, base);
	profile__free_view(one, p);
	return err;
}

/* ---- Files ---- */

struct export_file {
	char *path; /* as given */
	const struct export_format *format;
	int dir;	  /* of the target; -1: the target is written directly */
	int fd;		  /* -1: opened at commit */
	int waiting;	  /* O_PATH: a FIFO that nobody reads yet, or -1 */
	const char *name; /* of the target in dir; points into path */
	bool is_draft;	  /* it is one until it is published */
	struct draft draft;
	struct export_file *volatile next; /* in open_files */
};

/*
 * The files that export__abandon() has to clean up; global because a signal handler gets no
 * argument. A file joins the list by one store, when it is complete, and leaves it by one store.
 */
static struct export_file *volatile open_files;

/*
 * The kernel applies the umask (and default ACLs) to a new file; an existing target hands on its
 * permissions. Never more than 0777: a set-id bit must not move to new content.
 */
static int open_draft(struct export_file *x, const struct stat *target)
{
	int err = draft__open(&x->draft, x->dir, x->name);

	if (err)
		return err;
	x->is_draft = true;
	x->fd = x->draft.fd;
	if (target && fchmod(x->fd, target->st_mode & 0777))
		return -errno;
	return 0;
}

static int open_dir(struct export_file *x)
{
	char *slash = strrchr(x->path, '/');
	char *dir = slash ? strndup(x->path, (size_t)(slash - x->path) + 1) : strdup(".");

	if (!dir)
		return -ENOMEM;
	x->name = slash ? slash + 1 : x->path;
	x->dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	free(dir);
	return x->dir < 0 ? -errno : 0;
}

/* The descriptor that a path stands for ("-", /dev/stdout, /dev/fd/N), or -1. */
static int named_fd(const char *path)
{
	static const char *const dirs[] = { "/dev/fd/", "/proc/self/fd/" };
	long long fd;

	if (!strcmp(path, "-") || !strcmp(path, "/dev/stdout"))
		return STDOUT_FILENO;
	if (!strcmp(path, "/dev/stderr"))
		return STDERR_FILENO;
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		size_t len = strlen(dirs[i]);

		if (!strncmp(path, dirs[i], len) && !parse_int(path + len, 0, INT_MAX, &fd))
			return (int)fd;
	}
	return -1;
}

/*
 * A special file takes the data or passes them on. In a directory where others can put files, one
 * may have been put there to get the profile. So it must be named itself, not by a link, and belong
 * to the caller or root, in a directory where nobody else can exchange it. NULL, or the reason
 * against it.
 */
static const char *why_not_special(const struct export_file *x, const struct stat *st)
{
	struct stat dir;

	if (S_ISLNK(st->st_mode))
		return "it is a symbolic link to a special file: name the file itself";
	if (st->st_uid && st->st_uid != geteuid())
		return "it is a special file of another user: use a name in a directory of your "
		       "own";
	if (fstat(x->dir, &dir) || (dir.st_uid && dir.st_uid != geteuid()) ||
	    ((dir.st_mode & (S_IWGRP | S_IWOTH)) && !(dir.st_mode & S_ISVTX)))
		return "it is a special file in a directory where others can exchange it: use a "
		       "directory of your own";
	return NULL;
}

static int open_place(int place, int flags)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", place);
	return open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | flags);
}

/* Writes wait from here on. */
static int let_block(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) ? -errno : 0;
}

/*
 * A device or a FIFO; `place` is its O_PATH descriptor. A FIFO that nobody reads yet would
 * block here, before anything was sampled, so it is opened again at commit.
 */
static int open_special(struct export_file *x, int place, const char **why)
{
	struct stat st;

	if (fstat(place, &st))
		return -errno;
	*why = S_ISSOCK(st.st_mode) ? "it is a socket: name a file or a FIFO"
				    : why_not_special(x, &st);
	if (*why)
		return -EPERM;
	x->fd = open_place(place, O_NONBLOCK);
	if (x->fd < 0 && S_ISFIFO(st.st_mode) && errno == ENXIO) {
		x->waiting = fcntl(place, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		return x->waiting < 0 ? -errno : 0;
	}
	return x->fd < 0 ? -errno : let_block(x->fd);
}

static int open_named(struct export_file *x, const char **why)
{
	int place = openat(x->dir, x->name, O_PATH | O_NOFOLLOW | O_CLOEXEC), err;

	if (place < 0)
		return -errno;
	err = open_special(x, place, why);
	close(place);
	return err;
}

/* `*why`: the reason, where errno cannot tell. */
static int open_target(struct export_file *x, const char **why)
{
	int fd = named_fd(x->path), err;
	struct stat st, link;
	bool special = false;

	if (fd >= 0) {
		x->fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		return x->fd < 0 ? -errno : 0;
	}
	if (!stat(x->path, &st)) {
		if (S_ISDIR(st.st_mode))
			return -EISDIR;
		special = !S_ISREG(st.st_mode);
	} else if (errno != ENOENT) {
		return -errno;
	}
	err = open_dir(x);
	if (err)
		return err;
	if (!*x->name)
		return *x->path ? -EISDIR : -ENOENT;
	if (special)
		return open_named(x, why);
	/*
	 * A symbolic link is replaced, not followed: whoever planted it in a shared directory must
	 * not choose the file that a privileged run overwrites, nor its permissions.
	 */
	if (fstatat(x->dir, x->name, &link, AT_SYMLINK_NOFOLLOW)) {
		if (errno != ENOENT)
			return -errno;
		return open_draft(x, NULL);
	}
	return open_draft(x, S_ISREG(link.st_mode) ? &link : NULL);
}

struct export_file *export__open(const char *path, const struct export_format *format)
{
	struct export_file *x = calloc(1, sizeof(*x));
	const char *why = NULL;
	int err = -ENOMEM;

	if (x) {
		x->next = open_files;
		open_files = x;
		x->dir = -1;
		x->fd = x->waiting = -1;
		x->format = format;
		x->path = strdup(path);
		if (x->path)
			err = open_target(x, &why);
	}
	if (err) {
		log_err("%s: cannot be written: %s", path, why ? why : strerror(-err));
		export__close(x);
		errno = -err;
		return NULL;
	}
	return x;
}

/* One profile, or with `base` the difference from it; or the output of `write`. */
struct content {
	const struct profile *base, *p;
	const struct export_opts *o;
	int (*write)(void *ctx, FILE *f);
	void *ctx;
};

/* Closes `f` in any case. */
static int write_all(struct export_file *x, FILE *f, const struct content *c)
{
	int err = c->write ? c->write(c->ctx, f) : export__write(x->format, c->base, c->p, c->o, f);

	if (!err && (ferror(f) || fflush(f)))
		err = errno ? -errno : -EIO;
	if (!err && x->is_draft && fsync(fileno(f)))
		err = -errno;
	if (fclose(f) && !err)
		err = -errno;
	return err;
}

/* 0; -ENXIO: nobody has opened the FIFO in time. An open() that waits could not be given up. */
static int wait_for_reader(struct export_file *x)
{
	uint64_t until_ms = now_ms() + READER_WAIT_MS;
	bool said = false, ends = false;

	while ((x->fd = open_place(x->waiting, O_NONBLOCK)) < 0) {
		if (errno != ENXIO)
			return -errno;
		if (!ends && ending__asked() && until_ms > now_ms() + READER_ENDING_MS)
			until_ms = now_ms() + READER_ENDING_MS;
		ends |= ending__asked();
		if (now_ms() >= until_ms || ending__late())
			return -ENXIO;
		if (!said && !ends)
			log_info("%s: waits up to %d s for somebody who reads this FIFO", x->path,
				 READER_WAIT_MS / 1000);
		said = true;
		poll(NULL, 0, READER_LOOK_MS);
	}
	return let_block(x->fd);
}

static int write_file(struct export_file *x, const struct content *c)
{
	FILE *f;
	int err = x->fd < 0 ? wait_for_reader(x) : 0, draft = -1;

	if (err)
		return err;
	if (x->is_draft) {
		draft = fcntl(x->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		if (draft < 0)
			return -errno;
	}
	f = fdopen(x->fd, "w");
	if (f)
		x->fd = -1;
	err = f ? write_all(x, f, c) : -errno;
	if (!err && draft >= 0)
		err = draft__publish(&x->draft, draft);
	if (draft >= 0)
		close(draft);
	return err;
}

static int commit(struct export_file *x, const struct content *c)
{
	int err = write_file(x, c);

	if (err)
		log_err("%s: %s not written: %s", x->path, x->format->name,
			err == -ENXIO && x->waiting >= 0 ? "nobody reads this FIFO"
							 : strerror(-err));
	return err;
}

int export__commit(struct export_file *x, const struct profile *p, const struct export_opts *o)
{
	return commit(x, &(struct content){ .p = p, .o = o });
}

int export__commit_diff(struct export_file *x, const struct profile *before,
			const struct profile *after, const struct export_opts *o)
{
	return commit(x, &(struct content){ .base = before, .p = after, .o = o });
}

int export__commit_other(struct export_file *x, int (*write)(void *ctx, FILE *f), void *ctx)
{
	return commit(x, &(struct content){ .write = write, .ctx = ctx });
}

void export__abandon(void)
{
	for (struct export_file *x = open_files; x; x = x->next)
		draft__remove(&x->draft);
}

static void forget(const struct export_file *x)
{
	struct export_file *volatile *link = &open_files;

	while (*link && *link != x)
		link = &(*link)->next;
	if (*link)
		*link = x->next;
}

void export__close(struct export_file *x)
{
	if (!x)
		return;
	if (x->fd >= 0)
		close(x->fd);
	draft__remove(&x->draft);
	forget(x);
	if (x->waiting >= 0)
		close(x->waiting);
	if (x->dir >= 0)
		close(x->dir);
	free(x->path);
	free(x);
}
