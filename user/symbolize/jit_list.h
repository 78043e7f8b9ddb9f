/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_JIT_LIST_H
#define PYPERF_JIT_LIST_H
/*
 * Reads the list of generated code that a process keeps for debuggers: an ELF object in memory for
 * each piece of code, with its symbols. LLVM's JITs (numba) keep it without being asked, so their
 * functions have names although they write no file. See "JIT Compilation Interface" in the manual
 * of gdb.
 *
 *	JIT_LIST_SYMBOL (file_sink.h)		a variable of the library that generates code
 *	jit_list__objects(rs, tgid, list, ...)	the objects, newest first
 *	jit_list__functions(rs, tgid, o, 0, &f)	the functions of an object
 *
 * The list lies in the memory of the process, changes while it is read, and is hostile: the helper
 * for memory parses it within bounds, and its answers are checked. Numbers are little-endian,
 * pointers 64 bits wide.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/reader.h"

#define JIT_OBJECTS_MAX	  2048
#define JIT_OBJECT_SIZE	  (8U << 20) /* larger ones are left out */
#define JIT_FUNCTIONS_MAX 512	     /* of one answer */
#define JIT_NAMES_SIZE	  (40U << 10)
#define JIT_NAME_MAX	  4096

struct jit_object {
	uint64_t entry;	     /* of the list */
	uint64_t addr, size; /* of the ELF object */
};

struct jit_objects {
	uint32_t cnt;
	struct jit_object objects[JIT_OBJECTS_MAX];
};

struct jit_function {
	uint64_t start, end;
	uint64_t name; /* its address in the process */
	uint32_t len;  /* of the name, at most JIT_NAME_MAX */
	uint32_t text; /* the name itself is at names + text; UINT32_MAX: there was no room */
};

struct jit_functions {
	uint32_t cnt;
	uint32_t next; /* the symbol to continue with; 0: these were the last */
	struct jit_function functions[JIT_FUNCTIONS_MAX];
	char names[JIT_NAMES_SIZE];
};

/*
 * Reads the objects that were added since `known` was the first (NULL: all), newest first. 0 or
 * negative errno, see reader__call().
 */
int jit_list__objects(struct readers *rs, uint32_t tgid, uint64_t list,
		      const struct jit_object *known, struct jit_objects *out);
/*
 * Reads the functions from symbol number `from` on. 0 or negative errno; -ENOEXEC: not such an
 * object.
 */
int jit_list__functions(struct readers *rs, uint32_t tgid, const struct jit_object *o,
			uint32_t from, struct jit_functions *out);

#endif /* PYPERF_JIT_LIST_H */
