/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the kernel's helper bpf_get_stack() takes for the user stacks of a process.
 *
 *	bench_getstack PID HZ SECONDS	prints "SAMPLES FRAMES NANOSECONDS"
 *
 * It follows frame pointers, so the process must keep them.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "getstack.skel.h"

static int sample(struct getstack_bpf *skel, pid_t pid, uint64_t hz)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.freq = 1,
					.sample_freq = hz };
	int fd = (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return -errno;
	skel->links.on_sample = bpf_program__attach_perf_event(skel->progs.on_sample, fd);
	return skel->links.on_sample ? 0 : -errno;
}

int main(int argc, char **argv)
{
	struct getstack_bpf *skel = getstack_bpf__open_and_load();
	struct bpf_prog_info info = { 0 };
	__u32 size = sizeof(info);
	int stats, err;

	if (argc != 4 || !skel) {
		fprintf(stderr, "usage: bench_getstack PID HZ SECONDS (as root)\n");
		return 1;
	}
	stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	err = stats < 0 ? stats : sample(skel, atoi(argv[1]), strtoull(argv[2], NULL, 10));
	if (err) {
		fprintf(stderr, "bench_getstack: %s\n", strerror(-err));
		return 1;
	}
	sleep((unsigned int)atoi(argv[3]));
	bpf_obj_get_info_by_fd(bpf_program__fd(skel->progs.on_sample), &info, &size);
	printf("%llu %llu %llu\n", (unsigned long long)skel->bss->samples,
	       (unsigned long long)skel->bss->frames, (unsigned long long)info.run_time_ns);
	getstack_bpf__destroy(skel);
	close(stats);
	return 0;
}
