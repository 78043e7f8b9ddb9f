/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HEAP_H
#define PYPERF_HEAP_H
/* pyperf-bpf heap: shows the contents of a process's Python heap, by type. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct heap_view; /* show.h */

struct heap_opts {
	pid_t pid;
	bool all;		 /* show all types, not only the largest */
	unsigned every_s, for_s; /* 0: once */
	const char *referrers;	 /* a type whose holders are wanted; or NULL */
	int stop_fd;		 /* readable when a repeated reading should end; -1: none */
};

struct heap_sink {
	/* 0, or negative errno after a message. The view is borrowed for the call. */
	int (*write)(void *ctx, const struct heap_view *v);
	void *ctx;
};

/* Returns the exit status. */
int heap(const struct heap_opts *o, const struct heap_sink *sink);

#endif /* PYPERF_HEAP_H */
