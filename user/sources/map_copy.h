/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_MAP_COPY_H
#define PYPERF_MAP_COPY_H
/*
 * What a hash map in the kernel holds, while programs write to it: an entry that comes or goes
 * meanwhile may be there or not.
 *
 *	struct map_copy m;
 *
 *	if (!map_copy__take(&m, fd, sizeof(key), sizeof(val)))
 *		for (size_t i = 0; i < m.cnt; i++)
 *			use((struct key *)m.keys + i, (struct val *)m.values + i);
 *	map_copy__free(&m);
 */
#include <stddef.h>

struct map_copy {
	void *keys, *values;
	size_t cnt, cap;
};

/* Makes room for `need` entries in all. 0 or -ENOMEM; what is there stays in both cases. */
int map_copy__reserve(struct map_copy *m, size_t key_size, size_t value_size, size_t need);
/* 0 or negative errno; map_copy__free() is due in both cases. */
int map_copy__take(struct map_copy *m, int fd, size_t key_size, size_t value_size);
void map_copy__free(struct map_copy *m);

#endif /* PYPERF_MAP_COPY_H */
