// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "agent/http/metrics.h"

#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/version.h"

/* ---- the format ------------------------------------------------------------------------------ */

void metric__family(FILE *f, const char *name, enum metric_type type, const char *help)
{
	static const char *const types[] = { "counter", "gauge", "summary", "histogram" };

	fprintf(f, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, types[type]);
}

/* `{label="of`, without its end. */
static void begin_label(FILE *f, const char *label, const char *of)
{
	struct strbuf safe = { 0 };

	str_sanitise(&safe, of, strlen(of), 0);
	fprintf(f, "{%s=\"", label);
	for (size_t i = 0; i < safe.len && !safe.err; i++) {
		if (safe.s[i] == '"' || safe.s[i] == '\\')
			fputc('\\', f);
		fputc(safe.s[i], f);
	}
	strbuf__free(&safe);
}

static void put_name(FILE *f, const char *name, const char *label, const char *of)
{
	fputs(name, f);
	if (label) {
		begin_label(f, label, of);
		fputs("\"}", f);
	}
	fputc(' ', f);
}

void metric__uint(FILE *f, const char *name, const char *label, const char *of, uint64_t n)
{
	put_name(f, name, label, of);
	fprintf(f, "%" PRIu64 "\n", n);
}

void metric__seconds(FILE *f, const char *name, const char *label, const char *of, uint64_t ns)
{
	put_name(f, name, label, of);
	fprintf(f, "%llu.%09llu\n", ns / NS_PER_S, ns % NS_PER_S);
}

/* ---- the agent ------------------------------------------------------------------------------- */

static void put_uint(FILE *f, const char *name, enum metric_type type, const char *help, uint64_t n)
{
	metric__family(f, name, type, help);
	metric__uint(f, name, NULL, NULL, n);
}

static void put_seconds(FILE *f, const char *name, enum metric_type type, const char *help,
			uint64_t ns)
{
	metric__family(f, name, type, help);
	metric__seconds(f, name, NULL, NULL, ns);
}

/*
 * The counters of bpf/pyperf_counters.h whose names begin with `prefix`: the rest of the name is
 * the label.
 */
static void put_counters(FILE *f, const struct profile_stats *s, const char *prefix,
			 const char *name, const char *label, const char *help)
{
	static const char *const names[CTR_CNT] = {
#define X(name, text) #name,
		PYPERF_COUNTERS(X)
#undef X
	};
	size_t len = strlen(prefix);

	metric__family(f, name, METRIC_COUNTER, help);
	for (size_t i = 0; i < CTR_CNT; i++)
		if (!strncmp(names[i], prefix, len))
			metric__uint(f, name, label, names[i] + len, s->counters[i]);
}

static void put_fill(const struct agent_stats *s, FILE *f)
{
	metric__family(f, "pyperf_map_entries", METRIC_GAUGE,
		       "Entries in use of the tables in the kernel that can be full.");
	for (size_t i = 0; i < SESSION_FILLS && s->fill[i].name; i++)
		metric__uint(f, "pyperf_map_entries", "map", s->fill[i].name, s->fill[i].used);
	metric__family(f, "pyperf_map_entries_max", METRIC_GAUGE,
		       "Entries for which they have room.");
	for (size_t i = 0; i < SESSION_FILLS && s->fill[i].name; i++)
		metric__uint(f, "pyperf_map_entries_max", "map", s->fill[i].name, s->fill[i].room);
}

static void put_sampling(const struct agent_stats *s, FILE *f)
{
	const uint64_t *counters = s->run.counters;

	put_uint(f, "pyperf_samples_delivered_total", METRIC_COUNTER,
		 "Samples that the kernel delivered: counted + filtered + lost.",
		 counters[CTR_delivered]);
	put_uint(f, "pyperf_samples_counted_total", METRIC_COUNTER,
		 "Samples added to the count of a stack.", counters[CTR_counted]);
	put_uint(f, "pyperf_samples_complete_total", METRIC_COUNTER,
		 "Counted samples whose user stack reached its root.", counters[CTR_complete]);
	put_uint(f, "pyperf_samples_user_stack_total", METRIC_COUNTER,
		 "Counted samples that have a user stack.", counters[CTR_user_stacks]);
	put_counters(f, &s->run, "filtered_", "pyperf_samples_filtered_total", "reason",
		     "Samples of what is not asked for.");
	put_counters(f, &s->run, "lost_", "pyperf_samples_lost_total", "reason",
		     "Samples that were lost in the kernel; a full table is one of the reasons.");
	put_counters(f, &s->run, "note_", "pyperf_notes_total", "note",
		     "What happened to samples, stacks and tables in the kernel.");
	put_counters(f, &s->run, "frames_", "pyperf_frames_total", "kind", "Frames walked.");
	put_uint(f, "pyperf_frequency_hz", METRIC_GAUGE, "Samples per second and CPU, now.",
		 s->frequency_hz);
	put_uint(f, "pyperf_frequency_configured_hz", METRIC_GAUGE,
		 "The same as configured: more than now when the CPU budget is short.",
		 s->frequency_cfg);
	put_uint(f, "pyperf_window_length_seconds", METRIC_GAUGE,
		 "Length of a window, now: more than configured when the CPU budget is short.",
		 s->window_s);
	put_uint(f, "pyperf_sampling_slowed", METRIC_GAUGE,
		 "A sample stands for so many: more than one while they take too much of a CPU.",
		 s->slowed);
	put_uint(f, "pyperf_cpus", METRIC_GAUGE, "CPUs that are sampled.", s->run.cpus);
	put_uint(f, "pyperf_processes", METRIC_GAUGE, "Processes with Python that are known.",
		 s->processes);
	put_seconds(f, "pyperf_bpf_seconds_total", METRIC_COUNTER,
		    "Run time of the sampler in the kernel, by the samples that were measured.",
		    profile__sampler_ns(&s->run));
	put_seconds(f, "pyperf_bpf_following_seconds_total", METRIC_COUNTER,
		    "Run time of the programs in the kernel that follow processes.",
		    counters[CTR_follow_ns]);
	put_seconds(f, "pyperf_samples_cpu_seconds_total", METRIC_COUNTER,
		    "CPU time for samples, of the agent and of BPF; the rest of both follows "
		    "processes.",
		    s->samples_ns);
	put_uint(f, "pyperf_timed_samples_total", METRIC_COUNTER,
		 "Samples whose run time in the kernel was measured: one of 16.",
		 counters[CTR_timed_samples]);
	put_seconds(f, "pyperf_timed_seconds_total", METRIC_COUNTER, "Run time of these.",
		    counters[CTR_timed_ns]);
	put_uint(f, "pyperf_map_bytes", METRIC_GAUGE, "Memory of the tables in the kernel.",
		 s->run.map_bytes);
	put_fill(s, f);
	metric__family(f, "pyperf_drain_seconds", METRIC_SUMMARY,
		       "Time that reading the counts of a period out of the kernel took.");
	metric__seconds(f, "pyperf_drain_seconds_sum", NULL, NULL, s->drain_ns);
	metric__uint(f, "pyperf_drain_seconds_count", NULL, NULL, s->drains);
	put_uint(f, "pyperf_drains_failed_total", METRIC_COUNTER,
		 "Those that failed, at least in part; what they left is read later.",
		 s->drains_failed);
	put_seconds(f, "pyperf_drain_longest_seconds", METRIC_GAUGE, "The longest of them.",
		    s->run.drain_ns);
}

/* All 0 if no event counts waits. */
static void put_open_waits(const struct openwaits_stats *s, FILE *f)
{
	put_uint(f, "pyperf_open_waits_total", METRIC_COUNTER,
		 "Parts of waits that went on when a period ended, each counted in its window.",
		 s->parts);
	put_uint(f, "pyperf_open_waits_stack_not_read_total", METRIC_COUNTER,
		 "Threads whose stack was not read for that: it would have taken more of the CPU "
		 "budget than it may.",
		 s->unread);
	put_uint(f, "pyperf_open_waits_left_out_total", METRIC_COUNTER,
		 "Threads that were not looked at, because too many sleep: their waits count "
		 "later.",
		 s->left_out);
	put_seconds(f, "pyperf_open_waits_cpu_seconds_total", METRIC_COUNTER,
		    "CPU time of the agent for all of this.", s->cpu_ns);
}

/* Users are numbers: no label needs an escape. */
static void put_users(const struct agent_stats *s, FILE *f)
{
	static const char cpu[] = "pyperf_user_cpu_seconds_total", one_of[] = "pyperf_user_one_of";

	metric__family(f, cpu, METRIC_COUNTER,
		       "CPU time of the agent and of BPF that users caused, since they were "
		       "last idle; the costliest users.");
	for (size_t i = 0; i < s->user_cnt; i++) {
		const struct bill *x = &s->users[i];

		fprintf(f, "%s{user=\"%" PRIu32 "\",for=\"samples\"} %.9f\n", cpu, x->uid,
			(double)x->all_samples_ns / NS_PER_S);
		fprintf(f, "%s{user=\"%" PRIu32 "\",for=\"following\"} %.9f\n", cpu, x->uid,
			(double)x->all_follow_ns / NS_PER_S);
	}
	metric__family(f, one_of, METRIC_GAUGE,
		       "Of so many samples of the user one is taken: more than one while it costs "
		       "too much.");
	for (size_t i = 0; i < s->user_cnt; i++)
		fprintf(f, "%s{user=\"%" PRIu32 "\"} %" PRIu32 "\n", one_of, s->users[i].uid,
			s->users[i].one_of);
}

static void put_windows(const struct agent_stats *s, FILE *f)
{
	put_uint(f, "pyperf_periods_total", METRIC_COUNTER, "Periods that have ended.", s->periods);
	put_seconds(f, "pyperf_period_end_timestamp_seconds", METRIC_GAUGE,
		    "End of the last one, since 1970; 0: none yet.", s->period_end_ns);
	put_uint(f, "pyperf_windows_total", METRIC_COUNTER,
		 "Windows made of them: one for each service and period.", s->windows);
	put_uint(f, "pyperf_samples_total", METRIC_COUNTER, "Samples in these windows.",
		 s->samples);
	put_uint(f, "pyperf_periods_dropped_total", METRIC_COUNTER,
		 "Periods dropped because delivery could not follow, or memory was short.",
		 s->periods_dropped);
	put_uint(f, "pyperf_samples_dropped_total", METRIC_COUNTER,
		 "Samples that were counted and are in no window: in these periods, mostly.",
		 s->samples_dropped);
	put_uint(f, "pyperf_samples_left_out_total", METRIC_COUNTER,
		 "Samples that were counted and are in no window because a rule of the "
		 "configuration says so.",
		 s->samples_left_out);
	put_uint(f, "pyperf_windows_failed_total", METRIC_COUNTER,
		 "Windows that the store or a spool did not take.", s->windows_failed);
	put_uint(f, "pyperf_periods_queued", METRIC_GAUGE, "Periods that wait to be delivered.",
		 s->queued);
	put_uint(f, "pyperf_services", METRIC_GAUGE, "Services in the last period.", s->services);
	put_uint(f, "pyperf_samples_over_stack_budget_total", METRIC_COUNTER,
		 "Samples whose stack was left out: stacks in [budget].", s->over_stacks);
	put_uint(f, "pyperf_samples_over_process_budget_total", METRIC_COUNTER,
		 "Samples that lost their process: processes in [budget].", s->over_processes);
	put_uint(
		f, "pyperf_processes_unlabelled_total", METRIC_COUNTER,
		"Processes with samples that ended before they could be looked at, in each period.",
		s->unlabelled);
	put_uint(f, "pyperf_clock_jumps_total", METRIC_COUNTER, "Jumps of the system's clock.",
		 s->clock_jumps);
	put_uint(f, "pyperf_suspends_total", METRIC_COUNTER, "Times that the system slept.",
		 s->suspends);
	put_uint(f, "pyperf_reloads_total", METRIC_COUNTER, "Reloads of the configuration.",
		 s->reloads);
	put_uint(f, "pyperf_reloads_failed_total", METRIC_COUNTER,
		 "Reloads that were refused: the configuration from before stays.",
		 s->reloads_failed);
}

void metrics__agent(const struct agent_stats *s, FILE *f)
{
	metric__family(f, "pyperf_build_info", METRIC_GAUGE, "The version that runs; always 1.");
	metric__uint(f, "pyperf_build_info", "version", PYPERF_VERSION, 1);
	put_sampling(s, f);
	put_open_waits(&s->waits, f);
	put_users(s, f);
	put_windows(s, f);
}

/* Uses the names and meanings of Prometheus' client libraries. */
void metrics__process(const struct agent_stats *s, FILE *f)
{
	struct rlimit fds = { 0 };
	struct timespec cpu = { 0 };

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	getrlimit(RLIMIT_NOFILE, &fds);
	put_seconds(f, "process_cpu_seconds_total", METRIC_COUNTER,
		    "CPU time of the agent, user and system.", timespec_ns(cpu));
	put_uint(f, "process_resident_memory_bytes", METRIC_GAUGE, "Resident memory of the agent.",
		 s->rss_bytes);
	put_uint(f, "process_open_fds", METRIC_GAUGE, "Open file descriptors.", s->fds);
	put_uint(f, "process_max_fds", METRIC_GAUGE, "As many as there may be.", fds.rlim_cur);
	put_seconds(f, "process_start_time_seconds", METRIC_GAUGE,
		    "When sampling began, since 1970.", s->run.start_unix_ns);
}

/* ---- what becomes of windows ----------------------------------------------------------------- */

void metrics__store(const struct store_stats *s, FILE *f)
{
	put_uint(f, "pyperf_store_bytes", METRIC_GAUGE, "Size of the store, all files.", s->bytes);
	put_uint(f, "pyperf_store_windows", METRIC_GAUGE, "Windows in it.", s->windows);
	put_seconds(f, "pyperf_store_oldest_timestamp_seconds", METRIC_GAUGE,
		    "Start of the oldest, since 1970; 0: there is none.", s->oldest_ns);
	put_seconds(f, "pyperf_store_newest_timestamp_seconds", METRIC_GAUGE,
		    "Start of the newest.", s->newest_ns);
	metric__family(f, "pyperf_store_dropped_windows_total", METRIC_COUNTER,
		       "Windows that are gone, since the store was begun.");
	for (int i = 0; i < STORE_DROP_CNT; i++)
		metric__uint(f, "pyperf_store_dropped_windows_total", "reason",
			     store_drop__name((enum store_drop)i), s->dropped[i]);
	put_uint(f, "pyperf_store_damaged_total", METRIC_COUNTER,
		 "Times that a damaged store was set aside.", s->damaged);
}

/* One figure of all destinations. */
struct push_metric {
	const char *name, *help;
	enum metric_type type;
	size_t offset; /* of a uint64_t in struct push_stats */
	bool seconds;  /* in ns */
};

#define DESTINATION "destination"
#define PUSH(name, type, seconds, member, help)                                                    \
	{                                                                                          \
		"pyperf_push_" name, help, METRIC_##type, offsetof(struct push_stats, member),     \
			seconds                                                                    \
	}

/* clang-format off */
static const struct push_metric push_metrics[] = {
	PUSH("windows_total", COUNTER, false, spool.put, "Windows for the destination."),
	PUSH("found_windows_total", COUNTER, false, spool.found,
	     "Windows that an earlier run had left in the spool."),
	PUSH("sent_windows_total", COUNTER, false, spool.sent,
	     "Windows that the destination took."),
	PUSH("sent_bytes_total", COUNTER, false, sent_bytes, "Bytes of them, as sent."),
	PUSH("requests_total", COUNTER, false, requests,
	     "Requests that have ended, however."),
	PUSH("retries_total", COUNTER, false, retries,
	     "Requests that followed a failed one of the same window."),
	PUSH("failures_total", COUNTER, false, failures,
	     "Requests without an answer, or with one that is no success."),
	PUSH("last_sent_timestamp_seconds", GAUGE, true, last_sent_unix_ns,
	     "The last success, since 1970; 0: none yet."),
	PUSH("latency_longest_seconds", GAUGE, true, latency_max_ns,
	     "The longest request."),
	PUSH("spool_windows", GAUGE, false, spool.windows,
	     "Windows that wait, on disk and in memory."),
	PUSH("spool_memory_windows", GAUGE, false, spool.memory_windows,
	     "Windows that wait in memory only."),
	PUSH("spool_services", GAUGE, false, spool.services, "Services whose windows wait."),
	PUSH("held_services", GAUGE, false, spool.held_services,
	     "Services of them that the destination refused the last time."),
	PUSH("spool_bytes", GAUGE, false, spool.bytes, "Size of what waits."),
	PUSH("spool_oldest_age_seconds", GAUGE, true, spool.oldest_age_ns,
	     "Age of the oldest that waits; 0: none does."),
	PUSH("spool_disk_errors_total", COUNTER, false, spool.disk_errors,
	     "Errors of the spool's disk."),
};
/* clang-format on */

/* Two labels; neither needs an escape: names of destinations are of a-z 0-9 _ -. */
static void put_push_drops(const struct push_stats *list, size_t cnt, FILE *f)
{
	static const char name[] = "pyperf_push_dropped_windows_total";

	metric__family(f, name, METRIC_COUNTER, "Windows that were not sent and never will be.");
	for (size_t i = 0; i < cnt; i++)
		for (int d = 0; d < SPOOL_DROP_CNT; d++)
			fprintf(f, "%s{%s=\"%s\",reason=\"%s\"} %" PRIu64 "\n", name, DESTINATION,
				list[i].name, spool_drop__name((enum spool_end)d),
				list[i].spool.dropped[d]);
}

void metrics__push(const struct push_stats *list, size_t cnt, FILE *f)
{
	for (size_t k = 0; k < sizeof(push_metrics) / sizeof(push_metrics[0]); k++) {
		const struct push_metric *m = &push_metrics[k];

		metric__family(f, m->name, m->type, m->help);
		for (size_t i = 0; i < cnt; i++) {
			uint64_t n = *(const uint64_t *)((const char *)&list[i] + m->offset);

			if (m->seconds)
				metric__seconds(f, m->name, DESTINATION, list[i].name, n);
			else
				metric__uint(f, m->name, DESTINATION, list[i].name, n);
		}
	}
	metric__family(f, "pyperf_push_latency_seconds", METRIC_SUMMARY,
		       "Time that requests took.");
	for (size_t i = 0; i < cnt; i++) {
		metric__seconds(f, "pyperf_push_latency_seconds_sum", DESTINATION, list[i].name,
				list[i].latency_sum_ns);
		metric__uint(f, "pyperf_push_latency_seconds_count", DESTINATION, list[i].name,
			     list[i].requests);
	}
	metric__family(f, "pyperf_push_failing", METRIC_GAUGE,
		       "1 when the last request was no success.");
	for (size_t i = 0; i < cnt; i++)
		metric__uint(f, "pyperf_push_failing", DESTINATION, list[i].name, list[i].failing);
	put_push_drops(list, cnt, f);
}

/* ---- event loops ----------------------------------------------------------------------------- */

#define SERVICE "service"

/*
 * Upper bounds as powers of two of microseconds: these are in the names of series, so they stay as
 * they are. What is longer than the last is in +Inf.
 */
static const unsigned loop_bounds[] = { 8, 10, 12, 14, 16, 17, 18, 19, 20, 21, 22, 23 };

static void put_loop_buckets(const struct loop_figures *l, FILE *f)
{
	static const char name[] = "pyperf_event_loop_iteration_seconds";
	uint64_t sum = 0;
	unsigned bucket = 0;

	for (size_t i = 0; i < sizeof(loop_bounds) / sizeof(loop_bounds[0]); i++) {
		while (bucket < loop_bounds[i])
			sum += l->hist[bucket++];
		fprintf(f, "%s_bucket", name);
		begin_label(f, SERVICE, l->service);
		fprintf(f, "\",le=\"%.6f\"} %" PRIu64 "\n", (double)(1U << loop_bounds[i]) / 1e6,
			sum);
	}
	fprintf(f, "%s_bucket", name);
	begin_label(f, SERVICE, l->service);
	fprintf(f, "\",le=\"+Inf\"} %" PRIu64 "\n", l->cnt);
	metric__seconds(f, "pyperf_event_loop_iteration_seconds_sum", SERVICE, l->service,
			l->busy_ns);
	metric__uint(f, "pyperf_event_loop_iteration_seconds_count", SERVICE, l->service, l->cnt);
}

void metrics__loops(const struct loop_figures *list, size_t cnt, FILE *f)
{
	metric__family(f, "pyperf_event_loop_iteration_seconds", METRIC_HISTOGRAM,
		       "What event loops do from a wait in their poll to the next one: how long "
		       "that took.");
	for (size_t i = 0; i < cnt; i++)
		put_loop_buckets(&list[i], f);
	metric__family(f, "pyperf_event_loop_slow_iterations_total", METRIC_COUNTER,
		       "Iterations of 50 ms and more: the loop was blocked or busy.");
	for (size_t i = 0; i < cnt; i++)
		metric__uint(f, "pyperf_event_loop_slow_iterations_total", SERVICE, list[i].service,
			     list[i].slow_cnt);
	metric__family(f, "pyperf_event_loop_slow_seconds_total", METRIC_COUNTER,
		       "Time in these iterations.");
	for (size_t i = 0; i < cnt; i++)
		metric__seconds(f, "pyperf_event_loop_slow_seconds_total", SERVICE, list[i].service,
				list[i].slow_ns);
}
