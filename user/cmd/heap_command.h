/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_COMMAND_H
#define PYPERF_HEAP_COMMAND_H
/*
 * heap -- COMMAND: runs a command, and has its heap read once: at its end, where it is held for so
 * long (stop_at_end.h), or after some seconds while it runs on.
 *
 *	struct heap_command c = { .launch = launch__new(argv, false), ... };
 *	fd = signals__open(export__abandon, true);
 *	status = heap_command__run(&c);
 *	launch__free(c.launch);
 */
#include "cmd/launch.h"

struct heap_command {
	struct launch *launch;
	const char *name;  /* for messages */
	double duration_s; /* 0: at its end */
	int signal_fd;
	/* Reads the process and writes the result. Returns the exit status. */
	int (*read)(void *ctx);
	void *ctx;
};

/* Returns when the command has ended: its exit status, or 1 if its heap could not be read. */
int heap_command__run(struct heap_command *c);

#endif /* PYPERF_HEAP_COMMAND_H */
