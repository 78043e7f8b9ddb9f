/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "heap/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#define MEMBER_SIZE 40 /* PyMemberDef: name, type, offset, flags, doc */
#define MEMBERS_MAX 512
#define LRU_LINK    "functools._lru_list_elem"

/*
 * Fields that C types do not name themselves, with ob_type at 8. lru_cache() is in
 * Modules/_functoolsmodule.c@3.9 - 3.15, a type's in Include/cpython/object.h, a function's in
 * Include/cpython/funcobject.h@3.10.
 */
static const struct {
	const char *type, *field;
	uint16_t offset, since;
} known_fields[] = {
	{ "traceback", "tb_next", 16, 0 },
	{ "module", "__dict__", 16, 0 },
	{ "cell", "cell_contents", 16, 0 },
	{ LRU_LINK, "key", 40, 0 },
	{ LRU_LINK, "result", 48, 0 },
	{ "functools._lru_cache_wrapper", "cache", 72, 0x0309 },
	{ "function", "__defaults__", 56, 0x030a },
};

/*
 * Where objects keep their own name: the best one first. Objects/moduleobject.c;
 * Include/funcobject.h@2.7 - 3.9, Include/cpython/funcobject.h@3.10 - 3.15.
 */
static const struct {
	const char *type;
	uint16_t offset, since, until;
} own_names[] = {
	{ "module", 48, 0x0300, UINT16_MAX },
	{ "function", 40, 0x030a, UINT16_MAX }, /* func_qualname */
	{ "function", 104, 0x0303, 0x0309 },
	{ "function", 56, 0, 0x02ff }, /* func_name */
};

void heap_names__init(struct heap_names *n, const struct heap_mem *mem,
		      const struct heap_shape *shape, const struct py_layout *layout,
		      uint16_t code_locals)
{
	*n = (struct heap_names){ .shape = shape, .code_locals = code_locals };
	n->mem = (struct pymem){
		.read = mem->read,
		.ctx = mem->ctx,
		.lay = layout,
		.str_type = shape->str_type,
		.version = (uint16_t)shape->version,
		.shift = (uint16_t)(shape->ob_type - 8),
	};
}

bool heap_type__is(const struct heap_type *t, const char *name)
{
	return !t->unnamed && !strcmp(t->name, name);
}

static int read_mem(struct heap_names *n, void *dst, size_t size, uint64_t addr)
{
	return n->mem.read(n->mem.ctx, dst, size, addr);
}

char *heap_names__str(struct heap_names *n, uint64_t addr)
{
	struct strbuf text = { 0 }, safe = { 0 };

	if (!pystr__read(&n->mem, addr, HEAP_NAME_CHARS, &text, NULL) && text.len)
		str_sanitise(&safe, text.s, text.len, HEAP_NAME_CHARS);
	strbuf__free(&text);
	return safe.s;
}

static char *str_at(struct heap_names *n, uint64_t addr)
{
	uint64_t word;

	return read_mem(n, &word, 8, addr) ? NULL : heap_names__str(n, word);
}

static char *read_cstring(struct heap_names *n, uint64_t addr)
{
	struct strbuf safe = { 0 };
	char raw[HEAP_NAME_CHARS];
	size_t len = 0;

	while (len < sizeof(raw) && !read_mem(n, raw + len, 1, addr + len) && raw[len])
		len++;
	if (len)
		str_sanitise(&safe, raw, len, HEAP_NAME_CHARS);
	return safe.s;
}

static char *code_name(struct heap_names *n, uint64_t addr)
{
	const struct py_layout *l = n->mem.lay;
	char *name = NULL;

	if (l->code_qualname != PY_OFF_NONE)
		name = str_at(n, addr + l->code_qualname);
	return name ? name : str_at(n, addr + l->code_name);
}

char *heap_names__own(struct heap_names *n, const struct heap_type *type, uint64_t addr)
{
	char *name = NULL;
	uint64_t word;

	if (type->is_meta)
		return read_mem(n, &word, 8, addr + heap_field(n, PYTYPE_NAME))
			       ? NULL
			       : read_cstring(n, word);
	if (heap_type__is(type, "code"))
		return code_name(n, addr);
	for (size_t i = 0; i < sizeof(own_names) / sizeof(own_names[0]); i++)
		if (!name && heap_type__is(type, own_names[i].type) &&
		    n->mem.version >= own_names[i].since && n->mem.version <= own_names[i].until)
			name = str_at(n, addr + heap_field(n, own_names[i].offset));
	return name;
}

static char *member_name(struct heap_names *n, const struct heap_type *type, uint64_t offset)
{
	uint64_t members;

	if (read_mem(n, &members, 8, type->addr + heap_field(n, PYTYPE_MEMBERS)) || !members)
		return NULL;
	for (unsigned i = 0; i < MEMBERS_MAX; i++) {
		uint8_t one[MEMBER_SIZE];

		if (read_mem(n, one, sizeof(one), members + (uint64_t)i * MEMBER_SIZE) ||
		    !heap_word(one))
			break;
		if (heap_word(one + 16) == offset)
			return read_cstring(n, heap_word(one));
	}
	return NULL;
}

char *heap_names__field(struct heap_names *n, const struct heap_type *type, uint64_t offset)
{
	char *name = member_name(n, type, offset);

	if (!name && type->is_meta && offset == heap_field(n, PYTYPE_DICT))
		return strdup("__dict__");
	for (size_t i = 0; i < sizeof(known_fields) / sizeof(known_fields[0]); i++)
		if (!name && heap_type__is(type, known_fields[i].type) &&
		    n->mem.version >= known_fields[i].since &&
		    offset == heap_field(n, known_fields[i].offset))
			name = strdup(known_fields[i].field);
	return name;
}

char *heap_names__local(struct heap_names *n, uint64_t code, uint32_t index)
{
	uint64_t names = 0, type, items;
	struct strbuf b = { 0 };
	char *function, *variable;

	if (read_mem(n, &names, 8, code + n->code_locals) ||
	    read_mem(n, &type, 8, names + n->shape->ob_type) ||
	    /* tp_basicsize: a tuple's items are behind its hash from 3.14 on. */
	    read_mem(n, &items, 8, type + heap_field(n, PYTYPE_BASICSIZE)))
		return NULL;
	function = str_at(n, code + n->mem.lay->code_name);
	variable = str_at(n, names + items + 8ULL * index);
	strbuf__addf(&b, "%s: %s", function ? function : "?",
		     variable ? variable : "a value at work");
	free(function);
	free(variable);
	if (b.err)
		strbuf__free(&b);
	return b.s;
}
