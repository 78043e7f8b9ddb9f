/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_READMEM_H
#define PYPERF_READMEM_H
/* Reads the memory of another process, which runs on meanwhile. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/*
 * Reads all `size` bytes and returns 0, or negative errno: -EFAULT also when only a part is
 * readable, -ESRCH, -EPERM, -ENOSYS.
 */
static inline int read_process(uint32_t tgid, void *dst, size_t size, uint64_t src)
{
	struct iovec local = { .iov_base = dst, .iov_len = size };
	struct iovec remote = { .iov_base = (void *)(uintptr_t)src, .iov_len = size };
	ssize_t n = process_vm_readv((pid_t)tgid, &local, 1, &remote, 1, 0);

	if (n == (ssize_t)size)
		return 0;
	return n < 0 ? -errno : -EFAULT;
}

#endif /* PYPERF_READMEM_H */
