/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Paths from an object's holder up to a root: a module, a class, a local of a running function.
 *
 * One reading lists the objects that can hold others, a second one the references among them; then
 * each path is searched in that graph, breadth first, so it is a shortest one. The length of a path
 * costs no further reading: a list of a million links is one path of a million holders. What
 * repeats on it is one step.
 *
 * Bounded: REF_NODES_MAX objects, REF_EDGES_MAX references, LABELS_MAX kinds of holders on a path,
 * the deadline of a reading. The process runs meanwhile, so each holder is asked again at the end.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "heap/ref_parts.h"

#define NONE	    UINT32_MAX
#define LABELS_MAX  256
#define TOGETHER    4			       /* steps that may repeat together */
#define PARTS	    (REF_STEPS / 2 / TOGETHER) /* at either end of a long path */
#define LATE_CHECKS 1024

/* In the lowest bits of an address: a smaller root is a better one. */
enum node_kind {
	NODE_PLAIN,
	NODE_MODULE,
	NODE_CLASS,
	NODE_RUNNING, /* a frame of a running function */
	NODE_CODE,    /* a function or a frame: a path by names is better */
};
#define KIND_MASK 7ULL

struct ref_edge {
	uint32_t holder, next; /* the next one of the same target */
};

struct ref_graph {
	struct ref_finder *f;
	uint64_t *nodes; /* address and kind, ascending */
	size_t node_cnt, node_cap;
	uint32_t *firsts; /* of each node: the first edge to its holders */
	struct ref_edge *edges;
	size_t edge_cnt, edge_cap;
	bool full;
	/* the last look-ups */
	uint64_t target_addr, holder_addr;
	uint32_t target, holder;
	/* of one search: from which node it came to each, and the nodes in that order */
	uint32_t *from, *queue;
	size_t queue_cnt;
	/* of one path */
	uint32_t *path;
	uint16_t *labels; /* of each holder on it */
	size_t len;
	struct ref_group list[LABELS_MAX];
	size_t list_cnt;
	struct ref_group asked; /* how one holder holds one target */
};

/* ---- the graph ------------------------------------------------------------------------------- */

static uint64_t addr_of(const struct ref_graph *g, uint32_t node)
{
	return g->nodes[node] & ~KIND_MASK;
}

static enum node_kind kind_of(const struct ref_graph *g, uint32_t node)
{
	return g->nodes[node] & KIND_MASK;
}

static bool is_root(enum node_kind kind)
{
	return kind == NODE_MODULE || kind == NODE_CLASS || kind == NODE_RUNNING;
}

static uint32_t find_node(const struct ref_graph *g, uint64_t addr)
{
	size_t low = 0, high = g->node_cnt;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if ((g->nodes[middle] & ~KIND_MASK) < addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low < g->node_cnt && addr_of(g, (uint32_t)low) == addr ? (uint32_t)low : NONE;
}

static void add_node(struct ref_graph *g, uint64_t addr, enum node_kind kind)
{
	if (addr & KIND_MASK)
		return;
	if (ARRAY_GROW(g->nodes, g->node_cap, g->node_cnt, REF_NODES_MAX))
		g->full = true;
	else
		g->nodes[g->node_cnt++] = addr | kind;
}

static void list_object(void *ctx, const struct heap_seen *o)
{
	struct ref_finder *f = ctx;
	enum node_kind kind = NODE_PLAIN;

	if (!ref_own_size(f, o->type, o->addr))
		return;
	if (o->type->is_meta)
		kind = NODE_CLASS;
	else if (heap_type__is(o->type, "module"))
		kind = NODE_MODULE;
	else if (idmap__get(&f->running, o->addr))
		kind = NODE_RUNNING;
	else if (heap_type__is(o->type, "frame") || heap_type__is(o->type, "function"))
		kind = NODE_CODE;
	add_node(f->paths, o->addr, kind);
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int list_nodes(struct ref_graph *g)
{
	struct ref_finder *f = g->f;
	size_t cnt = 0;
	int err;

	f->hit = NULL;
	err = ref_read_heap(f, list_object);
	for (size_t i = 0; ref_version(f) >= 0x030b && i < f->running.cap; i++)
		if (f->running.slots[i].value)
			add_node(g, f->running.slots[i].key, NODE_RUNNING);
	if (err || !g->node_cnt)
		return err;
	qsort(g->nodes, g->node_cnt, sizeof(*g->nodes), by_number);
	for (size_t i = 0; i < g->node_cnt; i++)
		if (!cnt || (g->nodes[i] ^ g->nodes[cnt - 1]) & ~KIND_MASK)
			g->nodes[cnt++] = g->nodes[i];
	g->node_cnt = cnt;
	f->low = addr_of(g, 0);
	f->high = addr_of(g, (uint32_t)cnt - 1);
	g->firsts = malloc(cnt * sizeof(*g->firsts));
	g->from = malloc(cnt * sizeof(*g->from));
	g->queue = malloc(cnt * sizeof(*g->queue));
	if (!g->firsts || !g->from || !g->queue)
		return -ENOMEM;
	memset(g->firsts, 0xff, cnt * sizeof(*g->firsts));
	return 0;
}

static bool is_node(struct ref_finder *f, uint64_t addr)
{
	struct ref_graph *g = f->paths;

	if (g->target_addr != addr) {
		g->target = find_node(g, addr);
		g->target_addr = addr;
	}
	return g->target != NONE;
}

static void add_edge(struct ref_finder *f, const struct ref_group *hit)
{
	struct ref_graph *g = f->paths;

	if (g->holder_addr != hit->holder) {
		g->holder = find_node(g, hit->holder);
		g->holder_addr = hit->holder;
	}
	if (g->holder == NONE || !is_node(f, hit->target) || g->holder == g->target)
		return;
	if (ARRAY_GROW(g->edges, g->edge_cap, g->edge_cnt, REF_EDGES_MAX)) {
		g->full = true;
		return;
	}
	g->edges[g->edge_cnt] = (struct ref_edge){ g->holder, g->firsts[g->target] };
	g->firsts[g->target] = (uint32_t)g->edge_cnt++;
}

static void note_edges(void *ctx, const struct heap_seen *o)
{
	ref_look_at_object(ctx, o);
}

static int read_graph(struct ref_graph *g)
{
	struct ref_finder *f = g->f;
	int err = list_nodes(g);

	if (err || !g->node_cnt)
		return err;
	f->is_target = is_node;
	f->hit = add_edge;
	return ref_read_heap(f, note_edges);
}

/* ---- search ---------------------------------------------------------------------------------- */

static bool is_avoided(enum node_kind kind)
{
	return kind == NODE_RUNNING || kind == NODE_CODE;
}

/* Goes on from the nodes [at, end) of the queue. The best root among their holders, or NONE. */
static uint32_t climb_level(struct ref_graph *g, size_t at, size_t end, bool by_names)
{
	uint32_t best = NONE;

	for (; at < end; at++) {
		for (uint32_t e = g->firsts[g->queue[at]]; e != NONE; e = g->edges[e].next) {
			uint32_t holder = g->edges[e].holder;
			enum node_kind kind = kind_of(g, holder);

			if (g->from[holder] != NONE || (by_names && is_avoided(kind)))
				continue;
			g->from[holder] = g->queue[at];
			if (!is_root(kind))
				g->queue[g->queue_cnt++] = holder;
			else if (best == NONE || kind < kind_of(g, best))
				best = holder;
		}
	}
	return best;
}

/* The nearest root above a node, or NONE. A root has no holder that matters. */
static uint32_t climb(struct ref_graph *g, uint32_t start, bool by_names)
{
	uint32_t root = is_root(kind_of(g, start)) ? start : NONE;
	size_t at = 0;

	memset(g->from, 0xff, g->node_cnt * sizeof(*g->from));
	g->from[start] = start;
	g->queue[0] = start;
	g->queue_cnt = 1;
	while (root == NONE && at < g->queue_cnt) {
		size_t end = g->queue_cnt;

		root = climb_level(g, at, end, by_names);
		at = end;
	}
	return root;
}

/* Without a root: the nearest node that nobody holds, or else the last one. */
static uint32_t find_end(const struct ref_graph *g, enum ref_end *end)
{
	bool whole = !g->full && !g->f->out->late;

	for (size_t i = 0; i < g->queue_cnt; i++) {
		if (g->firsts[g->queue[i]] == NONE) {
			*end = whole ? REF_END_NONE : REF_END_OPEN;
			return g->queue[i];
		}
	}
	*end = whole ? REF_END_RING : REF_END_OPEN;
	return g->queue[g->queue_cnt - 1];
}

/* The nodes from `start` to `last`. 0 or -ENOMEM. */
static int list_path(struct ref_graph *g, uint32_t start, uint32_t last)
{
	size_t at;

	g->len = 1;
	for (uint32_t node = last; node != start; node = g->from[node])
		g->len++;
	free(g->path);
	free(g->labels);
	g->path = malloc(g->len * sizeof(*g->path));
	g->labels = malloc(g->len * sizeof(*g->labels));
	if (!g->path || !g->labels)
		return -ENOMEM;
	at = g->len;
	for (uint32_t node = last; at; node = g->from[node])
		g->path[--at] = node;
	return 0;
}

/* ---- labels ---------------------------------------------------------------------------------- */

static bool is_asked(struct ref_finder *f, uint64_t addr)
{
	return addr == f->low;
}

static void take_answer(struct ref_finder *f, const struct ref_group *hit)
{
	struct ref_graph *g = f->paths;

	if (!g->asked.type)
		g->asked = *hit;
}

/* Keys that are not str have no name, so all are alike. */
static void forget_key(struct ref_finder *f, struct ref_group *a)
{
	uint64_t type, str = f->scan->types.shape.str_type;

	if (a->kind != REF_VALUE || !str ||
	    (!ref_read(f, &type, 8, a->key + f->scan->types.shape.ob_type) && type == str))
		return;
	a->kind = REF_VALUES;
	a->key = 0;
}

/* Asks a holder how it holds the target. False: it does no more. */
static bool ask(struct ref_graph *g, uint32_t holder, uint32_t target)
{
	struct ref_finder *f = g->f;
	struct heap_seen o = { .addr = addr_of(g, holder) };
	uint64_t type;

	g->asked.type = NULL;
	f->low = f->high = addr_of(g, target);
	if (kind_of(g, holder) == NODE_RUNNING && ref_version(f) >= 0x030b) {
		ref_look_at_frame(f, &ref_frame_type, o.addr, o.addr);
	} else {
		if (ref_read(f, &type, 8, o.addr + f->scan->types.shape.ob_type))
			return false;
		o.type = heap_types__get(&f->scan->types, type);
		if (!o.type)
			return false;
		o.size = ref_own_size(f, o.type, o.addr);
		ref_look_at_object(f, &o);
	}
	if (g->asked.type)
		forget_key(f, &g->asked);
	return g->asked.type;
}

/* The number of a kind of holder, or LABELS_MAX: there are too many. */
static uint16_t label_of(struct ref_graph *g, const struct ref_group *a, uint16_t last)
{
	if (last < g->list_cnt && ref_group__is_same(&g->list[last], a))
		return last;
	for (size_t i = 0; i < g->list_cnt; i++)
		if (ref_group__is_same(&g->list[i], a))
			return (uint16_t)i;
	if (g->list_cnt == LABELS_MAX)
		return LABELS_MAX;
	g->list[g->list_cnt] = *a;
	return (uint16_t)g->list_cnt++;
}

/* Of all holders on the path, or of those up to one that is no holder any more. */
static bool label_path(struct ref_graph *g, const struct ref_group *first)
{
	struct ref_finder *f = g->f;

	f->is_target = is_asked;
	f->hit = take_answer;
	g->list[0] = *first;
	g->list[0].name = NULL;
	g->list_cnt = 1;
	g->labels[0] = 0;
	for (size_t i = 1; i < g->len; i++) {
		bool late = i % LATE_CHECKS == 0 && ref_is_late(f);

		if (late || !ask(g, g->path[i], g->path[i - 1])) {
			g->len = i;
			return false;
		}
		g->labels[i] = label_of(g, &g->asked, g->labels[i - 1]);
		if (g->labels[i] == LABELS_MAX) {
			g->len = i;
			return false;
		}
	}
	return true;
}

/* ---- steps ----------------------------------------------------------------------------------- */

struct part {
	size_t at; /* on the path */
	uint32_t together, times;
};

static uint32_t count_times(const struct ref_graph *g, size_t at, uint32_t together)
{
	size_t end = at + together;

	while (end < g->len && g->labels[end] == g->labels[end - together])
		end++;
	return (uint32_t)((end - at) / together);
}

/* What repeats from here on: few steps that repeat together, and as much as possible. */
static struct part next_part(const struct ref_graph *g, size_t at)
{
	struct part best = { .at = at, .together = 1, .times = count_times(g, at, 1) };

	for (uint32_t n = 2; n <= TOGETHER && at + n <= g->len; n++) {
		uint32_t times = count_times(g, at, n);

		if (times > 2 && (size_t)n * times > (size_t)best.together * best.times)
			best = (struct part){ .at = at, .together = n, .times = times };
	}
	return best;
}

static void add_part(struct ref_graph *g, struct ref_path *p, const struct part *part)
{
	for (uint32_t i = 0; i < part->together; i++) {
		struct ref_step *step = &p->steps[p->step_cnt++];
		size_t at = part->at + i;

		step->what = g->list[g->labels[at]];
		step->what.holder = addr_of(g, g->path[at]);
		if (at)
			step->what.target = addr_of(g, g->path[at - 1]);
		step->what.cnt = at ? 1 : step->what.cnt;
		step->times = part->times;
		step->together = part->together;
	}
}

/* Of a long path, its beginning and its end. */
static void fold_path(struct ref_graph *g, struct ref_path *p)
{
	struct part ends[PARTS];
	size_t cnt = 0, at = 0, begin_end = 0, first;

	for (; at < g->len; cnt++) {
		struct part part = next_part(g, at);

		at += (size_t)part.together * part.times;
		if (cnt >= PARTS) {
			ends[cnt % PARTS] = part;
			continue;
		}
		add_part(g, p, &part);
		begin_end = at;
	}
	first = cnt > 2 * PARTS ? cnt - PARTS : PARTS;
	if (first > PARTS)
		p->steps[p->step_cnt - 1].left_out = ends[first % PARTS].at - begin_end;
	for (size_t i = first; i < cnt; i++)
		add_part(g, p, &ends[i % PARTS]);
	p->holders = g->len;
}

/* ---- all ------------------------------------------------------------------------------------- */

static int find_path(struct ref_graph *g, const struct ref_group *first, struct ref_path *p)
{
	uint32_t start = find_node(g, first->holder), last;

	p->end = REF_END_ROOT;
	if (start == NONE) { /* it is gone */
		p->steps[0] = (struct ref_step){ .what = *first, .times = 1, .together = 1 };
		p->steps[0].what.name = NULL;
		p->step_cnt = p->holders = 1;
		p->end = REF_END_OPEN;
		return 0;
	}
	last = climb(g, start, true);
	if (last == NONE)
		last = climb(g, start, false);
	if (last == NONE)
		last = find_end(g, &p->end);
	if (list_path(g, start, last))
		return -ENOMEM;
	if (!label_path(g, first))
		p->end = REF_END_OPEN;
	fold_path(g, p);
	return 0;
}

int ref_paths__find(struct ref_finder *f)
{
	struct referrers *r = f->out;
	struct ref_graph *g = r->group_cnt ? calloc(1, sizeof(*g)) : NULL;
	int err;

	if (!g)
		return r->group_cnt ? -ENOMEM : 0;
	g->f = f;
	f->paths = g;
	err = read_graph(g);
	for (size_t i = 0; i < r->group_cnt && r->path_cnt < REF_PATHS && !err; i++) {
		struct ref_path *p = &r->paths[r->path_cnt++];

		err = find_path(g, &r->groups[i], p);
		for (size_t k = 0; k < p->step_cnt; k++)
			ref_name_step(f, &p->steps[k].what);
	}
	free(g->nodes);
	free(g->firsts);
	free(g->edges);
	free(g->from);
	free(g->queue);
	free(g->path);
	free(g->labels);
	free(g);
	return err;
}
