/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "heap/show.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "profile/export_text.h"

#define UNNAMED	     "(a type whose name cannot be read)"
#define LABEL_COLS   12
#define MUCH_PART    4		/* share of RSS from which free memory of malloc is worth advice */
#define MUCH_BYTES   (64 << 20) /* and no less */
#define UNSURE_SHOWN 3		/* types whose growth may be chance */
#define SLOW_MS	     2000	/* a reading of so long may contradict itself */

/* ---- order ----------------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
	const struct heap_type *x = *(const struct heap_type *const *)a;
	const struct heap_type *y = *(const struct heap_type *const *)b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	if (x->cnt != y->cnt)
		return x->cnt > y->cnt ? -1 : 1;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* The types that there are objects of, for the caller to free. NULL: no memory. */
static const struct heap_type **ranked_types(const struct heap_scan *s, size_t *cnt)
{
	const struct heap_type **list = calloc(s->types.cnt + 1, sizeof(*list));

	*cnt = 0;
	for (size_t i = 0; list && i < s->types.cnt; i++)
		if (s->types.list[i]->cnt)
			list[(*cnt)++] = s->types.list[i];
	if (list)
		qsort(list, *cnt, sizeof(*list), by_bytes);
	return list;
}

static const char *name_of(const struct heap_type *t)
{
	return t->unnamed ? UNNAMED : t->name;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void add_part(struct strbuf *b, const char *name, uint64_t bytes, const char *end)
{
	strbuf__addz(b, name);
	text_add_bytes(b, (double)bytes);
	strbuf__addz(b, end);
}

/* "1 reading", "1,000 readings" */
static void add_cnt(struct strbuf *b, const char *before, uint64_t n, const char *noun)
{
	strbuf__addz(b, before);
	text_add_count(b, n);
	strbuf__addf(b, " %s%s", noun, n == 1 ? "" : "s");
}

/* "1,000 in use" */
static void add_some(struct strbuf *b, const char *before, uint64_t n, const char *after)
{
	strbuf__addz(b, before);
	text_add_count(b, n);
	strbuf__addz(b, after);
}

static void fill(struct text_out *o, const char *label, struct strbuf *b)
{
	char padded[LABEL_COLS + 1];

	snprintf(padded, sizeof(padded), "%-*s", LABEL_COLS, label);
	text_out__puts(o, SGR_BOLD, padded);
	text_out__fill(o, LABEL_COLS, LABEL_COLS, b->err || !b->s ? "" : b->s);
	strbuf__clear(b);
}

static bool is_much(uint64_t bytes, uint64_t rss)
{
	return bytes >= MUCH_BYTES && bytes >= rss / MUCH_PART;
}

static bool is_most(uint64_t bytes, uint64_t rss)
{
	return bytes >= MUCH_BYTES && bytes > rss / 2;
}

static void add_advice(struct strbuf *b, const struct heap_usage *u)
{
	if (is_much(u->malloc_free, u->rss) && u->malloc_arenas > 2)
		strbuf__addz(b, " MALLOC_ARENA_MAX=2 or malloc_trim() would give most of it back.");
	else if (is_much(u->malloc_free, u->rss))
		strbuf__addz(b, " malloc_trim() would give most of it back.");
	if (is_much(u->pools_empty, u->rss))
		strbuf__addz(b,
			     " Pools that are partly empty cannot be given back while one object "
			     "in their arena lives.");
	if (u->malloc_known && is_most(u->malloc - u->malloc_free, u->rss))
		strbuf__addz(
			b, " Most of it is in blocks of malloc that are in use: large str and "
			   "bytes, or memory of C code. 'pyperf-bpf memory' shows who takes more.");
}

/* Says in one sentence where the resident memory is. */
static void put_usage(struct text_out *o, struct strbuf *b, const struct heap_usage *u)
{
	add_part(b, "RSS ", u->rss, ": ");
	if (u->pools) {
		add_part(b, "live Python objects and their storage ", u->pools - u->pools_empty,
			 ", ");
		add_part(b, "empty space in Python's pools ", u->pools_empty, ", ");
	} else {
		/* A number of bytes would be a guess: nothing tells them from other blocks. */
		strbuf__addz(b, "no pools of Python's own (its objects are in what follows), ");
	}
	add_part(b, "malloc ", u->malloc, "");
	if (u->malloc_known) {
		add_cnt(b, " of which free inside ", u->malloc_arenas, "arena");
		strbuf__addz(b, u->malloc_cut ? " more than " : " about ");
		text_add_bytes(b, (double)u->malloc_free);
	}
	add_part(b, ", other anonymous mappings ", u->other, ", ");
	add_part(b, "files ", u->files, ", ");
	add_part(b, "stacks ", u->stacks, ".");
	if (u->swap)
		add_part(b, " In swap ", u->swap, ".");
	add_advice(b, u);
	text_out__fill(o, 0, 0, b->err || !b->s ? "" : b->s);
	strbuf__clear(b);
}

static void add_amounts(struct text_table *t, struct strbuf *b, uint64_t cnt, uint64_t bytes,
			uint64_t all)
{
	text_add_count(b, cnt);
	text_table__add(t, NULL, b);
	text_add_bytes(b, (double)bytes);
	text_table__add(t, NULL, b);
	text_table__addf(t, NULL, "%.1f%%", text_percent(bytes, all));
}

static uint64_t all_bytes(const struct heap_counts *c)
{
	return c->object_bytes + c->outside_bytes;
}

/* Two types may have one name: then their addresses tell them apart. */
static bool is_ambiguous(const struct heap_type **list, size_t cnt, size_t i)
{
	for (size_t k = 0; k < cnt; k++)
		if (k != i && !strcmp(name_of(list[k]), name_of(list[i])))
			return true;
	return false;
}

static int put_types(struct text_out *o, struct strbuf *b, const struct heap_view *v)
{
	static const struct text_column cols[] = {
		{ "objects", CUT_NEVER, true },
		{ "bytes", CUT_NEVER, true },
		{ "share", CUT_NEVER, true },
		{ "type", CUT_END, false },
	};
	struct text_table t = { .cols = cols, .col_cnt = 4 };
	uint64_t rest_cnt = 0, rest_bytes = 0;
	size_t cnt, shown;
	const struct heap_type **list = ranked_types(v->scan, &cnt);

	if (!list)
		return -ENOMEM;
	shown = v->all || cnt < HEAP_TYPES_SHOWN ? cnt : HEAP_TYPES_SHOWN;
	for (size_t i = 0; i < cnt; i++) {
		if (i >= shown) {
			rest_cnt += list[i]->cnt;
			rest_bytes += list[i]->bytes;
			continue;
		}
		add_amounts(&t, b, list[i]->cnt, list[i]->bytes, all_bytes(&v->scan->counts));
		if (!v->all && is_ambiguous(list, shown, i))
			text_table__addf(&t, NULL, "%s at 0x%" PRIx64, name_of(list[i]),
					 list[i]->addr);
		else
			text_table__addf(&t, list[i]->unnamed ? SGR_DIM : NULL, "%s",
					 name_of(list[i]));
	}
	if (shown < cnt) {
		add_amounts(&t, b, rest_cnt, rest_bytes, all_bytes(&v->scan->counts));
		add_cnt(b, "", cnt - shown, "more type");
		strbuf__addz(b, " (--all)");
		text_table__add(&t, SGR_DIM, b);
	}
	free(list);
	return text_table__print(&t, o);
}

/* "1,234.5" */
static void add_tenths(struct strbuf *b, double amount)
{
	/* The numbers of a target are foreign: none is too large for this type. */
	uint64_t tenths = (uint64_t)(fmin(amount, 1e15) * 10 + 0.5);

	text_add_count(b, tenths / 10);
	strbuf__addf(b, ".%u", (unsigned)(tenths % 10));
}

static int put_growth(struct text_out *o, struct strbuf *b, const struct heap_view *v)
{
	static const struct text_column cols[] = {
		{ "objects/min", CUT_NEVER, true }, { "+/-", CUT_NEVER, true },
		{ "bytes/min", CUT_NEVER, true },   { "objects now", CUT_NEVER, true },
		{ "type", CUT_END, false },
	};
	const struct heap_growth *g = v->growth;
	struct text_table t = { .cols = cols, .col_cnt = 5 };
	size_t shown = 0, sure = 0, most;

	for (size_t i = 0; i < g->cnt; i++)
		sure += grown_type__is_sure(g, g->types[i]);
	most = !sure ? UNSURE_SHOWN : v->all ? g->cnt : HEAP_TYPES_SHOWN;
	for (size_t i = 0; i < g->cnt && shown < most; i++) {
		const struct grown_type *one = g->types[i];

		if (sure ? !grown_type__is_sure(g, one) : one->bytes <= 0)
			continue;
		shown++;
		strbuf__addc(b, one->objects < 0 ? '-' : '+');
		add_tenths(b, fabs(one->objects));
		text_table__add(&t, NULL, b);
		add_tenths(b, one->error);
		text_table__add(&t, NULL, b);
		text_add_bytes(b, one->bytes);
		text_table__add(&t, NULL, b);
		text_add_count(b, one->last_cnt);
		text_table__add(&t, NULL, b);
		text_table__addf(&t, NULL, "%s", one->name ? one->name : UNNAMED);
	}
	add_cnt(b, "", g->readings, "reading");
	strbuf__addf(b, " in %.1f minutes: ", g->minutes);
	if (g->readings < HEAP_READINGS_MIN)
		strbuf__addz(b, "too few to tell growth from chance.");
	else
		add_cnt(b, "", sure, "type");
	if (g->readings >= HEAP_READINGS_MIN)
		strbuf__addz(b, " grew by more than chance.");
	if (shown < sure)
		add_some(b, " The first ", shown, ":");
	else if (!sure && shown)
		strbuf__addf(b,
			     " Perhaps by chance, %s:", shown > 1 ? "these grew" : "this one did");
	fill(o, "Growth", b);
	return shown ? text_table__print(&t, o) : 0;
}

/* "dict['cache']", "Order.owner", "list[...]" */
static void add_holder(struct strbuf *b, const struct ref_group *g)
{
	const char *key = g->name ? g->name : "...";

	strbuf__addz(b, name_of(g->type));
	switch (g->kind) {
	case REF_ITEM:
	case REF_VALUES:
		strbuf__addz(b, "[...]");
		break;
	case REF_VALUE:
		strbuf__addf(b, g->name ? "['%s']" : "[%s]", key);
		break;
	case REF_KEY:
		strbuf__addz(b, ", as a key");
		break;
	case REF_ATTR:
		strbuf__addf(b, ".%s", key);
		break;
	case REF_FIELD:
		if (g->name)
			strbuf__addf(b, ".%s", key);
		else
			strbuf__addf(b, ", at +%" PRIu64, g->key);
		break;
	case REF_LOCAL:
		strbuf__addf(b, " of %s", key);
		break;
	case REF_DICT:
		strbuf__addf(b, ".%s", g->name ? key : "__dict__");
		break;
	}
}

/* "(list[...] <- Branch.children) x 40", "Node.next x 1,000,000" */
static void add_steps(struct strbuf *b, const struct ref_step *steps)
{
	bool several = steps->together > 1;

	strbuf__addz(b, several ? " <- (" : " <- ");
	for (uint32_t i = 0; i < steps->together; i++) {
		strbuf__addz(b, i ? " <- " : "");
		add_holder(b, &steps[i].what);
	}
	strbuf__addz(b, several ? ")" : "");
	if (steps->times > 1)
		add_some(b, " x ", steps->times, "");
}

static void put_path(struct text_out *o, struct strbuf *b, const char *type,
		     const struct ref_path *p)
{
	static const char *const ends[] = {
		[REF_END_OPEN] = " <- ...",
		[REF_END_ROOT] = "",
		[REF_END_NONE] = " <- no other object: C code, or a running function",
		[REF_END_RING] = " <- each other, and nothing else: garbage, or C code holds one",
	};

	strbuf__addz(b, type);
	for (size_t i = 0; i < p->step_cnt; i += p->steps[i].together) {
		const struct ref_step *last = &p->steps[i + p->steps[i].together - 1];

		add_steps(b, &p->steps[i]);
		if (last->left_out)
			add_some(b, " <- ... ", last->left_out, " more ...");
	}
	strbuf__addz(b, ends[p->end]);
	fill(o, "Path", b);
}

static void add_examples(struct strbuf *b, const struct ref_examples *e, const char *what)
{
	for (size_t i = 0; i < e->cnt; i++)
		strbuf__addf(b, "%s0x%" PRIx64, !i && b->len ? "; " : i ? ", " : "", e->addrs[i]);
	if (e->cnt)
		strbuf__addz(b, what);
}

static void put_examples(struct text_out *o, struct strbuf *b, const struct referrers *r)
{
	add_examples(b, &r->held, "");
	add_examples(b, &r->not_held, " (these no other object holds)");
	if (b->len)
		fill(o, "Objects", b);
}

/* How many objects there are, and for how many of them somebody else must be looked for. */
static void add_held(struct strbuf *b, const struct referrers *r)
{
	bool all = r->unheld == r->sampled;

	add_cnt(b, "", r->wanted, "object");
	if (r->sampled < r->wanted)
		add_some(b, ", of which ", r->sampled, " were looked for");
	if (r->found)
		add_cnt(b, "; ", r->found, "reference");
	if (!r->unheld) {
		strbuf__addz(b, ".");
		return;
	}
	strbuf__addz(b, "; no other object holds ");
	if (!all)
		add_some(b, "", r->unheld, " of them");
	else
		strbuf__addz(b, r->unheld == 1 ? "it" : "them");
	strbuf__addf(b, ": C code %s, or a running function works with %s.",
		     r->unheld == 1 ? "holds it" : "holds them", r->unheld == 1 ? "it" : "them");
}

static int put_referrers(struct text_out *o, struct strbuf *b, const struct heap_view *v)
{
	static const struct text_column cols[] = {
		{ "references", CUT_NEVER, true },
		{ "share", CUT_NEVER, true },
		{ "held by", CUT_END, false },
	};
	const struct referrers *r = v->referrers;
	struct text_table t = { .cols = cols, .col_cnt = 3 };
	struct strbuf type = { 0 };
	int err;

	str_sanitise(&type, v->type, strlen(v->type), HEAP_NAME_MAX);
	strbuf__addf(b, "%s: ", type.s ? type.s : "");
	add_held(b, r);
	if (r->late || r->full)
		strbuf__addz(b, " Not all holders were found: there were too many.");
	fill(o, "Referrers", b);
	for (size_t i = 0; i < r->group_cnt && (v->all || i < HEAP_TYPES_SHOWN); i++) {
		text_add_count(b, r->groups[i].cnt);
		text_table__add(&t, NULL, b);
		text_table__addf(&t, NULL, "%.1f%%", text_percent(r->groups[i].cnt, r->found));
		add_holder(b, &r->groups[i]);
		text_table__add(&t, NULL, b);
	}
	err = r->group_cnt ? text_table__print(&t, o) : 0;
	for (size_t i = 0; i < r->path_cnt; i++)
		put_path(o, b, type.s ? type.s : "", &r->paths[i]);
	put_examples(o, b, r);
	strbuf__free(&type);
	return err;
}

static void add_fill(struct strbuf *b, const struct heap_counts *c)
{
	add_some(b, " Of those in use, ", c->pool_fill[0], " are filled to a quarter, ");
	add_some(b, "", c->pool_fill[1], " to a half, ");
	add_some(b, "", c->pool_fill[2], " to three quarters, ");
	add_some(b, "", c->pool_fill[3], " more.");
}

static void put_contents(struct text_out *o, struct strbuf *b, const struct heap_counts *c)
{
	add_part(b, "objects ", c->object_bytes, ", ");
	add_part(b, "storage (dict tables, items of lists and the like) ", c->storage_bytes, ", ");
	add_part(b, "objects kept in free lists ", c->spare_bytes, ", ");
	add_part(b, "free blocks ", c->free_bytes, ", ");
	add_part(b, "headers and remainders ", c->header_bytes, ".");
	fill(o, "In them", b);
}

/* Free-threaded builds: mimalloc's. */
static void put_segments(struct text_out *o, struct strbuf *b, const struct heap_view *v)
{
	const struct heap_counts *c = &v->scan->counts;

	if (!v->array_cnt) {
		strbuf__addz(b,
			     "none were found of mimalloc: PYTHONMALLOC=malloc, a debug build, or "
			     "another mimalloc than that of 3.13 and 3.14.");
		fill(o, "Segments", b);
		return;
	}
	add_cnt(b, "", c->arena_cnt, "segment");
	strbuf__addf(b, " of %u MiB with ", v->scan->geometry.arena_size >> 20);
	add_some(b, "", c->pool_cnt, " pages of blocks.");
	add_fill(b, c);
	fill(o, "Segments", b);
	put_contents(o, b, c);
}

static void put_pools(struct text_out *o, struct strbuf *b, const struct heap_view *v)
{
	const struct heap_counts *c = &v->scan->counts;
	uint64_t used = c->pool_cnt - c->pool_free - c->pool_virgin - c->pool_unread;

	if (v->scan->types.shape.free_threaded) {
		put_segments(o, b, v);
		return;
	}
	if (!v->array_cnt) {
		strbuf__addz(b,
			     "none: PYTHONMALLOC=malloc, or another allocator. Only objects that "
			     "the garbage collector links with one in a pool can be found.");
		fill(o, "Pools", b);
		return;
	}
	add_cnt(b, "", c->arena_cnt, "arena");
	add_some(b, " of ", v->scan->geometry.arena_size >> 10, " KiB with ");
	add_cnt(b, "", c->pool_cnt, "pool");
	add_some(b, ": ", used, " in use, ");
	add_some(b, "", c->pool_free, " empty, ");
	add_some(b, "", c->pool_virgin, " never used.");
	add_fill(b, c);
	fill(o, "Pools", b);
	put_contents(o, b, c);
	add_some(b, "", c->outside_cnt, " objects with a gc header, ");
	text_add_bytes(b, (double)c->outside_bytes);
	strbuf__addz(b, ", are larger than a pool's blocks. Larger ones without that header (str, "
			"bytes, int) are not counted.");
	fill(o, "Outside", b);
}

/* gc.get_count() of gc.get_threshold(), gc.get_stats(). */
static void put_collector(struct text_out *o, struct strbuf *b, const struct heap_collector *c)
{
	static const char *const names[] = { "young", "middle", "old" };
	uint64_t uncollectable = 0;

	if (!c->known)
		return;
	if (!c->enabled)
		strbuf__addz(b, "gc.disable() is in force. ");
	for (size_t i = 0; i < COLLECTOR_GENERATIONS; i++) {
		const struct heap_generation *g = &c->generations[i];

		strbuf__addf(b, "%s%s generation at ", i ? "; " : "", names[i]);
		text_add_count(b, g->count);
		add_some(b, " of ", g->threshold, ", ");
		add_cnt(b, "collected ", g->collections, "time");
		uncollectable += g->uncollectable;
	}
	strbuf__addz(b, ".");
	if (uncollectable)
		add_some(b, " ", uncollectable, " objects could not be collected.");
	fill(o, "Collector", b);
}

/* "dict['TABLE'] <- module.__dict__ of app" */
static void add_holders(struct strbuf *b, const struct ref_label *l)
{
	for (size_t i = 0; i < l->step_cnt; i++) {
		strbuf__addz(b, i ? " <- " : "");
		add_holder(b, &l->by[i]);
	}
}

/* "type Order 1.7 KiB, tuple 1.2 KiB (dict['TABLE'] <- module.__dict__ of app)" */
static void put_largest(struct text_out *o, struct strbuf *b, const struct heap_view *v)
{
	const struct heap_object *largest = v->scan->largest;

	for (size_t i = 0; i < LARGEST_CNT && largest[i].type; i++) {
		const struct ref_label *l = &v->labels[i];

		strbuf__addf(b, "%s%s%s%s ", i ? ", " : "", name_of(largest[i].type),
			     l->own ? " " : "", l->own ? l->own : "");
		text_add_bytes(b, (double)largest[i].bytes);
		if (!l->step_cnt)
			continue;
		strbuf__addz(b, " (");
		add_holders(b, l);
		strbuf__addz(b, ")");
	}
	if (b->len)
		fill(o, "Largest", b);
}

/* In one reading, or in all of them: a program may make types as long as it runs. */
static bool has_too_many_types(const struct heap_view *v)
{
	return v->scan->types.full || (v->growth && v->growth->full);
}

/* Says what makes the numbers incomplete. */
static void put_gaps(struct text_out *o, struct strbuf *b, const struct heap_view *v)
{
	const struct heap_counts *c = &v->scan->counts;

	if (c->late)
		strbuf__addz(b, "Time was up, or a signal came, before all was read. ");
	if (c->pool_unread)
		add_some(b, "", c->pool_unread,
			 " pools changed or vanished whenever they were read. ");
	if (c->outside_full)
		strbuf__addz(b, "There are more objects outside of the pools than are counted. ");
	if (has_too_many_types(v))
		strbuf__addz(b, "There are more types than are counted. ");
	if (b->len)
		fill(o, "Incomplete", b);
	if (!c->unlinked)
		return;
	add_some(b, "", c->unlinked, c->unlinked == 1 ? " block looks" : " blocks look");
	strbuf__addf(b,
		     " like an object of a type that the collector knows, but %s in none of its "
		     "lists: counted as storage.",
		     c->unlinked == 1 ? "is" : "are");
	fill(o, "Doubtful", b);
}

/* Numbers of different moments need not fit each other. */
static void put_slowness(struct text_out *o, struct strbuf *b, const struct heap_view *v)
{
	if (v->ms < SLOW_MS)
		return;
	strbuf__addf(b,
		     "Reading took %.1f s, in which the process may have run: the numbers are of "
		     "different moments.",
		     (double)v->ms / 1000);
	text_out__fill(o, 0, 0, b->err ? "" : b->s);
	strbuf__clear(b);
}

/* A process that is gone leaves its last reading. */
static void put_fate(struct text_out *o, struct strbuf *b, const struct heap_view *v)
{
	if (v->fate == HEAP_RUNS)
		return;
	strbuf__addf(
		b,
		"%s between %.1f and %.1f s after the first reading. All numbers are those of "
		"the last one, after %.1f s.",
		v->fate == HEAP_EXECED ? "The process ran another program" : "The process ended",
		(double)v->last_ms / 1000, (double)v->gone_ms / 1000, (double)v->last_ms / 1000);
	text_out__fill(o, 0, 0, b->err ? "" : b->s);
	strbuf__clear(b);
}

int heap_show__text(FILE *f, const struct heap_view *v, unsigned width, bool color)
{
	struct text_out o = { 0 };
	struct strbuf b = { 0 };
	int err = 0, end;

	text_out__begin(&o, f, width, color);
	strbuf__addf(&b, "Process %" PRIu32 " (%s), CPython %s", v->tgid, v->title, v->version);
	text_out__fill(&o, 0, 0, b.err ? "" : b.s);
	strbuf__clear(&b);
	put_fate(&o, &b, v);
	put_usage(&o, &b, v->usage);
	put_slowness(&o, &b, v);
	text_out__newline(&o);
	if (v->growth) {
		err = put_growth(&o, &b, v);
		text_out__newline(&o);
	}
	if (!err && v->referrers) {
		err = put_referrers(&o, &b, v);
		text_out__newline(&o);
	}
	if (!err)
		err = put_types(&o, &b, v);
	text_out__newline(&o);
	put_pools(&o, &b, v);
	put_collector(&o, &b, &v->scan->collector);
	put_largest(&o, &b, v);
	put_gaps(&o, &b, v);
	if (!err)
		err = b.err;
	strbuf__free(&b);
	end = text_out__end(&o);
	return err ? err : end;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_usage(struct json *j, const struct heap_usage *u)
{
	json__object(j, "memory");
	json__uint(j, "rss", u->rss);
	json__uint(j, "pools", u->pools);
	json__uint(j, "pools_empty", u->pools_empty);
	json__uint(j, "malloc", u->malloc);
	if (u->malloc_known)
		json__uint(j, "malloc_free", u->malloc_free);
	else
		json__null(j, "malloc_free");
	json__uint(j, "malloc_arenas", u->malloc_arenas);
	json__uint(j, "other", u->other);
	json__uint(j, "files", u->files);
	json__uint(j, "stacks", u->stacks);
	json__uint(j, "swap", u->swap);
	json__end(j, '}');
}

static void json_pools(struct json *j, const struct heap_counts *c)
{
	json__object(j, "pools");
	json__uint(j, "arenas", c->arena_cnt);
	json__uint(j, "arena_bytes", c->arena_bytes);
	json__uint(j, "pools", c->pool_cnt);
	json__uint(j, "empty", c->pool_free);
	json__uint(j, "never_used", c->pool_virgin);
	json__uint(j, "unread", c->pool_unread);
	json__array(j, "filled");
	for (size_t i = 0; i < POOL_FILL_CNT; i++)
		json__uint(j, NULL, c->pool_fill[i]);
	json__end(j, ']');
	json__uint(j, "objects", c->object_cnt);
	json__uint(j, "object_bytes", c->object_bytes);
	json__uint(j, "storage", c->storage_cnt);
	json__uint(j, "storage_bytes", c->storage_bytes);
	json__uint(j, "free_list", c->spare_cnt);
	json__uint(j, "free_list_bytes", c->spare_bytes);
	json__uint(j, "free_bytes", c->free_bytes);
	json__uint(j, "overhead_bytes", c->header_bytes);
	json__uint(j, "outside", c->outside_cnt);
	json__uint(j, "outside_bytes", c->outside_bytes);
	json__uint(j, "unlinked", c->unlinked);
	json__end(j, '}');
}

static void json_collector(struct json *j, const struct heap_collector *c)
{
	if (!c->known) {
		json__null(j, "collector");
		return;
	}
	json__object(j, "collector");
	json__bool(j, "enabled", c->enabled);
	json__array(j, "generations");
	for (size_t i = 0; i < COLLECTOR_GENERATIONS; i++) {
		json__object(j, NULL);
		json__uint(j, "count", c->generations[i].count);
		json__uint(j, "threshold", c->generations[i].threshold);
		json__uint(j, "collections", c->generations[i].collections);
		json__uint(j, "collected", c->generations[i].collected);
		json__uint(j, "uncollectable", c->generations[i].uncollectable);
		json__end(j, '}');
	}
	json__end(j, ']');
	json__end(j, '}');
}

static int json_types(struct json *j, const struct heap_scan *s)
{
	size_t cnt;
	const struct heap_type **list = ranked_types(s, &cnt);

	json__array(j, "types");
	for (size_t i = 0; list && i < cnt; i++) {
		json__newline(j);
		json__object(j, NULL);
		if (list[i]->unnamed)
			json__null(j, "name");
		else
			json__stringz(j, "name", list[i]->name);
		json__uint(j, "address", list[i]->addr);
		json__uint(j, "objects", list[i]->cnt);
		json__uint(j, "bytes", list[i]->bytes);
		json__uint(j, "outside", list[i]->outside_cnt);
		json__uint(j, "largest", list[i]->largest);
		json__uint(j, "free_list", list[i]->spare_cnt);
		json__end(j, '}');
	}
	json__end(j, ']');
	free(list);
	return list ? 0 : -ENOMEM;
}

static void json_largest(struct json *j, const struct heap_view *v)
{
	const struct heap_object *largest = v->scan->largest;

	json__array(j, "largest");
	for (size_t i = 0; i < LARGEST_CNT && largest[i].type; i++) {
		const struct ref_label *l = &v->labels[i];
		struct strbuf b = { 0 };

		add_holders(&b, l);
		json__newline(j);
		json__object(j, NULL);
		json__stringz(j, "type", name_of(largest[i].type));
		json__uint(j, "address", largest[i].addr);
		json__uint(j, "bytes", largest[i].bytes);
		if (l->own)
			json__stringz(j, "name", l->own);
		else
			json__null(j, "name");
		if (b.len && !b.err)
			json__stringz(j, "held_by", b.s);
		else
			json__null(j, "held_by");
		json__end(j, '}');
		strbuf__free(&b);
	}
	json__end(j, ']');
}

static void json_growth(struct json *j, const struct heap_growth *g)
{
	json__object(j, "growth");
	json__uint(j, "readings", g->readings);
	json__double(j, "minutes", g->minutes);
	json__array(j, "types");
	for (size_t i = 0; i < g->cnt; i++) {
		const struct grown_type *t = g->types[i];

		if (t->objects == 0 && t->bytes == 0)
			continue;
		json__newline(j);
		json__object(j, NULL);
		if (t->name)
			json__stringz(j, "name", t->name);
		else
			json__null(j, "name");
		json__uint(j, "address", t->addr);
		json__uint(j, "objects_first", t->first_cnt);
		json__uint(j, "objects_last", t->last_cnt);
		json__double(j, "objects_per_minute", t->objects);
		json__double(j, "error", t->error);
		json__double(j, "bytes_per_minute", t->bytes);
		json__bool(j, "more_than_chance", grown_type__is_sure(g, t));
		json__end(j, '}');
	}
	json__end(j, ']');
	json__end(j, '}');
}

/* What a group and a step of a path have in common. */
static void json_holder(struct json *j, const struct ref_group *g)
{
	struct strbuf b = { 0 };

	add_holder(&b, g);
	json__stringz(j, "held_by", b.s ? b.s : "");
	json__stringz(j, "type", name_of(g->type));
	json__uint(j, "references", g->cnt);
	json__uint(j, "holder", g->holder);
	json__uint(j, "object", g->target);
	strbuf__free(&b);
}

static void json_path(struct json *j, const struct ref_path *p)
{
	json__array(j, NULL);
	for (size_t i = 0; i < p->step_cnt; i++) {
		json__object(j, NULL);
		json_holder(j, &p->steps[i].what);
		json__uint(j, "times", p->steps[i].times);
		json__uint(j, "together", p->steps[i].together);
		json__uint(j, "left_out", p->steps[i].left_out);
		json__end(j, '}');
	}
	json__end(j, ']');
}

static void json_examples(struct json *j, const char *name, const struct ref_examples *e)
{
	json__array(j, name);
	for (size_t i = 0; i < e->cnt; i++)
		json__uint(j, NULL, e->addrs[i]);
	json__end(j, ']');
}

static void json_referrers(struct json *j, const struct referrers *r)
{
	static const char *const ends[] = {
		[REF_END_OPEN] = "unknown",
		[REF_END_ROOT] = "root",
		[REF_END_NONE] = "unheld",
		[REF_END_RING] = "ring",
	};

	json__object(j, "referrers");
	json__uint(j, "objects", r->wanted);
	json__uint(j, "sampled", r->sampled);
	json__uint(j, "references", r->found);
	json__uint(j, "unheld", r->unheld);
	json__bool(j, "complete", !r->late && !r->full);
	json_examples(j, "held_objects", &r->held);
	json_examples(j, "unheld_objects", &r->not_held);
	json__array(j, "holders");
	for (size_t i = 0; i < r->group_cnt; i++) {
		json__newline(j);
		json__object(j, NULL);
		json_holder(j, &r->groups[i]);
		json__end(j, '}');
	}
	json__end(j, ']');
	json__array(j, "paths");
	for (size_t i = 0; i < r->path_cnt; i++) {
		json__newline(j);
		json_path(j, &r->paths[i]);
	}
	json__end(j, ']');
	json__array(j, "path_ends");
	for (size_t i = 0; i < r->path_cnt; i++)
		json__stringz(j, NULL, ends[r->paths[i].end]);
	json__end(j, ']');
	json__end(j, '}');
}

static void json_fate(struct json *j, const struct heap_view *v)
{
	if (v->fate == HEAP_RUNS)
		json__null(j, "gone");
	else
		json__stringz(j, "gone", v->fate == HEAP_EXECED ? "exec" : "ended");
}

bool heap_view__is_complete(const struct heap_view *v)
{
	const struct heap_counts *c = &v->scan->counts;

	return !c->late && !c->pool_unread && !c->outside_full && !has_too_many_types(v) &&
	       v->array_cnt;
}

int heap_show__json(FILE *f, const struct heap_view *v)
{
	const struct heap_counts *c = &v->scan->counts;
	struct json j = { .f = f };
	int err;

	json__object(&j, NULL);
	json__uint(&j, "version", 1);
	json__uint(&j, "pid", v->tgid);
	json__stringz(&j, "command", v->comm);
	json__stringz(&j, "title", v->title);
	json__stringz(&j, "python", v->version);
	json__bool(&j, "complete", heap_view__is_complete(v));
	json__uint(&j, "milliseconds", v->ms);
	json_fate(&j, v);
	json_usage(&j, v->usage);
	json_pools(&j, c);
	json_collector(&j, &v->scan->collector);
	err = json_types(&j, v->scan);
	json_largest(&j, v);
	if (v->growth)
		json_growth(&j, v->growth);
	if (v->referrers)
		json_referrers(&j, v->referrers);
	json__end(&j, '}');
	fputc('\n', f);
	if (err)
		return err;
	return ferror(f) ? -EIO : 0;
}
