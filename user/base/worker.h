/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_WORKER_H
#define PYPERF_WORKER_H
/*
 * The two helpers of reader.h from inside: how one begins, which rights it keeps, what it answers.
 *
 * A helper is this program, executed anew under the name of its kind (child__execute()). Whatever
 * links this file recognises the name before main().
 */
#include <errno.h>
#include <sys/types.h>

#include "base/exchange.h"

/* Exit status of one that cannot receive questions, or send answers: no tenant has ended it. */
#define WORKER_CUT_OFF ECOMM

/* Starts one. The descriptors stay the caller's. Returns its pid or negative errno. */
pid_t worker__start(const struct worker_kind *kind, int socket, int memory);
/*
 * The build of this program, by its build id: the number of the message that says that a helper has
 * begun. Another build has other operations by the same numbers.
 */
uint64_t worker__build(void);
/* What the question calls it. */
uint32_t worker__number(const struct reader_operation *op);
/* Does a job, in whichever process. Fills in the answer, the descriptors and the result. */
void worker__run_job(const struct reader_operation *op, struct exchange *x, struct reader_job *job);

#endif /* PYPERF_WORKER_H */
