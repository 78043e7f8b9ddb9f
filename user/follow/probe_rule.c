/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "follow/probe_rule.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/arch/arch.h"
#include "elf/usdt_args.h"

static const uint8_t abi_regs[] = ARCH_ARG_REGS;
#define ABI_ARGS (sizeof(abi_regs) / sizeof(abi_regs[0]))

/* ---- words ----------------------------------------------------------------------------------- */

/* The text of a rule that is being parsed. */
struct rule_reader {
	const char *p; /* what is left */
	char *why;
};

static int refuse(const struct rule_reader *r, const char *at, const char *must)
{
	int len = (int)strcspn(at, " ");

	if (!*at)
		snprintf(r->why, PROBE_WHY_MAX, "it ends where %s must stand", must);
	else
		snprintf(r->why, PROBE_WHY_MAX, "'%.*s': must be %s", len < 40 ? len : 40, at,
			 must);
	return -EINVAL;
}

static void skip_blanks(struct rule_reader *r)
{
	r->p += strspn(r->p, " ");
}

/* A whole word. */
static bool take_word(struct rule_reader *r, const char *word)
{
	size_t len = strlen(word);

	skip_blanks(r);
	if (strncmp(r->p, word, len) != 0 || (r->p[len] && r->p[len] != ' '))
		return false;
	r->p += len;
	return true;
}

/* "(uint32)"; none is none */
static int take_type(struct rule_reader *r, struct probe_said *a)
{
	static const struct {
		const char *name;
		uint8_t size, is_signed;
	} types[] = {
		{ "(int8)", 1, 1 },   { "(uint8)", 1, 0 },  { "(int16)", 2, 1 },
		{ "(uint16)", 2, 0 }, { "(int32)", 4, 1 },  { "(uint32)", 4, 0 },
		{ "(int64)", 8, 1 },  { "(uint64)", 8, 0 },
	};

	if (*r->p != '(')
		return 0;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (strncmp(r->p, types[i].name, strlen(types[i].name)) != 0)
			continue;
		a->size = types[i].size;
		a->is_signed = types[i].is_signed;
		r->p += strlen(types[i].name);
		skip_blanks(r);
		return 0;
	}
	return refuse(r, r->p, "(int8) to (int64) or (uint8) to (uint64)");
}

static int take_arg(struct rule_reader *r, struct probe_said *a)
{
	const char *at;
	unsigned long n = 0;
	char *end;

	*a = (struct probe_said){ .number = 0 };
	skip_blanks(r);
	if (take_type(r, a))
		return -EINVAL;
	at = r->p;
	if (!strncmp(at, "arg", 3) && isdigit((unsigned char)at[3])) {
		n = strtoul(at + 3, &end, 10);
		r->p = end;
	}
	if (!n || n > PROBE_ARGS_MAX)
		return refuse(r, at, "an argument, arg1 to arg6 of a function");
	a->number = (uint8_t)n;
	return 0;
}

static int take_op(struct rule_reader *r, uint32_t *op)
{
	/* The longer ones first. */
	static const struct {
		const char *text;
		uint32_t op;
	} ops[] = {
		{ "==", PROBE_EQ }, { "!=", PROBE_NE }, { "<=", PROBE_LE },
		{ ">=", PROBE_GE }, { "<", PROBE_LT },	{ ">", PROBE_GT },
	};

	skip_blanks(r);
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (strncmp(r->p, ops[i].text, strlen(ops[i].text)) != 0)
			continue;
		r->p += strlen(ops[i].text);
		*op = ops[i].op;
		return 0;
	}
	return refuse(r, r->p, "==, !=, <, <=, > or >=");
}

/* Decimal or hexadecimal; a negative one as its complement. */
static int take_number(struct rule_reader *r, uint64_t *value)
{
	const char *at;
	bool negative;
	char *end;

	skip_blanks(r);
	at = r->p;
	negative = *at == '-';
	errno = 0;
	if (isdigit((unsigned char)at[negative])) {
		bool hex = at[negative] == '0' && (at[negative + 1] | 0x20) == 'x';

		*value = strtoull(at + negative, &end, hex ? 16 : 10);
		if (!errno && (!*end || *end == ' ') && (!negative || *value <= 1ULL << 63)) {
			*value = negative ? 0 - *value : *value;
			r->p = end;
			return 0;
		}
	}
	return refuse(r, at, "a number of 64 bits, like 4096, -1 or 0x1000");
}

/* Behind "if" */
static int take_tests(struct rule_reader *r, struct probe_words *w)
{
	do {
		uint32_t n = w->test_cnt;

		if (n == PROBE_TESTS) {
			snprintf(r->why, PROBE_WHY_MAX, "at most %d tests", PROBE_TESTS);
			return -EINVAL;
		}
		if (take_arg(r, &w->args[n]) || take_op(r, &w->tests[n].op) ||
		    take_number(r, &w->tests[n].value))
			return -EINVAL;
		w->test_cnt++;
	} while (take_word(r, "and"));
	return 0;
}

/* Behind "sum" and "hist" */
static int take_amount(struct rule_reader *r, struct probe_words *w, bool hist)
{
	if (w->amount.number) {
		snprintf(r->why, PROBE_WHY_MAX, "'%s': one argument at a time",
			 hist ? "hist" : "sum");
		return -EINVAL;
	}
	w->hist = hist;
	w->sum = !hist;
	if (take_arg(r, &w->amount))
		return -EINVAL;
	w->bytes = take_word(r, "bytes");
	return 0;
}

int probe_words__parse(struct probe_words *w, const char *text, char why[PROBE_WHY_MAX])
{
	struct rule_reader r = { text, why };
	int err = 0;

	*w = (struct probe_words){ .test_cnt = 0 };
	for (skip_blanks(&r); *r.p && !err; skip_blanks(&r)) {
		if (take_word(&r, "if"))
			err = take_tests(&r, w);
		else if (take_word(&r, "sum"))
			err = take_amount(&r, w, false);
		else if (take_word(&r, "hist"))
			err = take_amount(&r, w, true);
		else
			err = refuse(&r, r.p, "if, sum or hist");
	}
	return err;
}

/* ---- rules ----------------------------------------------------------------------------------- */

static int find_in_note(const struct probe_said *said, const char *args, struct probe_arg *out,
			char why[PROBE_WHY_MAX])
{
	int err = usdt_args__find(args, said->number, out);

	if (!err && said->size) {
		snprintf(why, PROBE_WHY_MAX, "arg%u: no type may stand in front; the probe says it",
			 said->number);
		return -EINVAL;
	}
	if (err == -ENOENT)
		snprintf(why, PROBE_WHY_MAX, "arg%u: the probe has fewer arguments", said->number);
	else if (err)
		snprintf(why, PROBE_WHY_MAX,
			 "arg%u: it is in no register, memory or constant that can be read",
			 said->number);
	return err;
}

static int find_arg(const struct probe_said *said, const char *args, struct probe_arg *out,
		    char why[PROBE_WHY_MAX])
{
	if (args)
		return find_in_note(said, args, out, why);
	if (said->number > ABI_ARGS) {
		snprintf(why, PROBE_WHY_MAX, "arg%u: only arg1 to arg%zu are in registers",
			 said->number, ABI_ARGS);
		return -EINVAL;
	}
	*out = (struct probe_arg){ .kind = PROBE_ARG_REG,
				   .reg = abi_regs[said->number - 1],
				   .index = PROBE_NO_REG,
				   .size = said->size ? said->size : 8,
				   .is_signed = said->size ? said->is_signed : 1 };
	return 0;
}

int probe_words__rule(const struct probe_words *w, const char *args, struct probe_rule *out,
		      char why[PROBE_WHY_MAX])
{
	int err = 0;

	*out = (struct probe_rule){ .test_cnt = w->test_cnt };
	for (uint32_t i = 0; i < w->test_cnt && !err; i++) {
		err = find_arg(&w->args[i], args, &out->tests[i].arg, why);
		out->tests[i].value = w->tests[i].value;
		out->tests[i].op = w->tests[i].op;
	}
	if (err || !w->amount.number)
		return err;
	out->has_amount = 1;
	err = find_arg(&w->amount, args, &out->amount, why);
	if (!args && !w->amount.size)
		out->amount.is_signed = 0; /* sizes, as most of what is added up */
	return err;
}
