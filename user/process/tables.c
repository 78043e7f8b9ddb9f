/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/tables.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/thread.h"
#include "bpf/pyperf.h"

#define THREADS_MAX 32
#define BATCH_MAX   64

/*
 * The files of a typical Python: 20 extension modules and small libraries of up to 16 KiB, libm and
 * libssl of 64, libc and a libpython of 256, a larger one or libcrypto of 512 KiB.
 */
static const struct {
	uint32_t chunks;
	uint32_t cnt;
} classes[] = { { 4, 16 }, { 16, 8 }, { 64, 4 }, { 128, 2 }, { 256, 1 } };

#define CLASS_CNT (sizeof(classes) / sizeof(classes[0]))
#define SPARE_MAX 16 /* of one class */

enum state {
	FREE = 0,
	FILLING,
	SPARE,
	COMING,
	READY,
	LEAVING,
	FAILED,
};

struct job {
	uint32_t index;
	int fd;		 /* of the inner map; -1: to be created, or removed */
	uint32_t chunks; /* to create */
	uint8_t cls;
	bool remove;
	int err;
};

struct batch {
	struct batch *next;
	size_t cnt, cap;
	struct job jobs[];
};

struct spare {
	uint32_t index;
	int fd;
};

struct tables {
	int fd;
	uint32_t cap, next;
	uint32_t *free; /* indexes that were used before */
	size_t free_cnt;
	uint8_t *state;
	struct spare spares[CLASS_CNT][SPARE_MAX];
	uint32_t spare_cnt[CLASS_CNT], filling[CLASS_CNT], want[CLASS_CNT];
	struct batch *queue; /* not flushed yet */
	struct tables_stats stats;
	bool live;

	/* between the threads, under `lock` */
	pthread_t filler;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct batch *todo, **todo_end, *done;
	bool stop;
};

/* ---- inner maps ----------------------------------------------------------------------------- */

/* The descriptor of a map of zeros or negative errno. */
static int create_inner(uint32_t chunks)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_INNER_MAP);
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "unwind", sizeof(uint32_t), UW_CHUNK_BYTES,
				chunks, &opts);

	return fd < 0 ? -errno : fd;
}

static int write_inner(int fd, const uint32_t *words, uint32_t chunks)
{
	uint32_t *keys = malloc(chunks * sizeof(*keys)), cnt = chunks;
	int err;

	if (!keys)
		return -ENOMEM;
	for (uint32_t i = 0; i < chunks; i++)
		keys[i] = i;
	err = bpf_map_update_batch(fd, keys, words, &cnt, NULL) ? -errno : 0;
	free(keys);
	return err;
}

/* ---- jobs: run by the filler, or at start by threads that share one wait -------------------- */

static void run_job(int tables_fd, struct job *job)
{
	int err = job->remove ? bpf_map_delete_elem(tables_fd, &job->index)
			      : bpf_map_update_elem(tables_fd, &job->index, &job->fd, BPF_ANY);

	job->err = err ? -errno : 0;
}

/*
 * Updates that follow each other, by one system call, which waits once from Linux 6.8 on, for each
 * element before that, and is refused before 5.19. The number of jobs done.
 */
static size_t run_batch(int tables_fd, const struct job *jobs, size_t cnt)
{
	uint32_t keys[BATCH_MAX], fds[BATCH_MAX], n = 0;

	for (; n < cnt && n < BATCH_MAX && !jobs[n].remove && !jobs[n].err; n++) {
		keys[n] = jobs[n].index;
		fds[n] = (uint32_t)jobs[n].fd;
	}
	if (n < 2)
		return 0;
	cnt = n;
	return bpf_map_update_batch(tables_fd, keys, fds, &n, NULL) ? 0 : cnt;
}

static void run_jobs(int tables_fd, struct job *jobs, size_t cnt)
{
	for (size_t i = 0; i < cnt;) {
		size_t n = run_batch(tables_fd, jobs + i, cnt - i);

		if (!n && !jobs[i].err)
			run_job(tables_fd, &jobs[i]);
		i += n ? n : 1;
	}
}

static void create_missing(struct job *jobs, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		if (jobs[i].fd >= 0 || jobs[i].remove)
			continue;
		jobs[i].fd = create_inner(jobs[i].chunks);
		if (jobs[i].fd < 0)
			jobs[i].err = jobs[i].fd;
	}
}

struct share {
	pthread_t thread;
	struct job *jobs;
	size_t cnt;
	int tables_fd;
	bool started;
};

static void *run_share(void *arg)
{
	struct share *s = arg;

	run_jobs(s->tables_fd, s->jobs, s->cnt);
	return NULL;
}

/* Waits of several threads share one grace period: 60 tables take 20 ms, not half a second. */
static void run_shared(int tables_fd, struct batch *b)
{
	size_t threads = b->cnt < THREADS_MAX ? b->cnt : THREADS_MAX, at = 0;
	struct share s[THREADS_MAX];

	create_missing(b->jobs, b->cnt);
	for (size_t i = 0; i < threads; i++) {
		size_t cnt = (b->cnt - at) / (threads - i);

		s[i] = (struct share){ .jobs = b->jobs + at, .cnt = cnt, .tables_fd = tables_fd };
		at += cnt;
		/* The last share is ours. */
		s[i].started = i + 1 < threads && !thread__start(&s[i].thread, run_share, &s[i]);
		if (!s[i].started)
			run_share(&s[i]);
	}
	for (size_t i = 0; i < threads; i++) {
		if (s[i].started)
			pthread_join(s[i].thread, NULL);
	}
}

static void *fill(void *arg)
{
	struct tables *t = arg;
	struct batch *b;

	pthread_mutex_lock(&t->lock);
	while (!t->stop) {
		b = t->todo;
		if (!b) {
			pthread_cond_wait(&t->wake, &t->lock);
			continue;
		}
		t->todo = b->next;
		if (!t->todo)
			t->todo_end = &t->todo;
		pthread_mutex_unlock(&t->lock);
		create_missing(b->jobs, b->cnt);
		run_jobs(t->fd, b->jobs, b->cnt);
		pthread_mutex_lock(&t->lock);
		b->next = t->done;
		t->done = b;
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

/* ---- life ----------------------------------------------------------------------------------- */

struct tables *tables__new(int tables_fd, uint32_t cap, uint64_t spare_bytes)
{
	struct tables *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->fd = tables_fd;
	t->cap = cap;
	t->next = 1;
	t->todo_end = &t->todo;
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->wake, NULL);
	t->free = malloc(((size_t)cap + 1) * sizeof(*t->free));
	t->state = calloc((size_t)cap + 1, sizeof(*t->state));
	if (!t->free || !t->state) {
		tables__free(t);
		errno = ENOMEM;
		return NULL;
	}
	if (!spare_bytes)
		spare_bytes = SPARE_BYTES_DEFAULT;
	for (size_t i = 0; i < CLASS_CNT; i++) {
		uint64_t bytes = (uint64_t)classes[i].chunks * UW_CHUNK_BYTES;

		while (t->want[i] < classes[i].cnt && bytes <= spare_bytes) {
			t->want[i]++;
			spare_bytes -= bytes;
		}
	}
	return t;
}

static void free_batches(struct batch *b)
{
	struct batch *next;

	for (; b; b = next) {
		next = b->next;
		for (size_t i = 0; i < b->cnt; i++) {
			if (b->jobs[i].fd >= 0)
				close(b->jobs[i].fd);
		}
		free(b);
	}
}

void tables__free(struct tables *t)
{
	if (!t)
		return;
	if (t->live) {
		pthread_mutex_lock(&t->lock);
		t->stop = true;
		pthread_cond_signal(&t->wake);
		pthread_mutex_unlock(&t->lock);
		pthread_join(t->filler, NULL);
	}
	free_batches(t->queue);
	free_batches(t->todo);
	free_batches(t->done);
	for (size_t c = 0; c < CLASS_CNT; c++) {
		for (size_t i = 0; i < t->spare_cnt[c]; i++)
			close(t->spares[c][i].fd);
	}
	pthread_cond_destroy(&t->wake);
	pthread_mutex_destroy(&t->lock);
	free(t->free);
	free(t->state);
	free(t);
}

int tables__go_live(struct tables *t)
{
	int err;

	if (t->live)
		return 0;
	err = tables__flush(t);
	if (!err)
		err = thread__start(&t->filler, fill, t);
	t->live = !err;
	return err;
}

const struct tables_stats *tables__stats(const struct tables *t)
{
	return &t->stats;
}

/* ---- indexes -------------------------------------------------------------------------------- */

bool tables__full(const struct tables *t)
{
	return !t->free_cnt && t->next >= t->cap;
}

static uint32_t take_index(struct tables *t, enum state state)
{
	uint32_t index = t->free_cnt ? t->free[--t->free_cnt] : t->next++;

	t->state[index] = (uint8_t)state;
	return index;
}

static void free_index(struct tables *t, uint32_t index)
{
	t->state[index] = FREE;
	t->free[t->free_cnt++] = index;
}

/* Room for one more job, so that a caller can take an index first. */
static int reserve_job(struct tables *t)
{
	struct batch *b = t->queue;
	size_t cap = b ? b->cap * 2 : 32;

	if (b && b->cnt < b->cap)
		return 0;
	b = realloc(b, sizeof(*b) + cap * sizeof(b->jobs[0]));
	if (!b)
		return -ENOMEM;
	if (!t->queue) {
		b->cnt = 0;
		b->next = NULL;
	}
	b->cap = cap;
	t->queue = b;
	return 0;
}

/* Jobs that somebody waits for come first. */
static void push_job(struct tables *t, const struct job *job)
{
	struct batch *b = t->queue;

	b->jobs[b->cnt] = *job;
	if (job->fd >= 0) {
		b->jobs[b->cnt] = b->jobs[0];
		b->jobs[0] = *job;
	}
	b->cnt++;
}

/* ---- spares --------------------------------------------------------------------------------- */

/* The smallest class of which there is one now; CLASS_CNT: none. */
static size_t find_class(const struct tables *t, size_t word_cnt)
{
	size_t c = 0;

	while (c < CLASS_CNT &&
	       (!t->spare_cnt[c] || (size_t)classes[c].chunks * UW_CHUNK_WORDS < word_cnt))
		c++;
	return c;
}

uint64_t tables__spare_bytes(const struct tables *t, size_t word_cnt)
{
	size_t c = find_class(t, word_cnt);

	return t->live && c < CLASS_CNT ? (uint64_t)classes[c].chunks * UW_CHUNK_BYTES : 0;
}

static void order_spares(struct tables *t)
{
	for (size_t c = 0; c < CLASS_CNT; c++) {
		while (t->spare_cnt[c] + t->filling[c] < t->want[c] && !tables__full(t) &&
		       !reserve_job(t)) {
			struct job job = { .index = take_index(t, FILLING),
					   .fd = -1,
					   .chunks = classes[c].chunks,
					   .cls = (uint8_t)c };

			push_job(t, &job);
			t->filling[c]++;
			t->stats.spare_bytes += (uint64_t)job.chunks * UW_CHUNK_BYTES;
		}
	}
}

static int use_spare(struct tables *t, size_t c, const uint32_t *words, size_t word_cnt)
{
	struct spare *s = &t->spares[c][t->spare_cnt[c] - 1];
	int err = write_inner(s->fd, words, (uint32_t)(word_cnt / UW_CHUNK_WORDS));

	if (err) /* still a spare: the next table overwrites its contents */
		return err;
	t->spare_cnt[c]--;
	close(s->fd); /* the outer map holds it */
	t->state[s->index] = READY;
	t->stats.spare_bytes -= (uint64_t)classes[c].chunks * UW_CHUNK_BYTES;
	t->stats.spares--;
	t->stats.spares_used++;
	return (int)s->index;
}

/* ---- tables --------------------------------------------------------------------------------- */

static int add_exact(struct tables *t, const uint32_t *words, uint32_t chunks)
{
	struct job job = { .fd = -1 };
	int err;

	if (tables__full(t))
		return -ENOSPC;
	err = reserve_job(t);
	if (err)
		return err;
	job.fd = create_inner(chunks);
	if (job.fd < 0)
		return job.fd;
	err = write_inner(job.fd, words, chunks);
	if (err) {
		close(job.fd);
		return err;
	}
	job.index = take_index(t, COMING);
	push_job(t, &job);
	return (int)job.index;
}

int tables__add(struct tables *t, const uint32_t *words, size_t word_cnt, bool spare,
		uint64_t *bytes)
{
	size_t c = spare && t->live ? find_class(t, word_cnt) : CLASS_CNT;

	if (c < CLASS_CNT) {
		*bytes = (uint64_t)classes[c].chunks * UW_CHUNK_BYTES;
		return use_spare(t, c, words, word_cnt);
	}
	t->stats.spares_missed += t->live;
	*bytes = word_cnt * sizeof(*words);
	return add_exact(t, words, (uint32_t)(word_cnt / UW_CHUNK_WORDS));
}

int tables__usable(const struct tables *t, uint32_t index)
{
	if (t->state[index] == COMING)
		return 0;
	return t->state[index] == READY ? 1 : -ENOENT;
}

/* An index whose old table could not be removed is not used again. */
static void finish_removal(struct tables *t, const struct job *job)
{
	if (!job->err || job->err == -ENOENT)
		free_index(t, job->index);
}

void tables__remove(struct tables *t, uint32_t index)
{
	struct job job = { .index = index, .fd = -1, .remove = true };

	if (t->state[index] == FAILED) {
		free_index(t, index);
		return;
	}
	t->state[index] = LEAVING;
	if (!reserve_job(t)) {
		push_job(t, &job);
		return;
	}
	/* Without memory: here and now. */
	t->stats.waits++;
	run_job(t->fd, &job);
	finish_removal(t, &job);
}

/* ---- between the threads -------------------------------------------------------------------- */

static void finish_spare(struct tables *t, const struct job *job)
{
	size_t c = job->cls;

	t->filling[c]--;
	if (job->err) {
		t->want[c]--; /* or it would be tried for ever */
		t->stats.spare_bytes -= (uint64_t)job->chunks * UW_CHUNK_BYTES;
		free_index(t, job->index);
		if (job->fd >= 0)
			close(job->fd);
		return;
	}
	t->state[job->index] = SPARE;
	t->spares[c][t->spare_cnt[c]++] = (struct spare){ job->index, job->fd };
	t->stats.spares++;
}

/* Returns 0, or the error of a table; an error of a spare concerns nobody. */
static int finish_job(struct tables *t, const struct job *job)
{
	if (job->remove) {
		finish_removal(t, job);
		return 0;
	}
	if (t->state[job->index] == FILLING) {
		finish_spare(t, job);
		return 0;
	}
	t->state[job->index] = job->err ? FAILED : READY;
	close(job->fd); /* the outer map holds it */
	return job->err;
}

static int finish(struct tables *t, struct batch *b)
{
	struct batch *next;
	int err = 0, e;

	for (; b; b = next) {
		next = b->next;
		for (size_t i = 0; i < b->cnt; i++) {
			e = finish_job(t, &b->jobs[i]);
			err = err ? err : e;
		}
		free(b);
	}
	if (err)
		log_warn("unwind tables: %s: native stacks will end early", strerror(-err));
	return err;
}

void tables__collect(struct tables *t)
{
	struct batch *done;

	if (!t->live)
		return;
	pthread_mutex_lock(&t->lock);
	done = t->done;
	t->done = NULL;
	pthread_mutex_unlock(&t->lock);
	finish(t, done);
}

int tables__flush(struct tables *t)
{
	struct batch *b;

	order_spares(t);
	b = t->queue;
	if (!b)
		return 0;
	t->queue = NULL;
	if (!t->live) {
		t->stats.waits++;
		run_shared(t->fd, b);
		return finish(t, b);
	}
	pthread_mutex_lock(&t->lock);
	*t->todo_end = b;
	t->todo_end = &b->next;
	pthread_cond_signal(&t->wake);
	pthread_mutex_unlock(&t->lock);
	return 0;
}
