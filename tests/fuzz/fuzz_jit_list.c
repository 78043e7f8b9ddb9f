/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Objects that a process lists for debuggers: this one has them. */
#include <elf.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbolize/jit_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct jit_functions f;
	const struct jit_object o = { .addr = (uintptr_t)data, .size = size };
	uint32_t from = 0;

	for (int i = 0; i < 4; i++) {
		if (jit_list__functions(NULL, (uint32_t)getpid(), &o, from, &f))
			break;
		for (uint32_t k = 0; k < f.cnt; k++)
			if (f.functions[k].end <= f.functions[k].start ||
			    f.functions[k].text + f.functions[k].len > sizeof(f.names) ||
			    f.functions[k].name - o.addr + f.functions[k].len > size)
				abort();
		from = f.next;
		if (!from)
			break;
	}
	return 0;
}

/* A function "f" in a section of code. */
size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap)
{
	struct {
		Elf64_Ehdr eh;
		Elf64_Shdr sections[4];
		Elf64_Sym symbols[2];
		char strings[8];
	} o = { .eh = { .e_type = i ? ET_EXEC : ET_REL,
			.e_shoff = sizeof(Elf64_Ehdr),
			.e_shentsize = sizeof(Elf64_Shdr),
			.e_shnum = 4 },
		.strings = "f\0_Z1gv" };

	if (i > 1 || cap < sizeof(o))
		return 0;
	memcpy(o.eh.e_ident, "\177ELF\2\1\1", 7);
	o.sections[1] = (Elf64_Shdr){ .sh_type = SHT_PROGBITS,
				      .sh_flags = SHF_EXECINSTR,
				      .sh_addr = 0x1000 };
	o.sections[2] = (Elf64_Shdr){ .sh_type = SHT_SYMTAB,
				      .sh_offset = offsetof(__typeof__(o), symbols),
				      .sh_size = sizeof(o.symbols),
				      .sh_link = 3 };
	o.sections[3] = (Elf64_Shdr){ .sh_type = SHT_STRTAB,
				      .sh_offset = offsetof(__typeof__(o), strings),
				      .sh_size = sizeof(o.strings) };
	for (uint32_t k = 0; k < 2; k++)
		o.symbols[k] = (Elf64_Sym){ .st_name = k * 2,
					    .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
					    .st_shndx = 1,
					    .st_value = k * 16,
					    .st_size = 16 };
	memcpy(buf, &o, sizeof(o));
	return sizeof(o);
}
