/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_READCODE_H
#define PYPERF_READCODE_H
/*
 * Names that BPF could not read: not resident at the sample, or longer than it sends. User space may
 * take page faults, so it reads them from the living process, at once, and only if the code object is
 * still the one that was announced.
 */
#include <stddef.h>

#include "bpf/pyperf.h"
#include "process/process.h"
#include "symbolize/symbolize.h"

/*
 * Gives `sym` an announced code object: what the event holds, and what is missing of it, by the layout
 * of its interpreter. What cannot be read is left; why is a debug message.
 */
void readcode__take(struct sym_python *sym, const struct process_table *procs,
		    const struct ev_code *ev, size_t size);

#endif /* PYPERF_READCODE_H */
