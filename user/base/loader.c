/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/loader.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/thread.h"

/*
 * The program that takes long, in the last section with programs: libbpf loads them in the order of
 * their sections.
 */
#define LATE_SECTION "perf_event"

#define LINKS_MAX    8

struct loader {
	struct bpf_object_skeleton *skel;
	int btf_fd;
	char btf_path[32]; /* of that file */
	struct bpf_object_open_opts opts;
	struct bpf_link *links[LINKS_MAX];
	size_t link_cnt;
	pthread_t thread;
	bool started; /* and not waited for yet */
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

static void close_btf(struct loader *l)
{
	if (l->btf_fd >= 0)
		close(l->btf_fd);
	l->btf_fd = -1;
	l->opts.btf_custom_path = NULL;
}

struct loader *loader__new(int btf_fd)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct loader *l = calloc(1, sizeof(*l));

	if (!l) {
		if (btf_fd >= 0)
			close(btf_fd);
		return NULL;
	}
	l->btf_fd = btf_fd;
	snprintf(l->btf_path, sizeof(l->btf_path), "/proc/self/fd/%d", btf_fd);
	l->opts =
		(struct bpf_object_open_opts){ .sz = sizeof(l->opts),
					       .btf_custom_path = btf_fd < 0 ? NULL : l->btf_path };
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->changed, NULL);
	pthread_once(&once, register_handler); /* if it fails, "early" is when all is loaded */
	return l;
}

const struct bpf_object_open_opts *loader__opts(const struct loader *l)
{
	return &l->opts;
}

void loader__free(struct loader *l)
{
	if (!l)
		return;
	loader__detach(l);
	loader__wait(l);
	close_btf(l);
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
	tell(l, true, bpf_object__load_skeleton(l->skel));
	return NULL;
}

int loader__start(struct loader *l, struct bpf_object_skeleton *skel, bool maps_first)
{
	int err = maps_first ? create_maps(*skel->obj) : 0;

	if (err)
		return err;
	l->skel = skel;
	err = thread__start(&l->thread, run, l);
	l->started = !err;
	return err;
}

int loader__wait_early(struct loader *l)
{
	int err;

	pthread_mutex_lock(&l->lock);
	while (l->started && !l->early)
		pthread_cond_wait(&l->changed, &l->lock);
	err = l->done ? l->err : 0;
	pthread_mutex_unlock(&l->lock);
	return err;
}

int loader__wait(struct loader *l)
{
	if (l->started)
		pthread_join(l->thread, NULL);
	l->started = false;
	close_btf(l);
	return l->err;
}

/* ---- attaching ------------------------------------------------------------------------------- */

int loader__attach(struct loader *l, const struct bpf_program *program)
{
	struct bpf_link *link;

	if (!program)
		return -ENOENT;
	if (l->link_cnt == LINKS_MAX)
		return -ENOSPC;
	link = bpf_program__attach(program);
	if (!link)
		return -errno;
	l->links[l->link_cnt++] = link;
	return 0;
}

void loader__detach(struct loader *l)
{
	while (l && l->link_cnt)
		bpf_link__destroy(l->links[--l->link_cnt]);
}

/* ---- at once --------------------------------------------------------------------------------- */

void loader__say_failed(int err, const char *of, const char *needs)
{
	if (err == -EPERM || err == -EACCES)
		needs = "CAP_BPF and CAP_PERFMON are needed; ";
	else if (err == -EMFILE)
		needs = "the limit of open files, ulimit -n, is too low; ";
	else if (err == -ENFILE || err == -ENOMEM)
		needs = "";
	log_err("loading the BPF programs%s: %s (%s-vv shows the kernel's log)", of, strerror(-err),
		needs);
}

int loader__load_now(struct bpf_object_skeleton *skel, const char *of, const char *needs)
{
	int err = bpf_object__load_skeleton(skel);

	if (err)
		loader__say_failed(err, of, needs);
	return err;
}
