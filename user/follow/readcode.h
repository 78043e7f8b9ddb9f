/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_READCODE_H
#define PYPERF_READCODE_H
/*
 * Names that BPF could not read: not resident at the sample, or longer than it sends. User space
 * may take page faults, so it reads them from the living process, at once, and only if the code
 * object is still the one that was announced.
 */
#include <stddef.h>

#include "bpf/pyperf.h"
#include "process/process.h"
#include "symbolize/symbolize.h"

/*
 * Gives `sym` an announced code object: what the event holds, and what is missing of it, by the
 * layout of its interpreter. What cannot be read is left; why is a debug message.
 */
void readcode__take(struct sym_python *sym, const struct process_table *procs,
		    const struct ev_code *ev, size_t size);

/*
 * What is missing of a code object that sym_python__on_code() has taken, and is `wanted`: bits 1 <<
 * enum blob_kind. 0, -ESRCH (the process is gone), -ESTALE (another code object is there now),
 * -EFAULT, -ENOMEM.
 */
int readcode__supply(struct sym_python *sym, const struct ev_code *ev,
		     const struct py_layout *layout, int wanted);

#endif /* PYPERF_READCODE_H */
