/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The walkers and the merge on any memory. An input is two numbers and a list of edits of a process
 * made by hand: chain and shape first, then {what, where, value}: memory of the heap or the stack,
 * the unwind table, the layout, the registers, a read that fails.
 *
 *	byte 0    chain      byte 1    shape
 *	16 bytes  each edit: what (1), width (1), where (4), pad (2), value (8)
 */
#include <stdint.h>
#include "walk_world.h"

#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define EDIT_SIZE 16
#define MAX_EDITS 256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap);

static const struct act nested[] = { { FN_START },	  { FN_MAIN }, { FN_EVAL, 3 }, { FN_C },
				     { FN_EVAL_COLD, 2 }, { FN_CFP },  { FN_EVAL, 1 }, { FN_C } };
static const struct act in_python[] = { { FN_START }, { FN_EVAL, 4, ACT_RECURSE } };
#if PYPERF_ARCH == PYPERF_X86
static const struct act mixed[] = { { FN_START },  { FN_CFP }, { FN_EVAL, 2 }, { FN_DRAP },
				    { FN_SIGRET }, { FN_C },   { FN_EVAL, 1 }, { FN_PLT } };
#else
static const struct act mixed[] = { { FN_START },  { FN_CFP }, { FN_EVAL, 2 }, { FN_LEAF },
				    { FN_SIGRET }, { FN_C },   { FN_EVAL, 1 }, { FN_FIRST_INSN } };
#endif
static const struct act setup[] = {
	{ FN_START }, { FN_EVAL, 2 }, { FN_C }, { FN_EVAL, 1, ACT_GARBAGE }
};
static const struct act jumped[] = {
	{ FN_START }, { FN_EVAL, 2 }, { FN_LIB_FP }, { FN_EVAL, 2 }, { FN_ANON }
};

static const struct {
	const struct act *acts;
	__u32 cnt;
} shapes[] = {
	{ nested, sizeof(nested) / sizeof(nested[0]) },
	{ in_python, sizeof(in_python) / sizeof(in_python[0]) },
	{ mixed, sizeof(mixed) / sizeof(mixed[0]) },
	{ setup, sizeof(setup) / sizeof(setup[0]) },
	{ jumped, sizeof(jumped) / sizeof(jumped[0]) },
};
#define SHAPE_CNT (sizeof(shapes) / sizeof(shapes[0]))

#define require(cond)                                                                              \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s\n", #cond);                                            \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

enum edit {
	EDIT_STACK,
	EDIT_HEAP,
	EDIT_LINK, /* a word of the heap becomes an address of the heap */
	EDIT_TABLE,
	EDIT_LAYOUT,
	EDIT_REG,
	EDIT_FAIL,
	EDIT_HOLE,
	EDIT_LEARNED,
	EDIT_CNT,
};

static void edit_bytes(void *bytes, __u64 size, __u64 where, __u64 value, __u32 width)
{
	width = 1U << (width & 3);
	if (width <= size)
		memcpy((__u8 *)bytes + where % (size - width + 1), &value, width);
}

static void apply(struct world *w, const uint8_t *e)
{
	__u64 value, used = w->heap_used & ~7U;
	__u32 where;

	memcpy(&where, e + 2, 4);
	memcpy(&value, e + 8, 8);
	switch (e[0] % EDIT_CNT) {
	case EDIT_STACK: /* most of it is unused: its upper end is what counts */
		edit_bytes(w->stack + STACK_SIZE - 8192, 8192, where, value, e[1]);
		break;
	case EDIT_HEAP:
		edit_bytes(w->heap, used, where, value, e[1]);
		break;
	case EDIT_LINK:
		put64(w, HEAP_BASE + (where % used & ~7U), HEAP_BASE + value % used);
		break;
	case EDIT_TABLE:
		edit_bytes(w->words, w->word_cnt * 4, where, value, e[1]);
		break;
	case EDIT_LAYOUT:
		edit_bytes(&w->interp.layout, sizeof(w->interp.layout), where, value, e[1]);
		break;
	case EDIT_REG:
		*(where % 3 == 0 ? &w->pc : where % 3 == 1 ? &w->sp : &w->fp) += value;
		break;
	case EDIT_FAIL:
		w->fail_at = 1 + where % 512;
		break;
	case EDIT_HOLE:
		if (w->hole_cnt < MAX_HOLES)
			world__hole(w, HEAP_BASE + where % used, value % 64);
		break;
	case EDIT_LEARNED:
		w->interp.anchor_delta = (__s32)where;
		w->interp.anchor_fp_off = (__s32)value;
		w->interp.cframe_delta = (__s32)(value >> 32);
		break;
	}
}

/* Which ids were handed out. */
static void check_frames(struct world *w)
{
	__u32 python = 0;

	for (__u32 i = 0; i < w->out->cnt; i++) {
		__u64 word = out_word(w, i);

		switch (FRAME_TAG(word)) {
		case FRAME_PYTHON:
			require(PYTHON_CODE(word) >= 0x1000 && PYTHON_CODE(word) < w->next_id);
			python++;
			break;
		case FRAME_MARKER:
			require(MARKER_WHY(word) >= 1 && MARKER_WHY(word) <= MARK_GREENLET &&
				MARKER_WHY(word) != MARK_STACK_BUDGET); /* user space's */
			break;
		case FRAME_NATIVE:
			require(NATIVE_FILE(word) == TEXT_FILE || NATIVE_FILE(word) == LIB_FILE);
			break;
		default:
			require(FRAME_TAG(word) == FRAME_ANON);
		}
	}
	/* A switch of greenlets is without any: see is_base(). */
	require(python == w->walk->python.cnt ||
		(w->walk->flags & WALK_GREENLET && !w->walk->segs.next &&
		 !w->walk->native.eval_cnt && !python));
}

static void check_walk(struct world *w)
{
	const struct walk *k = w->walk;

	require(k->native.cnt <= WORLD_DEPTH && k->python.cnt <= WORLD_DEPTH);
	require(k->segs.cnt <= WORLD_DEPTH && w->out->cnt <= 2 * WORLD_DEPTH);
	require(!(k->flags & WALK_NATIVE_END) != !(k->flags & WALK_NATIVE_LOST));
	require(!(k->flags & WALK_PY_LOST) || out_word(w, w->out->cnt - 1) == k->python.marker);
	require(w->reads < 200000);
	check_frames(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world *w;
	__u32 shape;

	if (size < 2)
		return 0;
	shape = data[1] % SHAPE_CNT;
	w = world__build(data[0] % CHAIN_CNT, shapes[shape].acts, shapes[shape].cnt);
	w->interp.cframe_delta = CFR_BELOW;
	for (size_t i = 0; i < MAX_EDITS && 2 + (i + 1) * EDIT_SIZE <= size; i++)
		apply(w, data + 2 + i * EDIT_SIZE);
	world__sample(w);
	check_walk(w);
	world__free(w);
	return 0;
}

/* Every chain in two shapes, each followed by the same few edits for the mutations to change. */
size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap)
{
	size_t size = 2 + 6 * EDIT_SIZE;

	if (i >= CHAIN_CNT * 2 || cap < size)
		return 0;
	memset(buf, 0, size);
	buf[0] = (uint8_t)(i % CHAIN_CNT);
	buf[1] = (uint8_t)((2 * i + i / CHAIN_CNT) % SHAPE_CNT);
	for (size_t e = 0; e < 6; e++) {
		uint8_t *at = buf + 2 + e * EDIT_SIZE;

		at[0] = (uint8_t)e;
		at[1] = (uint8_t)e;
		for (int k = 2; k < EDIT_SIZE; k++)
			at[k] = (uint8_t)((i * 131 + e * 29 + (size_t)k * 7) * 2654435761U >> 13);
		if (e == EDIT_REG)
			memset(at + 8, 0, 8);
	}
	return size;
}
