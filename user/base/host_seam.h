/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_HOST_SEAM_H
#define PYPERF_HOST_SEAM_H
/*
 * Declares the seam of bpf/seam.bpf.h as static, for one file that compiles the walkers for itself:
 * it includes this header before the walkers and defines the functions that are only declared here.
 * The later declarations without a storage class then refer to the same static functions (C11
 * 6.2.2).
 */
#include <linux/types.h>
#include <stddef.h>

#include "bpf/pyperf.h"

struct walk;
struct known_code;
struct code_row;
struct known_place;
struct mapping;
struct interp;
struct ev_blob;
struct ev_code;

static int read_user(void *dst, __u32 sz, __u64 src);
static struct walk *the_walk(void);
static __u64 *the_deep(void);
static const struct mapping *get_mapping(__u32 index);
static void note_frame(const struct walk *w, __u64 frame);
static void *uw_table(__u32 index);
static const __u32 *uw_words(void *table, __u32 word, __u32 cnt);
static struct interp *get_interp(__u32 index);
static __u64 code_lookup(__u64 addr, __u64 fingerprint);
static int code_insert(struct walk *w);
static __u64 code_new_id(void);
static struct ev_blob *blob_scratch(void);
static struct ev_code *code_scratch(void);
static int blob_send(const void *data, __u32 size, int wake_now);

/* The same in all such files: the default depth, and no caches between walks. */

static __u32 deep_parts(void)
{
	return STACK_DEPTH_DEFAULT;
}

static __u32 max_frames(void)
{
	return STACK_DEPTH_DEFAULT;
}

#ifndef HOST_NOTES_TSTATES
static void note_tstate(const struct walk *w, __u64 tstate)
{
	(void)w, (void)tstate;
}
#endif

static void note_seen(__u32 file)
{
	(void)file;
}

static struct known_place *the_places(void)
{
	return NULL;
}

static struct known_code *code_slot(__u32 index)
{
	(void)index;
	return NULL;
}

static struct code_row *code_row(__u32 index)
{
	(void)index;
	return NULL;
}

#endif /* PYPERF_HOST_SEAM_H */
