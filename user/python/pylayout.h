/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PYLAYOUT_H
#define PYPERF_PYLAYOUT_H
/*
 * CPython version -> struct py_layout (bpf/pyperf.h): where the walkers find each field.
 *
 *   2.7, 3.6 - 3.12   one table per minor version. No field of a table moved inside a minor
 *                     version, and none depends on the architecture or the C library.
 *   3.13 - 3.15       from _Py_DebugOffsets, the first bytes of the process's _PyRuntime, because
 *                     fields do move there between patch releases.
 *
 * There is no "closest" layout: a version that is not known here is refused.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/pyperf.h"

/* Bytes of _PyRuntime to read for _Py_DebugOffsets: enough for every known version. */
#define PY_DEBUG_OFFSETS_MAX		   1024

/* PY_VERSION_HEX; release level 0 says that only major and minor are known. */
#define PY_VERSION_MINOR_HEX(major, minor) ((uint32_t)(major) << 24 | (uint32_t)(minor) << 16)

/*
 * What _Py_DebugOffsets says about itself. 0; -ENODATA: no cookie (an older CPython, or memory that
 * is not initialised yet); -EBADMSG: a cookie and nonsense behind it.
 */
int py_debug_offsets__identify(const void *bytes, size_t size, uint32_t *version_hex,
			       bool *free_threaded);

/*
 * Fills in `out`. `debug_offsets` is looked at from 3.13 on; its own version and build have to
 * agree with `version_hex` and `free_threaded`. 0; -ENOTSUP: there is no layout for this
 * interpreter; -EBADMSG: the debug offsets make no sense. Then `*why`, unless `why` is NULL, is a
 * sentence for the report (a constant) and `out` is not changed.
 */
int py_layout__get(struct py_layout *out, uint32_t version_hex, bool free_threaded,
		   const void *debug_offsets, size_t size, const char **why);

/*
 * Turns it into the layout of a build with Py_TRACE_REFS, which up to 3.7 every debug build is.
 * -ENOTSUP above, where nobody builds it: not tried there.
 */
int py_layout__trace_refs(struct py_layout *l);

/*
 * The offset in _PyRuntime of the pointer to the first interpreter (3.7+), for a version that
 * py_layout__get() accepted with the same bytes. Negative errno as there.
 */
int py_layout__interp_head(uint32_t version_hex, const void *debug_offsets, size_t size);

/*
 * Where the state of the GIL is: from a PyThreadState to its interpreter, from there (3.12+: each
 * may have its own) or from _PyRuntime to a struct _gil_runtime_state
 * (Include/internal/pycore_gil.h).
 */
struct py_gil {
	uint16_t tstate_interp;
	uint16_t interp_gil;  /* of the pointer to it; PY_OFF_NONE: */
	uint16_t runtime_gil; /* ... of the struct in _PyRuntime */
	uint16_t last_holder; /* a PyThreadState; it holds the GIL while locked is 1 */
	uint16_t locked;      /* int */
	/*
	 * Whoever wants the GIL waits on a futex in its locks: cond, mutex, and switch_cond, by who
	 * had to drop it for another and takes it again.
	 */
	uint16_t locks, locks_size;
};

/* -ENOTSUP: not known for this version, or a free-threaded build, which has none. */
int py_layout__gil(struct py_gil *out, uint32_t version_hex, bool free_threaded);

#endif /* PYPERF_PYLAYOUT_H */
