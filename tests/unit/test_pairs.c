/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Beginnings and ends of functions become activations, also where an end has no event. */
#include "trace/lost.h"
#include "trace/pairs.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <cmocka.h>

struct log {
	char text[8192];
	struct pairs *p;
	uint64_t ns;
	uint32_t lost;
	uint32_t tgid;	      /* of the events */
	uint32_t ended_tgids; /* bits */
};

static void add(struct log *l, const char *format, ...)
{
	size_t len = strlen(l->text);
	va_list args;

	va_start(args, format);
	vsnprintf(l->text + len, sizeof(l->text) - len, format, args);
	va_end(args);
}

static void begun(void *ctx, struct activation *a)
{
	add(ctx, "%s%c%u ",
	    a->how == PAIRS_CALL     ? "+"
	    : a->how == PAIRS_RESUME ? "r"
				     : "t",
	    (char)a->code, a->depth);
}

static void ended(void *ctx, const struct activation *a, enum pairs_how how,
		  const struct pairs_times *t)
{
	((struct log *)ctx)->ended_tgids |= 1U << a->tgid;
	add(ctx, "%s%c",
	    how == PAIRS_EXCEPTION ? "!"
	    : how == PAIRS_LOST	   ? "?"
	    : how == PAIRS_YIELD   ? "y"
				   : "-",
	    (char)a->code);
	if (how != PAIRS_LOST)
		add(ctx, "%d/%d", (int)t->total_ns, (int)t->own_ns);
	if (t->waits.us[REASON_LOCK] || t->waits.us[REASON_SLEEP])
		add(ctx, "(lock %u, sleep %u)", t->waits.us[REASON_LOCK],
		    t->waits.us[REASON_SLEEP]);
	add(ctx, "%s ", a->nested ? "n" : "");
}

static void lost(void *ctx, uint32_t cnt)
{
	add(ctx, "lost%u ", cnt);
}

static int open_log(void **state)
{
	static struct log log;
	struct pairs_handler h = { .begun = begun, .ended = ended, .lost = lost, .ctx = &log };

	log = (struct log){ .p = pairs__new(&h) };
	*state = &log;
	return log.p ? 0 : -1;
}

static int close_log(void **state)
{
	struct log *l = *state;

	pairs__free(l->p);
	return 0;
}

/* The next event, 10 ns after the last one. Frames are numbers; the code is a letter. */
static void event(struct log *l, uint32_t tid, enum trace_event_kind kind, uint64_t frame,
		  uint64_t caller, char code)
{
	struct trace_event e = { .ns = l->ns += 10,
				 .frame = frame,
				 .caller = caller,
				 .code = (uint64_t)code,
				 .tgid = l->tgid,
				 .tid = tid,
				 .lost = l->lost,
				 .kind = kind };

	assert_int_equal(pairs__take(l->p, &e, NULL), 0);
}

static void call(struct log *l, uint32_t tid, uint64_t frame, uint64_t caller, char code)
{
	event(l, tid, EVENT_CALL, frame, caller, code);
}

static void ret(struct log *l, uint32_t tid, uint64_t frame)
{
	event(l, tid, EVENT_RETURN, frame, 0, 0);
}

static void raised(struct log *l, uint32_t tid, uint64_t frame, uint64_t caller)
{
	event(l, tid, EVENT_RAISE, frame, caller, 0);
}

static void yield(struct log *l, uint32_t tid, uint64_t frame)
{
	event(l, tid, EVENT_YIELD, frame, 0, 0);
}

static void check(struct log *l, const char *text, size_t open_cnt)
{
	if (l->text[0])
		l->text[strlen(l->text) - 1] = '\0';
	assert_string_equal(l->text, text);
	assert_int_equal(pairs__open_cnt(l->p), open_cnt);
}

static void test_calls(void **state)
{
	struct log *l = *state;

	call(l, 1, 1, 0, 'a');
	call(l, 1, 2, 1, 'b');
	call(l, 1, 3, 2, 'a');
	ret(l, 1, 3);
	ret(l, 1, 2);
	ret(l, 1, 1);
	check(l, "+a0 +b1 +a2 -a10/10n -b30/20 -a50/20", 0);
}

/* What goes on counts if its call did, also where the end does not tell a yield. */
static void test_only_called(void **state)
{
	struct log *l = *state;

	pairs__only_called(l->p);
	call(l, 1, 1, 0, 0);
	yield(l, 1, 1);
	event(l, 1, EVENT_RESUME, 1, 0, 'a');
	ret(l, 1, 1);
	for (uint64_t frame = 2; frame < 4; frame++) {
		call(l, 1, frame, 0, 'b');
		event(l, 1, frame == 2 ? EVENT_YIELD : EVENT_LEFT, frame, 0, 0);
		event(l, 1, EVENT_RESUME, frame, 0, 'b');
		event(l, 1, frame == 2 ? EVENT_RETURN : EVENT_LEFT, frame, 0, 0);
	}
	/* Another function has the frame now, and nobody saw it begin. */
	raised(l, 1, 3, 0);
	call(l, 1, 3, 0, 0);
	event(l, 1, EVENT_RESUME, 3, 0, 'b');
	check(l, "+b0 yb10/10 rb0 -b10/10 +b0 -b10/10 rb0 -b10/10", 0);
}

/* Frames end without an event of their own, inside out, when it has come to the caller. */
static void test_exception(void **state)
{
	struct log *l = *state;

	call(l, 1, 1, 0, 'a');
	call(l, 1, 2, 1, 'b');
	call(l, 1, 3, 2, 'c');
	raised(l, 1, 3, 2);
	raised(l, 1, 2, 1);
	call(l, 1, 4, 2, 'f'); /* a finally block */
	ret(l, 1, 4);
	raised(l, 1, 1, 0); /* it is caught */
	ret(l, 1, 1);
	check(l, "+a0 +b1 +c2 !c20/20 +f2 -f10/10 !b60/30 -a80/20", 0);
}

/* C code has cleared the exception, so it came to no caller. */
static void test_cleared(void **state)
{
	struct log *l = *state;

	call(l, 1, 1, 0, 'a');
	call(l, 1, 2, 1, 'b');
	call(l, 1, 3, 2, 'c');
	raised(l, 1, 3, 2);
	raised(l, 1, 2, 1);
	call(l, 1, 2, 1, 'd'); /* its frame is used again */
	ret(l, 1, 1);	       /* and this one ended unseen */
	check(l, "+a0 +b1 +c2 !c20/20 !b30/10 +d1 ?d -a60/30", 0);
}

static void test_generator(void **state)
{
	struct log *l = *state;

	call(l, 1, 1, 0, 'a');
	call(l, 1, 9, 1, 'g');
	yield(l, 1, 9);
	event(l, 1, EVENT_RESUME, 9, 1, 'g');
	yield(l, 1, 9);
	raised(l, 1, 9, 1); /* throw() */
	yield(l, 1, 9);	    /* it has caught it */
	raised(l, 1, 9, 1);
	raised(l, 1, 1, 0); /* it has not */
	ret(l, 1, 1);
	check(l, "+a0 +g1 yg10/10 rg1 yg10/10 tg1 yg10/10 tg1 !g10/10 -a90/50", 0);
}

/* Two greenlets of a thread, in turns: each goes on where it was. */
static void test_greenlets(void **state)
{
	struct log *l = *state;

	call(l, 1, 1, 0, 'm');
	call(l, 1, 11, 0, 'a');
	call(l, 1, 12, 11, 'b');
	call(l, 1, 21, 0, 'a'); /* b() has switched */
	call(l, 1, 22, 21, 'c');
	ret(l, 1, 12); /* c() has */
	ret(l, 1, 22); /* and a() has */
	ret(l, 1, 11);
	ret(l, 1, 21);
	ret(l, 1, 1);
	check(l, "+m0 +a0 +b1 +a0 +c1 -b30/30 -c20/20 -a60/30 -a50/30 -m90/90", 0);
}

static void test_threads(void **state)
{
	struct log *l = *state;

	call(l, 1, 1, 0, 'a');
	call(l, 2, 2, 0, 'b');
	call(l, 1, 3, 1, 'c');
	ret(l, 2, 2);
	ret(l, 1, 3);
	ret(l, 1, 1);
	check(l, "+a0 +b0 +c1 -b20/20 -c20/20 -a50/30", 0);
}

/* Callers that no filter means: the function below is the last one that began. */
static void test_filtered(void **state)
{
	struct log *l = *state;

	call(l, 1, 1, 0, 'a');
	call(l, 1, 3, 2, 'c');
	raised(l, 1, 3, 2);
	raised(l, 1, 2, 1); /* of the caller in between */
	call(l, 1, 5, 4, 'd');
	call(l, 1, 6, 4, 0); /* refused, but called by the same: d() has ended */
	ret(l, 1, 1);
	check(l, "+a0 +c1 !c20/20 +d1 ?d -a60/40", 0);
}

/* Nothing that was open is paired across what was lost; nobody points at what is gone. */
static void test_lost(void **state)
{
	struct log *l = *state;

	call(l, 1, 1, 0, 'a');
	call(l, 1, 2, 1, 'b');
	call(l, 2, 3, 0, 'c');
	l->lost = 7;
	ret(l, 1, 2);
	call(l, 1, 2, 1, 'd');
	ret(l, 1, 2);
	assert_non_null(strstr(l->text, "?a"));
	assert_non_null(strstr(l->text, "?b"));
	assert_non_null(strstr(l->text, "?c"));
	assert_non_null(strstr(l->text, " lost7 +d0 -d10/10"));
	assert_int_equal(pairs__unknown_cnt(l->p), 1);
}

/* Calls of all processes end by the event of one, and each is of its own process. */
static void test_lost_of_processes(void **state)
{
	struct log *l = *state;

	for (l->tgid = 3; l->tgid < 5; l->tgid++)
		call(l, 1, l->tgid, 0, 'a');
	l->lost = 1;
	call(l, 1, 9, 0, 'b');
	assert_int_equal(l->ended_tgids, 1 << 3 | 1 << 4);
}

/* Another CPU has read the number before, and its event came later: nothing more was lost. */
static void test_older_loss(void **state)
{
	struct log *l = *state;

	l->lost = 7;
	call(l, 1, 1, 0, 'a');
	l->lost = 6;
	ret(l, 1, 1);
	l->lost = 9;
	call(l, 1, 1, 0, 'b');
	assert_non_null(strstr(l->text, "lost7 +a0 -a"));
	assert_non_null(strstr(l->text, " lost2 +b0"));
	assert_null(strstr(l->text, "?a"));
}

/* Behind the last event nobody says so. */
static void test_lost_at_the_end(void **state)
{
	struct log *l = *state;

	call(l, 1, 1, 0, 'a');
	pairs__lose(l->p, 3);
	pairs__lose(l->p, 3);
	check(l, "+a0 ?a lost3", 0);
}

/* What a process had called ends with it, innermost first, and nobody else's. */
static void test_process_ends(void **state)
{
	struct log *l = *state;

	l->tgid = 1;
	call(l, 1, 1, 0, 'a');
	call(l, 1, 2, 1, 'b');
	yield(l, 1, 2);
	call(l, 1, 3, 1, 'c');
	l->tgid = 2;
	call(l, 2, 4, 0, 'd');
	pairs__end_process(l->p, 1);
	ret(l, 2, 4);
	/* Another process has its number, and what waited in the first one is not thrown into. */
	l->tgid = 1;
	raised(l, 1, 2, 0);
	call(l, 1, 1, 0, 'e');
	check(l, "+a0 +b1 yb10/10 +c1 +d0 ?c ?a -d10/10 +e0", 1);
}

/* Threads come and go, more than are known at a time. */
static void test_many_threads(void **state)
{
	struct log *l = *state;

	call(l, 1, 1, 0, 'a');
	for (uint32_t tid = 2; tid < 70000; tid++) {
		l->text[0] = '\0';
		call(l, tid, 2, 0, 'b');
		ret(l, tid, 2);
	}
	check(l, "+b0 -b10/10", 1);
}

/* The line among the others that says where they are missing. */
static void waited(struct log *l, uint32_t tid, enum trace_reason reason, uint64_t ns)
{
	struct trace_waits w = {
		.e = { .kind = EVENT_WAITS, .tid = tid, .tgid = l->tgid, .lost = l->lost }
	};

	l->ns += ns;
	w.ns[reason] = ns;
	assert_int_equal(pairs__take_waits(l->p, &w), 0);
}

/* What a thread waited for belongs to all calls that are open in it, and to none of another one. */
static void test_waits(void **state)
{
	struct log *l = *state;

	waited(l, 1, REASON_LOCK, 9000); /* before the first call */
	call(l, 1, 0x100, 0, 'a');
	call(l, 2, 0x900, 0, 'x');
	waited(l, 1, REASON_SLEEP, 3000);
	call(l, 1, 0x200, 0x100, 'b');
	waited(l, 1, REASON_LOCK, 5000);
	ret(l, 1, 0x200);
	waited(l, 2, REASON_LOCK, 4000);
	waited(l, 1, REASON_SLEEP, 1000);
	ret(l, 1, 0x100);
	ret(l, 2, 0x900);
	check(l,
	      "+a0 +x0 +b1 -b5010/5010(lock 5, sleep 0) -a13040/8030(lock 5, sleep 4) "
	      "-x13040/13040(lock 4, sleep 0)",
	      0);
}

/* Clocks of two CPUs differ: the parts of a call are not longer than the whole. */
static void test_waits_longer_than_the_call(void **state)
{
	struct log *l = *state;

	call(l, 1, 0x100, 0, 'a');
	waited(l, 1, REASON_LOCK, 7000);
	waited(l, 1, REASON_SLEEP, 7000);
	l->ns -= 4000;
	ret(l, 1, 0x100);
	check(l, "+a0 -a10010/10010(lock 7, sleep 3)", 0);
}

/* Events that were lost before what a thread waited for end all calls. */
static void test_waits_behind_a_loss(void **state)
{
	struct log *l = *state;

	call(l, 1, 0x100, 0, 'a');
	l->lost = 2;
	waited(l, 1, REASON_LOCK, 7);
	check(l, "+a0 ?a lost2", 0);
}

static void test_lost_lines(void **state)
{
	static const struct {
		enum lost_form form;
		const char *version, *line;
	} cases[] = {
		{ LOST_LINE, NULL, "          ? 7 calls were lost here\n" },
		{ LOST_LINE, "3.12.1", "          ? 7 calls of CPython 3.12.1 were lost here\n" },
		{ LOST_REMARK, NULL, "# 7 calls were lost here\n" },
		{ LOST_REMARK, "3.12.1", "# 7 calls of CPython 3.12.1 were lost here\n" },
		{ LOST_JSON, NULL, "{\"event\":\"lost\",\"events\":7}\n" },
		{ LOST_JSON, "3.12.1",
		  "{\"event\":\"lost\",\"events\":7,\"python\":\"3.12.1\"}\n" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct strbuf b = { 0 };

		lost__add(&b, cases[i].form, "calls", cases[i].version, 7);
		assert_string_equal(b.s, cases[i].line);
		strbuf__free(&b);
	}
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_log, close_log)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_calls),
		CASE(test_exception),
		CASE(test_cleared),
		CASE(test_generator),
		CASE(test_greenlets),
		CASE(test_threads),
		CASE(test_filtered),
		CASE(test_lost),
		CASE(test_lost_of_processes),
		CASE(test_older_loss),
		CASE(test_only_called),
		CASE(test_lost_at_the_end),
		CASE(test_process_ends),
		CASE(test_many_threads),
		CASE(test_waits),
		CASE(test_waits_longer_than_the_call),
		CASE(test_waits_behind_a_loss),
		cmocka_unit_test(test_lost_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
