// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What messages call a setting: an option, or a key of the agent's configuration. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/setting.h"

static void options_and_keys(void **state)
{
	(void)state;
	assert_string_equal(setting_name("-F", "'frequency ='"), "-F");
	assert_string_equal(SETTING_EVENT, "-e");
	setting__use_keys();
	assert_string_equal(setting_name("-F", "'frequency ='"), "'frequency ='");
	assert_string_equal(SETTING_EVENT, "events =");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_and_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
