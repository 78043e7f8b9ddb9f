/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_PUSH_RETRY_H
#define PYPERF_AGENT_PUSH_RETRY_H
/* Decides what an answer means, and when to try again. Arithmetic only. */
#include <stdint.h>
#include <time.h>

/* a backend that asks for a longer wait is tried after this */
#define RETRY_AFTER_MAX_MS (3600U * 1000)
/* between tries if a person has to fix the configuration */
#define RETRY_SLOW_MIN_MS  (30U * 1000)

enum push_verdict {
	PUSH_SENT,
	PUSH_RETRY,    /* try again: it will pass */
	PUSH_SLOW,     /* a person has to fix the configuration: address, rights */
	PUSH_REJECTED, /* the backend will never take this window */
};

/* The verdict on an HTTP status; 0: no answer. */
enum push_verdict push_judge(int status);
/* The HTTP status that corresponds to a gRPC status. */
int push_grpc_status(unsigned grpc_status);

/*
 * Milliseconds until the next try after `failures` (1: the first) in a row: min, doubled each time
 * up to max, of which the second half is `random`. `after_ms` (Retry-After; 0: none) is waited for,
 * and up to a tenth more.
 */
uint64_t push_delay(unsigned failures, uint64_t min_ms, uint64_t max_ms, uint64_t after_ms,
		    uint32_t random);
/*
 * The value of a Retry-After header: seconds or an HTTP date. Bounded; 0: none of both, or in the
 * past.
 */
uint64_t push_retry_after(const char *value, time_t now);

#endif /* PYPERF_AGENT_PUSH_RETRY_H */
