/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * import_dialects.c, import_perf.c, import_speedscope.c: what py-spy, austin and perf recorded of
 * one program (tests/golden/import) says the same of it; what cannot be read is told so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/jsonread.h"
#include "import/import.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define DIR	      "tests/golden/import/"

static struct import *load_data(const char *name, const char *data, size_t size)
{
	struct import *im = import__new(&(struct import_opts){ 0 });

	assert_non_null(im);
	assert_int_equal(import__add_data(im, name, data, size), 0);
	assert_int_equal(import__finish(im), 0);
	return im;
}

static struct import *load(const char *path)
{
	struct import *im = import__new(&(struct import_opts){ 0 });

	assert_non_null(im);
	assert_int_equal(import__add(im, path), 0);
	assert_int_equal(import__finish(im), 0);
	return im;
}

static const struct sym *sym_at(const struct profile *p, const struct profile_stack *s, uint32_t at)
{
	return &p->syms[p->frame_syms[s->first + at]];
}

/* The count of stacks whose innermost Python frame is this function. */
static uint64_t count_in(const struct profile *p, const char *func)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->stack_cnt; i++) {
		const struct profile_stack *s = &p->stacks[i];

		for (uint32_t at = s->cnt; at--;) {
			const struct sym *sym = sym_at(p, s, at);

			if (sym->kind != SYM_PYTHON)
				continue;
			sum += strcmp(profile__str(p, sym->func), func) ? 0 : s->count;
			break;
		}
	}
	return sum;
}

static uint32_t line_of(const struct profile *p, const char *func)
{
	for (size_t i = 0; i < p->sym_cnt; i++)
		if (!strcmp(profile__str(p, p->syms[i].func), func) && p->syms[i].line > 1)
			return p->syms[i].line;
	return 0;
}

/* ---- Files of the tools ---- */

/* Totals are sums of the file's own numbers, by awk. */
static const struct recorded {
	const char *file, *process;
	uint32_t tgid;
	uint64_t total, digest; /* in all, and in digest() */
	uint32_t per_second;	/* of the total; 0: not known */
	const char *main_thread;
} recorded[] = {
	{ "pyspy.raw", "python", 0, 37, 33, 0, NULL },
	{ "pyspy-threads.raw", "python", 0, 98, 82, 0, "MainThread" },
	{ "pyspy-native.raw", "/opt/python/bin/python3 app.py", 14987, 8, 4, 0, "MainThread" },
	{ "pyspy.speedscope.json", "python", 14987, 1800000000, 1600000000, 1000000000,
	  "MainThread" },
	{ "austin.txt", "python", 14987, 410430000, 410430000, 1000000000, "MainThread" },
	{ "austin-cpu.txt", "python", 14987, 8, 7, 20, "MainThread" },
	{ "perf.txt", "python3", 14987, 11, 0, 20, "python3" },
};

static void test_recorded(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(recorded); i++) {
		const struct recorded *r = &recorded[i];
		char path[128];
		struct import *im;
		const struct profile *p;

		print_message("%s\n", r->file);
		snprintf(path, sizeof(path), DIR "%s", r->file);
		im = load(path);
		p = import__profile(im);
		assert_int_equal(p->proc_cnt, 1);
		assert_string_equal(profile__str(p, profile_proc__name(&p->procs[0])), r->process);
		assert_int_equal(p->procs[0].tgid, r->tgid);
		assert_int_equal(profile__total(p), r->total);
		assert_int_equal(count_in(p, "digest"), r->digest);
		assert_int_equal(value_type__per_second(&p->stats.values[0]), r->per_second);
		assert_int_equal(import__has_threads(im), r->main_thread != NULL);
		if (r->main_thread)
			assert_string_equal(profile__thread_name(p, p->procs[0].space, 14987),
					    r->main_thread);
		if (r->digest)
			assert_int_equal(line_of(p, "digest"), 7);
		import__free(im);
	}
}

/* Libraries and C sources are native, whatever order the tool wrote them in. */
static void test_kinds(void **state)
{
	static const struct {
		const char *func;
		uint8_t kind;
	} expected[] = {
		{ "digest", SYM_PYTHON },
		{ "pbkdf2_hmac_impl", SYM_NATIVE },
		{ "PKCS5_PBKDF2_HMAC", SYM_NATIVE },
		{ "Thread.run", SYM_PYTHON },
		{ "thread_run", SYM_NATIVE },
	};
	struct import *im = load(DIR "pyspy-native.raw");
	const struct profile *p = import__profile(im);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		bool found = false;

		for (size_t k = 0; k < p->sym_cnt && !found; k++)
			if (!strcmp(profile__str(p, p->syms[k].func), expected[i].func)) {
				assert_int_equal(p->syms[k].kind, expected[i].kind);
				found = true;
			}
		assert_true(found);
	}
	import__free(im);
}

/* ---- Text that no tool here can write ---- */

/* The stacks as "[kind]name:line" from outside, with their counts. */
static void assert_stack(const struct profile *p, size_t at, const char *expected)
{
	static const char kinds[] = "?pnkm-";
	const struct profile_stack *s = &p->stacks[at];
	struct strbuf b = { 0 };

	for (uint32_t i = 0; i < s->cnt; i++) {
		const struct sym *sym = sym_at(p, s, i);

		strbuf__addf(&b, "%c:%s:%u ", kinds[sym->kind], profile__str(p, sym->func),
			     sym->line);
	}
	strbuf__addf(&b, "%u", (unsigned)s->count);
	assert_string_equal(b.s, expected);
	strbuf__free(&b);
}

static const struct {
	const char *text, *stack, *process;
	uint32_t tid;
} texts[] = {
	/* Lib/profiling/sampling/stack_collector.py of CPython 3.15 */
	{ "tid:77;app.py:<module>:9;app.py:C.run:3;<GC> 4\n",
	  "p:<module>:9 p:C.run:3 m:garbage collection:0 4", "python", 77 },
	/* A thread handle is no thread id. */
	{ "tid:139637976727552;app.py:f:9 4\n", "p:f:9 4", "python", 0 },
	/* Python/perf_trampoline.c; a command with blanks and numbers; a CPU; no period */
	{ "a 12 b 9/10 [001] 1.5: cycles:u: \n"
	  "\t 7f00 py::C.run:/srv/app.py (/tmp/perf-9.map)\n"
	  "\t 4000 main+0x1f (/usr/bin/x)\n"
	  "\tffffffff8100 do_syscall_64+0x5 ([kernel.kallsyms])\n\n",
	  "k:do_syscall_64:0 n:main:0 p:C.run:0 1", "a 12 b", 10 },
	/* Without a stack, on one line */
	{ "x 9/9 1.5: 100 cycles:  4000 f+0x1 (/usr/bin/x)\n", "n:f:0 100", "x", 9 },
	/* C++ has blanks and parentheses in names. */
	{ "f (a.py:1);ns::g(int, char (*) (x)) (libx.so.1);h (b.cpp:7) 2\n",
	  "p:f:1 n:ns::g(int, char (*) (x)):0 n:h:7 2", "python", 0 },
	/* A command line may have the separator in it. */
	{ "process 9:\"sh -c a;b\";f (a.py:1) 2\n", "p:f:1 2", "sh -c a;b", 0 },
	/* speedscope: names behind the profiles, escapes, no weights */
	{ "{\"profiles\":[{\"samples\":[[0,1]],\"type\":\"sampled\",\"name\":\"p\"}],"
	  "\"shared\":{\"frames\":[{\"name\":\"\\u00e4\\n\",\"file\":\"a.py\",\"line\":3},"
	  "{\"x\":[{}],\"name\":\"do_[k]\"}]}}",
	  "p:\xc3\xa4\n:3 k:do:0 1", "p", 0 },
};

static void test_texts(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct import *im = load_data("x", texts[i].text, strlen(texts[i].text));
		const struct profile *p = import__profile(im);

		assert_int_equal(p->stack_cnt, 1);
		assert_stack(p, 0, texts[i].stack);
		assert_string_equal(profile__str(p, profile_proc__name(&p->procs[0])),
				    texts[i].process);
		assert_int_equal(p->stacks[0].tid, texts[i].tid);
		import__free(im);
	}
}

/* One line that the tool does not write, and the file is what it was before: plain names. */
static void test_not_of_the_tool(void **state)
{
	static const char text[] = "tid:77;app.py:f:9 4\napp;g 1\n";
	struct import *im = load_data("x", text, strlen(text));
	const struct profile *p = import__profile(im);

	(void)state;
	assert_int_equal(p->proc_cnt, 2);
	assert_stack(p, 0, "-:app.py:f:9:0 4");
	import__free(im);
}

/* What perf counts in events is not time, and each event is a value type. */
static void test_perf_events(void **state)
{
	static const char text[] = "x 9/9 1.5: 700 cycles: \n\t 40 f (/x)\n\n"
				   "x 9/9 1.6: 3 my:event: \n\t 40 f (/x)\n\n"
				   "x 9/9 1.7: 800 cycles: \n\t 40 f (/x)\n";
	struct import *im = load_data("x", text, strlen(text));
	const struct profile *p = import__profile(im);

	(void)state;
	assert_int_equal(profile__value_cnt(p), 2);
	assert_string_equal(value_type__name(&p->stats.values[0]), "cycles");
	assert_string_equal(value_type__name(&p->stats.values[1]), "my");
	assert_int_equal(profile__total(p), 1500);
	assert_int_equal(value_type__per_second(&p->stats.values[0]), 0);
	import__free(im);
}

/* ---- What is refused ---- */

static void refuse(const char *data, size_t size, const char *say)
{
	struct import *im = import__new(&(struct import_opts){ 0 });
	int saved = dup(STDERR_FILENO);
	FILE *messages = tmpfile();
	char said[512];
	size_t len;

	assert_true(im && messages && saved >= 0);
	assert_true(dup2(fileno(messages), STDERR_FILENO) >= 0);
	assert_int_equal(import__add_data(im, "x", data, size), -EBADMSG);
	fflush(stderr);
	assert_true(dup2(saved, STDERR_FILENO) >= 0);
	close(saved);
	rewind(messages);
	len = fread(said, 1, sizeof(said) - 1, messages);
	said[len] = '\0';
	fclose(messages);
	if (!strstr(said, say))
		fail_msg("'%s' is not in '%s'", say, said);
	import__free(im);
}

#define REFUSE(data, say) refuse(data, sizeof(data) - 1, say)

static void test_refused(void **state)
{
	(void)state;
	REFUSE("PERFILE2\0\0\0", "perf script -i FILE");
	REFUSE("MOJ\3\1mode", "mojo2austin");
	REFUSE("HCAT\1\0\0\0", "profiling.sampling replay");
	REFUSE("[{\"ph\":\"B\"}]", "Chrome");
	REFUSE("{\"traceEvents\":[]}", "not speedscope's");
	REFUSE("{\"profiles\":[", "no valid JSON");
	REFUSE("{\"profiles\":[{\"type\":\"evented\",\"events\":[]}]}", "calls and returns");
	REFUSE("{\"profiles\":[{\"type\":\"sampled\",\"samples\":[[7]]}]}", "not in the file");
}

/* Brackets that nobody reads cost no stack. */
static void test_deep_json(void **state)
{
	size_t depth = 1 << 20, len = 0;
	char *text = malloc(2 * depth + 64);
	struct jsonread j = { 0 };

	(void)state;
	assert_non_null(text);
	len += (size_t)sprintf(text, "{\"x\":");
	memset(text + len, '[', depth);
	memset(text + len + depth, ']', depth);
	len += 2 * depth;
	len += (size_t)sprintf(text + len, ",\"y\":7}");
	j.s = text;
	j.end = text + len;
	assert_true(jsonread__enter(&j, '{'));
	assert_true(jsonread__key(&j));
	jsonread__skip(&j);
	assert_true(jsonread__key(&j));
	assert_true(jsonread__is(&j, "y"));
	assert_true(jsonread__number(&j) == 7);
	assert_false(jsonread__key(&j));
	assert_false(j.bad);
	jsonread__free(&j);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recorded),    cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_texts),	    cmocka_unit_test(test_not_of_the_tool),
		cmocka_unit_test(test_perf_events), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_deep_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
