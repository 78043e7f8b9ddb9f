/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TESTS_ELFGEN_H
#define PYPERF_TESTS_ELFGEN_H
/*
 * ELF files made by hand, for tests and fuzzers.
 *
 *	offset   address
 *	0        -         ELF header, program headers
 *	0x400    0x400400  notes, dynamic section and its tables	PT_LOAD r
 *	0x1000   0x401000  text, text_size bytes of 0x90		PT_LOAD r-x
 *	behind   0x900000  .eh_frame (or .debug_frame), .eh_frame_hdr	PT_LOAD r
 *	behind   -         .shstrtab, section headers
 *
 * Text starts with two words, so that an indirect pointer has something to point at.
 */
#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define GEN_TEXT_OFF  0x1000
#define GEN_TEXT_ADDR 0x401000
#define GEN_META_OFF  0x400
#define GEN_META_ADDR 0x400400
#define GEN_EH_ADDR   0x900000

struct elfgen {
	uint16_t machine;
	uint32_t text_size; /* a multiple of 16 */
	const uint8_t *eh;
	uint32_t eh_size;
	const uint8_t *hdr; /* .eh_frame_hdr, at elfgen_hdr_addr() */
	uint32_t hdr_size;
	bool debug_frame; /* eh is .debug_frame */
	bool compressed;  /* ... or says that it is */
	bool no_sections;
	bool no_text; /* the text segment is not executable */
};

/* The dynamic part: a build id, a soname, one symbol "answer" with a GNU hash table. */
struct elfgen_meta {
	Elf64_Nhdr note;
	char note_name[4];
	uint8_t build_id[20];
	char strings[24]; /* "\0libx.so.1\0answer\0" */
	Elf64_Sym syms[2];
	uint32_t hash_head[4];
	uint64_t bloom[1];
	uint32_t bucket, chain;
	Elf64_Dyn dyn[7];
};

static inline uint32_t elfgen_eh_off(const struct elfgen *g)
{
	return GEN_TEXT_OFF + g->text_size;
}

static inline uint64_t elfgen_hdr_addr(const struct elfgen *g)
{
	return GEN_EH_ADDR + ((g->eh_size + 7) & ~7U);
}

static inline uint64_t elfgen_meta_addr(size_t member)
{
	return GEN_META_ADDR + member;
}

#define GEN_ADDR_OF(m) elfgen_meta_addr(offsetof(struct elfgen_meta, m))

static inline struct elfgen_meta elfgen_meta(void)
{
	struct elfgen_meta m = {
		.note = { .n_namesz = 4, .n_descsz = 20, .n_type = NT_GNU_BUILD_ID },
		.note_name = "GNU",
		.strings = "\0libx.so.1\0answer",
		.hash_head = { 1, 1, 1, 0 },
		.bucket = 1,
	};
	const char *name = "answer";
	uint32_t h = 5381;

	while (*name)
		h = h * 33 + (uint8_t)*name++;
	m.chain = h | 1;
	for (size_t i = 0; i < sizeof(m.build_id); i++)
		m.build_id[i] = (uint8_t)(0xa0 + i);
	m.syms[1].st_name = 11;
	m.syms[1].st_shndx = 1;
	m.syms[1].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
	m.syms[1].st_value = GEN_TEXT_ADDR + 0x20;
	m.syms[1].st_size = 0x30;
	m.dyn[0] = (Elf64_Dyn){ DT_STRTAB, { GEN_ADDR_OF(strings) } };
	m.dyn[1] = (Elf64_Dyn){ DT_STRSZ, { sizeof(m.strings) } };
	m.dyn[2] = (Elf64_Dyn){ DT_SYMTAB, { GEN_ADDR_OF(syms) } };
	m.dyn[3] = (Elf64_Dyn){ DT_GNU_HASH, { GEN_ADDR_OF(hash_head) } };
	m.dyn[4] = (Elf64_Dyn){ DT_SONAME, { 1 } };
	m.dyn[5] = (Elf64_Dyn){ DT_PLTGOT, { GEN_TEXT_ADDR } };
	return m;
}

static inline void elfgen_put_phdrs(const struct elfgen *g, uint8_t *image, uint32_t end)
{
	uint32_t eh = elfgen_eh_off(g);
	Elf64_Phdr ph[6] = { 0 };

	ph[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
			      .p_flags = PF_R,
			      .p_offset = GEN_META_OFF,
			      .p_vaddr = GEN_META_ADDR,
			      .p_filesz = sizeof(struct elfgen_meta),
			      .p_memsz = sizeof(struct elfgen_meta) };
	ph[1] = (Elf64_Phdr){ .p_type = PT_LOAD,
			      .p_flags = PF_R | (g->no_text ? 0 : PF_X),
			      .p_offset = GEN_TEXT_OFF,
			      .p_vaddr = GEN_TEXT_ADDR,
			      .p_filesz = g->text_size,
			      .p_memsz = g->text_size };
	ph[2] = (Elf64_Phdr){ .p_type = PT_LOAD,
			      .p_flags = PF_R,
			      .p_offset = eh,
			      .p_vaddr = GEN_EH_ADDR,
			      .p_filesz = end - eh,
			      .p_memsz = end - eh };
	ph[3] = (Elf64_Phdr){ .p_type = PT_NOTE,
			      .p_offset = GEN_META_OFF,
			      .p_vaddr = GEN_META_ADDR,
			      .p_filesz = offsetof(struct elfgen_meta, strings),
			      .p_align = 4 };
	ph[4] = (Elf64_Phdr){ .p_type = PT_DYNAMIC,
			      .p_offset = GEN_META_OFF + offsetof(struct elfgen_meta, dyn),
			      .p_filesz = sizeof(((struct elfgen_meta *)0)->dyn) };
	ph[5] = (Elf64_Phdr){ .p_type = g->hdr_size ? PT_GNU_EH_FRAME : PT_NULL,
			      .p_offset = eh + (elfgen_hdr_addr(g) - GEN_EH_ADDR),
			      .p_vaddr = elfgen_hdr_addr(g),
			      .p_filesz = g->hdr_size };
	memcpy(image + sizeof(Elf64_Ehdr), ph, sizeof(ph));
}

static inline void elfgen_put_shdrs(const struct elfgen *g, uint8_t *image, uint32_t names,
				    uint32_t headers)
{
	static const char strings[] = "\0.shstrtab\0.eh_frame\0.debug_frame\0.bss";
	Elf64_Shdr sh[4] = { 0 };

	sh[1] = (Elf64_Shdr){
		.sh_name = 1, .sh_type = SHT_STRTAB, .sh_offset = names, .sh_size = sizeof(strings)
	};
	sh[2] = (Elf64_Shdr){ .sh_name = g->debug_frame ? 21 : 11,
			      .sh_type = SHT_PROGBITS,
			      .sh_flags = g->compressed ? SHF_COMPRESSED : 0,
			      .sh_addr = g->debug_frame ? 0 : GEN_EH_ADDR,
			      .sh_offset = elfgen_eh_off(g),
			      .sh_size = g->eh_size };
	sh[3] = (Elf64_Shdr){ .sh_name = 34, .sh_type = SHT_NOBITS, .sh_addr = 0xa00000 };
	sh[3].sh_size = 1 << 20;
	memcpy(image + names, strings, sizeof(strings));
	memcpy(image + headers, sh, sizeof(sh));
}

/* A malloc'd image. */
static inline uint8_t *elfgen_make(const struct elfgen *g, size_t *size)
{
	uint32_t eh = elfgen_eh_off(g);
	uint32_t end = eh + (uint32_t)(elfgen_hdr_addr(g) - GEN_EH_ADDR) + g->hdr_size;
	uint32_t names = (end + 7) & ~7U, headers = names + 64;
	struct elfgen_meta meta = elfgen_meta();
	Elf64_Ehdr e = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			 .e_type = ET_DYN,
			 .e_machine = g->machine,
			 .e_phoff = sizeof(e),
			 .e_phentsize = sizeof(Elf64_Phdr),
			 .e_phnum = 6,
			 .e_shentsize = sizeof(Elf64_Shdr) };
	uint64_t words[2] = { GEN_TEXT_ADDR + 0x100, GEN_TEXT_ADDR + 0x200 };
	uint8_t *image;

	*size = headers + 4 * sizeof(Elf64_Shdr);
	image = calloc(1, *size);
	if (!image)
		abort();
	if (!g->no_sections) {
		e.e_shoff = headers;
		e.e_shnum = 4;
		e.e_shstrndx = 1;
		elfgen_put_shdrs(g, image, names, headers);
	}
	memcpy(image, &e, sizeof(e));
	memcpy(image + GEN_META_OFF, &meta, sizeof(meta));
	memset(image + GEN_TEXT_OFF, 0x90, g->text_size);
	memcpy(image + GEN_TEXT_OFF, words, sizeof(words));
	if (g->eh_size)
		memcpy(image + eh, g->eh, g->eh_size);
	if (g->hdr_size)
		memcpy(image + eh + (elfgen_hdr_addr(g) - GEN_EH_ADDR), g->hdr, g->hdr_size);
	elfgen_put_phdrs(g, image, end);
	return image;
}

#endif /* PYPERF_TESTS_ELFGEN_H */
