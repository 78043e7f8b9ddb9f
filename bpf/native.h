/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_NATIVE_H
#define PYPERF_NATIVE_H
/*
 * The contract between bpf/native.bpf.c and user/trace/native_calls.c: where the breakpoints of a
 * file's functions are, and what is sent of their hits. The rules of pyperf.h hold.
 */
#include "pyperf.h"

#define NATIVE_PLACES_MAX 16384

/* native_places: the cookie of a breakpoint -> what it is. */
struct native_place {
	__u32 function; /* number */
	__u32 cfa_off;	/* the CFA is so many bytes above the stack pointer there */
	__u8 is_end;	/* the function is left here; else it begins */
	__u8 stepped;	/* the kernel single-steps the instruction: a hit costs much more */
	__u8 pad[6];
};
PYPERF_ASSERT_SIZE(struct native_place, 16);

enum native_kind {
	NATIVE_CALL = 1,
	NATIVE_RETURN = 2,
	NATIVE_OVER = 3, /* the first function has ended at an unknown time: by an exception */
};

/* In `native_events`: in a thread that is inside of the first function, that itself. */
struct native_event {
	__u64 ns;  /* CLOCK_MONOTONIC */
	__u64 cfa; /* of the function's frame; of callers it is higher */
	__u32 tid;
	__u32 function;
	__u32 kind; /* enum native_kind */
	__u32 lost; /* events that found no room so far */
};
PYPERF_ASSERT_SIZE(struct native_event, 32);

/* inside: thread -> the call of the first function that it is in. */
struct native_inside {
	__u64 cfa;
	__u64 ra; /* its return address: another one is there when the frame has gone */
};
PYPERF_ASSERT_SIZE(struct native_inside, 16);

/* In .rodata. */
struct native_cfg {
	__u64 pidns_dev; /* /proc/self/ns/pid of the caller, if it is not the initial one */
	__u32 pidns_inum;
	__u32 pidns_level;
	__u32 first;	/* number of the function from which on calls are wanted */
	__u32 ra_below; /* the return address is so many bytes below the CFA */
};
PYPERF_ASSERT_SIZE(struct native_cfg, 24);

#endif /* PYPERF_NATIVE_H */
