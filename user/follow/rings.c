/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "follow/rings.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "follow/object_parts.h"

/* Behind these come rings of names of other objects. */
enum { RING_EVENTS, RING_BLOBS, RING_MISSES, RING_MORE, RING_CNT = RING_MORE + SAMPLED_MAX };
/* So often is the ring of events read before others have their turn. */
#define EVENT_ROUNDS 4

/*
 * One libbpf object per ring, because a callback that ends the reading of one ring ends that of all
 * in an object. One call reads at most the size of the ring, which is all that was in it at first.
 * If samples come faster than they can be read, as with ever new stacks at 50 kHz, a ring is never
 * empty. Records without room meanwhile are counted as lost.
 */
struct ring {
	struct ring_buffer *rb;
	size_t size;
};

struct rings {
	struct object *object; /* borrowed */
	struct ring_sink sink;
	struct ring rings[RING_CNT];
	size_t untaken; /* bytes of the ring that is read */
	uint64_t events_taken;
	int epoll_fd; /* readable when one of the rings is */
};

/* Result of a callback: a negative one ends the reading of its ring after this record. */
static int taken(struct rings *r, size_t size)
{
	size = (size + BPF_RINGBUF_HDR_SZ + 7) & ~(size_t)7;
	r->untaken -= size < r->untaken ? size : r->untaken;
	return r->untaken ? 0 : -EAGAIN;
}

static int on_event(void *ctx, void *data, size_t size)
{
	struct rings *r = ctx;

	r->events_taken++;
	if (size >= sizeof(struct ev_proc)) /* or it was only to wake us */
		r->sink.proc(r->sink.ctx, data);
	return taken(r, size);
}

/*
 * Inserts what a sample in NMI may not insert; the next sample finds it. A failure (the table is
 * full, or another one was first) only costs another hand-over.
 */
static void insert_code(const struct rings *r, const struct ev_code *ev)
{
	const struct code_key key = { .addr = ev->addr, .fingerprint = ev->fingerprint };
	const struct code_val val = { .id = ev->id };

	bpf_map_update_elem(bpf_map__fd(r->object->skel->maps.codes), &key, &val, BPF_NOEXIST);
}

static void take_stack(struct rings *r, const struct ev_stack *ev, size_t size)
{
	unsigned window = r->object->bss->active_window & 1;
	const struct count_val none = { 0 };

	if (!r->sink.stack)
		return;
	r->sink.stack(r->sink.ctx, window, ev, size);
	if (!bpf_map_update_elem(object__counts_fd(r->object, window), &ev->key, &none,
				 BPF_NOEXIST))
		r->object->bss->counts_added[window]++;
}

static int on_miss(void *ctx, void *data, size_t size)
{
	struct rings *r = ctx;
	const uint32_t *type = data;
	const struct ev_thread *ev = data;

	if (size >= sizeof(struct ev_stack) && *type == EV_STACK)
		take_stack(r, data, size);
	else if (size >= sizeof(*ev) && *type == EV_THREAD)
		bpf_map_update_elem(bpf_map__fd(r->object->skel->maps.threads), &ev->key, &ev->val,
				    BPF_ANY);
	return taken(r, size);
}

static bool is_nmi(const struct rings *r)
{
	const struct pyperf_cfg *cfg = (const struct pyperf_cfg *)&r->object->skel->rodata->cfg;

	return cfg->flags & CFG_NMI;
}

static int on_blob(void *ctx, void *data, size_t size)
{
	struct rings *r = ctx;
	const uint32_t *type = data;

	if (size >= sizeof(struct ev_code) && *type == EV_CODE) {
		if (is_nmi(r))
			insert_code(r, data);
		if (r->sink.code)
			r->sink.code(r->sink.ctx, data, size);
	}
	if (size >= offsetof(struct ev_blob, data) && *type == EV_BLOB && r->sink.blob)
		r->sink.blob(r->sink.ctx, data, size);
	return taken(r, size);
}

static int open_ring(struct rings *r, int ring, int fd, ring_buffer_sample_fn fn)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct bpf_map_info info = { 0 };
	uint32_t size = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &size))
		return -errno;
	r->rings[ring].size = info.max_entries;
	r->rings[ring].rb = ring_buffer__new(fd, fn, r, NULL);
	if (!r->rings[ring].rb ||
	    epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, ring_buffer__epoll_fd(r->rings[ring].rb), &ev))
		return -errno;
	return 0;
}

static int open_all(struct rings *r)
{
	const struct pyperf_bpf *skel = r->object->skel;
	int err;

	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (r->epoll_fd < 0)
		return -errno;
	err = open_ring(r, RING_EVENTS, bpf_map__fd(skel->maps.events), on_event);
	if (!err)
		err = open_ring(r, RING_BLOBS, bpf_map__fd(skel->maps.blobs), on_blob);
	return err ? err : open_ring(r, RING_MISSES, bpf_map__fd(skel->maps.misses), on_miss);
}

int rings__add_blobs(struct rings *r, int fd)
{
	int ring = RING_MORE, err;

	while (ring < RING_CNT && r->rings[ring].rb)
		ring++;
	err = ring < RING_CNT ? open_ring(r, ring, fd, on_blob) : -ENOSPC;
	if (err)
		log_err("mapping a ring: %s", strerror(-err));
	return err;
}

struct rings *rings__open(struct object *object, const struct ring_sink *sink)
{
	struct rings *r = calloc(1, sizeof(*r));
	int err;

	if (!r) {
		log_no_memory();
		return NULL;
	}
	r->object = object;
	r->sink = *sink;
	r->epoll_fd = -1;
	err = open_all(r);
	if (!err)
		return r;
	object__say_unmapped(object, err);
	rings__close(r);
	return NULL;
}

void rings__close(struct rings *r)
{
	if (!r)
		return;
	for (int i = 0; i < RING_CNT; i++)
		ring_buffer__free(r->rings[i].rb);
	if (r->epoll_fd >= 0)
		close(r->epoll_fd);
	free(r);
}

int rings__fd(const struct rings *r)
{
	return r->epoll_fd;
}

/* 1: there is more, for now it is enough. */
static int consume_ring(struct rings *r, int ring)
{
	int n;

	r->untaken = r->rings[ring].size;
	n = ring_buffer__consume(r->rings[ring].rb);
	return n == -EAGAIN ? 1 : n < 0 ? n : 0;
}

/*
 * `user_woken` is cleared before the ring is read: later records wake again. A program that sets it
 * after that, and whose record is read in the same round, may have woken us for nothing. So we
 * sleep only after a round without records. See wake_user() in bpf/lifecycle.bpf.h.
 */
static int consume_events(struct rings *r)
{
	for (int round = 0; round < EVENT_ROUNDS; round++) {
		uint64_t taken = r->events_taken;
		int err;

		__atomic_store_n(&r->object->bss->user_woken, 0, __ATOMIC_SEQ_CST);
		err = consume_ring(r, RING_EVENTS);
		if (err || r->events_taken == taken)
			return err;
	}
	return 1;
}

void rings__hush(struct rings *r)
{
	__atomic_store_n(&r->object->bss->user_woken, 1, __ATOMIC_RELAXED);
}

int rings__consume(struct rings *r)
{
	int more = 0;

	for (int i = 0; i < RING_CNT && r->rings[i].rb; i++) {
		int err = i == RING_EVENTS ? consume_events(r) : consume_ring(r, i);

		if (err < 0)
			return err;
		more |= err;
	}
	return more;
}
