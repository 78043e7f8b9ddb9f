/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/mmapwatch.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#define DEFAULT_PAGES 16

/* sample_id_all with PERF_SAMPLE_TID | PERF_SAMPLE_TIME puts this behind every record. */
struct sample_id {
	uint32_t pid, tid;
	uint64_t time;
};

struct cpu_ring {
	int fd;	       /* -1: this CPU is not watched */
	uint8_t *base; /* control page, then the data */
	uint64_t tail; /* ours; stored to the control page after each round */
};

struct mmapwatch {
	struct cpu_ring *rings; /* one per possible CPU */
	int ring_cnt;
	int epoll_fd;
	size_t page_size;
	size_t data_size;
	uint32_t wake_bytes;
	uint64_t lost;
	uint8_t *record; /* a record that wraps around the end of its ring is put together here */
};

/* ---- opening -------------------------------------------------------------------------------- */

static int open_event(int cpu, uint32_t wake_bytes)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
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
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static size_t ring_size(const struct mmapwatch *w)
{
	return w->page_size + w->data_size;
}

static void close_ring(struct mmapwatch *w, struct cpu_ring *ring)
{
	if (ring->base)
		munmap(ring->base, ring_size(w));
	if (ring->fd >= 0)
		close(ring->fd); /* leaves the epoll set, too */
	*ring = (struct cpu_ring){ .fd = -1 };
}

static int open_ring(struct mmapwatch *w, int cpu)
{
	struct cpu_ring *ring = &w->rings[cpu];
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = cpu };
	int err;

	ring->fd = open_event(cpu, w->wake_bytes);
	if (ring->fd < 0) {
		err = ring->fd;
		ring->fd = -1;
		return err;
	}
	ring->base = mmap(NULL, ring_size(w), PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
	if (ring->base == MAP_FAILED) {
		err = -errno;
		ring->base = NULL;
		goto out;
	}
	err = epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, ring->fd, &ev) ? -errno : 0;
out:
	if (err)
		close_ring(w, ring);
	return err;
}

struct mmapwatch *mmapwatch__new(uint32_t pages, enum mmapwatch_wake wake)
{
	struct mmapwatch *w = calloc(1, sizeof(*w));
	int err = -ENOMEM, last = -ENODEV;

	if (!w)
		return NULL;
	w->epoll_fd = -1;
	w->page_size = (size_t)sysconf(_SC_PAGESIZE);
	w->data_size = w->page_size * (pages ? pages : DEFAULT_PAGES);
	w->wake_bytes = wake == MMAPWATCH_EACH ? 1 : (uint32_t)w->data_size / 2;
	w->ring_cnt = libbpf_num_possible_cpus();
	if (w->ring_cnt <= 0) {
		w->ring_cnt = 0;
		err = -ENODEV;
		goto out;
	}
	w->rings = malloc((size_t)w->ring_cnt * sizeof(*w->rings));
	w->record = malloc(UINT16_MAX + 1); /* perf_event_header.size is 16 bits */
	if (!w->rings || !w->record) {
		w->ring_cnt = 0;
		goto out;
	}
	for (int i = 0; i < w->ring_cnt; i++)
		w->rings[i] = (struct cpu_ring){ .fd = -1 };
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (w->epoll_fd < 0) {
		err = -errno;
		goto out;
	}
	for (int i = 0; i < w->ring_cnt; i++) {
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
	for (int i = 0; i < w->ring_cnt; i++)
		close_ring(w, &w->rings[i]);
	if (w->epoll_fd >= 0)
		close(w->epoll_fd);
	free(w->rings);
	free(w->record);
	free(w);
}

int mmapwatch__fd(const struct mmapwatch *w)
{
	return w->epoll_fd;
}

int mmapwatch__cpu_online(struct mmapwatch *w, int cpu)
{
	if (cpu < 0 || cpu >= w->ring_cnt)
		return -EINVAL;
	/* An event whose CPU went away stays dead when the CPU comes back. */
	close_ring(w, &w->rings[cpu]);
	return open_ring(w, cpu);
}

int mmapwatch__ring(const struct mmapwatch *w, int cpu)
{
	return cpu < 0 || cpu >= w->ring_cnt ? -1 : w->rings[cpu].fd;
}

int mmapwatch__cpu_cnt(const struct mmapwatch *w)
{
	int cnt = 0;

	for (int i = 0; i < w->ring_cnt; i++)
		cnt += w->rings[i].fd >= 0;
	return cnt;
}

uint64_t mmapwatch__lost(const struct mmapwatch *w)
{
	return w->lost;
}

uint64_t mmapwatch__ring_bytes(const struct mmapwatch *w)
{
	return (uint64_t)mmapwatch__cpu_cnt(w) * ring_size(w);
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

/* `size` bytes at ring position `at`, wherever the ring's end is. */
static const void *record_at(struct mmapwatch *w, const uint8_t *data, uint64_t at, size_t size)
{
	size_t offset = at & (w->data_size - 1), first = w->data_size - offset;

	if (size <= first)
		return data + offset;
	memcpy(w->record, data + offset, first);
	memcpy(w->record + first, data, size - first);
	return w->record;
}

static int read_ring(struct mmapwatch *w, struct cpu_ring *ring, mmap_event_fn fn, void *ctx)
{
	struct perf_event_mmap_page *page = (struct perf_event_mmap_page *)ring->base;
	const uint8_t *data = ring->base + w->page_size;
	struct perf_event_header header;
	struct mmap_event ev;
	uint64_t head;
	int cnt = 0;

	/* Pairs with the barrier between data and data_head in perf_output_put_handle(). */
	head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	while (ring->tail < head) {
		/* Records are multiples of 8 bytes, so a header never wraps. */
		memcpy(&header, data + (ring->tail & (w->data_size - 1)), sizeof(header));
		if (header.size < sizeof(header) || header.size > head - ring->tail) {
			ring->tail = head; /* cannot be: the kernel wrote it */
			break;
		}
		if (mmap_event__parse(&ev, record_at(w, data, ring->tail, header.size),
				      header.size)) {
			w->lost += ev.lost;
			fn(ctx, &ev);
			cnt++;
		}
		ring->tail += header.size;
	}
	/* Our reads are done before the kernel may write there again. */
	__atomic_store_n(&page->data_tail, ring->tail, __ATOMIC_RELEASE);
	return cnt;
}

int mmapwatch__read(struct mmapwatch *w, mmap_event_fn fn, void *ctx)
{
	struct epoll_event woken[64];
	int cnt = 0;

	/* A ring stays "ready" until it is polled after its wake-up, even when it was read
	 * meanwhile: without this, the next poll of our descriptor returns at once, for nothing.
	 */
	epoll_wait(w->epoll_fd, woken, sizeof(woken) / sizeof(woken[0]), 0);
	for (int i = 0; i < w->ring_cnt; i++) {
		if (w->rings[i].base)
			cnt += read_ring(w, &w->rings[i], fn, ctx);
	}
	return cnt;
}
