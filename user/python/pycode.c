/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "python/pycode.h"

#include <stdlib.h>

#include "python/pylines.h"

#define NAME_MAX_CHARS 4096
#define TABLE_MAX      (1U << 20)
/* Of all that is kept of a process: many code objects may have the same long table. */
#define BYTES_MAX      (32U << 20)

static void take_text(struct pycodes *c, uint64_t at, char **text, size_t *len)
{
	struct strbuf b = { 0 };

	if (pystr__read(c->mem, pymem__pointer(c->mem, at), NAME_MAX_CHARS, &b, NULL) || !b.s) {
		strbuf__free(&b);
		return;
	}
	*text = b.s;
	*len = b.len;
}

static void take_table(struct pycodes *c, uint64_t addr, struct pycode *code)
{
	const struct py_layout *lay = c->mem->lay;
	uint64_t table = pymem__pointer(c->mem, addr + lay->code_linetable), size;

	if (!table || pymem__read(c->mem, &size, 8, table + lay->bytes_size) || size > TABLE_MAX)
		return;
	code->table = malloc(size + 1);
	if (!code->table ||
	    (size && pymem__read(c->mem, code->table, size, table + lay->bytes_data)))
		return;
	code->table_size = size;
	code->has_table = true;
}

static void read_code(struct pycodes *c, uint64_t addr, struct pycode *code)
{
	const struct py_layout *lay = c->mem->lay;
	uint16_t name = lay->code_qualname == PY_OFF_NONE ? lay->code_name : lay->code_qualname;

	if (pyobject__type(c->mem, addr) != c->code_type)
		return;
	take_text(c, addr + name, &code->name, &code->name_len);
	take_text(c, addr + lay->code_filename, &code->file, &code->file_len);
	if (pymem__read(c->mem, &code->first_line, 4, addr + lay->code_firstlineno))
		code->first_line = 0;
	take_table(c, addr, code);
}

static void free_code(struct pycode *code)
{
	free(code->name);
	free(code->file);
	free(code->table);
	free(code);
}

const struct pycode *pycodes__get(struct pycodes *c, uint64_t addr)
{
	static const struct pycode nameless;
	struct pycode *code = idmap__get(&c->by_addr, addr);

	if (code)
		return code;
	if (c->bytes >= BYTES_MAX)
		return &nameless;
	code = calloc(1, sizeof(*code));
	if (!code)
		return NULL;
	if (idmap__set(&c->by_addr, addr, code)) {
		free(code);
		return NULL;
	}
	read_code(c, addr, code);
	c->bytes += sizeof(*code) + code->name_len + code->file_len + code->table_size;
	return code;
}

void pycodes__free(struct pycodes *c)
{
	struct pycode *code;

	for (size_t at = 0; (code = idmap__next(&c->by_addr, &at));)
		free_code(code);
	idmap__free(&c->by_addr);
}

uint32_t pycode__line(const struct py_layout *lay, const struct pycode *code, uint32_t offset)
{
	uint32_t first = py_valid_line((uint64_t)(int64_t)code->first_line), line;
	bool prologue;

	if (offset == OFFSET_NOT_STARTED)
		return first;
	if (!code->has_table)
		return 0;
	line = py_find_line((enum py_linetable)lay->linetable_kind, code->table, code->table_size,
			    code->first_line, offset, &prologue);
	return prologue && !line ? first : line;
}
