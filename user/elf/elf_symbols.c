/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Symbols by name: by the hash tables of the dynamic linker, else in .dynsym and .symtab. */
#include <elf.h>
#include <errno.h>
#include <string.h>

#include "elf/elf_parts.h"

#define MAX_HASH_CHAIN 4096	  /* the longest seen is below 100 */
#define MAX_DYNSYMS    (1U << 20) /* only without section headers */

static uint32_t find_section_type(const struct elf_file *ef, uint32_t type)
{
	for (size_t i = 1; i < ef->section_cnt; i++) {
		if (ef->sections[i].type == type)
			return (uint32_t)i;
	}
	return NO_SECTION;
}

/* Has a name and an address: the value of a thread-local symbol is an offset. */
static bool is_definition(const Elf64_Sym *sym)
{
	unsigned int type = ELF64_ST_TYPE(sym->st_info);

	return sym->st_shndx != SHN_UNDEF && type != STT_FILE && type != STT_SECTION &&
	       type != STT_TLS;
}

static bool symbol_in_section(const struct elf_file *ef, uint32_t type, const char *name,
			      struct elf_symbol *out)
{
	uint32_t i = find_section_type(ef, type);
	const uint8_t *syms = elf_file__section_data(ef, i);
	const char *strings;
	uint64_t strings_size;
	Elf64_Sym sym;

	if (!syms)
		return false;
	strings = (const char *)elf_file__section_data(ef, ef->sections[i].link);
	if (!strings)
		return false;
	strings_size = ef->sections[ef->sections[i].link].size;
	for (uint64_t n = 0; n < ef->sections[i].size / sizeof(sym); n++) {
		memcpy(&sym, syms + n * sizeof(sym), sizeof(sym));
		if (sym.st_name >= strings_size || !is_definition(&sym) ||
		    strcmp(strings + sym.st_name, name) != 0)
			continue;
		*out = (struct elf_symbol){ .addr = sym.st_value, .size = sym.st_size };
		return true;
	}
	return false;
}

/* Is symbol `n` of DT_SYMTAB the definition of `name`? Negative errno when it cannot be read. */
static int dynamic_symbol_is(const struct elf_file *ef, uint32_t n, const char *name,
			     struct elf_symbol *out)
{
	const struct dynamic *d = &ef->dyn;
	size_t len = strlen(name) + 1;
	char buf[256];
	Elf64_Sym sym;
	int err = elf_file__read(ef, d->symtab + (uint64_t)n * sizeof(sym), &sym, sizeof(sym));

	if (err)
		return err;
	if (!is_definition(&sym) || len > sizeof(buf) || sym.st_name >= d->strsz ||
	    len > d->strsz - sym.st_name || elf_file__read(ef, d->strtab + sym.st_name, buf, len) ||
	    memcmp(buf, name, len) != 0)
		return 0;
	*out = (struct elf_symbol){ .addr = sym.st_value, .size = sym.st_size };
	return 1;
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t h = 5381;

	while (*name)
		h = h * 33 + (uint8_t)*name++;
	return h;
}

/*
 * DT_GNU_HASH: {nbuckets, symbias, bloom words, bloom shift}, bloom filter, buckets, chains. The
 * answer costs a few small reads, whatever the size of the table. 1: found, 0: not there,
 * negative errno: no such table, or a damaged one.
 */
static int symbol_by_gnu_hash(const struct elf_file *ef, const char *name, struct elf_symbol *out)
{
	uint32_t head[4], hash = gnu_hash(name), n, chain;
	uint64_t buckets, chains;
	int err;

	if (!ef->dyn.gnu_hash || !ef->dyn.symtab)
		return -ENOENT;
	err = elf_file__read(ef, ef->dyn.gnu_hash, head, sizeof(head));
	if (err || !head[0])
		return -EBADMSG;
	buckets = ef->dyn.gnu_hash + sizeof(head) + 8ULL * head[2];
	chains = buckets + 4ULL * head[0];
	err = elf_file__read(ef, buckets + 4ULL * (hash % head[0]), &n, sizeof(n));
	if (err || (n && n < head[1]))
		return -EBADMSG;
	for (uint32_t i = 0; n && i < MAX_HASH_CHAIN; i++, n++) {
		if (elf_file__read(ef, chains + 4ULL * (n - head[1]), &chain, sizeof(chain)))
			return -EBADMSG;
		if ((chain | 1) == (hash | 1)) {
			err = dynamic_symbol_is(ef, n, name, out);
			if (err)
				return err;
		}
		if (chain & 1)
			return 0;
	}
	return n ? -EBADMSG : 0;
}

/* DT_HASH: {nbucket, nchain}; nchain is the number of symbols. */
static bool symbol_by_sysv_count(const struct elf_file *ef, const char *name,
				 struct elf_symbol *out)
{
	uint32_t head[2];
	int found = 0;

	if (!ef->dyn.hash || !ef->dyn.symtab ||
	    elf_file__read(ef, ef->dyn.hash, head, sizeof(head)))
		return false;
	for (uint32_t n = 1; n < head[1] && n < MAX_DYNSYMS && !found; n++)
		found = dynamic_symbol_is(ef, n, name, out);
	return found == 1;
}

bool elf_file__symbol(const struct elf_file *ef, const char *name, struct elf_symbol *out)
{
	int found;

	if (!*name)
		return false;
	found = symbol_by_gnu_hash(ef, name, out);
	if (found == 1)
		return true;
	if (found < 0 && symbol_in_section(ef, SHT_DYNSYM, name, out))
		return true;
	if (found < 0 && !ef->section_cnt && symbol_by_sysv_count(ef, name, out))
		return true;
	return symbol_in_section(ef, SHT_SYMTAB, name, out);
}
