/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a library that generates code has for debuggers: see "JIT Compilation Interface" of gdb. */
#include <stdint.h>

struct entry {
	struct entry *next, *prev;
	const char *addr;
	uint64_t size;
};

struct {
	uint32_t version, action;
	struct entry *relevant, *first;
} __jit_debug_descriptor = { 1, 0, 0, 0 };

/* Debuggers stop here. */
__attribute__((noinline)) void __jit_debug_register_code(void)
{
	__asm__ volatile("");
}
