/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_WAITS_H
#define PYPERF_AGENT_WAITS_H
/*
 * What a thread of this process waits for, as the kernel has it: its system call, the file or
 * process that this is about, and the function in the kernel.
 *
 *	openat() of /mnt/app/lib.so (in the kernel: fuse_get_req)
 *	it runs
 */
#include <sys/types.h>

#include "base/str.h"

void waits__describe(pid_t tid, struct strbuf *out);

#endif /* PYPERF_AGENT_WAITS_H */
