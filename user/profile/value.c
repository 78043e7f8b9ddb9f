/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "profile/value.h"

#include <string.h>

struct words {
	const char *name;
	bool clock;
	const char *one, *many, *counts;
};

static const struct words events[EVENT_CNT] = {
#define X(id, ...) [EVENT_##id] = { __VA_ARGS__ },
	PYPERF_EVENTS(X)
#undef X
};

/* A number that is not known is the default. */
static const struct words *words_of_event(uint32_t event)
{
	return &events[event < EVENT_CNT ? event : EVENT_CPU_CLOCK];
}

/* NULL: it brings its own. */
static const struct words *words_of(const struct value_type *v)
{
	return v->event == VALUE_FOREIGN ? NULL : words_of_event(v->event);
}

/* By the name of its value type, which a file has, too: "uprobe:FILE:PLACE". */
static bool is_probe(const struct value_type *v)
{
	const char prefix[] = "uprobe";

	return v->event == VALUE_FOREIGN && !strncmp(v->name, prefix, strlen(prefix));
}

const char *value_type__name(const struct value_type *v)
{
	const struct words *w = words_of(v);

	return w ? w->name : v->name;
}

const char *value_type__unit(const struct value_type *v)
{
	const struct words *w = words_of(v);

	return !w ? v->unit : w->clock ? "samples" : "count";
}

const char *value_type__noun(const struct value_type *v, uint64_t count)
{
	const struct words *w = words_of(v);

	if (w)
		return count == 1 ? w->one : w->many;
	if (is_probe(v))
		return count == 1 ? "hit" : "hits";
	return value_type__is_bytes(v) ? "bytes" : v->name;
}

const char *value_type__counts(const struct value_type *v)
{
	const struct words *w = words_of(v);

	if (!w && is_probe(v))
		return "hits of an instruction";
	return w ? w->counts : v->name;
}

bool value_type__is_clock(const struct value_type *v)
{
	const struct words *w = words_of(v);

	return w && w->clock;
}

bool value_type__is_bytes(const struct value_type *v)
{
	return v->event == VALUE_FOREIGN && !strcmp(v->unit, "bytes");
}

const char *event_name(uint32_t event)
{
	return words_of_event(event)->name;
}

bool event_is_clock(uint32_t event)
{
	return words_of_event(event)->clock;
}

uint32_t value_type__find_event(const char *name, size_t len)
{
	uint32_t i = 0;

	while (i < EVENT_CNT &&
	       (strlen(events[i].name) != len || memcmp(events[i].name, name, len)))
		i++;
	return i;
}

bool value_type__same(const struct value_type *a, const struct value_type *b)
{
	return a->event == b->event && !strcmp(value_type__name(a), value_type__name(b)) &&
	       !strcmp(value_type__unit(a), value_type__unit(b));
}
