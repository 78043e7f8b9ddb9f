/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/targets.h"

#include <errno.h>
#include <pwd.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "bpf/pyperf.h"
#include "cmd/chosen.h"
#include "cmd/cmdline.h"
#include "profile/value.h"
#include "sources/sources.h"

void targets__help(void)
{
	printf("  -e, --event NAMES      events to sample on (default cpu-clock; list: help)\n"
	       "  -F, --frequency HZ     samples per second and CPU, 1 to %d (default %d)\n"
	       "  -c, --count N          sample every N events, instead of -F; not for clocks\n"
	       "      --wait-min TIME    with off-cpu, wall: no shorter waits, like 1ms\n"
	       "  -p, --pid PID[,...]    only these processes and their descendants\n"
	       "      --no-children      with -p and --name: without descendants\n"
	       "      --name REGEX       processes called so: command, program or application\n"
	       "  -u, --user USER        only of this user  -t, --tid TID[,...]  these threads\n"
	       "      --cpu LIST         only on CPUs like 0-3,8  -a, --all  also without Python\n"
	       "  -C, --cgroup PATH      this control group  --container NAME  by its name or id\n"
	       "      --comm GLOB        like 'celery*'  --pod NS/NAME  only this Kubernetes pod\n",
	       FREQUENCY_MAX, FREQUENCY_DEFAULT);
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

	printf("%-17s  %-11s  %-42s  %s\n", "EVENT", "UNIT", "WHAT IS COUNTED", "HERE");
	for (size_t at = 0; (s = source__next(&at));) {
		const char *missing = s->check(s);

		if (s->of)
			continue;
		printf("%-17s  %-11s  %-42s  %s\n", s->usage ? s->usage : source__name(s),
		       value_type__unit(&s->type), value_type__counts(&s->type),
		       missing ? missing : "yes");
	}
}

/* How many value types it counts in. */
static uint32_t values_of(const struct source *s)
{
	uint32_t cnt = 1;

	for (; s->with; cnt++)
		s = source__of_event(s->with);
	return cnt;
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
	if (t->source_cnt + values_of(spec.source) > SAMPLED_MAX) {
		log_err("-e %.*s: at most %d values can be sampled at once", (int)len, text,
			SAMPLED_MAX);
		return -EINVAL;
	}
	t->sources[t->source_cnt++] = spec;
	for (const struct source *s = spec.source; s->with; t->source_cnt++) {
		s = source__of_event(s->with);
		t->sources[t->source_cnt].source = s;
	}
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

static int set_wait_min(struct sample_spec *t, const char *arg)
{
	if (!cmdline__time(arg, &t->wait_min_ns) && t->wait_min_ns)
		return 0;
	log_err("--wait-min %s: must be a time with its unit, like 50us, 1ms or 0.5s", arg);
	return -EINVAL;
}

static int set_map_entries(struct sample_spec *t, const char *arg)
{
	long long n = 0;
	int err = cmdline__whole("--map-entries", arg, 1, MAP_ENTRIES_MAX, "counts", &n);

	t->map_entries = (uint32_t)n;
	return err;
}

static bool is_time(const struct source_spec *spec)
{
	return value_type__is_time(&spec->source->type);
}

/* off-cpu or wall: all waits */
static bool is_wait(const struct source_spec *spec)
{
	return is_time(spec) && !spec->source->with && !spec->source->of &&
	       spec->source->type.event != EVENT_WAKERS;
}

/* off-cpu, wall and --wait-min */
static int check_waits(const struct sample_spec *t)
{
	const struct source_spec *first = NULL, *timed = NULL;

	for (uint32_t i = 0; i < t->source_cnt; i++) {
		if (!timed && is_time(&t->sources[i]))
			timed = &t->sources[i];
		if (!is_wait(&t->sources[i]))
			continue;
		if (first) {
			log_err("-e %s and -e %s exclude each other: wall includes off-cpu",
				source__name(first->source), source__name(t->sources[i].source));
			return -EINVAL;
		}
		first = &t->sources[i];
	}
	if (timed && t->cpus) {
		log_err("--cpu %s: a thread that waits is on no CPU; not with -e %s", t->cpus,
			source__name(timed->source));
		return -EINVAL;
	}
	if (!t->wait_min_ns || first)
		return 0;
	log_err("--wait-min: needs -e off-cpu or -e wall");
	return -EINVAL;
}

#define STEP_MAX (1ULL << 30)

/* Checks the options for a source that only -c controls. */
static int check_step(struct sample_spec *t)
{
	const struct source *s = t->sources[0].source;

	if (t->frequency_hz) {
		log_err("-F: %s is sampled by bytes: use -c", s->called);
		return -EINVAL;
	}
	if (!t->period)
		t->period = s->step;
	if (t->period <= STEP_MAX)
		return 0;
	log_err("-c: at most %llu MiB for a sample of %s", STEP_MAX >> 20, s->called);
	return -EINVAL;
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
	if (t->sources[0].source->step)
		return check_step(t);
	for (uint32_t i = 0; i < t->source_cnt; i++)
		clocks += value_type__is_clock(&t->sources[i].source->type) ||
			  is_time(&t->sources[i]);
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
			err = chosen__add(t, pid);
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
	/* Such a name never matches, and the profile would be empty. */
	if (!strpbrk(arg, "*?[") && strlen(arg) >= TASK_COMM_LEN) {
		log_err("--comm %s: the kernel cuts names after %d characters; try '%.*s*'", arg,
			TASK_COMM_LEN - 1, TASK_COMM_LEN - 1, arg);
		return -EINVAL;
	}
	return 0;
}

static int set_user(struct sample_spec *t, const char *arg)
{
	const struct passwd *pw = getpwnam(arg);
	long long uid;

	if (pw)
		uid = pw->pw_uid;
	else if (parse_int(arg, 0, UINT32_MAX - 1, &uid)) {
		log_err("-u %s: there is no such user", arg);
		return -EINVAL;
	}
	t->by_user = true;
	t->uid = (uint32_t)uid;
	return 0;
}

static int add_tid(struct sample_spec *t, const char *word)
{
	pid_t tid;

	if (cmdline__pid(word, &tid)) {
		log_err("-t: '%s' is not the number of a thread (from 1 to %d)", word, TGID_MAX);
		return -EINVAL;
	}
	if (t->tid_cnt == TIDS_MAX) {
		log_err("-t %s: at most %d threads can be chosen", word, TIDS_MAX);
		return -EINVAL;
	}
	t->tids[t->tid_cnt++] = (uint32_t)tid;
	return 0;
}

static int add_tids(struct sample_spec *t, const char *arg)
{
	char *list = strdup(arg), *rest = list, *word;
	int err = 0;

	if (!list)
		return log_no_memory();
	while (!err && (word = strsep(&rest, ",")))
		err = add_tid(t, word);
	free(list);
	return err;
}

/* "0-3,8" */
static int set_cpus(struct sample_spec *t, const char *arg)
{
	const char *at = arg;
	char *end;

	for (;; at = end + 1) {
		unsigned long first = strtoul(at, &end, 10), last = first;

		if (*at < '0' || *at > '9')
			break;
		if (*end == '-' && end[1] >= '0' && end[1] <= '9')
			last = strtoul(end + 1, &end, 10);
		if (last < first || (*end && *end != ','))
			break;
		if (!*end)
			return set_once(&t->cpus, "--cpu", arg);
	}
	log_err("--cpu %s: must be numbers of CPUs, like 0-3,8", arg);
	return -EINVAL;
}

/* A pattern that cannot be one is known at once. */
static int set_name(struct sample_spec *t, const char *arg)
{
	char why[128];
	regex_t re;
	int err = regcomp(&re, arg, REG_EXTENDED | REG_NOSUB);

	if (err) {
		regerror(err, &re, why, sizeof(why));
		log_err("--name %s: not a regular expression: %s", arg, why);
		return -EINVAL;
	}
	regfree(&re);
	return set_once(&t->name, "--name", arg);
}

static void set_children(struct sample_spec *t, bool children)
{
	t->children = children;
	t->children_said = true;
}

/* ---- all ------------------------------------------------------------------------------------- */

bool targets__takes(int opt)
{
	return strchr("ecFrptuCa", opt) ? opt != '\0'
					: opt >= TARGETS_CHILDREN && opt <= TARGETS_CONTAINER;
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
	case TARGETS_POD:
		return set_once(&t->pod, "--pod", arg);
	case TARGETS_CONTAINER:
		return set_once(&t->container, "--container", arg);
	case TARGETS_COMM:
		return set_comm(t, arg);
	case TARGETS_NAME:
		return set_name(t, arg);
	case TARGETS_CPU:
		return set_cpus(t, arg);
	case 'u':
		return set_user(t, arg);
	case 't':
		return add_tids(t, arg);
	case TARGETS_CHILDREN:
	case TARGETS_NO_CHILDREN:
		set_children(t, opt == TARGETS_CHILDREN);
		break;
	case TARGETS_MAP_ENTRIES:
		return set_map_entries(t, arg);
	case TARGETS_WAIT_MIN:
		return set_wait_min(t, arg);
	case TARGETS_NMI:
		t->nmi = true;
		break;
	case 'a':
		t->all = true;
		break;
	}
	return 0;
}

/* It is in the memory of processes, of which each pays for its hits. */
static bool has_breakpoint(const struct sample_spec *t)
{
	for (uint32_t i = 0; i < t->source_cnt; i++)
		if (!t->sources[i].source->set_rate && !t->sources[i].source->kernel)
			return true;
	return false;
}

/* Hits of a probe are counted where they happen. */
static bool has_probe(const struct sample_spec *t)
{
	for (uint32_t i = 0; i < t->source_cnt; i++)
		if (!t->sources[i].source->set_rate)
			return true;
	return false;
}

static int check_cpus(const struct sample_spec *t)
{
	if (!t->cpus || !has_probe(t))
		return 0;
	log_err("--cpu %s: probes are in the code that all CPUs run; not with -e %s", t->cpus,
		source__name(t->sources[0].source));
	return -EINVAL;
}

static int check_groups(const struct sample_spec *t)
{
	if (!t->cgroup || (!t->pod && !t->container))
		return 0;
	log_err("-C and --%s exclude each other: both choose a control group",
		t->pod ? "pod" : "container");
	return -EINVAL;
}

/*
 * Descendants belong to a process as long as that costs no other program anything: a probe that
 * children inherit is in all processes.
 */
int targets__check(struct sample_spec *t, bool command)
{
	bool chosen = t->pid_cnt || t->name;

	if (check_rate(t) || check_cpus(t) || check_waits(t) || check_groups(t))
		return -EINVAL;
	if (t->children_said && !chosen && !command) {
		log_err("--%schildren needs a process: name it with -p", t->children ? "" : "no-");
		return -EINVAL;
	}
	if (!t->children_said)
		t->children = chosen && !has_breakpoint(t);
	return 0;
}

void targets__free(struct sample_spec *t)
{
	free(t->pids);
	free(t->group);
	*t = (struct sample_spec){ 0 };
}
