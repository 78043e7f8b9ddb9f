/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "profile/view.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "profile/export_text.h"
#include "profile/glue.h"
#include "profile/view_parts.h"

#define FEW_SAMPLES	 100
#define PARTS_SHOWN	 3
#define ROOT_DEPTH	 2 /* directories that code of one program has in common */
#define SPAWNED_PER_TEXT 20
#define LOCALS		 ".<locals>." /* of a qualified name, before what a function defines */

/* ---- Functions ---- */

static int view_function_cmp(const struct profile *p, uint32_t a, uint32_t b, const void *arg)
{
	(void)arg;
	return export_function_cmp(p, export_sym(p, a), export_sym(p, b));
}

static int view_place_cmp(const struct profile *p, uint32_t a, uint32_t b, const void *lines)
{
	const struct sym *sa = export_sym(p, a), *sb = export_sym(p, b);
	int d = view_function_cmp(p, a, b, NULL);

	if (d || !*(const bool *)lines)
		return d;
	return sa->line < sb->line ? -1 : sa->line > sb->line;
}

/*
 * "method (mod.pyx)": a native function that Cython or mypyc made of a Python one. In a file of
 * many modules, mypyc's have the module in front, "mod.method"; its own functions have no dot.
 */
static bool is_compiled(const struct view *v, const struct sym *s)
{
	const char *name = profile__str(v->p, s->func), *slash;
	size_t len = profile__str_len(v->p, s->func);
	const struct profile_module *m = view_module_of(v, s);

	if (s->kind != SYM_NATIVE)
		return false;
	if (str_ends_with(name, len, ".pyx)") || str_ends_with(name, len, ".py)"))
		return true;
	slash = m ? strrchr(profile__str(v->p, m->path), '/') : NULL;
	return slash && origin_mypyc(slash + 1) && memchr(name, '.', len);
}

/* The path that tells whose code a function is. */
static const char *home_of(const struct view *v, const struct sym *s)
{
	const struct profile_module *m = s->kind == SYM_NATIVE ? view_module_of(v, s) : NULL;

	return profile__str(v->p, m ? m->path : s->file);
}

static void describe_function(struct view *v, struct view_function *f)
{
	const struct sym *s = export_sym(v->p, f->sym);

	f->python = s->kind == SYM_PYTHON || s->kind == SYM_PLAIN || is_compiled(v, s);
	f->origin = f->python ? origin_of(home_of(v, s)) : ORIGIN_STDLIB;
	f->muted = f->origin != ORIGIN_OWN;
}

static int number_functions(struct view *v, bool lines)
{
	int err = sym_ranks__init(&v->functions_of, v->p, view_function_cmp, NULL);

	if (!err)
		err = sym_ranks__init(&v->places_of, v->p, view_place_cmp, &lines);
	if (!err)
		err = flat_stacks__init(&v->stacks, v->p, v->places_of.of, true, NULL);
	if (err)
		return err;
	v->functions = calloc(v->functions_of.cnt + 1, sizeof(*v->functions));
	v->places = calloc(v->places_of.cnt + 1, sizeof(*v->places));
	if (!v->functions || !v->places)
		return -ENOMEM;
	for (uint32_t i = 0; i < v->functions_of.cnt; i++) {
		v->functions[i].sym = v->functions_of.first[i];
		describe_function(v, &v->functions[i]);
	}
	for (uint32_t i = 0; i < v->places_of.cnt; i++) {
		uint32_t sym = v->places_of.first[i];

		v->places[i].function = v->functions_of.of[sym];
		v->places[i].line = lines ? export_sym(v->p, sym)->line : 0;
	}
	return 0;
}

/* ---- One stack ---- */

/* The elements as which a stack is shown. */
struct reading {
	const uint32_t *elems; /* places */
	uint32_t cnt;
	uint64_t count;
	uint32_t python_end; /* behind the innermost Python function; 0: there is none */
	/* Without Python, the interpreter's function that is read; UINT32_MAX: none. */
	uint32_t main;
	uint32_t library; /* in which it ends */
	uint32_t special; /* the part of the interpreter that it is in; VIEW_INTERPRETER: none */
	uint32_t own_end; /* behind the element that the stack is own time of; 0: it is empty */
};

static struct view_function *function_at(const struct view *v, const struct reading *r, uint32_t i)
{
	return &v->functions[v->places[r->elems[i]].function];
}

static const struct sym *sym_at(const struct view *v, const struct reading *r, uint32_t i)
{
	return export_sym(v->p, function_at(v, r, i)->sym);
}

/* A native function that is in every stack of a process or a thread. */
static bool is_begin(const struct view *v, const struct sym *s)
{
	const char *func = profile__str(v->p, s->func);

	return origin_is_start(func) || (glue_is_interpreter(v->p, s) && origin_is_main(func));
}

/*
 * The interpreter's function as which a stack without Python is shown: the outermost one. But if
 * sys.exit() ends the interpreter below the function that ran the program, it is that one.
 */
static uint32_t find_main(const struct view *v, const struct reading *r)
{
	uint32_t outermost = UINT32_MAX;

	for (uint32_t i = 0; i < r->cnt; i++) {
		const struct sym *s = sym_at(v, r, i);

		if (!glue_is_interpreter(v->p, s) || is_begin(v, s))
			continue;
		if (origin_is_end(profile__str(v->p, s->func)))
			return i;
		outermost = outermost == UINT32_MAX ? i : outermost;
	}
	return outermost;
}

/* What the interpreter does for itself or in a method of its own; else `before`. */
static uint32_t special_of(const struct view *v, const struct sym *s, uint32_t before)
{
	const char *func = profile__str(v->p, s->func);

	if (origin_is_collector(func))
		return VIEW_COLLECTOR;
	if (!glue_is_interpreter(v->p, s))
		return before;
	return origin_is_regex(func) ? VIEW_REGEX : origin_is_sorting(func) ? VIEW_SORTING : before;
}

static uint32_t find_own_end(const struct view *v, const struct reading *r)
{
	bool has_reason = r->library == VIEW_WAITING || r->library == VIEW_ENDING;
	uint32_t end = r->cnt;

	if (r->python_end)
		return r->python_end;
	if (r->main != UINT32_MAX)
		return r->main + 1;
	if (!end)
		return 0;
	while (end > 1 &&
	       (sym_at(v, r, end - 1)->kind == SYM_KERNEL || (end == r->cnt && has_reason)))
		end--;
	return has_reason || sym_at(v, r, end - 1)->kind == SYM_NATIVE ? end : r->cnt;
}

static struct reading read_stack(struct view *v, const struct flat_stack *s)
{
	struct reading r = { .elems = v->stacks.elems + s->first,
			     .cnt = s->cnt,
			     .count = s->count,
			     .python_end = s->cnt,
			     .main = UINT32_MAX,
			     .library = VIEW_UNKNOWN,
			     .special = VIEW_INTERPRETER };

	while (r.python_end && !function_at(v, &r, r.python_end - 1)->python)
		r.python_end--;
	if (!r.python_end)
		r.main = find_main(v, &r);
	for (uint32_t i = r.python_end; i < r.cnt; i++) {
		const struct sym *sym = sym_at(v, &r, i);

		v->has_native |= sym->kind == SYM_NATIVE;
		if (sym->kind == SYM_NATIVE && r.special != VIEW_COLLECTOR)
			r.special = special_of(v, sym, r.special);
	}
	if (r.cnt)
		r.library = view_library_of(v, sym_at(v, &r, r.cnt - 1));
	if (r.library == VIEW_INTERPRETER)
		r.library = r.special;
	r.own_end = find_own_end(v, &r);
	return r;
}

static int add_part(struct view *v, uint32_t function, uint32_t library, uint64_t count)
{
	if (ARRAY_GROW(v->parts, v->part_cap, v->part_cnt, INT_MAX))
		return -ENOMEM;
	v->parts[v->part_cnt++] = (struct view_part){ function, library, count };
	return 0;
}

static uint32_t part_library(const struct view *v, const struct reading *r)
{
	return r->library == VIEW_WAITING ? VIEW_WAIT | v->places[r->elems[r->cnt - 1]].function
					  : r->library;
}

/* Counts a stack before it is reduced to the shown elements. */
static int count_view_stack(struct view *v, size_t index)
{
	struct reading r = read_stack(v, &v->stacks.stacks[index]);
	uint32_t stamp = (uint32_t)index + 1;
	struct view_place *own;

	if (r.special == VIEW_INTERPRETER)
		v->libraries[r.library] += r.count;
	else
		v->special[r.special] += r.count;
	for (uint32_t i = 0; i < r.cnt; i++) {
		struct view_function *f = function_at(v, &r, i);

		f->total += f->seen == stamp ? 0 : r.count;
		f->seen = stamp;
	}
	if (!r.cnt)
		return 0;
	v->places[r.elems[r.cnt - 1]].self += r.count;
	function_at(v, &r, r.cnt - 1)->self += r.count;
	own = &v->places[r.elems[r.own_end - 1]];
	own->own += r.count;
	v->functions[own->function].own += r.count;
	return add_part(v, own->function, part_library(v, &r), r.count);
}

/* ---- Reduced to what is read ---- */

static bool is_import(const struct view *v, const struct sym *s)
{
	return s->kind == SYM_PYTHON && origin_is_import(profile__str(v->p, s->file));
}

static bool is_read(const struct view *v, const struct reading *r, uint32_t i)
{
	const struct view_function *f = function_at(v, r, i);
	const struct sym *s = export_sym(v->p, f->sym);
	uint32_t end = r->own_end;

	if (s->kind ==
	    SYM_MARKER) /* that the outermost frames are missing explains where a stack starts */
		return !i || i == end - 1;
	if (r->python_end)
		return f->python && (i == end - 1 || !is_import(v, s));
	if (r->main != UINT32_MAX && glue_is_interpreter(v->p, s)) /* what leads to it */
		return i == r->main;
	return i == end - 1 || (i < end && s->kind == SYM_NATIVE && !is_begin(v, s));
}

/* enum view_import */
static uint64_t find_view_import(const struct view *v, const struct reading *r)
{
	uint32_t i = 0;

	while (i < r->cnt && !is_import(v, sym_at(v, r, i)))
		i++;
	if (i >= r->cnt)
		return VIEW_NO_IMPORT;
	while (++i < r->cnt) {
		const struct sym *s = sym_at(v, r, i);

		if (s->kind == SYM_PYTHON && !strcmp(profile__str(v->p, s->func), "<module>"))
			return VIEW_FIRST_MODULE + v->places[r->elems[i]].function;
	}
	return VIEW_SOME_IMPORT;
}

/* Text that a library made up and compiled: "<template>", "<class 'argmap'> compilation 30" */
static bool is_made_up(const struct view *v, uint32_t function)
{
	const char *path = profile__str(v->p, export_sym(v->p, v->functions[function].sym)->file);

	return v->functions[function].origin == ORIGIN_STDLIB && *path == '<' &&
	       strncmp(path, "<frozen ", 8) != 0;
}

/* "greenlet" of "[greenlet]", where a stack begins */
static const char *marker_name(const char *name, size_t *len)
{
	size_t n = strlen(name);

	*len = n > 2 && *name == '[' && name[n - 1] == ']' ? n - 2 : n;
	return name + (*len < n);
}

const char *view_package(const struct view *v, uint32_t function, size_t *len)
{
	static const char generated[] = "generated code";
	const struct view_function *f = &v->functions[function];
	const struct sym *s = export_sym(v->p, f->sym);
	const char *home = home_of(v, s), *name = "unknown";

	if (s->kind == SYM_NATIVE && v->promoted_module >= 0 && s->module == v->promoted_module) {
		*len = v->promoted_len;
		return v->promoted;
	}
	if (f->python && !is_made_up(v, function))
		return origin_package(home, len);
	if (s->kind == SYM_MARKER)
		return marker_name(profile__str(v->p, s->func), len);
	if (view_module_of(v, s) && origin_in_site(home) && view_extension_tag(home))
		return origin_package(home, len);
	if (view_module_of(v, s)) {
		view_library_name(v->p, (uint32_t)s->module, &name, len);
		return name;
	}
	name = f->python || s->kind == SYM_NATIVE ? generated : name;
	*len = strlen(name);
	return name;
}

static bool in_package(const struct view *v, uint32_t function, const char *name, size_t len)
{
	size_t n;
	const char *package = view_package(v, function, &n);

	return n == len && !memcmp(package, name, len);
}

static bool is_text_module(const struct view *v, uint32_t function)
{
	const struct sym *s = export_sym(v->p, v->functions[function].sym);

	return !strcmp(profile__str(v->p, s->func), "<module>") &&
	       !strcmp(profile__str(v->p, s->file), "<string>");
}

/*
 * "-c from multiprocessing.spawn import spawn_main; spawn_main(...)": the line by which it starts
 * its processes is its own, not the application's.
 */
static bool starts_worker(const struct view *v, uint32_t line, uint32_t callee)
{
	static const char package[] = "multiprocessing";

	return is_text_module(v, line) && in_package(v, callee, package, strlen(package));
}

/*
 * In place. A function that calls itself directly is one element. Text that text executes, as in
 * "-c import sys;exec(eval(sys.stdin.readline()))", is none: that is how execnet sends itself to
 * the workers of pytest-xdist, and nobody wrote it for this program. Nor is multiprocessing's.
 */
static int reduce_stack(struct view *v, struct flat_stack *s)
{
	struct reading r = read_stack(v, s);
	uint32_t *elems = v->stacks.elems + s->first;
	bool *keep = calloc(r.cnt + 1, sizeof(*keep));
	uint32_t kept = 0;
	bool again;

	if (!keep)
		return -ENOMEM;
	s->key = VIEW_KEY(find_view_import(v, &r),
			  r.library == VIEW_WAITING ? v->places[elems[r.cnt - 1]].function + 1 : 0);
	for (uint32_t i = 0; i < r.cnt; i++)
		keep[i] = is_read(v, &r, i);
	for (uint32_t i = 0; i < r.cnt; i++) {
		uint32_t elem = elems[i];

		if (!keep[i])
			continue;
		again = kept && v->places[elems[kept - 1]].function == v->places[elem].function;
		if (again)
			kept--;
		if (again && i + 1 < r.own_end && is_text_module(v, v->places[elem].function))
			continue;
		if (kept == 1 &&
		    starts_worker(v, v->places[elems[0]].function, v->places[elem].function)) {
			kept = 0;
			v->spawned += s->count;
		}
		elems[kept++] = elem;
	}
	s->cnt = kept;
	free(keep);
	return 0;
}

static int stack_cmp(const void *a, const void *b, void *view)
{
	const struct view *v = view;
	const struct flat_stack *fa = a, *fb = b;
	uint32_t n = fa->cnt < fb->cnt ? fa->cnt : fb->cnt;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t ea = v->places[v->stacks.elems[fa->first + i]].function;
		uint32_t eb = v->places[v->stacks.elems[fb->first + i]].function;

		if (ea != eb)
			return ea < eb ? -1 : 1;
	}
	if (fa->cnt != fb->cnt)
		return fa->cnt < fb->cnt ? -1 : 1;
	return fa->first < fb->first ? -1 : fa->first > fb->first;
}

/* ---- Own time by library ---- */

static int part_cmp(const void *a, const void *b)
{
	const struct view_part *pa = a, *pb = b;

	if (pa->function != pb->function)
		return pa->function < pb->function ? -1 : 1;
	return pa->library < pb->library ? -1 : pa->library > pb->library;
}

static int part_size_cmp(const void *a, const void *b)
{
	const struct view_part *pa = a, *pb = b;

	if (pa->function != pb->function)
		return pa->function < pb->function ? -1 : 1;
	if (pa->count != pb->count)
		return pa->count > pb->count ? -1 : 1;
	return pa->library < pb->library ? -1 : pa->library > pb->library;
}

static void merge_parts(struct view *v)
{
	size_t kept = 0;

	if (v->part_cnt)
		qsort(v->parts, v->part_cnt, sizeof(*v->parts), part_cmp);
	for (size_t i = 0; i < v->part_cnt; i++) {
		if (kept && !part_cmp(&v->parts[kept - 1], &v->parts[i]))
			v->parts[kept - 1].count += v->parts[i].count;
		else
			v->parts[kept++] = v->parts[i];
	}
	v->part_cnt = kept;
	if (kept)
		qsort(v->parts, kept, sizeof(*v->parts), part_size_cmp);
	for (size_t i = kept; i--;) {
		struct view_function *f = &v->functions[v->parts[i].function];

		f->first_part = i;
		f->part_cnt++;
	}
}

/* ---- Whose code ---- */

static const char *path_of(const struct view *v, const struct view_function *f)
{
	return home_of(v, export_sym(v->p, f->sym));
}

/* In a file of many modules that mypyc compiled: whose they are, its name does not tell. */
static bool is_in_mypyc(const struct view *v, uint32_t function)
{
	return in_package(v, function, "mypyc", strlen("mypyc"));
}

/* Is a package called like the script that starts it? */
static bool has_package_of(const struct view *v, const struct view_function *script)
{
	size_t len;
	const char *name = origin_package(path_of(v, script), &len);

	for (uint32_t i = 0; i < v->functions_of.cnt; i++)
		if (v->functions[i].python && v->functions[i].origin == ORIGIN_PACKAGE &&
		    !origin_is_script(path_of(v, &v->functions[i])) && in_package(v, i, name, len))
			return true;
	return false;
}

/*
 * The package of most samples among those that stand outermost in a stack. That is not the script
 * that starts it: "bin/sphinx-build" calls sphinx. But "bin/uvicorn" calls click, which calls
 * uvicorn; and of packages in one file of mypyc's, that has no name, the script tells it.
 */
static const struct view_function *outermost_package(const struct view *v)
{
	const struct view_function *best = NULL, *script = NULL;

	for (size_t i = 0; i < v->stacks.cnt; i++) {
		struct reading r = { .elems = v->stacks.elems + v->stacks.stacks[i].first,
				     .cnt = v->stacks.stacks[i].cnt };

		for (uint32_t at = 0; at < r.cnt; at++) {
			const struct view_function *f = function_at(v, &r, at);

			if (!f->python || f->origin != ORIGIN_PACKAGE)
				continue;
			if (origin_is_script(path_of(v, f))) {
				script = f;
				continue;
			}
			best = !best || f->total > best->total ? f : best;
			break;
		}
	}
	if (script &&
	    (!best || has_package_of(v, script) || is_in_mypyc(v, (uint32_t)(best - v->functions))))
		return script;
	return best;
}

static uint32_t stack_function(const struct view *v, const struct flat_stack *s, uint32_t depth)
{
	return v->places[v->stacks.elems[s->first + depth]].function;
}

static bool is_text(const struct view *v, uint32_t function)
{
	const struct sym *s = export_sym(v->p, v->functions[function].sym);

	return s->kind == SYM_PYTHON && !strcmp(profile__str(v->p, s->file), "<string>");
}

/*
 * Does a stack begin with text, but for what starts a thread? So do those of `python -c`. Text that
 * is just looking for a module may still be multiprocessing's.
 */
static bool begins_with_text(const struct view *v, const struct flat_stack *s)
{
	for (uint32_t i = 0; i < s->cnt; i++) {
		uint32_t function = stack_function(v, s, i);
		const struct sym *next =
			i + 1 < s->cnt
				? export_sym(v->p, v->functions[stack_function(v, s, i + 1)].sym)
				: NULL;

		if (is_text(v, function))
			return !next || !origin_is_import(profile__str(v->p, next->file));
		if (v->functions[function].python && v->functions[function].origin != ORIGIN_STDLIB)
			return false;
	}
	return false;
}

/* Now and then a sample finds multiprocessing's text before it calls anything. */
static bool is_text_program(const struct view *v)
{
	uint64_t count = 0;

	for (size_t i = 0; i < v->stacks.cnt; i++)
		count += begins_with_text(v, &v->stacks.stacks[i]) ? v->stacks.stacks[i].count : 0;
	return count * SPAWNED_PER_TEXT > v->spawned;
}

/*
 * "<string>" is also the file of what libraries make up and compile: the methods of dataclasses,
 * those of named tuples. It is own code only where a program is given as text, and even there not
 * what dataclasses defines.
 */
static void mute_text(struct view *v)
{
	static const char made[] = "__create_fn__" LOCALS;
	bool program = is_text_program(v);

	for (uint32_t i = 0; i < v->functions_of.cnt; i++) {
		struct view_function *f = &v->functions[i];
		const char *name = profile__str(v->p, export_sym(v->p, f->sym)->func);

		if (!is_text(v, i) || (program && strncmp(name, made, strlen(made)) != 0))
			continue;
		f->origin = ORIGIN_STDLIB;
		f->muted = true;
	}
}

static bool has_own_code(const struct view *v)
{
	for (uint32_t i = 0; i < v->functions_of.cnt; i++)
		if (v->functions[i].total && v->functions[i].python &&
		    v->functions[i].origin == ORIGIN_OWN)
			return true;
	return false;
}

/*
 * The file of modules compiled by mypyc that functions of the promoted package call first, in most
 * samples: it is the same package. -1: there is none.
 */
static int32_t promoted_file(const struct view *v)
{
	const struct view_function *best = NULL;

	for (size_t i = 0; i < v->stacks.cnt; i++) {
		const struct flat_stack *s = &v->stacks.stacks[i];

		for (uint32_t at = 1; at < s->cnt; at++) {
			const struct view_function *f = &v->functions[stack_function(v, s, at)];

			if (!is_in_mypyc(v, stack_function(v, s, at)))
				continue;
			if (in_package(v, stack_function(v, s, at - 1), v->promoted,
				       v->promoted_len))
				best = !best || f->total > best->total ? f : best;
			break;
		}
	}
	return best ? export_sym(v->p, best->sym)->module : -1;
}

/* A program that is itself an installed package. */
static void promote_package(struct view *v)
{
	const struct view_function *f = has_own_code(v) ? NULL : outermost_package(v);

	if (!f)
		return;
	v->promoted = origin_package(path_of(v, f), &v->promoted_len);
	v->promoted_module = promoted_file(v);
	for (uint32_t i = 0; i < v->functions_of.cnt; i++)
		if (v->functions[i].python && v->functions[i].origin == ORIGIN_PACKAGE &&
		    in_package(v, i, v->promoted, v->promoted_len))
			v->functions[i].muted = false;
}

static bool is_own(const struct view *v, const struct flat_stack *s, uint32_t depth)
{
	return !v->functions[stack_function(v, s, depth)].muted;
}

/* The length of "<genexpr>" or another expression's name at the beginning of a name; 0: none. */
static size_t expression_len(const char *name)
{
	static const char *const names[] = { "<genexpr>", "<lambda>", "<listcomp>", "<setcomp>",
					     "<dictcomp>" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(name, names[i], strlen(names[i])))
			return strlen(names[i]);
	return 0;
}

/*
 * Names of expressions only: "<genexpr>", "<lambda>.<locals>.<genexpr>", "<listcomp>.<listcomp>":
 * compiler_set_qualname() in Python/compile.c has no "<locals>" behind a comprehension.
 */
static bool is_expressions(const char *name)
{
	size_t len;

	while ((len = expression_len(name)) && name[len] == '.')
		name += len + (strncmp(name + len, LOCALS, strlen(LOCALS)) ? 1 : strlen(LOCALS));
	return len && !name[len];
}

/*
 * "total" has "total.<locals>.<genexpr>". Before CPython 3.11 the name is "<genexpr>" alone: then
 * the next function of the file has it, which calls it, but for a lambda, which goes round.
 */
bool view_has_expression(const struct view *v, uint32_t function, uint32_t part)
{
	const struct sym *outer = export_sym(v->p, v->functions[function].sym);
	const struct sym *s = export_sym(v->p, v->functions[part].sym);
	const char *around = profile__str(v->p, outer->func), *name = profile__str(v->p, s->func);
	size_t len = strlen(around);

	if (outer->kind != SYM_PYTHON || s->kind != SYM_PYTHON || outer->file != s->file)
		return false;
	if (!strncmp(name, around, len) && !strncmp(name + len, LOCALS, strlen(LOCALS)))
		return is_expressions(name + len + strlen(LOCALS));
	return strcmp(name, "<lambda>") != 0 && is_expressions(name) && !is_expressions(around);
}

/* Behind the function that the expression at depth - 1 is a part of; `depth`: it is none. */
static uint32_t around_depth(const struct view *v, const struct flat_stack *s, uint32_t depth)
{
	uint32_t part = stack_function(v, s, depth - 1);

	for (uint32_t i = depth - 1; i; i--)
		if (view_has_expression(v, stack_function(v, s, i - 1), part))
			return i;
	return depth;
}

/*
 * For an expression, takes the function that it is written in, because people see it as a part of
 * that.
 */
uint32_t view_own_depth(const struct view *v, const struct flat_stack *s)
{
	uint32_t depth = s->cnt, around;

	while (depth && !is_own(v, s, depth - 1))
		depth--;
	while (depth && (around = around_depth(v, s, depth)) < depth)
		depth = around;
	return depth;
}

/* Each stack is charged to its innermost function of own code. */
static void charge_stack(struct view *v, const struct flat_stack *s)
{
	uint32_t depth = view_own_depth(v, s);
	struct view_place *pl;

	if (!depth)
		return;
	pl = &v->places[v->stacks.elems[s->first + depth - 1]];
	pl->charged += s->count;
	v->functions[pl->function].charged += s->count;
}

/* Finds the hottest line of each function; of equally hot lines the first. */
static void find_view_lines(struct view *v)
{
	uint64_t self = 0, own = 0, charged = 0;

	for (uint32_t i = 0; i < v->places_of.cnt; i++) {
		const struct view_place *pl = &v->places[i];
		struct view_function *f = &v->functions[pl->function];

		if (!i || pl->function != pl[-1].function)
			self = own = charged = 0;
		if (pl->self > self)
			self = pl->self, f->self_line = pl->line;
		if (pl->own > own)
			own = pl->own, f->own_line = pl->line;
		if (pl->charged > charged)
			charged = pl->charged, f->charged_line = pl->line;
	}
}

/* ---- Paths ---- */

static int path_cmp(const void *a, const void *b, void *view)
{
	const struct view *v = view;
	const struct view_function *fa = &v->functions[*(const uint32_t *)a];
	const struct view_function *fb = &v->functions[*(const uint32_t *)b];

	return strcmp(home_of(v, export_sym(v->p, fa->sym)), home_of(v, export_sym(v->p, fb->sym)));
}

/*
 * The bytes of an absolute path up to and with its first ROOT_DEPTH directories; 0: it is not so
 * deep.
 */
static size_t top_len(const char *path)
{
	size_t len = 0;

	for (unsigned i = 0; i <= ROOT_DEPTH; i++) {
		const char *slash = strchr(path + len, '/');

		if (!slash || (!i && slash != path))
			return 0;
		len = (size_t)(slash + 1 - path);
	}
	return len;
}

/* Bytes of the directory, with its last '/', that both paths are in. */
static size_t common_dir(const char *a, const char *b)
{
	size_t n = 0, len = 0;

	for (; a[n] && a[n] == b[n]; n++)
		len = a[n] == '/' ? n + 1 : len;
	return len;
}

/* Own code in one top directory is shown relative to the directory that all of it is in. */
static int find_roots(struct view *v)
{
	uint32_t *own = calloc(v->functions_of.cnt + 1, sizeof(*own)), cnt = 0, end;

	if (!own)
		return -ENOMEM;
	for (uint32_t i = 0; i < v->functions_of.cnt; i++)
		if (v->functions[i].total && v->functions[i].python &&
		    v->functions[i].origin == ORIGIN_OWN)
			own[cnt++] = i;
	if (cnt)
		qsort_r(own, cnt, sizeof(*own), path_cmp, v);
	for (uint32_t i = 0; i < cnt; i = end) {
		const char *first = home_of(v, export_sym(v->p, v->functions[own[i]].sym));
		const char *last = first;
		size_t top = top_len(first), root;

		for (end = i + 1; end < cnt; end++) {
			const char *path = home_of(v, export_sym(v->p, v->functions[own[end]].sym));

			if (strncmp(path, first, top) != 0 || (!top && strcmp(path, first) != 0))
				break;
			last = path;
		}
		/* Sorted: all have in common what the first and the last have. */
		root = top ? common_dir(first, last) : 0;
		for (uint32_t j = i; j < end; j++)
			v->functions[own[j]].root_len = (uint32_t)root;
	}
	free(own);
	return 0;
}

void view_add_place(struct strbuf *b, const struct view *v, uint32_t function, uint32_t line)
{
	const struct view_function *f = &v->functions[function];
	const struct sym *s = export_sym(v->p, f->sym);
	const char *path = profile__str(v->p, s->file), *tag;

	/* A name with a NUL is no path: the part in front of it would name another file. */
	if (s->kind == SYM_NATIVE && !*path && origin_in_site(home_of(v, s)))
		path = home_of(v, s);
	else if (s->kind == SYM_NATIVE && !*path && view_module_of(v, s)) {
		text_add_module(b, v->p,
				s->module); /* its directory tells less than it takes room */
		return;
	} else if (!f->python || !*path || strlen(path) != profile__str_len(v->p, s->file)) {
		text_add_place(b, v->p, s, line);
		return;
	}
	path = f->origin == ORIGIN_OWN ? origin_below(path, f->root_len) : origin_relative(path);
	if (s->kind == SYM_NATIVE && origin_mypyc(path)) {
		strbuf__addz(b, "mypyc");
		return;
	}
	tag = s->kind == SYM_NATIVE ? view_extension_tag(path) : NULL;
	str_sanitise(b, path, tag ? (size_t)(tag - path) : strlen(path), TEXT_PATH_MAX);
	strbuf__addz(b, tag ? ".so" : "");
	if (line)
		strbuf__addf(b, ":%" PRIu32, line);
}

/* ---- Numbers ---- */

/* Waits are measured and hits of probes counted: a few are the whole truth. */
static bool has_few_samples(const struct view *v)
{
	const struct value_type *t = &v->p->stats.values[0];

	return v->samples < FEW_SAMPLES && !value_type__is_time(t) &&
	       (!value_type__is_exact(t) || v->p->stats.slowed > 1);
}

unsigned view_error_points(const struct view *v)
{
	/* For a share of one half, which varies most: 1.96 standard deviations. */
	return v->samples && has_few_samples(v) ? (unsigned)ceil(98 / sqrt((double)v->samples)) : 0;
}

void view_add_percent(struct strbuf *b, const struct view *v, uint64_t count)
{
	strbuf__addf(b, "%.*f%%", has_few_samples(v) ? 0 : 1, text_percent(count, v->total));
}

void view_add_parts(struct strbuf *b, const struct view *v, uint32_t function)
{
	const struct view_function *f = &v->functions[function];

	bool shown = v->has_native || v->libraries[VIEW_WAITING];

	for (size_t i = 0; shown && i < f->part_cnt && i < PARTS_SHOWN; i++) {
		const struct view_part *part = &v->parts[f->first_part + i];
		double percent = text_percent(part->count, v->total);

		if (percent < 1)
			return;
		strbuf__addz(b, i ? ", " : "");
		view_add_library(b, v, part->library);
		strbuf__addf(b, " %.0f%%", percent);
	}
}

/* ---- All of it ---- */

int view__init(struct view *v, const struct profile *p, bool lines)
{
	int err;

	*v = (struct view){
		.p = p,
		.total = profile__total(p),
		.samples = profile__samples(p),
		.lines = lines,
		.promoted_module = -1,
	};
	err = view_rank_libraries(v);
	if (!err)
		err = number_functions(v, lines);
	for (size_t i = 0; i < v->stacks.cnt && !err; i++)
		err = count_view_stack(v, i);
	for (size_t i = 0; i < v->stacks.cnt && !err; i++)
		err = reduce_stack(v, &v->stacks.stacks[i]);
	if (err) {
		view__free(v);
		return err;
	}
	merge_parts(v);
	if (v->stacks.cnt)
		qsort_r(v->stacks.stacks, v->stacks.cnt, sizeof(*v->stacks.stacks), stack_cmp, v);
	mute_text(v);
	promote_package(v);
	for (size_t i = 0; i < v->stacks.cnt; i++)
		charge_stack(v, &v->stacks.stacks[i]);
	find_view_lines(v);
	err = find_roots(v);
	if (err)
		view__free(v);
	return err;
}

void view__free(struct view *v)
{
	sym_ranks__free(&v->functions_of);
	sym_ranks__free(&v->places_of);
	flat_stacks__free(&v->stacks);
	free(v->functions);
	free(v->places);
	free(v->parts);
	free(v->library_of);
	free(v->library_module);
	free(v->libraries);
	*v = (struct view){ 0 };
}
