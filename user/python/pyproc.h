/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PYPROC_H
#define PYPERF_PYPROC_H
/*
 * Analyses an ELF file: is it a CPython interpreter, of which version, and where are the variables
 * and functions that the walkers start from?
 *
 * The answer depends on the file alone (one analysis per build id), with one exception. From 3.13
 * on the layout comes from _Py_DebugOffsets, which are initialised data and so normally in the
 * file. If they are not there, the second stage takes them from a process.
 *
 *	struct py_binary bin;
 *	int err = py_binary__analyse(ef, &bin);
 *	if (err == -EAGAIN) {
 *		uint8_t bytes[PY_DEBUG_OFFSETS_MAX];
 *		... read them at bias + bin.runtime in the process ...
 *		err = py_binary__from_process(&bin, bytes, sizeof(bytes));
 *	}
 *	if (err == -ENOTSUP)
 *		log_warn("%s: %s", elf_file__path(ef), bin.why_not);
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/pyperf.h"
#include "elf/elf.h"
#include "python/pylayout.h"

struct py_binary {
	uint32_t version_hex; /* PY_VERSION_HEX; release level 0: only major and minor are known */
	char version[16];     /* the same for people: "3.8.18", "3.14.0rc2", or "3.8" */
	bool free_threaded;
	bool trace_refs;       /* built with Py_TRACE_REFS */
	uint64_t runtime;      /* link address of _PyRuntime; 0 before 3.7 */
	uint64_t runtime_size; /* its st_size */
	unsigned eval_cnt;     /* of interp.eval */
	struct interp interp;  /* ready for the map `interps` when the result is 0 */
	const char *why_not;   /* a constant sentence when the result is -ENOTSUP, else NULL */
	uint64_t str_type; /* link address of the type of names (2.7: PyString_Type); 0: unknown */
	uint64_t bytes_type; /* ... of line tables */
	/* the self-check has validated a stack of it in some process; set by selfcheck.c */
	bool validated;
};

/*
 * 0; -ENOENT: not an interpreter; -ENOTSUP: an interpreter that cannot be walked, see why_not;
 * -EAGAIN: see above; -ENOMEM. In every case `out` has all that is known.
 */
int py_binary__analyse(const struct elf_file *ef, struct py_binary *out);

/*
 * Second stage, after -EAGAIN: `bytes` are the first `size` of _PyRuntime in a process. 0 or
 * -ENOTSUP; -EAGAIN again while the process has not initialised them.
 */
int py_binary__from_process(struct py_binary *bin, const void *bytes, size_t size);

#endif /* PYPERF_PYPROC_H */
