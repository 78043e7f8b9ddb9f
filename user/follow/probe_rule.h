/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PROBE_RULE_H
#define PYPERF_PROBE_RULE_H
/*
 * What follows the place of a probe: which of its hits count, and how much.
 *
 *	if arg1 > 4096 and arg2 == 0	these alone; up to PROBE_TESTS tests, all must be true
 *	sum arg1 [bytes]		a hit counts so much, not 1
 *	hist arg1			likewise, and how often what is shown
 *
 * Arguments are those of a function by the ABI of the machine (arg1 to arg6), as 64 bits with a
 * sign unless a type stands in front: (uint32)arg1. Those of a static probe are where its note
 * says, of the type that it says.
 */
#include <stdbool.h>
#include <stdint.h>

#include "bpf/pyperf.h"

#define PROBE_ARGS_MAX 12 /* of a static probe: <sys/sdt.h> */

/* An argument as the user says it: plain data. */
struct probe_said {
	uint8_t number;	   /* from 1 on; 0: none */
	uint8_t size;	   /* of the type in front; 0: none is there */
	uint8_t is_signed; /* likewise */
};

struct probe_words {
	struct probe_said args[PROBE_TESTS];
	struct {
		uint64_t value;
		uint32_t op;
	} tests[PROBE_TESTS];
	uint32_t test_cnt;
	struct probe_said amount; /* of sum and hist */
	bool sum, hist, bytes;
};

/* Longest explanation of probe_words__parse(). */
#define PROBE_WHY_MAX 160

/*
 * `text`: from the first word on; "": none. 0, or -EINVAL: `why` quotes the part that is wrong.
 */
int probe_words__parse(struct probe_words *w, const char *text, char why[PROBE_WHY_MAX]);

/*
 * `args`: of the note of a static probe; NULL: of a function. 0, or negative errno: `why` says
 * which argument.
 */
int probe_words__rule(const struct probe_words *w, const char *args, struct probe_rule *out,
		      char why[PROBE_WHY_MAX]);

#endif /* PYPERF_PROBE_RULE_H */
