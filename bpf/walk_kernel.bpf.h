/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_WALK_KERNEL_H
#define PYPERF_WALK_KERNEL_H
/*
 * Stage 2: kernel frames.
 * Input:   the context of the program, and its registers; NULL: it runs in the kernel.
 * Output:  the first words of DEEP_FRAMES, innermost first; their number.
 * Cost:    1.5 to 2 us when the sample hit the kernel, else nothing.
 * Fails:   no kernel part: 0 frames.
 */
#include "maps.bpf.h"
#include "taskinfo.bpf.h"

#define TAG_STEPS 8

/* Turns some of the addresses that lie in DEEP_FRAMES into words, beginning with number `first`. */
BPF_NOINLINE int tag_some(__u32 first, __u32 cnt)
{
	__u64 *deep = the_deep(), *word;

	if (!deep)
		return -1;
	for (__u32 i = 0; i < TAG_STEPS && first + i < cnt; i++) {
		word = &deep[deep_frame(first + i)];
		*word = FRAME_WORD(FRAME_KERNEL, *word);
	}
	return 0;
}

/* ... all of them. */
BPF_INLINE void tag_kernel_frames(__u32 cnt)
{
	for (__u32 i = 0; i < MAX_KERN_FRAMES && i < cnt; i += TAG_STEPS)
		tag_some(i, cnt);
}

/* `skip`: so many of the innermost ones are left out. */
BPF_INLINE void walk_kernel(void *ctx, const user_regs *regs, struct stack *st, __u32 skip)
{
	__u64 *deep = the_deep();
	long size;

	if (!deep || (regs && arch_is_user(regs)))
		return;
	size = bpf_get_stack(ctx, &deep[DEEP_FRAMES * deep_parts()], MAX_KERN_FRAMES * 8,
			     skip & BPF_F_SKIP_FIELD_MASK);
	if (size <= 0)
		return;
	st->cnt = (__u32)size / 8;
	tag_kernel_frames(st->cnt);
}

#endif /* PYPERF_WALK_KERNEL_H */
