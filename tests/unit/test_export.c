/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * export*.c: profiles built by hand against golden texts (UPDATE_GOLDEN=1 rewrites them), pprof
 * against readers that share no code with us: tests/e2e/pprof_read.py, go tool pprof, and
 * pprof-format from npm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "export/export.h"
#include "export/export_summary.h"
#include "profile/export_text.h"
#include "unit/profiles.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* ---- Running an exporter ---- */

typedef int (*write_fn)(const struct profile *p, const struct export_opts *o, FILE *f);

static const struct export_opts defaults = { .lines = true };

/* The output, NUL-terminated; to be freed. */
static char *output(write_fn write, const struct profile *p, const struct export_opts *o,
		    size_t *len)
{
	char *s = NULL;
	size_t n;
	FILE *f = open_memstream(&s, &n);

	assert_non_null(f);
	assert_int_equal(write(p, o, f), 0);
	assert_int_equal(fclose(f), 0);
	if (len)
		*len = n;
	return s;
}

static void beside(char *out, size_t size, const char *file)
{
	const char *slash = strrchr(__FILE__, '/');

	snprintf(out, size, "%.*s/../%s", (int)(slash - __FILE__), __FILE__, file);
}

static char *read_file(const char *path, size_t *len)
{
	FILE *f = fopen(path, "r");
	char *s = calloc(1, 1 << 22);

	assert_non_null(f);
	assert_non_null(s);
	*len = fread(s, 1, (1 << 22) - 1, f);
	fclose(f);
	return s;
}

static void check_golden(const char *name, const char *text)
{
	char path[PATH_MAX], *want;
	size_t len;
	FILE *f;

	beside(path, sizeof(path), "golden/export/");
	strncat(path, name, sizeof(path) - strlen(path) - 1);
	if (getenv("UPDATE_GOLDEN")) {
		f = fopen(path, "w");
		assert_non_null(f);
		fputs(text, f);
		fclose(f);
	}
	want = read_file(path, &len);
	assert_string_equal(text, want);
	free(want);
}

static void golden(const char *name, write_fn write, struct profile *p, struct export_opts o)
{
	char *s = output(write, p, &o, NULL);

	check_golden(name, s);
	free(s);
	profile__free(p);
}

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

/* ---- pprof ---- */

static char *temp_dir(void)
{
	static char dir[] = "/tmp/test_export.XXXXXX";

	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	assert_non_null(mkdtemp(dir));
	return dir;
}

static void remove_dir(const char *dir)
{
	char path[PATH_MAX];
	struct dirent *e;
	DIR *d = opendir(dir);

	assert_non_null(d);
	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			assert_return_code(unlink(path), errno);
	}
	closedir(d);
	assert_return_code(rmdir(dir), errno);
}

/* What a command prints; its exit status in *status. */
static char *run(const char *command, int *status)
{
	FILE *f = popen(command, "r");
	char *s = calloc(1, 1 << 20);
	size_t len;

	assert_non_null(f);
	assert_non_null(s);
	len = fread(s, 1, (1 << 20) - 1, f);
	s[len] = '\0';
	*status = pclose(f);
	return s;
}

static void save(const char *path, struct profile *p, const struct export_opts *o)
{
	struct export_file *x = export__open(path, export__find(path));

	assert_non_null(x);
	assert_int_equal(export__commit(x, p, o), 0);
	export__close(x);
}

static char *decode(const char *pb, const char *args)
{
	char script[PATH_MAX], command[2 * PATH_MAX], *s;
	int status;

	beside(script, sizeof(script), "e2e/pprof_read.py");
	snprintf(command, sizeof(command), "python3 %s %s %s", script, args, pb);
	s = run(command, &status);
	assert_int_equal(status, 0);
	return s;
}

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
		{ export__report, "0.01 s of delay in 1,250 samples of" },
		{ export__report, "of the delay" },
		{ export__report, "SECONDS" },
		{ export__svg, "0.01 s of delay" },
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

static void golden_pprof(const char *name, struct profile *p, struct export_opts o)
{
	char path[PATH_MAX], *s, *dir = temp_dir();

	snprintf(path, sizeof(path), "%s/a.pb.gz", dir);
	save(path, p, &o);
	s = decode(path, "");
	check_golden(name, s);
	free(s);
	remove_dir(dir);
	profile__free(p);
}

static void test_pprof(void **state)
{
	(void)state;
	golden_pprof("service.pprof.json", service(), defaults);
	golden_pprof("service-functions.pprof.json", service(),
		     (struct export_opts){ .threads = true });
	golden_pprof("hostile.pprof.json", hostile(), defaults);
	golden_pprof("empty.pprof.json", profile__new(), defaults);
}

/* The two formats say the same: the decoder can print folded stacks. */
static void test_pprof_folded(void **state)
{
	char path[PATH_MAX], *s, *want, *dir = temp_dir();
	struct export_opts o = { .lines = true, .threads = true };
	struct profile *p = service();

	(void)state;
	snprintf(path, sizeof(path), "%s/a.pb.gz", dir);
	save(path, p, &o);
	s = decode(path, "--folded");
	want = output(export__folded, p, &o, NULL);
	assert_string_equal(s, want);
	free(want);
	free(s);
	remove_dir(dir);
	profile__free(p);
}

/* Equal profiles, collected in another order, are equal bytes. */
static void test_pprof_deterministic(void **state)
{
	struct profile *p = service(), *q = service();
	size_t lp, lq;
	char *sp, *sq;

	(void)state;
	for (size_t i = 0; i < q->stack_cnt / 2; i++) {
		struct profile_stack tmp = q->stacks[i];

		q->stacks[i] = q->stacks[q->stack_cnt - 1 - i];
		q->stacks[q->stack_cnt - 1 - i] = tmp;
	}
	for (size_t i = 0; i < q->frame_cnt; i++)
		q->frame_syms[i] = (uint32_t)q->sym_cnt - 1 - q->frame_syms[i];
	for (size_t i = 0; i < q->sym_cnt / 2; i++) {
		struct sym tmp = q->syms[i];

		q->syms[i] = q->syms[q->sym_cnt - 1 - i];
		q->syms[q->sym_cnt - 1 - i] = tmp;
	}
	for (size_t i = 0; i < q->sym_cnt; i++)
		if (q->syms[i].inlined >= 0)
			q->syms[i].inlined = (int32_t)q->sym_cnt - 1 - q->syms[i].inlined;
	sp = output(export__pprof, p, &defaults, &lp);
	sq = output(export__pprof, q, &defaults, &lq);
	assert_int_equal(lp, lq);
	assert_memory_equal(sp, sq, lp);
	free(sp);
	free(sq);
	sp = output(export__report, p, &defaults, NULL);
	sq = output(export__report, q, &defaults, NULL);
	assert_string_equal(sp, sq);
	free(sp);
	free(sq);
	profile__free(p);
	profile__free(q);
}

/* One row of `pprof -top`: "flat flat% sum% cum cum%  name", values in samples. */
static void check_top(const char *text, const char *name, const char *flat, const char *cum)
{
	const char *line = text, *end;
	char a[32], b[32];

	for (; line && *line; line = *end ? end + 1 : end) {
		end = strchrnul(line, '\n');
		if (sscanf(line, "%31s %*s %*s %31s", a, b) == 2 &&
		    (size_t)(end - line) > strlen(name) &&
		    !strncmp(end - strlen(name), name, strlen(name))) {
			assert_string_equal(a, flat);
			assert_string_equal(b, cum);
			return;
		}
	}
	fail_msg("not in pprof's output: %s\n%s", name, text);
}

static void test_go_pprof(void **state)
{
	char path[PATH_MAX], command[2 * PATH_MAX], *s, *dir;
	struct profile *p;
	int status;

	(void)state;
	s = run("go version 2>/dev/null", &status);
	free(s);
	if (status) {
		print_message("skipped: go (go tool pprof) is not installed\n");
		skip();
	}
	p = service();
	dir = temp_dir();
	snprintf(path, sizeof(path), "%s/a.pb.gz", dir);
	save(path, p, &defaults);
	profile__free(p);
	snprintf(
		command, sizeof(command),
		"go tool pprof -sample_index=samples -top -lines -nodefraction=0 -nodecount=100 %s "
		"2>&1",
		path);
	s = run(command, &status);
	assert_int_equal(status, 0);
	assert_non_null(strstr(s, "File: python3.11\n"));
	assert_non_null(strstr(s, "Type: samples\n"));
	assert_non_null(strstr(s, "of 1250 total"));
	check_top(s, " Cart.price /srv/app/shop/cart.py:41", "705", "705");
	check_top(s, " <module> /srv/app/venv/bin/gunicorn:8", "0", "1180");
	check_top(s, " fib /opt/jobs/math.py:4", "53", "53");
	check_top(s, " tcp_sendmsg", "77", "77");
	check_top(s, " __memmove_avx_unaligned_erms", "235", "235");
	check_top(s, " [truncated]", "0", "9");
	check_top(s, " core::str::escape (inline)", "31", "261");
	check_top(s, " [orjson.so]", "17", "17");
	free(s);
	remove_dir(dir);
}

static void test_npm_pprof(void **state)
{
	char path[PATH_MAX], command[2 * PATH_MAX], *s, *dir;
	struct profile *p;
	int status;

	(void)state;
	s = run("node -e 'require(\"pprof-format\")' 2>/dev/null", &status);
	free(s);
	if (status) {
		print_message("skipped: node's pprof-format is not installed (NODE_PATH)\n");
		skip();
	}
	p = service();
	dir = temp_dir();
	snprintf(path, sizeof(path), "%s/a.pb.gz", dir);
	save(path, p, &defaults);
	profile__free(p);
	snprintf(
		command, sizeof(command),
		"node -e 'const p = require(\"pprof-format\").Profile.decode(require(\"zlib\")."
		"gunzipSync(require(\"fs\").readFileSync(process.argv[1])));"
		"const s = p.stringTable.strings;"
		"console.log(p.sample.length, p.sample.reduce((a, x) => a + Number(x.value[0]), 0),"
		"p.sampleType.map(t => s[Number(t.type)] + \"/\" + s[Number(t.unit)]).join(),"
		"p.function.map(f => s[Number(f.name)]).includes(\"Cart.price\"))' %s",
		path);
	s = run(command, &status);
	assert_int_equal(status, 0);
	assert_string_equal(s, "11 1250 samples/count,cpu/nanoseconds true\n");
	free(s);
	remove_dir(dir);
}

/* ---- Formats and files ---- */

static void test_find(void **state)
{
	(void)state;
	assert_string_equal(export__find("a.pb.gz")->name, "pprof");
	assert_string_equal(export__find("/x/y.folded")->suffix, ".folded");
	assert_string_equal(export__find(".txt")->suffix, ".txt");
	assert_null(export__find("a.gz"));
	assert_null(export__find("txt"));
	assert_null(export__find(""));
	assert_null(export__find("-"));
	assert_string_equal(export__find("a.speedscope.json")->suffix, ".speedscope.json");
	assert_string_equal(export__find("a.json")->suffix, ".json");
	for (const struct export_format *x = export__formats(); x->suffix; x++)
		assert_ptr_equal(export__find(x->suffix), x);
	assert_string_equal(export__find("x.html")->name, "flame graph page");
	assert_string_equal(export__find("x.lines.html")->name, "source by line");
	assert_string_equal(export__find("/x/lines.html")->name, "source by line");
	assert_string_equal(export__find("deadlines.html")->name, "flame graph page");
}

static size_t dir_entries(const char *dir)
{
	DIR *d = opendir(dir);
	size_t n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static int failing_write(const struct profile *p, const struct export_opts *o, FILE *f)
{
	(void)p;
	(void)o;
	fputs("half of it", f);
	return -ENOMEM;
}

static const struct export_format failing = { ".txt",	     "failing", "failing", false,
					      failing_write, NULL,	GLUE_KEEP };

static void test_files(void **state)
{
	char path[PATH_MAX], *s, *dir = temp_dir();
	struct profile *p = service();
	struct export_file *x;
	mode_t mask = umask(027);
	struct stat st;
	size_t len;

	(void)state;
	snprintf(path, sizeof(path), "%s/a.folded", dir);
	x = export__open(path, export__find(path));
	assert_non_null(x);
	assert_int_equal(stat(path, &st), -1);	 /* not before commit */
	assert_in_range(dir_entries(dir), 0, 1); /* which of both: test_draft.c */
	assert_int_equal(export__commit(x, p, &defaults), 0);
	export__close(x);
	assert_int_equal(dir_entries(dir), 1);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	s = read_file(path, &len);
	assert_non_null(strstr(s, "Cart.price"));
	free(s);

	/* an existing target keeps its mode; a failure keeps the target */
	assert_int_equal(chmod(path, 04604), 0);
	save(path, p, &defaults);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0604);
	x = export__open(path, &failing);
	assert_non_null(x);
	assert_int_equal(export__commit(x, p, &defaults), -ENOMEM);
	export__close(x);
	assert_int_equal(dir_entries(dir), 1);
	s = read_file(path, &len);
	assert_null(strstr(s, "half of it"));
	free(s);

	/* given up before commit */
	export__close(export__open(path, export__find(path)));
	export__close(NULL);
	assert_int_equal(dir_entries(dir), 1);
	umask(mask);
	remove_dir(dir);
	profile__free(p);
}

/* A link in a shared directory must not choose which file is overwritten. */
static void test_symlink(void **state)
{
	char path[PATH_MAX], victim[PATH_MAX], *s, *dir = temp_dir();
	struct profile *p = service();
	struct stat st;
	size_t len;
	mode_t mask;
	FILE *f;

	(void)state;
	snprintf(path, sizeof(path), "%s/a.folded", dir);
	snprintf(victim, sizeof(victim), "%s/victim", dir);
	f = fopen(victim, "w");
	assert_non_null(f);
	fputs("precious", f);
	fclose(f);
	assert_int_equal(chmod(victim, 0666), 0);
	assert_int_equal(symlink(victim, path), 0);
	mask = umask(022);
	save(path, p, &defaults);
	umask(mask);
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0644);
	s = read_file(victim, &len);
	assert_string_equal(s, "precious");
	free(s);
	remove_dir(dir);
	profile__free(p);
}

static void check_open_fails(const char *path, int error)
{
	struct export_file *x;

	errno = 0;
	x = export__open(path, &failing);
	if (x)
		export__close(x);
	assert_null(x);
	assert_int_equal(errno, error);
}

static void test_bad_targets(void **state)
{
	char path[PATH_MAX], *dir = temp_dir();
	uid_t uid = geteuid();
	struct export_file *x, *other;

	(void)state;
	check_open_fails(dir, EISDIR);
	snprintf(path, sizeof(path), "%s/", dir);
	check_open_fails(path, EISDIR);
	check_open_fails("", ENOENT);
	snprintf(path, sizeof(path), "%s/none/a.txt", dir);
	check_open_fails(path, ENOENT);
	snprintf(path, sizeof(path), "%s/none/", dir);
	check_open_fails(path, ENOENT);
	check_open_fails("/dev/null/a.txt", ENOTDIR);
	check_open_fails("/dev/fd/987", EBADF);
	/* as long as a name may be, and one more: the temporary name must not be the limit */
	snprintf(path, sizeof(path), "%s/%0*d", dir, NAME_MAX, 1);
	x = export__open(path, &failing);
	other = export__open(path, &failing);
	assert_non_null(x);
	assert_non_null(other);
	export__close(x);
	export__close(other);
	snprintf(path, sizeof(path), "%s/%0*d", dir, NAME_MAX + 1, 1);
	check_open_fails(path, ENAMETOOLONG);
	if (!uid)
		assert_int_equal(seteuid(65534), 0);
	assert_int_equal(uid ? chmod(dir, 0500) : 0, 0);
	snprintf(path, sizeof(path), "%s/a.txt", dir);
	check_open_fails(path, EACCES);
	if (!uid)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(chmod(dir, 0700), 0);
	assert_int_equal(dir_entries(dir), 0);
	remove_dir(dir);
}

static void test_disk_full(void **state)
{
	static const char *const names[] = { ".pb.gz", ".folded", ".svg",
					     ".html",  ".txt",	  ".lines.html" };
	struct profile *p = service();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct export_file *x = export__open("/dev/full", export__find(names[i]));

		assert_non_null(x);
		assert_int_equal(export__commit(x, p, &defaults), -ENOSPC);
		export__close(x);
	}
	profile__free(p);
}

/* A file that cannot grow: the old one stays, nothing is left beside it. */
static void test_file_limit(void **state)
{
	char path[PATH_MAX], *dir = temp_dir(), *s;
	struct rlimit old, limit = { 100, 100 };
	struct profile *p = service();
	struct export_file *x;
	size_t len;

	(void)state;
	snprintf(path, sizeof(path), "%s/a.folded", dir);
	save(path, p, &defaults);
	x = export__open(path, export__find(path));
	assert_non_null(x);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	limit.rlim_max = old.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(export__commit(x, p, &defaults), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	signal(SIGXFSZ, SIG_DFL);
	export__close(x);
	assert_int_equal(dir_entries(dir), 1);
	s = read_file(path, &len);
	assert_true(len > 100);
	free(s);
	remove_dir(dir);
	profile__free(p);
}

/* A stream that fails after some bytes. */
static ssize_t short_write(void *cookie, const char *buf, size_t size)
{
	size_t *room = cookie;
	size_t n = size < *room ? size : *room;

	(void)buf;
	if (n < size)
		errno = EDQUOT;
	*room -= n;
	return (ssize_t)n;
}

static void test_write_errors(void **state)
{
	static const write_fn writes[] = { export__folded, export__report, export__pprof,
					   export__html,   export__svg,	   export__lines };
	struct profile *p = service();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(writes); i++) {
		for (size_t limit = 0; limit < 700; limit++) {
			size_t room = limit;
			FILE *f = fopencookie(&room, "w",
					      (cookie_io_functions_t){ .write = short_write });

			assert_non_null(f);
			setvbuf(f, NULL, _IONBF, 0);
			assert_int_equal(writes[i](p, &defaults, f), -EDQUOT);
			fclose(f);
		}
	}
	profile__free(p);
}

/* A FIFO is written directly, also when its reader comes only after export__open(). */
static void test_fifo(void **state)
{
	char path[PATH_MAX], *dir = temp_dir(), buf[64] = "";
	struct profile *p = service();
	struct export_file *x;
	int status;
	pid_t pid;

	(void)state;
	snprintf(path, sizeof(path), "%s/fifo.folded", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	x = export__open(path, export__find(path));
	assert_non_null(x);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		int err = export__commit(x, p, &defaults);

		export__close(x);
		_exit(err ? 1 : 0);
	}
	status = open(path, O_RDONLY);
	assert_true(status >= 0);
	assert_true(read(status, buf, 8) == 8);
	assert_string_equal(buf, "celery;<");
	while (read(status, buf, sizeof(buf)) > 0)
		;
	close(status);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	export__close(x);
	remove_dir(dir);
	profile__free(p);
}

static void opens(const char *path, bool wanted)
{
	struct export_file *x = export__open(path, export__find(".folded"));

	assert_int_equal(!!x, wanted);
	export__close(x);
}

/* What somebody else has put where the profile is to go: it would be theirs, or wait for them. */
static void test_planted(void **state)
{
	char path[PATH_MAX], link[PATH_MAX], *dir = temp_dir();

	(void)state;
	snprintf(path, sizeof(path), "%s/fifo.folded", dir);
	snprintf(link, sizeof(link), "%s/link.folded", dir);
	assert_int_equal(mkfifo(path, 0666), 0);
	assert_int_equal(symlink("/dev/null", link), 0);
	opens("/dev/null", true);
	opens(path, true);
	opens(link, false);
	assert_int_equal(chmod(dir, 01777), 0);
	opens(path, true); /* nobody else can exchange it */
	assert_int_equal(chmod(dir, 0777), 0);
	opens(path, false);
	assert_int_equal(chmod(dir, 01777), 0);
	if (!geteuid()) {
		assert_int_equal(chown(path, 65534, 65534), 0);
		opens(path, false);
	}
	remove_dir(dir);
}

/* "-", /dev/stdout and /dev/fd/1 append to what stdout is, a regular file among others. */
static void test_stdout(void **state)
{
	static const char *const names[] = { "-", "/dev/stdout", "/dev/fd/1" };
	char path[PATH_MAX], *dir = temp_dir(), *s;
	struct profile *p = service();
	int saved, fd;
	size_t len;

	(void)state;
	snprintf(path, sizeof(path), "%s/out", dir);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0);
	fflush(stdout);
	saved = dup(STDOUT_FILENO);
	dup2(fd, STDOUT_FILENO);
	close(fd);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct export_file *x = export__open(names[i], export__find(".folded"));

		if (x)
			export__commit(x, p, &defaults);
		export__close(x);
	}
	dup2(saved, STDOUT_FILENO);
	close(saved);
	assert_int_equal(dir_entries(dir), 1);
	s = read_file(path, &len);
	for (size_t i = 0; i < 3; i++) {
		char *next = strstr(s + (i ? 1 : 0), "celery;<module>");

		assert_non_null(next);
		memset(next, 'x', 6);
	}
	free(s);
	remove_dir(dir);
	profile__free(p);
}

/* A share of time is told as one, as in the sentences at the top. */
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
	assert_non_null(strstr(b.s, ", none lost (1 more was due and never came), "));
	p->stats.counters[CTR_note_missed] = 2;
	summary_add_fine(&b, p);
	assert_non_null(strstr(b.s, ", none lost (2 more were due and never came), "));
	strbuf__free(&b);
	profile__free(p);
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
		cmocka_unit_test(test_pprof),
		cmocka_unit_test(test_pprof_folded),
		cmocka_unit_test(test_pprof_deterministic),
		cmocka_unit_test(test_go_pprof),
		cmocka_unit_test(test_npm_pprof),
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_events_of_others),
		cmocka_unit_test(test_no_events),
		cmocka_unit_test(test_words_of_events),
		cmocka_unit_test(test_words_of_time),
		cmocka_unit_test(test_dropped_frames),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_symlink),
		cmocka_unit_test(test_bad_targets),
		cmocka_unit_test(test_disk_full),
		cmocka_unit_test(test_file_limit),
		cmocka_unit_test(test_write_errors),
		cmocka_unit_test(test_fifo),
		cmocka_unit_test(test_planted),
		cmocka_unit_test(test_stdout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
