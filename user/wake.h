/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_WAKE_H
#define PYPERF_WAKE_H
/*
 * How soon is looked at what happens to processes? Numbers only: nothing is read, waited for or changed here.
 *
 * A program that starts makes an event for each file it maps; a Python some forty in 20 ms. Each would wake us and be
 * looked at for itself. So the first is looked at at once, and what comes right behind it together. A sample finds the
 * process known a little later, by no more than a part of the time in which there is one.
 *
 * The kernel tells of the mappings of all processes. With -p nearly all of them are others'. So one of others is the
 * last that wakes for a lull, but not right behind something that ours did. In a lull BPF says when one of ours is about
 * to map something (EV_AREA), which is there some microseconds later; what becomes code by mprotect() is known late.
 * The lull goes on while others map: if some did in its last half, because the rest of a start is no reason for
 * another one. It is shorter where more is mapped meanwhile than the kernel has room for.
 *
 *	w.lull = true;				 a mapping has woken us, and none does any more
 *	w.ours |= ...; wake__others(&w, ...);	 whose it was, and all else that has happened
 *	if (!wake__look(&w, now_ns())) ...	 they wake again
 *
 * Times are those of now_ns(). Valid when all zero.
 */
#include <stdbool.h>
#include <stdint.h>

#define WAKE_HEED_MS 10 /* ours may do more of it */
#define WAKE_LULL_MS 1000
#define WAKE_HALVED  2 /* so often at most: a quarter of it */
#define WAKE_GATHER_SHARE                                                                          \
	8 /* of the time between two samples may events wait for each other: an eighth */
#define WAKE_GATHER_MS_MAX 10 /* ... and no longer */

struct wake {
	bool ours; /* have done something since the last wake__look() */
	bool lull; /* mappings do not wake */
	uint64_t lull_until_ns;
	/* private */
	uint64_t others_ns; /* when others last did something */
	uint64_t heed_until_ns;
	unsigned halved; /* lulls, so often */
};

/* Until when what comes behind the last look is left to gather. frequency_hz 0: not known, nothing waits. */
uint64_t wake__gather_until(uint64_t looked_ns, uint32_t frequency_hz);
/* Others did something at that time; in any order. */
void wake__others(struct wake *w, uint64_t time_ns);
/* There was no room for all that was mapped. */
void wake__lost(struct wake *w);
/* What has happened was looked at. True: there is a lull, and it goes on until lull_until_ns. */
bool wake__look(struct wake *w, uint64_t now);

#endif /* PYPERF_WAKE_H */
