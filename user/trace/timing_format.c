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
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "trace/timing_parts.h"

#define INDENT_MAX   60 /* levels */
#define CHAIN_MAX    4096
#define THREADS_MAX  65536
#define COMM_SIZE    16 /* TASK_COMM_LEN */
#define THREAD_NAMES "/proc/%u/task/%u/comm"

/* The command name of a thread, as it was when its first call was written. */
struct thread_name {
	uint32_t tgid, tid;
	char name[COMM_SIZE];
};

static void read_name(struct thread_name *n)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), THREAD_NAMES, n->tgid, n->tid);
	f = fopen(path, "re");
	if (!f || !fgets(n->name, sizeof(n->name), f))
		strcpy(n->name, "python"); /* it has ended */
	n->name[strcspn(n->name, "\n")] = '\0';
	if (f)
		fclose(f);
}

static const char *name_of(struct timing *t, uint32_t tgid, uint32_t tid)
{
	size_t i = (size_t)(uintptr_t)idmap__get(&t->thread_numbers, tid);
	struct thread_name *n;

	if (i && t->thread_names[i - 1].tgid == tgid)
		return t->thread_names[i - 1].name;
	if (!i) {
		i = t->thread_cnt + 1;
		if (ARRAY_GROW(t->thread_names, t->thread_cap, t->thread_cnt, THREADS_MAX) ||
		    idmap__set(&t->thread_numbers, tid, (void *)i))
			return "python";
		t->thread_cnt++;
	}
	n = &t->thread_names[i - 1];
	*n = (struct thread_name){ .tgid = tgid, .tid = tid };
	read_name(n);
	return n->name;
}

/* Others may have the numbers of its threads from now on. */
void timing_format__end_process(struct timing *t, uint32_t tgid)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->thread_cnt; i++) {
		const struct thread_name *n = &t->thread_names[i];

		if (n->tgid == tgid) {
			idmap__remove(&t->thread_numbers, n->tid);
			continue;
		}
		idmap__set(&t->thread_numbers, n->tid, (void *)(kept + 1)); /* it is there */
		t->thread_names[kept++] = *n;
	}
	t->thread_cnt = kept;
}

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
	const char *name = name_of(t, a->tgid, a->tid);

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

void timing_format__free(struct timing *t)
{
	free(t->thread_names);
	idmap__free(&t->thread_numbers);
}
