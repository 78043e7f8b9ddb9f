/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PROFILE_H
#define PYPERF_PROFILE_H
/*
 * One profile: the counts, at first without and then with names.
 *
 * dump fills in processes, modules, codes and stacks (ids and addresses only); symbolize adds one
 * struct sym per distinct frame; export reads. A profile needs no root, no kernel and no living
 * process, so everything after dump can be tested with a profile built by hand.
 *
 * Ownership: the profile owns everything that is reachable from it. Strings are interned in
 * p->strings and named by str_id; the pointer that profile__str() gives is valid until
 * profile__free(). Arrays may move when something is added: keep indexes, not pointers.
 *
 * Frames of a stack are stored outermost first, as frame words of bpf/pyperf_frames.h.
 *
 *	struct profile *p = profile__new();
 *	int proc = profile__add_proc(p, &(struct profile_proc){ .tgid = 42, .comm = ... });
 *	profile__add_stack(p, proc, 0, words, n, 1);
 *	symbolize(...);
 *	export__folded(p, stdout);
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/pyperf.h"
#include "profile/value.h"

typedef uint32_t str_id; /* index in the profile's string table; 0 is "" */

/* One process (one life of one address space; a process that calls exec is two). */
struct profile_proc {
	uint32_t space; /* key of struct count_key; unique in the profile */
	uint32_t tgid;	/* as the caller's pid namespace sees it */
	str_id comm;
	str_id title;	  /* title for people ("celery worker shop"), "" when not known */
	str_id exe;	  /* path of the executable, "" when not known */
	str_id container; /* container id, "" when none */
	str_id python;	  /* "3.11.2", "" when there is no interpreter */
	/* For reading its source, see source.h. */
	bool ids_known, own_root;
	uint32_t uid, gid;
	uint32_t payer;	    /* who is charged for it: its user, or who made its user namespace */
	str_id native_only; /* why an interpreter shows no Python frames, or "" */
	bool has_python_frames; /* in one of its stacks; profile__add_stack() keeps it */
};

/* A thread's name, when threads are kept apart. */
struct profile_thread {
	uint32_t space;
	uint32_t tid;
	str_id name;
};

/* One ELF file, or one module of the kernel ("[nf_tables]"). The pprof mapping. */
#define PROFILE_NO_FILE UINT32_MAX

struct profile_module {
	uint32_t file; /* file id of NATIVE frame words; PROFILE_NO_FILE: a module of the kernel */
	str_id path;   /* as the first process that mapped it sees it */
	str_id build_id; /* lower-case hex, or "" */
	uint64_t start;	 /* file offsets of its executable part: [start, limit) */
	uint64_t limit;
};

enum sym_flags {
	SYM_INLINED = 1 << 0, /* in the chain of another */
	/* in a view of glue.h only */
	SYM_GLUE = 1 << 1,
	SYM_GLUE_BOX = 1 << 2,
};

enum sym_kind {
	SYM_PYTHON = 1,
	SYM_NATIVE = 2,
	SYM_KERNEL = 3,
	SYM_MARKER = 4,
	SYM_PLAIN = 5, /* only a name; from files of other tools only */
};

/* The name of a frame word. Several words may share one; inlined calls are chained. */
struct sym {
	uint8_t kind;  /* enum sym_kind */
	uint8_t flags; /* enum sym_flags */
	str_id func;   /* qualname or demangled name; "" when not known (then show module+addr) */
	str_id file;   /* source file; "" when not known */
	uint32_t line; /* 0: not known */
	uint32_t start_line; /* of the function; 0: not known */
	int32_t module;	     /* index in modules of a native or kernel frame, -1: none */
	uint64_t addr;	     /* file offset, kernel or anonymous address, or code id */
	int32_t inlined; /* index of the sym of the function inlined into this one here, -1: none */
};

/*
 * One distinct stack of one process (and thread, when threads are kept apart), counted in one value
 * type.
 */
struct profile_stack {
	uint32_t proc;	/* index in procs */
	uint32_t tid;	/* THREAD_WORD(): with the interpreter; 0: all threads */
	uint32_t first; /* index of the outermost frame in frames[] (and in frame_syms[]) */
	uint32_t cnt;	/* frames */
	uint16_t type;	/* index in stats.values */
	/*
	 * The amount: samples at the value type's frequency for a clock, else events or the unit of
	 * the type. It differs from the number of samples taken if one stands for many events, or
	 * if sampling was slowed down.
	 */
	uint64_t count;
	uint64_t samples;
};

/* The numbers for the last block of the report. */
struct profile_stats {
	uint64_t counters[CTR_CNT];
	uint64_t start_unix_ns; /* when sampling began */
	uint64_t duration_ns;
	struct value_type values[VALUES_MAX];
	uint32_t value_cnt; /* 0 means 1 */
	uint32_t slowed;    /* sampling was slowed to 1 / this; 0, 1: it was not */
	uint32_t cpus;	    /* CPUs that were sampled */
	/*
	 * If only one process was asked for: the time that its threads spent in run queues, and the
	 * time in which the CPU limit of its control group stopped it. Lower bounds; 0: none, or
	 * not known.
	 */
	uint64_t ready_ns, throttled_ns;
	uint64_t self_cpu_ns; /* of this program, user and system, while sampling */
	uint64_t bpf_ns;      /* run time of the sampler; 0 when statistics are off */
	uint64_t bpf_runs;
	uint64_t hidden_samples; /* of value types that a view does not show; not saved */
	uint64_t drain_ns;	 /* the longest that reading a window took; not saved */
	uint64_t rss_bytes;	 /* of this program */
	uint64_t map_bytes;	 /* of its maps in the kernel */
};

/*
 * How the bytes that were in use by each stack of a value type went over time. Of the end it has
 * the value type's own counts.
 */
struct profile_point {
	uint64_t at_ns; /* since sampling began */
	uint64_t rss;	/* resident memory of the processes that were asked for */
};

struct profile_curves {
	uint32_t event;	    /* of the value type */
	uint32_t point_cnt; /* at least 1 */
	struct profile_point *points;
	size_t stack_cnt;
	/*
	 * As those of the profile, whose frames they share; of the value type: its own, and those
	 * that had something before.
	 */
	struct profile_stack *stacks;
	uint64_t *values;	   /* of a stack: [stack * point_cnt + point] */
	struct profile_point peak; /* where EVENT_PEAK_SPACE is counted; rss 0: nowhere */
	uint64_t begin_rss;
	uint64_t high_rss; /* the kernel's, where it is higher than peak.rss; else 0 */
	bool more;	   /* not all stacks are there */
	size_t first;	   /* private, until profile__part_curves() */
};

#define PROFILE_CURVE_TYPE (VALUES_MAX - 1) /* of their stacks, until then */

/* Frames of a stack that is kept beside the others: indexes in loop_syms. */
struct profile_loop_stack {
	uint32_t stack; /* index in stacks, until profile__name_loops() */
	uint32_t first, cnt;
	uint64_t ns;
};

/* What a thread did between two waits in its poll; stacks are sampled, so they need not add up. */
struct profile_stretch {
	uint64_t begin_ns, ns; /* since sampling began */
	bool open;	       /* it went on when the profile ended */
	uint32_t stack_cnt;
	struct profile_loop_stack stacks[LOOP_STACKS];
};

/* Whose poll a thread was seen to wait in last. */
enum loop_kind { LOOP_UNKNOWN, LOOP_EVENT, LOOP_OTHER };

/* A thread that waits in a poll: struct loop_thread. Is it an event loop's? See loops.h. */
struct profile_loop {
	uint32_t space, tid;
	enum loop_kind kind;		/* at an earlier look; counts if `poll` is not known */
	struct profile_loop_stack poll; /* cnt 0: not known */
	uint64_t cnt, busy_ns;		/* stretches that ended */
	uint64_t slow_cnt, slow_ns;	/* ... of LOOP_SLOW_NS and more */
	uint32_t hist[LOOP_BUCKETS];
	uint32_t longest_cnt;
	struct profile_stretch longest[LOOP_LONGEST + 1]; /* the longest first */
};

/* A place where asyncio tasks were seen to wait: user/threads/taskbook.h. */
struct profile_await {
	uint32_t space;
	bool own;	/* code of the application: the innermost such frame is the place */
	uint32_t looks; /* looks at the process in which a task was there */
	uint32_t of;	/* ... all */
	uint32_t cut;	/* ... that have not seen all of its tasks */
	uint64_t tasks; /* sum of the tasks that were there, over all looks */
	uint64_t came;	/* ... that were not there at the look before */
	struct profile_loop_stack stack; /* the commonest one: outermost first */
};

#define PROFILE_REFUSED_MAX 16
#define PROFILE_RESTING_MAX 8

struct profile {
	struct strtab *strings;
	struct profile_proc *procs;
	size_t proc_cnt, proc_cap;
	struct profile_thread *threads;
	size_t thread_cnt, thread_cap;
	struct profile_module *modules;
	size_t module_cnt, module_cap;
	struct profile_stack *stacks;
	size_t stack_cnt, stack_cap;
	uint64_t *frames; /* NULL after profile__drop_frames() */
	size_t frame_cnt, frame_cap;
	struct sym *syms; /* filled by symbolize */
	size_t sym_cnt, sym_cap;
	/* Parallel to frames[]: index in syms. NULL before symbolize; a new stack drops it. */
	uint32_t *frame_syms;
	/* Threads that poll; of a saved profile, the event loops. */
	struct profile_loop *loops;
	size_t loop_cnt, loop_cap;
	/* The commonest first; likewise. */
	struct profile_await *awaits;
	size_t await_cnt, await_cap;
	uint32_t *loop_syms; /* frames of both: indexes in syms, outermost first */
	size_t loop_sym_cnt, loop_sym_cap;
	struct profile_stats stats;
	str_id refused[PROFILE_REFUSED_MAX]; /* whose files and memory were not read, and why */
	uint32_t refused_cnt;
	/*
	 * Without a stack: the Python processes that there are and what their threads wait for, a
	 * text each, and how many have none. Not saved.
	 */
	str_id resting[PROFILE_RESTING_MAX];
	uint32_t resting_cnt, resting_more;
	uint32_t resting_tgid;	       /* of the first one */
	bool no_python;		       /* there are none, and all of the machine was looked at */
	struct profile_curves *curves; /* owned; NULL: none. Not saved */
	bool by_curves;		       /* a view: its stacks are those of `curves`, in that order */
	struct profile_index *index;   /* of procs, threads and stacks; private to profile.c */
};

/* NULL and errno on lack of memory. */
struct profile *profile__new(void);
void profile__free(struct profile *p);

/*
 * For a profile that is named: takes the stacks of curves, the last ones, out of its own. No stack
 * may be added after it. Does nothing if there are none.
 */
void profile__part_curves(struct profile *p);

/*
 * Gives back the memory that only adding and naming stacks need, eight of the twelve bytes of a
 * frame. Call when the profile is complete and named: nothing may be added or named after it.
 * Exporters read frame_syms[].
 */
void profile__drop_frames(struct profile *p);

/* Interns `s`, `len` bytes of any content. Returns 0 only for "" and on lack of memory. */
str_id profile__intern(struct profile *p, const char *s, size_t len);
str_id profile__intern_z(struct profile *p, const char *s);
/* Borrowed until profile__free(). Never NULL; NUL-terminated (a name may hold NULs: see len). */
const char *profile__str(const struct profile *p, str_id id);
size_t profile__str_len(const struct profile *p, str_id id);

/*
 * Each returns the index of the element (>= 0) or -ENOMEM. A process with a known space and a
 * thread with a known (space, tid) replace the older one.
 */
int profile__add_proc(struct profile *p, const struct profile_proc *proc);
int profile__add_thread(struct profile *p, const struct profile_thread *thread);
int profile__add_module(struct profile *p, const struct profile_module *module);
int profile__add_sym(struct profile *p, const struct sym *sym);

/*
 * Adds `count` samples of a stack of `cnt` frame words, outermost first. Equal (proc, tid, frames)
 * are added up. Returns the index of the stack, -ENOMEM, or -EINVAL when there is no such process.
 */
int profile__add_stack(struct profile *p, uint32_t proc, uint32_t tid, const uint64_t *words,
		       size_t cnt, uint64_t count);
/* ... with samples that are worth `count` together. */
int profile__add_weighted(struct profile *p, uint32_t proc, uint32_t tid, const uint64_t *words,
			  size_t cnt, uint64_t samples, uint64_t count);

/* ... of a value type, an index in stats.values. */
int profile__add_value(struct profile *p, uint32_t type, uint32_t proc, uint32_t tid,
		       const uint64_t *words, size_t cnt, uint64_t samples, uint64_t count);

/*
 * 0 or -ENOMEM. Its stacks are numbers of stacks, or UINT32_MAX: not known; or they have frames of
 * their own, by profile__keep_syms().
 */
int profile__add_loop(struct profile *p, const struct profile_loop *l);
/* ... but what is there of the same thread is added up, and the longest iterations are kept. */
int profile__merge_loop(struct profile *p, const struct profile_loop *l);
/* Gives a stack of a loop frames of its own, which are numbers of syms. 0 or -ENOMEM. */
int profile__keep_syms(struct profile *p, struct profile_loop_stack *s, const uint32_t *syms,
		       uint32_t cnt);
/* Once all is named: gives the stacks of loops frames of their own. 0 or -ENOMEM. */
int profile__name_loops(struct profile *p);

/* Once all is named: a place of tasks, with frames that are numbers of syms. 0 or -ENOMEM. */
int profile__add_await(struct profile *p, const struct profile_await *a, const uint32_t *syms,
		       uint32_t cnt);

/* Frames of a stack that exist in the profile. */
uint32_t profile__stack_frames(const struct profile *p, const struct profile_stack *s);
/* The index of such a stack of a value type, or -1. */
int profile__find_stack(const struct profile *p, uint32_t type, uint32_t proc, uint32_t tid,
			const uint64_t *words, size_t cnt);

/* The name of a process: its title, or its command name if it has none. */
str_id profile_proc__name(const struct profile_proc *proc);

/* The process with this space, or -1. */
int profile__find_proc(const struct profile *p, uint32_t space);
/* The name of a thread, or "" when none was recorded. Borrowed until profile__free(). */
const char *profile__thread_name(const struct profile *p, uint32_t space, uint32_t tid);

/*
 * The number of its value types, at least 1; and the index of the one that is called `name`, or -1.
 */
uint32_t profile__value_cnt(const struct profile *p);
int profile__find_value(const struct profile *p, const char *name);
/*
 * The profile as if it had only value type number `type`, for outputs that show one. It is read
 * only and must not outlive `p`, whose frames and names it shares. NULL: no memory.
 */
const struct profile *profile__view(const struct profile *p, uint32_t type);
/*
 * The same with the stacks of its curves, if it is of that value type: those that count nothing at
 * the end are there, too.
 */
const struct profile *profile__curve_view(const struct profile *p, uint32_t type);
/* Frees a view of `p`, but not what it shares with `p`. Does nothing if `view` is `p` or NULL. */
void profile__free_view(const struct profile *view, const struct profile *p);

/* The sum of the stacks of the first value type, and the samples that were taken for it. */
uint64_t profile__total(const struct profile *p);
uint64_t profile__samples(const struct profile *p);
/* Samples of a stack that no other stack has: those of EVENT_PEAK_SPACE are of the other types. */
uint64_t profile__new_samples(const struct profile *p, const struct profile_stack *s);
/* Samples of all value types, those that a view hides, too. */
uint64_t profile__all_samples(const struct profile *p);
/*
 * The amount that one independent sample counts for, at least 1: profile__total() divided by it is
 * the number of independent samples with the same information (Kish's effective sample size: the
 * square of the sum of weights, by the sum of their squares).
 */
double profile__weight(const struct profile *p);
/* Sum of the filtered_* / lost_* counters. */
uint64_t profile__filtered(const struct profile_stats *s);
uint64_t profile__lost(const struct profile_stats *s);
/* Run time of the sampler in ns, estimated from the samples that it has timed itself. */
uint64_t profile__sampler_ns(const struct profile_stats *s);

/* Copies the value types of `from`. */
void profile_stats__take_values(struct profile_stats *s, const struct profile_stats *from);

/*
 * Prints the numbers and counters that no other field of a file holds, as " hz=99 cpus=8 ...
 * delivered=1200 ...", and parses them. Zeros are left out; unknown words are ignored.
 */
struct strbuf;
void profile_stats__print(struct strbuf *b, const struct profile_stats *s);
void profile_stats__parse(struct profile_stats *s, const char *text, size_t len);

#endif /* PYPERF_PROFILE_H */
