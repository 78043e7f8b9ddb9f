/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TEST_STEPPED_CLOCK_H
#define PYPERF_TEST_STEPPED_CLOCK_H
/*
 * Clocks that the test moves: the definition here is before the C library's for the whole program.
 */
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t clock_step_s;  /* of the wall clock only, as if somebody set it */
static int64_t clock_later_s; /* of all: that much time went by */

int clock_gettime(clockid_t id, struct timespec *t);
int clock_gettime(clockid_t id, struct timespec *t)
{
	long err = syscall(SYS_clock_gettime, id, t);

	if (!err)
		t->tv_sec += clock_later_s + (id == CLOCK_REALTIME ? clock_step_s : 0);
	return (int)err;
}

#endif /* PYPERF_TEST_STEPPED_CLOCK_H */
