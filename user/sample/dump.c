/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sample/dump.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/idmap.h"
#include "base/log.h"
#include "sample/threadbook.h"
#include "sources/map_copy.h"
#include "sources/tracker.h"

#define BATCH	   4096

/* ---- maps, emptied in batches ---------------------------------------------------------------- */

#define BUSY_TRIES 100
#define BUSY_US	   1000

/* The lock of a bucket could not be had: see count_refusal() in bpf/lifecycle.bpf.h. */
static bool is_busy(int err)
{
	return err == -EBUSY || err == -EDEADLK || err == -ETIMEDOUT;
}

/* Takes all entries out of a hash map. */
static int drain(int fd, struct map_copy *m, size_t key_size, size_t value_size)
{
	int tries = BUSY_TRIES;
	uint32_t token, batch = BATCH, n;
	bool first = true;
	int err;

	for (;;) {
		err = map_copy__reserve(m, key_size, value_size, m->cnt + batch);
		if (err)
			return err;
		n = batch;
		err = bpf_map_lookup_and_delete_batch(
			fd, first ? NULL : &token, &token, (char *)m->keys + m->cnt * key_size,
			(char *)m->values + m->cnt * value_size, &n, NULL);
		if (err == -ENOSPC && n == 0) { /* one bucket holds more than a batch */
			batch *= 2;
			continue;
		}
		if (err && err != -ENOENT && !(is_busy(err) && tries--))
			return err;
		m->cnt += n;
		first = false;
		if (err == -ENOENT)
			return 0;
		if (err)
			usleep(BUSY_US);
	}
}

/* ---- stacks ---------------------------------------------------------------------------------- */

/* One reading of the kernel's tables. Borrows everything. */
struct window {
	const struct dump_tables *tables;
	const struct process_table *pt;
	const struct dump_opts *o;
	struct profile *profile;
	struct dump_late *late;
	int err; /* the first; counts that come after it are in no profile, and late->lost */

	struct map_copy counts; /* struct count_key -> struct count_val */
	struct map_copy chunks; /* u64 -> struct chunk */
	struct idmap by_hash;	/* chunk hash -> its struct chunk, in chunks.values */
	uint64_t words[MAX_FRAMES];
};

/*
 * Frames of a stack, outermost first, into w->words; chunks lead from the innermost outwards.
 * The number of frames, or -EBADMSG.
 */
static int read_stack(struct window *w, uint64_t hash)
{
	const struct nmi_stack *whole =
		w->o->nmi_stacks ? nmi_stacks__stack(w->o->nmi_stacks, hash) : NULL;
	uint32_t free_slots = MAX_FRAMES;

	if (whole) {
		memcpy(w->words, whole->words, whole->cnt * sizeof(w->words[0]));
		return (int)whole->cnt;
	}
	for (unsigned n = 0; hash; n++) {
		const struct chunk *c = idmap__get(&w->by_hash, hash);

		if (!c || n >= MAX_CHUNKS || !c->cnt || c->cnt > CHUNK_FRAMES ||
		    c->cnt > free_slots)
			return -EBADMSG;
		free_slots -= c->cnt;
		memcpy(&w->words[free_slots], c->frames, c->cnt * sizeof(c->frames[0]));
		hash = c->parent;
	}
	memmove(w->words, w->words + free_slots, (MAX_FRAMES - free_slots) * sizeof(w->words[0]));
	return (int)(MAX_FRAMES - free_slots);
}

/* Why a process shows no Python. For walked ones only if their stacks show none so far. */
static str_id why_no_python(const struct process *proc, struct profile *p, uint32_t space)
{
	int known = profile__find_proc(p, space);
	const char *why = proc->native_only;

	if (!why && known >= 0 && !p->procs[known].has_python_frames)
		why = process__why_no_python(proc);
	return why ? profile__intern_z(p, why) : 0;
}

int dump__name_generated(struct sym_jit *jit, uint32_t space, uint64_t *words, int cnt)
{
	int kept = 0;

	for (int i = 0; i < cnt; i++) {
		uint64_t word = words[i];
		uint32_t id = 0;

		if (FRAME_TAG(word) == FRAME_ANON)
			id = sym_jit__find(jit, space, word & FRAME_PAYLOAD);
		if (FRAME_TAG(word) == FRAME_ANON && i + 1 < cnt &&
		    FRAME_TAG(words[i + 1]) == FRAME_PYTHON &&
		    sym_jit__is_trampoline(jit, space, id))
			continue;
		words[kept++] = id ? FRAME_WORD(FRAME_JIT, id) : word;
	}
	return kept;
}

static int add_proc(const struct process_table *pt, struct profile *p, uint32_t space)
{
	struct process *proc = process_table__find(pt, space);
	struct profile_proc out = { .space = space };

	if (proc) {
		out.tgid = proc->tgid;
		out.comm = profile__intern_z(p, proc->comm);
		out.title = profile__intern_z(p, process_table__title(pt, proc));
		out.exe = profile__intern_z(p, proc->exe);
		out.container = profile__intern_z(p, proc->container);
		out.python = profile__intern_z(p, proc->python);
		out.ids_known = proc->ids_known;
		out.own_root = proc->own_root;
		out.uid = proc->uid;
		out.gid = proc->gid;
		out.payer = proc->payer;
		out.native_only = why_no_python(proc, p, space);
	}
	return profile__add_proc(p, &out);
}

int dump__find_proc(const struct process_table *pt, struct profile *p, uint32_t space)
{
	int proc = profile__find_proc(p, space);

	return proc >= 0 ? proc : add_proc(pt, p, space);
}

/* Updates processes with facts learned since their first counts: name, why without Python. */
static int refresh_procs(const struct process_table *pt, struct profile *p)
{
	int err = 0;

	for (size_t i = 0; i < p->proc_cnt && err >= 0; i++)
		if (process_table__find(pt, p->procs[i].space))
			err = add_proc(pt, p, p->procs[i].space);
	return err < 0 ? err : 0;
}

/* The name of a thread, as it is now or was when the thread was last seen. */
static int note_thread(struct window *w, uint32_t space, uint32_t tid)
{
	const struct process *proc;
	const char *name;
	struct profile_thread thread = { .space = space, .tid = tid };
	int err;

	proc = tid && w->o->names ? process_table__find(w->pt, space) : NULL;
	name = proc ? threadbook__find(w->o->names, proc, tid) : NULL;
	if (!name || !strcmp(profile__thread_name(w->profile, space, tid), name))
		return 0;
	thread.name = profile__intern_z(w->profile, name);
	err = profile__add_thread(w->profile, &thread);
	return err < 0 ? err : 0;
}

/*
 * Samples of what is still this program, held to become the command, are of no interest to anybody.
 * Others of a process that was taken while it was not known whether it has Python: where they
 * belong when it has none, or when it was gone (or not to be read) before anyone looked. NULL: in
 * the profile.
 */
static uint64_t *late_filter(const struct window *w, uint32_t space)
{
	const struct process *proc = process_table__find(w->pt, space);

	if (w->o->held && space == w->o->held)
		return &w->late->held;
	if (!w->o->python_only || !proc || proc->is_python || proc->native_only)
		return NULL;
	return proc->analysed ? &w->late->python : &w->late->unknown;
}

/*
 * The value of samples, at least one each unless it is a sum. Samples from before the agent lowered
 * its frequency count for less of it.
 */
static uint64_t count_of(const struct count_val *val, uint64_t unit)
{
	uint64_t count = unit ? (val->value + unit / 2) / unit : 0;

	if (unit == DUMP_EXACT)
		return val->value;
	return count > val->samples ? count : val->samples;
}

static int add_count(struct window *w, const struct count_key *key, const struct count_val *val)
{
	uint64_t *filtered = late_filter(w, key->space);
	struct profile *p = w->profile;
	uint32_t type = COUNT_TYPE(key->stack);
	int proc, n, err;

	if (!val->samples) /* handed over, and not seen since */
		return 0;
	if (!val->value && w->o->units[type] == DUMP_EXACT)
		return 0;
	if (filtered) {
		*filtered += val->samples;
		return 0;
	}
	n = read_stack(w, COUNT_HASH(key->stack));
	if (n < 0) {
		w->late->lost += val->samples;
		return 0;
	}
	n = dump__name_generated(w->o->jit, key->space, w->words, n);
	proc = dump__find_proc(w->pt, p, key->space);
	if (proc < 0)
		return proc;
	err = note_thread(w, key->space, THREAD_TID(key->thread));
	if (err)
		return err;
	err = profile__add_value(p, type, (uint32_t)proc, key->thread, w->words, (size_t)n,
				 val->samples, count_of(val, w->o->units[type]));
	if (err >= 0 && w->o->loops)
		err = loopbook__note(w->o->loops, COUNT_HASH(key->stack), (uint32_t)err);
	return err < 0 ? err : 0;
}

static int index_chunks(struct window *w)
{
	const uint64_t *hashes = w->chunks.keys;
	struct chunk *chunks = w->chunks.values;

	for (size_t i = 0; i < w->chunks.cnt; i++) {
		int err = idmap__set(&w->by_hash, hashes[i], &chunks[i]);

		if (err)
			return err;
	}
	return 0;
}

static int read_window(struct window *w)
{
	int err = drain(w->tables->counts_fd, &w->counts, sizeof(struct count_key),
			sizeof(struct count_val));

	if (!err)
		err = drain(w->tables->chunks_fd, &w->chunks, sizeof(uint64_t),
			    sizeof(struct chunk));
	return err ? err : index_chunks(w);
}

/* Counts that were taken out of the kernel's table, or handed over. */
static void add_counts(struct window *w, const struct count_key *keys, const struct count_val *vals,
		       size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		if (!w->err)
			w->err = add_count(w, &keys[i], &vals[i]);
		if (w->err)
			w->late->lost += vals[i].samples;
	}
}

static void window__free(struct window *w)
{
	map_copy__free(&w->counts);
	map_copy__free(&w->chunks);
	idmap__free(&w->by_hash);
	free(w);
}

int dump__window(const struct dump_tables *tables, const struct process_table *pt,
		 const struct dump_opts *o, struct profile *p, struct dump_late *late)
{
	struct window *w = calloc(1, sizeof(*w));
	int err = -ENOMEM;

	if (!w)
		goto out;
	w->tables = tables;
	w->pt = pt;
	w->o = o;
	w->profile = p;
	w->late = late;
	sym_jit__begin(o->jit);
	w->err = read_window(w);
	add_counts(w, w->counts.keys, w->counts.values, w->counts.cnt);
	if (o->nmi_stacks) {
		add_counts(w, o->nmi_stacks->keys, o->nmi_stacks->vals, o->nmi_stacks->cnt);
		nmi_stacks__clear(o->nmi_stacks);
	}
	if (!w->err)
		w->err = refresh_procs(pt, p);
	log_debug("window: %zu counts, %zu chunks", w->counts.cnt, w->chunks.cnt);
	err = w->err;
	window__free(w);
out:
	if (err)
		log_err("reading the counts: %s", strerror(-err));
	return err;
}

static int add_one(struct window *w, const struct dump_stack *s)
{
	struct profile *p = w->profile;
	int cnt = dump__name_generated(w->o->jit, s->space, s->words, s->cnt);
	int proc = dump__find_proc(w->pt, p, s->space), err;

	if (proc < 0)
		return proc;
	err = note_thread(w, s->space, s->tid);
	if (err)
		return err;
	err = profile__add_value(p, s->type, (uint32_t)proc,
				 w->o->names ? THREAD_WORD(s->tid, 0U) : 0, s->words, (size_t)cnt,
				 1, s->value);
	w->late->added += err >= 0;
	if (err >= 0 && w->o->loops && FRAME_TAG(s->words[0]) != FRAME_MARKER)
		loopbook__note_open(w->o->loops, s->tid, (uint32_t)err);
	return err < 0 ? err : 0;
}

int dump__add(const struct dump_stack *stacks, size_t cnt, const struct process_table *pt,
	      const struct dump_opts *o, struct profile *p, struct dump_late *late)
{
	struct window *w = calloc(1, sizeof(*w));
	int err = w ? 0 : -ENOMEM;

	if (w) {
		w->pt = pt;
		w->o = o;
		w->profile = p;
		w->late = late;
		sym_jit__begin(o->jit);
		for (size_t i = 0; i < cnt && !err; i++)
			err = add_one(w, &stacks[i]);
		window__free(w);
	}
	if (err)
		log_err("threads that still wait: %s", strerror(-err));
	return err;
}

/* ---- curves ---------------------------------------------------------------------------------- */

#define CURVE_ROWS_MAX 65536

/* Of a curve, its stack in w->words, its process in *proc. The frames, or negative errno. */
static int read_curve(struct window *w, const struct curve *c, int *proc)
{
	int n, err;

	if (!c->words || late_filter(w, c->key.space))
		return -ENOENT;
	memcpy(w->words, c->words, c->cnt * sizeof(*c->words));
	n = dump__name_generated(w->o->jit, c->key.space, w->words, (int)c->cnt);
	*proc = dump__find_proc(w->pt, w->profile, c->key.space);
	if (*proc < 0)
		return *proc;
	err = note_thread(w, c->key.space, THREAD_TID(c->key.thread));
	return err ? err : n;
}

/* One stack of a value type; its index, or negative errno, -ENOENT: it does not count. */
static int add_curve_as(struct window *w, const struct curve *c, uint32_t type,
			const struct curve_value *v)
{
	int proc, n = read_curve(w, c, &proc);

	return n < 0 ? n
		     : profile__add_value(w->profile, type, (uint32_t)proc, c->key.thread, w->words,
					  (size_t)n, v->samples, v->bytes);
}

static int add_peak(struct window *w, const struct curves *c, uint32_t peak)
{
	for (size_t i = 0; i < c->cnt; i++) {
		const struct curve *curve = &c->at[i];
		int err;

		if (!curve->peak.bytes || !curve->peak.samples)
			continue;
		err = add_curve_as(w, curve, peak, &curve->peak);
		if (err < 0 && err != -ENOENT)
			return err;
	}
	return 0;
}

/* The row of a stack: a new one is the last of the profile. */
static int row_of(struct profile_curves *out, struct profile *p, int stack)
{
	if (stack >= 0 && p->stack_cnt - out->first > CURVE_ROWS_MAX)
		return -E2BIG;
	return stack < 0 ? stack : stack - (int)out->first;
}

static int add_rows(struct window *w, const struct curves *c, struct profile_curves *out)
{
	static const struct curve_value none;

	for (size_t i = 0; i < c->cnt; i++) {
		int row = add_curve_as(w, &c->at[i], PROFILE_CURVE_TYPE, &none);

		row = row_of(out, w->profile, row);
		if (row < 0 && row != -ENOENT)
			return row;
		for (uint32_t k = 0; row >= 0 && k + 1 < out->point_cnt; k++)
			out->values[(size_t)row * out->point_cnt + k] += c->at[i].bytes[k];
	}
	return 0;
}

/* The end is what the value type counts. */
static int add_ends(struct window *w, uint32_t type, struct profile_curves *out)
{
	struct profile *p = w->profile;

	for (size_t i = 0; i < out->first; i++) {
		const struct profile_stack s = p->stacks[i];
		int row;

		if (s.type != type)
			continue;
		memcpy(w->words, p->frames + s.first, s.cnt * sizeof(w->words[0]));
		row = profile__add_value(p, PROFILE_CURVE_TYPE, s.proc, s.tid, w->words, s.cnt,
					 s.samples, s.count);
		row = row_of(out, p, row);
		if (row < 0)
			return row;
		out->values[((size_t)row + 1) * out->point_cnt - 1] += s.count;
	}
	return 0;
}

static int make_curves(struct window *w, const struct curves *c, uint32_t type,
		       struct profile_curves *out)
{
	size_t rows = w->profile->stack_cnt + c->cnt;
	int err;

	rows = rows < CURVE_ROWS_MAX ? rows : CURVE_ROWS_MAX;
	out->first = w->profile->stack_cnt;
	out->point_cnt = c->point_cnt;
	out->peak = (struct profile_point){ c->peak.at_ns, c->peak.rss };
	out->begin_rss = c->begin_rss;
	out->high_rss = c->high_rss;
	out->more = c->more;
	out->points = calloc(c->point_cnt, sizeof(*out->points));
	out->values = calloc((rows + 1) * c->point_cnt, sizeof(*out->values));
	if (!out->points || !out->values)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->point_cnt; i++)
		out->points[i] = (struct profile_point){ c->points[i].at_ns, c->points[i].rss };
	err = add_rows(w, c, out);
	if (!err)
		err = add_ends(w, type, out);
	out->stack_cnt = w->profile->stack_cnt - out->first;
	return err;
}

int dump__add_curves(const struct curves *c, uint32_t type, uint32_t peak,
		     const struct process_table *pt, const struct dump_opts *o, struct profile *p,
		     struct dump_late *late)
{
	struct window *w = calloc(1, sizeof(*w));
	int err = w ? 0 : -ENOMEM;

	if (w) {
		w->pt = pt;
		w->o = o;
		w->profile = p;
		w->late = late;
		sym_jit__begin(o->jit);
		err = add_peak(w, c, peak);
		if (!err)
			p->curves = calloc(1, sizeof(*p->curves));
		if (!err)
			err = p->curves ? make_curves(w, c, type, p->curves) : -ENOMEM;
		if (err == -E2BIG) { /* the profile is whole without them */
			log_debug("curves: too many stacks");
			p->curves->stack_cnt = 0;
			err = 0;
		}
		window__free(w);
	}
	if (err)
		log_err("curves: %s", strerror(-err));
	return err;
}

static void limit(uint64_t *value, uint64_t most)
{
	*value = *value < most ? *value : most;
}

void dump__correct(const struct dump_late *late, uint64_t counters[CTR_CNT])
{
	uint64_t filtered = late->python + late->unknown;

	counters[CTR_delivered] += late->added;
	counters[CTR_counted] += late->added;
	counters[CTR_counted] -= filtered + late->lost;
	counters[CTR_filtered_python] += late->python;
	counters[CTR_filtered_unknown] += late->unknown;
	counters[CTR_lost_internal] += late->lost;
	counters[CTR_counted] -= late->held;
	counters[CTR_filtered_target] += late->held;
	if (counters[CTR_user_stacks] >= late->held && counters[CTR_complete] >= late->held) {
		counters[CTR_user_stacks] -= late->held;
		counters[CTR_complete] -= late->held;
	}
	/* They were taken before it was known what the process is. */
	if (counters[CTR_note_pending] >= filtered && counters[CTR_user_stacks] >= filtered) {
		counters[CTR_note_pending] -= filtered;
		counters[CTR_user_stacks] -= filtered;
	}
	/* Which of those left out had a user stack, and a complete one, is not known. */
	limit(&counters[CTR_user_stacks], counters[CTR_counted]);
	limit(&counters[CTR_complete], counters[CTR_user_stacks]);
}
