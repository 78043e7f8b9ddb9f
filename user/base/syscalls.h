/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SYSCALLS_H
#define PYPERF_SYSCALLS_H
/*
 * Names of system calls by number, of the machine that the program is built for: made at build time
 * from <asm/unistd.h>.
 */
#include <stdint.h>

/* NULL: not known here, such as one of a newer kernel. */
const char *syscall_name(int64_t number);

#endif /* PYPERF_SYSCALLS_H */
