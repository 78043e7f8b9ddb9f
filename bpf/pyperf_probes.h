/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PROBES_CONTRACT_H
#define PYPERF_PROBES_CONTRACT_H
/*
 * Part of the contract (pyperf.h): where probes have their arguments, which hits count, and how
 * much. user/ writes rules before a place can be hit; BPF writes histograms and costs.
 */
#include "pyperf_limits.h"

enum probe_arg_kind {
	PROBE_ARG_REG = 0,
	PROBE_ARG_MEMORY = 1, /* at base + index * scale + value */
	PROBE_ARG_CONST = 2,
};

/* Where an argument is when a probe is hit. Registers by DWARF number. */
#define PROBE_NO_REG 0xff
struct probe_arg {
	__u8 kind;
	__u8 reg;   /* of memory: the base */
	__u8 index; /* of memory; or PROBE_NO_REG */
	__u8 scale;
	__u8 size; /* bytes: 1, 2, 4 or 8 */
	__u8 is_signed;
	__u8 pad[2];
	__s64 value; /* displacement; or the constant */
};
PYPERF_ASSERT_SIZE(struct probe_arg, 16);

enum probe_op {
	PROBE_EQ = 0,
	PROBE_NE = 1,
	PROBE_LT = 2,
	PROBE_LE = 3,
	PROBE_GT = 4,
	PROBE_GE = 5,
};

struct probe_test {
	struct probe_arg arg;
	__u64 value;
	__u32 op; /* enum probe_op; signed if the argument is */
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct probe_test, 32);

/*
 * What a hit of a probe must be like, and what it is worth. Valid when all zero: each hit counts
 * one.
 */
#define PROBE_TESTS 4
struct probe_rule {
	__u32 test_cnt; /* all must be true */
	__u32 has_amount;
	struct probe_arg amount;
	struct probe_test tests[PROBE_TESTS];
};
PYPERF_ASSERT_SIZE(struct probe_rule, 24 + 32 * PROBE_TESTS);

/* probe_rules: number of a place -> its rule. */
#define PROBE_SPOTS	 64 /* places of one static probe, with a breakpoint each */
#define PROBE_RULES	 (SAMPLED_MAX * PROBE_SPOTS)
#define PROBE_AMOUNT_MAX (1ULL << 40) /* of one hit: a sum stays a sum */

struct probe_cfg {
	__u32 by_cookie; /* a hit brings the number of its place; else that of its value type */
	__u32 pad;
};

/* probe_hists: CPU, number of the value type -> what arguments were. */
#define PROBE_BUCKETS 65 /* [n]: from 2^(n-1) to 2^n - 1; [0]: 0 */
struct probe_hist {
	__u64 hits, others, unread; /* that counted; whose test failed; that could not be read */
	__u64 sum;
	__u64 bucket[PROBE_BUCKETS];
};

/* Whose numbers processes have in probe_costs: those of task_within(). */
struct probe_namespace {
	__u64 dev;
	__u32 inum; /* 0: the initial one */
	__u32 level;
};
PYPERF_ASSERT_SIZE(struct probe_namespace, 16);

/*
 * probe_costs: process -> its hits of all probes while the rate is measured, also those that do not
 * count. 0: all processes that the namespace does not have.
 */
#define PROBE_PROCESSES 1024
struct probe_cost {
	__u64 emulated, stepped; /* what the kernel does with the instruction that it replaced */
};
PYPERF_ASSERT_SIZE(struct probe_cost, 16);

#endif /* PYPERF_PROBES_CONTRACT_H */
