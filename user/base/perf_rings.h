/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PERF_RINGS_H
#define PYPERF_PERF_RINGS_H
/*
 * One perf event for each CPU, and the ring in which the kernel leaves its records.
 *
 * A record is handed over whole, also one that wraps around the end of its ring, and only once. Its
 * place is free for the kernel when the read of its ring is over. The rings own their events.
 *
 *	rs = perf_rings__new(&attr, pages);
 *	for (int i = 0; i < perf_rings__cnt(rs); i++)
 *		perf_rings__open(rs, i);
 *	... perf_rings__read(rs, take, ctx);
 *	perf_rings__free(rs);
 */
#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>

struct perf_rings;

/* The record is valid during the call, all header->size bytes of it. */
typedef void (*perf_record_fn)(void *ctx, const struct perf_event_header *record);

/*
 * For all possible CPUs; none is open yet. `pages` of data for each, a power of two. NULL, errno.
 */
struct perf_rings *perf_rings__new(const struct perf_event_attr *attr, uint32_t pages);
void perf_rings__free(struct perf_rings *rs);
/* CPUs that are possible. */
int perf_rings__cnt(const struct perf_rings *rs);
/*
 * Opens the event of all processes on this CPU, after it has closed the one that it had. 0 or
 * negative errno; -ENODEV: the CPU is offline.
 */
int perf_rings__open(struct perf_rings *rs, int cpu);
void perf_rings__close(struct perf_rings *rs, int cpu);
/* The event of this CPU, borrowed; -1: it is not open. */
int perf_rings__fd(const struct perf_rings *rs, int cpu);
/* CPUs that are open, and the memory that their rings take. */
int perf_rings__open_cnt(const struct perf_rings *rs);
uint64_t perf_rings__bytes(const struct perf_rings *rs);
/* Passes all records to `fn`, CPU by CPU, in order within a CPU. */
void perf_rings__read(struct perf_rings *rs, perf_record_fn fn, void *ctx);

/* One ring: `size` bytes of data, a power of two. A record that wraps is joined in `whole`. */
struct perf_ring_data {
	const uint8_t *data;
	size_t size;
	uint8_t *whole; /* PERF_RECORD_MAX bytes */
};

#define PERF_RECORD_MAX (UINT16_MAX + 1) /* perf_event_header.size has 16 bits */

/* Passes the records from `tail` to `head`, up to one that cannot be. For perf_rings and tests. */
void perf_ring_data__walk(const struct perf_ring_data *d, uint64_t tail, uint64_t head,
			  perf_record_fn fn, void *ctx);

#endif /* PYPERF_PERF_RINGS_H */
