/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "elf/builder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/thread.h"

struct task {
	struct task *next;
	struct elf_file *elf;
	struct builder_result result;
};

struct table_builder {
	pthread_t thread;
	bool started;
	/* between the threads, under `lock` */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct task *todo, **todo_end, *done;
	bool stop;
};

static void build(struct task *t)
{
	const struct readers *rs = elf_file__opened(t->elf)->by;
	uint64_t start = now_ns(), put_off = readers__put_off(rs);

	t->result.table = unwind_table__build(t->elf);
	t->result.took_ns = now_ns() - start;
	t->result.put_off = readers__put_off(rs) != put_off;
	elf_file__close(t->elf);
	t->elf = NULL;
}

static void *run(void *arg)
{
	struct table_builder *b = arg;
	struct task *t;

	pthread_mutex_lock(&b->lock);
	while (!b->stop) {
		t = b->todo;
		if (!t) {
			pthread_cond_wait(&b->wake, &b->lock);
			continue;
		}
		b->todo = t->next;
		if (!b->todo)
			b->todo_end = &b->todo;
		pthread_mutex_unlock(&b->lock);
		build(t);
		pthread_mutex_lock(&b->lock);
		t->next = b->done;
		b->done = t;
	}
	pthread_mutex_unlock(&b->lock);
	return NULL;
}

struct table_builder *table_builder__new(void)
{
	struct table_builder *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->todo_end = &b->todo;
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->wake, NULL);
	return b;
}

static void free_tasks(struct task *t)
{
	struct task *next;

	for (; t; t = next) {
		next = t->next;
		elf_file__close(t->elf);
		unwind_table__free(t->result.table);
		free(t);
	}
}

void table_builder__free(struct table_builder *b)
{
	if (!b)
		return;
	if (b->started) {
		pthread_mutex_lock(&b->lock);
		b->stop = true;
		pthread_cond_signal(&b->wake);
		pthread_mutex_unlock(&b->lock);
		pthread_join(b->thread, NULL);
	}
	free_tasks(b->todo);
	free_tasks(b->done);
	pthread_cond_destroy(&b->wake);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

static int start(struct table_builder *b)
{
	int err = b->started ? 0 : thread__start(&b->thread, run, b);

	b->started |= !err;
	return err;
}

int table_builder__add(struct table_builder *b, uint32_t id, const struct elf_file *elf)
{
	struct task *t = calloc(1, sizeof(*t));
	struct opened file;
	int err = -ENOMEM;

	if (!t)
		return err;
	t->result.id = id;
	/* One object is for one thread, see elf.h. All reads are by position. */
	file = opened__dup(elf_file__opened(elf));
	t->elf = file.fd < 0 ? NULL : elf_file__open_opened(&file, elf_file__path(elf));
	err = t->elf ? start(b) : -errno;
	if (err) {
		free_tasks(t);
		return err;
	}
	pthread_mutex_lock(&b->lock);
	*b->todo_end = t;
	b->todo_end = &t->next;
	pthread_cond_signal(&b->wake);
	pthread_mutex_unlock(&b->lock);
	return 0;
}

bool table_builder__take(struct table_builder *b, struct builder_result *out)
{
	struct task *t;

	pthread_mutex_lock(&b->lock);
	t = b->done;
	if (t)
		b->done = t->next;
	pthread_mutex_unlock(&b->lock);
	if (!t)
		return false;
	*out = t->result;
	free(t);
	return true;
}
