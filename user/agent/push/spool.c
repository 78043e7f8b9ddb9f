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

#include "agent/push/push_services.h"
#include "base/arrivals.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/rate_limit.h"
#include "base/str.h"
#include "base/when.h"

#define BLOCK	       4096U
#define TEMPORARY      "window.tmp"
#define WINDOW_SUFFIX  ".window"
#define DAMAGED_SUFFIX ".damaged"
#define NAME_SIZE      32
#define DIGITS	       16
#define NUMBER_MAX     (UINT64_MAX >> 1) /* of a file that is ours: the next ones have room */
#define DAMAGED_MAX    8		 /* files that are kept for inspection */
#define FOUND_MAX      (1U << 24)
#define PEEK_SIZE      4096 /* is enough for the labels of nearly all windows */

/* Windows that were lost for one reason since the last message about it. */
struct loss {
	struct rate_limit said;
	uint64_t cnt;
	uint64_t start_unix_ns, end_unix_ns; /* the first start, the last end */
	char *service;			     /* of the first; owned */
	bool several;			     /* services */
};

struct spool {
	const char *name;
	struct spool_limits limits;
	int dir; /* locked */

	pthread_mutex_t lock; /* of all below */
	struct push_services waiting;
	struct arrivals arrivals; /* numbers */
	uint64_t memory_bytes;
	unsigned damaged_files;
	struct spool_stats stats;
	struct loss losses[SPOOL_DROP_CNT];
	struct rate_limit said_disk;
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

static void say_loss(struct spool *s, enum spool_end drop)
{
	struct loss *l = &s->losses[drop];
	char start[WHEN_LEN], end[WHEN_LEN];

	if (!l->cnt)
		return;
	when_print(l->start_unix_ns, start);
	when_print(l->end_unix_ns, end);
	log_warn("push %s: %" PRIu64 " window%s lost: %s (service %s%s, %s to %s)", s->name, l->cnt,
		 l->cnt == 1 ? "" : "s", drops[drop].text, l->service ? l->service : "?",
		 l->several ? " and others" : "", start, end);
	free(l->service);
	l->service = NULL;
	l->cnt = 0;
	l->several = false;
}

static void count_drop(struct spool *s, enum spool_end drop, const char *service,
		       const struct push_window *w)
{
	struct loss *l = &s->losses[drop];
	uint64_t held;

	s->stats.dropped[drop]++;
	if (!l->cnt++) {
		l->start_unix_ns = w->start_unix_ns;
		l->end_unix_ns = w->end_unix_ns;
		l->service = strdup(service);
	} else {
		if (w->start_unix_ns < l->start_unix_ns)
			l->start_unix_ns = w->start_unix_ns;
		if (w->end_unix_ns > l->end_unix_ns)
			l->end_unix_ns = w->end_unix_ns;
		l->several |= l->service && strcmp(l->service, service);
	}
	if (rate_limit__allows(&l->said, RATE_LIMIT_MINUTE, &held))
		say_loss(s, drop);
}

static void count_disk_error(struct spool *s, int err)
{
	uint64_t held;

	s->stats.disk_errors++;
	s->stats.disk_error = (uint64_t)-err;
	if (rate_limit__allows(&s->said_disk, RATE_LIMIT_MINUTE, &held))
		log_err("push %s: the spool cannot be written: %s (windows stay in memory, up to "
			"%u MiB)",
			s->name, strerror(-err), SPOOL_MEMORY_MAX >> 20);
}

/* ---- The queue (with the lock) --------------------------------------------------------------- */

static void forget_memory(struct spool *s, const struct push_window *w)
{
	s->memory_bytes -= w->size;
	s->stats.memory_windows--;
}

static int add_window(struct spool *s, const char *service, struct push_window *w)
{
	int err = push_services__add(&s->waiting, service, w);

	if (err)
		return err;
	s->stats.windows++;
	s->stats.bytes += blocks(w->size);
	return 0;
}

/* Frees it. */
static void remove_window(struct spool *s, struct push_window *w)
{
	s->stats.windows--;
	s->stats.bytes -= blocks(w->size);
	if (w->memory)
		forget_memory(s, w);
	push_services__remove(&s->waiting, w);
}

static void drop_window(struct spool *s, struct push_window *w, enum spool_end drop)
{
	char name[NAME_SIZE];

	if (!w->memory) {
		file_name(name, w->number, WINDOW_SUFFIX);
		unlinkat(s->dir, name, 0);
	}
	count_drop(s, drop, w->service->name, w);
	remove_window(s, w);
}

static void drop_old(struct spool *s)
{
	uint64_t since = arrivals__since(&s->arrivals, s->limits.max_age_ns / NS_PER_MS);
	struct push_window *w;

	while ((w = push_services__oldest(&s->waiting)) && w->number < since)
		drop_window(s, w, SPOOL_DROP_age);
}

/*
 * Makes room for `more` bytes; does not drop a window that is being sent. The oldest of all go,
 * whatever their service: if the largest queue had to give, a stream of new services would take
 * the room of one that has always been there.
 */
static void drop_for_room(struct spool *s, uint64_t more)
{
	struct push_window *w;

	while (s->stats.bytes + more > s->limits.max_bytes &&
	       (w = push_services__oldest(&s->waiting)))
		drop_window(s, w, SPOOL_DROP_size);
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

struct found {
	uint64_t number;
	uint32_t size;
};

struct findings {
	struct found *list;
	size_t cnt, cap;
	unsigned foreign;
};

static int find_file(struct spool *s, const char *name, uint64_t number, struct findings *f)
{
	struct stat st;

	if (fstatat(s->dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > WINFILE_MAX_SIZE) {
		log_warn("push %s: spool: %s is not a window; left alone", s->name, name);
		return 0;
	}
	if (ARRAY_GROW(f->list, f->cap, f->cnt, FOUND_MAX))
		return -ENOMEM;
	f->list[f->cnt++] = (struct found){ .number = number, .size = (uint32_t)st.st_size };
	return 0;
}

static int take_name(struct spool *s, const char *name, struct findings *f)
{
	uint64_t number = parse_name(name, WINDOW_SUFFIX);

	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return 0;
	if (number != NUMBER_MAX)
		return find_file(s, name, number, f);
	if (!strcmp(name, TEMPORARY))
		unlinkat(s->dir, name, 0);
	else if (parse_name(name, DAMAGED_SUFFIX) != NUMBER_MAX)
		s->damaged_files++;
	else
		f->foreign++;
	return 0;
}

static int cmp_found(const void *a, const void *b)
{
	const struct found *fa = a, *fb = b;

	return (fa->number > fb->number) - (fa->number < fb->number);
}

static int list_directory(struct spool *s, struct findings *f)
{
	int fd = openat(s->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	int err = 0;

	if (!d) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	while (!err && (errno = 0, e = readdir(d)))
		err = take_name(s, e->d_name, f);
	if (!err)
		err = -errno;
	closedir(d);
	if (f->foreign)
		log_warn("push %s: spool: %u files that are not ours; left alone", s->name,
			 f->foreign);
	return err;
}

/* Whose window it is, and of which time. A damaged one is of no service; to send it says more. */
static void peek(struct spool *s, struct push_window *w, char *data, struct strbuf *service)
{
	struct winfile file;
	char name[NAME_SIZE];
	ssize_t n = -1;
	int fd, err = -EBADMSG;

	file_name(name, w->number, WINDOW_SUFFIX);
	fd = openat(s->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	for (size_t size = PEEK_SIZE; err && fd >= 0; size = WINFILE_PEEK_SIZE) {
		n = pread(fd, data, size, 0);
		err = n < 0 ? -errno : winfile__peek(&file, data, (size_t)n, w->size);
		if (size == WINFILE_PEEK_SIZE)
			break;
	}
	if (fd >= 0)
		close(fd);
	if (err) {
		strbuf__addz(service, "(damaged)");
		return;
	}
	w->start_unix_ns = file.w.start_unix_ns;
	w->end_unix_ns = file.w.start_unix_ns + file.w.duration_ns;
	push_service_name(&file.w, service);
}

static int add_found(struct spool *s, const struct found *f, char *data)
{
	struct push_window *w = calloc(1, sizeof(*w));
	struct strbuf service = { 0 };
	int err = w ? 0 : -ENOMEM;

	if (!err) {
		w->number = f->number;
		w->size = f->size;
		peek(s, w, data, &service);
		err = service.err ? service.err : add_window(s, service.s, w);
	}
	strbuf__free(&service);
	if (err)
		free(w);
	s->stats.found += !err;
	return err;
}

static int read_directory(struct spool *s)
{
	struct findings f = { 0 };
	char *data = malloc(WINFILE_PEEK_SIZE);
	int err = data ? list_directory(s, &f) : -ENOMEM;

	if (f.cnt)
		qsort(f.list, f.cnt, sizeof(*f.list), cmp_found);
	for (size_t i = 0; i < f.cnt && !err; i++)
		err = add_found(s, &f.list[i], data);
	arrivals__begin(&s->arrivals, f.cnt ? f.list[f.cnt - 1].number : 0);
	free(f.list);
	free(data);
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
static void keep_in_memory(struct spool *s, struct push_window *w, struct strbuf *data)
{
	char *smaller;

	if (s->memory_bytes + data->len > SPOOL_MEMORY_MAX) {
		drop_window(s, w, SPOOL_DROP_disk);
		return;
	}
	smaller = realloc(data->s, data->len);
	w->memory = smaller ? smaller : data->s;
	*data = (struct strbuf){ 0 };
	s->stats.memory_windows++;
	s->memory_bytes += w->size;
	push_services__set_taken(&s->waiting, w, false);
}

static struct push_window *new_window(const struct window *from, size_t size)
{
	struct push_window *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->size = (uint32_t)size;
	w->start_unix_ns = from->start_unix_ns;
	w->end_unix_ns = from->start_unix_ns + from->duration_ns;
	w->taken = true; /* until it is written */
	return w;
}

static int refuse(struct spool *s, const char *service, const struct window *w, enum spool_end drop,
		  int err)
{
	const struct push_window lost = { .start_unix_ns = w->start_unix_ns,
					  .end_unix_ns = w->start_unix_ns + w->duration_ns };

	pthread_mutex_lock(&s->lock);
	s->stats.put++;
	count_drop(s, drop, service, &lost);
	pthread_mutex_unlock(&s->lock);
	return err;
}

/* Its place in the queue. */
static int enter(struct spool *s, const char *service, struct push_window *w)
{
	int err;

	pthread_mutex_lock(&s->lock);
	drop_old(s);
	drop_for_room(s, blocks(w->size));
	w->number = arrivals__next(&s->arrivals);
	err = add_window(s, service, w);
	s->stats.put += !err;
	pthread_mutex_unlock(&s->lock);
	return err;
}

static int store(struct spool *s, struct push_window *w, struct strbuf *data)
{
	int err = write_file(s, w->number, data->s, data->len);

	pthread_mutex_lock(&s->lock);
	if (err) {
		count_disk_error(s, err);
		keep_in_memory(s, w, data);
	} else {
		push_services__set_taken(&s->waiting, w, false);
	}
	pthread_mutex_unlock(&s->lock);
	return err;
}

static int put_packed(struct spool *s, const char *service, const struct window *from,
		      struct strbuf *data)
{
	struct push_window *w;
	int err;

	if (blocks(data->len) > s->limits.max_bytes)
		return refuse(s, service, from, SPOOL_DROP_size, -EFBIG);
	w = new_window(from, data->len);
	err = w ? enter(s, service, w) : -ENOMEM;
	if (!err)
		return store(s, w, data);
	free(w);
	return refuse(s, service, from, SPOOL_DROP_disk, err);
}

int spool__put(struct spool *s, const struct window *w)
{
	struct strbuf data = { 0 }, service = { 0 };
	int err = winfile__pack(w, &data);

	push_service_name(w, &service);
	if (err)
		err = refuse(s, service.err ? "?" : service.s, w, SPOOL_DROP_unfit, err);
	else if (data.err || service.err)
		err = refuse(s, "?", w, SPOOL_DROP_disk, -ENOMEM);
	else
		err = put_packed(s, service.s, w, &data);
	strbuf__free(&service);
	strbuf__free(&data);
	return err;
}

/* ---- Take and done --------------------------------------------------------------------------- */

/* A copy of its bytes. -EBADMSG: not a regular file of the right size. */
static int read_file(struct spool *s, const struct push_window *w, void **data)
{
	char name[NAME_SIZE];
	struct stat st;
	size_t size = 0;
	ssize_t n = 1;
	int fd, err = 0;

	file_name(name, w->number, WINDOW_SUFFIX);
	fd = openat(s->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ELOOP ? -EBADMSG : -errno;
	*data = malloc(w->size + 1U);
	if (!*data)
		err = -ENOMEM;
	else if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size != w->size)
		err = -EBADMSG;
	while (!err && n > 0 && size < w->size) {
		n = read(fd, (char *)*data + size, w->size - size);
		if (n < 0)
			err = errno == EIO ? -EBADMSG : -errno;
		else
			size += (size_t)n;
	}
	close(fd);
	if (!err && size < w->size)
		err = -EBADMSG;
	if (err) {
		free(*data);
		*data = NULL;
	}
	return err;
}

static int load(struct spool *s, const struct push_window *w, struct winfile *f)
{
	void *data = NULL;
	int err = 0;

	if (!w->memory) {
		err = read_file(s, w, &data);
	} else {
		data = malloc(w->size + 1U);
		if (!data)
			return -ENOMEM;
		memcpy(data, w->memory, w->size);
	}
	return err ? err : winfile__unpack(f, data, w->size);
}

/* With the lock. Frees it. */
static void set_aside(struct spool *s, struct push_window *w)
{
	char from[NAME_SIZE], to[NAME_SIZE];

	file_name(from, w->number, WINDOW_SUFFIX);
	file_name(to, w->number, DAMAGED_SUFFIX);
	if (s->damaged_files >= DAMAGED_MAX || renameat(s->dir, from, s->dir, to))
		unlinkat(s->dir, from, 0);
	else
		s->damaged_files++;
	count_drop(s, SPOOL_DROP_damaged, w->service->name, w);
	remove_window(s, w);
}

/* With the lock. */
static struct push_window *take_next(struct spool *s, unsigned which, bool *probe)
{
	struct push_window *w;

	drop_old(s);
	w = push_services__next(&s->waiting, now_ms(), which, probe);
	if (w)
		push_services__set_taken(&s->waiting, w, true);
	return w;
}

int spool__take(struct spool *s, unsigned which, struct spool_item *item)
{
	struct push_window *w;
	int err = -EBADMSG;
	bool probe;

	pthread_mutex_lock(&s->lock);
	while (err == -EBADMSG && (w = take_next(s, which, &probe))) {
		pthread_mutex_unlock(&s->lock);
		err = load(s, w, &item->file); /* nobody else touches a taken window */
		pthread_mutex_lock(&s->lock);
		if (err == -EBADMSG)
			set_aside(s, w);
		else if (err)
			push_services__set_taken(&s->waiting, w, false);
	}
	if (!err) {
		item->window = w;
		item->tries = w->tries;
		item->probe = probe;
		item->service = w->service;
		item->failures = w->service->failures;
		item->waiting = w->service->windows;
	}
	pthread_mutex_unlock(&s->lock);
	return err == -EBADMSG ? -ENOENT : err;
}

void spool__done(struct spool *s, struct spool_item *item, enum spool_end end, bool tried)
{
	struct push_window *w = item->window;
	char name[NAME_SIZE];

	winfile__free(&item->file);
	pthread_mutex_lock(&s->lock);
	if (end == SPOOL_KEEP) {
		w->tries += tried && w->tries < UINT16_MAX;
		push_services__set_taken(&s->waiting, w, false);
	} else if (end == SPOOL_SENT) {
		file_name(name, w->number, WINDOW_SUFFIX);
		if (!w->memory)
			unlinkat(s->dir, name, 0);
		remove_window(s, w);
		s->stats.sent++;
	} else {
		drop_window(s, w, end);
	}
	pthread_mutex_unlock(&s->lock);
}

/* ---- Services -------------------------------------------------------------------------------- */

void spool__judge(struct spool *s, const struct spool_item *item, enum push_service_verdict v,
		  uint64_t until_ms, int status)
{
	pthread_mutex_lock(&s->lock);
	push_services__judge(&s->waiting, item->service, v, until_ms, status);
	pthread_mutex_unlock(&s->lock);
}

uint64_t spool__suspect(struct spool *s, const struct spool_item *item)
{
	uint64_t cnt;

	pthread_mutex_lock(&s->lock);
	cnt = push_services__suspect(&s->waiting, item->window);
	pthread_mutex_unlock(&s->lock);
	return cnt;
}

bool spool__is_alone(struct spool *s, const struct spool_item *item)
{
	bool alone;

	pthread_mutex_lock(&s->lock);
	alone = push_services__is_alone(&s->waiting, item->service);
	pthread_mutex_unlock(&s->lock);
	return alone;
}

void spool__due(struct spool *s, uint64_t *well_ms, uint64_t *other_ms)
{
	pthread_mutex_lock(&s->lock);
	push_services__due(&s->waiting, well_ms, other_ms);
	pthread_mutex_unlock(&s->lock);
}

void spool__print_waiting(struct spool *s, struct strbuf *out)
{
	pthread_mutex_lock(&s->lock);
	push_services__print(&s->waiting, s->stats.windows, out);
	pthread_mutex_unlock(&s->lock);
}

void spool__say_losses(struct spool *s)
{
	pthread_mutex_lock(&s->lock);
	for (int i = 0; i < SPOOL_DROP_CNT; i++)
		say_loss(s, (enum spool_end)i);
	pthread_mutex_unlock(&s->lock);
}

void spool__stats(struct spool *s, struct spool_stats *out)
{
	const struct push_window *first;

	pthread_mutex_lock(&s->lock);
	*out = s->stats;
	out->services = s->waiting.cnt;
	out->held_services = s->waiting.held.cnt + s->waiting.troubled.cnt;
	first = s->waiting.first;
	if (first)
		out->oldest_age_ns = arrivals__age_ms(&s->arrivals, first->number) * NS_PER_MS;
	pthread_mutex_unlock(&s->lock);
}

/* ---- Close ----------------------------------------------------------------------------------- */

static void save_memory(struct spool *s)
{
	uint64_t lost = 0;

	for (const struct push_window *w = s->waiting.first; w; w = w->after)
		if (w->memory)
			lost += write_file(s, w->number, w->memory, w->size) != 0;
	if (lost)
		log_err("push %s: %" PRIu64 " windows lost: they were in memory only, and could "
			"not be written to the disk",
			s->name, lost);
}

void spool__close(struct spool *s)
{
	if (!s)
		return;
	spool__say_losses(s);
	save_memory(s);
	if (s->dir >= 0)
		close(s->dir);
	push_services__free(&s->waiting);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
