/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

struct hash_slot {
	uint32_t hash;
	uint32_t element; /* HASH_NONE: the slot is free */
};

#define FIRST_CAP 64

struct hash_key hash_key(void)
{
	/* 16 random bytes that the kernel gave to this process, see getauxval(3). */
	const void *random = (const void *)getauxval(AT_RANDOM);
	struct hash_key key = { { 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f } };

	if (random)
		memcpy(&key, random, sizeof(key));
	return key;
}

static uint64_t rotl(uint64_t x, unsigned n)
{
	return x << n | x >> (64 - n);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotl(v[1], 13) ^ v[0];
	v[3] = rotl(v[3], 16) ^ v[2];
	v[0] = rotl(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = rotl(v[1], 17) ^ v[2];
	v[3] = rotl(v[3], 21) ^ v[0];
	v[2] = rotl(v[2], 32);
}

static void sip_absorb(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	sip_round(v);
	v[0] ^= word;
}

/* SipHash-1-3: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF", section 2. */
uint64_t hash_bytes(const struct hash_key *key, const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t v[4] = { key->k[0] ^ 0x736f6d6570736575, key->k[1] ^ 0x646f72616e646f6d,
			  key->k[0] ^ 0x6c7967656e657261, key->k[1] ^ 0x7465646279746573 };
	uint64_t last = (uint64_t)len << 56, word;
	size_t left = len;

	for (; left >= sizeof(word); left -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		sip_absorb(v, word);
	}
	for (size_t i = 0; i < left; i++)
		last |= (uint64_t)p[i] << (8 * i);
	sip_absorb(v, last);
	v[2] ^= 0xff;
	for (int i = 0; i < 3; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void hash_index__free(struct hash_index *x)
{
	free(x->slots);
	*x = (struct hash_index){ 0 };
}

uint32_t hash_index__next(const struct hash_index *x, uint64_t hash, size_t *at)
{
	/* Ends at a free slot: hash_index__reserve() keeps a quarter of them free. */
	while (*at < x->cap) {
		const struct hash_slot *slot = &x->slots[(hash + *at) & (x->cap - 1)];

		if (slot->element == HASH_NONE)
			break;
		++*at;
		if (slot->hash == (uint32_t)hash)
			return slot->element;
	}
	return HASH_NONE;
}

static void place(struct hash_slot *slots, size_t cap, uint32_t hash, uint32_t element)
{
	size_t i = hash & (cap - 1);

	while (slots[i].element != HASH_NONE)
		i = (i + 1) & (cap - 1);
	slots[i] = (struct hash_slot){ .hash = hash, .element = element };
}

int hash_index__reserve(struct hash_index *x)
{
	size_t cap = x->cap ? x->cap * 2 : FIRST_CAP;
	struct hash_slot *slots;

	if (x->cnt < x->cap / 4 * 3)
		return 0;
	/* Slots are found by the 32 bits of the hash that they store. */
	if (cap > (size_t)UINT32_MAX + 1)
		return -ENOMEM;
	slots = calloc(cap, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < cap; i++)
		slots[i].element = HASH_NONE;
	for (size_t i = 0; i < x->cap; i++)
		if (x->slots[i].element != HASH_NONE)
			place(slots, cap, x->slots[i].hash, x->slots[i].element);
	free(x->slots);
	x->slots = slots;
	x->cap = cap;
	return 0;
}

int hash_index__add(struct hash_index *x, uint64_t hash, uint32_t element)
{
	int err = hash_index__reserve(x);

	if (err)
		return err;
	place(x->slots, x->cap, (uint32_t)hash, element);
	x->cnt++;
	return 0;
}

int array_grow(void *array, size_t *cap, size_t cnt, size_t more, size_t size, size_t max)
{
	size_t need, new_cap, bytes;
	void *old, *new;

	if (__builtin_add_overflow(cnt, more, &need) || need > max)
		return -ENOMEM;
	if (need <= *cap)
		return 0;
	new_cap = *cap > max / 2 ? max : *cap * 2;
	if (new_cap < need)
		new_cap = need;
	if (new_cap < 16 && max >= 16)
		new_cap = 16;
	if (__builtin_mul_overflow(new_cap, size, &bytes))
		return -ENOMEM;
	memcpy(&old, array, sizeof(old)); /* `array` is the address of a pointer to any type */
	new = realloc(old, bytes);
	if (!new)
		return -ENOMEM;
	memcpy(array, &new, sizeof(new));
	*cap = new_cap;
	return 0;
}
