/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_BASE_WAITS_H
#define PYPERF_BASE_WAITS_H
/*
 * Describes what a thread of ours, or a process that we forked, waits for: its system call, the
 * file or process that the call is about, and the function in the kernel.
 *
 *	openat() of /mnt/app/lib.so (in the kernel: fuse_get_req)
 *	it runs
 */
#include <sys/types.h>

#include "base/str.h"

void waits__describe(pid_t tid, struct strbuf *out);

#endif /* PYPERF_BASE_WAITS_H */
