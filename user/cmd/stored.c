/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/stored.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "base/stream.h"
#include "base/when.h"

#define NAMED_MAX 10	     /* services that a message names */
#define ASKED_MAX (1U << 16) /* labels on a command line */

/* ---- Options ---- */

bool stored__takes(int opt)
{
	return opt == STORED_PATH || opt == STORED_SERVICE || opt == STORED_LABEL;
}

/* `name` becomes the label's. */
static int add_label(struct stored *s, char *name, const char *value)
{
	if (!name || ARRAY_GROW(s->labels, s->label_cap, s->label_cnt, ASKED_MAX)) {
		free(name);
		return log_no_memory();
	}
	s->labels[s->label_cnt++] = (struct label){ .name = name, .value = value };
	return 0;
}

static int set_service(struct stored *s, const char *arg)
{
	if (s->service) {
		log_err("--service %s: can be given once only (first: %s)", arg, s->service);
		return -EINVAL;
	}
	s->service = arg;
	return add_label(s, strdup(STORE_SERVICE), arg);
}

static int set_label(struct stored *s, const char *arg)
{
	const char *equals = strchr(arg, '=');

	if (!equals || equals == arg) {
		log_err("--label %s: must be NAME=VALUE", arg);
		return -EINVAL;
	}
	return add_label(s, strndup(arg, (size_t)(equals - arg)), equals + 1);
}

int stored__set(struct stored *s, int opt, const char *arg)
{
	s->used = true;
	switch (opt) {
	case STORED_SERVICE:
		return set_service(s, arg);
	case STORED_LABEL:
		return set_label(s, arg);
	case STORED_PATH:
		s->path = arg;
		break;
	}
	return 0;
}

void stored__free(struct stored *s)
{
	for (size_t i = 0; i < s->label_cnt; i++)
		free((char *)s->labels[i].name);
	free(s->labels);
	*s = (struct stored){ 0 };
}

static int parse_time(const char *name, const char *text, uint64_t now_ns, uint64_t *out)
{
	int err = when_parse(text, now_ns, out);

	if (err)
		log_err("%s %s: not a time; like " WHEN_FORMS, name, text);
	return err;
}

int stored__range(struct stored_range *r, const char *from_name, const char *from,
		  const char *to_name, const char *to)
{
	struct timespec now;
	int err;

	clock_gettime(CLOCK_REALTIME, &now);
	err = parse_time(from_name, from, timespec_ns(now), &r->from_ns);
	err = err ? err : parse_time(to_name, to, timespec_ns(now), &r->to_ns);
	if (!err && r->from_ns >= r->to_ns) {
		log_err("%s %s: not before %s %s", from_name, from, to_name, to);
		err = -EINVAL;
	}
	return err;
}

/* ---- Nothing found: what there is ---- */

struct names {
	struct strbuf text;
	size_t cnt;
};

static int add_name(void *ctx, const struct store_service *x)
{
	struct names *n = ctx;

	if (++n->cnt > NAMED_MAX)
		return 0;
	strbuf__addz(&n->text, n->cnt > 1 ? ", " : "");
	str_sanitise(&n->text, x->name, strlen(x->name), 80);
	return 0;
}

static int say_where(const struct store_stats *stats, const char *when)
{
	char oldest[WHEN_LEN], newest[WHEN_LEN];

	when_print(stats->oldest_ns, oldest);
	when_print(stats->newest_ns, newest);
	if (stats->windows)
		log_err("no windows %s; the store has %" PRIu64 " that start from %s to %s", when,
			stats->windows, oldest, newest);
	else
		log_err("the store is empty: no window is finished yet");
	return -ENOENT;
}

static int say_which(const struct stored *s, const struct names *n, const char *when)
{
	char more[32] = "";

	if (n->cnt > NAMED_MAX)
		snprintf(more, sizeof(more), " and %zu more", n->cnt - NAMED_MAX);
	if (s->service)
		log_err("no windows of service '%s'%s %s; there are: %s%s", s->service,
			s->label_cnt > 1 ? " with these labels" : "", when,
			n->text.err ? "" : n->text.s, more);
	else
		log_err("no windows with these labels %s; --list shows what there is", when);
	return -ENOENT;
}

/* Always an error. */
static int say_nothing(const struct stored *s, const struct stored_range *r, struct store *store)
{
	const struct store_query q = { .from_ns = r->from_ns, .to_ns = r->to_ns };
	char from[WHEN_LEN], to[WHEN_LEN], when[2 * WHEN_LEN + 16];
	struct store_stats stats;
	struct names n = { 0 };
	int err = store__services(store, &q, add_name, &n);

	when_print(r->from_ns, from);
	when_print(r->to_ns, to);
	snprintf(when, sizeof(when), "from %s to %s", from, to);
	if (!err && n.cnt)
		err = say_which(s, &n, when);
	else if (!err)
		err = store__stats(store, &stats);
	if (!err)
		err = say_where(&stats, when);
	strbuf__free(&n.text);
	return err;
}

/* ---- Profiles ---- */

static struct store *open_store(const struct stored *s)
{
	struct store *store = store__open_read(s->path ? s->path : STORE_PATH);

	if (!store && errno == ENOENT && !s->path)
		log_info("it is the agent's; --store FILE names another one");
	return store;
}

int stored__load(const struct stored *s, const struct stored_range *r, struct import *im)
{
	const struct store_query q = { .from_ns = r->from_ns,
				       .to_ns = r->to_ns,
				       .labels = s->labels,
				       .label_cnt = s->label_cnt };
	struct store *store = open_store(s);
	size_t windows;
	int err;

	if (!store)
		return -errno;
	err = store__profile(store, &q, im, &windows);
	if (!err && !windows)
		err = say_nothing(s, r, store);
	store__close(store);
	return err ? err : import__finish(im);
}

/* ---- The list ---- */

static int print_service(void *ctx, const struct store_service *x)
{
	char first[WHEN_LEN], last[WHEN_LEN];
	struct strbuf name = { 0 };
	size_t *cnt = ctx;
	int err;

	if (!(*cnt)++)
		printf("%9s %12s  %-*s %-*s SERVICE\n", "WINDOWS", "SAMPLES", WHEN_LEN, "FROM",
		       WHEN_LEN, "TO");
	str_sanitise(&name, x->name, strlen(x->name), 0);
	when_print(x->first_ns, first);
	when_print(x->last_ns, last);
	err = name.err ? log_no_memory() : 0;
	if (!err)
		printf("%9" PRIu64 " %12" PRIu64 "  %s  %s  %s\n", x->windows, x->samples, first,
		       last, name.len ? name.s : "");
	strbuf__free(&name);
	return err;
}

static int print_label(void *ctx, const struct label *x)
{
	struct strbuf b = { 0 };
	size_t *cnt = ctx;
	int err;

	(*cnt)++;
	str_sanitise(&b, x->name, strlen(x->name), 0);
	strbuf__addc(&b, '=');
	str_sanitise(&b, x->value, strlen(x->value), 0);
	err = b.err ? log_no_memory() : 0;
	if (!err)
		puts(b.s);
	strbuf__free(&b);
	return err;
}

int stored__list(const struct stored *s, const struct stored_range *r)
{
	const struct store_query q = { .from_ns = r->from_ns,
				       .to_ns = r->to_ns,
				       .labels = s->labels,
				       .label_cnt = s->label_cnt };
	struct store *store = open_store(s);
	size_t cnt = 0;
	int err;

	if (!store)
		return -errno;
	err = s->service ? store__labels(store, &q, print_label, &cnt)
			 : store__services(store, &q, print_service, &cnt);
	if (!err && !cnt)
		err = say_nothing(s, r, store);
	store__close(store);
	if (!err) {
		err = stream__flush(stdout);
		if (err)
			log_err("standard output: %s", strerror(-err));
	}
	return err;
}
