/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HANDED_H
#define PYPERF_HANDED_H
/*
 * The samples of one window that BPF handed over with their stacks, because it may not insert in
 * NMI context (struct ev_stack).
 *
 * The sample itself is counted here, once. After that its stack has an entry in the window's
 * counts, to which BPF adds. That entry has no chunks: handed__stack() has its words. So the counts
 * can be read as without NMI.
 *
 *	handed__add(&h, ev, size);		 for each record
 *	for (i = 0; i < h.cnt; i++) ...		 when the window is read
 *	handed__clear(&h);
 *
 * Valid when all zero. Owns its words.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/idmap.h"
#include "bpf/pyperf.h"

struct handed_stack {
	uint32_t cnt;
	uint64_t words[]; /* outermost first */
};

struct handed {
	struct count_key *keys; /* of each sample; vals[].samples is 1 */
	struct count_val *vals;
	size_t cnt, cap, val_cap;
	struct idmap stacks; /* COUNT_HASH(key.stack) -> struct handed_stack */
};

/* Adds a record of `size` bytes. 0, -ENOMEM, or -EBADMSG: not such a record. */
int handed__add(struct handed *h, const struct ev_stack *ev, size_t size);
/* Borrowed until handed__clear(); NULL: there is none. */
const struct handed_stack *handed__stack(const struct handed *h, uint64_t hash);
void handed__clear(struct handed *h);

#endif /* PYPERF_HANDED_H */
