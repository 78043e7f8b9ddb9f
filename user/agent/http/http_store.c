// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "agent/http/http_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "base/when.h"
#include "export/export.h"
#include "import/import.h"
#include "store/store.h"

#define RANGE_DEFAULT	"-15m"
#define BUCKETS_DEFAULT 60
#define BUCKETS_MAX	240
/*
 * Windows are that long or a part of it, and begin at multiples: so each step has the same number
 * of them.
 */
#define STEP_NS		(60 * NS_PER_S)
#define SERVICES_MAX	5000 /* in one answer */
#define LABELS_MAX	1000
/*
 * Limit for a profile: some 100 MB with its page, of which there may be four at once, or two that
 * are compared.
 */
#define FRAMES_MAX	(1U << 22)

/*
 * The page may do what its own policy says (scripts/embed-page), and, in an origin of its own,
 * nothing to ours. To be shown in a frame of ours is what it is for.
 */
#define FLAME_POLICY                                                                               \
	"frame-ancestors 'self'; base-uri 'none'; form-action 'none'; object-src 'none'; "         \
	"sandbox allow-scripts allow-downloads"

/* ---- what all have in common ----------------------------------------------------------------- */

/* [from, to) of two arguments. False: the answer says what is wrong. */
static bool read_range(const char *from, const char *to, struct store_query *q,
		       struct http_answer *a)
{
	struct timespec t;
	uint64_t now;

	clock_gettime(CLOCK_REALTIME, &t);
	now = timespec_ns(t);
	if (when_parse(*from ? from : RANGE_DEFAULT, now, &q->from_ns) ||
	    when_parse(*to ? to : "now", now, &q->to_ns))
		http_answer__text(a, 400, "from, to: " WHEN_FORMS);
	else if (q->from_ns >= q->to_ns)
		http_answer__text(a, 400, "from has to be before to");
	else
		return true;
	return false;
}

/* NULL: the answer says why. */
static struct store *open_store(const struct http_backend *b, struct http_answer *a)
{
	struct store *s = b->store_path ? store__open_read(b->store_path) : NULL;

	if (!b->store_path)
		http_answer__text(a, 404,
				  "this agent keeps nothing: see store in its configuration");
	else if (!s)
		http_answer__text(a, errno == ENOENT ? 404 : 500,
				  errno == ENOENT ? "nothing has been stored yet"
						  : "the store cannot be read; the log says why");
	return s;
}

/* Ends what was written to the body. */
static void finish(struct http_answer *a, FILE *f, int err, const char *type)
{
	if (!err && ferror(f))
		err = -ENOMEM;
	if (fclose(f) && !err)
		err = -ENOMEM;
	if (err)
		return http_answer__text(a, 500,
					 err == -ENOMEM
						 ? "out of memory: a shorter range"
						 : "the store cannot be read; the log says why");
	a->status = 200;
	a->type = type;
	a->policy = HTTP_INERT;
}

/* ---- services -------------------------------------------------------------------------------- */

struct service {
	uint32_t name;
	uint64_t windows, samples, last_ns;
	uint64_t *series;
};

struct services {
	struct strtab *names;
	struct service *list; /* in the order of first sight: strtab's numbers, less one */
	size_t cnt;
	unsigned bucket, bucket_cnt;
	bool more;
};

/* 0; -ENOMEM; -ENOSPC: it is new, and the list is full. */
static int find_service(struct services *all, const char *name, struct service **out)
{
	uint32_t id = strtab__add(all->names, name, strlen(name));
	struct service *s = &all->list[all->cnt];

	if (!id)
		return -ENOMEM;
	*out = &all->list[id - 1];
	if (id <= all->cnt)
		return 0;
	if (all->cnt == SERVICES_MAX)
		return -ENOSPC;
	s->series = calloc(all->bucket_cnt, sizeof(*s->series));
	if (!s->series)
		return -ENOMEM;
	s->name = id;
	all->cnt++;
	return 0;
}

static int add_service(void *ctx, const struct store_service *x)
{
	struct services *all = ctx;
	struct service *s;
	int err = find_service(all, x->name, &s);

	if (err == -ENOSPC) {
		all->more = true;
		return 0;
	}
	if (err)
		return err;
	s->windows += x->windows;
	s->samples += x->samples;
	s->series[all->bucket] += x->samples;
	if (x->last_ns > s->last_ns)
		s->last_ns = x->last_ns;
	return 0;
}

static int cmp_services(const void *a, const void *b, void *ctx)
{
	const struct service *sa = a, *sb = b;

	if (sa->samples != sb->samples)
		return sa->samples > sb->samples ? -1 : 1;
	return strcmp(strtab__get(ctx, sa->name, NULL), strtab__get(ctx, sb->name, NULL));
}

static void put_services(struct services *all, const struct store_query *q, uint64_t step,
			 const char *const *values, FILE *f)
{
	struct json j = { .f = f };

	json__object(&j, NULL);
	json__uint(&j, "from", q->from_ns / NS_PER_S);
	json__uint(&j, "to", q->to_ns / NS_PER_S);
	json__uint(&j, "step", step / NS_PER_S);
	json__bool(&j, "more", all->more);
	json__array(&j, "values");
	for (size_t i = 0; values && values[i]; i++)
		json__stringz(&j, NULL, values[i]);
	json__end(&j, ']');
	json__array(&j, "services");
	for (size_t i = 0; i < all->cnt; i++) {
		const struct service *s = &all->list[i];

		json__newline(&j);
		json__object(&j, NULL);
		json__stringz(&j, "name", strtab__get(all->names, s->name, NULL));
		json__uint(&j, "samples", s->samples);
		json__uint(&j, "windows", s->windows);
		json__uint(&j, "last", s->last_ns / NS_PER_S);
		json__array(&j, "series");
		for (unsigned k = 0; k < all->bucket_cnt; k++)
			json__uint(&j, NULL, s->series[k]);
		json__end(&j, ']');
		json__end(&j, '}');
	}
	json__end(&j, ']');
	json__end(&j, '}');
}

/*
 * Asks the store once for each step: together these queries read each window once, like a single
 * query for all.
 */
static int ask_services(struct store *s, struct services *all, const struct store_query *q,
			uint64_t step)
{
	struct store_query part = *q;
	int err = 0;

	for (unsigned i = 0; i < all->bucket_cnt && !err; i++) {
		part.from_ns = q->from_ns + i * step;
		part.to_ns = i + 1 == all->bucket_cnt ? q->to_ns : part.from_ns + step;
		all->bucket = i;
		err = store__services(s, &part, add_service, all);
	}
	return err;
}

/* How many of `unit` `n` is, rounded up. */
static uint64_t count_up(uint64_t n, uint64_t unit)
{
	return n / unit + (n % unit != 0);
}

static void services__free(struct services *all)
{
	for (size_t i = 0; i < all->cnt; i++)
		free(all->list[i].series);
	free(all->list);
	strtab__free(all->names);
}

void http_store__services(const struct http_backend *b, const struct http_args *args,
			  struct http_answer *a)
{
	struct label label = { STORE_SERVICE, args->service };
	struct store_query q = { .labels = &label, .label_cnt = args->service[0] != 0 };
	struct services all = { 0 };
	long long buckets = BUCKETS_DEFAULT;
	struct store *s;
	uint64_t step;
	int err = -ENOMEM;
	FILE *f;

	if (*args->buckets && parse_int(args->buckets, 1, BUCKETS_MAX, &buckets))
		return http_answer__text(a, 400, "buckets: a number from 1 to 240");
	if (!read_range(args->from, args->to, &q, a))
		return;
	s = open_store(b, a);
	if (!s)
		return;
	f = open_memstream(&a->body, &a->size);
	all.bucket_cnt = (unsigned)buckets;
	all.names = strtab__new();
	all.list = calloc(SERVICES_MAX, sizeof(*all.list));
	step = count_up(count_up(q.to_ns - q.from_ns, all.bucket_cnt), STEP_NS) * STEP_NS;
	all.bucket_cnt = (unsigned)count_up(q.to_ns - q.from_ns, step);
	if (f && all.names && all.list)
		err = ask_services(s, &all, &q, step);
	if (!err) {
		qsort_r(all.list, all.cnt, sizeof(*all.list), cmp_services, all.names);
		put_services(&all, &q, step, b->values, f);
	}
	services__free(&all);
	store__close(s);
	if (f)
		finish(a, f, err, HTTP_JSON);
	else
		http_answer__text(a, 500, "out of memory");
}

/* ---- labels ---------------------------------------------------------------------------------- */

struct labels {
	struct json j;
	unsigned cnt;
};

static int put_label(void *ctx, const struct label *x)
{
	struct labels *l = ctx;

	if (l->cnt++ >= LABELS_MAX)
		return 0;
	json__object(&l->j, NULL);
	json__stringz(&l->j, "name", x->name);
	json__stringz(&l->j, "value", x->value);
	json__end(&l->j, '}');
	return 0;
}

void http_store__labels(const struct http_backend *b, const struct http_args *args,
			struct http_answer *a)
{
	struct label label = { STORE_SERVICE, args->service };
	struct store_query q = { .labels = &label, .label_cnt = 1 };
	struct labels l = { 0 };
	struct store *s;
	int err;

	if (!read_range(args->from, args->to, &q, a))
		return;
	s = open_store(b, a);
	if (!s)
		return;
	l.j.f = open_memstream(&a->body, &a->size);
	if (!l.j.f) {
		store__close(s);
		return http_answer__text(a, 500, "out of memory");
	}
	json__object(&l.j, NULL);
	json__array(&l.j, "labels");
	err = store__labels(s, &q, put_label, &l);
	json__end(&l.j, ']');
	json__bool(&l.j, "more", l.cnt > LABELS_MAX);
	json__end(&l.j, '}');
	store__close(s);
	finish(a, l.j.f, err, HTTP_JSON);
}

/* ---- profiles -------------------------------------------------------------------------------- */

/* The profile of a service, or of all, in a range, to be freed; NULL: the answer says why. */
static struct import *load(struct store *s, const struct store_query *q, bool merge,
			   struct http_answer *a)
{
	const struct import_opts o = { .merge_processes = merge, .max_frames = FRAMES_MAX };
	struct import *im = import__new(&o);
	size_t windows = 0;
	int err = im ? store__profile(s, q, im, &windows) : -ENOMEM;

	if (!err)
		err = import__finish(im);
	if (!err && windows)
		return im;
	import__free(im);
	if (!err)
		http_answer__text(a, 404,
				  q->by_service
					  ? "nothing was stored at that time"
					  : "nothing was stored of this service at that time");
	else if (err == -E2BIG)
		http_answer__text(a, 413, "too much for the agent: a shorter range, or report");
	else
		http_answer__text(a, 500,
				  err == -ENOMEM ? "out of memory: a shorter range"
						 : "the store cannot be read; the log says why");
	return NULL;
}

/* One value type of a profile; NULL: the answer says why. */
static const struct profile *view(struct import *im, const char *value, struct http_answer *a)
{
	const struct profile *p = import__profile(im);
	int type = *value ? profile__find_value(p, value) : 0;
	const struct profile *one = type < 0 ? NULL : profile__view(p, (uint32_t)type);

	if (type < 0)
		http_answer__text(a, 404, "value: no profile of that time counts it");
	else if (!one)
		http_answer__text(a, 500, "out of memory");
	return one;
}

/*
 * Writes all profiles in one format; `page` shows one value type, a file without `value` has all.
 */
static void write_views(const struct profile *p, const struct profile *base,
			const struct export_opts *eo, struct http_answer *a, bool page)
{
	FILE *f = open_memstream(&a->body, &a->size);
	int err;

	if (!f)
		return http_answer__text(a, 500, "out of memory");
	err = export__write(export__find(page ? ".html" : ".pb.gz"), base, p, eo, f);
	finish(a, f, err, page ? HTTP_HTML : "application/octet-stream");
	if (a->status == 200 && page)
		a->policy = FLAME_POLICY;
	else if (a->status == 200)
		a->file = "profile.pb.gz";
}

static void write_profile(struct import *im, struct import *base, const char *value,
			  struct http_answer *a, bool page)
{
	const struct export_opts eo = { .lines = !base && import__has_lines(im),
					.threads = import__has_threads(im) };
	const struct profile *one = NULL, *before = NULL;

	if (!page && !*value)
		return write_views(import__profile(im), NULL, &eo, a, page);
	one = view(im, value, a);
	if (one && base)
		before = view(base, value, a);
	if (one && (before || !base))
		write_views(one, before, &eo, a, page);
	if (page && a->status == 404)
		a->policy = FLAME_POLICY; /* the text stands in the frame */
	if (base)
		profile__free_view(before, import__profile(base));
	profile__free_view(one, import__profile(im));
}

static void answer_profile(const struct http_backend *b, const struct http_args *args,
			   struct http_answer *a, bool page)
{
	struct label label = { STORE_SERVICE, args->service };
	bool all = !strcmp(args->all, "1");
	struct store_query q = { .labels = &label, .label_cnt = !all, .by_service = all };
	struct store_query base_q = q;
	bool compared = page && *args->base_from;
	struct import *im = NULL, *base = NULL;
	struct store *s;

	if (!*args->service == !all)
		return http_answer__text(a, 400, "service: which one, or all=1?");
	if (!read_range(args->from, args->to, &q, a) ||
	    (compared && !read_range(args->base_from, args->base_to, &base_q, a)))
		return;
	s = open_store(b, a);
	if (!s)
		return;
	im = load(s, &q, compared, a);
	if (im && compared)
		base = load(s, &base_q, true, a);
	store__close(s);
	if (im && (base || !compared))
		write_profile(im, base, args->value, a, page);
	import__free(base);
	import__free(im);
}

void http_store__profile(const struct http_backend *b, const struct http_args *args,
			 struct http_answer *a)
{
	answer_profile(b, args, a, false);
}

void http_store__flame(const struct http_backend *b, const struct http_args *args,
		       struct http_answer *a)
{
	answer_profile(b, args, a, true);
}
