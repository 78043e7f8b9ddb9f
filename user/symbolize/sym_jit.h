/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SYM_JIT_H
#define PYPERF_SYM_JIT_H
/*
 * Names of generated code: memory that is executable and belongs to no ELF file. Two kinds of file
 * tell them, both written by the process itself while it generates code:
 *
 *   perf map   /tmp/perf-PID.map, lines "START SIZE NAME" (perf's interface for JITs; node
 *              --perf-basic-prof, python -X perf, Java agents)
 *   jitdump    jit-PID.dump, anywhere; the process maps a page of it executable so that it is found
 *              (tools/perf/Documentation/jitdump-specification.txt; python -X perf_jit, node
 *              --perf-prof)
 *
 * PID is the process's own idea of its number, and the path is one below its root. Both only grow;
 * what was written later holds for an address that was used before. An address is therefore named
 * when a window is read, by what was written until then, not at the end.
 *
 *	sym_jit__look(j, space, proc_fd, dump)      the process has such memory: opens its files
 *	sym_jit__begin(j)                           a window begins to be read
 *	sym_jit__find(j, space, addr)               id of a name
 *
 * The files stay open, so a process that ends, or deletes them, keeps its names until it is
 * forgotten; one that ends before it is looked at has none. A child of fork has its parent's names
 * as long as it has no file of its own.
 *
 * The files are hostile. A map is believed if its owner is the process's user and it is a regular
 * file that lies in the process's own /tmp, with nothing mounted on it; a jitdump because the
 * process maps it. What is kept is 40 bytes per function and none of the names: those that are
 * asked for are read then. What one file, the files of one user and all of them may take of memory,
 * and of the time of a round, is bounded; what the time does not suffice for is read in the next
 * rounds.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sym_jit;

struct sym_jit *sym_jit__new(void); /* NULL and errno */
void sym_jit__free(struct sym_jit *j);

/*
 * A process that has generated code, at the first time and when it has more. proc_fd (borrowed):
 * its directory in /proc. dump_fd: its jitdump, open for reading, or -1; taken over.
 */
void sym_jit__look(struct sym_jit *j, uint32_t space, int proc_fd, int dump_fd);
/* `child` begins with what the parent has. */
void sym_jit__fork(struct sym_jit *j, uint32_t child, uint32_t parent);
void sym_jit__forget(struct sym_jit *j, uint32_t space);

/* Some process has, or had, generated code. */
bool sym_jit__has_procs(const struct sym_jit *j);

/* From here on, until the next call, each file is read on at most once. */
void sym_jit__begin(struct sym_jit *j);
/* The name of the code at an address of the process: an id for sym_jit__name(), 0: not known. */
uint32_t sym_jit__find(struct sym_jit *j, uint32_t space, uint64_t addr);
/* The ids given so far are needed no more; when the names are many, they are forgotten. */
void sym_jit__forget_names(struct sym_jit *j);
/* Borrowed until they are forgotten. "" for a number that is no id. */
const char *sym_jit__name(const struct sym_jit *j, uint32_t id);
/*
 * Is generated code right outside of a Python frame CPython's perf trampoline? That is a stub per
 * function around the eval loop, which exists only to give perf a name ("py::function:file",
 * Python/perf_trampoline.c). `id`: what sym_jit__find() said. Without a name it is believed to be
 * one if the process writes a jitdump: CPython writes it through a stdio buffer
 * (Python/perf_jit_trampoline.c), so the latest names are missing.
 */
bool sym_jit__is_trampoline(const struct sym_jit *j, uint32_t space, uint32_t id);

#endif /* PYPERF_SYM_JIT_H */
