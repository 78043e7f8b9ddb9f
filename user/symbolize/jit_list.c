/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "symbolize/jit_list.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/readmem.h"

#define LIST_VERSION 1

/* As the manual of gdb declares them. */
struct descriptor {
	uint32_t version, action;
	uint64_t relevant, first;
};

struct entry {
	uint64_t next, prev;
	uint64_t addr, size;
};

/* ---- the list, in the reader ----------------------------------------------------------------- */

struct list_question {
	uint32_t tgid;
	uint64_t list;
	struct jit_object known;
};

static int walk_list(const void *question, void *answer)
{
	const struct list_question *q = question;
	struct jit_objects *out = answer;
	struct descriptor d;
	uint64_t at;
	int err = read_process(q->tgid, &d, sizeof(d), q->list);

	out->cnt = 0;
	if (err || d.version != LIST_VERSION)
		return err;
	/* A cycle ends with the room. */
	for (at = d.first; at && out->cnt < JIT_OBJECTS_MAX;) {
		struct entry e;

		if (read_process(q->tgid, &e, sizeof(e), at))
			break;
		if (at == q->known.entry && e.addr == q->known.addr && e.size == q->known.size)
			break;
		out->objects[out->cnt++] = (struct jit_object){ at, e.addr, e.size };
		at = e.next;
	}
	return 0;
}

READER_OPERATION(walk_list);

int jit_list__objects(struct readers *rs, uint32_t tgid, uint64_t list,
		      const struct jit_object *known, struct jit_objects *out)
{
	struct list_question q = { .tgid = tgid, .list = list };
	int err;

	if (known)
		q.known = *known;
	err = reader__call(rs, tgid, &op_walk_list, &q, sizeof(q), out, sizeof(*out));
	if (err < 0)
		return err;
	return out->cnt <= JIT_OBJECTS_MAX ? 0 : -EINVAL;
}

/* ---- an object, in the reader ---------------------------------------------------------------- */

struct object_question {
	uint32_t tgid, from;
	struct jit_object object;
};

/* A copy of the object. */
struct image {
	const uint8_t *bytes;
	uint64_t size;
	const Elf64_Shdr *sections;
	uint32_t section_cnt;
	bool relocatable; /* values of symbols count from their sections */
};

static const void *at_offset(const struct image *o, uint64_t off, uint64_t size)
{
	return off <= o->size && size <= o->size - off ? o->bytes + off : NULL;
}

/* The headers of its sections are copied to `sections`: in the object they may be misaligned. */
static bool find_sections(struct image *o, Elf64_Shdr *sections, uint32_t max)
{
	const void *headers;
	Elf64_Ehdr eh;

	if (o->size < sizeof(eh))
		return false;
	memcpy(&eh, o->bytes, sizeof(eh));
	if (memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 || eh.e_ident[EI_CLASS] != ELFCLASS64 ||
	    eh.e_ident[EI_DATA] != ELFDATA2LSB || eh.e_shentsize != sizeof(*sections))
		return false;
	o->section_cnt = eh.e_shnum < max ? eh.e_shnum : max;
	headers = at_offset(o, eh.e_shoff, o->section_cnt * sizeof(*sections));
	if (!headers)
		return false;
	memcpy(sections, headers, o->section_cnt * sizeof(*sections));
	o->sections = sections;
	o->relocatable = eh.e_type == ET_REL;
	return true;
}

static const Elf64_Shdr *find_symbols(const struct image *o)
{
	for (uint32_t i = 0; i < o->section_cnt; i++)
		if (o->sections[i].sh_type == SHT_SYMTAB && o->sections[i].sh_link < o->section_cnt)
			return &o->sections[i];
	return NULL;
}

/* The JIT has put into the sections where they lie in memory; 0: nowhere. */
static bool find_code(const struct image *o, const Elf64_Sym *sym, struct jit_function *f)
{
	const Elf64_Shdr *s = sym->st_shndx < o->section_cnt ? &o->sections[sym->st_shndx] : NULL;

	if (ELF64_ST_TYPE(sym->st_info) != STT_FUNC || !s || !s->sh_addr || !sym->st_size ||
	    !(s->sh_flags & SHF_EXECINSTR))
		return false;
	f->start = sym->st_value + (o->relocatable ? s->sh_addr : 0);
	f->end = f->start + sym->st_size;
	return f->end > f->start;
}

static bool find_name(const struct image *o, const Elf64_Shdr *strings, const Elf64_Sym *sym,
		      const char **name, uint32_t *len)
{
	uint64_t room = sym->st_name < strings->sh_size ? strings->sh_size - sym->st_name : 0;

	room = room < JIT_NAME_MAX ? room : JIT_NAME_MAX;
	*name = at_offset(o, strings->sh_offset + sym->st_name, room);
	*len = *name ? (uint32_t)strnlen(*name, room) : 0;
	return *len;
}

static void add_functions(const struct image *o, const struct object_question *q,
			  struct jit_functions *out)
{
	const Elf64_Shdr *symbols = find_symbols(o);
	const Elf64_Shdr *strings = symbols ? &o->sections[symbols->sh_link] : NULL;
	uint64_t cnt = symbols ? symbols->sh_size / sizeof(Elf64_Sym) : 0, used = 0;

	for (uint64_t i = q->from; i < cnt && i < UINT32_MAX; i++) {
		const void *at =
			at_offset(o, symbols->sh_offset + i * sizeof(Elf64_Sym), sizeof(Elf64_Sym));
		struct jit_function f = { .text = UINT32_MAX };
		const char *name;
		Elf64_Sym sym;

		if (!at)
			return;
		memcpy(&sym, at, sizeof(sym));
		if (!find_code(o, &sym, &f) || !find_name(o, strings, &sym, &name, &f.len))
			continue;
		if (out->cnt == JIT_FUNCTIONS_MAX || used + f.len > sizeof(out->names)) {
			out->next = (uint32_t)i;
			return;
		}
		f.name = q->object.addr + (uint64_t)((const uint8_t *)name - o->bytes);
		f.text = (uint32_t)used;
		memcpy(out->names + used, name, f.len);
		used += f.len;
		out->functions[out->cnt++] = f;
	}
}

#define SECTIONS_MAX 256

static int read_object(const void *question, void *answer)
{
	const struct object_question *q = question;
	struct jit_functions *out = answer;
	Elf64_Shdr sections[SECTIONS_MAX];
	uint8_t *bytes = malloc(q->object.size);
	struct image o = { .bytes = bytes, .size = q->object.size };
	int err = bytes ? read_process(q->tgid, bytes, q->object.size, q->object.addr) : -ENOMEM;

	out->cnt = out->next = 0;
	if (!err && !find_sections(&o, sections, SECTIONS_MAX))
		err = -ENOEXEC;
	if (!err)
		add_functions(&o, q, out);
	free(bytes);
	return err;
}

READER_OPERATION(read_object);

static bool is_sound(const struct jit_functions *f)
{
	if (f->cnt > JIT_FUNCTIONS_MAX)
		return false;
	for (uint32_t i = 0; i < f->cnt; i++)
		if (f->functions[i].text > JIT_NAMES_SIZE ||
		    f->functions[i].len > JIT_NAMES_SIZE - f->functions[i].text)
			return false;
	return true;
}

int jit_list__functions(struct readers *rs, uint32_t tgid, const struct jit_object *o,
			uint32_t from, struct jit_functions *out)
{
	const struct object_question q = { .tgid = tgid, .from = from, .object = *o };
	int err;

	if (o->size < sizeof(Elf64_Ehdr) || o->size > JIT_OBJECT_SIZE)
		return -ENOEXEC;
	err = reader__call(rs, tgid, &op_read_object, &q, sizeof(q), out, sizeof(*out));
	if (err < 0)
		return err;
	return is_sound(out) && (!out->next || out->next > from) ? 0 : -EINVAL;
}
