/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SYMBOLIZE_H
#define PYPERF_SYMBOLIZE_H
/*
 * Gives the frames of a profile names. One module per kind of frame; each remembers its results for
 * later windows.
 *
 *    sym_python.c  code ids -> qualname, file, line (from captured names and line tables)
 *    sym_native.c  file id + offset -> function (symbol tables, debug files, tables, demangled)
 *    sym_kernel.c  kernel address -> function (kallsyms)
 *    sym_jit.c     generated code: address -> name, when a window is read; see sym_jit.h;
 *                  jit_codes.c puts the code of one file in order
 *
 * A miss is never a guess: a native frame without a symbol is named by the place where its function
 * begins; without unwind information too, func is "", shown as "0xOFFSET [file.so]".
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "elf/elf.h"
#include "process/file_sink.h"
#include "profile/profile.h"
#include "symbolize/sym_debugfile.h"
#include "symbolize/sym_jit.h"

/*
 * Names are cut at this length, and longer ones not demangled, to bound the work that a foreign
 * file can cause.
 */
#define SYM_NAME_MAX 8192

/* ---- native ---- */
struct sym_builds;
struct sym_native; /* symbols of one ELF file, loaded at the first question */

/*
 * `ef` is borrowed and must outlive it. Opens nothing yet. NULL and errno on lack of memory.
 * Loading ends in elf_file__forget(ef).
 */
struct sym_native *sym_native__new(const struct elf_file *ef);
/* Sets where to look for separate debug files; borrowed. Call before the first question. */
void sym_native__set_places(struct sym_native *s, const struct sym_debugfile_places *places);
/* Sets the names of known builds (sym_builds.h); borrowed. Call before the first question. */
void sym_native__set_builds(struct sym_native *s, const struct sym_builds *builds);
void sym_native__free(struct sym_native *s);
/*
 * The function at a file offset: its demangled name, appended to `name`, and its first offset.
 * False when no symbol covers it (symbols of size 0 cover up to the next symbol of their section).
 */
bool sym_native__find(struct sym_native *s, uint64_t offset, struct strbuf *name, uint64_t *start);
/*
 * Names an offset that no symbol covers by the start of its function or part of a function, from
 * .eh_frame_hdr: the file's name and the distance from where the file is loaded,
 * "python3.11+0x13ad00", the same in each run.
 */
bool sym_native__find_start(struct sym_native *s, uint64_t offset, struct strbuf *name,
			    uint64_t *start);
/* The memory of its symbols in bytes. Unload frees it; the next question reads them again. */
size_t sym_native__memory(const struct sym_native *s);
void sym_native__unload(struct sym_native *s);

/* Appends the demangled form of a C++ (Itanium) or Rust (legacy, v0) name, or the name as it is. */
void sym_demangle(struct strbuf *b, const char *mangled);

/*
 * Appends the name of a native function of the ELF file `path` for people: demangled, or the source
 * name that Python's compilers gave it ("inner (cymod.pyx)"), without the suffixes of split
 * functions ("f.cold.0"). See sym_compiled.c. `peers` tells which other symbols the file has: some
 * names can be read only with them. NULL: not known.
 */
struct sym_peers {
	bool (*has)(void *ctx, const char *symbol);
	void *ctx;
};

void sym_native_name(struct strbuf *b, const char *symbol, const char *path,
		     const struct sym_peers *peers);
/* The peers in the file of `s`, as long as that lives. */
struct sym_peers sym_native__peers(struct sym_native *s);

/*
 * In a profile whose frames have names: puts frames of code that Nuitka has compiled where their
 * native functions are. Stacks get shorter. 0 or -ENOMEM.
 */
int sym_place_compiled(struct profile *p);

/* ---- kernel ---- */
struct sym_kernel;
/*
 * Reads `path`, or with NULL asks the kernel, and reads /proc/kallsyms when it has to. NULL and
 * errno: EPERM when all addresses read as zero (kernel.kptr_restrict without CAP_SYSLOG).
 */
struct sym_kernel *sym_kernel__open(const char *path);
void sym_kernel__close(struct sym_kernel *k);
/* The text symbol that covers `addr`, or NULL. Borrowed until the next call. */
const char *sym_kernel__find(struct sym_kernel *k, uint64_t addr, uint64_t *offset);

/* ---- Python ---- */
struct sym_python; /* all code objects seen, by code id; equal ones are one function */

struct py_function {
	const char *name; /* qualname, UTF-8; borrowed until free */
	size_t name_len;
	const char *file;
	size_t file_len;
	uint32_t first_line;
	uint32_t number; /* the same for code objects that are equal, whatever their process */
};

struct sym_python *sym_python__new(void);
void sym_python__free(struct sym_python *s);
/*
 * Take the records of the `blobs` ring buffer, in order. Return 0, or negative errno for a record
 * that makes no sense (it is ignored): -EINVAL, -E2BIG, -EEXIST for a second EV_CODE of a code id.
 * -ENOMEM: the record is lost. `layout` tells the kind of line table. `slot`: of struct shares,
 * whose strings they are; 0: not known. All users' strings have 16 MiB, divided as the entries of a
 * table. What finds no room is one function, "<no room for names>", and a message says whose it is.
 */
int sym_python__on_blob(struct sym_python *s, const struct ev_blob *ev, size_t size);
int sym_python__on_code(struct sym_python *s, const struct ev_code *ev, size_t size,
			const struct py_layout *layout, uint32_t slot);
/* Which blobs of a code object are incomplete: bit 1 << enum blob_kind. -ENOENT: code id not known.
 */
int sym_python__missing(const struct sym_python *s, uint64_t code_id);
/*
 * Supplies a whole blob that user space read itself: info->size raw bytes as in the target's
 * memory, with their width and flags (BPF may not have known them). 0, -ENOENT, -EINVAL, -EEXIST
 * (not missing), -E2BIG, -ENOMEM.
 */
int sym_python__supply(struct sym_python *s, uint64_t code_id, enum blob_kind kind,
		       const void *data, const struct blob_info *info);
/* False: not known. Incomplete names end in U+2026; a code without a name is "<unknown>". */
bool sym_python__find(const struct sym_python *s, uint64_t code_id, struct py_function *out);
/*
 * The line at a bytecode offset, or the one in its place (OFFSET_LINE); 0: no line. The first line
 * for OFFSET_NOT_STARTED, for OFFSET_LINE without one, and for instructions before the first one
 * with a line: from 3.10 on, those that make cells and copy free variables have none.
 */
uint32_t sym_python__line(const struct sym_python *s, uint64_t code_id, uint32_t offset);

/* Its memory in bytes, about. */
size_t sym_python__memory(const struct sym_python *s);
/*
 * Ids of code objects are never given twice. BPF deals out those from 1 on, and who walks stacks
 * outside of the kernel (threads/hostwalk.h) those from here on.
 */
#define CODE_IDS_HOST ((FRAME_PYTHON_CODE + 1) / 2)
/* The highest id so far, from where those of its dealer begin. */
uint64_t sym_python__last_id(const struct sym_python *s);
#define SYM_PYTHON_BUDGET ((size_t)64 << 10)
/*
 * Should the next sweep be made? True if there are more than `budget` bytes and a quarter more than
 * the last sweep left, or if the first of two sweeps was done. Not twice as much: where few are
 * new, that lets memory grow for half an hour.
 */
bool sym_python__wants_sweep(const struct sym_python *s, size_t budget);
/* Begins a round; the caller decides when. */
void sym_python__begin_round(struct sym_python *s);
/* Was its name asked for in this round or the last one, or is it not known yet? */
bool sym_python__was_named(const struct sym_python *s, uint64_t code_id);
/*
 * Makes a sweep. Every second sweep forgets the code objects that were known at the first one and
 * are not among the `live` ids of both; sorts `live`. 0 or -ENOMEM: nothing is forgotten. Numbers
 * of functions change.
 */
int sym_python__sweep(struct sym_python *s, uint64_t *live, size_t cnt);
/*
 * Forgets the code objects of processes that have gone. Functions, their strings and their numbers
 * stay. 0 or -ENOMEM: nothing is forgotten.
 */
int sym_python__forget(struct sym_python *s, bool (*gone)(void *ctx, uint32_t tgid), void *ctx);
size_t sym_python__code_cnt(const struct sym_python *s);

/* ---- all ---- */
struct symbolizer; /* knows which file id is which ELF file; filled by the process stage */
/* `rs` (borrowed, or NULL) opens files. NULL and errno. */
struct symbolizer *symbolizer__new(struct readers *rs);
void symbolizer__free(struct symbolizer *s);
struct sym_python *symbolizer__python(struct symbolizer *s); /* borrowed */
struct sym_jit *symbolizer__jit(struct symbolizer *s);	     /* borrowed */
/*
 * Adds a file. `ef` is borrowed and must live as long as the symbolizer has it. -EEXIST, -EINVAL:
 * `file` is taken, or not an id.
 */
int symbolizer__add_file(struct symbolizer *s, uint32_t file, const struct elf_file *ef);
/* Removes a file: it has no names from now on. Its id is not free again. */
void symbolizer__remove_file(struct symbolizer *s, uint32_t file);
/* A possible debug file of `file`, opened while its process lives. Takes the descriptor. */
void symbolizer__offer_debug_file(struct symbolizer *s, uint32_t file, struct opened debug);

/* The sink for the files and the generated code of processes. */
struct file_sink symbolizer__sink(struct symbolizer *s);

#define SYMBOLS_BUDGET (32U << 20)

struct symbolize_opts {
	bool lines; /* false: Python frames of one function share one sym without a line */
	/* native frames: source lines, and the functions inlined there; see sym_inline.h */
	bool inlines;
	size_t symbols_budget; /* bytes; 0: SYMBOLS_BUDGET */
};

/*
 * Gives every frame of `p` a sym: one per place of a Python program, one per word of other frames,
 * and one more for each function inlined there. 0 or -ENOMEM; p->frame_syms is NULL then. Does
 * nothing if no stack was added since the last run; otherwise makes p->syms anew. Reads files one
 * after the other, and keeps what it read for the next run, up to a budget.
 */
int symbolizer__run(struct symbolizer *s, struct profile *p, const struct symbolize_opts *o);

#endif /* PYPERF_SYMBOLIZE_H */
