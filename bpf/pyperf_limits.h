/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_LIMITS_CONTRACT_H
#define PYPERF_LIMITS_CONTRACT_H
/*
 * Part of the contract (pyperf.h): what bounds stacks, names and their tables.
 */
#include <linux/types.h>

#include "arch/arch.h"

#define PYPERF_ASSERT_SIZE(type, size) _Static_assert(sizeof(type) == (size), #type " has holes")

/*
 * Limits of Python frames, and of native frames, per stack; the innermost are kept: struct
 * pyperf_cfg.
 */
#define STACK_DEPTH_DEFAULT	       1024
#define STACK_DEPTH_MIN		       128 /* kernel frames need so much, see DEEP_WORDS() */
#define STACK_DEPTH_MAX		       16384
/* PERF_MAX_STACK_DEPTH, see sysctl kernel.perf_event_max_stack */
#define MAX_KERN_FRAMES		       127
#define MAX_FRAMES		       (2 * STACK_DEPTH_MAX) /* words of one merged stack */
#define CHUNK_FRAMES		       16		     /* words of one stored chunk */
#define MAX_CHUNKS		       (MAX_FRAMES / CHUNK_FRAMES)
/* thread states that a search for a thread's own reads */
#define MAX_THREAD_SCAN		       4096
#define BLOB_DATA		       2048  /* bytes of one piece of a name or line table */
#define MAX_BLOB_PIECES		       64    /* pieces of one name or line table */
#define SEEN_SLOTS		       16384 /* of files in `seen`, by id modulo that */
#define TASK_COMM_LEN		       16
#define GLOB_LEN		       64
#define TIMED_EVERY		       16 /* one of so many samples is timed */
/* upper bound for a frame, native and Python together */
#define TIMED_FRAME_NS		       1000

#endif /* PYPERF_LIMITS_CONTRACT_H */
