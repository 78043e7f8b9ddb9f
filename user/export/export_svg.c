/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A flame graph as a picture that moves nothing and runs nothing: for a README, a chat, a viewer
 * of images. Functions, all processes in one, without plumbing (export_flame.h); root at the
 * bottom.
 *
 * Each box is a rectangle with a <title>, which browsers show as a tooltip, and as much of its
 * name as fits. The font is monospaced, so that what fits is known without asking a font: a
 * column is 0.602 em wide in DejaVu Sans Mono and Menlo, and narrower in the others that are
 * named. The picture follows the viewer's light or dark scheme.
 *
 * Boxes narrower than 0.1% are left out, and the last line says how many.
 */
#include "export/export.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "export/export_flame.h"
#include "export/export_page.h"
#include "export/export_summary.h"
#include "profile/diff.h"
#include "profile/export_text.h"

#define WIDTH	   1200.0
#define MARGIN	   12.0
#define INNER	   (WIDTH - 2 * MARGIN)
#define ROW	   18
#define HEAD	   54 /* title and headline */
#define FOOT	   24 /* one line */
#define FOOT_LINE  16 /* each further one */
#define FONT	   12
#define COL_WIDTH  (0.602 * FONT)
#define PAD	   4.0
#define LEAST	   0.001 /* of the width */
#define LEAST_COLS 3
#define DEPTH_MAX  1000 /* rows; a picture that is taller helps nobody */

struct box {
	uint32_t depth; /* 1: on the root */
	uint32_t place;
	double x, w; /* in samples */
	uint64_t value, base;
};

struct svg {
	const struct flame *f;
	const struct profile *p;
	const struct export_opts *o;
	FILE *out;
	double total;
	struct box *boxes; /* that are shown */
	size_t box_cnt, box_cap;
	struct box *open; /* of the current stack, by depth - 1 */
	size_t dropped;
	double deeper; /* samples of stacks that go on above the last row */
	uint32_t depth;
	struct strbuf text, html; /* scratch: emptied after each use by used() */
	int err;
};

/* ---- Colours: those of user/web/flame.js, light and dark ---- */

static const struct colour {
	const char *class, *light, *dark;
} colours[] = {
	{ "o", "#ffa554", "#a35400" },	 { "p0", "#a0ddff", "#265e7c" },
	{ "p1", "#fcc0e0", "#764662" },	 { "p2", "#93e5e4", "#0a6565" },
	{ "p3", "#e4d498", "#655720" },	 { "p4", "#c0d2ff", "#475683" },
	{ "p5", "#f3c2ee", "#70486c" },	 { "p6", "#9be6d1", "#1c6656" },
	{ "p7", "#cddda1", "#535e2b" },	 { "p8", "#95e2f5", "#116272" },
	{ "std", "#cae7cf", "#3f5743" }, { "n", "#c7d4e5", "#505a68" },
	{ "i", "#dfe1e5", "#4b4d50" },	 { "k", "#f6aeaf", "#8f5254" },
	{ "m", "#c0beb5", "#6e6c65" },	 { "e0", "#e3e5e7", "#494a4c" },
	{ "g1", "#facbc6", "#6f4a46" },	 { "l1", "#bedcfb", "#3f5770" },
	{ "g2", "#febcb5", "#814b47" },	 { "l2", "#a9d4ff", "#3b5f85" },
	{ "g3", "#ffaca5", "#944c48" },	 { "l3", "#93cbff", "#356899" },
	{ "g4", "#ff9c94", "#a74d48" },	 { "l4", "#7bc3ff", "#2d70ae" },
	{ "g5", "#ff8b83", "#b94c48" },	 { "l5", "#62baff", "#2077c4" },
};

#define HUES 9

static void write_style(const struct svg *s)
{
	fprintf(s->out,
		"<style>\n"
		"text{font:%dpx ui-monospace,\"DejaVu Sans Mono\",Menlo,Consolas,monospace;"
		"fill:#17191d}\n"
		".back{fill:#fff}.h{font-weight:700;font-size:15px}.s{fill:#5c626d}\n"
		".o~text{font-weight:600}\n",
		FONT);
	for (size_t i = 0; i < sizeof(colours) / sizeof(colours[0]); i++)
		fprintf(s->out, ".%s{fill:%s}", colours[i].class, colours[i].light);
	fputs("\n@media (prefers-color-scheme:dark){\n"
	      "text{fill:#f4f5f7}.back{fill:#14161a}.s{fill:#a0a6b1}\n",
	      s->out);
	for (size_t i = 0; i < sizeof(colours) / sizeof(colours[0]); i++)
		fprintf(s->out, ".%s{fill:%s}", colours[i].class, colours[i].dark);
	fputs("\n}\n</style>\n", s->out);
}

static void add_python_class(struct strbuf *b, const struct flame *f, int group)
{
	if (group == f->stdlib)
		strbuf__addz(b, "std");
	else
		strbuf__addf(b, "p%d", (group - (f->stdlib >= 0 && group > f->stdlib)) % HUES);
}

static void add_class(struct strbuf *b, const struct svg *s, const struct box *box)
{
	const struct flame_func *fn = &s->f->funcs[s->f->places[box->place].func];
	double d;

	if (s->f->compared) {
		d = flame__delta(s->f, box->value, box->base);
		strbuf__addf(b, "%s%d", d < 0 ? "l" : d > 0 ? "g" : "e", (int)ceil(fabs(d) * 5));
	} else if (fn->kind == SYM_PYTHON || fn->kind == SYM_PLAIN) {
		if (fn->own)
			strbuf__addc(b, 'o');
		else
			add_python_class(b, s->f, (int)fn->group);
	} else {
		strbuf__addz(b, fn->plumbing		 ? "i"
				: fn->kind == SYM_NATIVE ? "n"
				: fn->kind == SYM_KERNEL ? "k"
							 : "m");
	}
}

/* ---- Boxes ---- */

static double weight(const struct svg *s, const struct flame_stack *st)
{
	/* of two profiles the mean, as the page does, so that what is gone is seen */
	return s->f->compared ? ((double)st->value + (double)st->base * s->f->scale) / 2
			      : (double)st->value;
}

/* Keeps the boxes of s->open from `from` up to `to` that are wide enough. */
static int close_boxes(struct svg *s, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		struct box *b = &s->open[i];

		if (b->w < LEAST * s->total) {
			s->dropped++;
			continue;
		}
		if (ARRAY_GROW(s->boxes, s->box_cap, s->box_cnt, UINT32_MAX))
			return -ENOMEM;
		s->boxes[s->box_cnt++] = *b;
		s->depth = b->depth > s->depth ? b->depth : s->depth;
	}
	return 0;
}

static uint32_t rows_of(const struct flame_stack *st)
{
	return st->cnt < DEPTH_MAX ? st->cnt : DEPTH_MAX;
}

/* Stacks are sorted, so those that share callers lie side by side: a box ends where they differ. */
static int make_boxes(struct svg *s)
{
	const struct flame *f = s->f;
	uint32_t open = 0;
	double x = 0;
	int err = 0;

	s->open = calloc(DEPTH_MAX, sizeof(*s->open));
	if (!s->open)
		return -ENOMEM;
	for (size_t i = 0; i < f->stack_cnt && !err; i++) {
		const struct flame_stack *st = &f->stacks[i];
		const uint32_t *places = &f->elems[st->first];
		uint32_t same = 0;

		while (same < open && same < rows_of(st) && s->open[same].place == places[same])
			same++;
		err = close_boxes(s, same, open);
		for (open = same; open < rows_of(st); open++)
			s->open[open] =
				(struct box){ .depth = open + 1, .place = places[open], .x = x };
		for (uint32_t j = 0; j < open; j++) {
			s->open[j].w += weight(s, st);
			s->open[j].value += st->value;
			s->open[j].base += st->base;
		}
		x += weight(s, st);
		if (st->cnt > DEPTH_MAX)
			s->deeper += weight(s, st);
	}
	return err ? err : close_boxes(s, 0, open);
}

static int cmp_boxes(const void *a, const void *b)
{
	const struct box *ba = a, *bb = b;

	if (ba->depth != bb->depth)
		return ba->depth < bb->depth ? -1 : 1;
	return ba->x < bb->x ? -1 : ba->x > bb->x;
}

/* ---- Text ---- */

/* Clearing a buffer forgets its error. */
static void used(struct svg *s, struct strbuf *b)
{
	if (b->err)
		s->err = b->err;
	strbuf__clear(b);
}

/* Writes the text in s->html. */
static void write_html(struct svg *s)
{
	if (s->html.len && !s->html.err)
		fwrite(s->html.s, 1, s->html.len, s->out);
	used(s, &s->html);
}

/* Writes the text in s->text, escaped. */
static void write_text(struct svg *s)
{
	page_add_html(&s->html, s->text.s ? s->text.s : "", s->text.len);
	used(s, &s->text);
	write_html(s);
}

static void add_samples(struct strbuf *b, const struct svg *s, uint64_t value, uint64_t total)
{
	strbuf__addf(b, "%.2f%%, ", text_percent(value, total));
	summary_add_amount(b, s->p, value);
	if (summary_is_sampled_time(s->p))
		strbuf__addf(b, ", %.2f s", summary_seconds(s->p, value));
}

/* "Cart.price /srv/app/shop/cart.py:38 66.00%, 825 samples, 8.33 s", on three lines */
static void write_title(struct svg *s, const struct box *box)
{
	const struct flame_func *fn = &s->f->funcs[s->f->places[box->place].func];
	size_t len;
	const char *before = export__side(s->o, DIFF_BEFORE);
	const char *t = flame__text(s->f, fn->name, &len);

	strbuf__add(&s->text, t, len);
	t = flame__text(s->f, fn->file, &len);
	if (len) {
		strbuf__addc(&s->text, '\n');
		strbuf__add(&s->text, t, len);
		if (fn->start_line)
			strbuf__addf(&s->text, ":%" PRIu32, fn->start_line);
	}
	strbuf__addc(&s->text, '\n');
	add_samples(&s->text, s, box->value, s->f->total);
	if (s->f->compared) {
		strbuf__addf(&s->text, "\n%c%s: %.2f%%, ", tolower((unsigned char)before[0]),
			     before + 1, text_percent(box->base, s->f->base_total));
		summary_add_amount(&s->text, s->p, box->base);
	}
	fputs("<title>", s->out);
	write_text(s);
	fputs("</title>", s->out);
}

/* The name, or its last component, if it fits; else the beginning of that. */
static void add_label(struct svg *s, const struct box *box, unsigned cols)
{
	const struct flame_func *fn = &s->f->funcs[s->f->places[box->place].func];
	size_t len;
	const char *name = flame__text(s->f, fn->name, &len);
	const char *dot = memrchr(name, '.', len);

	if (fn->kind == SYM_PYTHON && dot && dot + 1 < name + len && text_width(name, len) > cols) {
		len -= (size_t)(dot + 1 - name);
		name = dot + 1;
	}
	text_add_cut(&s->text, name, len, cols, CUT_END);
}

static void write_box(struct svg *s, const struct box *box)
{
	double x = MARGIN + box->x / s->total * INNER, w = box->w / s->total * INNER;
	double y = HEAD + (double)(s->depth - box->depth) * ROW;
	unsigned cols = w > 2 * PAD ? (unsigned)((w - 2 * PAD) / COL_WIDTH) : 0;

	fputs("<g><rect class=\"", s->out);
	add_class(&s->html, s, box);
	write_html(s);
	fprintf(s->out, "\" x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"%d\"/>", x, y,
		w > 2 ? w - 0.7 : w, ROW - 1);
	write_title(s, box);
	if (cols >= LEAST_COLS) {
		fprintf(s->out, "<text x=\"%.1f\" y=\"%.0f\">", x + PAD, y + ROW - 5);
		add_label(s, box, cols);
		write_text(s);
		fputs("</text>", s->out);
	}
	fputs("</g>\n", s->out);
}

static void write_line(struct svg *s, double y, const char *class)
{
	struct strbuf cut = { 0 };

	text_add_cut(&cut, s->text.s ? s->text.s : "", s->text.len, (unsigned)(INNER / COL_WIDTH),
		     CUT_END);
	used(s, &s->text);
	strbuf__add(&s->text, cut.s ? cut.s : "", cut.len);
	used(s, &cut);
	strbuf__free(&cut);
	fprintf(s->out, "<text class=\"%s\" x=\"%.0f\" y=\"%.0f\">", class, MARGIN, y);
	write_text(s);
	fputs("</text>\n", s->out);
}

static void write_foot(struct svg *s, double y)
{
	if (s->f->total && !summary_is_accounted(s->p))
		strbuf__addz(&s->text, SUMMARY_UNACCOUNTED);
	else
		text_add_samples(&s->text, s->p);
	strbuf__addz(&s->text, s->p->stats.counters[CTR_user_stacks] ? "; " : "");
	text_add_complete(&s->text, s->p);
	write_line(s, y, "s");
	if (s->dropped) {
		text_add_count(&s->text, s->dropped);
		strbuf__addf(&s->text, " boxes narrower than %.1f%% are left out", 100 * LEAST);
		write_line(s, y += FOOT_LINE, "s");
	}
	if (s->deeper > 0) {
		strbuf__addf(&s->text, "%.1f%% is in stacks that go on above row ",
			     100 * s->deeper / s->total);
		text_add_count(&s->text, DEPTH_MAX);
		write_line(s, y + FOOT_LINE, "s");
	}
}

static int write_svg(struct svg *s)
{
	double height = HEAD + (s->depth + 1) * ROW + FOOT + FOOT_LINE * (s->deeper > 0 ? 2 : 1);

	fprintf(s->out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
		"width=\"%.0f\" height=\"%.0f\">\n",
		WIDTH, height, WIDTH, height);
	write_style(s);
	fprintf(s->out, "<rect class=\"back\" width=\"%.0f\" height=\"%.0f\" rx=\"8\"/>\n", WIDTH,
		height);
	fprintf(s->out, "<text class=\"h\" x=\"%.0f\" y=\"24\">", MARGIN);
	page_add_title(&s->html, s->p);
	write_html(s);
	fputs("</text>\n", s->out);
	if (s->f->total)
		summary_add_headline(&s->text, s->p);
	else
		summary_add_nothing(&s->text, s->p);
	write_line(s, 43, "s");
	for (size_t i = 0; i < s->box_cnt && !ferror(s->out); i++)
		write_box(s, &s->boxes[i]);
	fprintf(s->out, "<rect class=\"e0\" x=\"%.0f\" y=\"%u\" width=\"%.0f\" height=\"%d\"/>\n",
		MARGIN, HEAD + s->depth * ROW, INNER, ROW - 1);
	fprintf(s->out, "<text x=\"%.0f\" y=\"%u\">all</text>\n", MARGIN + PAD,
		HEAD + (s->depth + 1) * ROW - 5);
	write_foot(s, HEAD + (s->depth + 1) * ROW + 18);
	fputs("</svg>\n", s->out);
	return s->err;
}

static int draw(struct svg *s)
{
	const struct flame *f = s->f;
	struct text_out locale; /* for the widths of characters, and a decimal point */
	int err, out_err;

	s->total = (double)f->total;
	if (f->compared)
		s->total = ((double)f->total + (double)f->base_total * f->scale) / 2;
	err = make_boxes(s);
	if (err)
		return err;
	if (s->box_cnt)
		qsort(s->boxes, s->box_cnt, sizeof(*s->boxes), cmp_boxes);
	errno = 0;
	text_out__begin(&locale, s->out, 0, false);
	err = write_svg(s);
	out_err = text_out__end(&locale);
	return err ? err : out_err;
}

int flame__svg(const struct profile *p, const struct profile *base, const struct export_opts *o,
	       double scale, FILE *out)
{
	const struct flame_opts fo = { .scale = scale };
	struct flame f;
	struct svg s = { .f = &f, .p = p, .o = o, .out = out };
	int err = flame__init(&f, p, base, &fo);

	if (err)
		return err;
	err = draw(&s);
	free(s.boxes);
	free(s.open);
	strbuf__free(&s.text);
	strbuf__free(&s.html);
	flame__free(&f);
	return err;
}

int export__svg(const struct profile *p, const struct export_opts *o, FILE *f)
{
	return flame__svg(p, NULL, o, 0, f);
}

int export__svg_diff(const struct profile *before, const struct profile *after,
		     const struct export_opts *o, FILE *f)
{
	return flame__svg(after, before, o, flame__scale(before, after, o), f);
}
