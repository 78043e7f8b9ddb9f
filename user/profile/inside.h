/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_INSIDE_H
#define PYPERF_INSIDE_H
/*
 * Names native code without a symbol by its caller. Where a stack ends in such code, the nearest
 * native caller with a name says what the code does for the program:
 *
 *	findall (re/__init__.py:216); re.Pattern.findall; python3.11+0x201db0
 *						"inside re.Pattern.findall", of python3.11
 *	PKCS5_PBKDF2_HMAC; libcrypto.so.3+0x29db40
 *						"inside PKCS5_PBKDF2_HMAC", of libcrypto.so.3
 *
 * The caller is on the stack, so this is exact. The symbol in front of an address is not, and is
 * never used. Functions that call any function they are given, such as PyObject_Vectorcall(), say
 * nothing and are skipped. A caller beyond a Python function is too far away.
 */
#include <stdbool.h>

#include "profile/profile.h"

/* True if no symbol and no table names it: an address, or "python3.11+0x13ad00". */
bool inside_is_unnamed(const struct profile *p, const struct sym *s);

/*
 * The caller to show of a stack that ends in unnamed code: `frames` are syms, outermost first.
 * NULL: its innermost frame has a name, or no caller has one.
 */
const struct sym *inside_caller(const struct profile *p, const uint32_t *frames, uint32_t cnt);

/*
 * The symbolized profile with the innermost frame of such stacks replaced by "inside CALLER". It is
 * read only and must not outlive `p`, whose processes and strings it shares. NULL: no memory.
 */
const struct profile *inside__view(const struct profile *p);

#endif /* PYPERF_INSIDE_H */
