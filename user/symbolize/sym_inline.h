/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_SYM_INLINE_H
#define PYPERF_SYM_INLINE_H
/*
 * Finds the source lines of offsets in an ELF file, and the functions inlined there, from DWARF. A
 * child process without privileges runs libdw on the DWARF of files that other users made, with
 * limits on memory, processor and time: a file can affect only its own answers.
 *
 *	sym_inline.c   the parent: starts the child, reads answers, remembers them
 *	sym_dwarf.c    the child: libdw
 *
 *	sym_inline__load(s, offsets, cnt);
 *	n = sym_inline__find(s, offset, &frames);
 *
 * One child per file and call: ask for all offsets at once.
 */
#include <stddef.h>
#include <stdint.h>

#include "elf/elf.h"
#include "symbolize/sym_debugfile.h"

#define INLINE_DEPTH_MAX 64 /* frames of one place */
#define INLINE_TIME_S	 20 /* of one call */

/* A function at a place. Outermost first: [0] is the one that has code of its own. */
struct inline_frame {
	const char *name; /* linkage name if there is one, else the plain one; "" for none */
	const char *file; /* "" when not known */
	uint32_t line;	  /* 0: not known */
	uint32_t decl_line;
};

struct sym_inline;

/* `ef` is borrowed. NULL and errno on lack of memory. Opens nothing yet. */
struct sym_inline *sym_inline__new(const struct elf_file *ef);
void sym_inline__free(struct sym_inline *s);
/* As sym_native__set_places(). */
void sym_inline__set_places(struct sym_inline *s, const struct sym_debugfile_places *places);
/* Seconds that one call may take, by the clock and of the child's processor time. */
void sym_inline__set_limit(struct sym_inline *s, unsigned seconds);
/*
 * Looks up those of the offsets (in any order) that are not known yet. 0, also when the file has no
 * DWARF; -ENOMEM. Other failures are printed once per file and leave these offsets without an
 * answer.
 */
int sym_inline__load(struct sym_inline *s, const uint64_t *offsets, size_t cnt);
/* The frames at an offset; 0: not known. Borrowed until the next load. */
size_t sym_inline__find(const struct sym_inline *s, uint64_t offset,
			const struct inline_frame **frames);

/* ---- the child's half, sym_dwarf.c ---- */
/*
 * The answers of the child, one for each address that it knows, in host order: an answer, its
 * frames, their strings. The parent checks all of it.
 */
struct dwarf_answer {
	uint32_t query; /* index in addrs */
	uint32_t cnt;
};

struct dwarf_frame {
	uint32_t line, decl_line;
	uint32_t name_len, file_len; /* their bytes follow */
};

/* Answers for `cnt` ascending link addresses, from the file open at `fd`, to `out`. */
void sym_dwarf__answer(int fd, const uint64_t *addrs, size_t cnt, int out);

#endif /* PYPERF_SYM_INLINE_H */
