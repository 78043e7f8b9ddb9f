/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "heap/saved.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/jsonread.h"
#include "base/log.h"
#include "base/str.h"
#include "profile/export_text.h"

#define UNNAMED	   "(a type whose name cannot be read)"
#define NUMBER_MAX (1ULL << 62) /* sums of types, and differences, fit */
#define TYPES_MAX  HEAP_TYPES_MAX

/* ---- a heap ---------------------------------------------------------------------------------- */

void heap_saved__free(struct heap_saved *s)
{
	for (size_t i = 0; i < s->cnt; i++)
		free(s->types[i].name);
	free(s->types);
	*s = (struct heap_saved){ 0 };
}

static uint64_t bounded(uint64_t n)
{
	return n < NUMBER_MAX / TYPES_MAX ? n : NUMBER_MAX / TYPES_MAX;
}

/* `name`: NULL: it could not be read. 0, -ENOMEM or -E2BIG. */
static int add_type(struct heap_saved *s, const char *name, uint64_t cnt, uint64_t bytes)
{
	struct strbuf safe = { 0 };
	int err;

	str_sanitise(&safe, name ? name : UNNAMED, strlen(name ? name : UNNAMED), HEAP_NAME_MAX);
	err = safe.err ? safe.err : ARRAY_GROW(s->types, s->cap, s->cnt, TYPES_MAX);
	if (err) {
		strbuf__free(&safe);
		return err;
	}
	s->types[s->cnt++] =
		(struct saved_type){ safe.s ? safe.s : strdup(""), bounded(cnt), bounded(bytes) };
	return s->types[s->cnt - 1].name ? 0 : -ENOMEM;
}

static int by_name(const void *a, const void *b)
{
	const struct saved_type *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* Each name once. */
static void merge(struct heap_saved *s)
{
	size_t kept = 0;

	if (s->cnt)
		qsort(s->types, s->cnt, sizeof(*s->types), by_name);
	for (size_t i = 0; i < s->cnt; i++) {
		struct saved_type *last = kept ? &s->types[kept - 1] : NULL;

		if (last && !strcmp(last->name, s->types[i].name)) {
			last->cnt += s->types[i].cnt;
			last->bytes += s->types[i].bytes;
			free(s->types[i].name);
		} else {
			s->types[kept++] = s->types[i];
		}
	}
	s->cnt = kept;
}

int heap_saved__take(struct heap_saved *s, const struct heap_view *v)
{
	const struct heap_types *types = &v->scan->types;
	int err = 0;

	*s = (struct heap_saved){ .pid = v->tgid,
				  .rss = v->usage->rss,
				  .complete = heap_view__is_complete(v) };
	for (size_t i = 0; i < types->cnt && !err; i++) {
		const struct heap_type *t = types->list[i];

		if (t->cnt)
			err = add_type(s, t->unnamed ? NULL : t->name, t->cnt, t->bytes);
	}
	if (!err)
		merge(s);
	return err;
}

/* ---- a file ---------------------------------------------------------------------------------- */

/* A number of objects or bytes; what is none of these is 0, or as much as counts. */
static uint64_t whole(struct jsonread *j)
{
	double n = jsonread__number(j);

	return n > 0 ? bounded(n < (double)NUMBER_MAX ? (uint64_t)n : NUMBER_MAX) : 0;
}

static int read_type(struct heap_saved *s, struct jsonread *j)
{
	uint64_t cnt = 0, bytes = 0;
	char *name = NULL;
	int err = 0;

	if (!jsonread__enter(j, '{'))
		return -EINVAL;
	while (!err && jsonread__key(j)) {
		if (jsonread__is(j, "name")) {
			free(name);
			name = jsonread__string(j) ? strdup(j->str.len ? j->str.s : "") : NULL;
		} else if (jsonread__is(j, "objects")) {
			cnt = whole(j);
		} else if (jsonread__is(j, "bytes")) {
			bytes = whole(j);
		} else {
			jsonread__skip(j);
		}
		err = j->str.err;
	}
	if (!err)
		err = j->bad ? -EINVAL : add_type(s, name, cnt, bytes);
	free(name);
	return err;
}

static int read_types(struct heap_saved *s, struct jsonread *j)
{
	int err = jsonread__enter(j, '[') ? 0 : -EINVAL;

	while (!err && jsonread__element(j))
		err = read_type(s, j);
	return err;
}

static int read_memory(struct heap_saved *s, struct jsonread *j)
{
	if (!jsonread__enter(j, '{'))
		return -EINVAL;
	while (jsonread__key(j)) {
		if (jsonread__is(j, "rss"))
			s->rss = whole(j);
		else
			jsonread__skip(j);
	}
	return 0;
}

static int read_heap(struct heap_saved *s, struct jsonread *j)
{
	bool types = false, memory = false;
	int err = jsonread__enter(j, '{') ? 0 : -EINVAL;

	while (!err && jsonread__key(j)) {
		if (jsonread__is(j, "types")) {
			types = true;
			err = read_types(s, j);
		} else if (jsonread__is(j, "memory")) {
			memory = true;
			err = read_memory(s, j);
		} else if (jsonread__is(j, "pid")) {
			s->pid = whole(j);
		} else if (jsonread__is(j, "complete")) {
			s->complete = jsonread__peek(j) == 't';
			jsonread__skip(j);
		} else {
			jsonread__skip(j);
		}
	}
	return err ? err : types && memory ? 0 : -EINVAL;
}

int heap_saved__parse(struct heap_saved *s, const char *text, size_t len)
{
	struct jsonread j = { .s = text, .end = text + len };
	int err;

	*s = (struct heap_saved){ 0 };
	err = read_heap(s, &j);
	if (!err && (j.bad || jsonread__peek(&j) || j.s < j.end))
		err = -EINVAL;
	if (j.str.err)
		err = -ENOMEM;
	if (!err)
		merge(s);
	jsonread__free(&j);
	return err;
}

/* For the caller to free. NULL and errno. */
static char *read_file(const char *path, size_t *len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), err;
	struct stat st;
	char *text = NULL;

	*len = 0;
	if (fd < 0)
		return NULL;
	err = fstat(fd, &st) ? errno : !S_ISREG(st.st_mode) ? EINVAL : 0;
	if (!err && st.st_size > HEAP_SAVED_MAX)
		err = EFBIG;
	text = err ? NULL : malloc((size_t)st.st_size + 1);
	if (!err && !text)
		err = ENOMEM;
	while (text && *len < (size_t)st.st_size) {
		ssize_t n = read(fd, text + *len, (size_t)st.st_size - *len);

		if (n <= 0)
			break;
		*len += (size_t)n;
	}
	close(fd);
	errno = err;
	return text;
}

int heap_saved__read(struct heap_saved *s, const char *path)
{
	size_t len;
	char *text = read_file(path, &len);
	int err = text ? 0 : -errno;

	*s = (struct heap_saved){ 0 };
	if (text)
		err = heap_saved__parse(s, text, len);
	free(text);
	if (!err)
		return 0;
	if (err == -EINVAL)
		log_err("%s: not written by pyperf-bpf heap --json", path);
	else
		log_err("%s: %s", path, strerror(-err));
	return err;
}

/* ---- what changed ---------------------------------------------------------------------------- */

static int by_growth(const void *a, const void *b)
{
	const struct heap_change *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	if (x->cnt != y->cnt)
		return x->cnt > y->cnt ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* One of them may be NULL: there are none of it. */
static void add_change(struct heap_diff *d, const struct saved_type *b, const struct saved_type *a)
{
	struct heap_change c = { .name = a ? a->name : b->name,
				 .cnt_now = a ? a->cnt : 0,
				 .bytes_now = a ? a->bytes : 0 };

	c.cnt = (int64_t)c.cnt_now - (int64_t)(b ? b->cnt : 0);
	c.bytes = (int64_t)c.bytes_now - (int64_t)(b ? b->bytes : 0);
	d->objects += c.cnt;
	d->bytes += c.bytes;
	if (c.cnt || c.bytes)
		d->types[d->cnt++] = c;
}

int heap_diff__make(struct heap_diff *d, const struct heap_saved *before,
		    const struct heap_saved *after)
{
	size_t i = 0, k = 0;

	*d = (struct heap_diff){ .before = before, .after = after };
	d->types = calloc(before->cnt + after->cnt + 1, sizeof(*d->types));
	if (!d->types)
		return -ENOMEM;
	while (i < before->cnt || k < after->cnt) {
		const struct saved_type *b = i < before->cnt ? &before->types[i] : NULL;
		const struct saved_type *a = k < after->cnt ? &after->types[k] : NULL;
		int order = b && a ? strcmp(b->name, a->name) : b ? -1 : 1;

		add_change(d, order <= 0 ? b : NULL, order >= 0 ? a : NULL);
		i += order <= 0;
		k += order >= 0;
	}
	qsort(d->types, d->cnt, sizeof(*d->types), by_growth);
	return 0;
}

void heap_diff__free(struct heap_diff *d)
{
	free(d->types);
	*d = (struct heap_diff){ 0 };
}

/* ---- text ------------------------------------------------------------------------------------ */

static void add_signed(struct strbuf *b, int64_t n)
{
	strbuf__addc(b, n < 0 ? '-' : '+');
	text_add_count(b, (uint64_t)(n < 0 ? -n : n));
}

static void add_signed_bytes(struct strbuf *b, int64_t n)
{
	if (n >= 0)
		strbuf__addc(b, '+');
	text_add_bytes(b, (double)n);
}

/* "Live objects +22.1 MiB (+120,000), RSS +34.2 MiB. Order grew most: +18.3 MiB (+100,000)." */
static void add_sentence(struct strbuf *b, const struct heap_diff *d)
{
	strbuf__addz(b, "Live objects ");
	add_signed_bytes(b, d->bytes);
	strbuf__addz(b, " (");
	add_signed(b, d->objects);
	strbuf__addz(b, "), RSS ");
	add_signed_bytes(b, (int64_t)d->after->rss - (int64_t)d->before->rss);
	if (d->cnt && d->types[0].bytes > 0) {
		strbuf__addf(b, ". %s grew most: ", d->types[0].name);
		add_signed_bytes(b, d->types[0].bytes);
		strbuf__addz(b, " (");
		add_signed(b, d->types[0].cnt);
		strbuf__addz(b, ").");
	} else {
		strbuf__addz(b, ". No type grew.");
	}
	if (d->before->pid != d->after->pid)
		strbuf__addf(b, " These are two processes, %" PRIu64 " and %" PRIu64 ".",
			     d->before->pid, d->after->pid);
	if (!d->before->complete || !d->after->complete)
		strbuf__addf(b, " %s incomplete: see there.",
			     d->after->complete	   ? "The first heap is"
			     : d->before->complete ? "The second heap is"
						   : "Both heaps are");
}

static void add_row(struct text_table *t, struct strbuf *b, const struct heap_change *c)
{
	add_signed(b, c->cnt);
	text_table__add(t, NULL, b);
	add_signed_bytes(b, c->bytes);
	text_table__add(t, NULL, b);
	text_add_count(b, c->cnt_now);
	text_table__add(t, NULL, b);
	text_table__addf(t, NULL, "%s", c->name);
}

int heap_diff__text(FILE *f, const struct heap_diff *d, unsigned width, bool color, bool all)
{
	static const struct text_column cols[] = {
		{ "objects", CUT_NEVER, true },
		{ "bytes", CUT_NEVER, true },
		{ "objects now", CUT_NEVER, true },
		{ "type", CUT_END, false },
	};
	struct text_table t = { .cols = cols, .col_cnt = 4 };
	size_t shown = all || d->cnt < HEAP_TYPES_SHOWN ? d->cnt : HEAP_TYPES_SHOWN;
	struct text_out o = { 0 };
	struct strbuf b = { 0 };
	int err = 0, end;

	text_out__begin(&o, f, width, color);
	add_sentence(&b, d);
	err = b.err;
	text_out__fill(&o, 0, 0, err ? "" : b.s);
	strbuf__clear(&b);
	text_out__newline(&o);
	for (size_t i = 0; i < shown; i++)
		add_row(&t, &b, &d->types[i]);
	if (shown)
		err = text_table__print(&t, &o);
	if (shown < d->cnt) {
		text_add_count(&b, d->cnt - shown);
		strbuf__addz(&b, " more types differ (--all)");
		text_out__fill(&o, 0, 0, b.err ? "" : b.s);
	}
	strbuf__free(&b);
	end = text_out__end(&o);
	return err ? err : end;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

int heap_diff__json(FILE *f, const struct heap_diff *d)
{
	struct json j = { .f = f };

	json__object(&j, NULL);
	json__uint(&j, "version", 1);
	json__uint(&j, "pid_before", d->before->pid);
	json__uint(&j, "pid", d->after->pid);
	json__bool(&j, "complete", d->before->complete && d->after->complete);
	json__int(&j, "rss", (int64_t)d->after->rss - (int64_t)d->before->rss);
	json__int(&j, "objects", d->objects);
	json__int(&j, "bytes", d->bytes);
	json__array(&j, "types");
	for (size_t i = 0; i < d->cnt; i++) {
		json__newline(&j);
		json__object(&j, NULL);
		json__stringz(&j, "name", d->types[i].name);
		json__int(&j, "objects", d->types[i].cnt);
		json__int(&j, "bytes", d->types[i].bytes);
		json__uint(&j, "objects_now", d->types[i].cnt_now);
		json__uint(&j, "bytes_now", d->types[i].bytes_now);
		json__end(&j, '}');
	}
	json__end(&j, ']');
	json__end(&j, '}');
	fputc('\n', f);
	return ferror(f) ? -EIO : 0;
}
