/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PYLINES_H
#define PYPERF_PYLINES_H
/*
 * Decodes line tables of code objects and characters of strings as CPython keeps them in memory:
 * bytes in, numbers and UTF-8 out. Pure functions; every byte may be hostile.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "bpf/pyperf.h"

/* 0 for a number that is too large for a line. */
static inline uint32_t py_valid_line(uint64_t line)
{
	return line <= INT32_MAX ? (uint32_t)line : 0;
}

/* The line at a bytecode offset. 0: no line at this offset. */
uint32_t py_line(enum py_linetable kind, const uint8_t *table, size_t size, int32_t first_line,
		 uint32_t offset);
/* The same. `*prologue`: the offset has no line, and no instruction before it has one either. */
uint32_t py_find_line(enum py_linetable kind, const uint8_t *table, size_t size, int32_t first_line,
		      uint32_t offset, bool *prologue);
/* Appends the characters of a Python string as UTF-8. Lone surrogates become U+FFFD. */
void py_utf8(struct strbuf *b, const void *data, size_t size, unsigned width);

#endif /* PYPERF_PYLINES_H */
