// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Metrics, health and profiles for programs, and the table of paths. */
#include "agent/http/http_routes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/http/http_page.h"
#include "agent/http/http_store.h"
#include "agent/http/metrics.h"
#include "base/str.h"
#include "store/store.h"

#define SECONDS_DEFAULT 30 /* as Go's net/http/pprof has it */
#define SECONDS_MAX	600
#define PUSH_MAX	64 /* destinations in the figures */

/* ---- answers --------------------------------------------------------------------------------- */

void http_answer__free(struct http_answer *a)
{
	free(a->body);
	a->body = NULL;
	a->size = 0;
}

void http_answer__text(struct http_answer *a, unsigned status, const char *text)
{
	http_answer__free(a);
	*a = (struct http_answer){ .status = status, .type = HTTP_TEXT, .policy = HTTP_INERT };
	if (asprintf(&a->body, "%s\n", text) < 0)
		a->body = NULL;
	a->size = a->body ? strlen(a->body) : 0;
}

/* ---- programs -------------------------------------------------------------------------------- */

/*
 * Nothing when there is no store, or none that can be read: the log says why, once it has been
 * begun.
 */
static void put_store(const struct http_backend *b, FILE *f)
{
	struct store_stats s;
	struct store *store;

	if (!b->store_path || access(b->store_path, F_OK))
		return;
	store = store__open_read(b->store_path);
	if (store && !store__stats(store, &s))
		metrics__store(&s, f);
	store__close(store);
}

/* They name services. */
static void put_loops(const struct http_backend *b, FILE *f)
{
	struct loop_figures *list = calloc(LOOP_SERVICES + 1, sizeof(*list));

	if (list)
		metrics__loops(list, b->loops(b->ctx, list, LOOP_SERVICES + 1), f);
	free(list);
}

static void answer_metrics(const struct http_backend *b, const struct http_args *args,
			   struct http_answer *a)
{
	struct push_stats push[PUSH_MAX];
	struct agent_stats s = { 0 };
	FILE *f = open_memstream(&a->body, &a->size);
	bool failed;

	if (!f)
		return http_answer__text(a, 500, "out of memory");
	b->stats(b->ctx, &s);
	metrics__agent(&s, f);
	metrics__process(&s, f);
	put_store(b, f);
	if (b->push)
		metrics__push(push, b->push(b->ctx, push, PUSH_MAX), f);
	if (b->loops && args->trusted)
		put_loops(b, f);
	failed = ferror(f);
	failed |= fclose(f) != 0;
	if (failed)
		return http_answer__text(a, 500, "out of memory");
	a->status = 200;
	a->type = METRICS_TYPE;
	a->policy = HTTP_INERT;
}

static void answer_health(const struct http_backend *b, const struct http_args *args,
			  struct http_answer *a)
{
	const char *why = "ok";
	bool good = b->healthy(b->ctx, &why);

	(void)args;
	http_answer__text(a, good ? 200 : 503, good ? "ok" : why);
}

static void answer_pprof_index(const struct http_backend *b, const struct http_args *args,
			       struct http_answer *a)
{
	(void)b;
	(void)args;
	http_answer__text(a, 200,
			  "profile?seconds=N: a pprof profile of this host's Python, of N seconds "
			  "from now (default 30)\n"
			  "go tool pprof http://ADDRESS/debug/pprof/profile?seconds=10");
}

static void answer_profile(const struct http_backend *b, const struct http_args *args,
			   struct http_answer *a)
{
	long long seconds = SECONDS_DEFAULT;
	FILE *f;
	int err;

	if (*args->seconds && parse_int(args->seconds, 1, SECONDS_MAX, &seconds))
		return http_answer__text(a, 400, "seconds: a number from 1 to 600");
	f = open_memstream(&a->body, &a->size);
	if (!f)
		return http_answer__text(a, 500, "out of memory");
	err = b->profile(b->ctx, (unsigned)seconds, args->client_fd, f);
	if (!err && ferror(f))
		err = -EIO;
	if (fclose(f) && !err)
		err = -ENOMEM;
	if (err == -EBUSY)
		return http_answer__text(a, 503,
					 "as many profiles as can be taken at once are being "
					 "taken: try again");
	/* Whoever asked gets what there is. */
	if (err && err != -ECANCELED)
		return http_answer__text(a, 500, strerror(-err));
	a->status = 200;
	a->type = "application/octet-stream";
	a->policy = HTTP_INERT;
	a->file = "profile.pb.gz";
}

/*
 * `go tool pprof` posts the addresses that a profile has no name for, and gives the profile up when
 * the answer is an error. What the agent can name has its name in the profile already, so there is
 * nothing to add: the answer has no address. That there may be names is what a number above 0 says;
 * with 0 some clients ask for the program's file.
 */
static void answer_symbol(const struct http_backend *b, const struct http_args *args,
			  struct http_answer *a)
{
	(void)b;
	(void)args;
	http_answer__text(a, 200, "num_symbols: 1");
}

/* ---- which ----------------------------------------------------------------------------------- */

static const struct http_route routes[] = {
	{ "/", HTTP_QUICK, .answer = http_page__answer },
	{ "/flame", HTTP_QUERY, .answer = http_store__flame },
	{ "/api/services", HTTP_QUERY, .answer = http_store__services },
	{ "/api/labels", HTTP_QUERY, .answer = http_store__labels },
	{ "/api/profile", HTTP_QUERY, .answer = http_store__profile },
	{ "/metrics", HTTP_FIGURE, .figures = true, .answer = answer_metrics },
	{ "/healthz", HTTP_QUICK, .open = true, .answer = answer_health },
	{ "/debug/pprof/", HTTP_QUICK, .answer = answer_pprof_index },
	{ "/debug/pprof/profile", HTTP_SAMPLE, .answer = answer_profile },
	{ "/debug/pprof/symbol", HTTP_QUICK, .posts = true, .answer = answer_symbol },
};

const struct http_route *http_route__find(const char *path)
{
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
		if (!strcmp(path, routes[i].path))
			return &routes[i];
	return NULL;
}

char *http_args__field(struct http_args *args, const char *name, size_t *size)
{
#define FIELD(arg, member)                                                                         \
	if (!strcmp(name, arg)) {                                                                  \
		*size = sizeof(args->member);                                                      \
		return args->member;                                                               \
	}
	FIELD("seconds", seconds)
	FIELD("service", service)
	FIELD("all", all)
	FIELD("from", from)
	FIELD("to", to)
	FIELD("base-from", base_from)
	FIELD("base-to", base_to)
	FIELD("buckets", buckets)
	FIELD("value", value)
#undef FIELD
	return NULL;
}
