/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Puts frames of compiled Python at the native functions that run them. A walk cannot tell which
 * these are (MARK_PY_COMPILED), but Nuitka's names do (nuitka/nodes/FunctionNodes.py,
 * code_generation/templates/CodeTemplatesFunction.py, CodeTemplatesModules.py):
 *
 *	impl_MODULE$$$function__3_area				area
 *	impl_MODULE$$$function__3_area$$$function__1_lambda	<lambda>, in area
 *	MODULE$$$function__4_pieces$$$genobj__1_pieces_context	pieces, a generator
 *	module_code_MODULE, modulecode_MODULE			<module>
 *
 * A function pushes the frame of its name, so both are in the same order: from the outermost on,
 * each function is the next frame of its name. Functions that have none have not pushed it yet,
 * or popped it already. Frames that have none are in the function of the frame outwards, if they
 * are of the same source file: class bodies, comprehensions, what the C compiler inlined. Of
 * others nothing is known: then all of them stay outwards of the marker.
 */
#include "symbolize/symbolize.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PARTS "$$$"

/* A stack, outermost first. Around a marker: compiled frames from `first`, native ones to `end`. */
struct place {
	const struct profile *p;
	const uint64_t *words;
	const uint32_t *syms;
	uint32_t first, marker, end;
	uint32_t *at; /* of each compiled frame: which native frame, an index in the stack */
};

struct name {
	const char *s;
	size_t len;
};

static bool is_compiled_frame(uint64_t word)
{
	return FRAME_TAG(word) == FRAME_PYTHON && OFFSET_HAS_LINE(PYTHON_OFFSET(word));
}

/* ---- Names ---- */

static bool drop_end(struct name *n, const char *suffix)
{
	size_t len = strlen(suffix);

	if (n->len <= len || memcmp(n->s + n->len - len, suffix, len) != 0)
		return false;
	n->len -= len;
	return true;
}

/* "KIND__N_NAME": NAME. */
static bool take_name(struct name *n)
{
	size_t at = 0, digits;

	while (at < n->len && islower((unsigned char)n->s[at]))
		at++;
	if (!at || n->len - at < 2 || memcmp(n->s + at, "__", 2) != 0)
		return false;
	for (digits = at += 2; at < n->len && isdigit((unsigned char)n->s[at]); at++)
		;
	if (at == digits || at + 1 >= n->len || n->s[at] != '_')
		return false;
	*n = (struct name){ n->s + at + 1, n->len - at - 1 };
	return true;
}

/* What the native function runs, without "<" and ">". */
static bool nuitka_name(const char *func, struct name *n)
{
	const char *last = NULL;

	if (str_starts_with(func, "module_code_") || str_starts_with(func, "modulecode_")) {
		*n = (struct name){ "module", strlen("module") };
		return true;
	}
	for (const char *p = func; (p = strstr(p, PARTS)); p += strlen(PARTS))
		last = p + strlen(PARTS);
	if (!last)
		return false;
	*n = (struct name){ last, strlen(last) };
	if (!str_starts_with(func, "impl_") && !drop_end(n, "_context"))
		return false;
	return take_name(n);
}

/* "Shape.area.<locals>.<lambda>": "lambda" */
static struct name python_name(const struct profile *p, const struct sym *s)
{
	size_t len = profile__str_len(p, s->func);
	const char *func = profile__str(p, s->func), *dot = len ? memrchr(func, '.', len) : NULL;
	struct name n = { func, len };

	if (dot)
		n = (struct name){ dot + 1, (size_t)(func + len - dot - 1) };
	if (n.len > 2 && n.s[0] == '<' && n.s[n.len - 1] == '>')
		n = (struct name){ n.s + 1, n.len - 2 };
	return n;
}

static const struct sym *sym_at(const struct place *l, uint32_t i)
{
	return &l->p->syms[l->syms[i]];
}

/* ---- Places ---- */

/* The next compiled frame of this name, from `frame` on; l->marker: there is none. */
static uint32_t next_of(const struct place *l, uint32_t frame, struct name n)
{
	for (; frame < l->marker; frame++) {
		struct name other = python_name(l->p, sym_at(l, frame));

		if (other.len == n.len && !memcmp(other.s, n.s, n.len))
			break;
	}
	return frame;
}

/* The frames [from, to) are in the function of the frame outwards of them. */
static bool join(const struct place *l, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		if (i == l->first || sym_at(l, i)->file != sym_at(l, i - 1)->file)
			return false;
		l->at[i - l->first] = l->at[i - 1 - l->first];
	}
	return true;
}

/* Finds the place of each frame. False: it is not known of all. */
static bool find_places(const struct place *l)
{
	uint32_t frame = l->first, next;
	struct name n;

	for (uint32_t i = l->marker + 1; i < l->end; i++) {
		if (FRAME_TAG(l->words[i]) != FRAME_NATIVE ||
		    !nuitka_name(profile__str(l->p, sym_at(l, i)->func), &n))
			continue;
		next = next_of(l, frame, n);
		if (next == l->marker)
			continue;
		if (!join(l, frame, next))
			return false;
		l->at[next - l->first] = i;
		frame = next + 1;
	}
	return join(l, frame, l->marker);
}

/* ---- One stack ---- */

/* Room for a stack while it is made anew. */
struct made {
	uint64_t *words;
	uint32_t *syms, *at;
	uint32_t cap;
};

static int grow(struct made *m, uint32_t cnt)
{
	if (cnt <= m->cap)
		return 0;
	free(m->words);
	free(m->syms);
	free(m->at);
	m->words = calloc(cnt, sizeof(*m->words));
	m->syms = calloc(cnt, sizeof(*m->syms));
	m->at = calloc(cnt, sizeof(*m->at));
	m->cap = m->words && m->syms && m->at ? cnt : 0;
	return m->cap ? 0 : -ENOMEM;
}

/* Copies the stack up to l->end into `m`, from `cnt` on: frames in place of their functions. */
static uint32_t put_places(const struct place *l, struct made *m)
{
	uint32_t cnt = 0, frame = l->first;

	for (uint32_t i = l->marker + 1; i < l->end; i++) {
		uint32_t before = frame;

		for (; frame < l->marker && l->at[frame - l->first] == i; frame++, cnt++) {
			m->words[cnt] = l->words[frame];
			m->syms[cnt] = l->syms[frame];
		}
		if (frame > before)
			continue;
		m->words[cnt] = l->words[i];
		m->syms[cnt++] = l->syms[i];
	}
	return cnt;
}

/* The marker at `marker` of the stack. Returns where to look for the next one. */
static uint32_t place_at(struct profile *p, struct profile_stack *s, uint32_t marker,
			 struct made *m)
{
	uint64_t *words = p->frames + s->first;
	uint32_t *syms = p->frame_syms + s->first, cnt;
	struct place l = { .p = p, .words = words, .syms = syms, .marker = marker, .at = m->at };

	for (l.first = marker; l.first && is_compiled_frame(words[l.first - 1]); l.first--)
		;
	for (l.end = marker + 1; l.end < s->cnt; l.end++)
		if (FRAME_TAG(words[l.end]) == FRAME_PYTHON ||
		    FRAME_TAG(words[l.end]) == FRAME_MARKER)
			break;
	if (l.first == marker || !find_places(&l))
		return marker + 1;
	cnt = put_places(&l, m);
	memcpy(words + l.first, m->words, cnt * sizeof(*words));
	memcpy(syms + l.first, m->syms, cnt * sizeof(*syms));
	memmove(words + l.first + cnt, words + l.end, (s->cnt - l.end) * sizeof(*words));
	memmove(syms + l.first + cnt, syms + l.end, (s->cnt - l.end) * sizeof(*syms));
	s->cnt -= l.end - l.first - cnt;
	return l.first + cnt;
}

int sym_place_compiled(struct profile *p)
{
	const uint64_t marker = MARKER_WORD(MARK_PY_COMPILED, 0);
	struct made made = { 0 };
	int err = 0;

	for (size_t i = 0; i < p->stack_cnt && !err; i++) {
		struct profile_stack *s = &p->stacks[i];

		for (uint32_t at = 0; at < s->cnt && !err;) {
			if (p->frames[s->first + at] != marker)
				at++;
			else if (!(err = grow(&made, s->cnt)))
				at = place_at(p, s, at, &made);
		}
	}
	free(made.words);
	free(made.syms);
	free(made.at);
	return err;
}
