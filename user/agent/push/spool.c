// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "agent/push/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arrivals.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/seldom.h"
#include "base/str.h"

#define BLOCK	       4096U
#define TEMPORARY      "window.tmp"
#define WINDOW_SUFFIX  ".window"
#define DAMAGED_SUFFIX ".damaged"
#define NAME_SIZE      32
#define DIGITS	       16
#define NUMBER_MAX     (UINT64_MAX >> 1) /* of a file that is ours: the next ones have room */
#define DAMAGED_MAX    8		 /* files that are kept for inspection */
#define ENTRIES_MAX    (1U << 24)

struct entry {
	uint64_t number;
	void *memory;  /* the bytes, if they are in no file */
	uint32_t size; /* of the bytes */
	uint16_t tries;
	bool taken;
};

struct spool {
	const char *name;
	struct spool_limits limits;
	int dir; /* locked */

	pthread_mutex_t lock;	  /* of all below */
	struct entry *entries;	  /* by number; those before `first` are gone */
	size_t first, cnt, cap;	  /* cnt counts from 0 */
	struct arrivals arrivals; /* numbers */
	uint64_t memory_bytes;
	unsigned damaged_files;
	struct spool_stats stats;
	struct seldom said[SPOOL_DROP_CNT], said_disk;
};

static const struct {
	const char *name, *text;
} drops[] = {
#define X(name, text) { #name, text },
	SPOOL_DROPS(X)
#undef X
};

const char *spool_drop__name(enum spool_end drop)
{
	return drop < SPOOL_DROP_CNT ? drops[drop].name : "";
}

const char *spool_drop__text(enum spool_end drop)
{
	return drop < SPOOL_DROP_CNT ? drops[drop].text : "";
}

static void file_name(char *name, uint64_t number, const char *suffix)
{
	snprintf(name, NAME_SIZE, "%016" PRIx64 "%s", number, suffix);
}

static uint64_t blocks(uint64_t size)
{
	return (size + BLOCK - 1) / BLOCK * BLOCK;
}

/* ---- What is lost is counted, and said (with the lock) --------------------------------------- */

static void count_drop(struct spool *s, enum spool_end drop)
{
	uint64_t held;

	s->stats.dropped[drop]++;
	if (seldom(&s->said[drop], SELDOM_MINUTE, &held))
		log_warn("push %s: %" PRIu64 " window%s lost: %s", s->name, held + 1,
			 held ? "s" : "", drops[drop].text);
}

static void count_disk_error(struct spool *s, int err)
{
	uint64_t held;

	s->stats.disk_errors++;
	s->stats.disk_error = (uint64_t)-err;
	if (seldom(&s->said_disk, SELDOM_MINUTE, &held))
		log_err("push %s: the spool cannot be written: %s (windows stay in memory, up to "
			"%u MiB)",
			s->name, strerror(-err), SPOOL_MEMORY_MAX >> 20);
}

/* ---- The queue (with the lock) --------------------------------------------------------------- */

static int reserve_entry(struct spool *s)
{
	if (s->first > 1024 && s->first > s->cnt / 2) {
		memmove(s->entries, s->entries + s->first,
			(s->cnt - s->first) * sizeof(*s->entries));
		s->cnt -= s->first;
		s->first = 0;
	}
	return array_grow(&s->entries, &s->cap, s->cnt, 1, sizeof(*s->entries), ENTRIES_MAX);
}

/* After reserve_entry(). */
static void append_entry(struct spool *s, const struct entry *e)
{
	s->entries[s->cnt++] = *e;
	s->stats.windows++;
	s->stats.bytes += blocks(e->size);
	if (e->memory) {
		s->stats.memory_windows++;
		s->memory_bytes += e->size;
	}
}

static struct entry *find_entry(struct spool *s, uint64_t number)
{
	size_t low = s->first, high = s->cnt;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->entries[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low < s->cnt && s->entries[low].number == number ? &s->entries[low] : NULL;
}

static void forget_memory(struct spool *s, struct entry *e)
{
	s->memory_bytes -= e->size;
	s->stats.memory_windows--;
	free(e->memory);
	e->memory = NULL;
}

static void remove_entry(struct spool *s, struct entry *e)
{
	size_t at = (size_t)(e - s->entries);

	s->stats.windows--;
	s->stats.bytes -= blocks(e->size);
	if (e->memory)
		forget_memory(s, e);
	memmove(s->entries + s->first + 1, s->entries + s->first,
		(at - s->first) * sizeof(*s->entries));
	s->first++;
}

static void drop_entry(struct spool *s, struct entry *e, enum spool_end drop)
{
	char name[NAME_SIZE];

	if (!e->memory) {
		file_name(name, e->number, WINDOW_SUFFIX);
		unlinkat(s->dir, name, 0);
	}
	remove_entry(s, e);
	count_drop(s, drop);
}

static struct entry *oldest(struct spool *s, bool skip)
{
	for (size_t i = s->first; i < s->cnt; i++) {
		if (!s->entries[i].taken && !skip)
			return &s->entries[i];
		skip = skip && s->entries[i].taken;
	}
	return NULL;
}

static void drop_old(struct spool *s)
{
	uint64_t since = arrivals__since(&s->arrivals, s->limits.max_age_ns / NS_PER_MS);
	struct entry *e;

	while ((e = oldest(s, false)) && e->number < since)
		drop_entry(s, e, SPOOL_DROP_age);
}

/* Makes room for `more` bytes; does not drop a window that is being sent. */
static void drop_for_room(struct spool *s, uint64_t more)
{
	struct entry *e;

	while (s->stats.bytes + more > s->limits.max_bytes && (e = oldest(s, false)))
		drop_entry(s, e, SPOOL_DROP_size);
}

/* ---- Open: what is there --------------------------------------------------------------------- */

/* The number in the name of a file of ours, or NUMBER_MAX. */
static uint64_t parse_name(const char *name, const char *suffix)
{
	char *end;
	uint64_t number;

	if (strspn(name, "0123456789abcdef") != DIGITS || strcmp(name + DIGITS, suffix))
		return NUMBER_MAX;
	number = strtoull(name, &end, 16);
	return number < NUMBER_MAX ? number : NUMBER_MAX;
}

bool spool__is_file(const char *name, bool *window)
{
	*window = parse_name(name, WINDOW_SUFFIX) != NUMBER_MAX;
	return *window || !strcmp(name, TEMPORARY) ||
	       parse_name(name, DAMAGED_SUFFIX) != NUMBER_MAX;
}

static int find_file(struct spool *s, const char *name, uint64_t number)
{
	struct entry e = { .number = number };
	struct stat st;

	if (fstatat(s->dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > WINFILE_MAX_SIZE) {
		log_warn("push %s: spool: %s is not a window; left alone", s->name, name);
		return 0;
	}
	if (reserve_entry(s))
		return -ENOMEM;
	e.size = (uint32_t)st.st_size;
	append_entry(s, &e);
	s->stats.found++;
	return 0;
}

static int take_name(struct spool *s, const char *name, unsigned *foreign)
{
	uint64_t number = parse_name(name, WINDOW_SUFFIX);

	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return 0;
	if (number != NUMBER_MAX)
		return find_file(s, name, number);
	if (!strcmp(name, TEMPORARY))
		unlinkat(s->dir, name, 0);
	else if (parse_name(name, DAMAGED_SUFFIX) != NUMBER_MAX)
		s->damaged_files++;
	else
		++*foreign;
	return 0;
}

static int cmp_entries(const void *a, const void *b)
{
	const struct entry *ea = a, *eb = b;

	return (ea->number > eb->number) - (ea->number < eb->number);
}

static int read_directory(struct spool *s)
{
	int fd = openat(s->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	unsigned foreign = 0;
	struct dirent *e;
	int err = 0;

	if (!d) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	while (!err && (errno = 0, e = readdir(d)))
		err = take_name(s, e->d_name, &foreign);
	if (!err)
		err = -errno;
	closedir(d);
	if (foreign)
		log_warn("push %s: spool: %u files that are not ours; left alone", s->name,
			 foreign);
	if (s->cnt)
		qsort(s->entries, s->cnt, sizeof(*s->entries), cmp_entries);
	arrivals__begin(&s->arrivals, s->cnt ? s->entries[s->cnt - 1].number : 0);
	return err;
}

static int open_directory(const char *path)
{
	int fd, err;

	if (mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (!flock(fd, LOCK_EX | LOCK_NB))
		return fd;
	err = errno == EWOULDBLOCK ? -EBUSY : -errno;
	close(fd);
	return err;
}

static const char *reason(int err)
{
	return err == -EBUSY ? "another process uses it" : strerror(-err);
}

struct spool *spool__open(const char *dir, const char *name, const struct spool_limits *limits)
{
	struct spool *s = calloc(1, sizeof(*s));
	int err;

	if (!s) {
		log_no_memory();
		errno = ENOMEM;
		return NULL;
	}
	pthread_mutex_init(&s->lock, NULL);
	s->name = name;
	s->limits = *limits;
	s->dir = open_directory(dir);
	err = s->dir < 0 ? s->dir : read_directory(s);
	if (err) {
		log_err("push %s: spool %s: %s", name, dir, reason(err));
		spool__close(s);
		errno = -err;
		return NULL;
	}
	drop_old(s);
	drop_for_room(s, 0);
	return s;
}

/* ---- Put ------------------------------------------------------------------------------------- */

static int write_all(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t n = write(fd, data, size);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			data += n;
			size -= (size_t)n;
		}
	}
	return 0;
}

/*
 * No fsync: it costs milliseconds of CPU time, and with a backend that answers a window is gone
 * before the kernel writes it out. What a power cut leaves half-written, the checksum tells.
 */
static int write_file(struct spool *s, uint64_t number, const char *data, size_t size)
{
	int fd = openat(s->dir, TEMPORARY, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
			0600);
	char name[NAME_SIZE];
	int err;

	if (fd < 0)
		return -errno;
	file_name(name, number, WINDOW_SUFFIX);
	err = write_all(fd, data, size);
	if (!err && renameat(s->dir, TEMPORARY, s->dir, name))
		err = -errno;
	if (err)
		unlinkat(s->dir, TEMPORARY, 0);
	if (close(fd) && !err) { /* NFS says here that its disk is full */
		err = -errno;
		unlinkat(s->dir, name, 0);
	}
	return err;
}

/* The disk did not take it. With the lock. */
static void keep_in_memory(struct spool *s, struct entry *e, struct strbuf *data)
{
	char *smaller;

	if (s->memory_bytes + data->len > SPOOL_MEMORY_MAX) {
		count_drop(s, SPOOL_DROP_disk);
		return;
	}
	smaller = realloc(data->s, data->len);
	e->memory = smaller ? smaller : data->s;
	*data = (struct strbuf){ 0 };
	append_entry(s, e);
}

/* Its number, or negative errno; without the lock when it returns. */
static int make_room(struct spool *s, size_t size, uint64_t *number)
{
	int err;

	pthread_mutex_lock(&s->lock);
	s->stats.put++;
	drop_old(s);
	drop_for_room(s, blocks(size));
	err = reserve_entry(s);
	if (err)
		count_drop(s, SPOOL_DROP_disk);
	*number = arrivals__next(&s->arrivals);
	pthread_mutex_unlock(&s->lock);
	return err;
}

static int refuse(struct spool *s, enum spool_end drop, int err)
{
	pthread_mutex_lock(&s->lock);
	s->stats.put++;
	count_drop(s, drop);
	pthread_mutex_unlock(&s->lock);
	return err;
}

int spool__put(struct spool *s, const struct window *w)
{
	struct strbuf data = { 0 };
	struct entry e = { 0 };
	int err = winfile__pack(w, &data);

	if (err || data.err) {
		strbuf__free(&data);
		return refuse(s, err ? SPOOL_DROP_unfit : SPOOL_DROP_disk, err ? err : -ENOMEM);
	}
	if (blocks(data.len) > s->limits.max_bytes) {
		strbuf__free(&data);
		return refuse(s, SPOOL_DROP_size, -EFBIG);
	}
	err = make_room(s, data.len, &e.number);
	if (err) {
		strbuf__free(&data);
		return err;
	}
	e.size = (uint32_t)data.len;
	err = write_file(s, e.number, data.s, data.len);
	pthread_mutex_lock(&s->lock);
	if (err) {
		count_disk_error(s, err);
		keep_in_memory(s, &e, &data);
	} else {
		append_entry(s, &e);
	}
	pthread_mutex_unlock(&s->lock);
	strbuf__free(&data);
	return err;
}

/* ---- Take and done --------------------------------------------------------------------------- */

/* A copy of its bytes. -EBADMSG: not a regular file of the right size. */
static int read_file(struct spool *s, const struct entry *e, void **data)
{
	char name[NAME_SIZE];
	struct stat st;
	size_t size = 0;
	ssize_t n = 1;
	int fd, err = 0;

	file_name(name, e->number, WINDOW_SUFFIX);
	fd = openat(s->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ELOOP ? -EBADMSG : -errno;
	*data = malloc(e->size + 1U);
	if (!*data)
		err = -ENOMEM;
	else if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size != e->size)
		err = -EBADMSG;
	while (!err && n > 0 && size < e->size) {
		n = read(fd, (char *)*data + size, e->size - size);
		if (n < 0)
			err = errno == EIO ? -EBADMSG : -errno;
		else
			size += (size_t)n;
	}
	close(fd);
	if (!err && size < e->size)
		err = -EBADMSG;
	if (err) {
		free(*data);
		*data = NULL;
	}
	return err;
}

static int load(struct spool *s, const struct entry *e, struct winfile *f)
{
	void *data = NULL;
	int err = 0;

	if (!e->memory) {
		err = read_file(s, e, &data);
	} else {
		data = malloc(e->size + 1U);
		if (!data)
			return -ENOMEM;
		memcpy(data, e->memory, e->size);
	}
	return err ? err : winfile__unpack(f, data, e->size);
}

/* With the lock. Its entry is gone then. */
static void set_aside(struct spool *s, uint64_t number)
{
	char from[NAME_SIZE], to[NAME_SIZE];
	struct entry *e = find_entry(s, number);

	file_name(from, number, WINDOW_SUFFIX);
	file_name(to, number, DAMAGED_SUFFIX);
	if (s->damaged_files >= DAMAGED_MAX || renameat(s->dir, from, s->dir, to))
		unlinkat(s->dir, from, 0);
	else
		s->damaged_files++;
	remove_entry(s, e);
	count_drop(s, SPOOL_DROP_damaged);
}

static bool take_entry(struct spool *s, bool skip, struct entry *out)
{
	struct entry *e;

	drop_old(s);
	e = oldest(s, skip);
	if (!e)
		return false;
	e->taken = true;
	*out = *e;
	return true;
}

int spool__take(struct spool *s, bool skip, struct spool_item *item)
{
	struct entry e;
	int err = -EBADMSG;

	pthread_mutex_lock(&s->lock);
	while (err == -EBADMSG && take_entry(s, skip, &e)) {
		pthread_mutex_unlock(&s->lock);
		err = load(s, &e, &item->file); /* nobody else touches a taken window */
		pthread_mutex_lock(&s->lock);
		if (err == -EBADMSG)
			set_aside(s, e.number);
		else if (err)
			find_entry(s, e.number)->taken = false;
	}
	pthread_mutex_unlock(&s->lock);
	item->number = err ? 0 : e.number;
	item->tries = err ? 0 : e.tries;
	return err == -EBADMSG ? -ENOENT : err;
}

void spool__done(struct spool *s, struct spool_item *item, enum spool_end end, bool tried)
{
	struct entry *e;
	char name[NAME_SIZE];

	winfile__free(&item->file);
	pthread_mutex_lock(&s->lock);
	e = find_entry(s, item->number);
	if (end == SPOOL_KEEP) {
		e->taken = false;
		e->tries += tried && e->tries < UINT16_MAX;
	} else if (end == SPOOL_SENT) {
		file_name(name, e->number, WINDOW_SUFFIX);
		if (!e->memory)
			unlinkat(s->dir, name, 0);
		remove_entry(s, e);
		s->stats.sent++;
	} else {
		drop_entry(s, e, end);
	}
	pthread_mutex_unlock(&s->lock);
}

void spool__stats(struct spool *s, struct spool_stats *out)
{
	pthread_mutex_lock(&s->lock);
	*out = s->stats;
	if (s->first < s->cnt)
		out->oldest_age_ns =
			arrivals__age_ms(&s->arrivals, s->entries[s->first].number) * NS_PER_MS;
	pthread_mutex_unlock(&s->lock);
}

/* ---- Close ----------------------------------------------------------------------------------- */

static void save_memory(struct spool *s)
{
	uint64_t lost = 0;

	for (size_t i = s->first; i < s->cnt; i++) {
		struct entry *e = &s->entries[i];

		if (e->memory)
			lost += write_file(s, e->number, e->memory, e->size) != 0;
		free(e->memory);
	}
	if (lost)
		log_err("push %s: %" PRIu64 " windows lost: they were in memory only, and could "
			"not be written to the disk",
			s->name, lost);
}

void spool__close(struct spool *s)
{
	if (!s)
		return;
	save_memory(s);
	if (s->dir >= 0)
		close(s->dir);
	free(s->entries);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
