// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "agent/push/push_services.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define FIRST_CAP 16
#define NAMED	  5 /* services that a message lists */

void push_service_name(const struct window *w, struct strbuf *out)
{
	const char *space = window__label(w, "k8s_namespace");
	const char *name = window__label(w, "service_name");
	struct strbuf whole = { 0 };

	if (space)
		strbuf__addf(&whole, "%s/", space);
	strbuf__addz(&whole, name && *name ? name : "(no name)");
	if (whole.err)
		out->err = whole.err;
	else
		str_sanitise(out, whole.s, whole.len, PUSH_SERVICE_NAME_MAX);
	strbuf__free(&whole);
}

/* ---- Heaps ----------------------------------------------------------------------------------- */

static void put_at(struct push_turns *t, size_t place, struct push_service *x)
{
	t->list[place] = x;
	x->place = place;
}

static void move_up(struct push_turns *t, size_t at, struct push_service *x)
{
	while (at && t->list[(at - 1) / 2]->key > x->key) {
		put_at(t, at, t->list[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	put_at(t, at, x);
}

static void move_down(struct push_turns *t, size_t at, struct push_service *x)
{
	size_t child;

	while ((child = 2 * at + 1) < t->cnt) {
		if (child + 1 < t->cnt && t->list[child + 1]->key < t->list[child]->key)
			child++;
		if (t->list[child]->key >= x->key)
			break;
		put_at(t, at, t->list[child]);
		at = child;
	}
	put_at(t, at, x);
}

static void leave_turns(struct push_service *x)
{
	struct push_turns *t = x->turns;
	struct push_service *last;

	if (!t)
		return;
	x->turns = NULL;
	last = t->list[--t->cnt];
	if (last == x)
		return;
	if (x->place && t->list[(x->place - 1) / 2]->key > last->key)
		move_up(t, x->place, last);
	else
		move_down(t, x->place, last);
}

static void enter_turns(struct push_turns *t, struct push_service *x, uint64_t key)
{
	x->key = key;
	x->turns = t;
	move_up(t, t->cnt++, x);
}

static struct push_service *top(const struct push_turns *t)
{
	return t->cnt ? t->list[0] : NULL;
}

/* Only windows of the requests on their way are taken: a few hundred at most. */
static struct push_window *first_free(const struct push_service *x)
{
	struct push_window *w = x->first;

	while (w && w->taken)
		w = w->later;
	return w;
}

/* Where the service belongs, after anything about it has changed. */
static void place(struct push_services *s, struct push_service *x)
{
	const struct push_window *w = first_free(x);

	leave_turns(x);
	if (!w)
		return;
	if (x->hold_ms)
		enter_turns(&s->held, x, x->hold_ms);
	else if (x->failures)
		enter_turns(&s->troubled, x, x->held_ms);
	else
		enter_turns(&s->well, x, w->number > x->behind ? w->number : x->behind);
}

/* ---- Services -------------------------------------------------------------------------------- */

static struct push_service **bucket_of(const struct push_services *s, uint64_t hash)
{
	return &s->buckets[hash & (s->cap - 1)];
}

static struct push_service *find_service(const struct push_services *s, const char *name,
					 uint64_t hash)
{
	struct push_service *x = s->cap ? *bucket_of(s, hash) : NULL;

	while (x && (x->hash != hash || strcmp(x->name, name)))
		x = x->next_same;
	return x;
}

static void move_to_buckets(struct push_services *s, struct push_service **buckets, size_t cap)
{
	struct push_service **old = s->buckets;
	size_t old_cap = s->cap;

	s->buckets = buckets;
	s->cap = cap;
	for (size_t i = 0; i < old_cap; i++) {
		for (struct push_service *x = old[i], *next; x; x = next) {
			struct push_service **to = bucket_of(s, x->hash);

			next = x->next_same;
			x->next_same = *to;
			*to = x;
		}
	}
	free(old);
}

static int grow_heap(struct push_turns *t, size_t cap)
{
	struct push_service **list = realloc(t->list, cap * sizeof(struct push_service *));

	if (!list)
		return -ENOMEM;
	t->list = list;
	return 0;
}

/* Room for one more service in the buckets and in every heap, so that no move can fail. */
static int reserve(struct push_services *s)
{
	size_t cap = s->cap ? 2 * s->cap : FIRST_CAP;
	struct push_service **buckets;

	if (s->cnt < s->cap)
		return 0;
	if (grow_heap(&s->well, cap) || grow_heap(&s->troubled, cap) || grow_heap(&s->held, cap))
		return -ENOMEM;
	buckets = calloc(cap, sizeof(struct push_service *));
	if (!buckets)
		return -ENOMEM;
	move_to_buckets(s, buckets, cap);
	return 0;
}

static struct push_service *add_service(struct push_services *s, const char *name, uint64_t hash)
{
	struct push_service *x = reserve(s) ? NULL : calloc(1, sizeof(*x)), **bucket;

	if (!x)
		return NULL;
	x->name = strdup(name);
	if (!x->name) {
		free(x);
		return NULL;
	}
	bucket = bucket_of(s, hash);
	x->hash = hash;
	x->failed_at = PUSH_NEVER;
	x->next_same = *bucket;
	*bucket = x;
	s->cnt++;
	return x;
}

static void remove_service(struct push_services *s, struct push_service *x)
{
	struct push_service **at = bucket_of(s, x->hash);

	while (*at != x)
		at = &(*at)->next_same;
	*at = x->next_same;
	s->cnt--;
	free(x->name);
	free(x);
}

/* ---- Windows --------------------------------------------------------------------------------- */

int push_services__add(struct push_services *s, const char *service, struct push_window *w)
{
	struct hash_key key = hash_key();
	uint64_t hash = hash_bytes(&key, service, strlen(service));
	struct push_service *x = find_service(s, service, hash);

	if (!x)
		x = add_service(s, service, hash);
	if (!x)
		return -ENOMEM;
	w->service = x;
	w->after = w->later = NULL;
	w->before = s->last;
	w->sooner = x->last;
	*(s->last ? &s->last->after : &s->first) = w;
	*(x->last ? &x->last->later : &x->first) = w;
	s->last = x->last = w;
	x->windows++;
	place(s, x);
	return 0;
}

void push_services__remove(struct push_services *s, struct push_window *w)
{
	struct push_service *x = w->service;

	*(w->before ? &w->before->after : &s->first) = w->after;
	*(w->after ? &w->after->before : &s->last) = w->before;
	*(w->later ? &w->later->sooner : &x->last) = w->sooner;
	if (w->sooner) {
		w->sooner->later = w->later;
	} else {
		x->first = w->later; /* what was known of the first is not true of the next */
		x->errors = 0;
		x->probe = false;
	}
	x->windows--;
	free(w->memory);
	free(w);
	place(s, x);
	if (!x->windows)
		remove_service(s, x);
}

void push_services__free(struct push_services *s)
{
	while (s->first)
		push_services__remove(s, s->first);
	free(s->well.list);
	free(s->troubled.list);
	free(s->held.list);
	free(s->buckets);
	*s = (struct push_services){ 0 };
}

struct push_window *push_services__oldest(const struct push_services *s)
{
	struct push_window *w = s->first;

	while (w && w->taken)
		w = w->after;
	return w;
}

/* ---- Whose turn it is ------------------------------------------------------------------------ */

static void release_held(struct push_services *s, uint64_t now_ms)
{
	struct push_service *x;

	while ((x = top(&s->held)) && x->hold_ms <= now_ms) {
		x->hold_ms = 0;
		place(s, x);
	}
}

static struct push_window *second_free(struct push_window *w)
{
	do
		w = w->later;
	while (w && w->taken);
	return w;
}

struct push_window *push_services__next(struct push_services *s, uint64_t now_ms, unsigned which,
					bool *probe)
{
	struct push_window *w, *second = NULL;
	struct push_service *x;

	release_held(s, now_ms);
	x = which & PUSH_TURN_TROUBLED ? top(&s->troubled) : NULL;
	if (!x && which & PUSH_TURN_WELL)
		x = top(&s->well);
	*probe = false;
	if (!x)
		return NULL;
	w = first_free(x);
	if (x->probe)
		second = second_free(w);
	x->probe = false; /* then the first one again */
	*probe = second;
	return second ? second : w;
}

void push_services__set_taken(struct push_services *s, struct push_window *w, bool taken)
{
	w->taken = taken;
	place(s, w->service);
}

void push_services__due(const struct push_services *s, uint64_t *well_ms, uint64_t *other_ms)
{
	const struct push_service *held = top(&s->held);

	*well_ms = s->well.cnt ? 0 : PUSH_NEVER;
	*other_ms = s->troubled.cnt ? 0 : held ? held->hold_ms : PUSH_NEVER;
}

static void forget_trouble(struct push_service *x)
{
	x->failures = 0;
	x->behind = 0;
	x->said = false;
	x->failed_at = PUSH_NEVER;
}

void push_services__judge(struct push_services *s, struct push_service *x,
			  enum push_service_verdict v, uint64_t until_ms, int status)
{
	switch (v) {
	case PUSH_SERVICE_TAKES:
		s->successes++;
		forget_trouble(x);
		break;
	case PUSH_SERVICE_WELL:
		forget_trouble(x);
		break;
	case PUSH_SERVICE_HOLD:
		x->failures++;
		x->hold_ms = until_ms > x->hold_ms ? until_ms : x->hold_ms;
		x->held_ms = x->hold_ms;
		x->failed_at = s->successes;
		x->status = status;
		break;
	case PUSH_SERVICE_BEHIND:
		x->behind = s->last->number;
		x->failed_at = s->successes;
		x->status = status;
	}
	place(s, x);
}

uint64_t push_services__suspect(struct push_services *s, struct push_window *w)
{
	struct push_service *x = w->service;

	if (w != x->first)
		return 0;
	if (!x->errors++)
		x->errors_at = s->successes;
	x->probe = x->errors >= PUSH_SUSPECT_TRIES;
	return x->probe ? s->successes - x->errors_at : 0;
}

bool push_services__is_alone(const struct push_services *s, const struct push_service *x)
{
	return x->failed_at != PUSH_NEVER && s->successes > x->failed_at;
}

/* ---- What waits ------------------------------------------------------------------------------ */

/* The services with the most windows, in that order. Returns how many there are in `out`. */
static size_t largest(const struct push_services *s, const struct push_service *out[NAMED])
{
	const struct push_service *x;
	size_t cnt = 0, at;

	for (size_t i = 0; i < s->cap; i++) {
		for (x = s->buckets[i]; x; x = x->next_same) {
			for (at = cnt; at && out[at - 1]->windows < x->windows; at--)
				if (at < NAMED)
					out[at] = out[at - 1];
			if (at < NAMED)
				out[at] = x;
			cnt += cnt < NAMED;
		}
	}
	return cnt;
}

void push_services__print(const struct push_services *s, uint64_t windows, struct strbuf *out)
{
	const struct push_service *list[NAMED];
	size_t cnt = largest(s, list);

	strbuf__addf(out, "%" PRIu64 " window%s of %zu service%s: ", windows,
		     windows == 1 ? "" : "s", s->cnt, s->cnt == 1 ? "" : "s");
	for (size_t i = 0; i < cnt; i++) {
		strbuf__addf(out, "%s%s %" PRIu64, i ? ", " : "", list[i]->name, list[i]->windows);
		if (list[i]->failed_at == PUSH_NEVER)
			continue;
		if (list[i]->status)
			strbuf__addf(out, " (status %d)", list[i]->status);
		else
			strbuf__addz(out, " (no answer)");
	}
	if (s->cnt > cnt)
		strbuf__addf(out, " and %zu other services", s->cnt - cnt);
}
