/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "profile/export_stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct sym no_sym = { .kind = SYM_MARKER, .module = -1, .inlined = -1 };

const struct sym *export_sym(const struct profile *p, uint32_t index)
{
	return index < p->sym_cnt ? &p->syms[index] : &no_sym;
}

int32_t export_sym_inlined(const struct profile *p, uint32_t index)
{
	int32_t next = export_sym(p, index)->inlined;

	return next >= 0 && (size_t)next < p->sym_cnt ? next : -1;
}

const char *export_kind_name(uint8_t kind)
{
	switch (kind) {
	case SYM_PYTHON:
		return "python";
	case SYM_NATIVE:
		return "native";
	case SYM_KERNEL:
		return "kernel";
	case SYM_PLAIN:
		return "plain";
	default:
		return "marker";
	}
}

static uint32_t frame_sym(const struct profile *p, size_t frame)
{
	uint32_t index = p->frame_syms ? p->frame_syms[frame] : UINT32_MAX;

	return index < p->sym_cnt ? index : (uint32_t)p->sym_cnt;
}

static int cmp_u64(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

int export_str_cmp(const struct profile *p, str_id a, str_id b)
{
	size_t la, lb;
	int d;

	if (a == b)
		return 0;
	la = profile__str_len(p, a);
	lb = profile__str_len(p, b);
	d = memcmp(profile__str(p, a), profile__str(p, b), la < lb ? la : lb);
	return d ? d : cmp_u64(la, lb);
}

static int module_cmp(const struct profile *p, int32_t a, int32_t b)
{
	bool has_a = a >= 0 && (size_t)a < p->module_cnt;
	bool has_b = b >= 0 && (size_t)b < p->module_cnt;
	int d;

	if (a == b || !has_a || !has_b)
		return (int)has_a - (int)has_b;
	d = export_str_cmp(p, p->modules[a].path, p->modules[b].path);
	return d ? d : export_str_cmp(p, p->modules[a].build_id, p->modules[b].build_id);
}

int export_function_cmp(const struct profile *p, const struct sym *a, const struct sym *b)
{
	int d;

	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	d = export_str_cmp(p, a->func, b->func);
	if (!d)
		d = export_str_cmp(p, a->file, b->file);
	if (!d)
		d = module_cmp(p, a->module, b->module);
	return d ? d : (int)(a->flags & SYM_INLINED) - (int)(b->flags & SYM_INLINED);
}

int export_place_cmp(const struct profile *p, uint32_t a, uint32_t b, const void *parts)
{
	const unsigned *wanted = parts;
	const struct sym *sa = export_sym(p, a), *sb = export_sym(p, b);
	int d = export_function_cmp(p, sa, sb);

	if (!d && *wanted & PLACE_DEFINITIONS)
		d = cmp_u64(sa->start_line, sb->start_line);
	if (!d && !sa->func && (sa->kind == SYM_NATIVE || sa->kind == SYM_KERNEL))
		d = cmp_u64(sa->addr, sb->addr);
	return d || !(*wanted & PLACE_LINES) ? d : cmp_u64(sa->line, sb->line);
}

struct cmp_ctx {
	const struct profile *p;
	sym_cmp_fn cmp;
	const void *arg;
};

static int cmp_indexes(const void *a, const void *b, void *ctx)
{
	const struct cmp_ctx *c = ctx;
	uint32_t ia = *(const uint32_t *)a, ib = *(const uint32_t *)b;
	int d = c->cmp(c->p, ia, ib, c->arg);

	return d ? d : cmp_u64(ia, ib);
}

int sym_ranks__init(struct sym_ranks *r, const struct profile *p, sym_cmp_fn cmp, const void *arg)
{
	struct cmp_ctx ctx = { .p = p, .cmp = cmp, .arg = arg };
	size_t cnt = p->sym_cnt + 1;
	uint32_t *order = calloc(cnt, sizeof(*order));

	memset(r, 0, sizeof(*r));
	r->of = calloc(cnt, sizeof(*r->of));
	r->first = calloc(cnt, sizeof(*r->first));
	if (!order || !r->of || !r->first) {
		free(order);
		sym_ranks__free(r);
		return -ENOMEM;
	}
	for (size_t i = 0; i < cnt; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, cnt, sizeof(*order), cmp_indexes, &ctx);
	for (size_t i = 0; i < cnt; i++) {
		if (!i || cmp(p, order[i - 1], order[i], arg))
			r->first[r->cnt++] = order[i];
		r->of[order[i]] = r->cnt - 1;
	}
	free(order);
	return 0;
}

void sym_ranks__free(struct sym_ranks *r)
{
	free(r->of);
	free(r->first);
	memset(r, 0, sizeof(*r));
}

/* Number of elements that a frame becomes. */
static uint32_t frame_elems(const struct profile *p, size_t frame, bool inlined)
{
	int32_t next = inlined ? export_sym_inlined(p, frame_sym(p, frame)) : -1;
	uint32_t n = 1;

	for (; next >= 0 && n < EXPORT_MAX_INLINED; n++)
		next = export_sym_inlined(p, (uint32_t)next);
	return n;
}

static void flatten(struct flat_stacks *fs, const struct profile *p, const struct profile_stack *s,
		    const uint32_t *ids, bool inlined)
{
	struct flat_stack *out = &fs->stacks[fs->cnt++];
	uint32_t cnt = profile__stack_frames(p, s);

	out->first = fs->elem_cnt;
	out->count = s->count;
	out->samples = s->samples;
	out->type = s->type;
	for (uint32_t i = 0; i < cnt; i++) {
		uint32_t n = frame_elems(p, s->first + i, inlined);
		uint32_t sym = frame_sym(p, s->first + i);

		fs->elems[fs->elem_cnt++] = ids[sym];
		while (--n) {
			sym = (uint32_t)export_sym_inlined(p, sym);
			fs->elems[fs->elem_cnt++] = ids[sym];
		}
	}
	out->cnt = (uint32_t)(fs->elem_cnt - out->first);
}

static int cmp_flat(const void *a, const void *b, void *ctx)
{
	const struct flat_stacks *fs = ctx;
	const struct flat_stack *fa = a, *fb = b;
	uint32_t n = fa->cnt < fb->cnt ? fa->cnt : fb->cnt;

	if (fa->key != fb->key)
		return cmp_u64(fa->key, fb->key);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t ea = fs->elems[fa->first + i], eb = fs->elems[fb->first + i];

		if (ea != eb)
			return ea < eb ? -1 : 1;
	}
	if (fa->cnt != fb->cnt)
		return cmp_u64(fa->cnt, fb->cnt);
	return cmp_u64(fa->type, fb->type);
}

static void merge_equal(struct flat_stacks *fs)
{
	size_t kept = 0;

	for (size_t i = 0; i < fs->cnt; i++) {
		if (kept && !cmp_flat(&fs->stacks[kept - 1], &fs->stacks[i], fs)) {
			fs->stacks[kept - 1].count += fs->stacks[i].count;
			fs->stacks[kept - 1].samples += fs->stacks[i].samples;
		} else {
			fs->stacks[kept++] = fs->stacks[i];
		}
	}
	fs->cnt = kept;
}

int flat_stacks__init(struct flat_stacks *fs, const struct profile *p, const uint32_t *ids,
		      bool inlined, const uint64_t *keys)
{
	size_t elems = 0;

	memset(fs, 0, sizeof(*fs));
	for (size_t i = 0; i < p->stack_cnt; i++)
		for (uint32_t j = 0; j < profile__stack_frames(p, &p->stacks[i]); j++)
			elems += frame_elems(p, p->stacks[i].first + j, inlined);
	fs->elems = calloc(elems + 1, sizeof(*fs->elems));
	fs->stacks = calloc(p->stack_cnt + 1, sizeof(*fs->stacks));
	if (!fs->elems || !fs->stacks) {
		flat_stacks__free(fs);
		return -ENOMEM;
	}
	for (size_t i = 0; i < p->stack_cnt; i++) {
		if (!p->stacks[i].count)
			continue;
		flatten(fs, p, &p->stacks[i], ids, inlined);
		fs->stacks[fs->cnt - 1].key = keys ? keys[i] : 0;
	}
	qsort_r(fs->stacks, fs->cnt, sizeof(*fs->stacks), cmp_flat, fs);
	merge_equal(fs);
	return 0;
}

void flat_stacks__free(struct flat_stacks *fs)
{
	free(fs->elems);
	free(fs->stacks);
	memset(fs, 0, sizeof(*fs));
}

/* ---- Processes ---- */

int export_proc_cmp(const struct profile *p, uint32_t a, uint32_t b)
{
	const struct profile_proc *pa = &p->procs[a], *pb = &p->procs[b];
	int d = export_str_cmp(p, profile_proc__name(pa), profile_proc__name(pb));

	if (!d)
		d = export_str_cmp(p, pa->comm, pb->comm);
	if (!d)
		d = cmp_u64(pa->tgid, pb->tgid);
	if (!d)
		d = export_str_cmp(p, pa->container, pb->container);
	if (!d)
		d = export_str_cmp(p, pa->python, pb->python);
	if (!d)
		d = export_str_cmp(p, pa->exe, pb->exe);
	return d ? d : export_str_cmp(p, pa->native_only, pb->native_only);
}

static int cmp_procs(const void *a, const void *b, void *ctx)
{
	const struct profile *p = ctx;
	uint32_t ia = *(const uint32_t *)a, ib = *(const uint32_t *)b;
	int d = export_proc_cmp(p, ia, ib);

	return d ? d : cmp_u64(p->procs[ia].space, p->procs[ib].space);
}

int proc_order__init(struct proc_order *o, const struct profile *p)
{
	size_t cnt = p->proc_cnt;

	o->at = calloc(cnt + 1, sizeof(*o->at));
	o->rank = calloc(cnt + 1, sizeof(*o->rank));
	if (!o->at || !o->rank) {
		proc_order__free(o);
		return -ENOMEM;
	}
	for (size_t i = 0; i < cnt; i++)
		o->at[i] = (uint32_t)i;
	qsort_r(o->at, cnt, sizeof(*o->at), cmp_procs, (void *)p);
	for (size_t i = 0; i < cnt; i++)
		o->rank[o->at[i]] = (uint32_t)i;
	o->at[cnt] = UINT32_MAX;
	o->rank[cnt] = (uint32_t)cnt;
	return 0;
}

void proc_order__free(struct proc_order *o)
{
	free(o->at);
	free(o->rank);
	memset(o, 0, sizeof(*o));
}

uint64_t *proc_order__keys(const struct proc_order *o, const struct profile *p, bool threads)
{
	uint64_t *keys = calloc(p->stack_cnt + 1, sizeof(*keys));

	for (size_t i = 0; keys && i < p->stack_cnt; i++) {
		const struct profile_stack *s = &p->stacks[i];
		size_t proc = s->proc < p->proc_cnt ? s->proc : p->proc_cnt;

		keys[i] = (uint64_t)o->rank[proc] << 32 | (threads ? s->tid : 0);
	}
	return keys;
}

/* ---- Groups ---- */

static int cmp_groups(const void *a, const void *b)
{
	const struct stack_group *ga = a, *gb = b;
	int d = cmp_u64(gb->count, ga->count);

	return d ? d : cmp_u64(ga->key, gb->key);
}

struct stack_group *flat_stacks__groups(const struct flat_stacks *fs, size_t *cnt)
{
	struct stack_group *groups;
	size_t n = 0;

	for (size_t i = 0; i < fs->cnt; i++)
		n += !i || fs->stacks[i].key != fs->stacks[i - 1].key;
	groups = calloc(n + 1, sizeof(*groups));
	*cnt = groups ? n : 0;
	n = 0;
	for (size_t i = 0; groups && i < fs->cnt; i++) {
		if (!i || fs->stacks[i].key != fs->stacks[i - 1].key)
			groups[n++] = (struct stack_group){ .first = i, .key = fs->stacks[i].key };
		groups[n - 1].cnt++;
		if (fs->stacks[i].type)
			continue;
		groups[n - 1].count += fs->stacks[i].count;
		groups[n - 1].samples += fs->stacks[i].samples;
	}
	if (groups)
		qsort(groups, n, sizeof(*groups), cmp_groups);
	return groups;
}

/* ---- All of it ---- */

/* Drops the places that are in no stack: "[not-symbolized]", mostly. */
static int drop_unused(struct export_view *v)
{
	uint32_t *number = calloc(v->places.cnt + 1, sizeof(*number)), cnt = 0;

	if (!number)
		return -ENOMEM;
	for (size_t i = 0; i < v->stacks.elem_cnt; i++)
		number[v->stacks.elems[i]] = 1;
	for (uint32_t i = 0; i < v->places.cnt; i++) {
		if (!number[i])
			continue;
		v->places.first[cnt] = v->places.first[i];
		number[i] = cnt++;
	}
	v->places.cnt = cnt;
	for (size_t i = 0; i < v->stacks.elem_cnt; i++)
		v->stacks.elems[i] = number[v->stacks.elems[i]];
	free(number);
	return 0;
}

int export_view__init(struct export_view *v, const struct profile *p, unsigned parts, bool threads)
{
	uint64_t *keys = NULL;
	int err;

	memset(v, 0, sizeof(*v));
	err = sym_ranks__init(&v->places, p, export_place_cmp, &parts);
	if (!err)
		err = proc_order__init(&v->procs, p);
	if (!err)
		keys = proc_order__keys(&v->procs, p, threads);
	if (!err && !keys)
		err = -ENOMEM;
	if (!err)
		err = flat_stacks__init(&v->stacks, p, v->places.of, true, keys);
	free(keys);
	if (!err)
		err = drop_unused(v);
	if (!err)
		v->groups = flat_stacks__groups(&v->stacks, &v->group_cnt);
	if (!err && !v->groups)
		err = -ENOMEM;
	if (err)
		export_view__free(v);
	return err;
}

void export_view__free(struct export_view *v)
{
	sym_ranks__free(&v->places);
	flat_stacks__free(&v->stacks);
	proc_order__free(&v->procs);
	free(v->groups);
	memset(v, 0, sizeof(*v));
}

const struct profile_proc *export_view__proc(const struct export_view *v, const struct profile *p,
					     const struct stack_group *g)
{
	uint32_t index = v->procs.at[g->key >> 32];

	return index < p->proc_cnt ? &p->procs[index] : NULL;
}

int64_t export_cpu_ns(const struct profile *p, uint64_t count)
{
	return export_value_ns(&p->stats.values[0], count);
}

int64_t export_value_ns(const struct value_type *v, uint64_t count)
{
	uint64_t per_second = value_type__per_second(v);
	unsigned __int128 ns = per_second ? (unsigned __int128)count * 1000000000u / per_second : 0;

	return ns > INT64_MAX ? INT64_MAX : (int64_t)ns;
}
