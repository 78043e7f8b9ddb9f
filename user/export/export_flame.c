/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "export/export_flame.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "profile/export_stacks.h"
#include "profile/export_text.h"
#include "profile/origin.h"
#include "profile/waits.h"

#define CURVE_SHIFT 32 /* of a key: the number of a curve above that of a task */

/* While a flame is made. Hash indexes find a func, place or task by its content. */
struct maker {
	struct flame *f;
	const struct flame_opts *o;
	struct hash_key key;
	struct hash_index funcs, places, tasks;
	struct strbuf buf;
};

const char *flame__text(const struct flame *f, uint32_t text, size_t *len)
{
	return strtab__get(f->texts, text, len);
}

void flame__free(struct flame *f)
{
	strtab__free(f->texts);
	free(f->funcs);
	free(f->places);
	free(f->tasks);
	free(f->groups);
	free(f->elems);
	free(f->stacks);
	free(f->values);
	memset(f, 0, sizeof(*f));
}

/* Interns the safe text of the buffer. 0 is the empty text. */
static int intern(struct maker *m, uint32_t *text)
{
	struct strbuf cut = { 0 };
	int err;

	str_sanitise(&cut, m->buf.s ? m->buf.s : "", m->buf.len, FLAME_NAME_MAX);
	err = m->buf.err ? m->buf.err : cut.err;
	*text = err ? 0 : strtab__add(m->f->texts, cut.s ? cut.s : "", cut.len);
	if (!err && cut.len && !*text)
		err = -ENOMEM;
	strbuf__free(&cut);
	strbuf__clear(&m->buf);
	return err;
}

/* ---- Groups: what has one colour ---- */

#define STDLIB "stdlib"

/* The last directory of a path: "shop" of "/srv/shop/views.py"; the file's name without one. */
static void add_last_dir(struct strbuf *b, const char *path)
{
	const char *slash = strrchr(path, '/'), *start = slash;

	if (!slash || slash == path) {
		strbuf__addz(b, slash ? slash + 1 : path);
		return;
	}
	while (start > path && start[-1] != '/')
		start--;
	strbuf__add(b, start, (size_t)(slash - start));
}

static void add_package(struct strbuf *b, const char *path)
{
	const char *site = origin_in_site(path);
	size_t len;

	if (site) {
		len = strcspn(site, "/");
		if (len > 3 && !site[len] && !strncmp(site + len - 3, ".py", 3))
			len -= 3;
		strbuf__add(b, site, len);
	} else if (origin_is_stdlib(path) || !strncmp(path, "<frozen ", 8)) {
		strbuf__addz(b, "stdlib");
	} else {
		add_last_dir(b, path);
	}
}

static bool is_wait(const struct profile *p, const struct sym *s)
{
	return wait_reason(profile__str(p, s->func), NULL) ||
	       wait_is_ended(profile__str(p, s->func));
}

/* The group of a function whose file is in the buffer; the buffer holds it then. */
static void make_group(struct maker *m, const struct profile *p, const struct sym *s)
{
	strbuf__clear(&m->buf);
	switch (s->kind) {
	case SYM_PYTHON:
		add_package(&m->buf, profile__str(p, s->file));
		break;
	case SYM_NATIVE:
		text_add_module(&m->buf, p, s->module);
		break;
	case SYM_KERNEL:
		strbuf__addz(&m->buf, "kernel");
		break;
	case SYM_PLAIN:
		add_last_dir(&m->buf, profile__str(p, s->file));
		break;
	default:
		strbuf__addz(&m->buf, is_wait(p, s) ? "waiting" : "marker");
	}
	if (!m->buf.len)
		strbuf__addz(&m->buf, "unknown");
}

/* ---- Functions and places ---- */

static enum flame_plumbing plumbing_of(const struct sym *s)
{
	if (s->flags & SYM_GLUE_BOX)
		return PLUMBING_BOX;
	return s->flags & SYM_GLUE ? PLUMBING_FRAME : PLUMBING_NONE;
}

static uint64_t hash_words(const struct maker *m, const uint32_t *words, size_t cnt)
{
	return hash_bytes(&m->key, words, cnt * sizeof(*words));
}

static int make_func(struct maker *m, const struct profile *p, const struct sym *s,
		     struct flame_func *fn)
{
	int err;

	*fn = (struct flame_func){ .kind = s->kind, .start_line = s->start_line };
	fn->plumbing = plumbing_of(s);
	fn->own = s->kind == SYM_PYTHON && origin_of(profile__str(p, s->file)) == ORIGIN_OWN;
	text_add_func(&m->buf, p, s, "");
	if (!m->buf.len) { /* many addresses that are one function to a reader */
		text_add_module(&m->buf, p, s->module);
		strbuf__addz(&m->buf, " (no symbol)");
	}
	err = intern(m, &fn->name);
	if (err)
		return err;
	text_add_place(&m->buf, p, s, 0);
	err = intern(m, &fn->file);
	if (err)
		return err;
	make_group(m, p, s);
	return intern(m, &fn->group); /* a text until groups are numbered */
}

/* The index of a function with this content. Of several definitions the first line is kept. */
static int add_func(struct maker *m, const struct flame_func *fn)
{
	struct flame *f = m->f;
	uint32_t parts[] = { fn->kind, fn->name, fn->file };
	uint64_t hash = hash_words(m, parts, 3);
	uint32_t i;

	for (size_t at = 0; (i = hash_index__next(&m->funcs, hash, &at)) != HASH_NONE;) {
		struct flame_func *old = &f->funcs[i];

		if (old->kind != fn->kind || old->name != fn->name || old->file != fn->file)
			continue;
		if (fn->start_line && (!old->start_line || fn->start_line < old->start_line))
			old->start_line = fn->start_line;
		return (int)i;
	}
	if (ARRAY_GROW(f->funcs, f->func_cap, f->func_cnt, INT_MAX) ||
	    hash_index__add(&m->funcs, hash, (uint32_t)f->func_cnt))
		return -ENOMEM;
	f->funcs[f->func_cnt] = *fn;
	return (int)f->func_cnt++;
}

static int add_place(struct maker *m, uint32_t func, uint32_t line, uint32_t sym)
{
	struct flame *f = m->f;
	uint32_t parts[] = { func, line }, i;
	uint64_t hash = hash_words(m, parts, 2);

	for (size_t at = 0; (i = hash_index__next(&m->places, hash, &at)) != HASH_NONE;)
		if (f->places[i].func == func && f->places[i].line == line)
			return (int)i;
	if (ARRAY_GROW(f->places, f->place_cap, f->place_cnt, INT_MAX) ||
	    hash_index__add(&m->places, hash, (uint32_t)f->place_cnt))
		return -ENOMEM;
	f->places[f->place_cnt] = (struct flame_place){ func, line, sym };
	return (int)f->place_cnt++;
}

/* ids[sym of p] = place */
static int add_syms(struct maker *m, const struct profile *p, bool is_base, uint32_t *ids)
{
	for (size_t i = 0; i <= p->sym_cnt; i++) {
		const struct sym *s = export_sym(p, (uint32_t)i);
		struct flame_func fn;
		int n = make_func(m, p, s, &fn);

		n = n ? n : add_func(m, &fn);
		if (n >= 0)
			n = add_place(m, (uint32_t)n, m->o->lines ? s->line : 0,
				      is_base || i == p->sym_cnt ? 0 : (uint32_t)i + 1);
		if (n < 0)
			return n;
		ids[i] = (uint32_t)n;
	}
	return 0;
}

/* ---- Tasks ---- */

static int make_task(struct maker *m, const struct profile *p, const struct profile_stack *s,
		     struct flame_task *t)
{
	static const struct profile_proc none;
	const struct profile_proc *proc = s->proc < p->proc_cnt ? &p->procs[s->proc] : &none;
	uint32_t tid = THREAD_TID(s->tid), interp = THREAD_INTERP(s->tid);
	const char *thread = profile__thread_name(p, proc->space, tid);
	int err;

	*t = (struct flame_task){ 0 };
	if (!m->f->compared) {
		t->tgid = proc->tgid;
		t->tid = tid;
	}
	text_add_name(&m->buf, p, profile_proc__name(proc), "<unknown>");
	err = intern(m, &t->comm);
	if (err || m->f->compared)
		return err;
	text_add_path(&m->buf, p, proc->exe);
	err = intern(m, &t->exe);
	if (err)
		return err;
	text_add_name(&m->buf, p, proc->python, "");
	err = intern(m, &t->python);
	if (err)
		return err;
	str_sanitise(&m->buf, thread, strlen(thread), FLAME_NAME_MAX);
	if (interp)
		strbuf__addf(&m->buf, ", interpreter %" PRIu32, interp);
	return intern(m, &t->thread);
}

static int add_task(struct maker *m, const struct flame_task *t)
{
	struct flame *f = m->f;
	uint32_t parts[] = { t->comm, t->exe, t->python, t->tgid, t->tid, t->thread }, i;
	uint64_t hash = hash_words(m, parts, 6);

	_Static_assert(sizeof(parts) == sizeof(*t), "all of a task is compared");
	for (size_t at = 0; (i = hash_index__next(&m->tasks, hash, &at)) != HASH_NONE;)
		if (!memcmp(&f->tasks[i], t, sizeof(*t)))
			return (int)i;
	if (ARRAY_GROW(f->tasks, f->task_cap, f->task_cnt, INT_MAX) ||
	    hash_index__add(&m->tasks, hash, (uint32_t)f->task_cnt))
		return -ENOMEM;
	f->tasks[f->task_cnt] = *t;
	return (int)f->task_cnt++;
}

static int add_tasks(struct maker *m, const struct profile *p, uint64_t *keys)
{
	for (size_t i = 0; m->o->tasks && i < p->stack_cnt; i++) {
		const struct profile_stack *s = &p->stacks[i];
		struct flame_task t;
		int n;

		/* Stacks of one process mostly lie together. */
		if (i && s[-1].proc == s->proc && s[-1].tid == s->tid) {
			keys[i] = keys[i - 1];
			continue;
		}
		n = make_task(m, p, s, &t);
		n = n ? n : add_task(m, &t);
		if (n < 0)
			return n;
		keys[i] = (uint64_t)n;
	}
	return 0;
}

/* ---- Stacks ---- */

static int append_stack(struct maker *m, const struct flat_stacks *fs, const struct flat_stack *s,
			bool is_base)
{
	struct flame *f = m->f;
	const uint32_t *places = &fs->elems[s->first];
	struct flame_stack out = { .first = f->elem_cnt, .task = (uint32_t)s->key };

	if (array_grow(&f->elems, &f->elem_cap, f->elem_cnt, s->cnt, sizeof(*f->elems),
		       SIZE_MAX / 8) ||
	    ARRAY_GROW(f->stacks, f->stack_cap, f->stack_cnt, INT_MAX))
		return -ENOMEM;
	for (uint32_t i = 0; i < s->cnt; i++)
		f->elems[f->elem_cnt++] = places[i];
	out.cnt = (uint32_t)(f->elem_cnt - out.first);
	out.curve = (size_t)(s->key >> CURVE_SHIFT) * f->point_cnt;
	*(is_base ? &out.base : &out.value) =
		f->point_cnt ? f->values[out.curve + f->point_cnt - 1] : s->count;
	*(is_base ? &f->base_total : &f->total) += is_base ? out.base : out.value;
	f->stacks[f->stack_cnt++] = out;
	return 0;
}

/* A profile by curves: stacks that count nothing at the end are kept, and none are merged yet. */
static int keep_curves(struct flame *f, struct profile *p, uint64_t *keys)
{
	const struct profile_curves *c = p->curves;
	size_t cnt = c->stack_cnt * c->point_cnt;
	struct profile_stack *stacks = calloc(p->stack_cnt + 1, sizeof(*stacks));

	f->values = calloc(cnt + 1, sizeof(*f->values));
	if (!stacks || !f->values) {
		free(stacks);
		return -ENOMEM;
	}
	f->point_cnt = c->point_cnt;
	memcpy(f->values, c->values, cnt * sizeof(*f->values));
	memcpy(stacks, p->stacks, p->stack_cnt * sizeof(*stacks));
	for (size_t i = 0; i < p->stack_cnt; i++) {
		stacks[i].count = 1;
		keys[i] |= (uint64_t)i << CURVE_SHIFT;
	}
	p->stacks = stacks;
	return 0;
}

static int flatten_places(struct maker *m, struct flat_stacks *fs, const struct profile *p,
			  const uint32_t *ids, uint64_t *keys)
{
	struct profile whole = *p;
	int err;

	if (!p->by_curves || m->f->compared)
		return flat_stacks__init(fs, p, ids, true, keys);
	err = keep_curves(m->f, &whole, keys);
	if (err)
		return err;
	err = flat_stacks__init(fs, &whole, ids, true, keys);
	free(whole.stacks);
	return err;
}

static int add_profile(struct maker *m, const struct profile *p, bool is_base)
{
	uint32_t *ids = calloc(p->sym_cnt + 1, sizeof(*ids));
	uint64_t *keys = calloc(p->stack_cnt + 1, sizeof(*keys));
	struct flat_stacks fs = { 0 };
	int err = ids && keys ? add_syms(m, p, is_base, ids) : -ENOMEM;

	if (!err)
		err = add_tasks(m, p, keys);
	if (!err)
		err = flatten_places(m, &fs, p, ids, keys);
	for (size_t i = 0; !err && i < fs.cnt; i++)
		err = append_stack(m, &fs, &fs.stacks[i], is_base);
	flat_stacks__free(&fs);
	free(ids);
	free(keys);
	return err;
}

/* ---- Order: everything by its text ---- */

static int cmp_u32(uint32_t a, uint32_t b)
{
	return a < b ? -1 : a > b;
}

static int cmp_text(const struct flame *f, uint32_t a, uint32_t b)
{
	size_t la, lb;
	const char *sa = flame__text(f, a, &la), *sb = flame__text(f, b, &lb);
	int d = a == b ? 0 : memcmp(sa, sb, la < lb ? la : lb);

	return d || a == b ? d : (la > lb) - (la < lb);
}

static int cmp_funcs(const struct flame *f, uint32_t a, uint32_t b)
{
	const struct flame_func *fa = &f->funcs[a], *fb = &f->funcs[b];
	int d = cmp_text(f, fa->name, fb->name);

	if (!d)
		d = cmp_text(f, fa->file, fb->file);
	return d ? d : (int)fa->kind - (int)fb->kind;
}

/* After funcs were ordered. */
static int cmp_places(const struct flame *f, uint32_t a, uint32_t b)
{
	const struct flame_place *pa = &f->places[a], *pb = &f->places[b];
	int d = cmp_u32(pa->func, pb->func);

	return d ? d : cmp_u32(pa->line, pb->line);
}

static int cmp_tasks(const struct flame *f, uint32_t a, uint32_t b)
{
	const struct flame_task *ta = &f->tasks[a], *tb = &f->tasks[b];
	int d = cmp_text(f, ta->comm, tb->comm);

	if (!d)
		d = cmp_u32(ta->tgid, tb->tgid);
	if (!d)
		d = cmp_u32(ta->tid, tb->tid);
	if (!d)
		d = cmp_text(f, ta->exe, tb->exe);
	return d ? d : cmp_text(f, ta->python, tb->python);
}

typedef int (*flame_cmp_fn)(const struct flame *f, uint32_t a, uint32_t b);

struct order_ctx {
	const struct flame *f;
	flame_cmp_fn cmp;
};

static int cmp_order(const void *a, const void *b, void *arg)
{
	const struct order_ctx *ctx = arg;

	return ctx->cmp(ctx->f, *(const uint32_t *)a, *(const uint32_t *)b);
}

/* Sorts an array; in *rank (to be freed) the new place of each old element. */
static int reorder(const struct flame *f, void *array, size_t cnt, size_t size, flame_cmp_fn cmp,
		   uint32_t **rank)
{
	struct order_ctx ctx = { f, cmp };
	uint32_t *order = calloc(cnt + 1, sizeof(*order));
	char *copy = calloc(cnt + 1, size), *base = array;

	*rank = calloc(cnt + 1, sizeof(**rank));
	if (!order || !copy || !*rank) {
		free(order);
		free(copy);
		free(*rank);
		*rank = NULL;
		return -ENOMEM;
	}
	for (size_t i = 0; i < cnt; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, cnt, sizeof(*order), cmp_order, &ctx);
	for (size_t i = 0; i < cnt; i++) {
		memcpy(copy + i * size, base + order[i] * size, size);
		(*rank)[order[i]] = (uint32_t)i;
	}
	if (cnt)
		memcpy(base, copy, cnt * size);
	free(order);
	free(copy);
	return 0;
}

static int order_funcs(struct flame *f)
{
	uint32_t *rank;
	int err = reorder(f, f->funcs, f->func_cnt, sizeof(*f->funcs), cmp_funcs, &rank);

	for (size_t i = 0; !err && i < f->place_cnt; i++)
		f->places[i].func = rank[f->places[i].func];
	free(rank);
	return err;
}

static int order_places(struct flame *f)
{
	uint32_t *rank;
	int err = reorder(f, f->places, f->place_cnt, sizeof(*f->places), cmp_places, &rank);

	for (size_t i = 0; !err && i < f->elem_cnt; i++)
		f->elems[i] = rank[f->elems[i]];
	free(rank);
	return err;
}

static int order_tasks(struct flame *f)
{
	uint32_t *rank;
	int err = reorder(f, f->tasks, f->task_cnt, sizeof(*f->tasks), cmp_tasks, &rank);

	for (size_t i = 0; !err && f->task_cnt && i < f->stack_cnt; i++)
		f->stacks[i].task = rank[f->stacks[i].task];
	free(rank);
	return err;
}

static int cmp_stacks(const void *a, const void *b, void *ctx)
{
	const struct flame_stack *sa = a, *sb = b;
	const struct flame *f = ctx;
	uint32_t n = sa->cnt < sb->cnt ? sa->cnt : sb->cnt;

	if (sa->task != sb->task)
		return cmp_u32(sa->task, sb->task);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t ea = f->elems[sa->first + i], eb = f->elems[sb->first + i];

		if (ea != eb)
			return cmp_u32(ea, eb);
	}
	return cmp_u32(sa->cnt, sb->cnt);
}

static void order_stacks(struct flame *f)
{
	size_t kept = 0;

	if (f->stack_cnt)
		qsort_r(f->stacks, f->stack_cnt, sizeof(*f->stacks), cmp_stacks, f);
	for (size_t i = 0; i < f->stack_cnt; i++) {
		struct flame_stack *s = &f->stacks[i];

		if (kept && !cmp_stacks(&f->stacks[kept - 1], s, f)) {
			f->stacks[kept - 1].value += s->value;
			f->stacks[kept - 1].base += s->base;
			for (uint32_t k = 0; k < f->point_cnt; k++)
				f->values[f->stacks[kept - 1].curve + k] += f->values[s->curve + k];
		} else {
			f->stacks[kept++] = *s;
		}
	}
	f->stack_cnt = kept;
}

/* ---- Numbers of groups, by weight ---- */

struct group {
	uint32_t text;
	uint64_t weight;
};

static int cmp_flame_groups(const void *a, const void *b, void *ctx)
{
	const struct group *ga = a, *gb = b;

	if (ga->weight != gb->weight)
		return ga->weight > gb->weight ? -1 : 1;
	return cmp_text(ctx, ga->text, gb->text);
}

static const struct flame_func *func_of(const struct flame *f, uint32_t place)
{
	return &f->funcs[f->places[place].func];
}

/* The number of places in a list up to the innermost Python (or plain) frame. */
static uint32_t python_depth(const struct flame *f, const uint32_t *places, uint32_t cnt)
{
	for (; cnt; cnt--) {
		uint8_t kind = func_of(f, places[cnt - 1])->kind;

		if (kind == SYM_PYTHON || kind == SYM_PLAIN)
			break;
	}
	return cnt;
}

/* A stack is charged to its innermost Python frame: those are what colours are for. */
static void weigh_groups(const struct flame *f, struct group *by_text)
{
	for (size_t i = 0; i < f->func_cnt; i++)
		by_text[f->funcs[i].group].text = f->funcs[i].group;
	for (size_t i = 0; i < f->stack_cnt; i++) {
		const struct flame_stack *s = &f->stacks[i];
		uint32_t python = python_depth(f, &f->elems[s->first], s->cnt);

		if (python)
			by_text[func_of(f, f->elems[s->first + python - 1])->group].weight +=
				s->value + s->base;
	}
}

static int number_groups(struct flame *f)
{
	size_t cnt = strtab__count(f->texts);
	struct group *groups = calloc(cnt + 1, sizeof(*groups));
	uint32_t *number = calloc(cnt + 1, sizeof(*number));
	int err = -ENOMEM;

	f->groups = calloc(f->func_cnt + 1, sizeof(*f->groups));
	if (!groups || !number || !f->groups)
		goto out;
	weigh_groups(f, groups);
	for (size_t i = 0; i < cnt; i++)
		if (groups[i].text)
			groups[f->group_cnt++] = groups[i];
	qsort_r(groups, f->group_cnt, sizeof(*groups), cmp_flame_groups, f);
	for (size_t i = 0; i < f->group_cnt; i++) {
		f->groups[i] = groups[i].text;
		if (!strcmp(flame__text(f, groups[i].text, NULL), STDLIB))
			f->stdlib = (int)i;
		number[groups[i].text] = (uint32_t)i;
	}
	for (size_t i = 0; i < f->func_cnt; i++)
		f->funcs[i].group = number[f->funcs[i].group];
	err = 0;
out:
	free(groups);
	free(number);
	return err;
}

/* ---- All of it ---- */

static int make(struct maker *m, const struct profile *p, const struct profile *base)
{
	struct flame *f = m->f;
	int err = add_profile(m, p, false);

	if (!err && base)
		err = add_profile(m, base, true);
	if (!err)
		err = order_funcs(f);
	if (!err)
		err = order_places(f);
	if (!err)
		err = order_tasks(f);
	if (err)
		return err;
	order_stacks(f);
	return number_groups(f);
}

int flame__init(struct flame *f, const struct profile *p, const struct profile *base,
		const struct flame_opts *o)
{
	struct maker m = { .f = f, .o = o, .key = hash_key() };
	int err = -ENOMEM;

	memset(f, 0, sizeof(*f));
	f->compared = base != NULL;
	f->weight = profile__weight(p);
	f->base_weight = base ? profile__weight(base) : 1;
	f->stdlib = -1;
	f->texts = strtab__new();
	if (f->texts)
		err = make(&m, p, base);
	f->scale = o->scale > 0	   ? o->scale
		   : f->base_total ? (double)f->total / (double)f->base_total
				   : 1;
	hash_index__free(&m.funcs);
	hash_index__free(&m.places);
	hash_index__free(&m.tasks);
	strbuf__free(&m.buf);
	if (err)
		flame__free(f);
	return err;
}

double flame__scale(const struct profile *before, const struct profile *after,
		    const struct export_opts *o)
{
	double base = (double)value_type__per_second(&before->stats.values[0]);

	if (!o->absolute || base <= 0)
		return 0;
	return (double)value_type__per_second(&after->stats.values[0]) / base;
}

double flame__delta(const struct flame *f, uint64_t value, uint64_t base)
{
	double v = (double)value, b = (double)base * f->scale;
	double noise = 2 * sqrt(v * f->weight + b * f->scale * f->base_weight);

	if (fabs(v - b) <= noise)
		return 0;
	return (v - b) / (v + b);
}
