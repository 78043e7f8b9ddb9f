/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/idmap.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_CAP 64

static size_t home(const struct idmap *m, uint64_t key)
{
	/* Multiply and fold: the keys are small ascending numbers, or inodes with patterns in their
	 * low bits.
	 */
	uint64_t h = (key ^ (key >> 32)) * 0x9e3779b97f4a7c15ULL;

	return (size_t)(h >> 32) & (m->cap - 1);
}

/* The slot of `key`, or the free slot where it would go. There is always a free one. */
static size_t find(const struct idmap *m, uint64_t key)
{
	size_t i = home(m, key);

	while (m->slots[i].value && m->slots[i].key != key)
		i = (i + 1) & (m->cap - 1);
	return i;
}

static int grow(struct idmap *m)
{
	struct idmap bigger = { .cap = m->cap ? m->cap * 2 : FIRST_CAP, .cnt = m->cnt };

	bigger.slots = calloc(bigger.cap, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < m->cap; i++) {
		if (m->slots[i].value)
			bigger.slots[find(&bigger, m->slots[i].key)] = m->slots[i];
	}
	free(m->slots);
	*m = bigger;
	return 0;
}

void idmap__free(struct idmap *m)
{
	free(m->slots);
	*m = (struct idmap){ 0 };
}

void *idmap__get(const struct idmap *m, uint64_t key)
{
	return m->cap ? m->slots[find(m, key)].value : NULL;
}

int idmap__set(struct idmap *m, uint64_t key, void *value)
{
	size_t i;
	int err;

	if (m->cnt * 3 >= m->cap * 2) {
		err = grow(m);
		if (err)
			return err;
	}
	i = find(m, key);
	if (!m->slots[i].value)
		m->cnt++;
	m->slots[i] = (struct idmap_slot){ .key = key, .value = value };
	return 0;
}

void idmap__remove(struct idmap *m, uint64_t key)
{
	size_t mask = m->cap - 1, i, j, h;

	if (!m->cap)
		return;
	i = find(m, key);
	if (!m->slots[i].value)
		return;
	/* Close the gap: pull back every later entry of the run whose home is not behind it. */
	for (j = (i + 1) & mask; m->slots[j].value; j = (j + 1) & mask) {
		h = home(m, m->slots[j].key);
		if (((j - h) & mask) >= ((j - i) & mask)) {
			m->slots[i] = m->slots[j];
			i = j;
		}
	}
	m->slots[i] = (struct idmap_slot){ 0 };
	m->cnt--;
}

void *idmap__next(const struct idmap *m, size_t *at)
{
	while (*at < m->cap) {
		void *value = m->slots[(*at)++].value;

		if (value)
			return value;
	}
	return NULL;
}
