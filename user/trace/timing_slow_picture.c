/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * `trace --slow -o FILE`: what an average slow call of each function took, by stack, function
 * called and reason of a wait, and what an average other one did.
 */
#include <errno.h>
#include <string.h>

#include "trace/timing_parts.h"

/* With the function that was called, and a wait. */
#define DEPTH  (PAIRS_FRAMES + 2)
#define OTHERS (TRACER_UNKNOWN - 1) /* the number of all functions that found no room */

static const enum comparison_side sides[PICTURES] = {
	[PICTURE_CALLS] = SIDE_SLOW, [PICTURE_OTHERS] = SIDE_OTHERS
};

static uint64_t named_frame(struct call_picture *picture, uint32_t number, const char *name)
{
	struct py_function f = { .number = number, .name = name, .name_len = strlen(name) };

	return call_picture__python(picture, &f);
}

static uint64_t frame_of(struct timing *t, struct call_picture *picture, uint64_t code)
{
	struct py_function f;

	if (tracer__find(t->tracer, code, &f))
		return call_picture__python(picture, &f);
	return named_frame(picture, TRACER_UNKNOWN, "<unknown>");
}

/* 0 or -ENOMEM. */
static int draw_part(struct timing *t, struct call_picture *picture, const struct timed *f,
		     const struct comparison *c, const struct compared_part *part,
		     enum comparison_side side, uint64_t calls)
{
	const struct compared_stack *stack = &c->stacks[part->stack];
	uint64_t words[DEPTH], ns = part->ns[side] / c->spent[side].cnt;
	const char *wait = timing_slow__reason(part->on);
	size_t cnt = 0;

	for (uint32_t i = stack->stack.cnt; i-- > 1;)
		words[cnt++] = frame_of(t, picture, stack->stack.codes[i]);
	words[cnt++] = call_picture__python(picture, &f->function);
	if (part->who == CALLEE_OTHERS)
		words[cnt++] = named_frame(picture, OTHERS, "<other functions>");
	else if (part->who != CALLEE_ITSELF)
		words[cnt++] = call_picture__python(picture, &t->all[part->who].function);
	if (wait)
		words[cnt++] = call_picture__wait(picture, wait);
	for (size_t i = 0; i < cnt; i++)
		if (!words[i])
			return -ENOMEM;
	return call_picture__add(picture, words, cnt, calls, ns);
}

static int draw_side(struct timing *t, struct call_picture *picture, const struct timed *f,
		     const struct comparison *c, enum comparison_side side)
{
	uint64_t calls = c->spent[side].cnt;
	int err = 0;

	for (size_t i = 0; i < c->part_cnt && !err; i++) {
		if (c->parts[i].ns[side] < c->spent[side].cnt) /* less than 1 ns each */
			continue;
		err = draw_part(t, picture, f, c, &c->parts[i], side, calls);
		calls = 0; /* of all parts together */
	}
	return err;
}

static int draw_function(struct timing *t, const struct timed *f,
			 struct call_picture *const pictures[PICTURES])
{
	struct slow_view v;
	int err = timing_slow__compare(t, f, &v);

	for (int k = 0; k < PICTURES && v.c->spent[SIDE_SLOW].cnt && !err; k++)
		if (v.c->spent[sides[k]].cnt)
			err = draw_side(t, pictures[k], f, v.c, sides[k]);
	timing_slow__end(&v);
	return err == -EAGAIN ? 0 : err;
}

int timing_slow__draw(struct timing *t, struct call_picture *const pictures[PICTURES])
{
	int err = 0, proc;

	for (int k = 0; k < PICTURES && t->blocks && !err; k++) {
		proc = call_picture__add_process(pictures[k], 0, "all processes", t->version);
		err = proc < 0 ? proc : 0;
		call_picture__set_process(pictures[k], (uint32_t)proc);
	}
	for (size_t i = 0; i < t->cnt && !err; i++)
		if (t->all[i].wanted && t->all[i].first == i)
			err = draw_function(t, &t->all[i], pictures);
	return err;
}
