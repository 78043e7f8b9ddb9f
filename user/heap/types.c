/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "heap/types.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "python/pyobject.h"

/*
 * PyTypeObject, behind ob_type: Include/object.h, Include/cpython/object.h; the same from 2.7 to
 * 3.15.
 */
#define TP_NAME		16
#define TP_BASICSIZE	24
#define TP_ITEMSIZE	32
#define TP_FLAGS	160
#define TP_READ		168

#define FLAG_HEAP	(1ULL << 9) /* made while the program runs: a class */
#define FLAG_READY	(1ULL << 12)
#define FLAG_GC		(1ULL << 14)
#define FLAG_TYPE	(1ULL << 31) /* Py_TPFLAGS_TYPE_SUBCLASS */
#define FLAG_WEAKREF	(1ULL << 3)  /* Py_TPFLAGS_MANAGED_WEAKREF, 3.12+ */
#define FLAG_DICT	(1ULL << 4)  /* Py_TPFLAGS_MANAGED_DICT, 3.11+ */
#define PRE_HEADER	16	     /* the two pointers of either */

#define BASICSIZE_MAX	(1ULL << 24)
#define METACLASS_DEPTH 4 /* a metaclass of a metaclass of ... */
#define BASES_MAX	16
#define PAGE		4096

int heap_types__init(struct heap_types *t, const struct heap_mem *mem,
		     const struct heap_shape *shape)
{
	*t = (struct heap_types){ .mem = mem, .shape = *shape };
	t->rejected = calloc(TYPES_REJECTED, sizeof(*t->rejected));
	return t->rejected ? 0 : -ENOMEM;
}

void heap_types__free(struct heap_types *t)
{
	for (size_t i = 0; i < t->cnt; i++) {
		free(t->list[i]->name);
		free(t->list[i]);
	}
	free(t->list);
	free(t->rejected);
	idmap__free(&t->by_addr);
}

void heap_types__reset(struct heap_types *t)
{
	for (size_t i = 0; i < t->cnt; i++) {
		struct heap_type *one = t->list[i];

		one->cnt = one->bytes = one->outside_cnt = 0;
		one->largest = one->largest_addr = 0;
		one->spare_cnt = one->spare_bytes = 0;
	}
	if (t->any_rejected) /* else half a MiB is touched for nothing */
		memset(t->rejected, 0, TYPES_REJECTED * sizeof(*t->rejected));
	t->any_rejected = false;
}

/* A string of unknown length, page by page: it may end where readable memory does. */
static char *read_name(const struct heap_types *t, uint64_t addr)
{
	char raw[HEAP_NAME_MAX];
	struct strbuf safe = { 0 };
	size_t len = 0;

	while (len < sizeof(raw)) {
		size_t part = PAGE - (addr + len) % PAGE, end;

		if (part > sizeof(raw) - len)
			part = sizeof(raw) - len;
		if (t->mem->read(t->mem->ctx, raw + len, part, addr + len))
			break;
		end = strnlen(raw + len, part);
		len += end;
		if (end < part)
			break;
	}
	if (!len)
		return NULL;
	str_sanitise(&safe, raw, len, HEAP_NAME_MAX - 1);
	if (safe.err)
		strbuf__free(&safe);
	return safe.s;
}

static uint32_t prefix_of(const struct heap_types *t, uint64_t flags)
{
	uint64_t managed = t->shape.version >= 0x030c	? FLAG_DICT | FLAG_WEAKREF
			   : t->shape.version == 0x030b ? FLAG_DICT
							: 0;

	return (flags & FLAG_GC ? t->shape.gc_size : 0) + (flags & managed ? PRE_HEADER : 0);
}

/* The bytes of a type object that its fields are in; false: it cannot be one. */
static bool read_type(const struct heap_types *t, uint64_t addr, uint8_t *bytes)
{
	uint64_t flags;

	if (addr % 8 || t->mem->read(t->mem->ctx, bytes, TP_READ, addr + t->shape.ob_type))
		return false;
	flags = heap_word(bytes + TP_FLAGS);
	return flags & FLAG_READY && heap_word(bytes + TP_BASICSIZE) >= t->shape.ob_type + 8U &&
	       heap_word(bytes + TP_BASICSIZE) < BASICSIZE_MAX &&
	       heap_word(bytes + TP_ITEMSIZE) < BASICSIZE_MAX && heap_word(bytes + TP_NAME);
}

/* Leads from a metaclass to `type`? */
static bool is_metaclass(const struct heap_types *t, uint64_t addr)
{
	uint8_t bytes[TP_READ];

	for (unsigned i = 0; i < METACLASS_DEPTH; i++) {
		if (addr == t->shape.type_type)
			return true;
		if (!read_type(t, addr, bytes) || !(heap_word(bytes + TP_FLAGS) & FLAG_TYPE))
			return false;
		addr = heap_word(bytes);
	}
	return false;
}

/* A pointer among the fields of a type, by its offset with ob_type at 8; 0: it cannot be read. */
static uint64_t type_word(const struct heap_types *t, uint64_t addr, uint16_t at)
{
	uint64_t word;

	return t->mem->read(t->mem->ctx, &word, 8, addr + at + t->shape.ob_type - 8) ? 0 : word;
}

/* Weak references and proxies, and classes that derive from them: their first static base. */
static bool is_weak(const struct heap_types *t, uint64_t addr, uint64_t flags)
{
	/* Objects/weakrefobject.c@3.11 - 3.15; until 3.10 */
	static const char *const names[] = {
		"weakref.ReferenceType",
		"weakref.ProxyType",
		"weakref.CallableProxyType",
		"weakref",
		"weakproxy",
		"weakcallableproxy",
	};
	bool found = false;
	char *name;

	for (unsigned i = 0; i < BASES_MAX && addr && flags & FLAG_HEAP; i++) {
		addr = type_word(t, addr, PYTYPE_BASE);
		flags = type_word(t, addr, PYTYPE_FLAGS);
	}
	name = read_name(t, type_word(t, addr, PYTYPE_NAME));
	for (size_t i = 0; name && i < sizeof(names) / sizeof(names[0]); i++)
		found |= !strcmp(name, names[i]);
	free(name);
	return found;
}

static struct heap_type *add(struct heap_types *t, uint64_t addr, const uint8_t *bytes)
{
	struct heap_type *one;

	if (ARRAY_GROW(t->list, t->cap, t->cnt, HEAP_TYPES_MAX)) {
		t->full = true;
		return NULL;
	}
	one = calloc(1, sizeof(*one));
	if (!one || idmap__set(&t->by_addr, addr, one)) {
		free(one);
		t->full = true;
		return NULL;
	}
	one->addr = addr;
	one->flags = heap_word(bytes + TP_FLAGS);
	one->basic_size =
		addr == t->shape.str_type ? t->shape.str_min : heap_word(bytes + TP_BASICSIZE);
	one->item_size = heap_word(bytes + TP_ITEMSIZE);
	one->gc = one->flags & FLAG_GC;
	one->is_meta = one->flags & FLAG_TYPE;
	one->prefix = prefix_of(t, one->flags);
	one->weaklist = type_word(t, addr, PYTYPE_WEAKLIST);
	one->is_weak = is_weak(t, addr, one->flags);
	one->name = read_name(t, heap_word(bytes + TP_NAME));
	one->unnamed = !one->name;
	t->list[t->cnt++] = one;
	return one;
}

struct heap_type *heap_types__get(struct heap_types *t, uint64_t addr)
{
	struct heap_type *one = idmap__get(&t->by_addr, addr);
	uint64_t *rejected = &t->rejected[(addr >> 4 ^ addr >> 20) % TYPES_REJECTED];
	uint8_t bytes[TP_READ];

	if (one || *rejected == addr)
		return one;
	if (read_type(t, addr, bytes) && is_metaclass(t, heap_word(bytes)))
		one = add(t, addr, bytes);
	if (!one) {
		*rejected = addr;
		t->any_rejected = true;
	}
	return one;
}
