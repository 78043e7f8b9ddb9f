/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_READCODE_H
#define PYPERF_READCODE_H
/*
 * Names that BPF could not read: not resident at the sample, or longer than it sends. User space may
 * take page faults, so it reads them from the living process, at once, and only if the code object is
 * still the one that was announced.
 */
#include "bpf/pyperf.h"
#include "symbolize.h"

/*
 * Supplies to `sym` what is missing of the code object of `ev`, by the layout of its interpreter; `bias`
 * is not needed: `ev` holds addresses. 0, -ESRCH (the process is gone), -ESTALE (another code object
 * is there now), -EFAULT.
 */
int readcode__supply(struct sym_python *sym, const struct ev_code *ev,
		     const struct py_layout *layout);

#endif /* PYPERF_READCODE_H */
