/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EXPORT_GROUPS_H
#define PYPERF_EXPORT_GROUPS_H
/*
 * Prints the threads of several processes, equal stacks once, the commonest first.
 *
 *	64 processes, 64 threads, most recent call first
 *	63 of 64 in all_reduce (/srv/train.py:40); 1 of 64 in load_batch (/srv/train.py:12)
 *
 *	63 of 64 threads: sleeping in futex
 *	    processes 4711, 4712, 4713, 4714, 4715, 4716, 4717, 4718 and 55 more
 *	    all_reduce (/srv/train.py:40)
 *	    <module> (/srv/train.py:60)
 *
 *	1 of 64 threads: running, holds the GIL
 *	    process 4728 (train.py), thread 4728 "MainThread"
 *	    load_batch (/srv/train.py:12)
 *	    <module> (/srv/train.py:60)
 */
#include "threads/export_threads.h"

/* Lines are not cut. 0, -ENOMEM, or the error of the stream. */
int export_groups__text(FILE *f, const struct dumped_process *all, size_t cnt, bool color);

#endif /* PYPERF_EXPORT_GROUPS_H */
