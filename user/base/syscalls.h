/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SYSCALLS_H
#define PYPERF_SYSCALLS_H
/*
 * Names of system calls by number, for the machine that the program is built for. Generated at
 * build time from <asm/unistd.h>.
 */
#include <stdint.h>

/* NULL: not known, such as a call of a newer kernel. */
const char *syscall_name(int64_t number);

#endif /* PYPERF_SYSCALLS_H */
