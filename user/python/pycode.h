/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PYCODE_H
#define PYPERF_PYCODE_H
/*
 * Reads names and lines of code objects in the memory of another process, each once, and keeps
 * them. For stacks that user space takes: the kernel half sends the names of those that the sampler
 * finds. The table owns what it returns.
 *
 * What is kept of a process is bounded. Behind that, code objects have no names.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/idmap.h"
#include "python/pyobject.h"

struct pycode {
	char *name, *file; /* UTF-8 of any content; "" when not known */
	size_t name_len, file_len;
	int32_t first_line;
	uint8_t *table;
	size_t table_size;
	bool has_table; /* true for an empty table, too */
};

struct pycodes {
	struct pymem *mem; /* borrowed */
	uint64_t code_type;
	struct idmap by_addr;
	size_t bytes; /* are kept */
};

/* Borrowed until pycodes__free(). NULL: no memory. */
const struct pycode *pycodes__get(struct pycodes *c, uint64_t addr);
void pycodes__free(struct pycodes *c);
/* The line at an offset in the bytecode; 0: not known. */
uint32_t pycode__line(const struct py_layout *lay, const struct pycode *code, uint32_t offset);

#endif /* PYPERF_PYCODE_H */
