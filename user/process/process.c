/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/process_parts.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/opener.h"

#define MAX_EARLY	 4096
#define EXEC_WAIT_ROUNDS 3
#define ROUND_LEAST	 64 /* processes that a round looks at, however long that takes */
#define ROUND_NS	 (20 * NS_PER_MS)
#define ROUND_MOST_NS	 (200 * NS_PER_MS) /* a tenant does not answer: no second one to wait for */
#define FIRST_ROUND_NS	 NS_PER_S	   /* before sampling begins */

_Static_assert(EXEC_MAPS_MAX < 1 << IMAGE_MAX_BITS, "an image has room for what is read");

/* ---- life ----------------------------------------------------------------------------------- */

struct process_table *process_table__new(const struct process_maps *maps, struct file_sink sink,
					 const struct process_opts *opts)
{
	struct file_maps fm = { .tables_fd = maps->tables_fd,
				.interps_fd = maps->interps_fd,
				.table_cap = maps->table_cap,
				.interp_cap = maps->interp_cap,
				.mappings = maps->mappings,
				.mapping_cap = maps->mapping_cap,
				.seen = maps->seen,
				.seen_cap = maps->seen_cap,
				.readers = opts->readers,
				.table_budget = opts->table_budget,
				.spare_bytes = opts->spare_bytes,
				.before_long_work = opts->before_long_work,
				.before_long_work_ctx = opts->before_long_work_ctx };
	struct process_table *pt = calloc(1, sizeof(*pt));

	if (!pt)
		return NULL;
	pt->maps = *maps;
	pt->opts = *opts;
	pt->next_space = 1;
	pt->trust.due_ns = UINT64_MAX;
	pt->files = file_table__new(&fm, sink);
	pt->sink = sink;
	pt->early = malloc(MAX_EARLY * sizeof(*pt->early));
	pt->scratch = malloc(EXEC_MAPS_MAX * sizeof(*pt->scratch));
	if (!pt->files || !pt->early || !pt->scratch ||
	    extents__init(&pt->room.extents, maps->mapping_cap)) {
		process_table__free(pt);
		errno = ENOMEM;
		return NULL;
	}
	return pt;
}

static void free_process(struct process *p)
{
	free(p->title_owned);
	free(p->exe_owned);
	free(p->container_owned);
	free(p);
}

void process_table__free(struct process_table *pt)
{
	struct image_ref *image;
	struct process *p;

	if (!pt)
		return;
	for (size_t at = 0; (p = idmap__next(&pt->by_space, &at));)
		free_process(p);
	for (size_t at = 0; (image = idmap__next(&pt->images, &at));)
		free(image);
	idmap__free(&pt->by_space);
	idmap__free(&pt->by_tgid);
	idmap__free(&pt->images);
	extents__free(&pt->room.extents);
	file_table__free(pt->files);
	exec_maps__free(&pt->exec);
	strbuf__free(&pt->text);
	free(pt->scratch);
	free(pt->early);
	free(pt->untitled);
	free(pt->dirty);
	free(pt->trust.spaces);
	free(pt->fresh);
	free(pt);
}

/* ---- dirty processes ------------------------------------------------------------------------ */

void process_table__mark_dirty(struct process_table *pt, struct process *p)
{
	if (p->dirty || p->exited ||
	    ARRAY_GROW(pt->dirty, pt->dirty_cap, pt->dirty_cnt, UINT32_MAX))
		return;
	p->dirty = true;
	pt->dirty[pt->dirty_cnt++] = p;
}

void process_table__mark_all_dirty(struct process_table *pt)
{
	struct process *p;

	for (size_t at = 0; (p = idmap__next(&pt->by_tgid, &at));)
		process_table__mark_dirty(pt, p);
}

/* ---- processes ------------------------------------------------------------------------------ */

/*
 * The process has ended, and mapped no Python in its whole life. BPF does not wake us for the next
 * process of this executable. If that one loads Python, its first sample reports it, and the
 * executable is not plain any more.
 */
static void note_plain(struct process_table *pt, struct process *p)
{
	uint32_t yes = 1;

	if (!pt->maps.plain_exes_fd || pt->opts.all || p->plain || !p->exe_key.ino ||
	    !p->analysed || p->is_python || p->dirty || p->unclean_ns > p->looked_ns)
		return;
	p->plain = true;
	bpf_map_update_elem(pt->maps.plain_exes_fd, &p->exe_key, &yes, BPF_ANY);
}

void process_table__note_not_plain(struct process_table *pt, struct process *p)
{
	if (p->plain)
		bpf_map_delete_elem(pt->maps.plain_exes_fd, &p->exe_key);
	p->plain = false;
}

void process_table__retire(struct process_table *pt, struct process *p)
{
	note_plain(pt, p);
	pt->restless -= p->restless;
	p->restless = false;
	if (idmap__get(&pt->by_tgid, p->tgid) == p)
		idmap__remove(&pt->by_tgid, p->tgid);
	p->exited = true;
	image__leave(pt, p);
}

struct process *process_table__add(struct process_table *pt, uint32_t space, uint32_t tgid,
				   const char *comm, uint64_t since_ns)
{
	struct process *p = calloc(1, sizeof(*p)), *old = idmap__get(&pt->by_tgid, tgid);

	if (!p)
		return NULL;
	p->space = space;
	p->tgid = tgid;
	p->since_ns = since_ns;
	p->slot = SHARE_SLOTS;
	p->title = p->exe = p->container = "";
	snprintf(p->comm, sizeof(p->comm), "%.*s", TASK_COMM_LEN - 1, comm);
	if (idmap__set(&pt->by_space, space, p)) {
		free(p);
		return NULL;
	}
	if (space > pt->stats.last_space)
		pt->stats.last_space = space;
	if (old)
		process_table__retire(pt, old);
	if (idmap__set(&pt->by_tgid, tgid, p)) {
		idmap__remove(&pt->by_space, space);
		free(p);
		return NULL;
	}
	return p;
}

uint32_t process_table__slot(struct process_table *pt, struct process *p)
{
	struct proc val;

	if (p->slot == SHARE_SLOTS)
		p->slot = bpf_map_lookup_elem(pt->maps.procs_fd, &p->tgid, &val) ||
					  val.slot >= SHARE_SLOTS
				  ? 0
				  : val.slot;
	return p->slot;
}

uint32_t process_table__slot_of(struct process_table *pt, uint32_t tgid)
{
	struct process *p = process_table__find_tgid(pt, tgid);

	return p ? process_table__slot(pt, p) : 0;
}

struct readers *process_table__readers(const struct process_table *pt)
{
	return pt->opts.readers;
}

struct process *process_table__find(const struct process_table *pt, uint32_t space)
{
	return idmap__get(&pt->by_space, space);
}

struct process *process_table__find_tgid(const struct process_table *pt, uint32_t tgid)
{
	return idmap__get(&pt->by_tgid, tgid);
}

struct process *process_table__next(const struct process_table *pt, size_t *at)
{
	return idmap__next(&pt->by_space, at);
}

const struct elf_file *process_table__file(const struct process_table *pt, uint32_t file)
{
	const struct mapped_file *f = file_table__find(pt->files, file);

	return f ? f->elf : NULL;
}

const struct py_binary *process_table__interp(const struct process_table *pt, uint32_t interp)
{
	const struct mapped_file *f = file_table__interp(pt->files, interp);

	return f ? f->py : NULL;
}

const struct py_binary *process_table__python(const struct process_table *pt,
					      const struct process *p, uint64_t *bias)
{
	if (!p->image || !(p->image->val.flags & IMAGE_PYTHON))
		return NULL;
	*bias = p->image->val.interps[0].bias;
	return process_table__interp(pt, p->image->val.interps[0].interp);
}

bool process_table__interp_of(const struct process_table *pt, const struct process *p,
			      struct process_interp *out)
{
	const struct mapped_file *file = file_table__find(pt->files, p->python_file);

	if (!p->is_python || !file || !file->py)
		return false;
	*out = (struct process_interp){ file->elf, file->py, p->checks[0].state };
	return true;
}

/* ---- refresh -------------------------------------------------------------------------------- */

/* An image is about to change: the other processes that share it must be read, too. */
static void pull_in_sharers(struct process_table *pt, const struct fresh *f)
{
	struct image_ref *image = f->p->image;

	if (!f->valid || !image || image->key != f->p->space || image__same(pt, &image->val, f))
		return;
	image->changing = true;
	for (struct process *q = image->users; q; q = q->next_user) {
		if (q == f->p)
			continue;
		process_table__mark_dirty(pt, q);
		q->pulled = true;
	}
}

/*
 * perf announced an exec. Its record comes before the new mappings. The event of BPF comes after
 * them, and gives the process a new space; reading the process before that is useless.
 */
static bool in_exec(struct process *p)
{
	if (p->exec_ns && p->exec_wait++ < EXEC_WAIT_ROUNDS)
		return true;
	p->exec_ns = 0;
	return false;
}

static bool wants_tables(struct process_table *pt, const struct fresh *f)
{
	struct mapped_file *file;

	for (uint32_t i = 0; i < f->val.map_cnt; i++) {
		file = file_table__find(pt->files, f->maps[i].file);
		if (file && file_table__wants_table(pt->files, file))
			return true;
	}
	return false;
}

/*
 * Building the tables of new files takes some milliseconds. Until then the process is walked
 * without them: its Python frames, and native ones by address. But not while other processes share
 * its image, which would see the new one before they were read.
 */
static void publish_early(struct process_table *pt, struct fresh *f)
{
	struct image_ref *image = f->p->image;

	if (!pt->live || !f->valid || !wants_tables(pt, f) ||
	    (image && image__same(pt, &image->val, f)) ||
	    (image && image->key == f->p->space && (image->users != f->p || f->p->next_user)))
		return;
	if (image__publish(pt, f))
		return;
	/* The image holds its files, and `f` keeps holding them. */
	for (uint32_t i = 0; i < f->val.map_cnt; i++) {
		struct mapped_file *file = file_table__find(pt->files, f->maps[i].file);

		if (file)
			file_table__hold(file);
	}
	pt->stats.early++;
	image__log_published(f->p, "without all its tables");
}

static void build_tables(struct process_table *pt, const struct fresh *f)
{
	uint64_t put_off = readers__put_off(pt->opts.readers);

	for (uint32_t i = 0; f->valid && i < f->val.map_cnt; i++) {
		struct mapped_file *file = file_table__find(pt->files, f->maps[i].file);

		if (file)
			file_table__build(pt->files, file);
	}
	f->p->retry |= readers__put_off(pt->opts.readers) != put_off;
}

/* False: some tables are still being built. */
static bool set_tables(struct process_table *pt, struct fresh *f)
{
	bool coming, all = true;

	for (uint32_t i = 0; f->valid && i < f->val.map_cnt; i++) {
		struct mapped_file *file = file_table__find(pt->files, f->maps[i].file);

		if (!file)
			continue;
		f->maps[i].table = file_table__index(pt->files, file, &coming);
		all &= !coming;
	}
	return all;
}

/* Reads a process, but does not build tables. */
static void look_for_news(struct process_table *pt, struct fresh *f)
{
	uint64_t put_off = readers__put_off(pt->opts.readers);

	if (f->p->exited)
		return;
	if (in_exec(f->p)) {
		f->p->retry = true;
		return;
	}
	look__at(pt, f);
	f->p->retry |= readers__put_off(pt->opts.readers) != put_off;
	pull_in_sharers(pt, f);
	publish_early(pt, f);
}

static void finish_news(struct process_table *pt, struct fresh *f)
{
	if (!set_tables(pt, f)) {
		f->p->retry = true;
		pt->stats.late++;
	}
	image__commit(pt, f);
	fresh__drop(pt, f);
}

/* Reads what only the report needs; the samples of the process did not wait for it. */
static void introduce(struct process_table *pt, struct process *p)
{
	int proc_fd = p->introduce && !p->exited ? opener__proc_dir(p->tgid) : -1;

	p->introduce = false;
	if (proc_fd < 0)
		return;
	if (p->is_python && !p->ids_known)
		look__rights(p, proc_fd, &pt->text);
	if (!p->described) {
		look__describe(p, proc_fd, &pt->text);
		titles__want(pt, p);
		if (pt->opts.known)
			pt->opts.known(pt->opts.known_ctx, p, NULL);
	}
	close(proc_fd);
}

/* Processes to be read again, and those for which there was no time or memory, stay in the list. */
static void keep_waiting(struct process_table *pt)
{
	size_t waiting = 0;

	for (size_t i = 0; i < pt->dirty_cnt; i++) {
		struct process *p = pt->dirty[i];

		p->dirty = !p->exited && (!p->looked || p->retry);
		p->looked = false;
		if (p->dirty)
			pt->dirty[waiting++] = p;
	}
	pt->dirty_cnt = waiting;
}

static void age_early(struct process_table *pt)
{
	memmove(pt->early, pt->early + pt->early_old,
		(pt->early_cnt - pt->early_old) * sizeof(*pt->early));
	pt->early_cnt -= pt->early_old;
	pt->early_old = pt->early_cnt;
}

/* ---- turns ----------------------------------------------------------------------------------- */

struct turn {
	uint64_t key; /* how many of its user come before it, then its place in the list */
	struct process *p;
};

static int cmp_turn(const void *a, const void *b)
{
	const struct turn *x = a, *y = b;

	return (x->key > y->key) - (x->key < y->key);
}

/* Who has thousands of new processes does not let others wait for all of them. */
static void take_turns(struct process_table *pt)
{
	uint32_t *before = calloc(SHARE_SLOTS, sizeof(*before));
	struct turn *turns = malloc(pt->dirty_cnt * sizeof(*turns));

	for (size_t i = 0; before && turns && i < pt->dirty_cnt; i++) {
		struct process *p = pt->dirty[i];

		turns[i] = (struct turn){ (uint64_t)before[process_table__slot(pt, p)]++ << 32 | i,
					  p };
	}
	if (before && turns) {
		qsort(turns, pt->dirty_cnt, sizeof(*turns), cmp_turn);
		for (size_t i = 0; i < pt->dirty_cnt; i++)
			pt->dirty[i] = turns[i].p;
	}
	free(before);
	free(turns);
}

/* The end of a window of the agent waits for the round. */
static bool is_late(const struct process_table *pt, uint64_t start)
{
	return pt->live &&
	       (now_ns() > start + ROUND_MOST_NS || readers__are_late(pt->opts.readers));
}

/*
 * Looks at processes as long as a round lasts, and then only at those that must not wait. How many,
 * in pt->fresh.
 */
static size_t look_in_turn(struct process_table *pt, uint64_t start)
{
	uint64_t end = start + (pt->live ? ROUND_NS : FIRST_ROUND_NS);
	bool over = false;
	size_t cnt = 0;

	if (pt->dirty_cnt > ROUND_LEAST)
		take_turns(pt);
	for (size_t i = 0; i < pt->dirty_cnt; i++) { /* grows in the loop */
		struct process *p = pt->dirty[i];

		over = over || (cnt >= ROUND_LEAST && now_ns() > end) ||
		       (cnt && is_late(pt, start));
		if (over && !p->pulled)
			continue;
		if (ARRAY_GROW(pt->fresh, pt->fresh_cap, cnt, UINT32_MAX))
			break;
		p->pulled = false;
		p->looked = true;
		pt->fresh[cnt] = (struct fresh){ .p = p };
		look_for_news(pt, &pt->fresh[cnt++]);
	}
	return cnt;
}

int process_table__refresh(struct process_table *pt)
{
	uint64_t start = now_ns();
	size_t cnt;

	file_table__begin(pt->files);
	trust__check_due(pt);
	cnt = look_in_turn(pt, start);
	for (size_t i = 0; i < cnt; i++) {
		if (!i || !is_late(pt, start))
			build_tables(pt, &pt->fresh[i]);
		else if (pt->fresh[i].valid && wants_tables(pt, &pt->fresh[i]))
			pt->fresh[i].p->retry = true;
	}
	file_table__publish(pt->files);
	/* Backwards: processes that share an image come after the one that changes it. */
	for (size_t i = cnt; i-- > 0;)
		finish_news(pt, &pt->fresh[i]);
	for (size_t i = 0; i < cnt; i++)
		introduce(pt, pt->fresh[i].p);
	keep_waiting(pt);
	age_early(pt);
	pt->trust.due_ns = trust__next_ns(pt);
	pt->stats.refresh_ns += now_ns() - start;
	return process_table__to_read(pt);
}

int process_table__to_read(const struct process_table *pt)
{
	return (int)pt->dirty_cnt;
}

size_t process_table__restless(const struct process_table *pt)
{
	return pt->restless;
}

uint64_t process_table__check_ns(const struct process_table *pt)
{
	return pt->trust.due_ns;
}

/* ---- events --------------------------------------------------------------------------------- */

static void inherit(struct process *child, const struct process *parent)
{
	child->exe_owned = parent->exe_owned ? strdup(parent->exe_owned) : NULL;
	child->exe = child->exe_owned ? child->exe_owned : "";
	child->container_owned = parent->container_owned ? strdup(parent->container_owned) : NULL;
	child->container = child->container_owned ? child->container_owned : "";
	titles__inherit(child, parent);
	child->own_root = parent->own_root;
	memcpy(child->python, parent->python, sizeof(child->python));
	child->python_file = parent->python_file;
	memcpy(child->checks, parent->checks, sizeof(child->checks));
	child->native_only = parent->native_only;
	for (size_t i = 0; i < IMAGE_INTERPS; i++) {
		if (parent->native_only == parent->checks[i].why)
			child->native_only = child->checks[i].why;
	}
	child->is_python = parent->is_python;
	child->analysed = parent->analysed;
	child->described = parent->described;
}

/* Was a mapping of this process reported before the process itself? */
static bool was_early(const struct process_table *pt, uint32_t tgid)
{
	for (size_t i = 0; i < pt->early_cnt; i++) {
		if (pt->early[i] == tgid)
			return true;
	}
	return pt->early_cnt == MAX_EARLY; /* some were not remembered */
}

static int on_fork(struct process_table *pt, const struct ev_proc *ev)
{
	struct process *parent = idmap__get(&pt->by_space, ev->parent), *p;

	if (idmap__get(&pt->by_space, ev->space))
		return 0; /* known from a resync */
	p = process_table__add(pt, ev->space, ev->tgid, ev->comm, ev->time_ns);
	if (!p)
		return -ENOMEM;
	pt->sink.fork(pt->sink.ctx, ev->space, ev->parent);
	if (parent) {
		inherit(p, parent);
		trust__want(pt, p);
		if (p->described && pt->opts.known)
			pt->opts.known(pt->opts.known_ctx, p, parent);
	}
	/* The child can share if BPF uses the same image of the parent, and it is up to date. */
	if (parent && parent->image && parent->image->key == ev->image && !parent->dirty)
		image__use(p, parent->image);
	else
		process_table__mark_dirty(pt, p);
	if (was_early(pt, ev->tgid))
		process_table__mark_dirty(pt, p);
	return 0;
}

static int on_exec(struct process_table *pt, const struct ev_proc *ev)
{
	struct process *old = idmap__get(&pt->by_tgid, ev->tgid), *p;
	bool plain;

	if (idmap__get(&pt->by_space, ev->space))
		return 0;
	/* Since perf announced the exec, only files without an interpreter were mapped. */
	plain = !pt->opts.all && old && old->exec_ns && old->unclean_ns < old->exec_ns &&
		old->exec_ns <= ev->time_ns;
	p = process_table__add(pt, ev->space, ev->tgid, ev->comm, ev->time_ns);
	if (!p)
		return -ENOMEM;
	p->exe_key = ev->exe;
	p->plain = ev->status & PROC_PLAIN;
	if (plain && !image__publish(pt, &(struct fresh){ .p = p })) {
		p->analysed = true;
		pt->stats.exec_plain++;
		return 0;
	}
	process_table__mark_dirty(pt, p);
	return 0;
}

int process_table__on_event(struct process_table *pt, const struct ev_proc *ev)
{
	struct process *p;

	switch (ev->type) {
	case EV_FORK:
		return on_fork(pt, ev);
	case EV_EXEC:
		return on_exec(pt, ev);
	case EV_EXIT:
		p = idmap__get(&pt->by_space, ev->space);
		if (p && !p->exited)
			process_table__retire(pt, p);
		return 0;
	case EV_UNSHARE:
		p = idmap__get(&pt->by_space, ev->space);
		if (p)
			process_table__mark_dirty(pt, p);
		return 0;
	case EV_DRAIN:
	case EV_AREA:
		return 0; /* these events only wake us */
	default:
		return -EINVAL;
	}
}

static void on_new_mapping(struct process_table *pt, struct process *p, const struct mmap_event *ev)
{
	/* Call this first: it remembers the inode's generation. */
	bool plain = file_table__is_plain(pt->files, ev->major, ev->minor, ev->inode,
					  ev->generation, ev->time_ns);

	if (!plain && ev->time_ns > p->unclean_ns)
		p->unclean_ns = ev->time_ns;
	if (ev->time_ns <= p->looked_ns)
		return; /* the mappings that we read contain it */
	if (!plain || pt->opts.all || p->is_python || !p->image)
		process_table__mark_dirty(pt, p);
}

void process_table__on_mmap(void *table, const struct mmap_event *ev)
{
	struct process_table *pt = table;
	struct process *p;

	if (ev->type == MMAP_EVENT_LOST) {
		process_table__mark_all_dirty(pt);
		return;
	}
	p = idmap__get(&pt->by_tgid, ev->tgid);
	if (!p) {
		if (ev->tgid && ev->type == MMAP_EVENT_MMAP && pt->early_cnt < MAX_EARLY)
			pt->early[pt->early_cnt++] = ev->tgid;
		return;
	}
	if (ev->type == MMAP_EVENT_MMAP) {
		on_new_mapping(pt, p, ev);
		return;
	}
	if (ev->time_ns <= p->since_ns)
		return; /* it happened before we found the process */
	if (ev->type == MMAP_EVENT_EXEC) {
		p->exec_ns = ev->time_ns; /* the name is the new program's */
		p->exec_wait = 0;
	} else if (ev->tid == ev->tgid) {
		memcpy(p->comm, ev->comm, sizeof(p->comm));
	}
}

/* ---- end ------------------------------------------------------------------------------------ */

void process_table__reclaim(struct process_table *pt)
{
	extent__reclaim(&pt->room.extents);
}

bool process_table__waits(const struct process_table *pt)
{
	struct file_stats fs;

	file_table__stats(pt->files, &fs);
	return pt->room.extents.buried_cnt || fs.tables_evicted || fs.tables_refused;
}

static bool image_wants_tables(const struct process_table *pt, const struct image *val)
{
	for (uint32_t i = 0; i < val->map_cnt; i++) {
		struct mapped_file *file =
			file_table__find(pt->files, pt->maps.mappings[val->map_first + i].file);

		if (file && file_table__wants_table(pt->files, file))
			return true;
	}
	return false;
}

/* Keeps the files of its interpreters: p->native_only points at their texts. */
static void borrow_files(struct process_table *pt, const struct process *p)
{
	file_table__borrow(pt->files, p->python_file);
	for (size_t i = 0; i < IMAGE_INTERPS; i++)
		file_table__borrow(pt->files, p->checks[i].file);
}

void process_table__tick(struct process_table *pt)
{
	struct process *p;

	for (size_t at = 0; (p = idmap__next(&pt->by_space, &at));)
		borrow_files(pt, p);
	if (!file_table__tick(pt->files))
		return;
	for (size_t at = 0; (p = idmap__next(&pt->by_tgid, &at));) {
		if (p->image && image_wants_tables(pt, &p->image->val))
			process_table__mark_dirty(pt, p);
	}
}

void process_table__forget_names(struct process_table *pt)
{
	file_table__forget_names(pt->files);
}

void process_table__forget_exited(struct process_table *pt)
{
	struct process *p, **gone = NULL;
	size_t cnt = 0, cap = 0;

	for (size_t at = 0; (p = idmap__next(&pt->by_space, &at));) {
		if (!p->exited || p->dirty) /* the list of dirty ones is emptied by refresh */
			continue;
		if (!p->expiring)
			p->expiring = true;
		else if (!ARRAY_GROW(gone, cap, cnt, UINT32_MAX))
			gone[cnt++] = p;
	}
	for (size_t i = 0; i < cnt; i++) {
		idmap__remove(&pt->by_space, gone[i]->space);
		pt->sink.forget(pt->sink.ctx, gone[i]->space);
		free_process(gone[i]);
	}
	free(gone);
}

void process_table__stats(const struct process_table *pt, struct process_stats *out)
{
	const struct process *p;

	*out = pt->stats;
	for (size_t at = 0; (p = idmap__next(&pt->by_tgid, &at));) {
		out->live++;
		out->python += p->is_python;
		out->native_only += p->native_only != NULL;
		out->pending += !p->image;
	}
	out->mappings_used = pt->room.extents.used;
}

void process_table__file_stats(const struct process_table *pt, struct file_stats *out)
{
	file_table__stats(pt->files, out);
}
