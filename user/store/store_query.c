/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Questions to the store. */
#include "store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "import/import.h"
#include "store/store_db.h"

/* Windows of one read transaction. */
#define PAGE_WINDOWS 32

static int fail(const struct store *s, int err)
{
	log_err("store: %s: %s", s->c.path, store_db__strerror(err));
	return err;
}

static int step_error(struct store *s)
{
	return fail(s, store_db__errno(s, s->sql.extended_errcode(s->db)));
}

struct store *store__open_read(const char *path)
{
	struct store *s = store_db__new();
	const char *why = NULL;
	int err;

	if (!s)
		return NULL;
	err = strlen(path) < sizeof(s->c.path) - STORE_SUFFIX_MAX ? 0 : -ENAMETOOLONG;
	if (!err) {
		strcpy(s->c.path, path);
		err = store_db__open(s, &why);
	}
	return err ? store_db__give_up(s, path, err, why) : s;
}

/* ---- Which windows --------------------------------------------------------------------------- */

/* ?1 and ?2 are the range, ?3 what a page begins behind, ?10 and on the ids of the labels. */
#define FIRST_LABEL 10

struct selection {
	int64_t *ids; /* owned */
	size_t cnt;
	bool none; /* a label that no window has */
	struct strbuf where;
};

static int find_label(struct store *s, const struct label *l, int64_t *id)
{
	int err;
	sqlite3_stmt *stmt = store_db__stmt(s, STMT_label_find, &err);

	*id = 0;
	if (!stmt)
		return err;
	s->sql.bind_text(stmt, 1, l->name, -1, SQLITE_STATIC);
	s->sql.bind_text(stmt, 2, l->value, -1, SQLITE_STATIC);
	return store_db__run(s, stmt, id);
}

/* The condition that a row of window `w` has to meet. */
static int select_windows(struct store *s, const struct store_query *q, struct selection *sel)
{
	int err = 0;

	*sel = (struct selection){ .ids = calloc(q->label_cnt + 1, sizeof(*sel->ids)) };
	if (!sel->ids)
		return -ENOMEM;
	strbuf__addz(&sel->where, "w.start >= ?1 AND w.start < ?2");
	for (size_t i = 0; i < q->label_cnt && !err; i++) {
		err = find_label(s, &q->labels[i], &sel->ids[sel->cnt]);
		sel->none |= !sel->ids[sel->cnt];
		if (!strcmp(q->labels[i].name, STORE_SERVICE))
			strbuf__addf(&sel->where, " AND w.service = ?%zu", FIRST_LABEL + sel->cnt);
		else
			strbuf__addf(&sel->where,
				     " AND EXISTS (SELECT 1 FROM series_label sl WHERE "
				     "sl.series = w.series AND sl.label = ?%zu)",
				     FIRST_LABEL + sel->cnt);
		sel->cnt++;
	}
	return err ? err : sel->where.err;
}

static void selection__free(struct selection *sel)
{
	free(sel->ids);
	strbuf__free(&sel->where);
}

static int64_t to_time(uint64_t ns)
{
	return ns > INT64_MAX ? INT64_MAX : (int64_t)ns;
}

/* A statement made of `before`, the condition and `after`. */
static int prepare(struct store *s, const struct store_query *q, const struct selection *sel,
		   const char *before, const char *after, sqlite3_stmt **stmt)
{
	struct strbuf sql = { 0 };
	int err;

	strbuf__addf(&sql, "%s %s %s", before, sel->where.s, after);
	err = sql.err;
	if (!err && s->sql.prepare_v2(s->db, sql.s, (int)sql.len, stmt, NULL))
		err = store_db__errno(s, s->sql.extended_errcode(s->db));
	strbuf__free(&sql);
	if (err)
		return err;
	s->sql.bind_int64(*stmt, 1, to_time(q->from_ns));
	s->sql.bind_int64(*stmt, 2, to_time(q->to_ns));
	for (size_t i = 0; i < sel->cnt; i++)
		s->sql.bind_int64(*stmt, (int)(FIRST_LABEL + i), sel->ids[i]);
	return 0;
}

/* *stmt NULL and 0: no window can match. Errors have been printed. */
static int ask(struct store *s, const struct store_query *q, const char *before, const char *after,
	       sqlite3_stmt **stmt)
{
	struct selection sel;
	int err;

	*stmt = NULL;
	if (!s->db) /* of a writer that found the disk full: there may not even be a library */
		return fail(s, -ENOSPC);
	err = select_windows(s, q, &sel);
	if (!err && !sel.none)
		err = prepare(s, q, &sel, before, after, stmt);
	selection__free(&sel);
	return err ? fail(s, err) : 0;
}

static const char *text(const struct store *s, sqlite3_stmt *stmt, int column)
{
	const char *value = (const char *)s->sql.column_text(stmt, column);

	return value ? value : "";
}

static uint64_t number(const struct store *s, sqlite3_stmt *stmt, int column)
{
	int64_t n = s->sql.column_int64(stmt, column);

	return n > 0 ? (uint64_t)n : 0;
}

int store__services(struct store *s, const struct store_query *q,
		    int (*fn)(void *ctx, const struct store_service *x), void *ctx)
{
	sqlite3_stmt *stmt;
	/* CROSS: service by service, each of them by the index */
	int rc = SQLITE_DONE,
	    err = ask(s, q,
		      "SELECT l.value, count(*), sum(w.samples), min(w.start), "
		      "max(w.start + w.duration) FROM label l CROSS JOIN window w "
		      "INDEXED BY window_by_service ON w.service = l.id "
		      "WHERE l.name = '" STORE_SERVICE "' AND",
		      "GROUP BY l.value ORDER BY l.value", &stmt);

	while (!err && stmt && (rc = s->sql.step(stmt)) == SQLITE_ROW) {
		const struct store_service x = {
			.name = text(s, stmt, 0),
			.windows = number(s, stmt, 1),
			.samples = number(s, stmt, 2),
			.first_ns = number(s, stmt, 3),
			.last_ns = number(s, stmt, 4),
		};

		err = fn(ctx, &x);
	}
	if (!err && rc != SQLITE_DONE)
		err = step_error(s);
	s->sql.finalize(stmt);
	return err;
}

int store__labels(struct store *s, const struct store_query *q,
		  int (*fn)(void *ctx, const struct label *x), void *ctx)
{
	sqlite3_stmt *stmt;
	int rc = SQLITE_DONE,
	    err = ask(s, q,
		      "SELECT name, value FROM label WHERE id IN (SELECT label FROM series_label "
		      "WHERE series IN (SELECT DISTINCT w.series FROM window w WHERE",
		      ")) ORDER BY name, value", &stmt);

	while (!err && stmt && (rc = s->sql.step(stmt)) == SQLITE_ROW) {
		const struct label x = { .name = text(s, stmt, 0), .value = text(s, stmt, 1) };

		err = fn(ctx, &x);
	}
	if (!err && rc != SQLITE_DONE)
		err = step_error(s);
	s->sql.finalize(stmt);
	return err;
}

/* ---- Windows --------------------------------------------------------------------------------- */

/* The labels of the last series that was read. */
struct series {
	int64_t id;
	struct strbuf texts; /* name, NUL, value, NUL */
	struct label *labels;
	size_t cnt, cap;
};

static void series__free(struct series *x)
{
	strbuf__free(&x->texts);
	free(x->labels);
}

/* The texts have moved while they were added: now they stay. */
static void point(struct series *x)
{
	const char *p = x->texts.s;

	for (size_t i = 0; i < x->cnt; i++) {
		x->labels[i].name = p;
		p += strlen(p) + 1;
		x->labels[i].value = p;
		p += strlen(p) + 1;
	}
}

static int load_series(struct store *s, struct series *x, int64_t id)
{
	sqlite3_stmt *stmt;
	int err = 0, rc = SQLITE_DONE;

	if (x->id == id)
		return 0;
	stmt = store_db__stmt(s, STMT_series_labels, &err);
	if (!stmt)
		return err;
	strbuf__clear(&x->texts);
	x->cnt = 0;
	x->id = 0;
	s->sql.bind_int64(stmt, 1, id);
	while (!err && (rc = s->sql.step(stmt)) == SQLITE_ROW) {
		err = ARRAY_GROW(x->labels, x->cap, x->cnt, UINT32_MAX);
		for (int column = 0; column < 2 && !err; column++) {
			const char *word = text(s, stmt, column);

			strbuf__add(&x->texts, word, strlen(word) + 1);
		}
		x->cnt += !err;
		err = err ? err : x->texts.err;
	}
	if (!err && rc != SQLITE_DONE)
		err = store_db__errno(s, rc);
	s->sql.reset(stmt);
	if (err)
		return err;
	point(x);
	x->id = id;
	return 0;
}

enum column { C_ID, C_UID, C_SERIES, C_START, C_DURATION, C_SAMPLES, C_HZ, C_SIZE, C_PPROF };

#define SELECT_WINDOWS                                                                             \
	"SELECT w.id, w.uid, w.series, w.start, w.duration, w.samples, w.hz, length(w.pprof)%s "   \
	"FROM window w WHERE (w.start > ?1 OR w.id > ?3) AND"

static int to_window(struct store *s, sqlite3_stmt *stmt, struct series *series, struct window *w)
{
	const uint8_t *id = s->sql.column_blob(stmt, C_UID);
	int err = load_series(s, series, s->sql.column_int64(stmt, C_SERIES));

	if (err)
		return err;
	*w = (struct window){
		.start_unix_ns = number(s, stmt, C_START),
		.duration_ns = number(s, stmt, C_DURATION),
		.labels = series->labels,
		.label_cnt = series->cnt,
		.samples = number(s, stmt, C_SAMPLES),
		.frequency_hz = (uint32_t)number(s, stmt, C_HZ),
		.pprof_size = (size_t)number(s, stmt, C_SIZE),
	};
	if (id && s->sql.column_bytes(stmt, C_UID) == WINDOW_ID_LEN / 2)
		for (size_t i = 0; i < WINDOW_ID_LEN / 2; i++)
			snprintf(w->id + 2 * i, 3, "%02x", id[i]);
	return 0;
}

/* The state while windows are read. */
struct reading {
	sqlite3_stmt *stmt;
	struct series series;
	int64_t start, id;   /* behind this window it goes on */
	struct strbuf pprof; /* a copy: see below */
	int (*fn)(void *ctx, const struct window *x);
	void *ctx;
	bool more;
};

/* False: there is none, or *err. */
static bool next_window(struct store *s, struct reading *r, struct window *w, int *err)
{
	int rc = s->sql.step(r->stmt);

	*err = 0;
	if (rc != SQLITE_ROW) {
		*err = rc == SQLITE_DONE ? 0 : step_error(s);
		return false;
	}
	r->id = s->sql.column_int64(r->stmt, C_ID);
	r->start = s->sql.column_int64(r->stmt, C_START);
	*err = to_window(s, r->stmt, &r->series, w);
	if (*err)
		fail(s, *err);
	return !*err;
}

static void begin_page(struct store *s, struct reading *r)
{
	s->sql.reset(r->stmt);
	s->sql.bind_int64(r->stmt, 1, r->start);
	s->sql.bind_int64(r->stmt, 3, r->id);
}

/* While the caller has a few windows of a list, the log cannot be begun anew. */
static int list_page(struct store *s, struct reading *r)
{
	struct window w;
	size_t cnt = 0;
	int err = 0;

	begin_page(s, r);
	while (!err && next_window(s, r, &w, &err)) {
		cnt++;
		w.pprof = NULL;
		err = r->fn(r->ctx, &w);
	}
	s->sql.reset(r->stmt);
	r->more = cnt == PAGE_WINDOWS;
	return err;
}

/* But with a profile it may take its time: it has a copy. */
static int read_one(struct store *s, struct reading *r)
{
	struct window w;
	int err;

	begin_page(s, r);
	r->more = next_window(s, r, &w, &err);
	strbuf__clear(&r->pprof);
	if (r->more) {
		strbuf__add(&r->pprof, s->sql.column_blob(r->stmt, C_PPROF),
			    (size_t)s->sql.column_bytes(r->stmt, C_PPROF));
		err = r->pprof.err || r->pprof.len != w.pprof_size ? fail(s, -ENOMEM) : 0;
		w.pprof = w.pprof_size ? r->pprof.s : "";
	}
	s->sql.reset(r->stmt);
	return err || !r->more ? err : r->fn(r->ctx, &w);
}

int store__windows(struct store *s, const struct store_query *q, bool pprof,
		   int (*fn)(void *ctx, const struct window *x), void *ctx)
{
	struct reading r = { .start = to_time(q->from_ns), .fn = fn, .ctx = ctx };
	char before[256], after[64];
	int err;

	snprintf(before, sizeof(before), SELECT_WINDOWS, pprof ? ", w.pprof" : "");
	snprintf(after, sizeof(after), "ORDER BY w.start, w.id LIMIT %d", pprof ? 1 : PAGE_WINDOWS);
	err = ask(s, q, before, after, &r.stmt);
	r.more = r.stmt;
	while (!err && r.more)
		err = pprof ? read_one(s, &r) : list_page(s, &r);
	s->sql.finalize(r.stmt);
	series__free(&r.series);
	strbuf__free(&r.pprof);
	return err;
}

/* ---- Profiles -------------------------------------------------------------------------------- */

struct merge {
	struct import *im;
	bool by_service;
	size_t windows;
	uint64_t end_ns, covered_ns;
};

static int merge_window(void *ctx, const struct window *w)
{
	struct merge *m = ctx;
	uint64_t end = w->start_unix_ns + w->duration_ns;
	const char *service = "";
	char name[128];
	int err;

	for (size_t i = 0; i < w->label_cnt; i++)
		if (!strcmp(w->labels[i].name, STORE_SERVICE))
			service = w->labels[i].value;
	snprintf(name, sizeof(name), "store: window of %.64s at %" PRIu64, service,
		 (uint64_t)(w->start_unix_ns / NS_PER_S));
	m->windows++;
	/* Windows of several services lie side by side. They come by start. */
	if (end > m->end_ns) {
		m->covered_ns +=
			end - (w->start_unix_ns > m->end_ns ? w->start_unix_ns : m->end_ns);
		m->end_ns = end;
	}
	import__set_owner(m->im, m->by_service ? service : NULL);
	err = import__add_data(m->im, name, w->pprof, w->pprof_size);
	import__set_owner(m->im, NULL);
	return err;
}

/* The agent may have gone down with it in between, to stay within its budget. */
static int highest_frequency(struct store *s, const struct store_query *q, uint32_t *hz)
{
	sqlite3_stmt *stmt;
	int err = ask(s, q, "SELECT max(w.hz) FROM window w WHERE", "", &stmt), rc;

	*hz = 0;
	if (err || !stmt)
		return err;
	rc = s->sql.step(stmt);
	if (rc == SQLITE_ROW)
		*hz = (uint32_t)number(s, stmt, 0);
	else
		err = step_error(s);
	s->sql.finalize(stmt);
	return err;
}

int store__profile(struct store *s, const struct store_query *q, struct import *im, size_t *windows)
{
	struct merge m = { .im = im, .by_service = q->by_service };
	uint32_t hz;
	int err = highest_frequency(s, q, &hz);

	import__set_frequency(im, hz);
	err = err ? err : store__windows(s, q, true, merge_window, &m);

	if (windows)
		*windows = m.windows;
	if (!err && m.windows)
		import__profile(im)->stats.duration_ns = m.covered_ns;
	return err;
}

/* ---- The store itself ------------------------------------------------------------------------ */

static int read_counter(struct store *s, const char *name, uint64_t *out)
{
	int64_t value = 0;
	int err;
	sqlite3_stmt *stmt = store_db__stmt(s, STMT_counter, &err);

	if (!stmt)
		return err;
	s->sql.bind_text(stmt, 1, name, -1, SQLITE_STATIC);
	err = store_db__run(s, stmt, &value);
	*out += (uint64_t)value;
	return err;
}

int store__stats(struct store *s, struct store_stats *out)
{
	int64_t windows = 0, first = 0, last = 0;
	int err = 0;

	*out = (struct store_stats){ .bytes = store_db__bytes(s) };
	for (size_t i = 0; i < STORE_DROP_CNT; i++)
		out->dropped[i] = s->pending[i];
	out->damaged = s->pending[STORE_DAMAGED];
	if (!s->db) /* of the writer, when the disk was full */
		return 0;
	err = err ? err : store_db__do(s, STMT_totals, &windows);
	err = err ? err : store_db__do(s, STMT_first, &first);
	err = err ? err : store_db__do(s, STMT_last, &last);
	for (size_t i = 0; i < STORE_DROP_CNT && !err; i++)
		err = read_counter(s, store_drop__name((enum store_drop)i), &out->dropped[i]);
	err = err ? err : read_counter(s, "damaged", &out->damaged);
	out->windows = (uint64_t)windows;
	out->oldest_ns = (uint64_t)first;
	out->newest_ns = (uint64_t)last;
	return err ? fail(s, err) : 0;
}
