/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_KSYM_H
#define PYPERF_KSYM_H
/*
 * Asks the kernel itself for the symbol at an address: a BPF program of ten instructions formats it
 * with "%pS", as the kernel does in its own stack traces. One address takes 2 us; reading all
 * 120,000 symbols in /proc/kallsyms takes 20 to 50 ms. Needs Linux 5.13 and the rights that the
 * sampler needs.
 *
 *	ksym__find(k, 0xffffffff812a3b5a, &offset)	"vfs_read", 0x1a
 *	ksym__find(k, 0xffffffffc0401004, &offset)	"nf_hook_slow [nf_tables]", 4
 *
 * The program has the right to read addresses that kernel.kptr_restrict may hide from the user. So
 * the caller first checks that /proc/kallsyms shows addresses.
 */
#include <stdint.h>

struct ksym;

/* NULL and errno: this kernel does not allow it, or cannot do it. */
struct ksym *ksym__open(void);
void ksym__close(struct ksym *k);
/*
 * The symbol that covers `addr`, as /proc/kallsyms has it, or NULL. Borrowed until the next call.
 */
const char *ksym__find(struct ksym *k, uint64_t addr, uint64_t *offset);

#endif /* PYPERF_KSYM_H */
