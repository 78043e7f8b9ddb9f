/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_GREENLET_H
#define PYPERF_GREENLET_H
/*
 * The functions of the greenlet module at which a native stack ends.
 *
 * Greenlets share one C stack. slp_switch() copies the part that belongs to one of them to the
 * heap, moves the stack pointer and copies another one's part back. What lies outwards of a
 * greenlet's first function, g_initialstub(), belongs to whichever greenlet ran there last, and is
 * no caller (greenlet's src/greenlet/TUserGreenlet.cpp, TGreenlet.cpp; before 2.0 greenlet.c).
 *
 *	main greenlet	_start ... main ... <module>; green_switch; g_switch; g_initialstub; ...
 *	another one	[greenlet]	its own functions ..............; g_initialstub;
 *					inner_bootstrap; ...
 *
 * The wheels have .symtab. Distributions strip it, but export what is C++ (2.0 and later). What no
 * symbol names is found by its code: slp_switch() is the only function that adds one register to
 * both rsp and rbp.
 */
#include <stddef.h>
#include <stdint.h>

#include "bpf/pyperf.h"
#include "elf/elf.h"

struct greenlet_function {
	uint64_t off; /* in the file, somewhere in the function */
	enum cfa_kind kind;
};

#define MAX_GREENLET_FUNCTIONS 4

/* The number of functions that were found: 0 in files that are not named greenlet. */
size_t greenlet__functions(const struct elf_file *ef,
			   struct greenlet_function out[MAX_GREENLET_FUNCTIONS]);

#endif /* PYPERF_GREENLET_H */
