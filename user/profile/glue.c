/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "profile/glue.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "profile/export_stacks.h"
#include "profile/origin.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* ---- Names that Python users know ---- */

static bool begins_with_one(const char *s, const char *const *starts, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		if (str_starts_with(s, starts[i]))
			return true;
	return false;
}

/* `s`, `len` bytes, is one of the words. */
static bool is_word(const char *s, size_t len, const char *const *words, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		if (strlen(words[i]) == len && !memcmp(s, words[i], len))
			return true;
	return false;
}

/*
 * Known, and yet only the way to the Python code that they run: the import statement and the class
 * statement.
 */
static bool only_leads_on(const char *name)
{
	static const char *const names[] = {
		"builtins.exec",
		"builtins.__import__",
		"builtins.__build_class__",
		"builtin_exec",
		"builtin___import__",
		"builtin___build_class__",
		"exec",
		"__import__",
		"__build_class__",
		"builtin_exec_impl",
		"builtin___import___impl",
	};

	return is_word(name, strlen(name), names, ARRAY_SIZE(names));
}

/*
 * "dict (mp_subscript)": a slot that tells what is done to which type. Not those that call
 * something, run a coroutine or look an attribute up for whatever type it is, and not those of many
 * types: "object (tp_dealloc) +12".
 */
static bool is_known_slot(const char *name, const char *paren)
{
	static const char *const slots[] = { "tp_call",	    "tp_vectorcall", "am_send",
					     "tp_getattro", "tp_setattro",   "tp_descr_get" };
	static const char *const types[] = { "generator", "coroutine", "async_generator", "type",
					     "object",	  "function",  "method" };
	const char *slot = paren + 2, *end = strchr(slot, ')');

	return end && !end[1] && !is_word(slot, (size_t)(end - slot), slots, ARRAY_SIZE(slots)) &&
	       !is_word(name, (size_t)(paren - name), types, ARRAY_SIZE(types));
}

/* "f.cold", "f.lto_priv.0": a part of f, or f itself */
static bool is_suffix(const char *dot)
{
	static const char *const suffixes[] = { ".lto_priv", ".constprop", ".isra",	 ".part",
						".cold",     ".llvm.",	   ".localalias" };

	return begins_with_one(dot, suffixes, ARRAY_SIZE(suffixes));
}

/* A name of the tables of sym_tables.h: "list.sort", "_sre.compile", "frame.f_locals (get)". */
static bool is_table_name(const char *name)
{
	const char *paren = strstr(name, " ("), *dot = strchr(name, '.');

	if (strstr(name, "+0x") || strchr(name, '@')) /* no name; a version of a symbol */
		return false;
	if (dot && (!paren || dot < paren))
		return dot > name && !is_suffix(dot);
	return paren && is_known_slot(name, paren);
}

/*
 * The method of a built-in type as CPython's sources name it: "list_sort", "unicode_join",
 * "dict_update". Other functions that begin so, as dict_lookup(), are internal.
 */
static bool is_method_symbol(const char *name)
{
	static const char *const types[] = { "list_",	"dict_",  "set_",	"frozenset_",
					     "tuple_",	"bytes_", "unicode_",	"string_",
					     "float_",	"long_",  "bytearray_", "deque_",
					     "pattern_" };
	static const char *const methods[] = {
		"append",	"appendleft", "clear",	    "copy",	  "count",
		"decode",	"difference", "discard",    "encode",	  "endswith",
		"extend",	"find",	      "findall",    "finditer",	  "format",
		"fromkeys",	"fullmatch",  "hex",	    "index",	  "insert",
		"intersection", "issubset",   "issuperset", "items",	  "join",
		"keys",		"lower",      "lstrip",	    "match",	  "partition",
		"pop",		"popitem",    "popleft",    "remove",	  "replace",
		"reverse",	"rfind",      "rotate",	    "rpartition", "rsplit",
		"rstrip",	"search",     "setdefault", "sort",	  "split",
		"splitlines",	"startswith", "strip",	    "sub",	  "symmetric_difference",
		"title",	"to_bytes",   "translate",  "union",	  "update",
		"upper",	"values",     "zfill",
	};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		size_t len = strlen(types[i]);

		if (str_starts_with(name, types[i]))
			return is_word(name + len, strcspn(name + len, "."), methods,
				       ARRAY_SIZE(methods));
	}
	return false;
}

/* A symbol of CPython's sources that is a function of a module, or a method. */
static bool is_known_symbol(const char *name)
{
	/*
	 * Prefixes by which Argument Clinic or the source's own habit names functions of a module.
	 */
	static const char *const modules[] = { "builtin_", "os_",      "posix_",  "time_",
					       "math_",	   "marshal_", "zlib_",	  "_sre_",
					       "_io_",	   "_json_",   "_struct_" };
	size_t len = strcspn(name, ".");

	if (strchr(name, ' ')) /* a slot */
		return false;
	/* "list_sort_impl": the function that Argument Clinic's argument parser calls */
	return begins_with_one(name, modules, ARRAY_SIZE(modules)) || is_method_symbol(name) ||
	       (len > 5 && !memcmp(name + len - 5, "_impl", 5));
}

static bool is_known(const char *name)
{
	return !only_leads_on(name) &&
	       (is_table_name(name) || is_known_symbol(name) || origin_is_collector(name));
}

/* ---- Frames ---- */

static const char *path_of(const struct profile *p, const struct sym *s)
{
	return s->module >= 0 && (size_t)s->module < p->module_cnt
		       ? profile__str(p, p->modules[s->module].path)
		       : "";
}

bool glue_is_interpreter(const struct profile *p, const struct sym *s)
{
	static const char *const prefixes[] = { "_PyEval_", "PyEval_", "_PyObject_", "PyObject_" };

	return s->kind == SYM_NATIVE &&
	       (origin_is_interpreter(path_of(p, s)) ||
		begins_with_one(profile__str(p, s->func), prefixes, ARRAY_SIZE(prefixes)));
}

bool glue_is(const struct profile *p, const struct sym *s)
{
	const char *func = profile__str(p, s->func);

	if (s->kind != SYM_NATIVE)
		return false;
	return origin_is_start(func) || (glue_is_interpreter(p, s) && !is_known(func));
}

/* ---- A profile without it ---- */

struct gluer {
	const struct profile *p;
	struct profile *v;
	enum glue_mode mode;
	uint32_t *boxes; /* module + 1 -> sym of its box; 0: none yet */
	str_id box_name;
};

/* A sym of the view, which has the flags. */
static const struct sym *sym_of(const struct gluer *g, const uint32_t *frame)
{
	return export_sym(g->v, *frame);
}

static bool is_glue_frame(const struct gluer *g, const uint32_t *frame)
{
	return sym_of(g, frame)->flags & SYM_GLUE;
}

static bool has_python(const struct gluer *g, const uint32_t *frames, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++) {
		uint8_t kind = sym_of(g, &frames[i])->kind;

		if (kind == SYM_PYTHON || kind == SYM_PLAIN)
			return true;
	}
	return false;
}

/* The sym of the box for glue of the same file as `s`. There is room for one of each file. */
static uint32_t box_for(struct gluer *g, const struct sym *s)
{
	size_t at =
		s->module >= 0 && (size_t)s->module < g->p->module_cnt ? (size_t)s->module + 1 : 0;

	if (!g->boxes[at]) {
		g->boxes[at] = (uint32_t)g->v->sym_cnt;
		g->v->syms[g->v->sym_cnt++] = (struct sym){ .kind = SYM_NATIVE,
							    .flags = SYM_GLUE_BOX,
							    .func = g->box_name,
							    .module = at ? s->module : -1,
							    .inlined = -1 };
	}
	return g->boxes[at];
}

static void add_frame(struct gluer *g, uint32_t sym)
{
	g->v->frame_syms[g->v->frame_cnt++] = sym;
}

static void view_stack(struct gluer *g, const struct profile_stack *s, struct profile_stack *out)
{
	const uint32_t *frames = g->p->frame_syms + s->first;
	uint32_t cnt = profile__stack_frames(g->p, s);
	uint32_t run = cnt; /* where the glue at the end begins */
	bool python = has_python(g, frames, cnt);

	out->first = (uint32_t)g->v->frame_cnt;
	while (python && run && is_glue_frame(g, &frames[run - 1]))
		run--;
	for (uint32_t i = 0; i < cnt; i++) {
		if (i == run)
			add_frame(g, box_for(g, sym_of(g, &frames[i])));
		if (g->mode == GLUE_MARK || !python || !is_glue_frame(g, &frames[i]))
			add_frame(g, frames[i]);
	}
	out->cnt = (uint32_t)(g->v->frame_cnt - out->first);
}

/* The syms, with room for the boxes. */
static int copy_syms(struct gluer *g)
{
	const struct profile *p = g->p;

	g->v->syms = calloc(p->sym_cnt + p->module_cnt + 1, sizeof(*g->v->syms));
	g->boxes = calloc(p->module_cnt + 1, sizeof(*g->boxes));
	if (!g->v->syms || !g->boxes)
		return -1;
	for (size_t i = 0; i < p->sym_cnt; i++) {
		g->v->syms[i] = p->syms[i];
		g->v->syms[i].flags |= glue_is(p, &p->syms[i]) ? SYM_GLUE : 0;
	}
	return 0;
}

static int fill_view(struct gluer *g)
{
	const struct profile *p = g->p;
	size_t frames = 0;

	for (size_t i = 0; i < p->stack_cnt; i++)
		frames += (size_t)profile__stack_frames(p, &p->stacks[i]) + 1;
	g->v->stacks = calloc(p->stack_cnt + 1, sizeof(*g->v->stacks));
	g->v->frame_syms = calloc(frames + 1, sizeof(*g->v->frame_syms));
	if (!g->v->stacks || !g->v->frame_syms || copy_syms(g))
		return -1;
	g->box_name = profile__intern_z(g->v, GLUE_BOX);
	if (!g->box_name)
		return -1;
	for (size_t i = 0; i < p->stack_cnt; i++) {
		g->v->stacks[i] = p->stacks[i];
		view_stack(g, &p->stacks[i], &g->v->stacks[i]);
	}
	return 0;
}

const struct profile *glue__view(const struct profile *p, enum glue_mode mode)
{
	struct gluer g = { .p = p, .mode = mode };

	if (mode == GLUE_KEEP || !p->frame_syms)
		return p;
	g.v = malloc(sizeof(*g.v));
	if (!g.v)
		return NULL;
	*g.v = *p;
	g.v->frames = NULL;
	g.v->frame_syms = NULL;
	g.v->frame_cnt = 0;
	g.v->syms = NULL;
	g.v->stacks = NULL;
	if (fill_view(&g)) {
		profile__free_view(g.v, p);
		g.v = NULL;
	}
	free(g.boxes);
	return g.v;
}
