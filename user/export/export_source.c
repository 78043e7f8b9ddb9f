/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "export/export_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_SHOWN 60 /* characters */

/* Numbers of processes in a file mean nothing here: its source is whatever its reader may read. */
struct source_owner export_source_owner(const struct profile_proc *proc, bool live)
{
	if (!live)
		return (struct source_owner){ 0, true, getuid(), getgid(), true };
	return (struct source_owner){ proc->tgid, proc->ids_known, proc->uid, proc->gid,
				      proc->own_root };
}

/* A process of each function: any may be asked for its source, all have the same path for it. */
static void find_procs(struct source_lines *s)
{
	const struct profile *p = s->v->p;

	for (size_t i = 0; i < p->stack_cnt && p->frame_syms; i++) {
		const struct profile_stack *st = &p->stacks[i];

		for (uint32_t j = 0; j < st->cnt && st->proc < p->proc_cnt; j++) {
			uint32_t sym = p->frame_syms[st->first + j];
			uint32_t *proc;

			if (sym >= p->sym_cnt)
				continue;
			proc = &s->proc_of[s->v->functions_of.of[sym]];
			*proc = *proc ? *proc : st->proc + 1;
		}
	}
}

int source_lines__init(struct source_lines *s, const struct view *v, bool live)
{
	*s = (struct source_lines){ .v = v, .live = live };
	s->proc_of = calloc(v->functions_of.cnt + 1, sizeof(*s->proc_of));
	if (!s->proc_of)
		return -ENOMEM;
	find_procs(s);
	return 0;
}

void source_lines__free(struct source_lines *s)
{
	free(s->proc_of);
	strbuf__free(&s->text);
	*s = (struct source_lines){ 0 };
}

/* An unreadable file is an empty text: it is not asked for again. */
static int read_lines(struct source_lines *s, str_id file, uint32_t proc)
{
	const struct profile *p = s->v->p;
	const char *path = profile__str(p, file);
	const struct source_owner who = export_source_owner(&p->procs[proc], s->live);

	int err;

	if (file == s->file)
		return 0;
	s->file = file;
	strbuf__clear(&s->text);
	/* a name with a NUL is none */
	err = strlen(path) == profile__str_len(p, file) ? source__read(&who, path, &s->text, NULL)
							: -EINVAL;
	if (err)
		strbuf__clear(&s->text);
	return err == -ENOMEM ? err : 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\f';
}

void source_lines__add(struct source_lines *s, struct strbuf *b, uint32_t function, uint32_t line)
{
	const struct sym *sym = export_sym(s->v->p, s->v->functions[function].sym);
	const char *at, *end;
	size_t len;

	if (!line || !sym->file || !s->proc_of[function])
		return;
	b->err = read_lines(s, sym->file, s->proc_of[function] - 1);
	if (b->err || !s->text.len)
		return;
	at = s->text.s;
	end = at + s->text.len;
	for (; at && --line; at = at ? at + 1 : NULL)
		at = memchr(at, '\n', (size_t)(end - at));
	if (!at || at >= end)
		return;
	for (; at < end && is_blank(*at); at++)
		;
	len = strcspn(at, "\n");
	while (len && is_blank(at[len - 1]))
		len--;
	str_sanitise(b, at, len, LINE_MAX_SHOWN);
}
