/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The commands there are. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/child.h"
#include "base/libbpf_text.h"
#include "cmd/command.h"
#include "export/outputs.h"

/*
 * Started with a standard descriptor closed, the first file that is opened (an output, a BPF map)
 * would get its number, and messages would go there. A place holder that cannot be written to keeps
 * it free.
 */
static void hold_standard_descriptors(void)
{
	while (1) {
		int fd = open("/dev/null", O_RDONLY);

		if (fd > STDERR_FILENO)
			close(fd);
		if (fd < 0 || fd > STDERR_FILENO)
			return;
	}
}

/* One a line. */
/* clang-format off */
static const struct command *const commands[] = {
	&cmd_record,
	&cmd_top,
	&cmd_report,
	&cmd_diff,
	&cmd_dump,
	&cmd_trace,
	&cmd_probes,
	&cmd_memory,
	&cmd_heap,
	&cmd_check,
	&cmd_agent,
	NULL,
};
/* clang-format on */

static void overview(void)
{
	printf("Usage: pyperf-bpf [COMMAND] [OPTION]...\n"
	       "Shows where the time of Python programs goes, without touching or stopping them.\n"
	       "\n"
	       "Commands\n");
	command__list(commands);
	printf("\n"
	       "Options of record that are used most\n"
	       "  -d, --duration SEC     stop after SEC seconds; default: at Ctrl-C\n"
	       "  -p, --pid PID[,...]    only these processes\n");
	outputs__help(false);
	printf("\n"
	       "Examples\n"
	       "  pyperf-bpf -d 30                            the whole machine, 30 seconds\n"
	       "  pyperf-bpf -p 4711 -d 10 -f > cpu.folded    one process, for a flame graph\n"
	       "  pyperf-bpf -o cpu.pb.gz -- python3 app.py   one command, for pprof\n"
	       "  pyperf-bpf report cpu.pb.gz -o cpu.json     another format, without root\n"
	       "  pyperf-bpf diff old.pb.gz new.pb.gz         what got slower, what faster\n");
}

int main(int argc, char **argv)
{
	hold_standard_descriptors();
	child__reserve();
	libbpf_set_print(libbpf_text);
	return command__main(commands, overview, argc, argv);
}
