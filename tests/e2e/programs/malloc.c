/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* To be preloaded, as others have jemalloc: malloc() and free() that fill what is freed. */
#include <malloc.h>
#include <stddef.h>
#include <string.h>

extern void *__libc_malloc(size_t size);
extern void __libc_free(void *p);

void *malloc(size_t size)
{
	return __libc_malloc(size + 32);
}

void free(void *p)
{
	if (p)
		memset(p, 0xdd, malloc_usable_size(p));
	__libc_free(p);
}
