/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What an agent pushes as OTLP: every value type of a window, and the leaf of its stacks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "agent/push/otlp.pb-c.h"
#include "agent/push/push_kind.h"
#include "export/export.h"
#include "unit/profiles.h"

#define LEAF "[waits: CPU]"

/* A clock, and what it was sampled beside: an event, and a probe, which brings its own name. */
static const struct {
	struct value_type type;
	const char *name;
	uint64_t sum;
} values[] = {
	{ { .event = EVENT_CPU_CLOCK, .frequency_hz = 99 }, "samples", 7 },
	{ { .event = VALUE_FOREIGN, .name = "usdt:a:b", .unit = "count" }, "usdt:a:b", 123442 },
	{ { .event = EVENT_PAGE_FAULTS, .period = 1 }, "page-faults", 1308642 },
};

static struct profile *several_values(void)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 7, "app", "/usr/bin/python3.11", "3.11.7", "", "");
	int f = py(p, "f", "/app.py", 3, 1), leaf = marker(p, LEAF);

	for (uint32_t i = 0; i < 3; i++) {
		STACK(p, proc, 0, values[i].sum, f, kern(p, "schedule", 0x1000 + i), leaf);
		p->stacks[i].type = i;
		p->stats.values[i] = values[i].type;
	}
	p->stats.value_cnt = 3;
	symbolized(p);
	return p;
}

static char *pprof(const struct profile *p, size_t *len)
{
	const struct export_opts o = { .lines = true };
	char *text = NULL;
	FILE *f = open_memstream(&text, len);

	assert_non_null(f);
	assert_int_equal(export__pprof(p, &o, f), 0);
	assert_int_equal(fclose(f), 0);
	return text;
}

/* Of the samples whose stack ends in the leaf. */
static uint64_t sum_with_leaf(const Otlp__Dictionary *d, const Otlp__Profile *p)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->n_samples; i++) {
		const Otlp__Sample *sample = p->samples[i];
		const Otlp__Location *leaf = d->locations[d->stacks[sample->stack]->locations[0]];

		assert_int_equal(sample->n_values, 1);
		if (leaf->n_lines &&
		    !strcmp(d->strings[d->functions[leaf->lines[0]->function]->name], LEAF))
			sum += (uint64_t)sample->values[0];
	}
	return sum;
}

static void test_all_values(void **state)
{
	static const struct label labels[] = { { "host", "h" }, { "service_name", "s" } };
	struct window w = { .id = "0123456789abcdef0123456789abcdef",
			    .labels = labels,
			    .label_cnt = 2,
			    .samples = 7,
			    .frequency_hz = 99 };
	const struct window *const windows[] = { &w };
	struct profile *p = several_values();
	struct push_message m = { 0 };
	const Otlp__ScopeProfiles *sent;
	Otlp__ExportRequest *r;

	(void)state;
	w.pprof = pprof(p, &w.pprof_size);
	assert_int_equal(push_otlp.encode(NULL, windows, 1, &m), 0);
	r = otlp__export_request__unpack(NULL, m.body.len, (const uint8_t *)m.body.s);
	assert_non_null(r);
	assert_int_equal(r->n_resource_profiles, 1);
	sent = r->resource_profiles[0]->scope_profiles[0];
	assert_int_equal(sent->n_profiles, 3);
	for (size_t i = 0; i < 3; i++) {
		const Otlp__Profile *one = sent->profiles[i];

		assert_string_equal(r->dictionary->strings[one->sample_type->type], values[i].name);
		assert_int_equal(sum_with_leaf(r->dictionary, one), values[i].sum);
	}
	otlp__export_request__free_unpacked(r, NULL);
	strbuf__free(&m.body);
	strbuf__free(&m.url);
	free((void *)w.pprof);
	profile__free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
