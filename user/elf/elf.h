/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_ELF_H
#define PYPERF_ELF_H
/*
 * One ELF file: identity, segments, sections, exported symbols, bytes.
 *
 * The file is hostile: every offset and length in it is checked against the file's size. It is
 * opened once and kept open, so it stays readable after its process, its mount namespace or its
 * name are gone. It is read, never mapped: a file that shrinks under us makes a call fail, where a
 * mapping would raise SIGBUS.
 *
 * Contents of sections are read when first asked for and kept until elf_file__forget() or close.
 * One object is for one thread at a time, also through a pointer to const.
 *
 * "Address" is the link-time virtual address (as in symbols and FDEs), "offset" the position in the
 * file (as in mappings and frame words). They are converted by segment.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/opener.h"

#define BUILD_ID_MAX 32

struct elf_file;

struct elf_id {
	uint8_t bytes[BUILD_ID_MAX];
	uint8_t size; /* 0: the file has no build id */
};

/*
 * Takes over `fd` (also on failure). `path` is for messages and reports and is copied.
 * NULL and errno: ENOEXEC not an ELF file of this machine, EBADMSG damaged, ENOMEM, EIO...
 */
struct elf_file *elf_file__open(int fd, const char *path);
/* The same of a file that another process may have to read; takes it over. */
struct elf_file *elf_file__open_opened(struct opened *file, const char *path);
/* The same from a copy of an image in memory (the vdso; tests and fuzzers). The memory is copied.
 */
struct elf_file *elf_file__open_memory(const void *image, size_t size, const char *path);
void elf_file__close(struct elf_file *ef);

const char *elf_file__path(const struct elf_file *ef);
int elf_file__fd(const struct elf_file *ef); /* borrowed; -1 when opened from memory */
const struct opened *elf_file__opened(const struct elf_file *ef); /* the same, as it was opened */
/* The owner: see tenant__of_process(). 0: not known. */
uint64_t elf_file__tenant(const struct elf_file *ef);
const struct elf_id *elf_file__id(const struct elf_file *ef);
/* Lower-case hex of the build id into buf (2 * BUILD_ID_MAX + 1 bytes); "" when there is none. */
void elf_file__id_hex(const struct elf_file *ef, char *buf);
uint64_t elf_file__size(const struct elf_file *ef);
uint16_t elf_file__machine(const struct elf_file *ef);	/* EM_X86_64, EM_AARCH64 */
bool elf_file__is_pie_or_so(const struct elf_file *ef); /* ET_DYN */
/* DT_SONAME, or NULL. Borrowed until close. */
const char *elf_file__soname(const struct elf_file *ef);

/* Conversions by PT_LOAD (file-backed part only). False when outside every segment. */
bool elf_file__addr_to_off(const struct elf_file *ef, uint64_t addr, uint64_t *off);
bool elf_file__off_to_addr(const struct elf_file *ef, uint64_t off, uint64_t *addr);
/* File offsets [*start, *limit) spanned by the executable segments. False: none. */
bool elf_file__text(const struct elf_file *ef, uint64_t *start, uint64_t *limit);

/* A PT_LOAD, its file-backed part cut at the end of the file. */
struct elf_segment {
	uint64_t addr, off;
	uint64_t file_size; /* bytes backed by the file */
	uint64_t mem_size;
	bool exec;
};
/* In the order of the program headers. Borrowed until close. */
const struct elf_segment *elf_file__segments(const struct elf_file *ef, size_t *cnt);

/*
 * Copies `size` bytes at link address `addr`. 0, -ERANGE (outside the file-backed part of one
 * segment), -EIO (the file shrank). On failure `buf` is undefined.
 */
int elf_file__read(const struct elf_file *ef, uint64_t addr, void *buf, size_t size);
/* The same by file offset. */
int elf_file__read_at(const struct elf_file *ef, uint64_t off, void *buf, size_t size);

struct elf_section {
	uint64_t addr, off, size; /* size in the file: 0 for SHT_NOBITS, see nobits */
	uint64_t mem_size;	  /* sh_size, also for SHT_NOBITS */
	uint32_t type;
	bool nobits;
	bool compressed; /* SHF_COMPRESSED; see elf_file__copy_section() */
	/* Borrowed until elf_file__forget() or close; NULL for nobits. Not decompressed. */
	const uint8_t *data;
};
/* False when there is no such section (or no section headers at all), or it cannot be read. */
bool elf_file__section(const struct elf_file *ef, const char *name, struct elf_section *out);
/* The same without reading its contents: data is NULL. */
bool elf_file__section_info(const struct elf_file *ef, const char *name, struct elf_section *out);
/* The file has this section, and not just as an empty place. */
bool elf_file__has(const struct elf_file *ef, const char *section);
/*
 * A malloc'd copy of a section's contents, inflated when it is compressed. 0; -E2BIG: more than
 * `max` bytes, -ENOTSUP: compressed, but not by zlib, -EBADMSG, -ENOMEM, -EIO.
 */
int elf_file__copy_section(const struct elf_file *ef, const struct elf_section *s, uint64_t max,
			   uint8_t **data, uint64_t *size);
/* .eh_frame through PT_GNU_EH_FRAME when there are no section headers; also fills in addr and off.
 */
bool elf_file__eh_frame(const struct elf_file *ef, struct elf_section *out);
bool elf_file__eh_frame_info(const struct elf_file *ef, struct elf_section *out);
/* .eh_frame_hdr (PT_GNU_EH_FRAME); and without its contents. */
bool elf_file__eh_frame_hdr(const struct elf_file *ef, struct elf_section *out);
bool elf_file__eh_frame_hdr_info(const struct elf_file *ef, struct elf_section *out);
/* DT_PLTGOT: the base of DW_EH_PE_datarel. 0: none. */
uint64_t elf_file__pltgot(const struct elf_file *ef);

/* Gives back the memory of all contents read so far; ends every borrow of `data`. */
void elf_file__forget(const struct elf_file *ef);

/* The same by number, below elf_file__section_cnt(); 0 without section headers. */
size_t elf_file__section_cnt(const struct elf_file *ef);
bool elf_file__section_at(const struct elf_file *ef, size_t i, struct elf_section *out);

struct elf_symbol {
	uint64_t addr;
	uint64_t size;
};
/* By exact name in .dynsym (through DT_SYMTAB when there are no section headers), then .symtab. */
bool elf_file__symbol(const struct elf_file *ef, const char *name, struct elf_symbol *out);

#endif /* PYPERF_ELF_H */
