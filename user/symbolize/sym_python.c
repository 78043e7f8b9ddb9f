/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "symbolize/symbolize.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/tenant.h"
#include "python/pylines.h"

/* Also of a name, wherever it is from */
#define BLOB_MAX	  ((size_t)MAX_BLOB_PIECES * BLOB_DATA)
/* Of a line table: twice the bytecode a frame word can name */
#define TABLE_MAX	  ((size_t)1 << 25)
#define ELLIPSIS	  0x2026
#define NO_NAME		  "<unknown>"
#define NO_ROOM		  "<no room for names>"
#define BLOB_BIT(kind)	  (1U << (kind))

/*
 * Pieces whose EV_CODE did not come yet. It follows at once from the same CPU, unless the ring
 * buffer was full: so more than a few per CPU are remains, and the oldest go first.
 */
#define PENDING_MAX	  1024
#define PENDING_BYTES_MAX ((size_t)4 << 20)

#define STRING_OVERHEAD	  32 /* bytes of one in a strtab, beside it, about */
#define INDEX_OVERHEAD	  16

/* Bytes of the strings of all users, who share them as they share the entries of a table. */
#define ROOM		  ((size_t)16 << 20)

/* ---- Characters ---- */

/* 2.7: bytes that say nothing of their encoding, which is UTF-8 nowadays. */
static void bytes_utf8(struct strbuf *b, const char *s, size_t len)
{
	uint32_t c;

	for (size_t i = 0; i < len;) {
		i += utf8_next(s + i, len - i, &c);
		utf8_add(b, c);
	}
}

/* ---- Code objects ---- */

/* Data that code objects share: processes run the same program, modules are reloaded. */
struct function {
	uint32_t name, file, table; /* in strings */
	int32_t first_line;
	uint32_t table_kind; /* enum py_linetable */
};

struct code {
	uint64_t id;
	uint32_t function;
	uint32_t tgid;	 /* whose it is */
	uint16_t slot;	 /* of struct shares: who is charged for its strings */
	uint8_t missing; /* BLOB_BIT() of the incomplete blobs */
	bool idle;	 /* see sym_python__sweep() */
	uint32_t named;	 /* the last round of sym_python__begin_round() in which it was */
};

/* The beginning of a blob, as far as it came without a gap. */
struct prefix {
	uint8_t *data;
	size_t len, cap;
};

struct pending {
	uint64_t id;
	struct prefix blob[BLOB_CNT];
};

struct sym_python {
	struct hash_key key;
	struct strtab *strings; /* names, files and line tables */
	struct function *functions;
	size_t function_cnt, function_cap;
	struct hash_index function_index; /* all of struct function */
	struct code *codes;
	size_t code_cnt, code_cap;
	struct hash_index code_index; /* id */
	struct pending *pending;      /* by age, the oldest first */
	size_t pending_cnt, pending_cap;
	size_t pending_bytes;
	/* Bytes of the strings and of what goes with each; of who was the first to have it. */
	struct shares shares;
	bool said_no_room;
	size_t kept_bytes; /* that the last sweep has left */
	bool marked;	   /* the first of the two sweeps is done */
	uint32_t round;
	uint64_t last_id;   /* see sym_python__last_id() */
	struct strbuf text; /* of the name at work */
};

struct sym_python *sym_python__new(void)
{
	struct sym_python *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->key = hash_key();
	s->round = 2;
	s->strings = strtab__new();
	if (!s->strings) {
		free(s);
		errno = ENOMEM;
		return NULL;
	}
	return s;
}

static void pending__free(struct pending *p)
{
	for (size_t i = 0; i < BLOB_CNT; i++)
		free(p->blob[i].data);
}

void sym_python__free(struct sym_python *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->pending_cnt; i++)
		pending__free(&s->pending[i]);
	free(s->pending);
	hash_index__free(&s->code_index);
	free(s->codes);
	hash_index__free(&s->function_index);
	free(s->functions);
	strtab__free(s->strings);
	strbuf__free(&s->text);
	free(s);
}

static struct code *find_code(const struct sym_python *s, uint64_t id)
{
	uint64_t hash = hash_bytes(&s->key, &id, sizeof(id));
	uint32_t i;

	for (size_t at = 0; (i = hash_index__next(&s->code_index, hash, &at)) != HASH_NONE;)
		if (s->codes[i].id == id)
			return &s->codes[i];
	return NULL;
}

/* The number of the function that equals `f`, which is added when there is none. */
static int intern_function(struct sym_python *s, const struct function *f, uint32_t *number)
{
	uint64_t hash = hash_bytes(&s->key, f, sizeof(*f));
	uint32_t i;

	for (size_t at = 0; (i = hash_index__next(&s->function_index, hash, &at)) != HASH_NONE;) {
		if (memcmp(&s->functions[i], f, sizeof(*f)))
			continue;
		*number = i;
		return 0;
	}
	if (ARRAY_GROW(s->functions, s->function_cap, s->function_cnt, HASH_NONE) ||
	    hash_index__add(&s->function_index, hash, (uint32_t)s->function_cnt))
		return -ENOMEM;
	s->functions[s->function_cnt] = *f;
	*number = (uint32_t)s->function_cnt++;
	return 0;
}

static int add_code(struct sym_python *s, const struct code *code)
{
	uint64_t hash = hash_bytes(&s->key, &code->id, sizeof(code->id));

	if (ARRAY_GROW(s->codes, s->code_cap, s->code_cnt, HASH_NONE) ||
	    hash_index__add(&s->code_index, hash, (uint32_t)s->code_cnt))
		return -ENOMEM;
	s->codes[s->code_cnt++] = *code;
	if (code->id % CODE_IDS_HOST > s->last_id)
		s->last_id = code->id % CODE_IDS_HOST;
	return 0;
}

/* ---- Pieces ---- */

static size_t find_pending(const struct sym_python *s, uint64_t id)
{
	size_t i = s->pending_cnt;

	/* The newest first: it is nearly always that one. */
	while (i > 0 && s->pending[i - 1].id != id)
		i--;
	return i ? i - 1 : SIZE_MAX;
}

/* Moves an entry out of the table. */
static struct pending take_pending(struct sym_python *s, size_t i)
{
	struct pending p = s->pending[i];

	s->pending_cnt--;
	memmove(&s->pending[i], &s->pending[i + 1], (s->pending_cnt - i) * sizeof(p));
	for (size_t kind = 0; kind < BLOB_CNT; kind++)
		s->pending_bytes -= p.blob[kind].cap;
	return p;
}

static void drop_oldest(struct sym_python *s)
{
	struct pending oldest = take_pending(s, 0);

	pending__free(&oldest);
}

static struct pending *get_pending(struct sym_python *s, uint64_t id)
{
	size_t i = find_pending(s, id);

	if (i != SIZE_MAX)
		return &s->pending[i];
	if (s->pending_cnt == PENDING_MAX)
		drop_oldest(s);
	if (ARRAY_GROW(s->pending, s->pending_cap, s->pending_cnt, PENDING_MAX))
		return NULL;
	s->pending[s->pending_cnt] = (struct pending){ .id = id };
	return &s->pending[s->pending_cnt++];
}

int sym_python__on_blob(struct sym_python *s, const struct ev_blob *ev, size_t size)
{
	struct pending *p;
	struct prefix *b;
	size_t old_cap;

	if (size < offsetof(struct ev_blob, data) || ev->type != EV_BLOB || ev->kind >= BLOB_CNT ||
	    ev->size > BLOB_DATA || ev->size > size - offsetof(struct ev_blob, data))
		return -EINVAL;
	if (find_code(s, ev->id))
		return -EEXIST;
	p = get_pending(s, ev->id);
	if (!p)
		return -ENOMEM;
	b = &p->blob[ev->kind];
	if (ev->offset < b->len)
		return -EINVAL;
	if (ev->offset > b->len)
		return 0; /* behind a lost piece: useless */
	old_cap = b->cap;
	if (b->len + ev->size > BLOB_MAX)
		return -E2BIG;
	if (array_grow(&b->data, &b->cap, b->len, ev->size, 1, BLOB_MAX))
		return -ENOMEM;
	s->pending_bytes += b->cap - old_cap;
	if (ev->size)
		memcpy(b->data + b->len, ev->data, ev->size);
	b->len += ev->size;
	while (s->pending_bytes > PENDING_BYTES_MAX && s->pending_cnt > 1)
		drop_oldest(s);
	return 0;
}

/* ---- Blobs ---- */

/* The part of one blob that has arrived: `len` bytes from its beginning. */
struct bytes {
	const uint8_t *data;
	size_t len;
};

/* Is that all of it, and do we know what it means? */
static bool is_whole(const struct bytes *b, const struct blob_info *info, enum blob_kind kind)
{
	bool known = kind == BLOB_LINETABLE || info->flags & BLOB_PY2 || info->width == 1 ||
		     info->width == 2 || info->width == 4;

	return known && b->len >= info->size;
}

static bool has_room(const struct sym_python *s, uint32_t slot, size_t size)
{
	size_t left = ROOM - s->shares.taken;

	return size < left && s->shares.of[slot] + size <= SHARE_OF_FREE * (left - size);
}

/* The id of `data` in strings, charged to a user if it is new. 0, -ENOMEM. */
static int intern(struct sym_python *s, uint32_t slot, const void *data, size_t len, uint32_t *id)
{
	size_t cnt = strtab__count(s->strings);

	*id = strtab__add(s->strings, data, len);
	if (strtab__count(s->strings) > cnt) {
		s->shares.taken += (uint32_t)(len + STRING_OVERHEAD);
		s->shares.of[slot] += (uint32_t)(len + STRING_OVERHEAD);
	}
	return *id || !len ? 0 : -ENOMEM;
}

/* The same; -ENOSPC: the user has too many. */
static int intern_within(struct sym_python *s, uint32_t slot, const void *data, size_t len,
			 uint32_t *id)
{
	if (len && !strtab__find(s->strings, data, len) &&
	    !has_room(s, slot, len + STRING_OVERHEAD))
		return -ENOSPC;
	return intern(s, slot, data, len, id);
}

static int intern_name(struct sym_python *s, uint32_t slot, const struct bytes *b,
		       const struct blob_info *info, bool whole, uint32_t *id)
{
	size_t len = b->len < info->size ? b->len : info->size;

	if (len > BLOB_MAX) {
		len = BLOB_MAX;
		whole = false;
	}
	strbuf__clear(&s->text);
	if (info->flags & BLOB_PY2)
		bytes_utf8(&s->text, (const char *)b->data, len);
	else
		py_utf8(&s->text, b->data, len, info->width);
	if (!whole && s->text.len)
		utf8_add(&s->text, ELLIPSIS);
	if (s->text.err)
		return s->text.err;
	return intern_within(s, slot, s->text.s, s->text.len, id);
}

/* Puts one blob into `f`. */
static int set_blob(struct sym_python *s, uint32_t slot, struct function *f, enum blob_kind kind,
		    const struct bytes *b, const struct blob_info *info, bool whole)
{
	if (kind != BLOB_LINETABLE)
		return intern_name(s, slot, b, info, whole,
				   kind == BLOB_NAME ? &f->name : &f->file);
	/* Half a table gives wrong lines for the offsets that it does not reach. */
	f->table = 0;
	return whole ? intern_within(s, slot, b->data, info->size, &f->table) : 0;
}

static void say_no_room(struct sym_python *s, uint32_t tgid)
{
	uint32_t user = tenant__user(tenant__of_process(tgid));
	char of[32] = "";

	if (user != TENANT_USER_UNKNOWN)
		snprintf(of, sizeof(of), " of user %u", user);
	if (!s->said_no_room)
		log_warn("functions of process %u%s have too many names, or too long ones: its "
			 "user's new functions are shown as " NO_ROOM,
			 tgid, of);
	s->said_no_room = true;
}

/* What all code objects that found no room are shown as: one function. */
static int find_no_room(struct sym_python *s, struct code *code, struct function *f)
{
	say_no_room(s, code->tgid);
	code->missing = 0;
	*f = (struct function){ 0 };
	return intern(s, 0, NO_ROOM, strlen(NO_ROOM), &f->name);
}

/* `p` holds what came of the blobs of `ev`. */
static int set_blobs(struct sym_python *s, const struct ev_code *ev, const struct pending *p,
		     struct function *f, struct code *code)
{
	int err = 0;

	for (unsigned kind = 0; kind < BLOB_CNT && !err; kind++) {
		const struct blob_info *info = &ev->blob[kind];
		struct bytes b = { p->blob[kind].data, p->blob[kind].len };
		bool whole = !(info->flags & BLOB_MISSING) && is_whole(&b, info, kind);

		err = set_blob(s, code->slot, f, kind, &b, info, whole);
		if (!whole)
			code->missing |= BLOB_BIT(kind);
	}
	return err;
}

static int new_code(struct sym_python *s, const struct ev_code *ev, const struct py_layout *layout,
		    uint32_t slot, const struct pending *p)
{
	struct function f = { .first_line = ev->firstlineno };
	struct code code = {
		.id = ev->id, .tgid = ev->tgid, .slot = (uint16_t)slot, .named = s->round - 2
	};
	int err;

	f.table_kind = layout->linetable_kind;
	err = set_blobs(s, ev, p, &f, &code);
	if (err == -ENOSPC)
		err = find_no_room(s, &code, &f);
	if (!err)
		err = intern_function(s, &f, &code.function);
	return err ? err : add_code(s, &code);
}

int sym_python__on_code(struct sym_python *s, const struct ev_code *ev, size_t size,
			const struct py_layout *layout, uint32_t slot)
{
	struct pending p = { 0 };
	size_t i;
	int err;

	if (size < sizeof(*ev) || ev->type != EV_CODE)
		return -EINVAL;
	if (find_code(s, ev->id))
		return -EEXIST;
	i = find_pending(s, ev->id);
	if (i != SIZE_MAX)
		p = take_pending(s, i);
	err = new_code(s, ev, layout, slot < SHARE_SLOTS ? slot : 0, &p);
	pending__free(&p);
	return err;
}

int sym_python__missing(const struct sym_python *s, uint64_t code_id)
{
	const struct code *code = find_code(s, code_id);

	return code ? (int)code->missing : -ENOENT;
}

int sym_python__supply(struct sym_python *s, uint64_t code_id, enum blob_kind kind,
		       const void *data, const struct blob_info *info)
{
	struct code *code = find_code(s, code_id);
	struct bytes b = { data, info->size };
	struct function f;
	int err;

	if (!code)
		return -ENOENT;
	if ((unsigned)kind >= BLOB_CNT || !is_whole(&b, info, kind))
		return -EINVAL;
	if (!(code->missing & BLOB_BIT(kind)))
		return -EEXIST;
	if (kind == BLOB_LINETABLE && info->size > TABLE_MAX)
		return -E2BIG;
	f = s->functions[code->function];
	err = set_blob(s, code->slot, &f, kind, &b, info, true);
	if (err == -ENOSPC)
		err = find_no_room(s, code, &f);
	if (!err)
		err = intern_function(s, &f, &code->function);
	if (!err)
		code->missing &= ~BLOB_BIT(kind);
	return err;
}

/* ---- Forgetting ---- */

size_t sym_python__memory(const struct sym_python *s)
{
	return s->shares.taken + s->code_cnt * (sizeof(*s->codes) + INDEX_OVERHEAD) +
	       s->function_cnt * (sizeof(*s->functions) + INDEX_OVERHEAD);
}

uint64_t sym_python__last_id(const struct sym_python *s)
{
	return s->last_id;
}

bool sym_python__wants_sweep(const struct sym_python *s, size_t budget)
{
	size_t now = sym_python__memory(s);

	return s->marked || (now > budget && now > s->kept_bytes + s->kept_bytes / 4);
}

bool sym_python__was_named(const struct sym_python *s, uint64_t code_id)
{
	const struct code *code = find_code(s, code_id);

	return !code || s->round - code->named < 2;
}

void sym_python__begin_round(struct sym_python *s)
{
	s->round++;
}

/* Into `to`, which is empty: a code object with its function and their strings. */
static int copy_code(struct sym_python *to, const struct sym_python *from, struct code code)
{
	struct function f = from->functions[code.function];
	uint32_t *const ids[] = { &f.name, &f.file, &f.table };
	int err = 0;

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]) && !err; i++) {
		size_t len;
		const char *text = strtab__get(from->strings, *ids[i], &len);

		err = intern(to, code.slot, text, len, ids[i]);
	}
	if (!err)
		err = intern_function(to, &f, &code.function);
	return err ? err : add_code(to, &code);
}

/* The members that are copied; work in progress and the key stay in place. */
static void take_tables(struct sym_python *s, struct sym_python *from)
{
	struct sym_python old = *s;

	s->strings = from->strings;
	s->functions = from->functions;
	s->function_cnt = from->function_cnt;
	s->function_cap = from->function_cap;
	s->function_index = from->function_index;
	s->codes = from->codes;
	s->code_cnt = from->code_cnt;
	s->code_cap = from->code_cap;
	s->code_index = from->code_index;
	s->shares = from->shares;
	hash_index__free(&old.code_index);
	hash_index__free(&old.function_index);
	free(old.codes);
	free(old.functions);
	strtab__free(old.strings);
	free(from);
}

static int by_id(const void *a_, const void *b_)
{
	uint64_t a = *(const uint64_t *)a_, b = *(const uint64_t *)b_;

	return a < b ? -1 : a > b;
}

static bool is_live(const struct code *code, const uint64_t *live, size_t cnt)
{
	return bsearch(&code->id, live, cnt, sizeof(*live), by_id);
}

/*
 * Without the idle ones; a copy, because strings and functions are not removed from their tables.
 */
static int drop_idle(struct sym_python *s)
{
	struct sym_python *kept = sym_python__new();
	int err = kept ? 0 : -ENOMEM;

	for (size_t i = 0; i < s->code_cnt && !err; i++) {
		if (!s->codes[i].idle)
			err = copy_code(kept, s, s->codes[i]);
	}
	if (err)
		sym_python__free(kept);
	else
		take_tables(s, kept);
	return err;
}

int sym_python__sweep(struct sym_python *s, uint64_t *live, size_t cnt)
{
	int err;

	qsort(live, cnt, sizeof(*live), by_id);
	for (size_t i = 0; i < s->code_cnt; i++) {
		struct code *code = &s->codes[i];

		code->idle = (code->idle || !s->marked) && !is_live(code, live, cnt);
	}
	s->marked = !s->marked;
	if (s->marked)
		return 0;
	err = drop_idle(s);
	for (size_t i = 0; i < s->code_cnt; i++)
		s->codes[i].idle = false;
	s->kept_bytes = sym_python__memory(s);
	return err;
}

int sym_python__forget(struct sym_python *s, bool (*gone)(void *ctx, uint32_t tgid), void *ctx)
{
	struct hash_index index = { 0 };
	size_t kept = 0;

	for (size_t i = 0; i < s->code_cnt; i++) {
		const struct code *code = &s->codes[i];
		uint64_t hash = hash_bytes(&s->key, &code->id, sizeof(code->id));

		if (gone(ctx, code->tgid))
			continue;
		if (hash_index__add(&index, hash, (uint32_t)kept++)) {
			hash_index__free(&index);
			return -ENOMEM;
		}
	}
	kept = 0;
	for (size_t i = 0; i < s->code_cnt; i++)
		if (!gone(ctx, s->codes[i].tgid))
			s->codes[kept++] = s->codes[i];
	s->code_cnt = kept;
	hash_index__free(&s->code_index);
	s->code_index = index;
	return 0;
}

size_t sym_python__code_cnt(const struct sym_python *s)
{
	return s->code_cnt;
}

/* ---- Answers ---- */

bool sym_python__find(const struct sym_python *s, uint64_t code_id, struct py_function *out)
{
	struct code *code = find_code(s, code_id);
	const struct function *f;

	*out = (struct py_function){ .name = "", .file = "" };
	if (!code)
		return false;
	code->named = s->round;
	f = &s->functions[code->function];
	out->number = code->function;
	out->name = strtab__get(s->strings, f->name, &out->name_len);
	if (!out->name_len) {
		out->name = NO_NAME;
		out->name_len = strlen(NO_NAME);
	}
	out->file = strtab__get(s->strings, f->file, &out->file_len);
	out->first_line = py_valid_line((uint64_t)(int64_t)f->first_line);
	return true;
}

uint32_t sym_python__line(const struct sym_python *s, uint64_t code_id, uint32_t offset)
{
	const struct code *code = find_code(s, code_id);
	uint32_t first, line;
	const struct function *f;
	const char *table;
	bool prologue;
	size_t size;

	if (!code)
		return 0;
	f = &s->functions[code->function];
	first = py_valid_line((uint64_t)(int64_t)f->first_line);
	if (offset == OFFSET_NOT_STARTED || offset == OFFSET_LINE)
		return first;
	if (OFFSET_HAS_LINE(offset))
		return py_valid_line(offset - OFFSET_LINE);
	if (code->missing & BLOB_BIT(BLOB_LINETABLE))
		return 0;
	table = strtab__get(s->strings, f->table, &size);
	line = py_find_line((enum py_linetable)f->table_kind, (const uint8_t *)table, size,
			    f->first_line, offset, &prologue);
	return prologue && !line ? first : line;
}
