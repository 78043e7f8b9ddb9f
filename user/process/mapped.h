/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_MAPPED_H
#define PYPERF_MAPPED_H
/* Opens the ELF file behind a mapping of a process. */
#include <stdbool.h>
#include <sys/types.h>

#include "base/reader.h"
#include "elf/elf.h"
#include "process/maps_parse.h"

/*
 * Opens the mapped file itself, or the file of that name now if it is the same one, in the helper
 * process that may hang. proc_fd: the process's directory in /proc. NULL and errno: it cannot be
 * opened, or is not an ELF file.
 */
struct elf_file *mapped__open(struct readers *rs, uint32_t tgid, int proc_fd,
			      const struct map_line *line);
/*
 * Has the process mapped another file as code that had the path of `ef` then? So it is where a file
 * was put in the place of another one while the process runs. False if that is not known.
 */
bool mapped__has_other(struct readers *rs, pid_t pid, const struct elf_file *ef);

#endif /* PYPERF_MAPPED_H */
