/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "python/threadnames.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/reader.h"
#include "base/readmem.h"
#include "base/str.h"
#include "python/pystate.h"

#define MAX_READS 20000 /* system calls for one process */

/* Reads threading._active of one process: the names that Python gave its threads. */
struct names_reader {
	struct pymem mem;
	uint32_t tgid;
};

static int read_target(void *ctx, void *dst, size_t size, uint64_t src)
{
	const struct names_reader *r = ctx;

	return read_process(r->tgid, dst, size, src);
}

/* A name; longer ones are left out. */
static int get_name(struct names_reader *r, uint64_t obj, struct strbuf *out)
{
	uint64_t len;

	if (pystr__read(&r->mem, obj, THREADNAMES_MAX_BYTES, out, &len) || !len ||
	    len > THREADNAMES_MAX_BYTES || out->len > THREADNAMES_MAX_BYTES)
		return -EBADMSG;
	return memchr(out->s, 0, out->len) ? -EBADMSG : 0;
}

/* ---- threads --------------------------------------------------------------------------------- */

/* The kernel's number of a thread: by the Thread, or by its ident. */
static int get_tid(struct names_reader *r, uint64_t native, uint64_t ident, uint64_t *tid)
{
	if (r->mem.version >= 0x0308)
		return native ? pyint__read(&r->mem, native, tid) : -ENOENT;
	*tid = pythread__tid_of_ident(&r->mem, ident);
	return *tid ? 0 : -ENOENT;
}

static int read_thread(struct names_reader *r, uint64_t ident_obj, uint64_t thread,
		       struct strbuf *name, uint64_t *tid)
{
	const char *attr_name = r->mem.version < 0x0300 ? "_Thread__name" : "_name";
	uint64_t native = 0, at, ident, again;
	struct pydict_items it = { 0 };
	struct pydict d;
	int err = pyattrs__open(&r->mem, thread, &d);

	if (!err)
		err = pydict__load(&r->mem, &d, &it);
	at = err ? 0 : pydict__find(&r->mem, &it, attr_name);
	if (!err && r->mem.version >= 0x0308)
		native = pydict__find(&r->mem, &it, "_native_id");
	pydict__unload(&it);
	if (!err)
		err = pyint__read(&r->mem, ident_obj, &ident);
	if (!err)
		err = get_tid(r, native, ident, tid);
	if (!err)
		err = get_name(r, at, name);
	/* Not another Thread's name by now: the object may have gone and come back as another. */
	if (!err &&
	    (pyattrs__get(&r->mem, thread, attr_name) != at || get_tid(r, native, ident, &again) ||
	     again != *tid || (native && pyattrs__get(&r->mem, thread, "_native_id") != native)))
		err = -ESTALE;
	return err;
}

/* The dict threading._active of the main interpreter. */
static uint64_t find_active(struct names_reader *r, const struct py_binary *bin, uint64_t bias)
{
	uint64_t interps[PYINTERPS_MAX];
	uint32_t cnt = pyinterps__list(&r->mem, bin, bias, interps);

	if (!cnt)
		return 0;
	return pydict__item(&r->mem,
			    pymodules__dict(&r->mem, bin, bias, interps[cnt - 1], "threading"),
			    "_active");
}

static int read_here(const struct py_binary *bin, uint32_t tgid, uint64_t bias, threadnames_fn fn,
		     void *ctx)
{
	struct names_reader r = {
		.mem = {
			.read = read_target,
			.ctx = &r,
			.lay = &bin->interp.layout,
			.str_type = bin->str_type + bias,
			.reads_max = MAX_READS,
			.version = (uint16_t)bin->interp.layout.version,
		},
		.tgid = tgid,
	};
	struct pydict_items it = { 0 };
	struct strbuf name = { 0 };
	struct pydict d;
	uint64_t tid;
	int err;

	if (bin->free_threaded || bin->trace_refs || !bin->str_type || r.mem.version > 0x030d)
		return -ENOTSUP;
	err = pydict__open(&r.mem, find_active(&r, bin, bias), &d);
	if (!err)
		err = pydict__load(&r.mem, &d, &it);
	for (uint32_t i = 0; !err && i < it.cnt; i++) {
		uint64_t key = pydict__key(&it, i), thread = pydict__value(&it, i);

		if (key && thread && !read_thread(&r, key, thread, &name, &tid) && tid &&
		    tid <= INT32_MAX)
			fn(ctx, (uint32_t)tid, name.s);
	}
	pydict__unload(&it);
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

READER_OPERATION(read_it);

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

int threadnames__read(struct readers *rs, const struct py_binary *bin, uint32_t tgid, uint64_t bias,
		      threadnames_fn fn, void *ctx)
{
	struct question q = { .bin = *bin, .bias = bias, .tgid = tgid };
	struct answer *a = calloc(1, sizeof(*a));
	int err;

	q.bin.why_not = NULL; /* an address of ours */
	if (!a)
		return -ENOMEM;
	err = reader__call(rs, tgid, &op_read_it, &q, sizeof(q), a, sizeof(*a));
	if (err >= 0)
		take_names(a, fn, ctx);
	free(a);
	return err;
}
