/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "heap/referrers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/str.h"
#include "python/pydict.h"

/* Include/object.h: flags of types, the same since 2.6; the managed ones from 3.11 and 3.13 on. */
#define FLAG_INT_27	   (1ULL << 23)
#define FLAG_LONG	   (1ULL << 24)
#define FLAG_LIST	   (1ULL << 25)
#define FLAG_BYTES	   (1ULL << 27)
#define FLAG_STR	   (1ULL << 28)
#define FLAG_DICT	   (1ULL << 29)
#define FLAG_INLINE_VALUES (1ULL << 2)
#define MEMBER_SIZE	   40 /* PyMemberDef: name, type, offset, flags, doc */
#define MEMBERS_MAX	   512
#define STORAGE_CHUNK	   4096		/* words */
#define STORAGE_MAX	   (1ULL << 32) /* words of one object */
#define KEYS_SEEN	   8		/* keys of one dict that are told apart */

struct finder {
	const struct ref_source *src;
	struct heap_scan *scan;
	struct pymem mem; /* of the scan */
	struct referrers *out;
	struct idmap targets; /* address -> itself, or a struct climber */
	uint64_t low, high;   /* of them */
	const char *wanted;
	uint64_t every; /* of so many one is taken */
	struct idmap held;
	uint64_t words[STORAGE_CHUNK];
	/* Of the current dict. */
	struct ref_group seen[KEYS_SEEN];
	size_t seen_cnt;
	void (*hit)(struct finder *f, const struct ref_group *g);
	struct ref_path *climbing[REF_PATHS];
	size_t step; /* that is looked for */
};

static uint16_t version(const struct finder *f)
{
	return (uint16_t)f->scan->types.shape.version;
}

static uint16_t field(const struct finder *f, uint16_t at)
{
	return (uint16_t)(at + f->scan->types.shape.ob_type - 8);
}

static int read_mem(const struct finder *f, void *dst, size_t size, uint64_t addr)
{
	return f->scan->mem->read(f->scan->mem->ctx, dst, size, addr);
}

/* The target that a word refers to, or 0. The lowest bit is a tag in frames of 3.14 and later. */
static uint64_t target_of(const struct finder *f, uint64_t word)
{
	word &= ~1ULL;
	if (word < f->low || word > f->high || !idmap__get(&f->targets, word))
		return 0;
	return word;
}

static bool is_named(const struct heap_type *t, const char *name)
{
	return !t->unnamed && !strcmp(t->name, name);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* A str, for people. NULL: it is none, or cannot be read. */
static char *read_str(struct finder *f, uint64_t addr)
{
	struct strbuf text = { 0 }, safe = { 0 };

	if (!pystr__read(&f->mem, addr, REF_NAME_MAX, &text, NULL) && text.len)
		str_sanitise(&safe, text.s, text.len, REF_NAME_MAX);
	strbuf__free(&text);
	return safe.s;
}

static char *read_cstring(const struct finder *f, uint64_t addr)
{
	struct strbuf safe = { 0 };
	char raw[REF_NAME_MAX];
	size_t len = 0;

	while (len < sizeof(raw) && !read_mem(f, raw + len, 1, addr + len) && raw[len])
		len++;
	if (len)
		str_sanitise(&safe, raw, len, REF_NAME_MAX);
	return safe.s;
}

/*
 * The name of the member at an offset of the type's objects: __slots__, and what C types describe.
 */
static char *member_name(const struct finder *f, const struct heap_type *type, uint64_t offset)
{
	uint64_t members;

	if (read_mem(f, &members, 8, type->addr + field(f, PYTYPE_MEMBERS)) || !members)
		return NULL;
	for (unsigned i = 0; i < MEMBERS_MAX; i++) {
		uint8_t one[MEMBER_SIZE];

		if (read_mem(f, one, sizeof(one), members + (uint64_t)i * MEMBER_SIZE) ||
		    !heap_word(one))
			break;
		if (heap_word(one + 16) == offset)
			return read_cstring(f, heap_word(one));
	}
	return NULL;
}

#define LRU_LINK "functools._lru_list_elem"

/*
 * Fields that C types do not name themselves. With ob_type at 8. lru_cache() is in
 * Modules/_functoolsmodule.c@3.9 - 3.15.
 */
static const struct {
	const char *type, *field;
	uint16_t offset, since;
} known_fields[] = {
	{ "traceback", "tb_next", 16, 0 },  { "module", "__dict__", 16, 0 },
	{ "cell", "cell_contents", 16, 0 }, { LRU_LINK, "key", 40, 0 },
	{ LRU_LINK, "result", 48, 0 },	    { "functools._lru_cache_wrapper", "cache", 72, 0x0309 },
};

static char *field_name(const struct finder *f, const struct heap_type *type, uint64_t offset)
{
	char *name = member_name(f, type, offset);

	for (size_t i = 0; i < sizeof(known_fields) / sizeof(known_fields[0]); i++)
		if (!name && is_named(type, known_fields[i].type) &&
		    version(f) >= known_fields[i].since &&
		    offset == field(f, known_fields[i].offset))
			name = strdup(known_fields[i].field);
	return name;
}

/* "function: variable" */
static char *local_name(struct finder *f, const struct ref_group *g)
{
	uint64_t function = 0, names = 0, variable = 0, type, items;
	struct strbuf b = { 0 };
	char *text;

	if (read_mem(f, &function, 8, g->key + f->src->layout->code_name) ||
	    read_mem(f, &names, 8, g->key + f->src->code_locals) ||
	    read_mem(f, &type, 8, names + f->scan->types.shape.ob_type) ||
	    /* tp_basicsize: a tuple's items are behind its hash from 3.14 on. */
	    read_mem(f, &items, 8, type + field(f, 32)) ||
	    read_mem(f, &variable, 8, names + items + 8ULL * g->index))
		return NULL;
	text = read_str(f, function);
	strbuf__addf(&b, "%s: ", text ? text : "?");
	free(text);
	text = read_str(f, variable);
	strbuf__addz(&b, text ? text : "a value at work");
	free(text);
	if (b.err)
		strbuf__free(&b);
	return b.s;
}

static void name_group(struct finder *f, struct ref_group *g)
{
	if (g->kind == REF_LOCAL)
		g->name = local_name(f, g);
	else if (g->kind == REF_VALUE || g->kind == REF_ATTR)
		g->name = read_str(f, g->key);
	else if (g->kind == REF_FIELD)
		g->name = field_name(f, g->type, g->key);
}

/* md_name, Objects/moduleobject.c; not a name if it is not a str. */
#define MODULE_NAME 48

static char *module_name(struct finder *f, const struct ref_group *g)
{
	struct strbuf b = { 0 };
	uint64_t addr;
	char *name = NULL;

	if (!read_mem(f, &addr, 8, g->holder + field(f, MODULE_NAME)))
		name = read_str(f, addr);
	if (!name)
		return NULL;
	strbuf__addf(&b, "__dict__ of %s", name);
	free(name);
	if (b.err)
		strbuf__free(&b);
	return b.s;
}

/* A step is one object, where a group is all of a kind. */
static void name_step(struct finder *f, struct ref_group *g)
{
	name_group(f, g);
	if (g->kind == REF_FIELD && is_named(g->type, "module") && g->key == field(f, 16)) {
		char *name = module_name(f, g);

		if (name) {
			free(g->name);
			g->name = name;
		}
	}
}

/* ---- what an object refers to ---------------------------------------------------------------- */

static void report(struct finder *f, const struct heap_seen *o, enum ref_kind kind, uint64_t key,
		   uint64_t target)
{
	f->hit(f, &(struct ref_group){ .type = o->type,
				       .kind = kind,
				       .key = key,
				       .cnt = 1,
				       .holder = o->addr,
				       .target = target });
}

/* The size that an object claims may be a lie that takes hours to read. */
static bool is_late(struct finder *f)
{
	if (f->scan->deadline_ns && now_ns() > f->scan->deadline_ns)
		f->scan->counts.late = true;
	return f->scan->counts.late;
}

/* An array of references. */
static void look_at_items(struct finder *f, const struct heap_seen *o, uint64_t addr, uint64_t cnt)
{
	cnt = addr % 8 || cnt > STORAGE_MAX ? 0 : cnt;
	while (cnt) {
		uint64_t part = cnt < STORAGE_CHUNK ? cnt : STORAGE_CHUNK;

		if (is_late(f) || read_mem(f, f->words, part * 8, addr))
			return;
		for (uint64_t i = 0; i < part; i++)
			if (target_of(f, f->words[i]))
				report(f, o, REF_ITEM, 0, target_of(f, f->words[i]));
		addr += part * 8;
		cnt -= part;
	}
}

/* The first keys of a dict are told apart; with more of them, only that there are many. */
static void take_entry(struct finder *f, const struct heap_seen *o, uint64_t key, uint64_t value)
{
	if (target_of(f, key))
		report(f, o, REF_KEY, 0, target_of(f, key));
	if (!target_of(f, value))
		return;
	if (f->seen_cnt < KEYS_SEEN) {
		f->seen[f->seen_cnt++] =
			(struct ref_group){ .key = key, .target = target_of(f, value) };
		return;
	}
	if (f->seen_cnt == KEYS_SEEN) {
		for (size_t i = 0; i < KEYS_SEEN; i++)
			report(f, o, REF_VALUES, 0, f->seen[i].target);
		f->seen_cnt++;
	}
	report(f, o, REF_VALUES, 0, target_of(f, value));
}

static void end_entries(struct finder *f, const struct heap_seen *o)
{
	for (size_t i = 0; i < f->seen_cnt && f->seen_cnt <= KEYS_SEEN; i++)
		report(f, o, REF_VALUE, f->seen[i].key, f->seen[i].target);
	f->seen_cnt = 0;
}

static void look_at_table(struct finder *f, const struct heap_seen *o, const struct pydict *d)
{
	const uint64_t at_once = sizeof(f->words) / d->entry_size;
	uint64_t addr = d->entries, left = d->cnt;

	while (left) {
		uint64_t part = left < at_once ? left : at_once;

		if (is_late(f) || read_mem(f, f->words, part * d->entry_size, addr))
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
static void look_at_values(struct finder *f, const struct heap_seen *o, const struct pydict *d,
			   enum ref_kind kind)
{
	uint64_t word, key;

	if (d->cnt > STORAGE_CHUNK || read_mem(f, f->words, d->cnt * 8, d->values))
		return;
	for (uint64_t i = 0; i < d->cnt; i++) {
		word = target_of(f, f->words[i]);
		if (word && !read_mem(f, &key, 8, d->entries + i * d->entry_size + d->key_at))
			report(f, o, kind, key, word);
	}
}

static void look_at_dict(struct finder *f, const struct heap_seen *o)
{
	struct pydict d;

	if (pydict__open(&f->mem, o->addr, &d))
		return;
	if (d.values)
		look_at_values(f, o, &d, REF_VALUE);
	else
		look_at_table(f, o, &d);
}

/* Attributes without a dict of their own, from 3.11 on. */
static void look_at_attrs(struct finder *f, const struct heap_seen *o)
{
	struct pyattrs a;
	struct pydict d;

	if (pyattrs__managed(&f->mem, o->addr, o->type->addr, o->type->flags, o->type->basic_size,
			     &a))
		return;
	if (target_of(f, a.dict))
		report(f, o, REF_DICT, 0, target_of(f, a.dict));
	if (a.values && !pydict__open_keys(&f->mem, a.keys, a.values, &d))
		look_at_values(f, o, &d, REF_ATTR);
}

/* The small table is a part of the object. */
static void look_at_set(struct finder *f, const struct heap_seen *o)
{
	struct pyset set;

	if (!pyset__open(&f->mem, o->addr, &set))
		look_at_items(f, o, set.table, 2 * set.cnt);
}

#define DEQUE_BLOCK 64 /* items */
#define DEQUE_SINCE 0x0306

/*
 * Blocks of 64 items, with a link to the one before in front and to the next one behind:
 * dequeobject, Modules/_collectionsmodule.c@3.6 - 3.15. A list of blocks that leads back ends by
 * the number of items.
 */
static void look_at_deque(struct finder *f, const struct heap_seen *o)
{
	uint64_t head[4]; /* ob_size, leftblock, rightblock, leftindex */
	uint64_t left, block, at;

	if (read_mem(f, head, sizeof(head), o->addr + field(f, 16)))
		return;
	left = head[0] > STORAGE_MAX ? 0 : head[0];
	block = head[1];
	at = head[3];
	while (left && at < DEQUE_BLOCK && block % 8 == 0 && !is_late(f)) {
		uint64_t end = left < DEQUE_BLOCK - at ? at + left : DEQUE_BLOCK;

		if (read_mem(f, f->words, (DEQUE_BLOCK + 2) * 8ULL, block))
			return;
		left -= end - at;
		for (; at < end; at++)
			if (target_of(f, f->words[1 + at]))
				report(f, o, REF_ITEM, 0, target_of(f, f->words[1 + at]));
		block = f->words[1 + DEQUE_BLOCK];
		at = 0;
	}
}

static bool is_deque(const struct finder *f, const struct heap_type *t)
{
	return version(f) >= DEQUE_SINCE && is_named(t, "collections.deque");
}

/*
 * Links of lru_cache() refer to their neighbours, and hold none of them: the cache does, a dict.
 */
static bool is_neighbour(const struct finder *f, const struct heap_type *t, uint64_t at)
{
	return (at == field(f, 16) || at == field(f, 24)) && is_named(t, LRU_LINK);
}

/*
 * Until 3.9 the type of the links is not made ready, so they are no objects to the scan. The list
 * begins in the cache, and leads back to it: lru_cache_object, Modules/_functoolsmodule.c@3.6.
 */
static void look_at_cache(struct finder *f, const struct heap_seen *o)
{
	uint64_t link[4]; /* next, hash, key, result */
	uint64_t addr = o->addr;

	for (uint64_t i = 0; i < STORAGE_MAX && !is_late(f); i++) {
		if (addr % 8 || read_mem(f, link, sizeof(link), addr + field(f, 24)))
			return;
		for (unsigned k = 2; i && k < 4; k++)
			if (target_of(f, link[k]))
				report(f, o, REF_ITEM, 0, target_of(f, link[k]));
		addr = link[0];
		if (addr == o->addr)
			return;
	}
}

static bool is_cache(const struct finder *f, const struct heap_type *t)
{
	return version(f) <= 0x0309 && is_named(t, "functools._lru_cache_wrapper");
}

static bool is_set(const struct heap_type *t)
{
	return is_named(t, "set") || is_named(t, "frozenset");
}

/*
 * The locals of a frame that has an object: in it, or, from 3.11 on, where it runs. The object has
 * a pointer to them.
 */
static void look_at_frame(struct finder *f, const struct heap_seen *o)
{
	uint64_t at = o->addr, code;
	uint64_t size;

	if (version(f) >= 0x030b && read_mem(f, &at, 8, o->addr + field(f, 24)))
		return;
	if (at % 8 || read_mem(f, &code, 8, at + f->src->layout->frame_code))
		return;
	code &= ~3ULL; /* tagged from 3.14 on */
	if (read_mem(f, &size, 8, code + f->src->code_locals) ||
	    read_mem(f, &size, 8, size + field(f, 16)) || size > STORAGE_CHUNK ||
	    read_mem(f, f->words, size * 8, at + f->src->frame_locals))
		return;
	for (uint32_t i = 0; i < size; i++)
		if (target_of(f, f->words[i]))
			f->hit(f, &(struct ref_group){ .type = o->type,
						       .kind = REF_LOCAL,
						       .key = code,
						       .index = i,
						       .cnt = 1,
						       .holder = o->addr,
						       .target = target_of(f, f->words[i]) });
}

/*
 * The items of an object are references if they are as large as one: those of code are instructions
 * with their caches, those of a type describe its members. A memoryview's are the numbers of its
 * shape, as large as references (ob_array, Objects/memoryobject.c).
 */
static bool has_references(const struct heap_type *t)
{
	return t->item_size == sizeof(uint64_t) && !is_named(t, "memoryview");
}

/* A block may be longer than its object; the bytes behind that mean nothing. */
static uint64_t own_size(const struct finder *f, const struct heap_seen *o)
{
	const uint64_t raw =
		FLAG_LONG | FLAG_BYTES | FLAG_STR | (version(f) < 0x0300 ? FLAG_INT_27 : 0);
	int64_t items = 0;

	if (o->type->flags & raw || is_named(o->type, "float"))
		return 0;
	/* Behind these come numbers, and locals: look_at_frame(). */
	if (is_named(o->type, "frame"))
		return field(f, version(f) >= 0x030b ? 72 : 112);
	if (!has_references(o->type))
		return o->type->basic_size;
	if (read_mem(f, &items, 8, o->addr + field(f, 16)) || items < 0 ||
	    (uint64_t)items > STORAGE_MAX)
		return o->type->basic_size;
	return o->type->basic_size + (uint64_t)items * o->type->item_size;
}

/* The words of the object itself: fields, items of tuples, cells, locals of frames. */
static void look_at_words(struct finder *f, const struct heap_seen *o, const uint8_t *bytes,
			  uint64_t first, uint64_t size)
{
	uint16_t skip = f->scan->types.shape.ob_type + 8;
	uint64_t dict_at = 0, end = o->type->basic_size;

	for (uint64_t at = first ? first : skip; at + 8 <= size; at += 8) {
		uint64_t target = target_of(f, heap_word(bytes + (at - first)));

		if (!target || is_neighbour(f, o->type, at))
			continue;
		if (at + 8 > own_size(f, o))
			break;
		if (!dict_at &&
		    (version(f) >= 0x030b ||
		     read_mem(f, &dict_at, 8, o->type->addr + field(f, PYTYPE_DICTOFFSET))))
			dict_at = UINT64_MAX;
		if (at == dict_at)
			report(f, o, REF_DICT, 0, target);
		else if (at < end)
			report(f, o, REF_FIELD, at, target);
		else if (!(o->type->flags & FLAG_INLINE_VALUES) || version(f) < 0x030d)
			report(f, o, REF_ITEM, 0, target);
	}
}

static void look_outside(struct finder *f, const struct heap_seen *o)
{
	for (uint64_t at = 0; at < o->size; at += sizeof(f->words)) {
		uint64_t part =
			o->size - at < sizeof(f->words) ? (o->size - at) & ~7ULL : sizeof(f->words);

		if (read_mem(f, f->words, part, o->addr + at))
			return;
		look_at_words(f, o, (const uint8_t *)f->words, at, at + part);
	}
}

/* A visit of heap_scan. */
static void look_at_object(void *ctx, const struct heap_seen *o)
{
	struct finder *f = ctx;
	uint64_t items, cnt;
	bool has_table = is_set(o->type) || (version(f) < 0x0300 && o->type->flags & FLAG_DICT);

	/* The small table that is a part of these says nothing once there is another. */
	if (o->block && !has_table)
		look_at_words(f, o, o->block + (o->addr - o->block_addr), 0,
			      o->block_size - (o->addr - o->block_addr));
	else if (!has_table)
		look_outside(f, o);
	if (is_named(o->type, "frame"))
		look_at_frame(f, o);
	if (o->type->flags & FLAG_LIST && !read_mem(f, &cnt, 8, o->addr + field(f, 16)) &&
	    !read_mem(f, &items, 8, o->addr + field(f, 24)))
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

/* ---- readings -------------------------------------------------------------------------------- */

static int add_target(struct finder *f, uint64_t addr)
{
	if (!f->targets.cnt || addr < f->low)
		f->low = addr;
	if (!f->targets.cnt || addr > f->high)
		f->high = addr;
	return idmap__set(&f->targets, addr, f);
}

static void forget_targets(struct finder *f)
{
	idmap__free(&f->targets);
	f->targets = (struct idmap){ 0 };
	f->low = UINT64_MAX;
	f->high = 0;
}

static void collect_wanted(void *ctx, const struct heap_seen *o)
{
	struct finder *f = ctx;

	if (o->type->unnamed || strcmp(o->type->name, f->wanted) != 0)
		return;
	if (f->out->wanted++ % f->every == 0 && f->targets.cnt < REF_TARGETS_MAX)
		add_target(f, o->addr);
}

static int read_heap(struct finder *f, void (*visit)(void *ctx, const struct heap_seen *o))
{
	int err;

	heap_scan__reset(f->scan);
	f->scan->visit = visit;
	f->scan->visit_ctx = f;
	err = f->src->prepare(f->src->ctx, f->scan);
	if (!err)
		err = heap_scan__run(f->scan);
	f->out->late |= f->scan->counts.late;
	return err;
}

/*
 * Even over all of them: the first reading counts, a second one takes each n-th when there are too
 * many.
 */
static int collect(struct finder *f)
{
	int err = read_heap(f, collect_wanted);

	if (!err && f->out->wanted > REF_TARGETS_MAX) {
		f->every = f->out->wanted / REF_TARGETS_MAX + 1;
		f->out->wanted = 0;
		forget_targets(f);
		err = read_heap(f, collect_wanted);
	}
	f->out->sampled = f->targets.cnt;
	return err ? err : f->targets.cnt ? 0 : -ENOENT;
}

static bool is_same(const struct ref_group *a, const struct ref_group *b)
{
	return a->type == b->type && a->kind == b->kind && a->key == b->key && a->index == b->index;
}

static void count_hit(struct finder *f, const struct ref_group *g)
{
	struct referrers *r = f->out;

	r->found++;
	if (!idmap__get(&f->held, g->target) && idmap__set(&f->held, g->target, f))
		r->full = true;
	for (size_t i = 0; i < r->group_cnt; i++) {
		if (is_same(&r->groups[i], g)) {
			r->groups[i].cnt++;
			return;
		}
	}
	if (array_grow(&r->groups, &r->group_cap, r->group_cnt, 1, sizeof(*g), REF_GROUPS_MAX)) {
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
static void take_examples(struct finder *f)
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

static bool is_on_path(const struct ref_path *p, uint64_t addr)
{
	for (size_t i = 0; i < p->step_cnt; i++)
		if (p->steps[i].holder == addr || p->steps[i].target == addr)
			return true;
	return false;
}

static bool is_root(const struct ref_group *g)
{
	return g->type->is_meta || is_named(g->type, "module");
}

/* A path by names is better than one by what merely runs. */
static int rank(const struct ref_group *g)
{
	if (is_named(g->type, "module"))
		return 3;
	if (g->type->is_meta)
		return 2;
	return !is_named(g->type, "frame") && !is_named(g->type, "function");
}

/* The best holder that is not on the path yet, of those that this reading finds. */
static void climb(struct finder *f, const struct ref_group *g)
{
	for (size_t i = 0; i < f->out->path_cnt; i++) {
		struct ref_path *p = f->climbing[i];
		struct ref_group *next = p ? &p->steps[f->step] : NULL;

		if (!p || p->steps[f->step - 1].holder != g->target)
			continue;
		if (p->step_cnt > f->step ? rank(g) <= rank(next) : is_on_path(p, g->holder))
			continue;
		if (p->step_cnt > f->step && is_on_path(p, g->holder))
			continue;
		*next = *g;
		p->step_cnt = f->step + 1;
	}
}

static int climb_all(struct finder *f)
{
	struct referrers *r = f->out;
	size_t open = 1;
	int err = 0;

	f->hit = climb;
	for (f->step = 1; f->step < REF_STEPS && !err && open && !r->late; f->step++) {
		open = 0;
		forget_targets(f);
		for (size_t i = 0; i < r->path_cnt; i++) {
			struct ref_path *p = &r->paths[i];

			p->ends = p->ends || is_root(&p->steps[p->step_cnt - 1]);
			f->climbing[i] = p->ends ? NULL : p;
			open += !p->ends;
			if (!p->ends && add_target(f, p->steps[p->step_cnt - 1].holder))
				return -ENOMEM;
		}
		if (open)
			err = read_heap(f, look_at_object);
		for (size_t i = 0; i < r->path_cnt; i++)
			r->paths[i].ends |= r->paths[i].step_cnt == f->step;
	}
	return err;
}

static int find_paths(struct finder *f)
{
	struct referrers *r = f->out;
	int err;

	for (size_t i = 0; i < r->group_cnt && r->path_cnt < REF_PATHS; i++) {
		struct ref_path *p = &r->paths[r->path_cnt++];

		p->steps[0] = r->groups[i];
		p->step_cnt = 1;
	}
	err = climb_all(f);
	for (size_t i = 0; i < r->group_cnt; i++)
		name_group(f, &r->groups[i]);
	for (size_t i = 0; i < r->path_cnt; i++)
		for (size_t k = 0; k < r->paths[i].step_cnt; k++)
			name_step(f, &r->paths[i].steps[k]);
	return err;
}

int referrers__find(const struct ref_source *src, const char *type, struct referrers *out)
{
	struct finder *f = calloc(1, sizeof(*f));
	int err;

	*out = (struct referrers){ 0 };
	if (!f)
		return -ENOMEM;
	f->src = src;
	f->scan = src->scan;
	f->mem = (struct pymem){
		.read = src->scan->mem->read,
		.ctx = src->scan->mem->ctx,
		.lay = src->layout,
		.str_type = src->scan->types.shape.str_type,
		.version = (uint16_t)src->scan->types.shape.version,
		.shift = (uint16_t)(src->scan->types.shape.ob_type - 8),
	};
	f->out = out;
	f->wanted = type;
	f->every = 1;
	forget_targets(f);
	err = collect(f);
	f->hit = count_hit;
	if (!err)
		err = read_heap(f, look_at_object);
	if (!err) {
		out->unheld = f->held.cnt < out->sampled ? out->sampled - f->held.cnt : 0;
		take_examples(f);
		if (out->group_cnt)
			qsort(out->groups, out->group_cnt, sizeof(*out->groups), by_cnt);
		err = find_paths(f);
	}
	idmap__free(&f->targets);
	idmap__free(&f->held);
	free(f);
	return err;
}

void referrers__free(struct referrers *r)
{
	for (size_t i = 0; i < r->group_cnt; i++)
		free(r->groups[i].name);
	for (size_t i = 0; i < r->path_cnt; i++)
		for (size_t k = 0; k < r->paths[i].step_cnt; k++)
			free(r->paths[i].steps[k].name);
	free(r->groups);
	*r = (struct referrers){ 0 };
}
