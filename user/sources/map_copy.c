/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sources/map_copy.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#define BATCH	  4096
#define BATCH_MAX (1U << 22)

int map_copy__reserve(struct map_copy *m, size_t key_size, size_t value_size, size_t need)
{
	size_t cap = m->cap ? m->cap : BATCH;
	void *keys, *values;

	while (cap < need)
		cap *= 2;
	if (cap == m->cap)
		return 0;
	keys = realloc(m->keys, cap * key_size);
	if (keys)
		m->keys = keys;
	values = realloc(m->values, cap * value_size);
	if (values)
		m->values = values;
	if (!keys || !values)
		return -ENOMEM;
	m->cap = cap;
	return 0;
}

/* One batch. 1: there are more. */
static int take_batch(struct map_copy *m, int fd, size_t key_size, size_t value_size,
		      uint32_t *batch, uint32_t *token, int first)
{
	uint32_t n = *batch;
	int err = map_copy__reserve(m, key_size, value_size, m->cnt + n);

	if (err)
		return err;
	err = bpf_map_lookup_batch(fd, first ? NULL : token, token,
				   (char *)m->keys + m->cnt * key_size,
				   (char *)m->values + m->cnt * value_size, &n, NULL);
	if (err == -ENOSPC && *batch < BATCH_MAX) { /* one bucket holds more than a batch */
		*batch *= 2;
		return first ? -EAGAIN : 1;
	}
	if (err && err != -ENOENT)
		return err;
	m->cnt += n;
	return err ? 0 : 1;
}

int map_copy__take(struct map_copy *m, int fd, size_t key_size, size_t value_size)
{
	uint32_t batch = BATCH, token = 0;
	int more, first = 1;

	*m = (struct map_copy){ 0 };
	do {
		more = take_batch(m, fd, key_size, value_size, &batch, &token, first);
		if (more > 0)
			first = 0;
	} while (more > 0 || more == -EAGAIN);
	return more;
}

void map_copy__free(struct map_copy *m)
{
	free(m->keys);
	free(m->values);
	*m = (struct map_copy){ 0 };
}
