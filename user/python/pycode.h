/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PYCODE_H
#define PYPERF_PYCODE_H
/*
 * Reads names and lines of code objects in the memory of another process, each once, and keeps
 * them. For stacks that user space takes: the kernel half sends the names of those that the sampler
 * finds. The table owns what it returns.
 *
 * A code object may be freed and another one get its address, so each look at the process asks once
 * whether what lies there is still the one that was read. What tells is what tells the kernel half
 * (bpf/codes.bpf.h): first line, names and line table, and from 3.12 on the number that no other
 * code object has; below, their contents, which are read again.
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
	uint64_t id;	/* of the code objects that had the address each has another one; 0: none */
	uint64_t fingerprint; /* 0: its contents tell */
	uint32_t look;	      /* the last one that has found it there */
};

struct pycodes {
	struct pymem *mem; /* borrowed */
	uint64_t code_type;
	struct idmap by_addr;
	size_t bytes; /* are kept */
	uint64_t ids; /* dealt out so far */
	uint32_t look;
};

/* A new look begins: the process has run since the last one. */
void pycodes__look(struct pycodes *c);
/* Borrowed until the next look. NULL: no memory. */
const struct pycode *pycodes__get(struct pycodes *c, uint64_t addr);
void pycodes__free(struct pycodes *c);
/* The line at an offset in the bytecode; 0: not known. */
uint32_t pycode__line(const struct py_layout *lay, const struct pycode *code, uint32_t offset);

#endif /* PYPERF_PYCODE_H */
