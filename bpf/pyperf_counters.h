/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_COUNTERS_CONTRACT_H
#define PYPERF_COUNTERS_CONTRACT_H
/*
 * Part of the contract (pyperf.h): what is counted about samples and events, with the text that
 * says it. BPF counts on each CPU; user/ adds up.
 */
#include "pyperf_limits.h"

/*
 * delivered = counted + filtered_* + lost_*, always. The note_* counters describe counted samples
 * (a sample may have several) and other events; no sum includes them. User space counts those about
 * tables and files.
 */
#define PYPERF_COUNTERS(X)                                                                         \
	X(delivered, "samples that the kernel delivered to the program")                           \
	X(counted, "samples added to a stack's count")                                             \
	X(complete, "counted samples whose user stack reached its root, native and Python")        \
	X(user_stacks, "counted samples that have a user stack")                                   \
	X(filtered_idle, "samples of the idle task or a kernel thread")                            \
	X(filtered_target, "samples of processes that were not asked for (-p)")                    \
	X(filtered_comm, "samples of other command names (--comm)")                                \
	X(filtered_cgroup, "samples of other control groups (-C)")                                 \
	X(filtered_user, "samples of processes of other users (-u)")                               \
	X(filtered_thread, "samples of other threads (-t)")                                        \
	X(filtered_python, "samples of processes without Python")                                  \
	X(filtered_exited, "samples of processes past their exit")                                 \
	X(filtered_pidns, "samples of processes outside the caller's pid namespace")               \
	X(filtered_unknown, "samples of processes that ended before they were analysed")           \
	X(filtered_released, "samples of memory that was given back before the end")               \
	X(filtered_share, "samples of users over their share: others of theirs stand for them")    \
	X(filtered_condition, "hits of probes whose condition was not true (if)")                  \
	X(filtered_nmi, "hits of tracepoints in NMI context, where nothing may be kept")           \
	X(lost_no_proc, "samples of processes that were not known")                                \
	X(lost_counts_full, "samples dropped because the table of counts was full")                \
	X(lost_chunks_full, "samples dropped because the table of stacks was full")                \
	X(lost_nmi_miss, "samples of new stacks in NMI context that found no way to user space")   \
	X(lost_internal, "samples dropped by an internal look-up that cannot fail")                \
	X(lost_argument, "hits of probes whose argument could not be read")                        \
	X(lost_busy, "hits of probes while their CPU was in the middle of another hit")            \
	X(note_truncated, "counted samples whose outermost frames were cut")                       \
	X(note_native_lost, "counted samples whose native stack ended early")                      \
	X(note_python_lost, "counted samples whose Python stack ended early")                      \
	X(note_pending, "counted samples of processes not yet analysed")                           \
	X(note_shim_jump, "native stacks continued at a Python frame across code without rows")    \
	X(note_no_regs, "counted samples without user registers")                                  \
	X(note_code_new, "code objects seen for the first time")                                   \
	X(note_code_lost, "code objects whose names found no room in the ring buffer")             \
	X(note_code_table, "code objects that found no room in the table")                         \
	X(note_proc_full, "processes that found no room in the table")                             \
	X(note_event_lost, "process events that found no room in the ring buffer")                 \
	X(note_fork, "forks followed")                                                             \
	X(note_exec, "execs seen")                                                                 \
	X(note_exit, "exits seen")                                                                 \
	X(note_tstate_scan, "walks of the list of thread states")                                  \
	X(note_remapped, "executable mappings whose address range was reused")                     \
	X(note_table_evicted, "unwind tables evicted to make room for others (--table-memory)")    \
	X(note_table_refused, "unwind tables that found no room (--table-memory)")                 \
	X(note_file_released, "files closed because no process maps and no stack names them")      \
	X(follow_ns,                                                                               \
	  "ns that the programs ran that follow processes (in record if the kernel counts it)")    \
	X(frames_native, "native frames unwound")                                                  \
	X(frames_python, "Python frames walked")                                                   \
	X(frames_kernel, "kernel frames")                                                          \
	X(note_handed_over, "counted samples of new stacks that NMI context left to user space")   \
	X(note_proc_busy, "changes to the table of processes that the kernel refused")             \
	X(timed_samples, "samples whose run time was measured")                                    \
	X(timed_ns, "nanoseconds that these ran")                                                  \
	X(note_rate_lowered, "times that sampling was slowed down because it took too much CPU")   \
	X(note_kernel_rate, "times that kernel.perf_event_max_sample_rate was lowered")            \
	X(note_throttled, "times that the kernel stopped sampling a CPU until its next tick")      \
	X(note_wait_full, "times that a thread found no room in the table of waiting threads")     \
	X(note_missed, "samples of the clock that never came")                                     \
	X(note_amount_cut, "hits of probes whose amount was negative or more than 1 TiB (sum)")    \
	X(note_refused, "users or processes of which nothing is read, because they do not answer") \
	X(note_loops_full, "times that a thread found no room in the table of event loops")        \
	X(note_memory_full, "sampled pages or blocks of memory that found no room in their table")

enum pyperf_counter {
#define X(name, text) CTR_##name,
	PYPERF_COUNTERS(X)
#undef X
		CTR_CNT
};

/* Value types that are counted in one run. */
#define SAMPLED_MAX   4

/* The counters of one CPU. A power of two, so that the verifier sees the bound. */
#define COUNTER_SLOTS 64
struct counters {
	__u64 n[COUNTER_SLOTS];
	/* What the counter of the event shows: struct bpf_perf_event_value. */
	__u64 counter, counter_enabled, counter_running;
	__u64 counter_at[SAMPLED_MAX]; /* ... and what it showed at the last sample of each event */
	__u64 begin_ns;		       /* start of the current sample, if it is timed; else 0 */
	__u64 next_value;	       /* value of the next sample, where that is not 1 */
	__u32 type;		       /* ... and the number of its event */
	__u32 next_type;	       /* event of the next sample: set before the tail call */
	__u32 claims;		       /* programs between claim and release: claim_scratch() */
	__u32 stands_for; /* number of its user's samples that the current one stands for */
};
_Static_assert(CTR_CNT <= COUNTER_SLOTS, "COUNTER_SLOTS");

#endif /* PYPERF_COUNTERS_CONTRACT_H */
