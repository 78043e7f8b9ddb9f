/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_OWN_STACK_BPF_H
#define PYPERF_OWN_STACK_BPF_H
/*
 * The stack of a program at a breakpoint.
 *
 * From 6.13 on the kernel may give a program one "private" stack for each CPU (a76ab5731e32),
 * because the same program never runs twice at a time there. At breakpoints it does: these programs
 * are preemptible, and the thread that comes next runs the same program on the same stack. A call
 * is then counted for another process's function, and a register that was saved there can be
 * anything: machines have crashed. A program with a tail call has no private stack.
 */
#include "seam.bpf.h"

static const volatile __u32 never_set;

/*
 * At the beginning of every program at a breakpoint. The verifier sees that the tail call is never
 * made, removes it, and asks for no map; but it has seen that there is one.
 */
#define KEEP_OWN_STACK(ctx)                                                                        \
	do {                                                                                       \
		if (never_set)                                                                     \
			bpf_tail_call(ctx, NULL, 0);                                               \
	} while (0)

#endif /* PYPERF_OWN_STACK_BPF_H */
