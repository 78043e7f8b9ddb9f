/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "follow/loader.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/thread.h"

/*
 * The program that takes long, in the last section with programs: libbpf loads them in the order of
 * their sections.
 */
#define LATE_SECTION "perf_event"

struct loader {
	int (*load)(void *arg);
	void *arg;
	pthread_t thread;
	bool started;
	/* between the threads, under `lock` */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool early, done;
	int err; /* valid when done */
};

static void tell(struct loader *l, bool done, int err)
{
	pthread_mutex_lock(&l->lock);
	l->early = true;
	l->done = done;
	l->err = err;
	pthread_cond_signal(&l->changed);
	pthread_mutex_unlock(&l->lock);
}

/* The loader of this thread; NULL: an object that is loaded without a thread. */
static __thread struct loader *ours;

/* A libbpf_prog_prepare_load_fn_t */
static int on_late_program(struct bpf_program *prog, struct bpf_prog_load_opts *opts, long cookie)
{
	(void)prog;
	(void)opts;
	(void)cookie;
	if (ours)
		tell(ours, false, 0);
	return 0;
}

/*
 * For good: up to libbpf 1.2 the last libbpf_unregister_prog_handler() leaves a pointer to freed
 * memory, and open objects refer to their handlers.
 */
static void register_handler(void)
{
	LIBBPF_OPTS(libbpf_prog_handler_opts, opts, .prog_prepare_load_fn = on_late_program);

	libbpf_register_prog_handler(LATE_SECTION, BPF_PROG_TYPE_PERF_EVENT, 0, &opts);
}

struct loader *loader__new(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct loader *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->changed, NULL);
	pthread_once(&once, register_handler); /* if it fails, "early" is when all is loaded */
	return l;
}

void loader__free(struct loader *l)
{
	if (!l)
		return;
	if (l->started)
		pthread_join(l->thread, NULL);
	pthread_cond_destroy(&l->changed);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static int create_map(const struct bpf_map *map, int inner_fd)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = bpf_map__map_flags(map),
		    .inner_map_fd = inner_fd < 0 ? 0 : (uint32_t)inner_fd);
	int fd = bpf_map_create(bpf_map__type(map), bpf_map__name(map), bpf_map__key_size(map),
				bpf_map__value_size(map), bpf_map__max_entries(map), &opts);

	return fd < 0 ? -errno : fd;
}

/*
 * As libbpf would, which does it too late for us, and from 1.4 on tells no descriptor until all is
 * loaded.
 */
static int create_for(struct bpf_map *map)
{
	struct bpf_map *inner = bpf_map__inner_map(map);
	int inner_fd = inner ? create_map(inner, -1) : -1, fd, err;

	if (inner && inner_fd < 0)
		return inner_fd;
	fd = create_map(map, inner_fd);
	if (inner_fd >= 0)
		close(inner_fd);
	if (fd < 0)
		return fd;
	err = bpf_map__reuse_fd(map, fd);
	close(fd);
	return err;
}

static int create_maps(const struct bpf_object *obj)
{
	struct bpf_map *map;
	int err = 0;

	bpf_object__for_each_map(map, obj)
	{
		/* Constants are libbpf's: it fills and freezes them. */
		if (!err && !(bpf_map__map_flags(map) & BPF_F_RDONLY_PROG))
			err = create_for(map);
	}
	return err;
}

static void *run(void *arg)
{
	struct loader *l = arg;

	ours = l;
	tell(l, true, l->load(l->arg));
	return NULL;
}

int loader__start(struct loader *l, const struct bpf_object *obj, int (*load)(void *arg), void *arg)
{
	int err = create_maps(obj);

	if (err)
		return err;
	l->load = load;
	l->arg = arg;
	err = thread__start(&l->thread, run, l);
	l->started = !err;
	return err;
}

static int wait_for(struct loader *l, const bool *what)
{
	int err;

	pthread_mutex_lock(&l->lock);
	while (l->started && !*what)
		pthread_cond_wait(&l->changed, &l->lock);
	err = l->done ? l->err : 0;
	pthread_mutex_unlock(&l->lock);
	return err;
}

int loader__wait_early(struct loader *l)
{
	return wait_for(l, &l->early);
}

int loader__wait(struct loader *l)
{
	return wait_for(l, &l->done);
}
