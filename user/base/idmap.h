/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_IDMAP_H
#define PYPERF_IDMAP_H
/*
 * A map from 64-bit numbers to pointers, with removal (struct hash_index of hash.h has none). Its
 * keys are numbers that the kernel hands out: address spaces, process ids, inodes. A key has one
 * value; an owner chains the values that share a key. The map does not own its values. Valid when
 * all zero.
 */
#include <stddef.h>
#include <stdint.h>

struct idmap_slot {
	uint64_t key;
	void *value; /* NULL: free */
};

struct idmap {
	struct idmap_slot *slots;
	size_t cap; /* a power of two, or 0 */
	size_t cnt;
};

void idmap__free(struct idmap *m); /* the table, not the values */
void *idmap__get(const struct idmap *m, uint64_t key);
/* Sets or replaces; `value` is not NULL. 0 or -ENOMEM. */
int idmap__set(struct idmap *m, uint64_t key, void *value);
void idmap__remove(struct idmap *m, uint64_t key);
/*
 * The next value; *at is 0 at the first call. NULL: no more. The map must not change meanwhile.
 *
 *	for (size_t at = 0; (v = idmap__next(m, &at));)
 */
void *idmap__next(const struct idmap *m, size_t *at);

#endif /* PYPERF_IDMAP_H */
