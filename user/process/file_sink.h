/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_FILE_SINK_H
#define PYPERF_FILE_SINK_H
/*
 * Who is told of the files and of the generated code that processes have: the symbolizer, or a
 * test. Called in the thread that follows processes.
 */
#include <stdint.h>

#include "elf/elf.h"

struct file_sink {
	void *ctx;
	/*
	 * `ef` lives until the number is removed, or the sink is gone. 0, or negative errno: there
	 * are no names.
	 */
	int (*add)(void *ctx, uint32_t file, const struct elf_file *ef);
	void (*remove)(void *ctx, uint32_t file);
	/* What may be its debug file, from where nobody can look later; `fd` is taken over. */
	void (*offer_debug)(void *ctx, uint32_t file, int fd);
	/* Generated code: proc_fd is borrowed; dump_fd, the jitdump or -1, is taken over. */
	void (*look_generated)(void *ctx, uint32_t space, int proc_fd, int dump_fd);
	void (*fork)(void *ctx, uint32_t child, uint32_t parent);
	void (*forget)(void *ctx, uint32_t space);
};

#endif /* PYPERF_FILE_SINK_H */
