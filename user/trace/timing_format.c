/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Lines of calls as other tools have them, for those who have scripts that read these:
 *
 *	CPU PID    TID    TIME(us) METHOD			bcc's pythonflow
 *	1   4711   4711   12.104   -> /srv/shop.py.checkout
 *	1   4711   4711   15.870     -> /srv/shop.py.price
 *
 *	     0 python3(4711): => checkout in /srv/shop.py:20	SystemTap's thread_indent()
 *	     3 python3(4711):  => price in /srv/shop.py:5
 *
 * Of many processes, a remark stands before those of each: "# process 4711 (shop.py)".
 */
#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "trace/timing_parts.h"

#define INDENT_MAX 60 /* levels */
#define CHAIN_MAX  4096

static uint64_t ns_of(const struct activation *a, const struct pairs_times *times)
{
	return times ? times->at_ns : a->start_ns;
}

/* From the beginning of the outermost call, as thread_indent() counts. */
static uint64_t ns_since_outermost(const struct activation *a, const struct pairs_times *times)
{
	const struct activation *outer = a;
	uint64_t ns = ns_of(a, times);

	for (int i = 0; outer->below && i < CHAIN_MAX; i++)
		outer = outer->below;
	return ns > outer->start_ns ? ns - outer->start_ns : 0;
}

static int levels(const struct activation *a)
{
	return a->depth < INDENT_MAX ? (int)a->depth : INDENT_MAX;
}

static void add_pythonflow(struct timing *t, const struct activation *a,
			   const struct py_function *f, enum pairs_how how,
			   const struct pairs_times *times)
{
	struct strbuf *b = &t->line;
	char cpu[12] = "-";

	if (how != PAIRS_LOST)
		snprintf(cpu, sizeof(cpu), "%u", t->cpu);
	strbuf__addf(b, "%-3s %-6u %-6u %-8.3f %*s%s ", cpu, a->tgid, a->tid,
		     1e6 * timing__seconds(t, ns_of(a, times)), 2 * levels(a), "",
		     times ? "<-" : "->");
	str_sanitise(b, f->file, f->file_len, 0);
	strbuf__addc(b, '.');
	str_sanitise(b, f->name, f->name_len, 0);
}

static void add_systemtap(struct timing *t, const struct activation *a, const struct py_function *f,
			  const struct pairs_times *times)
{
	struct strbuf *b = &t->line;
	const struct thread_name *n = thread_names__of(&t->threads, a->tgid, a->tid);
	const char *name = n ? n->name : "python";

	strbuf__addf(b, "%6" PRIu64 " ", ns_since_outermost(a, times) / 1000);
	str_sanitise(b, name, strlen(name), 0);
	strbuf__addf(b, "(%u):%*s %s ", a->tid, levels(a), "", times ? "<=" : "=>");
	str_sanitise(b, f->name, f->name_len, 0);
	strbuf__addz(b, " in ");
	str_sanitise(b, f->file, f->file_len, 0);
	strbuf__addf(b, ":%u", f->first_line);
}

/* Above all lines, also of many processes. */
static void add_head(struct timing *t)
{
	struct strbuf *b = &t->line;

	strbuf__addf(b, "%-3s %-6s %-6s %-8s %s\n", "CPU", "PID", "TID", "TIME(us)", "METHOD");
	if (!t->blocks)
		return;
	blocks__remark(t->blocks, b->s, b->len);
	strbuf__clear(b);
}

void timing_format__add_line(struct timing *t, const struct activation *a,
			     const struct py_function *f, enum pairs_how how,
			     const struct pairs_times *times)
{
	if (t->format == TIMING_PYTHONFLOW && timing__heads(t))
		add_head(t);
	if (how == PAIRS_LOST) /* its time is not known, so the line is a remark */
		strbuf__addz(&t->line, "# end not seen: ");
	if (t->format == TIMING_PYTHONFLOW)
		add_pythonflow(t, a, f, how, times);
	else
		add_systemtap(t, a, f, times);
	timing__add_values(t, &t->line, a, f, how);
	strbuf__addc(&t->line, '\n');
}
