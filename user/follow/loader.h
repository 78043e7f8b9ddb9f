/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_LOADER_H
#define PYPERF_LOADER_H
/*
 * Loads a BPF object in a thread of its own. The kernel verifies one program of it, the sampler,
 * for longer than all else takes until the first sample; meanwhile the maps and the other programs
 * are used.
 *
 *	l = loader__new()		before the object is opened
 *	obj = ...__open(), configured
 *	loader__start(l, obj, load, arg)
 *					all maps but those with contents (.rodata) have their
 *					descriptors
 *	loader__wait_early(l)		all programs but the sampler are loaded
 *	loader__wait(l)			all are
 *	loader__free(l)			after the object was closed
 *
 * Between start and wait the object is the thread's: only descriptors may be asked for, those of
 * programs after loader__wait_early().
 */
#include <bpf/libbpf.h>

struct loader;

struct loader *loader__new(void); /* NULL and errno */
/* Waits for the thread. */
void loader__free(struct loader *l);

/* `load` is called in the thread. 0 or negative errno: then nothing was started. */
int loader__start(struct loader *l, const struct bpf_object *obj, int (*load)(void *arg),
		  void *arg);
/* 0, or negative errno: what load() returned, if that came first. */
int loader__wait_early(struct loader *l);
/* What load() returned; 0 if nothing was started. */
int loader__wait(struct loader *l);

#endif /* PYPERF_LOADER_H */
