/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The windows in which BPF counts, and the code objects that it remembers. */
#include "follow/object_parts.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* An array of maps: who updates one waits for the programs that run (maybe_wait_bpf_programs()). */
static int wait_by_map(void)
{
	int inner = bpf_map_create(BPF_MAP_TYPE_ARRAY, NULL, 4, 4, 1, NULL), outer, err;
	LIBBPF_OPTS(bpf_map_create_opts, opts, .inner_map_fd = (uint32_t)inner);
	uint32_t zero = 0;

	if (inner < 0)
		return inner;
	outer = bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, NULL, 4, 4, 1, &opts);
	err = outer < 0 ? outer : bpf_map_update_elem(outer, &zero, &inner, BPF_ANY);
	if (outer >= 0)
		close(outer);
	close(inner);
	return err;
}

/*
 * membarrier(2) fails with nohz_full, and does nothing where there is one CPU, on which a program
 * may be preempted all the same.
 */
void wait_for_programs(void)
{
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1 &&
	    !syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
		return;
	if (wait_by_map() < 0)
		usleep(20000); /* longer than most programs run */
}

unsigned object__flip(struct object *o)
{
	unsigned old = o->bss->active_window & 1;

	o->bss->chunks_added[!old] = 0;
	o->bss->counts_added[!old] = 0;
	__atomic_store_n(&o->bss->active_window, !old, __ATOMIC_SEQ_CST);
	wait_for_programs();
	return old;
}

bool object__wants_flip(const struct object *o)
{
	const struct pyperf_cfg *cfg = (const struct pyperf_cfg *)&o->skel->rodata->cfg;
	unsigned window = o->bss->active_window & 1;

	return o->bss->chunks_added[window] >= cfg->chunks_wake ||
	       o->bss->counts_added[window] >= cfg->counts_wake;
}

void object__fill(const struct object *o, uint64_t processes, struct table_fill out[OBJECT_FILLS])
{
	unsigned window = o->bss->active_window & 1;

	out[0] = (struct table_fill){ "counts", o->bss->counts_added[window],
				      bpf_map__max_entries(o->skel->maps.counts0) };
	out[1] = (struct table_fill){ "chunks", o->bss->chunks_added[window],
				      bpf_map__max_entries(o->skel->maps.chunks0) };
	out[2] = (struct table_fill){ "procs", processes,
				      bpf_map__max_entries(o->skel->maps.procs) };
}

int object__counts_fd(const struct object *o, unsigned window)
{
	return bpf_map__fd(window ? o->skel->maps.counts1 : o->skel->maps.counts0);
}

int object__chunks_fd(const struct object *o, unsigned window)
{
	return bpf_map__fd(window ? o->skel->maps.chunks1 : o->skel->maps.chunks0);
}

int object__loops_fd(const struct object *o)
{
	return bpf_map__fd(o->skel->maps.loops);
}

struct shares *object__loop_shares(const struct object *o)
{
	return o->loop_shares;
}

int object__code_ids(struct object *o, bool (*keep)(void *ctx, uint64_t id), void *ctx,
		     uint64_t **ids, size_t *cnt)
{
	int fd = bpf_map__fd(o->skel->maps.codes), err = 0;
	uint32_t cap = bpf_map__max_entries(o->skel->maps.codes), token, n;
	struct code_key *keys = calloc(cap, sizeof(*keys));
	struct code_val *vals = calloc(cap, sizeof(*vals));
	bool first = true;

	*cnt = 0;
	*ids = calloc(2 * (size_t)cap, sizeof(**ids));
	if (!keys || !vals || !*ids)
		err = -ENOMEM;
	while (!err && *cnt <= cap) { /* what moves meanwhile may be found twice */
		n = cap;
		err = bpf_map_lookup_batch(fd, first ? NULL : &token, &token, keys, vals, &n, NULL);
		first = false;
		for (uint32_t i = 0; i < n && (!err || err == -ENOENT); i++) {
			if (keep(ctx, vals[i].id) || bpf_map_delete_elem(fd, &keys[i]))
				(*ids)[(*cnt)++] = vals[i].id;
		}
	}
	free(keys);
	free(vals);
	if (err && err != -ENOENT)
		return err;
	/*
	 * A running program that has found a deleted entry still puts it into its CPU's cache,
	 * under the epoch in which it began.
	 */
	wait_for_programs();
	__atomic_add_fetch(&o->bss->code_epoch, 1, __ATOMIC_SEQ_CST);
	return 0;
}
