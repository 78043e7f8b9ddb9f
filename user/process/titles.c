/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Keeps the titles of the processes of a table (called.h), for reports. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "process/called.h"
#include "process/process_parts.h"

#define GENERATIONS  8
#define UNTITLED_MAX 65536U /* the others have a title when their samples are read, if they live */

void titles__want(struct process_table *pt, const struct process *p)
{
	if (pt->opts.titles &&
	    !ARRAY_GROW(pt->untitled, pt->untitled_cap, pt->untitled_cnt, UNTITLED_MAX))
		pt->untitled[pt->untitled_cnt++] = p->space;
}

static void set_title(struct process *p, const char *title)
{
	char *copy = strdup(title);

	if (!copy)
		return;
	free(p->title_owned);
	p->title = p->title_owned = copy;
}

void titles__inherit(struct process *child, const struct process *parent)
{
	child->parent = parent->space;
	if (*parent->title)
		set_title(child, parent->title);
}

/* A title that cannot be read now stays as it was. */
static void read_title(const struct process_table *pt, struct process *p)
{
	struct strbuf title = { 0 };

	p->titled_ns = now_ns();
	if (called__title(pt->opts.readers, (pid_t)p->tgid, &title))
		set_title(p, title.s);
	strbuf__free(&title);
}

/* Other programs are called by their command names. */
static bool may_have_title(const struct process_table *pt, const struct process *p)
{
	return pt->opts.titles && p->is_python && !p->exited;
}

void process_table__read_titles(struct process_table *pt)
{
	if (pt->untitled_cnt && pt->opts.before_long_work)
		pt->opts.before_long_work(pt->opts.before_long_work_ctx);
	for (size_t i = 0; i < pt->untitled_cnt; i++) {
		struct process *p = process_table__find(pt, pt->untitled[i]);

		if (p && may_have_title(pt, p))
			read_title(pt, p);
	}
	pt->untitled_cnt = 0;
}

const char *process_table__title(const struct process_table *pt, struct process *p)
{
	uint64_t then = p->titled_ns;

	if (may_have_title(pt, p) &&
	    (!then || then < p->since_ns || now_ns() - then >= then - p->since_ns))
		read_title(pt, p);
	for (int n = 0; n < GENERATIONS && !*p->title && p->parent; n++) {
		struct process *parent = process_table__find(pt, p->parent);

		if (!parent)
			break;
		p = parent;
	}
	return p->title;
}
