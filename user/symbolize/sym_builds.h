/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SYM_BUILDS_H
#define PYPERF_SYM_BUILDS_H
/*
 * Names of the functions of known builds whose files have no symbols: Debian's CPython, C library
 * and the libraries that Python programs spend time in. They come from the debug packages of
 * exactly these builds (scripts/names), in one file that is installed with the program. It is
 * mapped, so it costs memory only where it is read.
 *
 *	build id 571d98e0..., 10222 functions	row: 0, 17, 18, 0, 19, ...
 *	build id c561f3aa..., 9810 functions	row: 0, 17, 21, 18, ...
 *	names 0 "", ..., 17 "list_sort", 18 "sortslice_copy", ...
 *
 * The file, little-endian, without padding:
 *
 *	char magic[20]			"pyperf-bpf names\n", NUL
 *	u32 builds, names		how many
 *	u32 rows_sz, names_sz		bytes
 *	struct { u8 id[20]; u32 functions, first; } [builds]
 *	u8 rows[rows_sz]
 *	char strings[names_sz]		names, each ends in NUL; number 0 is ""
 *
 * A row begins at rows[first] and has one LEB128 number for each function, in the order of their
 * addresses: of the FDEs that ehframe__ranges() gives. 0: no name, or the file itself has one.
 * Others are 1 plus the distance from the last name of the row, or from name 0, as 0, -1, 1, -2, 2
 * ... are 0, 1, 2, 3, 4 ...: neighbours in the file mostly are in the pool too.
 *
 * Builds are ascending by id, each once; a row is as long as `functions` says. A file with another
 * number of functions is another file. The table belongs to the program, so it is trusted to be
 * true, but nothing in it is relied on: every number is checked.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/elf.h"

struct sym_builds;

/*
 * Opens the table that is installed with this program, or lies beside it in a checkout. It must
 * belong to root or to the program's owner. NULL and errno: ENOENT there is none, EPERM, EBADMSG,
 * ENOMEM.
 */
struct sym_builds *sym_builds__installed(void);
/* Opens a table in any file; the caller may close `fd` then. NULL and errno. */
struct sym_builds *sym_builds__open(int fd);
/* Opens a table in memory, which is borrowed. */
struct sym_builds *sym_builds__of(const void *data, size_t size);
void sym_builds__free(struct sym_builds *b);

/* Does it have names for the file? */
bool sym_builds__has(const struct sym_builds *b, const struct elf_id *id);

struct build_row {
	uint32_t *v;	   /* malloc'd: the offset of each function's name in `names`; 0: no name */
	const char *names; /* borrowed until sym_builds__free() */
	size_t names_sz;   /* the last is NUL */
};

/*
 * Reads the names of a file with `functions` FDEs. 0; -ENOENT: the build is not in the table;
 * -EBADMSG: it has another number of functions, or its row is damaged; -ENOMEM. On failure `row` is
 * empty.
 */
int sym_builds__row(const struct sym_builds *b, const struct elf_id *id, size_t functions,
		    struct build_row *row);

#endif /* PYPERF_SYM_BUILDS_H */
