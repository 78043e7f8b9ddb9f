/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "profile/profile.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"

struct profile_index {
	struct hash_key key;
	struct hash_index procs;   /* space */
	struct hash_index threads; /* (space, tid) */
	struct hash_index stacks;  /* (proc, tid, frames) */
};

struct profile *profile__new(void)
{
	struct profile *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->strings = strtab__new();
	p->index = calloc(1, sizeof(*p->index));
	if (!p->strings || !p->index) {
		profile__free(p);
		errno = ENOMEM;
		return NULL;
	}
	p->index->key = hash_key();
	return p;
}

void profile__free(struct profile *p)
{
	if (!p)
		return;
	if (p->index) {
		hash_index__free(&p->index->procs);
		hash_index__free(&p->index->threads);
		hash_index__free(&p->index->stacks);
	}
	free(p->index);
	if (p->curves) {
		free(p->curves->points);
		free(p->curves->stacks);
		free(p->curves->values);
	}
	free(p->curves);
	free(p->loops);
	free(p->awaits);
	free(p->loop_syms);
	free(p->frame_syms);
	free(p->syms);
	free(p->frames);
	free(p->stacks);
	free(p->modules);
	free(p->threads);
	free(p->procs);
	strtab__free(p->strings);
	free(p);
}

void profile__part_curves(struct profile *p)
{
	struct profile_curves *c = p->curves;

	if (!c || c->stacks)
		return;
	c->stacks = calloc(c->stack_cnt + 1, sizeof(*c->stacks));
	if (!c->stacks)
		c->stack_cnt = 0;
	if (c->stack_cnt)
		memcpy(c->stacks, p->stacks + c->first, c->stack_cnt * sizeof(*c->stacks));
	p->stack_cnt = c->first;
	for (size_t i = 0; i < c->stack_cnt; i++)
		c->stacks[i].type = 0;
}

void profile__drop_frames(struct profile *p)
{
	hash_index__free(&p->index->stacks);
	free(p->frames);
	p->frames = NULL;
}

/* ---- Strings ---- */

str_id profile__intern(struct profile *p, const char *s, size_t len)
{
	return strtab__add(p->strings, s, len);
}

str_id profile__intern_z(struct profile *p, const char *s)
{
	return strtab__add(p->strings, s, strlen(s));
}

const char *profile__str(const struct profile *p, str_id id)
{
	return strtab__get(p->strings, id, NULL);
}

size_t profile__str_len(const struct profile *p, str_id id)
{
	size_t len;

	strtab__get(p->strings, id, &len);
	return len;
}

/* ---- Processes, threads, modules, syms ---- */

static uint64_t hash_proc(const struct profile *p, uint32_t space)
{
	return hash_bytes(&p->index->key, &space, sizeof(space));
}

static uint64_t hash_thread(const struct profile *p, uint32_t space, uint32_t tid)
{
	uint32_t words[] = { space, tid };

	return hash_bytes(&p->index->key, words, sizeof(words));
}

str_id profile_proc__name(const struct profile_proc *proc)
{
	return proc->title ? proc->title : proc->comm;
}

int profile__find_proc(const struct profile *p, uint32_t space)
{
	uint64_t hash = hash_proc(p, space);
	uint32_t i;

	for (size_t at = 0; (i = hash_index__next(&p->index->procs, hash, &at)) != HASH_NONE;)
		if (p->procs[i].space == space)
			return (int)i;
	return -1;
}

static int find_thread(const struct profile *p, uint32_t space, uint32_t tid)
{
	uint64_t hash = hash_thread(p, space, tid);
	uint32_t i;

	for (size_t at = 0; (i = hash_index__next(&p->index->threads, hash, &at)) != HASH_NONE;)
		if (p->threads[i].space == space && p->threads[i].tid == tid)
			return (int)i;
	return -1;
}

const char *profile__thread_name(const struct profile *p, uint32_t space, uint32_t tid)
{
	int i = find_thread(p, space, tid);

	return i < 0 ? "" : profile__str(p, p->threads[i].name);
}

/* Indexes are returned as int, so no array may be longer than INT_MAX. */
int profile__add_proc(struct profile *p, const struct profile_proc *proc)
{
	int i = profile__find_proc(p, proc->space);
	bool has_python_frames = i >= 0 && p->procs[i].has_python_frames;

	if (i < 0) {
		if (ARRAY_GROW(p->procs, p->proc_cap, p->proc_cnt, INT_MAX) ||
		    hash_index__add(&p->index->procs, hash_proc(p, proc->space),
				    (uint32_t)p->proc_cnt))
			return -ENOMEM;
		i = (int)p->proc_cnt++;
	}
	p->procs[i] = *proc;
	p->procs[i].has_python_frames |= has_python_frames;
	return i;
}

int profile__add_thread(struct profile *p, const struct profile_thread *thread)
{
	int i = find_thread(p, thread->space, thread->tid);

	if (i < 0) {
		if (ARRAY_GROW(p->threads, p->thread_cap, p->thread_cnt, INT_MAX) ||
		    hash_index__add(&p->index->threads, hash_thread(p, thread->space, thread->tid),
				    (uint32_t)p->thread_cnt))
			return -ENOMEM;
		i = (int)p->thread_cnt++;
	}
	p->threads[i] = *thread;
	return i;
}

int profile__add_module(struct profile *p, const struct profile_module *module)
{
	if (ARRAY_GROW(p->modules, p->module_cap, p->module_cnt, INT_MAX))
		return -ENOMEM;
	p->modules[p->module_cnt] = *module;
	return (int)p->module_cnt++;
}

int profile__add_sym(struct profile *p, const struct sym *sym)
{
	if (ARRAY_GROW(p->syms, p->sym_cap, p->sym_cnt, INT_MAX))
		return -ENOMEM;
	p->syms[p->sym_cnt] = *sym;
	return (int)p->sym_cnt++;
}

/* ---- Stacks ---- */

static uint64_t hash_stack(const struct profile *p, const struct profile_stack *s,
			   const uint64_t *words)
{
	uint64_t parts[] = { (uint64_t)s->proc << 32 | s->tid, s->type,
			     hash_bytes(&p->index->key, words, s->cnt * sizeof(*words)) };

	return hash_bytes(&p->index->key, parts, sizeof(parts));
}

static bool stack_is(const struct profile *p, const struct profile_stack *s,
		     const struct profile_stack *wanted, const uint64_t *words)
{
	return s->proc == wanted->proc && s->tid == wanted->tid && s->type == wanted->type &&
	       s->cnt == wanted->cnt &&
	       (!s->cnt || !memcmp(&p->frames[s->first], words, s->cnt * sizeof(*words)));
}

static void note_python_frames(struct profile_proc *proc, const uint64_t *words, size_t cnt)
{
	for (size_t i = 0; i < cnt && !proc->has_python_frames; i++)
		proc->has_python_frames = FRAME_TAG(words[i]) == FRAME_PYTHON;
}

/* A stack that is not there yet. Everything that can fail comes before the first change. */
static int new_stack(struct profile *p, uint64_t hash, const struct profile_stack *stack,
		     const uint64_t *words)
{
	/* UINT32_MAX: profile_stack.first is a u32 */
	if (array_grow(&p->frames, &p->frame_cap, p->frame_cnt, stack->cnt, sizeof(*p->frames),
		       UINT32_MAX) ||
	    ARRAY_GROW(p->stacks, p->stack_cap, p->stack_cnt, INT_MAX) ||
	    hash_index__add(&p->index->stacks, hash, (uint32_t)p->stack_cnt))
		return -ENOMEM;
	p->stacks[p->stack_cnt] = *stack;
	p->stacks[p->stack_cnt].first = (uint32_t)p->frame_cnt;
	if (stack->cnt)
		memcpy(&p->frames[p->frame_cnt], words, stack->cnt * sizeof(*words));
	p->frame_cnt += stack->cnt;
	note_python_frames(&p->procs[stack->proc], words, stack->cnt);
	free(p->frame_syms); /* no longer parallel to frames[] */
	p->frame_syms = NULL;
	return (int)p->stack_cnt++;
}

static int find_stack(const struct profile *p, uint64_t hash, const struct profile_stack *wanted,
		      const uint64_t *words)
{
	uint32_t i;

	for (size_t at = 0; (i = hash_index__next(&p->index->stacks, hash, &at)) != HASH_NONE;)
		if (stack_is(p, &p->stacks[i], wanted, words))
			return (int)i;
	return -1;
}

int profile__find_stack(const struct profile *p, uint32_t type, uint32_t proc, uint32_t tid,
			const uint64_t *words, size_t cnt)
{
	const struct profile_stack wanted = {
		.proc = proc, .tid = tid, .type = (uint16_t)type, .cnt = (uint32_t)cnt
	};

	return cnt > UINT32_MAX ? -1 : find_stack(p, hash_stack(p, &wanted, words), &wanted, words);
}

int profile__add_stack(struct profile *p, uint32_t proc, uint32_t tid, const uint64_t *words,
		       size_t cnt, uint64_t count)
{
	return profile__add_weighted(p, proc, tid, words, cnt, count, count);
}

int profile__add_weighted(struct profile *p, uint32_t proc, uint32_t tid, const uint64_t *words,
			  size_t cnt, uint64_t samples, uint64_t count)
{
	return profile__add_value(p, 0, proc, tid, words, cnt, samples, count);
}

int profile__add_value(struct profile *p, uint32_t type, uint32_t proc, uint32_t tid,
		       const uint64_t *words, size_t cnt, uint64_t samples, uint64_t count)
{
	struct profile_stack stack = {
		.proc = proc, .tid = tid, .type = (uint16_t)type, .count = count, .samples = samples
	};
	uint64_t hash;
	int i;

	if (proc >= p->proc_cnt || type >= VALUES_MAX)
		return -EINVAL;
	if (cnt > UINT32_MAX / sizeof(*words))
		return -ENOMEM;
	stack.cnt = (uint32_t)cnt;
	hash = hash_stack(p, &stack, words);
	i = find_stack(p, hash, &stack, words);
	if (i < 0)
		return new_stack(p, hash, &stack, words);
	p->stacks[i].count += count;
	p->stacks[i].samples += samples;
	return i;
}

/* ---- Event loops ---- */

int profile__add_loop(struct profile *p, const struct profile_loop *l)
{
	if (ARRAY_GROW(p->loops, p->loop_cap, p->loop_cnt, INT_MAX))
		return -ENOMEM;
	p->loops[p->loop_cnt++] = *l;
	return 0;
}

/* The shortest gives way. */
static void keep_longest(struct profile_loop *to, const struct profile_stretch *s)
{
	uint32_t at = to->longest_cnt;

	while (at && to->longest[at - 1].ns < s->ns)
		at--;
	if (at == LOOP_LONGEST)
		return;
	if (to->longest_cnt < LOOP_LONGEST)
		to->longest_cnt++;
	memmove(&to->longest[at + 1], &to->longest[at],
		(to->longest_cnt - 1 - at) * sizeof(*to->longest));
	to->longest[at] = *s;
}

static void sum_loop(struct profile_loop *to, const struct profile_loop *l)
{
	to->cnt += l->cnt;
	to->busy_ns += l->busy_ns;
	to->slow_cnt += l->slow_cnt;
	to->slow_ns += l->slow_ns;
	for (size_t i = 0; i < LOOP_BUCKETS; i++)
		to->hist[i] += l->hist[i];
	for (uint32_t i = 0; i < l->longest_cnt && i < LOOP_LONGEST; i++)
		keep_longest(to, &l->longest[i]);
	if (l->kind != LOOP_UNKNOWN)
		to->kind = l->kind;
	if (l->poll.stack != UINT32_MAX)
		to->poll = l->poll;
}

int profile__merge_loop(struct profile *p, const struct profile_loop *l)
{
	const struct profile_loop new = { .space = l->space,
					  .tid = l->tid,
					  .poll.stack = UINT32_MAX };
	int err;

	for (size_t i = 0; i < p->loop_cnt; i++)
		if (p->loops[i].space == l->space && p->loops[i].tid == l->tid) {
			sum_loop(&p->loops[i], l);
			return 0;
		}
	err = profile__add_loop(p, &new);
	if (!err)
		sum_loop(&p->loops[p->loop_cnt - 1], l);
	return err;
}

int profile__keep_syms(struct profile *p, struct profile_loop_stack *s, const uint32_t *syms,
		       uint32_t cnt)
{
	if (array_grow(&p->loop_syms, &p->loop_sym_cap, p->loop_sym_cnt, cnt, sizeof(*p->loop_syms),
		       INT_MAX))
		return -ENOMEM;
	if (cnt)
		memcpy(p->loop_syms + p->loop_sym_cnt, syms, cnt * sizeof(*syms));
	s->first = (uint32_t)p->loop_sym_cnt;
	s->cnt = cnt;
	p->loop_sym_cnt += cnt;
	return 0;
}

static int name_loop_stack(struct profile *p, struct profile_loop_stack *s)
{
	const struct profile_stack *from = s->stack < p->stack_cnt ? &p->stacks[s->stack] : NULL;
	uint32_t cnt = from && p->frame_syms ? profile__stack_frames(p, from) : 0;

	s->first = s->cnt = 0;
	return cnt ? profile__keep_syms(p, s, p->frame_syms + from->first, cnt) : 0;
}

int profile__add_await(struct profile *p, const struct profile_await *a, const uint32_t *syms,
		       uint32_t cnt)
{
	struct profile_await new = *a;

	if (ARRAY_GROW(p->awaits, p->await_cap, p->await_cnt, INT_MAX) ||
	    profile__keep_syms(p, &new.stack, syms, cnt))
		return -ENOMEM;
	p->awaits[p->await_cnt++] = new;
	return 0;
}

int profile__name_loops(struct profile *p)
{
	int err = 0;

	for (size_t i = 0; i < p->loop_cnt && !err; i++) {
		struct profile_loop *l = &p->loops[i];

		err = name_loop_stack(p, &l->poll);
		for (uint32_t k = 0; k < l->longest_cnt && !err; k++)
			for (uint32_t n = 0; n < l->longest[k].stack_cnt && !err; n++)
				err = name_loop_stack(p, &l->longest[k].stacks[n]);
	}
	return err;
}

/* ---- Sums ---- */

static const char *const counter_names[CTR_CNT] = {
#define X(name, text) [CTR_##name] = #name,
	PYPERF_COUNTERS(X)
#undef X
};

void profile_stats__take_values(struct profile_stats *s, const struct profile_stats *from)
{
	memcpy(s->values, from->values, sizeof(s->values));
	s->value_cnt = from->value_cnt;
}

uint64_t profile__total(const struct profile *p)
{
	uint64_t total = 0;

	for (size_t i = 0; i < p->stack_cnt; i++)
		total += p->stacks[i].type ? 0 : p->stacks[i].count;
	return total;
}

uint64_t profile__samples(const struct profile *p)
{
	uint64_t samples = 0;

	for (size_t i = 0; i < p->stack_cnt; i++)
		samples += p->stacks[i].type ? 0 : p->stacks[i].samples;
	return samples;
}

uint64_t profile__new_samples(const struct profile *p, const struct profile_stack *s)
{
	return p->stats.values[s->type].event == EVENT_PEAK_SPACE ? 0 : s->samples;
}

uint64_t profile__all_samples(const struct profile *p)
{
	uint64_t samples = p->stats.hidden_samples;

	for (size_t i = 0; i < p->stack_cnt; i++)
		samples += profile__new_samples(p, &p->stacks[i]);
	return samples;
}

double profile__weight(const struct profile *p)
{
	uint64_t counted = p->stats.slowed > 1 ? p->stats.counters[CTR_counted] : 0;
	double sum = 0, squares = 0, weight, mean;

	for (size_t i = 0; i < p->stack_cnt; i++) {
		double count = (double)p->stacks[i].count, samples = (double)p->stacks[i].samples;

		if (p->stacks[i].type)
			continue;
		sum += count;
		squares += samples > 0 ? count * count / samples : 0;
	}
	weight = sum > 0 ? squares / sum : 1;
	mean = counted ? sum / (double)counted
		       : 1; /* files do not tell the samples of a clock by stack */
	weight = weight > mean ? weight : mean;
	return weight > 1 ? weight : 1;
}

/* The counters whose name begins with `prefix`. */
static uint64_t sum_of(const struct profile_stats *s, const char *prefix)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < CTR_CNT; i++)
		if (!strncmp(counter_names[i], prefix, strlen(prefix)))
			sum += s->counters[i];
	return sum;
}

uint64_t profile__filtered(const struct profile_stats *s)
{
	return sum_of(s, "filtered_");
}

uint64_t profile__lost(const struct profile_stats *s)
{
	return sum_of(s, "lost_");
}

uint64_t profile__sampler_ns(const struct profile_stats *s)
{
	const uint64_t *n = s->counters;
	double ns = (double)n[CTR_timed_ns] * (double)n[CTR_delivered];

	return n[CTR_timed_samples] ? (uint64_t)(ns / (double)n[CTR_timed_samples]) : 0;
}

/* ---- Value types ---- */

uint32_t profile__value_cnt(const struct profile *p)
{
	return p->stats.value_cnt ? p->stats.value_cnt : 1;
}

int profile__find_value(const struct profile *p, const char *name)
{
	for (uint32_t i = 0; i < profile__value_cnt(p); i++)
		if (!strcmp(value_type__name(&p->stats.values[i]), name))
			return (int)i;
	return -1;
}

uint32_t profile__stack_frames(const struct profile *p, const struct profile_stack *s)
{
	size_t room = s->first < p->frame_cnt ? p->frame_cnt - s->first : 0;

	return s->cnt < room ? s->cnt : (uint32_t)room;
}

const struct profile *profile__view(const struct profile *p, uint32_t type)
{
	struct profile *v = malloc(sizeof(*v));

	if (!v)
		return NULL;
	*v = *p;
	v->stacks = calloc(p->stack_cnt + 1, sizeof(*v->stacks));
	if (!v->stacks) {
		free(v);
		return NULL;
	}
	v->stack_cnt = 0;
	for (size_t i = 0; i < p->stack_cnt; i++) {
		if (p->stacks[i].type != type) {
			v->stats.hidden_samples += profile__new_samples(p, &p->stacks[i]);
			continue;
		}
		v->stacks[v->stack_cnt] = p->stacks[i];
		v->stacks[v->stack_cnt++].type = 0;
	}
	v->stats.values[0] = p->stats.values[type];
	v->stats.value_cnt = 1;
	return v;
}

const struct profile *profile__curve_view(const struct profile *p, uint32_t type)
{
	const struct profile_curves *c = p->curves;
	struct profile *v = (struct profile *)profile__view(p, type);
	struct profile_stack *stacks;

	if (!v || !c || !c->stack_cnt || c->event != p->stats.values[type].event)
		return v;
	stacks = calloc(c->stack_cnt, sizeof(*stacks));
	if (!stacks) {
		profile__free_view(v, p);
		return NULL;
	}
	memcpy(stacks, c->stacks, c->stack_cnt * sizeof(*stacks));
	free(v->stacks);
	v->stacks = stacks;
	v->stack_cnt = c->stack_cnt;
	v->by_curves = true;
	return v;
}

void profile__free_view(const struct profile *view, const struct profile *p)
{
	if (!view || view == p)
		return;
	if (view->stacks != p->stacks)
		free(view->stacks);
	if (view->frame_syms != p->frame_syms)
		free(view->frame_syms);
	if (view->syms != p->syms)
		free(view->syms);
	free((struct profile *)view);
}

/* ---- Numbers as text ---- */

/* The numbers of a value type; types after the first have their number: "event1=6". */
#define VALUE_NUMBERS(X)                                                                           \
	X("event", event)                                                                          \
	X("hz", frequency_hz)                                                                      \
	X("rate_hz", rate_hz)                                                                      \
	X("period", period)

/* Written as they are; the others are counters. */
#define NUMBERS(X)                                                                                 \
	X("slowed", slowed)                                                                        \
	X("cpus", cpus)                                                                            \
	X("ready_ns", ready_ns)                                                                    \
	X("throttled_ns", throttled_ns)                                                            \
	X("self_cpu_ns", self_cpu_ns)                                                              \
	X("bpf_ns", bpf_ns)                                                                        \
	X("bpf_runs", bpf_runs)                                                                    \
	X("rss_bytes", rss_bytes)                                                                  \
	X("map_bytes", map_bytes)

static void print_number(struct strbuf *b, const char *name, uint64_t value)
{
	if (value)
		strbuf__addf(b, " %s=%" PRIu64, name, value);
}

static void print_value(struct strbuf *b, const struct value_type *v, const char *nr)
{
	if (*nr) /* the event tells that there is one */
		strbuf__addf(b, " event%s=%" PRIu32, nr, v->event);
	else
		print_number(b, "event", v->event);
#define X(name, field)                                                                             \
	if (v->field && strcmp(name, "event"))                                                     \
		strbuf__addf(b, " %s%s=%" PRIu64, name, nr, (uint64_t)v->field);
	VALUE_NUMBERS(X)
#undef X
}

void profile_stats__print(struct strbuf *b, const struct profile_stats *s)
{
	print_value(b, &s->values[0], "");
	for (uint32_t i = 1; i < s->value_cnt; i++)
		print_value(b, &s->values[i], (const char[]){ (char)('0' + i), '\0' });
#define X(name, field) print_number(b, name, s->field);
	NUMBERS(X)
#undef X
	for (size_t i = 0; i < CTR_CNT; i++)
		print_number(b, counter_names[i], s->counters[i]);
}

static bool is_word(const char *word, size_t len, const char *name)
{
	return strlen(name) == len && !memcmp(word, name, len);
}

/* Sets a number of value type i. False: not such a number. */
static bool set_value_number(struct profile_stats *s, uint32_t i, const char *name, size_t len,
			     uint64_t number)
{
	struct value_type *v = &s->values[i];

#define X(word, field)                                                                             \
	if (is_word(name, len, word)) {                                                            \
		if ((__typeof__(v->field))number == number)                                        \
			v->field = (__typeof__(v->field))number;                                   \
		if (i >= s->value_cnt)                                                             \
			s->value_cnt = i + 1;                                                      \
		return true;                                                                       \
	}
	VALUE_NUMBERS(X)
#undef X
	return false;
}

static void set_number(struct profile_stats *s, const char *name, size_t len, uint64_t value)
{
	uint32_t nr = len ? (uint32_t)(uint8_t)name[len - 1] - '0' : 0;

	if (set_value_number(s, 0, name, len, value))
		return;
	if (nr && nr < VALUES_MAX && set_value_number(s, nr, name, len - 1, value))
		return;
#define X(word, field)                                                                             \
	if (is_word(name, len, word)) {                                                            \
		if ((__typeof__(s->field))value == value)                                          \
			s->field = (__typeof__(s->field))value;                                    \
		return;                                                                            \
	}
	NUMBERS(X)
#undef X
	for (size_t i = 0; i < CTR_CNT; i++)
		if (is_word(name, len, counter_names[i]))
			s->counters[i] = value;
}

/* "name=digits"; anything else is not ours. */
static void parse_word(struct profile_stats *s, const char *word, size_t len)
{
	const char *equals = memchr(word, '=', len);
	size_t name_len = equals ? (size_t)(equals - word) : 0;
	char digits[24];
	long long n;

	if (!equals || len - name_len > sizeof(digits))
		return;
	memcpy(digits, equals + 1, len - name_len - 1);
	digits[len - name_len - 1] = '\0';
	if (!parse_int(digits, 0, INT64_MAX, &n))
		set_number(s, word, name_len, (uint64_t)n);
}

void profile_stats__parse(struct profile_stats *s, const char *text, size_t len)
{
	while (len) {
		const char *blank = memchr(text, ' ', len);
		size_t word = blank ? (size_t)(blank - text) : len;

		parse_word(s, text, word);
		word += blank != NULL;
		text += word;
		len -= word;
	}
}
