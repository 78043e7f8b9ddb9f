/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SYM_DEBUGFILE_H
#define PYPERF_SYM_DEBUGFILE_H
/*
 * Finds separate debug files, which hold what strip removed from an ELF file.
 *
 *    the same path below the root of a process that maps the file
 *    ROOT/.build-id/xx/yyyy.debug                       by build id
 *    DIR/NAME, DIR/.debug/NAME, ROOT/DIR/NAME           by .gnu_debuglink; DIR is the file's own
 *    a server                                           by build id; see sym_debuginfod.h
 *
 * A candidate is used only if it belongs to the file: equal build ids prove it, different ones
 * refute it, and if one of the two has none, the checksum in .gnu_debuglink decides.
 */
#include "elf/elf.h"
#include "symbolize/sym_debuginfod.h"

#define DEBUG_ROOT "/usr/lib/debug"

struct sym_debugfile_places {
	const char *root;	       /* DEBUG_ROOT, or another for tests */
	struct sym_debuginfod *server; /* NULL: no server is asked */
	struct readers *readers;       /* helpers that open them; or NULL */
	struct opened offered;	       /* a candidate, tried first; borrowed */
};

extern const struct sym_debugfile_places sym_debugfile_default; /* DEBUG_ROOT alone */

/*
 * The debug file of `ef` that has contents in `section` (".symtab", ".debug_info"); the caller
 * closes it. NULL and errno: ENOENT there is none, ENOMEM.
 */
struct elf_file *sym_debugfile__open(const struct elf_file *ef,
				     const struct sym_debugfile_places *places,
				     const char *section);

#endif /* PYPERF_SYM_DEBUGFILE_H */
