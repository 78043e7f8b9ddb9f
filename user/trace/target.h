/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TARGET_H
#define PYPERF_TARGET_H
/*
 * The target of a trace: the interpreter in a process, or in a file that need not run. The file
 * stays open, so it is the one that the process has mapped, even if its name leads elsewhere
 * meanwhile.
 *
 *	struct target t = { 0 };
 *
 *	if (!target__open_process(&t, 4711))
 *		... t.ef, t.py, t.bias ...
 *	target__close(&t);
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "elf/elf.h"
#include "process/maps_read.h"
#include "python/pyproc.h"

#define TARGET_PATH_MAX 4096

struct target {
	pid_t pid;		 /* 0: a file */
	pid_t python;		 /* what executes it, if it is a descendant of `pid`; else 0 */
	struct readers *readers; /* the helpers that read memory and files of processes */
	bool borrowed;		 /* the helpers */
	struct elf_file *ef;
	struct py_binary py;
	uint64_t bias;		    /* load address minus link address; of a process */
	int proc_fd;		    /* its directory in /proc; -1 */
	struct map_line mapping;    /* of its code; without a name */
	bool musl;		    /* its C library is musl; of a process */
	bool generates;		    /* it has executable memory in no file: perhaps a JIT's */
	char path[TARGET_PATH_MAX]; /* for messages: foreign text */
};

/*
 * Opens the first interpreter that the process has mapped. 0, or negative errno after a message.
 * Call target__close() in any case.
 */
int target__open_process(struct target *t, pid_t pid);
/*
 * Opens the file behind one of the mappings `maps` of a process, and prints nothing. 0; -ENOENT: it
 * is no interpreter; -ENOTSUP: it cannot be walked, see py.why_not; else nothing is known of the
 * file (interpreter.h). `rs` is borrowed. Call target__close() in any case.
 */
int target__open_mapped(struct target *t, struct readers *rs, pid_t pid, int proc_fd,
			const struct exec_maps *maps, const struct map_line *line);
/*
 * Opens an executable or a libpython. -ENOENT without a message: an ELF file without an
 * interpreter; `ef` is set.
 */
int target__open_file(struct target *t, const char *path);
/*
 * Finds the file with the interpreter of a program: the program itself, or the libpython that
 * belongs to its name. -ENOENT: not a Python. Prints nothing.
 */
int target__find_interpreter(const char *program, char path[TARGET_PATH_MAX]);
void target__close(struct target *t);

/*
 * Does the process still have the interpreter there? False: it has ended, executed another program
 * or unloaded it.
 */
bool target__is_there(const struct target *t);

#endif /* PYPERF_TARGET_H */
