/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_ELF_H
#define PYPERF_ELF_H
/*
 * One ELF file: identity, segments, sections, exported symbols, bytes.
 *
 * The file is hostile: every offset and length in it is checked against the file's size. It is
 * opened once and kept open, so it stays readable after its process, its mount namespace or its
 * name are gone.
 *
 * "Address" is the link-time virtual address (as in symbols and FDEs), "offset" the position in the
 * file (as in mappings and frame words). They are converted by segment.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
/* The same from a copy of an image in memory (the vdso; tests and fuzzers). The memory is copied.
 */
struct elf_file *elf_file__open_memory(const void *image, size_t size, const char *path);
void elf_file__close(struct elf_file *ef);

const char *elf_file__path(const struct elf_file *ef);
int elf_file__fd(const struct elf_file *ef); /* borrowed; -1 when opened from memory */
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

/* Copies `size` bytes at link address `addr`. 0, -ERANGE (outside the file-backed part). */
int elf_file__read(const struct elf_file *ef, uint64_t addr, void *buf, size_t size);

struct elf_section {
	uint64_t addr, off, size; /* 0 size for SHT_NOBITS contents: see nobits */
	uint32_t type;
	bool nobits;
	const uint8_t *data; /* borrowed until close; NULL for nobits. Not decompressed. */
};
/* False when there is no such section (or no section headers at all). */
bool elf_file__section(const struct elf_file *ef, const char *name, struct elf_section *out);
/* .eh_frame through PT_GNU_EH_FRAME when there are no section headers; also fills in addr and off.
 */
bool elf_file__eh_frame(const struct elf_file *ef, struct elf_section *out);

struct elf_symbol {
	uint64_t addr;
	uint64_t size;
};
/* By exact name in .dynsym (through DT_SYMTAB when there are no section headers), then .symtab. */
bool elf_file__symbol(const struct elf_file *ef, const char *name, struct elf_symbol *out);

#endif /* PYPERF_ELF_H */
