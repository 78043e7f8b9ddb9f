/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_LOOPBOOK_H
#define PYPERF_LOOPBOOK_H
/*
 * Threads that wait in polls, and what they do between: the kernel's table (struct loop_thread)
 * into a profile. The table names stacks by their keys; which stack of the profile that is, is
 * learned while windows are read.
 *
 *	b = loopbook__new(object);
 *	loopbook__note(b, key, stack);		a stack of the profile, for each that is read
 *	loopbook__collect(b);			with each window: threads that have ended
 *	loopbook__note_open(b, tid, stack);	the stack of a wait that goes on at the end
 *	loopbook__fill(b, start_ns, end_ns, p);
 *	loopbook__free(b);
 *
 * All stacks are of one profile. For a profile per window:
 *
 *	loopbook__note(b, key, stack);		as above
 *	loopbook__take(b, procs, p);		what threads did since the last call
 *	loopbook__learn(b, p);			once it is named: which threads run event loops
 *
 * A thread whose poll is not known yet keeps what it did until it is, but for its longest
 * iterations, which are those of the window, and begin at a time of now_ns().
 */
#include <stdint.h>

#include "follow/object.h"
#include "process/process.h"
#include "profile/profile.h"

struct loopbook;

/* Borrows the object. NULL: no memory. */
struct loopbook *loopbook__new(const struct object *o);
void loopbook__free(struct loopbook *b);
/* 0 or -ENOMEM. */
int loopbook__note(struct loopbook *b, uint64_t key, uint32_t stack);
/* A failure costs that stack. */
void loopbook__note_open(struct loopbook *b, uint32_t tid, uint32_t stack);
/* Makes room in the kernel's table. A failure costs those threads, and is printed. */
void loopbook__collect(struct loopbook *b);
/* 0 or negative errno, printed. */
int loopbook__fill(struct loopbook *b, uint64_t start_ns, uint64_t end_ns, struct profile *p);

/* A failure costs what some threads did, and is printed. Forgets all stacks. */
void loopbook__take(struct loopbook *b, const struct process_table *procs, struct profile *p);
void loopbook__learn(struct loopbook *b, const struct profile *p);

#endif /* PYPERF_LOOPBOOK_H */
