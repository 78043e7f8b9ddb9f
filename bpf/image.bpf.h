/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef PYPERF_IMAGE_H
#define PYPERF_IMAGE_H
/* The mappings and interpreters of the process, from user space, in the form for the walkers. */
#include "state.bpf.h"

BPF_INLINE void load_image(struct walk *w, const struct image *im)
{
	w->map_first = im->map_first;
	w->map_cnt = im->map_cnt;
	w->is_cut = im->flags & IMAGE_CUT;
	w->map.start = w->map.end = 0;
	w->has_python = 0;
	w->interp_cnt = im->interp_cnt;
	__builtin_memcpy(w->image, im->interps, sizeof(w->image));
}

/* Selects interpreter n of the process for the walk. 1: there is none. */
BPF_INLINE int load_interp(struct walk *w, __u32 n)
{
	const struct image_interp *ii = &w->image[BOUND(n, IMAGE_INTERPS)];
	const struct interp *in = get_interp(ii->interp);
	__u64 bias = ii->bias;

	if (!in)
		return 1;
	w->in = *in;
	w->interp = ii->interp;
	w->bias = bias;
	w->in.interp_head += bias;
	w->in.code_type += bias;
	for (int i = 0; i < MAX_EVAL_RANGES; i++) {
		if (!w->in.eval[i].end)
			continue;
		w->in.eval[i].start += bias;
		w->in.eval[i].end += bias;
	}
	w->has_python = 1;
	return 0;
}

#endif /* PYPERF_IMAGE_H */
