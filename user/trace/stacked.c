/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/stacked.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "base/stream.h"
#include "trace/lost.h"

#define ROWS_MAX       65536 /* different types and stacks */
#define FUNCTIONS_MAX  1000000
#define NAME_MAX_BYTES 100 /* of an audit event in a list */

/* A code object. */
struct raiser {
	uint64_t code;
	struct py_function function;
	bool named, wanted;
};

struct stacked_frame {
	uint32_t raiser; /* position in `raisers` */
	uint32_t line;	 /* where it is; 0: not known */
};

/* The pauses of collections. */
struct pauses {
	uint64_t total_ns, longest_ns;
	uint64_t found;	  /* objects */
	uint32_t waiters; /* the most at once; TRACE_WAITERS_UNKNOWN */
};

/* One type, or generation, at one stack. */
struct row {
	char type[TRACE_TYPE_BYTES];
	struct stacked_frame *frames; /* the innermost first */
	struct pauses pauses;
	uint32_t frame_cnt;
	bool cut;
	uint64_t cnt, before; /* `before`: at the last table */
};

struct stacked {
	enum stacked_kind kind;
	bool each, json;
	struct tracer *tracer;
	struct tracer_events events;
	struct raiser *raisers;
	size_t raiser_cnt, raiser_cap;
	struct hash_index by_code;
	struct row *rows;
	size_t row_cnt, row_cap;
	struct hash_index by_row;
	struct hash_key key;
	struct strbuf line;
	uint64_t start_ns, cnt, event_cnt, lost_cnt;
	struct trace_audit audits[TRACE_AUDITS];
	char *names[TRACE_AUDITS]; /* as the list has them */
	size_t audit_cnt;
	struct pauses pauses;  /* of all */
	uint64_t full_cnt;     /* that found no row */
	uint64_t nameless_cnt; /* not shown: the name of their function was not read */
	uint32_t lost;	       /* as the last event says, or stacked__lose() */
	bool headed;
	int err;
};

/* What each kind is called. */
static const struct {
	const char *single, *plural;
	const char *verb;   /* of a function */
	const char *column; /* of a table */
	const char *event;  /* in JSON, as the next two */
	const char *type;
	const char *list;
} words[] = {
	[STACKED_EXCEPTIONS] = { "exception", "exceptions", "raised an exception", "EXCEPTION",
				 "raise", "type", "exceptions" },
	[STACKED_COLLECTIONS] = { "collection", "collections", "began a collection", "COLLECTION",
				  "collection", "generation", "collections" },
	[STACKED_AUDITS] = { "audit event", "audit events", "raised such an audit event",
			     "AUDIT EVENT", "audit", "name", "audit_events" },
};

/* ---- functions ------------------------------------------------------------------------------- */

static uint32_t add_raiser(struct stacked *r, uint64_t code, uint64_t hash)
{
	struct raiser *f;

	if (r->raiser_cnt == FUNCTIONS_MAX) {
		r->full_cnt++;
		return HASH_NONE;
	}
	if (ARRAY_GROW(r->raisers, r->raiser_cap, r->raiser_cnt, FUNCTIONS_MAX) ||
	    hash_index__add(&r->by_code, hash, (uint32_t)r->raiser_cnt)) {
		r->err = -ENOMEM;
		return HASH_NONE;
	}
	f = &r->raisers[r->raiser_cnt++];
	*f = (struct raiser){ .code = code };
	return (uint32_t)r->raiser_cnt - 1;
}

/* Its position; HASH_NONE: no memory, or too many. */
static uint32_t raiser_of(struct stacked *r, uint64_t code)
{
	uint64_t hash = hash_bytes(&r->key, &code, sizeof(code));
	uint32_t found = HASH_NONE, i;
	struct raiser *f;

	for (size_t at = 0;
	     found == HASH_NONE && (i = hash_index__next(&r->by_code, hash, &at)) != HASH_NONE;)
		if (r->raisers[i].code == code)
			found = i;
	if (found == HASH_NONE)
		found = add_raiser(r, code, hash);
	if (found == HASH_NONE)
		return found;
	f = &r->raisers[found];
	if (!f->named) {
		f->named = tracer__find(r->tracer, code, &f->function);
		f->wanted = tracer__wants(r->tracer, &f->function);
	}
	return found;
}

static const struct py_function *function_at(const struct stacked *r, const struct stacked_frame *f)
{
	return &r->raisers[f->raiser].function;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The same functions have several code objects: in each process, and where a module is reloaded. */
static bool is_same(const struct stacked *r, const struct row *a, const struct row *b)
{
	if (a->frame_cnt != b->frame_cnt || a->cut != b->cut || strcmp(a->type, b->type))
		return false;
	for (uint32_t i = 0; i < a->frame_cnt; i++)
		if (a->frames[i].line != b->frames[i].line ||
		    function_at(r, &a->frames[i])->number != function_at(r, &b->frames[i])->number)
			return false;
	return true;
}

static uint64_t hash_row(const struct stacked *r, const struct row *row)
{
	uint64_t numbers[TRACE_RAISE_FRAMES], parts[2];

	for (uint32_t i = 0; i < row->frame_cnt; i++)
		numbers[i] = (uint64_t)function_at(r, &row->frames[i])->number << 32 |
			     row->frames[i].line;
	parts[0] = hash_bytes(&r->key, row->type, strlen(row->type));
	parts[1] = hash_bytes(&r->key, numbers, row->frame_cnt * sizeof(*numbers));
	return hash_bytes(&r->key, parts, sizeof(parts));
}

static void add_row(struct stacked *r, const struct row *row, uint64_t hash)
{
	struct row *new;

	if (r->row_cnt >= ROWS_MAX) {
		r->full_cnt++;
		return;
	}
	if (ARRAY_GROW(r->rows, r->row_cap, r->row_cnt, ROWS_MAX) ||
	    hash_index__reserve(&r->by_row)) {
		r->err = -ENOMEM;
		return;
	}
	new = &r->rows[r->row_cnt];
	*new = *row;
	new->frames = malloc((row->frame_cnt + 1) * sizeof(*row->frames));
	if (!new->frames) {
		r->err = -ENOMEM;
		return;
	}
	memcpy(new->frames, row->frames, row->frame_cnt * sizeof(*row->frames));
	new->cnt = 1;
	hash_index__add(&r->by_row, hash, (uint32_t)r->row_cnt++);
}

static void add_pauses(struct pauses *sum, const struct pauses *p)
{
	sum->total_ns += p->total_ns;
	sum->found += p->found;
	if (p->longest_ns > sum->longest_ns)
		sum->longest_ns = p->longest_ns;
	if (p->waiters != TRACE_WAITERS_UNKNOWN &&
	    (p->waiters > sum->waiters || sum->waiters == TRACE_WAITERS_UNKNOWN))
		sum->waiters = p->waiters;
}

static void count_row(struct stacked *r, const struct row *row)
{
	uint64_t hash = hash_row(r, row);
	uint32_t i;

	for (size_t at = 0; (i = hash_index__next(&r->by_row, hash, &at)) != HASH_NONE;) {
		if (is_same(r, &r->rows[i], row)) {
			r->rows[i].cnt++;
			add_pauses(&r->rows[i].pauses, &row->pauses);
			return;
		}
	}
	add_row(r, row, hash);
}

/* ---- each one -------------------------------------------------------------------------------- */

static void add_frame(struct strbuf *b, const struct stacked *r, const struct stacked_frame *frame)
{
	const struct py_function *f = function_at(r, frame);

	str_sanitise(b, f->name, f->name_len, 0);
	if (!f->file_len)
		return;
	strbuf__addz(b, " (");
	str_sanitise(b, f->file, f->file_len, 0);
	if (frame->line)
		strbuf__addf(b, ":%u", frame->line);
	strbuf__addc(b, ')');
}

static void add_type(struct strbuf *b, const struct stacked *r, const struct row *row)
{
	if (r->kind == STACKED_COLLECTIONS)
		strbuf__addz(b, "generation ");
	if (*row->type)
		str_sanitise(b, row->type, strlen(row->type), 0);
	else
		strbuf__addz(b, "<unknown>");
}

static void flush_line(struct stacked *r)
{
	if (r->line.err)
		r->err = r->line.err;
	else if (r->line.len)
		r->err = stream__put(stdout, r->line.s, r->line.len);
	strbuf__clear(&r->line);
}

static void pauses_json(struct json *j, const struct row *row)
{
	const struct pauses *p = &row->pauses;

	if (*row->type == '?')
		json__null(j, "generation");
	else
		json__int(j, "generation", *row->type - '0');
	json__uint(j, "total_ns", p->total_ns);
	json__uint(j, "longest_ns", p->longest_ns);
	json__uint(j, "found", p->found);
	if (p->waiters == TRACE_WAITERS_UNKNOWN)
		json__null(j, "waiting");
	else
		json__uint(j, "waiting", p->waiters);
}

static void row_json(const struct stacked *r, struct json *j, const struct row *row)
{
	if (r->kind != STACKED_COLLECTIONS)
		json__stringz(j, words[r->kind].type, *row->type ? row->type : "<unknown>");
	else
		pauses_json(j, row);
	json__array(j, "stack");
	for (uint32_t i = 0; i < row->frame_cnt; i++) {
		const struct py_function *f = function_at(r, &row->frames[i]);

		json__object(j, NULL);
		json__string(j, "function", f->name, f->name_len);
		json__string(j, "file", f->file, f->file_len);
		json__uint(j, "first_line", f->first_line);
		if (row->frames[i].line)
			json__uint(j, "line", row->frames[i].line);
		else
			json__null(j, "line");
		json__end(j, '}');
	}
	json__end(j, ']');
	json__bool(j, "cut", row->cut);
}

static double seconds_at(const struct stacked *r, uint64_t ns)
{
	return ns > r->start_ns ? (double)(ns - r->start_ns) / 1e9 : 0;
}

static void write_one_json(const struct stacked *r, const struct row *row,
			   const struct trace_raise *e)
{
	struct json j = { .f = stdout };

	json__object(&j, NULL);
	json__stringz(&j, "event", words[r->kind].event);
	json__double(&j, "seconds", seconds_at(r, e->ns));
	json__uint(&j, "process", e->tgid);
	json__uint(&j, "thread", e->tid);
	row_json(r, &j, row);
	json__end(&j, '}');
	fputc('\n', stdout);
}

/* Adds the columns of times for one collection or several. */
static void add_times(struct strbuf *b, const struct pauses *p, bool several)
{
	strbuf__addf(b, "%11.3f ms", (double)p->total_ns / 1e6);
	if (several)
		strbuf__addf(b, "%11.3f ms", (double)p->longest_ns / 1e6);
	strbuf__addf(b, "%12" PRIu64, p->found);
	if (p->waiters == TRACE_WAITERS_UNKNOWN)
		strbuf__addf(b, "%9s", "?");
	else
		strbuf__addf(b, "%9u", p->waiters);
}

/* Behind the columns of numbers, of each one. */
static void add_head(struct stacked *r)
{
	if (r->kind != STACKED_COLLECTIONS)
		strbuf__addf(&r->line, "  %s\n", words[r->kind].column);
	else
		strbuf__addf(&r->line, "%14s%12s%9s  COLLECTION\n", "PAUSE", "FOUND", "WAITING");
}

static void write_one(struct stacked *r, const struct row *row, const struct trace_raise *e)
{
	struct strbuf *b = &r->line;

	if (r->json) {
		write_one_json(r, row, e);
		return;
	}
	if (!r->headed) {
		strbuf__addf(b, "%11s %8s", "SECONDS", "THREAD");
		add_head(r);
	}
	r->headed = true;
	strbuf__addf(b, "%11.6f %8u", seconds_at(r, e->ns), e->tid);
	if (r->kind == STACKED_COLLECTIONS)
		add_times(b, &row->pauses, false);
	strbuf__addz(b, "  ");
	add_type(b, r, row);
	for (uint32_t i = 0; i < row->frame_cnt; i++) {
		strbuf__addz(b, i ? " < " : ": ");
		add_frame(b, r, &row->frames[i]);
	}
	strbuf__addz(b, row->cut ? " < ...\n" : "\n");
	flush_line(r);
}

/* CPython 2.7 has the module in the name of its own types. */
static void take_type(char type[TRACE_TYPE_BYTES], const struct trace_raise *e)
{
	static const char module[] = "exceptions.";
	size_t skipped = strncmp(e->type, module, sizeof(module) - 1) ? 0 : sizeof(module) - 1;

	memcpy(type, e->type + skipped, TRACE_TYPE_BYTES - skipped);
	type[TRACE_TYPE_BYTES - skipped - 1] = '\0';
}

/* A filter means no audit event that comes from no function. */
static bool is_wanted(const struct stacked *r, const struct row *row)
{
	static const struct py_function none = { .name = "", .file = "" };

	if (row->frame_cnt)
		return r->raisers[row->frames[0].raiser].wanted;
	return r->kind != STACKED_AUDITS || tracer__wants(r->tracer, &none);
}

void stacked__lose(struct stacked *r, uint32_t lost)
{
	uint32_t more = lost_since(&r->lost, lost);

	r->lost_cnt += more;
	if (!more || !r->each)
		return;
	lost__add(&r->line, r->json ? LOST_JSON : LOST_LINE, words[r->kind].plural, NULL, more);
	flush_line(r);
}

/* `row` has all but its stack. */
static void take(struct stacked *r, struct row *row, const struct trace_raise *e)
{
	struct stacked_frame frames[TRACE_RAISE_FRAMES];

	r->event_cnt++;
	stacked__lose(r, e->lost);
	row->frames = frames;
	row->cut = e->cut != 0;
	while (row->frame_cnt < e->code_cnt && row->frame_cnt < TRACE_RAISE_FRAMES) {
		uint64_t code = e->codes[row->frame_cnt];
		uint32_t i = raiser_of(r, code);

		if (i == HASH_NONE)
			return;
		frames[row->frame_cnt] =
			(struct stacked_frame){ .raiser = i,
						.line = tracer__line(r->tracer, code,
								     e->offsets[row->frame_cnt]) };
		row->frame_cnt++;
	}
	if (!is_wanted(r, row)) {
		r->nameless_cnt += row->frame_cnt && !r->raisers[row->frames[0].raiser].named;
		return;
	}
	r->cnt++;
	add_pauses(&r->pauses, &row->pauses);
	count_row(r, row);
	if (r->each)
		write_one(r, row, e);
}

static void take_raise(void *ctx, const struct trace_raise *e)
{
	struct row row = { .frame_cnt = 0 };

	take_type(row.type, e);
	take(ctx, &row, e);
}

static void take_collection(void *ctx, const struct trace_collection *e)
{
	uint64_t ns = e->at.ns > e->start_ns ? e->at.ns - e->start_ns : 0;
	struct row row = { .pauses = { .total_ns = ns,
				       .longest_ns = ns,
				       .found = e->found,
				       .waiters = e->waiters } };

	row.type[0] = e->generation < TRACE_GENERATIONS ? (char)('0' + e->generation) : '?';
	take(ctx, &row, &e->at);
}

/* The kernel compares the beginnings of names alone. */
static bool is_audited(const struct stacked *r, const char *event)
{
	for (size_t i = 0; i < r->audit_cnt; i++) {
		size_t len = strlen(r->names[i]);

		if (r->names[i][len - 1] == '*' ? !strncmp(r->names[i], event, len - 1)
						: !strcmp(r->names[i], event))
			return true;
	}
	return false;
}

static void take_audit(void *ctx, const struct trace_raise *e)
{
	struct stacked *r = ctx;
	struct row row = { .frame_cnt = 0 };

	memcpy(row.type, e->type, sizeof(row.type) - 1);
	if (is_audited(r, row.type))
		take(r, &row, e);
	else
		r->event_cnt++;
}

/* Its first bytes, with the zero behind it or without the star. */
static void set_audit(struct trace_audit *a, const char *name, size_t len)
{
	size_t cnt = name[len - 1] == '*' ? len - 1 : len + 1;

	*a = (struct trace_audit){ .name = { 0 } };
	/* What is read of a longer name ends with a zero in the last byte. */
	if (cnt > sizeof(a->name) - 1)
		cnt = sizeof(a->name) - 1;
	memcpy(a->name, name, cnt > len ? len : cnt);
	memset(a->mask, 0xff, cnt);
}

/* 0; -EINVAL: no event is called so. */
static int check_audit(const char *name, size_t len)
{
	size_t plain = strcspn(name, "*?[,");

	/* An option, or the -- before a command: the names were forgotten. */
	if (!len || len > NAME_MAX_BYTES || name[0] == '-')
		return -EINVAL;
	return plain < len && (plain != len - 1 || name[plain] != '*') ? -EINVAL : 0;
}

int stacked__check_audits(const char *list)
{
	size_t cnt = 0;
	int err = 0;

	for (const char *at = list; at && !err; cnt++) {
		size_t len = strcspn(at, ",");

		err = cnt == TRACE_AUDITS ? -E2BIG : check_audit(at, len);
		at = at[len] ? at + len + 1 : NULL;
	}
	return err;
}

int stacked__audit(struct stacked *r, const char *list)
{
	for (const char *at = list; at && r->audit_cnt < TRACE_AUDITS;) {
		size_t len = strcspn(at, ",");

		r->names[r->audit_cnt] = strndup(at, len);
		if (!r->names[r->audit_cnt])
			return -ENOMEM;
		set_audit(&r->audits[r->audit_cnt++], at, len);
		at = at[len] ? at + len + 1 : NULL;
	}
	r->events.audits = r->audits;
	r->events.audit_cnt = r->audit_cnt;
	return 0;
}

struct stacked *stacked__new(enum stacked_kind kind, bool each, bool json)
{
	struct stacked *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->kind = kind;
	r->each = each;
	r->json = json;
	r->key = hash_key();
	r->pauses.waiters = TRACE_WAITERS_UNKNOWN;
	if (kind == STACKED_EXCEPTIONS)
		r->events = (struct tracer_events){ .take_raise = take_raise, .ctx = r };
	else if (kind == STACKED_AUDITS)
		r->events = (struct tracer_events){ .take_audit = take_audit, .ctx = r };
	else
		r->events = (struct tracer_events){ .take_collection = take_collection, .ctx = r };
	return r;
}

void stacked__free(struct stacked *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->row_cnt; i++)
		free(r->rows[i].frames);
	for (size_t i = 0; i < r->audit_cnt; i++)
		free(r->names[i]);
	free(r->rows);
	free(r->raisers);
	hash_index__free(&r->by_row);
	hash_index__free(&r->by_code);
	strbuf__free(&r->line);
	free(r);
}

const struct tracer_events *stacked__events(const struct stacked *r)
{
	return &r->events;
}

void stacked__start(struct stacked *r, struct tracer *tr, uint64_t now_ns)
{
	r->tracer = tr;
	r->start_ns = now_ns;
}

uint64_t stacked__cnt(const struct stacked *r)
{
	return r->cnt;
}

uint64_t stacked__hit_cnt(const struct stacked *r)
{
	/* A collection begins and ends. */
	return (r->event_cnt + r->lost_cnt) * (r->kind == STACKED_COLLECTIONS ? 2 : 1);
}

const char *stacked__name(const struct stacked *r)
{
	return words[r->kind].plural;
}

const char *stacked__verb(const struct stacked *r)
{
	return words[r->kind].verb;
}

/* ---- sums ------------------------------------------------------------------------------------ */

static int by_count(const void *a, const void *b)
{
	const struct row *x = *(const struct row *const *)a, *y = *(const struct row *const *)b;

	if (x->pauses.total_ns != y->pauses.total_ns)
		return x->pauses.total_ns < y->pauses.total_ns ? 1 : -1;
	if (x->cnt != y->cnt)
		return x->cnt < y->cnt ? 1 : -1;
	return (x > y) - (x < y);
}

/* The longest pauses or most first. NULL: no memory. To be freed. */
static struct row **sorted_rows(const struct stacked *r)
{
	struct row **all = malloc((r->row_cnt + 1) * sizeof(struct row *));

	if (!all)
		return NULL;
	for (size_t i = 0; i < r->row_cnt; i++)
		all[i] = &r->rows[i];
	qsort(all, r->row_cnt, sizeof(*all), by_count);
	return all;
}

static size_t shown(const struct stacked *r, uint32_t top)
{
	return top && top < r->row_cnt ? top : r->row_cnt;
}

static void write_row(struct stacked *r, const struct row *row, double seconds, bool final)
{
	uint64_t since = final ? row->cnt : row->cnt - row->before;
	int indent = r->kind == STACKED_COLLECTIONS ? 15 : 30;

	if (r->kind != STACKED_COLLECTIONS) {
		strbuf__addf(&r->line, "%11.0f%15" PRIu64, (double)since / seconds, row->cnt);
	} else {
		strbuf__addf(&r->line, "%13" PRIu64, row->cnt);
		add_times(&r->line, &row->pauses, true);
	}
	strbuf__addz(&r->line, "  ");
	add_type(&r->line, r, row);
	for (uint32_t i = 0; i < row->frame_cnt; i++) {
		strbuf__addf(&r->line, "\n%*s", indent, "");
		add_frame(&r->line, r, &row->frames[i]);
	}
	if (!row->frame_cnt && r->kind != STACKED_EXCEPTIONS)
		strbuf__addz(&r->line,
			     ", while no Python function ran: the interpreter began or ended");
	if (row->cut)
		strbuf__addf(&r->line, "\n%*s...", indent, "");
	strbuf__addc(&r->line, '\n');
	flush_line(r);
}

void stacked__add_sum(const struct stacked *r, struct strbuf *b)
{
	const char *plural = r->cnt == 1 ? "" : "s";

	if (r->cnt)
		strbuf__addf(b, "%" PRIu64, r->cnt);
	else
		strbuf__addz(b, "no");
	strbuf__addf(b, " %s%s%s", words[r->kind].single, plural,
		     r->kind == STACKED_COLLECTIONS ? "" : " raised");
	if (r->kind == STACKED_COLLECTIONS && r->cnt)
		strbuf__addf(b, " took %.1f ms, the longest %.1f ms",
			     (double)r->pauses.total_ns / 1e6, (double)r->pauses.longest_ns / 1e6);
}

int stacked__write(struct stacked *r, uint32_t top, double seconds, bool final)
{
	struct row **all = sorted_rows(r);

	if (!all)
		return -ENOMEM;
	if (r->kind != STACKED_COLLECTIONS)
		strbuf__addf(&r->line, "%11s%15s  %s\n", "RAISED/S", "RAISED",
			     words[r->kind].column);
	else
		strbuf__addf(&r->line, "%13s%14s%14s%12s%9s  COLLECTION\n", "COLLECTIONS", "TOTAL",
			     "LONGEST", "FOUND", "WAITING");
	flush_line(r);
	for (size_t i = 0; i < shown(r, top) && !r->err; i++)
		write_row(r, all[i], seconds, final);
	strbuf__addc(&r->line, '\n');
	flush_line(r);
	for (size_t i = 0; i < r->row_cnt; i++)
		r->rows[i].before = r->rows[i].cnt;
	free(all);
	return r->err;
}

int stacked__write_json(struct stacked *r, struct json *j, uint32_t top)
{
	struct row **all = sorted_rows(r);

	if (!all)
		return -ENOMEM;
	json__uint(j, r->kind == STACKED_COLLECTIONS ? "collected" : "raised", r->cnt);
	json__uint(j, "lost_events", r->lost_cnt);
	json__array(j, words[r->kind].list);
	for (size_t i = 0; i < shown(r, top); i++) {
		json__object(j, NULL);
		json__uint(j, "count", all[i]->cnt);
		row_json(r, j, all[i]);
		json__end(j, '}');
	}
	json__end(j, ']');
	free(all);
	return r->err;
}

void stacked__report(const struct stacked *r)
{
	if (r->lost_cnt)
		log_warn("%" PRIu64 " %s were lost: they came too fast", r->lost_cnt,
			 stacked__name(r));
	if (r->nameless_cnt)
		log_warn("%" PRIu64 " %s are not shown: the names of their functions were not read",
			 r->nameless_cnt, stacked__name(r));
	if (r->full_cnt)
		log_warn("%" PRIu64 " %s have no row: there are too many stacks or functions",
			 r->full_cnt, stacked__name(r));
}
