/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Of the report: iterations of event loops, and what asyncio tasks wait for. */
#include "export/export_report_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "profile/loops.h"

/* ---- Event loops ---- */

#define LOOP_BAR    30
#define LOOPS_SHOWN 3

static void print_loop_title(struct report *r, const struct profile_loop *l)
{
	struct strbuf b = { 0 };

	loops_add_title(&b, r->whole, l);
	report_print_filled(r, &b, 2);
	strbuf__free(&b);
}

static int print_loop_hist(struct report *r, const struct profile_loop *l)
{
	static const struct text_column cols[] = {
		{ "ITERATIONS", CUT_NEVER, true },
		{ "TOOK", CUT_NEVER, true },
		{ "", CUT_END, false },
	};
	struct text_table t = { .cols = cols, .col_cnt = 3 };
	uint32_t first, end = loops_buckets(l, &first), most = 1;
	struct strbuf b = { 0 };

	for (uint32_t i = first; i < end; i++)
		most = l->hist[i] > most ? l->hist[i] : most;
	for (uint32_t i = first; i < end; i++) {
		uint32_t bar = (uint32_t)(((uint64_t)l->hist[i] * LOOP_BAR + most - 1) / most);

		text_add_count(&b, l->hist[i]);
		text_table__add(&t, NULL, &b);
		loops_add_bucket(&b, i);
		text_table__add(&t, NULL, &b);
		for (uint32_t n = 0; n < bar; n++)
			strbuf__addc(&b, '#');
		text_table__add(&t, NULL, &b);
	}
	return end > first ? text_table__print(&t, &r->out) : 0;
}

static int add_stretch(struct report *r, struct text_table *t, const struct profile_stretch *s)
{
	struct strbuf b = { 0 };
	int err;

	text_table__addf(t, NULL, "%.1f%s", (double)s->ns / 1e6, s->open ? "+" : "");
	text_table__addf(t, NULL, "%.2f", (double)s->begin_ns / 1e9);
	err = loops_add_path(&b, r->whole, s);
	if (!b.len)
		strbuf__addz(&b, "(no sample)");
	text_table__add(t, NULL, &b);
	loops_add_reasons(&b, r->whole, s);
	text_table__add(t, NULL, &b);
	return err;
}

static int print_loop_longest(struct report *r, const struct profile_loop *l)
{
	static const struct text_column cols[] = {
		{ "LONGEST ms", CUT_NEVER, true },
		{ "AT s", CUT_NEVER, true },
		{ "WHAT RAN", CUT_MIDDLE, false },
		{ "MADE OF", CUT_FIRST, false },
	};
	struct text_table t = { .cols = cols, .col_cnt = 4 };
	int err = 0, print_err;

	text_out__newline(&r->out);
	for (uint32_t i = 0; i < l->longest_cnt && i < LOOP_LONGEST && !err; i++)
		err = add_stretch(r, &t, &l->longest[i]);
	print_err = text_table__print(&t, &r->out);
	return err ? err : print_err;
}

int report_print_loops(struct report *r)
{
	const struct profile_loop **of = calloc(r->whole->loop_cnt + 1, sizeof(*of));
	size_t cnt = of ? loops_list(r->whole, of) : 0;
	int err = of ? 0 : -ENOMEM;

	if (cnt)
		report_print_title(r, "Iterations of event loops");
	for (size_t i = 0; i < cnt && i < LOOPS_SHOWN && !err; i++) {
		print_loop_title(r, of[i]);
		err = print_loop_hist(r, of[i]);
		if (!err)
			err = print_loop_longest(r, of[i]);
	}
	free(of);
	return err;
}

/* ---- Tasks ---- */

#define AWAITS_SHOWN 12

static int add_await(struct report *r, struct text_table *t, const struct profile_await *a)
{
	struct strbuf b = { 0 };
	int err, proc = profile__find_proc(r->whole, a->space);

	text_table__addf(t, NULL, "%.0f%%", 100.0 * a->looks / a->of);
	text_table__addf(t, NULL, "%.1f", (double)a->tasks / a->looks);
	text_table__addf(t, NULL, "%s", loops_await_stands(a) ? "all the time" : "");
	err = loops_add_await(&b, r->whole, a);
	text_table__add(t, a->own ? NULL : SGR_DIM, &b);
	text_add_process(&b, r->whole, proc >= 0 ? &r->whole->procs[proc] : NULL, 0);
	text_table__add(t, NULL, &b);
	return err;
}

int report_print_awaits(struct report *r)
{
	static const struct text_column cols[] = {
		{ "LOOKS", CUT_NEVER, true },	{ "TASKS", CUT_NEVER, true },
		{ "THE SAME", CUT_END, false }, { "AWAIT IN", CUT_MIDDLE, false },
		{ "PROCESS", CUT_END, false },
	};
	struct text_table t = { .cols = cols, .col_cnt = 5 };
	const struct profile *p = r->whole;
	struct strbuf b = { 0 };
	int err = 0, print_err;

	if (!p->await_cnt)
		return 0;
	strbuf__addf(&b, "What asyncio tasks wait for, ");
	loops_add_looks(&b, p);
	report_print_title(r, b.s ? b.s : "");
	strbuf__free(&b);
	for (size_t i = 0; i < p->await_cnt && i < AWAITS_SHOWN && !err; i++)
		err = add_await(r, &t, &p->awaits[i]);
	print_err = text_table__print(&t, &r->out);
	return err ? err : print_err;
}
