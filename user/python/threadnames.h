/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_THREADNAMES_H
#define PYPERF_THREADNAMES_H
/*
 * Reads the names that Python gives its threads, from the memory of a running process.
 *
 * Up to 3.13 the kernel does not know them (from 3.14 on _thread.set_name() tells it). They are
 * attributes of the objects in the dict threading._active, which is reached through
 *
 *	interpreter -> modules -> "threading" -> "_active" -> {ident: Thread} -> "_name",
 *	"_native_id"
 *
 * The process runs on meanwhile, so nothing that is read is believed: the type of each object is
 * checked, all sizes are bounded, and the number and the name of a Thread are read again at the
 * end. A name that fails a check is left out, and the caller shows the kernel's name. No thread
 * gets the name of another: names go by the kernel's number of the thread, from the Thread (3.8 and
 * later) or from glibc's descriptor of the thread, to which the ident points. Never stops the
 * process.
 *
 * The main interpreter only; not on free-threaded builds and those with Py_TRACE_REFS.
 */
#include <stdint.h>

#include "python/pyproc.h"

#define THREADNAMES_MAX_BYTES 1024 /* of one name, in UTF-8; longer ones are left out */

/* `tid` as the process itself sees it; `name` is UTF-8 of any content, borrowed for the call. */
typedef void (*threadnames_fn)(void *ctx, uint32_t tid, const char *name);

/* Calls `fn` for each named thread. 0, or negative errno when the names could not be reached. */
int threadnames__read(struct readers *rs, const struct py_binary *bin, uint32_t tgid, uint64_t bias,
		      threadnames_fn fn, void *ctx);

#endif /* PYPERF_THREADNAMES_H */
