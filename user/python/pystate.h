/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PYSTATE_H
#define PYPERF_PYSTATE_H
/*
 * Reads the interpreters of a process, their threads, and the modules that each has imported, in
 * the memory of another process. Every byte may be hostile.
 */
#include <stdint.h>

#include "python/pydict.h"
#include "python/pyproc.h"

#define PYINTERPS_MAX 64

/* Lists all interpreters, newest first; the last one is the main one. Returns their number. */
uint32_t pyinterps__list(struct pymem *m, const struct py_binary *bin, uint64_t bias,
			 uint64_t interps[PYINTERPS_MAX]);
/* The dict of a module of sys.modules; 0: it is not imported, or not known for this version. */
uint64_t pymodules__dict(struct pymem *m, const struct py_binary *bin, uint64_t bias,
			 uint64_t interp, const char *name);

/* The first PyThreadState of an interpreter, and the one behind another; 0: none. */
uint64_t pythread__first(struct pymem *m, uint64_t interp);
uint64_t pythread__next(struct pymem *m, uint64_t tstate);
/* The value of threading.get_ident() in that thread. 0: it cannot be read. */
uint64_t pythread__ident(struct pymem *m, uint64_t tstate);
/* The kernel's number of a thread, as the process itself sees it; 0: not known. */
uint32_t pythread__tid(struct pymem *m, uint64_t tstate);
/*
 * The same from the ident alone: glibc's descriptor of a thread, which holds its own address first.
 */
uint32_t pythread__tid_of_ident(struct pymem *m, uint64_t ident);
/* The innermost frame of a thread: up to 3.10 a PyFrameObject. 0: none. */
uint64_t pythread__frame(struct pymem *m, uint64_t tstate);

#endif /* PYPERF_PYSTATE_H */
