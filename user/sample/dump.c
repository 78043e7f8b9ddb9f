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
#include "python/threadnames.h"

#define BATCH 4096

/* ---- maps, emptied in batches ---------------------------------------------------------------- */

/* All entries of a hash map, taken out of it. */
struct drained {
	void *keys;
	void *values;
	size_t cnt, cap;
};

static int drained__grow(struct drained *d, size_t key_size, size_t value_size, size_t need)
{
	size_t cap = d->cap ? d->cap : BATCH;
	void *keys, *values;

	while (cap < need)
		cap *= 2;
	if (cap == d->cap)
		return 0;
	keys = realloc(d->keys, cap * key_size);
	if (keys)
		d->keys = keys;
	values = realloc(d->values, cap * value_size);
	if (values)
		d->values = values;
	if (!keys || !values)
		return -ENOMEM;
	d->cap = cap;
	return 0;
}

static void drained__free(struct drained *d)
{
	free(d->keys);
	free(d->values);
	*d = (struct drained){ 0 };
}

#define BUSY_TRIES 100
#define BUSY_US	   1000

/* The lock of a bucket could not be had: see count_refusal() in bpf/lifecycle.bpf.h. */
static bool is_busy(int err)
{
	return err == -EBUSY || err == -EDEADLK || err == -ETIMEDOUT;
}

static int drain(int fd, struct drained *d, size_t key_size, size_t value_size)
{
	int tries = BUSY_TRIES;
	uint32_t token, batch = BATCH, n;
	bool first = true;
	int err;

	for (;;) {
		err = drained__grow(d, key_size, value_size, d->cnt + batch);
		if (err)
			return err;
		n = batch;
		err = bpf_map_lookup_and_delete_batch(
			fd, first ? NULL : &token, &token, (char *)d->keys + d->cnt * key_size,
			(char *)d->values + d->cnt * value_size, &n, NULL);
		if (err == -ENOSPC && n == 0) { /* one bucket holds more than a batch */
			batch *= 2;
			continue;
		}
		if (err && err != -ENOENT && !(is_busy(err) && tries--))
			return err;
		d->cnt += n;
		first = false;
		if (err == -ENOENT)
			return 0;
		if (err)
			usleep(BUSY_US);
	}
}

/* ---- stacks ---------------------------------------------------------------------------------- */

/* A thread that Python has a name for; `tid` as its process sees it. */
struct py_thread {
	uint32_t space, tid;
	str_id name;
};

/* One reading of the kernel's tables. What it is read with and into is borrowed. */
struct window {
	const struct dump_tables *tables;
	const struct process_table *pt;
	const struct dump_opts *o;
	struct profile *profile;
	struct dump_late *late;
	int err; /* the first; counts that come after it are in no profile, and late->lost */

	struct drained counts; /* struct count_key -> struct count_val */
	struct drained chunks; /* u64 -> struct chunk */
	struct idmap by_hash;  /* chunk hash -> its struct chunk, in chunks.values */
	uint64_t words[MAX_FRAMES];
	struct py_thread *py_threads; /* of the processes in `named` */
	size_t py_thread_cnt, py_thread_cap;
	struct idmap named; /* spaces whose threads' names were read */
	uint32_t reading;   /* the space that is being read */
};

/*
 * Frames of a stack, outermost first, into w->words; chunks lead from the innermost outwards.
 * The number of frames, or -EBADMSG.
 */
static int read_stack(struct window *w, uint64_t hash)
{
	const struct handed_stack *whole = w->o->handed ? handed__stack(w->o->handed, hash) : NULL;
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

/* Of a process that is walked, only when the stacks so far show nothing of it. */
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
	const struct process *proc = process_table__find(pt, space);
	struct profile_proc out = { .space = space };

	if (proc) {
		out.tgid = proc->tgid;
		out.comm = profile__intern_z(p, proc->comm);
		out.exe = profile__intern_z(p, proc->exe);
		out.container = profile__intern_z(p, proc->container);
		out.python = profile__intern_z(p, proc->python);
		out.ids_known = proc->ids_known;
		out.own_root = proc->own_root;
		out.uid = proc->uid;
		out.gid = proc->gid;
		out.native_only = why_no_python(proc, p, space);
	}
	return profile__add_proc(p, &out);
}

static int find_proc(const struct process_table *pt, struct profile *p, uint32_t space)
{
	int proc = profile__find_proc(p, space);

	return proc >= 0 ? proc : add_proc(pt, p, space);
}

/* What was learned of processes since their first counts: a name, why they show no Python. */
static int refresh_procs(const struct process_table *pt, struct profile *p)
{
	int err = 0;

	for (size_t i = 0; i < p->proc_cnt && err >= 0; i++)
		if (process_table__find(pt, p->procs[i].space))
			err = add_proc(pt, p, p->procs[i].space);
	return err < 0 ? err : 0;
}

/* The number of a thread as its own process sees it; 0: it is gone. */
static uint32_t inner_tid(uint32_t tgid, uint32_t tid)
{
	char path[64], line[256];
	const char *last;
	unsigned long nr = tid;
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/status", tgid, tid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	while (!found && fgets(line, sizeof(line), f)) {
		found = !strncmp(line, "NSpid:", 6); /* one per namespace, the innermost last */
		last = found ? strrchr(line, '\t') : NULL;
		if (last)
			nr = strtoul(last, NULL, 10);
	}
	fclose(f);
	return (uint32_t)nr;
}

/* A threadnames_fn. Without memory the thread has no name. */
static void take_name(void *ctx, uint32_t tid, const char *name)
{
	struct window *w = ctx;
	struct py_thread *t;
	size_t cap = w->py_thread_cap ? 2 * w->py_thread_cap : 64;

	if (w->py_thread_cnt == w->py_thread_cap) {
		t = realloc(w->py_threads, cap * sizeof(*t));
		if (!t)
			return;
		w->py_threads = t;
		w->py_thread_cap = cap;
	}
	t = &w->py_threads[w->py_thread_cnt++];
	*t = (struct py_thread){ .space = w->reading, .tid = tid };
	t->name = profile__intern_z(w->profile, name);
}

/* Python's name of a thread; 0: it has none, or it cannot be read. */
static str_id python_name(struct window *w, uint32_t space, uint32_t tid)
{
	const struct process *proc = process_table__find(w->pt, space);
	const struct py_binary *bin;
	uint64_t bias;

	bin = proc && !proc->exited ? process_table__python(w->pt, proc, &bias) : NULL;
	if (!bin)
		return 0;
	if (!idmap__get(&w->named, space)) { /* once in a window */
		w->reading = space;
		threadnames__read(bin, proc->tgid, bias, take_name, w);
		if (idmap__set(&w->named, space, w))
			return 0;
	}
	tid = inner_tid(proc->tgid, tid);
	for (size_t i = 0; i < w->py_thread_cnt; i++)
		if (w->py_threads[i].space == space && w->py_threads[i].tid == tid)
			return w->py_threads[i].name;
	return 0;
}

/* The kernel's name of a thread; 0: it is gone. */
static str_id command_name(struct profile *p, uint32_t tgid, uint32_t tid)
{
	char path[64], name[TASK_COMM_LEN + 1];
	str_id id = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/comm", tgid, tid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fgets(name, sizeof(name), f)) {
		name[strcspn(name, "\n")] = '\0';
		id = profile__intern_z(p, name);
	}
	fclose(f);
	return id;
}

/* The name of a thread, at its first sight and while it lives; later it is shown by its number. */
static int note_thread(struct window *w, uint32_t tgid, uint32_t space, uint32_t tid)
{
	struct profile_thread thread = { .space = space, .tid = tid };
	int err;

	if (!tid || profile__thread_name(w->profile, space, tid)[0])
		return 0;
	thread.name = python_name(w, space, tid);
	if (!thread.name)
		thread.name = command_name(w->profile, tgid, tid);
	err = thread.name ? profile__add_thread(w->profile, &thread) : 0;
	return err < 0 ? err : 0;
}

/*
 * Samples of a process that was taken while it was not known whether it has Python: where they
 * belong when it has none, or when it was gone (or not to be read) before anyone looked. NULL: in
 * the profile.
 */
static uint64_t *late_filter(const struct window *w, uint32_t space)
{
	const struct process *proc = process_table__find(w->pt, space);

	if (!w->o->python_only || !proc || proc->is_python || proc->native_only)
		return NULL;
	return proc->analysed ? &w->late->python : &w->late->unknown;
}

/*
 * What samples count for: at least one each. Those of before the agent lowered its frequency are
 * worth less of it.
 */
static uint64_t count_of(const struct count_val *val, uint64_t unit)
{
	uint64_t count = unit ? (val->value + unit / 2) / unit : 0;

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
	proc = find_proc(w->pt, p, key->space);
	if (proc < 0)
		return proc;
	err = note_thread(w, p->procs[proc].tgid, key->space, THREAD_TID(key->thread));
	if (err)
		return err;
	err = profile__add_value(p, type, (uint32_t)proc, key->thread, w->words, (size_t)n,
				 val->samples, count_of(val, w->o->units[type]));
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
	drained__free(&w->counts);
	drained__free(&w->chunks);
	idmap__free(&w->by_hash);
	idmap__free(&w->named);
	free(w->py_threads);
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
	if (o->handed) {
		add_counts(w, o->handed->keys, o->handed->vals, o->handed->cnt);
		handed__clear(o->handed);
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

void dump__correct(const struct dump_late *late, uint64_t counters[CTR_CNT])
{
	uint64_t filtered = late->python + late->unknown;

	counters[CTR_counted] -= filtered + late->lost;
	counters[CTR_filtered_python] += late->python;
	counters[CTR_filtered_unknown] += late->unknown;
	counters[CTR_lost_internal] += late->lost;
	/* They were taken before it was known what the process is. */
	if (counters[CTR_note_pending] >= filtered && counters[CTR_user_stacks] >= filtered) {
		counters[CTR_note_pending] -= filtered;
		counters[CTR_user_stacks] -= filtered;
	}
}
