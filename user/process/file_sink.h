/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_FILE_SINK_H
#define PYPERF_FILE_SINK_H
/*
 * The functions that are told about the files and the generated code of processes: those of the
 * symbolizer or of a test. Called in the thread that follows processes.
 */
#include <stdint.h>

#include "elf/elf.h"

/*
 * The list in which libraries that generate code register it for debuggers (jit_list.h) begins at
 * this symbol.
 */
#define JIT_LIST_SYMBOL "__jit_debug_descriptor"

struct file_sink {
	void *ctx;
	/*
	 * A new file. `ef` stays valid until `remove` or the end of the sink. 0, or negative errno:
	 * the file will have no names.
	 */
	int (*add)(void *ctx, uint32_t file, const struct elf_file *ef);
	void (*remove)(void *ctx, uint32_t file);
	/*
	 * A file that may be the debug file, from a place where nobody can look later; taken over.
	 */
	void (*offer_debug)(void *ctx, uint32_t file, struct opened debug);
	/*
	 * The process has generated code. Borrows proc_fd; takes over the jitdump, if there is one.
	 */
	void (*look_generated)(void *ctx, uint32_t space, uint32_t tgid, int proc_fd,
			       struct opened dump);
	/* The process has a list of its generated code at `list`: see jit_list.h. */
	void (*list_generated)(void *ctx, uint32_t space, uint64_t list);
	void (*fork)(void *ctx, uint32_t child, uint32_t parent);
	void (*forget)(void *ctx, uint32_t space);
};

#endif /* PYPERF_FILE_SINK_H */
