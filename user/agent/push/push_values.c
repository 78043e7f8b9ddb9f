// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "agent/push/push_values.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/push/push_kind.h"
#include "base/gzip.h"
#include "profile/profile.pb-c.h"
#include "profile/value.h"

/* As Pyroscope and Parca call CPU time: the first value type of a window is a clock. */
#define CLOCK_NAME   "process_cpu"
#define UNPACKED_MAX (256 << 20)
#define HEAD_MAX     1024 /* of a file: the sample types come first */
#define COLUMNS_MAX  (2 * VALUES_MAX)
/* Tag of Profile.sample_type: field 1, a message. */
#define TYPE_TAG     0x0a

typedef Perftools__Profiles__Profile pb_profile;
typedef Perftools__Profiles__ValueType pb_value_type;
typedef Perftools__Profiles__Sample pb_sample;

/* A backend's name for a value type that becomes a file of its own. */
struct other_name {
	uint32_t event;
	const char *name, *counted, *counted_unit, *sum, *period, *period_unit;
};

static const struct other_name other_names[] = {
	{ EVENT_WALL, "wall", UNIT_SAMPLES, UNIT_COUNT, "wall", "wall", UNIT_NS },
	{ EVENT_OFF_CPU, "off_cpu", UNIT_SAMPLES, UNIT_COUNT, "off_cpu", "off_cpu", UNIT_NS },
	{ EVENT_GIL, "block", "contentions", UNIT_COUNT, "delay", "contentions", UNIT_COUNT },
	{ EVENT_GIL_HELD, "mutex", "contentions", UNIT_COUNT, "delay", "contentions", UNIT_COUNT },
};

/* A file that is taken apart. */
struct apart {
	const struct window *w;
	const pb_profile *whole;
	const struct other_name *of[COLUMNS_MAX]; /* by sample type; NULL: it stays */
	int (*add)(void *ctx, const struct push_value *v);
	void *ctx;
};

/* ---- which columns --------------------------------------------------------------------------- */

/* How many sample types a file has, as far as its first bytes tell. */
static size_t type_count(const struct window *w)
{
	struct strbuf head = { 0 };
	size_t cnt = 0, at = 0;
	int err = gzip__unpack(&head, w->pprof, w->pprof_size, HEAD_MAX);

	while ((!err || err == -EFBIG) && at + 1 < head.len &&
	       (unsigned char)head.s[at] == TYPE_TAG) {
		at += 2 + (unsigned char)head.s[at + 1];
		cnt++;
	}
	strbuf__free(&head);
	return cnt;
}

static const char *text(const pb_profile *p, int64_t at)
{
	return at >= 0 && (uint64_t)at < p->n_string_table ? p->string_table[at] : "";
}

/* "gil" of the sample types "gil-samples" and "gil". */
static const struct other_name *name_of(const char *type)
{
	for (size_t i = 0; i < sizeof(other_names) / sizeof(other_names[0]); i++) {
		const char *event = event_name(other_names[i].event);
		size_t len = strlen(event);

		if (!strncmp(type, event, len) &&
		    (!type[len] || !strcmp(type + len, "-" UNIT_SAMPLES)))
			return &other_names[i];
	}
	return NULL;
}

/* False: there is nothing to take apart. */
static bool find_columns(struct apart *x)
{
	const pb_profile *p = x->whole;
	bool any = false;

	if (p->n_sample_type > COLUMNS_MAX)
		return false;
	for (size_t i = 0; i < p->n_sample; i++)
		if (p->sample[i]->n_value != p->n_sample_type)
			return false;
	for (size_t i = 0; i < p->n_sample_type; i++) {
		x->of[i] = name_of(text(p, p->sample_type[i]->type));
		any |= x->of[i] != NULL;
	}
	return any;
}

/* ---- one file -------------------------------------------------------------------------------- */

struct part {
	pb_profile msg;
	const struct other_name *of; /* NULL: the file with the remaining types */
	size_t columns[COLUMNS_MAX], column_cnt;
	pb_value_type types[COLUMNS_MAX], period, *type_list[COLUMNS_MAX];
	pb_sample *samples, **sample_list;
	int64_t *values;
	char **strings;
	Perftools__Profiles__Location **locations;
	size_t string_cnt;
};

static int64_t add_string(struct part *t, const char *s)
{
	for (size_t i = 0; i < t->string_cnt; i++)
		if (!strcmp(t->strings[i], s))
			return (int64_t)i;
	t->strings[t->string_cnt] = (char *)s;
	return (int64_t)t->string_cnt++;
}

/* The sample types come in pairs: how many there were, and their sum. */
static void name_types(struct part *t)
{
	const struct other_name *n = t->of;

	perftools__profiles__value_type__init(&t->period);
	for (size_t i = 0; i < t->column_cnt; i++) {
		bool sum = i + 1 == t->column_cnt;

		perftools__profiles__value_type__init(&t->types[i]);
		t->types[i].type = add_string(t, sum ? n->sum : n->counted);
		t->types[i].unit = add_string(t, sum ? UNIT_NS : n->counted_unit);
		t->type_list[i] = &t->types[i];
	}
	t->period.type = add_string(t, n->period);
	t->period.unit = add_string(t, n->period_unit);
	t->msg.sample_type = t->type_list;
	t->msg.period_type = &t->period;
	t->msg.period = 1;
	t->msg.default_sample_type = t->types[t->column_cnt - 1].type;
}

static void keep_types(struct part *t, const pb_profile *whole)
{
	for (size_t i = 0; i < t->column_cnt; i++)
		t->type_list[i] = whole->sample_type[t->columns[i]];
	t->msg.sample_type = t->type_list;
}

/* Takes the samples that count in these columns; the others belong to other files. */
static void take_samples(struct part *t, const pb_profile *whole)
{
	size_t cnt = 0;

	for (size_t i = 0; i < whole->n_sample; i++) {
		int64_t *values = &t->values[cnt * t->column_cnt];
		bool any = false;

		for (size_t k = 0; k < t->column_cnt; k++) {
			values[k] = whole->sample[i]->value[t->columns[k]];
			any |= values[k] != 0;
		}
		if (!any)
			continue;
		t->samples[cnt] = *whole->sample[i];
		t->samples[cnt].n_value = t->column_cnt;
		t->samples[cnt].value = values;
		t->sample_list[cnt] = &t->samples[cnt];
		cnt++;
	}
	t->msg.n_sample = cnt;
	t->msg.sample = t->sample_list;
}

/* Places that no sample of this file has would be most of it. -ENOMEM. */
static int take_locations(struct part *t, const pb_profile *whole)
{
	size_t cap = whole->n_location + 1;
	bool *used = calloc(cap, sizeof(*used));

	t->locations = calloc(cap, sizeof(*t->locations));
	if (!used || !t->locations) {
		free(used);
		return -ENOMEM;
	}
	for (size_t i = 0; i < t->msg.n_sample; i++)
		for (size_t k = 0; k < t->samples[i].n_location_id; k++)
			if (t->samples[i].location_id[k] < cap)
				used[t->samples[i].location_id[k]] = true;
	t->msg.n_location = 0;
	for (size_t i = 0; i < whole->n_location; i++)
		if (whole->location[i]->id >= cap || used[whole->location[i]->id])
			t->locations[t->msg.n_location++] = whole->location[i];
	t->msg.location = t->locations;
	free(used);
	return 0;
}

static int build(struct part *t, const struct apart *x)
{
	const pb_profile *whole = x->whole;
	size_t cnt = whole->n_sample + 1;

	t->msg = *whole;
	for (size_t i = 0; i < whole->n_sample_type; i++)
		if (x->of[i] == t->of)
			t->columns[t->column_cnt++] = i;
	t->msg.n_sample_type = t->column_cnt;
	t->samples = calloc(cnt, sizeof(*t->samples));
	t->sample_list = calloc(cnt, sizeof(*t->sample_list));
	t->values = calloc(cnt, (t->column_cnt + 1) * sizeof(*t->values));
	t->strings = calloc(whole->n_string_table + 2 * COLUMNS_MAX + 2, sizeof(*t->strings));
	if (!t->samples || !t->sample_list || !t->values || !t->strings)
		return -ENOMEM;
	memcpy(t->strings, whole->string_table, whole->n_string_table * sizeof(*t->strings));
	t->string_cnt = whole->n_string_table;
	if (t->of && t->column_cnt)
		name_types(t);
	else
		keep_types(t, whole);
	t->msg.n_string_table = t->string_cnt;
	t->msg.string_table = t->strings;
	take_samples(t, whole);
	return take_locations(t, whole);
}

static void free_part(struct part *t)
{
	free(t->samples);
	free(t->sample_list);
	free(t->values);
	free(t->strings);
	free(t->locations);
}

/* `number` of it among the files of the window: the last digits of the id differ by it. */
static void make_id(char id[WINDOW_ID_LEN + 1], const struct window *w, size_t number)
{
	static const char digits[] = "0123456789abcdef";
	char *last = &id[WINDOW_ID_LEN - 1];
	const char *digit;

	memcpy(id, w->id, WINDOW_ID_LEN + 1);
	digit = number && *last ? strchr(digits, *last) : NULL;
	if (digit)
		*last = digits[((size_t)(digit - digits) ^ number) & 15];
}

static int add_part(const struct apart *x, const struct other_name *of, size_t number)
{
	struct part t = { .of = of };
	struct push_value v = { .name = of ? of->name : CLOCK_NAME };
	struct strbuf file = { 0 };
	int err = build(&t, x);

	/* A window without a wait has no such file; the clock's says that there was one. */
	if (!err && t.column_cnt && (!of || t.msg.n_sample)) {
		push_pack(&file, &t.msg.base);
		err = file.err ? file.err : gzip__pack(&file);
		v.pprof = file.s;
		v.size = file.len;
		make_id(v.id, x->w, number);
		err = err ? err : x->add(x->ctx, &v);
	}
	strbuf__free(&file);
	free_part(&t);
	return err;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int add_whole(const struct apart *x)
{
	struct push_value v = { CLOCK_NAME, x->w->pprof, x->w->pprof_size, "" };

	make_id(v.id, x->w, 0);
	return x->add(x->ctx, &v);
}

static int add_parts(const struct apart *x)
{
	int err = add_part(x, NULL, 0);

	for (size_t i = 0; i < sizeof(other_names) / sizeof(other_names[0]) && !err; i++)
		err = add_part(x, &other_names[i], i + 1);
	return err;
}

int push_values(const struct window *w, int (*add)(void *ctx, const struct push_value *v),
		void *ctx)
{
	struct apart x = { .w = w, .add = add, .ctx = ctx };
	struct strbuf bytes = { 0 };
	pb_profile *whole = NULL;
	int err;

	if (type_count(w) > 2 && !gzip__unpack(&bytes, w->pprof, w->pprof_size, UNPACKED_MAX))
		whole = perftools__profiles__profile__unpack(NULL, bytes.len,
							     (const uint8_t *)bytes.s);
	strbuf__free(&bytes);
	x.whole = whole;
	err = whole && find_columns(&x) ? add_parts(&x) : add_whole(&x);
	if (whole)
		perftools__profiles__profile__free_unpacked(whole, NULL);
	return err;
}
