/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* moved.c: which files of two profiles are the same code, and which are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "profile/export_stacks.h"
#include "profile/moved.h"
#include "unit/cost.h"
#include "unit/profiles.h"

struct file {
	const char *func, *before, *after; /* NULL: not in that profile */
	const char *want;		   /* the path that `before` gets; NULL: it stays */
};

static void check(const struct file *files, size_t cnt, const char *said)
{
	struct profile *before = profile__new(), *after = profile__new();
	int syms[16];
	struct strbuf b = { 0 };

	for (size_t i = 0; i < cnt; i++) {
		if (files[i].after)
			py(after, files[i].func, files[i].after, 1, 1);
		syms[i] = files[i].before ? py(before, files[i].func, files[i].before, 1, 1) : -1;
	}
	assert_int_equal(moved__match(before, after, &b), 0);
	for (size_t i = 0; i < cnt; i++)
		if (syms[i] >= 0)
			assert_string_equal(profile__str(before, before->syms[syms[i]].file),
					    files[i].want ? files[i].want : files[i].before);
	assert_string_equal(b.s ? b.s : "", said);
	strbuf__free(&b);
	profile__free(before);
	profile__free(after);
}

#define CHECK(said, ...)                                                                           \
	do {                                                                                       \
		static const struct file files[] = { __VA_ARGS__ };                                \
		check(files, sizeof(files) / sizeof(files[0]), said);                              \
	} while (0)

static void test_releases(void **state)
{
	(void)state;
	CHECK("", { "f", "/srv/app.py", "/srv/app.py", NULL });
	CHECK("/srv/r1 -> /srv/r2",
	      { "f", "/srv/r1/shop/app.py", "/srv/r2/shop/app.py", "/srv/r2/shop/app.py" },
	      { "g", "/srv/r1/shop/cart.py", "/srv/r2/shop/cart.py", "/srv/r2/shop/cart.py" },
	      { "h", "/srv/r1/shop/api/app.py", "/srv/r2/shop/api/app.py",
		"/srv/r2/shop/api/app.py" });
	/* the file's name alone: with a function of the same name */
	CHECK("/a -> /b/c", { "f", "/a/app.py", "/b/c/app.py", "/b/c/app.py" });
	CHECK("", { "f", "/a/app.py", NULL, NULL }, { "g", NULL, "/b/c/app.py", NULL });
	CHECK("", { "<module>", "/a/app.py", "/b/c/app.py", NULL });
	/* which of the two is not known */
	CHECK("", { "f", "/a/app.py", "/b/app.py", NULL }, { "f", NULL, "/c/app.py", NULL });
	CHECK("", { "f", "/a/x/app.py", NULL, NULL }, { "f", NULL, "/b/x/app.py", NULL },
	      { "f", NULL, "/c/x/app.py", NULL });
	/* what stayed is not taken from where it is */
	CHECK("", { "f", "/a/x/app.py", "/a/x/app.py", NULL }, { "f", "/b/x/app.py", NULL, NULL });
	CHECK("", { "f", "<string>", NULL, NULL }, { "f", NULL, "/x/<string>", NULL });
}

static void test_imports(void **state)
{
	(void)state;
	CHECK("/v1/lib/python3.11 -> /v2/lib/python3.12",
	      { "f", "/v1/lib/python3.11/site-packages/flask/app.py",
		"/v2/lib/python3.12/site-packages/flask/app.py",
		"/v2/lib/python3.12/site-packages/flask/app.py" },
	      { "f", "/v1/lib/python3.11/site-packages/shop/app.py",
		"/v2/lib/python3.12/site-packages/shop/app.py",
		"/v2/lib/python3.12/site-packages/shop/app.py" });
	CHECK("/usr/lib/python3.11 -> /opt/lib/python3.13",
	      { "f", "/usr/lib/python3.11/json/decoder.py", "/opt/lib/python3.13/json/decoder.py",
		"/opt/lib/python3.13/json/decoder.py" });
}

static void test_libraries(void **state)
{
	struct profile *before = profile__new(), *after = profile__new();
	struct strbuf b = { 0 };
	int m = add_module(before, "/usr/lib/libssl.so.3", "", 0, 0);

	(void)state;
	add_module(after, "/opt/ssl/libssl.so.3", "", 0, 0);
	assert_int_equal(moved__match(before, after, &b), 0);
	assert_string_equal(profile__str(before, before->modules[m].path), "/opt/ssl/libssl.so.3");
	strbuf__free(&b);
	profile__free(before);
	profile__free(after);
}

static void test_trim(void **state)
{
	static const char *const dirs[] = { "/srv/r1/", "/opt" };
	struct profile *p = profile__new();
	int app = py(p, "f", "/srv/r1/app.py", 1, 1), opt = py(p, "f", "/opt/x/app.py", 1, 1);
	int other = py(p, "f", "/srv/r11/app.py", 1, 1), dir = py(p, "f", "/opt/", 1, 1);

	(void)state;
	assert_int_equal(moved__trim(p, dirs, 2), 0);
	assert_string_equal(profile__str(p, p->syms[app].file), "app.py");
	assert_string_equal(profile__str(p, p->syms[opt].file), "x/app.py");
	assert_string_equal(profile__str(p, p->syms[other].file), "/srv/r11/app.py");
	assert_string_equal(profile__str(p, p->syms[dir].file), "/opt/");
	profile__free(p);
}

/* Two files of one name, with n functions each, of which none is the same. */
static uint64_t cost_of_large_files(size_t n)
{
	struct profile *before = profile__new(), *after = profile__new();
	struct strbuf said = { 0 };
	char name[32];
	uint64_t begin, ns;

	for (size_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "before_%zu", i);
		py(before, name, "/a/app.py", 1, 1);
		snprintf(name, sizeof(name), "after_%zu", i);
		py(after, name, "/b/app.py", 1, 1);
	}
	begin = cpu_ns();
	assert_int_equal(moved__match(before, after, &said), 0);
	ns = cpu_ns() - begin;
	assert_int_equal(said.len, 0);
	profile__free(before);
	profile__free(after);
	return ns;
}

static void test_large_files(void **state)
{
	(void)state;
	assert_not_quadratic(cost_of_large_files, 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_releases),    cmocka_unit_test(test_imports),
		cmocka_unit_test(test_libraries),   cmocka_unit_test(test_trim),
		cmocka_unit_test(test_large_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
