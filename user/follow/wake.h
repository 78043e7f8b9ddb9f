/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_WAKE_H
#define PYPERF_WAKE_H
/*
 * Decides how long to wait before handling process events, and when BPF follows mappings. Computes
 * times only: reads, waits for and changes nothing.
 *
 * A starting program makes an event for each file that it maps: a Python makes some forty in 20 ms.
 * To wake for each would be expensive. So user space handles the first event at once, and those
 * right behind it together. The process is then known a little later, by no more than a part of the
 * time between two samples.
 *
 * A BPF program where the kernel allocates address ranges can tell that a process is about to map
 * other code. It costs each mmap() of the machine 0.1 us, and some programs call mmap() 20,000
 * times a second. So it is attached only while processes of interest begin or change their code,
 * and for a while after that. Later a sample detects such a change by the number of executable
 * pages. That number does not change when a library replaces another one of the same size. So the
 * program stays attached as long as a process lives that has closed a library ("restless").
 *
 * EV_AREA precedes the mapping by some microseconds, or by many ms if the process loses its CPU in
 * between: wake__await_ns() says when to read the rings again for it. Nothing else waits for the
 * mapping: a new process would be without an image meanwhile.
 *
 * Times are those of now_ns(). Valid when all zero.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WAKE_CALM_MS	   1000
/* Events wait for each other for at most an eighth of the time between two samples ... */
#define WAKE_GATHER_SHARE  8
#define WAKE_GATHER_MS_MAX 10 /* ... and at most this long */
#define WAKE_AWAIT_US	   50 /* at first, then twice as long */
/* 0.8 s: a process may lose its CPU before it has made the mapping. */
#define WAKE_AWAIT_ROUNDS  14

struct wake {
	uint64_t calm_ns; /* until then processes are followed */
	/* private */
	uint32_t area_tgid;
	uint64_t area_ns; /* 0: nothing is awaited */
};

/*
 * The time until which events that follow the last look may gather. frequency_hz 0: the frequency
 * is not known, and events do not wait.
 */
uint64_t wake__gather_until(uint64_t looked_ns, uint32_t frequency_hz);
/* A process of interest began, or has other code. */
void wake__stir(struct wake *w, uint64_t now);
/* Should the program at the allocation of address ranges be attached? */
bool wake__follow(const struct wake *w, uint64_t now, size_t restless);
/*
 * Notes that the process was about to map code at `time_ns`, or had mapped it. Only the last of
 * several announced mappings is awaited.
 */
void wake__coming(struct wake *w, uint32_t tgid, uint64_t time_ns);
void wake__mapped(struct wake *w, uint32_t tgid, uint64_t time_ns);
/*
 * The time in ns, at most 410 ms, after which to read the rings for an awaited mapping; 0: no
 * mapping is awaited.
 */
uint64_t wake__await_ns(struct wake *w, uint64_t now);

#endif /* PYPERF_WAKE_H */
