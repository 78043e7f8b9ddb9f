/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/retired.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>

#define IS_THERE ((void *)1)

void retired__add(struct retired *r, pid_t pid)
{
	idmap__set(&r->coming, (uint64_t)pid, IS_THERE);
}

bool retired__has(const struct retired *r, pid_t pid)
{
	return (r->runs && idmap__get(&r->gone, (uint64_t)pid)) ||
	       idmap__get(&r->coming, (uint64_t)pid);
}

bool retired__waits(const struct retired *r)
{
	return r->runs || r->coming.cnt;
}

static void begin_round(struct retired *r)
{
	idmap__free(&r->gone);
	r->gone = r->coming;
	r->coming = (struct idmap){ 0 };
	r->runs = true;
	r->begun = false;
}

static void remove_entries(struct retired *r, const uint8_t *keys, const uint8_t *values,
			   uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++) {
		const uint8_t *key = keys + (size_t)i * r->key_size;
		const uint8_t *value = values + (size_t)i * r->value_size;

		if (!idmap__get(&r->gone, (uint64_t)r->owner(key, value)))
			continue;
		if (!bpf_map_delete_elem(r->fd, key) && r->take)
			r->take(r->ctx, value);
	}
}

int retired__step(struct retired *r)
{
	uint8_t *keys, *values;
	uint32_t cnt = RETIRED_STEP;
	int err = -ENOMEM;

	if (!retired__waits(r))
		return 0;
	if (!r->runs)
		begin_round(r);
	keys = calloc(RETIRED_STEP, r->key_size);
	values = calloc(RETIRED_STEP, r->value_size);
	if (keys && values) {
		/* -ENOENT: these are the last ones. */
		err = bpf_map_lookup_batch(r->fd, r->begun ? &r->at : NULL, &r->at, keys, values,
					   &cnt, NULL);
		r->runs = err != -ENOENT; /* after an error the round begins again */
		r->begun = !err;
		if (!err || err == -ENOENT)
			remove_entries(r, keys, values, cnt);
	}
	free(keys);
	free(values);
	return err == -ENOENT ? 0 : err;
}

int retired__finish(struct retired *r, pid_t pid)
{
	int err = 0;

	while (!err && retired__has(r, pid))
		err = retired__step(r);
	return err;
}

void retired__free(struct retired *r)
{
	idmap__free(&r->gone);
	idmap__free(&r->coming);
}
