/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Of a session: names, and the figures of a profile. */
#include "sample/session_parts.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/procfield.h"
#include "follow/follow.h"

void session__end(struct session *s)
{
	follow__end(s->follow);
}

/* Names the owners whose files and memory are not read. */
static void name_refused(const struct session *s, struct profile *p)
{
	struct reader_refused refused[READER_REFUSED_MAX];
	size_t cnt = readers__hung(process_table__readers(s->procs), true, refused);
	struct strbuf b = { 0 };

	p->stats.counters[CTR_note_refused] = cnt;
	p->refused_cnt = 0;
	for (size_t i = 0; i < cnt && i < READER_REFUSED_MAX && i < PROFILE_REFUSED_MAX; i++) {
		strbuf__clear(&b);
		reader_refused__print(&refused[i], &b);
		if (!b.err)
			p->refused[p->refused_cnt++] = profile__intern(p, b.s, b.len);
	}
	strbuf__free(&b);
}

int session__name(struct session *s, struct profile *p, const struct symbolize_opts *so)
{
	int err = follow__names(s->follow, p, so);

	name_refused(s, p);
	if (!err && s->loops && s->o.loops == SESSION_LOOPS_EACH) {
		err = profile__name_loops(p);
		loopbook__learn(s->loops, p);
	}
	return err;
}

void session__forget(struct session *s)
{
	if (!s->drained)
		return;
	s->drained = false;
	follow__forget_names(s->follow, s->o.names_budget);
}

bool session__worn(const struct session *s)
{
	return follow__worn(s->follow);
}

void session__fill(const struct session *s, struct table_fill out[SESSION_FILLS])
{
	struct process_maps maps;
	struct process_stats procs;
	struct file_stats files;

	object__process_maps(s->object, &maps);
	process_table__stats(s->procs, &procs);
	process_table__file_stats(s->procs, &files);
	object__fill(s->object, procs.live, out);
	out[OBJECT_FILLS] =
		(struct table_fill){ "mappings", procs.mappings_used, maps.mapping_cap };
	out[OBJECT_FILLS + 1] = (struct table_fill){ "tables", files.tables, maps.table_cap };
}

void session__counters(struct session *s, uint64_t counters[CTR_CNT])
{
	object__counters(s->object, counters);
	source_set__counters(&s->sources, counters);
	dump__correct(&s->late, counters);
	counters[CTR_note_rate_lowered] = s->rate_lowered;
	counters[CTR_note_kernel_rate] = s->kernel_rate_lowered;
	counters[CTR_note_throttled] = follow__throttled(s->follow);
	counters[CTR_note_refused] =
		readers__hung(process_table__readers(s->procs), true,
			      (struct reader_refused[READER_REFUSED_MAX]){ 0 });
}

double session_due(const struct session *s, uint64_t now_ns)
{
	double seconds = now_ns > s->due_ns ? (double)(now_ns - s->due_ns) / NS_PER_S : 0;

	return seconds * s->frequency_hz / s->rate.slowed * (double)follow__cpu_cnt(s->follow);
}

/*
 * The samples of one clock that should have come but did not. Its events may have begun earlier
 * than we say, never later; each may lack a part of a period at both ends, and where its rate
 * changes.
 */
static uint64_t missed(const struct session *s, const struct profile_stats *out)
{
	double least = s->due + session_due(s, s->end_ns ? s->end_ns : now_ns());
	double came = (double)out->counters[CTR_delivered] + 2.0 * (1 + s->rate_cnt) * out->cpus;

	if (out->value_cnt != 1 || session_is_no_clock(s->o.spec->sources[0].source) ||
	    s->kernel_rate_lowered)
		return 0;
	return least > came ? (uint64_t)(least - came) : 0;
}

static void set_rate(const struct session *s, struct profile_stats *out)
{
	const struct sample_spec *t = s->o.spec;

	for (out->value_cnt = 0; out->value_cnt < t->source_cnt; out->value_cnt++) {
		const struct source *source = t->sources[out->value_cnt].source;
		struct value_type *v = &out->values[out->value_cnt];
		bool clock = !session_is_no_clock(source), rated = !clock && source->set_rate;

		*v = source_spec__type(&t->sources[out->value_cnt]);
		v->frequency_hz = clock ? s->frequency_hz : 0;
		v->period = rated ? t->period : 0;
		v->rate_hz = rated && !v->period ? s->frequency_hz : 0;
	}
	if (s->has_peak) {
		struct value_type *v = &out->values[out->value_cnt++];

		*v = (struct value_type){ .event = EVENT_PEAK_SPACE,
					  .rate_hz = out->values[0].rate_hz,
					  .period = out->values[0].period };
	}
	out->slowed = s->slowest > 1 ? s->slowest : 0;
}

/* Peak memory of this program. Not ru_maxrss, which begins with the value of the parent. */
static uint64_t peak_rss(void)
{
	char kib[32];

	procfield__read("/proc/self/status", "VmHWM", kib, sizeof(kib));
	return strtoull(kib, NULL, 10) << 10;
}

void session__stats(struct session *s, struct profile_stats *out)
{
	struct file_stats files;

	session__counters(s, out->counters);
	object__run_time(s->object, &out->bpf_ns, &out->bpf_runs);
	if (!s->o.timed)
		out->counters[CTR_follow_ns] = object__follow_time(s->object);
	out->drain_ns = s->drain_ns;
	out->start_unix_ns = s->start_unix_ns;
	out->duration_ns = (s->end_ns ? s->end_ns : now_ns()) - s->start_ns;
	out->self_cpu_ns = (s->end_ns ? s->cpu_end_ns : session_self_cpu_ns()) - s->cpu_start_ns;
	out->ready_ns = s->starved_now.ready_ns - s->starved_then.ready_ns;
	out->throttled_ns = starved__throttled(&s->starved_then, &s->starved_now, out->duration_ns);
	set_rate(s, out);
	out->cpus = follow__cpu_cnt(s->follow);
	out->counters[CTR_note_missed] = missed(s, out);
	out->rss_bytes = peak_rss();
	if (out->rss_bytes > object__mapped_bytes(s->object)) /* those are counted below */
		out->rss_bytes -= object__mapped_bytes(s->object);
	process_table__file_stats(s->procs, &files);
	out->counters[CTR_note_table_evicted] = files.tables_evicted;
	out->counters[CTR_note_table_refused] = files.tables_refused;
	out->counters[CTR_note_file_released] = files.released;
	out->map_bytes = object__map_bytes(s->object) + files.table_bytes + files.spare_bytes;
}

void session__sink(const struct session *s, struct ring_sink *sink)
{
	follow__sink(s->follow, sink);
}

const struct session_opts *session__opts(const struct session *s)
{
	return &s->o;
}

const struct process_table *session__procs(const struct session *s)
{
	return s->procs;
}

void session__maps(const struct session *s, struct process_maps *maps)
{
	object__process_maps(s->object, maps);
}
