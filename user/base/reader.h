/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_READER_H
#define PYPERF_READER_H
/*
 * Two helper processes that touch files and memory of other owners, so that no other part of the
 * program has to wait for them.
 *
 * A page of a process may lie in a file of FUSE whose server never answers, and so may a directory
 * on the way to a file. A reader of it waits, and no signal ends the wait. So the helpers do the
 * reading:
 *
 *	memory	reads the memory of processes; keeps no right but that (CAP_SYS_PTRACE)
 *	files	finds and opens files, and reads those that may not answer
 *
 * Both execute this program anew (worker.h): they have nothing of the memory of this process, and
 * may make only the system calls that they need: no socket, no fork, no writing. A helper that
 * hangs is given up and replaced. After a few such, the processes of that user are not looked at
 * any more. One that has computed for long retires, so that a limit on its CPU time can be low.
 *
 *	READER_OPERATION(walk_it);
 *
 *	rs = readers__new();
 *	reader__call(rs, tgid, &op_walk_it, &question, sizeof(question), &answer, sizeof(answer));
 *	readers__free(rs);
 *
 * Each helper answers one question at a time, from any thread, in some 20 us. Where one cannot be
 * had (it cannot be executed, or ends before it has answered), nothing is read, and a warning says
 * so: a tenant that could end it would hold up this process next. If `rs` is NULL, this process
 * reads.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define READER_MESSAGE_MAX (64U << 10) /* size of a question about memory, and of its answer */
#define READER_ANSWER_MAX  (72U << 20) /* about files: the text of /proc/PID/maps may be long */
#define READER_FDS_MAX	   32
#define READER_FORGIVEN_MS 600000 /* for so long a user's processes are not read */

struct readers;

struct readers *readers__new(void); /* NULL: no memory */
/*
 * Starts both helpers, so that the first question does not wait: some milliseconds. The less memory
 * is in use, the cheaper it is.
 */
void readers__start(struct readers *rs);
/* Gives the helpers the priority of the thread that asks (sample/realtime.h), or takes it back. */
void readers__hurry(struct readers *rs, bool realtime);
/*
 * For so long after a hang of a user's, but root's, the next one counts as that after 100 ms: who
 * has to be done at a certain time does not wait twice in full. What answers by then is read, as
 * ever. Call before others ask.
 */
void readers__shorten(struct readers *rs, uint32_t ms);
/*
 * From `at_ns` (clock.h) on, until the next call, the caller has to be done with something else; 0:
 * it has not. Meanwhile tenants, but root's, may take DUE_ALL_MS together (due.h). A question for
 * which that is not enough fails with -EBUSY, and nobody is blamed: ask again after the next call.
 */
void readers__due(struct readers *rs, uint64_t at_ns);
/*
 * What a tenant may still take of that time, in ns; UINT64_MAX: any. A caller that spends CPU time
 * on what the tenant has made says how much.
 */
uint64_t readers__left(struct readers *rs, uint64_t tenant);
void readers__spent(struct readers *rs, uint64_t tenant, uint64_t ns);
/* It should have been done some time ago: begin nothing that can wait. */
bool readers__are_late(struct readers *rs);
/* So many questions were put off. Who sees it grow has not got all, and asks again. */
uint64_t readers__put_off(const struct readers *rs);
/* Sets the nice value of both helpers, see setpriority(2). 0 or negative errno. */
int readers__renice(struct readers *rs, int nice);
/* Ends both helpers; does not wait for one that hangs. */
void readers__free(struct readers *rs);

/* ---- what they do --------------------------------------------------------------------------- */

/* A job for files, as the helper sees it. */
struct reader_job {
	const void *question;
	uint8_t *answer;
	size_t answer_max;	 /* READER_ANSWER_MAX, or less; at least 4 MiB */
	int in;			 /* descriptor of the call, or -1; the caller closes it */
	int out[READER_FDS_MAX]; /* descriptors for the caller, which closes them */
	size_t out_cnt;
};

/*
 * A function that a helper runs. It depends on nothing but its question, because the helper has
 * none of this process's variables; addresses of this process mean nothing there.
 *
 * Of one for memory: it allocates, computes and reads memory with read_process(); it opens nothing.
 * Returns the result of the call, 0 or more, or negative errno. Of one for files: returns the size
 * of the answer in bytes, or negative errno: then no descriptors are handed over.
 *
 * All that there are stand in one section of the program, and a question names one by its place
 * there: nothing else can be asked.
 */
struct reader_operation {
	int (*read)(const void *question, void *answer); /* one of the two is NULL */
	int (*job)(struct reader_job *job);
};

#define READER_OPERATION__(fn, kind)                                                               \
	__attribute__((                                                                            \
		section("reader_operations"), used,                                                \
		aligned(sizeof(struct reader_operation)))) static const struct reader_operation    \
		op_##fn = { .kind = (fn) }
/* Makes op_FN, of a function for memory or for files. */
#define READER_OPERATION(fn) READER_OPERATION__(fn, read)
#define READER_JOB(fn)	     READER_OPERATION__(fn, job)

/* ---- memory --------------------------------------------------------------------------------- */

/*
 * Runs an operation in the helper for memory, about a process. Returns what it returned. If that
 * is not negative, all `answer_size` bytes are set; the answer is as untrusted as the process
 * itself. -ETIMEDOUT: the helper hangs, or, if the call returns at once, others of the same user
 * hung before. -EBUSY: something else is due, see readers__due(). -ECHILD: the helper cannot be
 * had, or not be asked; no tenant is to blame.
 */
int reader__call(struct readers *rs, uint32_t tgid, const struct reader_operation *op,
		 const void *question, size_t size, void *answer, size_t answer_size);

/* Reads memory of a process as read_process() does; -ETIMEDOUT, -EBUSY and -ECHILD, too. */
int reader__read(struct readers *rs, uint32_t tgid, void *dst, size_t size, uint64_t src);
/* What is said of a process whose files let the helper hang. */
#define READER_FILES_HANG "its files do not answer when they are opened or read"
/* What to say of an error of these calls. */
const char *reader__why(int err);

/* ---- files ---------------------------------------------------------------------------------- */

/* Whom to blame if a read hangs: the user of a process, or a tenant (tenant.h). */
struct reader_whose {
	uint32_t tgid; /* 0: see `tenant` */
	uint64_t tenant;
};

struct reader_call {
	struct reader_whose whose;
	const struct reader_operation *op;
	const void *question;
	size_t size;
	int in; /* -1: none */
	/* The answer is appended to `text`, or written to `answer`. */
	struct strbuf *text;
	void *answer;
	size_t answer_size;
	/* Descriptors, close-on-exec, which the caller owns. NULL: none are expected. */
	int *out; /* READER_FDS_MAX of them */
	size_t *out_cnt;
};

/* An error that an answer claims, which may be any number: 0, or a negative errno. */
static inline int reader__claimed(int err)
{
	return err >= 0 ? 0 : err < -4095 ? -EBADMSG : err;
}

/* The size of the answer, or negative errno as reader__call(). */
int reader__files(struct readers *rs, const struct reader_call *call);
/* False: reader__files() runs in this process. */
bool reader__has_opener(struct readers *rs);

/* A tenant that has let helpers hang so often that nothing of it is read for a while. */
struct reader_refused {
	uint32_t uid, tgid;    /* user and process, if known, of the last hang */
	uint64_t namespace_id; /* its mount namespace; 0: a single process of this machine's root */
	const char *why;       /* "its memory does not answer when it is read" */
};

#define READER_REFUSED_MAX 16

/*
 * Returns how many refused tenants there are and fills in at most READER_REFUSED_MAX. Without
 * `refused`, includes tenants that have let a helper hang but are still read. `rs` may be NULL.
 */
size_t readers__hung(struct readers *rs, bool refused,
		     struct reader_refused out[READER_REFUSED_MAX]);
/* Appends "user 65534 (mount namespace 4026532201): process 17: its memory ...". */
void reader_refused__print(const struct reader_refused *r, struct strbuf *out);

#endif /* PYPERF_READER_H */
