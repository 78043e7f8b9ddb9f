/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The four decoders of line tables on any bytes.
 *
 *   byte 0       enum py_linetable, modulo
 *   byte 1..4    co_firstlineno
 *   byte 5..7    offset
 *   byte 8..     the table
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "python/pylines.h"

#define HEAD 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(enum py_linetable kind, const uint8_t *table, size_t size, int32_t first,
		  uint32_t offset)
{
	uint32_t line = py_line(kind, table, size, first, offset);

	if (line > INT32_MAX)
		abort();
	/* the same entry covers both bytes of a unit */
	if (kind == PY_LINES_311 && line != py_line(kind, table, size, first, offset ^ 1))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t offset;
	int32_t first;
	uint8_t *table;

	if (size < HEAD)
		return 0;
	memcpy(&first, data + 1, sizeof(first));
	offset = data[5] | (uint32_t)data[6] << 8 | (uint32_t)data[7] << 16;
	table = malloc(size - HEAD); /* of that size: what reads beyond it is found */
	if (!table)
		return 0;
	memcpy(table, data + HEAD, size - HEAD);
	for (unsigned kind = 0; kind < 4; kind++) {
		check((enum py_linetable)(kind + 1), table, size - HEAD, first, offset);
		/* more offsets for the one that the input is for */
		for (uint32_t i = 0; data[0] % 4 == kind && i < 64; i++)
			check((enum py_linetable)(kind + 1), table, size - HEAD, first, i);
	}
	free(table);
	return 0;
}
