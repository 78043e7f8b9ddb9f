/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "heap/ref_labels.h"

#include <errno.h>
#include <stdlib.h>

#include "heap/ref_parts.h"

struct asked {
	const struct heap_object *objects;
	struct ref_label *labels;
	size_t cnt, step;
};

/* A holder that has a name is better than one that merely runs. */
static int rank(const struct ref_group *g)
{
	if (heap_type__is(g->type, "module") || g->type->is_meta)
		return 2;
	return !heap_type__is(g->type, "frame") && !heap_type__is(g->type, "function");
}

/* The object whose holder a step asks for; 0: none. */
static uint64_t target_of(const struct asked *a, size_t i)
{
	const struct ref_label *l = &a->labels[i];

	if (l->own)
		return 0;
	if (!a->step)
		return a->objects[i].addr;
	return l->step_cnt && heap_type__is(l->by[0].type, "dict") ? l->by[0].holder : 0;
}

static bool is_asked(struct ref_finder *f, uint64_t addr)
{
	const struct asked *a = f->paths;

	for (size_t i = 0; i < a->cnt; i++)
		if (target_of(a, i) == addr)
			return true;
	return false;
}

static void take(struct ref_finder *f, const struct ref_group *hit)
{
	struct asked *a = f->paths;

	for (size_t i = 0; i < a->cnt; i++) {
		struct ref_label *l = &a->labels[i];

		if (target_of(a, i) != hit->target || hit->holder == hit->target ||
		    (l->step_cnt > a->step && rank(hit) <= rank(&l->by[a->step])))
			continue;
		l->by[a->step] = *hit;
		l->step_cnt = a->step + 1;
	}
}

static void visit(void *ctx, const struct heap_seen *o)
{
	ref_look_at_object(ctx, o);
}

/* False: there is nothing to ask for in this step. */
static bool aim(struct ref_finder *f)
{
	const struct asked *a = f->paths;

	f->low = UINT64_MAX;
	f->high = 0;
	for (size_t i = 0; i < a->cnt; i++) {
		uint64_t addr = target_of(a, i);

		f->low = addr && addr < f->low ? addr : f->low;
		f->high = addr > f->high ? addr : f->high;
	}
	return f->high;
}

int ref_labels__find(const struct ref_source *src, const struct heap_object *objects, size_t cnt,
		     struct ref_label *labels)
{
	struct asked a = { .objects = objects, .labels = labels, .cnt = cnt };
	struct referrers none = { 0 };
	struct ref_finder *f = ref_finder__new(src, &none);
	int err = f ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < cnt; i++)
		labels[i].own = heap_names__own(&f->names, objects[i].type, objects[i].addr);
	if (f) {
		f->is_target = is_asked;
		f->hit = take;
		f->paths = &a;
	}
	for (; !err && a.step < REF_LABEL_STEPS && aim(f); a.step++)
		err = ref_read_heap(f, visit);
	for (size_t i = 0; !err && i < cnt; i++)
		for (size_t k = 0; k < labels[i].step_cnt; k++)
			ref_name_step(f, &labels[i].by[k]);
	ref_finder__free(f);
	return err;
}

void ref_labels__free(struct ref_label *labels, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		free(labels[i].own);
		for (size_t k = 0; k < labels[i].step_cnt; k++)
			free(labels[i].by[k].name);
		labels[i] = (struct ref_label){ 0 };
	}
}
