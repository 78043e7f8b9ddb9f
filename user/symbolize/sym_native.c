/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Offsets in an ELF file -> functions, from symbol tables:
 *
 *   1. .symtab and .dynsym of the file itself
 *   2. without .symtab: the one in .gnu_debugdata (xz; Fedora's MiniDebugInfo)
 *   3. without both: the one of a separate debug file, found by build id or by .gnu_debuglink
 *   4. without any of them: the table of known builds, see sym_builds.h, and tables of methods,
 *	types and modules for CPython, see sym_tables.h
 *   5. stubs of the procedure linkage table, named after the function that they jump to
 *
 * Only symbols in executable segments count. A name never reaches beyond its symbol's size or its
 * section. Where symbols nest, the innermost one is the answer. Where they share a start and a
 * size, sym_alias.h says which. Of the tables, what Python users know comes first: "list.sort".
 *
 * An offset that none of them names is in the function that an FDE begins at:
 * "python3.11+0x13ad00", by its address from where the file is loaded.
 *
 * What is kept is an array of 16 bytes per function and their names. Tables are read once, at the
 * first question, and given back to elf_file.
 */
#include "symbolize/symbolize.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "elf/ehframe.h"
#include "symbolize/sym_alias.h"
#include "symbolize/sym_builds.h"
#include "symbolize/sym_debugfile.h"
#include "symbolize/sym_tables.h"

#define FUNCTIONS_MAX (8U << 20)
#define SECTIONS_MAX  65536U
#define MINIDEBUG_MAX (64U << 20) /* unpacked */
#define XZ_MEMORY     (64U << 20)

#define NO_OUTER      UINT32_MAX
/*
 * Functions in functions that one question looks through. Honest files have two or three; a table
 * may have eight million, and then each address of a window would cost a tenth of a second.
 */
#define NESTED_MAX    256

struct function {
	uint32_t start; /* offset in the file - text_start */
	uint32_t size;	/* 0 only while loading: not known */
	uint32_t name;	/* in names; while loading: enum name_table << NAME_SHIFT | st_name */
	uint32_t outer; /* the next candidate when this one ends too early; while loading: rank */
};

struct sym_native {
	const struct elf_file *ef;
	const struct sym_debugfile_places *places;
	const struct sym_builds *builds; /* or NULL */
	bool loaded;
	uint64_t text_start, text_end;
	struct function *functions; /* ascending by start, outer before inner */
	size_t cnt, cap;
	char *names; /* NUL-terminated, one after the other */
	size_t names_sz;
	/* Names of Cython's Python functions, ascending; loaded when one is asked for. */
	uint32_t *cython;
	size_t cython_cnt, cython_cap;
	bool cython_loaded;
	bool ranges_loaded;
	struct fde_range *ranges; /* of FDEs; loaded when something has no symbol */
	size_t range_cnt;
};

/* The table that holds a name while loading. */
enum name_table {
	NAMES_SYMTAB = 0, /* of the file or of its debug file */
	NAMES_DYNSYM = 1,
	NAMES_PLT = 2, /* .dynstr too; "@plt" is added */
	NAMES_TABLES = 3,
	NAMES_BUILDS = 4,
	NAMES_CNT = 5,
};
#define NAME_SHIFT 29
#define NAME_MASK  ((1U << NAME_SHIFT) - 1)

/* Behind every sym_alias_rank(): a symbol is better. */
enum table_rank {
	RANK_OWNED = UINT32_MAX - 2, /* "list.sort", "dict.__getitem__ +1", "dict (sq_contains)" */
	RANK_BUILD = UINT32_MAX - 1,
	RANK_VAGUE = UINT32_MAX, /* "sort", "object (tp_dealloc) +12" */
};

struct strings {
	const char *s; /* ends in NUL */
	size_t size;
};

struct range {
	uint64_t start, end; /* offsets in the file */
};

/* Data that are needed only while the file is loaded. */
struct loader {
	struct sym_native *s;
	struct strings names[NAMES_CNT]; /* in s->ef and in debug */
	struct elf_file *debug;
	struct sym_tables tables;
	struct range *sections; /* of executable segments, ascending by end */
	size_t section_cnt, section_cap;
};

/* ---- Symbol tables ---- */

static const char *name_at(const struct loader *l, uint32_t ref)
{
	return l->names[ref >> NAME_SHIFT].s + (ref & NAME_MASK);
}

/* Every string that begins in the table also ends in it: what follows the last NUL is cut off. */
static bool string_table(const struct elf_file *ef, const char *name, struct strings *out)
{
	struct elf_section sec;
	const uint8_t *last;

	if (!elf_file__section(ef, name, &sec) || !sec.data || !sec.size)
		return false;
	last = memrchr(sec.data, 0, sec.size);
	if (!last)
		return false;
	out->s = (const char *)sec.data;
	out->size = (size_t)(last - sec.data) + 1;
	return true;
}

static bool in_text(const struct sym_native *s, uint64_t addr, uint32_t *start)
{
	uint64_t off;

	/* Addresses are those of the main file also in its debug files. */
	if (!elf_file__addr_to_off(s->ef, addr, &off) || off < s->text_start ||
	    off >= s->text_end || off - s->text_start > UINT32_MAX)
		return false;
	*start = (uint32_t)(off - s->text_start);
	return true;
}

static int add_function(struct sym_native *s, const struct function *f)
{
	if (ARRAY_GROW(s->functions, s->cap, s->cnt, FUNCTIONS_MAX))
		return -ENOMEM;
	s->functions[s->cnt++] = *f;
	return 0;
}

/* Names that belong to the assembler: .L1, and the mapping symbols $x and $d of Arm. */
static bool is_private(const char *name)
{
	return name[0] == '\0' || name[0] == '$' || (name[0] == '.' && name[1] == 'L');
}

static bool is_function(const Elf64_Sym *sym)
{
	unsigned type = ELF64_ST_TYPE(sym->st_info);

	return (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE) &&
	       sym->st_shndx != SHN_UNDEF && sym->st_shndx != SHN_ABS &&
	       sym->st_shndx != SHN_COMMON;
}

static int add_symbol(struct loader *l, const Elf64_Sym *sym, enum name_table table)
{
	struct sym_native *s = l->s;
	struct function f = { 0 };
	uint64_t room;
	const char *name;

	if (!is_function(sym) || sym->st_name >= l->names[table].size || sym->st_name > NAME_MASK ||
	    !in_text(s, sym->st_value, &f.start))
		return 0;
	f.name = (uint32_t)table << NAME_SHIFT | sym->st_name;
	name = name_at(l, f.name);
	if (is_private(name))
		return 0;
	room = s->text_end - s->text_start - f.start;
	room = room < sym->st_size ? room : sym->st_size;
	f.size = room < UINT32_MAX ? (uint32_t)room : UINT32_MAX;
	f.outer = sym_alias_rank(name, ELF64_ST_TYPE(sym->st_info) == STT_NOTYPE,
				 ELF64_ST_BIND(sym->st_info) == STB_LOCAL,
				 ELF64_ST_BIND(sym->st_info) == STB_WEAK);
	return add_function(s, &f);
}

/* Functions of one table of `ef`, the file itself or its debug file. 1: there were some. */
static int add_table(struct loader *l, const struct elf_file *ef, enum name_table table)
{
	const char *name = table == NAMES_SYMTAB ? ".symtab" : ".dynsym";
	size_t before = l->s->cnt;
	struct elf_section sec;
	int err = 0;

	if (!elf_file__section(ef, name, &sec) || !sec.data ||
	    !string_table(ef, table == NAMES_SYMTAB ? ".strtab" : ".dynstr", &l->names[table]))
		return 0;
	for (uint64_t i = 0; !err && i < sec.size / sizeof(Elf64_Sym); i++) {
		Elf64_Sym sym;

		memcpy(&sym, sec.data + i * sizeof(sym), sizeof(sym));
		err = add_symbol(l, &sym, table);
	}
	return err ? err : l->s->cnt > before;
}

/* Takes over `debug`, which stays open while its names are needed. */
static int add_debug_file(struct loader *l, struct elf_file *debug)
{
	int got = add_table(l, debug, NAMES_SYMTAB);

	if (got > 0)
		l->debug = debug;
	else
		elf_file__close(debug);
	return got;
}

/* ---- MiniDebugInfo ---- */

static int unpack(lzma_stream *xz, uint8_t **out, size_t *out_sz)
{
	size_t cap = 0;
	lzma_ret ret;

	*out = NULL;
	do {
		if (ARRAY_GROW(*out, cap, xz->total_out, MINIDEBUG_MAX))
			return -E2BIG;
		xz->next_out = *out + xz->total_out;
		xz->avail_out = cap - xz->total_out;
		ret = lzma_code(xz, LZMA_FINISH);
	} while (ret == LZMA_OK);
	*out_sz = xz->total_out;
	return ret == LZMA_STREAM_END ? 0 : -EBADMSG;
}

static int add_minidebug(struct loader *l)
{
	const struct elf_file *ef = l->s->ef;
	lzma_stream xz = LZMA_STREAM_INIT;
	struct elf_file *debug;
	struct elf_section sec;
	uint8_t *image = NULL;
	size_t size;
	int err;

	if (!elf_file__section(ef, ".gnu_debugdata", &sec) || !sec.data || !sec.size)
		return 0;
	if (lzma_stream_decoder(&xz, XZ_MEMORY, LZMA_TELL_UNSUPPORTED_CHECK) != LZMA_OK)
		return -ENOMEM;
	xz.next_in = sec.data;
	xz.avail_in = sec.size;
	err = unpack(&xz, &image, &size);
	lzma_end(&xz);
	if (!err) {
		debug = elf_file__open_memory(image, size, elf_file__path(ef));
		err = debug ? add_debug_file(l, debug) : -errno;
	}
	free(image);
	if (err >= 0 || err == -ENOMEM)
		return err;
	log_debug("%s: .gnu_debugdata: %s", elf_file__path(ef), strerror(-err));
	return 0;
}

/* If the table of builds has the file, no server is asked. */
static int add_separate(struct loader *l)
{
	const struct elf_file *ef = l->s->ef;
	struct sym_debugfile_places places = *l->s->places;
	struct elf_file *debug;

	if (sym_builds__has(l->s->builds, elf_file__id(ef)))
		places.server = NULL;
	debug = sym_debugfile__open(ef, &places, ".symtab");

	if (!debug)
		return errno == ENOMEM ? -ENOMEM : 0;
	log_debug("%s: symbols from %s", elf_file__path(ef), elf_file__path(debug));
	return add_debug_file(l, debug);
}

/* ---- Procedure linkage table ---- */
/*
 * A stub jumps through a slot that a relocation fills with the address of a named function. The
 * order of the stubs is the linker's business, so the jump itself says which slot is meant.
 */
struct slot {
	uint64_t addr;
	uint32_t name; /* in .dynstr */
};

struct slots {
	struct slot *v;
	size_t cnt, cap;
};

#define PLT_STUB 16

static int by_slot_address(const void *a_, const void *b_)
{
	const struct slot *a = a_, *b = b_;

	return a->addr < b->addr ? -1 : a->addr > b->addr;
}

static bool fills_slot(uint16_t machine, uint32_t type)
{
	if (machine == EM_X86_64)
		return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT;
	return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT;
}

static int add_slots(const struct loader *l, const char *section, struct slots *slots)
{
	uint16_t machine = elf_file__machine(l->s->ef);
	struct elf_section rela, dynsym;

	if (!elf_file__section(l->s->ef, section, &rela) || !rela.data ||
	    !elf_file__section(l->s->ef, ".dynsym", &dynsym) || !dynsym.data)
		return 0;
	for (uint64_t i = 0; i < rela.size / sizeof(Elf64_Rela); i++) {
		Elf64_Rela rel;
		Elf64_Sym sym;

		memcpy(&rel, rela.data + i * sizeof(rel), sizeof(rel));
		if (!fills_slot(machine, ELF64_R_TYPE(rel.r_info)) ||
		    ELF64_R_SYM(rel.r_info) >= dynsym.size / sizeof(sym))
			continue;
		memcpy(&sym, dynsym.data + ELF64_R_SYM(rel.r_info) * sizeof(sym), sizeof(sym));
		if (!sym.st_name || sym.st_name >= l->names[NAMES_DYNSYM].size ||
		    sym.st_name > NAME_MASK)
			continue;
		if (ARRAY_GROW(slots->v, slots->cap, slots->cnt, FUNCTIONS_MAX))
			return -ENOMEM;
		slots->v[slots->cnt++] = (struct slot){ .addr = rel.r_offset, .name = sym.st_name };
	}
	return 0;
}

/* x86-64: [endbr64] [bnd] jmp *disp32(%rip) */
static bool stub_slot_x86(const uint8_t *code, uint64_t addr, uint64_t *slot)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	size_t at = memcmp(code, endbr64, sizeof(endbr64)) ? 0 : sizeof(endbr64);
	int32_t disp;

	at += code[at] == 0xf2;
	if (code[at] != 0xff || code[at + 1] != 0x25)
		return false;
	memcpy(&disp, code + at + 2, sizeof(disp));
	*slot = addr + at + 6 + (uint64_t)(int64_t)disp;
	return true;
}

/* aarch64: [bti c] adrp x16, page; ldr x17, [x16, #low] */
static bool stub_slot_arm(const uint8_t *code, uint64_t addr, uint64_t *slot)
{
	uint32_t insn[3];
	uint64_t pages;
	size_t at;

	memcpy(insn, code, sizeof(insn));
	at = insn[0] == 0xd503245f;
	if ((insn[at] & 0x9f00001f) != 0x90000010 || (insn[at + 1] & 0xffc003ff) != 0xf9400211)
		return false;
	pages = (uint64_t)(insn[at] >> 5 & 0x7ffff) << 2 | (insn[at] >> 29 & 3);
	pages = (pages ^ 1U << 20) - (1U << 20); /* 21 bits, signed */
	*slot = ((addr + 4 * at) & ~0xfffULL) + (pages << 12) + (insn[at + 1] >> 10 & 0xfff) * 8;
	return true;
}

static bool stub_slot(bool arm, const struct elf_section *plt, uint64_t at, uint64_t *slot)
{
	uint8_t code[PLT_STUB] = { 0 };

	if (at >= plt->size)
		return false;
	memcpy(code, plt->data + at, plt->size - at < PLT_STUB ? plt->size - at : PLT_STUB);
	return (arm ? stub_slot_arm : stub_slot_x86)(code, plt->addr + at, slot);
}

static int add_stubs(struct loader *l, const char *section, const struct slots *slots)
{
	bool arm = elf_file__machine(l->s->ef) == EM_AARCH64;
	uint64_t step = arm ? 4 : 8; /* a stub has 8, 16 or 24 bytes; the next one ends it */
	struct elf_section plt;
	int err = 0;

	if (!elf_file__section(l->s->ef, section, &plt) || !plt.data)
		return 0;
	for (uint64_t at = 0; !err && plt.size - at >= step; at += step) {
		struct function f = { .size = PLT_STUB };
		struct slot key, *hit;

		if (!stub_slot(arm, &plt, at, &key.addr))
			continue;
		hit = bsearch(&key, slots->v, slots->cnt, sizeof(key), by_slot_address);
		if (!hit || !in_text(l->s, plt.addr + at, &f.start))
			continue;
		f.name = (uint32_t)NAMES_PLT << NAME_SHIFT | hit->name;
		err = add_function(l->s, &f);
	}
	return err;
}

static int add_plt(struct loader *l)
{
	static const char *const sections[] = { ".plt", ".plt.sec", ".plt.got" };
	struct slots slots = { 0 };
	int err = 0;

	if (!l->names[NAMES_DYNSYM].s)
		return 0;
	l->names[NAMES_PLT] = l->names[NAMES_DYNSYM];
	err = add_slots(l, ".rela.plt", &slots);
	if (!err)
		err = add_slots(l, ".rela.dyn", &slots);
	if (slots.cnt)
		qsort(slots.v, slots.cnt, sizeof(*slots.v), by_slot_address);
	for (size_t i = 0; !err && slots.cnt && i < sizeof(sections) / sizeof(*sections); i++)
		err = add_stubs(l, sections[i], &slots);
	free(slots.v);
	return err;
}

/* ---- Where functions begin, the table of builds, and tables for CPython ---- */

static int load_ranges(struct sym_native *s)
{
	int err;

	if (s->ranges_loaded)
		return 0;
	s->ranges_loaded = true;
	err = ehframe__ranges(s->ef, &s->ranges, &s->range_cnt);
	return err == -ENOENT ? 0 : err;
}

static int add_ranged(struct loader *l, const struct fde_range *range, enum name_table table,
		      uint32_t name, enum table_rank rank)
{
	struct function f = { .name = (uint32_t)table << NAME_SHIFT | name, .outer = rank };
	uint64_t size = range->end - range->start;

	if (name > NAME_MASK || !in_text(l->s, range->start, &f.start))
		return 0;
	f.size = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
	return add_function(l->s, &f);
}

static int add_build_row(struct loader *l)
{
	struct sym_native *s = l->s;
	struct build_row row;
	int err = sym_builds__row(s->builds, elf_file__id(s->ef), s->range_cnt, &row);

	if (err == -EBADMSG)
		log_debug("%s: the table of builds has another file", elf_file__path(s->ef));
	if (err)
		return err == -ENOMEM ? err : 0;
	log_debug("%s: symbols from the table of builds", elf_file__path(s->ef));
	l->names[NAMES_BUILDS] = (struct strings){ row.names, row.names_sz };
	for (size_t i = 0; !err && i < s->range_cnt; i++)
		if (row.names[row.v[i]])
			err = add_ranged(l, &s->ranges[i], NAMES_BUILDS, row.v[i], RANK_BUILD);
	free(row.v);
	return err;
}

/* A method, or a slot of one type: Python users know it by this name. */
static bool is_owned(const char *name)
{
	return strchr(name, '(') ? !strstr(name, " +") : strchr(name, '.') != NULL;
}

static int add_python_tables(struct loader *l)
{
	struct sym_native *s = l->s;
	struct sym_tables *t = &l->tables;
	int err = sym_tables__read(s->ef, s->ranges, s->range_cnt, t);

	l->names[NAMES_TABLES] = (struct strings){ t->names, t->names_sz };
	for (size_t i = 0, at = 0; !err && i < t->cnt; i++) {
		const char *name = t->names + t->v[i].name;

		while (s->ranges[at].start < t->v[i].addr) /* it is in both */
			at++;
		err = add_ranged(l, &s->ranges[at], NAMES_TABLES, t->v[i].name,
				 is_owned(name) ? RANK_OWNED : RANK_VAGUE);
	}
	return err;
}

/*
 * Functions that symbols name are not named by tables as well: people search for what the source
 * says.
 */
static int add_named_ranges(struct loader *l)
{
	int err = load_ranges(l->s);

	if (!err && l->s->builds)
		err = add_build_row(l);
	return err ? err : add_python_tables(l);
}

/* ---- Sections: no name reaches beyond its own ---- */

static int by_end(const void *a_, const void *b_)
{
	const struct range *a = a_, *b = b_;

	return a->end < b->end ? -1 : a->end > b->end;
}

static int find_sections(struct loader *l)
{
	const struct sym_native *s = l->s;
	struct elf_section sec;
	size_t cnt = elf_file__section_cnt(s->ef);

	for (size_t i = 0; i < cnt && i < SECTIONS_MAX; i++) {
		if (!elf_file__section_at(s->ef, i, &sec) || !sec.addr || !sec.size ||
		    sec.off < s->text_start || sec.off >= s->text_end)
			continue;
		if (ARRAY_GROW(l->sections, l->section_cap, l->section_cnt, SECTIONS_MAX))
			return -ENOMEM;
		l->sections[l->section_cnt++] =
			(struct range){ .start = sec.off, .end = sec.off + sec.size };
	}
	if (l->section_cnt)
		qsort(l->sections, l->section_cnt, sizeof(*l->sections), by_end);
	return 0;
}

/*
 * The end of the section of `f`, as an offset from the start of the text. `*i`: where to begin;
 * functions come in ascending order. Behind the sections, or without any: the end of the text.
 */
static uint64_t section_end(const struct loader *l, size_t *i, const struct function *f)
{
	uint64_t off = l->s->text_start + f->start, end = l->s->text_end;

	while (*i < l->section_cnt && l->sections[*i].end <= off)
		++*i;
	if (*i < l->section_cnt) {
		/* Between two sections a name ends where the next one begins. */
		const struct range *sec = &l->sections[*i];

		end = sec->start > off ? sec->start : sec->end;
	}
	return (end < l->s->text_end ? end : l->s->text_end) - l->s->text_start;
}

/* ---- From candidates to the answer ---- */

/* By start; the sized before the others; the larger before what it contains; the better name. */
static int by_start(const void *a_, const void *b_, void *l_)
{
	const struct function *a = a_, *b = b_;
	const struct loader *l = l_;
	int diff;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->size != b->size)
		return a->size > b->size ? -1 : 1;
	if (a->outer != b->outer)
		return a->outer < b->outer ? -1 : 1;
	diff = sym_alias_cmp(name_at(l, a->name), name_at(l, b->name));
	if (diff)
		return diff;
	return a->name < b->name ? -1 : a->name > b->name;
}

/* One per start and size; a symbol without a size inside of one with a size is only a label. */
static void drop_aliases(struct sym_native *s)
{
	const struct function *last = NULL;
	uint64_t reach = 0;
	size_t kept = 0;

	for (size_t i = 0; i < s->cnt; i++) {
		struct function f = s->functions[i];

		if (last && last->start == f.start && last->size == f.size)
			continue;
		if (!f.size && f.start < reach)
			continue;
		if (f.start + (uint64_t)f.size > reach)
			reach = f.start + (uint64_t)f.size;
		s->functions[kept] = f;
		last = &s->functions[kept++];
	}
	s->cnt = kept;
}

static void set_sizes(struct loader *l)
{
	struct sym_native *s = l->s;
	size_t section = 0;

	for (size_t i = 0; i < s->cnt; i++) {
		struct function *f = &s->functions[i];
		uint64_t room = section_end(l, &section, f) - f->start;

		if (!f->size && i + 1 < s->cnt && s->functions[i + 1].start - f->start < room)
			room = s->functions[i + 1].start - f->start;
		if (!f->size || f->size > room)
			f->size = room < UINT32_MAX ? (uint32_t)room : UINT32_MAX;
	}
}

/*
 * When the last function that starts at or below an offset ends before it, the answer can only be
 * one that ends later: `outer` leads to the nearest of those in front, as brackets are matched.
 */
static void link_outer(struct sym_native *s)
{
	for (size_t i = 0; i < s->cnt; i++) {
		uint64_t end = s->functions[i].start + (uint64_t)s->functions[i].size;
		uint32_t o = i ? (uint32_t)i - 1 : NO_OUTER;

		while (o != NO_OUTER &&
		       s->functions[o].start + (uint64_t)s->functions[o].size <= end)
			o = s->functions[o].outer;
		s->functions[i].outer = o;
	}
}

/*
 * Copies the names of the remaining symbols, one after the other. Honest tables share a string, or
 * its tail, between a few symbols. The limit stops tables in which a million symbols have one long
 * name.
 */
static int copy_names(struct loader *l)
{
	size_t limit = 4 * (l->names[NAMES_SYMTAB].size + l->names[NAMES_DYNSYM].size +
			    l->names[NAMES_TABLES].size + l->names[NAMES_BUILDS].size) +
		       65536;
	struct sym_native *s = l->s;
	struct strbuf names = { 0 };

	for (size_t i = 0; i < s->cnt; i++) {
		struct function *f = &s->functions[i];
		const char *name = name_at(l, f->name);
		size_t len = strnlen(name, SYM_NAME_MAX), at;

		if (names.len + len > limit || names.len + len > UINT32_MAX / 2) {
			s->cnt = i;
			break;
		}
		at = names.len;
		strbuf__add(&names, name, len);
		if (f->name >> NAME_SHIFT == NAMES_PLT)
			strbuf__addz(&names, "@plt");
		strbuf__addc(&names, '\0');
		f->name = (uint32_t)at;
	}
	if (names.err) {
		strbuf__free(&names);
		return -ENOMEM;
	}
	s->names = names.s;
	s->names_sz = names.cap;
	return 0;
}

static int add_tables(struct loader *l)
{
	int dynamic = add_table(l, l->s->ef, NAMES_DYNSYM);
	int got = dynamic < 0 ? dynamic : add_table(l, l->s->ef, NAMES_SYMTAB);

	if (!got)
		got = add_minidebug(l);
	if (!got)
		got = add_separate(l);
	if (!got)
		got = add_named_ranges(l);
	return got < 0 ? got : add_plt(l);
}

static int load(struct sym_native *s)
{
	struct loader l = { .s = s };
	int err;

	if (!elf_file__text(s->ef, &s->text_start, &s->text_end))
		return 0;
	err = add_tables(&l);
	if (!err && s->cnt)
		err = find_sections(&l);
	if (!err && s->cnt) {
		qsort_r(s->functions, s->cnt, sizeof(*s->functions), by_start, &l);
		drop_aliases(s);
		set_sizes(&l);
		err = copy_names(&l);
		link_outer(s);
	}
	sym_tables__free(&l.tables);
	free(l.sections);
	elf_file__close(l.debug);
	elf_file__forget(s->ef);
	return err;
}

/* An offset belongs to no function after a failure: a miss, never a wrong name. */
static void load_once(struct sym_native *s)
{
	struct function *smaller;
	int err;

	if (s->loaded)
		return;
	s->loaded = true;
	err = load(s);
	if (err) {
		log_warn("%s: symbols: %s", elf_file__path(s->ef), strerror(-err));
		s->cnt = 0;
	}
	smaller = realloc(s->functions, (s->cnt ? s->cnt : 1) * sizeof(*smaller));
	if (!smaller)
		return;
	s->functions = smaller;
	s->cap = s->cnt;
}

size_t sym_native__memory(const struct sym_native *s)
{
	return s->cap * sizeof(*s->functions) + s->names_sz + s->range_cnt * sizeof(*s->ranges) +
	       s->cython_cap * sizeof(*s->cython);
}

void sym_native__unload(struct sym_native *s)
{
	free(s->names);
	free(s->functions);
	free(s->ranges);
	free(s->cython);
	s->names = NULL;
	s->functions = NULL;
	s->ranges = NULL;
	s->cython = NULL;
	s->ranges_loaded = s->cython_loaded = false;
	s->cnt = s->cap = s->names_sz = s->range_cnt = s->cython_cnt = s->cython_cap = 0;
	s->loaded = false;
}

/* ---- The object ---- */

struct sym_native *sym_native__new(const struct elf_file *ef)
{
	struct sym_native *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->ef = ef;
	s->places = &sym_debugfile_default;
	return s;
}

void sym_native__set_places(struct sym_native *s, const struct sym_debugfile_places *places)
{
	s->places = places;
}

void sym_native__set_builds(struct sym_native *s, const struct sym_builds *builds)
{
	s->builds = builds;
}

void sym_native__free(struct sym_native *s)
{
	if (!s)
		return;
	sym_native__unload(s);
	free(s);
}

static const struct function *find(const struct sym_native *s, uint64_t offset)
{
	size_t low = 0, high = s->cnt; /* the last one at or below offset is in [low - 1, high) */
	unsigned nested = 0;
	uint32_t i;

	if (offset < s->text_start || offset >= s->text_end)
		return NULL;
	offset -= s->text_start;
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->functions[mid].start <= offset)
			low = mid + 1;
		else
			high = mid;
	}
	i = low ? (uint32_t)low - 1 : NO_OUTER;
	for (; i != NO_OUTER && nested < NESTED_MAX; i = s->functions[i].outer, nested++)
		if (offset - s->functions[i].start < s->functions[i].size)
			return &s->functions[i];
	return NULL;
}

/* ---- Whether the file has a symbol ---- */

static int by_name(const void *a, const void *b, void *names)
{
	return strcmp((const char *)names + *(const uint32_t *)a,
		      (const char *)names + *(const uint32_t *)b);
}

/* Without those for which there is no memory: then some names have two readings. */
static void load_cython(struct sym_native *s)
{
	s->cython_loaded = true;
	for (size_t i = 0; i < s->cnt; i++) {
		uint32_t name = s->functions[i].name;

		if (!strstr(s->names + name, "__pyx_p"))
			continue;
		if (ARRAY_GROW(s->cython, s->cython_cap, s->cython_cnt, FUNCTIONS_MAX))
			break;
		s->cython[s->cython_cnt++] = name;
	}
	if (s->cython_cnt)
		qsort_r(s->cython, s->cython_cnt, sizeof(*s->cython), by_name, s->names);
}

static bool has_symbol(void *ctx, const char *symbol)
{
	struct sym_native *s = ctx;
	size_t low = 0, high;

	load_once(s);
	if (!s->cython_loaded)
		load_cython(s);
	high = s->cython_cnt;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int diff = strcmp(s->names + s->cython[mid], symbol);

		if (!diff)
			return true;
		if (diff < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return false;
}

struct sym_peers sym_native__peers(struct sym_native *s)
{
	return (struct sym_peers){ .has = has_symbol, .ctx = s };
}

bool sym_native__find(struct sym_native *s, uint64_t offset, struct strbuf *name, uint64_t *start)
{
	const struct sym_peers peers = sym_native__peers(s);
	const struct function *f;

	load_once(s);
	f = find(s, offset);
	if (!f)
		return false;
	sym_native_name(name, s->names + f->name, elf_file__path(s->ef), &peers);
	if (start)
		*start = s->text_start + f->start;
	return true;
}

bool sym_native__find_start(struct sym_native *s, uint64_t offset, struct strbuf *name,
			    uint64_t *start)
{
	const char *path = elf_file__path(s->ef), *slash = strrchr(path, '/');
	const struct elf_segment *segments;
	const struct fde_range *range;
	uint64_t addr, first;
	size_t cnt;

	if (!s->ranges_loaded) {
		if (load_ranges(s))
			log_no_memory();
		elf_file__forget(s->ef);
	}
	segments = elf_file__segments(s->ef, &cnt);
	if (!cnt || !elf_file__off_to_addr(s->ef, offset, &addr))
		return false;
	range = fde_range__find(s->ranges, s->range_cnt, addr);
	if (!range || !elf_file__addr_to_off(s->ef, range->start, &first))
		return false;
	/* From where the first byte of the file is loaded. */
	strbuf__addf(name, "%s+0x%" PRIx64, slash ? slash + 1 : path,
		     range->start - (segments[0].addr - segments[0].off));
	if (start)
		*start = first;
	return true;
}
