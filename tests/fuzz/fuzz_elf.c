/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Any bytes as an ELF file: every question, the unwind table, look-ups in it. */
#include "elf/ehframe.h"
#include "elf/elf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "elfgen.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap);

static void touch(const struct elf_section *s)
{
	volatile uint8_t sum = 0;

	for (uint64_t i = 0; s->data && i < s->size; i++)
		sum ^= s->data[i];
}

static void ask_sections(const struct elf_file *ef)
{
	static const char *const names[] = { ".eh_frame", ".text", ".bss", ".dynsym", "" };
	struct elf_section s;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		elf_file__section_info(ef, names[i], &s);
		if (elf_file__section(ef, names[i], &s))
			touch(&s);
	}
	if (elf_file__eh_frame(ef, &s))
		touch(&s);
	elf_file__eh_frame_hdr_info(ef, &s);
}

static void ask_segments(const struct elf_file *ef)
{
	const struct elf_segment *segments;
	uint64_t start, limit, v;
	uint8_t buf[32];
	size_t cnt;

	segments = elf_file__segments(ef, &cnt);
	for (size_t i = 0; i < cnt; i++) {
		uint64_t addr = segments[i].addr, end = addr + segments[i].file_size;

		elf_file__read(ef, addr, buf, sizeof(buf));
		elf_file__read(ef, end - 1, buf, sizeof(buf));
		if (elf_file__addr_to_off(ef, addr, &v))
			elf_file__off_to_addr(ef, v, &v);
		ehframe__fde_at(ef, addr + segments[i].file_size / 2, &start, &limit);
	}
	elf_file__text(ef, &start, &limit);
}

static void ask_identity(const struct elf_file *ef)
{
	char hex[2 * BUILD_ID_MAX + 1];
	struct elf_symbol sym;

	elf_file__id_hex(ef, hex);
	if (strlen(hex) != 2U * elf_file__id(ef)->size)
		abort();
	if (elf_file__soname(ef) && strlen(elf_file__soname(ef)) > 4096)
		abort();
	elf_file__symbol(ef, "answer", &sym);
	elf_file__symbol(ef, "__vdso_time", &sym);
	elf_file__symbol(ef, "", &sym);
}

static void ask_table(const struct elf_file *ef)
{
	struct unwind_table *t = unwind_table__build(ef);
	struct unwind_rule rule;
	uint64_t start, limit;

	if (!t)
		return;
	if (!elf_file__text(ef, &start, &limit))
		abort(); /* rows are for text alone */
	for (uint64_t i = 0; i < 256; i++)
		unwind_table__find(t, start + (limit - start) / 256 * i, &rule);
	unwind_table__find(t, limit, &rule);
	unwind_table__find(t, UINT64_MAX, &rule);
	unwind_table__free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_file *ef = elf_file__open_memory(data, size, "fuzz");

	if (!ef)
		return 0;
	ask_identity(ef);
	ask_sections(ef);
	ask_segments(ef);
	ask_table(ef);
	elf_file__forget(ef);
	ask_table(ef);
	elf_file__close(ef);
	return 0;
}

/* ---- Inputs -------------------------------------------------------------------------------- */

static const uint8_t eh[] = {
	/* CIE zR, code 1, data -8, ra 16, pcrel sdata4: rsp+8, ra at cfa-8 */
	20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 12, 7, 8, 0x90, 1, 0, 0,
	/* FDE at text + 0x40, 32 bytes: rsp+16, rbp at cfa-16, 4 on: rbp+16, 4 on: *(rbp-8) */
	36, 0, 0, 0, 28, 0, 0, 0, 0x20, 0x10, 0xb0, 0xff, 32, 0, 0, 0, 0, 0x0e, 16, 0x86, 2, 0x44,
	0x0d, 6, 0x44, 0x0f, 3, 0x76, 0x78, 6, 0x0a, 0x44, 0x0b, 0x2e, 8, 0x42, 0x0c, 7, 8, 0,
	/* terminator */
	0, 0, 0, 0
};

static size_t seed_by_hand(bool sections, uint8_t *buf, size_t cap)
{
	uint8_t hdr[20] = { 1, 0x1b, 3, 0x3b };
	struct elfgen g = { .machine = EM_X86_64,
			    .text_size = 256,
			    .eh = eh,
			    .eh_size = sizeof(eh),
			    .hdr = hdr,
			    .hdr_size = sizeof(hdr),
			    .no_sections = !sections };
	uint64_t base = elfgen_hdr_addr(&g);
	int32_t v[4] = { (int32_t)(GEN_EH_ADDR - base - 4), 1,
			 (int32_t)(GEN_TEXT_ADDR + 0x40 - base),
			 (int32_t)(GEN_EH_ADDR + 24 - base) };
	uint8_t *image;
	size_t size;

	memcpy(hdr + 4, v, sizeof(v));
	image = elfgen_make(&g, &size);
	if (size <= cap)
		memcpy(buf, image, size);
	free(image);
	return size <= cap ? size : 0;
}

size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap)
{
	const void *image = (const void *)getauxval(AT_SYSINFO_EHDR);
	size_t size = 2 * 4096;

	if (i < 2)
		return seed_by_hand(i == 0, buf, cap);
	if (i > 2 || !image || size > cap)
		return 0;
	memcpy(buf, image, size); /* the vdso: small, and the work of a real linker */
	return size;
}
