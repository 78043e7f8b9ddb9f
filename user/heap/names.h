/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_NAMES_H
#define PYPERF_HEAP_NAMES_H
/*
 * Names of what is in a heap: functions, classes, modules and code objects by their own names,
 * fields by what their type or CPython's source calls them, locals by their function.
 *
 * All of them are foreign text: cut to HEAP_NAME_CHARS characters, safe for a terminal. NULL is no
 * name, or no memory for it. The caller frees them.
 */
#include <stddef.h>
#include <stdint.h>

#include "heap/types.h"
#include "python/pyobject.h"

#define HEAP_NAME_CHARS 64

/* Where to read them. Borrows all that it points to. */
struct heap_names {
	struct pymem mem;
	const struct heap_shape *shape;
	uint16_t code_locals; /* of a code object: the tuple of its variables' names */
};

void heap_names__init(struct heap_names *n, const struct heap_mem *mem,
		      const struct heap_shape *shape, const struct py_layout *layout,
		      uint16_t code_locals);

/* The offset of a field, from its offset with ob_type at 8. */
static inline uint16_t heap_field(const struct heap_names *n, uint16_t at)
{
	return (uint16_t)(at + n->shape->ob_type - 8);
}

/* Is it the type of this tp_name? */
bool heap_type__is(const struct heap_type *t, const char *name);
/* A str. */
char *heap_names__str(struct heap_names *n, uint64_t addr);
/* What an object calls itself: a function, a class, a module or a code object. */
char *heap_names__own(struct heap_names *n, const struct heap_type *type, uint64_t addr);
/* The field at an offset of the objects of a type: __slots__, and fields of C types. */
char *heap_names__field(struct heap_names *n, const struct heap_type *type, uint64_t offset);
/* "function: variable", by a code object and the variable's place */
char *heap_names__local(struct heap_names *n, uint64_t code, uint32_t index);

#endif /* PYPERF_HEAP_NAMES_H */
