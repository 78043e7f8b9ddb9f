/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The self-check on any memory: of this very process, in which a small interpreter of the version
 * that byte 0 chooses is made by hand, with three frames. The rest of an input is edits of eight
 * bytes:
 *
 *	byte 0  what: 0 a word, 1 a word becomes a pointer into the arena, 2 a byte, 3 the layout
 *	bytes 2, 3 where; bytes 4 .. 7 the value
 *
 * Whatever they make of it, the check ends, and says why not; without any, the stack holds.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "python/pylayout.h"
#include "python/selfcheck.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap);

#define ARENA	  16384
#define OBJECT	  512 /* room for one structure */
#define CODE_SIZE 20

static const uint16_t versions[] = { 0x0207, 0x0306, 0x0307, 0x0308, 0x030a, 0x030b, 0x030c };
#define VERSION_CNT (sizeof(versions) / sizeof(versions[0]))

static uint8_t arena[ARENA] __attribute__((aligned(4096)));
static size_t used;

static uint64_t alloc(void)
{
	used += OBJECT;
	if (used > ARENA)
		abort();
	return (uint64_t)(uintptr_t)arena + used - OBJECT;
}

static void put(uint64_t addr, uint16_t off, uint64_t value, size_t size)
{
	if (off != PY_OFF_NONE)
		memcpy(arena + (addr - (uint64_t)(uintptr_t)arena) + off, &value, size);
}

static uint64_t make_bytes(const struct py_layout *l, uint64_t type, const char *data, size_t size)
{
	uint64_t b = alloc();

	put(b, l->ob_type, type, 8);
	put(b, l->bytes_size, size, 8);
	for (size_t i = 0; i < size; i++)
		put(b, (uint16_t)(l->bytes_data + i), (uint8_t)data[i], 1);
	return b;
}

static uint64_t make_str(const struct py_layout *l, uint64_t type, const char *text)
{
	uint64_t s;

	if (l->str == PY_STR_BYTES)
		return make_bytes(l, type, text, strlen(text));
	s = alloc();
	put(s, l->ob_type, type, 8);
	put(s, l->str_length, strlen(text), 8);
	put(s, l->str_state, 1 << 2 | 1 << 5 | 1 << 6, 4); /* one byte each, compact, ASCII */
	for (size_t i = 0; text[i]; i++)
		put(s, (uint16_t)(l->str_ascii + i), (uint8_t)text[i], 1);
	return s;
}

static uint64_t make_code(const struct py_layout *l, const struct py_binary *bin)
{
	uint64_t code = alloc(), bytes = bin->bytes_type;
	uint16_t co_code = l->version < 0x0300 ? 32 : l->version < 0x0308 ? 40 : 48;
	uint64_t name = make_str(l, bin->str_type, "f");

	put(code, l->ob_type, bin->interp.code_type, 8);
	put(code, l->code_firstlineno, 7, 4);
	put(code, l->code_name, name, 8);
	put(code, l->code_qualname, name, 8);
	put(code, l->code_filename, make_str(l, bin->str_type, "x.py"), 8);
	if (l->linetable_kind == PY_LINES_311) {
		put(code, l->bytes_size, CODE_SIZE / 2, 8);
		put(code, l->code_linetable, make_bytes(l, bytes, "\x87\x01\x81\x01", 4), 8);
		return code;
	}
	put(code, co_code, make_bytes(l, bytes, "ten instructions it is", CODE_SIZE), 8);
	put(code, l->code_linetable,
	    make_bytes(l, bytes, l->linetable_kind == PY_LINES_310 ? "\x14\x01" : "\x06\x01", 2),
	    8);
	return code;
}

static uint64_t make_frame(const struct py_layout *l, uint64_t code, uint64_t back)
{
	uint64_t frame = alloc();

	put(frame, l->frame_back, back, 8);
	put(frame, l->frame_code, code, 8);
	put(frame, l->frame_executing, 1, 1);
	if (l->lasti == PY_LASTI_POINTER)
		put(frame, l->frame_lasti, code + l->code_bytecode + 6, 8);
	else
		put(frame, l->frame_lasti, l->lasti == PY_LASTI_UNITS ? 3 : 6, 4);
	if (l->chain == PY_CHAIN_CFRAME && !back)
		put(frame, (uint16_t)(l->frame_owner - 1), 1, 1); /* is_entry */
	return frame;
}

static void make_process(struct py_binary *bin)
{
	const struct py_layout *l = &bin->interp.layout;
	uint64_t interp, tstate, tp, code, frame = 0, cframe;

	memset(arena, 0, sizeof(arena));
	used = 0;
	bin->interp.interp_head = alloc();
	bin->interp.code_type = alloc();
	bin->bytes_type = alloc();
	bin->str_type = l->str == PY_STR_BYTES ? bin->bytes_type : alloc();
	interp = alloc();
	tstate = alloc();
	tp = alloc();
	cframe = alloc();
	put(bin->interp.interp_head, 0, interp, 8);
	put(interp, l->interp_threads_head, tstate, 8);
	put(tp, 0, tp, 8);
	put(tstate, l->tstate_thread_id, tp, 8);
	code = make_code(l, bin);
	if (l->chain == PY_CHAIN_CFRAME_SHIM) {
		frame = alloc();
		put(frame, l->frame_owner, 3, 1);
	}
	for (int i = 0; i < 3; i++)
		frame = make_frame(l, code, frame);
	put(cframe, l->cframe_frame, frame, 8);
	put(cframe, l->cframe_previous, tstate + l->root_cframe, 8);
	put(tstate, l->cframe_tstate, cframe, 8);
	put(tstate, l->tstate_frame,
	    l->chain == PY_CHAIN_CFRAME || l->chain == PY_CHAIN_CFRAME_SHIM ? cframe : frame, 8);
}

static void edit(struct py_binary *bin, const uint8_t *e)
{
	uint16_t where;
	uint32_t value;
	uint64_t word;

	memcpy(&where, e + 2, sizeof(where));
	memcpy(&value, e + 4, sizeof(value));
	switch (e[0] & 3) {
	case 0:
		word = (uint64_t)(int64_t)(int32_t)value;
		memcpy(arena + (where % used & ~7U), &word, sizeof(word));
		break;
	case 1:
		word = (uint64_t)(uintptr_t)arena + (value % used & ~7U);
		memcpy(arena + (where % used & ~7U), &word, sizeof(word));
		break;
	case 2:
		arena[where % used] = (uint8_t)value;
		break;
	default: /* natural alignment is what pylayout.c sees to */
		where = (uint16_t)(offsetof(struct py_layout, interp_next) +
				   where % 39 * sizeof(uint16_t));
		value = value & 0x1f8;
		memcpy((uint8_t *)&bin->interp.layout + where, &value, sizeof(uint16_t));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct py_binary bin = { 0 };
	char why[SELFCHECK_WHY_LEN];
	int err;

	if (!size)
		return 0;
	bin.version_hex = (uint32_t)versions[data[0] % VERSION_CNT] << 16;
	if (py_layout__get(&bin.interp.layout, bin.version_hex, false, NULL, 0, NULL))
		abort();
	make_process(&bin);
	for (size_t at = 1; at + 8 <= size && at < 8 * 64; at += 8)
		edit(&bin, data + at);
	err = selfcheck__walk(NULL, &bin, (uint32_t)getpid(), 0, why);
	if ((err == -EBADMSG || err == -ENODATA) != (why[0] != '\0') ||
	    strnlen(why, sizeof(why)) == sizeof(why) || err > 0 || (size < 9 && err)) {
		fprintf(stderr, "%d: %s\n", err, why);
		abort();
	}
	return 0;
}

size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap)
{
	size_t edits = i / VERSION_CNT;

	if (edits > 2 || cap < 1 + 8 * edits)
		return 0;
	memset(buf, 0, 1 + 8 * edits);
	buf[0] = (uint8_t)(i % VERSION_CNT);
	for (size_t k = 0; k < edits; k++) {
		buf[1 + 8 * k] = (uint8_t)(k + i);
		buf[3 + 8 * k] = (uint8_t)(i * 89 + k * 8);
		buf[4 + 8 * k] = (uint8_t)(i + k * 5);
		buf[5 + 8 * k] = (uint8_t)(i * 31 + k);
		buf[6 + 8 * k] = (uint8_t)(i * 7);
	}
	return 1 + 8 * edits;
}
