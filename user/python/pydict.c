/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "python/pydict.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Include/object.h: flags of types, from 3.11 and 3.13 on. */
#define FLAG_MANAGED_DICT  (1ULL << 4)
#define FLAG_INLINE_VALUES (1ULL << 2)
#define KEYS_SPLIT	   2	/* dk_kind: DICT_KEYS_SPLIT */
#define DICT_AT_MAX	   4096 /* of tp_dictoffset and tp_basicsize */

/* ---- where the entries are ------------------------------------------------------------------- */

/* struct _dictkeysobject, Include/internal/pycore_dict.h: from 3.11 on. */
static int read_head(const uint8_t *head, uint64_t *index, struct pydict *d)
{
	if (head[8] > 40 || head[9] > 43 || head[10] > KEYS_SPLIT)
		return -EBADMSG;
	*index = 32 + (1ULL << head[9]);
	d->cnt = pyword(head, 24);
	if (head[10]) { /* all keys are str: no hashes */
		d->entry_size = 16;
		d->key_at = 0;
		d->value_at = 8;
	}
	return d->cnt <= 1ULL << head[8] ? 0 : -EBADMSG;
}

/* Objects/dict-common.h: 3.6 to 3.10. */
static int read_old_head(const uint8_t *head, uint64_t *index, struct pydict *d)
{
	uint64_t size = pyword(head, 8);
	unsigned width = size <= 0xff ? 1 : size <= 0xffff ? 2 : size <= UINT32_MAX ? 4 : 8;

	*index = 40 + size * width;
	d->cnt = pyword(head, 32);
	return size && size < PYDICT_SIZE_MAX && !(size & (size - 1)) && d->cnt <= size ? 0
											: -EBADMSG;
}

int pydict__open_keys(struct pymem *m, uint64_t keys, uint64_t values, struct pydict *d)
{
	uint64_t index;
	uint8_t head[40];
	int err;

	*d = (struct pydict){ .entry_size = 24, .key_at = 8, .value_at = 16, .values = values };
	if (!keys || keys & 7 || values & 7 || pymem__read(m, head, sizeof(head), keys))
		return -EBADMSG;
	err = m->version >= 0x030b ? read_head(head, &index, d) : read_old_head(head, &index, d);
	if (err || d->cnt > PYDICT_SIZE_MAX)
		return -EBADMSG;
	d->entries = keys + index;
	return 0;
}

/* The first value of a dict or an object. */
static uint64_t first_value(const struct pymem *m, uint64_t values)
{
	/* Behind capacity, size, embedded, valid. */
	return values && m->version >= 0x030d ? values + 8 : values;
}

/* Include/cpython/dictobject.h: ma_keys and ma_values; 2.7: ma_mask and ma_table. */
int pydict__open(struct pymem *m, uint64_t dict, struct pydict *d)
{
	uint64_t words[2];

	*d = (struct pydict){ 0 };
	if (!dict || dict & 7 || pymem__read(m, words, sizeof(words), dict + pyfield(m, 32)))
		return -EBADMSG;
	if (m->version >= 0x0300)
		return pydict__open_keys(m, words[0], first_value(m, words[1]), d);
	if (words[0] >= PYDICT_SIZE_MAX)
		return -EBADMSG;
	*d = (struct pydict){ .entry_size = 24, .key_at = 8, .value_at = 16 };
	d->entries = words[1];
	d->cnt = words[0] + 1;
	return 0;
}

/* ---- attributes ------------------------------------------------------------------------------ */

/*
 * PyHeapTypeObject.ht_cached_keys: 0x368 in 3.11, 0x370 from 3.12 on, further back since 3.15. A
 * table of shared keys says what it is.
 */
static uint64_t shared_keys(struct pymem *m, uint64_t type)
{
	for (uint64_t at = 0x368; at <= 0x3a0; at += 8) {
		uint64_t keys = pymem__pointer(m, type + at);
		struct pydict d;
		uint8_t kind;

		if (keys && !pydict__open_keys(m, keys, 0, &d) &&
		    !pymem__read(m, &kind, 1, keys + 10) && kind == KEYS_SPLIT)
			return keys;
	}
	return 0;
}

/*
 * The words before the object lead to a dict or to an array of values by the type's shared keys, or
 * this array is behind the object (Include/internal/pycore_object.h: _PyObject_ValuesPointer() and
 * its successors).
 */
int pyattrs__managed(struct pymem *m, uint64_t obj, uint64_t type, uint64_t type_flags,
		     uint64_t basic_size, struct pyattrs *a)
{
	uint64_t before[2];

	*a = (struct pyattrs){ 0 };
	if (!(type_flags & FLAG_MANAGED_DICT) || m->version < 0x030b)
		return -ENOENT;
	if (pymem__read(m, before, sizeof(before), obj - 32))
		return -EBADMSG;
	a->dict = before[1];
	if (m->version == 0x030b)
		a->values = before[0];
	else if (m->version == 0x030c && before[1] & 1) /* _PyDictOrValues_GetValues() */
		a->values = before[1] + 1;
	else if (m->version >= 0x030d && type_flags & FLAG_INLINE_VALUES)
		a->values = obj + basic_size;
	if (a->dict & 7)
		a->dict = 0;
	a->values = first_value(m, a->values);
	if (a->values)
		a->keys = shared_keys(m, type);
	return 0;
}

/* Until 3.10, and of types whose dicts are not managed. */
static int open_at_offset(struct pymem *m, uint64_t obj, uint64_t type, struct pydict *d)
{
	uint64_t offset;

	if (pymem__read(m, &offset, sizeof(offset), type + pyfield(m, PYTYPE_DICTOFFSET)) ||
	    !offset || offset > DICT_AT_MAX)
		return -EBADMSG;
	return pydict__open(m, pymem__pointer(m, obj + offset), d);
}

int pyattrs__open(struct pymem *m, uint64_t obj, struct pydict *d)
{
	uint64_t type = pyobject__type(m, obj), flags, size;
	struct pyattrs a;
	int err;

	*d = (struct pydict){ 0 };
	if (!type || pymem__read(m, &flags, 8, type + pyfield(m, PYTYPE_FLAGS)) ||
	    pymem__read(m, &size, 8, type + pyfield(m, PYTYPE_BASICSIZE)) || size > DICT_AT_MAX)
		return -EBADMSG;
	err = pyattrs__managed(m, obj, type, flags, size, &a);
	if (err == -ENOENT)
		return open_at_offset(m, obj, type, d);
	if (err)
		return err;
	/*
	 * A dict that the program has requested holds them; its own table may still be the shared
	 * one.
	 */
	return a.dict ? pydict__open(m, a.dict, d) : pydict__open_keys(m, a.keys, a.values, d);
}

/* ---- a copy ---------------------------------------------------------------------------------- */

int pydict__load(struct pymem *m, const struct pydict *d, struct pydict_items *it)
{
	size_t size = d->cnt * d->entry_size;
	int err = 0;

	*it = (struct pydict_items){ .d = *d };
	if (d->cnt > PYDICT_LOAD_MAX)
		return -E2BIG;
	it->cnt = (uint32_t)d->cnt;
	it->entries = malloc(size + 1);
	it->values = d->values ? calloc(d->cnt + 1, sizeof(*it->values)) : NULL;
	if (!it->entries || (d->values && !it->values))
		return -ENOMEM;
	if (size)
		err = pymem__read(m, it->entries, size, d->entries);
	if (!err && size && d->values)
		err = pymem__read(m, it->values, d->cnt * sizeof(*it->values), d->values);
	return err;
}

void pydict__unload(struct pydict_items *it)
{
	free(it->entries);
	free(it->values);
	*it = (struct pydict_items){ 0 };
}

uint64_t pydict__key(const struct pydict_items *it, uint32_t i)
{
	return pyword(it->entries, (size_t)i * it->d.entry_size + it->d.key_at);
}

uint64_t pydict__value(const struct pydict_items *it, uint32_t i)
{
	if (it->values)
		return it->values[i];
	return pyword(it->entries, (size_t)i * it->d.entry_size + it->d.value_at);
}

uint64_t pydict__find(struct pymem *m, const struct pydict_items *it, const char *key)
{
	for (uint32_t i = 0; i < it->cnt; i++)
		if (pydict__value(it, i) && pystr__equals(m, pydict__key(it, i), key))
			return pydict__value(it, i);
	return 0;
}

static uint64_t find_in(struct pymem *m, const struct pydict *d, const char *key)
{
	struct pydict_items it;
	uint64_t value = pydict__load(m, d, &it) ? 0 : pydict__find(m, &it, key);

	pydict__unload(&it);
	return value;
}

uint64_t pydict__item(struct pymem *m, uint64_t dict, const char *key)
{
	struct pydict d;

	return pyobject__is(m, dict, "dict") && !pydict__open(m, dict, &d) ? find_in(m, &d, key)
									   : 0;
}

uint64_t pyattrs__get(struct pymem *m, uint64_t obj, const char *name)
{
	struct pydict d;

	return pyattrs__open(m, obj, &d) ? 0 : find_in(m, &d, name);
}

/* ---- sets ------------------------------------------------------------------------------------ */

int pyset__open(struct pymem *m, uint64_t set, struct pyset *s)
{
	uint64_t words[2]; /* mask, table */

	*s = (struct pyset){ 0 };
	if (!set || set & 7 || pymem__read(m, words, sizeof(words), set + pyfield(m, 32)) ||
	    words[0] >= PYDICT_SIZE_MAX / 2 || words[0] & (words[0] + 1) || words[1] & 7)
		return -EBADMSG;
	*s = (struct pyset){ .table = words[1], .cnt = words[0] + 1 };
	return 0;
}
