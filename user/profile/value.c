/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "profile/value.h"

#include <string.h>

#include "base/clock.h"
#include "base/str.h"

struct words {
	const char *name, *unit, *one, *many, *counts;
	const char *whole, *seconds, *percent, *doing; /* NULL: it is no time, or no word */
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

static bool begins(const struct value_type *v, const char *prefix)
{
	return v->event == VALUE_FOREIGN && !strncmp(v->name, prefix, strlen(prefix));
}

/* By its name, which a file has, too: "uprobe:FILE:PLACE", "usdt:PROVIDER:NAME". */
static bool is_probe(const struct value_type *v)
{
	return begins(v, "uprobe") || begins(v, "usdt") || begins(v, "tracepoint");
}

/* It adds up an argument: "uprobe:FILE:PLACE sum arg1". */
static bool is_sum(const struct value_type *v)
{
	return is_probe(v) && strstr(v->name, " sum arg");
}

static bool is_call_time(const struct value_type *v)
{
	return v->event == VALUE_FOREIGN && !strcmp(v->name, VALUE_CALL_TIME);
}

bool value_type__is_exact(const struct value_type *v)
{
	return is_probe(v) || value_type__is_calls(v) || v->event == EVENT_REFS_TAKEN ||
	       v->event == EVENT_REFS_DROPPED || (!value_type__is_clock(v) && v->period == 1);
}

const char *value_type__name(const struct value_type *v)
{
	const struct words *w = words_of(v);

	return w ? w->name : v->name;
}

const char *value_type__unit(const struct value_type *v)
{
	const struct words *w = words_of(v);

	return w ? w->unit : v->unit;
}

const char *value_type__noun(const struct value_type *v, uint64_t count)
{
	const struct words *w = words_of(v);

	if (w)
		return count == 1 ? w->one : w->many;
	if (is_sum(v) && !value_type__is_bytes(v))
		return count == 1 ? "unit" : "units";
	if (is_probe(v) && !value_type__is_bytes(v))
		return count == 1 ? "hit" : "hits";
	if (value_type__is_calls(v) && !is_call_time(v))
		return count == 1 ? "call" : "calls";
	return value_type__is_bytes(v) ? "bytes" : v->name;
}

const char *value_type__counts(const struct value_type *v)
{
	const struct words *w = words_of(v);

	if (!w && is_sum(v))
		return "sum of an argument";
	if (!w && is_probe(v))
		return begins(v, "usdt")     ? "hits of a static probe"
		       : begins(v, "uprobe") ? "hits of an instruction"
					     : "hits of a tracepoint of the kernel";
	return w ? w->counts : v->name;
}

const char *value_type__whole(const struct value_type *v)
{
	const struct words *w = words_of(v);

	bool known = value_type__per_second(v) || !value_type__is_clock(v);

	if (is_call_time(v))
		return "call time";
	return w && w->whole && known ? w->whole : value_type__noun(v, 2);
}

bool value_type__is_plural(const struct value_type *v)
{
	return !value_type__per_second(v) && !value_type__is_bytes(v);
}

const char *value_type__shared(const struct value_type *v)
{
	return value_type__is_clock(v) ? value_type__noun(v, 2) : value_type__whole(v);
}

const char *value_type__column(const struct value_type *v)
{
	const struct words *w = words_of(v);

	if (value_type__per_second(v))
		return w && w->seconds ? w->seconds : "SECONDS";
	if (value_type__is_clock(v))
		return "SAMPLES";
	return value_type__is_bytes(v) ? "BYTES" : "COUNT";
}

const char *value_type__rate_column(const struct value_type *v)
{
	const struct words *w = words_of(v);

	if (value_type__per_second(v))
		return w && w->percent ? w->percent : "TIME%";
	return value_type__is_bytes(v) ? "BYTES/S" : "PER S";
}

const char *value_type__doing(const struct value_type *v)
{
	const struct words *w = words_of(v);

	return w && w->doing ? w->doing : "";
}

bool value_type__is_calls(const struct value_type *v)
{
	return v->event == VALUE_FOREIGN &&
	       ((is_call_time(v) && !strcmp(v->unit, UNIT_NS)) ||
		(!strcmp(v->name, VALUE_CALLS) && !strcmp(v->unit, UNIT_COUNT)));
}

const char *value_type__sample(const struct value_type *v, uint64_t count)
{
	if (value_type__is_calls(v))
		return count == 1 ? "call" : "calls";
	if (is_probe(v))
		return count == 1 ? "hit" : "hits";
	if (value_type__is_exact(v) && !strcmp(value_type__unit(v), UNIT_COUNT))
		return value_type__noun(v, count);
	return count == 1 ? "sample" : "samples";
}

const char *value_types__sample(const struct value_type *values, uint32_t cnt, uint64_t count)
{
	static const struct value_type sampled;
	const char *word = value_type__sample(&values[0], count);

	for (uint32_t i = 1; i < cnt; i++)
		if (strcmp(value_type__sample(&values[i], count), word))
			return value_type__sample(&sampled, count);
	return word;
}

void value_type__add_part(struct strbuf *b, const struct value_type *v, const char *part)
{
	if (value_type__is_clock(v))
		strbuf__addf(b, "%s time", part);
	else
		strbuf__addf(b, "%s: %s", value_type__whole(v), part);
}

const char *value_type__pprof_name(const struct value_type *v)
{
	return value_type__is_clock(v) ? "cpu" : value_type__name(v);
}

const char *value_type__pprof_unit(const struct value_type *v)
{
	return value_type__is_clock(v) ? UNIT_NS : value_type__unit(v);
}

uint64_t value_type__per_second(const struct value_type *v)
{
	return strcmp(value_type__unit(v), UNIT_NS) ? v->frequency_hz : NS_PER_S;
}

double value_type__seconds(const struct value_type *v, uint64_t count)
{
	uint64_t per_second = value_type__per_second(v);

	return per_second ? (double)count / (double)per_second : 0;
}

bool value_type__is_clock(const struct value_type *v)
{
	const struct words *w = words_of(v);

	return w && !strcmp(w->unit, UNIT_SAMPLES);
}

bool value_type__is_bytes(const struct value_type *v)
{
	return !strcmp(value_type__unit(v), UNIT_BYTES);
}

bool value_type__is_time(const struct value_type *v)
{
	const struct words *w = words_of(v);

	return w && !strcmp(w->unit, UNIT_NS);
}

const char *event_name(uint32_t event)
{
	return words_of_event(event)->name;
}

bool event_is_clock(uint32_t event)
{
	return !strcmp(words_of_event(event)->unit, UNIT_SAMPLES);
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
