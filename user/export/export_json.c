/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * JSON, for programs: everything that the report is made of. docs/profile.schema.json describes it;
 * members may be added, and VERSION is raised when one changes its meaning or goes.
 *
 * Numbers are within what a double holds, but for addresses, which are hexadecimal strings.
 */
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "base/version.h"
#include "profile/export_stacks.h"
#include "profile/export_text.h"
#include "profile/loops.h"

#define VERSION 1

struct proc_counts {
	uint64_t samples, count;
};

struct writer {
	const struct profile *p;
	const struct export_opts *o;
	struct export_view view;
	struct proc_counts *proc_samples; /* by rank */
	struct strbuf buf;
	struct json j;
};

static void put(struct writer *w, const char *key)
{
	json__string(&w->j, key, w->buf.s ? w->buf.s : "", w->buf.len);
	w->buf.len = 0; /* an error of buf stays */
}

/* Members that have nothing to say are left out. */
static void put_name(struct writer *w, const char *key, str_id id)
{
	text_add_name(&w->buf, w->p, id, "");
	if (w->buf.len)
		put(w, key);
}

static void put_path(struct writer *w, const char *key, str_id id)
{
	text_add_path(&w->buf, w->p, id);
	if (w->buf.len)
		put(w, key);
}

static void put_counters(struct writer *w)
{
	static const char *const names[CTR_CNT] = {
#define X(name, text) [CTR_##name] = #name,
		PYPERF_COUNTERS(X)
#undef X
	};

	json__object(&w->j, "counters");
	for (size_t i = 0; i < CTR_CNT; i++)
		json__uint(&w->j, names[i], w->p->stats.counters[i]);
	json__end(&w->j, '}');
}

/* Writes the counts: samples for a clock, both numbers for other events. */
static void put_counts(struct writer *w, uint64_t samples, uint64_t count)
{
	bool clock = value_type__is_clock(&w->p->stats.values[0]);

	json__uint(&w->j, "samples", clock ? count : samples);
	if (!clock)
		json__uint(&w->j, "events", count);
}

/* One element for each value type, where there are several. */
static void put_values(struct writer *w)
{
	const struct value_type *v = w->p->stats.values;

	if (profile__value_cnt(w->p) < 2)
		return;
	json__array(&w->j, "values");
	for (uint32_t k = 0; k < profile__value_cnt(w->p); k++) {
		const struct profile *view = profile__view(w->p, k);

		if (!view) {
			w->buf.err = -ENOMEM;
			break;
		}
		json__newline(&w->j);
		json__object(&w->j, NULL);
		json__stringz(&w->j, "name", value_type__name(&v[k]));
		json__stringz(&w->j, "unit", value_type__unit(&v[k]));
		if (v[k].frequency_hz)
			json__uint(&w->j, "frequency_hz", v[k].frequency_hz);
		if (v[k].rate_hz)
			json__uint(&w->j, "rate_hz", v[k].rate_hz);
		if (v[k].period)
			json__uint(&w->j, "period", v[k].period);
		json__uint(&w->j, "samples", profile__samples(view));
		json__uint(&w->j, "total", profile__total(view));
		json__end(&w->j, '}');
		profile__free_view(view, w->p);
	}
	json__end(&w->j, ']');
}

static void put_event(struct writer *w)
{
	const struct profile_stats *s = &w->p->stats;

	json__stringz(&w->j, "event", value_type__name(&s->values[0]));
	if (s->values[0].rate_hz)
		json__uint(&w->j, "rate_hz", s->values[0].rate_hz);
	if (s->values[0].period)
		json__uint(&w->j, "period", s->values[0].period);
	if (s->slowed > 1)
		json__uint(&w->j, "slowed", s->slowed);
	put_counts(w, profile__samples(w->p), profile__total(w->p));
	put_values(w);
}

/* Writes the owners whose files and memory were not read. */
static void put_refused(struct writer *w)
{
	json__array(&w->j, "refused");
	for (uint32_t i = 0; i < w->p->refused_cnt; i++)
		json__stringz(&w->j, NULL, profile__str(w->p, w->p->refused[i]));
	json__end(&w->j, ']');
}

static void put_head(struct writer *w)
{
	const struct profile_stats *s = &w->p->stats;

	json__stringz(&w->j, "format", "pyperf-bpf");
	json__uint(&w->j, "version", VERSION);
	json__stringz(&w->j, "program", "pyperf-bpf " PYPERF_VERSION);
	json__double(&w->j, "start_unix_s", (double)s->start_unix_ns / 1e9);
	json__double(&w->j, "duration_s", (double)s->duration_ns / 1e9);
	json__uint(&w->j, "frequency_hz", s->values[0].frequency_hz);
	json__uint(&w->j, "cpus", s->cpus);
	put_event(w);
	if (s->counters[CTR_delivered])
		put_counters(w);
	if (w->p->refused_cnt)
		put_refused(w);
	json__object(&w->j, "cost");
	json__double(&w->j, "user_cpu_s", (double)s->self_cpu_ns / 1e9);
	json__double(&w->j, "bpf_cpu_s", (double)s->bpf_ns / 1e9);
	json__uint(&w->j, "bpf_runs", s->bpf_runs);
	json__uint(&w->j, "rss_bytes", s->rss_bytes);
	json__uint(&w->j, "map_bytes", s->map_bytes);
	json__end(&w->j, '}');
}

/* ---- Event loops ---- */

static void put_loop_stack(struct writer *w, const struct profile_loop_stack *s)
{
	json__object(&w->j, NULL);
	json__double(&w->j, "sampled_s", (double)s->ns / 1e9);
	json__array(&w->j, "functions");
	for (uint32_t i = 0; i < s->cnt; i++) {
		text_add_label(&w->buf, w->p, export_sym(w->p, w->p->loop_syms[s->first + i]));
		put(w, NULL);
	}
	json__end(&w->j, ']');
	json__end(&w->j, '}');
}

static int put_stretch(struct writer *w, const struct profile_stretch *s)
{
	int err;

	json__newline(&w->j);
	json__object(&w->j, NULL);
	json__double(&w->j, "at_s", (double)s->begin_ns / 1e9);
	json__double(&w->j, "s", (double)s->ns / 1e9);
	if (s->open)
		json__bool(&w->j, "open", true);
	err = loops_add_path(&w->buf, w->p, s);
	if (w->buf.len)
		put(w, "what");
	json__array(&w->j, "stacks");
	for (uint32_t i = 0; i < s->stack_cnt; i++)
		if (s->stacks[i].cnt)
			put_loop_stack(w, &s->stacks[i]);
	json__end(&w->j, ']');
	json__end(&w->j, '}');
	return err;
}

static void put_hist(struct writer *w, const struct profile_loop *l)
{
	unsigned first, end = loops_buckets(l, &first);

	json__array(&w->j, "histogram");
	for (unsigned i = first; i < end; i++) {
		json__object(&w->j, NULL);
		json__uint(&w->j, "below_us", 2ULL << i);
		json__uint(&w->j, "iterations", l->hist[i]);
		json__end(&w->j, '}');
	}
	json__end(&w->j, ']');
}

static int put_loop(struct writer *w, const struct profile_loop *l)
{
	int proc = profile__find_proc(w->p, l->space), err = 0;

	json__newline(&w->j);
	json__object(&w->j, NULL);
	json__uint(&w->j, "pid", proc >= 0 ? w->p->procs[proc].tgid : 0);
	json__uint(&w->j, "tid", l->tid);
	json__uint(&w->j, "iterations", l->cnt);
	json__double(&w->j, "busy_s", (double)l->busy_ns / 1e9);
	json__uint(&w->j, "slow", l->slow_cnt);
	json__double(&w->j, "slow_s", (double)l->slow_ns / 1e9);
	put_hist(w, l);
	json__array(&w->j, "longest");
	for (uint32_t i = 0; i < l->longest_cnt && i < LOOP_LONGEST && !err; i++)
		err = put_stretch(w, &l->longest[i]);
	json__end(&w->j, ']');
	json__end(&w->j, '}');
	return err;
}

static int put_loops(struct writer *w)
{
	const struct profile_loop **of = calloc(w->p->loop_cnt + 1, sizeof(*of));
	size_t cnt = of ? loops_list(w->p, of) : 0;
	int err = of ? 0 : -ENOMEM;

	if (cnt)
		json__array(&w->j, "loops");
	for (size_t i = 0; i < cnt && !err; i++)
		err = put_loop(w, of[i]);
	if (cnt)
		json__end(&w->j, ']');
	free(of);
	return err;
}

static void put_await(struct writer *w, const struct profile_await *a)
{
	int proc = profile__find_proc(w->p, a->space);

	json__newline(&w->j);
	json__object(&w->j, NULL);
	json__uint(&w->j, "pid", proc >= 0 ? w->p->procs[proc].tgid : 0);
	json__uint(&w->j, "looks", a->looks);
	json__uint(&w->j, "of", a->of);
	if (a->cut)
		json__uint(&w->j, "cut", a->cut);
	json__uint(&w->j, "tasks", a->tasks);
	json__uint(&w->j, "came", a->came);
	json__array(&w->j, "functions");
	for (uint32_t i = 0; i < a->stack.cnt; i++) {
		text_add_label(&w->buf, w->p,
			       export_sym(w->p, w->p->loop_syms[a->stack.first + i]));
		put(w, NULL);
	}
	json__end(&w->j, ']');
	json__end(&w->j, '}');
}

static void put_awaits(struct writer *w)
{
	if (!w->p->await_cnt)
		return;
	json__array(&w->j, "awaits");
	for (size_t i = 0; i < w->p->await_cnt; i++)
		put_await(w, &w->p->awaits[i]);
	json__end(&w->j, ']');
}

/* ---- Lists ---- */

static void put_process(struct writer *w, size_t rank)
{
	const struct profile_proc *proc = &w->p->procs[w->view.procs.at[rank]];

	json__newline(&w->j);
	json__object(&w->j, NULL);
	json__uint(&w->j, "pid", proc->tgid);
	put_name(w, "comm", proc->comm);
	put_name(w, "title", proc->title);
	put_path(w, "exe", proc->exe);
	put_name(w, "container", proc->container);
	put_name(w, "python", proc->python);
	put_name(w, "native_only", proc->native_only);
	put_counts(w, w->proc_samples[rank].samples, w->proc_samples[rank].count);
	json__end(&w->j, '}');
}

static void put_frame(struct writer *w, const struct sym *s)
{
	bool has_address = s->kind == SYM_NATIVE || s->kind == SYM_KERNEL;

	json__newline(&w->j);
	json__object(&w->j, NULL);
	json__stringz(&w->j, "kind", export_kind_name(s->kind));
	text_add_func(&w->buf, w->p, s, "");
	if (w->buf.len)
		put(w, "function");
	put_path(w, "file", s->file);
	if (w->o->lines && s->line)
		json__uint(&w->j, "line", s->line);
	if (s->start_line)
		json__uint(&w->j, "start_line", s->start_line);
	if (s->module >= 0 && (size_t)s->module < w->p->module_cnt) {
		put_path(w, "module", w->p->modules[s->module].path);
		put_name(w, "build_id", w->p->modules[s->module].build_id);
	}
	if (has_address && !s->func) { /* else a frame stands for many */
		strbuf__addf(&w->buf, "0x%" PRIx64, s->addr);
		put(w, "address");
	}
	json__end(&w->j, '}');
}

/* For value types after the first, "value" is the number of the type. */
static void put_stack_counts(struct writer *w, const struct flat_stack *s)
{
	if (!s->type) {
		put_counts(w, s->samples, s->count);
		return;
	}
	json__uint(&w->j, "value", s->type);
	json__uint(&w->j, "samples", s->samples);
	json__uint(&w->j, "total", s->count);
}

static void put_stack(struct writer *w, const struct flat_stack *s)
{
	size_t proc = s->key >> 32;
	uint32_t tid = THREAD_TID((uint32_t)s->key), interp = THREAD_INTERP((uint32_t)s->key);

	json__newline(&w->j);
	json__object(&w->j, NULL);
	if (proc < w->p->proc_cnt)
		json__uint(&w->j, "process", proc);
	if (tid)
		json__uint(&w->j, "tid", tid);
	if (interp)
		json__uint(&w->j, "interpreter", interp);
	put_stack_counts(w, s);
	json__array(&w->j, "frames");
	for (uint32_t i = 0; i < s->cnt; i++)
		json__uint(&w->j, NULL, w->view.stacks.elems[s->first + i]);
	json__end(&w->j, ']');
	json__end(&w->j, '}');
}

/* Writes a thread, if it has samples: the others are in no stack. */
static void put_thread(struct writer *w, const struct stack_group *g)
{
	const struct profile_proc *proc = export_view__proc(&w->view, w->p, g);
	uint32_t tid = THREAD_TID((uint32_t)g->key), interp = THREAD_INTERP((uint32_t)g->key);
	const char *name = profile__thread_name(w->p, proc ? proc->space : 0, tid);

	if (!proc || !tid)
		return;
	json__newline(&w->j);
	json__object(&w->j, NULL);
	json__uint(&w->j, "process", g->key >> 32);
	json__uint(&w->j, "tid", tid);
	if (interp)
		json__uint(&w->j, "interpreter", interp);
	str_sanitise(&w->buf, name, strlen(name), TEXT_NAME_MAX);
	put(w, "name");
	put_counts(w, g->samples, g->count);
	json__end(&w->j, '}');
}

static void put_lists(struct writer *w)
{
	json__array(&w->j, "processes");
	for (size_t i = 0; i < w->p->proc_cnt; i++)
		put_process(w, i);
	json__end(&w->j, ']');
	json__array(&w->j, "threads");
	for (size_t i = 0; i < w->view.group_cnt; i++)
		put_thread(w, &w->view.groups[i]);
	json__end(&w->j, ']');
	json__array(&w->j, "frames");
	for (uint32_t i = 0; i < w->view.places.cnt; i++)
		put_frame(w, export_sym(w->p, w->view.places.first[i]));
	json__end(&w->j, ']');
	json__array(&w->j, "stacks");
	for (size_t i = 0; i < w->view.stacks.cnt; i++)
		put_stack(w, &w->view.stacks.stacks[i]);
	json__end(&w->j, ']');
}

static int write_all(struct writer *w)
{
	int err;

	w->proc_samples = calloc(w->p->proc_cnt + 1, sizeof(*w->proc_samples));
	if (!w->proc_samples)
		return -ENOMEM;
	for (size_t i = 0; i < w->view.group_cnt; i++) {
		struct proc_counts *of = &w->proc_samples[w->view.groups[i].key >> 32];

		of->samples += w->view.groups[i].samples;
		of->count += w->view.groups[i].count;
	}
	errno = 0;
	json__object(&w->j, NULL);
	put_head(w);
	err = put_loops(w);
	put_awaits(w);
	put_lists(w);
	json__end(&w->j, '}');
	putc('\n', w->j.f);
	if (!w->buf.err && ferror(w->j.f))
		return errno ? -errno : -EIO;
	return err ? err : w->buf.err;
}

int export__json(const struct profile *p, const struct export_opts *o, FILE *f)
{
	struct writer w = { .p = p, .o = o, .j = { .f = f } };
	unsigned parts = PLACE_DEFINITIONS | (o->lines ? PLACE_LINES : 0);
	int err = export_view__init(&w.view, p, parts, o->threads);

	if (!err)
		err = write_all(&w);
	strbuf__free(&w.buf);
	free(w.proc_samples);
	export_view__free(&w.view);
	return err;
}
