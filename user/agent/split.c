/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/split.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "export/export.h"

#define GROUP_MAX     8
#define FORGET_AFTER  240U /* periods without a sample of it */
#define SERVICES_KEPT 4096U
#define DIFFERING_MAX                                                                              \
	64U	       /* names; processes choose those of attributes, so there may be any number */
#define BETWEEN '\x1f' /* no label has it: they have no control characters */

/*
 * A service, remembered from one period to the next, with the labels in which its processes ever
 * differed.
 */
struct service {
	char *key;
	struct strbuf differing; /* names, each with BETWEEN around it */
	unsigned differing_cnt;
	bool large;	    /* it was once large enough for a window of its own, and keeps it */
	uint32_t last_seen; /* period */
};

struct splitter {
	char *group[GROUP_MAX + 1];
	struct service *services;
	size_t cnt, cap;
	uint32_t period;
	uint32_t small;	   /* samples */
	uint64_t left_out; /* samples, by rules, of the last period */
};

struct splitter *splitter__new(const char *const *group)
{
	struct splitter *s = calloc(1, sizeof(*s));

	for (size_t i = 0; s && group[i] && i < GROUP_MAX; i++) {
		s->group[i] = strdup(group[i]);
		if (!s->group[i]) {
			splitter__free(s);
			return NULL;
		}
	}
	return s;
}

void splitter__set_small(struct splitter *s, uint32_t samples)
{
	s->small = samples;
}

uint64_t splitter__left_out(const struct splitter *s)
{
	return s->left_out;
}

static void free_service(struct service *v)
{
	free(v->key);
	strbuf__free(&v->differing);
}

void splitter__free(struct splitter *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->cnt; i++)
		free_service(&s->services[i]);
	free(s->services);
	for (size_t i = 0; i < GROUP_MAX; i++)
		free(s->group[i]);
	free(s);
}

static struct service *find_service(struct splitter *s, const char *key)
{
	for (size_t i = 0; i < s->cnt; i++)
		if (!strcmp(s->services[i].key, key))
			return &s->services[i];
	return NULL;
}

static void forget_services(struct splitter *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->cnt; i++) {
		if (s->period - s->services[i].last_seen > FORGET_AFTER)
			free_service(&s->services[i]);
		else
			s->services[kept++] = s->services[i];
	}
	s->cnt = kept;
}

/* NULL: there are too many of them, or no memory. Then only this period decides on its labels. */
static struct service *remember(struct splitter *s, const char *key)
{
	struct service *v = find_service(s, key);

	if (!v && s->cnt < SERVICES_KEPT &&
	    !ARRAY_GROW(s->services, s->cap, s->cnt, SERVICES_KEPT)) {
		v = &s->services[s->cnt];
		*v = (struct service){ .key = strdup(key) };
		if (!v->key)
			return NULL;
		s->cnt++;
	}
	if (v)
		v->last_seen = s->period;
	return v;
}

/* ---- who belongs together -------------------------------------------------------------------- */

struct member {
	char *key;
	uint32_t proc;
};

struct split {
	struct splitter *s;
	const struct period *p;
	struct member *members; /* by key */
	size_t member_cnt;
	uint32_t *first_stack; /* by process; in `stacks` */
	uint32_t *stacks;      /* indexes of stacks, by process */
	uint32_t *sym_of;      /* sym of the profile -> of the view, if sym_in says this one */
	uint32_t *sym_in;
	uint32_t view_nr;
	struct profile view; /* of one service; borrows strings and modules */
	struct label labels[LABELS_MAX];
	size_t label_cnt;
	split_fn fn;
	void *ctx;
	uint32_t services, unmade;
};

static char *group_key(const struct splitter *s, const struct label_set *labels)
{
	struct strbuf key = { 0 };

	for (char *const *name = s->group; *name; name++) {
		const char *value = label_set__get(labels, *name);

		if (value)
			strbuf__addz(&key, value);
		strbuf__addc(&key, BETWEEN);
	}
	if (key.err)
		strbuf__free(&key);
	return key.s;
}

static int cmp_members(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	int d = strcmp(x->key, y->key);

	return d ? d : (x->proc > y->proc) - (x->proc < y->proc);
}

static int find_members(struct split *x)
{
	size_t cnt = x->p->profile->proc_cnt;

	x->members = calloc(cnt + 1, sizeof(*x->members));
	if (!x->members)
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++) {
		struct member *m = &x->members[x->member_cnt];

		if (x->p->labels[i]->drop)
			continue;
		m->proc = (uint32_t)i;
		m->key = group_key(x->s, x->p->labels[i]);
		if (!m->key)
			return -ENOMEM;
		x->member_cnt++;
	}
	qsort(x->members, x->member_cnt, sizeof(*x->members), cmp_members);
	return 0;
}

/* Windows and services are measured in the first value type, which is that of a clock. */
static uint64_t samples_of(const struct profile_stack *s)
{
	return s->type ? 0 : s->count;
}

/* Samples of the processes that are in no window. */
static uint64_t count_left_out(const struct period *p)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->profile->stack_cnt; i++)
		if (p->labels[p->profile->stacks[i].proc]->drop)
			sum += samples_of(&p->profile->stacks[i]);
	return sum;
}

/* Counting sort. */
static int order_stacks(struct split *x)
{
	const struct profile *p = x->p->profile;
	uint32_t *at = calloc(p->proc_cnt + 1, sizeof(*at));

	x->first_stack = calloc(p->proc_cnt + 2, sizeof(*x->first_stack));
	x->stacks = calloc(p->stack_cnt + 1, sizeof(*x->stacks));
	x->sym_of = calloc(p->sym_cnt + 1, sizeof(*x->sym_of));
	x->sym_in = calloc(p->sym_cnt + 1, sizeof(*x->sym_in));
	if (!at || !x->first_stack || !x->stacks || !x->sym_of || !x->sym_in) {
		free(at);
		return -ENOMEM;
	}
	for (size_t i = 0; i < p->stack_cnt; i++)
		x->first_stack[p->stacks[i].proc + 1]++;
	for (size_t i = 0; i < p->proc_cnt; i++)
		x->first_stack[i + 1] += x->first_stack[i];
	memcpy(at, x->first_stack, p->proc_cnt * sizeof(*at));
	for (size_t i = 0; i < p->stack_cnt; i++)
		x->stacks[at[p->stacks[i].proc]++] = (uint32_t)i;
	free(at);
	return 0;
}

/* ---- small services -------------------------------------------------------------------------- */

/* How many members, from the first of a service on, belong to it. */
static size_t same_service(const struct split *x, size_t first)
{
	size_t cnt = 1;

	while (first + cnt < x->member_cnt &&
	       !strcmp(x->members[first].key, x->members[first + cnt].key))
		cnt++;
	return cnt;
}

/* A service that only waits has no sample of the clock, and many of its waits. */
static uint64_t size_of(const struct profile *p, const struct profile_stack *s)
{
	return value_type__is_time(&p->stats.values[s->type]) ? s->samples : samples_of(s);
}

static uint64_t count_samples(const struct split *x, const struct member *m, size_t cnt)
{
	const struct profile *p = x->p->profile;
	uint64_t sum = 0;

	for (size_t i = 0; i < cnt; i++)
		for (uint32_t j = x->first_stack[m[i].proc]; j < x->first_stack[m[i].proc + 1]; j++)
			sum += size_of(p, &p->stacks[x->stacks[j]]);
	return sum;
}

/* A service that was once larger keeps its row: else quiet hours would have other rows. */
static bool is_small(struct split *x, const struct member *m, size_t cnt)
{
	struct service *v;

	if (count_samples(x, m, cnt) < x->s->small) {
		v = find_service(x->s, m->key);
		return !v || !v->large;
	}
	v = remember(x->s, m->key);
	if (v)
		v->large = true;
	return false;
}

/* No key of a service: that has BETWEEN behind each of its values. */
static bool is_rest(const char *key)
{
	return !strcmp(key, SPLIT_SMALL);
}

/* Marks the members of small services in `small`, and returns how many services these are. */
static size_t mark_small(struct split *x, bool *small)
{
	size_t services = 0, cnt;

	for (size_t i = 0; i < x->member_cnt; i += cnt) {
		cnt = same_service(x, i);
		small[i] = is_small(x, &x->members[i], cnt);
		services += small[i];
		for (size_t j = 1; j < cnt; j++)
			small[i + j] = small[i];
	}
	return services;
}

/* Several small services become one. 0 or -ENOMEM. */
static int join_small(struct split *x)
{
	bool *small = x->s->small ? calloc(x->member_cnt + 1, sizeof(*small)) : NULL;
	int err = x->s->small && !small ? -ENOMEM : 0;

	if (small && mark_small(x, small) > 1) {
		for (size_t i = 0; i < x->member_cnt && !err; i++) {
			char *key = small[i] ? strdup(SPLIT_SMALL) : NULL;

			if (!small[i])
				continue;
			if (!key)
				err = -ENOMEM;
			else
				free(x->members[i].key), x->members[i].key = key;
		}
		qsort(x->members, x->member_cnt, sizeof(*x->members), cmp_members);
	}
	free(small);
	return err;
}

/* ---- labels of a service --------------------------------------------------------------------- */

static bool is_grouping(const struct splitter *s, const char *name)
{
	for (char *const *g = s->group; *g; g++)
		if (!strcmp(*g, name))
			return true;
	return !strcmp(name, "host");
}

static bool has_differed(const struct service *v, const char *name)
{
	char quoted[160];

	snprintf(quoted, sizeof(quoted), "%c%s%c", BETWEEN, name, BETWEEN);
	return v && v->differing.len && strstr(v->differing.s, quoted);
}

static void note_differing(struct service *v, const char *name)
{
	if (!v || v->differing_cnt == DIFFERING_MAX || has_differed(v, name))
		return;
	strbuf__addf(&v->differing, "%c%s%c", BETWEEN, name, BETWEEN);
	v->differing_cnt++;
}

static bool all_agree(const struct split *x, const struct member *m, size_t cnt,
		      const struct label *label)
{
	for (size_t i = 0; i < cnt; i++) {
		const char *value = label_set__get(x->p->labels[m[i].proc], label->name);

		if (!value || strcmp(value, label->value))
			return false;
	}
	return true;
}

/* A label that the first process does not have is not one of all. */
static void choose_labels(struct split *x, const struct member *m, size_t cnt)
{
	const struct label_set *first = x->p->labels[m[0].proc];
	struct service *v = remember(x->s, m[0].key);
	bool rest = is_rest(m[0].key);

	x->label_cnt = 0;
	for (size_t i = 0; i < first->cnt; i++) {
		const struct label *label = &first->labels[i];
		bool grouping =
			rest ? !strcmp(label->name, "host") : is_grouping(x->s, label->name);

		if (rest && !strcmp(label->name, "service_name")) {
			x->labels[x->label_cnt++] = (struct label){ label->name, SPLIT_SMALL };
			continue;
		}
		if (!grouping && !all_agree(x, m, cnt, label))
			note_differing(v, label->name);
		else if (grouping || !has_differed(v, label->name))
			x->labels[x->label_cnt++] = *label;
	}
}

/* ---- its stacks ------------------------------------------------------------------------------ */

static uint32_t take_sym(struct split *x, uint32_t sym)
{
	const struct profile *p = x->p->profile;
	uint32_t head = UINT32_MAX, *link = &head;

	/* Along the chain of inlined functions, which is finite: each is taken once. */
	while (sym < p->sym_cnt && x->sym_in[sym] != x->view_nr) {
		uint32_t to = (uint32_t)x->view.sym_cnt++;

		x->sym_in[sym] = x->view_nr;
		x->sym_of[sym] = to;
		x->view.syms[to] = p->syms[sym];
		*link = to;
		link = (uint32_t *)&x->view.syms[to].inlined;
		sym = (uint32_t)p->syms[sym].inlined; /* -1: beyond the last */
	}
	*link = sym < p->sym_cnt ? x->sym_of[sym] : UINT32_MAX;
	return head;
}

static void take_stack(struct split *x, const struct profile_stack *s, uint32_t proc)
{
	const struct profile *p = x->p->profile;
	struct profile_stack *to = &x->view.stacks[x->view.stack_cnt++];

	*to = *s;
	to->proc = proc;
	to->first = (uint32_t)x->view.frame_cnt;
	for (uint32_t i = 0; i < s->cnt; i++) {
		uint32_t sym = p->frame_syms ? p->frame_syms[s->first + i] : UINT32_MAX;

		x->view.frame_syms[x->view.frame_cnt++] = take_sym(x, sym);
	}
	x->view.stats.counters[CTR_counted] += samples_of(s);
}

/* How many of the numbers start, start + step, ... are below `end`? */
static uint64_t steps_below(uint64_t start, uint64_t step, uint64_t end)
{
	return end > start ? (end - start + step - 1) / step : 0;
}

/* Adds a stack again, with another count. */
static void count_again(struct split *x, struct profile_stack *s, uint64_t count)
{
	x->view.stats.counters[CTR_counted] -= samples_of(s);
	s->count = count;
	x->view.stats.counters[CTR_counted] += samples_of(s);
}

/* The stacks of a process in a value type; behind the last one: the end of its stacks. */
static uint32_t next_of_type(const struct split *x, uint32_t from, uint32_t j, uint32_t type)
{
	while (j < x->first_stack[from + 1] && x->p->profile->stacks[x->stacks[j]].type != type)
		j++;
	return j;
}

/*
 * Every one_in-th sample of a process in a value type, which stands for all of them: fewer stacks,
 * and as much time. What is behind the last one that is kept, and before the first, is the last
 * one's: so the sum is that of all samples.
 */
static void take_some(struct split *x, uint32_t from, uint32_t proc, uint32_t one_in, uint32_t type)
{
	uint64_t start = (x->p->span.start_unix_ns / 1000000 + from) % one_in, seen = 0, kept = 0;
	const struct profile *p = x->p->profile;
	struct profile_stack *last = NULL;
	uint32_t next;

	for (uint32_t j = next_of_type(x, from, x->first_stack[from], type);
	     j < x->first_stack[from + 1]; j = next) {
		struct profile_stack s = p->stacks[x->stacks[j]];
		uint64_t n = steps_below(start, one_in, seen + s.count) -
			     steps_below(start, one_in, seen);

		next = next_of_type(x, from, j + 1, type);
		seen += s.count;
		if (!n && (last || next < x->first_stack[from + 1]))
			continue;
		s.count = n * one_in;
		s.samples = !n ? 1 : s.samples < n ? s.samples : n;
		take_stack(x, &s, proc);
		last = &x->view.stacks[x->view.stack_cnt - 1];
		kept += s.count;
	}
	if (last)
		count_again(x, last, last->count + seen - kept);
}

static void take_all(struct split *x, uint32_t from, uint32_t proc)
{
	for (uint32_t j = x->first_stack[from]; j < x->first_stack[from + 1]; j++)
		take_stack(x, &x->p->profile->stacks[x->stacks[j]], proc);
}

static int alloc_view(struct split *x, const struct member *m, size_t cnt)
{
	const struct profile *p = x->p->profile;
	size_t stacks = 0, frames = 0;

	for (size_t i = 0; i < cnt; i++) {
		for (uint32_t j = x->first_stack[m[i].proc]; j < x->first_stack[m[i].proc + 1]; j++)
			frames += p->stacks[x->stacks[j]].cnt;
		stacks += x->first_stack[m[i].proc + 1] - x->first_stack[m[i].proc];
	}
	x->view = (struct profile){ .strings = p->strings,
				    .modules = p->modules,
				    .module_cnt = p->module_cnt };
	x->view.index = p->index;
	x->view.threads = p->threads;
	x->view.thread_cnt = p->thread_cnt;
	x->view.procs = calloc(cnt, sizeof(*x->view.procs));
	x->view.stacks = calloc(stacks + 1, sizeof(*x->view.stacks));
	x->view.frame_syms = calloc(frames + 1, sizeof(*x->view.frame_syms));
	x->view.syms = calloc(p->sym_cnt + 1, sizeof(*x->view.syms));
	return x->view.procs && x->view.stacks && x->view.frame_syms && x->view.syms ? 0 : -ENOMEM;
}

static void free_view(struct split *x)
{
	free(x->view.procs);
	free(x->view.stacks);
	free(x->view.frame_syms);
	free(x->view.syms);
}

static int make_view(struct split *x, const struct member *m, size_t cnt)
{
	const struct profile *p = x->p->profile;
	int err = alloc_view(x, m, cnt);
	uint32_t one_in;

	if (err)
		return err;
	x->view_nr++;
	x->view.stats.start_unix_ns = x->p->span.start_unix_ns;
	x->view.stats.duration_ns = x->p->span.duration_ns;
	profile_stats__take_values(&x->view.stats, &p->stats);
	x->view.stats.values[0].frequency_hz = x->p->frequency_hz;
	x->view.stats.slowed = p->stats.slowed;
	x->view.stats.cpus = p->stats.cpus;
	for (size_t i = 0; i < cnt; i++) {
		x->view.procs[x->view.proc_cnt] = p->procs[m[i].proc];
		one_in = x->p->labels[m[i].proc]->one_in;
		for (uint32_t t = 0; t < profile__value_cnt(p) && one_in > 1; t++)
			take_some(x, m[i].proc, (uint32_t)x->view.proc_cnt, one_in, t);
		if (one_in <= 1)
			take_all(x, m[i].proc, (uint32_t)x->view.proc_cnt);
		x->view.proc_cnt++;
	}
	/* For one service nothing was filtered, and losses cannot be assigned to it. */
	x->view.stats.counters[CTR_delivered] = x->view.stats.counters[CTR_counted];
	return 0;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* The same on every machine and in every version: it tells duplicates apart from others. */
static int make_id(const char *key, struct window *w)
{
	static const struct hash_key keys[2] = { { { 0x7079706572660001, 0x77696e646f770001 } },
						 { { 0x7079706572660002, 0x77696e646f770002 } } };
	const char *host = window__label(w, "host");
	struct strbuf text = { 0 };
	int err;

	strbuf__addf(&text, "%s%c%s%" PRIu64, host ? host : "", BETWEEN, key, w->start_unix_ns);
	for (size_t i = 0; i < 2; i++)
		snprintf(w->id + 16 * i, 17, "%016" PRIx64,
			 hash_bytes(&keys[i], text.s ? text.s : "", text.len));
	err = text.err;
	strbuf__free(&text);
	return err;
}

static int export_view(const struct split *x, char **data, size_t *size)
{
	const struct export_opts o = { .lines = true };
	FILE *f = open_memstream(data, size);
	int err;

	if (!f)
		return -errno;
	err = export__pprof(&x->view, &o, f);
	if (fclose(f) && !err)
		err = -ENOMEM;
	return err;
}

/* The caller owns *data, even after an error. */
static int make_window(struct split *x, const struct member *m, size_t cnt, struct window *w,
		       char **data)
{
	int err = make_view(x, m, cnt);

	if (!err) {
		choose_labels(x, m, cnt);
		*w = (struct window){
			.start_unix_ns = x->p->span.start_unix_ns,
			.duration_ns = x->p->span.duration_ns,
			.labels = x->labels,
			.label_cnt = x->label_cnt,
			.samples = x->view.stats.counters[CTR_counted],
			.frequency_hz = x->p->frequency_hz,
		};
		err = make_id(m[0].key, w);
	}
	if (!err)
		err = export_view(x, data, &w->pprof_size);
	w->pprof = *data;
	free_view(x);
	return err;
}

static int give_window(struct split *x, const struct member *m, size_t cnt)
{
	struct window w;
	char *data = NULL;
	int err = make_window(x, m, cnt, &w, &data);

	x->unmade += err != 0;
	if (!err && x->view.stack_cnt)
		err = x->fn(x->ctx, &w);
	free(data);
	return err;
}

static int make_windows(struct split *x)
{
	size_t cnt = 0;
	int err = 0, first = 0;

	for (size_t i = 0; i < x->member_cnt; i += cnt) {
		cnt = same_service(x, i);
		err = give_window(x, &x->members[i], cnt);
		if (!first)
			first = err;
		x->services++;
	}
	return first;
}

int splitter__run(struct splitter *s, const struct period *p, split_fn fn, void *ctx,
		  uint32_t *services, uint32_t *unmade)
{
	struct split x = { .s = s, .p = p, .fn = fn, .ctx = ctx };
	int err = p->label_cnt == p->profile->proc_cnt ? 0 : -EINVAL;

	s->period++;
	s->left_out = err ? 0 : count_left_out(p);
	if (!err)
		err = find_members(&x);
	if (!err)
		err = order_stacks(&x);
	if (!err)
		err = join_small(&x);
	x.unmade = err != 0;
	if (!err)
		err = make_windows(&x);
	*services = x.services;
	*unmade = x.unmade;
	forget_services(s);
	for (size_t i = 0; i < x.member_cnt; i++)
		free(x.members[i].key);
	free(x.members);
	free(x.first_stack);
	free(x.stacks);
	free(x.sym_of);
	free(x.sym_in);
	return err;
}
