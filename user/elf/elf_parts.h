/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_ELF_PARTS_H
#define PYPERF_ELF_PARTS_H
/*
 * The parts of struct elf_file, for the files that implement it:
 *
 *	elf.c		opens it; headers, sections, .eh_frame; addresses and offsets
 *	elf_symbols.c	finds a symbol by its name
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/elf.h"

#define BLOCK_SZ   (64U << 10)
#define NO_SECTION UINT32_MAX

struct section {
	uint64_t addr, off, size;
	uint32_t name, type, link;
	bool compressed;
};

/* The entries of PT_DYNAMIC that are used; all are addresses but strsz. 0: absent. */
struct dynamic {
	uint64_t symtab, strtab, strsz, hash, gnu_hash, pltgot;
	uint64_t soname; /* offset in strtab */
	bool has_soname;
};

/* Cache of the last read of a file that another process reads, because most reads are small. */
struct block {
	uint64_t off;
	size_t len;
	uint8_t bytes[BLOCK_SZ];
};

struct elf_file {
	struct opened file;
	struct block *block; /* NULL: anyone may read it */
	uint8_t *image;	     /* instead of a file */
	uint64_t size, room; /* room: bytes that one read may take */
	char *path;
	char *soname;
	struct elf_id id;
	uint16_t machine, type;
	struct elf_segment *segments;
	size_t segment_cnt;
	struct elf_segment eh_frame_hdr; /* PT_GNU_EH_FRAME; file_size 0: none */
	struct dynamic dyn;
	struct section *sections;
	size_t section_cnt;
	char *names; /* section names, NUL-terminated */
	size_t names_size;
	/*
	 * One slot per section, and one for an .eh_frame found without section headers. Apart from
	 * the rest, so that a const object can fill it.
	 */
	uint8_t **contents;
};

/* The contents of section `i` with a NUL behind them, or NULL. They stay with the file. */
const uint8_t *elf_file__section_data(const struct elf_file *ef, uint32_t i);

#endif /* PYPERF_ELF_PARTS_H */
