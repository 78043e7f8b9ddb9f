/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/targets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "bpf/pyperf.h"
#include "profile/value.h"
#include "sources/sources.h"

void targets__help(bool events)
{
	if (events)
		printf("  -e, --event NAMES      events to sample on (default cpu-clock; list: "
		       "help)\n");
	printf("  -F, --frequency HZ     samples per second and CPU, 1 to %d (default %d)\n",
	       FREQUENCY_MAX, FREQUENCY_DEFAULT);
	if (events)
		printf("  -c, --count N          sample every N events, instead of -F; not for "
		       "clocks\n");
	printf("  -p, --pid PID[,...]    only these processes; may be repeated\n"
	       "      --children         with -p: and their descendants\n"
	       "  -C, --cgroup PATH      only this control group and those below it\n"
	       "      --comm GLOB        only processes whose name matches, like 'celery*'\n"
	       "  -a, --all              include processes without Python\n");
}

/* ---- values: each returns 0, or negative as cmdline.set -------------------------------------- */

static int set_frequency(struct sample_spec *t, const char *arg)
{
	long long hz = 0;
	int err = cmdline__whole("-F", arg, 1, FREQUENCY_MAX, "samples per second and CPU", &hz);

	t->frequency_hz = (uint32_t)hz;
	return err;
}

static int set_period(struct sample_spec *t, const char *arg)
{
	long long n = 0;
	int err = cmdline__whole("-c", arg, 1, PERIOD_MAX, "events per sample", &n);

	t->period = (uint64_t)n;
	return err;
}

/* -e help */
static void print_sources(void)
{
	const struct source *s;

	printf("%-17s  %-7s  %-42s  %s\n", "EVENT", "UNIT", "WHAT IS COUNTED", "HERE");
	for (size_t at = 0; (s = source__next(&at));) {
		const char *missing = s->check(s);

		printf("%-17s  %-7s  %-42s  %s\n", s->usage ? s->usage : source__name(s),
		       value_type__unit(&s->type), value_type__counts(&s->type),
		       missing ? missing : "yes");
	}
}

static int add_source(struct sample_spec *t, const char *text, size_t len)
{
	struct source_spec spec;
	int err = source_spec__parse(&spec, text, len);

	if (err)
		return err;
	for (uint32_t i = 0; i < t->source_cnt; i++)
		if (t->sources[i].source == spec.source && !strcmp(t->sources[i].args, spec.args))
			return 0;
	if (t->source_cnt == SAMPLED_MAX) {
		log_err("-e %.*s: at most %d events can be sampled at once", (int)len, text,
			SAMPLED_MAX);
		return -EINVAL;
	}
	t->sources[t->source_cnt++] = spec;
	return 0;
}

/* "cpu-clock,page-faults" */
static int add_sources(struct sample_spec *t, const char *arg)
{
	int err;

	if (!strcmp(arg, "help")) {
		print_sources();
		return -ECANCELED;
	}
	for (;; arg++) {
		size_t len = strcspn(arg, ",");

		err = add_source(t, arg, len);
		arg += len;
		if (err || !*arg)
			return err;
	}
}

static int set_map_entries(struct sample_spec *t, const char *arg)
{
	long long n = 0;
	int err = cmdline__whole("--map-entries", arg, 1, MAP_ENTRIES_MAX, "counts", &n);

	t->map_entries = (uint32_t)n;
	return err;
}

/* -F and -c: which was given, and does it make sense? */
static int check_rate(struct sample_spec *t)
{
	uint32_t clocks = 0, rates = 0;

	if (!t->source_cnt)
		t->sources[t->source_cnt++].source = source__of_event(EVENT_CPU_CLOCK);
	for (uint32_t i = 0; i < t->source_cnt; i++)
		rates += t->sources[i].source->set_rate != NULL;
	if (!rates && (t->period || t->frequency_hz)) {
		log_err("-F and -c: every hit of %s is counted",
			source__name(t->sources[0].source));
		return -EINVAL;
	}
	if (!rates)
		return 0;
	for (uint32_t i = 0; i < t->source_cnt; i++)
		clocks += value_type__is_clock(&t->sources[i].source->type);
	if (t->period && t->frequency_hz && (!clocks || clocks == t->source_cnt)) {
		log_err("-F and -c exclude each other: a rate, or every so many events");
		return -EINVAL;
	}
	if (t->period && clocks == t->source_cnt) {
		log_err("-c: %s is sampled by time: use -F", source__name(t->sources[0].source));
		return -EINVAL;
	}
	if (!t->frequency_hz && (!t->period || clocks))
		t->frequency_hz = FREQUENCY_DEFAULT;
	return 0;
}

static int add_pid(struct sample_spec *t, pid_t pid)
{
	pid_t *pids;

	for (size_t i = 0; i < t->pid_cnt; i++)
		if (t->pids[i] == pid)
			return 0;
	pids = reallocarray(t->pids, t->pid_cnt + 1, sizeof(*pids));
	if (!pids)
		return log_no_memory();
	t->pids = pids;
	t->pids[t->pid_cnt++] = pid;
	return 0;
}

/* "12,34,56". An empty element is an error: `-p $(pgrep -d, x),1` must not lose a process. */
static int add_pids(struct sample_spec *t, const char *arg)
{
	char *list = strdup(arg), *rest = list, *word;
	pid_t pid;
	int err = 0;

	if (!list)
		return log_no_memory();
	while (!err && (word = strsep(&rest, ","))) {
		err = cmdline__pid(word, &pid);
		if (err)
			log_err("-p %s: '%s' is not a process id (from 1 to %d)", arg, word,
				TGID_MAX);
		else
			err = add_pid(t, pid);
	}
	free(list);
	return err;
}

/* The later of two filters would silently undo the first. */
static int set_once(const char **where, const char *option, const char *arg)
{
	if (*where) {
		log_err("%s %s: can be given once only (first: %s)", option, arg, *where);
		return -EINVAL;
	}
	if (!*arg) {
		log_err("%s: the value is empty", option);
		return -EINVAL;
	}
	*where = arg;
	return 0;
}

static int set_comm(struct sample_spec *t, const char *arg)
{
	if (set_once(&t->comm, "--comm", arg))
		return -EINVAL;
	if (strlen(arg) >= GLOB_LEN) {
		log_err("--comm %s: longer than %d characters", arg, GLOB_LEN - 1);
		return -EINVAL;
	}
	/* Such a name matches nothing, ever, and the profile would be empty. */
	if (!strpbrk(arg, "*?[") && strlen(arg) >= TASK_COMM_LEN) {
		log_err("--comm %s: the kernel cuts names after %d characters; try '%.*s*'", arg,
			TASK_COMM_LEN - 1, TASK_COMM_LEN - 1, arg);
		return -EINVAL;
	}
	return 0;
}

/* ---- all ------------------------------------------------------------------------------------- */

bool targets__takes(int opt)
{
	return opt == 'e' || opt == 'c' || opt == 'F' || opt == 'r' || opt == 'p' ||
	       opt == TARGETS_CHILDREN || opt == 'C' || opt == TARGETS_COMM || opt == TARGETS_NMI ||
	       opt == TARGETS_MAP_ENTRIES || opt == 'a';
}

int targets__set(struct sample_spec *t, int opt, const char *arg)
{
	switch (opt) {
	case 'e':
		return add_sources(t, arg);
	case 'c':
		return set_period(t, arg);
	case 'F':
	case 'r': /* as other profilers call it */
		return set_frequency(t, arg);
	case 'p':
		return add_pids(t, arg);
	case 'C':
		return set_once(&t->cgroup, "-C", arg);
	case TARGETS_COMM:
		return set_comm(t, arg);
	case TARGETS_CHILDREN:
		t->children = true;
		break;
	case TARGETS_MAP_ENTRIES:
		return set_map_entries(t, arg);
	case TARGETS_NMI:
		t->nmi = true;
		break;
	case 'a':
		t->all = true;
		break;
	}
	return 0;
}

int targets__check(struct sample_spec *t, bool command)
{
	if (check_rate(t))
		return -EINVAL;
	if (!t->children || t->pid_cnt || command)
		return 0;
	log_err("--children needs a process: name it with -p");
	return -EINVAL;
}

void targets__free(struct sample_spec *t)
{
	free(t->pids);
	*t = (struct sample_spec){ 0 };
}
