/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The heat map: the source of the hottest files, with the time of each line beside it.
 *
 * A line's self time is that of the stacks whose innermost Python frame stands on it, native code
 * that it calls included; its total time counts a stack once, however often the line is in it. A
 * file is a path in a container: the same path in another one is another file.
 *
 * The source is read when the page is written, as source.h says. Bounds: FILES_MAX files of at
 * most SOURCE_MAX bytes, ROWS_MAX lines shown of each: those that were sampled, hottest first,
 * and CONTEXT lines around them; LINE_MAX characters of a line. The page runs no script at all.
 */
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/source.h"
#include "base/str.h"
#include "export/export_page.h"
#include "export/export_source.h"
#include "page_lines.h"
#include "profile/export_stacks.h"
#include "profile/export_text.h"
#include "profile/origin.h"

#define FILES_MAX  30
#define ROWS_MAX   1500
#define CONTEXT	   4
#define LINE_CHARS 300
#define TRIES_MAX  8 /* processes that a file is looked for in */
#define TAB	   8
#define HEATS	   8 /* shades in lines.css */
#define METER	   72

struct line_sum {
	uint32_t file;
	uint32_t line;
	uint32_t seen; /* number of the stack that was counted last, + 1 */
	uint64_t self, total;
};

struct file_sum {
	str_id path, container;
	uint32_t seen;
	uint64_t self, total;
	uint32_t first, cnt; /* its lines, once they are sorted */
};

/* A file in a process: where to look for it. */
struct place_sum {
	uint32_t file;
	uint32_t proc;
	uint64_t count;
};

struct heat {
	const struct profile *p;
	bool live;
	struct readers *readers;
	FILE *out;
	uint64_t total;
	struct hash_key key;
	struct hash_index file_index, line_index, place_index;
	struct file_sum *files;
	size_t file_cnt, file_cap;
	struct line_sum *lines;
	size_t line_cnt, line_cap;
	struct place_sum *places;
	size_t place_cnt, place_cap;
	/* Files: the FILES_MAX hottest by origin, hottest first; then the others. */
	uint32_t *order;
	struct strbuf html, text;
};

/* ---- Counting ---- */

static uint64_t hash_pair(const struct heat *h, uint32_t a, uint32_t b)
{
	uint32_t parts[] = { a, b };

	return hash_bytes(&h->key, parts, sizeof(parts));
}

/* Each of the three: the index of an element, which is added if it is new, or -ENOMEM. */
static int find_file(struct heat *h, str_id path, str_id container)
{
	uint64_t hash = hash_pair(h, path, container);
	uint32_t i;

	for (size_t at = 0; (i = hash_index__next(&h->file_index, hash, &at)) != HASH_NONE;)
		if (h->files[i].path == path && h->files[i].container == container)
			return (int)i;
	if (ARRAY_GROW(h->files, h->file_cap, h->file_cnt, INT_MAX) ||
	    hash_index__add(&h->file_index, hash, (uint32_t)h->file_cnt))
		return -ENOMEM;
	h->files[h->file_cnt] = (struct file_sum){ .path = path, .container = container };
	return (int)h->file_cnt++;
}

static int find_line(struct heat *h, uint32_t file, uint32_t line)
{
	uint64_t hash = hash_pair(h, file, line);
	uint32_t i;

	for (size_t at = 0; (i = hash_index__next(&h->line_index, hash, &at)) != HASH_NONE;)
		if (h->lines[i].file == file && h->lines[i].line == line)
			return (int)i;
	if (ARRAY_GROW(h->lines, h->line_cap, h->line_cnt, INT_MAX) ||
	    hash_index__add(&h->line_index, hash, (uint32_t)h->line_cnt))
		return -ENOMEM;
	h->lines[h->line_cnt] = (struct line_sum){ .file = file, .line = line };
	return (int)h->line_cnt++;
}

static int find_place(struct heat *h, uint32_t file, uint32_t proc)
{
	uint64_t hash = hash_pair(h, file, proc);
	uint32_t i;

	for (size_t at = 0; (i = hash_index__next(&h->place_index, hash, &at)) != HASH_NONE;)
		if (h->places[i].file == file && h->places[i].proc == proc)
			return (int)i;
	if (ARRAY_GROW(h->places, h->place_cap, h->place_cnt, INT_MAX) ||
	    hash_index__add(&h->place_index, hash, (uint32_t)h->place_cnt))
		return -ENOMEM;
	h->places[h->place_cnt] = (struct place_sum){ .file = file, .proc = proc };
	return (int)h->place_cnt++;
}

/* Counts one frame of a stack; `self`: it is the innermost Python frame. */
static int count_frame(struct heat *h, uint32_t stack, const struct sym *s, bool self)
{
	const struct profile_stack *st = &h->p->stacks[stack];
	uint32_t stamp = stack + 1;
	int file = find_file(h, s->file, h->p->procs[st->proc].container), line, place;

	if (file < 0)
		return file;
	line = find_line(h, (uint32_t)file, s->line);
	if (line < 0)
		return line;
	if (h->lines[line].seen != stamp)
		h->lines[line].total += st->count;
	h->lines[line].seen = stamp;
	if (self) {
		h->lines[line].self += st->count;
		h->files[file].self += st->count;
	}
	if (h->files[file].seen == stamp)
		return 0;
	h->files[file].seen = stamp;
	h->files[file].total += st->count;
	place = find_place(h, (uint32_t)file, st->proc);
	if (place < 0)
		return place;
	h->places[place].count += st->count;
	return 0;
}

static int count_stack(struct heat *h, uint32_t stack)
{
	const struct profile_stack *st = &h->p->stacks[stack];
	bool self = true;
	int err = 0;

	if (st->proc >= h->p->proc_cnt || !st->count)
		return 0;
	for (uint32_t i = st->cnt; i-- > 0 && !err;) {
		const struct sym *s = export_sym(h->p, h->p->frame_syms[st->first + i]);

		if (s->kind != SYM_PYTHON)
			continue;
		if (s->line && profile__str_len(h->p, s->file))
			err = count_frame(h, stack, s, self);
		self = false;
	}
	return err;
}

/* ---- Order ---- */

static int cmp_u64_desc(uint64_t a, uint64_t b)
{
	return a > b ? -1 : a < b;
}

static int cmp_files(const void *a, const void *b, void *ctx)
{
	const struct heat *h = ctx;
	const struct file_sum *fa = &h->files[*(const uint32_t *)a];
	const struct file_sum *fb = &h->files[*(const uint32_t *)b];
	int d = cmp_u64_desc(fa->self, fb->self);

	if (!d)
		d = cmp_u64_desc(fa->total, fb->total);
	if (!d)
		d = export_str_cmp(h->p, fa->path, fb->path);
	return d ? d : export_str_cmp(h->p, fa->container, fb->container);
}

static int cmp_lines(const void *a, const void *b)
{
	const struct line_sum *la = a, *lb = b;

	if (la->file != lb->file)
		return la->file < lb->file ? -1 : 1;
	return la->line < lb->line ? -1 : la->line > lb->line;
}

static int cmp_places(const void *a, const void *b, void *ctx)
{
	const struct place_sum *pa = a, *pb = b;
	const struct heat *h = ctx;
	uint32_t ta = h->p->procs[pa->proc].tgid, tb = h->p->procs[pb->proc].tgid;

	if (pa->file != pb->file)
		return pa->file < pb->file ? -1 : 1;
	if (pa->count != pb->count)
		return pa->count > pb->count ? -1 : 1;
	return ta < tb ? -1 : ta > tb;
}

static size_t shown_files(const struct heat *h)
{
	return h->file_cnt < FILES_MAX ? h->file_cnt : FILES_MAX;
}

static enum origin origin_of_file(const struct heat *h, uint32_t file)
{
	return origin_of(profile__str(h->p, h->files[file].path));
}

/* Own code first, then packages, then the standard library. */
static int cmp_origins(const void *a, const void *b, void *ctx)
{
	const struct heat *h = ctx;
	enum origin oa = origin_of_file(h, *(const uint32_t *)a);
	enum origin ob = origin_of_file(h, *(const uint32_t *)b);

	return oa == ob ? cmp_files(a, b, ctx) : oa < ob ? -1 : 1;
}

static int count_all(struct heat *h)
{
	int err = 0;

	for (size_t i = 0; h->p->frame_syms && i < h->p->stack_cnt && !err; i++)
		err = count_stack(h, (uint32_t)i);
	h->order = calloc(h->file_cnt + 1, sizeof(*h->order));
	if (err || !h->order)
		return -ENOMEM;
	if (h->line_cnt)
		qsort(h->lines, h->line_cnt, sizeof(*h->lines), cmp_lines);
	if (h->place_cnt)
		qsort_r(h->places, h->place_cnt, sizeof(*h->places), cmp_places, h);
	for (size_t i = h->line_cnt; i-- > 0;) {
		h->files[h->lines[i].file].first = (uint32_t)i;
		h->files[h->lines[i].file].cnt++;
	}
	for (size_t i = 0; i < h->file_cnt; i++)
		h->order[i] = (uint32_t)i;
	qsort_r(h->order, h->file_cnt, sizeof(*h->order), cmp_files, h);
	qsort_r(h->order, shown_files(h), sizeof(*h->order), cmp_origins, h);
	return 0;
}

/* ---- One file ---- */

/* The rows of one file: numbers from 1. Code objects may claim any number, up to UINT32_MAX. */
struct rows {
	const char **text; /* of each line, NULL without source */
	size_t *len;
	size_t *shown; /* numbers of lines that become rows, ascending; ROWS_MAX at most */
	size_t shown_cnt;
	size_t text_cnt; /* lines that it has */
	size_t last;	 /* line; more, if the source was longer when it was sampled */
	const char *why; /* there is no source */
	bool newer;	 /* it was changed after sampling began */
};

static void rows__free(struct rows *r)
{
	free(r->text);
	free(r->len);
	free(r->shown);
}

static const char *why_not(int err)
{
	switch (-err) {
	case EINVAL:
		return "its name is not that of a Python source file";
	case EPERM:
		return "reading it with the rights of its process needs CAP_SETUID and CAP_SETGID";
	case EACCES:
		return "its process may not read it";
	case ESRCH:
		return "its process has ended";
	case EFBIG:
		return "it is larger than 2 MiB";
	case ENOTDIR:
		return "it is in an archive, such as a zip file";
	case ENOTSUP:
		return "it is not a regular file on a local file system";
	default:
		return strerrordesc_np(-err);
	}
}

/* The text of a file, from the first process that has it. 0 or negative errno. */
static int read_source(struct heat *h, uint32_t file, struct stat *st)
{
	const char *path = profile__str(h->p, h->files[file].path);
	size_t i = 0;
	int err = -ENOENT, first_err = 0;

	/* a name with a NUL is none */
	if (strlen(path) != profile__str_len(h->p, h->files[file].path))
		return -EINVAL;
	while (i < h->place_cnt && h->places[i].file != file)
		i++;
	for (int n = 0; n < TRIES_MAX && i < h->place_cnt && h->places[i].file == file; n++, i++) {
		const struct source_owner who =
			export_source_owner(&h->p->procs[h->places[i].proc], h->live);

		strbuf__clear(&h->text);
		err = source__read(h->readers, &who, path, &h->text, st);
		if (!err)
			return 0;
		first_err = first_err ? first_err : err;
	}
	return first_err ? first_err : err;
}

static int split_lines(const struct strbuf *text, struct rows *r)
{
	size_t cap = 0, cnt = 0, cap_len = 0;

	for (size_t i = 0; i < text->len;) {
		const char *end = memchr(text->s + i, '\n', text->len - i);
		size_t len = end ? (size_t)(end - text->s) - i : text->len - i;

		if (ARRAY_GROW(r->text, cap, cnt, INT_MAX) ||
		    ARRAY_GROW(r->len, cap_len, cnt, INT_MAX))
			return -ENOMEM;
		r->text[cnt] = text->s + i;
		r->len[cnt++] = len && text->s[i + len - 1] == '\r' ? len - 1 : len;
		i += len + 1;
	}
	r->text_cnt = cnt;
	return 0;
}

/* A line, and of the source those around it. */
static void show_around(struct rows *r, size_t line)
{
	size_t from = line > CONTEXT ? line - CONTEXT : 1;

	for (size_t i = from; i <= line + CONTEXT; i++)
		if (i <= r->text_cnt || i == line)
			r->shown[r->shown_cnt++] = i;
}

static int cmp_numbers(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	return x < y ? -1 : x > y;
}

/* Ascending, each once: lines that are near each other have the same ones around them. */
static void order_shown(struct rows *r)
{
	size_t kept = 0;

	qsort(r->shown, r->shown_cnt, sizeof(*r->shown), cmp_numbers);
	for (size_t i = 0; i < r->shown_cnt; i++)
		if (!kept || r->shown[i] != r->shown[kept - 1])
			r->shown[kept++] = r->shown[i];
	r->shown_cnt = kept;
}

static int cmp_hot(const void *a, const void *b)
{
	const struct line_sum *la = *(const struct line_sum *const *)a;
	const struct line_sum *lb = *(const struct line_sum *const *)b;
	int d = cmp_u64_desc(la->self, lb->self);

	if (!d)
		d = cmp_u64_desc(la->total, lb->total);
	return d ? d : cmp_lines(la, lb);
}

/* Chooses the lines to show: the hottest with their neighbours, up to the bound. */
static int choose_rows(const struct heat *h, const struct file_sum *f, struct rows *r)
{
	const struct line_sum **hot = calloc(f->cnt + 1, sizeof(*hot));
	size_t around = r->text ? 2 * CONTEXT + 1 : 1, limit = ROWS_MAX / around;
	uint32_t last = f->cnt ? h->lines[f->first + f->cnt - 1].line : 0;

	limit = f->cnt < limit ? f->cnt : limit;
	r->shown = calloc(limit * around + 1, sizeof(*r->shown));
	if (!hot || !r->shown) {
		free(hot);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < f->cnt; i++)
		hot[i] = &h->lines[f->first + i];
	qsort(hot, f->cnt, sizeof(const struct line_sum *), cmp_hot);
	for (size_t i = 0; i < limit; i++)
		show_around(r, hot[i]->line);
	free(hot);
	order_shown(r);
	r->last = r->text_cnt > last ? r->text_cnt : last;
	return 0;
}

/* A line of source, its tabs as blanks: they are control characters to str_sanitise(). */
static void add_code(struct heat *h, const char *s, size_t len)
{
	struct strbuf plain = { 0 }, safe = { 0 };
	size_t col = 0;

	for (size_t i = 0; i < len && col < 4 * LINE_CHARS; i++, col++) {
		if (s[i] != '\t') {
			strbuf__addc(&plain, s[i]);
			continue;
		}
		strbuf__addc(&plain, ' ');
		for (; (col + 1) % TAB; col++)
			strbuf__addc(&plain, ' ');
	}
	if (plain.len)
		str_sanitise(&safe, plain.s, plain.len, LINE_CHARS);
	if (plain.err || safe.err)
		h->html.err = -ENOMEM;
	else if (safe.len)
		page_add_html(&h->html, safe.s, safe.len);
	strbuf__free(&plain);
	strbuf__free(&safe);
}

static void add_meter(struct heat *h, uint64_t self, uint64_t total, uint64_t most)
{
	unsigned s = (unsigned)(METER * self / most), t = (unsigned)(METER * total / most);

	strbuf__addf(&h->html, "<td><svg class=\"meter\" aria-hidden=\"true\">");
	strbuf__addf(&h->html, "<rect width=\"%d\" height=\"9\" rx=\"2\"/>", METER);
	strbuf__addf(&h->html, "<rect class=\"t\" width=\"%u\" height=\"9\" rx=\"2\"/>", t);
	strbuf__addf(&h->html, "<rect class=\"s\" width=\"%u\" height=\"9\" rx=\"2\"/></svg></td>",
		     s);
}

static void add_percent(struct heat *h, uint64_t part)
{
	double percent = text_percent(part, h->total);

	if (!part)
		strbuf__addz(&h->html, "<td></td>");
	else if (percent < 0.05)
		strbuf__addz(&h->html, "<td>&lt;0.1%</td>");
	else
		strbuf__addf(&h->html, "<td>%.1f%%</td>", percent);
}

static void add_row(struct heat *h, const struct rows *r, size_t line, const struct line_sum *sum,
		    const struct line_sum *most)
{
	if (sum && sum->self)
		strbuf__addf(&h->html, "<tr class=\"h%u\">",
			     (unsigned)(1 + (HEATS - 1) * sum->self / most->self));
	else
		strbuf__addz(&h->html, sum ? "<tr>" : "<tr class=\"cold\">");
	add_percent(h, sum ? sum->self : 0);
	add_percent(h, sum ? sum->total : 0);
	if (sum)
		add_meter(h, sum->self, sum->total, most->total);
	else
		strbuf__addz(&h->html, "<td></td>");
	strbuf__addf(&h->html, "<td class=\"no\">%zu</td><td class=\"code\">", line);
	if (line <= r->text_cnt)
		add_code(h, r->text[line - 1], r->len[line - 1]);
	strbuf__addz(&h->html, "</td></tr>\n");
}

static void add_gap(struct heat *h, size_t lines)
{
	if (lines)
		strbuf__addf(&h->html,
			     "<tr class=\"gap\"><td colspan=\"5\">\xc2\xb7\xc2\xb7\xc2\xb7 %zu "
			     "line%s</td></tr>\n",
			     lines, lines == 1 ? "" : "s");
}

static void add_rows(struct heat *h, const struct file_sum *f, const struct rows *r)
{
	const struct line_sum *next = &h->lines[f->first], *end = next + f->cnt;
	struct line_sum most = { .self = 1, .total = 1 };
	size_t before = 0; /* line of the last row */

	for (const struct line_sum *l = next; l < end; l++) {
		most.self = l->self > most.self ? l->self : most.self;
		most.total = l->total > most.total ? l->total : most.total;
	}
	strbuf__addz(&h->html,
		     "<div class=\"source\"><table><tr><th>Self</th><th>Total</th><th></th>"
		     "<th>Line</th><th></th></tr>\n");
	for (size_t i = 0; i < r->shown_cnt; i++) {
		size_t line = r->shown[i];

		while (next < end && next->line < line)
			next++;
		add_gap(h, r->text ? line - before - 1 : 0);
		add_row(h, r, line, next < end && next->line == line ? next : NULL, &most);
		before = line;
	}
	add_gap(h, r->text ? r->last - before : 0);
	strbuf__addz(&h->html, "</table></div>\n");
}

static void add_path(struct heat *h, const struct file_sum *f)
{
	struct strbuf path = { 0 };

	text_add_path(&path, h->p, f->path);
	if (profile__str_len(h->p, f->container)) {
		strbuf__addz(&path, " in container ");
		text_add_name(&path, h->p, f->container, "");
	}
	if (path.err)
		h->html.err = path.err;
	else
		page_add_html(&h->html, path.s, path.len);
	strbuf__free(&path);
}

/* Writes what has come together, so that the page is never in memory as a whole. */
static int flush(struct heat *h)
{
	if (h->html.err)
		return h->html.err;
	if (h->html.len)
		fwrite(h->html.s, 1, h->html.len, h->out);
	strbuf__clear(&h->html);
	return 0;
}

/* The source, or why there is none. 0 or -ENOMEM. */
static int load_rows(struct heat *h, uint32_t file, struct rows *r)
{
	struct stat st;
	int err = read_source(h, file, &st);

	if (err == -ENOMEM)
		return err;
	if (err) {
		r->why = why_not(err);
	} else {
		r->newer = (uint64_t)st.st_mtim.tv_sec > h->p->stats.start_unix_ns / 1000000000;
		err = split_lines(&h->text, r);
		if (err)
			return err;
	}
	return choose_rows(h, &h->files[file], r);
}

static int write_file(struct heat *h, uint32_t number)
{
	const struct file_sum *f = &h->files[h->order[number]];
	struct rows r = { 0 };
	int err = load_rows(h, h->order[number], &r);

	if (!err) {
		strbuf__addf(&h->html, "<details id=\"f%u\"%s><summary><b>", number,
			     number < 3 ? " open" : "");
		add_path(h, f);
		strbuf__addf(&h->html,
			     "</b><span>self %.1f%%</span><span>total %.1f%%</span></summary>\n",
			     text_percent(f->self, h->total), text_percent(f->total, h->total));
		if (r.why) {
			strbuf__addz(&h->html, "<p>The source is not shown: ");
			page_add_html(&h->html, r.why, strlen(r.why));
			strbuf__addz(&h->html, ".</p>\n");
		}
		if (r.newer)
			strbuf__addz(&h->html,
				     "<p>The file was changed after sampling began: its "
				     "lines may be others than those that were executed.</p>\n");
		add_rows(h, f, &r);
		strbuf__addz(&h->html, "</details>\n");
		err = flush(h);
	}
	rows__free(&r);
	return err;
}

/* ---- The page ---- */

static void add_overview(struct heat *h)
{
	static const char *const origins[] = {
		[ORIGIN_OWN] = "Own code",
		[ORIGIN_PACKAGE] = "Packages",
		[ORIGIN_STDLIB] = "Standard library",
	};

	if (!h->file_cnt) {
		strbuf__addz(&h->html, "<p>No stack has a line of Python code.</p>\n");
		return;
	}
	strbuf__addz(&h->html,
		     "<div class=\"files\"><table><tr><th>Self</th><th>Total</th><th></th>"
		     "<th>File</th></tr>\n");
	for (size_t i = 0; i < shown_files(h); i++) {
		const struct file_sum *f = &h->files[h->order[i]];
		enum origin origin = origin_of_file(h, h->order[i]);

		if (!i || origin != origin_of_file(h, h->order[i - 1]))
			strbuf__addf(&h->html,
				     "<tr class=\"origin\"><th colspan=\"4\">%s</th></tr>\n",
				     origins[origin]);
		strbuf__addz(&h->html, "<tr>");
		add_percent(h, f->self);
		add_percent(h, f->total);
		add_meter(h, f->self, f->total, h->total);
		strbuf__addf(&h->html, "<td><a href=\"#f%zu\">", i);
		add_path(h, f);
		strbuf__addz(&h->html, "</a></td></tr>\n");
	}
	strbuf__addz(&h->html, "</table>");
	if (h->file_cnt > FILES_MAX)
		strbuf__addf(&h->html, "<p>and %zu more files</p>", h->file_cnt - FILES_MAX);
	strbuf__addz(&h->html, "</div>\n");
}

static int write_files(struct heat *h)
{
	int err;

	add_overview(h);
	err = flush(h);
	for (size_t i = 0; i < shown_files(h) && !err && !ferror(h->out); i++)
		err = write_file(h, (uint32_t)i);
	return err;
}

static int fill(void *ctx, const char *word, size_t len, FILE *out)
{
	struct heat *h = ctx;

	h->out = out;
	if (len == strlen("files") && !memcmp(word, "files", len))
		return write_files(h);
	page_add_word(&h->html, h->p, word, len);
	return flush(h);
}

int export__lines(const struct profile *p, const struct export_opts *o, FILE *f)
{
	struct heat h = { .p = p,
			  .live = o->live,
			  .readers = o->readers,
			  .total = profile__total(p),
			  .key = hash_key() };
	int err = count_all(&h);

	if (!err)
		err = page_write(page_lines, fill, &h, f);
	hash_index__free(&h.file_index);
	hash_index__free(&h.line_index);
	hash_index__free(&h.place_index);
	free(h.files);
	free(h.lines);
	free(h.places);
	free(h.order);
	strbuf__free(&h.html);
	strbuf__free(&h.text);
	return err;
}
