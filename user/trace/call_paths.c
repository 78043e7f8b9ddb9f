/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/call_paths.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"

#define FULL UINT32_MAX /* a way that found no room, and all that begin with it */

struct call_path {
	uint32_t from, function; /* of what is below all: itself, and the number of the process */
	uint32_t depth;		 /* 0: it is below all */
	uint64_t calls, own_ns;	 /* that ended here */
};

struct call_paths {
	struct call_path *all; /* the first is CALL_PATHS_TOP */
	size_t cnt, cap;
	struct hash_index index;
	struct hash_key key;
	uint64_t left_out; /* calls whose way found no room */
};

struct call_paths *call_paths__new(void)
{
	struct call_paths *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->key = hash_key();
	if (ARRAY_GROW(p->all, p->cap, p->cnt, CALL_PATHS_MAX)) {
		free(p);
		return NULL;
	}
	p->all[p->cnt++] = (struct call_path){ 0 };
	return p;
}

void call_paths__free(struct call_paths *p)
{
	if (!p)
		return;
	hash_index__free(&p->index);
	free(p->all);
	free(p);
}

uint32_t call_paths__top(struct call_paths *p, uint32_t proc)
{
	if (ARRAY_GROW(p->all, p->cap, p->cnt, CALL_PATHS_MAX))
		return FULL;
	p->all[p->cnt] = (struct call_path){ .from = (uint32_t)p->cnt, .function = proc };
	return (uint32_t)p->cnt++;
}

uint32_t call_paths__none(void)
{
	return FULL;
}

uint32_t call_paths__call(struct call_paths *p, uint32_t from, uint32_t function)
{
	const uint32_t words[] = { from, function };
	uint64_t hash = hash_bytes(&p->key, words, sizeof(words));
	uint32_t i;

	/* What is called deeper belongs to the function there. */
	if (from == FULL || p->all[from].depth == CALL_PICTURE_DEPTH)
		return from;
	for (size_t at = 0; (i = hash_index__next(&p->index, hash, &at)) != HASH_NONE;)
		if (p->all[i].from == from && p->all[i].function == function)
			return i;
	if (ARRAY_GROW(p->all, p->cap, p->cnt, CALL_PATHS_MAX) ||
	    hash_index__add(&p->index, hash, (uint32_t)p->cnt))
		return FULL;
	p->all[p->cnt] = (struct call_path){ .from = from,
					     .function = function,
					     .depth = p->all[from].depth + 1 };
	return (uint32_t)p->cnt++;
}

void call_paths__add(struct call_paths *p, uint32_t at, uint64_t own_ns)
{
	if (at == FULL) {
		p->left_out++;
		return;
	}
	p->all[at].calls++;
	p->all[at].own_ns += own_ns;
}

struct drawing {
	const struct call_paths *p;
	struct call_picture *picture;
	uint64_t (*word_of)(void *ctx, uint32_t function);
	void *ctx;
	uint64_t *frames; /* by way: of its last function; 0: not known yet */
};

/* 0 or -ENOMEM. */
static int draw(const struct drawing *d, uint32_t at)
{
	const struct call_path *all = d->p->all, *path = &all[at];
	uint64_t words[CALL_PICTURE_DEPTH];
	uint32_t cnt = path->depth;

	for (uint32_t i = cnt; i--; at = all[at].from) {
		if (!d->frames[at])
			d->frames[at] = d->word_of(d->ctx, all[at].function);
		if (!d->frames[at])
			return -ENOMEM;
		words[i] = d->frames[at];
	}
	if (at != CALL_PATHS_TOP)
		call_picture__set_process(d->picture, all[at].function);
	return call_picture__add(d->picture, words, cnt, path->calls, path->own_ns);
}

/* What is drawn, in the order in which it was called first. */
static uint32_t find_drawn(const struct call_paths *p, uint32_t *order, uint64_t *frames)
{
	uint32_t cnt = 0;

	*frames = 0;
	for (uint32_t i = 1; i < p->cnt; i++) {
		if (!p->all[i].depth || !p->all[i].own_ns)
			continue;
		order[cnt++] = i;
		*frames += p->all[i].depth;
	}
	return cnt;
}

static int by_time(const void *a, const void *b, void *ctx)
{
	const struct call_path *all = ctx;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;

	if (all[i].own_ns != all[k].own_ns)
		return all[i].own_ns < all[k].own_ns ? 1 : -1;
	return (i > k) - (i < k);
}

int call_paths__draw(const struct call_paths *p, struct call_picture *picture,
		     uint64_t (*word_of)(void *ctx, uint32_t function), void *ctx)
{
	struct drawing d = { .p = p, .picture = picture, .word_of = word_of, .ctx = ctx };
	uint32_t *order = calloc(p->cnt, sizeof(*order)), cnt = 0;
	uint64_t frames = 0;
	int err;

	d.frames = calloc(p->cnt, sizeof(*d.frames));
	err = order && d.frames ? 0 : -ENOMEM;
	if (!err)
		cnt = find_drawn(p, order, &frames);
	/* Where not all has room, it is for what took longest. */
	if (cnt && !call_picture__has_room(picture, p->cnt, frames))
		qsort_r(order, cnt, sizeof(*order), by_time, p->all);
	for (uint32_t i = 0; i < cnt && !err; i++)
		err = draw(&d, order[i]);
	free(d.frames);
	free(order);
	call_picture__leave_out(picture, p->left_out);
	return err;
}
