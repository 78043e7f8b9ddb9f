/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_INTERPRETER_H
#define PYPERF_INTERPRETER_H
/*
 * The interpreter that one process has mapped, for commands that look at a single process. Each
 * file is opened as the process has it mapped (mapped.h), whatever its name leads to meanwhile, and
 * looked at once. Of several interpreters it is the one at the lowest address.
 *
 *	struct interpreter in = { 0 };
 *
 *	err = interpreter__find(&in, readers, pid, proc_fd, &maps);
 *	... in.ef, in.py, in.bias ...
 *	interpreter__close(&in);
 */
#include <stdint.h>

#include "base/reader.h"
#include "elf/elf.h"
#include "process/maps_parse.h"
#include "process/maps_read.h"
#include "python/pyproc.h"

struct interpreter {
	struct elf_file *ef; /* owned */
	struct py_binary py;
	uint64_t bias;		 /* load address minus link address */
	struct map_line mapping; /* the first of the file; its name is borrowed from the mappings */
};

/*
 * 0; -ENOENT: the process has none, in its first 1,024 files; -ENOTSUP: one that cannot be walked,
 * see py.why_not; -ETIMEDOUT, -ECHILD: see reader__call(); else negative errno. In all
 * cases but -ENOENT `out` has what is known, and interpreter__close() is wanted.
 */
int interpreter__find(struct interpreter *out, struct readers *readers, uint32_t pid, int proc_fd,
		      const struct exec_maps *maps);
/*
 * The same of the file behind one mapping. -ENOENT: its contents say that it is no interpreter.
 * -ESTALE, and nothing is known of the file: it cannot be opened as this process has it mapped, or
 * the mapping is of no part of its program.
 */
int interpreter__at(struct interpreter *out, struct readers *readers, uint32_t pid, int proc_fd,
		    const struct map_line *line);
void interpreter__close(struct interpreter *in);

#endif /* PYPERF_INTERPRETER_H */
