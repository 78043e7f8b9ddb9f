/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "profile/export_text.h"
#include "profile/loops.h"
#include "profile/view.h"
#include "profile/view_speech.h"

#define SENTENCES_MAX  3
#define STANDS_OUT     20 /* percent: less is one function among many */
#define IMPORTS_MIN    10
#define LIBRARY_MIN    10
#define COLLECTOR_MIN  5
#define SAME_SHARE     3 /* points: shares that differ by less are one for a person */
#define BLOCKED_MIN    1 /* of the time of the profile, of an event loop */
/* The share of a function's samples that a call must have to be its cause. */
#define STEP_PERCENT   80
#define PATH_SHOWN     3
#define PATH_MAX_STEPS 64

bool speech__begin(struct speech *s)
{
	if (s->cnt == s->room)
		return false;
	strbuf__addz(s->b, s->cnt++ ? "\n" : "");
	return true;
}

void speech__add_share(const struct speech *s, uint64_t count)
{
	strbuf__addf(s->b, "%.0f%%", text_percent(count, s->v->total));
}

bool view_is_share(const struct view *v, uint64_t count, unsigned percent)
{
	return count && text_percent(count, v->total) >= percent;
}

/* Not by integers: a hundred times the nanoseconds of six years are too many for 64 bits. */
static bool is_nearly_all(uint64_t count, uint64_t all)
{
	return text_percent(count, all) >= STEP_PERCENT;
}

/* "of the CPU time", "of the page faults" */
static void add_whole(const struct speech *s)
{
	strbuf__addf(s->b, " of the %s", value_type__whole(&s->v->p->stats.values[0]));
}

static void say_function(const struct speech *s, uint32_t function)
{
	const struct sym *sym = export_sym(s->v->p, s->v->functions[function].sym);

	text_add_func(s->b, s->v->p, sym, "code without a name");
}

static bool is_compiled_function(const struct view *v, uint32_t function)
{
	const struct view_function *f = &v->functions[function];

	return f->python && export_sym(v->p, f->sym)->kind == SYM_NATIVE;
}

static void say_place(const struct speech *s, uint32_t function, uint32_t line)
{
	size_t before = s->b->len;

	if (!line && is_compiled_function(s->v, function)) /* its name says it */
		return;
	strbuf__addz(s->b, " (");
	view_add_place(s->b, s->v, function, line);
	if (s->b->len == before + 2) /* it has none */
		strbuf__cut(s->b, before);
	else
		strbuf__addc(s->b, ')');
}

/* ---- The function of the application that has the most time ---- */

static uint32_t function_in(const struct view *v, const struct flat_stack *s, uint32_t depth)
{
	return v->places[v->stacks.elems[s->first + depth]].function;
}

/* Calls that nearly all of some samples go through. */
struct route {
	uint32_t steps[PATH_MAX_STEPS];
	uint32_t cnt;
	uint64_t count; /* of all steps */
};

/* The calls out of a function that nearly all of its samples go through. */
struct path {
	uint32_t function, line;
	bool one_line; /* only the samples at `line` are meant */
	struct route out;
	uint64_t charged;   /* of the function; 0: no own code is on the stacks */
	uint64_t imported;  /* ... of it below an import */
	uint64_t count;	    /* of all steps */
	struct route inner; /* behind them, the call that has most of these samples */
};

static bool is_called(const struct view *v, uint32_t function, const char *name)
{
	const struct sym *s = export_sym(v->p, v->functions[function].sym);

	return !strcmp(profile__str(v->p, s->func), name);
}

/*
 * The function of own code that most samples are charged to. The code of a module is as many
 * functions as it has lines, because its name tells nothing.
 */
static void find_charged(const struct view *v, struct path *path)
{
	for (uint32_t i = 0; i < v->places_of.cnt; i++) {
		const struct view_place *pl = &v->places[i];
		const struct view_function *f = &v->functions[pl->function];
		bool one_line = is_called(v, pl->function, "<module>");
		uint64_t count = one_line ? pl->charged : f->charged;

		if (count <= path->charged)
			continue;
		path->charged = path->count = count;
		path->function = pl->function;
		path->line = one_line ? pl->line : f->charged_line;
		path->one_line = one_line;
	}
}

static bool is_import_code(const struct view *v, uint32_t function)
{
	const struct sym *sym = export_sym(v->p, v->functions[function].sym);

	return origin_is_import(profile__str(v->p, sym->file));
}

/*
 * Replaces it by the function in which more stacks without own code end, if there is one. CPython's
 * own code of imports is none: what they take has a sentence of its own.
 */
static int find_elsewhere(const struct view *v, struct path *path)
{
	uint64_t *ends = calloc(v->functions_of.cnt + 1, sizeof(*ends));

	if (!ends)
		return -ENOMEM;
	for (size_t i = 0; i < v->stacks.cnt; i++) {
		const struct flat_stack *s = &v->stacks.stacks[i];

		if (s->cnt && !view_own_depth(v, s))
			ends[function_in(v, s, s->cnt - 1)] += s->count;
	}
	for (uint32_t i = 0; i < v->functions_of.cnt; i++)
		if (ends[i] > path->count && !is_import_code(v, i))
			*path = (struct path){ .function = i,
					       .line = v->functions[i].own_line,
					       .count = ends[i] };
	free(ends);
	return 0;
}

/* The positions at which the samples of a function leave it: stacks, and depths in them. */
struct leaving {
	size_t *stacks;
	uint32_t *depths;
	size_t cnt;
	uint64_t *weights; /* by function or place, all 0 between uses */
};

/* The stacks that are charged to the function of the path. */
static void find_leaving(const struct view *v, struct path *path, struct leaving *l)
{
	for (size_t i = 0; i < v->stacks.cnt; i++) {
		const struct flat_stack *s = &v->stacks.stacks[i];
		uint32_t depth = view_own_depth(v, s);
		const struct view_place *pl;

		if (!depth)
			continue;
		pl = &v->places[v->stacks.elems[s->first + depth - 1]];
		if (pl->function != path->function || (path->one_line && pl->line != path->line))
			continue;
		path->imported += VIEW_IMPORT(s->key) != VIEW_NO_IMPORT ? s->count : 0;
		l->stacks[l->cnt] = i;
		l->depths[l->cnt++] = depth;
	}
}

/* The heaviest call at `step` behind the function; UINT32_MAX: none. */
static uint32_t heaviest_step(const struct view *v, const struct leaving *l, uint32_t step,
			      uint64_t *count)
{
	uint32_t best = UINT32_MAX;

	*count = 0;
	for (size_t i = 0; i < l->cnt; i++) {
		const struct flat_stack *s = &v->stacks.stacks[l->stacks[i]];

		if (l->depths[i] + step < s->cnt)
			l->weights[function_in(v, s, l->depths[i] + step)] += s->count;
	}
	for (size_t i = 0; i < l->cnt; i++) {
		const struct flat_stack *s = &v->stacks.stacks[l->stacks[i]];
		uint32_t f;

		if (l->depths[i] + step >= s->cnt)
			continue;
		f = function_in(v, s, l->depths[i] + step);
		if (l->weights[f] > *count) {
			*count = l->weights[f];
			best = f;
		}
		l->weights[f] = 0;
	}
	return best;
}

static void keep_step(const struct view *v, struct leaving *l, uint32_t step, uint32_t function)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->cnt; i++) {
		const struct flat_stack *s = &v->stacks.stacks[l->stacks[i]];

		if (l->depths[i] + step >= s->cnt ||
		    function_in(v, s, l->depths[i] + step) != function)
			continue;
		l->stacks[kept] = l->stacks[i];
		l->depths[kept++] = l->depths[i];
	}
	l->cnt = kept;
}

/* The calls from *step on that nearly all of `all` samples of a function go through. */
static void follow(const struct view *v, struct leaving *l, uint32_t function, uint64_t all,
		   uint32_t *step, struct route *r)
{
	for (; r->cnt < PATH_MAX_STEPS; ++*step) {
		uint64_t count;
		uint32_t f = heaviest_step(v, l, *step, &count);

		if (f == UINT32_MAX || !is_nearly_all(count, all))
			return;
		keep_step(v, l, *step, f);
		if (view_has_expression(v, function, f)) /* it is there already */
			continue;
		r->steps[r->cnt++] = f;
		r->count = count;
	}
}

/* Where a path forks, the branch that has most of it. */
static void follow_most(const struct view *v, struct leaving *l, struct path *path, uint32_t step)
{
	uint64_t most;

	if (heaviest_step(v, l, step, &most) != UINT32_MAX && most * 2 > path->count &&
	    view_is_share(v, most, STANDS_OUT))
		follow(v, l, path->function, most, &step, &path->inner);
}

static void follow_own(const struct view *v, struct leaving *l, struct path *path)
{
	uint32_t step = 0;

	l->cnt = 0;
	find_leaving(v, path, l);
	follow(v, l, path->function, path->charged, &step, &path->out);
	path->count = path->out.cnt ? path->out.count : path->count;
	follow_most(v, l, path, step);
}

/* ---- Without own code ---- */

/* All threads begin in threading.py, and markers are no code: what is called there counts. */
static uint32_t first_call(const struct view *v, const struct flat_stack *s)
{
	uint32_t first = s->cnt;

	for (uint32_t depth = s->cnt; depth--;) {
		const struct view_function *f = &v->functions[function_in(v, s, depth)];

		if (export_sym(v->p, f->sym)->kind == SYM_MARKER)
			continue;
		if (f->python && f->origin == ORIGIN_STDLIB && first < s->cnt)
			continue;
		first = depth;
	}
	return first;
}

/* Stacks without own code. What imports take has a sentence of its own. */
static void find_others(const struct view *v, struct leaving *l)
{
	l->cnt = 0;
	for (size_t i = 0; i < v->stacks.cnt; i++) {
		const struct flat_stack *s = &v->stacks.stacks[i];

		if (view_own_depth(v, s) || VIEW_IMPORT(s->key) != VIEW_NO_IMPORT)
			continue;
		l->stacks[l->cnt] = i;
		l->depths[l->cnt++] = first_call(v, s);
	}
}

static uint32_t heaviest_line(const struct view *v, const struct leaving *l, uint32_t step)
{
	uint64_t most = 0;
	uint32_t line = 0;

	for (int clear = 0; clear < 2; clear++) {
		for (size_t i = 0; i < l->cnt; i++) {
			const struct flat_stack *s = &v->stacks.stacks[l->stacks[i]];
			uint32_t place = v->stacks.elems[s->first + l->depths[i] + step];

			l->weights[place] = clear ? 0 : l->weights[place] + s->count;
			if (l->weights[place] > most) {
				most = l->weights[place];
				line = v->places[place].line;
			}
		}
	}
	return line;
}

/*
 * Goes down from where these stacks begin as long as one call has nearly all. Replaces the path if
 * that is more: the first sentence is about the profile, whoever wrote the code.
 */
static void follow_others(const struct view *v, struct leaving *l, struct path *path)
{
	uint32_t at = UINT32_MAX, step;
	uint64_t all = 0;

	find_others(v, l);
	for (step = 0;; step++) { /* no stack is endless */
		uint64_t count;
		uint32_t f = heaviest_step(v, l, step, &count);

		if (f == UINT32_MAX || (step && !is_nearly_all(count, all)))
			break;
		keep_step(v, l, step, f);
		at = f;
		all = count;
	}
	if (all <= path->count)
		return;
	*path = (struct path){ .function = at, .count = all };
	path->line = heaviest_line(v, l, step - 1);
	follow_most(v, l, path, step);
}

/* 0 or -ENOMEM; path->function is UINT32_MAX when there is none. */
static int find_path(const struct view *v, struct path *path)
{
	struct leaving l = { 0 };
	int err;

	*path = (struct path){ .function = UINT32_MAX };
	find_charged(v, path);
	err = find_elsewhere(v, path);
	if (err)
		return err;
	err = -ENOMEM;
	l.stacks = calloc(v->stacks.cnt + 1, sizeof(*l.stacks));
	l.depths = calloc(v->stacks.cnt + 1, sizeof(*l.depths));
	l.weights = calloc(v->places_of.cnt + 1, sizeof(*l.weights));
	if (l.stacks && l.depths && l.weights) {
		follow_others(v, &l, path);
		if (path->charged)
			follow_own(v, &l, path);
		err = 0;
	}
	free(l.stacks);
	free(l.depths);
	free(l.weights);
	return err;
}

/* Do two shares look like one? */
static bool is_same_share(const struct speech *s, uint64_t a, uint64_t b)
{
	return text_percent(a > b ? a - b : b - a, s->v->total) < SAME_SHARE;
}

/*
 * ", in libcrypto", ", 60% in libcrypto": nearly all own time of the path's last function. That
 * compiled code is where it is need not be said.
 */
static void add_path_library(struct speech *s, const struct path *path)
{
	const struct route *out = &path->out;
	uint32_t last = out->cnt ? out->steps[out->cnt - 1] : path->function;
	const struct view_function *f = &s->v->functions[last];
	const struct view_part *part = &s->v->parts[f->first_part];
	const struct sym *sym = export_sym(s->v->p, f->sym);

	if (!path->charged || !s->v->has_native || !f->part_cnt ||
	    part->library < VIEW_FIRST_LIBRARY || part->library & VIEW_WAIT ||
	    !is_nearly_all(part->count, path->count))
		return;
	if (sym->kind == SYM_NATIVE && sym->module >= 0 &&
	    s->v->library_of[sym->module] == part->library)
		return;
	s->library = part->library;
	s->library_count = part->count < path->count ? part->count : path->count;
	strbuf__addz(s->b, ", ");
	if (!is_same_share(s, s->library_count, path->count)) {
		speech__add_share(s, s->library_count);
		strbuf__addc(s->b, ' ');
	}
	strbuf__addz(s->b, "in ");
	view_add_library(s->b, s->v, part->library);
}

/* " -> get -> ... -> connect"; of a route that nothing stands before: "get -> ..." */
static void say_steps(struct speech *s, const struct route *r, bool behind)
{
	for (uint32_t i = 0; i < r->cnt; i++) {
		if (r->cnt > PATH_SHOWN && i == 1) {
			strbuf__addz(s->b, " -> ...");
			i = r->cnt - 2;
			continue;
		}
		strbuf__addz(s->b, i || behind ? " -> " : "");
		say_function(s, r->steps[i]);
	}
}

/* "price (app.py:12) -> get -> ... -> connect, in _ssl" */
static void tell_functions(struct speech *s, const struct path *path)
{
	say_function(s, path->function);
	say_place(s, path->function, path->line);
	say_steps(s, &path->out, true);
	add_path_library(s, path);
}

int view_add_path(struct strbuf *b, const struct view *v)
{
	struct speech s = { .v = v, .b = b };
	struct path path;
	int err = find_path(v, &path);

	if (!err && path.function != UINT32_MAX)
		tell_functions(&s, &path);
	return err;
}

/* Does the interpreter end here? It collects garbage and frees its modules. */
static bool is_end(const struct view *v, uint32_t function)
{
	const struct sym *sym = export_sym(v->p, v->functions[function].sym);

	return sym->kind == SYM_NATIVE && origin_is_end(profile__str(v->p, sym->func));
}

/*
 * The share is of the function and others' code that it calls; the call tree's has its calls of own
 * code, too. Where that is another number, both are said.
 */
static void add_tree_share(struct speech *s, const struct path *path)
{
	uint64_t all = s->v->functions[path->function].total;

	if (!path->charged || path->one_line || path->out.cnt ||
	    text_percent(all - path->count, s->v->total) < SAME_SHARE)
		return;
	strbuf__addz(s->b, ", ");
	speech__add_share(s, all);
	strbuf__addz(s->b, " with the own code that it calls");
}

static void say_path(struct speech *s, const struct path *path)
{
	bool stands_out = view_is_share(s->v, path->count, STANDS_OUT);

	if (path->function == UINT32_MAX || !speech__begin(s))
		return;
	if (!stands_out)
		strbuf__addz(s->b, "No function stands out: the most, ");
	speech__add_share(s, path->count);
	add_whole(s);
	strbuf__addf(s->b, "%s %s ", stands_out ? "" : ",",
		     value_type__is_plural(&s->v->p->stats.values[0]) ? "are" : "is");
	if (is_end(s->v, path->function)) {
		strbuf__addz(s->b, "the end of the interpreter (");
		say_function(s, path->function);
		strbuf__addz(s->b, ").");
		return;
	}
	strbuf__addz(s->b, "in ");
	tell_functions(s, path);
	if (stands_out)
		add_tree_share(s, path);
	if (stands_out && path->inner.cnt) {
		strbuf__addz(s->b, ", ");
		speech__add_share(s, path->inner.count);
		strbuf__addz(s->b, " in ");
		say_steps(s, &path->inner, false);
		strbuf__addz(s->b, ", called there");
	}
	strbuf__addc(s->b, '.');
}

/* Says what threads waited for, which tells more than where they were. */
static int say_causes(struct speech *s)
{
	struct strbuf causes = { 0 };
	int err = view_add_causes(&causes, s->v);

	if (!err && causes.len && speech__begin(s))
		strbuf__add(s->b, causes.s, causes.len);
	strbuf__free(&causes);
	return err;
}

/* ---- Event loops ---- */

static void add_blocked(struct speech *s, const struct loops *l, const struct path *path)
{
	const struct value_type *t = &s->v->p->stats.values[0];
	double seconds = value_type__seconds(t, l->count);
	double mean = l->samples ? seconds / (double)l->samples : 0;

	strbuf__addf(s->b, "The event loop was blocked for %.2f s", seconds);
	/* Shorter waits than the time between two samples are drawn: their number is not known. */
	if (t->rate_hz && mean * t->rate_hz > 1.5)
		strbuf__addf(s->b, " (%" PRIu64 " x %.0f ms)", l->samples, 1e3 * mean);
	if (path->function != UINT32_MAX) {
		strbuf__addf(s->b, ", %s", path->count < l->count ? "most in " : "in ");
		tell_functions(s, path);
	}
	strbuf__addc(s->b, '.');
}

/* Of iterations of LOOP_SLOW_NS and more, whether they waited or ran. 0 or -ENOMEM. */
static int add_slow(struct strbuf *b, const struct profile *p, const struct loops_slow *slow)
{
	const struct profile_stretch *s = slow->longest, *sampled = slow->sampled;
	int err = 0;

	strbuf__addf(b, "The event loop was %s %" PRIu64 " time%s for %u ms or more, ",
		     sampled && loops_blocks(p, sampled) ? "blocked" : "busy", slow->cnt,
		     slow->cnt == 1 ? "" : "s", (unsigned)(LOOP_SLOW_NS / NS_PER_MS));
	if (slow->cnt > 1)
		strbuf__addf(b, "%.2f s in all, the longest ", (double)slow->ns / NS_PER_S);
	strbuf__addf(b, "%.0f ms", (double)s->ns / NS_PER_MS);
	if (sampled && sampled != s)
		strbuf__addf(b, ", one of %.0f ms", (double)sampled->ns / NS_PER_MS);
	if (sampled) {
		strbuf__addz(b, sampled == s ? ", in " : " in ");
		err = loops_add_path(b, p, sampled);
	}
	strbuf__addc(b, '.');
	return err;
}

static bool is_worth_telling(const struct profile *p, double seconds)
{
	return seconds * 100 * NS_PER_S >= BLOCKED_MIN * (double)p->stats.duration_ns;
}

/* All that blocked the loop, however short each was. */
static int say_blocked(struct speech *s, const struct loops *l)
{
	struct speech said = { .b = s->b };
	struct view view = { 0 };
	struct path path;
	int err = view__init(&view, l->blocked, s->v->lines);

	if (!err)
		err = find_path(&view, &path);
	if (!err && speech__begin(s)) {
		said.v = &view;
		add_blocked(&said, l, &path);
	}
	view__free(&view);
	return err;
}

/*
 * The synchronous call that holds up all coroutines of a loop is what people look for. Long
 * iterations say more, if they are most of it.
 */
static int say_blocked_loop(struct speech *s)
{
	const struct profile *p = s->v->p;
	struct loops_slow slow;
	struct loops l;
	double blocked, slow_s;
	int err = loops__init(&l, p);

	if (err)
		return err;
	loops_find_slow(p, &slow);
	slow_s = (double)slow.ns / NS_PER_S;
	blocked = l.blocked ? value_type__seconds(&p->stats.values[0], l.count) : 0;
	if (slow.longest && is_worth_telling(p, slow_s) && 2 * slow_s >= blocked) {
		if (speech__begin(s))
			err = add_slow(s->b, p, &slow);
	} else if (l.blocked && is_worth_telling(p, blocked)) {
		err = say_blocked(s, &l);
	}
	loops__free(&l, p);
	return err;
}

/* What requests wait for while the loop's thread waits in its poll. */
static int say_tasks(struct speech *s)
{
	struct strbuf b = { 0 };
	uint32_t event = s->v->p->stats.values[0].event;
	int err = event == EVENT_WALL || event == EVENT_OFF_CPU ? loops_add_tasks(&b, s->v->p) : 0;

	if (!err && b.len && speech__begin(s))
		strbuf__add(s->b, b.s, b.len);
	err = err ? err : b.err;
	strbuf__free(&b);
	return err;
}

/* ---- Imports ---- */

struct imports {
	uint64_t *by_function; /* samples below the <module> that was imported outermost */
	uint64_t total;
	uint32_t module; /* the function of most of them; UINT32_MAX: not known */
	uint64_t count;	 /* of its package */
};

static bool of_package(const struct view *v, uint32_t a, uint32_t b)
{
	size_t la, lb;
	const char *pa = view_package(v, a, &la), *pb = view_package(v, b, &lb);

	return la == lb && !memcmp(pa, pb, la);
}

static int find_imports(const struct view *v, struct imports *im)
{
	*im = (struct imports){ .module = UINT32_MAX };
	im->by_function = calloc(v->functions_of.cnt + 1, sizeof(*im->by_function));
	if (!im->by_function)
		return -ENOMEM;
	for (size_t i = 0; i < v->stacks.cnt; i++) {
		const struct flat_stack *s = &v->stacks.stacks[i];

		uint32_t import = VIEW_IMPORT(s->key);

		im->total += import != VIEW_NO_IMPORT ? s->count : 0;
		if (import >= VIEW_FIRST_MODULE)
			im->by_function[import - VIEW_FIRST_MODULE] += s->count;
	}
	for (uint32_t i = 0; i < v->functions_of.cnt; i++)
		if (im->by_function[i] &&
		    (im->module == UINT32_MAX || im->by_function[i] > im->by_function[im->module]))
			im->module = i;
	for (uint32_t i = 0; i < v->functions_of.cnt && im->module != UINT32_MAX; i++)
		if (im->by_function[i] && of_package(v, i, im->module))
			im->count += im->by_function[i];
	free(im->by_function);
	im->by_function = NULL;
	return 0;
}

/* The path is the import itself: to say it twice tells nothing. */
static bool is_import_path(const struct path *path)
{
	return is_nearly_all(path->imported, path->charged);
}

/* `at`: the code that imports, or NULL. */
static void say_imports(struct speech *s, const struct imports *im, const struct path *at)
{
	bool one = is_nearly_all(im->count, im->total);
	bool most = im->count * 2 > im->total;
	const char *name;
	size_t len;

	if (!view_is_share(s->v, im->total, IMPORTS_MIN) || !speech__begin(s))
		return;
	speech__add_share(s, one ? im->count : im->total);
	add_whole(s);
	strbuf__addz(s->b, value_type__is_plural(&s->v->p->stats.values[0])
				   ? " happen while importing "
				   : " is importing ");
	strbuf__addz(s->b, one ? "" : "modules");
	if (im->module != UINT32_MAX) {
		strbuf__addz(s->b, one ? "" : most ? ", most of it " : "; ");
		name = view_package(s->v, im->module, &len);
		str_sanitise(s->b, name, len, TEXT_NAME_MAX);
	}
	if (im->module != UINT32_MAX && !most) {
		strbuf__addz(s->b, " has the most, ");
		speech__add_share(s, im->count);
	}
	if (at)
		say_place(s, at->function, at->line);
	strbuf__addc(s->b, '.');
}

/* ---- What kind of code ---- */

/* "46% is in garbage collection", then ", 20% in libcrypto" */
static void add_kind(struct speech *s, unsigned *cnt, uint64_t count, unsigned least,
		     const char *text)
{
	if (!view_is_share(s->v, count, least) || (!*cnt && !speech__begin(s)))
		return;
	strbuf__addz(s->b, *cnt ? ", " : "");
	speech__add_share(s, count);
	strbuf__addf(s->b, " %sin %s", (*cnt)++ ? "" : "is ", text);
}

/*
 * Calls of malloc() all end in the C library, hits of a probe where it is, hits of tracepoints in
 * the kernel.
 */
static bool is_by_definition(const struct view *v, uint64_t count)
{
	return count == v->total && !value_type__is_clock(&v->p->stats.values[0]);
}

/* A sentence said so already, with a share that is as good as this one. */
static bool is_said(const struct speech *s, uint32_t library)
{
	return library == s->library &&
	       is_same_share(s, s->v->libraries[library], s->library_count);
}

static void say_kinds(struct speech *s)
{
	const struct view *v = s->v;
	struct strbuf name = { 0 };
	uint32_t top = VIEW_FIRST_LIBRARY;
	unsigned cnt = 0;

	if (!v->has_native)
		return;
	for (uint32_t i = VIEW_FIRST_LIBRARY; i < v->library_cnt; i++)
		if (v->libraries[i] > v->libraries[top])
			top = i;
	/* Python's own code is in the interpreter: of that only what is special tells something. */
	add_kind(s, &cnt, v->special[VIEW_COLLECTOR], COLLECTOR_MIN, "garbage collection");
	add_kind(s, &cnt, v->special[VIEW_REGEX], LIBRARY_MIN, "regular expressions");
	add_kind(s, &cnt, v->special[VIEW_SORTING], LIBRARY_MIN, "sorting");
	if (top < v->library_cnt && !is_by_definition(v, v->libraries[top]) && !is_said(s, top)) {
		view_add_library(&name, v, top);
		add_kind(s, &cnt, v->libraries[top], LIBRARY_MIN, name.err ? "" : name.s);
	}
	add_kind(s, &cnt, v->libraries[VIEW_GENERATED], LIBRARY_MIN, "generated code");
	if (!is_by_definition(v, v->libraries[VIEW_KERNEL]))
		add_kind(s, &cnt, v->libraries[VIEW_KERNEL], LIBRARY_MIN, "the kernel");
	s->b->err = s->b->err ? s->b->err : name.err;
	strbuf__free(&name);
	if (cnt)
		strbuf__addc(s->b, '.');
}

/* ---- All of it ---- */

int view_add_sentences(struct strbuf *b, const struct view *v)
{
	unsigned points = view_error_points(v);
	struct speech s = { .v = v,
			    .b = b,
			    .room = points ? SENTENCES_MAX - 1 : SENTENCES_MAX,
			    .library = VIEW_UNKNOWN };
	struct imports im;
	struct path path;
	bool imports, starved, idle;
	int err;

	if (!v->total)
		return 0;
	err = find_path(v, &path);
	if (!err)
		err = find_imports(v, &im);
	if (err)
		return err;
	err = say_blocked_loop(&s);
	if (!err)
		err = say_tasks(&s);
	if (err)
		return err;
	imports = view_is_share(v, im.total, MOST_MIN);
	if (imports)
		say_imports(&s, &im, is_import_path(&path) ? &path : NULL);
	if (view_has_causes(v))
		err = say_causes(&s);
	else if (!imports || !is_import_path(&path))
		say_path(&s, &path);
	if (err)
		return err;
	idle = speech__was_idle(&s);
	starved = idle || speech__was_starved(&s);
	if (starved)
		err = speech__say_who(&s);
	if (!imports)
		say_imports(&s, &im, NULL);
	say_kinds(&s);
	if (!starved)
		err = speech__say_who(&s);
	s.room = SENTENCES_MAX;
	if (points && speech__begin(&s))
		strbuf__addf(b, "Few samples: +-%u points; %s", points,
			     idle ? "-e wall shows what it waits for." : "use -d or -F for more.");
	return err ? err : b->err;
}
