/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/heap_page.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "export/export_page.h"
#include "page_heap.h"

#define TYPES_SHOWN   200
#define NAME_LEN      1000
#define MS_PER_MINUTE 60000

struct changed {
	const struct grown_type *type;
	uint64_t by; /* bytes, from the least to the most */
};

struct page {
	const struct heap_view *view;
	struct changed *types; /* with a curve */
	size_t cnt;
};

static int by_change(const void *a, const void *b)
{
	const struct changed *x = a, *y = b;

	if (x->by != y->by)
		return x->by > y->by ? -1 : 1;
	return x->type->addr < y->type->addr ? -1 : x->type->addr > y->type->addr;
}

static int choose(struct page *page)
{
	const struct heap_growth *g = page->view->growth;

	page->types = calloc(g->cnt + 1, sizeof(*page->types));
	if (!page->types)
		return -ENOMEM;
	for (size_t i = 0; i < g->cnt; i++) {
		const struct heap_point *c = g->types[i]->curve;
		uint64_t least = UINT64_MAX, most = 0;

		for (size_t k = 0; c && k < g->point_cnt; k++) {
			least = c[k].bytes < least ? c[k].bytes : least;
			most = c[k].bytes > most ? c[k].bytes : most;
		}
		if (c && g->point_cnt)
			page->types[page->cnt++] = (struct changed){ g->types[i], most - least };
	}
	qsort(page->types, page->cnt, sizeof(*page->types), by_change);
	page->cnt = page->cnt < TYPES_SHOWN ? page->cnt : TYPES_SHOWN;
	return 0;
}

static void add_type(struct strbuf *b, const struct heap_growth *g, const struct grown_type *t)
{
	struct strbuf name = { 0 };

	str_sanitise(&name, t->name ? t->name : "?", t->name ? strlen(t->name) : 1, NAME_LEN);
	strbuf__addz(b, "{\"name\":");
	page_add_json(b, name.s ? name.s : "", name.len);
	strbuf__addf(b, ",\"sure\":%s,\"rate\":%.6g,\"error\":%.6g,\"bytes\":[",
		     grown_type__is_sure(g, t) ? "true" : "false", t->objects, t->error);
	for (size_t i = 0; i < g->point_cnt; i++)
		strbuf__addf(b, "%s%" PRIu64, i ? "," : "", t->curve[i].bytes);
	strbuf__addz(b, "],\"count\":[");
	for (size_t i = 0; i < g->point_cnt; i++)
		strbuf__addf(b, "%s%" PRIu64, i ? "," : "", t->curve[i].cnt);
	strbuf__addz(b, "]}");
	b->err = name.err ? name.err : b->err;
	strbuf__free(&name);
}

static void add_data(struct strbuf *b, const struct page *page)
{
	const struct heap_growth *g = page->view->growth;

	strbuf__addz(b, "{\"when\":[");
	for (size_t i = 0; i < g->point_cnt; i++)
		strbuf__addf(b, "%s%.0f", i ? "," : "", g->point_minutes[i] * MS_PER_MINUTE);
	strbuf__addz(b, "],\n\"types\":[");
	for (size_t i = 0; i < page->cnt; i++) {
		strbuf__addz(b, i ? ",\n" : "\n");
		add_type(b, g, page->types[i].type);
	}
	strbuf__addz(b, "]}");
}

static int add_report(struct strbuf *b, const struct page *page)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	int err = f ? heap_show__text(f, page->view, 0, false) : -ENOMEM;

	if (f && fclose(f) && !err)
		err = -ENOMEM;
	if (!err)
		page_add_html(b, text, size);
	free(text);
	return err;
}

static void add_title(struct strbuf *b, const struct heap_view *v)
{
	strbuf__addz(b, "Heap of ");
	page_add_html(b, v->comm, strlen(v->comm));
	strbuf__addf(b, " (%" PRIu32 ")", v->tgid);
}

static bool is_word(const char *word, size_t len, const char *what)
{
	return len == strlen(what) && !memcmp(word, what, len);
}

static int fill(void *ctx, const char *word, size_t len, FILE *f)
{
	const struct page *page = ctx;
	const struct heap_view *v = page->view;
	struct strbuf b = { 0 };
	int err = 0;

	if (is_word(word, len, "title"))
		add_title(&b, v);
	else if (is_word(word, len, "headline"))
		strbuf__addf(&b, "CPython %s, %zu reading%s in %.1f minutes", v->version,
			     v->growth->readings, v->growth->readings == 1 ? "" : "s",
			     v->growth->minutes);
	else if (is_word(word, len, "report"))
		err = add_report(&b, page);
	else if (is_word(word, len, "data"))
		add_data(&b, page);
	err = err ? err : b.err;
	if (!err && b.len)
		fwrite(b.s, 1, b.len, f);
	strbuf__free(&b);
	return err;
}

int heap_page__write(FILE *f, const struct heap_view *view)
{
	struct page page = { .view = view };
	int err = choose(&page);

	if (!err)
		err = page_write(page_heap, fill, &page, f);
	free(page.types);
	return err;
}
