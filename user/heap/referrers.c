/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "heap/referrers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "heap/ref_parts.h"
#include "heap/scan_parts.h"
#include "python/pydict.h"

/* Include/object.h: flags of types, the same since 2.6; the managed ones from 3.11 and 3.13 on. */
#define FLAG_INT_27	   (1ULL << 23)
#define FLAG_LONG	   (1ULL << 24)
#define FLAG_LIST	   (1ULL << 25)
#define FLAG_BYTES	   (1ULL << 27)
#define FLAG_STR	   (1ULL << 28)
#define FLAG_DICT	   (1ULL << 29)
#define FLAG_INLINE_VALUES (1ULL << 2)
#define STORAGE_MAX	   (1ULL << 32) /* words of one object */

#define LRU_LINK	   "functools._lru_list_elem"

/* ---- names ----------------------------------------------------------------------------------- */

static void name_group(struct ref_finder *f, struct ref_group *g)
{
	if (g->kind == REF_LOCAL)
		g->name = heap_names__local(&f->names, g->key, g->index);
	else if (g->kind == REF_VALUE || g->kind == REF_ATTR)
		g->name = heap_names__str(&f->names, g->key);
	else if (g->kind == REF_FIELD)
		g->name = heap_names__field(&f->names, g->type, g->key);
}

/* A step is one object, where a group is all of a kind: "__dict__ of __main__". */
void ref_name_step(struct ref_finder *f, struct ref_group *g)
{
	bool is_field = g->kind == REF_FIELD || g->kind == REF_DICT;
	struct strbuf b = { 0 };
	char *own = NULL;

	name_group(f, g);
	if (is_field && (g->type->is_meta || heap_type__is(g->type, "module")))
		own = heap_names__own(&f->names, g->type, g->holder);
	if (own && (g->name || g->kind == REF_DICT))
		strbuf__addf(&b, "%s of %s", g->name ? g->name : "__dict__", own);
	if (b.s && !b.err) {
		free(g->name);
		g->name = b.s;
	} else {
		strbuf__free(&b);
	}
	free(own);
}

/* ---- what an object refers to ---------------------------------------------------------------- */

static void report(struct ref_finder *f, const struct heap_seen *o, enum ref_kind kind,
		   uint64_t key, uint64_t target)
{
	f->hit(f, &(struct ref_group){ .type = o->type,
				       .kind = kind,
				       .key = key,
				       .cnt = 1,
				       .holder = o->addr,
				       .target = target });
}

/* The size that an object claims may be a lie that takes hours to read. */
bool ref_is_late(struct ref_finder *f)
{
	return heap_scan__is_late(f->scan);
}

/* An array of references. */
static void look_at_items(struct ref_finder *f, const struct heap_seen *o, uint64_t addr,
			  uint64_t cnt)
{
	cnt = addr % 8 || cnt > STORAGE_MAX ? 0 : cnt;
	while (cnt) {
		uint64_t part = cnt < STORAGE_CHUNK ? cnt : STORAGE_CHUNK;

		if (ref_is_late(f) || ref_read(f, f->words, part * 8, addr))
			return;
		for (uint64_t i = 0; i < part; i++)
			if (ref_target(f, f->words[i]))
				report(f, o, REF_ITEM, 0, ref_target(f, f->words[i]));
		addr += part * 8;
		cnt -= part;
	}
}

/* The first keys of a dict are told apart; with more of them, only that there are many. */
static void take_entry(struct ref_finder *f, const struct heap_seen *o, uint64_t key,
		       uint64_t value)
{
	if (ref_target(f, key))
		report(f, o, REF_KEY, 0, ref_target(f, key));
	if (!ref_target(f, value))
		return;
	if (f->seen_cnt < KEYS_SEEN) {
		f->seen[f->seen_cnt++] =
			(struct ref_group){ .key = key, .target = ref_target(f, value) };
		return;
	}
	if (f->seen_cnt == KEYS_SEEN) {
		for (size_t i = 0; i < KEYS_SEEN; i++)
			report(f, o, REF_VALUES, 0, f->seen[i].target);
		f->seen_cnt++;
	}
	report(f, o, REF_VALUES, 0, ref_target(f, value));
}

static void end_entries(struct ref_finder *f, const struct heap_seen *o)
{
	for (size_t i = 0; i < f->seen_cnt && f->seen_cnt <= KEYS_SEEN; i++)
		report(f, o, REF_VALUE, f->seen[i].key, f->seen[i].target);
	f->seen_cnt = 0;
}

static void look_at_table(struct ref_finder *f, const struct heap_seen *o, const struct pydict *d)
{
	const uint64_t at_once = sizeof(f->words) / d->entry_size;
	uint64_t addr = d->entries, left = d->cnt;

	while (left) {
		uint64_t part = left < at_once ? left : at_once;

		if (ref_is_late(f) || ref_read(f, f->words, part * d->entry_size, addr))
			break;
		for (uint64_t i = 0; i < part; i++) {
			const uint8_t *entry = (const uint8_t *)f->words + i * d->entry_size;

			take_entry(f, o, pyword(entry, d->key_at), pyword(entry, d->value_at));
		}
		addr += part * d->entry_size;
		left -= part;
	}
	end_entries(f, o);
}

/* Values by the keys that a type's instances share. */
static void look_at_values(struct ref_finder *f, const struct heap_seen *o, const struct pydict *d,
			   enum ref_kind kind)
{
	uint64_t word, key;

	if (d->cnt > STORAGE_CHUNK || ref_read(f, f->words, d->cnt * 8, d->values))
		return;
	for (uint64_t i = 0; i < d->cnt; i++) {
		word = ref_target(f, f->words[i]);
		if (word && !ref_read(f, &key, 8, d->entries + i * d->entry_size + d->key_at))
			report(f, o, kind, key, word);
	}
}

static void look_at_dict(struct ref_finder *f, const struct heap_seen *o)
{
	struct pydict d;

	if (pydict__open(&f->names.mem, o->addr, &d))
		return;
	if (d.values)
		look_at_values(f, o, &d, REF_VALUE);
	else
		look_at_table(f, o, &d);
}

/* Attributes without a dict of their own, from 3.11 on. */
static void look_at_attrs(struct ref_finder *f, const struct heap_seen *o)
{
	struct pyattrs a;
	struct pydict d;

	if (pyattrs__managed(&f->names.mem, o->addr, o->type->addr, o->type->flags,
			     o->type->basic_size, &a))
		return;
	if (ref_target(f, a.dict))
		report(f, o, REF_DICT, 0, ref_target(f, a.dict));
	if (a.values && !pydict__open_keys(&f->names.mem, a.keys, a.values, &d))
		look_at_values(f, o, &d, REF_ATTR);
}

/* The small table is a part of the object. */
static void look_at_set(struct ref_finder *f, const struct heap_seen *o)
{
	struct pyset set;

	if (!pyset__open(&f->names.mem, o->addr, &set))
		look_at_items(f, o, set.table, 2 * set.cnt);
}

#define DEQUE_BLOCK 64 /* items */
#define DEQUE_SINCE 0x0306

/*
 * Blocks of 64 items, with a link to the one before in front and to the next one behind:
 * dequeobject, Modules/_collectionsmodule.c@3.6 - 3.15. A list of blocks that leads back ends by
 * the number of items.
 */
static void look_at_deque(struct ref_finder *f, const struct heap_seen *o)
{
	uint64_t head[4]; /* ob_size, leftblock, rightblock, leftindex */
	uint64_t left, block, at;

	if (ref_read(f, head, sizeof(head), o->addr + heap_field(&f->names, 16)))
		return;
	left = head[0] > STORAGE_MAX ? 0 : head[0];
	block = head[1];
	at = head[3];
	while (left && at < DEQUE_BLOCK && block % 8 == 0 && !ref_is_late(f)) {
		uint64_t end = left < DEQUE_BLOCK - at ? at + left : DEQUE_BLOCK;

		if (ref_read(f, f->words, (DEQUE_BLOCK + 2) * 8ULL, block))
			return;
		left -= end - at;
		for (; at < end; at++)
			if (ref_target(f, f->words[1 + at]))
				report(f, o, REF_ITEM, 0, ref_target(f, f->words[1 + at]));
		block = f->words[1 + DEQUE_BLOCK];
		at = 0;
	}
}

static bool is_deque(const struct ref_finder *f, const struct heap_type *t)
{
	return ref_version(f) >= DEQUE_SINCE && heap_type__is(t, "collections.deque");
}

/*
 * A word that refers to an object without holding it. Links of lru_cache() refer to their
 * neighbours: the cache holds them, a dict. A weak reference has its object at 16, and its
 * neighbours in the object's list at 40 and 48 (Include/weakrefobject.h).
 */
static bool is_loose(const struct ref_finder *f, const struct heap_type *t, uint64_t at)
{
	const struct heap_names *n = &f->names;

	if (t->is_weak)
		return at == heap_field(n, 16) || at == heap_field(n, 40) ||
		       at == heap_field(n, 48);
	if (at == t->weaklist)
		return true;
	return (at == heap_field(n, 16) || at == heap_field(n, 24)) && heap_type__is(t, LRU_LINK);
}

/*
 * Until 3.9 the type of the links is not made ready, so they are no objects to the scan. The list
 * begins in the cache, and leads back to it: lru_cache_object, Modules/_functoolsmodule.c@3.6.
 */
static void look_at_cache(struct ref_finder *f, const struct heap_seen *o)
{
	uint64_t link[4]; /* next, hash, key, result */
	uint64_t addr = o->addr;

	for (uint64_t i = 0; i < STORAGE_MAX && !ref_is_late(f); i++) {
		if (addr % 8 || ref_read(f, link, sizeof(link), addr + heap_field(&f->names, 24)))
			return;
		for (unsigned k = 2; i && k < 4; k++)
			if (ref_target(f, link[k]))
				report(f, o, REF_ITEM, 0, ref_target(f, link[k]));
		addr = link[0];
		if (addr == o->addr)
			return;
	}
}

static bool is_cache(const struct ref_finder *f, const struct heap_type *t)
{
	return ref_version(f) <= 0x0309 && heap_type__is(t, "functools._lru_cache_wrapper");
}

static bool is_set(const struct heap_type *t)
{
	return heap_type__is(t, "set") || heap_type__is(t, "frozenset");
}

/*
 * The locals of a frame that has an object: in it, or, from 3.11 on, where it runs. The object has
 * a pointer to them. Those of running functions are reported once: ref_frames.c.
 */
static void look_at_frame_object(struct ref_finder *f, const struct heap_seen *o)
{
	uint64_t at = o->addr;

	if (ref_version(f) >= 0x030b && (ref_read(f, &at, 8, o->addr + heap_field(&f->names, 24)) ||
					 idmap__get(&f->running, at)))
		return;
	ref_look_at_frame(f, o->type, o->addr, at);
}

/*
 * The items of an object are references if they are as large as one: those of code are instructions
 * with their caches, those of a type describe its members. A memoryview's are the numbers of its
 * shape, as large as references (ob_array, Objects/memoryobject.c).
 */
static bool has_references(const struct heap_type *t)
{
	return t->item_size == sizeof(uint64_t) && !heap_type__is(t, "memoryview");
}

/* A block may be longer than its object; the bytes behind that mean nothing. */
uint64_t ref_own_size(struct ref_finder *f, const struct heap_type *type, uint64_t addr)
{
	const uint64_t raw =
		FLAG_LONG | FLAG_BYTES | FLAG_STR | (ref_version(f) < 0x0300 ? FLAG_INT_27 : 0);
	int64_t items = 0;

	if (type->flags & raw || heap_type__is(type, "float"))
		return 0;
	/* Behind these come numbers, and locals: ref_look_at_frame(). */
	if (heap_type__is(type, "frame"))
		return heap_field(&f->names, ref_version(f) >= 0x030b ? 72 : 112);
	if (!has_references(type))
		return type->basic_size;
	if (ref_read(f, &items, 8, addr + heap_field(&f->names, 16)) || items < 0 ||
	    (uint64_t)items > STORAGE_MAX)
		return type->basic_size;
	return type->basic_size + (uint64_t)items * type->item_size;
}

/* The words of the object itself: fields, items of tuples, cells, locals of frames. */
static void look_at_words(struct ref_finder *f, const struct heap_seen *o, const uint8_t *bytes,
			  uint64_t first, uint64_t size)
{
	uint16_t skip = f->scan->types.shape.ob_type + 8;
	uint64_t dict_at = 0, end = o->type->basic_size;

	for (uint64_t at = first ? first : skip; at + 8 <= size; at += 8) {
		uint64_t target = ref_target(f, heap_word(bytes + (at - first)));

		if (!target || is_loose(f, o->type, at))
			continue;
		if (at + 8 > ref_own_size(f, o->type, o->addr))
			break;
		if (!dict_at &&
		    (ref_version(f) >= 0x030b ||
		     ref_read(f, &dict_at, 8,
			      o->type->addr + heap_field(&f->names, PYTYPE_DICTOFFSET))))
			dict_at = UINT64_MAX;
		if (at == dict_at)
			report(f, o, REF_DICT, 0, target);
		else if (at < end)
			report(f, o, REF_FIELD, at, target);
		else if (!(o->type->flags & FLAG_INLINE_VALUES) || ref_version(f) < 0x030d)
			report(f, o, REF_ITEM, 0, target);
	}
}

static void look_outside(struct ref_finder *f, const struct heap_seen *o)
{
	for (uint64_t at = 0; at < o->size; at += sizeof(f->words)) {
		uint64_t part =
			o->size - at < sizeof(f->words) ? (o->size - at) & ~7ULL : sizeof(f->words);

		if (ref_read(f, f->words, part, o->addr + at))
			return;
		look_at_words(f, o, (const uint8_t *)f->words, at, at + part);
	}
}

void ref_look_at_object(struct ref_finder *f, const struct heap_seen *o)
{
	uint64_t items, cnt;
	bool has_table = is_set(o->type) || (ref_version(f) < 0x0300 && o->type->flags & FLAG_DICT);

	/* The small table that is a part of these says nothing once there is another. */
	if (o->block && !has_table)
		look_at_words(f, o, o->block + (o->addr - o->block_addr), 0,
			      o->block_size - (o->addr - o->block_addr));
	else if (!has_table)
		look_outside(f, o);
	if (heap_type__is(o->type, "frame"))
		look_at_frame_object(f, o);
	if (o->type->flags & FLAG_LIST &&
	    !ref_read(f, &cnt, 8, o->addr + heap_field(&f->names, 16)) &&
	    !ref_read(f, &items, 8, o->addr + heap_field(&f->names, 24)))
		look_at_items(f, o, items, cnt);
	else if (o->type->flags & FLAG_DICT)
		look_at_dict(f, o);
	else if (is_set(o->type))
		look_at_set(f, o);
	else if (is_deque(f, o->type))
		look_at_deque(f, o);
	else if (is_cache(f, o->type))
		look_at_cache(f, o);
	look_at_attrs(f, o);
}

static void visit_object(void *ctx, const struct heap_seen *o)
{
	ref_look_at_object(ctx, o);
}

/* ---- readings -------------------------------------------------------------------------------- */

static int add_target(struct ref_finder *f, uint64_t addr)
{
	if (!f->targets.cnt || addr < f->low)
		f->low = addr;
	if (!f->targets.cnt || addr > f->high)
		f->high = addr;
	return idmap__set(&f->targets, addr, f);
}

static void forget_targets(struct ref_finder *f)
{
	idmap__free(&f->targets);
	f->targets = (struct idmap){ 0 };
	f->low = UINT64_MAX;
	f->high = 0;
}

static void collect_wanted(void *ctx, const struct heap_seen *o)
{
	struct ref_finder *f = ctx;

	if (o->type->unnamed || strcmp(o->type->name, f->wanted) != 0)
		return;
	if (f->out->wanted++ % f->every == 0 && f->targets.cnt < REF_TARGETS_MAX)
		add_target(f, o->addr);
}

int ref_read_heap(struct ref_finder *f, void (*visit)(void *ctx, const struct heap_seen *o))
{
	int err;

	heap_scan__reset(f->scan);
	f->scan->visit = visit;
	f->scan->visit_ctx = f;
	err = f->src->prepare(f->src->ctx, f->scan);
	ref_frames__find(f);
	if (!err && f->hit)
		ref_frames__report(f);
	if (!err)
		err = heap_scan__run(f->scan);
	f->out->late |= f->scan->counts.late;
	return err;
}

/*
 * Even over all of them: the first reading counts, a second one takes each n-th when there are too
 * many.
 */
static int collect(struct ref_finder *f)
{
	int err = ref_read_heap(f, collect_wanted);

	if (!err && f->out->wanted > REF_TARGETS_MAX) {
		f->every = f->out->wanted / REF_TARGETS_MAX + 1;
		f->out->wanted = 0;
		forget_targets(f);
		err = ref_read_heap(f, collect_wanted);
	}
	f->out->sampled = f->targets.cnt;
	return err ? err : f->targets.cnt ? 0 : -ENOENT;
}

bool ref_group__is_same(const struct ref_group *a, const struct ref_group *b)
{
	return a->type == b->type && a->kind == b->kind && a->key == b->key && a->index == b->index;
}

static void count_hit(struct ref_finder *f, const struct ref_group *g)
{
	struct referrers *r = f->out;

	r->found++;
	if (!idmap__get(&f->held, g->target) && idmap__set(&f->held, g->target, f))
		r->full = true;
	for (size_t i = 0; i < r->group_cnt; i++) {
		if (ref_group__is_same(&r->groups[i], g)) {
			r->groups[i].cnt++;
			return;
		}
	}
	if (ARRAY_GROW(r->groups, r->group_cap, r->group_cnt, REF_GROUPS_MAX)) {
		r->full = true;
		return;
	}
	r->groups[r->group_cnt++] = *g;
}

static int by_cnt(const void *a, const void *b)
{
	const struct ref_group *x = a, *y = b;

	if (x->cnt != y->cnt)
		return x->cnt > y->cnt ? -1 : 1;
	return x->holder < y->holder ? -1 : x->holder > y->holder;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Takes examples for people who want to examine one: with a debugger, or memory --refcount. */
static void take_examples(struct ref_finder *f)
{
	struct ref_examples *held = &f->out->held, *not_held = &f->out->not_held;

	for (size_t i = 0; i < f->targets.cap; i++) {
		const struct idmap_slot *slot = &f->targets.slots[i];
		struct ref_examples *e = idmap__get(&f->held, slot->key) ? held : not_held;

		if (slot->value && e->cnt < REF_EXAMPLES)
			e->addrs[e->cnt++] = slot->key;
	}
	qsort(held->addrs, held->cnt, sizeof(held->addrs[0]), by_value);
	qsort(not_held->addrs, not_held->cnt, sizeof(not_held->addrs[0]), by_value);
}

static bool is_in_targets(struct ref_finder *f, uint64_t addr)
{
	return idmap__get(&f->targets, addr);
}

struct ref_finder *ref_finder__new(const struct ref_source *src, struct referrers *out)
{
	struct ref_finder *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->src = src;
	f->scan = src->scan;
	f->out = out;
	f->every = 1;
	heap_names__init(&f->names, src->scan->mem, &src->scan->types.shape, src->layout,
			 src->code_locals);
	f->is_target = is_in_targets;
	forget_targets(f);
	return f;
}

void ref_finder__free(struct ref_finder *f)
{
	if (!f)
		return;
	idmap__free(&f->targets);
	idmap__free(&f->held);
	idmap__free(&f->running);
	free(f);
}

int referrers__find(const struct ref_source *src, const char *type, struct referrers *out)
{
	struct ref_finder *f = ref_finder__new(src, out);
	int err;

	*out = (struct referrers){ 0 };
	if (!f)
		return -ENOMEM;
	f->wanted = type;
	err = collect(f);
	f->hit = count_hit;
	if (!err)
		err = ref_read_heap(f, visit_object);
	if (!err) {
		out->unheld = f->held.cnt < out->sampled ? out->sampled - f->held.cnt : 0;
		take_examples(f);
		if (out->group_cnt)
			qsort(out->groups, out->group_cnt, sizeof(*out->groups), by_cnt);
		for (size_t i = 0; i < out->group_cnt; i++)
			name_group(f, &out->groups[i]);
		forget_targets(f);
		err = ref_paths__find(f);
	}
	ref_finder__free(f);
	return err;
}

void referrers__free(struct referrers *r)
{
	for (size_t i = 0; i < r->group_cnt; i++)
		free(r->groups[i].name);
	for (size_t i = 0; i < r->path_cnt; i++)
		for (size_t k = 0; k < r->paths[i].step_cnt; k++)
			free(r->paths[i].steps[k].what.name);
	free(r->groups);
	*r = (struct referrers){ 0 };
}
