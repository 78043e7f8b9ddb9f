// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/window.h"

static void labels_are_found_by_name(void **state)
{
	struct label labels[] = { { "host", "h" }, { "service_name", "s" } };
	struct window w = { .labels = labels, .label_cnt = 2 };

	(void)state;
	assert_string_equal(window__label(&w, "service_name"), "s");
	assert_null(window__label(&w, "service"));
}

static void names_of_labels(void **state)
{
	char long_name[130] = { 0 };

	(void)state;
	assert_true(window_label__valid("_a9"));
	assert_false(window_label__valid(""));
	assert_false(window_label__valid("9a"));
	assert_false(window_label__valid("a-b"));
	for (int i = 0; i < 129; i++)
		long_name[i] = 'a';
	assert_false(window_label__valid(long_name));
	long_name[128] = 0;
	assert_true(window_label__valid(long_name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(labels_are_found_by_name),
		cmocka_unit_test(names_of_labels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
