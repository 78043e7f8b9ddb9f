/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HASH_H
#define PYPERF_HASH_H
/*
 * A keyed hash, an index over an array, and growing arrays.
 *
 * The hash is SipHash-1-3 with a random key of this process. Names and stacks come from the
 * processes under observation, and none of them may choose strings that all fall into one bucket.
 *
 * An index holds positions in the caller's array. The caller keeps the elements and decides which
 * are equal. An index is valid when all zero. Elements are never removed.
 *
 *	for (size_t at = 0; (i = hash_index__next(&x, hash, &at)) != HASH_NONE;)
 *		if (elems[i] is the one)
 *			return i;
 *	hash_index__add(&x, hash, new_i);
 */
#include <stddef.h>
#include <stdint.h>

struct hash_key {
	uint64_t k[2];
};

struct hash_key hash_key(void); /* the key of this process, the same at every call */
uint64_t hash_bytes(const struct hash_key *key, const void *data, size_t len);

#define HASH_NONE UINT32_MAX

struct hash_index {
	struct hash_slot *slots;
	size_t cap; /* a power of two, or 0 */
	size_t cnt;
};

void hash_index__free(struct hash_index *x);
/*
 * The position of the next element with this hash; `*at` is 0 at the first call. HASH_NONE: no
 * more.
 */
uint32_t hash_index__next(const struct hash_index *x, uint64_t hash, size_t *at);
/* Reserves room for one more element, so that the next add cannot fail. 0 or -ENOMEM. */
int hash_index__reserve(struct hash_index *x);
/* 0 or -ENOMEM; the index is unchanged then. */
int hash_index__add(struct hash_index *x, uint64_t hash, uint32_t element);

/*
 * Makes room for `more` elements of `size` bytes behind the `cnt` of `*array`, of which there may
 * be at most `max`. 0 or -ENOMEM; the array is unchanged then.
 */
int array_grow(void *array, size_t *cap, size_t cnt, size_t more, size_t size, size_t max);
/* The same for one element; takes the names of array and capacity. */
#define ARRAY_GROW(array, cap, cnt, max)                                                           \
	array_grow(&(array), &(cap), (cnt), 1, sizeof(*(array)), (max))

#endif /* PYPERF_HASH_H */
