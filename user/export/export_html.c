/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The flame graph page: user/web/flame.html, .css and .js in one file, with the profile inside as
 * JSON, packed if it is large. It works from a mail attachment: nothing is loaded, and the page's
 * policy forbids it.
 *
 * Each value type of a profile has an element with its own data: #profile, #profile1, ... If there
 * are several, each also has a <template> with its name and its words, in the same order.
 *
 * The JSON is columns of numbers and one table of strings:
 *
 *	digits   the alphabet of columns
 *	strings  every text, numbered in the order of use
 *	groups   texts; the number is the colour
 *	funcs    kind, plumbing, own, name, file (strings), line, group
 *	places   func, line; with source, text (strings)
 *	tasks    comm, exe, thread (strings), pid, tid
 *	stacks   task, value, base (null without one), and the places: stacks are sorted, so each
 *	         gives how many it shares with the one before (shared) and how many follow (fresh),
 *	         in frames
 *
 *	curves   where it is known how it went over time: when (ms) and rss (bytes) of each point,
 *	         peak (ms), and for each stack what its value changed by from point to point, twice
 *	         that, plus 1 where it went down (change)
 *
 * A column is a string of numbers without separators, base BASE, lowest digit first; a digit that
 * another one follows has its second form, BASE places on in the alphabet. Places are numbered by
 * use, so most frames are one or two characters.
 */
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "export/export_flame.h"
#include "export/export_page.h"
#include "export/export_source.h"
#include "export/export_summary.h"
#include "page_flame.h"
#include "profile/diff.h"

struct html {
	const struct flame *f;
	const struct profile *p;
	FILE *out;
	uint32_t *strings; /* text -> number + 1; 0: not used yet */
	uint32_t *used;	   /* number -> text */
	uint32_t string_cnt;
	uint32_t *place_rank;  /* place -> number in the page */
	uint32_t *place_order; /* and back */
	uint32_t *place_text;  /* place -> text of its line; NULL: without source */
	const char *comma;
	const char *before; /* what it is compared with */
};

/* Characters for a JSON string in a <script>: no quote, backslash, '<', '>' or '&'. */
static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGH"
			     "IJKLMNOPQRSTUVWXYZ!#$%()*+,-./:;=?@[]^_`{|}~";
#define BASE 44
_Static_assert(sizeof(digits) == 2 * BASE + 1, "a digit has two forms");

/* ---- Columns ---- */

static void begin(struct html *h, const char *name)
{
	fprintf(h->out, "%s\"%s\":\"", h->comma, name);
	h->comma = ",\n";
}

static void end(struct html *h)
{
	putc_unlocked('"', h->out);
}

static void put(struct html *h, uint64_t n)
{
	for (; n >= BASE; n /= BASE)
		putc_unlocked(digits[n % BASE + BASE], h->out);
	putc_unlocked(digits[n], h->out);
}

static void put_text(struct html *h, uint32_t text)
{
	if (!h->strings[text]) {
		h->used[h->string_cnt] = text;
		h->strings[text] = ++h->string_cnt;
	}
	put(h, h->strings[text] - 1);
}

static void open_object(struct html *h, const char *name)
{
	fprintf(h->out, "%s\"%s\":{\n", h->comma, name);
	h->comma = "";
}

static void close_object(struct html *h)
{
	fputs("}", h->out);
	h->comma = ",\n";
}

/* One column of an array of structs. */
#define COLUMN(h, name, array, cnt, how)                                                           \
	do {                                                                                       \
		begin(h, name);                                                                    \
		for (size_t i = 0; i < (cnt); i++)                                                 \
			how(h, (array));                                                           \
		end(h);                                                                            \
	} while (0)

static void write_funcs(struct html *h)
{
	const struct flame *f = h->f;

	open_object(h, "funcs");
	COLUMN(h, "kind", f->funcs[i].kind, f->func_cnt, put);
	COLUMN(h, "plumbing", f->funcs[i].plumbing, f->func_cnt, put);
	COLUMN(h, "own", f->funcs[i].own, f->func_cnt, put);
	COLUMN(h, "name", f->funcs[i].name, f->func_cnt, put_text);
	COLUMN(h, "file", f->funcs[i].file, f->func_cnt, put_text);
	COLUMN(h, "line", f->funcs[i].start_line, f->func_cnt, put);
	COLUMN(h, "group", f->funcs[i].group, f->func_cnt, put);
	close_object(h);
	open_object(h, "places");
	COLUMN(h, "func", f->places[h->place_order[i]].func, f->place_cnt, put);
	COLUMN(h, "line", f->places[h->place_order[i]].line, f->place_cnt, put);
	if (h->place_text)
		COLUMN(h, "text", h->place_text[h->place_order[i]], f->place_cnt, put_text);
	close_object(h);
}

static void write_tasks(struct html *h)
{
	const struct flame *f = h->f;

	open_object(h, "tasks");
	COLUMN(h, "comm", f->tasks[i].comm, f->task_cnt, put_text);
	COLUMN(h, "exe", f->tasks[i].exe, f->task_cnt, put_text);
	COLUMN(h, "thread", f->tasks[i].thread, f->task_cnt, put_text);
	COLUMN(h, "pid", f->tasks[i].tgid, f->task_cnt, put);
	COLUMN(h, "tid", f->tasks[i].tid, f->task_cnt, put);
	close_object(h);
}

/* Places that a stack shares with the one before it. */
static uint32_t shared(const struct flame *f, size_t stack)
{
	const struct flame_stack *s = &f->stacks[stack];
	uint32_t n = 0;

	if (!stack)
		return 0;
	while (n < s->cnt && n < s[-1].cnt && f->elems[s->first + n] == f->elems[s[-1].first + n])
		n++;
	return n;
}

static int cmp_uses(const void *a, const void *b, void *ctx)
{
	uint32_t ia = *(const uint32_t *)a, ib = *(const uint32_t *)b;
	const uint32_t *uses = ctx;

	if (uses[ia] != uses[ib])
		return uses[ia] > uses[ib] ? -1 : 1;
	return ia < ib ? -1 : ia > ib;
}

/* Numbers places: those that are written most often get the shortest numbers. */
static int rank_places(struct html *h)
{
	const struct flame *f = h->f;
	uint32_t *uses = calloc(f->place_cnt + 1, sizeof(*uses));

	h->place_rank = calloc(f->place_cnt + 1, sizeof(*h->place_rank));
	h->place_order = calloc(f->place_cnt + 1, sizeof(*h->place_order));
	if (!uses || !h->place_rank || !h->place_order) {
		free(uses);
		return -ENOMEM;
	}
	for (size_t i = 0; i < f->stack_cnt; i++)
		for (uint32_t j = shared(f, i); j < f->stacks[i].cnt; j++)
			uses[f->elems[f->stacks[i].first + j]]++;
	for (size_t i = 0; i < f->place_cnt; i++)
		h->place_order[i] = (uint32_t)i;
	qsort_r(h->place_order, f->place_cnt, sizeof(*h->place_order), cmp_uses, uses);
	for (size_t i = 0; i < f->place_cnt; i++)
		h->place_rank[h->place_order[i]] = (uint32_t)i;
	free(uses);
	return 0;
}

static void write_frames(struct html *h)
{
	const struct flame *f = h->f;

	begin(h, "frames");
	for (size_t i = 0; i < f->stack_cnt && !ferror(h->out); i++)
		for (uint32_t j = shared(f, i); j < f->stacks[i].cnt; j++)
			put(h, h->place_rank[f->elems[f->stacks[i].first + j]]);
	end(h);
}

static void write_stacks(struct html *h)
{
	const struct flame *f = h->f;

	open_object(h, "stacks");
	COLUMN(h, "task", f->stacks[i].task, f->stack_cnt, put);
	COLUMN(h, "value", f->stacks[i].value, f->stack_cnt, put);
	if (f->compared)
		COLUMN(h, "base", f->stacks[i].base, f->stack_cnt, put);
	else
		fprintf(h->out, "%s\"base\":null", h->comma);
	COLUMN(h, "shared", shared(f, i), f->stack_cnt, put);
	COLUMN(h, "fresh", f->stacks[i].cnt - shared(f, i), f->stack_cnt, put);
	write_frames(h);
	close_object(h);
}

static void put_change(struct html *h, uint64_t before, uint64_t now)
{
	put(h, now < before ? (before - now) * 2 + 1 : (now - before) * 2);
}

static void write_curves(struct html *h)
{
	const struct flame *f = h->f;
	const struct profile_curves *c = h->p->curves;

	if (!f->point_cnt)
		return;
	open_object(h, "curves");
	COLUMN(h, "when", c->points[i].at_ns / NS_PER_MS, c->point_cnt, put);
	COLUMN(h, "rss", c->points[i].rss, c->point_cnt, put);
	begin(h, "peak");
	put(h, c->peak.at_ns / NS_PER_MS);
	end(h);
	begin(h, "change");
	for (size_t i = 0; i < f->stack_cnt && !ferror(h->out); i++)
		for (uint32_t k = 0; k < f->point_cnt; k++)
			put_change(h, k ? f->values[f->stacks[i].curve + k - 1] : 0,
				   f->values[f->stacks[i].curve + k]);
	end(h);
	close_object(h);
}

static int write_strings(struct html *h)
{
	struct strbuf b = { 0 };
	int err = 0;

	fprintf(h->out, "%s\"strings\":[", h->comma);
	for (uint32_t i = 0; i < h->string_cnt && !err; i++) {
		size_t len;
		const char *s = flame__text(h->f, h->used[i], &len);

		page_add_json(&b, s, len);
		err = b.err;
		fputs(i ? ",\n" : "\n", h->out);
		if (!err)
			fwrite(b.s, 1, b.len, h->out);
		strbuf__clear(&b);
	}
	fputs("]", h->out);
	strbuf__free(&b);
	return err;
}

static int write_groups(struct html *h)
{
	struct strbuf b = { 0 };
	int err;

	for (size_t i = 0; i < h->f->group_cnt; i++) {
		size_t len;
		const char *s = flame__text(h->f, h->f->groups[i], &len);

		if (i)
			strbuf__addc(&b, ',');
		page_add_json(&b, s, len);
	}
	err = b.err;
	if (!err)
		fprintf(h->out, "%s\"groups\":[%s]", h->comma, b.len ? b.s : "");
	strbuf__free(&b);
	return err;
}

/* ---- The page ---- */

static uint32_t refused_cnt(const struct profile *p)
{
	uint32_t n = 0;

	for (size_t i = 0; i < p->proc_cnt; i++)
		n += profile__str_len(p, p->procs[i].native_only) != 0;
	return n;
}

/* How the page says an amount: "3 page faults", or of time that is not sampled "2.35 s waiting" */
static int write_words(struct html *h)
{
	const struct value_type *v = &h->p->stats.values[0];
	const char *one = value_type__noun(v, 1), *many = value_type__noun(v, 2);
	struct strbuf b = { 0 }, unit = { 0 };
	int err;

	strbuf__addz(&b, ",\"one\":");
	page_add_json(&b, one, strlen(one));
	strbuf__addz(&b, ",\"many\":");
	page_add_json(&b, many, strlen(many));
	if (!summary_is_sampled_time(h->p) && value_type__per_second(v)) {
		strbuf__addz(&b, ",\"seconds\":");
		summary_add_unit_of_time(&unit, v);
		page_add_json(&b, unit.s ? unit.s : "", unit.len);
	}
	err = unit.err ? unit.err : b.err;
	if (!err)
		fwrite(b.s, 1, b.len, h->out);
	strbuf__free(&unit);
	strbuf__free(&b);
	return err;
}

static int write_data(struct html *h)
{
	const struct profile_stats *s = &h->p->stats;
	int err = rank_places(h);

	if (err)
		return err;
	fprintf(h->out,
		"{\"compared\":%s,\"scale\":%.9g,\"hz\":%" PRIu64 ",\"total\":%" PRIu64
		",\"complete\":%" PRIu64 ",\"userStacks\":%" PRIu64 ",\"lost\":%" PRIu64
		",\"refused\":%" PRIu32 ",\"stdlib\":%d",
		h->f->compared ? "true" : "false", h->f->scale,
		value_type__per_second(&s->values[0]), h->f->total, s->counters[CTR_complete],
		s->counters[CTR_user_stacks], profile__lost(s), refused_cnt(h->p), h->f->stdlib);
	err = write_words(h);
	fprintf(h->out, ",\"digits\":\"%s\"", digits);
	if (h->f->compared)
		fprintf(h->out, ",\"before\":\"%s\",\"weights\":[%.9g,%.9g]", h->before,
			h->f->base_weight, h->f->weight);
	h->comma = ",\n";
	if (!err)
		err = write_groups(h);
	if (err)
		return err;
	write_funcs(h);
	write_tasks(h);
	write_stacks(h);
	write_curves(h);
	err = write_strings(h);
	fputs("}", h->out);
	return err;
}

/* The element with the data. */
static int write_element(struct html *h, const char *id, FILE *out)
{
	struct strbuf json = { 0 };
	int err;

	h->out = open_memstream(&json.s, &json.len);
	if (!h->out)
		return -ENOMEM;
	err = write_data(h);
	if (ferror(h->out) && !err)
		err = -ENOMEM;
	if (fclose(h->out) && !err)
		err = -ENOMEM;
	h->out = NULL;
	if (!err)
		err = page_write_data(&json, id, out);
	strbuf__free(&json);
	return err;
}

/* For differences: says which directories were taken for the same. */
static void add_moved(struct strbuf *b, const char *moved)
{
	if (!moved || !*moved)
		return;
	strbuf__addz(b, "<p id=\"moved\">Matched across directories: ");
	page_add_html(b, moved, strlen(moved));
	strbuf__addz(b, "</p>");
}

/* ---- Source ---- */

#define TEXTS_MAX  2000 /* lines whose text is in the page */
#define TEXT_CHARS 160
#define SOURCE_SUM (64 << 20) /* bytes that are read for them: files may be made to be large */

struct hot_place {
	uint32_t place;
	uint64_t weight;
	str_id file;
	uint32_t proc; /* that may be asked for the source: any that runs it */
};

static int cmp_hot_places(const void *a, const void *b)
{
	const struct hot_place *ha = a, *hb = b;

	if (ha->weight != hb->weight)
		return ha->weight > hb->weight ? -1 : 1;
	return ha->place < hb->place ? -1 : ha->place > hb->place;
}

/* Those of one file lie together, so that it is read once. */
static int cmp_hot_files(const void *a, const void *b)
{
	const struct hot_place *ha = a, *hb = b;

	if (ha->file != hb->file)
		return ha->file < hb->file ? -1 : 1;
	return ha->proc < hb->proc ? -1 : ha->proc > hb->proc;
}

/* The hottest lines of Python, at most TEXTS_MAX, by file. */
static size_t choose_places(const struct flame *f, const struct profile *p, const uint32_t *procs,
			    struct hot_place *hot)
{
	size_t cnt = 0;

	for (size_t i = 0; i < f->place_cnt; i++)
		hot[i].place = (uint32_t)i;
	for (size_t i = 0; i < f->stack_cnt; i++)
		for (uint32_t j = 0; j < f->stacks[i].cnt; j++)
			hot[f->elems[f->stacks[i].first + j]].weight += f->stacks[i].value;
	for (size_t i = 0; i < f->place_cnt; i++) {
		const struct flame_place *at = &f->places[i];
		const struct sym *s = at->sym ? export_sym(p, at->sym - 1) : NULL;

		if (!s || s->kind != SYM_PYTHON || !at->line || !s->file || !hot[i].weight)
			continue;
		if (!procs[at->sym - 1])
			continue;
		hot[cnt] = hot[i];
		hot[cnt].proc = procs[at->sym - 1] - 1;
		hot[cnt++].file = s->file;
	}
	qsort(hot, cnt, sizeof(*hot), cmp_hot_places);
	cnt = cnt < TEXTS_MAX ? cnt : TEXTS_MAX;
	qsort(hot, cnt, sizeof(*hot), cmp_hot_files);
	return cnt;
}

/* procs[sym] = index of a process that runs it + 1: any may be asked for its source. */
static void find_procs_of_syms(const struct profile *p, uint32_t *procs)
{
	for (size_t i = 0; i < p->stack_cnt && p->frame_syms; i++) {
		const struct profile_stack *st = &p->stacks[i];

		for (uint32_t j = 0; j < st->cnt && st->proc < p->proc_cnt; j++) {
			uint32_t sym = p->frame_syms[st->first + j];

			if (sym < p->sym_cnt && !procs[sym])
				procs[sym] = st->proc + 1;
		}
	}
}

static int read_texts(struct html *h, struct flame *f, const struct export_opts *o,
		      const struct hot_place *hot, size_t cnt)
{
	struct source_lines source = { .p = h->p, .live = o->live, .readers = o->readers };
	struct strbuf b = { 0 };
	size_t sum = 0;
	int err = 0;

	for (size_t i = 0; i < cnt && !err && sum < SOURCE_SUM; i++) {
		const struct flame_place *at = &f->places[hot[i].place];
		bool next = i && cmp_hot_files(&hot[i - 1], &hot[i]);

		source_lines__add_of(&source, &b, hot[i].file, hot[i].proc, at->line, TEXT_CHARS);
		err = b.err;
		sum += next ? source.text.len : 0;
		if (!err && b.len) {
			h->place_text[hot[i].place] = strtab__add(f->texts, b.s, b.len);
			err = h->place_text[hot[i].place] ? 0 : -ENOMEM;
		}
		strbuf__clear(&b);
	}
	source_lines__free(&source);
	strbuf__free(&b);
	return err;
}

/* Before h->strings: it adds texts. */
static int add_source(struct html *h, struct flame *f, const struct export_opts *o)
{
	struct hot_place *hot = calloc(f->place_cnt + 1, sizeof(*hot));
	uint32_t *procs = calloc(h->p->sym_cnt + 1, sizeof(*procs));
	int err = -ENOMEM;

	h->place_text = calloc(f->place_cnt + 1, sizeof(*h->place_text));
	if (hot && procs && h->place_text) {
		find_procs_of_syms(h->p, procs);
		err = read_texts(h, f, o, hot, choose_places(f, h->p, procs, hot));
	}
	free(hot);
	free(procs);
	return err;
}

/* ---- All values ---- */

/* What the page is made of. */
struct page {
	const struct profile *const *values; /* views: each has one value type */
	uint32_t cnt;
	const struct profile *base; /* NULL, or what the only one is compared with */
	const struct export_opts *o;
	double scale;
};

/* The data of a value. */
static int write_value(const struct page *g, uint32_t i, FILE *out)
{
	struct flame f;
	struct html h = {
		.f = &f, .p = g->values[i], .comma = "", .before = export__side(g->o, DIFF_BEFORE)
	};
	struct flame_opts fo = { .lines = g->o->lines, .tasks = true, .scale = g->scale };
	char id[sizeof("profile") + 10] = "profile";
	int err = flame__init(&f, h.p, g->base, &fo);

	if (i)
		snprintf(id, sizeof(id), "profile%" PRIu32, i);
	if (!err && g->o->source && g->o->lines)
		err = add_source(&h, &f, g->o);
	if (err)
		goto out;
	h.strings = calloc(strtab__count(f.texts) + 1, sizeof(*h.strings));
	h.used = calloc(strtab__count(f.texts) + 1, sizeof(*h.used));
	err = h.strings && h.used ? write_element(&h, id, out) : -ENOMEM;
out:
	free(h.place_text);
	free(h.strings);
	free(h.used);
	free(h.place_rank);
	free(h.place_order);
	flame__free(&f);
	return err;
}

static void add_word(struct strbuf *b, const struct profile *p, const char *word)
{
	page_add_word(b, p, word, strlen(word));
}

/* What the page says of a value besides its data. */
static void add_template(struct strbuf *b, const struct profile *p)
{
	const char *name = value_type__name(&p->stats.values[0]);

	strbuf__addz(b, "<template data-value=\"");
	page_add_html(b, name, strlen(name));
	strbuf__addz(b, "\"><p>");
	add_word(b, p, "headline");
	strbuf__addz(b, "</p><p>");
	add_word(b, p, "counted");
	strbuf__addz(b, "</p><div>");
	add_word(b, p, "facts");
	strbuf__addz(b, "</div></template>\n");
}

static bool is_word(const char *word, size_t len, const char *what)
{
	return len == strlen(what) && !memcmp(word, what, len);
}

static int fill(void *ctx, const char *word, size_t len, FILE *out)
{
	const struct page *g = ctx;
	bool data = is_word(word, len, "data");
	struct strbuf b = { 0 };
	int err = 0;

	if (is_word(word, len, "moved"))
		add_moved(&b, g->o->moved);
	else if (!data)
		page_add_word(&b, g->values[0], word, len);
	for (uint32_t i = 0; data && g->cnt > 1 && i < g->cnt; i++)
		add_template(&b, g->values[i]);
	if (!b.err && b.len)
		fwrite(b.s, 1, b.len, out);
	err = b.err;
	strbuf__free(&b);
	for (uint32_t i = 0; data && !err && i < g->cnt; i++)
		err = write_value(g, i, out);
	return err;
}

int flame__html(const struct profile *p, const struct profile *base, const struct export_opts *o,
		double scale, FILE *out)
{
	struct page g = { .values = &p, .cnt = 1, .base = base, .o = o, .scale = scale };

	return page_write(page_flame, fill, &g, out);
}

int export__html_values(const struct profile *const *views, uint32_t cnt,
			const struct export_opts *o, FILE *f)
{
	struct page g = { .values = views, .cnt = cnt, .o = o };

	return page_write(page_flame, fill, &g, f);
}

int export__html(const struct profile *p, const struct export_opts *o, FILE *f)
{
	return flame__html(p, NULL, o, 0, f);
}

int export__html_diff(const struct profile *before, const struct profile *after,
		      const struct export_opts *o, FILE *f)
{
	return flame__html(after, before, o, flame__scale(before, after, o), f);
}
