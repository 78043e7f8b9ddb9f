/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Saved heaps: JSON of any kind is read or refused, and what changed between two is right. */
#include "heap/saved.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char before_text[] =
	"{\"version\":1,\"pid\":7,\"command\":\"a\\u0022\\n\",\"complete\":true,\"gone\":null,"
	"\"memory\":{\"rss\":1000,\"x\":[[],{},[1,-2.5e+3,{\"k\":[true,false,null]}]]},"
	"\"types\":[{\"name\":\"Order\",\"address\":1,\"objects\":10,\"bytes\":640},\n"
	"{\"name\":\"gone\",\"objects\":3,\"bytes\":30},{\"name\":null,\"objects\":1,\"bytes\":8},"
	"{\"name\":\"Order\",\"objects\":1,\"bytes\":64}]}\n";
static const char after_text[] =
	" { \"types\" : [ { \"bytes\" : 6400 , \"objects\" : 100 , \"name\" : \"Order\" } , "
	"{\"name\":\"\",\"objects\":2,\"bytes\":20},"
	"{\"name\":\"\\u001b[31m\\ud83d\\udc0d\",\"objects\":1,\"bytes\":1}],"
	"\"memory\":{\"rss\":5000},\"pid\":8} ";

static struct heap_saved read_text(const char *text, int want)
{
	struct heap_saved s;
	/* Behind its last byte the sanitizer looks. */
	size_t len = strlen(text);
	char *copy = malloc(len ? len : 1);

	assert_non_null(copy);
	memcpy(copy, text, len);
	assert_int_equal(heap_saved__parse(&s, copy, len), want);
	free(copy);
	return s;
}

static const struct heap_change *change_of(const struct heap_diff *d, const char *name)
{
	for (size_t i = 0; i < d->cnt; i++)
		if (!strcmp(d->types[i].name, name))
			return &d->types[i];
	return NULL;
}

static void test_diff(void **state)
{
	struct heap_saved before = read_text(before_text, 0), after = read_text(after_text, 0);
	struct heap_diff d;

	(void)state;
	assert_int_equal(before.cnt, 3);
	assert_true(before.complete && !after.complete);
	assert_int_equal(after.rss - before.rss, 4000);
	assert_int_equal(heap_diff__make(&d, &before, &after), 0);
	assert_int_equal(d.cnt, 5);
	assert_string_equal(d.types[0].name, "Order");
	assert_int_equal(d.types[0].cnt, 100 - 11);
	assert_int_equal(d.types[0].bytes, 6400 - 704);
	assert_int_equal(d.types[0].cnt_now, 100);
	assert_int_equal(change_of(&d, "gone")->cnt, -3);
	assert_int_equal(change_of(&d, "")->cnt, 2);
	assert_int_equal(d.types[4].bytes, -30);
	assert_int_equal(d.objects, 103 - 15);
	for (size_t i = 0; i < d.cnt; i++)
		assert_null(strchr(d.types[i].name, '\x1b'));
	heap_diff__free(&d);
	assert_int_equal(heap_diff__make(&d, &after, &after), 0);
	assert_int_equal(d.cnt, 0);
	heap_diff__free(&d);
	heap_saved__free(&before);
	heap_saved__free(&after);
}

static void test_wrong_texts(void **state)
{
	static const char *const texts[] = {
		"",
		"{",
		"{}",
		"[]",
		"{\"types\":[],\"memory\":{}} x",
		"{\"types\":[]}",
		"{\"types\":{},\"memory\":{}}",
		"{\"types\":[],\"memory\":{},}",
		"{\"types\":[],\"memory\":{}",
		"{\"types\":[1],\"memory\":{}}",
		"{\"types\":[{\"name\":\"\\x\"}],\"memory\":{}}",
		"{\"types\":[{\"name\":\"\\u12\"}],\"memory\":{}}",
		"{\"types\":[],\"memory\":[]}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct heap_saved s = read_text(texts[i], -EINVAL);

		heap_saved__free(&s);
	}
}

/* Any beginning of it is no heap. */
static void test_cut(void **state)
{
	char text[sizeof(before_text)];

	(void)state;
	for (size_t len = 0; len < strlen(before_text) - 1; len++) {
		struct heap_saved s;

		memcpy(text, before_text, len);
		text[len] = '\0';
		s = read_text(text, -EINVAL);
		heap_saved__free(&s);
	}
}

static void test_large_numbers(void **state)
{
	struct heap_saved s = read_text(
				  "{\"types\":[{\"name\":\"a\",\"objects\":18446744073709551615,"
				  "\"bytes\":18446744073709551615}],\"memory\":{\"rss\":"
				  "18446744073709551615}}",
				  0),
			  none = { 0 };
	struct heap_diff d;

	(void)state;
	assert_int_equal(heap_diff__make(&d, &none, &s), 0);
	assert_true(d.bytes > 0 && d.objects > 0);
	heap_diff__free(&d);
	heap_saved__free(&s);
	s = read_text("{\"types\":[{\"objects\":-1,\"bytes\":\"x\"}],\"memory\":[],\"memory\":{}}",
		      -EINVAL);
	heap_saved__free(&s);
	s = read_text("{\"types\":[{\"objects\":-1,\"bytes\":\"x\"}],\"memory\":{}}", 0);
	assert_true(s.cnt == 1 && !s.types[0].cnt && !s.types[0].bytes);
	heap_saved__free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_diff),
		cmocka_unit_test(test_wrong_texts),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_large_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
