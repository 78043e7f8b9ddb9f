/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_ORACLE_OURS_H
#define PYPERF_ORACLE_OURS_H
/*
 * The stack of a stopped thread as the sampler takes it: the walkers of bpf/, compiled for the host
 * over process_vm_readv, by the tables that user/ builds of the process's files.
 *
 * One object is for one process, and one process can be walked at a time.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "bpf/pyperf.h"

struct ours;

struct our_stack {
	uint32_t cnt;			      /* native frames */
	uint64_t native[STACK_DEPTH_DEFAULT]; /* frame words, innermost first */
	bool whole;			      /* they end at the root */
	uint64_t marker;		      /* ... or why not */
	bool jumped; /* code without rows was crossed at a Python activation: frames are left out */
	uint32_t python_cnt;
	uint32_t merged_cnt;
	uint64_t merged[2 * STACK_DEPTH_DEFAULT];
};

/* Borrows nothing. NULL and errno. */
struct ours *ours__new(pid_t pid);
void ours__free(struct ours *o);

/*
 * Before a walk: takes over the mappings. 1: they have changed, 0: they have not, negative errno.
 */
int ours__refresh(struct ours *o);
void ours__walk(struct ours *o, const struct user_regs_struct *regs, struct our_stack *out);

/* The frame word of an address. */
uint64_t ours__word(const struct ours *o, uint64_t addr);
/* A mapping holds the address that can be executed. */
bool ours__executable(const struct ours *o, uint64_t addr);
/* The address is in the interpreter's eval loop. */
bool ours__in_eval(const struct ours *o, uint64_t addr);
/* The last part of the path of a word's file; "?" when it has none. Borrowed. */
const char *ours__file(const struct ours *o, uint64_t word);

#endif /* PYPERF_ORACLE_OURS_H */
