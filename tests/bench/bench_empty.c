/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Attaches an empty BPF program to every CPU's clock, as collect.c attaches the sampler, until its
 * stdin ends.
 *
 *	bench_empty HZ
 */
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "empty.skel.h"

static int sample_cpu(const struct empty_bpf *skel, int cpu, uint64_t hz)
{
	struct perf_event_attr attr = { .size = sizeof(attr),
					.type = PERF_TYPE_SOFTWARE,
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.freq = 1,
					.sample_freq = hz };
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return -errno;
	/* The link lives as long as this process. */
	return bpf_program__attach_perf_event(skel->progs.on_sample, fd) ? 0 : -errno;
}

int main(int argc, char **argv)
{
	struct empty_bpf *skel;
	int attached = 0, err = 0;
	char c;

	if (argc != 2) {
		fprintf(stderr, "usage: bench_empty HZ\n");
		return 2;
	}
	skel = empty_bpf__open_and_load();
	if (!skel) {
		fprintf(stderr, "bench_empty: load: %s (needs root)\n", strerror(errno));
		return 1;
	}
	for (int cpu = 0; cpu < libbpf_num_possible_cpus(); cpu++) {
		err = sample_cpu(skel, cpu, strtoull(argv[1], NULL, 10));
		if (err && err != -ENODEV) /* that one is offline */
			break;
		attached += !err;
	}
	if (!attached || (err && err != -ENODEV)) {
		fprintf(stderr, "bench_empty: sampling: %s\n", strerror(err ? -err : ENODEV));
		return 1;
	}
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	empty_bpf__destroy(skel);
	return 0;
}
