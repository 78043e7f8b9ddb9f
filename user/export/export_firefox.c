/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The Firefox profiler (https://profiler.firefox.com): its "processed" format, version 48, which
 * newer versions upgrade when they load it (docs-developer/CHANGELOG-formats.md of the profiler).
 * One thread for each process, or thread when they are kept apart, the heaviest first.
 *
 *	funcTable    functions          frameTable   functions and lines
 *	stackTable   the tree of stacks: a node is a frame and its caller's node
 *	samples      nodes, with the number of samples as weight
 *
 * All tables are by column, and belong to a thread. What is equal is merged, so times mean nothing;
 * the samples follow each other in steps of their weight, so that the graph of a thread is as long
 * as its CPU time.
 */
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "base/version.h"
#include "profile/export_stacks.h"
#include "profile/export_text.h"

#define FORMAT_VERSION 48 /* of the processed profile */
#define GECKO_VERSION  29 /* that belongs to it */
#define NONE	       UINT32_MAX

/* Categories, by enum sym_kind; the colours are names that the profiler knows. */
static const struct category {
	const char *name, *color;
} categories[] = {
	{ "Other", "grey" },	{ "Python", "green" },	{ "Native", "blue" },
	{ "Kernel", "orange" }, { "Marker", "yellow" },
};

static uint32_t category_of(const struct sym *s)
{
	return s->kind < sizeof(categories) / sizeof(categories[0]) ? s->kind : 0;
}

struct node {
	uint32_t frame;
	uint32_t prefix; /* NONE: a root */
};

struct firefox {
	const struct profile *p;
	const struct export_opts *o;
	struct export_view view;
	struct json j;
	struct strbuf buf;
	uint32_t *tgids; /* of all processes, sorted */

	/* Of the current thread; arrays are as long as all threads together need. */
	struct strtab *strings;
	uint32_t *frame_of; /* place -> frame + 1; 0: not in this thread */
	uint32_t *places;   /* frame -> place, in order: frames of one function are neighbours */
	uint32_t *funcs;    /* frame -> function */
	uint32_t *names, *files; /* function -> string */
	uint32_t *lines;	 /* function -> its first line, or NONE */
	uint32_t frame_cnt, func_cnt;
	struct node *nodes;
	uint32_t *leaves; /* stack -> node; NONE: an empty stack */
	uint32_t *path;	  /* nodes of the stack before, outermost first */
	uint32_t node_cnt;
};

/* ---- One thread: tables ---- */

static const struct sym *frame_sym(const struct firefox *x, uint32_t frame)
{
	return export_sym(x->p, x->view.places.first[x->places[frame]]);
}

static void number_frames(struct firefox *x, const struct stack_group *g)
{
	const struct flat_stacks *fs = &x->view.stacks;

	memset(x->frame_of, 0, x->view.places.cnt * sizeof(*x->frame_of));
	for (size_t i = g->first; i < g->first + g->cnt; i++)
		for (uint32_t k = 0; k < fs->stacks[i].cnt; k++)
			x->frame_of[fs->elems[fs->stacks[i].first + k]] = 1;
	x->frame_cnt = 0;
	for (uint32_t i = 0; i < x->view.places.cnt; i++) {
		if (!x->frame_of[i])
			continue;
		x->places[x->frame_cnt] = i;
		x->frame_of[i] = ++x->frame_cnt;
	}
}

/* The number of the string in buf; clears buf. Lack of memory is kept in buf.err. */
static uint32_t take_string(struct firefox *x)
{
	uint32_t id = x->buf.len ? strtab__add(x->strings, x->buf.s, x->buf.len) : 0;

	if (x->buf.len && !id)
		x->buf.err = -ENOMEM;
	x->buf.len = 0;
	return id;
}

static uint32_t first_line(const struct sym *s)
{
	return s->start_line ? s->start_line : NONE;
}

/* Unnamed code is a function for each address, as it is a place for each. */
static bool same_function(const struct firefox *x, uint32_t a, uint32_t b)
{
	const struct sym *sa = frame_sym(x, a), *sb = frame_sym(x, b);

	return !export_function_cmp(x->p, sa, sb) && sa->start_line == sb->start_line &&
	       (sa->func || sa->addr == sb->addr);
}

static void number_funcs(struct firefox *x)
{
	x->func_cnt = 0;
	for (uint32_t i = 0; i < x->frame_cnt; i++) {
		if (!i || !same_function(x, i - 1, i)) {
			text_add_label(&x->buf, x->p, frame_sym(x, i));
			x->names[x->func_cnt] = take_string(x);
			text_add_place(&x->buf, x->p, frame_sym(x, i), 0);
			x->files[x->func_cnt] = take_string(x);
			x->lines[x->func_cnt++] = first_line(frame_sym(x, i));
		}
		x->funcs[i] = x->func_cnt - 1;
	}
}

/* Stacks are sorted, so what one shares with those before it, it shares with the last of them. */
static void build_tree(struct firefox *x, const struct stack_group *g)
{
	const struct flat_stacks *fs = &x->view.stacks;
	uint32_t depth = 0;

	x->node_cnt = 0;
	for (size_t i = g->first; i < g->first + g->cnt; i++) {
		const struct flat_stack *s = &fs->stacks[i];
		bool shared = true;

		for (uint32_t k = 0; k < s->cnt; k++) {
			uint32_t frame = x->frame_of[fs->elems[s->first + k]] - 1;

			shared = shared && k < depth && x->nodes[x->path[k]].frame == frame;
			if (shared)
				continue;
			x->nodes[x->node_cnt].frame = frame;
			x->nodes[x->node_cnt].prefix = k ? x->path[k - 1] : NONE;
			x->path[k] = x->node_cnt++;
		}
		depth = s->cnt;
		x->leaves[i - g->first] = depth ? x->path[depth - 1] : NONE;
	}
}

/* ---- One thread: writing ---- */

static void put_index(struct firefox *x, uint32_t index)
{
	if (index == NONE)
		json__null(&x->j, NULL);
	else
		json__uint(&x->j, NULL, index);
}

/* A column of `cnt` equal values. */
static void put_same(struct firefox *x, const char *key, uint32_t cnt, const char *value)
{
	json__array(&x->j, key);
	for (uint32_t i = 0; i < cnt; i++) {
		if (!strcmp(value, "null"))
			json__null(&x->j, NULL);
		else if (!strcmp(value, "false"))
			json__bool(&x->j, NULL, false);
		else
			json__int(&x->j, NULL, strtol(value, NULL, 10));
	}
	json__end(&x->j, ']');
}

static void put_column(struct firefox *x, const char *key, const uint32_t *values, uint32_t cnt)
{
	json__array(&x->j, key);
	for (uint32_t i = 0; i < cnt; i++)
		put_index(x, values[i]);
	json__end(&x->j, ']');
}

static void put_frames(struct firefox *x)
{
	uint32_t cnt = x->frame_cnt;

	json__object(&x->j, "frameTable");
	json__uint(&x->j, "length", cnt);
	put_same(x, "address", cnt, "-1");
	put_same(x, "inlineDepth", cnt, "0");
	json__array(&x->j, "category");
	for (uint32_t i = 0; i < cnt; i++)
		json__uint(&x->j, NULL, category_of(frame_sym(x, i)));
	json__end(&x->j, ']');
	put_same(x, "subcategory", cnt, "0");
	put_column(x, "func", x->funcs, cnt);
	put_same(x, "nativeSymbol", cnt, "null");
	put_same(x, "innerWindowID", cnt, "null");
	put_same(x, "implementation", cnt, "null");
	json__array(&x->j, "line");
	for (uint32_t i = 0; i < cnt; i++) {
		uint32_t line = x->o->lines ? frame_sym(x, i)->line : 0;

		put_index(x, line ? line : NONE);
	}
	json__end(&x->j, ']');
	put_same(x, "column", cnt, "null");
	json__end(&x->j, '}');
}

static void put_funcs(struct firefox *x)
{
	uint32_t cnt = x->func_cnt;

	json__object(&x->j, "funcTable");
	json__uint(&x->j, "length", cnt);
	put_column(x, "name", x->names, cnt);
	put_same(x, "isJS", cnt, "false");
	put_same(x, "relevantForJS", cnt, "false");
	put_same(x, "resource", cnt, "-1");
	json__array(&x->j, "fileName");
	for (uint32_t i = 0; i < cnt; i++)
		put_index(x, x->files[i] ? x->files[i] : NONE);
	json__end(&x->j, ']');
	put_column(x, "lineNumber", x->lines, cnt);
	put_same(x, "columnNumber", cnt, "null");
	json__end(&x->j, '}');
}

static void put_stacks(struct firefox *x)
{
	json__object(&x->j, "stackTable");
	json__uint(&x->j, "length", x->node_cnt);
	json__array(&x->j, "frame");
	for (uint32_t i = 0; i < x->node_cnt; i++)
		put_index(x, x->nodes[i].frame);
	json__end(&x->j, ']');
	json__array(&x->j, "prefix");
	for (uint32_t i = 0; i < x->node_cnt; i++)
		put_index(x, x->nodes[i].prefix);
	json__end(&x->j, ']');
	json__array(&x->j, "category");
	for (uint32_t i = 0; i < x->node_cnt; i++)
		json__uint(&x->j, NULL, category_of(frame_sym(x, x->nodes[i].frame)));
	json__end(&x->j, ']');
	put_same(x, "subcategory", x->node_cnt, "0");
	json__end(&x->j, '}');
}

static double interval_ms(const struct firefox *x)
{
	uint64_t per_second = value_type__per_second(&x->p->stats.values[0]);

	return per_second ? 1000.0 / (double)per_second : 1;
}

/* A word that the format knows: anything else is "samples". */
static const char *weight_type(const struct value_type *v)
{
	if (value_type__is_bytes(v))
		return "bytes";
	return value_type__per_second(v) && !value_type__is_clock(v) ? "tracing-ms" : "samples";
}

static void put_weights(struct firefox *x, const struct flat_stack *stacks, size_t cnt)
{
	const struct value_type *v = &x->p->stats.values[0];
	bool ms = !strcmp(weight_type(v), "tracing-ms");

	json__array(&x->j, "weight");
	for (size_t i = 0; i < cnt; i++) {
		if (ms)
			json__double(&x->j, NULL, 1e3 * value_type__seconds(v, stacks[i].count));
		else
			json__uint(&x->j, NULL, stacks[i].count);
	}
	json__end(&x->j, ']');
	json__stringz(&x->j, "weightType", weight_type(v));
}

static void put_samples(struct firefox *x, const struct stack_group *g)
{
	const struct flat_stack *stacks = &x->view.stacks.stacks[g->first];
	uint64_t passed = 0;

	json__object(&x->j, "samples");
	json__uint(&x->j, "length", g->cnt);
	put_column(x, "stack", x->leaves, (uint32_t)g->cnt);
	json__array(&x->j, "time");
	for (size_t i = 0; i < g->cnt; passed += stacks[i++].count)
		json__double(&x->j, NULL, (double)passed * interval_ms(x));
	json__end(&x->j, ']');
	put_weights(x, stacks, g->cnt);
	json__end(&x->j, '}');
}

static void put_strings(struct firefox *x)
{
	json__array(&x->j, "stringArray");
	for (size_t i = 0; i < strtab__count(x->strings); i++) {
		size_t len;
		const char *s = strtab__get(x->strings, (uint32_t)i, &len);

		json__string(&x->j, NULL, s, len);
	}
	json__end(&x->j, ']');
}

static void put_empty_table(struct firefox *x, const char *key, const char *const *columns)
{
	json__object(&x->j, key);
	json__uint(&x->j, "length", 0);
	for (; *columns; columns++) {
		json__array(&x->j, *columns);
		json__end(&x->j, ']');
	}
	json__end(&x->j, '}');
}

static void put_empty_tables(struct firefox *x)
{
	static const char *const markers[] = { "data",	"name",	    "startTime", "endTime",
					       "phase", "category", NULL };
	static const char *const resources[] = { "lib", "name", "host", "type", NULL };
	static const char *const symbols[] = { "libIndex", "address", "name", "functionSize",
					       NULL };

	put_empty_table(x, "markers", markers);
	put_empty_table(x, "resourceTable", resources);
	put_empty_table(x, "nativeSymbols", symbols);
	json__array(&x->j, "pausedRanges");
	json__end(&x->j, ']');
}

static void put_string(struct firefox *x, const char *key)
{
	json__string(&x->j, key, x->buf.s ? x->buf.s : "", x->buf.len);
	x->buf.len = 0; /* an error of buf stays */
}

static int cmp_tgids(const void *a, const void *b)
{
	uint32_t ta = *(const uint32_t *)a, tb = *(const uint32_t *)b;

	return ta < tb ? -1 : ta > tb;
}

/* Is there another process with this number? */
static bool has_namesake(const struct firefox *x, uint32_t tgid)
{
	size_t cnt = x->p->proc_cnt;
	const uint32_t *at = bsearch(&tgid, x->tgids, cnt, sizeof(*at), cmp_tgids);

	return at &&
	       ((at > x->tgids && at[-1] == tgid) || (at + 1 < x->tgids + cnt && at[1] == tgid));
}

static void put_identity(struct firefox *x, const struct stack_group *g)
{
	const struct profile_proc *proc = export_view__proc(&x->view, x->p, g);
	uint32_t tid = THREAD_TID((uint32_t)g->key), interp = THREAD_INTERP((uint32_t)g->key);
	uint32_t tgid = proc ? proc->tgid : 0;
	const char *thread = profile__thread_name(x->p, proc ? proc->space : 0, tid);
	bool named = tid && *thread;

	json__stringz(&x->j, "processType", "default");
	text_add_name(&x->buf, x->p, proc ? profile_proc__name(proc) : 0, "<unknown>");
	put_string(x, "processName");
	if (named)
		str_sanitise(&x->buf, thread, strlen(thread), TEXT_NAME_MAX);
	else
		text_add_name(&x->buf, x->p, proc ? profile_proc__name(proc) : 0, "<unknown>");
	if (interp)
		strbuf__addf(&x->buf, ", interpreter %" PRIu32, interp);
	put_string(x, "name");
	json__bool(&x->j, "isMainThread", !tid || tid == tgid);
	/* A string, so that two processes with one pid (exec) can be two. */
	strbuf__addf(&x->buf, "%" PRIu32, tgid);
	if (has_namesake(x, tgid))
		strbuf__addf(&x->buf, ".%" PRIu64, (uint64_t)(g->key >> 32));
	put_string(x, "pid");
	json__uint(&x->j, "tid", tid ? tid : tgid);
	json__uint(&x->j, "processStartupTime", 0);
	json__null(&x->j, "processShutdownTime");
	json__uint(&x->j, "registerTime", 0);
	json__null(&x->j, "unregisterTime");
}

static int put_thread(struct firefox *x, const struct stack_group *g)
{
	x->strings = strtab__new();
	if (!x->strings)
		return -ENOMEM;
	number_frames(x, g);
	number_funcs(x);
	build_tree(x, g);
	json__newline(&x->j);
	json__object(&x->j, NULL);
	put_identity(x, g);
	put_samples(x, g);
	put_stacks(x);
	put_frames(x);
	put_funcs(x);
	put_empty_tables(x);
	put_strings(x);
	json__end(&x->j, '}');
	strtab__free(x->strings);
	x->strings = NULL;
	return x->buf.err;
}

/* ---- The whole ---- */

static void put_categories(struct firefox *x)
{
	json__array(&x->j, "categories");
	for (size_t i = 0; i < sizeof(categories) / sizeof(categories[0]); i++) {
		json__object(&x->j, NULL);
		json__stringz(&x->j, "name", categories[i].name);
		json__stringz(&x->j, "color", categories[i].color);
		json__array(&x->j, "subcategories");
		json__stringz(&x->j, NULL, "Other");
		json__end(&x->j, ']');
		json__end(&x->j, '}');
	}
	json__end(&x->j, ']');
}

static void put_meta(struct firefox *x)
{
	static const char *const extensions[] = { "baseURL", "id", "name", NULL };

	json__object(&x->j, "meta");
	json__uint(&x->j, "version", GECKO_VERSION);
	json__uint(&x->j, "preprocessedProfileVersion", FORMAT_VERSION);
	json__stringz(&x->j, "product", "pyperf-bpf");
	json__stringz(&x->j, "importedFrom", "pyperf-bpf " PYPERF_VERSION);
	json__double(&x->j, "interval", interval_ms(x));
	json__double(&x->j, "startTime", (double)x->p->stats.start_unix_ns / 1e6);
	json__uint(&x->j, "processType", 0);
	json__uint(&x->j, "stackwalk", 1);
	json__bool(&x->j, "debug", false);
	json__bool(&x->j, "symbolicated", true);
	json__bool(&x->j, "usesOnlyOneStackType", true);
	json__bool(&x->j, "doesNotUseFrameImplementation", true);
	json__bool(&x->j, "sourceCodeIsNotOnSearchfox", true);
	put_empty_table(x, "extensions", extensions);
	json__array(&x->j, "markerSchema");
	json__end(&x->j, ']');
	put_categories(x);
	json__end(&x->j, '}');
}

static int put_all(struct firefox *x)
{
	int err = 0;

	json__object(&x->j, NULL);
	put_meta(x);
	json__array(&x->j, "libs");
	json__end(&x->j, ']');
	json__array(&x->j, "pages");
	json__end(&x->j, ']');
	json__array(&x->j, "threads");
	for (size_t i = 0; i < x->view.group_cnt && !err; i++)
		err = put_thread(x, &x->view.groups[i]);
	json__end(&x->j, ']');
	json__end(&x->j, '}');
	putc('\n', x->j.f);
	return err;
}

static int allocate(struct firefox *x)
{
	size_t places = x->view.places.cnt, deepest = 0, stacks = x->view.stacks.cnt;

	for (size_t i = 0; i < stacks; i++)
		if (x->view.stacks.stacks[i].cnt > deepest)
			deepest = x->view.stacks.stacks[i].cnt;
	x->tgids = calloc(x->p->proc_cnt + 1, sizeof(*x->tgids));
	for (size_t i = 0; x->tgids && i < x->p->proc_cnt; i++)
		x->tgids[i] = x->p->procs[i].tgid;
	if (x->tgids)
		qsort(x->tgids, x->p->proc_cnt, sizeof(*x->tgids), cmp_tgids);
	x->frame_of = calloc(places + 1, sizeof(*x->frame_of));
	x->places = calloc(places + 1, sizeof(*x->places));
	x->funcs = calloc(places + 1, sizeof(*x->funcs));
	x->names = calloc(places + 1, sizeof(*x->names));
	x->files = calloc(places + 1, sizeof(*x->files));
	x->lines = calloc(places + 1, sizeof(*x->lines));
	x->nodes = calloc(x->view.stacks.elem_cnt + 1, sizeof(*x->nodes));
	x->leaves = calloc(stacks + 1, sizeof(*x->leaves));
	x->path = calloc(deepest + 1, sizeof(*x->path));
	return x->tgids && x->frame_of && x->places && x->funcs && x->names && x->files &&
			       x->lines && x->nodes && x->leaves && x->path
		       ? 0
		       : -ENOMEM;
}

int export__firefox(const struct profile *p, const struct export_opts *o, FILE *f)
{
	struct firefox x = { .p = p, .o = o, .j = { .f = f } };
	unsigned parts = PLACE_DEFINITIONS | (o->lines ? PLACE_LINES : 0);
	int err = export_view__init(&x.view, p, parts, o->threads);

	if (!err)
		err = allocate(&x);
	if (!err) {
		errno = 0;
		err = put_all(&x);
	}
	if (!err && ferror(f))
		err = errno ? -errno : -EIO;
	free(x.tgids);
	free(x.frame_of);
	free(x.places);
	free(x.funcs);
	free(x.names);
	free(x.files);
	free(x.lines);
	free(x.nodes);
	free(x.leaves);
	free(x.path);
	strtab__free(x.strings);
	strbuf__free(&x.buf);
	export_view__free(&x.view);
	return err;
}
