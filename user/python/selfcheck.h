/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SELFCHECK_H
#define PYPERF_SELFCHECK_H
/*
 * Does the layout that we have for an interpreter fit the process? One whole stack is walked from
 * outside, by the very walkers that the kernel will run, and everything that they go by is looked
 * at:
 *
 *	interpreter -> thread state -> frame -> frame -> ... -> the chain's end
 *	                 |               |-- owner, instruction inside the code
 *	                 |               `-- code object: type, names, first line, line table
 *	                 `-- id: a thread pointer
 *
 * The process runs on meanwhile, so a stack can change under the walk: a thread that does not hold
 * is tried again, and others. What still does not hold makes the process "native only", with a
 * sentence like "frame 0: code object's type is not PyCode_Type"; it is asked again later.
 *
 *	struct selfcheck            of one process
 *
 *	NEW --> PASSED              a stack was validated; children of fork inherit that
 *	--> TRUSTED until it is checked: no thread runs Python yet, or a stack of this
 *	| binary was validated in another process, so this one need not wait
 *	    `-> REFUSED             sc.why; perhaps PASSED later
 *
 * Cost: a system call of 0.3 to 1 us per read, a few reads per frame.
 */
#include <stdbool.h>
#include <stdint.h>

#include "python/pyproc.h"

#define SELFCHECK_WHY_LEN 96
/*
 * A check that was put off for less is worth waking for. One of a binary that holds elsewhere is
 * not: it comes with the next.
 */
#define SELFCHECK_SOON_MS 200

enum selfcheck_state {
	SELFCHECK_NEW = 0,
	SELFCHECK_TRUSTED,
	SELFCHECK_PASSED,
	SELFCHECK_REFUSED,
};

struct selfcheck {
	enum selfcheck_state state;
	uint32_t file; /* file id and bias of the interpreter that this is about */
	uint64_t bias;
	uint64_t due_ns; /* when to ask again; not when PASSED */
	uint32_t wait_ms;
	int err;		     /* of the last check */
	char why[SELFCHECK_WHY_LEN]; /* when REFUSED; selfcheck__doubt() */
};

/*
 * One check. 0: a stack was validated. -EAGAIN: no thread runs Python now. -EBADMSG: no stack
 * holds, and `why` is what did not. -ENODATA: an interpreter without threads; it is starting, or
 * `why` is what we say of it. -ESRCH, -EPERM, -ENOSYS, -ENOMEM: nothing is known.
 * bin->interp.layout.interp_codes is set, if it can be, where the binary does not say it (3.13).
 */
int selfcheck__walk(struct py_binary *bin, uint32_t tgid, uint64_t bias,
		    char why[SELFCHECK_WHY_LEN]);

/* The process has this interpreter: checks it, if that is not done or does not have to wait. */
void selfcheck__begin(struct selfcheck *sc, struct py_binary *bin, uint32_t file, uint32_t tgid,
		      uint64_t bias, uint64_t now_ns);
/*
 * Checks it again when it is due. True: the process was trusted and is no more, or the reverse.
 * `bin` NULL: the file is not known now, so it is put off.
 */
bool selfcheck__again(struct selfcheck *sc, struct py_binary *bin, uint32_t tgid, uint64_t now_ns);

/*
 * What is odd about a process that is trusted all the same: none of its threads was in Python at
 * any look, for longer than it takes to start. NULL: nothing.
 */
const char *selfcheck__doubt(const struct selfcheck *sc);

static inline bool selfcheck__open(const struct selfcheck *sc) /* has to be asked again */
{
	return sc->state == SELFCHECK_TRUSTED || sc->state == SELFCHECK_REFUSED;
}

#endif /* PYPERF_SELFCHECK_H */
