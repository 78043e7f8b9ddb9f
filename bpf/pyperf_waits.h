/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_WAITS_CONTRACT_H
#define PYPERF_WAITS_CONTRACT_H
/*
 * Part of the contract (pyperf.h): threads as they are now, waits, the GIL, who ends waits, event
 * loops. BPF writes, but for the configurations; user/ reads, and deletes what has ended.
 */
#include "pyperf_limits.h"

/* ---- Threads, as they are now ---------------------------------------------------------------- */

enum thread_flags {
	THREAD_ON_CPU = 1 << 0,	  /* was running: the data are old */
	THREAD_REGS = 1 << 1,	  /* regs and pc are set */
	THREAD_COMPAT32 = 1 << 2, /* of a 32-bit program: regs and pc are not set */
};

/* From include/linux/sched.h, the same in all kernels from 4.14 on. */
enum thread_state {
	THREAD_RUNNABLE = 0,
	THREAD_SLEEPING = 0x1,
	THREAD_BLOCKED = 0x2, /* cannot be interrupted */
	THREAD_STOPPED = 0x4,
	THREAD_TRACED = 0x8,
};

#define THREAD_KERN_FRAMES 64

/*
 * The record that the iterator of threads.bpf.c writes for each thread of the process. If a thread
 * is not on a CPU now and at a later look, and `switches` is the same, it did not run in between:
 * the kernel adds to it whenever it takes a thread off its CPU, before on_cpu becomes 0
 * (__schedule()).
 */
struct thread_now {
	__u32 tid;	  /* as the caller's pid namespace sees it */
	__u32 flags;	  /* enum thread_flags */
	__u32 state;	  /* enum thread_state, and other bits */
	__u32 exit_state; /* not 0: it has ended, and nobody has waited for it yet */
	__u64 switches;
	__u64 tp; /* thread pointer */
	__u64 pc;
	__u64 regs[GREG_CNT]; /* includes sp, fp and the arguments of a system call */
	__s64 syscall;	      /* number of its system call; negative: it is in none */
	char comm[TASK_COMM_LEN];
	char leader_comm[TASK_COMM_LEN]; /* of the first thread: what the process is called */
	__u32 kernel_cnt;
	__u32 inner_tid; /* as the process itself sees it */
	__u32 tgid;	 /* as `tid` */
	__u32 pad;
	__u64 start_ns;			  /* when it began, by bpf_ktime_get_ns() */
	__u64 kernel[THREAD_KERN_FRAMES]; /* addresses, innermost first */
};
PYPERF_ASSERT_SIZE(struct thread_now, 48 + 8 * GREG_CNT + 56 + 8 * THREAD_KERN_FRAMES);

/* ---- Waiting ------------------------------------------------------------------------------ */

#define WAIT_CALLS   512   /* numbers of system calls in wait_cfg.call */
#define WAIT_THREADS 16384 /* of waits, and of gil_threads */

/* The meaning of the first argument of a system call. */
enum wait_call {
	WAIT_CALL_OTHER = 0,
	WAIT_CALL_FILE = 1, /* a descriptor: the kind of its file is the reason of the wait */
	WAIT_CALL_FUTEX = 2,
	WAIT_CALL_SELECT = 3, /* a number of descriptors: 0 means a sleep */
	WAIT_CALL_SLEEP = 4,
	WAIT_CALL_POLL = 5,
	WAIT_CALL_EPOLL = 6, /* a descriptor that tells one poll from another */
};

/*
 * wait_state: user/ writes it before it attaches the scheduler's program. Waits before `since_ns`
 * do not count.
 */
enum wait_state_flags {
	/*
	 * The stack is taken when the thread leaves its system call, so a wait outside a system
	 * call has no stack.
	 */
	WAIT_LATE = 1 << 0,
};

/*
 * What a wait of `ns` counts, given 32 random bits. The product of these bits and of the step has
 * 96 bits: a step is longer than 4.29 s where samples are rare.
 */
static inline __attribute__((always_inline, unused)) __u64 wait_drawn(__u32 any, __u64 ns,
								      __u64 step_ns)
{
	__u64 at = any * (step_ns >> 32) + (any * (step_ns & 0xffffffff) >> 32);

	if (ns >= step_ns)
		return ns;
	return at < ns ? step_ns : 0;
}

struct wait_state {
	__u64 since_ns;
	/* a shorter wait is sampled with probability length / step_ns, and counts as step_ns */
	__u64 step_ns;
	__u64 counted_ns; /* of waits that began before it user/ may count a part; 0: of none */
	__u32 flags;
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct wait_state, 32);

/*
 * counted_waits: thread, as wait_thread.tid -> the part of a wait that user/ counts before the wait
 * ends: from `out_ns`, where it began, to `until_ns`. user/ inserts and deletes. When the wait ends
 * BPF counts what is left of it, and says so here, because the thread may end next: counted.bpf.h.
 */
struct wait_counted {
	__u64 out_ns, until_ns;
	__u64 left_ns; /* `out_ns` when BPF has left the part out; another number says nothing */
};
PYPERF_ASSERT_SIZE(struct wait_counted, 24);

/* In .rodata of the object of waits, written before it is loaded. */
struct wait_cfg {
	__u64 least_ns; /* shorter waits do not count */
	__u32 type;	/* number of the value type */
	__u32 pad;
	__u8 call[WAIT_CALLS]; /* enum wait_call, by number of the system call */
};
PYPERF_ASSERT_SIZE(struct wait_cfg, 16 + WAIT_CALLS);

/*
 * waits: thread, by the kernel's number -> where its time goes. Times are those of
 * bpf_ktime_get_ns(). BPF writes; user/ reads who waits when a window ends.
 */
struct wait_thread {
	__u64 out_ns;	/* it left its CPU; 0: it is on one */
	__u64 woken_ns; /* when it was woken last */
	__u64 in_ns;	/* when it came to its CPU; 0: not seen */
	/* Sampled waits that are still to be counted with a stack, and those without a stack. */
	__u64 due_wait_ns, due_queue_ns;
	__u64 bare_wait_ns, bare_queue_ns;
	/* Sums over all of its life that was seen. */
	__u64 ran_ns, queued_ns, waited_ns;
	__u32 tgid, tid; /* as the caller's pid namespace sees them */
	__u16 preempted; /* it left its CPU although it could run */
	__u8 in_call;	 /* ... in a system call; of WAIT_LATE only */
	__u8 polls;	 /* ... to wait in the poll of struct loop_thread */
	__u32 slot;	 /* of struct shares */
	__u64 futex;	 /* the futex of its last wait, if that is known */
};
PYPERF_ASSERT_SIZE(struct wait_thread, 104);

/* ---- Event loops ---------------------------------------------------------------------------- */

#define LOOP_THREADS 1024
#define LOOP_BUCKETS                                                                               \
	32 /* by the binary logarithm of microseconds; what is less counts in the first */
#define LOOP_LONGEST  10
#define LOOP_STACKS   6
#define LOOP_SLOW_NS  50000000 /* all others of a service wait so long */
#define LOOP_NO_FD    0xffffffffU
#define LOOP_OTHERS   16 /* waits in another poll after which that one is the loop's */

/* In the number of a thread: what it did in the program that exec() has replaced. */
#define LOOP_REPLACED (1U << 31)

struct loop_stack {
	__u64 stack; /* COUNT_HASH() of its key; 0: none */
	__u64 ns;    /* counted there */
};

/* What a thread did between two waits in its poll. */
struct loop_stretch {
	__u64 begin_ns, end_ns;
	__u64 other_ns; /* counted at stacks that found no room */
	struct loop_stack stacks[LOOP_STACKS];
};
PYPERF_ASSERT_SIZE(struct loop_stretch, 24 + 16 * LOOP_STACKS);

/*
 * loops: number of a thread, as the kernel has it -> how it waits in its poll, and what it does
 * between. BPF writes; user/ reads, and takes out those of threads that have ended. Whether the
 * poll is an event loop's, its stack says. The longest are those that ended in the window of this
 * number, which user/ counts up where it wants them anew: struct shares.
 */
struct loop_thread {
	__u64 poll_stack; /* COUNT_HASH(), as of struct loop_stack */
	__u64 busy_ns,
		slow_ns;     /* sums of stretches that have ended, and of those of LOOP_SLOW_NS */
	__u64 least_ns;	     /* of the longest, once there are LOOP_LONGEST */
	__u64 known_ns;	     /* since when: what it did before was forgotten, or not seen */
	__u32 cnt, slow_cnt; /* they wrap, as hist does */
	__u32 call, fd;	     /* its poll: number of the system call, descriptor or LOOP_NO_FD */
	__u32 space, tgid, tid;
	__u32 slot;   /* of struct shares */
	__u32 others; /* waits in another poll since the last in its own */
	__u32 ended;  /* the thread has */
	__u32 longest_cnt, window;
	__u32 hist[LOOP_BUCKETS];
	struct loop_stretch now;		   /* begin_ns is 0 while it polls */
	struct loop_stretch longest[LOOP_LONGEST]; /* in no order */
};
PYPERF_ASSERT_SIZE(struct loop_thread,
		   88 + 4 * LOOP_BUCKETS + (LOOP_LONGEST + 1) * (24 + 16 * LOOP_STACKS));

/* sleepers: thread, by the kernel's number -> its wait, as far as its waker needs it. */
struct waker_thread {
	__u64 out_ns; /* it left its CPU to wait; 0: it does not wait */
	__u64 due_ns; /* length of a sampled wait, to be counted with the stack of its waker */
	__u64 futex;  /* on which it waited; 0: on none */
	__u32 slot;   /* of struct shares */
	__u32 tgid;   /* as the caller's pid namespace sees it; 0: the thread has ended */
};
PYPERF_ASSERT_SIZE(struct waker_thread, 32);

/* A GIL, by the address of its struct and the process. */
struct gil_key {
	__u64 gil;
	__u32 tgid; /* as the caller's pid namespace sees it */
	__u32 pad;
};
PYPERF_ASSERT_SIZE(struct gil_key, 16);

/*
 * gils: struct gil_key -> its waiters. BPF inserts and updates. A state that was deleted may come
 * back under the same key: who knew the earlier one knows nothing of it. So a thread has the time
 * at which the state that it counts in was made.
 */
struct gil_state {
	struct gil_key key; /* its own */
	__u64 made_ns;
	/*
	 * The number of waiters (the low 16 bits) and, modulo 2^48, the sum of the times at which
	 * waits ended minus the sum of the times at which they began. One word, so that one
	 * addition changes both.
	 */
	__u64 waiters;
	__u64 charged; /* the part of the waited time with which holders have been charged */
	/*
	 * Where its futexes are, of `size` bytes: 2.7 makes others in a child of fork(). The rest
	 * are offsets: see struct interp; thread_id is one in a PyThreadState.
	 */
	__u64 locks;
	__u32 holder, locked;
	__u16 size, thread_id;
	__u32 threads; /* threads that use this GIL; the entry of a GIL without any is deleted */
};
PYPERF_ASSERT_SIZE(struct gil_state, 64);

/*
 * gil_threads: thread, by the kernel's number -> its relation to the GIL of its interpreter.
 * "Waited" is the time that all threads have waited for that GIL. BPF writes.
 */
struct gil_thread {
	__u64 gil;	  /* 0: not known */
	__u64 made_ns;	  /* that of its gil_state */
	__u64 look_ns;	  /* when to look for it */
	__u64 out_ns;	  /* it left its CPU; 0: it is on one */
	__u64 waited_out; /* "waited" when it left its CPU */
	__u64 away;	  /* increase of "waited" while it was off its CPU; 0: used already */
	/* To be counted with its stack. */
	__u64 due_wait_ns, due_held_ns;
	__u32 tgid;	   /* as the caller's pid namespace sees it */
	__u32 slot;	   /* of struct shares */
	__u32 look_gap_ns; /* until the next look */
	__u16 waits;	   /* it is off its CPU for the GIL, and counted in gil_state.waiters */
	__u8 preempted;	   /* see struct wait_thread */
	__u8 in_call;
};
PYPERF_ASSERT_SIZE(struct gil_thread, 80);

#endif /* PYPERF_WAITS_CONTRACT_H */
