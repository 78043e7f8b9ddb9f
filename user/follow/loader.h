/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_LOADER_H
#define PYPERF_LOADER_H
/*
 * Loads a BPF object in a thread of its own. The kernel takes longer to verify one of its programs,
 * the sampler, than everything else takes until the first sample. Meanwhile the maps and the other
 * programs can be used.
 *
 *	l = loader__new()		before the object is opened
 *	obj = ...__open(), configured
 *	loader__start(l, obj, load, arg)
 *					all maps but those with contents (.rodata) have their
 *					descriptors
 *	loader__wait_early(l)		all programs but the sampler are loaded
 *	loader__wait(l)			all programs are loaded
 *	loader__free(l)			after the object was closed
 *
 * Between start and wait the thread owns the object: other threads may ask only for descriptors,
 * for those of programs after loader__wait_early().
 */
#include <bpf/libbpf.h>

struct loader;

struct loader *loader__new(void); /* NULL and errno */
/* Waits for the thread. */
void loader__free(struct loader *l);

/* Starts the thread, which calls `load`. 0 or negative errno: then nothing was started. */
int loader__start(struct loader *l, const struct bpf_object *obj, int (*load)(void *arg),
		  void *arg);
/* 0, or negative errno: load() failed before that point. */
int loader__wait_early(struct loader *l);
/* The result of load(); 0 if nothing was started. */
int loader__wait(struct loader *l);

#endif /* PYPERF_LOADER_H */
