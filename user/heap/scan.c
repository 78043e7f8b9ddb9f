/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "heap/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/ending.h"
#include "base/hash.h"
#include "heap/scan_parts.h"

#define DEBUG_HEAD                                                                                 \
	16 /* what PYTHONMALLOC=debug and debug builds put before a block: size, domain, guard */
#define ADDRESS_MAX	 (1ULL << 47)
#define OUTSIDE_SIZE_MAX (1ULL << 36)
#define NODE_READ	 64 /* of an object outside: gc header, reference count, type, size */

/* An object whose links were not confirmed yet. */
struct heap_link {
	struct heap_type *type;
	uint64_t head;	 /* its gc header */
	uint64_t next;	 /* whom it names as its successor */
	uint32_t size;	 /* of its block */
	uint32_t offset; /* of the object in it, behind the gc header */
};

int heap_scan__init(struct heap_scan *s, const struct heap_mem *mem, const struct heap_shape *shape)
{
	*s = (struct heap_scan){ .mem = mem, .geometry = pool_geometry(shape->version) };
	s->bytes = malloc(ARENA_SIZE_MAX);
	s->links = calloc(HEAP_GATHER_MAX, sizeof(*s->links));
	if (heap_types__init(&s->types, mem, shape) || !s->bytes || !s->links)
		return -ENOMEM;
	return 0;
}

void heap_scan__trim(struct heap_scan *s)
{
	idmap__free(&s->outside);
	free(s->bytes);
	free(s->links);
	free(s->queue);
	s->outside = (struct idmap){ 0 };
	s->bytes = NULL;
	s->links = NULL;
	s->queue = NULL;
	s->queue_cap = 0;
}

void heap_scan__free(struct heap_scan *s)
{
	heap_scan__trim(s);
	heap_types__free(&s->types);
	free(s->arenas);
}

void heap_scan__reset(struct heap_scan *s)
{
	heap_types__reset(&s->types);
	idmap__free(&s->outside);
	s->outside = (struct idmap){ 0 };
	s->arena_cnt = s->queue_cnt = s->link_cnt = 0;
	s->counts = (struct heap_counts){ 0 };
	s->collector = (struct heap_collector){ 0 };
	memset(s->largest, 0, sizeof(s->largest));
}

/* ---- arenas ---------------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
	const struct arena *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* The arena that an address is in, or NULL. */
static const struct arena *find_arena(const struct heap_scan *s, uint64_t addr)
{
	size_t low = 0, high = s->arena_cnt;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->arenas[middle].address <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || addr - s->arenas[low - 1].address >= s->geometry.arena_size)
		return NULL;
	return &s->arenas[low - 1];
}

/* The first pool says which entry of the array its arena has. */
static bool is_confirmed(const struct heap_scan *s, const struct arena *a)
{
	uint8_t header[POOL_HEADER];

	if (a->carved == a->pools)
		return false;
	if (s->mem->read(s->mem->ctx, header, sizeof(header), a->pools))
		return false;
	return pool__belongs(header, a->index);
}

/*
 * Entries [first, first + cnt) are added, if all of them are entries. How many are in use, or
 * -EBADMSG, -ENOMEM.
 */
static int add_entries(struct heap_scan *s, uint64_t array, uint32_t first, uint32_t cnt)
{
	uint8_t bytes[ARENAS_MIN * ARENA_ENTRY_SIZE];
	int used = 0;

	for (uint32_t i = 0; i < cnt; i++) {
		uint32_t in_part = i % ARENAS_MIN;
		struct arena a;

		if (!in_part && s->mem->read(s->mem->ctx, bytes, sizeof(bytes),
					     array + (uint64_t)(first + i) * ARENA_ENTRY_SIZE))
			return -EBADMSG;
		if (arena__parse(bytes + in_part * ARENA_ENTRY_SIZE, array, first + i, s->geometry,
				 &a))
			return -EBADMSG;
		if (!a.address)
			continue;
		if (ARRAY_GROW(s->arenas, s->arena_cap, s->arena_cnt, ARENAS_MAX))
			return -ENOMEM;
		s->arenas[s->arena_cnt++] = a;
		used++;
	}
	return used;
}

static bool any_confirmed(const struct heap_scan *s, size_t first)
{
	for (size_t i = first; i < s->arena_cnt; i++)
		if (is_confirmed(s, &s->arenas[i]))
			return true;
	return false;
}

/*
 * The array's length is in no fixed place: it doubles, so either all entries of its second half are
 * entries or none is.
 */
int heap_scan__add_array(struct heap_scan *s, uint64_t addr)
{
	size_t before = s->arena_cnt, kept;
	int cnt = add_entries(s, addr, 0, ARENAS_MIN);

	if (cnt <= 0 || !any_confirmed(s, before)) {
		s->arena_cnt = before;
		return cnt == -ENOMEM ? cnt : -ENOENT;
	}
	for (uint32_t have = ARENAS_MIN; have < ARENAS_MAX && cnt >= 0; have *= 2) {
		kept = s->arena_cnt;
		cnt = add_entries(s, addr, have, have);
		if (cnt < 0 || (cnt && !any_confirmed(s, kept))) {
			s->arena_cnt = kept;
			break;
		}
	}
	return cnt == -ENOMEM ? cnt : 0;
}

/* ---- objects --------------------------------------------------------------------------------- */

static void note_largest(struct heap_scan *s, const struct heap_type *type, uint64_t addr,
			 uint64_t bytes)
{
	size_t at = LARGEST_CNT;

	if (bytes <= s->largest[LARGEST_CNT - 1].bytes)
		return;
	while (at && s->largest[at - 1].bytes < bytes) {
		if (at < LARGEST_CNT)
			s->largest[at] = s->largest[at - 1];
		at--;
	}
	s->largest[at] = (struct heap_object){ addr, bytes, type };
}

static void count_object(struct heap_scan *s, struct heap_type *type, uint64_t addr, uint64_t bytes)
{
	type->cnt++;
	type->bytes += bytes;
	if (bytes > type->largest) {
		type->largest = bytes;
		type->largest_addr = addr;
	}
	note_largest(s, type, addr, bytes);
}

static void count_inside(struct heap_scan *s, struct heap_type *type, uint64_t addr, uint64_t bytes)
{
	s->counts.object_cnt++;
	s->counts.object_bytes += bytes;
	count_object(s, type, addr, bytes);
}

static void count_storage(struct heap_scan *s, uint64_t bytes)
{
	s->counts.storage_cnt++;
	s->counts.storage_bytes += bytes;
}

static void count_spare(struct heap_scan *s, struct heap_type *type, uint64_t bytes)
{
	s->counts.spare_cnt++;
	s->counts.spare_bytes += bytes;
	type->spare_cnt++;
	type->spare_bytes += bytes;
}

/*
 * Can it be a reference count? From 3.14 on it is the lower half of its word, above it are flags
 * and an overflow (Include/object.h@3.14.0). A pointer that stands there is none, be it of a free
 * list or of other contents.
 */
static bool is_refcount(const struct heap_scan *s, uint64_t word)
{
	if (s->types.shape.version >= 0x030e)
		word = word >> 32 & 0xffff || word >> 56 ? UINT64_MAX : word & UINT32_MAX;
	if (!word || word > UINT32_MAX)
		return false;
	return word < s->module.start || word >= s->module.end;
}

/*
 * The same of a free-threaded build: the owner's references, and above two flags those of all other
 * threads (Include/object.h@3.13.5).
 */
static bool is_shared_alive(const struct heap_scan *s, const uint8_t *object)
{
	uint32_t local = heap_half(object + s->types.shape.ob_type - 12);
	int64_t shared = (int64_t)heap_word(object + s->types.shape.ob_type - 8) >> 2;

	return local || shared > 0;
}

static bool is_tracked_number(const struct heap_scan *s, const uint8_t *head)
{
	int64_t refs = (int64_t)heap_word(head + 16);

	/* _PyGC_REFS_UNTRACKED, -2; from 3.4 on above a bit (Include/objimpl.h). */
	return s->types.shape.version < 0x0300 ? refs != -2 : refs >> 1 != -2;
}

/* The successor that a gc header names; 0: it is in no list. */
static uint64_t next_of(const struct heap_scan *s, const uint8_t *head)
{
	if (s->types.shape.version <= 0x0307 && !is_tracked_number(s, head))
		return 0;
	return heap_word(head) & ~3ULL; /* flags: Include/internal/pycore_gc.h@3.14.0 */
}

/*
 * Does the gc header with this predecessor follow `head`? While a collection is under way 3.8 and
 * later keep something else there, and a flag says so (PREV_MASK_COLLECTING).
 */
static bool follows(const struct heap_scan *s, uint64_t prev, uint64_t head)
{
	return (prev & ~3ULL) == head || (s->types.shape.version >= 0x0308 && prev & 2);
}

struct found {
	struct heap_type *type;
	uint32_t object; /* where it begins in the block */
};

static bool can_be_type(const struct heap_scan *s, uint64_t addr)
{
	/* A type is larger than any block of a pool. mimalloc has blocks of all sizes. */
	return addr % 8 == 0 && addr >= 4096 && addr < ADDRESS_MAX &&
	       (s->types.shape.free_threaded || !find_arena(s, addr));
}

/*
 * A header that the collector has not linked yet keeps what was in the block before, which may look
 * like an object whose reference count is impossible: the next candidate is better than that one.
 */
static bool find_object(struct heap_scan *s, const uint8_t *block, uint32_t size, struct found *out)
{
	const struct heap_shape *shape = &s->types.shape;
	const uint32_t prefixes[] = { 0, shape->gc_size, 16, shape->gc_size + 16U };
	uint32_t debug = 0, cnt = shape->version >= 0x030b ? 4 : 2;

	out->type = NULL;
	/* A domain's letter and seven guard bytes: 0xfb until 3.7, then 0xfd. */
	if (size > 2 * DEBUG_HEAD && (block[9] == 0xfb || block[9] == 0xfd) &&
	    !memcmp(block + 9, block + 10, 6))
		debug = DEBUG_HEAD;
	for (uint32_t i = 0; i < cnt; i++) {
		uint32_t object = debug + prefixes[i];
		struct heap_type *type;
		uint64_t word;
		bool alive;

		if (object + shape->ob_type + 8U > size)
			continue;
		word = heap_word(block + object + shape->ob_type);
		type = can_be_type(s, word) ? heap_types__get(&s->types, word) : NULL;
		if (!type || type->prefix != prefixes[i] || type->basic_size > size - object)
			continue;
		alive = shape->free_threaded ||
			is_refcount(s, heap_word(block + object + shape->ob_type - 8));
		if (alive || !out->type)
			*out = (struct found){ type, object };
		if (alive)
			break;
	}
	return out->type;
}

/* ---- outside of the pools -------------------------------------------------------------------- */

static void add_outside(struct heap_scan *s, uint64_t head)
{
	/* A head of the collector's lists may be packed to 4 bytes: collector.c */
	if (!head || head % 4 || head >= ADDRESS_MAX || find_arena(s, head) ||
	    idmap__get(&s->outside, head))
		return;
	if (s->outside.cnt >= OUTSIDE_MAX || s->counts.outside_full ||
	    ARRAY_GROW(s->queue, s->queue_cap, s->queue_cnt, OUTSIDE_MAX) ||
	    idmap__set(&s->outside, head, s)) {
		s->counts.outside_full = true;
		return;
	}
	s->queue[s->queue_cnt++] = head;
}

/* Without its items' storage: that is not the object's. */
static uint64_t outside_size(const struct heap_shape *shape, const struct heap_type *type,
			     const uint8_t *object)
{
	int64_t items = (int64_t)heap_word(object + shape->ob_type + 8);
	uint64_t size = type->prefix + type->basic_size;

	if (items < 0)
		items = items == INT64_MIN ? 0 : -items;
	if (type->item_size && (uint64_t)items < OUTSIDE_SIZE_MAX / type->item_size)
		size += (uint64_t)items * type->item_size;
	return size;
}

/* False: an element of a collector's list is not an object. */
static bool look_at_neighbour(struct heap_scan *s, uint64_t head)
{
	const struct heap_shape *shape = &s->types.shape;
	uint8_t node[NODE_READ];
	const uint8_t *object = node + shape->gc_size;
	struct heap_type *type;
	uint64_t next, prev, size;

	if (s->mem->read(s->mem->ctx, node, sizeof(node), head))
		return true;
	next = next_of(s, node);
	if (!next || !is_refcount(s, heap_word(object + shape->ob_type - 8)) ||
	    !can_be_type(s, heap_word(object + shape->ob_type)))
		return false;
	type = heap_types__get(&s->types, heap_word(object + shape->ob_type));
	s->mem->gather(s->mem->ctx, &prev, &(uint64_t){ next + 8 }, 1);
	if (!type || !type->gc || !follows(s, prev, head))
		return false;
	size = outside_size(shape, type, object);
	s->counts.outside_cnt++;
	s->counts.outside_bytes += size;
	type->outside_cnt++;
	count_object(s, type, head + shape->gc_size, size);
	if (s->visit)
		s->visit(s->visit_ctx, &(struct heap_seen){ .type = type,
							    .addr = head + shape->gc_size,
							    .size = size - type->prefix });
	add_outside(s, next);
	add_outside(s, heap_word(node + 8) & ~3ULL);
	return true;
}

static void look_outside(struct heap_scan *s, uint64_t head)
{
	const struct heap_shape *shape = &s->types.shape;

	if (!look_at_neighbour(s, head) && !s->collector.known)
		heap_collector__read(s->mem, shape->version, shape->gc_size, head, &s->collector);
}

bool heap_scan__is_late(struct heap_scan *s)
{
	if (s->deadline_ns && (now_ns() > s->deadline_ns || ending__asked()))
		s->counts.late = true;
	return s->counts.late;
}

static void follow_outside(struct heap_scan *s)
{
	size_t done = 0;

	while (s->queue_cnt && (++done % 1024 || !heap_scan__is_late(s)))
		look_outside(s, s->queue[--s->queue_cnt]);
}

/* ---- links ----------------------------------------------------------------------------------- */

/*
 * Asks for the predecessors that the successors name. Those that agree are counted, the others
 * stay.
 */
static void confirm_links(struct heap_scan *s)
{
	uint64_t addrs[HEAP_GATHER_MAX], prevs[HEAP_GATHER_MAX];
	size_t left = 0;

	for (size_t i = 0; i < s->link_cnt; i++)
		addrs[i] = s->links[i].next + 8;
	s->mem->gather(s->mem->ctx, prevs, addrs, s->link_cnt);
	for (size_t i = 0; i < s->link_cnt; i++) {
		const struct heap_link *l = &s->links[i];

		if (!follows(s, prevs[i], l->head)) {
			s->links[left++] = *l;
			continue;
		}
		count_inside(s, l->type, l->head + l->offset, l->size);
		add_outside(s, l->next);
	}
	s->link_cnt = left;
}

/* The process runs on: an object that is not confirmed may have another successor by now. */
static void flush_links(struct heap_scan *s)
{
	uint64_t addrs[HEAP_GATHER_MAX], nexts[HEAP_GATHER_MAX];

	confirm_links(s);
	if (!s->link_cnt)
		return;
	for (size_t i = 0; i < s->link_cnt; i++)
		addrs[i] = s->links[i].head;
	s->mem->gather(s->mem->ctx, nexts, addrs, s->link_cnt);
	for (size_t i = 0; i < s->link_cnt; i++)
		s->links[i].next = nexts[i] & ~3ULL;
	confirm_links(s);
	for (size_t i = 0; i < s->link_cnt; i++)
		count_storage(s, s->links[i].size);
	s->counts.unlinked += s->link_cnt;
	s->link_cnt = 0;
}

/* Most neighbours were created one after the other, so they are in the current arena. */
static bool is_linked_here(const struct heap_scan *s, uint64_t next, uint64_t head)
{
	if (next < s->at.start || next > s->at.end - 16)
		return false;
	return follows(s, heap_word(s->bytes + (next - s->at.start) + 8), head);
}

/* An object with a gc header: in a list, or not tracked. */
static void take_linked(struct heap_scan *s, const struct found *f, const uint8_t *block,
			uint64_t addr, uint32_t size)
{
	uint16_t gc_size = s->types.shape.gc_size;
	const uint8_t *head = block + f->object - gc_size;
	uint64_t next = next_of(s, head);

	if (next)
		add_outside(s, heap_word(head + 8) & ~3ULL);
	if (!next || is_linked_here(s, next, addr + f->object - gc_size)) {
		count_inside(s, f->type, addr + f->object, size);
		return;
	}
	if (s->link_cnt == HEAP_GATHER_MAX)
		flush_links(s);
	s->links[s->link_cnt++] = (struct heap_link){
		.type = f->type,
		.head = addr + f->object - gc_size,
		.next = next,
		.size = size,
		.offset = gc_size,
	};
}

/* Whoever visits objects has to believe in them now: their neighbours are asked one by one. */
static void visit(struct heap_scan *s, const struct found *f, const uint8_t *block, uint64_t addr,
		  uint32_t size)
{
	uint16_t gc_size = s->types.shape.gc_size;
	uint64_t head = addr + f->object - gc_size, prev;
	uint64_t next = f->type->gc ? next_of(s, block + f->object - gc_size) : 0;

	if (next && !is_linked_here(s, next, head)) {
		s->mem->gather(s->mem->ctx, &prev, &(uint64_t){ next + 8 }, 1);
		if (!follows(s, prev, head))
			return;
	}
	s->visit(s->visit_ctx, &(struct heap_seen){ .type = f->type,
						    .addr = addr + f->object,
						    .block = block,
						    .block_addr = addr,
						    .block_size = size });
}

/*
 * Without references it is in a free list of the interpreter's. From 3.13 on there is a link in
 * that place.
 */
static void take_dead(struct heap_scan *s, struct heap_type *type, uint64_t refs, uint32_t size)
{
	if (s->types.shape.free_threaded || !refs || find_arena(s, refs))
		count_spare(s, type, size);
	else
		count_storage(s, size);
}

void heap_scan__take_block(struct heap_scan *s, const uint8_t *block, uint64_t addr, uint32_t size)
{
	bool shared = s->types.shape.free_threaded;
	struct found f;
	uint64_t refs;

	if (!find_object(s, block, size, &f)) {
		count_storage(s, size);
		return;
	}
	refs = heap_word(block + f.object + s->types.shape.ob_type - 8);
	if (shared ? !is_shared_alive(s, block + f.object) : !is_refcount(s, refs)) {
		take_dead(s, f.type, refs, size);
		return;
	}
	if (s->visit)
		visit(s, &f, block, addr, size);
	if (f.type->gc && !shared)
		take_linked(s, &f, block, addr, size);
	else
		count_inside(s, f.type, addr + f.object, size);
}

void heap_scan__take_storage(struct heap_scan *s, uint64_t cnt, uint64_t bytes)
{
	s->counts.storage_cnt += cnt;
	s->counts.storage_bytes += bytes;
}

/* ---- pools ----------------------------------------------------------------------------------- */

static void take_pool(struct heap_scan *s, const uint8_t *bytes, uint64_t addr,
		      const struct pool *p)
{
	uint64_t in_use = (uint64_t)p->used_cnt * p->block_size;
	uint64_t room = (uint64_t)p->block_cnt * p->block_size;

	s->counts.pool_fill[(uint64_t)(p->used_cnt - 1) * POOL_FILL_CNT / p->block_cnt]++;
	s->counts.free_bytes += room - in_use;
	s->counts.header_bytes += s->geometry.pool_size - room;
	for (uint32_t i = 0; i < p->carved_cnt; i++) {
		size_t at = POOL_HEADER + (size_t)i * p->block_size;

		if (!pool__is_free(p, i))
			heap_scan__take_block(s, bytes + at, addr + at, p->block_size);
	}
}

/* A pool that contradicts itself may have changed while its arena was read. */
static void look_at_pool(struct heap_scan *s, uint8_t *bytes, uint64_t addr, uint32_t index)
{
	enum pool_state state = POOL_BAD;
	struct pool p;

	for (int i = 0; i < POOL_TRIES; i++) {
		state = pool__parse(bytes, addr, index, s->geometry, &p);
		if (state != POOL_BAD ||
		    s->mem->read(s->mem->ctx, bytes, s->geometry.pool_size, addr))
			break;
	}
	if (state == POOL_IN_USE)
		take_pool(s, bytes, addr, &p);
	else if (state == POOL_FREE)
		s->counts.pool_free++;
	else
		s->counts.pool_unread++;
}

/* 0, or -EFAULT: the arena is gone. */
static int look_at_arena(struct heap_scan *s, const struct arena *a)
{
	uint64_t size = a->carved - a->pools;
	int err = size ? s->mem->read(s->mem->ctx, s->bytes, size, a->pools) : 0;

	s->counts.arena_cnt++;
	s->counts.arena_bytes += s->geometry.arena_size;
	s->counts.pool_cnt += a->pool_cnt;
	s->counts.pool_virgin += a->pool_cnt - size / s->geometry.pool_size;
	if (err) {
		s->counts.pool_unread += size / s->geometry.pool_size;
		return err;
	}
	s->at = (struct heap_range){ a->pools, a->pools + size };
	for (uint64_t at = 0; at < size; at += s->geometry.pool_size)
		look_at_pool(s, s->bytes + at, a->pools + at, a->index);
	return 0;
}

int heap_scan__run(struct heap_scan *s)
{
	if (s->arena_cnt)
		qsort(s->arenas, s->arena_cnt, sizeof(*s->arenas), by_address);
	for (size_t i = 0; i < s->arena_cnt && !heap_scan__is_late(s); i++) {
		int err = s->types.shape.free_threaded
				  ? heap_scan__look_at_segment(s, &s->arenas[i])
				  : look_at_arena(s, &s->arenas[i]);

		if (err == -ESRCH) {
			s->counts.failed = true;
			return err;
		}
		if (s->progress)
			s->progress(s->progress_ctx, i + 1, s->arena_cnt);
	}
	flush_links(s);
	follow_outside(s);
	return 0;
}
