/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_RULES_H
#define PYPERF_AGENT_RULES_H
/*
 * The sections [rule] of the configuration: what to do with processes that have certain labels.
 *
 *	[rule]
 *	match.service_name = pip*	globs: all must match; a label that a process does not have
 *					is ""
 *	match.k8s_namespace = build-?
 *	set.service_name = pip		a label, "" removes it; {NAME} is the value of another
 *	set.team = {k8s_namespace}
 *	drop = yes			leave out its samples
 *	rate = 1/10			one sample in ten, which stands for all ten
 *
 * Rules apply in the order of the file, and each sees what earlier ones have set. Plain data except
 * for the texts, which are owned.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define RULES_MAX	64
#define RULE_LABELS_MAX 8 /* of each kind */
#define RULE_RATE_MAX	10000

struct rule_label {
	char *name, *value; /* of the label, and a glob or what it becomes */
};

struct rule {
	struct rule_label match[RULE_LABELS_MAX], set[RULE_LABELS_MAX];
	size_t match_cnt, set_cnt;
	bool drop;
	uint32_t one_in; /* 0: not set */
};

void rule__free(struct rule *r);
/* One key. 0; -ENOENT: no such key; -EINVAL: *why says what is allowed, a literal; -ENOMEM. */
int rule__set(struct rule *r, const char *key, const char *value, const char **why);
/* Checks what concerns several keys. 0 or -EINVAL and *why. */
int rule__check(const struct rule *r, const char **why);
/* As it stands in a file. */
void rule__print(const struct rule *r, FILE *f);

/* Whether all its globs match; `get` has a label's value, NULL: there is none. */
bool rule__matches(const struct rule *r, const char *(*get)(void *ctx, const char *name),
		   void *ctx);

#endif /* PYPERF_AGENT_RULES_H */
