/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SYM_JIT_H
#define PYPERF_SYM_JIT_H
/*
 * Names of generated code: executable memory that belongs to no ELF file. The process itself writes
 * two kinds of file with names while it generates code:
 *
 *    perf map   /tmp/perf-PID.map, lines "START SIZE NAME" (perf's interface for JITs; node
 *               --perf-basic-prof, python -X perf, Java agents)
 *    jitdump    jit-PID.dump, anywhere; the process maps a page of it executable, as a sign
 *               (tools/perf/Documentation/jitdump-specification.txt; python -X perf_jit, node
 *               --perf-prof)
 *
 * A third kind is in the memory of the process, and needs no file:
 *
 *    list       the list of LLVM's JITs for debuggers (numba): jit_list.h
 *
 * PID is the number of the process in its own namespace, and the path is below its root. Both files
 * only grow, and a later entry replaces an earlier one at the same address. So an address gets its
 * name when a window is read, from the entries until then, not at the end.
 *
 *	sym_jit__look(j, space, tgid, proc_fd, dump) the process has such memory: opens its files
 *	sym_jit__begin(j)                           before a window is read
 *	sym_jit__find(j, space, addr)               id of a name
 *
 * The files stay open, so a process that ends, or deletes them, keeps its names until it is
 * forgotten; a process that ends before it is looked at has none. A child of fork that has not
 * called exec has its own names first, and for the rest of its code those that its parent had
 * written until the fork.
 *
 * The files are hostile. A map is used if it is a regular file of the process's user in the
 * process's own /tmp, with nothing mounted on it; a jitdump is used because the process maps it.
 * Only 40 bytes per function are kept; names are read when somebody asks for them. Memory and time
 * per round are bounded for one file, for the files of one user and for all; what the time does not
 * allow is read in later rounds.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/opener.h"

#define SYM_JIT_LISTS 4 /* libraries of a process that generate code */

struct sym_jit;

struct sym_jit *sym_jit__new(struct readers *rs); /* NULL and errno */
void sym_jit__free(struct sym_jit *j);

/*
 * Call for a process with generated code, the first time and when it has more. proc_fd (borrowed):
 * its directory in /proc. dump: its jitdump, or none; taken over.
 */
void sym_jit__look(struct sym_jit *j, uint32_t space, uint32_t tgid, int proc_fd,
		   struct opened dump);
/*
 * Adds a list (jit_list.h) at this address in the memory of a process that was looked at. At most
 * SYM_JIT_LISTS are read.
 */
void sym_jit__add_list(struct sym_jit *j, uint32_t space, uint64_t list);
/* `child` begins with the names that its parent has now. */
void sym_jit__fork(struct sym_jit *j, uint32_t child, uint32_t parent);
void sym_jit__forget(struct sym_jit *j, uint32_t space);

/* Has any process had generated code? */
bool sym_jit__has_procs(const struct sym_jit *j);

/* Begins a round, in which the new part of each file is read at most once. */
void sym_jit__begin(struct sym_jit *j);
/* The name of the code at an address of the process: an id for sym_jit__name(), 0: not known. */
uint32_t sym_jit__find(struct sym_jit *j, uint32_t space, uint64_t addr);
/*
 * Says that the ids given so far are no longer needed: if there are many names, they are forgotten.
 */
void sym_jit__forget_names(struct sym_jit *j);
/* Borrowed until they are forgotten. "" for a number that is no id. */
const char *sym_jit__name(const struct sym_jit *j, uint32_t id);
/*
 * Is generated code right outside a Python frame CPython's perf trampoline? That is a stub per
 * function around the eval loop, which exists only to give perf a name ("py::function:file",
 * Python/perf_trampoline.c). `id`: the result of sym_jit__find(). Code without a name counts as a
 * trampoline if the process writes a jitdump: CPython writes it through a stdio buffer
 * (Python/perf_jit_trampoline.c), so the latest names are missing.
 */
bool sym_jit__is_trampoline(const struct sym_jit *j, uint32_t space, uint32_t id);

#endif /* PYPERF_SYM_JIT_H */
