/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "export/export_summary.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profile/export_text.h"

double summary_cpu_seconds(const struct profile *p, uint64_t samples)
{
	return p->stats.values[0].frequency_hz ? (double)samples / p->stats.values[0].frequency_hz
					       : 0;
}

const char *summary_noun(const struct profile *p, uint64_t count)
{
	return value_type__noun(&p->stats.values[0], count);
}

/* ---- Headline ---- */

static int count_processes(const struct profile *p, size_t *python, size_t *others)
{
	uint8_t *sampled = calloc(p->proc_cnt + 1, 1);

	*python = *others = 0;
	if (!sampled)
		return -ENOMEM;
	for (size_t i = 0; i < p->stack_cnt; i++)
		if (p->stacks[i].proc < p->proc_cnt && p->stacks[i].count)
			sampled[p->stacks[i].proc] = 1;
	for (size_t i = 0; i < p->proc_cnt; i++) {
		if (!sampled[i])
			continue;
		if (p->procs[i].python || p->procs[i].native_only)
			++*python;
		else
			++*others;
	}
	free(sampled);
	return 0;
}

static void add_amount(struct strbuf *b, uint64_t n, const char *one, const char *many)
{
	text_add_count(b, n);
	strbuf__addc(b, ' ');
	strbuf__addz(b, n == 1 ? one : many);
}

/* Profiles of others do not have all of it. */
static void add_circumstances(struct strbuf *b, const struct profile_stats *s)
{
	double seconds = (double)s->duration_ns / 1e9;

	strbuf__addf(b, "%.*f s", seconds < 10 ? 2 : 1, seconds);
	if (s->values[0].frequency_hz || s->values[0].rate_hz)
		strbuf__addf(b, " at %" PRIu32 " Hz",
			     s->values[0].frequency_hz ? s->values[0].frequency_hz
						       : s->values[0].rate_hz);
	if (!s->cpus)
		return;
	strbuf__addz(b, " on ");
	add_amount(b, s->cpus, "CPU", "CPUs");
}

bool summary_is_accounted(const struct profile *p)
{
	return p->stats.counters[CTR_delivered] != 0;
}

void summary_add_headline(struct strbuf *b, const struct profile *p)
{
	uint64_t total = profile__total(p);
	size_t python, others;

	if (count_processes(p, &python, &others)) {
		b->err = -ENOMEM;
		return;
	}
	if (p->stats.duration_ns) {
		add_circumstances(b, &p->stats);
		strbuf__addz(b, ": ");
	}
	add_amount(b, total, summary_noun(p, 1), summary_noun(p, 2));
	if (!value_type__is_clock(&p->stats.values[0]) && profile__samples(p) != total) {
		strbuf__addz(b, " in ");
		add_amount(b, profile__samples(p), "sample", "samples");
	}
	if (p->stats.values[0].frequency_hz)
		strbuf__addf(b, " (%.2f CPU s)", summary_cpu_seconds(p, total));
	strbuf__addz(b, " of ");
	if (!summary_is_accounted(p)) {
		add_amount(b, python + others, "process", "processes");
		others = 0;
	} else if (python || !others) {
		add_amount(b, python, "Python process", "Python processes");
	}
	if (others) {
		strbuf__addz(b, python ? " and " : "");
		add_amount(b, others, "process", "processes");
		strbuf__addz(b, " without Python");
	}
}

/* ---- Samples ---- */

static const struct counter_text {
	const char *name;
	const char *text;
} counter_texts[CTR_CNT] = {
#define X(name, text) [CTR_##name] = { #name, text },
	PYPERF_COUNTERS(X)
#undef X
};

static bool has_prefix(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

/* What was filtered is what nobody asked for, unless there is nothing else. */
static bool is_told(const struct profile *p, size_t counter)
{
	const char *name = counter_texts[counter].name;

	return p->stats.counters[counter] &&
	       (has_prefix(name, "lost_") || has_prefix(name, "note_") ||
		(has_prefix(name, "filtered_") && !profile__total(p)));
}

/* The enum has them in the order of the report: filtered, lost, notes. */
bool summary_next_counter(struct strbuf *b, const struct profile *p, size_t *at)
{
	while (*at < CTR_CNT && !is_told(p, *at))
		++*at;
	if (*at == CTR_CNT)
		return false;
	text_add_count(b, p->stats.counters[*at]);
	strbuf__addf(b, " %s", counter_texts[(*at)++].text);
	return true;
}

/* Most runs refuse what nobody asked for: both figures, or one hides the other. */
static void add_sampler_cost(struct strbuf *b, const struct profile_stats *s)
{
	double us = (double)s->bpf_ns / 1e3;

	strbuf__addz(b, "; BPF ");
	if (s->counters[CTR_counted])
		strbuf__addf(b, "%.2f us per counted sample, ",
			     us / (double)s->counters[CTR_counted]);
	strbuf__addf(b, "%.2f us per run, %.2f%% of a CPU", us / (double)s->bpf_runs,
		     text_percent(s->bpf_ns, s->duration_ns));
}

void summary_add_cost(struct strbuf *b, const struct profile_stats *s)
{
	const double mib = 1024 * 1024;
	size_t before = b->len;

	if (s->duration_ns)
		strbuf__addf(b, "cost: user space %.2f%% of a CPU",
			     text_percent(s->self_cpu_ns, s->duration_ns));
	if (s->bpf_runs)
		add_sampler_cost(b, s);
	if (s->counters[CTR_follow_ns])
		strbuf__addf(b, "; following processes %.2f%%",
			     text_percent(s->counters[CTR_follow_ns], s->duration_ns));
	if (s->rss_bytes || s->map_bytes)
		strbuf__addf(b, "%smemory %.1f MiB + %.1f MiB of BPF maps",
			     b->len > before ? "; " : "", (double)s->rss_bytes / mib,
			     (double)s->map_bytes / mib);
}

/* ---- All is well ---- */

#define FINE_PERCENT                                                                               \
	99 /* of the stacks are complete: a process that starts or ends has some that are not */

bool summary_is_fine(const struct profile *p)
{
	const struct profile_stats *s = &p->stats;
	uint64_t delivered = s->counters[CTR_counted] + profile__filtered(s) + profile__lost(s);

	return !profile__lost(s) && s->counters[CTR_delivered] == delivered && s->slowed <= 1 &&
	       s->counters[CTR_counted] == profile__all_samples(p) &&
	       s->counters[CTR_complete] * 100 >= s->counters[CTR_user_stacks] * FINE_PERCENT;
}

void summary_add_fine(struct strbuf *b, const struct profile *p)
{
	const struct profile_stats *s = &p->stats;
	uint64_t stacks = s->counters[CTR_user_stacks], complete = s->counters[CTR_complete];
	/* The kernel times programs only when it was asked to (-v). */
	uint64_t sampler_ns = s->bpf_ns ? s->bpf_ns : profile__sampler_ns(s);

	add_amount(b, s->counters[CTR_counted], "sample", "samples");
	strbuf__addz(b, ", none lost");
	if (stacks > complete) {
		strbuf__addz(b, ", ");
		add_amount(b, stacks - complete, "stack", "stacks");
		strbuf__addz(b, " not complete");
	} else if (stacks) {
		strbuf__addz(b, ", all stacks complete");
	}
	if (s->duration_ns)
		strbuf__addf(b, "; cost %.1f%% of a CPU",
			     text_percent(s->self_cpu_ns + sampler_ns, s->duration_ns));
}

/* ---- Nothing sampled ---- */

static const struct hint {
	enum pyperf_counter counter;
	const char *text;
	const char *of_events; /* of an event that is no clock; NULL: the same */
} hints[] = {
	{ CTR_filtered_idle, "The CPUs were idle. Only time on a CPU is sampled.",
	  "All samples are of idle CPUs." },
	{ CTR_filtered_target, "The processes asked for (-p) did not run on a CPU; others did.",
	  "All samples are of processes other than those of -p." },
	{ CTR_filtered_comm, "No process that matches --comm ran on a CPU; others did.",
	  "All samples are of processes that do not match --comm." },
	{ CTR_filtered_cgroup, "Nothing in this control group (-C) ran on a CPU; others did.",
	  "All samples are of control groups other than that of -C." },
	{ CTR_filtered_python, "Only non-Python processes ran. Use -a to include them.", NULL },
	{ CTR_filtered_exited, "Only processes that were exiting ran.", NULL },
	{ CTR_filtered_pidns, "Only processes outside this pid namespace ran.", NULL },
	{ CTR_filtered_unknown,
	  "All that ran ended before it could be analysed. Use -a to include it.", NULL },
};

static const char *why_nothing(const struct profile_stats *s)
{
	bool clock = value_type__is_clock(&s->values[0]);
	const struct hint *why = NULL;
	uint64_t most = 0;

	if (profile__lost(s) > profile__filtered(s))
		return "All samples were lost, see below.";
	/* Idle CPUs outnumber everything; they are the reason only when there is no other. */
	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
		uint64_t n = s->counters[hints[i].counter];

		if (n > most || (n && why == &hints[0])) {
			most = n;
			why = &hints[i];
		}
	}
	if (why)
		return clock || !why->of_events ? why->text : why->of_events;
	return clock ? "The kernel delivered no sample: nothing ran while sampling."
		     : "The kernel delivered no sample: there were too few events.";
}

void summary_add_nothing(struct strbuf *b, const struct profile *p)
{
	strbuf__addz(b, "Nothing was sampled in ");
	add_circumstances(b, &p->stats);
	strbuf__addf(b, ". %s", why_nothing(&p->stats));
}
