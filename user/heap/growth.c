/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "heap/growth.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

void heap_growth__free(struct heap_growth *g)
{
	for (size_t i = 0; i < g->cnt; i++) {
		free(g->types[i]->name);
		free(g->types[i]->curve);
		free(g->types[i]);
	}
	free(g->types);
	idmap__free(&g->by_addr);
	*g = (struct heap_growth){ 0 };
}

static bool is_same(const struct grown_type *t, const struct heap_type *type)
{
	return type->name && t->name ? !strcmp(t->name, type->name) : !type->name && !t->name;
}

/*
 * An address that has another type now is forgotten under its old name: its slope ends there. NULL:
 * no memory, or it is new and the list is full.
 */
static struct grown_type *get(struct heap_growth *g, const struct heap_type *type)
{
	struct grown_type *t = idmap__get(&g->by_addr, type->addr);

	if (t && is_same(t, type))
		return t;
	if (g->cnt == HEAP_TYPES_MAX) {
		g->full = true;
		return NULL;
	}
	if (ARRAY_GROW(g->types, g->cap, g->cnt, HEAP_TYPES_MAX))
		return NULL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->addr = type->addr;
	t->name = type->name ? strdup(type->name) : NULL;
	if ((type->name && !t->name) || idmap__set(&g->by_addr, type->addr, t)) {
		free(t->name);
		free(t);
		return NULL;
	}
	g->types[g->cnt++] = t;
	return t;
}

static int take_type(struct heap_growth *g, const struct heap_type *type)
{
	struct grown_type *t = get(g, type);

	if (!t)
		return g->full ? 0 : -ENOMEM;
	if (!g->readings) {
		t->first_cnt = type->cnt;
		t->first_bytes = type->bytes;
	}
	t->last_cnt = type->cnt;
	t->last_bytes = type->bytes;
	return 0;
}

static void thin_out(struct heap_growth *g)
{
	size_t kept = 0;

	for (size_t i = 0; i < g->point_cnt; i += 2, kept++) {
		g->point_minutes[kept] = g->point_minutes[i];
		for (size_t k = 0; k < g->cnt; k++)
			if (g->types[k]->curve)
				g->types[k]->curve[kept] = g->types[k]->curve[i];
	}
	g->point_cnt = kept;
	g->apart *= 2;
}

/* Without memory for it a type has no curve. */
static void add_point(struct heap_growth *g, double minutes)
{
	uint64_t whole = 0;

	for (size_t i = 0; i < g->cnt; i++)
		whole += g->types[i]->last_bytes;
	for (size_t i = 0; i < g->cnt; i++) {
		struct grown_type *t = g->types[i];

		if (!t->curve && g->curve_cnt < HEAP_CURVES &&
		    t->last_bytes >= whole / HEAP_CURVE_SHARE) {
			t->curve = calloc(HEAP_POINTS, sizeof(*t->curve));
			g->curve_cnt += t->curve != NULL;
		}
		if (t->curve)
			t->curve[g->point_cnt] = (struct heap_point){ t->last_cnt, t->last_bytes };
	}
	g->point_minutes[g->point_cnt++] = minutes;
}

/* The last reading is always a point: it gives way to the next one until that is due. */
static void note_point(struct heap_growth *g, double minutes)
{
	g->apart = g->apart ? g->apart : 1;
	if (g->point_cnt > 1 && g->waited) {
		g->point_cnt--;
	} else if (g->point_cnt == HEAP_POINTS) {
		thin_out(g);
		g->waited = 0;
	}
	add_point(g, minutes);
	g->waited = (g->waited + 1) % g->apart;
}

int heap_growth__add(struct heap_growth *g, const struct heap_types *types, double minutes)
{
	int err = 0;

	for (size_t i = 0; i < g->cnt; i++) {
		g->types[i]->before_cnt = g->types[i]->last_cnt;
		g->types[i]->last_cnt = g->types[i]->last_bytes = 0;
	}
	for (size_t i = 0; i < types->cnt && !err; i++)
		if (types->list[i]->cnt)
			err = take_type(g, types->list[i]);
	for (size_t i = 0; i < g->cnt; i++) {
		struct grown_type *t = g->types[i];
		double n = (double)t->last_cnt - (double)t->first_cnt;
		double b = (double)t->last_bytes - (double)t->first_bytes;

		t->rises += g->readings && t->last_cnt > t->before_cnt;
		t->sum_n += n;
		t->sum_tn += minutes * n;
		t->sum_nn += n * n;
		t->sum_b += b;
		t->sum_tb += minutes * b;
	}
	note_point(g, minutes);
	g->readings++;
	g->minutes = minutes;
	g->sum_t += minutes;
	g->sum_tt += minutes * minutes;
	return err;
}

/* Least squares: n = a + slope t over all readings. */
static void fit(const struct heap_growth *g, struct grown_type *t)
{
	double n = (double)g->readings;
	double spread = g->sum_tt - g->sum_t * g->sum_t / n; /* of the times */
	double with = t->sum_tn - g->sum_t * t->sum_n / n;
	double total = t->sum_nn - t->sum_n * t->sum_n / n;
	double rest;

	t->objects = t->bytes = t->error = 0;
	if (g->readings < 2 || spread <= 0)
		return;
	t->objects = with / spread;
	t->bytes = (t->sum_tb - g->sum_t * t->sum_b / n) / spread;
	rest = total - with * with / spread; /* squares that the line leaves */
	if (g->readings >= HEAP_READINGS_MIN && rest > 0)
		t->error = sqrt(rest / (n - 2) / spread);
}

/* Student's t, two-sided 95%, by degrees of freedom. */
static double student(size_t freedom)
{
	static const double t[] = { 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23 };

	return freedom <= sizeof(t) / sizeof(t[0]) ? t[freedom - 1] : 1.96 + 2.5 / (double)freedom;
}

bool grown_type__is_sure(const struct heap_growth *g, const struct grown_type *t)
{
	if (g->readings >= HEAP_RISES_MIN && t->rises == g->readings - 1)
		return true;
	/* Less than half an object over the whole time is rounding. */
	return g->readings >= HEAP_READINGS_MIN && t->objects * g->minutes > 0.5 &&
	       t->objects > student(g->readings - 2) * t->error;
}

struct ranked {
	struct grown_type *t;
	bool sure;
};

static int by_growth(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->sure != y->sure)
		return x->sure ? -1 : 1;
	if (x->t->bytes != y->t->bytes)
		return x->t->bytes > y->t->bytes ? -1 : 1;
	return x->t->addr < y->t->addr ? -1 : x->t->addr > y->t->addr;
}

void heap_growth__rank(struct heap_growth *g)
{
	struct ranked *ranked = calloc(g->cnt + 1, sizeof(*ranked));

	for (size_t i = 0; i < g->cnt; i++) {
		fit(g, g->types[i]);
		if (ranked)
			ranked[i] =
				(struct ranked){ g->types[i], grown_type__is_sure(g, g->types[i]) };
	}
	if (!ranked)
		return;
	qsort(ranked, g->cnt, sizeof(*ranked), by_growth);
	for (size_t i = 0; i < g->cnt; i++)
		g->types[i] = ranked[i].t;
	free(ranked);
}
