/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sources/sources.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"

/* The rows of each file. */
static const struct source *const files[] = {
	perf_sources,
	probe_sources,
};

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
	return type;
}

const struct source *source__find(const char *name, size_t len)
{
	const struct source *s;

	for (size_t at = 0; (s = source__next(&at));)
		if (strlen(source__name(s)) == len && !memcmp(source__name(s), name, len))
			return s;
	return NULL;
}

int source_spec__parse(struct source_spec *spec, const char *text, size_t len)
{
	const char *colon = memchr(text, ':', len);
	size_t name_len = colon ? (size_t)(colon - text) : len;
	size_t args_len = colon ? len - name_len - 1 : 0;

	*spec = (struct source_spec){ .source = source__find(text, name_len) };
	if (!spec->source) {
		log_err("-e %.*s: no such event; -e help lists them", (int)len, text);
		return -EINVAL;
	}
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
