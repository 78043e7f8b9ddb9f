/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_NATIVE_FUNCTIONS_H
#define PYPERF_NATIVE_FUNCTIONS_H
/*
 * The functions of an ELF file, as its unwind information lists them, and the instructions where
 * they begin and end: without any symbol.
 *
 * A breakpoint for the beginning is set on the first instruction that the kernel emulates, if the
 * function comes by only once before it branches; else on the first one, which the kernel
 * single-steps. Parts of functions that the compiler has put elsewhere are left out, because no
 * call leads there. A function ends at each `ret`, or where it jumps to another one in its place,
 * which then has the same CFA.
 *
 *	err = native_functions__find(&fs, ef);
 *	native_functions__name(&fs, ef, readers);
 *	first = native_functions__by_name(&fs, ef, "row_to_tuple");
 *	native_functions__free(&fs);
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reader.h"
#include "elf/elf.h"

#define NATIVE_RA_BELOW 8 /* bytes from the return address to the CFA */

struct native_spot {
	uint64_t offset; /* in the file */
	uint32_t function;
	uint32_t cfa_off; /* the CFA is so many bytes above the stack pointer there */
	bool is_end, emulated;
};

struct native_function {
	uint64_t start, end; /* link addresses */
	char *name;	     /* owned; NULL before native_functions__name() */
};

struct native_functions {
	struct native_function *all; /* ascending by address */
	size_t cnt, cap;
	struct native_spot *spots; /* of all, those of a function side by side */
	size_t spot_cnt, spot_cap;
};

/* 0; -ENOENT: the file has no unwind information; -ENOTSUP: not of x86-64; -ENOMEM, -E2BIG. */
int native_functions__find(struct native_functions *fs, const struct elf_file *ef);
/* Gives all functions the names that a profile gives them. 0 or -ENOMEM. */
int native_functions__name(struct native_functions *fs, const struct elf_file *ef,
			   struct readers *rs);
/* The number of the function of this symbol, or of this name; SIZE_MAX: there is none. */
size_t native_functions__by_name(const struct native_functions *fs, const struct elf_file *ef,
				 const char *name);
void native_functions__free(struct native_functions *fs);

#endif /* PYPERF_NATIVE_FUNCTIONS_H */
