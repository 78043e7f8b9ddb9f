/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Sample types of a pprof file -> value types. See import_pprof_parts.h. */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "import/import_pprof_parts.h"

/* Nanoseconds of a unit of time; 0: none. */
static uint64_t unit_ns(struct slice unit)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{ "nanoseconds", 1 },	     { "ns", 1 },
		{ "microseconds", 1000 },    { "us", 1000 },
		{ "milliseconds", 1000000 }, { "ms", 1000000 },
		{ "seconds", 1000000000 },   { "s", 1000000000 },
	};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (is(unit, units[i].name))
			return units[i].ns;
	return 0;
}

static uint64_t period_ns(const struct pprof_reader *r)
{
	uint64_t ns = unit_ns(get_string(r, r->period_type.unit));

	if (r->period <= 0 || !ns || (uint64_t)r->period > UINT64_MAX / ns)
		return 0;
	return (uint64_t)r->period * ns;
}

static bool is_count(const struct pprof_reader *r, size_t i)
{
	return is(get_string(r, r->types[i].unit), "count");
}

/* The event that a column counts, if it is one of ours and not a clock; else 0. */
static uint32_t column_event(const struct pprof_reader *r, size_t i)
{
	struct slice name = get_string(r, r->types[i].type);
	uint32_t id = value_type__find_event((const char *)name.p, name.len);
	const struct value_type type = { .event = id };

	if (id >= EVENT_CNT || event_is_clock(id))
		return 0;
	return is_count(r, i) || (r->ours &&
				  is(get_string(r, r->types[i].unit), value_type__unit(&type)))
		       ? id
		       : 0;
}

static size_t samples_column(const struct pprof_reader *r, size_t column)
{
	for (size_t i = 0; i < r->type_cnt && column_event(r, column); i++)
		if (is_count(r, i) && is(get_string(r, r->types[i].type), "samples"))
			return i;
	return column;
}

/* The wanted sample type, else the number of samples, else CPU time. type_cnt: none. */
static size_t find_column(const struct pprof_reader *r)
{
	static const char *const preferred[] = { "samples", "sample", "cpu" };
	const char *asked = r->im->o.sample_type;
	size_t name_cnt = asked ? 1 : sizeof(preferred) / sizeof(preferred[0]);

	/* Ours of an event that is no clock: the default says which. */
	for (size_t i = 0; i < r->type_cnt && !asked; i++)
		if (r->types[i].type == r->default_type && column_event(r, i))
			return i;
	for (size_t n = 0; n < name_cnt; n++)
		for (size_t i = 0; i < r->type_cnt; i++)
			if (is(get_string(r, r->types[i].type), asked ? asked : preferred[n]))
				return i;
	return r->type_cnt;
}

static int no_column(const struct pprof_reader *r)
{
	struct strbuf b = { 0 };

	for (size_t i = 0; i < r->type_cnt; i++) {
		struct slice type = get_string(r, r->types[i].type);
		struct slice unit = get_string(r, r->types[i].unit);

		strbuf__addz(&b, i ? ", " : "");
		str_sanitise(&b, (const char *)type.p, type.len, 40);
		strbuf__addc(&b, '/');
		str_sanitise(&b, (const char *)unit.p, unit.len, 40);
	}
	import_bad(r->im, "no sample type '%s'; it has %s",
		   r->im->o.sample_type ? r->im->o.sample_type : "samples", b.len ? b.s : "none");
	strbuf__free(&b);
	return -EBADMSG;
}

static void copy_text(char *out, size_t size, struct slice text)
{
	struct strbuf b = { 0 };

	str_sanitise(&b, (const char *)text.p, text.len, size - 1);
	snprintf(out, size, "%s", b.err || !b.len ? "unknown" : b.s);
	strbuf__free(&b);
}

/* A column that is no clock's and no event of ours stands for itself, whatever it counts. */
static void add_foreign(struct pprof_reader *r, size_t column)
{
	struct column *c = &r->columns[r->column_cnt++];
	struct slice unit = get_string(r, r->types[column].unit);
	uint64_t ns = unit_ns(unit);

	*c = (struct column){ .count = column, .samples = column };
	c->type.event = VALUE_FOREIGN;
	c->type.frequency_hz = ns ? (uint32_t)(NS_PER_S / ns) : 0;
	copy_text(c->type.name, sizeof(c->type.name), get_string(r, r->types[column].type));
	copy_text(c->type.unit, sizeof(c->type.unit), unit);
}

/* Adds the first value type: that of the file's samples, or the wanted one. */
static int add_first(struct pprof_reader *r, size_t column)
{
	struct column *c = &r->columns[r->column_cnt++];
	uint64_t ns;

	*c = (struct column){ .count = column, .samples = samples_column(r, column) };
	c->type.event = column_event(r, column);
	if (is_count(r, column) || c->type.event)
		return 0;
	ns = unit_ns(get_string(r, r->types[column].unit));
	c->divisor = ns ? period_ns(r) / ns : 0;
	if (c->divisor)
		return 0;
	/* Bytes, or times that no sample has a part of: each is its own. */
	r->column_cnt--;
	add_foreign(r, column);
	return 0;
}

/*
 * The value types of a file that this program wrote, in the order of `stats`: two columns each,
 * samples and their amount; of a type with a name of its own (a probe), one. False: the file has
 * fewer columns.
 */
static bool add_ours(struct pprof_reader *r)
{
	const struct profile_stats *s = &r->im->stats;
	size_t at = 0;

	for (uint32_t k = 0; k < s->value_cnt; k++) {
		const struct value_type *v = &s->values[k];
		bool one = v->event == VALUE_FOREIGN;

		if (r->type_cnt - at < (one ? 1 : 2)) {
			r->column_cnt = 0;
			return false;
		}
		if (one)
			add_foreign(r, at);
		else
			r->columns[r->column_cnt++] =
				(struct column){ .count = value_type__is_clock(v) ? at : at + 1,
						 .samples = at,
						 .type = *v };
		at += one ? 1 : 2;
	}
	return true;
}

/* The wanted sample type is one of ours with a name of its own: it counts no samples. */
static bool choose_own_name(struct pprof_reader *r, size_t column)
{
	bool all = r->ours && r->im->o.sample_type && add_ours(r);

	for (uint32_t k = 0; k < r->column_cnt && all; k++) {
		const struct column c = r->columns[k];

		if (c.type.event == VALUE_FOREIGN && c.count == column) {
			r->columns[0] = c;
			r->column_cnt = 1;
			return true;
		}
	}
	r->column_cnt = 0;
	return false;
}

static bool is_time_of_samples(const struct pprof_reader *r, size_t i)
{
	return r->columns[0].type.event != VALUE_FOREIGN &&
	       unit_ns(get_string(r, r->types[i].unit)) && period_ns(r);
}

/* As `go tool pprof` has it: the one that the file names, or the last. */
static size_t default_column(const struct pprof_reader *r)
{
	for (size_t i = 0; i < r->type_cnt; i++)
		if (r->types[i].type == r->default_type)
			return i;
	return r->type_cnt - 1;
}

/* Adds all columns but those of the first value type and of the time that its samples stand for. */
static void add_others(struct pprof_reader *r)
{
	const struct column *first = &r->columns[0];

	if (!r->column_cnt)
		add_foreign(r, default_column(r));
	for (size_t i = 0; i < r->type_cnt && r->column_cnt < VALUES_MAX; i++)
		if (i != first->count && i != first->samples && !is_time_of_samples(r, i))
			add_foreign(r, i);
}

int pprof_columns__choose(struct pprof_reader *r)
{
	bool several = r->ours && r->im->stats.value_cnt > 1 && !r->im->o.sample_type;
	size_t column;
	int err;

	if (several && add_ours(r))
		return 0;
	column = find_column(r);
	if (column == r->type_cnt && (r->im->o.sample_type || !r->type_cnt))
		return no_column(r);
	if (column == r->type_cnt) {
		add_others(r); /* a profile of something else than time */
		return 0;
	}
	if (choose_own_name(r, column))
		return 0;
	err = add_first(r, column);
	if (!err && !r->im->o.sample_type && !r->ours)
		add_others(r);
	return err;
}

void pprof_columns__set_values(struct pprof_reader *r)
{
	struct profile_stats *s = &r->im->stats;
	uint64_t ns = period_ns(r);

	if (r->columns[0].type.event == VALUE_FOREIGN)
		s->values[0] = r->columns[0].type;
	else
		s->values[0].event = r->columns[0].type.event;
	for (uint32_t k = 1; k < r->column_cnt; k++)
		s->values[k] = r->columns[k].type;
	s->value_cnt = r->column_cnt;
	if (s->values[0].event != VALUE_FOREIGN && !s->values[0].frequency_hz && ns &&
	    ns <= NS_PER_S)
		s->values[0].frequency_hz = (uint32_t)((NS_PER_S + ns / 2) / ns);
}
