/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "profile/view.h"

/*
 * Stacks that begin with the same functions are neighbours in the view. A branch of the tree is a
 * range of them, and what it is at `depth`; its own stacks come first.
 */
struct branch {
	size_t first, cnt;
	uint32_t depth; /* of its function in the stacks */
	uint32_t function;
	uint64_t total, own;
};

/* Callees of one branch, heaviest first; to be freed. */
struct callees {
	struct branch *branches;
	size_t cnt, cap;
	bool left_out; /* some are below the cut */
};

struct planter {
	const struct view *v;
	struct view_tree *t;
	uint64_t least;	   /* samples of a branch that is shown */
	bool fold_own;	   /* chains of own code, too: else there would be too many rows */
	uint64_t *weights; /* by place, all 0 between uses */
};

/* ---- Branches ---- */

static int branch_cmp(const void *a, const void *b)
{
	const struct branch *na = a, *nb = b;

	if (na->total != nb->total)
		return na->total > nb->total ? -1 : 1;
	return na->function < nb->function ? -1 : na->function > nb->function;
}

static uint32_t function_of(const struct view *v, const struct flat_stack *s, uint32_t depth)
{
	return v->places[v->stacks.elems[s->first + depth]].function;
}

/*
 * The branch that begins at stack `i` of those before `end`, all of which are longer than `depth`.
 */
static struct branch next_branch(const struct view *v, size_t i, size_t end, uint32_t depth)
{
	struct branch n = { .first = i, .depth = depth };

	n.function = function_of(v, &v->stacks.stacks[i], depth);
	for (; i < end && function_of(v, &v->stacks.stacks[i], depth) == n.function; i++) {
		n.total += v->stacks.stacks[i].count;
		n.own += v->stacks.stacks[i].cnt == depth + 1 ? v->stacks.stacks[i].count : 0;
	}
	n.cnt = i - n.first;
	return n;
}

/* Finds the functions that the stacks of a range call at `depth`, on branches that are shown. */
static int find_callees(const struct planter *pl, size_t first, size_t cnt, uint32_t depth,
			struct callees *c)
{
	const struct view *v = pl->v;
	size_t end = first + cnt, i = first;

	*c = (struct callees){ 0 };
	while (i < end && v->stacks.stacks[i].cnt <= depth)
		i++;
	while (i < end) {
		struct branch n = next_branch(v, i, end, depth);

		i += n.cnt;
		if (n.total < pl->least) {
			c->left_out = true;
			continue;
		}
		if (ARRAY_GROW(c->branches, c->cap, c->cnt, INT_MAX)) {
			free(c->branches);
			*c = (struct callees){ 0 };
			return -ENOMEM;
		}
		c->branches[c->cnt++] = n;
	}
	if (c->cnt)
		qsort(c->branches, c->cnt, sizeof(*c->branches), branch_cmp);
	return 0;
}

/* The line by which most samples of a branch pass. */
static uint32_t hottest_line(const struct planter *pl, const struct branch *n)
{
	const struct view *v = pl->v;
	uint32_t best = UINT32_MAX;
	uint64_t count = 0;

	for (size_t i = n->first; i < n->first + n->cnt; i++) {
		const struct flat_stack *s = &v->stacks.stacks[i];

		pl->weights[v->stacks.elems[s->first + n->depth]] += s->count;
	}
	for (size_t i = n->first; i < n->first + n->cnt; i++) {
		uint32_t place = v->stacks.elems[v->stacks.stacks[i].first + n->depth];
		uint64_t weight = pl->weights[place];

		if (weight > count || (weight == count && place < best)) {
			count = weight;
			best = place;
		}
	}
	for (size_t i = n->first; i < n->first + n->cnt; i++)
		pl->weights[v->stacks.elems[v->stacks.stacks[i].first + n->depth]] = 0;
	return best == UINT32_MAX ? 0 : v->places[best].line;
}

/* ---- Rows ---- */

static int add_row(struct view_tree *t, const struct view_row *row)
{
	if (ARRAY_GROW(t->rows, t->cap, t->cnt, INT_MAX))
		return -ENOMEM;
	t->rows[t->cnt++] = *row;
	return 0;
}

static int add_branch(const struct planter *pl, const struct branch *n, uint32_t depth)
{
	const struct view_row row = { .function = n->function,
				      .line = hottest_line(pl, n),
				      .depth = depth,
				      .total = n->total,
				      .own = n->own };

	return add_row(pl->t, &row);
}

static bool same_package(const struct view *v, uint32_t a, uint32_t b)
{
	size_t la, lb;
	const char *pa = view_package(v, a, &la), *pb = view_package(v, b, &lb);

	return la == lb && !memcmp(pa, pb, la);
}

/* Adds a function to a chain, and its package if that is new and there is room. */
static void add_to_chain(const struct view *v, struct view_row *row, const struct branch *n)
{
	if (!row->frames++) {
		row->function = n->function;
		row->total = n->total;
	}
	for (uint32_t i = 0; i < row->package_cnt; i++)
		if (same_package(v, row->packages[i], n->function))
			return;
	if (row->package_cnt < VIEW_PACKAGES)
		row->packages[row->package_cnt++] = n->function;
}

/* ---- Walking down ---- */

static int plant(const struct planter *pl, const struct callees *c, uint32_t depth, bool after_own);

/*
 * A function of others that only leads to one other that is shown. Own code shows which function of
 * others it calls: that is no link.
 */
static bool is_link(const struct planter *pl, const struct branch *n, const struct callees *c,
		    bool after_own)
{
	if (c->cnt != 1 || n->own >= pl->least)
		return false;
	return pl->fold_own || (pl->v->functions[n->function].muted && !after_own);
}

static int find_below(const struct planter *pl, const struct branch *n, struct callees *c)
{
	int err = find_callees(pl, n->first, n->cnt, n->depth + 1, c);

	pl->t->left_out |= !err && c->left_out;
	return err;
}

/* A branch: its chain of links as one row, then where the chain ends. */
static int plant_branch(const struct planter *pl, struct branch n, uint32_t depth, bool after_own)
{
	struct view_row chain = { .depth = depth };
	struct branch link = n;
	struct callees c;
	int err = find_below(pl, &n, &c);

	while (!err && is_link(pl, &n, &c, after_own)) {
		add_to_chain(pl->v, &chain, &n);
		link = n;
		n = c.branches[0];
		free(c.branches);
		err = find_below(pl, &n, &c);
	}
	if (!err && chain.frames == 1) /* takes as much room as what it stands for */
		err = add_branch(pl, &link, depth++);
	else if (!err && chain.frames) {
		err = add_row(pl->t, &chain);
		depth++;
	}
	if (!err)
		err = add_branch(pl, &n, depth);
	if (!err)
		err = plant(pl, &c, depth + 1, !pl->v->functions[n.function].muted);
	free(c.branches);
	return err;
}

/*
 * Stacks may be of any depth, so this ends as soon as there are too many rows for this cut: each
 * level adds one at least. The last cut never has too many: view_tree__init().
 */
static int plant(const struct planter *pl, const struct callees *c, uint32_t depth, bool after_own)
{
	int err = 0;

	for (size_t i = 0; i < c->cnt && !err && pl->t->cnt <= VIEW_ROWS_MAX; i++)
		err = plant_branch(pl, c->branches[i], depth, after_own);
	return err;
}

static int plant_all(const struct planter *pl)
{
	struct callees c;
	int err = find_callees(pl, 0, pl->v->stacks.cnt, 0, &c);

	if (err)
		return err;
	pl->t->left_out |= c.left_out;
	err = plant(pl, &c, 0, false);
	free(c.branches);
	return err;
}

/*
 * The last try always fits. A fifth of the samples or more are in each innermost row and in each
 * row with time of its own, so there are at most five of these; four more rows may part, and each
 * of the nine may have the row of a chain before it.
 */
int view_tree__init(struct view_tree *t, const struct view *v)
{
	static const struct {
		unsigned cut; /* percent */
		bool fold_own;
	} tries[] = { { 2, false }, { 3, false }, { 5, false }, { 8, false },
		      { 5, true },  { 10, true }, { 20, true } };
	struct planter pl = { .v = v, .t = t };
	int err = 0;

	*t = (struct view_tree){ 0 };
	pl.weights = calloc(v->places_of.cnt + 1, sizeof(*pl.weights));
	if (!pl.weights)
		return -ENOMEM;
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]) && !err; i++) {
		t->cut = tries[i].cut;
		pl.fold_own = tries[i].fold_own;
		t->cnt = 0;
		t->left_out = false;
		/* rounded up: shown branches have at least that share */
		pl.least = v->total / 100 * t->cut + (v->total % 100 * t->cut + 99) / 100;
		err = plant_all(&pl);
		if (t->cnt <= VIEW_ROWS_MAX)
			break;
	}
	free(pl.weights);
	if (err)
		view_tree__free(t);
	return err;
}

void view_tree__free(struct view_tree *t)
{
	free(t->rows);
	*t = (struct view_tree){ 0 };
}
