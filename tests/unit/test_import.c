/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * import*.c: what export wrote comes back whole; what others wrote, as far as it goes; what is
 * damaged or hostile is told so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "base/str.h"
#include "export/export.h"
#include "import/import.h"
#include "import/import_loops.h"
#include "unit/profiles.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

typedef int (*write_fn)(const struct profile *p, const struct export_opts *o, FILE *f);

static const struct export_opts all = { .lines = true, .threads = true };
static const struct export_opts lines = { .lines = true };
static const struct export_opts none = { .lines = false };

/* ---- Files in memory ---- */

struct blob {
	char *s;
	size_t len;
};

static struct blob output(write_fn write, const struct profile *p, const struct export_opts *o)
{
	struct blob b = { NULL, 0 };
	FILE *f = open_memstream(&b.s, &b.len);

	assert_non_null(f);
	assert_int_equal(write(p, o, f), 0);
	assert_int_equal(fclose(f), 0);
	return b;
}

static struct blob text(const char *s)
{
	struct blob b = { strdup(s), strlen(s) };

	assert_non_null(b.s);
	return b;
}

/* import__add() of these bytes; its message in `said`. */
static int add(struct import *im, struct blob b, char *said, size_t size)
{
	int fd = memfd_create("profile", MFD_CLOEXEC), saved = dup(STDERR_FILENO), err;
	FILE *messages = tmpfile();
	char path[64];
	size_t len;

	assert_true(fd >= 0 && saved >= 0 && messages);
	assert_int_equal(write(fd, b.s, b.len), b.len);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_true(dup2(fileno(messages), STDERR_FILENO) >= 0);
	err = import__add(im, path);
	fflush(stderr);
	assert_true(dup2(saved, STDERR_FILENO) >= 0);
	close(saved);
	close(fd);
	rewind(messages);
	len = fread(said, 1, size - 1, messages);
	said[len] = '\0';
	fclose(messages);
	return err;
}

static struct import *load(struct blob b, const struct import_opts *o)
{
	static const struct import_opts defaults;
	struct import *im = import__new(o ? o : &defaults);
	char said[512];

	assert_non_null(im);
	if (add(im, b, said, sizeof(said)))
		fail_msg("%s", said);
	assert_string_equal(said, "");
	assert_int_equal(import__finish(im), 0);
	return im;
}

/* ---- Round trips ---- */

static int no_sym(void *ctx, uint64_t location_id)
{
	(void)ctx;
	(void)location_id;
	return -EBADMSG;
}

static int no_proc(void *ctx, uint64_t sample)
{
	(void)ctx;
	(void)sample;
	return -1;
}

static void assert_same(struct blob a, struct blob b)
{
	assert_int_equal(a.len, b.len);
	assert_memory_equal(a.s, b.s, a.len);
	free(a.s);
	free(b.s);
}

/* Through `via` and back, `then` writes what it writes of the original. */
static void round_trip(struct profile *(*make)(void), write_fn via, write_fn then,
		       const struct export_opts *o)
{
	struct profile *p = make();
	struct blob file = output(via, p, o);
	struct import *im = load(file, NULL);
	struct export_opts eo = { .lines = import__has_lines(im),
				  .threads = import__has_threads(im) };

	assert_int_equal(eo.lines, o->lines);
	assert_int_equal(eo.threads, o->threads);
	assert_same(output(then, p, o), output(then, import__profile(im), &eo));
	free(file.s);
	import__free(im);
	profile__free(p);
}

static void test_pprof_round_trip(void **state)
{
	static const write_fn formats[] = { export__pprof, export__report, export__folded };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		round_trip(service, export__pprof, formats[i], &all);
		round_trip(service, export__pprof, formats[i], &lines);
		round_trip(service, export__pprof, formats[i], &none);
	}
	/* Not the bytes of pprof: what was unsafe in the names is gone. */
	round_trip(hostile, export__pprof, export__report, &lines);
	round_trip(hostile, export__pprof, export__folded, &lines);
}

/* Compiled at run time: code in no file, with a name that its process told. */
static struct profile *generated(void)
{
	struct profile *p = profile__new();
	int libm = add_module(p, "/usr/lib/libm.so.6", "", 0x1000, 0x90000);
	int proc = add_proc(p, 1, "web", "/usr/bin/python3.11", "3.11.2", "", "");
	int calls = py(p, "calls", "/srv/app.py", 5, 1);
	int named = native(p, "__main__::mandel(long long)", -1, 0);
	int hypot = native(p, "hypot", libm, 0x2000), bare = native(p, "", -1, 0x7f0000001234);

	STACK(p, proc, 1, 30, calls, named);
	STACK(p, proc, 1, 20, calls, named, hypot);
	STACK(p, proc, 1, 10, calls, bare);
	symbolized(p);
	set_stats(p, 100, 1);
	return p;
}

static void test_generated_code(void **state)
{
	static const write_fn formats[] = { export__pprof, export__report, export__folded,
					    export__json };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		round_trip(generated, export__pprof, formats[i], &all);
		round_trip(generated, export__pprof, formats[i], &none);
	}
}

/* A loop that a call blocks, and tasks in it. */
static struct profile *loops(void)
{
	struct profile *p = profile__new();
	int proc = add_proc(p, 1, "web", "/usr/bin/python3.11", "3.11.2", "", "");
	int once = py(p, "BaseEventLoop._run_once", "/lib/asyncio/base_events.py", 1, 1);
	int price = py(p, "price", "/srv/app.py", 5, 1),
	    waits = py(p, "waits", "/srv/app.py", 9, 8);
	int epoll = marker(p, "[waits: epoll_wait]"), net = marker(p, "[waits: net]");
	struct profile_loop l = {
		.space = p->procs[proc].space,
		.tid = 7,
		.cnt = 20,
		.busy_ns = 900000000,
		.slow_cnt = 3,
		.slow_ns = 700000000,
		.hist = { [4] = 12, [6] = 5, [17] = 3 },
		.longest_cnt = 2,
		.longest = { { .begin_ns = 5, .ns = 340000000, .stack_cnt = 1, .open = true },
			     { .begin_ns = 4, .ns = 1 } },
	};
	const struct profile_await a = { .space = l.space,
					 .own = true,
					 .looks = 10,
					 .of = 40,
					 .cut = 1,
					 .tasks = 25,
					 .came = 5 };

	p->stats.values[0].event = EVENT_OFF_CPU;
	p->stats.values[0].rate_hz = 99;
	p->stats.duration_ns = 10000000000;
	add_stack(p, proc, 1, 700000000, (int[]){ once, epoll, -1 });
	add_stack(p, proc, 1, 700000000, (int[]){ once, price, net, -1 });
	symbolized(p);
	l.longest[0].stacks[0] = (struct profile_loop_stack){ .stack = 1, .ns = 290000000 };
	assert_int_equal(profile__add_loop(p, &l), 0);
	assert_int_equal(profile__name_loops(p), 0);
	/* in no sample */
	assert_int_equal(profile__add_await(p, &a, (uint32_t[]){ (uint32_t)waits }, 1), 0);
	return p;
}

static void test_loops_round_trip(void **state)
{
	static const write_fn formats[] = { export__pprof, export__report, export__json,
					    export__markdown };
	struct profile *p = loops();
	struct blob report = output(export__report, p, &all);

	(void)state;
	assert_non_null(strstr(report.s, "The event loop was blocked 4 times"));
	assert_non_null(strstr(report.s, "tasks awaited in waits (/srv/app.py:9)"));
	free(report.s);
	profile__free(p);
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		round_trip(loops, export__pprof, formats[i], &all);
}

/* What is wrong with the numbers of loops is told so, and does no harm. */
static void test_damaged_loops(void **state)
{
	static const char *const texts[] = {
		" ",
		"x",
		" 1",
		" 3 0",
		" 0 0",
		" 2 0 1 2 1 0 1 1 0 0",
		" 2 0 1 0 0 0 1 1 0 0",
		" 2 0 1 1 1 0 1 1 0 9999999999",
		" 2 0 1 1 1 0 1 1 0 1 99",
		" 1 0 7 1 1 1 1 0 0 0 12",
		" 1 0 7 1 1 1 1 33",
		" 1 0 99999999999999999999 1",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct import *im = import__new(&(struct import_opts){ 0 });
		const struct loop_refs refs = { .ctx = NULL, .sym = no_sym, .proc = no_proc };

		assert_non_null(im);
		im->path = "x";
		if (import_loops(im, texts[i], strlen(texts[i]), &refs) != -EBADMSG)
			fail_msg("\"%s\" was read", texts[i]);
		assert_int_equal(import__profile(im)->loop_cnt, 0);
		import__free(im);
	}
}

/* What was counted in something else than CPU time is that again. */
static void test_values_round_trip(void **state)
{
	(void)state;
	for (uint32_t event = 0; event < EVENT_CNT; event++) {
		struct profile *p = service();
		struct import *im;
		struct blob file;

		for (size_t i = 0; i < p->stack_cnt && !event_is_clock(event); i++)
			p->stacks[i].count *= 10;
		if (!event_is_clock(event))
			p->stats.values[0] = (struct value_type){ .event = event };
		file = output(export__pprof, p, &all);
		im = load(file, NULL);
		if (strcmp(value_type__name(&import__profile(im)->stats.values[0]),
			   value_type__name(&p->stats.values[0])))
			fail_msg("%s came back as %s", event_name(event),
				 value_type__name(&import__profile(im)->stats.values[0]));
		assert_same(output(export__report, p, &all),
			    output(export__report, import__profile(im), &all));
		free(file.s);
		import__free(im);
		profile__free(p);
	}
}

/* Value types beside each other, of which some bring their own names, as those of probes do. */
static void test_several_values_round_trip(void **state)
{
	static const struct value_type clock = { .event = EVENT_CPU_CLOCK, .frequency_hz = 99 },
				       faults = { .event = EVENT_PAGE_FAULTS, .period = 1 },
				       hits = { VALUE_FOREIGN, .name = "usdt:a:b",
						.unit = "count" },
				       sizes = { VALUE_FOREIGN, .name = "sizes", .unit = "bytes" };
	static const struct value_type *const orders[][4] = {
		{ &clock, &hits, &faults, &sizes },
		{ &hits, &sizes, &clock, &faults },
		{ &faults, &hits, &sizes, &clock },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		struct profile *p = service();
		struct blob file, part;
		struct import *im, *one;

		p->stats.value_cnt = 4;
		for (size_t k = 0; k < 4; k++)
			p->stats.values[k] = *orders[i][k];
		for (size_t k = 0; k < p->stack_cnt; k++)
			p->stacks[k].type = k % 4;
		file = output(export__pprof, p, &all);
		im = load(file, NULL);
		one = load(file, &(struct import_opts){ .sample_type = "usdt:a:b" });
		part = output(export__folded, import__profile(one), &all);
		assert_int_equal(profile__value_cnt(import__profile(im)), 4);
		for (size_t k = 0; k < 4; k++)
			assert_string_equal(value_type__name(&import__profile(im)->stats.values[k]),
					    value_type__name(orders[i][k]));
		assert_int_equal(profile__value_cnt(import__profile(one)), 1);
		assert_string_equal(value_type__noun(&import__profile(one)->stats.values[0], 2),
				    "hits");
		assert_true(part.len);
		assert_same(file, output(export__pprof, import__profile(im), &all));
		free(part.s);
		import__free(one);
		import__free(im);
		profile__free(p);
	}
}

static void test_folded_round_trip(void **state)
{
	(void)state;
	round_trip(service, export__folded, export__folded, &all);
	round_trip(service, export__folded, export__folded, &lines);
	round_trip(service, export__folded, export__folded, &none);
	round_trip(hostile, export__folded, export__folded, &lines);
}

/* Processes that only their space tells apart stay apart. */
static struct profile *lives(void)
{
	struct profile *p = profile__new();
	int f = py(p, "f", "/a.py", 1, 1);

	for (uint32_t i = 0; i < 3; i++) {
		int proc = profile__add_proc(
			p, &(struct profile_proc){ .space = 50 + i,
						   .tgid = 7,
						   .comm = profile__intern_z(p, "x"),
						   .python = profile__intern_z(p, "3.9.1") });

		STACK(p, proc, 0, 10 + i, f);
	}
	symbolized(p);
	set_stats(p, 0, 0);
	return p;
}

static void test_lives(void **state)
{
	(void)state;
	round_trip(lives, export__pprof, export__report, &lines);
}

/* ---- Several files ---- */

static void test_added_up(void **state)
{
	struct profile *p = service();
	struct blob file = output(export__pprof, p, &all);
	struct import *im = load(file, NULL);
	size_t stacks = import__profile(im)->stack_cnt;
	const struct profile *sum = import__profile(im);
	char said[512];

	(void)state;
	assert_int_equal(add(im, file, said, sizeof(said)), 0);
	assert_int_equal(import__finish(im), 0);
	assert_int_equal(sum->stack_cnt, stacks);
	assert_int_equal(profile__total(sum), 2 * profile__total(p));
	assert_int_equal(sum->stats.counters[CTR_delivered], 2 * p->stats.counters[CTR_delivered]);
	assert_int_equal(sum->stats.duration_ns, 2 * p->stats.duration_ns);
	assert_int_equal(sum->stats.rss_bytes, p->stats.rss_bytes);
	p->stats.values[0].frequency_hz = 999;
	free(file.s);
	file = output(export__pprof, p, &all);
	assert_int_equal(add(im, file, said, sizeof(said)), -EBADMSG);
	assert_non_null(strstr(said, "sampled at 999 Hz, the file before it at 99 Hz: "));
	free(file.s);
	import__free(im);
	profile__free(p);
}

/* Folded stacks say nothing of what was lost, so neither does the sum. */
static void test_not_accounted(void **state)
{
	struct profile *p = service();
	struct blob file;
	struct import *im;
	char said[512];

	(void)state;
	p->stats.values[0].frequency_hz = 0;
	file = output(export__pprof, p, &lines);
	im = load(file, NULL);
	free(file.s);
	file = text("a;f (/x.py:1) 3\n");
	assert_int_equal(add(im, file, said, sizeof(said)), 0);
	assert_int_equal(import__finish(im), 0);
	assert_int_equal(import__profile(im)->stats.counters[CTR_delivered], 0);
	free(file.s);
	import__free(im);
	profile__free(p);
}

/* ---- Folded stacks ---- */

static const struct {
	const char *line; /* in a file of its own */
	enum sym_kind kind;
	const char *func, *file;
	uint32_t number;
} frames[] = {
	{ "c;f (/a b/x.py:12) 1\n", SYM_PYTHON, "f", "/a b/x.py", 12 },
	{ "c;C.f (<string>) 1\n", SYM_PYTHON, "C.f", "<string>", 0 },
	{ "c;f (a:b:3) 1\n", SYM_PYTHON, "f", "a:b", 3 },
	{ "c;f (/x.py:99999999999) 1\n", SYM_PYTHON, "f", "/x.py:99999999999", 0 },
	{ "c;operator[] [lib.so] 1\n", SYM_NATIVE, "operator[]", "", 0 },
	{ "c;0x1f [lib.so] 1\n", SYM_NATIVE, "", "", 0 },
	{ "c;tcp_sendmsg_[k] 1\n", SYM_KERNEL, "tcp_sendmsg", "", 0 },
	{ "c;[no-unwind-info x.so] 1\n", SYM_MARKER, "[no-unwind-info x.so]", "", 0 },
	{ "c;main 1\n", SYM_PLAIN, "main", "", 0 },
	{ "c;f (x 1\n", SYM_PLAIN, "f (x", "", 0 },
	{ "c; 1\n", SYM_PLAIN, "", "", 0 },
	{ "c;_[k] 1\n", SYM_PLAIN, "_[k]", "", 0 },
	/* One foreign frame makes the file foreign. */
	{ "c;main;f (/x.py:12) 1\n", SYM_PLAIN, "f (/x.py:12)", "", 0 },
	{ "c;main;read_[k] 1\n", SYM_KERNEL, "read", "", 0 },
	{ "\r\nc;f (/x.py:12) 1\r\n\n", SYM_PYTHON, "f", "/x.py", 12 },
	{ "c;f (/x.py:12) 1", SYM_PYTHON, "f", "/x.py", 12 },
};

static void test_folded_frames(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
		struct blob b = text(frames[i].line);
		struct import *im = load(b, NULL);
		const struct profile *p = import__profile(im);
		const struct sym *s = &p->syms[p->frame_syms[p->frame_cnt - 1]];

		assert_int_equal(p->stack_cnt, 1);
		assert_int_equal(s->kind, frames[i].kind);
		assert_string_equal(profile__str(p, s->func), frames[i].func);
		assert_string_equal(profile__str(p, s->file), frames[i].file);
		assert_int_equal(s->line, frames[i].number);
		free(b.s);
		import__free(im);
	}
}

/* What other tools wrote comes out as it went in, sorted. */
static void test_foreign_folded(void **state)
{
	static const char lines_of[] = "java;java/lang/Thread.run;[unknown];read_[k] 7\n"
				       "java;java/lang/Thread.run;f (x.java:3) 9\n"
				       "perf;a b;c [d];main 12\n";
	struct blob b = text(lines_of), out;
	struct import *im = load(b, NULL);

	(void)state;
	out = output(export__folded, import__profile(im), &lines);
	assert_string_equal(out.s, lines_of);
	free(out.s);
	free(b.s);
	import__free(im);
}

/* ---- pprof files of others, by hand ---- */

static void varint(struct strbuf *b, uint64_t v)
{
	for (; v > 0x7f; v >>= 7)
		strbuf__addc(b, (char)(v | 0x80));
	strbuf__addc(b, (char)v);
}

static void number(struct strbuf *b, uint32_t field, uint64_t v)
{
	varint(b, field << 3);
	varint(b, v);
}

static void bytes(struct strbuf *b, uint32_t field, const void *s, size_t len)
{
	varint(b, field << 3 | 2);
	varint(b, len);
	strbuf__add(b, s, len);
}

/* A message of pairs (field, number), ending in field 0, as field `field`. */
static void message(struct strbuf *b, uint32_t field, const uint64_t *pairs)
{
	struct strbuf m = { 0 };

	for (; *pairs; pairs += 2)
		number(&m, (uint32_t)pairs[0], pairs[1]);
	bytes(b, field, m.s ? m.s : "", m.len);
	strbuf__free(&m);
}

#define MESSAGE(b, field, ...) message(b, field, (const uint64_t[]){ __VA_ARGS__, 0 })

static void strings(struct strbuf *b, const char *const *list)
{
	for (; *list; list++)
		bytes(b, 6, *list, strlen(*list));
}

/* One sample of two frames, not packed: location 7 (inlined into it: two functions), location 9. */
static void foreign(struct strbuf *b, const char *type, const char *unit, uint64_t value,
		    uint64_t period)
{
	const char *list[] = { "",     type,   unit,	"/usr/bin/prog", "main.work", "work.go",
			       "pyfn", "x.py", "inner", "nanoseconds",	 NULL };
	struct strbuf location = { 0 };

	MESSAGE(b, 1, 1, 1, 2, 2);
	MESSAGE(b, 2, 1, 7, 1, 9, 2, value);
	MESSAGE(b, 3, 1, 5, 2, 0x400000, 3, 0x500000, 4, 0x1000, 5, 3);
	number(&location, 1, 7);
	number(&location, 2, 5);
	number(&location, 3, 0x400010);
	MESSAGE(&location, 4, 1, 30, 2, 3);
	MESSAGE(&location, 4, 1, 10, 2, 11);
	bytes(b, 4, location.s, location.len);
	strbuf__clear(&location);
	number(&location, 1, 9);
	MESSAGE(&location, 4, 1, 20, 2, 12);
	bytes(b, 4, location.s, location.len);
	MESSAGE(b, 5, 1, 10, 2, 4, 4, 5);
	MESSAGE(b, 5, 1, 20, 2, 6, 4, 7);
	MESSAGE(b, 5, 1, 30, 2, 8, 4, 5);
	strings(b, list);
	MESSAGE(b, 11, 1, 1, 2, 9);
	number(b, 12, period);
	strbuf__free(&location);
}

static void test_foreign_pprof(void **state)
{
	struct strbuf b = { 0 };
	struct import *im;
	const struct profile *p;
	const struct sym *s;

	(void)state;
	foreign(&b, "samples", "count", 4, 10000000);
	im = load((struct blob){ b.s, b.len }, NULL);
	p = import__profile(im);
	assert_int_equal(p->stack_cnt, 1);
	assert_int_equal(p->stacks[0].count, 4);
	assert_int_equal(p->stats.values[0].frequency_hz, 100);
	assert_string_equal(profile__str(p, p->procs[0].comm), "prog");
	assert_string_equal(profile__str(p, p->procs[0].exe), "/usr/bin/prog");
	s = &p->syms[p->frame_syms[0]]; /* outermost: location 9 */
	assert_int_equal(s->kind, SYM_PYTHON);
	assert_string_equal(profile__str(p, s->func), "pyfn");
	s = &p->syms[p->frame_syms[1]];
	assert_int_equal(s->kind, SYM_NATIVE);
	assert_string_equal(profile__str(p, s->func), "main.work");
	assert_int_equal(s->line, 11);
	assert_int_equal(s->addr, 0x1010);
	assert_true(s->inlined >= 0);
	assert_string_equal(profile__str(p, p->syms[s->inlined].func), "inner");
	assert_int_equal(p->syms[s->inlined].line, 3);
	import__free(im);
	strbuf__free(&b);
}

static void test_units(void **state)
{
	static const struct {
		const char *type, *unit, *asked;
		uint64_t value, period, want;
		const char *said;
	} cases[] = {
		{ "cpu", "nanoseconds", NULL, 50000000, 10000000, 5, NULL },
		{ "cpu", "microseconds", NULL, 50000, 10000000, 5, NULL },
		{ "cpu", "nanoseconds", NULL, 14999999, 10000000, 1, NULL },
		{ "cpu", "nanoseconds", NULL, 15000000, 10000000, 2, NULL },
		{ "wall", "nanoseconds", "wall", 20000000, 10000000, 2, NULL },
		/* What no part of a sample is known of stands for itself. */
		{ "wall", "nanoseconds", NULL, 7, 1, 7, NULL },
		{ "inuse", "bytes", NULL, 7, 1, 7, NULL },
		{ "inuse", "bytes", "inuse", 7, 1, 7, NULL },
		{ "inuse", "bytes", "inuse_space", 1, 1, 0,
		  "no sample type 'inuse_space'; it has inuse/bytes" },
		{ "samples", "count", "cpu", 1, 1, 0,
		  "no sample type 'cpu'; it has samples/count" },
		{ "cpu", "nanoseconds", NULL, 7, 0, 7, NULL },
		{ "samples", "count", NULL, (uint64_t)-1, 1, 0, "negative values" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct strbuf b = { 0 };
		struct import *im =
			import__new(&(struct import_opts){ .sample_type = cases[i].asked });
		char said[512];
		int err;

		foreign(&b, cases[i].type, cases[i].unit, cases[i].value, cases[i].period);
		err = add(im, (struct blob){ b.s, b.len }, said, sizeof(said));
		assert_int_equal(err, cases[i].said ? -EBADMSG : 0);
		if (cases[i].said && !strstr(said, cases[i].said))
			print_error("case %zu: %s", i, said);
		if (cases[i].said)
			assert_non_null(strstr(said, cases[i].said));
		else
			assert_int_equal(profile__total(import__profile(im)), cases[i].want);
		import__free(im);
		strbuf__free(&b);
	}
}

/* ---- Damaged files ---- */

static void refused(const void *data, size_t len, const char *want)
{
	struct import *im = import__new(&(struct import_opts){ 0 });
	char said[512];

	assert_true(add(im, (struct blob){ (char *)data, len }, said, sizeof(said)) < 0);
	if (!strstr(said, want))
		print_error("%s", said);
	assert_non_null(strstr(said, want));
	assert_non_null(strstr(said, "/proc/self/fd/")); /* the name of the file */
	assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
	import__free(im);
}

static void test_damaged(void **state)
{
	static const char *const texts[][2] = {
		{ "", "empty: not a profile" },
		{ "hello world\n",
		  "line 1: does not end in a number of samples, as folded stacks do" },
		{ "a;b 1\na;b\n", "line 2: does not end in a number" },
		{ "a;b 1\na;b -3\n", "line 2: does not end in a number" },
		{ "a;b 18446744073709551616\n", "line 1: does not end in a number" },
		{ "a;b 1x\n", "line 1: does not end in a number" },
		{ "a;b 9223372036854775807\na;c 9223372036854775807\na;d 2\n",
		  "counts add up to more than 64 bits hold" },
		{ "\x1f\x8b\x08 no gzip at all", "damaged: gzip cannot unpack it" },
		{ "\x01\x02\x03", "not a pprof profile, or damaged" },
		{ "\x0a\x7f\x01", "a field ends behind the end of the file" },
	};
	struct strbuf b = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		refused(texts[i][0], strlen(texts[i][0]), texts[i][1]);
	for (int i = 0; i < 70000; i++)
		strbuf__addz(&b, "a;");
	strbuf__addz(&b, "b 1\n");
	refused(b.s, b.len, "line 1: more than 65536 frames");
	strbuf__clear(&b);
	foreign(&b, "samples", "count", 4, 1);
	MESSAGE(&b, 2, 1, 8, 2, 1);
	refused(b.s, b.len, "a sample names a location that is not there");
	strbuf__clear(&b);
	foreign(&b, "samples", "count", 4, 1);
	MESSAGE(&b, 2, 1, 7);
	refused(b.s, b.len, "a sample");
	strbuf__clear(&b);
	foreign(&b, "samples", "count", 4, 1);
	MESSAGE(&b, 4, 1, 8, 2, 77);
	MESSAGE(&b, 2, 1, 8, 2, 1);
	refused(b.s, b.len, "names a mapping or a function that is not there");
	strbuf__free(&b);
}

/* Every beginning of a good file is refused, or is one; none does harm. */
static void test_cut(void **state)
{
	struct profile *p = service();
	struct blob file = output(export__pprof, p, &all);
	char said[512];

	(void)state;
	for (size_t len = 1; len < file.len; len += 7) {
		struct import *im = import__new(&(struct import_opts){ 0 });

		assert_true(add(im, (struct blob){ file.s, len }, said, sizeof(said)) < 0);
		import__free(im);
	}
	free(file.s);
	profile__free(p);
}

/* 300 MiB of nothing in 300 KiB. */
static void test_bomb(void **state)
{
	static unsigned char out[1 << 22], zeros[1 << 20];
	z_stream z = { .next_out = out, .avail_out = sizeof(out) };

	(void)state;
	assert_int_equal(deflateInit2(&z, 1, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	for (int i = 0; i < 300; i++) {
		z.next_in = zeros;
		z.avail_in = sizeof(zeros);
		assert_int_equal(deflate(&z, i == 299 ? Z_FINISH : Z_NO_FLUSH),
				 i == 299 ? Z_STREAM_END : Z_OK);
	}
	refused(out, sizeof(out) - z.avail_out, "larger than 256 MiB, unpacked");
	deflateEnd(&z);
}

static void test_no_file(void **state)
{
	struct import *im = import__new(&(struct import_opts){ 0 });

	(void)state;
	assert_int_equal(import__add(im, "/nonexistent/x.pb.gz"), -ENOENT);
	assert_int_equal(import__add(im, "/tmp"), -EISDIR);
	import__free(im);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loops_round_trip),
		cmocka_unit_test(test_damaged_loops),
		cmocka_unit_test(test_pprof_round_trip),
		cmocka_unit_test(test_generated_code),
		cmocka_unit_test(test_values_round_trip),
		cmocka_unit_test(test_several_values_round_trip),
		cmocka_unit_test(test_folded_round_trip),
		cmocka_unit_test(test_lives),
		cmocka_unit_test(test_added_up),
		cmocka_unit_test(test_not_accounted),
		cmocka_unit_test(test_folded_frames),
		cmocka_unit_test(test_foreign_folded),
		cmocka_unit_test(test_foreign_pprof),
		cmocka_unit_test(test_units),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_bomb),
		cmocka_unit_test(test_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
