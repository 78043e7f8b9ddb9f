/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * export_flame, export_html, export_svg, export_lines and export_page: what is drawn, and that no
 * name can act on the page it is shown in. tests/e2e/test_pages.py looks at the pages in a
 * browser.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/gzip.h"
#include "export/export.h"
#include "export/export_flame.h"
#include "export/export_page.h"
#include "profile/export_text.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* ---- Profiles ---- */

static int add_sym(struct profile *p, enum sym_kind kind, const char *func, const char *file,
		   uint32_t line, int module)
{
	struct sym s = {
		.kind = (uint8_t)kind,
		.func = profile__intern_z(p, func),
		.file = profile__intern_z(p, file),
		.line = line,
		.start_line = line ? 1 + line / 10 * 10 : 0,
		.module = module,
		.inlined = -1,
	};

	return profile__add_sym(p, &s);
}

static int add_proc(struct profile *p, uint32_t tgid, const char *comm)
{
	return profile__add_proc(p, &(struct profile_proc){
					    .space = tgid + 1000,
					    .tgid = tgid,
					    .comm = profile__intern_z(p, comm),
					    .python = profile__intern_z(p, "3.11.2"),
				    });
}

/* Syms outermost first, ending in -1. */
static void add_stack(struct profile *p, int proc, uint32_t tid, uint64_t count, const int *syms)
{
	uint64_t words[128];
	size_t cnt = 0;

	for (; syms[cnt] >= 0; cnt++)
		words[cnt] = PYTHON_WORD(syms[cnt], 0);
	assert_true(profile__add_stack(p, (uint32_t)proc, tid, words, cnt, count) >= 0);
}

#define STACK(p, proc, tid, count, ...)                                                            \
	add_stack(p, proc, tid, count, (const int[]){ __VA_ARGS__, -1 })

static struct profile *symbolized(struct profile *p)
{
	uint64_t total = profile__total(p);

	p->frame_syms = calloc(p->frame_cnt + 1, sizeof(*p->frame_syms));
	assert_non_null(p->frame_syms);
	for (size_t i = 0; i < p->frame_cnt; i++)
		p->frame_syms[i] = (uint32_t)PYTHON_CODE(p->frames[i]);
	p->stats.counters[CTR_delivered] = total + 15;
	p->stats.counters[CTR_counted] = p->stats.counters[CTR_user_stacks] = total;
	p->stats.counters[CTR_complete] = total - 1;
	p->stats.counters[CTR_filtered_python] = 10;
	p->stats.counters[CTR_lost_counts_full] = 5;
	p->stats.duration_ns = 30000000000;
	p->stats.values[0].frequency_hz = 99;
	p->stats.cpus = 8;
	return p;
}

/* `more`: of one function, so that two profiles differ. */
static struct profile *service(uint64_t more)
{
	struct profile *p = profile__new();
	int exe = profile__add_module(
		p, &(struct profile_module){ .path = profile__intern_z(p, "/usr/bin/python3.11") });
	int libc = profile__add_module(
		p, &(struct profile_module){ .path = profile__intern_z(p, "/lib/libc.so.6") });
	int web = add_proc(p, 42, "web"), job = add_proc(p, 7, "job");
	int start = add_sym(p, SYM_NATIVE, "_start", "", 0, exe);
	int call = add_sym(p, SYM_NATIVE, "PyObject_Call", "", 0, exe);
	int main = add_sym(p, SYM_PYTHON, "<module>", "/srv/shop/app.py", 12, -1);
	int loads =
		add_sym(p, SYM_PYTHON, "loads", "/usr/lib/python3.11/json/__init__.py", 346, -1);
	int price = add_sym(p, SYM_PYTHON, "Cart.price", "/srv/shop/cart.py", 41, -1);
	int price2 = add_sym(p, SYM_PYTHON, "Cart.price", "/srv/shop/cart.py", 43, -1);
	int dict = add_sym(p, SYM_NATIVE, "dict_subscript", "", 0, exe);
	int bare = add_sym(p, SYM_NATIVE, "", "", 0, libc);
	int send = add_sym(p, SYM_KERNEL, "tcp_sendmsg", "", 0, -1);
	int cut = add_sym(p, SYM_MARKER, "truncated", "", 0, -1);

	STACK(p, web, 1, 600, start, main, call, price);
	STACK(p, web, 2, 300, start, main, call, price2, dict);
	STACK(p, web, 2, 80 + more, start, main, call, loads, call, bare);
	STACK(p, job, 3, 50, main, send);
	STACK(p, job, 3, 5, cut, price);
	profile__add_thread(p,
			    &(struct profile_thread){ 1042, 2, profile__intern_z(p, "io;pool") });
	p->procs[job].native_only = profile__intern_z(p, "frame 0 < 1 & \"so\"");
	return symbolized(p);
}

static const char *const hostile_names[] = {
	"</script><script>alert(1)</script>",
	"<!--<script>",
	"]]><svg onload=alert(1)>",
	"\" onmouseover=\"alert(1)",
	"' autofocus onfocus='alert(1)",
	"&lt;b&gt;&amp;",
	"\033[31mred\033]0;title\007",
	"a;b\nc\rd\te",
	"\xe2\x80\xae"
	"gnp.exe\xe2\x81\xa6",
	"\xff\xfe\xc0\x80\xed\xa0\x80",
	"\xe2\x80\xa8line\xe2\x80\xa9separators",
	"<!--@data--><!--@title-->",
	"\\u003c\\",
	"__proto__",
	"constructor",
};

/* Each name as a function, a file, a module, a process and a thread. */
static struct profile *hostile(void)
{
	struct profile *p = profile__new();
	char big[10001];

	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	for (size_t i = 0; i <= ARRAY_SIZE(hostile_names); i++) {
		const char *name = i < ARRAY_SIZE(hostile_names) ? hostile_names[i] : big;
		int proc = add_proc(p, (uint32_t)i + 1, name);
		int module = profile__add_module(
			p, &(struct profile_module){ .path = profile__intern_z(p, name) });
		int py = add_sym(p, SYM_PYTHON, name, name, 5, -1);

		STACK(p, proc, (uint32_t)i + 1, 10, py, add_sym(p, SYM_NATIVE, name, "", 0, module),
		      add_sym(p, SYM_KERNEL, name, "", 0, -1),
		      add_sym(p, SYM_MARKER, name, "", 0, -1));
		profile__add_thread(p,
				    &(struct profile_thread){ 1001 + (uint32_t)i, (uint32_t)i + 1,
							      profile__intern_z(p, name) });
		p->procs[proc].native_only = profile__intern_z(p, name);
		p->procs[proc].container = profile__intern_z(p, name);
	}
	return symbolized(p);
}

/* ---- Running an exporter ---- */

typedef int (*write_fn)(const struct profile *p, const struct export_opts *o, FILE *f);

static const struct export_opts defaults = { .lines = true, .threads = true, .live = true };

static char *output(write_fn write, const struct profile *p)
{
	char *s = NULL;
	size_t n;
	FILE *f = open_memstream(&s, &n);

	assert_non_null(f);
	assert_int_equal(write(p, &defaults, f), 0);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(strlen(s), n);
	return s;
}

/* As export__write() shows the interpreter's own frames. */
static char *output_shown(write_fn write, const struct profile *p, enum glue_mode mode)
{
	const struct profile *shown = glue__view(p, mode);
	char *s = output(write, shown);

	profile__free_view(shown, p);
	return s;
}

static void check_golden(const char *name, const char *text)
{
	const char *slash = strrchr(__FILE__, '/');
	char path[PATH_MAX], *want = calloc(1, 1 << 20);
	FILE *f;

	assert_non_null(want);
	snprintf(path, sizeof(path), "%.*s/../golden/export/%s", (int)(slash - __FILE__), __FILE__,
		 name);
	if (getenv("UPDATE_GOLDEN")) {
		f = fopen(path, "w");
		assert_non_null(f);
		fputs(text, f);
		fclose(f);
	}
	f = fopen(path, "r");
	assert_non_null(f);
	assert_true(fread(want, 1, (1 << 20) - 1, f) > 0);
	fclose(f);
	assert_string_equal(text, want);
	free(want);
}

/* The JSON of a page; to be freed. */
static char *page_data(const char *page)
{
	static const char begin[] = "<script type=\"application/json\" id=\"profile\">";
	const char *from = strstr(page, begin), *to;

	assert_non_null(from);
	from += strlen(begin);
	to = strstr(from, "</script>");
	assert_non_null(to);
	return strndup(from, (size_t)(to - from));
}

/* ---- What is drawn ---- */

static void test_golden(void **state)
{
	struct profile *p = service(0);
	char *s = output_shown(export__html, p, GLUE_MARK), *data = page_data(s);

	(void)state;
	check_golden("pages.json", data);
	free(data);
	free(s);
	s = output_shown(export__svg, p, GLUE_HIDE);
	check_golden("pages.svg", s);
	free(s);
	profile__free(p);
}

static int write_compared_html(const struct profile *p, const struct export_opts *o, FILE *f)
{
	struct profile *base = service(0);
	int err = flame__html(p, base, o, 0, f);

	profile__free(base);
	return err;
}

static int write_compared_svg(const struct profile *p, const struct export_opts *o, FILE *f)
{
	struct profile *base = service(0);
	const struct profile *shown = glue__view(base, GLUE_HIDE);
	int err = flame__svg(p, shown, o, 1, f);

	profile__free_view(shown, base);
	profile__free(base);
	return err;
}

/* Two profiles: what is more is red, what is the same is not. */
static void test_compared(void **state)
{
	struct profile *p = service(900);
	char *s = output_shown(write_compared_svg, p, GLUE_HIDE), *data;

	(void)state;
	assert_non_null(strstr(s, "<rect class=\"g5\""));
	assert_non_null(strstr(s, "before: 7.73%, 80 samples"));
	check_golden("pages-compared.svg", s);
	free(s);
	s = output(write_compared_html, p);
	data = page_data(s);
	assert_non_null(strstr(data, "\"compared\":true"));
	assert_null(strstr(data, "\"base\":null"));
	free(data);
	free(s);
	profile__free(p);
}

static double delta(uint64_t value, uint64_t base, double scale, double weight)
{
	const struct flame f = { .scale = scale, .weight = weight, .base_weight = weight };

	return flame__delta(&f, value, base);
}

static void test_delta(void **state)
{
	(void)state;
	assert_true(delta(100, 0, 1, 1) == 1);
	assert_true(delta(0, 100, 1, 1) == -1);
	assert_true(delta(0, 0, 1, 1) == 0);
	assert_true(delta(110, 100, 1, 1) == 0); /* chance */
	assert_true(fabs(delta(11000, 10000, 1, 1) - 1000.0 / 21000) < 1e-9);
	assert_true(delta(11000, 10000, 1, 20) == 0); /* 550 samples, and 500 */
	assert_true(delta(11000, 5500, 2, 1) == 0);
}

static struct flame made(const struct profile *p, struct flame_opts o)
{
	struct flame f;

	assert_int_equal(flame__init(&f, p, NULL, &o), 0);
	return f;
}

static const char *func_name(const struct flame *f, uint32_t place)
{
	return flame__text(f, f->funcs[f->places[place].func].name, NULL);
}

/* Of two points: nothing and all; and one more stack that is like the first one, and is gone. */
static void add_curves(struct profile *p)
{
	struct profile_curves *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	p->curves = c;
	c->point_cnt = 2;
	c->points = calloc(2, sizeof(*c->points));
	c->stacks = calloc(p->stack_cnt + 1, sizeof(*c->stacks));
	c->values = calloc(2 * (p->stack_cnt + 1), sizeof(*c->values));
	assert_true(c->points && c->stacks && c->values);
	c->points[1].at_ns = 1500000000;
	for (; c->stack_cnt < p->stack_cnt; c->stack_cnt++) {
		c->stacks[c->stack_cnt] = p->stacks[c->stack_cnt];
		c->values[2 * c->stack_cnt + 1] = p->stacks[c->stack_cnt].count;
	}
	c->stacks[c->stack_cnt] = p->stacks[0];
	c->stacks[c->stack_cnt].count = 0;
	c->values[2 * c->stack_cnt++] = 77;
}

/* Stacks have what they had at each point, those that are gone, too; equal ones are merged. */
static void test_curves(void **state)
{
	struct profile *p = service(0);
	struct flame plain = made(p, (struct flame_opts){ .tasks = true });
	uint64_t sums[2] = { 0 };
	const struct profile *v;
	struct flame f;
	char *s, *data;

	(void)state;
	add_curves(p);
	v = profile__curve_view(p, 0);
	assert_non_null(v);
	f = made(v, (struct flame_opts){ .tasks = true });
	assert_int_equal(f.stack_cnt, plain.stack_cnt);
	assert_int_equal(f.total, plain.total);
	assert_int_equal(f.point_cnt, 2);
	for (size_t i = 0; i < f.stack_cnt; i++) {
		sums[0] += f.values[f.stacks[i].curve];
		sums[1] += f.values[f.stacks[i].curve + 1];
		assert_int_equal(f.stacks[i].value, f.values[f.stacks[i].curve + 1]);
	}
	assert_int_equal(sums[0], 77);
	assert_int_equal(sums[1], plain.total);
	s = output_shown(export__html, v, GLUE_MARK);
	data = page_data(s);
	assert_non_null(strstr(data, "\"curves\":{\n\"when\":\"0My\"")); /* 1500 */
	free(data);
	free(s);
	flame__free(&f);
	flame__free(&plain);
	profile__free_view(v, p);
	profile__free(p);
}

/* A profile without glue has no plumbing; one with marks has all, and what stands for it. */
static void test_plumbing(void **state)
{
	struct profile *p = service(0);
	const struct profile *hidden = glue__view(p, GLUE_HIDE), *marked = glue__view(p, GLUE_MARK);
	struct flame f = made(hidden, (struct flame_opts){ 0 });
	unsigned kinds[3] = { 0 };

	(void)state;
	assert_int_equal(f.total, 1035);
	assert_int_equal(f.task_cnt, 0);
	for (size_t i = 0; i < f.func_cnt; i++)
		kinds[f.funcs[i].plumbing] += 1;
	assert_true(kinds[PLUMBING_NONE] && kinds[PLUMBING_BOX] == 1);
	for (size_t i = 0; i < f.elem_cnt; i++)
		assert_string_not_equal(func_name(&f, f.elems[i]), "_start");
	flame__free(&f);
	f = made(marked, (struct flame_opts){ .tasks = true, .lines = true });
	memset(kinds, 0, sizeof(kinds));
	for (size_t i = 0; i < f.func_cnt; i++)
		kinds[f.funcs[i].plumbing] += 1;
	assert_true(kinds[PLUMBING_FRAME] > 2 && kinds[PLUMBING_BOX] == 1);
	assert_string_equal(func_name(&f, f.elems[f.stacks[f.stack_cnt - 1].first]), "_start");
	assert_int_equal(f.task_cnt, 3);
	flame__free(&f);
	profile__free_view(hidden, p);
	profile__free_view(marked, p);
	profile__free(p);
}

static void test_groups(void **state)
{
	static const struct {
		const char *file, *group;
	} cases[] = {
		{ "/srv/venv/lib/python3.11/site-packages/gunicorn/arbiter.py", "gunicorn" },
		{ "/usr/lib/python3/dist-packages/six.py", "six" },
		{ "/usr/lib/python3.11/json/decoder.py", "stdlib" },
		{ "<frozen importlib._bootstrap>", "stdlib" },
		{ "/srv/shop/views.py", "shop" },
		{ "/app.py", "app.py" },
		{ "app.py", "app.py" },
		{ "", "unknown" },
		{ "/site-packages/", "unknown" },
		{ "/data/python/x/y.py", "x" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct profile *p = profile__new();
		struct flame f;

		STACK(p, add_proc(p, 1, "x"), 0, 1,
		      add_sym(p, SYM_PYTHON, "f", cases[i].file, 1, -1));
		f = made(symbolized(p), (struct flame_opts){ 0 });
		assert_string_equal(
			flame__text(&f, f.groups[f.funcs[f.places[f.elems[0]].func].group], NULL),
			cases[i].group);
		flame__free(&f);
		profile__free(p);
	}
}

/* Each value has its data and its words; names come from files, and are text. */
static void test_values(void **state)
{
	struct profile *p = service(0), *q = service(9);
	const struct profile *const views[] = { p, q };
	char *s = NULL;
	size_t len;
	FILE *f = open_memstream(&s, &len);

	(void)state;
	assert_non_null(f);
	q->stats.values[0] = (struct value_type){ .event = VALUE_FOREIGN,
						  .name = "a\"><script>",
						  .unit = "count" };
	assert_int_equal(export__html_values(views, 2, &defaults, f), 0);
	fclose(f);
	assert_non_null(strstr(s, " id=\"profile\">"));
	assert_non_null(strstr(s, " id=\"profile1\">"));
	assert_null(strstr(s, " id=\"profile2\">"));
	assert_non_null(strstr(s, "<template data-value=\"cpu-clock\"><p>30.0 s at 99 Hz"));
	assert_non_null(strstr(s, "<template data-value=\"a&quot;&gt;&lt;script&gt;\"><p>"));
	assert_null(strstr(s, "a\"><script>"));
	free(s);
	profile__free(p);
	profile__free(q);
}

/* The same content in another order gives the same bytes. */
static void test_deterministic(void **state)
{
	static const write_fn writes[] = { export__html, export__svg, export__lines };
	struct profile *a = service(0), *b = profile__new();

	(void)state;
	for (size_t i = 0; i < a->module_cnt; i++)
		profile__add_module(b, &(struct profile_module){
					       .path = profile__intern_z(
						       b, profile__str(a, a->modules[i].path)) });
	for (size_t i = a->sym_cnt; i-- > 0;)
		add_sym(b, a->syms[i].kind, profile__str(a, a->syms[i].func),
			profile__str(a, a->syms[i].file), a->syms[i].line, a->syms[i].module);
	for (size_t i = a->proc_cnt; i-- > 0;) {
		struct profile_proc proc = a->procs[i];

		proc.comm = profile__intern_z(b, profile__str(a, proc.comm));
		proc.python = profile__intern_z(b, profile__str(a, proc.python));
		proc.native_only = profile__intern_z(b, profile__str(a, proc.native_only));
		profile__add_proc(b, &proc);
	}
	for (size_t i = a->stack_cnt; i-- > 0;) {
		const struct profile_stack *s = &a->stacks[i];
		int syms[16];

		for (uint32_t j = 0; j < s->cnt; j++)
			syms[j] = (int)a->sym_cnt - 1 - (int)PYTHON_CODE(a->frames[s->first + j]);
		syms[s->cnt] = -1;
		add_stack(b, (int)(a->proc_cnt - 1 - s->proc), s->tid, s->count, syms);
	}
	profile__add_thread(b,
			    &(struct profile_thread){ 1042, 2, profile__intern_z(b, "io;pool") });
	symbolized(b);
	for (size_t i = 0; i < ARRAY_SIZE(writes); i++) {
		char *sa = output(writes[i], a), *sb = output(writes[i], b);

		assert_string_equal(sa, sb);
		free(sa);
		free(sb);
	}
	profile__free(a);
	profile__free(b);
}

static void test_empty(void **state)
{
	static const write_fn writes[] = { export__html, export__svg, export__lines };
	struct profile *p = profile__new();

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(writes); i++) {
		char *s = output(writes[i], p);

		assert_non_null(strstr(s, "Nothing was sampled"));
		free(s);
	}
	profile__free(p);
}

/* The sentences of the report are in each page. */
static void test_facts(void **state)
{
	static const char *const sentences[] = {
		"1,050 delivered = 1,035 counted + 10 filtered + 5 lost",
		"99.9% of 1,035 user stacks are complete",
		"5 samples dropped because the table of counts was full",
	};
	struct profile *p = service(0);
	char *html = output(export__html, p), *lines = output(export__lines, p);
	char *report = output(export__report, p);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sentences); i++) {
		assert_non_null(strstr(report, sentences[i]));
		assert_non_null(strstr(html, sentences[i]));
		assert_non_null(strstr(lines, sentences[i]));
	}
	assert_non_null(strstr(html, "job (7): native only: frame 0 &lt; 1 &amp; &quot;so&quot;"));
	free(html);
	free(lines);
	free(report);
	profile__free(p);
}

/* ---- Hostile names ---- */

static void check_text(const char *s)
{
	size_t len = strlen(s);
	uint32_t c;

	for (size_t i = 0; i < len;) {
		i += utf8_next(s + i, len - i, &c);
		assert_true(c == '\n' || (c >= 0x20 && (c < 0x7f || c > 0x9f)));
		assert_true(c < 0x2028 || c > 0x202e); /* separators, directions */
		assert_true(c < 0x2066 || c > 0x2069);
	}
}

static size_t count(const char *s, const char *what)
{
	size_t n = 0;

	for (; (s = strstr(s, what)); s++)
		n++;
	return n;
}

/* Whatever the names: as many scripts, tags and attributes as without them. */
static void test_hostile(void **state)
{
	static const char *const bad[] = { "<svg onload", "<!--<script", "<!--@" };
	static const write_fn writes[] = { export__html, export__lines, export__svg };
	struct profile *p = hostile(), *plain = service(0);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(writes); i++) {
		char *s = output(writes[i], p), *want = output(writes[i], plain);

		check_text(s);
		for (size_t j = 0; j < ARRAY_SIZE(bad); j++)
			assert_int_equal(count(s, bad[j]), 0);
		assert_int_equal(count(s, "<script"), count(want, "<script"));
		assert_int_equal(count(s, "</script"), count(want, "</script"));
		assert_true(strlen(s) < 400000);
		free(s);
		free(want);
	}
	profile__free(p);
	profile__free(plain);
}

/* Files of others bring names of value types with them. */
static void test_hostile_values(void **state)
{
	struct profile *p = service(0);
	char *want = output(export__html, p);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(hostile_names); i++) {
		struct value_type *v = &p->stats.values[0];
		struct strbuf name = { 0 };
		char *s, *data;

		str_sanitise(&name, hostile_names[i], strlen(hostile_names[i]),
			     sizeof(v->name) - 1);
		v->event = VALUE_FOREIGN;
		snprintf(v->name, sizeof(v->name), "%s", name.s);
		snprintf(v->unit, sizeof(v->unit), i % 2 ? "nanoseconds" : "things");
		s = output(export__html, p);
		data = page_data(s);
		assert_null(strchr(data, '<'));
		assert_int_equal(count(s, "</"), count(want, "</"));
		free(data);
		free(s);
		strbuf__free(&name);
	}
	free(want);
	profile__free(p);
}

static int run(const char *command)
{
	int status = system(command);

	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_svg_well_formed(void **state)
{
	struct profile *profiles[] = { service(0), hostile(), profile__new() };
	char path[] = "/tmp/test_export_web.XXXXXX", command[128];
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	if (run("xmllint --version 2>/dev/null")) {
		puts("missing: xmllint");
		close(fd);
		unlink(path);
		for (size_t i = 0; i < ARRAY_SIZE(profiles); i++)
			profile__free(profiles[i]);
		skip();
	}
	for (size_t i = 0; i < ARRAY_SIZE(profiles); i++) {
		char *s = output(export__svg, profiles[i]);

		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(pwrite(fd, s, strlen(s), 0), strlen(s));
		snprintf(command, sizeof(command), "xmllint --nonet --noout %s", path);
		assert_int_equal(run(command), 0);
		free(s);
		profile__free(profiles[i]);
	}
	close(fd);
	unlink(path);
}

/* What the picture cannot show is said below it. */
static void test_svg_of_deep_stacks(void **state)
{
	enum { DEPTH = 1200, SHOWN = 1000 };
	struct profile *p = profile__new();
	int proc = add_proc(p, 42, "web"), f = add_sym(p, SYM_PYTHON, "f", "/srv/f.py", 1, -1);
	uint64_t words[DEPTH];
	char *s;

	(void)state;
	for (size_t i = 0; i < DEPTH; i++)
		words[i] = PYTHON_WORD(f, 0);
	assert_true(profile__add_stack(p, (uint32_t)proc, 1, words, SHOWN, 75) >= 0);
	s = output(export__svg, symbolized(p));
	assert_null(strstr(s, "stacks that go on"));
	free(s);
	free(p->frame_syms);
	p->frame_syms = NULL; /* named anew */
	assert_true(profile__add_stack(p, (uint32_t)proc, 1, words, DEPTH, 25) >= 0);
	s = output(export__svg, symbolized(p));
	assert_non_null(strstr(s, "25.0% is in stacks that go on above row 1,000"));
	free(s);
	profile__free(p);
}

static void check_escaped(void (*add)(struct strbuf *, const char *, size_t), const char *s,
			  size_t len, const char *want)
{
	struct strbuf b = { 0 };

	add(&b, s, len);
	assert_string_equal(b.s, want);
	strbuf__free(&b);
}

static void test_escape(void **state)
{
	(void)state;
	check_escaped(page_add_html, "a<b>&\"'", 7, "a&lt;b&gt;&amp;&quot;&#39;");
	check_escaped(page_add_json, "a<b>&\"\\/", 8, "\"a\\u003cb\\u003e\\u0026\\\"\\\\/\"");
	check_escaped(page_add_json, "\0\n\x1f", 3, "\"\\u0000\\u000a\\u001f\"");
	check_escaped(page_add_json, "\xe2\x80\xa8\xff\u00e9", 6, "\"\\u2028\xef\xbf\xbd\u00e9\"");
	check_escaped(page_add_json, "", 0, "\"\"");
}

static size_t decode_base64(char *s)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t cnt = 0, len = strcspn(s, "=");
	uint32_t bits = 0;

	assert_int_equal(strlen(s) % 4, 0);
	assert_true(strlen(s) - len <= 2 && strspn(s + len, "=") == strlen(s + len));
	for (size_t i = 0; i < len; i++) {
		const char *digit = strchr(digits, s[i]);

		assert_non_null(digit);
		bits = bits << 6 | (uint32_t)(digit - digits);
		if (i % 4)
			s[cnt++] = (char)(bits >> (6 - 2 * (i % 4)) & 0xff);
	}
	return cnt;
}

/* What page_write_data() writes, without the tags. */
static char *data_element(struct strbuf *json, const char *type)
{
	static const char end[] = "</script>";
	char head[64], *s = NULL, *inner;
	size_t size;
	FILE *f = open_memstream(&s, &size);

	assert_non_null(f);
	assert_int_equal(page_write_data(json, "profile", f), 0);
	assert_int_equal(json->len, 0);
	fclose(f);
	snprintf(head, sizeof(head), "<script type=\"application/%s\" id=\"profile\">", type);
	assert_int_equal(strncmp(s, head, strlen(head)), 0);
	assert_true(size > strlen(head) + strlen(end));
	assert_string_equal(s + size - strlen(end), end);
	inner = strndup(s + strlen(head), size - strlen(head) - strlen(end));
	free(s);
	return inner;
}

/* Small data can be read by a person; large ones are packed, whatever their length is. */
static void test_data(void **state)
{
	struct strbuf json = { 0 }, text = { 0 }, back = { 0 };
	size_t endings[3] = { 0 };
	char *s;

	(void)state;
	strbuf__addz(&json, "{\"a\":1}");
	s = data_element(&json, "json");
	assert_string_equal(s, "{\"a\":1}");
	free(s);
	for (unsigned i = 0; i < 40; i++) {
		for (unsigned n = 0; text.len < (300 << 10) + i * i; n++)
			strbuf__addf(&text, "%u<&,", n * n);
		strbuf__add(&json, text.s, text.len);
		s = data_element(&json, "gzip");
		assert_true(strlen(s) < text.len / 2);
		endings[strlen(s) - strcspn(s, "=")]++;
		assert_int_equal(gzip__unpack(&back, s, decode_base64(s), 1 << 20), 0);
		assert_int_equal(back.len, text.len);
		assert_memory_equal(back.s, text.s, text.len);
		strbuf__clear(&text);
		strbuf__clear(&back);
		free(s);
	}
	assert_true(endings[0] && endings[1] && endings[2]);
	strbuf__free(&text);
	strbuf__free(&back);
}

/* ---- The heat map ---- */

static char dir[] = "/tmp/test_export_web.XXXXXX";

#include "owndir.h"

/* A file in a directory that all may look into. */
static const char *make_file(char path[PATH_MAX], const char *name, mode_t mode, const char *text)
{
	FILE *f;

	snprintf(path, PATH_MAX, "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	assert_int_equal(chmod(path, mode), 0);
	return path;
}

/* The page has the lines around those that were sampled, and not the rest. */
static void test_lines(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, (uint32_t)getpid(), "web");
	char path[PATH_MAX], *s;
	struct strbuf text = { 0 };

	(void)state;
	for (int i = 1; i <= 100; i++)
		strbuf__addf(&text, "\tline_%d() # </td><script>\r\n", i);
	make_file(path, "source.py", 0644, text.s);
	STACK(p, proc, 0, 75, add_sym(p, SYM_PYTHON, "f", path, 50, -1),
	      add_sym(p, SYM_PYTHON, "g", path, 51, -1), add_sym(p, SYM_KERNEL, "read", "", 0, -1));
	STACK(p, proc, 0, 25, add_sym(p, SYM_PYTHON, "f", path, 50, -1));
	STACK(p, proc, 0, 5, add_sym(p, SYM_PYTHON, "h", "/none.py", 3, -1));
	s = output(export__lines, symbolized(p));
	assert_non_null(strstr(s, "<td>23.8%</td><td>95.2%</td>")); /* line 50: 25, 100 of 105 */
	assert_non_null(strstr(s, "<td>71.4%</td><td>71.4%</td>")); /* line 51, with the kernel */
	assert_non_null(strstr(s, "<td class=\"no\">46</td><td class=\"code\">        line_46() # "
				  "&lt;/td&gt;&lt;script&gt;</td>"));
	assert_null(strstr(s, "line_45("));
	assert_non_null(strstr(s, "line_55("));
	assert_null(strstr(s, "line_56("));
	assert_non_null(strstr(s, "The source is not shown: No such file or directory."));
	check_text(s);
	free(s);
	strbuf__free(&text);
	profile__free(p);
}

/* Own code comes first, however hot others are; within a group the hottest. */
static void test_origins(void **state)
{
	static const char *const want[] = { ">Own code<",	 ">/srv/shop/b.py<",
					    ">/srv/shop/a.py<",	 ">Packages<",
					    "/flask/app.py<",	 ">Standard library<",
					    "/json/decoder.py<", "<details id=\"f0\" open>",
					    "<b>/srv/shop/b.py" };
	struct profile *p = profile__new();
	int proc = add_proc(p, (uint32_t)getpid(), "web");
	const char *at;
	char *s;

	(void)state;
	STACK(p, proc, 0, 60,
	      add_sym(p, SYM_PYTHON, "loads", "/usr/lib/python3.11/json/decoder.py", 3, -1));
	STACK(p, proc, 0, 25,
	      add_sym(p, SYM_PYTHON, "run", "/srv/lib/python3.11/site-packages/flask/app.py", 3,
		      -1));
	STACK(p, proc, 0, 5, add_sym(p, SYM_PYTHON, "f", "/srv/shop/a.py", 3, -1));
	STACK(p, proc, 0, 10, add_sym(p, SYM_PYTHON, "g", "/srv/shop/b.py", 3, -1));
	s = output(export__lines, symbolized(p));
	at = s;
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		at = strstr(at, want[i]);
		if (!at)
			fail_msg("%s is not where it belongs", want[i]);
	}
	check_text(s);
	free(s);
	profile__free(p);
}

/* A file that has become shorter since: rows for what was sampled, without text. */
static void test_shorter_source(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, (uint32_t)getpid(), "web");
	char path[PATH_MAX], *s;

	(void)state;
	make_file(path, "short.py", 0644, "one()\ntwo()\n");
	STACK(p, proc, 0, 75, add_sym(p, SYM_PYTHON, "f", path, 3000, -1));
	STACK(p, proc, 0, 25, add_sym(p, SYM_PYTHON, "g", path, 2, -1));
	s = output(export__lines, symbolized(p));
	assert_non_null(strstr(s, "<td class=\"no\">2</td><td class=\"code\">two()</td>"));
	assert_non_null(strstr(s, "<td class=\"no\">3000</td><td class=\"code\"></td>"));
	check_text(s);
	free(s);
	profile__free(p);
}

/* A code object may say any line: code.replace(co_firstlineno=2**31 - 1). */
static void test_line_of_nowhere(void **state)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, (uint32_t)getpid(), "web");
	char path[PATH_MAX], *s;

	(void)state;
	make_file(path, "near.py", 0644, "one()\ntwo()\n");
	STACK(p, proc, 0, 75, add_sym(p, SYM_PYTHON, "f", path, UINT32_MAX, -1));
	STACK(p, proc, 0, 25, add_sym(p, SYM_PYTHON, "g", path, 1, -1));
	STACK(p, proc, 0, 10, add_sym(p, SYM_PYTHON, "h", "/none.py", INT32_MAX, -1));
	STACK(p, proc, 0, 5, add_sym(p, SYM_PYTHON, "h", "/none.py", 9, -1));
	s = output(export__lines, symbolized(p));
	assert_non_null(strstr(s, "4294967292 lines</td>"));
	assert_non_null(strstr(s, "<td class=\"no\">4294967295</td><td class=\"code\"></td>"));
	assert_non_null(strstr(s, "<td class=\"no\">2147483647</td><td class=\"code\"></td>"));
	assert_true(strstr(s, "<td class=\"no\">9</td>") < strstr(s, "2147483647"));
	check_text(s);
	free(s);
	profile__free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_curves),
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_compared),
		cmocka_unit_test(test_data),
		cmocka_unit_test(test_delta),
		cmocka_unit_test(test_plumbing),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_deterministic),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_facts),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_hostile_values),
		cmocka_unit_test(test_svg_well_formed),
		cmocka_unit_test(test_svg_of_deep_stacks),
		cmocka_unit_test(test_escape),
		cmocka_unit_test(test_shorter_source),
		cmocka_unit_test(test_line_of_nowhere),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_origins),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
