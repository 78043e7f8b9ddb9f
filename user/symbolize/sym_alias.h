/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SYM_ALIAS_H
#define PYPERF_SYM_ALIAS_H
/*
 * Chooses the name to show if several symbols have one address. This is the rule for native
 * symbols, so that a name never depends on the order of a symbol table:
 *
 *    1. functions before labels without a type
 *    2. global and weak before local: people use the name that the linker resolves
 *    3. fewer leading underscores: malloc, not __libc_malloc (mangled names have none)
 *    4. global before weak
 *    5. the shorter name, then the lesser in byte order (of the first SYM_ALIAS_LEN bytes)
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The length up to which names are compared: bounds the work that a symbol table can cause. */
#define SYM_ALIAS_LEN 256

/* Rules 1 to 4: the smaller wins. */
static inline uint32_t sym_alias_rank(const char *name, bool label, bool local, bool weak)
{
	bool mangled = name[0] == '_' && (name[1] == 'Z' || name[1] == 'R');
	uint32_t underscores = 0;

	while (!mangled && underscores < 15 && name[underscores] == '_')
		underscores++;
	return (uint32_t)label << 6 | (uint32_t)local << 5 | underscores << 1 | (uint32_t)weak;
}

/* Rule 5, of names of equal rank: as strcmp(). */
static inline int sym_alias_cmp(const char *a, const char *b)
{
	size_t a_len = strnlen(a, SYM_ALIAS_LEN), b_len = strnlen(b, SYM_ALIAS_LEN);

	if (a_len != b_len)
		return a_len < b_len ? -1 : 1;
	return memcmp(a, b, a_len);
}

#endif /* PYPERF_SYM_ALIAS_H */
