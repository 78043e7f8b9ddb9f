/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "threads/threadlist.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "process/pidns.h"
#include "threads.skel.h"

#define READ_BYTES  (64U << 10)
#define MAX_THREADS (1U << 22) /* the most that kernel.pid_max can be */

struct threadlist {
	struct threads_bpf *skel;
	struct bpf_link *link;
	struct thread_now *threads;
	size_t cnt, cap;
	threadlist_fn wants; /* NULL: all */
	void *wants_ctx;
};

struct threadlist *threadlist__open(uint32_t tgid)
{
	struct threadlist *l = calloc(1, sizeof(*l));
	struct pidns ns;
	int err;

	if (!l) {
		log_no_memory();
		return NULL;
	}
	l->skel = threads_bpf__open();
	err = l->skel ? 0 : -errno;
	if (!err) {
		l->skel->rodata->target_tgid = tgid;
		if (!pidns__self(&ns) && !pidns__is_initial(&ns)) {
			l->skel->rodata->target_level = ns.level;
			l->skel->rodata->target_inum = ns.inum;
		}
		err = threads_bpf__load(l->skel);
	}
	if (!err) {
		l->link = bpf_program__attach_iter(l->skel->progs.each_task, NULL);
		err = l->link ? 0 : -errno;
	}
	if (!err)
		return l;
	log_err("listing threads by BPF: %s (kernel 5.10 or later is needed)", strerror(-err));
	threadlist__close(l);
	return NULL;
}

void threadlist__close(struct threadlist *l)
{
	if (!l)
		return;
	bpf_link__destroy(l->link);
	threads_bpf__destroy(l->skel);
	free(l->threads);
	free(l);
}

static int by_tid(const void *a, const void *b)
{
	uint32_t x = ((const struct thread_now *)a)->tid, y = ((const struct thread_now *)b)->tid;

	return (x > y) - (x < y);
}

void threadlist__filter(struct threadlist *l, threadlist_fn wants, void *ctx)
{
	l->wants = wants;
	l->wants_ctx = ctx;
}

/* Of `cnt` records behind the list those that are wanted become part of it. */
static void take_wanted(struct threadlist *l, size_t cnt)
{
	size_t end = l->cnt + cnt;

	for (size_t i = l->cnt; i < end; i++)
		if (!l->wants || l->wants(l->wants_ctx, &l->threads[i]))
			l->threads[l->cnt++] = l->threads[i];
}

/* The kernel gives whole records, but a read may end inside of one. */
static int read_all(struct threadlist *l, int fd)
{
	size_t size = sizeof(*l->threads), bytes = 0; /* behind the list */
	ssize_t n;

	do {
		size_t more = READ_BYTES / size + 1, first = l->cnt, whole;

		if (array_grow(&l->threads, &l->cap, l->cnt + 1, more, size, MAX_THREADS))
			return -ENOMEM;
		n = read(fd, (char *)&l->threads[l->cnt] + bytes, READ_BYTES);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		bytes += n > 0 ? (size_t)n : 0;
		whole = bytes / size;
		bytes %= size;
		take_wanted(l, whole);
		memmove(&l->threads[l->cnt], &l->threads[first + whole], bytes);
	} while (n);
	return 0;
}

int threadlist__read(struct threadlist *l)
{
	int fd = bpf_iter_create(bpf_link__fd(l->link));
	int err = fd < 0 ? fd : 0;

	l->cnt = 0;
	if (!err) {
		err = read_all(l, fd);
		close(fd);
	}
	if (err)
		log_err("listing threads by BPF: %s", strerror(-err));
	else
		qsort(l->threads, l->cnt, sizeof(*l->threads), by_tid);
	return err;
}

void threadlist__forget(struct threadlist *l)
{
	free(l->threads);
	l->threads = NULL;
	l->cnt = l->cap = 0;
}

size_t threadlist__cnt(const struct threadlist *l)
{
	return l->cnt;
}

const struct thread_now *threadlist__at(const struct threadlist *l, size_t i)
{
	return &l->threads[i];
}

const struct thread_now *threadlist__find(const struct threadlist *l, uint32_t tid)
{
	const struct thread_now key = { .tid = tid };

	return l->cnt ? bsearch(&key, l->threads, l->cnt, sizeof(key), by_tid) : NULL;
}
