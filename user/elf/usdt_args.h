/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_USDT_ARGS_H
#define PYPERF_USDT_ARGS_H
/*
 * Where a static probe has its arguments, as its note says in the words of the assembler:
 *
 *	8@%rdi -4@-20(%rbp) 4@$5 8@16(%rsp,%rax,8)
 *
 * Each begins with its size in bytes, negative if it has a sign. The text is foreign.
 */
#include <stdint.h>

#include "bpf/pyperf.h"

/*
 * Argument `n`, from 1 on. 0; -ENOENT: there are fewer; -ENOTSUP: it is where we do not look, such
 * as in a register for floating point; -EINVAL: nobody could tell.
 */
int usdt_args__find(const char *args, uint32_t n, struct probe_arg *out);

#endif /* PYPERF_USDT_ARGS_H */
