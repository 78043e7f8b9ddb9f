/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PAYER_H
#define PYPERF_PAYER_H
/*
 * Whom a process is charged to: its user; in a user namespace that is not root's, the user who made
 * the outermost one; below PAYER_LEVELS of them PAYER_TOO_DEEP. As task_payer() of bpf/task.bpf.h
 * has it.
 */
#include <stdint.h>

/* `proc_fd`: /proc/PID, borrowed; `uid`: its user: the answer, too, if it cannot be asked. */
uint32_t payer__of(int proc_fd, uint32_t uid);

#endif /* PYPERF_PAYER_H */
