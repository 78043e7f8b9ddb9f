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

/* Finds a process for each function: all of its processes have the same path for the source. */
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

int source_lines__init(struct source_lines *s, const struct view *v, bool live, struct readers *rs)
{
	*s = (struct source_lines){ .p = v->p, .v = v, .live = live, .readers = rs };
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
	const struct profile *p = s->p;
	const char *path = profile__str(p, file);
	const struct source_owner who = export_source_owner(&p->procs[proc], s->live);

	int err;

	if (file == s->file && proc == s->proc)
		return 0;
	s->file = file;
	s->proc = proc;
	strbuf__clear(&s->text);
	/* a name with a NUL is none */
	err = strlen(path) == profile__str_len(p, file)
		      ? source__read(s->readers, &who, path, &s->text, NULL)
		      : -EINVAL;
	if (err)
		strbuf__clear(&s->text);
	return err == -ENOMEM ? err : 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\f';
}

void source_lines__add_of(struct source_lines *s, struct strbuf *b, str_id file, uint32_t proc,
			  uint32_t line, size_t most)
{
	const char *at, *end;
	size_t len;

	b->err = read_lines(s, file, proc);
	if (b->err || !s->text.len || !line)
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
	str_sanitise(b, at, len, most);
}

void source_lines__add(struct source_lines *s, struct strbuf *b, uint32_t function, uint32_t line)
{
	const struct sym *sym = export_sym(s->p, s->v->functions[function].sym);

	if (line && sym->file && s->proc_of[function])
		source_lines__add_of(s, b, sym->file, s->proc_of[function] - 1, line,
				     LINE_MAX_SHOWN);
}
