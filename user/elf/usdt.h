/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_USDT_H
#define PYPERF_USDT_H
/*
 * The static probes (USDT) of an ELF file: the notes of its section .note.stapsdt, which
 * <sys/sdt.h> makes.
 *
 *	usdt__each(ef, print, stdout);
 */
#include <stdint.h>

#include "elf/elf.h"

#define USDT_MAX 4096 /* locations of one file */

struct usdt {
	const char *provider, *name, *args; /* foreign text, terminated; borrowed */
	uint64_t addr;			    /* link address of the instruction */
	uint64_t offset;		    /* the same in the file */
	uint64_t semaphore;		    /* link address; 0: it has none */
};

/*
 * Calls `fn` for each location, in the order of the notes. Their number, or -EBADMSG: the rest is
 * damaged.
 */
int usdt__each(const struct elf_file *ef, void (*fn)(void *ctx, const struct usdt *u), void *ctx);

/* Why no breakpoint belongs there, in a few words, for ever; NULL: one may be set. */
const char *usdt__why_not(const struct elf_file *ef, const struct usdt *u);

#endif /* PYPERF_USDT_H */
