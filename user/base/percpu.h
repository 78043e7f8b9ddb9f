/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PERCPU_H
#define PYPERF_PERCPU_H
/* Counters in a map of the kernel that has a value for each CPU: `size` bytes of 64-bit numbers. */
#include <stddef.h>
#include <stdint.h>

/* Adds those of all CPUs to *sums. 0 or negative errno: then nothing was added. */
int percpu__add(int fd, uint32_t key, void *sums, size_t size);
/* Sets those of all CPUs to 0. 0 or negative errno. */
int percpu__clear(int fd, uint32_t key, size_t size);

#endif /* PYPERF_PERCPU_H */
