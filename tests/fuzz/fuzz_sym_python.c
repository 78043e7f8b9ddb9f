/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A stream of records from the ring buffer, and of answers from a process, with arbitrary contents.
 *
 * Each step begins with an operation and a byte that chooses one of a few code ids:
 *
 *   0  EV_BLOB   kind, offset / 64 (2 bytes), size of the record (2), of the data (2), data
 *   1  EV_CODE   table kind, first line (4), BLOB_CNT x { size (2), width, flags }
 *   2  supply    kind, size (2), width, flags, data
 *   3  any bytes as a record: type (1), size (1), bytes
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbolize/symbolize.h"

#define IDS 6

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *p;
	size_t left;
};

/* The next bytes, zeros behind the end. */
static void take(struct input *in, void *to, size_t size)
{
	size_t part = size < in->left ? size : in->left;

	memset(to, 0, size);
	if (part)
		memcpy(to, in->p, part);
	in->p += part;
	in->left -= part;
}

static uint8_t take8(struct input *in)
{
	uint8_t v;

	take(in, &v, sizeof(v));
	return v;
}

static uint16_t take16(struct input *in)
{
	uint16_t v;

	take(in, &v, sizeof(v));
	return v;
}

/* What must hold of every code object at any time. */
static void check(struct sym_python *s, uint64_t id)
{
	int missing = sym_python__missing(s, id);
	struct py_function f;
	bool found = sym_python__find(s, id, &f);
	uint32_t c;

	if (found != (missing >= 0) || missing >= 1 << BLOB_CNT)
		abort();
	if (f.name[f.name_len] || f.file[f.file_len] || (found && !f.name_len))
		abort();
	for (size_t i = 0; i < f.name_len;) { /* valid UTF-8: U+FFFD takes three bytes here */
		size_t n = utf8_next(f.name + i, f.name_len - i, &c);

		if (c == 0xfffd && n != 3)
			abort();
		i += n;
	}
	for (uint32_t offset = 0; offset < 64; offset += 7)
		if (sym_python__line(s, id, offset) > INT32_MAX)
			abort();
	if (sym_python__line(s, id, OFFSET_NOT_STARTED) != f.first_line)
		abort();
}

static void op_blob(struct sym_python *s, struct input *in, uint64_t id)
{
	struct ev_blob ev = { .type = EV_BLOB, .id = id };
	struct ev_blob *copy;
	size_t size, head = offsetof(struct ev_blob, data);

	ev.kind = take8(in) % (BLOB_CNT + 1);
	ev.offset = take16(in) * 64U;
	size = take16(in) % (sizeof(ev) + 1);
	ev.size = take16(in) % (BLOB_DATA + 2);
	if (size > head)
		take(in, ev.data, size - head);
	copy = malloc(size + 1);
	if (!copy)
		return;
	memcpy(copy, &ev, size);
	sym_python__on_blob(s, copy, size);
	free(copy);
}

static void take_info(struct input *in, struct blob_info *info)
{
	info->size = take16(in);
	info->width = take8(in) % 8;
	info->flags = take8(in) % 8;
}

static void op_code(struct sym_python *s, struct input *in, uint64_t id)
{
	struct py_layout layout = { .linetable_kind = take8(in) % 6 };
	struct ev_code ev = { .type = EV_CODE, .id = id };

	take(in, &ev.firstlineno, sizeof(ev.firstlineno));
	for (int i = 0; i < BLOB_CNT; i++)
		take_info(in, &ev.blob[i]);
	sym_python__on_code(s, &ev, sizeof(ev), &layout, 0);
}

static void op_supply(struct sym_python *s, struct input *in, uint64_t id)
{
	unsigned kind = take8(in) % (BLOB_CNT + 1);
	struct blob_info info = { 0 };
	int missing = sym_python__missing(s, id);
	uint8_t *data;

	take_info(in, &info);
	data = malloc(info.size);
	if (!data)
		return;
	take(in, data, info.size);
	if (!sym_python__supply(s, id, (enum blob_kind)kind, data, &info) &&
	    sym_python__missing(s, id) != (missing & ~(1 << kind)))
		abort();
	free(data);
}

static void op_bytes(struct sym_python *s, struct input *in)
{
	static const struct py_layout layout = { .linetable_kind = PY_LINES_311 };
	union {
		struct ev_blob blob;
		struct ev_code code;
	} ev;
	uint8_t type = take8(in), size = take8(in);

	take(in, &ev, sizeof(ev));
	if (type & 1)
		sym_python__on_blob(s, &ev.blob, size);
	else
		sym_python__on_code(s, &ev.code, size, &layout, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct sym_python *s = sym_python__new();

	while (s && in.left) {
		uint8_t op = take8(&in) % 4;
		uint64_t id = take8(&in) % IDS;

		if (op == 0)
			op_blob(s, &in, id);
		else if (op == 1)
			op_code(s, &in, id);
		else if (op == 2)
			op_supply(s, &in, id);
		else
			op_bytes(s, &in);
		check(s, id);
	}
	sym_python__free(s);
	return 0;
}
