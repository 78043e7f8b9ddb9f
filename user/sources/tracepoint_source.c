/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Tracepoints of the kernel (-e tracepoint:CATEGORY:NAME): the stack of the thread that hits one,
 * each time. They are raw tracepoints, known by their name alone, so no tracefs is needed. Their
 * programs are an object of its own (bpf/tracepoint.bpf.c), one for all tracepoints of a session.
 *
 * A single system call (syscalls:sys_enter_openat) has no raw tracepoint: it is those of all system
 * calls, of which a program lets one through.
 */
#include "sources/sources.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/nearest.h"
#include "base/rights.h"
#include "base/syscalls.h"
#include "follow/tracepoints.h"
#include "pyperf.skel.h"
#include "sources/side_object.h"
#include "tracepoint.skel.h"

SIDE_SAME_BSS(tracepoint_bpf__bss);

#define TRACEPOINT_OBJECT 8 /* see pyperf_cfg.object */
#define CALLS_MAX	  1024
#define ENTER		  "sys_enter_"
#define EXIT		  "sys_exit_"

struct tracepoint {
	struct side_use use;
	struct bpf_link *link;
};

/* ---- arguments ------------------------------------------------------------------------------- */

struct place {
	const char *name; /* of the raw tracepoint */
	const char *call; /* of the system call that counts; NULL: all hits do */
	bool exit;
};

static bool is_name(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)text[i]) && text[i] != '_')
			return false;
	return len > 0;
}

/* [CATEGORY:]NAME */
static bool parse_place(const char *args, struct place *p)
{
	const char *colon = strchr(args, ':'), *name = colon ? colon + 1 : args;

	*p = (struct place){ .name = name };
	if (!is_name(name, strlen(name)) || (colon && !is_name(args, (size_t)(colon - args))))
		return false;
	if (!strncmp(name, ENTER, strlen(ENTER)))
		*p = (struct place){ .name = "sys_enter", .call = name + strlen(ENTER) };
	else if (!strncmp(name, EXIT, strlen(EXIT)))
		*p = (struct place){ .name = "sys_exit",
				     .call = name + strlen(EXIT),
				     .exit = true };
	return true;
}

/* The kernel's function, which tracefs names a call by, is called otherwise than the call. */
static const char *known_name(const char *call)
{
	static const char *const others[][2] = {
		{ "newstat", "stat" },	 { "newfstat", "fstat" }, { "newlstat", "lstat" },
		{ "newuname", "uname" }, { "umount", "umount2" }, { "sendfile64", "sendfile" },
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (!strcmp(call, others[i][0]))
			return others[i][1];
	return call;
}

/* Negative: there is none; *nearest is the one that was probably meant, or NULL. */
static int64_t find_call(const char *call, const char **nearest)
{
	const char *names[CALLS_MAX];
	size_t cnt = 0, near;

	for (int64_t nr = 0; nr < CALLS_MAX; nr++) {
		const char *name = syscall_name(nr);

		if (name && !strcmp(name, known_name(call)))
			return nr;
		if (name)
			names[cnt++] = name;
	}
	near = nearest_name(call, names, cnt);
	*nearest = near < cnt ? names[near] : NULL;
	return -ENOENT;
}

static int check_call(const struct source_spec *spec, const struct place *p)
{
	const char *near;

	if (find_call(p->call, &near) >= 0)
		return 0;
	if (near)
		log_err("-e tracepoint:%s: no system call %s; did you mean %s?", spec->args,
			p->call, near);
	else
		log_err("-e tracepoint:%s: no system call %s", spec->args, p->call);
	return -EINVAL;
}

static int parse(struct source_spec *spec)
{
	static const char prefix[] = "tracepoint:";
	const char *colon = strchr(spec->args, ':'), *shown = colon ? colon + 1 : "";
	size_t room = sizeof(spec->name) - sizeof(prefix);
	struct place p;

	if (!parse_place(spec->args, &p)) {
		log_err("-e tracepoint:%s: must be tracepoint:CATEGORY:NAME, like "
			"tracepoint:sched:sched_switch or tracepoint:syscalls:sys_enter_openat",
			spec->args);
		return -EINVAL;
	}
	if (!strcmp(p.name, "nmi_handler")) {
		log_err("-e tracepoint:%s: it is hit in NMI context, where no stack can be kept",
			spec->args);
		return -EINVAL;
	}
	if (strlen(spec->args) <= room || !colon)
		shown = spec->args;
	snprintf(spec->name, sizeof(spec->name), "%s%.*s", prefix, (int)room, shown);
	return p.call ? check_call(spec, &p) : 0;
}

/* ---- the object ------------------------------------------------------------------------------ */

static int open_object(struct side_object *o, const struct world *w)
{
	struct tracepoint_bpf *skel = tracepoint_bpf__open_opts(side_object__begin(o, w));

	o->skel = skel;
	o->kernel = true;
	return skel ? side_object__load(o, skel->skeleton, (struct pyperf_cfg *)&skel->rodata->cfg,
					TRACEPOINT_OBJECT)
		    : -errno;
}

static void destroy(void *skel)
{
	tracepoint_bpf__destroy(skel);
}

static const struct side_kind tracepoints = { "tracepoints", open_object, destroy };

static const struct tracepoint_bpf *skel_of(const struct tracepoint *t)
{
	return t->use.shared->side.skel;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int tracepoint_open(struct source_use *u, const struct world *w)
{
	struct tracepoint *t = calloc(1, sizeof(*t));

	u->state = t;
	if (!t)
		return log_no_memory();
	return side_use__open(u, &t->use, &tracepoints, w->tracepoints, w);
}

/* By number of the value type. */
static struct bpf_program *program_of(const struct tracepoint *t, uint32_t type,
				      const struct place *p)
{
	char name[32];

	snprintf(name, sizeof(name), "on_%s%u",
		 !p->call  ? "tracepoint"
		 : p->exit ? "exit"
			   : "enter",
		 type % SAMPLED_MAX);
	return bpf_object__find_program_by_name(t->use.shared->side.obj, name);
}

/* The kernel has no such tracepoint. */
static void say_unknown(const struct source_spec *spec, const struct place *p)
{
	struct tracepoint_names names;
	size_t near = 0;

	if (tracepoint_names__read(&names, BTF_PATH))
		names.cnt = 0;
	near = nearest_name(p->name, names.names, names.cnt);
	if (near < names.cnt)
		log_err("-e tracepoint:%s: this kernel has no tracepoint %s; did you mean %s?",
			spec->args, p->name, names.names[near]);
	else
		log_err("-e tracepoint:%s: this kernel has no tracepoint %s", spec->args, p->name);
	tracepoint_names__free(&names);
}

static int attach(struct source_use *u, const struct place *p)
{
	struct tracepoint *t = u->state;
	int err;

	t->link = bpf_program__attach_raw_tracepoint(program_of(t, u->type, p), p->name);
	if (t->link)
		return 0;
	err = -errno;
	if (err == -ENOENT)
		say_unknown(&u->spec, p);
	else
		log_err("-e tracepoint:%s: %s", u->spec.args, strerror(-err));
	return err;
}

static int tell_call(const struct source_use *u, const struct place *p)
{
	const struct tracepoint *t = u->state;
	const char *near;
	int64_t nr = find_call(p->call, &near);

	return bpf_map_update_elem(side_object__map_fd(&t->use.shared->side, "calls"), &u->type,
				   &nr, BPF_ANY);
}

static int tracepoint_start(struct source_use *u)
{
	struct tracepoint *t = u->state;
	struct place p;
	int err = side_object__ready(&t->use.shared->side, skel_of(t)->progs.on_tracepoint,
				     tracepoints.name);

	if (!err && !parse_place(u->spec.args, &p))
		err = -EINVAL;
	if (!err && p.call)
		err = tell_call(u, &p);
	return err ? err : attach(u, &p);
}

static void tracepoint_stop(struct source_use *u)
{
	struct tracepoint *t = u->state;

	if (!t || !t->link)
		return;
	bpf_link__destroy(t->link);
	t->link = NULL;
}

static void tracepoint_close(struct source_use *u)
{
	struct tracepoint *t = u->state;

	if (!t)
		return;
	tracepoint_stop(u);
	side_use__close(&t->use);
	free(t);
	u->state = NULL;
}

/* Raw tracepoints are in every kernel that can load the sampler. */
static const char *check(const struct source *s)
{
	(void)s;
	return NULL;
}

const struct source tracepoint_sources[] = {
	{
		.type = { .event = VALUE_FOREIGN, .name = "tracepoint", .unit = "count" },
		.usage = "tracepoint:C:NAME",
		.kernel = true,
		.parse = parse,
		.open = tracepoint_open,
		.start = tracepoint_start,
		SIDE_SOURCE,
		.stop = tracepoint_stop,
		.close = tracepoint_close,
		.check = check,
	},
	{ .check = NULL },
};
