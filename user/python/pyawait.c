/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "python/pyawait.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "python/pydict.h"
#include "python/pytasks.h"

#define BASES_MAX     16   /* of a type */
#define DEPTH_MAX     8	   /* futures between two tasks */
#define CALLBACKS_MAX 256  /* of a future */
#define ITEMS_MAX     64   /* of a tuple */
#define SET_MAX	      4096 /* entries of a set of awaiters */
#define NODES_MAX     1024 /* limit of futures read for one task */
#define CALLBACK0     24   /* FutureObj, 3.7 to 3.13 */
#define CALLBACKS     40
#define ITEMS_AT      24 /* ob_item of a list; a tuple's items, up to 3.13 */

void pyawait__layout(struct pyawait_layout *out, uint32_t version,
		     const struct pytasks_debug *debug)
{
	/* task_fut_waiter, task_coro, task_name, task_state: 3.7 ... 3.13 */
	static const struct pyawait_layout layouts[] = {
		{ NULL, 104, 112, 0, 72, 0 },	{ NULL, 104, 112, 120, 72, 0 },
		{ NULL, 144, 152, 160, 80, 0 }, { NULL, 152, 160, 168, 88, 0 },
		{ NULL, 128, 136, 144, 88, 0 }, { NULL, 128, 136, 144, 88, 0 },
		{ NULL, 112, 120, 128, 96, 0 },
	};

	*out = (struct pyawait_layout){ 0 };
	if (version >= 0x0307 && version <= 0x030d)
		*out = layouts[version - 0x0307];
	if (version >= 0x030e) {
		out->debug = debug;
		out->task_coro = (uint16_t)debug->task_coro;
		out->task_fut_waiter = (uint16_t)(debug->task_coro - 8);
		out->task_name = (uint16_t)debug->task_name;
	}
	out->size = out->task_coro > out->task_name ? out->task_coro : out->task_name;
	out->size = (uint16_t)(out->size + 8);
}

/* ---- types ----------------------------------------------------------------------------------- */

static bool derives_from(struct pymem *m, uint64_t obj, const char *name)
{
	uint64_t type = pyobject__type(m, obj);

	for (unsigned i = 0; type && i < BASES_MAX; i++) {
		if (pytype__is(m, type, name))
			return true;
		type = pytype__base(m, type);
	}
	return false;
}

bool pyawait__is_future(struct pymem *m, uint64_t obj)
{
	return derives_from(m, obj, "_asyncio.Future") || pyawait__is_task(m, obj);
}

bool pyawait__is_task(struct pymem *m, uint64_t obj)
{
	return derives_from(m, obj, "_asyncio.Task");
}

/* ---- awaiters -------------------------------------------------------------------------------- */

struct search {
	struct pymem *m;
	const struct pyawait_layout *lay;
	uint64_t task; /* it cannot await itself */
	uint64_t *found;
	uint32_t cnt, max, nodes;
	bool cut;
};

static void look_at_future(struct search *s, uint64_t future, unsigned depth);

static void add_awaiter(struct search *s, uint64_t task)
{
	for (uint32_t i = 0; i < s->cnt; i++)
		if (s->found[i] == task)
			return;
	if (task == s->task)
		return;
	if (s->cnt == s->max)
		s->cut = true;
	else
		s->found[s->cnt++] = task;
}

/* A task awaits; a future passes on. */
static void look_at_node(struct search *s, uint64_t obj, unsigned depth)
{
	if (pyawait__is_task(s->m, obj))
		add_awaiter(s, obj);
	else if (pyawait__is_future(s->m, obj))
		look_at_future(s, obj, depth + 1);
}

/* A future that is not a task. A task in a closure is there for other reasons. */
static void look_at_value(struct search *s, uint64_t obj, unsigned depth)
{
	if (!pyawait__is_task(s->m, obj))
		look_at_node(s, obj, depth);
}

/* ---- up to 3.13: callbacks ------------------------------------------------------------------- */

/* Searches a tuple of values, or of cells that contain them. */
static void look_at_tuple(struct search *s, uint64_t tuple, bool cells, unsigned depth)
{
	uint64_t items[ITEMS_MAX], cnt;

	if (!pyobject__is(s->m, tuple, "tuple") || pymem__read(s->m, &cnt, 8, tuple + 16))
		return;
	cnt = cnt < ITEMS_MAX ? cnt : ITEMS_MAX;
	if (!cnt || pymem__read(s->m, items, cnt * 8, tuple + ITEMS_AT))
		return;
	for (uint64_t i = 0; i < cnt; i++) {
		if (cells && items[i])
			items[i] = pymem__pointer(s->m, items[i] + 16); /* ob_ref */
		look_at_value(s, items[i], depth);
	}
}

/* task_wakeup(), bound to a task; its name is in its PyMethodDef. Or a method of a future. */
static void look_at_builtin(struct search *s, uint64_t callback, unsigned depth)
{
	uint64_t self = pymem__pointer(s->m, callback + 24), def, at;
	char name[12] = "";

	if (!pyawait__is_task(s->m, self)) {
		look_at_value(s, self, depth);
		return;
	}
	def = pymem__pointer(s->m, callback + 16);
	if (def && !pymem__read(s->m, &at, 8, def) && !pymem__read(s->m, name, 12, at) &&
	    !memcmp(name, "task_wakeup", 12))
		add_awaiter(s, self);
}

/* TaskGroup._on_task_done: the task that made the group awaits its tasks. */
static void look_at_method(struct search *s, uint64_t callback, unsigned depth)
{
	uint64_t self = pymem__pointer(s->m, callback + 24), parent;

	if (derives_from(s->m, self, "TaskGroup")) {
		parent = pyattrs__get(s->m, self, "_parent_task");
		if (pyawait__is_task(s->m, parent))
			add_awaiter(s, parent);
	} else {
		look_at_value(s, self, depth);
	}
}

static void look_at_callback(struct search *s, uint64_t callback, unsigned depth)
{
	uint64_t type = pyobject__type(s->m, callback);
	uint64_t closure = s->m->version < 0x030a ? 48 : 72;

	if (pytype__is(s->m, type, "builtin_function_or_method")) {
		look_at_builtin(s, callback, depth);
	} else if (pytype__is(s->m, type, "TaskWakeupMethWrapper")) {
		uint64_t task = pymem__pointer(s->m, callback + 16);

		if (pyawait__is_task(s->m, task))
			add_awaiter(s, task);
	} else if (pytype__is(s->m, type, "method")) {
		look_at_method(s, callback, depth);
	} else if (pytype__is(s->m, type, "function")) {
		look_at_tuple(s, pymem__pointer(s->m, callback + closure), true, depth);
	} else if (pytype__is(s->m, type, "functools.partial")) {
		look_at_tuple(s, pymem__pointer(s->m, callback + 24), false, depth);
	}
}

/* fut_callbacks is a list of tuples: the callback, and its context. */
static void look_at_callbacks(struct search *s, uint64_t future, unsigned depth)
{
	uint64_t list = pymem__pointer(s->m, future + CALLBACKS), cnt, items, pair;

	look_at_callback(s, pymem__pointer(s->m, future + CALLBACK0), depth);
	if (!pyobject__is(s->m, list, "list") || pymem__read(s->m, &cnt, 8, list + 16) ||
	    pymem__read(s->m, &items, 8, list + ITEMS_AT))
		return;
	s->cut |= cnt > CALLBACKS_MAX;
	for (uint64_t i = 0; i < cnt && i < CALLBACKS_MAX; i++) {
		pair = pymem__pointer(s->m, items + 8 * i);
		if (pair)
			look_at_callback(s, pymem__pointer(s->m, pair + ITEMS_AT), depth);
	}
}

/* ---- from 3.14 on ---------------------------------------------------------------------------- */

static void look_at_set(struct search *s, uint64_t set, unsigned depth)
{
	struct pyset table;
	uint64_t entry;

	if (pyset__open(s->m, set, &table))
		return;
	s->cut |= table.cnt > SET_MAX;
	for (uint64_t i = 0; i < table.cnt && i < SET_MAX; i++)
		if (!pymem__read(s->m, &entry, 8, table.table + 16 * i) && entry)
			look_at_node(s, entry, depth);
}

static void look_at_awaited_by(struct search *s, uint64_t future, unsigned depth)
{
	const struct pytasks_debug *d = s->lay->debug;
	uint64_t by = pymem__pointer(s->m, future + d->task_awaited_by);
	uint8_t is_set;

	if (!by || pymem__read(s->m, &is_set, 1, future + d->task_awaited_by_is_set))
		return;
	if (is_set)
		look_at_set(s, by, depth);
	else
		look_at_node(s, by, depth);
}

static void look_at_future(struct search *s, uint64_t future, unsigned depth)
{
	if (depth > DEPTH_MAX || s->nodes++ > NODES_MAX)
		s->cut = true;
	else if (s->lay->debug)
		look_at_awaited_by(s, future, depth);
	else
		look_at_callbacks(s, future, depth);
}

int pyawait__awaiters(struct pymem *m, const struct pyawait_layout *lay, uint64_t task,
		      uint64_t *awaiters, uint32_t *cnt)
{
	struct search s = { .m = m, .lay = lay, .task = task, .found = awaiters, .max = *cnt };

	look_at_future(&s, task, 0);
	*cnt = s.cnt;
	return s.cut ? -E2BIG : 0;
}
