/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sample/threadbook.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/idmap.h"
#include "base/procfield.h"
#include "base/str.h"
#include "python/threadnames.h"

#define LOOK_NS	    (100 * NS_PER_MS) /* between two looks, at least */
#define LOOK_SHARE  200		      /* ... and so many times as long as a look takes */
#define SLICE_NS    (5 * NS_PER_MS)   /* a longer look continues at the next call */
#define NOTED_MAX   65536U	      /* threads */
#define THREADS_MAX 4096U	      /* ... of one process, in a look */

struct noted {
	uint64_t key;
	uint32_t window; /* in which it was last seen */
	char *name;
};

/* A process that was read in this window because a thread was not known. */
struct asked {
	uint32_t space, window;
};

struct threadbook {
	const struct process_table *pt;
	struct idmap noted; /* thread_key() */
	struct idmap asked; /* space */
	uint32_t window;
	size_t at; /* where to continue the look; 0: at the beginning */
	uint64_t due_ns, look_ns;

	/* the current process */
	const struct process *p;
	bool nested; /* it counts its threads otherwise */
};

static uint64_t thread_key(uint32_t space, uint32_t tid)
{
	return (uint64_t)space << 32 | tid;
}

struct threadbook *threadbook__new(const struct process_table *pt)
{
	struct threadbook *b = calloc(1, sizeof(*b));

	if (b)
		b->pt = pt;
	return b;
}

static void free_noted(struct noted *n)
{
	free(n->name);
	free(n);
}

void threadbook__free(struct threadbook *b)
{
	struct noted *n;
	struct asked *a;

	if (!b)
		return;
	for (size_t at = 0; (n = idmap__next(&b->noted, &at));)
		free_noted(n);
	for (size_t at = 0; (a = idmap__next(&b->asked, &at));)
		free(a);
	idmap__free(&b->noted);
	idmap__free(&b->asked);
	free(b);
}

/* ---- one process ----------------------------------------------------------------------------- */

static struct noted *get_noted(struct threadbook *b, uint64_t key)
{
	struct noted *n = idmap__get(&b->noted, key);

	if (n || b->noted.cnt >= NOTED_MAX)
		return n;
	n = calloc(1, sizeof(*n));
	if (n && idmap__set(&b->noted, key, n)) {
		free(n);
		return NULL;
	}
	if (n)
		n->key = key;
	return n;
}

/* Without memory it keeps the name that it had, or has none. */
static void note(struct threadbook *b, uint32_t tid, const char *name)
{
	struct noted *n = get_noted(b, thread_key(b->p->space, tid));
	char *copy;

	if (!n)
		return;
	n->window = b->window;
	if (n->name && !strcmp(n->name, name))
		return;
	copy = strdup(name);
	if (!copy)
		return;
	free(n->name);
	n->name = copy;
}

/* Python's names of the threads of a process, by the numbers that it gives them itself. */
struct py_name {
	uint32_t tid;
	char *name;
};

struct py_names {
	struct py_name *by;
	size_t cnt, cap;
};

/* A threadnames_fn. Without memory the thread has the kernel's name. */
static void take_name(void *ctx, uint32_t tid, const char *name)
{
	struct py_names *names = ctx;
	char *copy = strdup(name);

	if (!copy || ARRAY_GROW(names->by, names->cap, names->cnt, THREADS_MAX))
		free(copy);
	else
		names->by[names->cnt++] = (struct py_name){ tid, copy };
}

static int by_tid(const void *a, const void *b)
{
	uint32_t x = ((const struct py_name *)a)->tid, y = ((const struct py_name *)b)->tid;

	return (x > y) - (x < y);
}

static void read_py_names(const struct threadbook *b, struct py_names *names)
{
	const struct py_binary *bin;
	uint64_t bias;

	bin = process_table__python(b->pt, b->p, &bias);
	if (bin)
		threadnames__read(process_table__readers(b->pt), bin, b->p->tgid, bias, take_name,
				  names);
	if (names->cnt)
		qsort(names->by, names->cnt, sizeof(*names->by), by_tid);
}

static void free_py_names(struct py_names *names)
{
	for (size_t i = 0; i < names->cnt; i++)
		free(names->by[i].name);
	free(names->by);
}

/* The numbers of a thread, one for each PID namespace, the innermost last. */
static void read_numbers(uint32_t tgid, uint32_t tid, char *numbers, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/task/%u/status", tgid, tid);
	if (procfield__read(path, "NSpid", numbers, size))
		*numbers = '\0';
}

/* The number of a thread as its own process sees it; 0: it is gone. */
static uint32_t inner_tid(const struct threadbook *b, uint32_t tid)
{
	char numbers[256];
	const char *last;

	if (!b->nested)
		return tid;
	read_numbers(b->p->tgid, tid, numbers, sizeof(numbers));
	last = strrchr(numbers, '\t');
	return (uint32_t)strtoul(last ? last : numbers, NULL, 10);
}

/* The kernel's name of a thread; empty: it is gone. */
static void read_comm(int task_fd, uint32_t tid, char *comm, size_t size)
{
	char path[32];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%u/comm", tid);
	fd = openat(task_fd, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, comm, size - 1);
	if (fd >= 0)
		close(fd);
	comm[n > 0 ? n : 0] = '\0';
	comm[strcspn(comm, "\n")] = '\0';
}

static void note_thread(struct threadbook *b, int task_fd, const char *number,
			const struct py_names *names)
{
	char comm[TASK_COMM_LEN + 2];
	const struct py_name *found;
	struct py_name what = { 0 };
	long long tid;

	if (parse_int(number, 1, INT32_MAX, &tid))
		return;
	what.tid = inner_tid(b, (uint32_t)tid);
	found = names->cnt ? bsearch(&what, names->by, names->cnt, sizeof(what), by_tid) : NULL;
	if (found) {
		note(b, (uint32_t)tid, found->name);
		return;
	}
	if (b->p->is_python && (uint32_t)tid == b->p->tgid) {
		note(b, (uint32_t)tid, MAIN_THREAD_NAME);
		return;
	}
	read_comm(task_fd, (uint32_t)tid, comm, sizeof(comm));
	if (*comm)
		note(b, (uint32_t)tid, comm);
}

static void look_at(struct threadbook *b, const struct process *p)
{
	struct py_names names = { 0 };
	char path[64], numbers[256];
	struct dirent *de;
	size_t cnt = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%u/task", p->tgid);
	dir = opendir(path);
	if (!dir)
		return;
	b->p = p;
	read_numbers(p->tgid, p->tgid, numbers, sizeof(numbers));
	b->nested = strchr(numbers, '\t') != NULL;
	read_py_names(b, &names);
	while (cnt++ < THREADS_MAX && (de = readdir(dir)))
		note_thread(b, dirfd(dir), de->d_name, &names);
	free_py_names(&names);
	closedir(dir);
}

/* ---- all ------------------------------------------------------------------------------------- */

void threadbook__look(struct threadbook *b)
{
	uint64_t begin = now_ns(), now = begin;
	const struct process *p = NULL;

	if (!b->at)
		b->look_ns = 0;
	while (now - begin < SLICE_NS && (p = process_table__next(b->pt, &b->at))) {
		if (p->is_python && !p->exited)
			look_at(b, p);
		now = now_ns();
	}
	b->look_ns += now - begin;
	b->due_ns = now + (now - begin) * LOOK_SHARE;
	if (p)
		return;
	b->at = 0;
	if (b->look_ns * LOOK_SHARE < LOOK_NS)
		b->due_ns = begin + LOOK_NS;
}

uint64_t threadbook__due_ns(const struct threadbook *b)
{
	return b->due_ns;
}

/* Once in a window. */
static bool may_ask(struct threadbook *b, uint32_t space)
{
	struct asked *a = idmap__get(&b->asked, space);

	if (!a) {
		a = malloc(sizeof(*a));
		if (!a || idmap__set(&b->asked, space, a)) {
			free(a);
			return false;
		}
	} else if (a->window == b->window) {
		return false;
	}
	*a = (struct asked){ space, b->window };
	return true;
}

const char *threadbook__find(struct threadbook *b, const struct process *p, uint32_t tid)
{
	uint64_t key = thread_key(p->space, tid);
	const struct noted *n = idmap__get(&b->noted, key);

	if (!n && !p->exited && may_ask(b, p->space)) {
		look_at(b, p);
		n = idmap__get(&b->noted, key);
	}
	if (n && n->name)
		return n->name;
	return p->is_python && tid == p->tgid ? MAIN_THREAD_NAME : NULL;
}

/* Removes those that were not seen in this window nor the one before. 0, or it is tried again. */
static void forget_noted(struct threadbook *b)
{
	uint64_t *old = calloc(b->noted.cnt + 1, sizeof(*old));
	struct noted *n;
	size_t cnt = 0;

	for (size_t at = 0; old && (n = idmap__next(&b->noted, &at));)
		if (b->window - n->window > 1)
			old[cnt++] = n->key;
	for (size_t i = 0; i < cnt; i++) {
		n = idmap__get(&b->noted, old[i]);
		idmap__remove(&b->noted, old[i]);
		free_noted(n);
	}
	free(old);
}

static void forget_asked(struct threadbook *b)
{
	uint32_t *old = calloc(b->asked.cnt + 1, sizeof(*old));
	struct asked *a;
	size_t cnt = 0;

	for (size_t at = 0; old && (a = idmap__next(&b->asked, &at));)
		if (a->window != b->window)
			old[cnt++] = a->space;
	for (size_t i = 0; i < cnt; i++) {
		a = idmap__get(&b->asked, old[i]);
		idmap__remove(&b->asked, old[i]);
		free(a);
	}
	free(old);
}

void threadbook__end_window(struct threadbook *b)
{
	forget_noted(b);
	forget_asked(b);
	b->window++;
}
