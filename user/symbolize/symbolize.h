/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SYMBOLIZE_H
#define PYPERF_SYMBOLIZE_H
/*
 * profile -> names. One answerer per kind of frame; each remembers what it found for later windows.
 *
 *   sym_python.c  code ids -> qualname, file, line (from captured names and line tables)
 *   sym_native.c  file id + offset -> function (symbol tables, debug files, demangled)
 *   sym_kernel.c  kernel address -> function (kallsyms)
 *   sym_jit.c     generated code: address -> name, when a window is read; see sym_jit.h
 *
 * A miss is never a guess: a native frame without a symbol has the place where its function begins
 * for a name, and without unwind information func = "", shown as "0xOFFSET [file.so]".
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

/* Names are cut here, and longer ones not demangled: a bound on what a foreign file can cause. */
#define SYM_NAME_MAX 8192

/* ---- native ---- */
struct sym_native; /* symbols of one ELF file, loaded at the first question */

/*
 * `ef` is borrowed and must outlive it. Opens nothing yet. NULL and errno on lack of memory.
 * Loading ends in elf_file__forget(ef).
 */
struct sym_native *sym_native__new(const struct elf_file *ef);
/* Where separate debug files are; borrowed. To be set before the first question. */
void sym_native__set_places(struct sym_native *s, const struct sym_debugfile_places *places);
void sym_native__free(struct sym_native *s);
/*
 * The function at a file offset: its demangled name, appended to `name`, and its first offset.
 * False when no symbol covers it (symbols of size 0 cover up to the next symbol of their section).
 */
bool sym_native__find(struct sym_native *s, uint64_t offset, struct strbuf *name, uint64_t *start);
/*
 * For an offset that no symbol covers: the function or part of one that begins at or below it, by
 * .eh_frame_hdr, as the file's name and the distance from where the file is loaded:
 * "python3.11+0x13ad00", the same in each run.
 */
bool sym_native__find_start(struct sym_native *s, uint64_t offset, struct strbuf *name,
			    uint64_t *start);
/* Bytes that its symbols take; and gives them back: the next question reads them again. */
size_t sym_native__memory(const struct sym_native *s);
void sym_native__unload(struct sym_native *s);

/* Appends the demangled form of a C++ (Itanium) or Rust (legacy, v0) name, or the name as it is. */
void sym_demangle(struct strbuf *b, const char *mangled);

/*
 * Appends what people call a native function of the ELF file `path`: demangled, as Python's
 * compilers knew it ("inner (cymod.pyx)"), without the parts of one function that a linker makes
 * ("f.cold.0"). See sym_compiled.c.
 */
void sym_native_name(struct strbuf *b, const char *symbol, const char *path);

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
 * Records of the `blobs` ring buffer, in order. Return 0, or negative errno for a record that makes
 * no sense (it is ignored): -EINVAL, -E2BIG, -EEXIST for a code id whose EV_CODE was there already.
 * -ENOMEM: the record is lost. `layout` tells the kind of line table.
 */
int sym_python__on_blob(struct sym_python *s, const struct ev_blob *ev, size_t size);
int sym_python__on_code(struct sym_python *s, const struct ev_code *ev, size_t size,
			const struct py_layout *layout);
/* Which blobs of a code object are incomplete: bit 1 << enum blob_kind. -ENOENT: code id not known.
 */
int sym_python__missing(const struct sym_python *s, uint64_t code_id);
/*
 * Supplies a whole blob that user space read itself: info->size raw bytes as in the target's
 * memory, with the width and flags of what was read (BPF may not have known them). 0, -ENOENT,
 * -EINVAL, -EEXIST (not missing), -E2BIG, -ENOMEM.
 */
int sym_python__supply(struct sym_python *s, uint64_t code_id, enum blob_kind kind,
		       const void *data, const struct blob_info *info);
/* False: not known. Incomplete names end in U+2026; a code without a name is "<unknown>". */
bool sym_python__find(const struct sym_python *s, uint64_t code_id, struct py_function *out);
/*
 * The line at a bytecode offset; 0: no line. The first line for OFFSET_NOT_STARTED, and for
 * instructions before the first that has a line: from 3.10 on, what makes cells and copies free
 * variables has none.
 */
uint32_t sym_python__line(const struct sym_python *s, uint64_t code_id, uint32_t offset);

/* Bytes, about. */
size_t sym_python__memory(const struct sym_python *s);
uint64_t sym_python__last_id(const struct sym_python *s); /* the highest code id so far */
#define SYM_PYTHON_BUDGET ((size_t)64 << 10)
/*
 * There is more than `budget` bytes, and a quarter more than what was left by then; or one sweep of
 * two was done. Not twice as much: where few are new, that lets memory grow for half an hour.
 */
bool sym_python__wants_sweep(const struct sym_python *s, size_t budget);
/* Rounds are the caller's. */
void sym_python__begin_round(struct sym_python *s);
/* Somebody has asked for its name in this round or the one before, or it is not known yet. */
bool sym_python__was_named(const struct sym_python *s, uint64_t code_id);
/*
 * Every second one forgets the code objects that were known at the first and not among the `live`
 * ids of both; `live` is put in order. 0 or -ENOMEM: nothing is forgotten. Numbers of functions
 * change.
 */
int sym_python__sweep(struct sym_python *s, uint64_t *live, size_t cnt);

/* ---- all ---- */
struct symbolizer; /* knows which file id is which ELF file; filled by process.c */
struct symbolizer *symbolizer__new(void);
void symbolizer__free(struct symbolizer *s);
struct sym_python *symbolizer__python(struct symbolizer *s); /* borrowed */
struct sym_jit *symbolizer__jit(struct symbolizer *s);	     /* borrowed */
/*
 * `ef` is borrowed and must live as long as the symbolizer has it. -EEXIST, -EINVAL: `file` is
 * taken, or no id.
 */
int symbolizer__add_file(struct symbolizer *s, uint32_t file, const struct elf_file *ef);
/* From now on there are no names for it. The number is not free again. */
void symbolizer__remove_file(struct symbolizer *s, uint32_t file);
/* What may be the debug file of `file`, from where nobody can look later; `fd` is taken over. */
void symbolizer__offer_debug_file(struct symbolizer *s, uint32_t file, int fd);

/* Takes what process finds: files and generated code. */
struct file_sink symbolizer__sink(struct symbolizer *s);

#define SYMBOLS_BUDGET (32U << 20)

struct symbolize_opts {
	bool lines; /* false: Python frames of one function share one sym without a line */
	/* native frames: source lines, and the functions inlined there; see sym_inline.h */
	bool inlines;
	size_t symbols_budget; /* bytes; 0: SYMBOLS_BUDGET */
};

/*
 * Gives every frame of `p` a sym: one per place of a Python program, one per word of all others,
 * and one more for each function inlined there. 0 or -ENOMEM; p->frame_syms is NULL then. Does
 * nothing when no stack was added since the last run; otherwise p->syms is made anew. Files are
 * taken one after the other, and what was read of them is kept for the next run, up to a budget.
 */
int symbolizer__run(struct symbolizer *s, struct profile *p, const struct symbolize_opts *o);

#endif /* PYPERF_SYMBOLIZE_H */
