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

#define FEW_SAMPLES	 100
#define PARTS_SHOWN	 3
#define LIBRARY_NAME_MAX 64
#define HASH_LEN	 9 /* "-32a4b2a6" */
#define ROOT_DEPTH	 2 /* directories that code of one program has in common */

/* ---- Libraries ---- */

/*
 * "libcrypto" of "/usr/lib/libcrypto.so.3", "_hashlib" of
 * "_hashlib.cpython-311-x86_64-linux-gnu.so".
 */
static void library_name(const struct profile *p, uint32_t module, const char **name, size_t *len)
{
	const char *path = profile__str(p, p->modules[module].path);
	const char *slash = strrchr(path, '/'), *dot;

	*name = slash && slash[1] ? slash + 1 : path;
	*len = strlen(*name);
	dot = strstr(*name, ".cpython-");
	dot = dot ? dot : strstr(*name, ".abi3.so");
	dot = dot ? dot : strstr(*name, ".so");
	if (dot && dot > *name)
		*len = (size_t)(dot - *name);
	/* wheels: "libscipy_openblas64_-32a4b2a6.so" */
	if (*len > HASH_LEN && (*name)[*len - HASH_LEN] == '-' &&
	    strspn(*name + *len - HASH_LEN + 1, "0123456789abcdef") >= HASH_LEN - 1)
		*len -= HASH_LEN;
}

static int library_cmp(const void *a, const void *b, void *profile)
{
	const struct profile *p = profile;
	size_t la, lb;
	const char *na, *nb;
	int d;

	library_name(p, *(const uint32_t *)a, &na, &la);
	library_name(p, *(const uint32_t *)b, &nb, &lb);
	d = memcmp(na, nb, la < lb ? la : lb);
	return d ? d : (la > lb) - (la < lb);
}

/* Modules of one name are one library. */
static int rank_libraries(struct view *v)
{
	size_t cnt = v->p->module_cnt;
	uint32_t *order = calloc(cnt + 1, sizeof(*order));

	v->library_of = calloc(cnt + 1, sizeof(*v->library_of));
	v->library_module = calloc(cnt + 1, sizeof(*v->library_module));
	v->libraries = calloc(cnt + VIEW_FIRST_LIBRARY + 1, sizeof(*v->libraries));
	if (!order || !v->library_of || !v->library_module || !v->libraries) {
		free(order);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < cnt; i++)
		order[i] = i;
	qsort_r(order, cnt, sizeof(*order), library_cmp, (void *)v->p);
	v->library_cnt = VIEW_FIRST_LIBRARY;
	for (size_t i = 0; i < cnt; i++) {
		if (!i || library_cmp(&order[i - 1], &order[i], (void *)v->p))
			v->library_module[v->library_cnt++ - VIEW_FIRST_LIBRARY] = order[i];
		v->library_of[order[i]] = v->library_cnt - 1;
	}
	free(order);
	return 0;
}

static const struct profile_module *module_of(const struct view *v, const struct sym *s)
{
	return s->module >= 0 && (size_t)s->module < v->p->module_cnt ? &v->p->modules[s->module]
								      : NULL;
}

/* The interpreter's own code, also where it is linked into another program. */
static bool is_interpreter_code(const struct view *v, const struct sym *s)
{
	const struct profile_module *m = module_of(v, s);
	const char *func = profile__str(v->p, s->func);

	if (s->kind != SYM_NATIVE)
		return false;
	if (m && origin_is_interpreter(profile__str(v->p, m->path)))
		return true;
	return !strncmp(func, "_PyEval_", 8) || !strncmp(func, "PyEval_", 7) ||
	       !strncmp(func, "_PyObject_", 10) || !strncmp(func, "PyObject_", 9);
}

static uint32_t library_of(const struct view *v, const struct sym *s)
{
	switch (s->kind) {
	case SYM_PYTHON:
		return VIEW_INTERPRETER;
	case SYM_KERNEL:
		return VIEW_KERNEL;
	case SYM_NATIVE:
		if (is_interpreter_code(v, s))
			return VIEW_INTERPRETER;
		return module_of(v, s) ? v->library_of[s->module] : VIEW_UNKNOWN;
	default:
		return VIEW_UNKNOWN;
	}
}

void view_add_library(struct strbuf *b, const struct view *v, uint32_t library)
{
	static const char *const names[VIEW_FIRST_LIBRARY] = {
		[VIEW_INTERPRETER] = "interpreter",
		[VIEW_COLLECTOR] = "garbage collection",
		[VIEW_KERNEL] = "kernel",
		[VIEW_UNKNOWN] = "unknown",
	};
	const char *name;
	size_t len;

	if (library < VIEW_FIRST_LIBRARY) {
		strbuf__addz(b, names[library]);
		return;
	}
	library_name(v->p, v->library_module[library - VIEW_FIRST_LIBRARY], &name, &len);
	str_sanitise(b, name, len, LIBRARY_NAME_MAX);
}

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

static bool ends_with(const char *s, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len >= n && !memcmp(s + len - n, end, n);
}

/* "method (mod.pyx)": a native function that Cython or mypyc made of a Python one. */
static bool is_compiled(const struct profile *p, const struct sym *s)
{
	const char *name = profile__str(p, s->func);
	size_t len = profile__str_len(p, s->func);

	return s->kind == SYM_NATIVE &&
	       (ends_with(name, len, ".pyx)") || ends_with(name, len, ".py)"));
}

/* The path that tells whose code a function is. */
static const char *home_of(const struct view *v, const struct sym *s)
{
	const struct profile_module *m = s->kind == SYM_NATIVE ? module_of(v, s) : NULL;

	return profile__str(v->p, m ? m->path : s->file);
}

static void describe_function(struct view *v, struct view_function *f)
{
	const struct sym *s = export_sym(v->p, f->sym);

	f->python = s->kind == SYM_PYTHON || s->kind == SYM_PLAIN || is_compiled(v->p, s);
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

/* What a stack is to be read as. */
struct reading {
	const uint32_t *elems; /* places */
	uint32_t cnt;
	uint64_t count;
	uint32_t python_end; /* behind the innermost Python function; 0: there is none */
	uint32_t
		/* without Python, the interpreter's function that is read; UINT32_MAX: none */
		main;
	uint32_t library; /* in which it ends */
	bool collecting;
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

	return origin_is_start(func) || (is_interpreter_code(v, s) && origin_is_main(func));
}

static struct reading read_stack(struct view *v, const struct flat_stack *s)
{
	struct reading r = { .elems = v->stacks.elems + s->first,
			     .cnt = s->cnt,
			     .count = s->count,
			     .python_end = s->cnt,
			     .main = UINT32_MAX,
			     .library = VIEW_UNKNOWN };

	while (r.python_end && !function_at(v, &r, r.python_end - 1)->python)
		r.python_end--;
	for (uint32_t i = 0; !r.python_end && i < r.cnt && r.main == UINT32_MAX; i++) {
		const struct sym *sym = sym_at(v, &r, i);

		if (is_interpreter_code(v, sym) && !is_begin(v, sym))
			r.main = i;
	}
	for (uint32_t i = r.python_end; i < r.cnt; i++) {
		const struct sym *sym = sym_at(v, &r, i);

		v->has_native |= sym->kind == SYM_NATIVE;
		r.collecting |= sym->kind == SYM_NATIVE &&
				origin_is_collector(profile__str(v->p, sym->func));
	}
	if (r.cnt)
		r.library = library_of(v, sym_at(v, &r, r.cnt - 1));
	if (r.collecting && r.library == VIEW_INTERPRETER)
		r.library = VIEW_COLLECTOR;
	return r;
}

static int add_part(struct view *v, uint32_t function, uint32_t library, uint64_t count)
{
	if (array_grow(&v->parts, &v->part_cap, v->part_cnt, 1, sizeof(*v->parts), INT_MAX))
		return -ENOMEM;
	v->parts[v->part_cnt++] = (struct view_part){ function, library, count };
	return 0;
}

/* Behind the element that the stack is own time of. */
static uint32_t own_end(const struct view *v, const struct reading *r)
{
	uint32_t end = r->cnt;

	if (r->python_end)
		return r->python_end;
	if (r->main != UINT32_MAX)
		return r->main + 1;
	while (end > 1 && sym_at(v, r, end - 1)->kind == SYM_KERNEL)
		end--;
	return sym_at(v, r, end - 1)->kind == SYM_NATIVE ? end : r->cnt;
}

/* Before the stack is reduced to what is read. */
static int count_view_stack(struct view *v, size_t index)
{
	struct reading r = read_stack(v, &v->stacks.stacks[index]);
	uint32_t stamp = (uint32_t)index + 1;
	struct view_place *own;

	v->libraries[r.library] += r.count;
	v->collecting += r.collecting ? r.count : 0;
	for (uint32_t i = 0; i < r.cnt; i++) {
		struct view_function *f = function_at(v, &r, i);

		f->total += f->seen == stamp ? 0 : r.count;
		f->seen = stamp;
	}
	if (!r.cnt)
		return 0;
	v->places[r.elems[r.cnt - 1]].self += r.count;
	function_at(v, &r, r.cnt - 1)->self += r.count;
	own = &v->places[r.elems[own_end(v, &r) - 1]];
	own->own += r.count;
	v->functions[own->function].own += r.count;
	return add_part(v, own->function, r.library, r.count);
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
	uint32_t end = own_end(v, r);

	if (s->kind ==
	    SYM_MARKER) /* that the outermost frames are missing explains where a stack starts */
		return !i || i == end - 1;
	if (r->python_end)
		return f->python && (i == end - 1 || !is_import(v, s));
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

/* In place. A function that calls itself directly is one element. */
static int reduce_stack(struct view *v, struct flat_stack *s)
{
	struct reading r = read_stack(v, s);
	uint32_t *elems = v->stacks.elems + s->first;
	bool *keep = calloc(r.cnt + 1, sizeof(*keep));
	uint32_t kept = 0;

	if (!keep)
		return -ENOMEM;
	s->key = find_view_import(v, &r);
	for (uint32_t i = 0; i < r.cnt; i++)
		keep[i] = is_read(v, &r, i);
	for (uint32_t i = 0; i < r.cnt; i++) {
		uint32_t elem = elems[i];

		if (!keep[i])
			continue;
		if (kept && (v->places[elems[kept - 1]].function == v->places[elem].function ||
			     kept == VIEW_DEPTH_MAX))
			kept--;
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

const char *view_package(const struct view *v, uint32_t function, size_t *len)
{
	const struct view_function *f = &v->functions[function];
	const struct sym *s = export_sym(v->p, f->sym);
	const char *name = "unknown";

	if (f->python)
		return origin_package(home_of(v, s), len);
	if (module_of(v, s))
		library_name(v->p, (uint32_t)s->module, &name, len);
	else
		*len = strlen(name);
	return name;
}

static bool in_package(const struct view *v, uint32_t function, const char *name, size_t len)
{
	size_t n;
	const char *package = view_package(v, function, &n);

	return n == len && !memcmp(package, name, len);
}

/* The package of most samples among those that stand outermost in a stack. */
static const struct view_function *outermost_package(const struct view *v)
{
	const struct view_function *best = NULL;

	for (size_t i = 0; i < v->stacks.cnt; i++) {
		struct reading r = { .elems = v->stacks.elems + v->stacks.stacks[i].first,
				     .cnt = v->stacks.stacks[i].cnt };

		for (uint32_t at = 0; at < r.cnt; at++) {
			const struct view_function *f = function_at(v, &r, at);

			if (!f->python || f->origin != ORIGIN_PACKAGE)
				continue;
			best = !best || f->total > best->total ? f : best;
			break;
		}
	}
	return best;
}

static bool has_own_code(const struct view *v)
{
	for (uint32_t i = 0; i < v->functions_of.cnt; i++)
		if (v->functions[i].total && v->functions[i].python &&
		    v->functions[i].origin == ORIGIN_OWN)
			return true;
	return false;
}

/* A program that is itself an installed package. */
static void promote_package(struct view *v)
{
	const struct view_function *f = has_own_code(v) ? NULL : outermost_package(v);

	if (!f)
		return;
	v->promoted = origin_package(home_of(v, export_sym(v->p, f->sym)), &v->promoted_len);
	for (uint32_t i = 0; i < v->functions_of.cnt; i++)
		if (v->functions[i].python && v->functions[i].origin == ORIGIN_PACKAGE &&
		    in_package(v, i, v->promoted, v->promoted_len))
			v->functions[i].muted = false;
}

/* Each stack is charged to its innermost function of own code. */
static void charge_stack(struct view *v, const struct flat_stack *s)
{
	for (uint32_t i = s->cnt; i--;) {
		struct view_place *pl = &v->places[v->stacks.elems[s->first + i]];

		if (v->functions[pl->function].muted)
			continue;
		pl->charged += s->count;
		v->functions[pl->function].charged += s->count;
		return;
	}
}

/* Of lines that are equally hot, the first one. */
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
		/* Sorted: what the first and the last have in common, all have. */
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
	const char *path = profile__str(v->p, s->file);

	/* A name with a NUL is no path: the part in front of it would name another file. */
	if (s->kind == SYM_NATIVE && !*path && origin_in_site(home_of(v, s)))
		path = home_of(v, s);
	else if (!f->python || !*path || strlen(path) != profile__str_len(v->p, s->file)) {
		text_add_place(b, v->p, s, line);
		return;
	}
	path = f->origin == ORIGIN_OWN ? path + f->root_len : origin_relative(path);
	str_sanitise(b, path, strlen(path), TEXT_PATH_MAX);
	if (line)
		strbuf__addf(b, ":%" PRIu32, line);
}

/* ---- Numbers ---- */

unsigned view_error_points(const struct view *v)
{
	/* Of a share of one half, which varies most: 1.96 standard deviations. */
	return v->samples && v->samples < FEW_SAMPLES
		       ? (unsigned)ceil(98 / sqrt((double)v->samples))
		       : 0;
}

void view_add_percent(struct strbuf *b, const struct view *v, uint64_t count)
{
	strbuf__addf(b, "%.*f%%", v->samples < FEW_SAMPLES ? 0 : 1, text_percent(count, v->total));
}

void view_add_parts(struct strbuf *b, const struct view *v, uint32_t function)
{
	const struct view_function *f = &v->functions[function];

	for (size_t i = 0; v->has_native && i < f->part_cnt && i < PARTS_SHOWN; i++) {
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

	*v = (struct view){ .p = p, .total = profile__total(p), .samples = profile__samples(p) };
	err = rank_libraries(v);
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
