/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Fail the Nth allocation, for every N: str.c, hash.c, profile.c and sym_python.c must say so, stay
 * what they were, leak nothing, and do the same work when it is tried again.
 *
 * The sources are compiled into this program with allocators of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "unit/failing_alloc.h"
#include "../../user/base/hash.c"
#include "../../user/base/str.c"
#include "../../user/profile/profile.c"
#include "../../user/symbolize/sym_python.c"
#undef calloc
#undef malloc
#undef realloc
#undef reallocarray

#define STACKS 200
#define CODES  200

/*
 * Each of these does one piece of work once more after it failed, which must then succeed, so that
 * the object ends in the same state whichever allocation failed.
 */
static int retry_proc(struct profile *p, uint32_t space)
{
	struct profile_proc proc = { .space = space };
	size_t before = p->proc_cnt;
	int i = profile__add_proc(p, &proc);

	if (i >= 0)
		return i;
	assert_int_equal(i, -ENOMEM);
	assert_int_equal(p->proc_cnt, before);
	assert_int_equal(profile__find_proc(p, space), -1);
	return profile__add_proc(p, &proc);
}

static int retry_thread(struct profile *p, uint32_t tid, str_id name)
{
	struct profile_thread thread = { .space = 1, .tid = tid, .name = name };
	int i = profile__add_thread(p, &thread);

	if (i >= 0)
		return i;
	assert_int_equal(i, -ENOMEM);
	assert_string_equal(profile__thread_name(p, 1, tid), "");
	return profile__add_thread(p, &thread);
}

static str_id retry_intern(struct profile *p, const char *s)
{
	size_t before = strtab__count(p->strings);
	str_id id = profile__intern_z(p, s);

	if (id)
		return id;
	assert_int_equal(strtab__count(p->strings), before);
	return profile__intern_z(p, s);
}

static int retry_stack(struct profile *p, const uint64_t *words, size_t cnt)
{
	uint64_t before = profile__total(p);
	int i = profile__add_stack(p, 0, 0, words, cnt, 1);

	if (i >= 0)
		return i;
	assert_int_equal(i, -ENOMEM);
	assert_true(profile__total(p) == before);
	return profile__add_stack(p, 0, 0, words, cnt, 1);
}

static int retry_module_and_sym(struct profile *p)
{
	struct profile_module module = { .file = 1 };
	struct sym sym = { .kind = SYM_PYTHON };
	int m = profile__add_module(p, &module), y;

	if (m < 0)
		m = profile__add_module(p, &module);
	y = profile__add_sym(p, &sym);
	if (y < 0)
		y = profile__add_sym(p, &sym);
	assert_int_equal(m, y);
	return m;
}

static void profile_work(void)
{
	struct profile *p = profile__new();
	uint64_t words[STACKS] = { 0 };
	char name[32];
	str_id id;

	if (!p) {
		assert_int_equal(errno, ENOMEM);
		p = profile__new();
	}
	assert_non_null(p);
	for (int i = 0; i < STACKS; i++) {
		snprintf(name, sizeof(name), "%d", i);
		id = retry_intern(p, name);
		assert_string_equal(profile__str(p, id), name);
		assert_int_equal(retry_proc(p, (uint32_t)i), i);
		assert_int_equal(retry_thread(p, (uint32_t)i, id), i);
		assert_int_equal(retry_module_and_sym(p), i);
		words[i] = (uint64_t)i;
		assert_int_equal(retry_stack(p, words, (size_t)i + 1), i);
	}
	for (int i = 0; i < STACKS; i++) {
		snprintf(name, sizeof(name), "%d", i);
		profile__intern_z(p, name); /* is there: see the count below */
		assert_int_equal(profile__find_proc(p, (uint32_t)i), i);
		assert_string_equal(profile__thread_name(p, 1, (uint32_t)i), name);
		assert_int_equal(profile__add_stack(p, 0, 0, words, (size_t)i + 1, 1), i);
	}
	assert_int_equal(profile__total(p), 2 * STACKS);
	assert_int_equal(strtab__count(p->strings), STACKS + 1);
	profile__free(p);
}

static int send_blob(struct sym_python *s, uint64_t id, enum blob_kind kind, const char *text)
{
	struct ev_blob ev = { .type = EV_BLOB, .kind = kind, .id = id };

	ev.size = (uint32_t)strlen(text);
	memcpy(ev.data, text, ev.size);
	return sym_python__on_blob(s, &ev, offsetof(struct ev_blob, data) + ev.size);
}

/* Supplies what is missing, which a failure makes more. */
static void retry_supply(struct sym_python *s, uint64_t id, enum blob_kind kind, const char *text)
{
	struct blob_info info = { .size = (uint32_t)strlen(text), .width = 1 };
	int err = sym_python__supply(s, id, kind, text, &info);

	if (err == -ENOMEM) {
		assert_true(sym_python__missing(s, id) & (1 << kind));
		err = sym_python__supply(s, id, kind, text, &info);
	}
	assert_true(!err || err == -EEXIST);
}

static void one_code(struct sym_python *s, uint64_t id, const char *name)
{
	static const struct py_layout layout = { .linetable_kind = PY_LINES_LNOTAB };
	struct ev_code ev = { .type = EV_CODE, .id = id, .firstlineno = 1 };
	struct py_function f;
	int err;

	for (int kind = 0; kind < BLOB_CNT; kind++)
		ev.blob[kind] = (struct blob_info){ .size = (uint32_t)strlen(name), .width = 1 };
	err = send_blob(s, id, BLOB_NAME, name);
	assert_true(!err || err == -ENOMEM);
	err = send_blob(s, id, BLOB_FILENAME, name);
	assert_true(!err || err == -ENOMEM);
	err = sym_python__on_code(s, &ev, sizeof(ev), &layout, 0);
	if (err) {
		assert_int_equal(err, -ENOMEM);
		assert_false(sym_python__find(s, id, &f));
		assert_int_equal(sym_python__on_code(s, &ev, sizeof(ev), &layout, 0), 0);
	}
	for (int kind = 0; kind < BLOB_CNT; kind++)
		retry_supply(s, id, (enum blob_kind)kind, name);
	assert_int_equal(sym_python__missing(s, id), 0);
	assert_true(sym_python__find(s, id, &f));
	assert_string_equal(f.name, name);
	assert_string_equal(f.file, name);
}

static void sym_python_work(void)
{
	struct sym_python *s = sym_python__new();
	struct py_function f;
	char name[32];

	if (!s) {
		assert_int_equal(errno, ENOMEM);
		s = sym_python__new();
	}
	assert_non_null(s);
	for (int i = 0; i < CODES; i++) {
		snprintf(name, sizeof(name), "name number %d", i);
		one_code(s, (uint64_t)i, name);
		send_blob(s, (uint64_t)i + CODES, BLOB_NAME, name); /* its code never comes */
	}
	for (int i = 0; i < CODES; i++) {
		snprintf(name, sizeof(name), "name number %d", i);
		assert_true(sym_python__find(s, (uint64_t)i, &f));
		assert_string_equal(f.name, name);
	}
	sym_python__free(s);
}

static void strbuf_work(void)
{
	struct strbuf b = { 0 };

	for (int i = 0; i < 200; i++)
		strbuf__addf(&b, "%04d", i);
	assert_int_equal(b.err, fail_at ? -ENOMEM : 0);
	assert_true(!b.s || strlen(b.s) == b.len);
	strbuf__clear(&b);
	strbuf__addz(&b, "again");
	assert_string_equal(b.s, "again");
	strbuf__free(&b);
}

/* Runs `work` with each of its allocations failing in turn. */
static void fail_each(void (*work)(void))
{
	size_t total;

	alloc_cnt = fail_at = 0;
	work();
	total = alloc_cnt;
	assert_true(total > 3);
	for (size_t n = 1; n <= total; n++) {
		alloc_cnt = 0;
		fail_at = n;
		work();
		assert_true(alloc_cnt >= n); /* the fault was reached */
	}
	print_message("%zu allocations\n", total);
}

static void test_profile(void **state)
{
	(void)state;
	fail_each(profile_work);
}

static void test_sym_python(void **state)
{
	(void)state;
	fail_each(sym_python_work);
}

static void test_strbuf(void **state)
{
	(void)state;
	fail_each(strbuf_work);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strbuf),
		cmocka_unit_test(test_profile),
		cmocka_unit_test(test_sym_python),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
