/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/heap_several.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "profile/export_text.h"

#define PROCESSES_MAX (1U << 16)
#define TYPES_MAX     (1U << 20) /* of all: a process may have HEAP_TYPES_MAX, and fork */

/* A type in all processes. */
struct common_type {
	const char *name; /* borrowed from the heaps */
	uint64_t cnt, bytes;
	uint64_t most_bytes, most_pid; /* of the process that has most of it */
};

static int take_json(struct heap_part *part, const struct heap_view *v)
{
	size_t len;
	FILE *f = open_memstream(&part->json, &len);
	int err = f ? heap_show__json(f, v) : -ENOMEM;

	if (f && fclose(f) && !err)
		err = -ENOMEM;
	return err;
}

int heap_several__add(struct heap_several *s, const struct heap_view *v, bool json)
{
	struct heap_part *part;
	int err = s->type_cnt < TYPES_MAX ? 0 : -E2BIG;

	if (!err)
		err = ARRAY_GROW(s->parts, s->cap, s->cnt, PROCESSES_MAX);
	if (err)
		return err;
	part = &s->parts[s->cnt++];
	*part = (struct heap_part){ .title = strdup(v->title) };
	err = part->title ? heap_saved__take(&part->heap, v) : -ENOMEM;
	s->type_cnt += part->heap.cnt;
	for (size_t i = 0; i < part->heap.cnt; i++) {
		part->objects += part->heap.types[i].cnt;
		part->bytes += part->heap.types[i].bytes;
	}
	return err || !json ? err : take_json(part, v);
}

void heap_several__free(struct heap_several *s)
{
	for (size_t i = 0; i < s->cnt; i++) {
		heap_saved__free(&s->parts[i].heap);
		free(s->parts[i].title);
		free(s->parts[i].json);
	}
	free(s->parts);
	*s = (struct heap_several){ 0 };
}

/* ---- types ----------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
	const struct common_type *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int by_bytes(const void *a, const void *b)
{
	const struct common_type *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* Adds up neighbours of one name. Returns how many are left. */
static size_t add_up(struct common_type *list, size_t cnt)
{
	size_t used = 0;

	for (size_t i = 0; i < cnt; i++) {
		struct common_type *last = used ? &list[used - 1] : NULL;

		if (!last || strcmp(last->name, list[i].name)) {
			list[used++] = list[i];
			continue;
		}
		last->cnt += list[i].cnt;
		last->bytes += list[i].bytes;
		if (list[i].most_bytes > last->most_bytes) {
			last->most_bytes = list[i].most_bytes;
			last->most_pid = list[i].most_pid;
		}
	}
	return used;
}

/* The types of all processes, by bytes, for the caller to free. NULL: no memory. */
static struct common_type *common_types(const struct heap_several *s, size_t *cnt)
{
	struct common_type *list;
	size_t all = 0, at = 0;

	for (size_t i = 0; i < s->cnt; i++)
		all += s->parts[i].heap.cnt;
	list = calloc(all + 1, sizeof(*list));
	for (size_t i = 0; list && i < s->cnt; i++) {
		const struct heap_saved *h = &s->parts[i].heap;

		for (size_t k = 0; k < h->cnt; k++)
			list[at++] = (struct common_type){ h->types[k].name, h->types[k].cnt,
							   h->types[k].bytes, h->types[k].bytes,
							   h->pid };
	}
	if (!list)
		return NULL;
	qsort(list, all, sizeof(*list), by_name);
	*cnt = add_up(list, all);
	qsort(list, *cnt, sizeof(*list), by_bytes);
	return list;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void add_bytes(struct text_table *t, struct strbuf *b, uint64_t bytes)
{
	text_add_bytes(b, (double)bytes);
	text_table__add(t, NULL, b);
}

static void add_count(struct text_table *t, struct strbuf *b, uint64_t cnt)
{
	text_add_count(b, cnt);
	text_table__add(t, NULL, b);
}

static int put_processes(struct text_out *o, struct strbuf *b, const struct heap_several *s)
{
	static const struct text_column cols[] = {
		{ "pid", CUT_NEVER, true },	{ "RSS", CUT_NEVER, true },
		{ "objects", CUT_NEVER, true }, { "bytes", CUT_NEVER, true },
		{ "process", CUT_END, false },
	};
	struct text_table t = { .cols = cols, .col_cnt = 5 };

	for (size_t i = 0; i < s->cnt; i++) {
		const struct heap_part *part = &s->parts[i];

		text_table__addf(&t, NULL, "%" PRIu64, part->heap.pid);
		add_bytes(&t, b, part->heap.rss);
		add_count(&t, b, part->objects);
		add_bytes(&t, b, part->bytes);
		text_table__addf(&t, NULL, "%s%s", part->title,
				 part->heap.complete ? "" : " (not all could be read)");
	}
	return text_table__print(&t, o);
}

static int put_types(struct text_out *o, struct strbuf *b, const struct heap_several *s, bool all)
{
	static const struct text_column cols[] = {
		{ "objects", CUT_NEVER, true },	    { "bytes", CUT_NEVER, true },
		{ "most in pid", CUT_NEVER, true }, { "bytes there", CUT_NEVER, true },
		{ "type", CUT_END, false },
	};
	struct text_table t = { .cols = cols, .col_cnt = 5 };
	size_t cnt = 0, shown;
	struct common_type *list = common_types(s, &cnt);
	int err;

	if (!list)
		return -ENOMEM;
	shown = all || cnt < HEAP_TYPES_SHOWN ? cnt : HEAP_TYPES_SHOWN;
	for (size_t i = 0; i < shown; i++) {
		add_count(&t, b, list[i].cnt);
		add_bytes(&t, b, list[i].bytes);
		text_table__addf(&t, NULL, "%" PRIu64, list[i].most_pid);
		add_bytes(&t, b, list[i].most_bytes);
		text_table__addf(&t, NULL, "%s", list[i].name);
	}
	err = text_table__print(&t, o);
	if (shown < cnt) {
		text_add_count(b, cnt - shown);
		strbuf__addz(b, cnt - shown == 1 ? " more type (--all)" : " more types (--all)");
		text_out__fill(o, 0, 0, b->err ? "" : b->s);
	}
	free(list);
	return err;
}

int heap_several__text(FILE *f, const struct heap_several *s, unsigned width, bool color, bool all)
{
	struct text_out o = { 0 };
	struct strbuf b = { 0 };
	int err, end;

	text_out__begin(&o, f, width, color);
	err = put_processes(&o, &b, s);
	text_out__newline(&o);
	if (!err)
		err = put_types(&o, &b, s, all);
	if (!err)
		err = b.err;
	strbuf__free(&b);
	end = text_out__end(&o);
	return err ? err : end;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Each process is the object that it would be alone. */
int heap_several__json(FILE *f, const struct heap_several *s)
{
	fputs("{\"version\":1,\"processes\":[", f);
	for (size_t i = 0; i < s->cnt; i++)
		fprintf(f, "%s\n%s", i ? "," : "", s->parts[i].json);
	fputs("]}\n", f);
	return ferror(f) ? -EIO : 0;
}
