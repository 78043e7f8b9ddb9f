/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PYOBJECT_H
#define PYPERF_PYOBJECT_H
/*
 * Reads Python objects (types, str, int) in the memory of another process, which runs on meanwhile.
 * Every byte may be hostile: types are identified by name, each size is bounded, and so is the
 * number of reads. Dicts and attributes: pydict.h.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "bpf/pyperf.h"

#define PYTYPE_NAME_SIZE 40 /* of a type name that is compared, with its NUL */
#define PYTYPES_KEPT	 64

/* A cache of names and bases of types, valid as long as types do not move. */
struct pytypes {
	struct {
		uint64_t type, base; /* type 0: free */
		char name[PYTYPE_NAME_SIZE];
	} slots[PYTYPES_KEPT];
};

/* The memory of a process, or a test's. */
struct pymem {
	/* Reads all `size` bytes and returns 0, or negative errno. */
	int (*read)(void *ctx, void *dst, size_t size, uint64_t src);
	void *ctx;
	const struct py_layout *lay; /* for str; else NULL */
	uint64_t str_type;	     /* of names (2.7: PyString_Type); 0: not known */
	struct pytypes *types;	     /* cache, or NULL */
	uint32_t reads, reads_max;   /* so far; 0: without a bound */
	uint16_t version;	     /* 0x030b for 3.11 */
	/* distance by which ob_type and all fields behind it lie beyond 8 */
	uint16_t shift;
};

/* Fields of types, with ob_type at 8: Include/object.h, cpython/object.h. */
#define PYTYPE_NAME	  24
#define PYTYPE_BASICSIZE  32
#define PYTYPE_FLAGS	  168
#define PYTYPE_WEAKLIST	  208
#define PYTYPE_MEMBERS	  240
#define PYTYPE_BASE	  256
#define PYTYPE_DICT	  264
#define PYTYPE_DICTOFFSET 288

static inline uint64_t pyword(const void *bytes, size_t at)
{
	uint64_t word;

	__builtin_memcpy(&word, (const uint8_t *)bytes + at, sizeof(word));
	return word;
}

/* The offset of a field, from its offset with ob_type at 8. */
static inline uint64_t pyfield(const struct pymem *m, uint64_t at)
{
	return at + m->shift;
}

/* 0 or negative errno; -E2BIG: there were too many reads. */
int pymem__read(struct pymem *m, void *dst, size_t size, uint64_t src);
/* Reads a pointer to an object at `at`; 0: none. */
uint64_t pymem__pointer(struct pymem *m, uint64_t at);

/* The address of the type of an object; 0: it is not an object. */
uint64_t pyobject__type(struct pymem *m, uint64_t obj);
/* Does its type have this name? The name of a class in Python has no module. */
bool pyobject__is(struct pymem *m, uint64_t obj, const char *type_name);
bool pytype__is(struct pymem *m, uint64_t type, const char *name);
/* tp_base; 0: none. */
uint64_t pytype__base(struct pymem *m, uint64_t type);

/* Compares a str with an ASCII text. */
bool pystr__equals(struct pymem *m, uint64_t obj, const char *want);
/*
 * Replaces `out` by the first `max` characters of a str as UTF-8. 0, or -EBADMSG: not a str.
 * `*len`, unless NULL, is the number of all its characters.
 */
int pystr__read(struct pymem *m, uint64_t obj, size_t max, struct strbuf *out, uint64_t *len);
/* Reads an int from 0 to 2^64 - 1. 0 or -EBADMSG. */
int pyint__read(struct pymem *m, uint64_t obj, uint64_t *out);

#endif /* PYPERF_PYOBJECT_H */
