/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/filter.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#define PACKAGE	  "/__init__"
#define FROZEN	  "<frozen "
#define PARTS_MAX 32 /* of a path, from its end on: where a pattern may begin */

int trace_filter__parse(struct trace_filter *f, const char *text)
{
	bool excludes = *text == '!';
	const char *colon, *function;

	text += excludes;
	colon = strrchr(text, ':');
	function = colon ? colon + 1 : text;
	*f = (struct trace_filter){ .excludes = excludes };
	if (!*function || colon == text)
		return -EINVAL;
	f->function = strdup(function);
	f->place = colon ? strndup(text, (size_t)(colon - text)) : NULL;
	if (!f->function || (colon && !f->place)) {
		trace_filter__free(f);
		return -ENOMEM;
	}
	if (!colon)
		return 0;
	f->is_path = strchr(f->place, '/') || str_ends_with(f->place, strlen(f->place), ".py");
	for (char *dot = f->place; !f->is_path && (dot = strchr(dot, '.'));)
		*dot = '/';
	return 0;
}

bool trace_filter__may_be(const char *text)
{
	const char *colon = strrchr(text, ':');
	const char *function = colon ? colon + 1 : text;

	/* <lambda>, <listcomp>; Python's identifiers may have any character above ASCII. */
	return (isalpha((unsigned char)*function) || strchr("_*?[<", *function) ||
		(unsigned char)*function >= 0x80) &&
	       *function && !strchr(function, '/');
}

void trace_filter__free(struct trace_filter *f)
{
	free(f->place);
	free(f->function);
	*f = (struct trace_filter){ 0 };
}

/* The name without the class or function that it is in. */
static const char *last_part(const char *function)
{
	const char *dot = strrchr(function, '.');

	return dot ? dot + 1 : function;
}

static bool matches_function(const struct trace_filter *f, const char *function)
{
	if (glob_match(f->function, function))
		return true;
	return !strchr(f->function, '.') && glob_match(f->function, last_part(function));
}

/*
 * The pattern is all of `text`, or its end from a slash of `path` on, which is as long or shorter.
 * Names are foreign: the work for one with many slashes has a bound.
 */
static bool matches_end(const char *pattern, const char *text, const char *path)
{
	size_t parts = 0;

	for (size_t i = strlen(path); i && parts < PARTS_MAX; i--) {
		if (path[i - 1] != '/')
			continue;
		parts++;
		if (glob_match(pattern, text + i))
			return true;
	}
	return glob_match(pattern, text);
}

char *trace_filter__module(const char *file)
{
	size_t len = strlen(file);
	char *module;

	/* <frozen importlib._bootstrap>: Python/frozen.c */
	if (!strncmp(file, FROZEN, strlen(FROZEN)) && file[len - 1] == '>') {
		module = strndup(file + strlen(FROZEN), len - strlen(FROZEN) - 1);
		for (char *dot = module; dot && (dot = strchr(dot, '.'));)
			*dot = '/';
		return module;
	}
	if (str_ends_with(file, len, ".py"))
		len -= 3;
	if (str_ends_with(file, len, PACKAGE))
		len -= strlen(PACKAGE);
	return strndup(file, len);
}

static bool matches_place(const struct trace_filter *f, const char *file)
{
	char *module;
	bool found;

	if (!f->place || f->is_path)
		return !f->place || matches_end(f->place, file, file);
	module = trace_filter__module(file);
	found = module && matches_end(f->place, module, module);
	free(module);
	return found;
}

/* A pattern of a module and a function in it, by their dotted name. Without memory it is none. */
static bool matches_dotted(const struct trace_filter *f, const char *function, const char *file)
{
	char *module = NULL, *dotted = NULL;
	bool found = false;

	if (f->place || !strchr(f->function, '.') || !*file)
		return false;
	module = trace_filter__module(file);
	if (module && asprintf(&dotted, "%s.%s", module, function) >= 0) {
		for (size_t i = 0; module[i]; i++)
			dotted[i] = module[i] == '/' ? '.' : module[i];
		found = matches_end(f->function, dotted, module);
		free(dotted);
	}
	free(module);
	return found;
}

bool trace_filter__matches(const struct trace_filter *f, const char *function, const char *file)
{
	return (matches_function(f, function) && matches_place(f, file)) ||
	       matches_dotted(f, function, file);
}

bool trace_filters__select(const struct trace_filter *all, size_t cnt, const char *function,
			   const char *file)
{
	bool any = false, selected = false;

	for (size_t i = 0; i < cnt; i++) {
		bool meant = trace_filter__matches(&all[i], function, file);

		if (all[i].excludes && meant)
			return false;
		any |= !all[i].excludes;
		selected |= !all[i].excludes && meant;
	}
	return selected || !any;
}

const char *trace_filter__tail(const struct trace_filter *f)
{
	return last_part(f->function);
}

const char *trace_filter__part(const struct trace_filter *f, const char *function)
{
	return strchr(f->function, '.') ? function : last_part(function);
}

int thread_filters__add(struct thread_filters *f, const char *text)
{
	struct trace_thread *t = &f->at[f->cnt];
	size_t len = strlen(text);
	bool is_start = len && text[len - 1] == '*';
	long long tid;

	if (f->cnt == TRACE_THREADS)
		return -E2BIG;
	if (!len)
		return -EINVAL;
	*t = (struct trace_thread){ .tid = 0 };
	if (!parse_int(text, 1, INT32_MAX, &tid)) {
		t->tid = (uint32_t)tid;
	} else if (isdigit((unsigned char)*text) && strspn(text, "0123456789") == len) {
		return -EINVAL;
	} else {
		/* The kernel keeps 15 bytes. */
		len = len - is_start < sizeof(t->name) - 1 ? len - is_start : sizeof(t->name) - 1;
		memcpy(t->name, text, len);
		memset(t->mask, 0xff, len + !is_start);
	}
	f->cnt++;
	return 0;
}
