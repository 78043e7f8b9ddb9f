/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "python/pylines.h"

#include <string.h>

/* ---- Line tables. Offsets and lines wrap instead of overflowing. ---- */

static uint64_t signed_byte(uint8_t byte)
{
	return (uint64_t)(int64_t)(int8_t)byte;
}

/* Up to 3.9: pairs (address, line), see Objects/lnotab_notes.txt; signed lines from 3.6. */
static uint32_t line_lnotab(const uint8_t *table, size_t size, uint64_t line, uint32_t offset,
			    bool is_signed)
{
	uint64_t addr = 0;

	for (size_t i = 0; i + 1 < size; i += 2) {
		addr += table[i];
		if (addr > offset)
			break;
		line += is_signed ? signed_byte(table[i + 1]) : table[i + 1];
	}
	return py_valid_line(line);
}

/* 3.10: pairs (length, line), PEP 626; Objects/lnotab_notes.txt@3.10. */
static uint32_t line_310(const uint8_t *table, size_t size, uint64_t line, uint32_t offset,
			 bool *prologue)
{
	uint64_t end = 0;

	*prologue = true;

	for (size_t i = 0; i + 1 < size; i += 2) {
		bool no_line = table[i + 1] == 0x80;

		end += table[i];
		if (!no_line)
			line += signed_byte(table[i + 1]);
		if (offset < end)
			return no_line ? 0 : py_valid_line(line);
		if (table[i] && !no_line && py_valid_line(line))
			*prologue = false;
	}
	*prologue = false;
	return 0;
}

/* Groups of six bits, the least first; bit 6: more follow. Ends at the next entry at the latest. */
static uint32_t varint(const uint8_t *table, size_t size, size_t i)
{
	uint32_t value = 0;

	for (unsigned shift = 0; i < size && !(table[i] & 0x80) && shift < 32; i++, shift += 6) {
		value |= (uint32_t)(table[i] & 0x3f) << shift;
		if (!(table[i] & 0x40))
			break;
	}
	return value;
}

/* The line delta of the entry at `i`, Objects/locations.md@3.11. False: the entry has no line. */
static bool delta_311(const uint8_t *table, size_t size, size_t i, uint64_t *delta)
{
	unsigned form = table[i] >> 3 & 15;
	uint32_t value;

	*delta = 0;
	if (form >= 10 && form <= 12)
		*delta = form - 10;
	if (form == 13 || form == 14) {
		value = varint(table, size, i + 1);
		*delta = value & 1 ? -(uint64_t)(value >> 1) : value >> 1;
	}
	return form != 15;
}

static uint32_t line_311(const uint8_t *table, size_t size, uint64_t line, uint32_t offset,
			 bool *prologue)
{
	uint64_t end = 0, delta;
	bool has_line;

	*prologue = true;

	for (size_t i = 0; i < size; i++) {
		/* The other bytes of an entry are columns, which nobody asks for. */
		if (!(table[i] & 0x80))
			continue;
		has_line = delta_311(table, size, i, &delta);
		line += delta;
		end += ((table[i] & 7) + 1) * 2U;
		if (offset < end)
			return has_line ? py_valid_line(line) : 0;
		if (has_line && py_valid_line(line))
			*prologue = false;
	}
	*prologue = false;
	return 0;
}

uint32_t py_find_line(enum py_linetable kind, const uint8_t *table, size_t size, int32_t first_line,
		      uint32_t offset, bool *prologue)
{
	uint64_t line = (uint64_t)(int64_t)first_line;

	*prologue = false;
	switch (kind) {
	case PY_LINES_LNOTAB_27:
		return line_lnotab(table, size, line, offset, false);
	case PY_LINES_LNOTAB:
		return line_lnotab(table, size, line, offset, true);
	case PY_LINES_310:
		return line_310(table, size, line, offset, prologue);
	case PY_LINES_311:
		return line_311(table, size, line, offset, prologue);
	}
	return 0;
}

uint32_t py_line(enum py_linetable kind, const uint8_t *table, size_t size, int32_t first_line,
		 uint32_t offset)
{
	bool prologue;

	return py_find_line(kind, table, size, first_line, offset, &prologue);
}

/* ---- Characters ---- */

void py_utf8(struct strbuf *b, const void *data, size_t size, unsigned width)
{
	const uint8_t *p = data;
	uint16_t c16;
	uint32_t c;

	if (width != 1 && width != 2 && width != 4)
		return;
	for (size_t i = 0; size - i >= width; i += width) {
		if (width == 1) {
			c = p[i];
		} else if (width == 2) {
			memcpy(&c16, p + i, sizeof(c16));
			c = c16;
		} else {
			memcpy(&c, p + i, sizeof(c));
		}
		utf8_add(b, c);
	}
}
