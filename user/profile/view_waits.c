/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/export_text.h"
#include "profile/view.h"
#include "profile/waits.h"

#define CAUSES_MAX  5
#define CAUSE_LEAST 3 /* percent: less is not worth a line */
#define WAITS_LEAST 5 /* percent: with less, the time is that of code that runs */
#define REASON_MAX  60
#define MIXED	    UINT32_MAX

/*
 * Time of one reason in one function of own code; of stacks without any, in the innermost function
 * of an installed package, or else where they end.
 */
struct cause {
	uint32_t function, reason; /* reason: see VIEW_REASON() */
	uint32_t line;		   /* the one with the most time */
	uint32_t last;		   /* function in which the stacks end; MIXED: in several */
	bool deep;		   /* other functions are between both */
	uint64_t count, line_count;
};

bool view_has_causes(const struct view *v)
{
	uint32_t event = v->p->stats.values[0].event;

	return (event == EVENT_WALL || event == EVENT_OFF_CPU) && v->total &&
	       text_percent(v->libraries[VIEW_WAITING], v->total) >= WAITS_LEAST;
}

static const char *function_name(const struct view *v, uint32_t function)
{
	return profile__str(v->p, export_sym(v->p, v->functions[function].sym)->func);
}

/*
 * Where the function is that a person knows something about. That a stack ends in threading.py says
 * little: a package's function above it says whose lock it is.
 */
static uint32_t place_of(const struct view *v, const struct flat_stack *s)
{
	uint32_t depth = view_own_depth(v, s);

	for (uint32_t i = depth ? 0 : s->cnt; i-- > 0;) {
		const struct view_function *f =
			&v->functions[v->places[v->stacks.elems[s->first + i]].function];

		if (f->python && f->origin == ORIGIN_PACKAGE)
			return i;
	}
	return depth ? depth - 1 : s->cnt - 1;
}

/* The cause of a stack, which has at least one element. */
static struct cause cause_of(const struct view *v, const struct flat_stack *s)
{
	uint32_t at = place_of(v, s);
	const struct view_place *pl = &v->places[v->stacks.elems[s->first + at]];

	return (struct cause){
		.function = pl->function,
		.reason = VIEW_REASON(s->key),
		.line = pl->line,
		.last = v->places[v->stacks.elems[s->first + s->cnt - 1]].function,
		.deep = at + 2 < s->cnt,
		.count = s->count,
		.line_count = s->count,
	};
}

static int compare(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int by_place(const void *a, const void *b)
{
	const struct cause *ca = a, *cb = b;
	int d = compare(ca->function, cb->function);

	d = d ? d : compare(ca->reason, cb->reason);
	return d ? d : compare(ca->line, cb->line);
}

static int by_count(const void *a, const void *b)
{
	const struct cause *ca = a, *cb = b;
	int d = compare(cb->count, ca->count);

	return d ? d : by_place(a, b);
}

static void add_cause(struct cause *to, const struct cause *c)
{
	to->count += c->count;
	to->deep |= c->deep;
	if (to->last != c->last)
		to->last = MIXED;
	if (c->line_count > to->line_count) {
		to->line_count = c->line_count;
		to->line = c->line;
	}
}

/* The code of a module is as many functions as it has lines: its name tells nothing. */
static bool is_same(const struct view *v, const struct cause *a, const struct cause *b)
{
	return a->function == b->function && a->reason == b->reason &&
	       (a->line == b->line || strcmp(function_name(v, a->function), "<module>") != 0);
}

/* First stacks at one line, then lines of one function. The new number of causes. */
static size_t merge_causes(const struct view *v, struct cause *c, size_t cnt)
{
	size_t lines = 0, kept = 0;

	if (cnt)
		qsort(c, cnt, sizeof(*c), by_place);
	for (size_t i = 0; i < cnt; i++) {
		if (lines && !by_place(&c[lines - 1], &c[i])) {
			add_cause(&c[lines - 1], &c[i]);
			c[lines - 1].line_count = c[lines - 1].count;
		} else {
			c[lines++] = c[i];
		}
	}
	for (size_t i = 0; i < lines; i++) {
		if (kept && is_same(v, &c[kept - 1], &c[i]))
			add_cause(&c[kept - 1], &c[i]);
		else
			c[kept++] = c[i];
	}
	if (kept)
		qsort(c, kept, sizeof(*c), by_count);
	return kept;
}

/* "a lock", "the network"; what has no other name is called as it is. */
static void add_reason(struct strbuf *b, const char *name, size_t len)
{
	static const struct {
		const char *name, *text;
	} texts[] = {
		{ "CPU", "waiting for a CPU" }, { "GIL", "the GIL" },
		{ "accept", "a connection" },	{ "child process", "a child process" },
		{ "disk", "the disk" },		{ "lock", "a lock" },
		{ "net", "the network" },	{ "page fault", "page faults" },
		{ "pipe", "a pipe" },		{ "signal", "a signal" },
		{ "terminal", "the terminal" },
	};
	bool held = len > strlen(WAIT_HELD_TEXT) && !memcmp(name + len - strlen(WAIT_HELD_TEXT),
							    WAIT_HELD_TEXT, strlen(WAIT_HELD_TEXT));

	len -= held ? strlen(WAIT_HELD_TEXT) : 0;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (strlen(texts[i].name) != len || memcmp(texts[i].name, name, len) != 0)
			continue;
		name = texts[i].text;
		len = strlen(name);
		break;
	}
	str_sanitise(b, name, len, REASON_MAX);
	if (held)
		strbuf__addz(b, WAIT_HELD_TEXT);
}

static void add_where(struct strbuf *b, const struct view *v, const struct cause *c)
{
	const struct sym *sym = export_sym(v->p, v->functions[c->function].sym);
	size_t before;

	text_add_func(b, v->p, sym, "code without a name");
	before = b->len;
	strbuf__addz(b, " (");
	view_add_place(b, v, c->function, c->line);
	if (b->len == before + 2) /* it has none */
		strbuf__cut(b, before);
	else
		strbuf__addc(b, ')');
	if (c->last == MIXED || c->last == c->function)
		return;
	strbuf__addz(b, c->deep ? " -> ... -> " : " -> ");
	text_add_func(b, v->p, export_sym(v->p, v->functions[c->last].sym), "code without a name");
}

/* "[stack-not-taken]": a sentence would name a place that is none. */
static bool is_nowhere(const struct view *v, const struct cause *c)
{
	return export_sym(v->p, v->functions[c->function].sym)->kind == SYM_MARKER;
}

static void tell_cause(struct strbuf *b, const struct view *v, const struct cause *c, bool first)
{
	const char *name;
	size_t len;

	strbuf__addf(b, "%.0f%%", text_percent(c->count, v->total));
	if (first)
		strbuf__addf(b, " of the %s goes", value_type__whole(&v->p->stats.values[0]));
	strbuf__addz(b, " to ");
	name = c->reason ? wait_reason(function_name(v, c->reason - 1), &len) : NULL;
	if (name)
		add_reason(b, name, len);
	else
		strbuf__addz(b, "running");
	strbuf__addz(b, " in ");
	add_where(b, v, c);
}

int view_add_causes(struct strbuf *b, const struct view *v)
{
	struct cause *c = calloc(v->stacks.cnt + 1, sizeof(*c));
	size_t cnt = 0;

	if (!c)
		return -ENOMEM;
	for (size_t i = 0; i < v->stacks.cnt; i++)
		if (v->stacks.stacks[i].cnt && v->stacks.stacks[i].count)
			c[cnt++] = cause_of(v, &v->stacks.stacks[i]);
	cnt = merge_causes(v, c, cnt);
	for (size_t i = 0, shown = 0; i < cnt && shown < CAUSES_MAX; i++) {
		if (text_percent(c[i].count, v->total) < CAUSE_LEAST)
			break;
		if (is_nowhere(v, &c[i]))
			continue;
		strbuf__addz(b, shown ? ", " : "");
		tell_cause(b, v, &c[i], !shown++);
	}
	if (b->len)
		strbuf__addc(b, '.');
	free(c);
	return b->err;
}
