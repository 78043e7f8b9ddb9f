/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/percpu.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>

/* The kernel writes as many values as it has CPUs. 0 or negative errno. */
static int alloc_all(size_t size, int *cpu_cnt, __u64 **all)
{
	*cpu_cnt = libbpf_num_possible_cpus();
	if (*cpu_cnt < 0)
		return *cpu_cnt;
	*all = calloc((size_t)*cpu_cnt, size);
	return *all ? 0 : -ENOMEM;
}

int percpu__add(int fd, uint32_t key, void *sums, size_t size)
{
	size_t cnt = size / sizeof(__u64);
	__u64 *all = NULL, *to = sums;
	int cpu_cnt, err = alloc_all(size, &cpu_cnt, &all);

	if (!err && bpf_map_lookup_elem(fd, &key, all))
		err = -errno;
	for (size_t i = 0; !err && i < (size_t)cpu_cnt * cnt; i++)
		to[i % cnt] += all[i];
	free(all);
	return err;
}

int percpu__clear(int fd, uint32_t key, size_t size)
{
	__u64 *all = NULL;
	int cpu_cnt, err = alloc_all(size, &cpu_cnt, &all);

	if (!err && bpf_map_update_elem(fd, &key, all, BPF_ANY))
		err = -errno;
	free(all);
	return err;
}
