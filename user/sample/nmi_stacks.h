/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_NMI_STACKS_H
#define PYPERF_NMI_STACKS_H
/*
 * The samples of one window that BPF handed over with their stacks, because it may not insert in
 * NMI context (struct ev_stack).
 *
 * The sample itself is counted here, once. After that its stack has an entry in the window's
 * counts, to which BPF adds. That entry has no chunks: nmi_stacks__stack() has its words. So the
 * counts can be read as without NMI.
 *
 *	nmi_stacks__add(&h, ev, size);		 for each record
 *	for (i = 0; i < h.cnt; i++) ...		 when the window is read
 *	nmi_stacks__clear(&h);
 *
 * Valid when all zero. Owns its words.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/idmap.h"
#include "bpf/pyperf.h"

struct nmi_stack {
	uint32_t cnt;
	uint64_t words[]; /* outermost first */
};

struct nmi_stacks {
	struct count_key *keys; /* of each sample; vals[].samples is 1 */
	struct count_val *vals;
	size_t cnt, cap, val_cap;
	struct idmap stacks; /* COUNT_HASH(key.stack) -> struct nmi_stack */
};

/* Adds a record of `size` bytes. 0, -ENOMEM, or -EBADMSG: not such a record. */
int nmi_stacks__add(struct nmi_stacks *h, const struct ev_stack *ev, size_t size);
/* Borrowed until nmi_stacks__clear(); NULL: there is none. */
const struct nmi_stack *nmi_stacks__stack(const struct nmi_stacks *h, uint64_t hash);
void nmi_stacks__clear(struct nmi_stacks *h);

#endif /* PYPERF_NMI_STACKS_H */
