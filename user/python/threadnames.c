/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "python/threadnames.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/reader.h"
#include "base/readmem.h"
#include "base/str.h"
#include "python/pylines.h"

#define MAX_READS	20000 /* system calls for one process */
#define MAX_INTERPS	64
#define MAX_ENTRIES	65536 /* of a dict; sys.modules is the largest */
#define MAX_ATTR	16    /* characters of a key that is searched for */

/*
 * Where 2.7 to 3.13 keep what is the same in all (x86-64 and aarch64): Include/object.h,
 * moduleobject.c.
 */
#define OB_TYPE		8
#define TP_NAME		24
#define TP_BASICSIZE	32
#define TP_FLAGS	168
#define TP_DICTOFFSET	288
#define MD_DICT		16
#define INLINE_VALUES	(1U << 2) /* Py_TPFLAGS_INLINE_VALUES, 3.13 */
#define MANAGED_DICT	(1U << 4) /* Py_TPFLAGS_MANAGED_DICT, 3.11 */
#define IMPORTS_MODULES 88  /* in 3.13's _Py_DebugOffsets: interpreter_state.imports_modules */
#define PTHREAD_TID	720 /* glibc x86-64: struct pthread.tid, nptl/descr.h */

struct reader {
	const struct py_layout *lay;
	uint64_t str_type;
	uint32_t tgid, version;
	uint32_t reads;
};

/* The entries of a dict, or of a split one's shared keys. */
struct dict {
	uint8_t *entries;
	uint64_t *values; /* of a split dict, else NULL */
	uint32_t cnt;
	uint8_t entry_size, key_at, value_at;
};

static int get(struct reader *r, uint64_t addr, void *buf, size_t size)
{
	if (r->reads++ >= MAX_READS)
		return -E2BIG;
	return read_process(r->tgid, buf, size, addr);
}

static uint64_t word(const void *p, size_t at)
{
	uint64_t value;

	memcpy(&value, (const uint8_t *)p + at, sizeof(value));
	return value;
}

/* ---- objects --------------------------------------------------------------------------------- */

static bool is_a(struct reader *r, uint64_t obj, const char *type_name)
{
	uint64_t type, at;
	char name[MAX_ATTR] = "";

	return obj && !(obj & 7) && !get(r, obj + OB_TYPE, &type, 8) &&
	       !get(r, type + TP_NAME, &at, 8) && !get(r, at, name, strlen(type_name) + 1) &&
	       !strcmp(name, type_name);
}

/* Compares a key, which is ASCII if it is one that is searched for. */
static bool key_is(struct reader *r, uint64_t key, const char *want)
{
	const struct py_layout *lay = r->lay;
	bool bytes = lay->str == PY_STR_BYTES;
	uint16_t size_at = bytes ? lay->bytes_size : lay->str_length;
	uint16_t data_at = bytes ? lay->bytes_data : lay->str_ascii;
	size_t len = strlen(want);
	uint8_t buf[128];

	if (!key || key & 7 || data_at + len + 1 > sizeof(buf) ||
	    get(r, key, buf, data_at + len + 1))
		return false;
	return word(buf, OB_TYPE) == r->str_type && word(buf, size_at) == len &&
	       !memcmp(buf + data_at, want, len + 1);
}

/* A str as UTF-8; `out` is replaced. */
static int get_name(struct reader *r, uint64_t obj, struct strbuf *out)
{
	const struct py_layout *lay = r->lay;
	bool bytes = lay->str == PY_STR_BYTES;
	uint64_t size, data;
	uint32_t state, width = 1;
	char buf[THREADNAMES_MAX_BYTES];
	uint8_t head[64];

	strbuf__clear(out);
	if (!obj || obj & 7 || get(r, obj, head, sizeof(head)) ||
	    word(head, OB_TYPE) != r->str_type)
		return -EBADMSG;
	size = word(head, bytes ? lay->bytes_size : lay->str_length);
	data = obj + lay->bytes_data;
	if (!bytes) {
		memcpy(&state, head + lay->str_state, sizeof(state));
		width = (state >> 2) & 7;
		if ((width != 1 && width != 2 && width != 4) || !(state & 1 << 5))
			return -EBADMSG;
		data = obj + (state & 1 << 6 ? lay->str_ascii : lay->str_compact);
	}
	if (!size || size > sizeof(buf) / width || get(r, data, buf, size * width))
		return -EBADMSG;
	if (bytes)
		strbuf__add(out, buf, size);
	else
		py_utf8(out, buf, size * width, width);
	return out->err || memchr(out->s, 0, out->len) ? -EBADMSG : 0;
}

/* A positive int below 2^64. Digits of 30 bits (Include/cpython/longintrepr.h); 2.7: a C long. */
static int get_int(struct reader *r, uint64_t obj, uint64_t *out)
{
	uint32_t digit[4] = { 0 };
	uint64_t cnt;
	uint8_t buf[40];

	if (!is_a(r, obj, "int") || get(r, obj, buf, 24))
		return -EBADMSG;
	cnt = word(buf, 16);
	if (r->version < 0x0300) {
		*out = cnt;
		return 0;
	}
	if (r->version >= 0x030c) { /* lv_tag: digits << 3, sign; 0 is positive */
		if (cnt & 3)
			return -EBADMSG;
		cnt >>= 3;
	}
	if (!cnt || cnt > 3 || get(r, obj + 24, digit, cnt * 4) || digit[2] >> 4)
		return -EBADMSG;
	*out = (uint64_t)digit[2] << 60 | (uint64_t)digit[1] << 30 | digit[0];
	return 0;
}

/* ---- dicts ----------------------------------------------------------------------------------- */

static void dict_close(struct dict *d)
{
	free(d->entries);
	free(d->values);
	*d = (struct dict){ 0 };
}

static int read_entries(struct reader *r, uint64_t at, struct dict *d)
{
	size_t size = (size_t)d->cnt * d->entry_size;

	if (!size)
		return 0;
	d->entries = malloc(size);
	return d->entries ? get(r, at, d->entries, size) : -ENOMEM;
}

/*
 * struct _dictkeysobject: Objects/dict-common.h up to 3.10, Include/internal/pycore_dict.h from
 * 3.11 on.
 */
static int keys_open(struct reader *r, uint64_t keys, struct dict *d)
{
	uint64_t size, cnt, index;
	uint8_t head[40];

	if (!keys || keys & 7 || get(r, keys, head, sizeof(head)))
		return -EBADMSG;
	*d = (struct dict){ .entry_size = 24, .key_at = 8, .value_at = 16 };
	if (r->version >= 0x030b) {
		if (head[8] > 24 || head[9] > 26 || head[10] > 2)
			return -EBADMSG;
		size = 1ULL << head[8];
		index = 32 + (1ULL << head[9]);
		cnt = word(head, 24);
		if (head[10]) /* all keys are str: no hashes */
			*d = (struct dict){ .entry_size = 16, .value_at = 8 };
	} else {
		size = word(head, 8);
		cnt = word(head, 32);
		index = 40 + size * (size <= 0xff ? 1 : size <= 0xffff ? 2 : 4);
	}
	if (size & (size - 1) || cnt > size || cnt > MAX_ENTRIES)
		return -EBADMSG;
	d->cnt = (uint32_t)cnt;
	return read_entries(r, keys + index, d);
}

/* The values of a split dict, in the order of its keys. */
static int split_open(struct reader *r, uint64_t keys, uint64_t values, struct dict *d)
{
	int err = keys_open(r, keys, d);

	if (err)
		return err;
	d->values = calloc(d->cnt + 1, sizeof(*d->values));
	if (!d->values)
		return -ENOMEM;
	return d->cnt ? get(r, values, d->values, d->cnt * sizeof(*d->values)) : 0;
}

static uint64_t first_value(const struct reader *r, uint64_t values)
{
	return r->version >= 0x030d ? values + 8
				    : values; /* behind capacity, size, embedded, valid */
}

static int dict_open(struct reader *r, uint64_t dict, struct dict *d)
{
	uint8_t head[48];

	*d = (struct dict){ 0 };
	if (!is_a(r, dict, "dict") || get(r, dict, head, sizeof(head)))
		return -EBADMSG;
	if (r->version < 0x0300) { /* ma_mask, ma_table */
		if (word(head, 32) >= MAX_ENTRIES)
			return -EBADMSG;
		*d = (struct dict){ .entry_size = 24, .key_at = 8, .value_at = 16 };
		d->cnt = (uint32_t)word(head, 32) + 1;
		return read_entries(r, word(head, 40), d);
	}
	if (word(head, 40)) /* ma_keys, ma_values */
		return split_open(r, word(head, 32), first_value(r, word(head, 40)), d);
	return keys_open(r, word(head, 32), d);
}

static uint64_t dict_key(const struct dict *d, uint32_t i)
{
	return word(d->entries, (size_t)i * d->entry_size + d->key_at);
}

static uint64_t dict_value(const struct dict *d, uint32_t i)
{
	return d->values ? d->values[i] : word(d->entries, (size_t)i * d->entry_size + d->value_at);
}

/* The value of a key; 0: it is not there. */
static uint64_t dict_find(struct reader *r, const struct dict *d, const char *key)
{
	for (uint32_t i = 0; i < d->cnt; i++)
		if (dict_value(d, i) && key_is(r, dict_key(d, i), key))
			return dict_value(d, i);
	return 0;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static uint16_t cached_keys(const struct reader *r)
{
	return r->version >= 0x030c ? 0x370 : 0x368; /* PyHeapTypeObject.ht_cached_keys */
}

/*
 * Where an object's attributes are: up to 3.10 in a dict at tp_dictoffset. From 3.11 on the words
 * before the object lead to a dict or, while none was asked for, to an array of values by the
 * type's shared keys (Include/internal/pycore_object.h: _PyObject_ValuesPointer() and its
 * successors).
 */
static int attrs_open(struct reader *r, uint64_t obj, struct dict *d)
{
	uint64_t type, offset, flags, keys, before[2];
	uint64_t values = 0, dict;

	*d = (struct dict){ 0 };
	if (!obj || obj & 7 || get(r, obj + OB_TYPE, &type, 8) ||
	    get(r, type + TP_FLAGS, &flags, 8))
		return -EBADMSG;
	if (r->version < 0x030b) {
		if (get(r, type + TP_DICTOFFSET, &offset, 8) || !offset || offset > 4096 ||
		    get(r, obj + offset, &dict, 8))
			return -EBADMSG;
		return dict_open(r, dict, d);
	}
	if (!(flags & MANAGED_DICT) || get(r, obj - 32, before, 16) ||
	    get(r, type + cached_keys(r), &keys, 8))
		return -EBADMSG;
	dict = before[1];
	if (r->version == 0x030b) {
		values = before[0];
	} else if (r->version == 0x030c) {
		values = dict & 1 ? dict + 1 : 0; /* _PyDictOrValues_GetValues() */
	} else if (!dict && flags & INLINE_VALUES) {
		if (get(r, type + TP_BASICSIZE, &offset, 8) || offset > 4096)
			return -EBADMSG;
		values = obj + offset;
	}
	return values ? split_open(r, keys, first_value(r, values), d) : dict_open(r, dict, d);
}

/* One attribute; 0: it is not there. */
static uint64_t attr(struct reader *r, uint64_t obj, const char *name)
{
	struct dict d;
	uint64_t value = attrs_open(r, obj, &d) ? 0 : dict_find(r, &d, name);

	dict_close(&d);
	return value;
}

/* ---- threads --------------------------------------------------------------------------------- */

/*
 * The kernel's number of a thread: by the Thread, or by glibc's descriptor, which starts with
 * itself.
 */
static int get_tid(struct reader *r, uint64_t native, uint64_t ident, uint64_t *tid)
{
	if (r->version >= 0x0308)
		return native ? get_int(r, native, tid) : -ENOENT;
#ifdef __x86_64__
	uint64_t self;
	uint32_t number;

	if (get(r, ident, &self, 8) || self != ident ||
	    get(r, ident + PTHREAD_TID, &number, sizeof(number)))
		return -ENOENT;
	*tid = number;
	return 0;
#else
	(void)ident;
	return -ENOENT;
#endif
}

static int read_thread(struct reader *r, uint64_t ident_obj, uint64_t thread, struct strbuf *name,
		       uint64_t *tid)
{
	const char *attr_name = r->version < 0x0300 ? "_Thread__name" : "_name";
	uint64_t native = 0, at, ident, again;
	struct dict d;
	int err = attrs_open(r, thread, &d);

	at = err ? 0 : dict_find(r, &d, attr_name);
	if (!err && r->version >= 0x0308)
		native = dict_find(r, &d, "_native_id");
	dict_close(&d);
	if (!err)
		err = get_int(r, ident_obj, &ident);
	if (!err)
		err = get_tid(r, native, ident, tid);
	if (!err)
		err = get_name(r, at, name);
	/* Not another Thread's name by now: the object may have gone and come back as another. */
	if (!err && (attr(r, thread, attr_name) != at || get_tid(r, native, ident, &again) ||
		     again != *tid || (native && attr(r, thread, "_native_id") != native)))
		err = -ESTALE;
	return err;
}

/* Interpreters come newest first: the last one is the main one. */
static uint64_t main_interpreter(struct reader *r, uint64_t head_at)
{
	uint64_t interp = 0, next;

	if (get(r, head_at, &next, 8))
		return 0;
	for (int i = 0; next && i < MAX_INTERPS; i++) {
		interp = next;
		if (get(r, interp + r->lay->interp_next, &next, 8))
			return 0;
	}
	return interp;
}

/* PyInterpreterState.modules, from 3.12 on .imports.modules; 0: not known. */
static uint64_t modules_offset(struct reader *r, const struct py_binary *bin, uint64_t bias)
{
	static const uint16_t offset[] = { 16, 40, 56, 856, 856, 888, 944 }; /* 3.6 ... 3.12 */
	uint64_t at;

	if (r->version == 0x0207)
		return 16;
	if (r->version >= 0x0306 && r->version <= 0x030c)
		return offset[r->version - 0x0306];
	if (r->version != 0x030d || get(r, bias + bin->runtime + IMPORTS_MODULES, &at, 8))
		return 0;
	return at < 1U << 20 ? at : 0;
}

/* The dict threading._active. */
static uint64_t find_active(struct reader *r, const struct py_binary *bin, uint64_t bias)
{
	uint64_t interp = main_interpreter(r, bias + bin->interp.interp_head);
	uint64_t offset = modules_offset(r, bin, bias), at, module = 0, active = 0;
	struct dict d;

	if (!interp || !offset || get(r, interp + offset, &at, 8))
		return 0;
	if (!dict_open(r, at, &d))
		module = dict_find(r, &d, "threading");
	dict_close(&d);
	if (!is_a(r, module, "module") || get(r, module + MD_DICT, &at, 8))
		return 0;
	if (!dict_open(r, at, &d))
		active = dict_find(r, &d, "_active");
	dict_close(&d);
	return active;
}

static int read_here(const struct py_binary *bin, uint32_t tgid, uint64_t bias, threadnames_fn fn,
		     void *ctx)
{
	struct reader r = {
		.lay = &bin->interp.layout,
		.str_type = bin->str_type + bias,
		.tgid = tgid,
		.version = bin->interp.layout.version,
	};
	struct strbuf name = { 0 };
	struct dict d = { 0 };
	uint64_t tid;
	int err;

	if (bin->free_threaded || bin->trace_refs || !bin->str_type || r.version > 0x030d)
		return -ENOTSUP;
	err = dict_open(&r, find_active(&r, bin, bias), &d);
	for (uint32_t i = 0; !err && i < d.cnt; i++) {
		uint64_t key = dict_key(&d, i), thread = dict_value(&d, i);

		if (key && thread && !read_thread(&r, key, thread, &name, &tid) && tid &&
		    tid <= INT32_MAX)
			fn(ctx, (uint32_t)tid, name.s);
	}
	dict_close(&d);
	strbuf__free(&name);
	return err;
}

/* ---- by the reader --------------------------------------------------------------------------- */

struct question {
	struct py_binary bin;
	uint64_t bias;
	uint32_t tgid;
};

/* Names as they were found: number, length, text. What has no room is left out. */
struct answer {
	uint32_t size;
	uint8_t text[60U << 10];
};

struct found_name {
	uint32_t tid, len;
};

static void put_name(void *ctx, uint32_t tid, const char *name)
{
	struct found_name head = { tid, (uint32_t)strlen(name) };
	struct answer *a = ctx;

	if (sizeof(head) + head.len > sizeof(a->text) - a->size)
		return;
	memcpy(a->text + a->size, &head, sizeof(head));
	memcpy(a->text + a->size + sizeof(head), name, head.len);
	a->size += (uint32_t)sizeof(head) + head.len;
}

static int read_it(const void *question, void *answer)
{
	const struct question *q = question;
	struct answer *a = answer;

	a->size = 0;
	return read_here(&q->bin, q->tgid, q->bias, put_name, a);
}

static void take_names(const struct answer *a, threadnames_fn fn, void *ctx)
{
	uint32_t size = a->size < sizeof(a->text) ? a->size : sizeof(a->text);
	char name[THREADNAMES_MAX_BYTES + 1];
	struct found_name head;

	for (uint32_t at = 0; size - at >= sizeof(head); at += head.len) {
		memcpy(&head, a->text + at, sizeof(head));
		at += sizeof(head);
		if (head.len > size - at || head.len > THREADNAMES_MAX_BYTES)
			return;
		memcpy(name, a->text + at, head.len);
		name[head.len] = '\0';
		fn(ctx, head.tid, name);
	}
}

int threadnames__read(const struct py_binary *bin, uint32_t tgid, uint64_t bias, threadnames_fn fn,
		      void *ctx)
{
	const struct question q = { .bin = *bin, .bias = bias, .tgid = tgid };
	struct answer *a = calloc(1, sizeof(*a));
	int err;

	if (!a)
		return -ENOMEM;
	err = reader__call(tgid, read_it, &q, sizeof(q), a, sizeof(*a));
	if (err >= 0)
		take_names(a, fn, ctx);
	free(a);
	return err;
}
