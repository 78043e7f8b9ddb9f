/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Names of native functions for people: those that Cython and mypyc make of Python functions, and
 * parts of one function that a linker named by itself.
 *
 *	__pyx_pw_3pkg_3mod_3Cls_5method		Cls.method (mod.pyx)
 *	__pyx_gb_3pkg_3mod_6generator1		generator1 (mod.pyx)
 *	CPyDef_Cls___method			Cls.method (mod.py)
 *	work.cold.0, work.llvm.4711		work
 *
 * A name of Cython is a prefix for the kind of the function, the scopes around it, each with its
 * length, and the name of the function, behind a number for Python functions (Symtab.py, Naming.py
 * and Nodes.py of Cython). The path of the file tells which of the scopes are packages and the
 * module. A wrapper and what it wraps have one name. Of two readings, that one is right by which
 * the file has the wrapper, or what it wraps, too. What has no reading, or still two, stays.
 */
#include "symbolize/symbolize.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SCOPES_MAX    16
#define SCOPE_DIGITS  3 /* of the length of a scope's name */
#define NUMBER_DIGITS 9

struct text {
	const char *s;
	size_t len;
};

static bool is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static bool is_identifier(struct text t)
{
	if (!t.len || isdigit((unsigned char)t.s[0]))
		return false;
	for (size_t i = 0; i < t.len; i++)
		if (!is_name_char(t.s[i]))
			return false;
	return true;
}

static struct text skip(struct text t, size_t len)
{
	return (struct text){ t.s + len, t.len - len };
}

static bool take_prefix(struct text *t, const char *prefix)
{
	size_t len = strlen(prefix);

	if (t->len < len || memcmp(t->s, prefix, len))
		return false;
	*t = skip(*t, len);
	return true;
}

static size_t digits(struct text t)
{
	size_t n = 0;

	while (n < t.len && isdigit((unsigned char)t.s[n]))
		n++;
	return n;
}

/* ---- Paths ---- */

/* Takes the last component off `path`. */
static struct text take_last(struct text *path)
{
	const char *slash = path->len ? memrchr(path->s, '/', path->len) : NULL;
	size_t start = slash ? (size_t)(slash - path->s) + 1 : 0;
	struct text last = skip(*path, start);

	path->len = slash ? start - 1 : 0;
	return last;
}

/* "/lib/pkg/mod.cpython-313-x86_64-linux-gnu.so": "mod"; `dir` becomes "/lib/pkg". */
static struct text module_of(const char *path, struct text *dir)
{
	struct text base;
	const char *dot;

	*dir = (struct text){ path, strnlen(path, SYM_NAME_MAX) };
	base = take_last(dir);
	dot = base.len ? memchr(base.s, '.', base.len) : NULL;
	if (dot)
		base.len = (size_t)(dot - base.s);
	return base;
}

static bool same(struct text a, struct text b)
{
	return a.len == b.len && !memcmp(a.s, b.s, a.len);
}

/* Are the scopes the module of the file and the packages around it? */
static bool is_module(const struct text *scopes, size_t cnt, const char *path)
{
	struct text dir, name = module_of(path, &dir);

	while (cnt-- && same(scopes[cnt], name)) {
		if (!cnt)
			return true;
		name = take_last(&dir);
	}
	return false;
}

static void add_text(struct strbuf *b, struct text t)
{
	strbuf__add(b, t.s, t.len);
}

static void add_file(struct strbuf *b, struct text module, const char *suffix)
{
	strbuf__addz(b, " (");
	add_text(b, module);
	strbuf__addz(b, suffix);
}

/* ---- Cython ---- */

/* "3Cls_...": takes the scope and moves on. */
static bool take_scope(struct text *t, struct text *scope)
{
	size_t cnt = digits(*t), len = 0;

	if (!cnt || cnt > SCOPE_DIGITS || t->s[0] == '0')
		return false;
	for (size_t i = 0; i < cnt; i++)
		len = len * 10 + (size_t)(t->s[i] - '0');
	if (t->len - cnt <= len || t->s[cnt + len] != '_')
		return false;
	*scope = (struct text){ t->s + cnt, len };
	if (!is_identifier(*scope))
		return false;
	*t = skip(*t, cnt + len + 1);
	return true;
}

/*
 * "__pyx_fuse_0" for each variant of a function with fused types; false: it cannot be told from the
 * name.
 */
static bool take_variant(struct text *name)
{
	size_t cnt;

	if (!take_prefix(name, "__pyx_fuse_"))
		return true;
	cnt = digits(*name);
	*name = skip(*name, cnt);
	return cnt && !(name->len > 1 && name->s[0] == '_' && isdigit((unsigned char)name->s[1]));
}

/* A name and its scopes, with the rest of the text behind each of them. */
struct reading {
	struct text scopes[SCOPES_MAX], rest[SCOPES_MAX];
	size_t cnt, module; /* scopes; those of them up to the module */
	struct text name;
};

static bool read_scopes(struct reading *r, struct text t, const char *path)
{
	r->cnt = r->module = 0;
	while (r->cnt < SCOPES_MAX && take_scope(&t, &r->scopes[r->cnt])) {
		r->rest[r->cnt++] = t;
		if (is_module(r->scopes, r->cnt, path))
			r->module = r->cnt;
	}
	return r->module != 0;
}

/* Functions of C have no number, so a digit begins a scope. */
static bool read_c_function(struct reading *r)
{
	r->name = r->rest[r->cnt - 1];
	return is_identifier(r->name);
}

/* A Python function: a wrapper, or what it wraps. */
struct python_name {
	struct text head; /* before "__pyx_pw_" or "__pyx_pf_" */
	struct text path; /* behind it: the scopes, the number and the name */
	bool wrapper, generator;
	const struct sym_peers *peers; /* or NULL */
};

/* The reading with `cnt` scopes: the rest is a number, which may be missing, and a name. */
static bool split_rest(const struct reading *r, size_t cnt, uint64_t *number, struct text *name)
{
	struct text rest = r->rest[cnt - 1];
	size_t len = digits(rest);

	*name = skip(rest, len);
	if (len > NUMBER_DIGITS || (len && rest.s[0] == '0'))
		return false;
	*number = len ? strtoull(rest.s, NULL, 10) : 0;
	return is_identifier(*name);
}

/*
 * A wrapper gets the number behind that of what it wraps, in the same scopes: is it in the file, or
 * what this one wraps?
 */
static bool has_peer(const struct python_name *p, const struct reading *r, size_t cnt)
{
	struct strbuf b = { 0 };
	struct text name;
	uint64_t number;
	bool has;

	if (!p->peers || p->generator || !split_rest(r, cnt, &number, &name) ||
	    (p->wrapper && !number))
		return false;
	add_text(&b, p->head);
	strbuf__addz(&b, p->wrapper ? "__pyx_pf_" : "__pyx_pw_");
	strbuf__add(&b, p->path.s, (size_t)(r->rest[cnt - 1].s - p->path.s));
	number += p->wrapper ? -1 : 1;
	if (number)
		strbuf__addf(&b, "%" PRIu64, number);
	add_text(&b, name);
	has = !b.err && p->peers->has(p->peers->ctx, b.s);
	strbuf__free(&b);
	return has;
}

/* Of several readings: the only one that has a peer. */
static bool settle(struct reading *r, const struct python_name *p)
{
	uint64_t number;
	size_t found = 0;

	for (size_t cnt = r->module; cnt <= r->cnt; cnt++) {
		if (!has_peer(p, r, cnt))
			continue;
		if (found)
			return false;
		found = cnt;
	}
	r->cnt = found;
	return found && split_rest(r, found, &number, &r->name);
}

/*
 * The wrapper of a Python function always has a number, of 1 or more; what it wraps has none if it
 * is the first thing in its scope. "3get_item" is therefore function "get_item" with number 3 when
 * it is a wrapper, and may also be "item" in "get" when it is not. "3get_1d" has two readings as
 * well.
 */
static bool read_python_function(struct reading *r, const struct python_name *p)
{
	bool wrapper = p->wrapper;

	for (; r->cnt >= r->module; r->cnt--) {
		struct text rest = r->rest[r->cnt - 1];
		size_t cnt = digits(rest);

		r->name = skip(rest, cnt);
		if (!cnt && r->cnt > r->module && !wrapper)
			return settle(r, p);
		if ((cnt || !wrapper) && is_identifier(r->name))
			return r->cnt == r->module || r->name.len > 1 || settle(r, p);
	}
	return false;
}

static void add_cython(struct strbuf *b, const struct reading *r)
{
	for (size_t i = r->module; i < r->cnt; i++) {
		add_text(b, r->scopes[i]);
		strbuf__addc(b, '.');
	}
	add_text(b, r->name);
	add_file(b, r->scopes[r->module - 1], ".pyx)");
}

/* The code of a module itself. */
static bool add_cython_module(struct strbuf *b, struct text name, const char *path)
{
	if (!is_identifier(name) || !is_module(&name, 1, path))
		return false;
	strbuf__addz(b, "<module>");
	add_file(b, name, ".pyx)");
	return true;
}

static bool add_cython_name(struct strbuf *b, struct text t, const char *path,
			    const struct sym_peers *peers)
{
	struct python_name p = { .peers = peers };
	struct reading r;
	struct text outer = t;
	bool python;

	if (take_prefix(&t, "__pyx_pymod_exec_"))
		return add_cython_module(b, t, path);
	if (take_prefix(&t, "__pyx_fuse_")) {
		while (digits(t)) {
			t = skip(t, digits(t));
			if (t.len > 1 && t.s[0] == '_' && isdigit((unsigned char)t.s[1]))
				t = skip(t, 1);
		}
	} else {
		t = outer;
		take_prefix(&t, "__pyx_specialmethod_");
	}
	p.head = (struct text){ outer.s, (size_t)(t.s - outer.s) };
	p.wrapper = take_prefix(&t, "__pyx_pw_");
	/* The body of a generator has a number only: its function's name is not in it. */
	p.generator = !p.wrapper && take_prefix(&t, "__pyx_gb_");
	python = p.wrapper || p.generator || take_prefix(&t, "__pyx_pf_");
	p.path = t;
	if ((!python && !take_prefix(&t, "__pyx_f_")) || !read_scopes(&r, t, path))
		return false;
	if (!(python ? read_python_function(&r, &p) : read_c_function(&r)) ||
	    !take_variant(&r.name) || !is_identifier(r.name))
		return false;
	if (p.generator && !take_prefix(&(struct text){ r.name.s, r.name.len }, "generator"))
		return false;
	add_cython(b, &r);
	return true;
}

/* ---- mypyc ---- */

/*
 * A dot became three underscores, and three underscores "___3_" (mypyc/namegen.py). Names that end
 * in an underscore before a dot read as if the next one began with it.
 */
static bool add_dotted(struct strbuf *b, struct text t)
{
	bool empty = true;

	while (t.len) {
		if (take_prefix(&t, "___3_")) {
			strbuf__addz(b, "___");
		} else if (!empty && take_prefix(&t, "___")) {
			strbuf__addc(b, '.');
			empty = true;
			continue;
		} else {
			strbuf__addc(b, t.s[0]);
			t = skip(t, 1);
		}
		empty = false;
	}
	return !empty;
}

static void drop_suffix(struct text *t, const char *suffix)
{
	size_t len = strlen(suffix);

	if (t->len >= len && !memcmp(t->s + t->len - len, suffix, len))
		t->len -= len;
}

/*
 * Modules compiled together are in a library of another name; theirs stands in front of the
 * function's. What a generator runs is a method of a class that mypyc made for it, "NAME_gen"
 * (mypyc/irbuild/generator.py).
 */
static bool add_mypyc_name(struct strbuf *b, struct text t, const char *path)
{
	static const char shared[] = "__mypyc", top[] = "__top_level__";
	struct text dir, module = module_of(path, &dir), scope;
	size_t len = strlen(shared);
	bool is_shared = module.len >= len && !memcmp(module.s + module.len - len, shared, len);

	if (!take_prefix(&t, "CPyDef_") && !take_prefix(&t, "CPyPy_"))
		return false;
	if (!is_identifier(t) || !module.len)
		return false;
	drop_suffix(&t, "_gen_____mypyc_generator_helper__");
	scope = t;
	drop_suffix(&scope, is_shared ? "_____top_level__" : top);
	if (scope.len < t.len && !scope.len == !is_shared) {
		add_dotted(b, scope);
		strbuf__addz(b, is_shared ? ".<module>" : "<module>");
	} else if (!add_dotted(b, t)) {
		return false;
	}
	if (!is_shared)
		add_file(b, module, ".py)");
	return true;
}

/* ---- All of them ---- */

/*
 * The suffixes that compilers and linkers append to the name of a function that they copy or split.
 */
static const char *const suffixes[] = {
	".cold", ".warm", ".llvm", ".part", ".isra", ".constprop", ".lto_priv",
};

/* The length of `name` without ".cold", ".cold.0" or "/1" at its end. */
static size_t without_part(const char *name, size_t len)
{
	size_t end = len;

	while (end && isdigit((unsigned char)name[end - 1]))
		end--;
	if (end > 1 && end < len && name[end - 1] == '/')
		return end - 1;
	end = end > 1 && end < len && name[end - 1] == '.' ? end - 1 : len;
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(*suffixes); i++) {
		size_t part = strlen(suffixes[i]);

		if (end > part && !memcmp(name + end - part, suffixes[i], part))
			return end - part;
	}
	return len;
}

static void cut(struct strbuf *b, size_t len)
{
	if (b->len > len) {
		b->len = len;
		b->s[len] = '\0';
	}
}

void sym_native_name(struct strbuf *b, const char *symbol, const char *path,
		     const struct sym_peers *peers)
{
	size_t len = strnlen(symbol, SYM_NAME_MAX), start = b->len, kept = len, last;
	struct text t = { symbol, len };
	char name[SYM_NAME_MAX + 1];
	const char *dot = memchr(symbol, '.', len);

	if (dot) /* ".isra.0", ".cold": parts of the same Python function */
		t.len = (size_t)(dot - symbol);
	if (add_cython_name(b, t, path, peers) || (cut(b, start), add_mypyc_name(b, t, path)))
		return;
	cut(b, start);
	do {
		last = kept;
		kept = without_part(symbol, kept);
	} while (kept < last);
	if (kept == len) {
		sym_demangle(b, symbol);
		return;
	}
	memcpy(name, symbol, kept);
	name[kept] = '\0';
	sym_demangle(b, name);
}
