/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PROFILE_H
#define PYPERF_PROFILE_H
/*
 * One profile: what was counted, without and then with names.
 *
 * dump fills in processes, modules, codes and stacks (ids and addresses only); symbolize adds one
 * struct sym per distinct frame; export reads. A profile needs no root, no kernel and no living
 * process, so everything after dump can be tested with a profile built by hand.
 *
 * Ownership: the profile owns everything that is reachable from it. Strings are interned in
 * p->strings and named by str_id; the pointer that profile__str() gives is valid until
 * profile__free(). Arrays may move when something is added: keep indexes, not pointers.
 *
 * Frames of a stack are stored outermost first, as frame words of bpf/pyperf.h.
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
	str_id exe;	  /* path of the executable, "" when not known */
	str_id container; /* container id, "" when none */
	str_id python;	  /* "3.11.2", "" when there is no interpreter */
	/* For reading its source, see source.h. */
	bool ids_known, own_root;
	uint32_t uid, gid;
	str_id native_only; /* why there are no Python frames although an interpreter is there, or
			       "" */
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
};

enum sym_kind {
	SYM_PYTHON = 1,
	SYM_NATIVE = 2,
	SYM_KERNEL = 3,
	SYM_MARKER = 4,
	SYM_PLAIN = 5, /* a name of which no more is known; from files of other tools only */
};

/* What a frame word is called. Several words may share one; inlined calls are chained. */
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
	 * What everything is measured in: samples at the value type's frequency for a clock, else
	 * events, or what the type says. They differ from the samples taken where one stands for
	 * many events, or sampling was slowed down.
	 */
	uint64_t count;
	uint64_t samples;
};

/* Where the numbers of the last block of the report come from. */
struct profile_stats {
	uint64_t counters[CTR_CNT];
	uint64_t start_unix_ns; /* when sampling began */
	uint64_t duration_ns;
	struct value_type values[VALUES_MAX];
	uint32_t value_cnt;   /* 0 is as 1 */
	uint32_t slowed;      /* sampling was slowed to 1 / this; 0, 1: it was not */
	uint32_t cpus;	      /* CPUs that were sampled */
	uint64_t self_cpu_ns; /* of this program, user and system, while sampling */
	uint64_t bpf_ns;      /* run time of the sampler; 0 when statistics are off */
	uint64_t bpf_runs;
	uint64_t hidden_samples; /* of value types that a view does not show; not saved */
	uint64_t drain_ns;	 /* the longest that reading a window took; not saved */
	uint64_t rss_bytes;	 /* of this program */
	uint64_t map_bytes;	 /* of its maps in the kernel */
};

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
	struct profile_stats stats;
	struct profile_index *index; /* of procs, threads and stacks; private to profile.c */
};

/* NULL and errno on lack of memory. */
struct profile *profile__new(void);
void profile__free(struct profile *p);

/*
 * For a profile that is complete and named: gives back what only adding stacks and naming them
 * need, eight of the twelve bytes that a frame takes. Exporters read frame_syms[]. Nothing may be
 * added or named after it.
 */
void profile__drop_frames(struct profile *p);

/* Interns `s`, `len` bytes of any content. Never fails for lack of anything but memory: then 0. */
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
/* ... of samples that are worth `count` together. */
int profile__add_weighted(struct profile *p, uint32_t proc, uint32_t tid, const uint64_t *words,
			  size_t cnt, uint64_t samples, uint64_t count);

/* ... of a value type, an index in stats.values. */
int profile__add_value(struct profile *p, uint32_t type, uint32_t proc, uint32_t tid,
		       const uint64_t *words, size_t cnt, uint64_t samples, uint64_t count);

/* The index of such a stack of a value type, or -1. */
int profile__find_stack(const struct profile *p, uint32_t type, uint32_t proc, uint32_t tid,
			const uint64_t *words, size_t cnt);

/* The process with this space, or -1. */
int profile__find_proc(const struct profile *p, uint32_t space);
/* The name of a thread, or "" when none was recorded. Borrowed until profile__free(). */
const char *profile__thread_name(const struct profile *p, uint32_t space, uint32_t tid);

/*
 * How many value types it has, at least 1; and the number of the one that is called `name`, or -1.
 */
uint32_t profile__value_cnt(const struct profile *p);
int profile__find_value(const struct profile *p, const char *name);
/*
 * The profile as if value type number `type` were its only one, for what shows one. It lives no
 * longer than `p`, whose frames and names it shares, and is read only. NULL: no memory. Of these,
 * nothing but profile__free_view() may be called.
 */
struct profile *profile__view(const struct profile *p, uint32_t type);
void profile__free_view(struct profile *view);

/* What the stacks of the first value type count, and the samples that were taken for it. */
uint64_t profile__total(const struct profile *p);
uint64_t profile__samples(const struct profile *p);
/* Samples of all value types, those that a view hides, too. */
uint64_t profile__all_samples(const struct profile *p);
/*
 * What one draw of chance counts for, at least 1: profile__total() divided by it is the number of
 * independent samples that would tell as much (Kish's effective sample size: the square of the sum
 * of weights, by the sum of their squares).
 */
double profile__weight(const struct profile *p);
/* Sum of the filtered_* / lost_* counters. */
uint64_t profile__filtered(const struct profile_stats *s);
uint64_t profile__lost(const struct profile_stats *s);
/* Run time of the sampler, by the samples whose time it took itself. ns. */
uint64_t profile__sampler_ns(const struct profile_stats *s);

/* The value types of `from`. */
void profile_stats__take_values(struct profile_stats *s, const struct profile_stats *from);

/*
 * Numbers and counters that no other field of a file holds, as " hz=99 cpus=8 ... delivered=1200
 * ...", and back. What is 0 is left out; unknown words are ignored.
 */
struct strbuf;
void profile_stats__print(struct strbuf *b, const struct profile_stats *s);
void profile_stats__parse(struct profile_stats *s, const char *text, size_t len);

#endif /* PYPERF_PROFILE_H */
