/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Attaches an empty BPF program to places of a file, in one process, until its stdin ends.
 *
 *	bench_trap PID FILE OFFSET...
 */
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trap.skel.h"

int main(int argc, char **argv)
{
	struct trap_bpf *skel;
	char c;

	if (argc < 4) {
		fprintf(stderr, "usage: bench_trap PID FILE OFFSET...\n");
		return 2;
	}
	skel = trap_bpf__open_and_load();
	if (!skel) {
		fprintf(stderr, "bench_trap: load: %s (needs root)\n", strerror(errno));
		return 1;
	}
	for (int i = 3; i < argc; i++) {
		size_t offset = strtoull(argv[i], NULL, 0);

		/* The link lives as long as this process. */
		if (!bpf_program__attach_uprobe(skel->progs.on_hit, false, atoi(argv[1]), argv[2],
						offset)) {
			fprintf(stderr, "bench_trap: breakpoint at %s in %s: %s\n", argv[i],
				argv[2], strerror(errno));
			return 1;
		}
	}
	printf("ready\n");
	fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	trap_bpf__destroy(skel);
	return 0;
}
