/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TENANT_H
#define PYPERF_TENANT_H
/*
 * Whom to blame for what a process does: its owner, a number. Upper half: the mount namespace, or
 * TENANT_NO_NAMESPACE, lower half: the user as this machine sees him. Of this machine's root each
 * process is an owner of its own: the number of the process.
 */
#include <stdbool.h>
#include <stdint.h>

/* Stands for a mount namespace that cannot be read; the kernel's numbers are larger. */
#define TENANT_NO_NAMESPACE 1ULL
#define TENANT_USER_UNKNOWN UINT32_MAX /* the process has ended */

/* Reads /proc. A user who made a user namespace stands for those whom it has. */
uint64_t tenant__of_process(uint32_t tgid);
/* The same of a process that has ended: any user's but this machine's root is one owner. */
uint64_t tenant__of_user(uint32_t uid);
/* The slot of struct shares that counts what the process takes of a table. */
uint32_t tenant__slot(uint32_t tgid);
/* Is it a process of this machine's root? */
bool tenant__is_roots(uint64_t tenant);
uint32_t tenant__user(uint64_t tenant);
/*
 * Who stands for what a tenant does: a user may have as many mount namespaces as he likes. Root of
 * one, who is not this machine's, is known by that alone.
 */
uint64_t tenant__payer(uint64_t tenant);

#endif /* PYPERF_TENANT_H */
