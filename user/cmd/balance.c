/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/balance.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "profile/export_stacks.h"
#include "profile/export_text.h"
#include "profile/glue.h"

/* The innermost Python function of a stack, and the innermost of an extension that it called. */
static void find_functions(const struct profile *p, const struct profile_stack *s,
			   struct balance_row *r)
{
	r->python = r->native = BALANCE_NONE;
	for (uint32_t i = s->cnt; i-- && r->python == BALANCE_NONE;) {
		uint32_t index = p->frame_syms[s->first + i];
		const struct sym *sym = export_sym(p, index);

		if (sym->kind == SYM_PYTHON)
			r->python = index;
		else if (sym->kind == SYM_NATIVE && r->native == BALANCE_NONE &&
			 !glue_is_interpreter(p, sym))
			r->native = index;
	}
	if (r->python == BALANCE_NONE && s->cnt && r->native == BALANCE_NONE)
		r->native = p->frame_syms[s->first + s->cnt - 1];
}

static bool is_same_function(const struct profile *p, uint32_t a, uint32_t b)
{
	if (a == BALANCE_NONE || b == BALANCE_NONE)
		return a == b;
	return !export_function_cmp(p, export_sym(p, a), export_sym(p, b));
}

static struct balance_row *row_of(struct balance *b, const struct profile *p,
				  const struct balance_row *key)
{
	for (size_t i = 0; i < b->cnt; i++)
		if (is_same_function(p, b->rows[i].python, key->python) &&
		    is_same_function(p, b->rows[i].native, key->native))
			return &b->rows[i];
	if (ARRAY_GROW(b->rows, b->cap, b->cnt, BALANCE_ROWS_MAX))
		return NULL;
	b->rows[b->cnt] = (struct balance_row){ .python = key->python, .native = key->native };
	return &b->rows[b->cnt++];
}

/* Takes the lines of the stack that took most references, or dropped most if none were taken. */
static int take_stack(struct balance *b, const struct profile *p, const struct profile_stack *s)
{
	bool taken = p->stats.values[s->type].event == EVENT_REFS_TAKEN;
	struct balance_row key, *r;

	find_functions(p, s, &key);
	r = row_of(b, p, &key);
	if (!r)
		return -ENOMEM;
	if (taken ? !r->taken || s->count > r->most : !r->taken && s->count > r->most) {
		r->most = s->count;
		r->python = key.python;
		r->native = key.native;
	}
	*(taken ? &r->taken : &r->dropped) += s->count;
	*(taken ? &b->taken : &b->dropped) += s->count;
	return 0;
}

static int64_t left_of(const struct balance_row *r)
{
	return (int64_t)(r->taken - r->dropped);
}

static int by_left(const void *a, const void *b)
{
	const struct balance_row *x = a, *y = b;

	if (left_of(x) != left_of(y))
		return left_of(x) > left_of(y) ? -1 : 1;
	if (x->taken != y->taken)
		return x->taken > y->taken ? -1 : 1;
	if (x->python != y->python)
		return x->python < y->python ? -1 : 1;
	return x->native < y->native ? -1 : x->native > y->native;
}

int balance__make(struct balance *b, const struct profile *p)
{
	int err = 0;

	*b = (struct balance){ .cnt = 0 };
	for (size_t i = 0; i < p->stack_cnt && p->frame_syms && !err; i++) {
		uint32_t event = p->stats.values[p->stacks[i].type].event;

		if (event == EVENT_REFS_TAKEN || event == EVENT_REFS_DROPPED)
			err = take_stack(b, p, &p->stacks[i]);
	}
	if (b->cnt)
		qsort(b->rows, b->cnt, sizeof(*b->rows), by_left);
	return err;
}

static void add_function(struct strbuf *text, const struct profile *p, uint32_t index)
{
	const struct sym *s = export_sym(p, index);
	struct strbuf place = { 0 };
	const char *slash;

	text_add_func(text, p, s, "?");
	text_add_place(&place, p, s, s->line);
	slash = place.s ? strrchr(place.s, '/') : NULL;
	strbuf__addf(text, " (%s)", slash ? slash + 1 : place.s ? place.s : "?");
	strbuf__free(&place);
}

static void add_row(struct text_table *t, const struct profile *p, const struct balance_row *r)
{
	struct strbuf text = { 0 };

	text_add_count(&text, r->taken);
	text_table__add(t, NULL, &text);
	text_add_count(&text, r->dropped);
	text_table__add(t, NULL, &text);
	text_table__addf(t, NULL, left_of(r) ? "%+" PRId64 : "%" PRId64, left_of(r));
	if (r->python != BALANCE_NONE)
		add_function(&text, p, r->python);
	if (r->python != BALANCE_NONE && r->native != BALANCE_NONE)
		strbuf__addz(&text, " -> ");
	if (r->native != BALANCE_NONE)
		add_function(&text, p, r->native);
	text_table__add(t, NULL, &text);
	strbuf__free(&text);
}

static void add_sum(struct strbuf *text, const struct balance *b)
{
	if (!b->taken && !b->dropped) {
		strbuf__addz(text, "The reference count did not change.");
		return;
	}
	text_add_count(text, b->taken);
	strbuf__addf(text, " reference%s taken, ", b->taken == 1 ? " was" : "s were");
	text_add_count(text, b->dropped);
	strbuf__addz(text, " dropped: ");
	if (b->taken == b->dropped) {
		strbuf__addz(text, "as many as before.");
		return;
	}
	text_add_count(text, b->taken > b->dropped ? b->taken - b->dropped : b->dropped - b->taken);
	strbuf__addf(text, " %s than before.", b->taken > b->dropped ? "more" : "fewer");
}

void balance__print(const struct balance *b, const struct profile *p, FILE *f)
{
	static const struct text_column cols[] = {
		{ "TAKEN", CUT_NEVER, true },
		{ "DROPPED", CUT_NEVER, true },
		{ "LEFT", CUT_NEVER, true },
		{ "FUNCTION", CUT_END, false },
	};
	struct text_table t = { .cols = cols, .col_cnt = 4 };
	struct strbuf text = { 0 };
	struct text_out o = { 0 };

	text_out__begin(&o, f, 0, false);
	add_sum(&text, b);
	text_out__fill(&o, 0, 0, text.err || !text.s ? "" : text.s);
	if (b->cnt)
		text_out__newline(&o);
	for (size_t i = 0; i < b->cnt && i < BALANCE_SHOWN; i++)
		add_row(&t, p, &b->rows[i]);
	if (b->cnt)
		text_table__print(&t, &o);
	if (b->cnt > BALANCE_SHOWN)
		fprintf(f, "  ... %zu more\n", b->cnt - BALANCE_SHOWN);
	text_out__newline(&o);
	text_out__end(&o);
	strbuf__free(&text);
}

void balance__free(struct balance *b)
{
	free(b->rows);
	*b = (struct balance){ .cnt = 0 };
}
