/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/mmapwatch.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/perf_rings.h"

#define DEFAULT_PAGES 16

/* sample_id_all with PERF_SAMPLE_TID | PERF_SAMPLE_TIME puts this behind every record. */
struct sample_id {
	uint32_t pid, tid;
	uint64_t time;
};

struct mmapwatch {
	struct perf_rings *rings;
	int epoll_fd;
	uint64_t lost;
};

/* ---- opening -------------------------------------------------------------------------------- */

static struct perf_event_attr event(uint32_t wake_bytes)
{
	return (struct perf_event_attr){
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(struct perf_event_attr),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.exclude_kernel = 1, /* nothing is sampled; asks for less where paranoia is high */
		.mmap = 1,	     /* executable mappings only, without mmap_data */
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.watermark = 1,
		.wakeup_watermark = wake_bytes,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC, /* as bpf_ktime_get_ns() */
	};
}

/* A ring that is closed leaves the epoll set, too. */
static int open_ring(struct mmapwatch *w, int cpu)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = cpu };
	int err = perf_rings__open(w->rings, cpu);

	if (err)
		return err;
	if (epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, perf_rings__fd(w->rings, cpu), &ev)) {
		err = -errno;
		perf_rings__close(w->rings, cpu);
	}
	return err;
}

struct mmapwatch *mmapwatch__new(uint32_t pages, enum mmapwatch_wake wake)
{
	struct mmapwatch *w = calloc(1, sizeof(*w));
	struct perf_event_attr attr;
	int err = 0, last = -ENODEV;

	if (!w)
		return NULL;
	if (!pages)
		pages = DEFAULT_PAGES;
	attr = event(wake == MMAPWATCH_EACH ? 1 : (uint32_t)sysconf(_SC_PAGESIZE) * pages / 2);
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	w->rings = w->epoll_fd < 0 ? NULL : perf_rings__new(&attr, pages);
	if (!w->rings) {
		err = -errno;
		goto out;
	}
	for (int i = 0; i < perf_rings__cnt(w->rings); i++) {
		err = open_ring(w, i);
		if (err && err != -ENODEV) /* ENODEV: possible but offline */
			goto out;
		if (!err)
			last = 0;
	}
	err = last;
out:
	if (err) {
		mmapwatch__free(w);
		errno = -err;
		return NULL;
	}
	return w;
}

void mmapwatch__free(struct mmapwatch *w)
{
	if (!w)
		return;
	perf_rings__free(w->rings);
	if (w->epoll_fd >= 0)
		close(w->epoll_fd);
	free(w);
}

int mmapwatch__fd(const struct mmapwatch *w)
{
	return w->epoll_fd;
}

int mmapwatch__cpu_online(struct mmapwatch *w, int cpu)
{
	return open_ring(w, cpu);
}

int mmapwatch__ring(const struct mmapwatch *w, int cpu)
{
	return perf_rings__fd(w->rings, cpu);
}

int mmapwatch__cpu_cnt(const struct mmapwatch *w)
{
	return perf_rings__open_cnt(w->rings);
}

uint64_t mmapwatch__lost(const struct mmapwatch *w)
{
	return w->lost;
}

uint64_t mmapwatch__ring_bytes(const struct mmapwatch *w)
{
	return perf_rings__bytes(w->rings);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* The bodies of the records, include/uapi/linux/perf_event.h. */
struct body_mmap2 {
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	uint32_t maj, min;
	uint64_t ino, ino_generation;
	uint32_t prot, flags;
	/* char filename[] */
};

struct body_comm {
	uint32_t pid, tid;
	/* char comm[], padded to 8 bytes */
};

struct body_lost {
	uint64_t id, lost;
};

static bool parse_mmap2(struct mmap_event *ev, const uint8_t *body, uint32_t size)
{
	struct body_mmap2 m;

	if (size < sizeof(m))
		return false;
	memcpy(&m, body, sizeof(m));
	ev->type = MMAP_EVENT_MMAP;
	ev->tgid = m.pid;
	ev->tid = m.tid;
	ev->start = m.addr;
	ev->size = m.len;
	ev->offset = m.pgoff;
	ev->major = m.maj;
	ev->minor = m.min;
	ev->inode = m.ino;
	ev->generation = m.ino_generation;
	return true;
}

static bool parse_comm(struct mmap_event *ev, const uint8_t *body, uint32_t size, bool exec)
{
	struct body_comm c;
	size_t n;

	if (size < sizeof(c))
		return false;
	memcpy(&c, body, sizeof(c));
	ev->type = exec ? MMAP_EVENT_EXEC : MMAP_EVENT_COMM;
	ev->tgid = c.pid;
	ev->tid = c.tid;
	n = strnlen((const char *)body + sizeof(c), size - sizeof(c));
	if (n > sizeof(ev->comm) - 1)
		n = sizeof(ev->comm) - 1;
	memcpy(ev->comm, body + sizeof(c), n);
	return true;
}

bool mmap_event__parse(struct mmap_event *ev, const void *record, uint32_t size)
{
	const uint8_t *body = (const uint8_t *)record + sizeof(struct perf_event_header);
	struct perf_event_header header;
	struct body_lost lost;
	struct sample_id id;

	*ev = (struct mmap_event){ 0 };
	if (size < sizeof(header) + sizeof(id))
		return false;
	memcpy(&header, record, sizeof(header));
	memcpy(&id, (const uint8_t *)record + size - sizeof(id), sizeof(id));
	ev->time_ns = id.time;
	size -= sizeof(header) + sizeof(id);
	switch (header.type) {
	case PERF_RECORD_MMAP2:
		return parse_mmap2(ev, body, size);
	case PERF_RECORD_COMM:
		return parse_comm(ev, body, size, header.misc & PERF_RECORD_MISC_COMM_EXEC);
	case PERF_RECORD_LOST:
		if (size < sizeof(lost))
			return false;
		memcpy(&lost, body, sizeof(lost));
		ev->type = MMAP_EVENT_LOST;
		ev->lost = lost.lost;
		return true;
	case PERF_RECORD_THROTTLE:
		ev->type = MMAP_EVENT_THROTTLE;
		return true;
	default:
		return false;
	}
}

struct reading {
	struct mmapwatch *w;
	mmap_event_fn fn;
	void *ctx;
	int cnt;
};

static void take_record(void *ctx, const struct perf_event_header *record)
{
	struct reading *r = ctx;
	struct mmap_event ev;

	if (!mmap_event__parse(&ev, record, record->size))
		return;
	r->w->lost += ev.lost;
	r->fn(r->ctx, &ev);
	r->cnt++;
}

int mmapwatch__read(struct mmapwatch *w, mmap_event_fn fn, void *ctx)
{
	struct reading r = { .w = w, .fn = fn, .ctx = ctx };
	struct epoll_event woken[64];

	/* A ring stays "ready" until it is polled after its wake-up, even when it was read
	 * meanwhile: without this, the next poll of our descriptor returns at once, for nothing.
	 */
	epoll_wait(w->epoll_fd, woken, sizeof(woken) / sizeof(woken[0]), 0);
	perf_rings__read(w->rings, take_record, &r);
	return r.cnt;
}
