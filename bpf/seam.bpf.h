/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef PYPERF_SEAM_H
#define PYPERF_SEAM_H
/*
 * The seam: everything the walkers ask of the outside world. Two bodies: BPF helpers and maps when
 * compiled for the kernel, functions that a test (or a host tool) supplies otherwise.
 *
 *   read_user()     all or nothing; 0 or negative errno; dst is zeroed on failure
 *   the_walk()      scratch of the sample at hand; NULL never happens but the verifier asks
 *   the_stack()     the merged stack of the sample at hand
 *   get_mapping()   entry of `mappings`; NULL beyond the end
 *   note_seen()     the walk came by a file
 *   code_slot()     one of CODE_SLOTS places of a cache; NULL: there is none
 *   code_row()      one of CODE_ROWS of another; NULL: there is none
 *   note_tstate()   the thread state in w->buf is another thread's
 *   note_frame()    the walk is at this Python frame, which frame64() reads
 *   the_places()    a cache of PLACE_SLOTS; NULL: there is none
 *   uw_table(), uw_words()   the unwind table of a file, word by word
 *   get_interp()    entry of `interps`
 *   code_lookup(), code_new()    identity of code objects (codes.bpf.h)
 */
#include "pyperf.h"

typedef __u64 uaddr_t; /* an address of the target: an integer, never a pointer */

#define BPF_INLINE static inline __attribute__((always_inline, unused))
#ifdef __bpf__
/*
 * weak: otherwise clang specialises the function for its callers, and the verifier sees other
 * arguments.
 */
#define BPF_NOINLINE __attribute__((weak, noinline))
#else
#define BPF_NOINLINE static __attribute__((noinline, unused))
#endif

/*
 * The argument of a function that needs none and is verified on its own; callers pass 0.
 * (void) loads on 6.18; it has not been tried on older kernels.
 */
#define NO_ARG __u32 no_arg __attribute__((unused))

#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif

/*
 * An index below a power of two, masked where the verifier can see it: without the barrier clang
 * knows from an earlier comparison that the mask changes nothing, and drops it.
 */
#define BOUND(index, size)                                                                         \
	({                                                                                         \
		__u32 bound_ = (__u32)(index);                                                     \
		__asm__ volatile("" : "+r"(bound_));                                               \
		bound_ &((size)-1);                                                                \
	})

#ifdef __bpf__

#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

BPF_INLINE int read_user(void *dst, __u32 sz, uaddr_t src)
{
	return (int)bpf_probe_read_user(dst, sz, (const void *)(unsigned long)src);
}

#else

#include <stddef.h>

int read_user(void *dst, __u32 sz, uaddr_t src);

#endif /* __bpf__ */

#endif /* PYPERF_SEAM_H */
