/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TEST_VIEWING_H
#define PYPERF_TEST_VIEWING_H
/* Views of profiles built by hand, and what is asked of them. Behind cmocka.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/export_text.h"
#include "profile/reduce.h"
#include "profile/view.h"
#include "unit/profiles.h"

#define SITE   "/srv/venv/lib/python3.11/site-packages/"
#define STDLIB "/usr/lib/python3.11/"
#define BOOT   "<frozen importlib._bootstrap>"

TEST_UNUSED static uint32_t find(const struct view *v, const char *name)
{
	for (uint32_t i = 0; i < v->functions_of.cnt; i++)
		if (!strcmp(profile__str(v->p, export_sym(v->p, v->functions[i].sym)->func), name))
			return i;
	fail_msg("no function %s", name);
	return 0;
}

TEST_UNUSED static void check_own(const struct view *v, const char *name, uint64_t own,
				  uint64_t total, const char *parts)
{
	uint32_t f = find(v, name);
	struct strbuf b = { 0 };

	assert_int_equal(v->functions[f].own, own);
	assert_int_equal(v->functions[f].total, total);
	view_add_parts(&b, v, f);
	assert_int_equal(b.err, 0);
	assert_string_equal(b.len ? b.s : "", parts);
	strbuf__free(&b);
}

/* "  74 5 pbkdf2 crypto.py:76", a chain "  74 0 [3: gunicorn django]" */
TEST_UNUSED static void add_text(struct strbuf *b, const struct view *v, const struct view_row *row)
{
	strbuf__addf(b, "%*s%u %u ", (int)row->depth, "", (unsigned)row->total, (unsigned)row->own);
	if (row->frames)
		strbuf__addf(b, "[%u:", row->frames);
	for (uint32_t i = 0; row->frames && i < row->package_cnt; i++) {
		size_t len;
		const char *name = view_package(v, row->packages[i], &len);

		strbuf__addc(b, ' ');
		strbuf__add(b, name, len);
	}
	if (!row->frames) {
		text_add_func(b, v->p, export_sym(v->p, v->functions[row->function].sym), "?");
		strbuf__addc(b, ' ');
		view_add_place(b, v, row->function, row->line);
	}
	strbuf__addz(b, row->frames ? "]\n" : "\n");
}

TEST_UNUSED static void check_tree(const struct view *v, const char *want)
{
	struct view_tree t;
	struct strbuf b = { 0 };

	assert_int_equal(view_tree__init(&t, v), 0);
	for (size_t i = 0; i < t.cnt; i++)
		add_text(&b, v, &t.rows[i]);
	assert_int_equal(b.err, 0);
	assert_string_equal(b.len ? b.s : "", want);
	strbuf__free(&b);
	view_tree__free(&t);
}

TEST_UNUSED static void check_says(const struct view *v, const char *want)
{
	struct strbuf b = { 0 };

	assert_int_equal(view_add_sentences(&b, v), 0);
	assert_string_equal(b.len ? b.s : "", want);
	strbuf__free(&b);
}

TEST_UNUSED static struct profile *finished(struct profile *p)
{
	symbolized(p);
	p->stats.values[0].frequency_hz = 100;
	return p;
}

TEST_UNUSED static void done(struct view *v, struct profile *p)
{
	view__free(v);
	profile__free(p);
}

/* A service: 100 samples, 76 of them below a call into OpenSSL. */
TEST_UNUSED static struct profile *shop(void)
{
	struct profile *p = profile__new();
	int exe = add_module(p, "/usr/bin/python3.11", "", 0, 0x1000);
	int ssl = add_module(p, "/usr/lib/libcrypto.so.3", "", 0, 0x1000);
	int hash = add_module(p, STDLIB "lib-dynload/_hashlib.cpython-311-x86_64-linux-gnu.so", "",
			      0, 0x1000);
	int libc = add_module(p, "/usr/lib/libc.so.6", "", 0, 0x1000);
	int web = add_proc(p, 10, "gunicorn", "/usr/bin/python3.11", "3.11.2", "", "");
	int start = native(p, "_start", exe, 1), main = native(p, "Py_RunMain", exe, 2);
	int call = native(p, "PyObject_Vectorcall", exe, 3), bare = native(p, "", exe, 4);
	int gc = native(p, "gc_collect_main.lto_priv.0", exe, 5);
	int boot = py(p, "<module>", "/srv/venv/bin/gunicorn", 8, 1);
	int run = py(p, "run", SITE "gunicorn/app.py", 5, 1);
	int handle = py(p, "handle", SITE "gunicorn/sync.py", 9, 1);
	int dispatch = py(p, "dispatch", SITE "django/base.py", 20, 1);
	int signup = py(p, "signup", "/srv/app/views/user.py", 17, 12);
	int signup2 = py(p, "signup", "/srv/app/views/user.py", 19, 12);
	int make = py(p, "make_password", SITE "django/hashers.py", 88, 80);
	int encode = py(p, "encode", SITE "django/hashers.py", 120, 110);
	int pbkdf2 = py(p, "pbkdf2", SITE "django/crypto.py", 76, 70);
	int in_hash = native(p, "", hash, 7), in_ssl = native(p, "SHA256_Update", ssl, 8);
	int list = py(p, "listing", "/srv/app/views/shop.py", 40, 33);
	int key = py(p, "by_price", "/srv/app/shop.py", 4, 3);
	int sort = native(p, "qsort", libc, 9), write = kern(p, "do_syscall_64", 0xff);

	STACK(p, web, 10, 70, start, main, boot, call, run, call, handle, call, dispatch, call,
	      signup, make, encode, call, pbkdf2, call, in_hash, in_ssl);
	STACK(p, web, 10, 6, start, main, boot, call, run, call, handle, call, dispatch, call,
	      signup, make, encode, call, pbkdf2, call, bare);
	STACK(p, web, 10, 3, start, main, boot, run, handle, dispatch, signup2, gc);
	STACK(p, web, 10, 11, start, main, boot, run, handle, dispatch, list, sort, call, key);
	STACK(p, web, 10, 1, start, main, boot, run, handle, dispatch, list, call, list, call);
	STACK(p, web, 10, 9, start, main, boot, run, handle, write);
	return finished(p);
}

#endif /* PYPERF_TEST_VIEWING_H */
