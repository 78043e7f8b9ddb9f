/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "profile/inside.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "profile/export_stacks.h"
#include "profile/origin.h"

#define ARRAY_SIZE(a)  (sizeof(a) / sizeof((a)[0]))
#define NAME_MAX_SHOWN 1024 /* bytes of a caller's name */

struct insider {
	const struct profile *p;
	struct profile *v;
	struct hash_key key;
	struct hash_index syms; /* of those that were made, by (name, module) */
};

bool inside_is_unnamed(const struct profile *p, const struct sym *s)
{
	const char *func = profile__str(p, s->func), *plus = strstr(func, "+0x");

	if (s->kind != SYM_NATIVE)
		return false;
	return !*func ||
	       (plus && plus > func && strspn(plus + 3, "0123456789abcdef") == strlen(plus + 3));
}

/* Calls what it is given: true of any code below it. */
static bool only_calls(const char *func)
{
	static const char *const starts[] = {
		"PyObject_Call",
		"PyObject_Vectorcall",
		"_PyObject_Call",
		"_PyObject_MakeTpCall",
		"_PyEval_",
		"PyEval_",
		"_PyFunction_",
		"_PyVectorcall",
		"PyVectorcall",
		"PyCFunction_Call",
		"_PyObject_FastCall",
		"_PyRun_",
		"PyRun_",
		"cfunction_",
		"method_vectorcall",
		"builtins.exec",
	};

	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		if (!strncmp(func, starts[i], strlen(starts[i])))
			return true;
	return strstr(func, "(tp_call)") || origin_is_start(func) || origin_is_main(func);
}

/* The nearest native caller of the innermost frame that has a name to show, or NULL. */
static const struct sym *find_caller(const struct profile *p, const uint32_t *frames, uint32_t cnt)
{
	for (uint32_t i = cnt - 1; i-- > 0;) {
		const struct sym *s = export_sym(p, frames[i]);

		if (s->kind != SYM_NATIVE)
			return NULL;
		if (!inside_is_unnamed(p, s) && !only_calls(profile__str(p, s->func)))
			return s;
	}
	return NULL;
}

const struct sym *inside_caller(const struct profile *p, const uint32_t *frames, uint32_t cnt)
{
	if (cnt < 2 || !inside_is_unnamed(p, export_sym(p, frames[cnt - 1])))
		return NULL;
	return find_caller(p, frames, cnt);
}

/* The sym "inside CALLER" of the leaf's module; UINT32_MAX: no memory. */
static uint32_t inside_sym(struct insider *in, const struct sym *leaf, const struct sym *caller)
{
	struct profile *v = in->v;
	struct strbuf b = { 0 };
	size_t len = profile__str_len(v, caller->func);
	str_id name = 0;
	uint32_t i;
	uint64_t hash;

	strbuf__addz(&b, "inside ");
	strbuf__add(&b, profile__str(v, caller->func), len < NAME_MAX_SHOWN ? len : NAME_MAX_SHOWN);
	if (!b.err)
		name = profile__intern(v, b.s, b.len);
	strbuf__free(&b);
	if (!name)
		return UINT32_MAX;
	hash = hash_bytes(&in->key, &(uint32_t[]){ name, (uint32_t)leaf->module },
			  2 * sizeof(uint32_t));
	for (size_t at = 0; (i = hash_index__next(&in->syms, hash, &at)) != HASH_NONE;)
		if (v->syms[i].func == name && v->syms[i].module == leaf->module)
			return i;
	i = (uint32_t)v->sym_cnt;
	if (ARRAY_GROW(v->syms, v->sym_cap, v->sym_cnt, INT_MAX) ||
	    hash_index__add(&in->syms, hash, i))
		return UINT32_MAX;
	v->syms[v->sym_cnt++] = (struct sym){
		.kind = SYM_NATIVE, .func = name, .module = leaf->module, .inlined = -1
	};
	return i;
}

static int view_stack(struct insider *in, const struct profile_stack *s)
{
	uint32_t *frames = in->v->frame_syms + s->first;
	uint32_t cnt = profile__stack_frames(in->p, s), sym;
	const struct sym *caller = inside_caller(in->p, in->p->frame_syms + s->first, cnt);

	if (!caller)
		return 0;
	sym = inside_sym(in, export_sym(in->p, in->p->frame_syms[s->first + cnt - 1]), caller);
	if (sym == UINT32_MAX)
		return -1;
	frames[cnt - 1] = sym;
	return 0;
}

static int fill_view(struct insider *in)
{
	const struct profile *p = in->p;

	in->v->syms = calloc(p->sym_cnt + 1, sizeof(*p->syms));
	in->v->frame_syms = calloc(p->frame_cnt + 1, sizeof(*p->frame_syms));
	if (!in->v->syms || !in->v->frame_syms)
		return -1;
	in->v->sym_cap = p->sym_cnt + 1;
	if (p->sym_cnt)
		memcpy(in->v->syms, p->syms, p->sym_cnt * sizeof(*p->syms));
	if (p->frame_cnt)
		memcpy(in->v->frame_syms, p->frame_syms, p->frame_cnt * sizeof(*p->frame_syms));
	for (size_t i = 0; i < p->stack_cnt; i++)
		if (view_stack(in, &p->stacks[i]))
			return -1;
	return 0;
}

const struct profile *inside__view(const struct profile *p)
{
	struct insider in = { .p = p, .key = hash_key() };

	if (!p->frame_syms)
		return p;
	in.v = malloc(sizeof(*in.v));
	if (!in.v)
		return NULL;
	*in.v = *p;
	in.v->frames = NULL;
	in.v->frame_syms = NULL;
	in.v->syms = NULL;
	if (fill_view(&in)) {
		profile__free_view(in.v, p);
		in.v = NULL;
	}
	hash_index__free(&in.syms);
	return in.v;
}
