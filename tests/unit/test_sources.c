/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What -e names (sources.h). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sources/sources.h"

static int parse(struct source_spec *spec, const char *text)
{
	return source_spec__parse(spec, text, strlen(text));
}

static void each_row_is_found_by_its_name(void **state)
{
	struct source_spec spec;
	const struct source *s;
	size_t cnt = 0;

	(void)state;
	for (size_t at = 0; (s = source__next(&at)); cnt++) {
		assert_true(*source__name(s) && s->check);
		if (s->parse)
			continue;
		if (s->of) { /* it comes with another one */
			assert_int_equal(parse(&spec, source__name(s)), -EINVAL);
			continue;
		}
		assert_int_equal(parse(&spec, source__name(s)), 0);
		assert_ptr_equal(spec.source, s);
		assert_string_equal(spec.args, "");
	}
	assert_true(cnt >= EVENT_CPU_MIGRATIONS);
}

static void each_event_has_a_row(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < EVENT_CNT; i++) {
		assert_non_null(source__of_event(i));
		assert_string_equal(source__name(source__of_event(i)), event_name(i));
	}
	assert_null(source__of_event(EVENT_CNT));
}

static void what_is_no_source_is_refused(void **state)
{
	static const char *const wrong[] = { "",	   ":",		 "cpu",
					     "cpu-clocks", "cpu-clock:", "cpu-clock:x" };
	struct source_spec spec;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(parse(&spec, wrong[i]), -EINVAL);
	assert_int_equal(source_spec__parse(&spec, "cpu-clock,x", 9), 0);
}

static void assert_named(const char *text, const char *name)
{
	struct source_spec spec;
	struct value_type type;

	assert_int_equal(parse(&spec, text), 0);
	type = source_spec__type(&spec);
	assert_string_equal(value_type__name(&type), name);
	assert_string_equal(value_type__unit(&type), "count");
	assert_string_equal(value_type__noun(&type, 1), "hit");
	assert_string_equal(value_type__noun(&type, 2), "hits");
}

static void probes_are_named_by_file_and_place(void **state)
{
	static const char *const wrong[] = {
		"uprobe",
		"uprobe:",
		"uprobe:/bin/sh",
		"uprobe:/bin/sh:",
		"uprobe:sh:main",
		"uprobe::main",
		"uprobe:/bin/sh:0x",
		"uprobe:/bin/sh:12z",
		"uprobe:/x:main+",
		"uprobe:/x:main+y",
		"uprobe:/x:0xffffffffffffffffff",
		"usdt",
		"usdt:/bin/sh",
		"usdt:/bin/sh:name",
		"usdt:/bin/sh::name",
		"usdt:/bin/sh:provider:",
		"usdt:sh:provider:name",
		"usdt::provider:name",
	};
	struct source_spec spec;

	(void)state;
	assert_named("uprobe:/bin/sh:main", "uprobe:sh:main");
	assert_named("uprobe:/lib/libc.so.6:getppid+0x4", "uprobe:libc.so.6:getppid+0x4");
	assert_named("uprobe:/a:b/c:0x12", "uprobe:c:0x12");
	assert_named("uprobe:/a/a_library_with_a_very_long_name.so:function", "uprobe:function");
	assert_named("uprobe:/l:a_function_with_a_name_longer_than_there_is_room",
		     "uprobe:a_function_with_a_name_longer_th");
	assert_named("usdt:/usr/bin/python3:python:gc__start", "usdt:python:gc__start");
	assert_named("usdt:/a:b/c:p:n", "usdt:p:n");
	assert_named("usdt:/l:a_provider_that_is_long:a_name_that_leaves_it_no_room",
		     "usdt:a_name_that_leaves_it_no_room");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(parse(&spec, wrong[i]), -EINVAL);
}

static void tracepoints_are_named_by_category_and_name(void **state)
{
	static const char *const wrong[] = {
		"tracepoint",
		"tracepoint:",
		"tracepoint:sched:",
		"tracepoint::sched_switch",
		"tracepoint:sched:sched switch",
		"tracepoint:a:b:c",
		"tracepoint:syscalls:sys_enter_",
		"tracepoint:syscalls:sys_enter_opnat",
		"tracepoint:nmi:nmi_handler",
	};
	struct source_spec spec;

	(void)state;
	assert_named("tracepoint:sched:sched_process_fork", "tracepoint:sched:sched_process_fork");
	assert_named("tracepoint:sched_switch", "tracepoint:sched_switch");
	assert_named("tracepoint:syscalls:sys_enter_openat",
		     "tracepoint:syscalls:sys_enter_openat");
	/* tracefs calls it by the kernel's function. */
	assert_named("tracepoint:syscalls:sys_exit_newstat",
		     "tracepoint:syscalls:sys_exit_newstat");
	assert_named("tracepoint:raw_syscalls:sys_enter", "tracepoint:raw_syscalls:sys_enter");
	assert_named("tracepoint:a_category:a_name_that_is_long_enough_for",
		     "tracepoint:a_name_that_is_long_enough_f");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(parse(&spec, wrong[i]), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_row_is_found_by_its_name),
		cmocka_unit_test(each_event_has_a_row),
		cmocka_unit_test(what_is_no_source_is_refused),
		cmocka_unit_test(probes_are_named_by_file_and_place),
		cmocka_unit_test(tracepoints_are_named_by_category_and_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
