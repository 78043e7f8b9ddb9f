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
 * Who sets and removes breakpoints as processes come and go asks again each time, and puts off what
 * is not permitted:
 *
 *	struct held_watch held = { 0 };
 *
 *	if (held__permits(&held))
 *		... as many as are wanted now
 *	held__end(&held);
 *
 * A process that takes its lock between the question and the breakpoint still does that.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/reader.h"

/*
 * Asks for a byte of each process's memory, for which the kernel takes the same lock, some 20 us
 * each. Returns the number of a process that does not answer, 0 if all do, or negative errno;
 * -ECHILD: nobody's memory can be read. `rs` may be NULL.
 */
int held__find(struct readers *rs);
/* The same: 0, or -EBUSY after an error that names the process. */
int held__refuse(struct readers *rs);

struct held_watch {
	/* private to held.c */
	struct readers *readers; /* others than the caller's: who refuses whom is not asked */
	uint64_t next_ns;	 /* not asked again before */
	int found;		 /* the last answer, of held__find() */
};
/*
 * False: not now. The first time in a row a warning names the process. Asking takes at most a tenth
 * of a CPU: so it may be false only because the last answer is too fresh. While a process holds
 * its lock, it is asked again each minute, or when it has ended.
 */
bool held__permits(struct held_watch *w);
void held__end(struct held_watch *w);

#endif /* PYPERF_HELD_H */
