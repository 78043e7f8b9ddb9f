/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The report, and what differs between two profiles, as Markdown: for a pull request, an issue, or
 * a program that reads text. Bounded, whatever the profile is: the sentences, the call tree, ten
 * functions, and the command to try next.
 *
 * Names are code spans. A foreign name cannot leave its span or its cell: '`' becomes "'", and '|'
 * a broken bar.
 */
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "export/export_summary.h"
#include "profile/diff.h"
#include "profile/export_stacks.h"
#include "profile/export_text.h"
#include "profile/inside.h"
#include "profile/loops.h"
#include "profile/view.h"

#define ROWS	 10
#define NAME_LEN 100 /* characters of a name or a path */

struct markdown {
	const struct profile *p;
	struct idle idle;
	struct view view;
	struct view_tree tree;
	struct strbuf b;
};

/* Adds the safe text in `text` as a code span; nothing for an empty text. */
static void add_code(struct strbuf *b, struct strbuf *text)
{
	struct strbuf cut = { 0 };

	if (text->len)
		str_sanitise(&cut, text->s, text->len, NAME_LEN);
	b->err = b->err ? b->err : text->err ? text->err : cut.err;
	for (size_t i = 0; i < cut.len; i++) {
		strbuf__addz(b, i ? "" : "`");
		if (cut.s[i] == '|')
			strbuf__addz(b, "\u00a6");
		else
			strbuf__addc(b, cut.s[i] == '`' ? '\'' : cut.s[i]);
	}
	strbuf__addz(b, cut.len ? "`" : "");
	strbuf__free(&cut);
	strbuf__free(text);
}

static void add_function(struct markdown *m, uint32_t function)
{
	struct strbuf name = { 0 };

	text_add_func(&name, m->p, export_sym(m->p, m->view.functions[function].sym),
		      "(no symbol)");
	add_code(&m->b, &name);
}

static void add_place(struct markdown *m, uint32_t function, uint32_t line)
{
	struct strbuf place = { 0 };

	view_add_place(&place, &m->view, function, line);
	add_code(&m->b, &place);
}

static void add_sentences(struct markdown *m)
{
	struct strbuf said = { 0 };
	char *rest = NULL;

	m->b.err = view_add_sentences(&said, &m->view);
	for (char *line = said.len ? strtok_r(said.s, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		strbuf__addz(&m->b, "- ");
		for (; *line; line++) {
			/* what Markdown would read as markup: "__init__", "<module>" */
			strbuf__addz(&m->b, strchr("_*<>`[]|\\", *line) ? "\\" : "");
			strbuf__addc(&m->b, *line);
		}
		strbuf__addc(&m->b, '\n');
	}
	strbuf__free(&said);
}

static void add_chain(struct markdown *m, const struct view_row *row)
{
	strbuf__addf(&m->b, "%" PRIu32 " frames:", row->frames);
	for (uint32_t i = 0; i < row->package_cnt; i++) {
		struct strbuf name = { 0 };
		size_t len;
		const char *package = view_package(&m->view, row->packages[i], &len);

		str_sanitise(&name, package, len, NAME_LEN);
		strbuf__addz(&m->b, i ? ", " : " ");
		add_code(&m->b, &name);
	}
	strbuf__addz(&m->b, " | |\n");
}

static void add_tree(struct markdown *m)
{
	strbuf__addz(&m->b, "\n| Total | Own | Call tree | Line |\n|--:|--:|---|---|\n");
	for (size_t i = 0; i < m->tree.cnt; i++) {
		const struct view_row *row = &m->tree.rows[i];

		strbuf__addz(&m->b, "| ");
		view_add_percent(&m->b, &m->view, row->total);
		strbuf__addz(&m->b, " | ");
		if (row->own)
			view_add_percent(&m->b, &m->view, row->own);
		else
			strbuf__addc(&m->b, '-');
		strbuf__addz(&m->b, " | ");
		for (uint32_t depth = 0; depth < row->depth && depth < VIEW_ROWS_MAX; depth++)
			strbuf__addz(&m->b, "&ensp;");
		if (row->frames) {
			add_chain(m, row);
			continue;
		}
		add_function(m, row->function);
		strbuf__addz(&m->b, " | ");
		add_place(m, row->function, row->line);
		strbuf__addz(&m->b, " |\n");
	}
}

static int cmp_own(const void *a, const void *b, void *view)
{
	const struct view *v = view;
	uint32_t ia = *(const uint32_t *)a, ib = *(const uint32_t *)b;
	uint64_t oa = v->functions[ia].own, ob = v->functions[ib].own;

	if (oa != ob)
		return oa > ob ? -1 : 1;
	return ia < ib ? -1 : ia > ib;
}

static int add_functions(struct markdown *m)
{
	const struct view *v = &m->view;
	uint32_t *order = calloc(v->functions_of.cnt + 1, sizeof(*order));

	if (!order)
		return -ENOMEM;
	for (uint32_t i = 0; i < v->functions_of.cnt; i++)
		order[i] = i;
	qsort_r(order, v->functions_of.cnt, sizeof(*order), cmp_own, &m->view);
	strbuf__addz(&m->b, "\n| Own | Total | Function | Hottest line | Made of |\n"
			    "|--:|--:|---|---|---|\n");
	for (uint32_t i = 0; i < v->functions_of.cnt && i < ROWS; i++) {
		const struct view_function *f = &v->functions[order[i]];
		struct strbuf parts = { 0 };

		if (!f->own)
			break;
		strbuf__addz(&m->b, "| ");
		view_add_percent(&m->b, v, f->own);
		strbuf__addz(&m->b, " | ");
		view_add_percent(&m->b, v, f->total);
		strbuf__addz(&m->b, " | ");
		add_function(m, order[i]);
		strbuf__addz(&m->b, " | ");
		add_place(m, order[i], f->own_line);
		strbuf__addz(&m->b, " | ");
		view_add_parts(&parts, v, order[i]);
		add_code(&m->b, &parts);
		strbuf__addz(&m->b, " |\n");
	}
	free(order);
	return 0;
}

static int add_stretch(struct markdown *m, const struct profile_stretch *s)
{
	struct strbuf text = { 0 };
	int err;

	strbuf__addf(&m->b, "| %.1f%s | %.2f | ", (double)s->ns / 1e6, s->open ? "+" : "",
		     (double)s->begin_ns / 1e9);
	err = loops_add_path(&text, m->p, s);
	add_code(&m->b, &text);
	strbuf__addz(&m->b, " | ");
	loops_add_reasons(&text, m->p, s);
	add_code(&m->b, &text);
	strbuf__addz(&m->b, " |\n");
	return err;
}

/* The one with the longest iterations. */
static int add_loop(struct markdown *m)
{
	const struct profile_loop **of = calloc(m->p->loop_cnt + 1, sizeof(*of)), *l;
	size_t cnt = of ? loops_list(m->p, of) : 0;
	struct strbuf title = { 0 };
	int err = of ? 0 : -ENOMEM;

	l = cnt ? of[0] : NULL;
	if (l) {
		strbuf__addz(&m->b, "\nEvent loop of ");
		loops_add_title(&title, m->p, l);
		add_code(&m->b, &title);
		strbuf__addz(&m->b, "\n\n| Longest ms | At s | What ran | Made of |\n"
				    "|--:|--:|---|---|\n");
	}
	for (uint32_t i = 0; l && i < l->longest_cnt && i < LOOP_LONGEST && !err; i++)
		err = add_stretch(m, &l->longest[i]);
	free(of);
	return err;
}

static int add_profile(struct markdown *m, bool lines)
{
	size_t before;
	int err;

	if (!profile__total(m->p)) {
		summary_add_nothing(&m->b, m->p);
		strbuf__addc(&m->b, '\n');
		return 0;
	}
	summary_add_headline(&m->b, m->idle.p);
	strbuf__addz(&m->b, "\n\n");
	before = m->b.len;
	idle_add_line(&m->b, &m->idle);
	strbuf__addz(&m->b, m->b.len > before ? "\n\n" : "");
	err = view__init(&m->view, m->p, lines);
	if (!err)
		err = view_tree__init(&m->tree, &m->view);
	if (err)
		return err;
	add_sentences(m);
	add_tree(m);
	err = add_functions(m);
	if (!err)
		err = add_loop(m);
	strbuf__addz(&m->b, "\nNext: `pyperf-bpf report -o flame.html FILE` draws all of it as a "
			    "flame graph, `--native` ranks native functions.\n");
	return err;
}

static int write_text(struct strbuf *b, int err, FILE *f)
{
	err = err ? err : b->err;
	if (!err && b->len)
		fwrite(b->s, 1, b->len, f);
	strbuf__free(b);
	return err ? err : ferror(f) ? -EIO : 0;
}

int export__markdown(const struct profile *p, const struct export_opts *o, FILE *f)
{
	struct markdown m = { .p = NULL };
	int err = idle__init(&m.idle, p, &o->idle);

	if (err)
		return err;
	m.p = inside__view(m.idle.busy);
	err = m.p ? add_profile(&m, o->lines) : -ENOMEM;
	view_tree__free(&m.tree);
	view__free(&m.view);
	profile__free_view(m.p, m.idle.busy);
	idle__free(&m.idle);
	return write_text(&m.b, err, f);
}

/* ---- Differences ---- */

static int cmp_changes(const void *a, const void *b, void *diff)
{
	const struct diff *d = diff;
	uint32_t ia = *(const uint32_t *)a, ib = *(const uint32_t *)b;
	double ca = fabs(diff__change(&d->rows[ia].total));
	double cb = fabs(diff__change(&d->rows[ib].total));

	if (ca != cb)
		return ca > cb ? -1 : 1;
	return ia < ib ? -1 : ia > ib;
}

static void add_change(struct strbuf *b, const struct diff *d, const struct diff_unit *unit,
		       const struct diff_value *v)
{
	if (!v->significant)
		strbuf__addz(b, "~");
	else
		strbuf__addf(b, "%+.*f", d->absolute ? 2 : 1, diff__change(v) * unit->per);
}

static void add_diff_row(struct strbuf *b, const struct diff *d, const struct diff_unit *unit,
			 const struct diff_row *r)
{
	struct strbuf name = { 0 }, file = { 0 };

	strbuf__addz(b, "| ");
	add_change(b, d, unit, &r->total);
	strbuf__addz(b, " | ");
	add_change(b, d, unit, &r->self);
	for (int side = 0; side < DIFF_SIDES; side++)
		strbuf__addf(b, d->absolute ? " | %.2f" : " | %.1f%%",
			     r->total.value[side] * unit->per);
	strbuf__addz(b, " | ");
	strbuf__addz(&name, diff__text(d, r->name));
	add_code(b, &name);
	strbuf__addz(b, " | ");
	strbuf__addz(&file, diff__text(d, r->file));
	add_code(b, &file);
	strbuf__addz(b, " |\n");
}

static int add_diff(struct strbuf *b, const struct diff *d, const struct export_opts *o)
{
	struct diff_unit unit = diff__unit(d);
	uint32_t *order = calloc(d->cnt + 1, sizeof(*order));
	size_t cnt = 0;

	if (!order)
		return -ENOMEM;
	for (uint32_t i = 0; i < d->cnt; i++)
		if (d->rows[i].self.significant || d->rows[i].total.significant)
			order[cnt++] = i;
	qsort_r(order, cnt, sizeof(*order), cmp_changes, (void *)d);
	if (!cnt)
		strbuf__addz(b, "\nNo function takes more or less than before, beyond what chance "
				"explains.\n");
	else
		strbuf__addf(b,
			     "\n| Total %s | Self | %s | %s | Function | File |\n"
			     "|--:|--:|--:|--:|---|---|\n",
			     d->absolute ? unit.symbol : "points", export__side(o, DIFF_BEFORE),
			     export__side(o, DIFF_AFTER));
	for (size_t i = 0; i < cnt && i < 2 * ROWS; i++)
		add_diff_row(b, d, &unit, &d->rows[order[i]]);
	if (cnt > 2 * ROWS)
		strbuf__addf(b, "\n%zu more functions changed.\n", cnt - 2 * ROWS);
	free(order);
	return 0;
}

int export__diff_markdown(const struct profile *before, const struct profile *after,
			  const struct export_opts *o, FILE *f)
{
	struct strbuf b = { 0 };
	struct diff d;
	int err = diff__init(&d, before, after, o->absolute);

	if (err)
		return err;
	strbuf__addf(&b, "%s: ", export__side(o, DIFF_BEFORE));
	summary_add_amount(&b, before, d.samples[DIFF_BEFORE]);
	strbuf__addf(&b, ". %s: ", export__side(o, DIFF_AFTER));
	summary_add_amount(&b, after, d.samples[DIFF_AFTER]);
	strbuf__addz(&b, ".\n");
	if (o->moved) {
		struct strbuf moved = { 0 };

		strbuf__addz(&moved, o->moved);
		strbuf__addz(&b, "Matched across directories: ");
		add_code(&b, &moved);
		strbuf__addz(&b, "\n");
	}
	err = add_diff(&b, &d, o);
	if (!o->live)
		strbuf__addz(&b, "\nNext: `pyperf-bpf diff -o diff.html BEFORE AFTER` draws what "
				 "changed.\n");
	diff__free(&d);
	return write_text(&b, err, f);
}
