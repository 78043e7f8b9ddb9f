/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CFI_EXPR_H
#define PYPERF_CFI_EXPR_H
/*
 * DWARF expressions -> the forms of a CFA and of a saved register that rules have. Compilers,
 * linkers and OpenSSL's assembler write a handful of them; no other is evaluated.
 */
#include "elf/cfi_read.h"
#include "elf/cfi_state.h"

/* reg + off; *(reg + off) + add: realigned functions (GCC's DRAP) and OpenSSL's assembler. */
struct cfa cfi_expr_cfa(struct cfi_reader r, const struct cfi_machine *m);
/* The place reg + off, or SAVED_OTHER. */
struct saved cfi_expr_saved(struct cfi_reader r);

#endif /* PYPERF_CFI_EXPR_H */
