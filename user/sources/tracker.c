/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sources/tracker.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/procfield.h"
#include "base/thread.h"
#include "process/descendants.h"
#include "sources/map_copy.h"

#define PROCESSES_MAX	1024 /* whose resident memory is read */
#define FIRST_APART_NS	(100 * NS_PER_MS)
#define FAMILY_NS	NS_PER_S /* between two looks for new processes */
#define PEAK_STEP	20	 /* 1 / this more is a new peak */
#define PEAK_WAIT_NS	NS_PER_S /* ... or any more after this time */
#define COST_SHARE	20	 /* a point takes at most 1 / this of the time */
#define IN_USE_MAX	(1U << 24)
#define HIGH_STEP	50 /* the kernel's mark is shown where it is 1 / this higher */
#define STACK_WORDS_MAX MAX_FRAMES

struct followed {
	uint32_t tgid;
	int fd; /* of its statm: of this process, even if its number is used again */
	uint64_t base, now;
};

struct tracker {
	struct tracker_opts o;
	pid_t *pids;
	struct followed *followed;
	size_t followed_cnt, followed_cap;
	pthread_t thread;
	pthread_mutex_t lock;
	int end_fd;
	bool runs, stopped;
	bool begun; /* the first processes are known */
	uint32_t window;
	struct curves c;
	size_t curve_cap;
	struct hash_index index; /* key -> number in c.at */
	struct hash_key hash;
	uint64_t begin_ns, apart_ns, due_ns, family_ns;
	uint64_t may_ns; /* no point before that */
	uint64_t high_before;
	long page_size;
};

int in_use_list__add(struct in_use_list *l, const struct count_key *key, int64_t bytes,
		     int64_t samples)
{
	int err = ARRAY_GROW(l->at, l->cap, l->cnt, IN_USE_MAX);

	if (!err)
		l->at[l->cnt++] = (struct in_use){ *key, bytes, samples };
	return err;
}

/* ---- resident memory ------------------------------------------------------------------------- */

/* 0: it has ended, or has none. */
static uint64_t read_rss(const struct tracker *t, int fd)
{
	char text[128];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	unsigned long long size, rss;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	return sscanf(text, "%llu %llu", &size, &rss) == 2 ? rss * (uint64_t)t->page_size : 0;
}

/* A descendants_fn. */
static int note_process(void *ctx, uint32_t tgid)
{
	struct tracker *t = ctx;
	struct followed f = { .tgid = tgid };
	char path[48];

	for (size_t i = 0; i < t->followed_cnt; i++)
		if (t->followed[i].tgid == tgid && t->followed[i].fd >= 0)
			return t->o.children;
	if (ARRAY_GROW(t->followed, t->followed_cap, t->followed_cnt, PROCESSES_MAX))
		return t->o.children;
	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/statm", tgid);
	f.fd = open(path, O_RDONLY | O_CLOEXEC);
	if (f.fd < 0)
		return t->o.children;
	f.base = t->begun ? read_rss(t, f.fd) : 0;
	t->followed[t->followed_cnt++] = f;
	return t->o.children;
}

static void look_for_processes(struct tracker *t)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->followed_cnt; i++)
		if (t->followed[i].fd >= 0)
			t->followed[kept++] = t->followed[i];
	t->followed_cnt = kept;
	descendants__visit(t->pids, t->o.pid_cnt, note_process, t);
	t->begun = true;
}

static uint64_t sum_rss(struct tracker *t)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < t->followed_cnt; i++) {
		struct followed *f = &t->followed[i];
		uint64_t rss = f->fd < 0 ? 0 : read_rss(t, f->fd);

		if (!rss && f->fd >= 0) {
			close(f->fd);
			f->fd = -1;
		}
		if (rss < f->base)
			f->base = rss; /* it has become another program */
		sum += rss - f->base;
	}
	return sum;
}

/* The most that the only process ever had, as the kernel knows it. 0: not known. */
static uint64_t high_mark(const struct tracker *t)
{
	char path[48], kib[32];

	if (t->followed_cnt != 1)
		return 0;
	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/status", t->followed[0].tgid);
	if (procfield__read(path, "VmHWM", kib, sizeof(kib)))
		return 0;
	return strtoull(kib, NULL, 10) << 10;
}

/* ---- curves ---------------------------------------------------------------------------------- */

static uint64_t hash_of(const struct tracker *t, const struct count_key *key)
{
	return hash_bytes(&t->hash, key, sizeof(*key));
}

static struct curve *find_curve(const struct tracker *t, const struct count_key *key)
{
	uint64_t hash = hash_of(t, key);
	uint32_t i;

	for (size_t at = 0; (i = hash_index__next(&t->index, hash, &at)) != HASH_NONE;)
		if (!memcmp(&t->c.at[i].key, key, sizeof(*key)))
			return &t->c.at[i];
	return NULL;
}

/* NULL: there is no room for another one. */
static struct curve *the_curve(struct tracker *t, struct count_key key)
{
	struct curve *c;

	key.stack = COUNT_HASH(key.stack);
	c = find_curve(t, &key);
	if (c)
		return c;
	if (ARRAY_GROW(t->c.at, t->curve_cap, t->c.cnt, CURVE_STACKS) ||
	    hash_index__add(&t->index, hash_of(t, &key), (uint32_t)t->c.cnt)) {
		t->c.more = true;
		return NULL;
	}
	c = &t->c.at[t->c.cnt++];
	*c = (struct curve){ .key = key };
	return c;
}

/* Room for one more point, in time. */
static void thin_out(struct tracker *t)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < t->c.point_cnt; i += 2, kept++) {
		t->c.points[kept] = t->c.points[i];
		for (size_t k = 0; k < t->c.cnt; k++)
			t->c.at[k].bytes[kept] = t->c.at[k].bytes[i];
	}
	for (uint32_t i = kept; i < t->c.point_cnt; i++)
		for (size_t k = 0; k < t->c.cnt; k++)
			t->c.at[k].bytes[i] = 0;
	t->c.point_cnt = kept;
	t->apart_ns *= 2;
}

static void note_values(struct tracker *t, const struct in_use_list *l, struct curve_value *sums)
{
	for (size_t i = 0; i < t->c.cnt; i++)
		sums[i] = t->c.at[i].settled;
	for (size_t i = 0; i < l->cnt; i++) {
		const struct curve *c = the_curve(t, l->at[i].key);

		if (!c)
			continue;
		/* Added later than sums[] was made: all 0. */
		sums[c - t->c.at].bytes += (uint64_t)l->at[i].bytes;
		sums[c - t->c.at].samples += (uint64_t)l->at[i].samples;
	}
	/* What went while it was read went below what came. */
	for (size_t i = 0; i < t->c.cnt; i++)
		if ((int64_t)sums[i].bytes < 0 || (int64_t)sums[i].samples < 0)
			sums[i] = (struct curve_value){ 0 };
}

static void add_point(struct tracker *t, const struct curve_point *point,
		      const struct curve_value *sums, bool even)
{
	if (even) {
		if (t->c.point_cnt == CURVE_POINTS)
			thin_out(t);
		for (size_t i = 0; i < t->c.cnt; i++)
			t->c.at[i].bytes[t->c.point_cnt] = sums[i].bytes;
		t->c.points[t->c.point_cnt++] = *point;
	}
	if (point->rss <= t->c.peak.rss)
		return;
	t->c.peak = *point;
	log_debug("-e %s: peak %" PRIu64 " KiB", t->o.event, point->rss >> 10);
	for (size_t i = 0; i < t->c.cnt; i++)
		t->c.at[i].peak = sums[i];
}

/* With the lock held. `even`: a point of the curves; else one of the peak only. */
static void take_point(struct tracker *t, uint64_t rss, bool even)
{
	struct in_use_list list = { 0 };
	struct curve_value *sums = NULL;
	uint64_t begin_ns = now_ns();
	struct curve_point point = { begin_ns - t->begin_ns, rss };

	if (t->o.window(t->o.ctx) != t->window)
		return; /* one is about to end */
	if (!t->o.in_use(t->o.ctx, t->window, &list))
		sums = calloc(t->c.cnt + list.cnt + 1, sizeof(*sums));
	if (sums) {
		note_values(t, &list, sums);
		add_point(t, &point, sums, even);
	}
	free(sums);
	free(list.at);
	t->may_ns = now_ns() + COST_SHARE * (now_ns() - begin_ns);
}

static bool is_peak(const struct tracker *t, uint64_t rss, uint64_t now)
{
	const struct curve_point *peak = &t->c.peak;

	return rss > peak->rss + peak->rss / PEAK_STEP ||
	       (rss > peak->rss && now > t->begin_ns + peak->at_ns + PEAK_WAIT_NS);
}

static void look(struct tracker *t)
{
	uint64_t rss = sum_rss(t), now = now_ns();
	bool even = now >= t->due_ns;

	if (now < t->may_ns || (!even && !is_peak(t, rss, now)))
		return;
	tracker__lock(t);
	take_point(t, rss, even);
	tracker__unlock(t);
	if (even)
		t->due_ns = now + t->apart_ns;
}

/* ---- the end of a window --------------------------------------------------------------------- */

/* Chunks lead from the innermost outwards. */
static void read_words(struct curve *c, int chunks_fd)
{
	uint64_t words[MAX_FRAMES], hash = c->key.stack;
	uint32_t free_slots = MAX_FRAMES, cnt;

	for (unsigned n = 0; hash; n++) {
		struct chunk chunk;

		if (n >= MAX_CHUNKS || bpf_map_lookup_elem(chunks_fd, &hash, &chunk) ||
		    !chunk.cnt || chunk.cnt > CHUNK_FRAMES || chunk.cnt > free_slots)
			return;
		free_slots -= chunk.cnt;
		memcpy(&words[free_slots], chunk.frames, chunk.cnt * sizeof(words[0]));
		hash = chunk.parent;
	}
	cnt = MAX_FRAMES - free_slots;
	c->words = calloc(cnt + 1, sizeof(*c->words));
	if (!c->words)
		return;
	memcpy(c->words, words + free_slots, cnt * sizeof(words[0]));
	c->cnt = cnt;
}

void tracker__end_window(struct tracker *t, const struct source_tables *tables, uint32_t type)
{
	struct map_copy counts;

	if (!t)
		return;
	if (!map_copy__take(&counts, tables->counts_fd, sizeof(struct count_key),
			    sizeof(struct count_val))) {
		for (size_t i = 0; i < counts.cnt; i++) {
			const struct count_key *key = (struct count_key *)counts.keys + i;
			const struct count_val *val = (struct count_val *)counts.values + i;
			struct curve *c;

			if (COUNT_TYPE(key->stack) != type || !val->samples)
				continue;
			c = the_curve(t, *key);
			if (!c)
				continue;
			c->settled.bytes += val->value;
			c->settled.samples += val->samples;
		}
	}
	map_copy__free(&counts);
	for (size_t i = 0; i < t->c.cnt; i++)
		if (!t->c.at[i].words)
			read_words(&t->c.at[i], tables->chunks_fd);
	t->window ^= 1;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void *run(void *arg)
{
	struct tracker *t = arg;
	struct pollfd end = { .fd = t->end_fd, .events = POLLIN };

	while (!poll(&end, 1, TRACKER_TICK_MS)) {
		if (t->o.children && now_ns() >= t->family_ns) {
			look_for_processes(t);
			t->family_ns = now_ns() + FAMILY_NS;
		}
		look(t);
	}
	return NULL;
}

static int begin(struct tracker *t, const struct tracker_opts *o)
{
	t->o = *o;
	t->hash = hash_key();
	t->page_size = sysconf(_SC_PAGESIZE);
	t->window = o->window(o->ctx);
	t->pids = calloc(o->pid_cnt + 1, sizeof(*t->pids));
	t->end_fd = eventfd(0, EFD_CLOEXEC);
	if (!t->pids)
		return -ENOMEM;
	if (t->end_fd < 0)
		return -errno;
	memcpy(t->pids, o->pids, o->pid_cnt * sizeof(*t->pids));
	t->begin_ns = now_ns();
	t->apart_ns = FIRST_APART_NS;
	t->family_ns = t->begin_ns + FAMILY_NS;
	look_for_processes(t);
	t->c.begin_rss = sum_rss(t);
	t->high_before = high_mark(t);
	return thread__start(&t->thread, run, t);
}

struct tracker *tracker__start(const struct tracker_opts *o)
{
	struct tracker *t = calloc(1, sizeof(*t));
	int err;

	if (!t) {
		log_no_memory();
		return NULL;
	}
	pthread_mutex_init(&t->lock, NULL);
	t->end_fd = -1;
	err = begin(t, o);
	t->runs = !err;
	if (!err)
		return t;
	log_warn("-e %s: curves and the peak are not kept: %s", o->event, strerror(-err));
	tracker__free(t);
	return NULL;
}

void tracker__lock(struct tracker *t)
{
	if (t)
		pthread_mutex_lock(&t->lock);
}

void tracker__unlock(struct tracker *t)
{
	if (t)
		pthread_mutex_unlock(&t->lock);
}

/* The peak is a point of the curves, too, if it was between two of them. There is room. */
static void put_peak(struct curves *c)
{
	uint32_t at = 0, after;

	while (at < c->point_cnt && c->points[at].at_ns < c->peak.at_ns)
		at++;
	after = c->point_cnt - at;
	if (!after || c->points[at].at_ns == c->peak.at_ns)
		return;
	memmove(&c->points[at + 1], &c->points[at], after * sizeof(*c->points));
	c->points[at] = c->peak;
	c->point_cnt++;
	for (size_t i = 0; i < c->cnt; i++) {
		uint64_t *bytes = c->at[i].bytes;

		memmove(&bytes[at + 1], &bytes[at], after * sizeof(*bytes));
		bytes[at] = c->at[i].peak.bytes;
	}
}

void tracker__stop(struct tracker *t)
{
	uint64_t high;

	if (!t || !t->runs)
		return;
	if (thread__wake(t->end_fd))
		pthread_join(t->thread, NULL);
	t->runs = false;
	t->stopped = true;
	high = high_mark(t);
	tracker__lock(t);
	if (t->c.point_cnt + 2 > CURVE_POINTS)
		thin_out(t);
	take_point(t, sum_rss(t), true);
	put_peak(&t->c);
	tracker__unlock(t);
	if (high > t->high_before && high > t->c.peak.rss + t->c.peak.rss / HIGH_STEP)
		t->c.high_rss = high;
}

const struct curves *tracker__curves(const struct tracker *t)
{
	return t && t->stopped && t->c.point_cnt ? &t->c : NULL;
}

void tracker__free(struct tracker *t)
{
	if (!t)
		return;
	tracker__stop(t);
	for (size_t i = 0; i < t->followed_cnt; i++)
		if (t->followed[i].fd >= 0)
			close(t->followed[i].fd);
	for (size_t i = 0; i < t->c.cnt; i++)
		free(t->c.at[i].words);
	if (t->end_fd >= 0)
		close(t->end_fd);
	pthread_mutex_destroy(&t->lock);
	hash_index__free(&t->index);
	free(t->c.at);
	free(t->followed);
	free(t->pids);
	free(t);
}
