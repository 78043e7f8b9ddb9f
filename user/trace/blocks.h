/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_BLOCKS_H
#define PYPERF_BLOCKS_H
/*
 * Lines about many processes on stdout, by process: what came of one since the last time is a block
 * below its name. In a block, lines stand in the order in which they came.
 *
 *	process 4711 (shop.py)
 *	   0.112590     4711                        => checkout (/srv/shop.py:20)
 *	...
 *	process 4720 (batch.py)
 *	   0.112493     4720                        => convert (/srv/batch.py:1)
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct blocks;

/*
 * `name`: of the process that had this number at that time, sanitised; UINT64_MAX: of the last one.
 * NULL: no memory.
 */
struct blocks *blocks__new(const char *(*name)(void *ctx, pid_t pid, uint64_t ns), void *ctx);
void blocks__free(struct blocks *b);
/* What stands before the name of a process: a constant. At first nothing. */
void blocks__set_mark(struct blocks *b, const char *mark);
/* Lines of a process. Writes some 1 MiB by itself. */
void blocks__add(struct blocks *b, pid_t pid, const char *lines, size_t len);
/* A line of no process: behind all that came before it. */
void blocks__remark(struct blocks *b, const char *line, size_t len);
/* Writes all that came; what comes now begins a block, though its process may have the last one. */
void blocks__end(struct blocks *b);
/* Writes all that came. 0 or negative errno, also of what was written before. */
int blocks__flush(struct blocks *b);
const char *blocks__name(const struct blocks *b, pid_t pid, uint64_t ns);
/* For the caller: the line above the first one was written. At first false. */
bool *blocks__headed(struct blocks *b);

#endif /* PYPERF_BLOCKS_H */
