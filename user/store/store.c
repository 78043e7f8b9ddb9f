/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The writer of the store: putting, and making room. */
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "store/store_db.h"

#define PAGE_SIZE     4096U
#define RESERVE_SIZE  (4U << 20)	    /* more than the log can hold, see set_up_writer() */
#define LOG_SIZE      (1600U << 10)	    /* of the log when it is emptied, see set_up_writer() */
#define FREE_AGAIN    (2ULL * RESERVE_SIZE) /* with this much free, the disk is no longer full */
#define ROUNDS	      4			    /* of making room on a full disk for one window */
#define EXPIRE_CNT    16  /* windows that one put takes away for their age, at most */
#define DROP_CNT      256 /* ... for the size */
#define VACUUM_PAGES  128 /* pages that one put gives back to the file system, at most */
#define LABELS_MAX    256
#define BUSY_AGAIN_NS (30 * NS_PER_S)
#define SPAN_MIN_S    600 /* windows of less tell no rate */
#define RATE_NS	      (3600 * NS_PER_S)
#define CHECKPOINT_MS 100 /* to wait for readers: it is tried again with the next window */

static const char *const counter_names[STORE_COUNTER_CNT] = {
#define X(name, text) #name,
	STORE_DROPS(X)
#undef X
		[STORE_DAMAGED] = "damaged",
};

const char *store_drop__name(enum store_drop d)
{
	return counter_names[d];
}

static void beside(const struct store *s, const char *suffix, char *path, size_t size)
{
	snprintf(path, size, "%s%s", s->c.path, suffix);
}

/* Is it time for another message of this kind? */
static bool may_say(struct store *s, enum store_said kind)
{
	uint64_t held;

	return rate_limit__allows(&s->said[kind], RATE_LIMIT_MINUTE, &held);
}

/* ---- Opening, and what to do about damage ---------------------------------------------------- */

static int make_directory(const char *file)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s", file);
	for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		if (mkdir(path, 0700) && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	return 0;
}

/* The lock, and a few MiB that are ours when the disk is full. */
static int open_reserve(struct store *s)
{
	char path[PATH_MAX + STORE_SUFFIX_MAX];

	beside(s, "-reserve", path, sizeof(path));
	s->reserve_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->reserve_fd < 0)
		return -errno;
	if (flock(s->reserve_fd, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	return 0;
}

static uint64_t disk_free(const struct store *s)
{
	struct statvfs v;

	return statvfs(s->c.path, &v) ? 0 : (uint64_t)v.f_bavail * v.f_frsize;
}

/*
 * While the reserve is there, the store may grow. When it had to be given up, the store can only
 * use the space of its file: then the log never needs more than it has, even if others take the
 * rest of the disk, also after a kill.
 */
static void fill_reserve(struct store *s)
{
	struct stat st;

	s->may_grow = !fstat(s->reserve_fd, &st) && st.st_size >= RESERVE_SIZE;
	if (s->may_grow || disk_free(s) < FREE_AGAIN)
		return;
	/* Not posix_fallocate(), which writes all of it where the file system has no such thing. */
	s->may_grow = !fallocate(s->reserve_fd, 0, 0, RESERVE_SIZE) || errno == EOPNOTSUPP;
	if (!s->may_grow && ftruncate(s->reserve_fd, 0))
		log_debug("store: reserve: %s", strerror(errno));
}

/*
 * SQLite would give it the permissions that the umask leaves; the files beside it have the same as
 * it.
 */
static int create_file(struct store *s)
{
	int fd = open(s->c.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return errno == EEXIST ? 0 : -errno;
	close(fd);
	return 0;
}

/* Nothing of it is deleted: sqlite3's ".recover" may find windows in it. */
static int set_aside(struct store *s)
{
	char from[PATH_MAX + STORE_SUFFIX_MAX], to[PATH_MAX + STORE_SUFFIX_MAX];

	store_db__close(s);
	beside(s, "-shm", from, sizeof(from));
	unlink(from);
	beside(s, "-wal", from, sizeof(from));
	beside(s, "-damaged-wal", to, sizeof(to));
	if (rename(from, to))
		unlink(to); /* of the one before */
	beside(s, "-damaged", to, sizeof(to));
	if (rename(s->c.path, to))
		return -errno;
	if (may_say(s, STORE_SAID_DAMAGED))
		log_warn("store: %s: the file is damaged: renamed it to %s and started a new one",
			 s->c.path, to);
	s->pending[STORE_DAMAGED]++;
	return 0;
}

static int create_and_open(struct store *s, const char **why)
{
	int64_t newest = 0;
	int err = create_file(s);

	*why = NULL;
	err = err ? err : store_db__open(s, why);
	if (err)
		return err;
	err = store_db__do(s, STMT_newest, &newest);
	if (err)
		store_db__close(s);
	else
		arrivals__begin(&s->arrivals, (uint64_t)newest);
	return err;
}

/* Damage shows when a page is read, so it may show here, or with any window later. */
static int open_db(struct store *s, const char **why)
{
	int err = create_and_open(s, why);

	if (err == -ENOSPC && !ftruncate(s->reserve_fd, 0))
		err = create_and_open(s, why); /* fill_reserve() sees that it is gone */
	if (err != -EBADMSG)
		return err;
	err = set_aside(s);
	return err ? err : create_and_open(s, why);
}

struct store *store__open(const struct store_config *c)
{
	struct store *s = store_db__new();
	const char *why = NULL;
	int err;

	if (!s)
		return NULL;
	s->c = *c;
	s->writer = true;
	err = make_directory(c->path);
	err = err ? err : open_reserve(s);
	err = err ? err : open_db(s, &why);
	if (err == -ENOSPC && s->reserve_fd >= 0) {
		log_warn("store: %s: the disk is full; it is tried again with each window",
			 c->path);
		return s;
	}
	if (err)
		return store_db__give_up(s, c->path, err, why);
	fill_reserve(s);
	return s;
}

void store__configure(struct store *s, const struct store_config *c)
{
	s->c.max_age_s = c->max_age_s;
	s->c.max_bytes = c->max_bytes;
	s->c.keep_free = c->keep_free;
}

void store__close(struct store *s)
{
	if (!s)
		return;
	store_db__close(s);
	store_db__unload(s);
	if (s->writer && s->reserve_fd >= 0)
		close(s->reserve_fd);
	free(s);
}

/*
 * Is the file still the one that was opened? Somebody may have taken it away; then a new one is
 * begun.
 */
static int ensure_open(struct store *s)
{
	const char *why = NULL;
	struct stat st;
	int err;

	if (s->db && !stat(s->c.path, &st) && st.st_dev == s->dev && st.st_ino == s->ino)
		return 0;
	if (s->db)
		log_warn("store: %s: the file is gone; a new one is started", s->c.path);
	store_db__close(s);
	err = make_directory(s->c.path);
	return err ? err : open_db(s, &why);
}

/* ---- One window ------------------------------------------------------------------------------ */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int parse_id(const char *id, uint8_t *out)
{
	if (strnlen(id, WINDOW_ID_LEN + 1) != WINDOW_ID_LEN)
		return -EINVAL;
	for (size_t i = 0; i < WINDOW_ID_LEN / 2; i++) {
		int high = hex_digit(id[2 * i]), low = hex_digit(id[2 * i + 1]);

		if (high < 0 || low < 0)
			return -EINVAL;
		out[i] = (uint8_t)(high << 4 | low);
	}
	return 0;
}

static int check_window(const struct store *s, const struct window *w)
{
	uint8_t id[WINDOW_ID_LEN / 2];
	bool service = false;

	if (parse_id(w->id, id) || w->label_cnt > LABELS_MAX || w->start_unix_ns > INT64_MAX ||
	    w->duration_ns > INT64_MAX - w->start_unix_ns || w->samples > INT64_MAX)
		return -EINVAL;
	for (size_t i = 0; i < w->label_cnt; i++) {
		if (i && strcmp(w->labels[i - 1].name, w->labels[i].name) >= 0)
			return -EINVAL;
		service |= !strcmp(w->labels[i].name, STORE_SERVICE);
	}
	if (w->pprof_size > s->c.max_bytes / 4)
		return -E2BIG;
	return service ? 0 : -EINVAL;
}

static int find_label(struct store *s, const struct label *l, int64_t *id)
{
	static const enum store_stmt which[] = { STMT_label_find, STMT_label_add };
	int err = 0;

	*id = 0;
	for (size_t i = 0; i < 2 && !err && !*id; i++) {
		sqlite3_stmt *stmt = store_db__stmt(s, which[i], &err);

		if (!stmt)
			return err;
		s->sql.bind_text(stmt, 1, l->name, -1, SQLITE_STATIC);
		s->sql.bind_text(stmt, 2, l->value, -1, SQLITE_STATIC);
		err = store_db__run(s, stmt, id);
		if (!err && i)
			*id = s->sql.last_insert_rowid(s->db);
	}
	return err;
}

static int add_series(struct store *s, int64_t service, const int64_t *labels, size_t cnt,
		      int64_t *id)
{
	int err;
	sqlite3_stmt *stmt = store_db__stmt(s, STMT_series_add, &err);

	if (!stmt)
		return err;
	s->sql.bind_int64(stmt, 1, service);
	s->sql.bind_blob(stmt, 2, labels, (int)(cnt * sizeof(*labels)), SQLITE_STATIC);
	err = store_db__run(s, stmt, NULL);
	*id = s->sql.last_insert_rowid(s->db);
	for (size_t i = 0; i < cnt && !err; i++) {
		stmt = store_db__stmt(s, STMT_series_label_add, &err);
		if (!stmt)
			return err;
		s->sql.bind_int64(stmt, 1, *id);
		s->sql.bind_int64(stmt, 2, labels[i]);
		err = store_db__run(s, stmt, NULL);
	}
	return err;
}

/* The labels of the window as a series, and its service. */
static int find_series(struct store *s, const struct window *w, int64_t *service, int64_t *series)
{
	int64_t labels[LABELS_MAX];
	sqlite3_stmt *stmt;
	int err = 0;

	for (size_t i = 0; i < w->label_cnt && !err; i++) {
		err = find_label(s, &w->labels[i], &labels[i]);
		if (!strcmp(w->labels[i].name, STORE_SERVICE))
			*service = labels[i];
	}
	stmt = err ? NULL : store_db__stmt(s, STMT_series_find, &err);
	if (!stmt)
		return err;
	s->sql.bind_blob(stmt, 1, labels, (int)(w->label_cnt * sizeof(*labels)), SQLITE_STATIC);
	*series = 0;
	err = store_db__run(s, stmt, series);
	return err || *series ? err : add_series(s, *service, labels, w->label_cnt, series);
}

static int is_there(struct store *s, const struct window *w, const uint8_t *id, int64_t service,
		    bool *there)
{
	int64_t found = 0;
	int err;
	sqlite3_stmt *stmt = store_db__stmt(s, STMT_window_find, &err);

	if (!stmt)
		return err;
	s->sql.bind_int64(stmt, 1, service);
	s->sql.bind_int64(stmt, 2, (int64_t)w->start_unix_ns);
	s->sql.bind_blob(stmt, 3, id, WINDOW_ID_LEN / 2, SQLITE_STATIC);
	err = store_db__run(s, stmt, &found);
	*there = found;
	return err;
}

static int insert(struct store *s, const struct window *w)
{
	uint8_t id[WINDOW_ID_LEN / 2];
	int64_t service = 0, series = 0;
	sqlite3_stmt *stmt;
	bool there = false;
	int err = parse_id(w->id, id);

	err = err ? err : find_series(s, w, &service, &series);
	err = err ? err : is_there(s, w, id, service, &there);
	if (err || there)
		return err;
	stmt = store_db__stmt(s, STMT_window_add, &err);
	if (!stmt)
		return err;
	s->sql.bind_blob(stmt, 1, id, sizeof(id), SQLITE_STATIC);
	s->sql.bind_int64(stmt, 2, service);
	s->sql.bind_int64(stmt, 3, series);
	s->sql.bind_int64(stmt, 4, (int64_t)w->start_unix_ns);
	s->sql.bind_int64(stmt, 5, (int64_t)w->duration_ns);
	s->sql.bind_int64(stmt, 6, (int64_t)w->samples);
	s->sql.bind_int64(stmt, 7, w->frequency_hz);
	/* "": a NULL pointer would be NULL, which the column does not take */
	s->sql.bind_blob64(stmt, 8, w->pprof_size ? w->pprof : "", w->pprof_size, SQLITE_STATIC);
	s->sql.bind_int64(stmt, 9, (int64_t)arrivals__next(&s->arrivals));
	return store_db__run(s, stmt, NULL);
}

/* ---- Making room ----------------------------------------------------------------------------- */

/* The windows that one transaction removes, by reason. */
struct drops {
	uint64_t cnt[STORE_COUNTER_CNT];
};

static int drop_expired(struct store *s, struct drops *d)
{
	int err;
	sqlite3_stmt *stmt = store_db__stmt(s, STMT_expired, &err);

	if (!stmt)
		return err;
	s->sql.bind_int64(stmt, 1, (int64_t)arrivals__since(&s->arrivals, s->c.max_age_s * 1000));
	s->sql.bind_int64(stmt, 2, EXPIRE_CNT);
	err = store_db__run(s, stmt, NULL);
	if (!err)
		d->cnt[STORE_DROP_age] += (uint64_t)s->sql.changes(s->db);
	return err;
}

/*
 * Removes the windows that were stored first, until `bytes` are free. Not by start time: after a
 * clock that ran ahead, that would remove the newest windows.
 */
static int drop_oldest(struct store *s, uint64_t bytes, enum store_drop reason, struct drops *d)
{
	uint64_t freed = 0;
	int64_t last = 0;
	int err, rc = SQLITE_DONE;
	sqlite3_stmt *stmt = store_db__stmt(s, STMT_oldest, &err);

	if (!stmt)
		return err;
	s->sql.bind_int64(stmt, 1, DROP_CNT);
	while (freed < bytes && (rc = s->sql.step(stmt)) == SQLITE_ROW) {
		last = s->sql.column_int64(stmt, 0);
		freed += (uint64_t)s->sql.column_int64(stmt, 1);
	}
	s->sql.reset(stmt);
	if (!last)
		return rc == SQLITE_DONE ? 0 : store_db__errno(s, rc);
	stmt = store_db__stmt(s, STMT_drop_to, &err);
	if (!stmt)
		return err;
	s->sql.bind_int64(stmt, 1, last);
	err = store_db__run(s, stmt, NULL);
	if (!err)
		d->cnt[reason] += (uint64_t)s->sql.changes(s->db);
	return err;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* How large the files may become now. *full: it is the disk that says so. */
static uint64_t size_limit(struct store *s, uint64_t used, bool *full)
{
	uint64_t limit = s->c.max_bytes - RESERVE_SIZE, now = limit;
	struct stat st;

	if (!s->may_grow && !stat(s->c.path, &st))
		now = lesser(now, (uint64_t)st.st_size + LOG_SIZE);
	if (disk_free(s) < s->c.keep_free)
		now = lesser(now, used < STORE_MIN_BYTES ? STORE_MIN_BYTES : used);
	*full = now < limit;
	return now;
}

/*
 * The size of the files when the log is merged into the database, which grows by the pages that
 * only the log has. Does not include the reserve; counts an emptied log as if it were full.
 */
static int used_bytes(struct store *s, uint64_t *used, uint64_t *unused)
{
	char path[PATH_MAX + STORE_SUFFIX_MAX];
	int64_t pages = 0, unused_pages = 0;
	uint64_t log = 0;
	struct stat st;
	int err = store_db__do(s, STMT_page_count, &pages);

	err = err ? err : store_db__do(s, STMT_free_count, &unused_pages);
	beside(s, "-wal", path, sizeof(path));
	if (!stat(path, &st))
		log = (uint64_t)st.st_size;
	*used = (uint64_t)pages * PAGE_SIZE + (log > LOG_SIZE ? log : LOG_SIZE);
	*unused = (uint64_t)unused_pages * PAGE_SIZE;
	return err;
}

/*
 * Enough for one more window of this size. What is too large shrinks by as much again with each
 * window.
 */
static int drop_for_size(struct store *s, uint64_t need, struct drops *d)
{
	uint64_t used, unused, limit;
	int err = used_bytes(s, &used, &unused);

	if (err)
		return err;
	limit = size_limit(s, used, &s->limited);
	/* In the log and, once that is emptied, in the database. */
	used += 2 * need - lesser(used, unused);
	if (used <= limit)
		return 0;
	return drop_oldest(s, lesser(used - limit, 2 * need),
			   s->limited ? STORE_DROP_full : STORE_DROP_size, d);
}

/* ---- What is said of it ---------------------------------------------------------------------- */

uint64_t store__keeps_s(uint64_t limit, uint64_t used, uint64_t span_s, uint64_t max_age_s)
{
	double seconds;

	if (span_s < SPAN_MIN_S || !used)
		return 0;
	seconds = (double)limit / (double)used * (double)span_s;
	return seconds < (double)max_age_s ? (uint64_t)seconds : max_age_s;
}

static void add_size(struct strbuf *out, uint64_t bytes)
{
	if (bytes >= 1ULL << 30)
		strbuf__addf(out, "%.1f GiB", (double)bytes / (1ULL << 30));
	else
		strbuf__addf(out, "%.1f MiB", (double)bytes / (1ULL << 20));
}

static void add_period(struct strbuf *out, uint64_t seconds)
{
	if (seconds >= 2 * 86400)
		strbuf__addf(out, "%.1f days", (double)seconds / 86400);
	else if (seconds >= 2 * 3600)
		strbuf__addf(out, "%.1f hours", (double)seconds / 3600);
	else
		strbuf__addf(out, "%" PRIu64 " minutes", seconds / 60);
}

/*
 * "; at this rate it keeps 3.2 days", by the times of the windows in it; false: there are too few.
 */
static bool add_keeps(struct store *s, uint64_t limit, struct strbuf *out)
{
	int64_t first = 0, last = 0;
	uint64_t used, unused, keeps;

	if (store_db__do(s, STMT_first, &first) || store_db__do(s, STMT_last, &last) ||
	    used_bytes(s, &used, &unused))
		return false;
	keeps = store__keeps_s(limit, used - lesser(used, unused),
			       last > first ? (uint64_t)(last - first) / NS_PER_S : 0,
			       s->c.max_age_s);
	if (!keeps)
		return false;
	strbuf__addz(out, "; at this rate it keeps ");
	add_period(out, keeps);
	if (keeps == s->c.max_age_s)
		strbuf__addz(out, " (max-age)");
	return true;
}

/* "60.1 MiB of at most 2.0 GiB", or what the disk makes of it. The limit. */
static uint64_t add_limit(struct store *s, struct strbuf *out)
{
	uint64_t used = 0, unused = 0, limit;

	used_bytes(s, &used, &unused);
	limit = size_limit(s, used, &s->limited);
	add_size(out, store_db__bytes(s));
	strbuf__addz(out, " of at most ");
	add_size(out, limit + (s->may_grow ? RESERVE_SIZE : 0));
	if (s->limited) {
		strbuf__addz(out, " instead of its max-size of ");
		add_size(out, s->c.max_bytes);
		strbuf__addz(out, ", because the file system has ");
		add_size(out, disk_free(s));
		strbuf__addz(out, " free and keep-free is ");
		add_size(out, s->c.keep_free);
	}
	return limit;
}

void store__say(struct store *s)
{
	struct strbuf text = { 0 };
	struct store_stats stats;
	uint64_t limit;

	s->said_ns = now_ns();
	if (!s->db || store__stats(s, &stats))
		return;
	limit = add_limit(s, &text);
	s->said_keep = add_keeps(s, limit, &text);
	if (!s->said_keep)
		strbuf__addz(&text, "; how long it keeps them is said when the rate is known");
	s->said_limited = s->limited;
	if (!text.err)
		log_msg(s->limited ? LOG_LEVEL_WARN : LOG_LEVEL_INFO,
			"store: %s: %" PRIu64 " windows, %s", s->c.path, stats.windows, text.s);
	strbuf__free(&text);
}

static void say_dropped(struct store *s, enum store_drop reason)
{
	struct strbuf text = { 0 };
	uint64_t limit = add_limit(s, &text);

	add_keeps(s, limit, &text);
	if (!text.err)
		log_msg(reason == STORE_DROP_full ? LOG_LEVEL_WARN : LOG_LEVEL_INFO,
			"store: %s: the oldest windows make room for new ones (%" PRIu64
			" since the last such message): %s",
			s->c.path, s->unsaid[reason], text.s);
	s->unsaid[reason] = 0;
	strbuf__free(&text);
}

/*
 * Reports removed windows: at once if the disk is the reason, once a day for max-size, which is
 * normal.
 */
static void say_drops(struct store *s, const struct drops *d)
{
	uint64_t held;

	for (size_t i = 0; i < STORE_DROP_CNT; i++)
		s->unsaid[i] += d->cnt[i];
	if (d->cnt[STORE_DROP_full] && may_say(s, STORE_SAID_FULL))
		say_dropped(s, STORE_DROP_full);
	if (d->cnt[STORE_DROP_size] &&
	    rate_limit__allows(&s->said[STORE_SAID_SIZE], 24 * 60 * RATE_LIMIT_MINUTE, &held))
		say_dropped(s, STORE_DROP_size);
}

/* The disk's word on its limit, when it changes, and the rate once it is known. */
static void say_news(struct store *s)
{
	bool rate = !s->said_keep && now_ns() - s->said_ns > RATE_NS;

	if (s->said_ns && (s->limited != s->said_limited || rate))
		store__say(s);
}

/* ---- Putting --------------------------------------------------------------------------------- */

static int count_drops(struct store *s, const struct drops *d)
{
	int err = 0;

	for (size_t i = 0; i < STORE_COUNTER_CNT && !err; i++) {
		uint64_t cnt = d->cnt[i] + s->pending[i];
		sqlite3_stmt *stmt = cnt ? store_db__stmt(s, STMT_count, &err) : NULL;

		if (!stmt)
			continue;
		s->sql.bind_text(stmt, 1, counter_names[i], -1, SQLITE_STATIC);
		s->sql.bind_int64(stmt, 2, (int64_t)cnt);
		err = store_db__run(s, stmt, NULL);
	}
	return err;
}

static int begin(struct store *s)
{
	return store_db__do(s, STMT_begin, NULL);
}

/* All or nothing: `err` is what happened since begin(). */
static int finish(struct store *s, const struct drops *d, int err)
{
	err = err ? err : count_drops(s, d);
	err = err ? err : store_db__do(s, STMT_commit, NULL);
	if (!err)
		memset(s->pending, 0, sizeof(s->pending));
	else if (!s->sql.get_autocommit(s->db)) /* some errors have ended it already */
		store_db__do(s, STMT_rollback, NULL);
	return err;
}

/* The size of a window in the file, generously: its row, pages that are not full, indexes. */
static uint64_t needs(const struct window *w)
{
	return w->pprof_size + w->pprof_size / 16 + 4 * PAGE_SIZE;
}

/*
 * If another program holds the file for long, such as sqlite3, a put waits for it only once, not
 * with each of the windows of a period.
 */
static int begin_put(struct store *s)
{
	bool patient = now_ns() >= s->busy_ns;
	int err;

	s->sql.busy_timeout(s->db, patient ? STORE_BUSY_MS : 0);
	err = begin(s);
	s->sql.busy_timeout(s->db, STORE_BUSY_MS);
	if (err == -EBUSY && patient)
		s->busy_ns = now_ns() + BUSY_AGAIN_NS;
	return err;
}

static int put(struct store *s, const struct window *w)
{
	struct drops d = { { 0 } };
	int err = begin_put(s);

	if (err)
		return err;
	err = drop_expired(s, &d);
	err = err ? err : drop_for_size(s, needs(w), &d);
	err = err ? err : insert(s, w);
	err = finish(s, &d, err);
	if (!err)
		say_drops(s, &d);
	return err;
}

/* ---- A full disk ----------------------------------------------------------------------------- */

/*
 * The log into the file, so that it begins anew. Readers may keep it from that: then it does not.
 */
static int checkpoint(struct store *s)
{
	int rc;

	s->sql.busy_timeout(s->db, CHECKPOINT_MS);
	rc = s->sql.wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL);
	s->sql.busy_timeout(s->db, STORE_BUSY_MS);
	return rc && rc != SQLITE_BUSY ? store_db__errno(s, rc) : 0;
}

/*
 * Deleting needs room in the log, and emptying the log may need room in the file: the reserve is
 * for both. One of the two may fail in one round and pass in the next. -ENOSPC: there was nothing
 * to take away.
 */
static int make_room(struct store *s, uint64_t need)
{
	struct drops d = { { 0 } };
	int err;

	if (ftruncate(s->reserve_fd, 0))
		return -errno;
	s->may_grow = false;
	err = begin(s);
	if (!err)
		err = finish(s, &d, drop_oldest(s, 2 * need, STORE_DROP_full, &d));
	s->unsaid[STORE_DROP_full] += err ? 0 : d.cnt[STORE_DROP_full];
	if (checkpoint(s) == -ENOSPC && !store_db__exec(s, "PRAGMA incremental_vacuum(128)"))
		checkpoint(s);
	if (err)
		return err == -ENOSPC ? 0 : err;
	return d.cnt[STORE_DROP_full] ? 0 : -ENOSPC;
}

static int put_on_full_disk(struct store *s, const struct window *w)
{
	int err = -ENOSPC;

	if (may_say(s, STORE_SAID_FULL))
		log_warn("store: %s: the disk is full; the oldest windows make room for new ones",
			 s->c.path);
	for (unsigned i = 0; i < ROUNDS && err == -ENOSPC; i++) {
		err = make_room(s, needs(w));
		if (!err)
			err = put(s, w);
	}
	return err;
}

/* ---- After a window -------------------------------------------------------------------------- */

/*
 * Pages that are not used any more go back to the file system, but for what the next windows will
 * fill.
 */
static void give_back_pages(struct store *s)
{
	uint64_t used, unused;
	char sql[64];

	if (used_bytes(s, &used, &unused) ||
	    (used <= s->c.max_bytes - RESERVE_SIZE && unused <= used / 8))
		return;
	snprintf(sql, sizeof(sql), "PRAGMA incremental_vacuum(%u)", VACUUM_PAGES);
	store_db__exec(s, sql);
}

int store__put(struct store *s, const struct window *w)
{
	int err = check_window(s, w);

	err = err ? err : ensure_open(s);
	err = err ? err : put(s, w);
	if (err == -EBADMSG) {
		err = set_aside(s);
		err = err ? err : ensure_open(s);
		err = err ? err : put(s, w);
	}
	if (err == -ENOSPC && s->db)
		err = put_on_full_disk(s, w);
	if (err) {
		s->pending[STORE_DROP_lost]++;
		if (may_say(s, STORE_SAID_LOST))
			log_err("store: %s: a window is lost: %s", s->c.path,
				store_db__strerror(err));
		return err;
	}
	give_back_pages(s);
	fill_reserve(s);
	say_news(s);
	/*
	 * The cache would grow for half an hour until it is full, and a window a minute needs few
	 * of its pages.
	 */
	store_db__exec(s, "PRAGMA shrink_memory");
	return 0;
}
