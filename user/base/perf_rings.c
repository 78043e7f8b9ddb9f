/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/perf_rings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/libbpf.h>

struct ring {
	int fd;	       /* -1: this CPU is not open */
	uint8_t *base; /* control page, then the data */
	uint64_t tail; /* ours; stored to the control page after each read */
};

struct perf_rings {
	struct perf_event_attr attr;
	struct ring *rings; /* one per possible CPU */
	int cnt;
	size_t page_size;
	size_t data_size;
	uint8_t *whole;
};

/* ---- opening -------------------------------------------------------------------------------- */

struct perf_rings *perf_rings__new(const struct perf_event_attr *attr, uint32_t pages)
{
	struct perf_rings *rs = calloc(1, sizeof(*rs));
	int cnt = libbpf_num_possible_cpus();

	if (!rs)
		return NULL;
	if (cnt <= 0) {
		free(rs);
		errno = ENODEV;
		return NULL;
	}
	rs->attr = *attr;
	rs->page_size = (size_t)sysconf(_SC_PAGESIZE);
	rs->data_size = rs->page_size * pages;
	rs->rings = malloc((size_t)cnt * sizeof(*rs->rings));
	rs->whole = malloc(PERF_RECORD_MAX);
	if (!rs->rings || !rs->whole) {
		perf_rings__free(rs);
		errno = ENOMEM;
		return NULL;
	}
	for (; rs->cnt < cnt; rs->cnt++)
		rs->rings[rs->cnt] = (struct ring){ .fd = -1 };
	return rs;
}

void perf_rings__free(struct perf_rings *rs)
{
	if (!rs)
		return;
	for (int i = 0; i < rs->cnt; i++)
		perf_rings__close(rs, i);
	free(rs->rings);
	free(rs->whole);
	free(rs);
}

static size_t ring_size(const struct perf_rings *rs)
{
	return rs->page_size + rs->data_size;
}

static struct ring *ring_of(const struct perf_rings *rs, int cpu)
{
	return cpu < 0 || cpu >= rs->cnt ? NULL : &rs->rings[cpu];
}

void perf_rings__close(struct perf_rings *rs, int cpu)
{
	struct ring *ring = ring_of(rs, cpu);

	if (!ring)
		return;
	if (ring->base)
		munmap(ring->base, ring_size(rs));
	if (ring->fd >= 0)
		close(ring->fd);
	*ring = (struct ring){ .fd = -1 };
}

int perf_rings__open(struct perf_rings *rs, int cpu)
{
	struct ring *ring = ring_of(rs, cpu);
	void *base;
	int err;

	if (!ring)
		return -EINVAL;
	/* An event whose CPU went away stays dead when the CPU comes back. */
	perf_rings__close(rs, cpu);
	ring->fd = (int)syscall(SYS_perf_event_open, &rs->attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (ring->fd < 0)
		return -errno;
	base = mmap(NULL, ring_size(rs), PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
	if (base == MAP_FAILED) {
		err = -errno;
		perf_rings__close(rs, cpu);
		return err;
	}
	ring->base = base;
	return 0;
}

int perf_rings__cnt(const struct perf_rings *rs)
{
	return rs->cnt;
}

int perf_rings__fd(const struct perf_rings *rs, int cpu)
{
	const struct ring *ring = ring_of(rs, cpu);

	return ring ? ring->fd : -1;
}

int perf_rings__open_cnt(const struct perf_rings *rs)
{
	int cnt = 0;

	for (int i = 0; i < rs->cnt; i++)
		cnt += rs->rings[i].fd >= 0;
	return cnt;
}

uint64_t perf_rings__bytes(const struct perf_rings *rs)
{
	return (uint64_t)perf_rings__open_cnt(rs) * ring_size(rs);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* `size` bytes at ring position `at`, wherever the ring's end is. */
static const void *record_at(const struct perf_ring_data *d, uint64_t at, size_t size)
{
	size_t offset = at & (d->size - 1), first = d->size - offset;

	if (size <= first)
		return d->data + offset;
	memcpy(d->whole, d->data + offset, first);
	memcpy(d->whole + first, d->data, size - first);
	return d->whole;
}

void perf_ring_data__walk(const struct perf_ring_data *d, uint64_t tail, uint64_t head,
			  perf_record_fn fn, void *ctx)
{
	struct perf_event_header header;

	while (tail < head) {
		/* Records are multiples of 8 bytes, so a header never wraps. */
		memcpy(&header, d->data + (tail & (d->size - 1)), sizeof(header));
		if (header.size < sizeof(header) || header.size % 8 || header.size > head - tail ||
		    header.size > d->size)
			return; /* cannot be: the kernel wrote it */
		fn(ctx, record_at(d, tail, header.size));
		tail += header.size;
	}
}

static void read_ring(struct perf_rings *rs, struct ring *ring, perf_record_fn fn, void *ctx)
{
	struct perf_event_mmap_page *page = (struct perf_event_mmap_page *)ring->base;
	struct perf_ring_data d = { .data = ring->base + rs->page_size,
				    .size = rs->data_size,
				    .whole = rs->whole };
	/* Pairs with the barrier between data and data_head in perf_output_put_handle(). */
	uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);

	perf_ring_data__walk(&d, ring->tail, head, fn, ctx);
	ring->tail = head;
	/* Our reads are done before the kernel may write there again. */
	__atomic_store_n(&page->data_tail, ring->tail, __ATOMIC_RELEASE);
}

void perf_rings__read(struct perf_rings *rs, perf_record_fn fn, void *ctx)
{
	for (int i = 0; i < rs->cnt; i++)
		if (rs->rings[i].base)
			read_ring(rs, &rs->rings[i], fn, ctx);
}
