/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "python/pycode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "python/pylines.h"

#define NAME_MAX_CHARS 4096
#define TABLE_MAX      (1U << 20)
#define FIELDS_MAX     256 /* bytes of a code object with all that identifies it */
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

/* ---- is it still the same? ------------------------------------------------------------------- */

/* *out is 0 if only the contents tell. Negative errno: it cannot be read. */
static int read_fingerprint(struct pycodes *c, uint64_t addr, uint64_t *out)
{
	const struct hash_key key = hash_key();
	const struct py_layout *lay = c->mem->lay;
	uint16_t first = lay->code_first;
	uint8_t fields[FIELDS_MAX];
	uint32_t version, line;
	int err;

	*out = 0;
	if (lay->code_version == PY_OFF_NONE)
		return 0;
	if (lay->code_last <= first || lay->code_last - first > FIELDS_MAX)
		return -EINVAL;
	err = pymem__read(c->mem, fields, lay->code_last - first, addr + first);
	if (err)
		return err;
	memcpy(&version, fields + lay->code_version - first, sizeof(version));
	memcpy(&line, fields + lay->code_firstlineno - first, sizeof(line));
	if (version) {
		const uint64_t words[] = {
			(uint64_t)version << 32 | line,
			pyword(fields, lay->code_qualname - first),
			pyword(fields, lay->code_filename - first),
			pyword(fields, lay->code_linetable - first),
		};

		*out = hash_bytes(&key, words, sizeof(words)) | 1;
	}
	return 0;
}

static bool same_bytes(const void *a, size_t a_len, const void *b, size_t b_len)
{
	return a_len == b_len && (!a_len || !memcmp(a, b, a_len));
}

static bool same_contents(const struct pycode *a, const struct pycode *b)
{
	return a->first_line == b->first_line && a->has_table == b->has_table &&
	       same_bytes(a->name, a->name_len, b->name, b->name_len) &&
	       same_bytes(a->file, a->file_len, b->file, b->file_len) &&
	       same_bytes(a->table, a->table_size, b->table, b->table_size);
}

void pycodes__look(struct pycodes *c)
{
	c->look++;
}

/* ---- the table ------------------------------------------------------------------------------- */

static size_t size_of(const struct pycode *code)
{
	return sizeof(*code) + code->name_len + code->file_len + code->table_size;
}

static void free_code(struct pycode *code)
{
	free(code->name);
	free(code->file);
	free(code->table);
	free(code);
}

/* Keeps `now` at its address, instead of `before` unless that is NULL. NULL: no memory. */
static struct pycode *keep(struct pycodes *c, uint64_t addr, struct pycode *before,
			   struct pycode *now)
{
	if (idmap__set(&c->by_addr, addr, now)) {
		free_code(now);
		return NULL;
	}
	now->id = ++c->ids;
	c->bytes += size_of(now);
	if (before) {
		c->bytes -= size_of(before);
		free_code(before);
	}
	return now;
}

/* What takes the place of another one may be longer. */
static bool has_room(const struct pycodes *c, const struct pycode *before, const struct pycode *now)
{
	return !before || c->bytes - size_of(before) + size_of(now) <= BYTES_MAX;
}

static const struct pycode nameless;

static const struct pycode *leave_out(struct pycode *code)
{
	free_code(code);
	return &nameless;
}

const struct pycode *pycodes__get(struct pycodes *c, uint64_t addr)
{
	struct pycode *had = idmap__get(&c->by_addr, addr), *code;
	uint64_t fingerprint;

	if (had && had->look == c->look)
		return had;
	if (read_fingerprint(c, addr, &fingerprint))
		return &nameless;
	if (had && fingerprint && had->fingerprint == fingerprint) {
		had->look = c->look;
		return had;
	}
	if (!had && c->bytes >= BYTES_MAX)
		return &nameless;
	code = calloc(1, sizeof(*code));
	if (!code)
		return NULL;
	read_code(c, addr, code);
	code->fingerprint = fingerprint;
	code->look = c->look;
	if (!had || !same_contents(had, code))
		return has_room(c, had, code) ? keep(c, addr, had, code) : leave_out(code);
	had->fingerprint = fingerprint;
	had->look = c->look;
	free_code(code);
	return had;
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
