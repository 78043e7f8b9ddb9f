/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/meant.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/nearest.h"

#define FUNCTIONS_MAX 4096 /* that are looked at, those called most first */
#define NAMES_MAX     (1 << 18)
#define WILDCARDS     "*?["
#define BELOW	      ".*"

/* A name that may have been meant. */
struct name {
	char *text;			/* owned */
	const struct py_function *only; /* it is this function; NULL: there may be several */
};

struct names {
	struct name *all;
	size_t cnt, cap;
};

static void free_names(struct names *n)
{
	for (size_t i = 0; i < n->cnt; i++)
		free(n->all[i].text);
	free(n->all);
}

/* Without memory it is no suggestion. */
static void add(struct names *n, const char *text, size_t len, const struct py_function *only)
{
	struct name name = { strndup(text, len), only };

	if (!name.text || ARRAY_GROW(n->all, n->cap, n->cnt, NAMES_MAX))
		free(name.text);
	else
		n->all[n->cnt++] = name;
}

/* Borrowed from `n`. NULL: none is near. */
static const struct name *pick(const struct names *n, const char *word)
{
	const char **texts = n->cnt ? calloc(n->cnt, sizeof(*texts)) : NULL;
	size_t at = n->cnt;

	for (size_t i = 0; i < n->cnt && texts; i++)
		texts[i] = n->all[i].text;
	if (texts)
		at = nearest_name(word, texts, n->cnt);
	free(texts);
	return at < n->cnt ? &n->all[at] : NULL;
}

static void add_function(struct strbuf *b, const char *name, const struct py_function *f)
{
	str_sanitise(b, name, strlen(name), 0);
	strbuf__addz(b, " (");
	str_sanitise(b, f->file, f->file_len, 0);
	strbuf__addf(b, ":%u)", f->first_line);
}

/* With dots in the module, as it was typed. */
static void add_pattern(struct strbuf *b, const char *place, bool is_path, const char *function)
{
	struct strbuf text = { 0 };

	if (place)
		strbuf__addf(&text, "%s:", place);
	for (size_t i = 0; i < text.len && !is_path; i++)
		if (text.s[i] == '/')
			text.s[i] = '.';
	strbuf__addz(&text, function);
	if (text.s)
		str_sanitise(b, text.s, text.len, 0);
	strbuf__free(&text);
}

static size_t looked_at(const struct traced_list *l)
{
	return l->cnt < FUNCTIONS_MAX ? l->cnt : FUNCTIONS_MAX;
}

/* The function of this number in the list. NULL: its name is not known. */
static const struct py_function *function_at(const struct traced_list *l, size_t i)
{
	const struct py_function *f = &l->all[i].function;

	return f->number != TRACER_UNKNOWN && f->name_len ? f : NULL;
}

static size_t part_cnt(const char *text, char separator)
{
	size_t cnt = 1;

	for (; *text; text++)
		cnt += *text == separator;
	return cnt;
}

/* So many parts of `text` from its end on. NULL: it has fewer. */
static const char *last_parts(const char *text, char separator, size_t cnt)
{
	size_t has = part_cnt(text, separator);

	for (; has > cnt && text; has--)
		text = strchr(text, separator) + 1;
	return has == cnt ? text : NULL;
}

/* "srv.shop.cart.Cart.price"; owned by the caller. NULL: no memory. */
static char *dotted_name(const struct py_function *f)
{
	char *module = trace_filter__module(f->file), *dotted = NULL;

	for (char *slash = module; slash && (slash = strchr(slash, '/'));)
		*slash = '.';
	if (module && asprintf(&dotted, "%s.%s", module, f->name) < 0)
		dotted = NULL;
	free(module);
	return dotted;
}

/* ---- each kind of name ----------------------------------------------------------------------- */

/* A function, perhaps only at the place of the filter. */
static bool add_near_function(struct strbuf *b, const struct trace_filter *f, bool there,
			      const struct traced_list *l)
{
	const struct trace_filter all = { there ? f->place : NULL, "*", f->is_path, false };
	const struct name *near;
	struct names n = { 0 };

	for (size_t i = 0; i < looked_at(l); i++) {
		const struct py_function *fn = function_at(l, i);
		const char *part;

		if (!fn || !trace_filter__matches(&all, fn->name, fn->file))
			continue;
		part = trace_filter__part(f, fn->name);
		add(&n, part, strlen(part), fn);
	}
	near = pick(&n, f->function);
	if (near)
		add_function(b, near->only->name, near->only);
	free_names(&n);
	return near != NULL;
}

/* The module or file of a function that the rest of the filter means. */
static bool add_near_place(struct strbuf *b, const struct trace_filter *f,
			   const struct traced_list *l)
{
	const struct trace_filter anywhere = { "*", f->function, false, false };
	const struct name *near;
	struct names n = { 0 };

	for (size_t i = 0; i < looked_at(l); i++) {
		const struct py_function *fn = function_at(l, i);
		const char *tail;
		char *path;

		if (!fn || !trace_filter__matches(&anywhere, fn->name, fn->file))
			continue;
		path = f->is_path ? strdup(fn->file) : trace_filter__module(fn->file);
		tail = path ? last_parts(path, '/', part_cnt(f->place, '/')) : NULL;
		if (tail)
			add(&n, tail, strlen(tail), NULL);
		free(path);
	}
	near = pick(&n, f->place);
	if (near)
		add_pattern(b, near->text, f->is_path, f->function);
	free_names(&n);
	return near != NULL;
}

/* A function by the last parts of its dotted name, as many as the filter has. */
static bool add_near_dotted(struct strbuf *b, const struct trace_filter *f,
			    const struct traced_list *l)
{
	const struct name *near;
	struct names n = { 0 };

	for (size_t i = 0; i < looked_at(l); i++) {
		const struct py_function *fn = function_at(l, i);
		char *dotted = fn ? dotted_name(fn) : NULL;
		const char *tail =
			dotted ? last_parts(dotted, '.', part_cnt(f->function, '.')) : NULL;

		if (tail)
			add(&n, tail, strlen(tail), fn);
		free(dotted);
	}
	near = pick(&n, f->function);
	if (near)
		add_function(b, near->text, near->only);
	free_names(&n);
	return near != NULL;
}

/* `cnt` parts of a dotted name, from each of its parts on, but for the function itself. */
static void add_windows(struct names *n, const char *dotted, size_t cnt)
{
	size_t parts = part_cnt(dotted, '.');

	for (; parts > cnt; parts--) {
		const char *end = dotted;

		for (size_t k = 0; k < cnt; k++)
			end = strchr(end, '.') + 1;
		add(n, dotted, (size_t)(end - 1 - dotted), NULL);
		dotted = strchr(dotted, '.') + 1;
	}
}

/* Of "shp.*": a module or a class of that name. */
static bool add_near_package(struct strbuf *b, const struct trace_filter *f,
			     const struct traced_list *l)
{
	char *word = strndup(f->function, strlen(f->function) - strlen(BELOW));
	const struct name *near = NULL;
	struct names n = { 0 };

	for (size_t i = 0; i < looked_at(l) && word; i++) {
		const struct py_function *fn = function_at(l, i);
		char *dotted = fn ? dotted_name(fn) : NULL;

		if (dotted)
			add_windows(&n, dotted, part_cnt(word, '.'));
		free(dotted);
	}
	if (word)
		near = pick(&n, word);
	if (near) {
		str_sanitise(b, near->text, strlen(near->text), 0);
		strbuf__addz(b, BELOW);
	}
	free_names(&n);
	free(word);
	return near != NULL;
}

/* The name is that of a module: "shop.cart" for "shop.cart.*". */
static bool add_module(struct strbuf *b, const struct trace_filter *f, const struct traced_list *l)
{
	struct trace_filter below = { 0 };
	bool found = false;

	if (strpbrk(f->function, WILDCARDS) ||
	    asprintf(&below.function, "%s" BELOW, f->function) < 0)
		return false;
	for (size_t i = 0; i < looked_at(l) && !found; i++) {
		const struct py_function *fn = function_at(l, i);

		found = fn && trace_filter__matches(&below, fn->name, fn->file);
	}
	if (found)
		add_pattern(b, NULL, false, below.function);
	free(below.function);
	return found;
}

/* ---- together -------------------------------------------------------------------------------- */

void meant__add(struct strbuf *b, const struct trace_filter *f, bool one,
		const struct traced_list *called)
{
	if (f->place) {
		if (!add_near_function(b, f, true, called) && !add_near_place(b, f, called))
			add_near_function(b, f, false, called);
	} else if (one || !add_module(b, f, called)) {
		if (!strchr(f->function, '.'))
			add_near_function(b, f, false, called);
		else if (str_ends_with(f->function, strlen(f->function), BELOW))
			add_near_package(b, f, called);
		else
			add_near_dotted(b, f, called);
	}
}

bool meant__explain(const struct meant *m, const struct traced_list *called, bool final)
{
	bool found = false;

	for (size_t i = 0; i < m->cnt; i++) {
		const struct trace_filter *f = &m->filters[i];
		struct strbuf filter = { 0 }, meant = { 0 };

		if (f->excludes)
			continue;
		add_pattern(&filter, f->place, f->is_path, f->function);
		meant__add(&meant, f, m->one, called);
		if (meant.len || final)
			log_warn("%s: no matching function %s%s%s%s", filter.s ? filter.s : "",
				 m->did_what, meant.len ? "; did you mean " : "",
				 meant.len ? meant.s : "", meant.len ? "?" : "");
		found |= meant.len > 0;
		strbuf__free(&filter);
		strbuf__free(&meant);
	}
	return found;
}
