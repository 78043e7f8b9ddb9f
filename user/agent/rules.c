/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/rules.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "store/window.h"

static void free_labels(struct rule_label *labels, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		free(labels[i].name);
		free(labels[i].value);
	}
}

void rule__free(struct rule *r)
{
	free_labels(r->match, r->match_cnt);
	free_labels(r->set, r->set_cnt);
	*r = (struct rule){ 0 };
}

static int add_label(struct rule_label *labels, size_t *cnt, const char *name, const char *value,
		     const char **why)
{
	struct rule_label *l = &labels[*cnt];

	*why = "8 of them at most, each with a name of letters, digits and _ behind the point";
	if (*cnt == RULE_LABELS_MAX || !window_label__valid(name))
		return -EINVAL;
	*l = (struct rule_label){ strdup(name), strdup(value) };
	if (l->name && l->value) {
		++*cnt;
		return 0;
	}
	free_labels(l, 1);
	return -ENOMEM;
}

static int set_rate(struct rule *r, const char *value, const char **why)
{
	long long n;

	*why = "1/N, N from 1 to 10000";
	if (strncmp(value, "1/", 2) || parse_int(value + 2, 1, RULE_RATE_MAX, &n))
		return -EINVAL;
	r->one_in = (uint32_t)n;
	return 0;
}

int rule__set(struct rule *r, const char *key, const char *value, const char **why)
{
	if (!strncmp(key, "match.", 6))
		return add_label(r->match, &r->match_cnt, key + 6, value, why);
	if (!strcmp(key, "set.host")) {
		*why = "left out: 'host' of [labels] is that of all processes";
		return -EINVAL;
	}
	if (!strncmp(key, "set.", 4))
		return add_label(r->set, &r->set_cnt, key + 4, value, why);
	if (!strcmp(key, "drop")) {
		*why = "yes or no";
		r->drop = !strcmp(value, "yes");
		return r->drop || !strcmp(value, "no") ? 0 : -EINVAL;
	}
	return strcmp(key, "rate") ? -ENOENT : set_rate(r, value, why);
}

int rule__check(const struct rule *r, const char **why)
{
	*why = "it matches nothing: give match.LABEL = GLOB";
	if (!r->match_cnt)
		return -EINVAL;
	*why = "it does nothing: give set.LABEL, drop or rate";
	return r->set_cnt || r->drop || r->one_in ? 0 : -EINVAL;
}

void rule__print(const struct rule *r, FILE *f)
{
	fputs("\n[rule]\n", f);
	for (size_t i = 0; i < r->match_cnt; i++)
		fprintf(f, "match.%s = %s\n", r->match[i].name, r->match[i].value);
	for (size_t i = 0; i < r->set_cnt; i++)
		fprintf(f, "set.%s = %s\n", r->set[i].name, r->set[i].value);
	if (r->drop)
		fputs("drop = yes\n", f);
	if (r->one_in)
		fprintf(f, "rate = 1/%" PRIu32 "\n", r->one_in);
}

bool rule__matches(const struct rule *r, const char *(*get)(void *ctx, const char *name), void *ctx)
{
	for (size_t i = 0; i < r->match_cnt; i++) {
		const char *value = get(ctx, r->match[i].name);

		if (!glob_match(r->match[i].value, value ? value : ""))
			return false;
	}
	return true;
}
