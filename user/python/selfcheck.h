/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SELFCHECK_H
#define PYPERF_SELFCHECK_H
/*
 * Checks whether our layout of an interpreter fits a process. Walks one whole stack from outside,
 * with the very walkers that the kernel will run, and checks everything that they rely on:
 *
 *	interpreter -> thread state -> frame -> frame -> ... -> the chain's end
 *	                 |               |-- owner, instruction inside the code
 *	                 |               `-- code object: type, names, first line, line table
 *	                 `-- id: a thread pointer
 *
 * The process runs on meanwhile, so a stack can change under the walk: a thread whose stack fails
 * is tried again, and so are others. If all fail, the process is "native only", with a reason like
 * "frame 0: code object's type is not PyCode_Type", and is checked again later.
 *
 *	struct selfcheck            of one process
 *	NEW --> PASSED              a stack was validated; children of fork inherit that
 *	    |-> TRUSTED             until it is checked: no thread runs Python yet, or a stack of
 *	    |                       this binary was validated in another process
 *	    `-> REFUSED             sc.why; perhaps PASSED later
 *
 * Cost: a system call of 0.3 to 1 us per read, a few reads per frame.
 */
#include <stdbool.h>
#include <stdint.h>

#include "python/pyproc.h"

#define SELFCHECK_WHY_LEN 96
/*
 * User space wakes for a check that is due within this time. A check of a binary that was validated
 * elsewhere does not wake it: it comes with the next look.
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
 * Makes one check. 0: a stack was validated. -EAGAIN: no thread runs Python now. -EBADMSG: no stack
 * is valid, and `why` says what failed. -ENODATA: an interpreter without threads; it is starting,
 * or `why` is what we say about it. -ESRCH, -EPERM, -ENOSYS, -ENOMEM: nothing is known. Sets
 * bin->interp.layout.interp_codes, if possible, where the binary does not tell it (3.13).
 */
int selfcheck__walk(struct readers *rs, struct py_binary *bin, uint32_t tgid, uint64_t bias,
		    char why[SELFCHECK_WHY_LEN]);

/* The process has this interpreter: checks it, unless that was done or has to wait. */
void selfcheck__begin(struct readers *rs, struct selfcheck *sc, struct py_binary *bin,
		      uint32_t file, uint32_t tgid, uint64_t bias, uint64_t now_ns);
/*
 * Checks it again when it is due. True: trust has changed, in either direction. `bin` NULL: the
 * file is not known now, so the check is put off.
 */
bool selfcheck__again(struct readers *rs, struct selfcheck *sc, struct py_binary *bin,
		      uint32_t tgid, uint64_t now_ns);

/*
 * A doubt about a trusted process: none of its threads was in Python at any look, for longer than
 * it takes to start. NULL: no doubt.
 */
const char *selfcheck__doubt(const struct selfcheck *sc);

static inline bool selfcheck__open(const struct selfcheck *sc) /* has to be asked again */
{
	return sc->state == SELFCHECK_TRUSTED || sc->state == SELFCHECK_REFUSED;
}

#endif /* PYPERF_SELFCHECK_H */
