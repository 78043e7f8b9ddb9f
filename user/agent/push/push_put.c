// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The pprof file itself, PUT to an address made of a template, such as
 *
 *	https://store.example/profiles/{service}/{date}/{start}-{id}.pb.gz
 *
 * With {id} in it, a window that is sent twice is the same object.
 */
#include "agent/push/push_put.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "agent/push/push_kind.h"
#include "base/clock.h"

#define PLACE_MAX 140 /* "label:" and a name */

/* Not "", "." or "..": an address with those is another one. */
static void add_part(struct strbuf *to, const char *value)
{
	size_t dots = strspn(value, ".");

	if (!value[dots])
		strbuf__addz(to, dots ? "_" : "unknown");
	else
		push_escape(to, value);
}

static void add_label(struct strbuf *to, const struct window *w, const char *name)
{
	const char *value = window__label(w, name);

	add_part(to, value ? value : "");
}

static void add_time(struct strbuf *to, uint64_t unix_ns, const char *format)
{
	time_t t = (time_t)(unix_ns / NS_PER_S);
	char text[32];
	struct tm tm;

	if (gmtime_r(&t, &tm) && strftime(text, sizeof(text), format, &tm))
		strbuf__addz(to, text);
}

/* false: there is no such place. */
static bool add_place(struct strbuf *to, const struct window *w, const char *place)
{
	if (!strcmp(place, "service"))
		add_label(to, w, "service_name");
	else if (!strcmp(place, "host"))
		add_label(to, w, "host");
	else if (!strncmp(place, "label:", 6) && window_label__valid(place + 6))
		add_label(to, w, place + 6);
	else if (!strcmp(place, "id"))
		strbuf__addz(to, w->id);
	else if (!strcmp(place, "start"))
		add_time(to, w->start_unix_ns, "%Y%m%dT%H%M%SZ");
	else if (!strcmp(place, "date"))
		add_time(to, w->start_unix_ns, "%Y-%m-%d");
	else if (!strcmp(place, "hour"))
		add_time(to, w->start_unix_ns, "%H");
	else if (!strcmp(place, "seconds"))
		strbuf__addf(to, "%" PRIu64, (uint64_t)(w->duration_ns / NS_PER_S));
	else
		return false;
	return true;
}

int push_template(struct strbuf *to, const char *template, const struct window *w)
{
	char place[PLACE_MAX];

	while (*template) {
		size_t len = strcspn(template, "{}");

		strbuf__add(to, template, len);
		template += len;
		if (!*template)
			break;
		len = strcspn(template + 1, "{}");
		if (*template != '{' || template[1 + len] != '}' || len >= sizeof(place))
			return -EINVAL;
		memcpy(place, template + 1, len);
		place[len] = 0;
		if (!add_place(to, w, place))
			return -EINVAL;
		template += len + 2;
	}
	return 0;
}

static int encode(const struct push_config *c, const struct window *const *windows, size_t cnt,
		  struct push_message *m)
{
	const struct window *w = windows[0];

	(void)cnt;
	strbuf__add(&m->body, w->pprof, w->pprof_size);
	return push_template(&m->url, c->url, w);
}

const struct push_kind push_put = {
	.name = "put",
	.content_type =
		"application/octet-stream", /* with application/gzip some stores unpack it */
	.put = true,
	.encode = encode,
};
