/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the kernel's helper bpf_get_stack() takes for user stacks: of a process, or of all CPUs.
 *
 *	bench_getstack PID HZ	prints "SAMPLES FRAMES NANOSECONDS" when its stdin ends
 *	bench_getstack all HZ
 *
 * It follows frame pointers: of programs that keep none it reads a frame or two.
 */
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "getstack.skel.h"

static int sample(const struct getstack_bpf *skel, pid_t pid, int cpu, uint64_t hz)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.freq = 1,
					.sample_freq = hz };
	int fd = (int)syscall(SYS_perf_event_open, &attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return -errno;
	/* The link lives as long as this process. */
	return bpf_program__attach_perf_event(skel->progs.on_sample, fd) ? 0 : -errno;
}

static int sample_all(const struct getstack_bpf *skel, uint64_t hz)
{
	int attached = 0;

	for (int cpu = 0; cpu < libbpf_num_possible_cpus(); cpu++) {
		int err = sample(skel, -1, cpu, hz);

		if (err && err != -ENODEV) /* that one is offline */
			return err;
		attached += !err;
	}
	return attached ? 0 : -ENODEV;
}

int main(int argc, char **argv)
{
	struct getstack_bpf *skel;
	uint64_t hz;
	int err;
	char c;

	if (argc != 3) {
		fprintf(stderr, "usage: bench_getstack PID|all HZ\n");
		return 2;
	}
	skel = getstack_bpf__open_and_load();
	if (!skel) {
		fprintf(stderr, "bench_getstack: load: %s (needs root)\n", strerror(errno));
		return 1;
	}
	hz = strtoull(argv[2], NULL, 10);
	err = strcmp(argv[1], "all") ? sample(skel, atoi(argv[1]), -1, hz) : sample_all(skel, hz);
	if (err) {
		fprintf(stderr, "bench_getstack: sampling: %s\n", strerror(-err));
		return 1;
	}
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	printf("%llu %llu %llu\n", (unsigned long long)skel->bss->samples,
	       (unsigned long long)skel->bss->frames, (unsigned long long)skel->bss->helper_ns);
	getstack_bpf__destroy(skel);
	return 0;
}
