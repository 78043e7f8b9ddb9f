/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "python/pyobject.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "python/pylines.h"

#define EQUALS_MAX 64 /* characters of a text that is compared */
#define STR_MAX	   (1U << 16)
#define HEAD	   64

int pymem__read(struct pymem *m, void *dst, size_t size, uint64_t src)
{
	if (m->reads_max && m->reads++ >= m->reads_max)
		return -E2BIG;
	return m->read(m->ctx, dst, size, src);
}

uint64_t pymem__pointer(struct pymem *m, uint64_t at)
{
	uint64_t word;

	return pymem__read(m, &word, sizeof(word), at) || word & 7 ? 0 : word;
}

/* ---- types ----------------------------------------------------------------------------------- */

uint64_t pyobject__type(struct pymem *m, uint64_t obj)
{
	return obj && !(obj & 7) ? pymem__pointer(m, obj + pyfield(m, 8)) : 0;
}

/* In the cache; it is read if it is not there. Where that fails, the slot stays free. */
static const char *kept_name(struct pymem *m, uint64_t type, uint64_t *base)
{
	unsigned slot = (unsigned)(type >> 4 ^ type >> 10) % PYTYPES_KEPT;
	uint64_t at;

	if (!type || !m->types)
		return NULL;
	if (m->types->slots[slot].type != type) {
		m->types->slots[slot].type = 0;
		if (pymem__read(m, &at, sizeof(at), type + pyfield(m, PYTYPE_NAME)) ||
		    pymem__read(m, m->types->slots[slot].name, PYTYPE_NAME_SIZE, at))
			return NULL;
		m->types->slots[slot].base = pymem__pointer(m, type + pyfield(m, PYTYPE_BASE));
		m->types->slots[slot].type = type;
	}
	*base = m->types->slots[slot].base;
	return m->types->slots[slot].name;
}

bool pytype__is(struct pymem *m, uint64_t type, const char *name)
{
	char text[PYTYPE_NAME_SIZE] = "";
	size_t size = strlen(name) + 1;
	const char *kept;
	uint64_t at;

	if (!type || size > sizeof(text))
		return false;
	kept = kept_name(m, type, &at);
	if (kept)
		return !memcmp(kept, name, size);
	/* Reads only bytes that must be there: a page may end behind them. */
	return !pymem__read(m, &at, sizeof(at), type + pyfield(m, PYTYPE_NAME)) &&
	       !pymem__read(m, text, size, at) && !memcmp(text, name, size);
}

uint64_t pytype__base(struct pymem *m, uint64_t type)
{
	uint64_t base;

	if (kept_name(m, type, &base))
		return base;
	return type ? pymem__pointer(m, type + pyfield(m, PYTYPE_BASE)) : 0;
}

bool pyobject__is(struct pymem *m, uint64_t obj, const char *type_name)
{
	return pytype__is(m, pyobject__type(m, obj), type_name);
}

/* ---- str ------------------------------------------------------------------------------------- */

/* The header of a str. */
struct str_head {
	uint64_t len, data;
	uint32_t width; /* of a character */
};

static int read_state(const struct py_layout *lay, const uint8_t *head, uint64_t obj,
		      struct str_head *out)
{
	uint32_t state;

	memcpy(&state, head + lay->str_state, sizeof(state));
	state >>= lay->str == PY_STR_STATE_T14 ? 8 : 2; /* kind, compact, ascii */
	out->width = state & 7;
	if ((out->width != 1 && out->width != 2 && out->width != 4) || !(state & 1 << 3))
		return -EBADMSG;
	out->data = obj + (state & 1 << 4 ? lay->str_ascii : lay->str_compact);
	return 0;
}

static int read_head(struct pymem *m, uint64_t obj, struct str_head *out)
{
	const struct py_layout *lay = m->lay;
	bool bytes = lay->str == PY_STR_BYTES;
	size_t size = bytes ? lay->bytes_size + 8U : lay->str_state + 4U;
	uint8_t head[HEAD];

	/* The length is before the state. */
	if (!obj || obj & 7 || size > sizeof(head) || pymem__read(m, head, size, obj) ||
	    pyword(head, pyfield(m, 8)) != m->str_type)
		return -EBADMSG;
	*out = (struct str_head){ .width = 1 };
	out->len = pyword(head, bytes ? lay->bytes_size : lay->str_length);
	out->data = obj + lay->bytes_data;
	return bytes ? 0 : read_state(lay, head, obj, out);
}

bool pystr__equals(struct pymem *m, uint64_t obj, const char *want)
{
	struct str_head head;
	char text[EQUALS_MAX];
	size_t len = strlen(want);

	return len <= sizeof(text) && !read_head(m, obj, &head) && head.len == len &&
	       head.width == 1 && !pymem__read(m, text, len, head.data) && !memcmp(text, want, len);
}

int pystr__read(struct pymem *m, uint64_t obj, size_t max, struct strbuf *out, uint64_t *len)
{
	struct str_head head;
	size_t size;
	void *text;
	int err;

	strbuf__clear(out);
	if (read_head(m, obj, &head))
		return -EBADMSG;
	if (len)
		*len = head.len;
	max = max < STR_MAX ? max : STR_MAX;
	size = (head.len < max ? head.len : max) * head.width;
	text = malloc(size + 1);
	if (!text)
		return -ENOMEM;
	err = size ? pymem__read(m, text, size, head.data) : 0;
	if (!err && m->lay->str == PY_STR_BYTES)
		strbuf__add(out, text, size);
	else if (!err)
		py_utf8(out, text, size, head.width);
	free(text);
	return err ? -EBADMSG : out->err;
}

/* ---- int ------------------------------------------------------------------------------------- */

/* Digits of 30 bits (Include/cpython/longintrepr.h); 2.7: a C long. */
int pyint__read(struct pymem *m, uint64_t obj, uint64_t *out)
{
	uint32_t digit[3] = { 0 };
	uint64_t cnt, at = obj + pyfield(m, 16);

	if (!pyobject__is(m, obj, "int") || pymem__read(m, &cnt, sizeof(cnt), at))
		return -EBADMSG;
	if (m->version < 0x0300) {
		*out = cnt;
		return 0;
	}
	if (m->version >= 0x030c) { /* lv_tag: digits << 3, sign; 0 is positive, 1 is zero */
		if (cnt & 3 && cnt >> 3)
			return -EBADMSG;
		cnt >>= 3;
	}
	if (cnt > 3 || (cnt && pymem__read(m, digit, cnt * 4, at + 8)) || digit[2] >> 4)
		return -EBADMSG;
	*out = (uint64_t)digit[2] << 60 | (uint64_t)digit[1] << 30 | digit[0];
	return 0;
}
