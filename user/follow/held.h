/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HELD_H
#define PYPERF_HELD_H
/*
 * May the kernel be asked for breakpoints now?
 *
 * To set or remove one, the kernel takes the lock of the mappings of each process that maps the
 * file, one after the other, whichever process the breakpoint is for. It lets no process of the
 * machine start another one meanwhile (dup_mmap_sem, kernel/events/uprobes.c). A process can hold
 * its lock for ever, with a mapping of a FUSE whose server does not answer: a breakpoint in a file
 * that it maps, such as the C library, would stop the machine.
 *
 *	if (held__refuse(readers))
 *		return -EBUSY;
 *
 * A process that takes its lock between the question and the breakpoint still does that.
 */
#include "base/reader.h"

/*
 * Asks for a byte of each process's memory, for which the kernel takes the same lock, some 20 us
 * each. Returns the number of a process that does not answer, 0 if all do, or negative errno. `rs`
 * may be NULL.
 */
int held__find(struct readers *rs);
/* The same: 0, or -EBUSY after an error that names the process. */
int held__refuse(struct readers *rs);

#endif /* PYPERF_HELD_H */
