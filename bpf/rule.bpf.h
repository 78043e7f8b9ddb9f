/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_RULE_H
#define PYPERF_RULE_H
/*
 * What a hit of a probe must be like, and what it is worth: before anything else is done.
 * Input:   the registers at the hit, and a struct probe_rule.
 * Output:  an amount, or that the hit does not count.
 * Cost:    one look at the registers for each argument; one read if it is in memory.
 * Fails:   an argument in memory that cannot be read.
 */
#include "kernel_types.bpf.h"

enum rule_verdict {
	RULE_COUNTS = 0,
	RULE_OTHER = 1,	 /* a test is not true */
	RULE_UNREAD = 2, /* an argument could not be read */
};

/* Of whose bytes only the lower ones are the argument's. */
BPF_INLINE __u64 extended(__u64 value, __u32 size, __u32 is_signed)
{
	__u32 shift = size < 8 ? 64 - 8 * (size & 7) : 0;

	value <<= shift & 63;
	return is_signed ? (__u64)((__s64)value >> (shift & 63)) : value >> (shift & 63);
}

/* See arch_reg(), which does not have the stack pointer. */
BPF_INLINE __u64 register_of(const user_regs *regs, __u32 n)
{
	__u64 value = arch_reg(regs, n);

	if (n == ARCH_REG_SP) {
		__asm__ volatile("" : "+r"(regs));
		value = arch_sp(regs);
		__asm__ volatile("" : "+r"(value));
	}
	return value;
}

/* 0, or an error of the read. */
BPF_INLINE int arg_value(const user_regs *regs, const struct probe_arg *a, __u64 *out)
{
	__u64 value = (__u64)a->value, read = 0;
	int err = 0;

	if (a->kind != PROBE_ARG_CONST)
		value += register_of(regs, a->reg);
	if (a->kind == PROBE_ARG_MEMORY) {
		if (a->index != PROBE_NO_REG)
			value += register_of(regs, a->index) * a->scale;
		err = read_user(&read, a->size <= 8 ? a->size : 8, value);
		value = read;
	}
	*out = extended(value, a->size, a->is_signed);
	return err;
}

BPF_INLINE int is_true(const struct probe_test *t, __u64 value)
{
	int less = t->arg.is_signed ? (__s64)value < (__s64)t->value : value < t->value;
	int equal = value == t->value;

	switch (t->op) {
	case PROBE_EQ:
		return equal;
	case PROBE_NE:
		return !equal;
	case PROBE_LT:
		return less;
	case PROBE_LE:
		return less | equal;
	case PROBE_GT:
		return !(less | equal);
	default:
		return !less;
	}
}

/* *amount: 1, if the rule does not say what counts. enum rule_verdict. */
BPF_INLINE __u32 judge(const user_regs *regs, const struct probe_rule *r, __u64 *amount)
{
	__u64 value = 0;

	*amount = 1;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PROBE_TESTS && i < r->test_cnt; i++) {
		if (arg_value(regs, &r->tests[i].arg, &value))
			return RULE_UNREAD;
		if (!is_true(&r->tests[i], value))
			return RULE_OTHER;
	}
	return r->has_amount && arg_value(regs, &r->amount, amount) ? RULE_UNREAD : RULE_COUNTS;
}

#endif /* PYPERF_RULE_H */
