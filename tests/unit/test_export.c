/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * export*.c: profiles built by hand against golden texts, and the words of each format.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/export.h"
#include "export/export_summary.h"
#include "profile/export_text.h"
#include "unit/exporting.h"

/* ---- Folded ---- */

static void test_folded(void **state)
{
	(void)state;
	golden("service.folded", export__folded, service(), defaults);
	golden("service-functions.folded", export__folded, service(), (struct export_opts){ 0 });
	golden("service-threads.folded", export__folded, service(),
	       (struct export_opts){ .lines = true, .threads = true });
	golden("hostile.folded", export__folded, hostile(), defaults);
	golden("service.md", export__markdown, service(), defaults);
	golden("hostile.md", export__markdown, hostile(), defaults);
	golden("empty.folded", export__folded, profile__new(), defaults);
}

/* Every line is "elements COUNT", without a character that acts; counts add up. */
static void test_folded_shape(void **state)
{
	struct profile *profiles[] = { service(), hostile() };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(profiles); i++) {
		char *s = output(export__folded, profiles[i], &defaults, NULL), *save, *line;
		unsigned long long sum = 0;

		for (line = strtok_r(s, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
			char *space = strrchr(line, ' ');

			assert_non_null(space);
			sum += strtoull(space + 1, NULL, 10);
			assert_null(strstr(line, ";;"));
			for (char *c = line; *c; c++)
				assert_true((unsigned char)*c >= 0x20 && *c != 0x7f);
		}
		assert_int_equal(sum, profile__total(profiles[i]));
		free(s);
		profile__free(profiles[i]);
	}
}

static void test_not_symbolized(void **state)
{
	struct profile *p = service();
	char *s;

	(void)state;
	free(p->frame_syms);
	p->frame_syms = NULL;
	s = output(export__folded, p, &defaults, NULL);
	assert_non_null(strstr(s, "gunicorn;[not-symbolized];"));
	free(s);
	free(output(export__report, p, &defaults, NULL));
	free(output(export__pprof, p, &defaults, NULL));
	profile__free(p);
}

/* ---- Report ---- */

static void test_report(void **state)
{
	(void)state;
	golden("service-80.txt", export__report, service(),
	       (struct export_opts){ .lines = true, .width = 80 });
	golden("service-120.txt", export__report, service(),
	       (struct export_opts){ .lines = true, .width = 120 });
	golden("service.txt", export__report, service(), defaults);
	golden("service-threads-80.txt", export__report, service(),
	       (struct export_opts){ .threads = true, .width = 80 });
	golden("service-color-80.txt", export__report, service(),
	       (struct export_opts){ .lines = true, .width = 80, .color = true });
	golden("hostile-80.txt", export__report, hostile(),
	       (struct export_opts){ .lines = true, .width = 80 });
}

static void test_report_nothing(void **state)
{
	struct profile *p = profile__new();

	(void)state;
	set_stats(p, 1234, 0);
	p->stats.counters[CTR_delivered] += 5000;
	p->stats.counters[CTR_filtered_idle] = 5000;
	golden("nothing-80.txt", export__report, p, (struct export_opts){ .width = 80 });
	p = profile__new();
	set_stats(p, 0, 0);
	p->resting[0] = profile__intern_z(p, "4711 app.py, Python 3.11.2, 2 threads: 1 sleeping in "
					     "futex (waits: lock), 1 sleeping in epoll_wait");
	p->resting[1] = profile__intern_z(p, "4712 \033[31m.py: sleeping in read (waits: pipe)");
	p->resting_cnt = 2;
	p->resting_more = 3;
	p->resting_tgid = 4711;
	golden("resting-80.txt", export__report, p, (struct export_opts){ .width = 80 });
	p = profile__new();
	set_stats(p, 0, 0);
	p->no_python = true;
	golden("no-python-80.txt", export__report, p, (struct export_opts){ .width = 80 });
	p = profile__new();
	set_stats(p, 0, 0);
	golden("silence-80.txt", export__report, p, (struct export_opts){ .width = 80 });
	golden("zeroes-80.txt", export__report, profile__new(),
	       (struct export_opts){ .width = 80 });
}

/* 200 workers are one row; a long, deep stack loses its middle. */
static struct profile *many(void)
{
	struct profile *p = profile__new();
	int lib = add_module(p, "/usr/lib/libpython3.9.so.1.0", "aa", 0, 0x1000);
	int stack[100], cnt = 0, leaf;

	for (int i = 0; i < 30; i++) {
		char name[32];

		snprintf(name, sizeof(name), "level%d", i);
		stack[cnt++] =
			py(p, name, "/srv/deep.py", (uint32_t)(10 * i + 5), (uint32_t)(10 * i + 1));
		stack[cnt++] = native(p, "_PyFunction_Vectorcall", lib, 0x100);
		stack[cnt++] = native(p, "PyObject_Call", lib, 0x200);
	}
	leaf = py(p, "work", "/srv/deep.py", 400, 390);
	stack[cnt++] = leaf;
	stack[cnt] = -1;
	for (uint32_t i = 0; i < 200; i++) {
		int proc = add_proc(p, 1000 + i, "python3", "/usr/bin/python3.9", "3.9.18", "", "");

		add_stack(p, proc, 0, 1 + i % 7, stack);
	}
	for (uint32_t i = 0; i < 14; i++) {
		char comm[16];

		snprintf(comm, sizeof(comm), "svc%u", i);
		STACK(p, add_proc(p, 2000 + i, comm, "/usr/bin/python3.12", "3.12.1", "", ""), 0,
		      14 - i, leaf);
	}
	symbolized(p);
	set_stats(p, 0, 0);
	return p;
}

static void test_report_many(void **state)
{
	(void)state;
	golden("many-80.txt", export__report, many(),
	       (struct export_opts){ .lines = true, .width = 80 });
}

/* No line is wider than the terminal, whatever the width and the names. */
static void test_report_fits(void **state)
{
	locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0), old;

	(void)state;
	assert_true(utf8 != (locale_t)0);
	old = uselocale(utf8);
	for (unsigned width = 1; width < 140; width++) {
		struct profile *profiles[] = { service(), hostile(), many() };

		for (size_t i = 0; i < ARRAY_SIZE(profiles); i++) {
			struct export_opts o = { .lines = true, .threads = true, .width = width };
			char *s = output(export__report, profiles[i], &o, NULL), *save, *line;

			for (line = strtok_r(s, "\n", &save); line;
			     line = strtok_r(NULL, "\n", &save))
				assert_in_range(text_width(line, strlen(line)), 0, width);
			free(s);
			profile__free(profiles[i]);
		}
	}
	uselocale(old);
	freelocale(utf8);
}

/* Processes of one row are equal in all that it shows: another version of Python is another row. */
static void test_report_versions(void **state)
{
	struct profile *p = profile__new();
	int f = py(p, "handle", "/srv/app.py", 12, 10);
	char *s;

	(void)state;
	for (uint32_t i = 0; i < 20; i++) {
		const char *python = i % 4 < 2 ? "3.11.7" : "3.12.1";
		const char *why = i % 4 == 3 ? "its memory cannot be read" : "";
		int proc = add_proc(p, 100 + i, "python3", "/opt/python3", python, why, "");

		STACK(p, proc, 0, 10 + i, f);
	}
	symbolized(p);
	set_stats(p, 1000, 0);
	s = output(export__report, p, &(struct export_opts){ .width = 120 }, NULL);
	assert_non_null(strstr(s, "python3 (10 processes)  3.11.7  /opt/python3"));
	assert_non_null(strstr(s, "python3 (5 processes)   3.12.1  /opt/python3"));
	assert_non_null(strstr(s, "python3 (5 processes)   3.12.1  native only: its memory"));
	free(s);
	profile__free(p);
}

static void test_report_unnamed(void **state)
{
	struct profile *p = profile__new();
	int ssl = add_module(p, "/usr/lib/libcrypto.so.3", "", 0, 0x1000);
	int proc = add_proc(p, 10, "python3", "/usr/bin/python3.11", "3.11.2", "", "");
	int work = py(p, "work", "/srv/app/a.py", 3, 1);
	char *s;

	(void)state;
	STACK(p, proc, 0, 300, work);
	STACK(p, proc, 0, 100, work, native(p, "", ssl, 7));
	symbolized(p);
	p->stats.values[0].frequency_hz = 100;
	s = output(export__report, p, &defaults, NULL);
	assert_non_null(strstr(s, "25.0% of the CPU time is in native code that has no symbol"));
	free(s);
	profile__free(p);
}

/* Samples that were due: one was, two were. */
static void test_missed(void **state)
{
	struct profile *p = many();
	struct strbuf b = { 0 };

	(void)state;
	p->stats.counters[CTR_note_missed] = 1;
	summary_add_fine(&b, p);
	assert_non_null(strstr(b.s, ", none lost; the timer did not fire for 1 more, "));
	p->stats.counters[CTR_note_missed] = 2;
	summary_add_fine(&b, p);
	assert_non_null(strstr(b.s, ", none lost; the timer did not fire for 2 more, "));
	strbuf__free(&b);
	profile__free(p);
}

static void check_cut(const char *s, unsigned cols, enum text_cut cut, const char *want)
{
	struct strbuf b = { 0 };

	text_add_cut(&b, s, strlen(s), cols, cut);
	assert_string_equal(b.s ? b.s : "", want);
	assert_in_range(text_width(b.s ? b.s : "", b.len), 0, cols);
	strbuf__free(&b);
}

static void test_cut(void **state)
{
	struct text_out o;

	(void)state;
	text_out__begin(&o, stdout, 0, false); /* for its locale */
	check_cut("abcdef", 6, CUT_END, "abcdef");
	check_cut("abcdef", 5, CUT_END, "abcd…");
	check_cut("abcdef", 5, CUT_MIDDLE, "ab…ef");
	check_cut("abcdef", 1, CUT_MIDDLE, "…");
	check_cut("abcdef", 0, CUT_MIDDLE, "");
	check_cut("/usr/lib/python3/json/decoder.py:12", 26, CUT_PATH, "…/json/decoder.py:12");
	check_cut("/usr/lib/python3/json/decoder.py:12", 12, CUT_PATH, "…coder.py:12");
	check_cut("\u51fd\u6570\u51fd\u6570", 8, CUT_END, "\u51fd\u6570\u51fd\u6570");
	check_cut("\u51fd\u6570\u51fd\u6570", 6, CUT_END, "\u51fd\u6570…");
	check_cut("\u51fd\u6570\u51fd\u6570", 7, CUT_MIDDLE, "\u51fd…\u51fd\u6570");
	/* a combining character stays with its letter */
	check_cut("ae\u0301b", 3, CUT_END, "ae\u0301b");
	check_cut("ae\u0301bcd", 3, CUT_END, "ae\u0301…");
	check_cut("abe\u0301", 2, CUT_PATH, "…e\u0301");
	check_cut("a\u51fd\u0301x", 3, CUT_PATH, "…x");
	/* no figure of a list loses a digit */
	check_cut("libc 61%, kernel 5%", 19, CUT_PARTS, "libc 61%, kernel 5%");
	check_cut("libc 61%, kernel 5%", 18, CUT_PARTS, "libc 61%, …");
	check_cut("libc 61%, kernel 5%, m 1%", 23, CUT_PARTS, "libc 61%, kernel 5%, …");
	check_cut("libc 61%, kernel 5%", 10, CUT_PARTS, "libc 61%");
	check_cut("libc 61%, kernel 5%", 7, CUT_PARTS, "li… 61%");
	check_cut("libc 61%, kernel 5%", 5, CUT_PARTS, "libc…");
	check_cut("libcrypto", 5, CUT_PARTS, "libc…");
	check_cut(" 61%, a", 2, CUT_PARTS, " …");
	text_out__end(&o);
}

/* ---- CSV ---- */

static void test_csv(void **state)
{
	struct profile *two = service();

	(void)state;
	golden("service.csv", export__csv, service(), defaults);
	golden("hostile.csv", export__csv, hostile(), defaults);
	golden("empty.csv", export__csv, profile__new(), defaults);
	two->stats.values[1] = (struct value_type){ .event = EVENT_GROWTH };
	two->stats.value_cnt = 2;
	two->stacks[0].type = two->stacks[3].type = 1;
	golden("service-growth.csv", export__csv, two, defaults);
}

/* A spreadsheet takes no name for a formula, wherever it begins a cell. */
static void test_csv_formula(void **state)
{
	static const struct {
		const char *name, *cell;
	} cases[] = {
		{ "=HYPERLINK(\"http://x\")", "\"'=HYPERLINK(\"\"http://x\"\")\"" },
		{ "+1", "'+1" },
		{ "-1", "'-1" },
		{ "@SUM(A1)", "'@SUM(A1)" },
		{ "  =1", "  '=1" },
		{ "a;=1;b; -1", "\"a;'=1;b; '-1\"" },
		{ "a,=1", "\"a,=1\"" },
		{ "\uff1d1", "'\uff1d1" },
		{ "\t=1", "\ufffd=1" },
		{ "a=b-c", "a=b-c" },
		{ "it's", "it's" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct profile *p = profile__new();
		char want[128], *s;

		STACK(p, add_proc(p, 1, "x", "", "", "", ""), 0, 5,
		      py(p, cases[i].name, "=/a.py", 3, 1));
		symbolized(p);
		s = output(export__csv, p, &defaults, NULL);
		snprintf(want, sizeof(want), "\ncpu-clock,samples,5,5,%s,'=/a.py,1,python\n",
			 cases[i].cell);
		if (!strstr(s, want))
			fail_msg("no %s in %s", want, s);
		free(s);
		profile__free(p);
	}
}

/* ---- All formats ---- */

/* The file of one format, whole or after profile__drop_frames(); to be freed. */
static char *saved(const char *dir, const char *suffix, bool drop, size_t *len)
{
	struct profile *p = service();
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/a%s", dir, suffix);
	if (drop)
		profile__drop_frames(p);
	save(path, p, &defaults);
	profile__free(p);
	return read_file(path, len);
}

/* Of a file of others: what became of the samples is not known, but how many there are. */
static void test_events_of_others(void **state)
{
	struct profile *p = profile__new();
	uint64_t w = word(p, py(p, "f", "/a.py", 1, 1));
	char *s;

	(void)state;
	p->stats.values[0].event = EVENT_PAGE_FAULTS;
	profile__add_weighted(p, (uint32_t)add_proc(p, 7, "web", "", "", "", ""), 0, &w, 1, 3, 30);
	symbolized(p);
	s = output(export__report, p, &defaults, NULL);
	assert_non_null(strstr(s, "30 page faults in 3 samples of 1 process"));
	free(s);
	profile__free(p);
}

/* Nobody can say of a page fault that did not come that nothing ran. */
static void test_no_events(void **state)
{
	struct profile *p = profile__new();
	char *s;

	(void)state;
	p->stats.values[0].event = EVENT_PAGE_FAULTS;
	p->stats.counters[CTR_delivered] = p->stats.counters[CTR_filtered_target] = 3;
	s = output(export__report, p, &defaults, NULL);
	assert_non_null(strstr(s, "All samples are of processes other than those of -p."));
	free(s);
	p->stats.counters[CTR_delivered] = p->stats.counters[CTR_filtered_target] = 0;
	s = output(export__report, p, &defaults, NULL);
	assert_null(strstr(s, "nothing ran"));
	assert_non_null(strstr(s, "too few events"));
	free(s);
	p->stats.values[0].period = 1;
	s = output(export__report, p, &defaults, NULL);
	assert_non_null(strstr(s, "There were no page faults."));
	free(s);
	profile__free(p);
}

/* A service with what it counts, of which a tenth is as large; it does not say on how many CPUs. */
static struct profile *service_of(const struct value_type *v)
{
	struct profile *p = service();

	for (size_t i = 0; i < p->stack_cnt; i++) {
		p->stacks[i].samples = p->stacks[i].count;
		p->stacks[i].count *= 10;
	}
	memset(&p->stats, 0, sizeof(p->stats));
	p->stats.values[0] = *v;
	return p;
}

/* What a person or program reads of a file: of pprof, its JSON. To be freed. */
static char *readable(const char *path)
{
	size_t len;

	return strstr(path, ".pb.gz") ? decode(path, "") : read_file(path, &len);
}

static void refuses_cpu(const char *what, const char *text)
{
	static const char *const words[] = { "CPU", "cpu-clock", "\"cpu\"", "/cpu", " cpu." };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strstr(text, words[i]))
			fail_msg("%s of no CPU time says '%.40s'", what, strstr(text, words[i]));
}

static void check_format(const char *dir, const struct export_format *format,
			 const struct value_type *v)
{
	struct profile *p = service_of(v);
	char path[PATH_MAX], *s;
	size_t len;
	FILE *f;

	snprintf(path, sizeof(path), "%s/a%s", dir, format->suffix);
	save(path, p, &defaults);
	s = readable(path);
	refuses_cpu(format->name, s);
	free(s);
	if (format->write_diff) {
		f = open_memstream(&s, &len);
		assert_int_equal(format->write_diff(p, p, &defaults, f), 0);
		fclose(f);
		refuses_cpu(format->name, s);
		free(s);
	}
	profile__free(p);
}

/* Units, nouns and verbs are the value type's: nothing but CPU time is called so, in any format. */
static void test_words_of_events(void **state)
{
	static const struct value_type types[] = {
		{ .event = EVENT_PAGE_FAULTS, .period = 10 },
		{ .event = EVENT_GROWTH, .period = 4096 },
		{ .event = EVENT_OFF_CPU },
		{ .event = EVENT_ALLOC_OBJECTS },
	};
	char *dir = temp_dir();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		for (const struct export_format *x = export__formats(); x->suffix; x++)
			check_format(dir, x, &types[i]);
	remove_dir(dir);
}

/* Of time that is no clock's, amounts are seconds, not a number of somethings. */
static void test_words_of_time(void **state)
{
	const struct value_type delay = { .event = VALUE_FOREIGN,
					  .frequency_hz = 1000000000,
					  .name = "delay",
					  .unit = "nanoseconds" };
	static const struct {
		int (*write)(const struct profile *p, const struct export_opts *o, FILE *f);
		const char *says;
	} formats[] = {
		{ export__report, "12.5 ms of delay in 1,250 samples of" },
		{ export__report, "of the delay" },
		{ export__report, "SECONDS" },
		{ export__svg, "12.5 ms of delay" },
		{ export__html, "\"seconds\":\" s of delay\"" },
		{ export__lines, "<b>Self</b>: delay of the line itself" },
		{ export__speedscope, "\"unit\":\"nanoseconds\"" },
		{ export__firefox, "\"weightType\":\"tracing-ms\"" },
	};
	struct profile *p = service_of(&delay);

	(void)state;
	for (size_t i = 0; i < p->stack_cnt; i++)
		p->stacks[i].count *= 1000;
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		char *s = output(formats[i].write, p, &defaults, NULL);

		if (!strstr(s, formats[i].says))
			fail_msg("no '%s' in\n%.2000s", formats[i].says, s);
		free(s);
	}
	profile__free(p);
}

/* Once it is named, no format needs the frame words. */
static void test_dropped_frames(void **state)
{
	static const char *const suffixes[] = {
		".folded",	 ".txt",       ".json",	      ".pb.gz",
		".svg",		 ".html",      ".lines.html", ".speedscope.json",
		".firefox.json", ".callgrind", ".csv",
	};
	char *dir = temp_dir();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		size_t whole_len, dropped_len;
		char *whole = saved(dir, suffixes[i], false, &whole_len);
		char *dropped = saved(dir, suffixes[i], true, &dropped_len);

		assert_true(whole_len > 0);
		assert_int_equal(dropped_len, whole_len);
		assert_memory_equal(dropped, whole, whole_len);
		free(whole);
		free(dropped);
	}
	remove_dir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_missed),
		cmocka_unit_test(test_folded),
		cmocka_unit_test(test_folded_shape),
		cmocka_unit_test(test_not_symbolized),
		cmocka_unit_test(test_report),
		cmocka_unit_test(test_report_nothing),
		cmocka_unit_test(test_report_many),
		cmocka_unit_test(test_report_versions),
		cmocka_unit_test(test_report_unnamed),
		cmocka_unit_test(test_report_fits),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_csv),
		cmocka_unit_test(test_csv_formula),
		cmocka_unit_test(test_events_of_others),
		cmocka_unit_test(test_no_events),
		cmocka_unit_test(test_words_of_events),
		cmocka_unit_test(test_words_of_time),
		cmocka_unit_test(test_dropped_frames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
