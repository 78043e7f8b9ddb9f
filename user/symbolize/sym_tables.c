/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "symbolize/sym_tables.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"

#define WORD	     sizeof(uint64_t)
#define NAME_MAX_LEN 100
#define HEAD_MORE    16 /* by which the head of an object is longer in free-threaded builds */
#define SLOTS_MAX    96 /* of one PyType_Spec; typeslots.h has 83 */
#define GROUP_MAX    64 /* claims on one function among which a base class is looked for */

/* ---- The words of the file, relocated -------------------------------------------------------- */

/* A segment that is no code. */
struct region {
	uint64_t addr;
	size_t size;
	uint8_t *data;
	uint8_t *pointers; /* a bit for each word: a relocation made it */
	bool constant;	   /* no tables are there: CPython writes to them */
};

enum claim_rank { RANK_METHOD = 0, RANK_GETSET, RANK_SLOT };

/* A table says what a function is called. */
struct claim {
	uint64_t func;
	uint64_t owner, base; /* types; 0: none known */
	uint32_t name;
	uint32_t order; /* rank, and the place in the file */
};

struct methods {
	uint64_t table, entry;
};

/* Reads the tables of methods, slots and types in the data of one file. */
struct tables_reader {
	const struct elf_file *ef;
	const struct fde_range *functions;
	size_t function_cnt;
	struct region *regions;
	size_t region_cnt;
	bool absolute;	 /* words are pointers without relocations */
	uint64_t *reads; /* words that were read: a budget against files that point in circles */
	bool python2;
	struct methods *methods; /* ascending by table, then entry */
	size_t method_cnt, method_cap;
	bool *owned; /* methods that a type or a module has named */
	struct claim *claims;
	size_t claim_cnt, claim_cap;
	struct strbuf names;
};

static struct region *region_of(const struct tables_reader *r, uint64_t addr)
{
	for (size_t i = 0; i < r->region_cnt; i++)
		if (addr >= r->regions[i].addr && addr - r->regions[i].addr < r->regions[i].size)
			return &r->regions[i];
	return NULL;
}

static bool is_function(const struct tables_reader *r, uint64_t addr)
{
	const struct fde_range *f = fde_range__find(r->functions, r->function_cnt, addr);

	return f && f->start == addr;
}

/* The value at a multiple of eight bytes. */
struct word {
	uint64_t value; /* of a pointer into another file: 0 */
	bool pointer, there;
};

static struct word word_at(const struct tables_reader *r, uint64_t addr)
{
	const struct region *g = region_of(r, addr);
	struct word w = { 0 };
	size_t at;

	if (!g || g->size - (addr - g->addr) < WORD || addr % WORD ||
	    ++*r->reads > SYM_TABLES_READS_MAX)
		return w;
	at = (size_t)(addr - g->addr);
	memcpy(&w.value, g->data + at, WORD);
	w.there = true;
	if (r->absolute)
		w.pointer = region_of(r, w.value) || is_function(r, w.value);
	else
		w.pointer = g->pointers[at / WORD / 8] >> (at / WORD % 8) & 1;
	return w;
}

static uint64_t plain_at(const struct tables_reader *r, uint64_t addr, uint64_t if_not)
{
	struct word w = word_at(r, addr);

	return w.there && !w.pointer ? w.value : if_not;
}

/* A name at `addr`, with dots and dashes if it may have them; NULL: there is none. */
static const char *name_at(const struct tables_reader *r, uint64_t addr, bool dotted)
{
	const struct region *g = region_of(r, addr);
	const char *s;
	size_t len, room;

	if (!g)
		return NULL;
	s = (const char *)g->data + (addr - g->addr);
	room = g->size - (size_t)(addr - g->addr);
	len = strnlen(s, room < NAME_MAX_LEN ? room : NAME_MAX_LEN);
	if (!len || len == room || len == NAME_MAX_LEN ||
	    !(isalpha((unsigned char)*s) || *s == '_'))
		return NULL;
	for (size_t i = 1; i < len; i++)
		if (!isalnum((unsigned char)s[i]) && s[i] != '_' &&
		    !(dotted && (s[i] == '.' || s[i] == '-')))
			return NULL;
	return s;
}

static const char *pointed_name(const struct tables_reader *r, uint64_t addr, bool dotted)
{
	struct word w = word_at(r, addr);

	return w.pointer ? name_at(r, w.value, dotted) : NULL;
}

/* Is it 0, or a pointer to anything but this file's code? */
static bool is_data_or_0(const struct tables_reader *r, uint64_t addr)
{
	struct word w = word_at(r, addr);

	return w.there && (w.pointer ? !w.value || region_of(r, w.value) : !w.value);
}

/* 0, or a function of this file or another. */
static bool is_function_or_0(const struct tables_reader *r, uint64_t addr)
{
	struct word w = word_at(r, addr);

	return w.there && (w.pointer ? !w.value || is_function(r, w.value) : !w.value);
}

/* ---- Reading the file ------------------------------------------------------------------------ */

static int add_region(struct tables_reader *r, uint64_t addr, uint64_t size)
{
	struct region *g = &r->regions[r->region_cnt];
	int err;

	g->addr = addr;
	g->size = (size_t)size;
	g->data = malloc(g->size);
	g->pointers = calloc(1, g->size / WORD / 8 + 1);
	r->region_cnt++;
	if (!g->data || !g->pointers)
		return -ENOMEM;
	err = elf_file__read(r->ef, addr, g->data, g->size);
	return err == -ERANGE ? -EIO : err;
}

/*
 * Adds the sections with strings, which old linkers put beside the code. They are half of an
 * interpreter; its tables are elsewhere, because CPython writes to them.
 */
static int add_rodata(struct tables_reader *r)
{
	struct elf_section rodata;
	struct region *g;
	int err = 0;

	if (!elf_file__section_info(r->ef, ".rodata", &rodata) || !rodata.size)
		return 0;
	g = region_of(r, rodata.addr);
	if (!g && rodata.size <= SYM_TABLES_DATA_MAX) {
		g = &r->regions[r->region_cnt];
		err = add_region(r, rodata.addr, rodata.size);
	}
	if (g)
		g->constant = true;
	return err;
}

/* 1: there is nothing to look at, or too much. */
static int read_regions(struct tables_reader *r)
{
	size_t cnt, sum = 0;
	const struct elf_segment *s = elf_file__segments(r->ef, &cnt);
	int err = 0;

	for (size_t i = 0; i < cnt; i++) {
		if (s[i].exec || !s[i].file_size)
			continue;
		if (s[i].addr % WORD || s[i].file_size > SYM_TABLES_DATA_MAX - sum)
			return 1;
		sum += (size_t)s[i].file_size;
	}
	r->regions = calloc(cnt + 1, sizeof(*r->regions)); /* and .rodata */
	if (!r->regions)
		return -ENOMEM;
	for (size_t i = 0; !err && i < cnt; i++)
		if (!s[i].exec && s[i].file_size)
			err = add_region(r, s[i].addr, s[i].file_size);
	if (!err)
		err = add_rodata(r);
	return err ? err : !r->region_cnt;
}

static void relocate(struct tables_reader *r, uint64_t addr, uint64_t value)
{
	struct region *g = region_of(r, addr);
	size_t at;

	if (!g || addr % WORD || g->size - (addr - g->addr) < WORD)
		return;
	at = (size_t)(addr - g->addr);
	memcpy(g->data + at, &value, WORD);
	g->pointers[at / WORD / 8] |= (uint8_t)(1U << (at / WORD % 8));
}

static void relocate_by_symbol(struct tables_reader *r, const struct elf_section *syms,
			       const Elf64_Rela *rel)
{
	uint64_t i = ELF64_R_SYM(rel->r_info);
	Elf64_Sym sym;

	if (!syms->data || i >= syms->size / sizeof(sym))
		return;
	memcpy(&sym, syms->data + i * sizeof(sym), sizeof(sym));
	relocate(r, rel->r_offset,
		 sym.st_shndx == SHN_UNDEF ? 0 : sym.st_value + (uint64_t)rel->r_addend);
}

static int apply_rela(struct tables_reader *r, const struct elf_section *syms)
{
	bool arm = elf_file__machine(r->ef) == EM_AARCH64;
	uint32_t relative = arm ? R_AARCH64_RELATIVE : R_X86_64_RELATIVE;
	uint32_t absolute = arm ? R_AARCH64_ABS64 : R_X86_64_64;
	uint32_t global = arm ? R_AARCH64_GLOB_DAT : R_X86_64_GLOB_DAT;
	struct elf_section rela;

	if (!elf_file__section(r->ef, ".rela.dyn", &rela) || !rela.data)
		return 0;
	if (rela.size / sizeof(Elf64_Rela) > SYM_TABLES_RELOCS_MAX)
		return 1;
	for (uint64_t i = 0; i < rela.size / sizeof(Elf64_Rela); i++) {
		Elf64_Rela rel;
		uint32_t type;

		memcpy(&rel, rela.data + i * sizeof(rel), sizeof(rel));
		type = ELF64_R_TYPE(rel.r_info);
		if (type == relative)
			relocate(r, rel.r_offset, (uint64_t)rel.r_addend);
		else if (type == absolute || type == global)
			relocate_by_symbol(r, syms, &rel);
	}
	return 0;
}

/* A word that is already in place is a pointer. */
static void relocate_in_place(struct tables_reader *r, uint64_t addr)
{
	struct word w = word_at(r, addr);

	if (w.there)
		relocate(r, addr, w.value);
}

/* SHT_RELR: an address, and then bitmaps of the 63 words behind it (the generic ABI). */
static int apply_relr(struct tables_reader *r)
{
	struct elf_section relr;
	uint64_t base = 0;

	if (!elf_file__section(r->ef, ".relr.dyn", &relr) || !relr.data)
		return 0;
	if (relr.size / WORD > SYM_TABLES_RELOCS_MAX / 63)
		return 1;
	for (uint64_t i = 0; i < relr.size / WORD; i++) {
		uint64_t entry;

		memcpy(&entry, relr.data + i * WORD, WORD);
		if (!(entry & 1)) {
			relocate_in_place(r, entry);
			base = entry + WORD;
			continue;
		}
		for (unsigned bit = 0; bit < 63; bit++)
			if (entry >> (bit + 1) & 1)
				relocate_in_place(r, base + bit * WORD);
		base += 63 * WORD;
	}
	return 0;
}

/* Whether the file has to do with Python, which the names that it imports and exports say. */
static bool find_python(struct tables_reader *r, const struct elf_section *syms)
{
	struct elf_section strings;
	bool found = false;

	if (!syms->data || !elf_file__section(r->ef, ".dynstr", &strings) || !strings.data)
		return false;
	for (uint64_t i = 0; i < syms->size / sizeof(Elf64_Sym); i++) {
		const char *name;
		Elf64_Sym sym;

		memcpy(&sym, syms->data + i * sizeof(sym), sizeof(sym));
		if (sym.st_name >= strings.size || strings.size - sym.st_name < 9)
			continue;
		name = (const char *)strings.data + sym.st_name;
		found |= !memcmp(name, "Py", 2) || !memcmp(name, "_Py", 3);
		r->python2 |= !memcmp(name, "PyString_", 9);
	}
	return found;
}

/* 1: nothing to look at. */
static int read_file(struct tables_reader *r)
{
	struct elf_section syms = { 0 };
	int err;

	if (!elf_file__section(r->ef, ".dynsym", &syms) || !find_python(r, &syms))
		return 1;
	r->absolute = !elf_file__is_pie_or_so(r->ef);
	err = read_regions(r);
	if (!err && !r->absolute)
		err = apply_rela(r, &syms);
	if (!err && !r->absolute)
		err = apply_relr(r);
	return err;
}

/* ---- Claims ---------------------------------------------------------------------------------- */

static int add_claim(struct tables_reader *r, enum claim_rank rank, uint64_t owner, uint64_t base,
		     uint64_t func, const char *before, const char *name, const char *after)
{
	struct claim *c;

	if (r->claim_cnt == SYM_TABLES_CLAIMS_MAX)
		return 0;
	if (ARRAY_GROW(r->claims, r->claim_cap, r->claim_cnt, SYM_TABLES_CLAIMS_MAX))
		return -ENOMEM;
	c = &r->claims[r->claim_cnt];
	*c = (struct claim){ .func = func,
			     .owner = owner,
			     .base = base,
			     .name = (uint32_t)r->names.len,
			     .order = (uint32_t)rank << 24 | (uint32_t)r->claim_cnt };
	r->claim_cnt++;
	strbuf__addf(&r->names, "%s%s%s", before, name, after);
	strbuf__addc(&r->names, '\0');
	return r->names.err;
}

static int claim_method(struct tables_reader *r, uint64_t entry, uint64_t owner, uint64_t base,
			const char *of)
{
	char before[NAME_MAX_LEN + 2];

	snprintf(before, sizeof(before), "%s%s", of, *of ? "." : "");
	return add_claim(r, RANK_METHOD, owner, base, word_at(r, entry + 8).value, before,
			 pointed_name(r, entry, false), "");
}

static int claim_slot(struct tables_reader *r, uint64_t type, uint64_t base, const char *of,
		      uint64_t addr, const char *slot)
{
	struct word w = word_at(r, addr);
	char after[40];

	if (!w.pointer || !w.value || !is_function(r, w.value))
		return 0;
	snprintf(after, sizeof(after), " (%s)", slot);
	return add_claim(r, RANK_SLOT, type, base, w.value, "", of, after);
}

/* ---- Methods --------------------------------------------------------------------------------- */

#define METHOD_SIZE 32

/* METH_* of methodobject.h: one way to call, and what may come with it. */
static bool are_method_flags(uint64_t flags)
{
	switch (flags & ~0x70ULL) { /* CLASS, STATIC, COEXIST */
	case 0x0:		    /* 2.7: METH_OLDARGS */
	case 0x1:		    /* VARARGS */
	case 0x2:		    /* 2.7: KEYWORDS alone */
	case 0x3:
	case 0x4:  /* NOARGS */
	case 0x8:  /* O */
	case 0x80: /* FASTCALL */
	case 0x82:
	case 0x282: /* METHOD | FASTCALL | KEYWORDS */
		return flags != 0;
	}
	return false;
}

/* {const char *ml_name; PyCFunction ml_meth; int ml_flags; const char *ml_doc;} */
static bool is_method(const struct tables_reader *r, uint64_t addr)
{
	struct word func = word_at(r, addr + 8);

	return func.pointer && func.value && is_function(r, func.value) &&
	       are_method_flags(plain_at(r, addr + 16, 0)) && is_data_or_0(r, addr + 24) &&
	       pointed_name(r, addr, false);
}

static int add_method(struct tables_reader *r, uint64_t entry)
{
	const struct methods *last = r->method_cnt ? &r->methods[r->method_cnt - 1] : NULL;
	uint64_t table = last && last->entry + METHOD_SIZE == entry ? last->table : entry;

	if (ARRAY_GROW(r->methods, r->method_cap, r->method_cnt, SYM_TABLES_CLAIMS_MAX))
		return r->method_cnt == SYM_TABLES_CLAIMS_MAX ? 0 : -ENOMEM;
	r->methods[r->method_cnt++] = (struct methods){ .table = table, .entry = entry };
	return 0;
}

static int find_methods(struct tables_reader *r)
{
	int err = 0;

	for (size_t i = 0; i < r->region_cnt; i++) {
		const struct region *g = &r->regions[i];

		for (uint64_t at = 0; !err && !g->constant && at + METHOD_SIZE <= g->size;
		     at += WORD) {
			if (!is_method(r, g->addr + at))
				continue;
			err = add_method(r, g->addr + at);
			at += METHOD_SIZE - WORD;
		}
	}
	r->owned = calloc(r->method_cnt + 1, sizeof(*r->owned));
	return err ? err : r->owned ? 0 : -ENOMEM;
}

static size_t first_method(const struct tables_reader *r, uint64_t table)
{
	size_t low = 0, high = r->method_cnt;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (r->methods[mid].table < table)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The methods of the table that the word at `addr` points to. */
static int claim_methods(struct tables_reader *r, uint64_t addr, uint64_t owner, uint64_t base,
			 const char *of)
{
	uint64_t table = word_at(r, addr).value;
	int err = 0;

	for (size_t i = first_method(r, table);
	     !err && i < r->method_cnt && r->methods[i].table == table; i++) {
		r->owned[i] = true;
		err = claim_method(r, r->methods[i].entry, owner, base, of);
	}
	return err;
}

/* ---- Attributes ------------------------------------------------------------------------------ */

#define GETSET_SIZE 40
#define GETSETS_MAX 1000

static int claim_accessor(struct tables_reader *r, uint64_t owner, uint64_t base, uint64_t addr,
			  const char *of, const char *attr, const char *what)
{
	char before[NAME_MAX_LEN + 2];
	struct word w = word_at(r, addr);

	if (!w.pointer || !w.value || !is_function(r, w.value))
		return 0;
	snprintf(before, sizeof(before), "%s.", of);
	return add_claim(r, RANK_GETSET, owner, base, w.value, before, attr, what);
}

/* {const char *name; getter get; setter set; const char *doc; void *closure;} ... {NULL} */
static int claim_getset(struct tables_reader *r, uint64_t addr, uint64_t owner, uint64_t base,
			const char *of)
{
	uint64_t at = word_at(r, addr).value;
	int err = 0;

	for (size_t i = 0; !err && i < GETSETS_MAX; i++, at += GETSET_SIZE) {
		const char *attr = pointed_name(r, at, false);

		if (!attr || !is_function_or_0(r, at + 8) || !is_function_or_0(r, at + 16) ||
		    !is_data_or_0(r, at + 24))
			break;
		err = claim_accessor(r, owner, base, at + 8, of, attr, " (get)");
		if (!err)
			err = claim_accessor(r, owner, base, at + 16, of, attr, " (set)");
	}
	return err;
}

/* ---- Types ----------------------------------------------------------------------------------- */

struct member {
	uint16_t offset;
	const char *name;
};

/*
 * PyTypeObject, without the parts that are not functions. Offsets with an object's head of 24
 * bytes.
 */
static const struct member type_slots[] = {
	{ 48, "tp_dealloc" },	 { 64, "tp_getattr" },	 { 72, "tp_setattr" },
	{ 88, "tp_repr" },	 { 120, "tp_hash" },	 { 128, "tp_call" },
	{ 136, "tp_str" },	 { 144, "tp_getattro" }, { 152, "tp_setattro" },
	{ 184, "tp_traverse" },	 { 192, "tp_clear" },	 { 200, "tp_richcompare" },
	{ 216, "tp_iter" },	 { 224, "tp_iternext" }, { 272, "tp_descr_get" },
	{ 280, "tp_descr_set" }, { 296, "tp_init" },	 { 304, "tp_alloc" },
	{ 312, "tp_new" },	 { 320, "tp_free" },	 { 0, NULL },
};
/* The same, only from 3.8 on. */
static const struct member late_slots[] = {
	{ 392, "tp_finalize" },
	{ 400, "tp_vectorcall" },
	{ 0, NULL },
};
static const struct member async_slots[] = {
	{ 0, "am_await" },
	{ 8, "am_aiter" },
	{ 16, "am_anext" },
	{ 0, NULL },
};
static const struct member number_slots[] = {
	{ 0, "nb_add" },
	{ 8, "nb_subtract" },
	{ 16, "nb_multiply" },
	{ 24, "nb_remainder" },
	{ 32, "nb_divmod" },
	{ 40, "nb_power" },
	{ 48, "nb_negative" },
	{ 56, "nb_positive" },
	{ 64, "nb_absolute" },
	{ 72, "nb_bool" },
	{ 80, "nb_invert" },
	{ 88, "nb_lshift" },
	{ 96, "nb_rshift" },
	{ 104, "nb_and" },
	{ 112, "nb_xor" },
	{ 120, "nb_or" },
	{ 128, "nb_int" },
	{ 144, "nb_float" },
	{ 152, "nb_inplace_add" },
	{ 160, "nb_inplace_subtract" },
	{ 168, "nb_inplace_multiply" },
	{ 176, "nb_inplace_remainder" },
	{ 184, "nb_inplace_power" },
	{ 192, "nb_inplace_lshift" },
	{ 200, "nb_inplace_rshift" },
	{ 208, "nb_inplace_and" },
	{ 216, "nb_inplace_xor" },
	{ 224, "nb_inplace_or" },
	{ 232, "nb_floor_divide" },
	{ 240, "nb_true_divide" },
	{ 248, "nb_inplace_floor_divide" },
	{ 256, "nb_inplace_true_divide" },
	{ 264, "nb_index" },
	{ 0, NULL },
};
static const struct member sequence_slots[] = {
	{ 0, "sq_length" },	     { 8, "sq_concat" },	  { 16, "sq_repeat" },
	{ 24, "sq_item" },	     { 40, "sq_ass_item" },	  { 56, "sq_contains" },
	{ 64, "sq_inplace_concat" }, { 72, "sq_inplace_repeat" }, { 0, NULL },
};
static const struct member mapping_slots[] = {
	{ 0, "mp_length" },
	{ 8, "mp_subscript" },
	{ 16, "mp_ass_subscript" },
	{ 0, NULL },
};
static const struct member buffer_slots[] = {
	{ 0, "bf_getbuffer" },
	{ 8, "bf_releasebuffer" },
	{ 0, NULL },
};

/* The tables to which PyTypeObject points. */
static const struct {
	uint16_t offset;
	bool python3; /* laid out otherwise in 2.7 */
	const struct member *slots;
} type_parts[] = {
	{ 80, true, async_slots },     { 96, true, number_slots },  { 104, false, sequence_slots },
	{ 112, false, mapping_slots }, { 160, true, buffer_slots },
};

#define TYPE_NAME    24
#define TYPE_METHODS 232
#define TYPE_GETSET  248
#define TYPE_BASE    256
#define TYPE_SIZE    336 /* as far as it is checked */

static bool are_plain(const struct tables_reader *r, uint64_t type, const uint16_t *offsets,
		      size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		struct word w = word_at(r, type + offsets[i]);

		if (!w.there || w.pointer)
			return false;
	}
	return true;
}

/* `t` is the type less what its head has more than 24 bytes. */
static bool is_type(const struct tables_reader *r, uint64_t t)
{
	static const uint16_t numbers[] = { 168, 208, 288 };
	static const uint16_t data[] = { 96, 104, 112, 160, 176, 232, 240, 248, 256, 264 };
	bool any = false;

	if (!word_at(r, t + TYPE_SIZE - WORD).there || !pointed_name(r, t + TYPE_NAME, true) ||
	    plain_at(r, t + 32, UINT64_MAX) - 1 >= 1U << 20 || /* tp_basicsize, not 0 */
	    plain_at(r, t + 40, UINT64_MAX) >= 1U << 16 ||     /* tp_itemsize */
	    !are_plain(r, t, numbers, sizeof(numbers) / sizeof(*numbers)))
		return false;
	for (size_t i = 0; i < sizeof(data) / sizeof(*data); i++)
		if (!is_data_or_0(r, t + data[i]))
			return false;
	for (const struct member *m = type_slots; m->name; m++) {
		if (!is_function_or_0(r, t + m->offset))
			return false;
		any |= word_at(r, t + m->offset).pointer;
	}
	return any;
}

static int claim_slots(struct tables_reader *r, uint64_t type, uint64_t base, const char *of,
		       uint64_t at, const struct member *slots)
{
	int err = 0;

	for (const struct member *m = slots; !err && m->name; m++)
		err = claim_slot(r, type, base, of, at + m->offset, m->name);
	return err;
}

static int claim_type(struct tables_reader *r, uint64_t t)
{
	const char *of = pointed_name(r, t + TYPE_NAME, true);
	uint64_t base = word_at(r, t + TYPE_BASE).value;
	int err = claim_slots(r, t, base, of, t, type_slots);

	if (!err && !r->python2)
		err = claim_slots(r, t, base, of, t, late_slots);
	for (size_t i = 0; !err && i < sizeof(type_parts) / sizeof(*type_parts); i++) {
		uint64_t part = word_at(r, t + type_parts[i].offset).value;

		if (part && !(type_parts[i].python3 && r->python2))
			err = claim_slots(r, t, base, of, part, type_parts[i].slots);
	}
	if (!err)
		err = claim_methods(r, t + TYPE_METHODS, t, base, of);
	return err ? err : claim_getset(r, t + TYPE_GETSET, t, base, of);
}

/* ---- Type specs ------------------------------------------------------------------------------ */

/* By the numbers of typeslots.h, from 1 on. */
static const char *const spec_slots[] = {
	NULL,
	"bf_getbuffer",
	"bf_releasebuffer",
	"mp_ass_subscript",
	"mp_length",
	"mp_subscript",
	"nb_absolute",
	"nb_add",
	"nb_and",
	"nb_bool",
	"nb_divmod",
	"nb_float",
	"nb_floor_divide",
	"nb_index",
	"nb_inplace_add",
	"nb_inplace_and",
	"nb_inplace_floor_divide",
	"nb_inplace_lshift",
	"nb_inplace_multiply",
	"nb_inplace_or",
	"nb_inplace_power",
	"nb_inplace_remainder",
	"nb_inplace_rshift",
	"nb_inplace_subtract",
	"nb_inplace_true_divide",
	"nb_inplace_xor",
	"nb_int",
	"nb_invert",
	"nb_lshift",
	"nb_multiply",
	"nb_negative",
	"nb_or",
	"nb_positive",
	"nb_power",
	"nb_remainder",
	"nb_rshift",
	"nb_subtract",
	"nb_true_divide",
	"nb_xor",
	"sq_ass_item",
	"sq_concat",
	"sq_contains",
	"sq_inplace_concat",
	"sq_inplace_repeat",
	"sq_item",
	"sq_length",
	"sq_repeat",
	"tp_alloc",
	NULL,
	NULL,
	"tp_call",
	"tp_clear",
	"tp_dealloc",
	"tp_del",
	"tp_descr_get",
	"tp_descr_set",
	NULL,
	"tp_getattr",
	"tp_getattro",
	"tp_hash",
	"tp_init",
	"tp_is_gc",
	"tp_iter",
	"tp_iternext",
	NULL,
	"tp_new",
	"tp_repr",
	"tp_richcompare",
	"tp_setattr",
	"tp_setattro",
	"tp_str",
	"tp_traverse",
	NULL,
	NULL,
	"tp_free",
	"nb_matrix_multiply",
	"nb_inplace_matrix_multiply",
	"am_await",
	"am_aiter",
	"am_anext",
	"tp_finalize",
	"am_send",
	"tp_vectorcall",
	NULL,
};
#define SPEC_SLOT_CNT (sizeof(spec_slots) / sizeof(*spec_slots))
#define SPEC_METHODS  64
#define SPEC_GETSET   73

/* {int slot; void *pfunc;} ... {0, NULL}: how many, 0 if it is no such table. */
static size_t spec_slot_cnt(const struct tables_reader *r, uint64_t at)
{
	for (size_t i = 0; i < SLOTS_MAX; i++, at += 16) {
		uint64_t slot = plain_at(r, at, UINT64_MAX);

		if (!slot)
			return i;
		if (slot >= SPEC_SLOT_CNT || !word_at(r, at + 8).there)
			return 0;
	}
	return 0;
}

static int claim_spec_slot(struct tables_reader *r, uint64_t spec, const char *of, uint64_t at)
{
	uint64_t slot = plain_at(r, at, 0);

	if (slot == SPEC_METHODS)
		return claim_methods(r, at + 8, spec, 0, of);
	if (slot == SPEC_GETSET)
		return claim_getset(r, at + 8, spec, 0, of);
	return spec_slots[slot] ? claim_slot(r, spec, 0, of, at + 8, spec_slots[slot]) : 0;
}

/* {const char *name; int basicsize, itemsize; unsigned flags; PyType_Slot *slots;} */
static int claim_spec(struct tables_reader *r, uint64_t spec)
{
	const char *of = pointed_name(r, spec, true);
	struct word slots = word_at(r, spec + 24), flags = word_at(r, spec + 16);
	struct word sizes = word_at(r, spec + 8);
	size_t cnt;
	int err = 0;

	if (!of || sizes.pointer || !flags.there || flags.pointer || flags.value > UINT32_MAX ||
	    !slots.pointer || !slots.value)
		return 0;
	cnt = spec_slot_cnt(r, slots.value);
	for (size_t i = 0; !err && i < cnt; i++)
		err = claim_spec_slot(r, spec, of, slots.value + 16 * i);
	return err;
}

/* ---- Modules --------------------------------------------------------------------------------- */

/* PyModuleDef from m_name on: {name, doc, size, methods, slots, traverse, clear, free} */
static int claim_module(struct tables_reader *r, uint64_t m)
{
	const char *of = pointed_name(r, m, true);
	struct word size = word_at(r, m + 16), methods = word_at(r, m + 24);

	if (!of || !size.there || size.pointer || (int64_t)size.value < -1 ||
	    (int64_t)size.value > 1 << 24 || !methods.pointer || !is_data_or_0(r, m + 8) ||
	    !is_data_or_0(r, m + 32) || !is_function_or_0(r, m + 40) ||
	    !is_function_or_0(r, m + 48) || !is_function_or_0(r, m + 56))
		return 0;
	return claim_methods(r, m + 24, m, 0, of);
}

/* ---- All of them ----------------------------------------------------------------------------- */

/*
 * Whatever names something begins with, or contains, a pointer to a name. Free-threaded builds have
 * heads of 40 bytes, so the distance from there to the rest of a type is what counts.
 */
static int claim_named(struct tables_reader *r, uint64_t at)
{
	int err;

	if (at >= TYPE_NAME && is_type(r, at - TYPE_NAME))
		return claim_type(r, at - TYPE_NAME);
	err = claim_spec(r, at);
	return err ? err : claim_module(r, at);
}

static int find_claims(struct tables_reader *r)
{
	int err = find_methods(r);

	for (size_t i = 0; !err && i < r->region_cnt; i++) {
		const struct region *g = &r->regions[i];

		for (uint64_t at = 0; !err && !g->constant && at + WORD <= g->size; at += WORD)
			if (pointed_name(r, g->addr + at, true))
				err = claim_named(r, g->addr + at);
	}
	for (size_t i = 0; !err && i < r->method_cnt; i++)
		if (!r->owned[i])
			err = claim_method(r, r->methods[i].entry, 0, 0, "");
	return err;
}

static int by_func(const void *a_, const void *b_)
{
	const struct claim *a = a_, *b = b_;

	if (a->func != b->func)
		return a->func < b->func ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

/* Chooses, of several names of one function, that of the class from which others inherit it. */
static const struct claim *pick(const struct tables_reader *r, const struct claim *c, size_t cnt)
{
	static const char root[] = "object (";

	for (size_t i = 0; i < cnt; i++)
		if (c[i].owner && !strncmp(r->names.s + c[i].name, root, sizeof(root) - 1))
			return &c[i];
	cnt = cnt < GROUP_MAX ? cnt : GROUP_MAX;
	for (size_t i = 0; i < cnt; i++)
		for (size_t j = 0; j < cnt; j++)
			if (c[i].owner &&
			    (c[j].base == c[i].owner || c[j].base + HEAD_MORE == c[i].owner) &&
			    c[i].order >> 24 == c->order >> 24)
				return &c[i];
	return c;
}

/* How many other names the claims have. */
static size_t other_names(const struct tables_reader *r, const struct claim *c, size_t cnt,
			  const struct claim *picked)
{
	size_t others = 0;

	for (size_t i = 0; i < cnt; i++)
		others += strcmp(r->names.s + c[i].name, r->names.s + picked->name) != 0;
	return others;
}

/* One name for each function that has claims. */
static int settle(struct tables_reader *r, struct sym_tables *out)
{
	struct strbuf names = { 0 };
	size_t cnt;

	qsort(r->claims, r->claim_cnt, sizeof(*r->claims), by_func);
	out->v = calloc(r->claim_cnt + 1, sizeof(*out->v));
	if (!out->v)
		return -ENOMEM;
	for (size_t i = 0; i < r->claim_cnt; i += cnt) {
		const struct claim *c = &r->claims[i], *picked;
		size_t others;

		for (cnt = 1; i + cnt < r->claim_cnt && c[cnt].func == c->func;)
			cnt++;
		picked = pick(r, c, cnt);
		others = other_names(r, c, cnt, picked);
		out->v[out->cnt++] =
			(struct table_name){ .addr = c->func, .name = (uint32_t)names.len };
		strbuf__addz(&names, r->names.s + picked->name);
		if (others)
			strbuf__addf(&names, " +%zu", others);
		strbuf__addc(&names, '\0');
	}
	out->names = names.s;
	out->names_sz = names.len;
	return names.err;
}

static void free_tables_reader(struct tables_reader *r)
{
	for (size_t i = 0; i < r->region_cnt; i++) {
		free(r->regions[i].data);
		free(r->regions[i].pointers);
	}
	free(r->regions);
	free(r->methods);
	free(r->owned);
	free(r->claims);
	strbuf__free(&r->names);
}

int sym_tables__read(const struct elf_file *ef, const struct fde_range *functions, size_t cnt,
		     struct sym_tables *out)
{
	uint64_t reads = 0;
	struct tables_reader r = {
		.ef = ef, .functions = functions, .function_cnt = cnt, .reads = &reads
	};
	int err;

	*out = (struct sym_tables){ 0 };
	err = read_file(&r);
	if (!err)
		err = find_claims(&r);
	if (!err && r.claim_cnt)
		err = settle(&r, out);
	free_tables_reader(&r);
	return err < 0 ? err : 0;
}

void sym_tables__free(struct sym_tables *t)
{
	free(t->v);
	free(t->names);
	*t = (struct sym_tables){ 0 };
}
