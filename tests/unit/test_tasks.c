/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Tasks as a forest, and as text, from tasks made by hand. */
#include "threads/export_tasks.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiles.h"

#define LONG_CHAIN 5000

static struct task_forest begin(struct profile **p)
{
	*p = profile__new();
	add_proc(*p, 4711, "app", "/usr/bin/python3.11", "3.11.2", "", "");
	return (struct task_forest){ .p = *p };
}

/* Task N waits without a frame, and `by` awaits it; 0: nobody does. */
static void add(struct task_forest *f, unsigned n, unsigned by)
{
	struct pytask t = { .addr = n, .loop = 1, .waiter = 8, .awaiter_cnt = by != 0 };

	t.awaiters[0] = by;
	t.name_len = (uint32_t)snprintf(t.name, sizeof(t.name), "t%u", n);
	t.coro.state = PYCORO_WAITS;
	assert_int_equal(task_forest__add(f, &t, -1), 0);
}

static char *end(struct task_forest *f, struct profile *p, bool all)
{
	const struct pytask_loop loop = { .addr = 1, .tid = 4711 };
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_int_equal(task_forest__link(f, &loop, 1), 0);
	assert_int_equal(export_tasks__text(out, f, all, false), 0);
	assert_int_equal(export_tasks__json(out, f), 0);
	fclose(out);
	task_forest__free(f);
	profile__free(p);
	return text;
}

static unsigned count(const char *text, const char *part)
{
	unsigned n = 0;

	for (const char *at = text; (at = strstr(at, part)); at++)
		n++;
	return n;
}

/*
 * 1 awaits 2 and 3; 14 and 15 await each other, and below 15 is 6. 9 has an awaiter that is gone.
 */
static void links_tasks(void **state)
{
	struct profile *p;
	struct task_forest f = begin(&p);
	char *text;

	(void)state;
	add(&f, 6, 15);
	add(&f, 3, 1);
	add(&f, 2, 1);
	add(&f, 1, 0);
	add(&f, 14, 15);
	add(&f, 15, 14);
	add(&f, 9, 77);
	text = end(&f, p, true);
	assert_non_null(strstr(text, "7 tasks in 1 event loop; 2 await each other, for ever\n"));
	assert_non_null(strstr(text, "\nTask \"t1\": waiting\n    (no Python frames)\n"
				     "    awaits task \"t2\": waiting\n"));
	assert_non_null(strstr(text, "\nTask \"t9\": waiting\n"));
	assert_int_equal(count(text, ", awaits itself through others\n"), 2);
	assert_int_equal(count(text, ", which is shown elsewhere\n"), 1);
	assert_int_equal(count(text, "\nTask \""), 3); /* a ring has one root, whoever is first */
	assert_int_equal(count(text, "awaits task \"t6\": waiting\n"), 1);
	free(text);
}

/* Each task awaits the one after it: the text ends, JSON has all. */
static void ends_long_chain(void **state)
{
	struct profile *p;
	struct task_forest f = begin(&p);
	char *text;

	(void)state;
	for (unsigned n = 1; n <= LONG_CHAIN; n++)
		add(&f, n, n - 1);
	text = end(&f, p, false);
	assert_int_equal(count(text, "(it awaits more, which is not shown)\n"), 1);
	assert_int_equal(count(text, "\"awaited_by\""), LONG_CHAIN);
	free(text);
}

/* Equal ones are one block, with all that they await. */
static void groups_what_is_alike(void **state)
{
	struct profile *p;
	struct task_forest f = begin(&p);
	char *text;

	(void)state;
	add(&f, 1, 0);
	for (unsigned n = 0; n < 100; n++) {
		add(&f, 100 + n, 1);
		add(&f, 300 + n, 100 + n);
	}
	add(&f, 999, 1);
	text = end(&f, p, false);
	assert_non_null(strstr(text, "    awaits 100 tasks, waiting: \"t100\", \"t101\", \"t102\" "
				     "and 97 more\n        (no Python frames)\n"
				     "        awaits 100 tasks, waiting: \"t300\""));
	assert_non_null(strstr(text, "    awaits task \"t999\": waiting\n"));
	free(text);
}

/* Where most of them wait is worth a sentence; a place of one among several is not. */
static void says_where_most_wait(void **state)
{
	(void)state;
	for (unsigned alike = 1; alike <= 2; alike++) {
		struct profile *p;
		struct task_forest f = begin(&p);
		int query = py(p, "query", "/srv/app.py", 4, 1),
		    get = py(p, "get", "/srv/q.py", 2, 1);
		char *text;

		STACK(p, 0, 1, 1, query);
		STACK(p, 0, 2, 1, get);
		symbolized(p);
		for (unsigned n = 1; n <= alike + 1; n++) {
			struct pytask t = { .addr = n, .loop = 1, .waiter = 8 };

			t.coro.state = PYCORO_WAITS;
			assert_int_equal(task_forest__add(&f, &t, n > 1), 0);
		}
		text = end(&f, p, true);
		assert_non_null(strstr(text, alike > 1 ? "3 tasks in 1 event loop; 2 wait in get ("
						       : "2 tasks in 1 event loop\n"));
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links_tasks),
		cmocka_unit_test(ends_long_chain),
		cmocka_unit_test(groups_what_is_alike),
		cmocka_unit_test(says_where_most_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
