/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_READCODE_H
#define PYPERF_READCODE_H
/*
 * Reads the names of code objects that BPF could not read, because they are not resident or are
 * longer than it sends. User space may take page faults, so it reads them from the living process,
 * at once, and only if the code object is still the announced one.
 */
#include <stddef.h>

#include "bpf/pyperf.h"
#include "process/process.h"
#include "symbolize/symbolize.h"

/*
 * Passes an announced code object to `sym`: the contents of the event and, read from the process by
 * the layout of its interpreter, what the event lacks. Leaves out what cannot be read, with a debug
 * message. 0, or negative errno; -EBUSY: see readcode__again().
 */
int readcode__take(struct sym_python *sym, struct process_table *procs, const struct ev_code *ev,
		   size_t size);

/*
 * There was no time to read it (readers__due()): tries again. -EBUSY, too; all else is as if it had
 * been read, or cannot be.
 */
int readcode__again(struct sym_python *sym, const struct process_table *procs,
		    const struct ev_code *ev);

/*
 * Reads the parts of a code object that sym_python__on_code() still lacks. `wanted`: bits 1 << enum
 * blob_kind. 0, -ESRCH (the process is gone), -ESTALE (another code object is at that address now),
 * -EFAULT, -ENOMEM.
 */
int readcode__supply(struct readers *rs, struct sym_python *sym, const struct ev_code *ev,
		     const struct py_layout *layout, int wanted);

#endif /* PYPERF_READCODE_H */
