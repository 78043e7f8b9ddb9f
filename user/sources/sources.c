/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sources/sources.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/nearest.h"

/* The rows of each file. */
static const struct source *const files[] = {
	perf_sources,	  wait_sources,	 growth_sources,     alloc_sources,
	refcount_sources, probe_sources, tracepoint_sources,
};

int companion__open(struct source_use *u, const struct world *w)
{
	(void)u, (void)w;
	return 0;
}

int companion__start(struct source_use *u)
{
	(void)u;
	return 0;
}

void companion__stop(struct source_use *u)
{
	(void)u;
}

const struct source *source__next(size_t *at)
{
	size_t skip = *at;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		for (const struct source *s = files[i]; s->check; s++) {
			if (skip--)
				continue;
			(*at)++;
			return s;
		}
	}
	return NULL;
}

const char *source__name(const struct source *s)
{
	return value_type__name(&s->type);
}

const struct source *source__of_event(uint32_t event)
{
	const struct source *s;

	for (size_t at = 0; (s = source__next(&at));)
		if (s->type.event == event)
			return s;
	return NULL;
}

struct value_type source_spec__type(const struct source_spec *spec)
{
	struct value_type type = spec->source->type;

	if (spec->name[0])
		memcpy(type.name, spec->name, sizeof(type.name));
	if (spec->unit[0])
		memcpy(type.unit, spec->unit, sizeof(type.unit));
	return type;
}

const struct source *source__find(const char *name, size_t len)
{
	const struct source *s;

	for (size_t at = 0; (s = source__next(&at));) {
		const char *called = s->called ? s->called : source__name(s);

		if (!s->of && strlen(called) == len && !memcmp(called, name, len))
			return s;
	}
	return NULL;
}

#define SOURCES_MAX 64 /* that a name with a slip in it is looked for among */

/* The name of the event that was probably meant, or NULL. */
static const char *meant(const char *name, size_t len)
{
	const char *names[SOURCES_MAX];
	const struct source *s;
	size_t cnt = 0, found;
	char word[64];

	for (size_t at = 0; (s = source__next(&at)) && cnt < SOURCES_MAX;)
		if (!s->of)
			names[cnt++] = s->called ? s->called : source__name(s);
	snprintf(word, sizeof(word), "%.*s", (int)len, name);
	found = nearest_name(word, names, cnt);
	return *word && found < cnt ? names[found] : NULL;
}

static int no_such_event(const char *text, size_t len, size_t name_len)
{
	const char *near = meant(text, name_len);

	if (near)
		log_err("-e %.*s: no such event; did you mean %s? -e help lists all", (int)len,
			text, near);
	else
		log_err("-e %.*s: no such event; -e help lists them", (int)len, text);
	return -EINVAL;
}

int source_spec__parse(struct source_spec *spec, const char *text, size_t len)
{
	const char *colon = memchr(text, ':', len);
	size_t name_len = colon ? (size_t)(colon - text) : len;
	size_t args_len = colon ? len - name_len - 1 : 0;

	*spec = (struct source_spec){ .source = source__find(text, name_len) };
	if (!spec->source)
		return no_such_event(text, len, name_len);
	if (colon && !spec->source->parse) {
		log_err("-e %.*s: %s takes no arguments", (int)len, text,
			source__name(spec->source));
		return -EINVAL;
	}
	if (args_len >= sizeof(spec->args)) {
		log_err("-e %.*s: its arguments are longer than %zu characters", (int)name_len,
			text, sizeof(spec->args) - 1);
		return -EINVAL;
	}
	if (args_len)
		memcpy(spec->args, colon + 1, args_len);
	return spec->source->parse ? spec->source->parse(spec) : 0;
}
