/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * sym_python.c: pieces -> names and lines. The line tables have a test of their own: test_pylines.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "python/pylines.h"
#include "symbolize/symbolize.h"

#define FFFD "\xef\xbf\xbd"
#define CUT  "\xe2\x80\xa6"

static const struct py_layout layout_311 = { .linetable_kind = PY_LINES_311 };
static const struct py_layout layout_36 = { .linetable_kind = PY_LINES_LNOTAB };

/* 3.11: two units at the first line, two units one line further, two units without a line */
static const uint8_t table_311[] = { 0xd1, 0, 0xd9, 0, 0, 0xf9 };

static int send(struct sym_python *s, uint64_t id, enum blob_kind kind, uint32_t offset,
		const void *data, uint32_t size)
{
	struct ev_blob ev = { .type = EV_BLOB, .kind = kind, .id = id, .offset = offset };

	ev.size = size;
	if (size)
		memcpy(ev.data, data, size);
	return sym_python__on_blob(s, &ev, offsetof(struct ev_blob, data) + size);
}

/* All pieces of a blob. */
static void send_all(struct sym_python *s, uint64_t id, enum blob_kind kind, const void *data,
		     uint32_t size)
{
	for (uint32_t at = 0, part; at < size; at += part) {
		part = size - at < BLOB_DATA ? size - at : BLOB_DATA;
		assert_int_equal(send(s, id, kind, at, (const char *)data + at, part), 0);
	}
}

static struct ev_code make_code(uint64_t id, size_t file_sz, size_t name_sz, size_t table_sz)
{
	struct ev_code ev = { .type = EV_CODE, .id = id, .firstlineno = 10 };

	ev.blob[BLOB_FILENAME] = (struct blob_info){ .size = (uint32_t)file_sz, .width = 1 };
	ev.blob[BLOB_NAME] = (struct blob_info){ .size = (uint32_t)name_sz, .width = 1 };
	ev.blob[BLOB_LINETABLE] = (struct blob_info){ .size = (uint32_t)table_sz, .width = 1 };
	return ev;
}

/* A whole code object of table_311. */
static void add(struct sym_python *s, uint64_t id, const char *file, const char *name)
{
	struct ev_code ev = make_code(id, strlen(file), strlen(name), sizeof(table_311));

	ev.tgid = (uint32_t)(id % 2);
	send_all(s, id, BLOB_FILENAME, file, (uint32_t)strlen(file));
	send_all(s, id, BLOB_NAME, name, (uint32_t)strlen(name));
	send_all(s, id, BLOB_LINETABLE, table_311, sizeof(table_311));
	assert_int_equal(sym_python__on_code(s, &ev, sizeof(ev), &layout_311, 0), 0);
}

static void check_names(struct sym_python *s, uint64_t id, const char *file, const char *name)
{
	struct py_function f;

	assert_true(sym_python__find(s, id, &f));
	assert_string_equal(f.file, file);
	assert_string_equal(f.name, name);
	assert_int_equal(f.file_len, strlen(file));
	assert_int_equal(f.name_len, strlen(name));
}

static void test_whole(void **state)
{
	struct sym_python *s = sym_python__new();
	struct py_function f;

	(void)state;
	assert_false(sym_python__find(s, 1, &f));
	assert_string_equal(f.name, "");
	assert_int_equal(sym_python__missing(s, 1), -ENOENT);
	assert_int_equal(sym_python__line(s, 1, 0), 0);
	add(s, 1, "/srv/app.py", "App.run");
	check_names(s, 1, "/srv/app.py", "App.run");
	assert_true(sym_python__find(s, 1, &f));
	assert_int_equal(f.first_line, 10);
	assert_int_equal(sym_python__missing(s, 1), 0);
	assert_int_equal(sym_python__line(s, 1, 0), 10);
	assert_int_equal(sym_python__line(s, 1, 2), 10);
	assert_int_equal(sym_python__line(s, 1, 4), 11);
	assert_int_equal(sym_python__line(s, 1, 8), 0);
	assert_int_equal(sym_python__line(s, 1, 100), 0);
	assert_int_equal(sym_python__line(s, 1, OFFSET_NOT_STARTED), 10);
	/* Of compiled code: the line itself. */
	assert_int_equal(sym_python__line(s, 1, OFFSET_LINE + 4711), 4711);
	assert_int_equal(sym_python__line(s, 1, OFFSET_LINE), 10);
	sym_python__free(s);
	sym_python__free(NULL);
}

/* Equal functions of several processes are one: even their strings are the same memory. */
static void test_shared(void **state)
{
	struct sym_python *s = sym_python__new();
	struct py_function a, b;

	(void)state;
	for (uint64_t id = 1; id <= 1000; id++)
		add(s, id * 0x100000001, "/srv/app.py", id % 2 ? "odd" : "even");
	assert_true(sym_python__find(s, 3 * 0x100000001, &a));
	assert_true(sym_python__find(s, 999 * 0x100000001, &b));
	assert_ptr_equal(a.name, b.name);
	assert_ptr_equal(a.file, b.file);
	assert_int_equal(a.number, b.number);
	assert_true(sym_python__find(s, 1000 * 0x100000001, &b));
	assert_true(a.number != b.number && b.number < 2);
	check_names(s, 1000 * 0x100000001, "/srv/app.py", "even");
	sym_python__free(s);
}

/* Only what was not live twice in a row goes, and with it what no other code object has. */
static void test_forgetting(void **state)
{
	struct sym_python *s = sym_python__new();
	uint64_t first[] = { 9, 2, 4 }, second[] = { 4, 5, 3 }, third[] = { 4 };
	struct py_function f;
	size_t all;

	(void)state;
	assert_false(sym_python__wants_sweep(s, SYM_PYTHON_BUDGET));
	assert_true(sym_python__was_named(s, 1));
	for (uint64_t id = 1; id <= 4; id++)
		add(s, id, "/srv/app.py", id % 2 ? "odd" : "even");
	assert_false(sym_python__was_named(s, 1));
	assert_true(sym_python__find(s, 1, &f));
	for (int round = 0; round < 3; round++) {
		assert_int_equal(sym_python__was_named(s, 1), round < 2);
		sym_python__begin_round(s);
	}
	all = sym_python__memory(s);

	assert_int_equal(sym_python__sweep(s, first, 3), 0); /* 1 and 3 are idle */
	assert_true(sym_python__wants_sweep(s, SYM_PYTHON_BUDGET));
	assert_int_equal(sym_python__memory(s), all);
	add(s, 5, "/srv/app.py", "odd");
	add(s, 6, "/srv/new.py", "new"); /* came after the first sweep */
	assert_int_equal(sym_python__sweep(s, second, 3), 0);
	assert_false(sym_python__wants_sweep(s, SYM_PYTHON_BUDGET));
	assert_false(sym_python__find(s, 1, &f));
	check_names(s, 2, "/srv/app.py", "even");
	check_names(s, 3, "/srv/app.py", "odd");
	check_names(s, 4, "/srv/app.py", "even");
	check_names(s, 5, "/srv/app.py", "odd");
	check_names(s, 6, "/srv/new.py", "new");
	assert_int_equal(sym_python__last_id(s), 6);
	add(s, CODE_IDS_HOST + 5, "/srv/app.py", "even"); /* a walk outside of the kernel */
	assert_int_equal(sym_python__last_id(s), 6);
	add(s, CODE_IDS_HOST + 7, "/srv/app.py", "even");
	assert_int_equal(sym_python__last_id(s), 7);

	for (int i = 0; i < 2; i++)
		assert_int_equal(sym_python__sweep(s, third, 1), 0);
	check_names(s, 4, "/srv/app.py", "even");
	for (uint64_t id = 1; id <= 6; id++)
		assert_int_equal(sym_python__find(s, id, &f), id == 4);
	assert_true(sym_python__memory(s) < all);
	add(s, 6, "/srv/new.py", "new");
	check_names(s, 6, "/srv/new.py", "new");
	sym_python__free(s);
}

static bool is_first_process(void *ctx, uint32_t tgid)
{
	(void)ctx;
	return tgid == 1;
}

/* A process has gone: not so its functions, which may be another one's, too. */
static void test_process_gone(void **state)
{
	struct sym_python *s = sym_python__new();
	struct py_function before, after;

	(void)state;
	for (uint64_t id = 1; id <= 1000; id++)
		add(s, id, "/srv/app.py", id % 2 ? "odd" : "even");
	assert_true(sym_python__find(s, 7, &before));
	assert_int_equal(sym_python__forget(s, is_first_process, NULL), 0);
	assert_int_equal(sym_python__code_cnt(s), 500);
	for (uint64_t id = 1; id <= 1000; id++)
		assert_int_equal(sym_python__find(s, id, &after), id % 2 == 0);
	assert_string_equal(after.name, "even");
	assert_string_equal(before.name, "odd");
	add(s, 7, "/srv/app.py", "odd");
	assert_true(sym_python__find(s, 7, &after));
	assert_int_equal(after.number, before.number);
	sym_python__free(s);
}

/* Beyond the budget a sweep is due when there is a quarter more than the last one has left. */
static void test_due(void **state)
{
	struct sym_python *s = sym_python__new();
	uint64_t id = 0, live[4096];
	size_t kept;

	(void)state;
	for (; sym_python__memory(s) <= SYM_PYTHON_BUDGET; live[id - 1] = id)
		add(s, ++id, "/srv/app.py", "even");
	assert_true(sym_python__wants_sweep(s, SYM_PYTHON_BUDGET));
	for (int i = 0; i < 2; i++)
		assert_int_equal(sym_python__sweep(s, live, (size_t)id), 0);
	kept = sym_python__memory(s);
	assert_true(kept > SYM_PYTHON_BUDGET);
	assert_false(sym_python__wants_sweep(s, SYM_PYTHON_BUDGET));
	while (sym_python__memory(s) <= kept + kept / 4) {
		assert_false(sym_python__wants_sweep(s, SYM_PYTHON_BUDGET));
		add(s, ++id, "/srv/app.py", "even");
	}
	assert_true(sym_python__wants_sweep(s, SYM_PYTHON_BUDGET));
	assert_true(sym_python__memory(s) < kept + kept / 2);
	sym_python__free(s);
}

static void test_pieces(void **state)
{
	struct sym_python *s = sym_python__new();
	uint32_t size = MAX_BLOB_PIECES * BLOB_DATA;
	char *name = malloc(size + 1), *file = malloc(size + 1);
	struct ev_code ev = make_code(7, BLOB_DATA + 1, size, 0), other = make_code(8, 1, 1, 0);

	(void)state;
	for (uint32_t i = 0; i < size; i++)
		name[i] = (char)('a' + i % 23);
	memcpy(file, name, BLOB_DATA + 1);
	name[size] = file[BLOB_DATA + 1] = '\0';
	/* kinds and codes may alternate */
	for (uint32_t at = 0; at < size; at += BLOB_DATA) {
		assert_int_equal(send(s, 7, BLOB_NAME, at, name + at, BLOB_DATA), 0);
		if (at == 0)
			send_all(s, 7, BLOB_FILENAME, file, BLOB_DATA + 1);
		if (at == BLOB_DATA)
			send_all(s, 8, BLOB_NAME, "n", 1);
		if (at == 2 * BLOB_DATA)
			send_all(s, 8, BLOB_FILENAME, "f", 1);
	}
	assert_int_equal(send(s, 7, BLOB_NAME, size, name, 1), -E2BIG);
	assert_int_equal(sym_python__on_code(s, &other, sizeof(other), &layout_311, 0), 0);
	assert_int_equal(sym_python__on_code(s, &ev, sizeof(ev), &layout_311, 0), 0);
	check_names(s, 7, file, name);
	check_names(s, 8, "f", "n");
	assert_int_equal(sym_python__missing(s, 7), 0);
	free(name);
	free(file);
	sym_python__free(s);
}

static void test_cut(void **state)
{
	struct sym_python *s = sym_python__new();
	char name[3 * BLOB_DATA + 1], want[BLOB_DATA + 4];
	struct ev_code ev = make_code(1, 4, 3 * BLOB_DATA, sizeof(table_311));
	struct blob_info info = { .size = 3 * BLOB_DATA, .width = 1 };

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	memset(want, 'x', BLOB_DATA);
	strcpy(want + BLOB_DATA, CUT);
	/* the second of three pieces is lost, all of the file, half of the lines */
	assert_int_equal(send(s, 1, BLOB_NAME, 0, name, BLOB_DATA), 0);
	assert_int_equal(send(s, 1, BLOB_NAME, 2 * BLOB_DATA, name, BLOB_DATA), 0);
	assert_int_equal(send(s, 1, BLOB_LINETABLE, 0, table_311, 2), 0);
	assert_int_equal(sym_python__on_code(s, &ev, sizeof(ev), &layout_311, 0), 0);
	check_names(s, 1, "", want);
	assert_int_equal(sym_python__missing(s, 1), 7);
	assert_int_equal(sym_python__line(s, 1, 0), 0);
	assert_int_equal(sym_python__line(s, 1, OFFSET_NOT_STARTED), 10);

	assert_int_equal(sym_python__supply(s, 1, BLOB_NAME, name, &info), 0);
	check_names(s, 1, "", name);
	assert_int_equal(sym_python__missing(s, 1), 5);
	assert_int_equal(sym_python__supply(s, 1, BLOB_NAME, name, &info), -EEXIST);
	info.size = 4;
	assert_int_equal(sym_python__supply(s, 1, BLOB_FILENAME, "f.py", &info), 0);
	check_names(s, 1, "f.py", name);
	info.size = sizeof(table_311);
	assert_int_equal(sym_python__supply(s, 1, BLOB_LINETABLE, table_311, &info), 0);
	assert_int_equal(sym_python__missing(s, 1), 0);
	assert_int_equal(sym_python__line(s, 1, 4), 11);
	assert_int_equal(sym_python__supply(s, 2, BLOB_NAME, name, &info), -ENOENT);
	sym_python__free(s);
}

/* Nothing could be read: the header of the string neither, so BPF knows no width. */
static void test_unreadable(void **state)
{
	struct sym_python *s = sym_python__new();
	struct ev_code ev = make_code(1, 0, 0, 0);
	struct blob_info info = { .size = 2, .width = 0 };

	(void)state;
	for (int i = 0; i < BLOB_CNT; i++)
		ev.blob[i] = (struct blob_info){ .flags = BLOB_MISSING };
	assert_int_equal(sym_python__on_code(s, &ev, sizeof(ev), &layout_36, 0), 0);
	check_names(s, 1, "", "<unknown>");
	assert_int_equal(sym_python__missing(s, 1), 7);
	assert_int_equal(sym_python__line(s, 1, 0), 0);
	assert_int_equal(sym_python__supply(s, 1, BLOB_NAME, "ab", &info), -EINVAL);
	assert_int_equal(sym_python__supply(s, 1, BLOB_CNT, "ab", &info), -EINVAL);
	info.width = 1;
	info.flags = BLOB_MISSING; /* as it was sent: says nothing of what is supplied */
	assert_int_equal(sym_python__supply(s, 1, BLOB_NAME, "\xe4z", &info), 0);
	check_names(s, 1, "", "\xc3\xa4z");
	info.size = 0;
	assert_int_equal(sym_python__supply(s, 1, BLOB_LINETABLE, NULL, &info), 0);
	assert_int_equal(sym_python__line(s, 1, 0), 10); /* an empty lnotab is one line */
	sym_python__free(s);
}

static void check_name(unsigned width, unsigned flags, const void *data, size_t size,
		       const char *want)
{
	struct sym_python *s = sym_python__new();
	struct ev_code ev = make_code(1, 0, size, 0);

	ev.blob[BLOB_NAME].width = (uint8_t)width;
	ev.blob[BLOB_NAME].flags = (uint8_t)flags;
	send_all(s, 1, BLOB_NAME, data, (uint32_t)size);
	assert_int_equal(sym_python__on_code(s, &ev, sizeof(ev), &layout_36, 0), 0);
	check_names(s, 1, "", want);
	sym_python__free(s);
}

static void test_widths(void **state)
{
	static const uint16_t ucs2[] = { 'a', 0x20ac, 0xd800, 0xffff };
	static const uint32_t ucs4[] = { 'a', 0x1f40d, 0x110000, 0xdc80, 0xffffffff };

	(void)state;
	check_name(1, BLOB_ASCII, "plain", 5, "plain");
	check_name(1, 0, "na\xefve", 5, "na\xc3\xafve");
	check_name(1, BLOB_PY2, "na\xc3\xafve \xef!", 9, "na\xc3\xafve " FFFD "!");
	check_name(2, 0, ucs2, sizeof(ucs2), "a\xe2\x82\xac" FFFD "\xef\xbf\xbf");
	check_name(4, 0, ucs4, sizeof(ucs4), "a\xf0\x9f\x90\x8d" FFFD FFFD FFFD);
	check_name(2, 0, ucs2, sizeof(ucs2) - 1, "a\xe2\x82\xac" FFFD); /* half a character */
	check_name(4, 0, ucs4, 3, "<unknown>");
	check_name(3, 0, "abc", 3, "<unknown>");
	check_name(1, 0, "", 0, "<unknown>");
}

static void test_nonsense(void **state)
{
	struct sym_python *s = sym_python__new();
	struct ev_blob blob = { .type = EV_BLOB, .kind = BLOB_NAME, .id = 1, .size = 4 };
	struct ev_code code = make_code(1, 0, 2, 0);
	size_t head = offsetof(struct ev_blob, data);

	(void)state;
	assert_int_equal(sym_python__on_blob(s, &blob, head - 1), -EINVAL);
	assert_int_equal(sym_python__on_blob(s, &blob, head + 3), -EINVAL);
	blob.size = BLOB_DATA + 1;
	assert_int_equal(sym_python__on_blob(s, &blob, sizeof(blob) + 100), -EINVAL);
	blob.size = 4;
	blob.kind = BLOB_CNT;
	assert_int_equal(sym_python__on_blob(s, &blob, sizeof(blob)), -EINVAL);
	blob.kind = BLOB_NAME;
	blob.type = EV_CODE;
	assert_int_equal(sym_python__on_blob(s, &blob, sizeof(blob)), -EINVAL);
	assert_int_equal(sym_python__on_code(s, &code, sizeof(code) - 1, &layout_36, 0), -EINVAL);
	code.type = EV_BLOB;
	assert_int_equal(sym_python__on_code(s, &code, sizeof(code), &layout_36, 0), -EINVAL);
	code.type = EV_CODE;
	/* the same piece twice; more than the record says; a record too many */
	assert_int_equal(send(s, 1, BLOB_NAME, 0, "abcd", 4), 0);
	assert_int_equal(send(s, 1, BLOB_NAME, 0, "efgh", 4), -EINVAL);
	assert_int_equal(sym_python__on_code(s, &code, sizeof(code), &layout_36, 0), 0);
	check_names(s, 1, "", "ab");
	assert_int_equal(sym_python__on_code(s, &code, sizeof(code), &layout_36, 0), -EEXIST);
	assert_int_equal(send(s, 1, BLOB_NAME, 0, "late", 4), -EEXIST);
	check_names(s, 1, "", "ab");
	sym_python__free(s);
}

/* Pieces whose code never comes: the last ones are there, the first ones are not. */
static void test_orphans(void **state)
{
	struct sym_python *s = sym_python__new();
	struct ev_code ev = make_code(0, 0, BLOB_DATA, 0);
	char piece[BLOB_DATA];
	uint64_t n = 20000;
	int known = 0;

	(void)state;
	memset(piece, 'p', sizeof(piece));
	for (uint64_t id = 1; id <= n; id++)
		assert_int_equal(send(s, id, BLOB_NAME, 0, piece, BLOB_DATA), 0);
	for (uint64_t id = 1; id <= n; id++) {
		ev.id = id;
		assert_int_equal(sym_python__on_code(s, &ev, sizeof(ev), &layout_36, 0), 0);
		known += !sym_python__missing(s, id);
	}
	assert_int_equal(sym_python__missing(s, n), 0);
	assert_int_equal(sym_python__missing(s, 1), 1 << BLOB_NAME);
	assert_int_equal(known, 1024);
	/* few, but big */
	for (uint64_t id = n + 1; id <= n + 200; id++)
		for (uint32_t at = 0; at < MAX_BLOB_PIECES * BLOB_DATA; at += BLOB_DATA)
			assert_int_equal(send(s, id, BLOB_NAME, at, piece, BLOB_DATA), 0);
	known = 0;
	ev.blob[BLOB_NAME].size = MAX_BLOB_PIECES * BLOB_DATA;
	for (uint64_t id = n + 1; id <= n + 200; id++) {
		ev.id = id;
		assert_int_equal(sym_python__on_code(s, &ev, sizeof(ev), &layout_36, 0), 0);
		known += !sym_python__missing(s, id);
	}
	assert_int_equal(known, (4 << 20) / (MAX_BLOB_PIECES * BLOB_DATA));
	send(s, n + 1000, BLOB_NAME, 0, piece, 1); /* left for sym_python__free() */
	sym_python__free(s);
}

/* One user's names leave room for another's; what was known stays so; forgetting makes room. */
static void test_shares(void **state)
{
	enum { HOSTILE = 7, OTHER = 8, MANY = 200 };
	struct sym_python *s = sym_python__new();
	size_t size = MAX_BLOB_PIECES * BLOB_DATA;
	char *name = calloc(1, size + 1);
	struct ev_code ev = make_code(0, 0, (uint32_t)size, 0);
	struct py_function f;
	uint64_t id = 1, named = 0;

	(void)state;
	memset(name, 'x', size);
	for (; id <= MANY; id++) {
		ev.id = id;
		snprintf(name, 8, "%07d", (int)id % 1000);
		name[7] = 'x';
		send_all(s, id, BLOB_NAME, name, (uint32_t)size);
		assert_int_equal(sym_python__on_code(s, &ev, sizeof(ev), &layout_36, HOSTILE), 0);
		assert_true(sym_python__find(s, id, &f));
		named += f.name_len == size;
	}
	assert_in_range(named, 90, 110); /* four fifths of 16 MiB */
	assert_string_equal(f.name, "<no room for names>");
	assert_int_equal(sym_python__missing(s, MANY), 0);
	assert_true(sym_python__memory(s) < (16 << 20));
	snprintf(name, 8, "%07d", 1);
	name[7] = 'x';
	for (; id <= MANY + 2; id++) { /* known; and new, of another */
		ev.id = id;
		send_all(s, id, BLOB_NAME, name, (uint32_t)size);
		assert_int_equal(sym_python__on_code(s, &ev, sizeof(ev), &layout_36,
						     id == MANY + 1 ? HOSTILE : OTHER),
				 0);
		assert_true(sym_python__find(s, id, &f));
		assert_string_equal(f.name, name);
		memset(name, 'y', size);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(sym_python__sweep(s, (uint64_t[]){ MANY + 2 }, 1), 0);
	ev.id = id;
	send_all(s, id, BLOB_NAME, name, (uint32_t)size);
	name[0] = 'z';
	ev.id = id + 1;
	send_all(s, id + 1, BLOB_NAME, name, (uint32_t)size);
	assert_int_equal(sym_python__on_code(s, &ev, sizeof(ev), &layout_36, HOSTILE), 0);
	assert_true(sym_python__find(s, id + 1, &f));
	assert_string_equal(f.name, name);
	free(name);
	sym_python__free(s);
}

static void test_first_lines(void **state)
{
	struct sym_python *s = sym_python__new();
	struct ev_code ev = make_code(1, 0, 0, 0);
	struct py_function f;

	(void)state;
	ev.firstlineno = -3;
	assert_int_equal(sym_python__on_code(s, &ev, sizeof(ev), &layout_36, 0), 0);
	assert_true(sym_python__find(s, 1, &f));
	assert_int_equal(f.first_line, 0);
	assert_int_equal(sym_python__line(s, 1, 0), 0);
	assert_int_equal(sym_python__line(s, 1, OFFSET_NOT_STARTED), 0);
	sym_python__free(s);
}

static void add_table(struct sym_python *s, uint64_t id, enum py_linetable kind,
		      const uint8_t *table, uint32_t size)
{
	struct py_layout layout = { .linetable_kind = kind };
	struct ev_code ev = make_code(id, 0, 0, size);

	send_all(s, id, BLOB_LINETABLE, table, size);
	assert_int_equal(sym_python__on_code(s, &ev, sizeof(ev), &layout, 0), 0);
}

/*
 * Before the first instruction with a line: the first line; behind it, an instruction without a
 * line has none.
 */
static void test_prologue(void **state)
{
	static const uint8_t new[] = { 0xf8, 0xd8, 0, 0, 0xf8 }, old[] = { 2, 0x80, 2, 1, 2, 0x80 },
			     none[] = { 0xf9 }, line_0[] = { 0xe8, 0x15, 0xe8, 0x16 };
	struct sym_python *s = sym_python__new();

	(void)state;
	add_table(s, 1, PY_LINES_311, new, sizeof(new));
	add_table(s, 2, PY_LINES_310, old, sizeof(old));
	for (uint64_t id = 1; id <= 2; id++) {
		assert_int_equal(sym_python__line(s, id, 0), 10);
		assert_int_equal(sym_python__line(s, id, 2), 11);
		assert_int_equal(sym_python__line(s, id, 4), 0);
		assert_int_equal(sym_python__line(s, id, 6), 0); /* behind the table */
	}
	add_table(s, 3, PY_LINES_311, none, sizeof(none));
	assert_int_equal(sym_python__line(s, 3, 2), 10);
	assert_int_equal(sym_python__line(s, 3, 4), 0);
	/* A module begins with an instruction of line 0, which no source has. */
	add_table(s, 4, PY_LINES_311, line_0, sizeof(line_0));
	assert_int_equal(sym_python__line(s, 4, 0), 10);
	assert_int_equal(sym_python__line(s, 4, 2), 11);
	sym_python__free(s);
}

/* What no interpreter writes: cut tables, lines beyond int, varints without an end. */
static void test_bad_tables(void **state)
{
	static const uint8_t up[] = { 0, 0x7f, 0, 0x7f }, odd[] = { 2, 1, 2 },
			     endless[] = { 0xe8, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f },
			     cut[] = { 0xe8 }, no_start[] = { 0, 1, 2, 0xd0, 0 };

	(void)state;
	assert_int_equal(py_line(PY_LINES_LNOTAB, up, sizeof(up), INT32_MAX - 254, 0), INT32_MAX);
	assert_int_equal(py_line(PY_LINES_LNOTAB, up, sizeof(up), INT32_MAX - 253, 0), 0);
	assert_int_equal(py_line(PY_LINES_LNOTAB, odd, sizeof(odd), 1, 9), 2);
	assert_int_equal(py_line(PY_LINES_310, odd, sizeof(odd), 1, 1), 2);
	assert_int_equal(py_line(PY_LINES_310, odd, sizeof(odd), 1, 2), 0);
	assert_int_equal(py_line(PY_LINES_311, endless, sizeof(endless), 1, 0), 0);
	assert_int_equal(py_line(PY_LINES_311, cut, sizeof(cut), 5, 0), 5);
	assert_int_equal(py_line(PY_LINES_311, no_start, sizeof(no_start), 5, 0), 5);
	assert_int_equal(py_line((enum py_linetable)0, up, sizeof(up), 5, 0), 0);
	assert_int_equal(py_line(PY_LINES_311, NULL, 0, 5, 0), 0);
	assert_int_equal(py_line(PY_LINES_LNOTAB_27, NULL, 0, 5, 0), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),	     cmocka_unit_test(test_shared),
		cmocka_unit_test(test_forgetting),   cmocka_unit_test(test_due),
		cmocka_unit_test(test_process_gone), cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_cut),	     cmocka_unit_test(test_unreadable),
		cmocka_unit_test(test_widths),	     cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_orphans),	     cmocka_unit_test(test_shares),
		cmocka_unit_test(test_first_lines),  cmocka_unit_test(test_prologue),
		cmocka_unit_test(test_bad_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
