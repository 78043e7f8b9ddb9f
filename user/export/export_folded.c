/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Folded stacks: "comm;frame;frame;... COUNT", one line per distinct stack, outermost frame first.
 * The lines are sorted element by element (bytes).
 *
 * Elements are numbered in the order of their text, so sorting and merging compares numbers, and no
 * line exists as text before it is written.
 */
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "profile/export_stacks.h"
#include "profile/export_text.h"

struct folded {
	const struct profile *p;
	const struct export_opts *o;
	struct strtab *texts;
	uint32_t *rank;	 /* text -> place in order; 0 is the empty text: no element */
	uint32_t *order; /* place -> text */
	uint32_t *ids;	 /* sym -> text, then place */
	uint64_t *keys;	 /* stack -> comm << 32 | thread, as text, then as place */
};

/* A ';' separates elements, so none may hold one. */
static uint32_t intern_element(struct folded *fo, struct strbuf *b)
{
	uint32_t id;

	for (size_t i = 0; i < b->len; i++)
		if (b->s[i] == ';')
			b->s[i] = ':';
	id = b->err ? 0 : strtab__add(fo->texts, b->s, b->len);
	strbuf__clear(b);
	return id;
}

static void add_frame(struct strbuf *b, const struct folded *fo, const struct sym *s)
{
	char address[24];

	snprintf(address, sizeof(address), "0x%" PRIx64, s->addr);
	text_add_func(b, fo->p, s, address);
	if (s->kind == SYM_KERNEL) {
		strbuf__addz(b, "_[k]");
	} else if (s->kind == SYM_NATIVE) {
		if (profile__str_len(fo->p, s->file)) {
			strbuf__addz(b, " (");
			text_add_place(b, fo->p, s, fo->o->lines ? s->line : 0);
			strbuf__addc(b, ')');
		}
		strbuf__addz(b, " [");
		if (s->flags & SYM_INLINED)
			strbuf__addz(b, "inlined");
		else
			text_add_module(b, fo->p, s->module);
		strbuf__addc(b, ']');
	} else if (s->kind == SYM_PYTHON) {
		strbuf__addz(b, " (");
		if (!profile__str_len(fo->p, s->file)) /* compile(source, "", ...) */
			strbuf__addz(b, "<unknown>");
		text_add_place(b, fo->p, s, fo->o->lines ? s->line : 0);
		strbuf__addc(b, ')');
	}
}

static int intern_syms(struct folded *fo)
{
	struct strbuf b = { 0 };
	int err = 0;

	for (size_t i = 0; i <= fo->p->sym_cnt && !err; i++) {
		add_frame(&b, fo, export_sym(fo->p, (uint32_t)i));
		fo->ids[i] = intern_element(fo, &b);
		if (!fo->ids[i])
			err = -ENOMEM;
	}
	strbuf__free(&b);
	return err;
}

static uint32_t intern_comm(struct folded *fo, struct strbuf *b, const struct profile_stack *s)
{
	str_id comm = s->proc < fo->p->proc_cnt ? fo->p->procs[s->proc].comm : 0;

	text_add_name(b, fo->p, comm, "<unknown>");
	return intern_element(fo, b);
}

static uint32_t intern_thread(struct folded *fo, struct strbuf *b, const struct profile_stack *s)
{
	uint32_t space = s->proc < fo->p->proc_cnt ? fo->p->procs[s->proc].space : 0;
	const char *name = profile__thread_name(fo->p, space, THREAD_TID(s->tid));

	strbuf__addz(b, "thread ");
	str_sanitise(b, *name ? name : "<unknown>", strlen(*name ? name : "<unknown>"),
		     TEXT_NAME_MAX);
	strbuf__addf(b, " (%" PRIu32, THREAD_TID(s->tid));
	if (THREAD_INTERP(s->tid))
		strbuf__addf(b, ", interpreter %" PRIu32, THREAD_INTERP(s->tid));
	strbuf__addz(b, ")");
	return intern_element(fo, b);
}

static int intern_keys(struct folded *fo)
{
	struct strbuf b = { 0 };
	int err = 0;

	for (size_t i = 0; i < fo->p->stack_cnt && !err; i++) {
		const struct profile_stack *s = &fo->p->stacks[i];
		bool with_thread = fo->o->threads && s->tid;
		uint32_t comm = intern_comm(fo, &b, s);
		uint32_t thread = with_thread ? intern_thread(fo, &b, s) : 0;

		if (!comm || (with_thread && !thread))
			err = -ENOMEM;
		fo->keys[i] = (uint64_t)comm << 32 | thread;
	}
	strbuf__free(&b);
	return err;
}

static int cmp_texts(const void *a, const void *b, void *ctx)
{
	const struct strtab *texts = ctx;
	size_t la, lb;
	const char *sa = strtab__get(texts, *(const uint32_t *)a, &la);
	const char *sb = strtab__get(texts, *(const uint32_t *)b, &lb);
	int d = memcmp(sa, sb, la < lb ? la : lb);

	return d ? d : (la > lb) - (la < lb);
}

/* Replaces the numbers of texts by their places in order. */
static int rank_texts(struct folded *fo)
{
	size_t cnt = strtab__count(fo->texts);

	fo->rank = calloc(cnt + 1, sizeof(*fo->rank));
	fo->order = calloc(cnt + 1, sizeof(*fo->order));
	if (!fo->rank || !fo->order)
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++)
		fo->order[i] = (uint32_t)i;
	qsort_r(fo->order, cnt, sizeof(*fo->order), cmp_texts, fo->texts);
	for (size_t i = 0; i < cnt; i++)
		fo->rank[fo->order[i]] = (uint32_t)i;
	for (size_t i = 0; i <= fo->p->sym_cnt; i++)
		fo->ids[i] = fo->rank[fo->ids[i]];
	for (size_t i = 0; i < fo->p->stack_cnt; i++)
		fo->keys[i] = (uint64_t)fo->rank[fo->keys[i] >> 32] << 32 |
			      fo->rank[(uint32_t)fo->keys[i]];
	return 0;
}

static void write_text(const struct folded *fo, uint32_t place, char before, FILE *f)
{
	size_t len;
	const char *s = strtab__get(fo->texts, fo->order[place], &len);

	if (before)
		fputc(before, f);
	fwrite(s, 1, len, f);
}

static void write_stack(const struct folded *fo, const struct flat_stacks *fs,
			const struct flat_stack *s, FILE *f)
{
	write_text(fo, (uint32_t)(s->key >> 32), 0, f);
	if ((uint32_t)s->key)
		write_text(fo, (uint32_t)s->key, ';', f);
	for (uint32_t i = 0; i < s->cnt; i++)
		write_text(fo, fs->elems[s->first + i], ';', f);
	fprintf(f, " %" PRIu64 "\n", s->count);
}

static int write_folded(struct folded *fo, FILE *f)
{
	struct flat_stacks fs;
	int err = intern_syms(fo);

	if (!err)
		err = intern_keys(fo);
	if (!err)
		err = rank_texts(fo);
	if (!err)
		err = flat_stacks__init(&fs, fo->p, fo->ids, true, fo->keys);
	if (err)
		return err;
	errno = 0;
	for (size_t i = 0; i < fs.cnt && !ferror(f); i++)
		write_stack(fo, &fs, &fs.stacks[i], f);
	if (ferror(f))
		err = errno ? -errno : -EIO;
	flat_stacks__free(&fs);
	return err;
}

int export__folded(const struct profile *p, const struct export_opts *o, FILE *f)
{
	struct folded fo = { .p = p, .o = o };
	int err = -ENOMEM;

	fo.texts = strtab__new();
	fo.ids = calloc(p->sym_cnt + 1, sizeof(*fo.ids));
	fo.keys = calloc(p->stack_cnt + 1, sizeof(*fo.keys));
	if (fo.texts && fo.ids && fo.keys)
		err = write_folded(&fo, f);
	strtab__free(fo.texts);
	free(fo.rank);
	free(fo.order);
	free(fo.ids);
	free(fo.keys);
	return err;
}
