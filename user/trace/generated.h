/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_GENERATED_H
#define PYPERF_GENERATED_H
/*
 * Which part of its CPU time a process spends in code that no file has: what a JIT has compiled
 * executes no opcodes, so calls there are not seen. A perf event samples where the process is; the
 * kernel's time is left out.
 *
 *	g = generated__new(pid, readers);
 *	... each 50 ms: generated__look(g);
 *	share = generated__share(g, least);
 *	generated__free(g);
 */
#include <sys/types.h>

#include "base/reader.h"

struct generated;

/* `readers` is borrowed. NULL: there are no perf events, or no memory, or no process. */
struct generated *generated__new(pid_t pid, struct readers *readers);
void generated__free(struct generated *g);
/* Takes the samples since the last look. NULL: nothing. */
void generated__look(struct generated *g);
/*
 * Percent, if it is `least` percent or more, and not by chance: twice the error of its samples is
 * taken off. Else -1, also if there are few samples, or `g` is NULL.
 */
double generated__share(const struct generated *g, double least);

#endif /* PYPERF_GENERATED_H */
