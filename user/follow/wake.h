/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_WAKE_H
#define PYPERF_WAKE_H
/*
 * How soon does user space look at what happens to processes, and how closely does BPF follow them?
 * Numbers only: nothing is read, waited for or changed here.
 *
 * A program that starts makes an event for each file it maps; a Python some forty in 20 ms. Each
 * would wake us and be looked at for itself. So the first is looked at at once, and what comes
 * right behind it together. A sample finds the process known a little later, by no more than a part
 * of the time in which there is one.
 *
 * Where the kernel gives out address ranges, a BPF program can tell that a process is about to have
 * other code. It costs each mmap() of the machine 0.1 us, and some programs call mmap() 20,000
 * times a second. So it is attached while processes of interest begin or change their code, and for
 * a while after that. Later a sample tells, by the number of executable pages. What no number tells
 * is a library in the place of another one of the same size. So as long as a process lives that has
 * closed one ("restless"), the program stays.
 *
 * EV_AREA of a range that is given out comes some microseconds before the mapping, or many ms when
 * the process loses its CPU in between: wake__await_ns() says when the rings are to be read again
 * for it. Nothing else waits for that: a new process would be without an image meanwhile.
 *
 * Times are those of now_ns(). Valid when all zero.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WAKE_CALM_MS 1000
#define WAKE_GATHER_SHARE                                                                          \
	8 /* of the time between two samples may events wait for each other: an eighth */
#define WAKE_GATHER_MS_MAX 10 /* ... and no longer */
#define WAKE_AWAIT_US	   50 /* at first, then twice as long */
#define WAKE_AWAIT_ROUNDS  14 /* 0.8 s; who maps may lose its CPU before it has the mapping */

struct wake {
	uint64_t calm_ns; /* until then processes are followed */
	/* private */
	uint32_t area_tgid;
	uint64_t area_ns; /* 0: nothing is awaited */
};

/*
 * Until when what comes behind the last look is left to gather. frequency_hz 0: not known, nothing
 * waits.
 */
uint64_t wake__gather_until(uint64_t looked_ns, uint32_t frequency_hz);
/* A process of interest began, or has other code. */
void wake__stir(struct wake *w, uint64_t now);
/* Is the program to be attached? */
bool wake__follow(const struct wake *w, uint64_t now, size_t restless);
/*
 * At that time the process was about to map code, or the kernel told that it has. Of several, the
 * last is awaited.
 */
void wake__coming(struct wake *w, uint32_t tgid, uint64_t time_ns);
void wake__mapped(struct wake *w, uint32_t tgid, uint64_t time_ns);
/*
 * After how many ns, at most 410 ms, the rings are to be read for what is about to be mapped; 0:
 * nothing is awaited.
 */
uint64_t wake__await_ns(struct wake *w, uint64_t now);

#endif /* PYPERF_WAKE_H */
