/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Probes: stacks at an instruction of user space, each time that it is executed: at one that is
 * named (uprobe), or at those of a static probe of the program (usdt). Their programs are
 * an object of their own (bpf/probe.bpf.c), one for all probes of a session, with the sampler's
 * maps but for those that it writes alone.
 */
#include "sources/sources.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "follow/held.h"
#include "follow/probe_place.h"
#include "probe.skel.h"
#include "pyperf.skel.h"
#include "sources/side_object.h"

#define UPROBE_TYPE "/sys/bus/event_source/devices/uprobe/type"
SIDE_SAME_BSS(probe_bpf__bss);

#define PROBE_OBJECT 1 /* see pyperf_cfg.object */

struct probe {
	struct side_use use;
	struct readers *readers; /* helpers that open what processes own; borrowed, or NULL */
	struct probe_set set;
	pid_t *pids; /* whose address spaces it is put into; none: all */
	size_t pid_cnt;
};

/* ---- arguments ------------------------------------------------------------------------------- */

static int parse(struct source_spec *spec)
{
	const char *kind = source__name(spec->source);
	size_t used = (size_t)snprintf(spec->name, sizeof(spec->name), "%s:", kind);
	struct probe_place p;

	if (probe_place__parse(&p, kind, spec->args))
		return -EINVAL;
	if (p.words.hist) {
		log_err("-e %s:%s: 'hist' is of pyperf-bpf trace; a profile adds up, with 'sum'",
			kind, spec->args);
		return -EINVAL;
	}
	probe_place__name(&p, spec->name + used, sizeof(spec->name) - used);
	spec->sum = p.words.sum;
	if (p.words.bytes)
		memcpy(spec->unit, UNIT_BYTES, sizeof(UNIT_BYTES));
	return 0;
}

static const char *check(const struct source *s)
{
	(void)s;
	return access(UPROBE_TYPE, R_OK) ? "not in this kernel" : NULL;
}

/* ---- the object ------------------------------------------------------------------------------ */

static int open_object(struct side_object *o, const struct world *w)
{
	struct probe_bpf *skel = probe_bpf__open_opts(side_object__begin(o, w));

	o->skel = skel;
	if (!skel)
		return -errno;
	((struct probe_cfg *)&skel->rodata->probe_cfg)->by_cookie = uprobe__has_cookies();
	return side_object__load(o, skel->skeleton, (struct pyperf_cfg *)&skel->rodata->cfg,
				 PROBE_OBJECT);
}

static void destroy(void *skel)
{
	probe_bpf__destroy(skel);
}

static const struct side_kind probes = { "probes", open_object, destroy };

static const struct probe_bpf *skel_of(const struct probe *p)
{
	return p->use.shared->side.skel;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int copy_pids(struct probe *p, const struct world *w)
{
	if (w->children || !w->pid_cnt)
		return 0; /* the kernel takes the probe of one address space from its children */
	p->pids = calloc(w->pid_cnt, sizeof(*p->pids));
	if (!p->pids)
		return -ENOMEM;
	memcpy(p->pids, w->pids, w->pid_cnt * sizeof(*p->pids));
	p->pid_cnt = w->pid_cnt;
	return 0;
}

static int probe_open(struct source_use *u, const struct world *w)
{
	struct probe *p = calloc(1, sizeof(*p));

	u->state = p;
	if (p)
		p->readers = w->readers;
	if (!p || copy_pids(p, w))
		return log_no_memory();
	return side_use__open(u, &p->use, &probes, w->probes, w);
}

/* By number of the value type. */
static struct bpf_program *program_of(const struct probe *p, uint32_t type)
{
	const struct probe_bpf *skel = skel_of(p);
	struct bpf_program *const progs[SAMPLED_MAX] = {
		skel->progs.on_first_probe,
		skel->progs.on_second_probe,
		skel->progs.on_third_probe,
		skel->progs.on_fourth_probe,
	};

	return progs[type % SAMPLED_MAX];
}

/* `pid`: -1: every process. */
static int attach(struct source_use *u, const struct probe_place *place, pid_t pid)
{
	struct probe *p = u->state;
	struct probe_spots *spots = probe_place__find(place, p->readers, pid);
	int err;

	if (!spots)
		return -errno;
	err = probe_set__add(&p->set, place, spots, u->type, pid,
			     bpf_program__fd(program_of(p, u->type)));
	probe_spots__free(spots);
	return err;
}

static int attach_all(struct source_use *u)
{
	struct probe *p = u->state;
	struct probe_place place;
	int err = 0;

	if (probe_place__parse(&place, source__name(u->spec.source), u->spec.args))
		return -EINVAL;
	if (held__refuse(p->readers))
		return -EBUSY;
	p->set.rules_fd = side_object__map_fd(&p->use.shared->side, "probe_rules");
	p->set.cookies = skel_of(p)->rodata->probe_cfg.by_cookie;
	if (!p->pid_cnt)
		return attach(u, &place, -1);
	for (size_t i = 0; i < p->pid_cnt && !err; i++)
		err = attach(u, &place, p->pids[i]);
	return err;
}

static int probe_start(struct source_use *u)
{
	struct probe *p = u->state;
	int err = side_object__ready(&p->use.shared->side, skel_of(p)->progs.on_probe, probes.name);

	return err ? err : attach_all(u);
}

static void probe_stop(struct source_use *u)
{
	struct probe *p = u->state;

	if (p)
		uprobe_list__close(&p->set.breakpoints);
}

static void probe_close(struct source_use *u)
{
	struct probe *p = u->state;

	if (!p)
		return;
	probe_stop(u);
	side_use__close(&p->use);
	free(p->pids);
	free(p);
	u->state = NULL;
}

const struct source probe_sources[] = {
	{
		.type = { .event = VALUE_FOREIGN, .name = "uprobe", .unit = "count" },
		.usage = "uprobe:PATH:PLACE",
		.parse = parse,
		.open = probe_open,
		.start = probe_start,
		SIDE_SOURCE,
		.stop = probe_stop,
		.close = probe_close,
		.check = check,
	},
	{
		.type = { .event = VALUE_FOREIGN, .name = "usdt", .unit = "count" },
		.usage = "usdt:PATH:PROBE",
		.parse = parse,
		.open = probe_open,
		.start = probe_start,
		SIDE_SOURCE,
		.stop = probe_stop,
		.close = probe_close,
		.check = check,
	},
	{ .check = NULL },
};
