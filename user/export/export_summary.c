/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "export/export_summary.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profile/export_text.h"

double summary_seconds(const struct profile *p, uint64_t count)
{
	return value_type__seconds(&p->stats.values[0], count);
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

bool summary_is_sampled_time(const struct profile *p)
{
	return value_type__is_clock(&p->stats.values[0]) &&
	       value_type__per_second(&p->stats.values[0]);
}

static void add_kind_of_time(struct strbuf *b, const struct value_type *v)
{
	if (*value_type__doing(v))
		strbuf__addf(b, " %s", value_type__doing(v));
	else
		strbuf__addf(b, " of %s", value_type__whole(v));
}

void summary_add_unit_of_time(struct strbuf *b, const struct value_type *v)
{
	strbuf__addz(b, " s");
	add_kind_of_time(b, v);
}

/* "2.35 s", "5.34 ms": hundredths of a second say nothing of that. */
static void add_seconds(struct strbuf *b, double s)
{
	if (s > 0 && s < 0.1)
		strbuf__addf(b, "%.3g ms", 1000 * s);
	else
		strbuf__addf(b, "%.2f s", s);
}

void summary_add_amount(struct strbuf *b, const struct profile *p, uint64_t count)
{
	const struct value_type *v = &p->stats.values[0];

	if (value_type__is_bytes(v)) {
		text_add_bytes(b, (double)count);
	} else if (value_type__is_clock(v) || !value_type__per_second(v)) {
		add_amount(b, count, value_type__noun(v, 1), value_type__noun(v, 2));
	} else {
		add_seconds(b, value_type__seconds(v, count));
		add_kind_of_time(b, v);
	}
}

/* Profiles of others do not have all of it. */
static void add_circumstances(struct strbuf *b, const struct profile_stats *s)
{
	const struct value_type *v = &s->values[0];
	double seconds = (double)s->duration_ns / 1e9;

	strbuf__addf(b, "%.*f s", seconds < 10 ? 2 : 1, seconds);
	if (value_type__is_time(v)) /* threads have more */
		strbuf__addz(b, " elapsed");
	if (value_type__is_clock(v) && v->frequency_hz)
		strbuf__addf(b, " at %" PRIu32 " Hz", v->frequency_hz);
	else if (v->rate_hz)
		strbuf__addf(b, " at %" PRIu32 " Hz", v->rate_hz);
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
	summary_add_amount(b, p, total);
	if (!value_type__is_clock(&p->stats.values[0]) && profile__samples(p) != total) {
		strbuf__addz(b, " in ");
		add_amount(b, profile__samples(p), value_type__sample(&p->stats.values[0], 1),
			   value_type__sample(&p->stats.values[0], 2));
	}
	if (summary_is_sampled_time(p))
		strbuf__addf(b, " (%.2f %s)", summary_seconds(p, total),
			     value_type__column(&p->stats.values[0]));
	strbuf__addz(b, " of ");
	if (!summary_is_accounted(p) || value_type__is_calls(&p->stats.values[0])) {
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

/* What the counters count: "samples", "hits". They are of all value types of a run. */
static const char *counted_word(const struct profile_stats *s, uint64_t count)
{
	static const struct value_type several;

	return s->hidden_samples ? value_type__sample(&several, count)
				 : value_types__sample(s->values, s->value_cnt, count);
}

/* Filtered samples were not asked for, so they are mentioned only if there are no others. */
static bool is_told(const struct profile *p, size_t counter)
{
	const char *name = counter_texts[counter].name;

	return p->stats.counters[counter] &&
	       (str_starts_with(name, "lost_") || str_starts_with(name, "note_") ||
		(str_starts_with(name, "filtered_") && !profile__total(p)));
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

/*
 * Most runs of the program refuse a sample that was not asked for, so both figures are given:
 * either would hide the other.
 */
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
	       !s->counters[CTR_note_refused] && !s->counters[CTR_note_memory_full] &&
	       s->counters[CTR_counted] == profile__all_samples(p) &&
	       s->counters[CTR_complete] * 100 >= s->counters[CTR_user_stacks] * FINE_PERCENT;
}

void summary_add_fine(struct strbuf *b, const struct profile *p)
{
	const struct profile_stats *s = &p->stats;
	uint64_t stacks = s->counters[CTR_user_stacks], complete = s->counters[CTR_complete];
	/* The kernel times programs only when it was asked to (-v). */
	uint64_t sampler_ns = s->bpf_ns ? s->bpf_ns : profile__sampler_ns(s);

	add_amount(b, s->counters[CTR_counted], counted_word(s, 1), counted_word(s, 2));
	strbuf__addz(b, ", none lost");
	if (s->counters[CTR_note_missed]) {
		strbuf__addz(b, "; the timer did not fire for ");
		text_add_count(b, s->counters[CTR_note_missed]);
		strbuf__addz(b, " more");
	}
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

/*
 * Why there are no samples: `all` says it of all that came ("All samples are of idle CPUs."); or
 * `text`; or, for time, the activity of a thread between `before` and `after`.
 */
static const struct hint {
	enum pyperf_counter counter;
	const char *before, *after; /* NULL: the text for all */
	const char *all, *text;	    /* one of them is NULL */
} hints[] = {
	{ CTR_filtered_idle, NULL, NULL, "are of idle CPUs.", NULL },
	{ CTR_filtered_target, "The processes asked for (-p) were not ", "; others were.",
	  "are of processes other than those of -p.", NULL },
	{ CTR_filtered_comm, "No process that matches --comm was ", "; others were.",
	  "are of processes that do not match --comm.", NULL },
	{ CTR_filtered_cgroup, "Nothing in this control group (-C) was ", "; other processes were.",
	  "are of control groups other than that of -C.", NULL },
	{ CTR_filtered_user, "No process of this user (-u) was ", "; others were.",
	  "are of processes of other users than that of -u.", NULL },
	{ CTR_filtered_thread, "The threads asked for (-t) were not ", "; others were.",
	  "are of threads other than those of -t.", NULL },
	{ CTR_filtered_python, NULL, NULL, NULL,
	  "Only non-Python processes ran. Use -a to include them." },
	{ CTR_filtered_exited, NULL, NULL, NULL, "Only processes that were exiting ran." },
	{ CTR_filtered_pidns, NULL, NULL, NULL, "Only processes outside this pid namespace ran." },
	{ CTR_filtered_unknown, NULL, NULL, NULL,
	  "All that ran ended before it could be analysed. Use -a to include it." },
	{ CTR_filtered_condition, NULL, NULL, NULL, "The condition (if) was true of no hit." },
	{ CTR_filtered_nmi, NULL, NULL, "came in NMI context, where nothing can be kept.", NULL },
};

/* The commonest reason. Idle CPUs outnumber everything: they are it only when there is no other. */
static const struct hint *find_hint(const struct profile_stats *s)
{
	const struct hint *why = NULL;
	uint64_t most = 0;

	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
		uint64_t n = s->counters[hints[i].counter];

		if (n > most || (n && why == &hints[0])) {
			most = n;
			why = &hints[i];
		}
	}
	return why;
}

static void add_why_nothing(struct strbuf *b, const struct profile_stats *s)
{
	const struct value_type *v = &s->values[0];
	const struct hint *why = find_hint(s);
	const char *doing = value_type__doing(v);
	const char *samples = counted_word(s, 2);

	if (profile__lost(s) > profile__filtered(s))
		strbuf__addf(b, "All %s were lost, see below.", samples);
	else if (v->event == EVENT_GIL || v->event == EVENT_GIL_HELD)
		strbuf__addz(b,
			     "No thread waited for a GIL. It is known in CPython 2.7 and 3.6 and "
			     "from 3.7.4 on; 3.7.0 to 3.7.3 and PyPy have one that is not, "
			     "free-threaded builds have none.");
	else if (why == &hints[0] && *doing)
		strbuf__addf(b, "The CPUs were idle. Only %s is sampled.", value_type__counts(v));
	else if (why && why->before && *doing)
		strbuf__addf(b, "%s%s%s", why->before, doing, why->after);
	else if (why && why->all)
		strbuf__addf(b, "All %s %s", samples, why->all);
	else if (why)
		strbuf__addz(b, why->text);
	else if (value_type__is_exact(v))
		strbuf__addf(b, "There were no %s.", samples);
	else if (value_type__is_clock(v))
		strbuf__addz(b, "The kernel delivered no sample: nothing ran while sampling.");
	else
		strbuf__addz(b, "The kernel delivered no sample: there were too few events.");
}

void summary_add_nothing(struct strbuf *b, const struct profile *p)
{
	uint32_t event = p->stats.values[0].event;

	/* Allocated memory is another value. */
	if ((event == EVENT_INUSE_SPACE || event == EVENT_INUSE_OBJECTS) &&
	    p->stats.counters[CTR_counted]) {
		strbuf__addz(b, "None of the blocks that were sampled is in use.");
		return;
	}
	if (event == EVENT_GROWTH && !p->stats.counters[CTR_delivered]) {
		strbuf__addz(b, "Too little memory was touched for the first time to be sampled.");
		return;
	}
	strbuf__addz(b, "Nothing was sampled in ");
	add_circumstances(b, &p->stats);
	strbuf__addz(b, ". ");
	add_why_nothing(b, &p->stats);
}

/* Lines: the number of processes; each; those that are not named; the next step. */
bool summary_next_resting(struct strbuf *b, const struct profile *p, size_t *at, unsigned *indent)
{
	size_t line = (*at)++, named = p->resting_cnt, all = named + p->resting_more;

	if (line == named + 1 && !p->resting_more)
		line = (*at)++;
	*indent = line && line < named + 2 ? 2 : 0;
	if (!named && !line && p->no_python)
		strbuf__addz(b, "No Python process can be seen from here: \"pyperf-bpf check PID\" "
				"says why one is not.");
	else if (!named || line > named + 2)
		return false;
	else if (!line)
		strbuf__addf(b, "%zu Python process%s, and what %s:", all, all == 1 ? "" : "es",
			     all == 1 ? "it waits for" : "they wait for");
	else if (line <= named)
		text_add_name(b, p, p->resting[line - 1], "");
	else if (line == named + 1)
		strbuf__addf(b, "and %" PRIu32 " more", p->resting_more);
	else
		strbuf__addf(b,
			     "Where in the code: \"pyperf-bpf dump %" PRIu32
			     "\" shows the stacks of now, -e off-cpu how long threads wait.",
			     p->resting_tgid);
	return true;
}

bool summary_next_refused(struct strbuf *b, const struct profile *p, size_t *at)
{
	if (*at >= p->refused_cnt)
		return false;
	strbuf__addz(b, "not read: ");
	text_add_name(b, p, p->refused[(*at)++], "");
	return true;
}
