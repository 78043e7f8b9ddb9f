/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PYLAYOUT_H
#define PYPERF_PYLAYOUT_H
/*
 * Finds the struct py_layout (bpf/pyperf_python.h) of a CPython version: the offset of each field
 * that the walkers read.
 *
 *    2.7, 3.6 - 3.12   one table per minor version. No field of a table moved inside a minor
 *                      version, and none depends on the architecture or the C library.
 *    3.13 - 3.15       from _Py_DebugOffsets, the first bytes of the process's _PyRuntime, because
 *                      fields do move there between patch releases.
 *
 * An unknown version is refused: there is no "closest" layout.
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
 * Reads the version and the build that _Py_DebugOffsets names. 0; -ENODATA: no cookie (an older
 * CPython, or memory that is not initialised yet); -EBADMSG: a cookie, followed by nonsense.
 */
int py_debug_offsets__identify(const void *bytes, size_t size, uint32_t *version_hex,
			       bool *free_threaded);

/*
 * Fills in `out`. `debug_offsets` is used from 3.13 on; its own version and build have to
 * agree with `version_hex` and `free_threaded`. 0; -ENOTSUP: there is no layout for this
 * interpreter; -EBADMSG: the debug offsets make no sense. Then `*why`, unless `why` is NULL, is a
 * sentence for the report (a constant) and `out` is not changed.
 */
int py_layout__get(struct py_layout *out, uint32_t version_hex, bool free_threaded,
		   const void *debug_offsets, size_t size, const char **why);

/*
 * Changes the layout into that of a build with Py_TRACE_REFS, as every debug build up to 3.7 is.
 * -ENOTSUP for later versions: not tested, as nobody builds them so.
 */
int py_layout__trace_refs(struct py_layout *l);

/*
 * The offset in _PyRuntime of the pointer to the first interpreter (3.7+), for a version that
 * py_layout__get() accepted with the same bytes. Negative errno as there.
 */
int py_layout__interp_head(uint32_t version_hex, const void *debug_offsets, size_t size);

/*
 * Where the state of the GIL is: the way from a PyThreadState to its interpreter, and from there
 * (3.12+: each may have its own) or from _PyRuntime to a struct _gil_runtime_state
 * (Include/internal/pycore_gil.h).
 */
struct py_gil {
	uint16_t tstate_interp;
	uint16_t interp_gil;  /* the pointer to it; PY_OFF_NONE: it is at runtime_gil */
	uint16_t runtime_gil; /* the struct itself, in _PyRuntime */
	uint16_t last_holder; /* a PyThreadState; it holds the GIL while locked is 1 */
	uint16_t locked;      /* int */
	/*
	 * A thread that wants the GIL waits on a futex in its locks: cond, mutex, and switch_cond.
	 * The last is for a thread that had to drop the GIL for another one and takes it again.
	 */
	uint16_t locks, locks_size;
};

/* -ENOTSUP: not known for this version, or a free-threaded build, which has none. */
int py_layout__gil(struct py_gil *out, uint32_t version_hex, bool free_threaded);

/* The offset of the local variables in a frame; until 3.10 in a frame object. */
uint16_t py_layout__frame_locals(const struct py_layout *l);

#endif /* PYPERF_PYLAYOUT_H */
