/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PYDICT_H
#define PYPERF_PYDICT_H
/*
 * Finds the entries of dicts, sets and attributes of objects, in all CPython versions, in the
 * memory of another process. Every byte may be hostile.
 *
 *	struct pydict d;				where the entries are
 *	pydict__open(m, dict, &d);
 *	struct pydict_items it;				a copy of them
 *	pydict__load(m, &d, &it);
 *	... pydict__find(m, &it, "name") ...
 *	pydict__unload(&it);
 */
#include <stdbool.h>
#include <stdint.h>

#include "python/pyobject.h"

/* Larger sizes are not believed. */
#define PYDICT_SIZE_MAX (1ULL << 32)
/* Entries that are loaded; sys.modules is a large one. */
#define PYDICT_LOAD_MAX 65536

/*
 * A table of keys. The values are in its entries. A split table, which the instances of a class
 * share, has them in an array, under the same numbers.
 */
struct pydict {
	uint64_t entries, cnt;
	uint64_t values; /* the array; 0: in the entries */
	uint32_t entry_size, key_at, value_at;
};

/* 0 or -EBADMSG. */
int pydict__open(struct pymem *m, uint64_t dict, struct pydict *d);
/* The same for the address of a table, and of an array of values or 0. */
int pydict__open_keys(struct pymem *m, uint64_t keys, uint64_t values, struct pydict *d);

/* The places of an object's attributes, one of the two or both; 0: not there. */
struct pyattrs {
	uint64_t dict;
	uint64_t keys, values; /* the type's shared keys, and its own values */
};
/*
 * Finds the attributes of an object whose type has managed dicts (`type_flags`, 3.11 and later).
 * -ENOENT: it has none, and tp_dictoffset tells the place of its dict.
 */
int pyattrs__managed(struct pymem *m, uint64_t obj, uint64_t type, uint64_t type_flags,
		     uint64_t basic_size, struct pyattrs *a);
/* Opens the table of an object's attributes. 0 or -EBADMSG. */
int pyattrs__open(struct pymem *m, uint64_t obj, struct pydict *d);

struct pydict_items {
	struct pydict d;
	uint8_t *entries;
	uint64_t *values;
	uint32_t cnt;
};
/* Copies the entries. 0 or negative errno; call pydict__unload() in any case. */
int pydict__load(struct pymem *m, const struct pydict *d, struct pydict_items *it);
void pydict__unload(struct pydict_items *it);
/* The key and the value of an entry; key 0: the entry is free. */
uint64_t pydict__key(const struct pydict_items *it, uint32_t i);
uint64_t pydict__value(const struct pydict_items *it, uint32_t i);
/* The value of a key; 0: it is not there. */
uint64_t pydict__find(struct pymem *m, const struct pydict_items *it, const char *key);
/* The value of one item of a dict, or of one attribute of an object; 0: it is not there. */
uint64_t pydict__item(struct pymem *m, uint64_t dict, const char *key);
uint64_t pyattrs__get(struct pymem *m, uint64_t obj, const char *name);

/* A set: `cnt` entries of two words, an object or 0, and its hash. Include/setobject.h */
struct pyset {
	uint64_t table, cnt;
};
int pyset__open(struct pymem *m, uint64_t set, struct pyset *s);

#endif /* PYPERF_PYDICT_H */
