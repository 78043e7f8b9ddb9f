/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/probe_price.h"

#include <bpf/bpf.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/procfield.h"
#include "base/str.h"
#include "bpf/pyperf.h"
#include "process/pidns.h"
#include "trace/price.h"

#define PROCESSES_MAX  (1U << 22) /* the most that the kernel has */
#define NAME_MAX_CHARS 32

struct started {
	pid_t pid;
	uint64_t cpu_ns;
};

struct probe_price {
	struct probe_price_opts o;
	double more_ns;	     /* beside the probes */
	struct started *all; /* by pid: the processes that were there, and their CPU time */
	size_t cnt, cap;
	uint64_t start_ns;
};

/* What one process pays. */
struct paid {
	pid_t pid;
	double hits, stepped, cost_ns; /* stepped: of the hits */
	double slowdown, load;	       /* percent */
};

/* ---- the beginning --------------------------------------------------------------------------- */

static int by_pid(const void *a, const void *b)
{
	const struct started *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static int add_process(struct probe_price *p, pid_t pid)
{
	struct started s = { .pid = pid };

	if (!price__cpu_ns(pid, &s.cpu_ns))
		return 0;
	if (ARRAY_GROW(p->all, p->cap, p->cnt, PROCESSES_MAX))
		return -ENOMEM;
	p->all[p->cnt++] = s;
	return 0;
}

static int add_processes(struct probe_price *p)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	int err = dir ? 0 : -errno;

	while (!err && (e = readdir(dir)))
		if (isdigit((unsigned char)e->d_name[0]))
			err = add_process(p, (pid_t)strtol(e->d_name, NULL, 10));
	if (dir)
		closedir(dir);
	if (p->cnt)
		qsort(p->all, p->cnt, sizeof(*p->all), by_pid);
	return err;
}

/* What was noted before. */
static void empty_costs(int fd)
{
	uint32_t tgid;

	for (uint32_t i = 0; i < PROBE_PROCESSES && !bpf_map_get_next_key(fd, NULL, &tgid); i++)
		bpf_map_delete_elem(fd, &tgid);
}

struct probe_price *probe_price__begin(const struct probe_price_opts *o)
{
	struct probe_price *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->o = *o;
	if (o->pid > 0 ? add_process(p, o->pid) : add_processes(p)) {
		probe_price__free(p);
		return NULL;
	}
	empty_costs(o->costs_fd);
	p->start_ns = now_ns();
	return p;
}

void probe_price__free(struct probe_price *p)
{
	if (!p)
		return;
	free(p->all);
	free(p);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* The CPU time of a process since the beginning. 0: it has ended. */
static double used_ns(const struct probe_price *p, pid_t pid)
{
	const struct started key = { .pid = pid },
			     *s = p->cnt ? bsearch(&key, p->all, p->cnt, sizeof(key), by_pid)
					 : NULL;
	uint64_t now, before = s ? s->cpu_ns : 0;

	return price__cpu_ns(pid, &now) && now > before ? (double)(now - before) : 0;
}

static void add_cost(struct paid *out, const struct probe_cost *c,
		     const struct uprobe_prices *prices)
{
	double emulated = (double)c->emulated, stepped = (double)c->stepped;

	out->hits += emulated + stepped;
	out->stepped += stepped;
	out->cost_ns += emulated * prices->emulated_ns + stepped * prices->stepped_ns;
}

/* Who is slowed down most, of those who notice. */
static void find_worst(const struct probe_price *p, double wall_ns, struct paid *worst)
{
	int fd = p->o.costs_fd;
	uint32_t tgid, *before = NULL, last;
	bool over = false;

	for (uint32_t i = 0; i < PROBE_PROCESSES && !bpf_map_get_next_key(fd, before, &tgid); i++) {
		struct paid one = { .pid = p->o.pid > 0 ? p->o.pid : (pid_t)tgid };
		struct probe_cost cost;

		last = tgid;
		before = &last;
		if (!one.pid || bpf_map_lookup_elem(fd, &tgid, &cost))
			continue;
		add_cost(&one, &cost, &p->o.prices);
		one.cost_ns += p->more_ns;
		one.slowdown = price__slowdown(one.cost_ns, used_ns(p, one.pid));
		one.load = 100 * one.cost_ns / wall_ns;
		log_debug("process %d: %.0f hits, %.0f single-stepped, %.1f%% slower, %.1f%% of a "
			  "CPU",
			  one.pid, one.hits, one.stepped, one.slowdown, one.load);
		if (one.load < PRICE_NO_LOAD || (over && one.slowdown <= worst->slowdown))
			continue;
		over = true;
		*worst = one;
	}
}

/* Their CPU time cannot be read, as they have no number here. */
static void warn_of_outside(const struct probe_price *p, double wall_ns)
{
	uint32_t outside = 0;
	struct paid all = { 0 };
	struct probe_cost cost;

	if (p->o.pid > 0 || bpf_map_lookup_elem(p->o.costs_fd, &outside, &cost))
		return;
	add_cost(&all, &cost, &p->o.prices);
	if (100 * all.cost_ns / wall_ns < PRICE_NO_LOAD)
		return;
	log_warn("processes outside of this PID namespace have %.0f hits/s at %.2f us each: how "
		 "much that slows them down is not known (-p PID: probes in one process alone)",
		 all.hits * NS_PER_S / wall_ns, all.cost_ns / all.hits / 1000);
}

static void refuse(const struct probe_price *p, const struct paid *w, double wall_ns)
{
	const char *how = !w->stepped ? "" : ", as the kernel single-steps the instruction there,";
	struct strbuf name = { 0 };
	char path[32], comm[64];

	snprintf(path, sizeof(path), "/proc/%d/status", w->pid);
	if (!procfield__read(path, "Name", comm, sizeof(comm))) {
		strbuf__addz(&name, " (");
		str_sanitise(&name, comm, strlen(comm), NAME_MAX_CHARS);
		strbuf__addz(&name, ")");
	}
	log_err("%sprocess %d%s: %.0f hits/s at %.2f us each%s would slow it down by %s%.*f%% of "
		"its CPU time, more than %g%%: %s (--max-slowdown %.0f or --force allows that)",
		p->o.again ? "hits are not counted any more: " : "", w->pid,
		name.len && !name.err ? name.s : "", w->hits * NS_PER_S / wall_ns,
		w->cost_ns / w->hits / 1000, how,
		w->slowdown >= PRICE_SLOWDOWN_MAX - 1 ? "at least " : "", w->slowdown < 100,
		w->slowdown, p->o.max_slowdown, p->o.advice, ceil(w->slowdown * 1.2));
	strbuf__free(&name);
}

struct probe_namespace probe_price__namespace(void)
{
	struct pidns_file ns = pidns__file();

	return (struct probe_namespace){ .dev = ns.dev, .inum = ns.inum, .level = ns.level };
}

void probe_price__add(struct probe_price *p, double ns)
{
	p->more_ns += ns;
}

int probe_price__judge(struct probe_price *p)
{
	double wall_ns = (double)(now_ns() - p->start_ns);
	struct paid worst = { 0 };

	find_worst(p, wall_ns, &worst);
	if (price__is_high(worst.slowdown, worst.load, p->o.max_slowdown)) {
		refuse(p, &worst, wall_ns);
		return -EBUSY;
	}
	if (!p->o.again)
		warn_of_outside(p, wall_ns);
	return 0;
}
