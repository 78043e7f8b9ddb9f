/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "profile/moved.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "profile/export_text.h"
#include "profile/origin.h"

#define NAMESAKES_MAX 64  /* files of one name that are compared with each other */
#define CHECKS_MAX    256 /* files that are matched by name alone */
#define MOVES_MAX     64  /* pairs of directories that are counted */

/* A file that one of the profiles names. */
struct place {
	str_id id;
	bool library; /* native */
	const char *path, *base;
	struct place *other; /* the same in the other profile */
};

struct places {
	const struct profile *p;
	struct place *v;
	size_t cnt, cap;
};

/* From one directory to another. */
struct move {
	const char *from, *to; /* parts of strings of the profiles */
	size_t from_len, to_len;
	size_t files;
};

struct matcher {
	struct places before, after;
	struct move moves[MOVES_MAX];
	size_t move_cnt;
	unsigned checks;
};

/* ---- The files of a profile ---- */

static bool has_file(const struct sym *s)
{
	return s->file && (s->kind == SYM_PYTHON || s->kind == SYM_PLAIN);
}

static int add_place(struct places *l, bool *seen, str_id id, bool library)
{
	const char *path = profile__str(l->p, id), *slash = strrchr(path, '/');

	if (seen[id] || !*path || *path == '<' || *path == '[')
		return 0;
	seen[id] = true;
	if (ARRAY_GROW(l->v, l->cap, l->cnt, INT_MAX))
		return -ENOMEM;
	l->v[l->cnt++] = (struct place){
		.id = id, .library = library, .path = path, .base = slash ? slash + 1 : path
	};
	return 0;
}

static int find_places(struct places *l, const struct profile *p)
{
	bool *seen = calloc(strtab__count(p->strings) + 1, sizeof(*seen));
	int err = seen ? 0 : -ENOMEM;

	l->p = p;
	for (size_t i = 0; i < p->sym_cnt && !err; i++)
		if (has_file(&p->syms[i]))
			err = add_place(l, seen, p->syms[i].file, false);
	for (size_t i = 0; i < p->module_cnt && !err; i++)
		err = add_place(l, seen, p->modules[i].path, true);
	free(seen);
	return err;
}

/* ---- Pairs ---- */

typedef const char *key_fn(const struct place *pl);

static const char *whole_path(const struct place *pl)
{
	return pl->path;
}

/* As the import statement says it; "" if that is not known. */
static const char *import_path(const struct place *pl)
{
	const char *site = origin_in_site(pl->path), *relative;

	if (site || pl->library)
		return site ? site : pl->base;
	relative = origin_relative(pl->path);
	return relative == pl->path ? "" : relative;
}

static const char *file_name(const struct place *pl)
{
	return pl->base;
}

static int cmp_places(const struct place *a, const struct place *b, key_fn *key)
{
	int d = strcmp(key(a), key(b));

	return d ? d : (int)a->library - (int)b->library;
}

static int cmp_by(const void *a, const void *b, void *key)
{
	const struct place *pa = *(struct place *const *)a, *pb = *(struct place *const *)b;
	int d = cmp_places(pa, pb, *(key_fn **)key);

	return d ? d : strcmp(pa->path, pb->path);
}

/*
 * The unmatched places with a key, in the order of the key. The caller frees the list. NULL: no
 * memory.
 */
static struct place **sorted_by(struct places *l, key_fn *key, size_t *cnt)
{
	struct place **order = calloc(l->cnt + 1, sizeof(*order));

	*cnt = 0;
	for (size_t i = 0; order && i < l->cnt; i++)
		if (!l->v[i].other && *key(&l->v[i]))
			order[(*cnt)++] = &l->v[i];
	if (order)
		qsort_r(order, *cnt, sizeof(*order), cmp_by, &key);
	return order;
}

static void pair(struct place *a, struct place *b)
{
	a->other = b;
	b->other = a;
}

/* A rule for the places with one key, before and after. */
typedef void rule_fn(struct matcher *m, struct place **b, size_t b_cnt, struct place **a,
		     size_t a_cnt);

/* ---- Rules ---- */

static void pair_unique(struct matcher *m, struct place **b, size_t b_cnt, struct place **a,
			size_t a_cnt)
{
	(void)m;
	if (b_cnt == 1 && a_cnt == 1)
		pair(*b, *a);
}

/* Bytes at the end of both paths that are whole components: "/shop/cart.py". */
static size_t common_tail(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b), n = 0, tail = 0;

	while (n < la && n < lb && a[la - n - 1] == b[lb - n - 1])
		if (a[la - ++n] == '/')
			tail = n;
	return n == la && n == lb ? n : tail;
}

/* The place that has most in common with `pl`; NULL: none has a directory, or several have. */
static struct place *nearest(const struct place *pl, struct place **v, size_t cnt)
{
	struct place *best = NULL;
	size_t most = strlen(pl->base) + 1; /* with its '/': the name alone */

	for (size_t i = 0; i < cnt; i++) {
		size_t tail = v[i]->other ? 0 : common_tail(pl->path, v[i]->path);

		if (tail > most || (tail == most && best)) {
			best = tail == most ? NULL : v[i];
			most = tail;
		}
	}
	return best;
}

/* The functions of a file: by the number of their name, whether it has one. NULL: no memory. */
static bool *functions_of(const struct profile *p, str_id file)
{
	bool *has = calloc(strtab__count(p->strings) + 1, sizeof(*has));

	for (size_t i = 0; has && i < p->sym_cnt; i++)
		if (p->syms[i].file == file && has_file(&p->syms[i]))
			has[p->syms[i].func] = p->syms[i].func; /* 0: it has no name */
	return has;
}

/*
 * A function of one is in the other, too; that every module has code of its own says nothing. Files
 * may have a million functions each. Without memory: no.
 */
static bool share_function(struct matcher *m, const struct place *b, const struct place *a)
{
	const struct profile *p = m->before.p, *after = m->after.p;
	bool found = false, *has;

	if (++m->checks > CHECKS_MAX)
		return false;
	has = functions_of(after, a->id);
	for (size_t i = 0; has && i < p->sym_cnt && !found; i++) {
		const char *func = profile__str(p, p->syms[i].func);
		size_t len = profile__str_len(p, p->syms[i].func);

		if (p->syms[i].file == b->id && has_file(&p->syms[i]) && *func != '<')
			found = has[strtab__find(after->strings, func, len)];
	}
	free(has);
	return found;
}

static void pair_nearest(struct matcher *m, struct place **b, size_t b_cnt, struct place **a,
			 size_t a_cnt)
{
	if (b_cnt > NAMESAKES_MAX || a_cnt > NAMESAKES_MAX)
		return;
	for (size_t i = 0; i < b_cnt; i++) {
		struct place *near = nearest(b[i], a, a_cnt);

		if (near && nearest(near, b, b_cnt) == b[i])
			pair(b[i], near);
	}
	if (b_cnt == 1 && a_cnt == 1 && !b[0]->other && share_function(m, b[0], a[0]))
		pair(b[0], a[0]);
}

/* The end of the places with the same key. */
static size_t same_key(struct place **v, size_t i, size_t cnt, key_fn *key)
{
	size_t end = i + 1;

	while (end < cnt && !cmp_places(v[i], v[end], key))
		end++;
	return end;
}

static int match_by(struct matcher *m, key_fn *key, rule_fn *rule)
{
	size_t b_cnt, a_cnt, b = 0, a = 0;
	struct place **before = sorted_by(&m->before, key, &b_cnt);
	struct place **after = sorted_by(&m->after, key, &a_cnt);

	while (before && after && b < b_cnt && a < a_cnt) {
		int d = cmp_places(before[b], after[a], key);
		size_t b_end = same_key(before, b, b_cnt, key);
		size_t a_end = same_key(after, a, a_cnt, key);

		if (!d)
			rule(m, before + b, b_end - b, after + a, a_end - a);
		b = d <= 0 ? b_end : b;
		a = d >= 0 ? a_end : a;
	}
	free(before);
	free(after);
	return before && after ? 0 : -ENOMEM;
}

/* ---- The outcome ---- */

static void count_move(struct matcher *m, const struct place *b)
{
	const char *from = b->path, *to = b->other->path;
	size_t tail = common_tail(from, to), i;
	struct move x = { from, to, strlen(from) - tail, strlen(to) - tail, 1 };

	for (i = 0; i < m->move_cnt; i++)
		if (m->moves[i].from_len == x.from_len && m->moves[i].to_len == x.to_len &&
		    !memcmp(m->moves[i].from, from, x.from_len) &&
		    !memcmp(m->moves[i].to, to, x.to_len))
			break;
	if (i < m->move_cnt)
		m->moves[i].files++;
	else if (m->move_cnt < MOVES_MAX)
		m->moves[m->move_cnt++] = x;
}

static int cmp_moves(const void *a, const void *b)
{
	const struct move *ma = a, *mb = b;

	return ma->files != mb->files ? (ma->files > mb->files ? -1 : 1)
				      : strcmp(ma->from, mb->from);
}

static void say_moves(struct matcher *m, struct strbuf *said)
{
	qsort(m->moves, m->move_cnt, sizeof(*m->moves), cmp_moves);
	for (size_t i = 0; i < m->move_cnt && i < MOVED_SHOWN; i++) {
		strbuf__addz(said, i ? ", " : "");
		str_sanitise(said, m->moves[i].from, m->moves[i].from_len, TEXT_PATH_MAX);
		strbuf__addz(said, " -> ");
		str_sanitise(said, m->moves[i].to, m->moves[i].to_len, TEXT_PATH_MAX);
	}
	if (m->move_cnt > MOVED_SHOWN)
		strbuf__addz(said, ", ...");
}

/* new_id[path] = the path that takes its place; 0: it stays. */
static void rename_all(struct profile *p, const str_id *new_id)
{
	for (size_t i = 0; i < p->sym_cnt; i++)
		if (has_file(&p->syms[i]) && new_id[p->syms[i].file])
			p->syms[i].file = new_id[p->syms[i].file];
	for (size_t i = 0; i < p->module_cnt; i++)
		if (new_id[p->modules[i].path])
			p->modules[i].path = new_id[p->modules[i].path];
}

static int take_matches(struct matcher *m, struct profile *before)
{
	str_id *new_id = calloc(strtab__count(before->strings) + 1, sizeof(*new_id));
	int err = new_id ? 0 : -ENOMEM;

	for (size_t i = 0; i < m->before.cnt && !err; i++) {
		const struct place *b = &m->before.v[i];

		if (!b->other || !strcmp(b->path, b->other->path))
			continue;
		count_move(m, b);
		new_id[b->id] = profile__intern_z(before, b->other->path);
		err = new_id[b->id] ? 0 : -ENOMEM;
	}
	if (!err)
		rename_all(before, new_id);
	free(new_id);
	return err;
}

int moved__match(struct profile *before, const struct profile *after, struct strbuf *said)
{
	struct matcher *m = calloc(1, sizeof(*m));
	int err = m ? find_places(&m->before, before) : -ENOMEM;

	if (!err)
		err = find_places(&m->after, after);
	if (!err)
		err = match_by(m, whole_path, pair_unique);
	if (!err)
		err = match_by(m, import_path, pair_unique);
	if (!err)
		err = match_by(m, file_name, pair_nearest);
	if (!err)
		err = take_matches(m, before);
	if (!err)
		say_moves(m, said);
	if (m) {
		free(m->before.v);
		free(m->after.v);
	}
	free(m);
	return err ? err : said->err;
}

/* ---- --trim-path ---- */

/* Behind the directory, if the path is in it. */
static const char *behind(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	while (len && dir[len - 1] == '/')
		len--;
	if (!len || strncmp(path, dir, len) != 0 || path[len] != '/')
		return NULL;
	path += len + strspn(path + len, "/");
	return *path ? path : NULL;
}

int moved__trim(struct profile *p, const char *const *dirs, size_t cnt)
{
	struct places l = { 0 };
	int err = find_places(&l, p);
	str_id *new_id = err ? NULL : calloc(strtab__count(p->strings) + 1, sizeof(*new_id));

	err = err || new_id ? err : -ENOMEM;
	for (size_t i = 0; i < l.cnt && !err; i++) {
		const char *rest = NULL;

		for (size_t d = 0; d < cnt && !rest; d++)
			rest = behind(profile__str(p, l.v[i].id), dirs[d]);
		if (!rest)
			continue;
		new_id[l.v[i].id] = profile__intern(p, rest, strlen(rest));
		err = new_id[l.v[i].id] ? 0 : -ENOMEM;
	}
	if (!err)
		rename_all(p, new_id);
	free(new_id);
	free(l.v);
	return err;
}
