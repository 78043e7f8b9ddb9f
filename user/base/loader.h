/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_LOADER_H
#define PYPERF_LOADER_H
/*
 * Loads BPF objects. There are two ways, because the kernel takes longer to verify the sampler than
 * everything else takes until the first sample.
 *
 * What a command waits for anyway is loaded at once:
 *
 *	skel = ...__open(), configured
 *	loader__load_now(skel->skeleton, " of probes", "");
 *
 * What has other work beside it, and other objects, is loaded in a thread of its own:
 *
 *	l = loader__new(btf_fd);	before the object is opened
 *	skel = ...__open_opts(loader__opts(l)), configured
 *	loader__start(l, skel->skeleton, true);
 *					all maps but those with contents (.rodata) have their
 *					descriptors
 *	loader__wait_early(l);		all programs but the sampler are loaded
 *	loader__wait(l);		all programs are loaded
 *	loader__attach(l, program);
 *	loader__free(l);		detaches; before the skeleton is destroyed
 *
 * Between start and wait the thread owns the object: other threads may ask only for descriptors,
 * for those of programs after loader__wait_early().
 */
#include <bpf/libbpf.h>
#include <stdbool.h>

struct loader;

/*
 * `btf_fd`: a file with the kernel's types (kernelbtf.h), which is the loader's from now on;
 * negative: libbpf looks for them. NULL and errno.
 */
struct loader *loader__new(int btf_fd);
/* Of the object that it loads. Borrowed. */
const struct bpf_object_open_opts *loader__opts(const struct loader *l);
/* Detaches, and waits for the thread. */
void loader__free(struct loader *l);

/*
 * Starts the thread. `maps_first`: creates the maps before, which else have their descriptors after
 * loader__wait(). 0 or negative errno: then nothing was started.
 */
int loader__start(struct loader *l, struct bpf_object_skeleton *skel, bool maps_first);
/* 0, or negative errno: loading failed before that point. */
int loader__wait_early(struct loader *l);
/* The result of loading; 0 if nothing was started. */
int loader__wait(struct loader *l);

/* Attaches a program where its section says, until loader__detach(). 0 or negative errno. */
int loader__attach(struct loader *l, const struct bpf_program *program);
void loader__detach(struct loader *l); /* NULL: does nothing */

/* 0, or negative errno after a message. */
int loader__load_now(struct bpf_object_skeleton *skel, const char *of, const char *needs);

#define LOAD_NEEDS_KERNEL "kernel 5.15 or later is needed; "
/*
 * Logs why programs could not be loaded. `of`: which programs (" of probes"), or "". `needs`: the
 * meaning of any failure but missing rights, files or memory, or "".
 */
void loader__say_failed(int err, const char *of, const char *needs);

#endif /* PYPERF_LOADER_H */
