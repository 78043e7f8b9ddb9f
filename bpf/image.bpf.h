/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef PYPERF_IMAGE_H
#define PYPERF_IMAGE_H
/* The mappings and interpreters of the process, from user space, in the form for the walkers. */
#include "state.bpf.h"

BPF_INLINE void load_image(struct walk *w, const struct image *im)
{
	w->image.map_first = im->map_first;
	w->image.map_cnt = im->map_cnt;
	w->image.is_cut = im->flags & IMAGE_CUT;
	w->place.map.start = w->place.map.end = 0;
	w->image.has_python = 0;
	w->image.interp_cnt = im->interp_cnt;
	__builtin_memcpy(w->image.interps, im->interps, sizeof(w->image.interps));
}

/* Selects interpreter n of the process for the walk. 1: there is none. */
BPF_INLINE int load_interp(struct walk *w, __u32 n)
{
	const struct image_interp *ii = &w->image.interps[BOUND(n, IMAGE_INTERPS)];
	const struct interp *in = get_interp(ii->interp);
	__u64 bias = ii->bias;

	if (!in)
		return 1;
	w->interp = *in;
	w->image.interp = ii->interp;
	w->image.bias = bias;
	w->interp.interp_head += bias;
	w->interp.code_type += bias;
	for (int i = 0; i < MAX_EVAL_RANGES; i++) {
		if (!w->interp.eval[i].end)
			continue;
		w->interp.eval[i].start += bias;
		w->interp.eval[i].end += bias;
	}
	w->image.has_python = 1;
	return 0;
}

#endif /* PYPERF_IMAGE_H */
