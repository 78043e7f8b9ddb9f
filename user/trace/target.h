/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TARGET_H
#define PYPERF_TARGET_H
/*
 * What is to be traced: the interpreter in a process, or in a file that nobody need run. The file
 * stays open, so it is the one that the process has mapped, whatever its name leads to meanwhile.
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
#include "process/maps_parse.h"
#include "python/pyproc.h"

#define TARGET_PATH_MAX 4096

struct target {
	pid_t pid; /* 0: a file */
	struct elf_file *ef;
	struct py_binary py;
	uint64_t bias;		    /* load address minus link address; of a process */
	int proc_fd;		    /* its directory in /proc; -1 */
	struct map_line mapping;    /* of its code; without a name */
	bool generates;		    /* it has executable memory of no file: a JIT, perhaps */
	char path[TARGET_PATH_MAX]; /* for messages: foreign text */
};

/*
 * The first interpreter that the process has mapped. 0, or negative errno after a message.
 * target__close() is due in every case.
 */
int target__open_process(struct target *t, pid_t pid);
/*
 * An executable or a libpython. -ENOENT without a message: it is an ELF file without an
 * interpreter; `ef` is set.
 */
int target__open_file(struct target *t, const char *path);
void target__close(struct target *t);

/*
 * The process still has the interpreter where it was: it did not end, execute another program or
 * unload it.
 */
bool target__is_there(const struct target *t);

#endif /* PYPERF_TARGET_H */
