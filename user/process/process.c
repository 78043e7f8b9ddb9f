/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/process.h"

#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/idmap.h"
#include "base/log.h"
#include "base/reader.h"
#include "base/source.h"
#include "base/str.h"
#include "process/cgroup.h"
#include "process/extent.h"
#include "process/maps_read.h"

#define MAX_EARLY	 4096
#define MAX_SCAN_ROUNDS	 16
#define MAX_ADOPT	 (1 << 20)
#define RETRY_FOR_NS	 10000000000ULL /* an interpreter that does not start */
#define EXEC_WAIT_ROUNDS 3
#define CHECK_BUDGET_NS	 2000000ULL /* of one round */
#define MAX_CANDIDATES	 8	    /* interpreters of one process */
/*
 * Of `mappings`: an image of more has at most an eighth of what is free and not kept for small
 * ones, and one of less than the last is not cut for others.
 */
#define SMALL_IMAGE	 256
#define LEAST_IMAGE	 32
#define TAKE_EVERY_NS	 100000000ULL

/* One entry of `images`, and who lives by it. */
struct image_ref {
	uint32_t key;
	struct image val;
	struct process *users; /* of key `key` itself, or children that share it */
	bool changing;	       /* in this refresh */
};

_Static_assert(EXEC_MAPS_MAX < 1 << IMAGE_MAX_BITS, "an image has room for what is read");

/* What a look at /proc/PID/maps gave. Holds its files until it is committed or dropped. */
struct fresh {
	struct process *p;
	struct image val;
	struct mapping *maps;
	uint32_t areas; /* of struct proc, before the look */
	bool valid;
};

struct process_table {
	struct process_maps maps;
	struct process_opts opts;
	struct file_table *files;
	struct file_sink sink;
	struct extents extents;
	struct idmap by_space, by_tgid, images;
	struct process **dirty;
	size_t dirty_cnt, dirty_cap;
	struct fresh *fresh;
	size_t fresh_cap;
	uint32_t *early;	     /* tgids of mappings that came before their fork */
	size_t early_cnt, early_old; /* the first early_old are of the round before */
	uint32_t *unchecked;	     /* spaces whose self-check is not over */
	size_t unchecked_cnt, unchecked_cap;
	uint64_t check_ns;	 /* when the first of them is due; UINT64_MAX: it can wait */
	uint64_t took_ns;	 /* when an image was last cut to make room for another */
	struct exec_maps exec;	 /* of the process at hand */
	struct strbuf text;	 /* of another of its files */
	struct mapping *scratch; /* EXEC_MAPS_MAX of them */
	uint32_t next_space;
	bool live; /* sampled: an image must not wait */
	bool warned_mappings, warned_images, warned_permission, warned_check;
	size_t restless;
	struct process_stats stats;
};

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
				.table_budget = opts->table_budget,
				.spare_bytes = opts->spare_bytes,
				.lengthy = opts->lengthy,
				.lengthy_ctx = opts->lengthy_ctx };
	struct process_table *pt = calloc(1, sizeof(*pt));

	if (!pt)
		return NULL;
	reader__start(); /* now, as little is in use */
	pt->maps = *maps;
	pt->opts = *opts;
	pt->next_space = 1;
	pt->check_ns = UINT64_MAX;
	pt->files = file_table__new(&fm, sink);
	pt->sink = sink;
	pt->early = malloc(MAX_EARLY * sizeof(*pt->early));
	pt->scratch = malloc(EXEC_MAPS_MAX * sizeof(*pt->scratch));
	if (!pt->files || !pt->early || !pt->scratch ||
	    extents__init(&pt->extents, maps->mapping_cap)) {
		process_table__free(pt);
		errno = ENOMEM;
		return NULL;
	}
	return pt;
}

static void free_process(struct process *p)
{
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
	extents__free(&pt->extents);
	file_table__free(pt->files);
	exec_maps__free(&pt->exec);
	strbuf__free(&pt->text);
	free(pt->scratch);
	free(pt->early);
	free(pt->dirty);
	free(pt->unchecked);
	free(pt->fresh);
	free(pt);
}

/* ---- dirty processes ------------------------------------------------------------------------ */

static void mark_dirty(struct process_table *pt, struct process *p)
{
	if (p->dirty || p->exited ||
	    ARRAY_GROW(pt->dirty, pt->dirty_cap, pt->dirty_cnt, UINT32_MAX))
		return;
	p->dirty = true;
	pt->dirty[pt->dirty_cnt++] = p;
}

static void mark_all_dirty(struct process_table *pt)
{
	struct process *p;

	for (size_t at = 0; (p = idmap__next(&pt->by_tgid, &at));)
		mark_dirty(pt, p);
}

/* ---- self-check ----------------------------------------------------------------------------- */

static bool is_open(const struct process *p)
{
	for (size_t i = 0; i < IMAGE_INTERPS; i++) {
		if (selfcheck__open(&p->checks[i]))
			return true;
	}
	return false;
}

static void want_check(struct process_table *pt, struct process *p)
{
	if (p->unchecked || !is_open(p) ||
	    ARRAY_GROW(pt->unchecked, pt->unchecked_cap, pt->unchecked_cnt, UINT32_MAX))
		return;
	p->unchecked = true;
	pt->unchecked[pt->unchecked_cnt++] = p->space;
}

static void warn_unable(struct process_table *pt, const struct process *p, int err)
{
	if (pt->warned_check || (err != -EPERM && err != -ENOSYS))
		return;
	log_warn("process %u: its interpreter cannot be checked: %s", p->tgid, strerror(-err));
	pt->warned_check = true;
}

/* Of one of its interpreters. NULL: it is trusted; else why not. */
static const char *why_not_trusted(struct process_table *pt, struct process *p,
				   struct selfcheck *sc, const struct mapped_file *file,
				   uint64_t bias)
{
	selfcheck__begin(sc, file->py, file->id, p->tgid, bias, now_ns());
	file_table__update_interp(pt->files, file);
	warn_unable(pt, p, sc->err);
	want_check(pt, p);
	return sc->state == SELFCHECK_REFUSED ? sc->why : NULL;
}

const char *process__why_no_python(const struct process *p)
{
	const char *why = p->native_only ? p->native_only : selfcheck__doubt(&p->checks[0]);

	/* Of those that are in use, all have to be in doubt. */
	for (size_t i = 1; i < IMAGE_INTERPS && why; i++) {
		if (p->checks[i].state == SELFCHECK_PASSED)
			return NULL;
	}
	return why;
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

static void check_again(struct process_table *pt, struct process *p, struct selfcheck *sc)
{
	struct mapped_file *file = file_table__find(pt->files, sc->file);
	bool changed = selfcheck__again(sc, file ? file->py : NULL, p->tgid, now_ns());

	if (file && file->py)
		file_table__update_interp(pt->files, file);
	if (!changed)
		return;
	log_debug("process %u: self-check: %s", p->tgid,
		  sc->state == SELFCHECK_REFUSED ? sc->why : "passed");
	mark_dirty(pt, p);
}

static void check_all_again(struct process_table *pt, struct process *p, uint64_t round_ns)
{
	for (size_t i = 0; i < IMAGE_INTERPS; i++) {
		struct selfcheck *sc = &p->checks[i];

		if (!p->exited && sc->due_ns <= round_ns && now_ns() - round_ns < CHECK_BUDGET_NS)
			check_again(pt, p, sc);
	}
}

/* Asks again those that are due, as time permits. */
static void check_the_unchecked(struct process_table *pt)
{
	size_t cnt = pt->unchecked_cnt, kept = 0;
	uint64_t now = now_ns();

	for (size_t i = 0; i < cnt; i++) {
		struct process *p = idmap__get(&pt->by_space, pt->unchecked[i]);

		if (!p)
			continue;
		check_all_again(pt, p, now);
		p->unchecked = !p->exited && is_open(p);
		if (p->unchecked)
			pt->unchecked[kept++] = p->space;
	}
	pt->unchecked_cnt = kept;
}

/* When the first is due of those that do not wait for something else to happen. */
static uint64_t next_check_ns(const struct process_table *pt)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < pt->unchecked_cnt; i++) {
		const struct process *p = idmap__get(&pt->by_space, pt->unchecked[i]);

		for (size_t k = 0; p && k < IMAGE_INTERPS; k++) {
			const struct selfcheck *sc = &p->checks[k];

			if (selfcheck__open(sc) && sc->wait_ms < SELFCHECK_SOON_MS &&
			    sc->due_ns < next)
				next = sc->due_ns;
		}
	}
	return next;
}

static int open_proc_dir(uint32_t tgid)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%u", tgid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* ---- images --------------------------------------------------------------------------------- */

static void put_files(struct process_table *pt, const struct mapping *maps, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++) {
		struct mapped_file *file = file_table__find(pt->files, maps[i].file);

		if (file)
			file_table__put(pt->files, file);
	}
}

/* Frees the range of an image that is in use no more, once the programs that read it have ended. */
static void bury_image(struct process_table *pt, const struct image *val)
{
	put_files(pt, pt->maps.mappings + val->map_first, val->map_cnt);
	extent__bury(&pt->extents, val->map_first, val->map_cnt);
}

static void use_image(struct process *p, struct image_ref *image)
{
	p->image = image;
	p->prev_user = NULL;
	p->next_user = image->users;
	if (image->users)
		image->users->prev_user = p;
	image->users = p;
}

static void leave_image(struct process_table *pt, struct process *p)
{
	struct image_ref *image = p->image;

	if (!image)
		return;
	if (p->prev_user)
		p->prev_user->next_user = p->next_user;
	else
		image->users = p->next_user;
	if (p->next_user)
		p->next_user->prev_user = p->prev_user;
	p->image = NULL;
	p->next_user = p->prev_user = NULL;
	if (image->users)
		return;
	bpf_map_delete_elem(pt->maps.images_fd, &image->key);
	idmap__remove(&pt->images, image->key);
	bury_image(pt, &image->val);
	free(image);
}

static bool same_image(const struct process_table *pt, const struct image *old,
		       const struct fresh *f)
{
	return old->flags == f->val.flags && old->interp_cnt == f->val.interp_cnt &&
	       !memcmp(old->interps, f->val.interps, sizeof(old->interps)) &&
	       old->map_cnt == f->val.map_cnt &&
	       (!old->map_cnt || !memcmp(pt->maps.mappings + old->map_first, f->maps,
					 old->map_cnt * sizeof(*f->maps)));
}

static void note_rights(struct process *p, int proc_fd, struct strbuf *text);

/* ---- room in `mappings` --------------------------------------------------------------------- */

/* How much a mapping is worth: the interpreters', then one of each other file. */
static int worth(const struct process_table *pt, const struct mapping *maps, uint32_t i)
{
	const struct mapped_file *file = file_table__find(pt->files, maps[i].file);

	if (file && file->py)
		return 2;
	return file && (!i || maps[i - 1].file != maps[i].file);
}

/* Keeps `cnt` mappings of a look, the most useful ones. */
static int cut_mappings(struct process_table *pt, struct fresh *f, uint32_t cnt)
{
	bool *keep = calloc(f->val.map_cnt + 1, sizeof(*keep));
	uint32_t left = cnt, kept = 0;
	struct mapping gone;

	if (!keep)
		return -ENOMEM;
	for (int least = 2; least >= 0; least--) {
		for (uint32_t i = 0; left && i < f->val.map_cnt; i++) {
			if (!keep[i] && worth(pt, f->maps, i) >= least) {
				keep[i] = true;
				left--;
			}
		}
	}
	for (uint32_t i = 0; i < f->val.map_cnt; i++) {
		gone = f->maps[i];
		if (keep[i])
			f->maps[kept++] = gone;
		else
			put_files(pt, &gone, 1);
	}
	f->val.map_cnt = kept;
	f->val.flags |= IMAGE_CUT;
	free(keep);
	return 0;
}

/* What each user's images have, by user + 1. */
struct holder {
	uint64_t mappings;
	struct image_ref *largest;
};

static uint32_t user_of(struct process_table *pt, struct process *p)
{
	int proc_fd = p->ids_known || p->exited ? -1 : open_proc_dir(p->tgid);

	if (proc_fd >= 0) {
		note_rights(p, proc_fd, &pt->text);
		close(proc_fd);
	}
	return p->ids_known ? p->uid : 0;
}

static void add_holding(struct process_table *pt, struct idmap *holders, struct image_ref *image)
{
	uint64_t key = image->users ? user_of(pt, image->users) + 1ULL : 0;
	struct holder *h = key ? idmap__get(holders, key) : NULL;

	if (!key || image->val.map_cnt <= LEAST_IMAGE)
		return;
	if (!h) {
		h = calloc(1, sizeof(*h));
		if (!h || idmap__set(holders, key, h)) {
			free(h);
			return;
		}
	}
	h->mappings += image->val.map_cnt;
	if (!h->largest || h->largest->val.map_cnt < image->val.map_cnt)
		h->largest = image;
}

/* The largest image of the user who has most, if that is more than the one who wants `cnt`. */
static struct image_ref *find_victim(struct process_table *pt, struct process *p, uint32_t cnt)
{
	const struct holder *own = NULL, *most = NULL;
	struct image_ref *image, *victim = NULL;
	struct idmap holders = { 0 };
	struct holder *h;

	for (size_t at = 0; (image = idmap__next(&pt->images, &at));)
		add_holding(pt, &holders, image);
	own = idmap__get(&holders, user_of(pt, p) + 1ULL);
	for (size_t at = 0; (h = idmap__next(&holders, &at));)
		most = !most || h->mappings > most->mappings ? h : most;
	if (most && (most == own ? most->largest->val.map_cnt > cnt
				 : most->mappings > (own ? own->mappings : 0) + cnt))
		victim = most->largest;
	for (size_t at = 0; (h = idmap__next(&holders, &at));)
		free(h);
	idmap__free(&holders);
	return victim;
}

/* Its users are looked at again, and cut. */
static void take_room(struct process_table *pt, struct image_ref *image)
{
	for (struct process *q = image->users; q; q = q->next_user) {
		q->share = LEAST_IMAGE;
		mark_dirty(pt, q);
	}
	pt->stats.mappings_taken++;
	pt->took_ns = now_ns();
}

static void warn_cut(struct process_table *pt, struct process *p, uint32_t of)
{
	pt->stats.mappings_full++;
	if (!pt->warned_mappings)
		log_warn("no room for all %u mappings of process %u of user %u, and of others: "
			 "their native stacks end early, at [no-room-for-mappings]",
			 of, p->tgid, user_of(pt, p));
	pt->warned_mappings = true;
}

/* Will there be more room soon: its own old image's, or what another one gives? */
static bool room_comes(struct process_table *pt, struct fresh *f, uint32_t cnt)
{
	const struct image_ref *image = f->p->image;
	struct image_ref *victim;

	if (f->p->share == LEAST_IMAGE)
		return image && image->key == f->p->space && image->val.map_cnt > cnt;
	if (pt->took_ns && now_ns() < pt->took_ns + TAKE_EVERY_NS)
		return true; /* it has not been freed yet */
	victim = find_victim(pt, f->p, f->val.map_cnt);
	if (victim)
		take_room(pt, victim);
	return victim;
}

/*
 * As many mappings of a look as there is room for now. If more room comes, it is looked at again.
 */
static int cut_to_room(struct process_table *pt, struct fresh *f)
{
	uint32_t all = f->val.map_cnt, cnt = all;
	bool comes;
	int err;

	while (cnt && extent__alloc(&pt->extents, cnt, &f->val.map_first))
		cnt /= 2;
	if (cnt == all)
		return 0;
	comes = room_comes(pt, f, cnt);
	err = cut_mappings(pt, f, cnt);
	if (err) {
		extent__release(&pt->extents, f->val.map_first, cnt);
		return err;
	}
	f->p->retry |= comes;
	if (!comes)
		f->p->share = cnt ? cnt : 1;
	warn_cut(pt, f->p, all);
	return 0;
}

static uint32_t free_slots(const struct process_table *pt)
{
	return pt->extents.slots - pt->extents.used;
}

/* What images of many mappings leave to others. */
static uint32_t reserve_slots(const struct process_table *pt)
{
	return pt->extents.slots / 8;
}

/* What an image of so many mappings may have; `waits`: more later. */
static uint32_t share_of(struct process_table *pt, const struct process *p, uint32_t cnt,
			 bool *waits)
{
	uint32_t spare = free_slots(pt), kept = reserve_slots(pt), most;
	const struct image *own = p->image && p->image->key == p->space ? &p->image->val : NULL;

	if (p->share)
		return p->share < cnt ? p->share : cnt;
	if (own && own->flags & IMAGE_CUT && spare < cnt) {
		*waits = true;
		return own->map_cnt < cnt ? own->map_cnt : cnt;
	}
	if (cnt <= SMALL_IMAGE || (own && own->map_cnt >= cnt))
		return cnt;
	most = spare > kept ? (spare - kept) / 8 : 0;
	most = most > SMALL_IMAGE ? most : SMALL_IMAGE;
	return most < cnt ? most : cnt;
}

/* Before it is compared with the image that there is: what it may have of the table. */
static int keep_share(struct process_table *pt, struct fresh *f)
{
	uint32_t all = f->val.map_cnt, cnt = share_of(pt, f->p, all, &f->p->retry);

	if (cnt == all)
		return 0;
	if (!f->p->retry && !f->p->share) {
		f->p->share = cnt;
		warn_cut(pt, f->p, all);
	}
	return cut_mappings(pt, f, cnt);
}

/* Before the table is full: it takes seconds until what is given is free. */
static void keep_reserve(struct process_table *pt, const struct fresh *f)
{
	struct image_ref *victim;

	if (free_slots(pt) >= reserve_slots(pt) || now_ns() < pt->took_ns + TAKE_EVERY_NS)
		return;
	victim = find_victim(pt, f->p, f->val.map_cnt);
	if (victim)
		take_room(pt, victim);
}

static int write_mappings(struct process_table *pt, struct fresh *f)
{
	int err;

	/* Once more: others may have been looked at together with it. */
	err = keep_share(pt, f);
	if (err || !f->val.map_cnt)
		return err;
	err = extent__alloc(&pt->extents, f->val.map_cnt, &f->val.map_first);
	if (err)
		err = cut_to_room(pt, f);
	if (err)
		return err;
	keep_reserve(pt, f);
	memcpy(pt->maps.mappings + f->val.map_first, f->maps, f->val.map_cnt * sizeof(*f->maps));
	/* The system call that publishes the range orders these writes before it. */
	return 0;
}

static int set_image(struct process_table *pt, uint32_t key, const struct image *val)
{
	int err = bpf_map_update_elem(pt->maps.images_fd, &key, val, BPF_ANY) ? -errno : 0;

	if (err) {
		pt->stats.images_full++;
		if (!pt->warned_images)
			log_warn("table of images: %s", strerror(-err));
		pt->warned_images = true;
	}
	return err;
}

/* The entry of a process in procs. False: it has none, or it is of another space by now. */
static bool read_proc_entry(const struct process_table *pt, const struct process *p,
			    struct proc *val)
{
	return !bpf_map_lookup_elem(pt->maps.procs_fd, &p->tgid, val) && val->space == p->space;
}

/* How many address ranges the kernel has given to it. */
static uint32_t areas_given(const struct process_table *pt, const struct process *p)
{
	struct proc val;

	return read_proc_entry(pt, p, &val) ? val.areas : 0;
}

/* BPF no longer lets it share its parent's image. */
static bool lost_image(const struct process_table *pt, const struct process *p)
{
	struct proc val;

	return read_proc_entry(pt, p, &val) && !val.image;
}

static bool is_mapped(struct process_table *pt, int proc_fd, const struct map_line *line,
		      const struct mapping *m)
{
	struct mapped_file *file;
	bool same;

	if (line->start != m->start || line->end != m->end)
		return false;
	file = file_table__get(pt->files, proc_fd, line);
	same = file ? file->id == m->file && line->offset == m->offset : !m->file;
	if (file)
		file_table__put(pt->files, file);
	return same;
}

/* Empties what has been unmapped since the look; all of it, if that cannot be told. */
static void empty_unmapped(struct process_table *pt, struct fresh *f)
{
	struct mapping *written = pt->maps.mappings + f->val.map_first;
	int proc_fd = open_proc_dir(f->p->tgid);
	size_t at = 0;

	if (proc_fd < 0 || exec_maps__read(&pt->exec, proc_fd))
		pt->exec.cnt = 0;
	for (uint32_t i = 0; i < f->val.map_cnt; i++) {
		while (at < pt->exec.cnt && pt->exec.lines[at].start < f->maps[i].start)
			at++;
		if (at < pt->exec.cnt && is_mapped(pt, proc_fd, &pt->exec.lines[at], &f->maps[i]))
			continue;
		written[i].end = written[i].start;
		f->p->retry = true;
		pt->stats.overtaken++;
	}
	if (proc_fd >= 0)
		close(proc_fd);
}

/*
 * What was written is of the time of the look. Addresses may have been given to another file since,
 * and BPF, which tells (follow_area() in bpf/lifecycle.bpf.h), knew only the image of then. From
 * here to the update of images it keeps the draft true as well. Either it sees the draft, or we see
 * that it has counted a range before that: a full barrier on both sides is between what each writes
 * and what it reads.
 */
static void make_draft(struct process_table *pt, struct fresh *f)
{
	if (!f->val.map_cnt)
		return;
	__atomic_store_n(pt->maps.draft, DRAFT_WORD(f->p->space, f->val.map_first, f->val.map_cnt),
			 __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (areas_given(pt, f->p) != f->areas)
		empty_unmapped(pt, f);
}

/* The process gets an image under its own key, new or in place of the one it has there. */
static int set_own_image(struct process_table *pt, const struct fresh *f)
{
	struct process *p = f->p;
	struct image_ref *image = p->image;
	struct image old;
	int err;

	if (image && image->key == p->space) {
		old = image->val;
		err = set_image(pt, image->key, &f->val);
		if (err)
			return err;
		image->val = f->val;
		bury_image(pt, &old);
		return 0;
	}
	image = calloc(1, sizeof(*image));
	err = image ? idmap__set(&pt->images, p->space, image) : -ENOMEM;
	if (!err) {
		*image = (struct image_ref){ .key = p->space, .val = f->val };
		err = set_image(pt, p->space, &f->val);
		if (!err) {
			leave_image(pt, p);
			use_image(p, image);
			return 0;
		}
		idmap__remove(&pt->images, p->space);
	}
	free(image);
	return err;
}

/* Does it no longer map a file where it did? */
static bool has_closed(const struct process_table *pt, const struct fresh *f)
{
	const struct image *old = f->p->image ? &f->p->image->val : NULL;
	const struct mapping *was = old ? pt->maps.mappings + old->map_first : NULL;
	uint32_t at = 0;

	if (f->val.flags & IMAGE_CUT)
		return false;
	for (uint32_t i = 0; old && f->val.map_cnt && i < old->map_cnt; i++) {
		while (at < f->val.map_cnt && f->maps[at].start < was[i].start)
			at++;
		if (was[i].file && (at == f->val.map_cnt || f->maps[at].start != was[i].start ||
				    f->maps[at].file != was[i].file))
			return true;
	}
	return false;
}

static void note_closed(struct process_table *pt, const struct fresh *f)
{
	if (f->p->restless || f->p->exited || !has_closed(pt, f))
		return;
	f->p->restless = true;
	pt->restless++;
}

static int publish(struct process_table *pt, struct fresh *f)
{
	int err;

	note_closed(pt, f);
	err = write_mappings(pt, f);

	if (err)
		return err;
	make_draft(pt, f);
	err = set_own_image(pt, f);
	/* Not before: who no longer sees the draft must see the image. */
	__atomic_store_n(pt->maps.draft, 0, __ATOMIC_SEQ_CST);
	if (err)
		extent__release(&pt->extents, f->val.map_first, f->val.map_cnt);
	return err;
}

static void log_published(const struct process *p, const char *how)
{
	log_debug("process %u: published %s, %llu us after its start", p->tgid, how,
		  (unsigned long long)(now_ns() - p->since_ns) / 1000);
}

static void drop_fresh(struct process_table *pt, struct fresh *f)
{
	if (f->valid)
		put_files(pt, f->maps, f->val.map_cnt);
	free(f->maps);
	f->maps = NULL;
	f->valid = false;
}

static void commit(struct process_table *pt, struct fresh *f)
{
	struct image_ref *image = f->p->image;
	bool own = image && image->key == f->p->space;

	if (!f->valid)
		return;
	/* A child keeps sharing only while its parent's image stays as it is, and BPF lets it. */
	if (image && same_image(pt, &image->val, f) &&
	    (own || (!image->changing && !lost_image(pt, f->p))))
		pt->stats.unchanged++;
	else if (!publish(pt, f)) {
		f->valid = false; /* the image holds the files now */
		log_published(f->p, f->val.flags & IMAGE_PYTHON ? "as Python" : "as not Python");
	}
	if (own)
		image->changing = false;
}

/* ---- processes ------------------------------------------------------------------------------ */

/*
 * It has ended and never had Python, in all that it mapped: BPF does not wake us for the next one
 * of this executable. If that has Python, it is known a sample late, and the executable is plain no
 * more.
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

static void note_not_plain(struct process_table *pt, struct process *p)
{
	if (p->plain)
		bpf_map_delete_elem(pt->maps.plain_exes_fd, &p->exe_key);
	p->plain = false;
}

static void retire(struct process_table *pt, struct process *p)
{
	note_plain(pt, p);
	pt->restless -= p->restless;
	p->restless = false;
	if (idmap__get(&pt->by_tgid, p->tgid) == p)
		idmap__remove(&pt->by_tgid, p->tgid);
	p->exited = true;
	leave_image(pt, p);
}

/* `since_ns`: when this space began, or was found. */
static struct process *add_process(struct process_table *pt, uint32_t space, uint32_t tgid,
				   const char *comm, uint64_t since_ns)
{
	struct process *p = calloc(1, sizeof(*p)), *old = idmap__get(&pt->by_tgid, tgid);

	if (!p)
		return NULL;
	p->space = space;
	p->tgid = tgid;
	p->since_ns = since_ns;
	p->exe = p->container = "";
	snprintf(p->comm, sizeof(p->comm), "%.*s", TASK_COMM_LEN - 1, comm);
	if (idmap__set(&pt->by_space, space, p)) {
		free(p);
		return NULL;
	}
	if (space > pt->stats.last_space)
		pt->stats.last_space = space;
	if (old)
		retire(pt, old);
	if (idmap__set(&pt->by_tgid, tgid, p)) {
		idmap__remove(&pt->by_space, space);
		free(p);
		return NULL;
	}
	return p;
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

/* ---- reading /proc -------------------------------------------------------------------------- */

static void read_comm(int proc_fd, char *comm)
{
	int fd = openat(proc_fd, "comm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, comm, TASK_COMM_LEN);

	if (fd >= 0)
		close(fd);
	if (n > 0 && comm[n - 1] == '\n')
		n--;
	if (n > TASK_COMM_LEN - 1)
		n = TASK_COMM_LEN - 1;
	comm[n > 0 ? n : 0] = '\0';
}

/* What the report says of a process, read while it lives. */
static void describe(struct process *p, int proc_fd, struct strbuf *text)
{
	char buf[PATH_MAX], id[CONTAINER_ID_LEN + 1];
	ssize_t n = readlinkat(proc_fd, "exe", buf, sizeof(buf) - 1);

	if (n > 0) {
		buf[n] = '\0';
		free(p->exe_owned);
		p->exe_owned = strdup(buf);
		p->exe = p->exe_owned ? p->exe_owned : "";
	}
	if (!read_proc(proc_fd, "cgroup", text) && text->len &&
	    !cgroup__container(text->s, text->len, id)) {
		free(p->container_owned);
		p->container_owned = strdup(id);
		p->container = p->container_owned ? p->container_owned : "";
	}
	p->described = true;
}

/* As whom its source may be read after its end: see source.h. */
static void note_rights(struct process *p, int proc_fd, struct strbuf *text)
{
	struct stat root, ours;

	p->ids_known = !read_proc(proc_fd, "status", text) && text->len &&
		       source__parse_ids(text->s, &p->uid, &p->gid);
	p->own_root = !fstatat(proc_fd, "root", &root, 0) && !stat("/", &ours) &&
		      root.st_dev == ours.st_dev && root.st_ino == ours.st_ino;
}

/* ---- one look at a process ------------------------------------------------------------------ */

/* An interpreter that a process has mapped. */
struct candidate {
	struct mapped_file *file;
	uint64_t bias;
	bool running; /* it has an interpreter state; looked at if there is a choice */
};

struct candidates {
	struct candidate c[MAX_CANDIDATES];
	unsigned cnt;
};

/* Load address minus link address, by any byte of the text that the mapping covers. */
static bool find_bias(const struct mapped_file *file, const struct mapping *m, uint64_t *bias)
{
	uint64_t offset = m->offset, first, limit, addr;

	if (!elf_file__text(file->elf, &first, &limit))
		return false;
	/* The mapping begins at a page, the segment perhaps inside of it. */
	if (offset < first)
		offset = first;
	if (offset - m->offset >= m->end - m->start ||
	    !elf_file__off_to_addr(file->elf, offset, &addr))
		return false;
	*bias = m->start + (offset - m->offset) - addr;
	return true;
}

static bool is_running(uint32_t tgid, const struct candidate *c)
{
	uint64_t head = 0;

	return !c->file->python &&
	       !reader__read(tgid, &head, sizeof(head),
			     c->bias + c->file->py->interp.interp_head) &&
	       head;
}

static void add_candidate(struct candidates *list, const struct candidate *c)
{
	for (unsigned i = 0; i < list->cnt; i++) {
		if (list->c[i].file == c->file && list->c[i].bias == c->bias)
			return;
	}
	if (list->cnt < MAX_CANDIDATES)
		list->c[list->cnt++] = *c;
}

/*
 * Several interpreters in one process, such as an executable that holds one and a library that
 * something else in it is linked with: those that run come first, and IMAGE_INTERPS are kept.
 */
static void choose_interps(uint32_t tgid, struct candidates *list)
{
	struct candidates all = *list;

	if (all.cnt < 2)
		return;
	for (unsigned i = 0; i < all.cnt; i++)
		all.c[i].running = is_running(tgid, &all.c[i]);
	list->cnt = 0;
	for (int running = 1; running >= 0; running--) {
		for (unsigned i = 0; i < all.cnt && list->cnt < IMAGE_INTERPS; i++) {
			if (all.c[i].running == running)
				list->c[list->cnt++] = all.c[i];
		}
	}
}

/* Second stage of the analysis, from the process's memory. */
static void finish_analysis(struct process *p, const struct candidate *c)
{
	uint8_t bytes[PY_DEBUG_OFFSETS_MAX];

	if (c->file->python != -EAGAIN)
		return;
	if (!reader__read(p->tgid, bytes, sizeof(bytes), c->bias + c->file->py->runtime))
		c->file->python = py_binary__from_process(c->file->py, bytes, sizeof(bytes));
	if (c->file->python != -EAGAIN)
		return;
	if (!p->retry_since_ns)
		p->retry_since_ns = now_ns();
	p->retry = now_ns() - p->retry_since_ns < RETRY_FOR_NS;
}

/* One more interpreter into f->val. NULL, or why it is not walked. */
static const char *add_interp(struct process_table *pt, struct fresh *f, const struct candidate *c,
			      struct selfcheck *sc)
{
	const char *why;
	int err;

	finish_analysis(f->p, c);
	if (c->file->python == -ENOTSUP)
		return c->file->py->why_not;
	if (c->file->python)
		return "the interpreter did not initialise its debug offsets";
	err = file_table__add_interp(pt->files, c->file);
	if (err)
		return err == -ENOSPC ? "too many different interpreters"
				      : "the kernel refused the interpreter's entry";
	why = why_not_trusted(pt, f->p, sc, c->file, c->bias);
	if (!why)
		f->val.interps[f->val.interp_cnt++] =
			(struct image_interp){ .bias = c->bias,
					       .interp = (uint32_t)c->file->interp };
	return why;
}

/* Those that run, and the first in any case. */
static void name_interp(struct process *p, const struct candidates *list, unsigned i,
			const char *why)
{
	size_t len = strlen(p->python);

	if (!i || list->c[i].running)
		snprintf(p->python + len, sizeof(p->python) - len, "%s%s%s", i ? ", " : "",
			 list->c[i].file->py->version,
			 why && list->cnt > 1 ? " (native only)" : "");
}

static void set_interps(struct process_table *pt, struct fresh *f, const struct candidates *list)
{
	struct process *p = f->p;

	p->is_python = true;
	note_not_plain(pt, p);
	p->python_file = list->c[0].file->id;
	p->native_only = NULL;
	p->python[0] = '\0';
	for (unsigned i = 0; i < IMAGE_INTERPS; i++) {
		const char *why;

		if (i >= list->cnt) {
			p->checks[i] = (struct selfcheck){ 0 };
			continue;
		}
		why = add_interp(pt, f, &list->c[i], &p->checks[i]);
		name_interp(p, list, i, why);
		if (!p->native_only)
			p->native_only = why;
	}
	if (f->val.interp_cnt)
		p->native_only = NULL;
	f->val.flags = f->val.interp_cnt ? IMAGE_PYTHON : IMAGE_NOT_WALKED;
}

/* `likely`: only the files with a promising name, or only the others. */
static bool some_is_python(struct process_table *pt, int proc_fd, bool likely)
{
	for (size_t i = 0; i < pt->exec.cnt; i++) {
		const struct map_line *line = &pt->exec.lines[i];
		bool named = memmem(line->name, line->name_len, "python", 6) != NULL;

		if (named == likely && file_table__is_python(pt->files, proc_fd, line) == 1)
			return true;
	}
	return false;
}

/* The likely ones first: so that a Python's other files are opened once, to be kept. */
static bool maps_have_python(struct process_table *pt, int proc_fd)
{
	return some_is_python(pt, proc_fd, true) || some_is_python(pt, proc_fd, false);
}

/* All executable mappings into pt->scratch; their number. Finds interpreters on the way. */
static uint32_t take_mappings(struct process_table *pt, int proc_fd, struct candidates *found)
{
	struct candidate c = { 0 };
	bool coming;

	for (size_t i = 0; i < pt->exec.cnt; i++) {
		const struct map_line *line = &pt->exec.lines[i];
		struct mapping *m = &pt->scratch[i];

		c.file = file_table__get(pt->files, proc_fd, line);
		*m = (struct mapping){
			.start = line->start,
			.end = line->end,
			.offset = c.file ? line->offset : 0,
			.file = c.file ? c.file->id : 0,
			.table = c.file ? file_table__index(pt->files, c.file, &coming) : 0
		};
		if (c.file && c.file->py && find_bias(c.file, m, &c.bias))
			add_candidate(found, &c);
	}
	pt->stats.maps_truncated += pt->exec.truncated;
	return (uint32_t)pt->exec.cnt;
}

/* Names for what is in no ELF file: see sym_jit.h. After take_mappings(). */
static void look_for_generated(struct process_table *pt, const struct process *p, int proc_fd)
{
	const struct map_line *dump = NULL;
	bool generated = false;

	for (size_t i = 0; i < pt->exec.cnt; i++) {
		generated |= !pt->scratch[i].file && map_line__is_generated(&pt->exec.lines[i]);
		if (map_line__is_jitdump(&pt->exec.lines[i]))
			dump = &pt->exec.lines[i];
	}
	if (generated || dump)
		pt->sink.look_generated(pt->sink.ctx, p->space, proc_fd,
					dump ? file_table__open(pt->files, proc_fd, dump) : -1);
}

/* Fills in f from /proc. 0, or negative errno: f is not valid. */
static int look(struct process_table *pt, struct fresh *f, int proc_fd)
{
	struct candidates found = { 0 };
	int err = exec_maps__read(&pt->exec, proc_fd);

	pt->stats.refreshed++;
	if (err)
		return err;
	if (!pt->opts.all && !f->p->is_python && !maps_have_python(pt, proc_fd)) {
		f->valid = true;
		return 0;
	}
	f->val.map_cnt = take_mappings(pt, proc_fd, &found);
	f->valid = true;
	f->maps = malloc((f->val.map_cnt + 1) * sizeof(*f->maps));
	if (!f->maps) {
		put_files(pt, pt->scratch, f->val.map_cnt);
		f->valid = false;
		return -ENOMEM;
	}
	memcpy(f->maps, pt->scratch, f->val.map_cnt * sizeof(*f->maps));
	choose_interps(f->p->tgid, &found);
	if (found.cnt)
		set_interps(pt, f, &found);
	look_for_generated(pt, f->p, proc_fd);
	err = keep_share(pt, f);
	if (err)
		return err;
	f->p->introduce = !f->p->described || (f->p->is_python && !f->p->ids_known);
	return 0;
}

static void note_unreadable(struct process_table *pt, const struct process *p, int err)
{
	if (err != -EACCES && err != -EPERM)
		return; /* it is gone: its exit is on the way */
	pt->stats.unreadable++;
	/*
	 * Even root may not look at some (other user namespaces, security modules): news only for
	 * -p.
	 */
	if (!pt->warned_permission)
		log_msg(pt->opts.pid_cnt ? LOG_LEVEL_WARN : LOG_LEVEL_DEBUG,
			"process %u: cannot read its mappings: %s (needs CAP_SYS_PTRACE)", p->tgid,
			strerror(-err));
	pt->warned_permission = true;
}

static void look_at(struct process_table *pt, struct fresh *f)
{
	int proc_fd = open_proc_dir(f->p->tgid), err;
	uint64_t start = now_ns();

	f->p->retry = false;
	f->areas = areas_given(pt, f->p);
	if (proc_fd < 0) {
		note_unreadable(pt, f->p, proc_fd);
		return;
	}
	err = look(pt, f, proc_fd);
	close(proc_fd);
	if (err) {
		note_unreadable(pt, f->p, err);
		drop_fresh(pt, f);
		return;
	}
	f->p->looked_ns = start;
	f->p->analysed = true;
}

/* ---- refresh -------------------------------------------------------------------------------- */

/* The others that share an image that is about to change have to be looked at themselves. */
static void pull_in_sharers(struct process_table *pt, const struct fresh *f)
{
	struct image_ref *image = f->p->image;

	if (!f->valid || !image || image->key != f->p->space || same_image(pt, &image->val, f))
		return;
	image->changing = true;
	for (struct process *q = image->users; q; q = q->next_user) {
		if (q != f->p)
			mark_dirty(pt, q);
	}
}

/*
 * exec was announced by perf, whose record comes before the new mappings; the event of BPF, which
 * comes after them, will give the process a new space. Until then there is nothing to learn.
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
 * Tables of new files take some ms to build. Until then the process is walked without them: its
 * Python frames, and native ones by their addresses. Not while others share its image, who would
 * see the new one before they were looked at.
 */
static void publish_early(struct process_table *pt, struct fresh *f)
{
	struct image_ref *image = f->p->image;

	if (!pt->live || !f->valid || !wants_tables(pt, f) ||
	    (image && same_image(pt, &image->val, f)) ||
	    (image && image->key == f->p->space && (image->users != f->p || f->p->next_user)))
		return;
	if (publish(pt, f))
		return;
	for (uint32_t i = 0; i < f->val.map_cnt;
	     i++) { /* the image holds its files, and so do we */
		struct mapped_file *file = file_table__find(pt->files, f->maps[i].file);

		if (file)
			file_table__hold(file);
	}
	pt->stats.early++;
	log_published(f->p, "without all its tables");
}

static void build_tables(struct process_table *pt, const struct fresh *f)
{
	for (uint32_t i = 0; f->valid && i < f->val.map_cnt; i++) {
		struct mapped_file *file = file_table__find(pt->files, f->maps[i].file);

		if (file)
			file_table__build(pt->files, file);
	}
}

/* False: some are on their way still. */
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

/* Everything that is new about one process, but for the tables. */
static void look_for_news(struct process_table *pt, struct fresh *f)
{
	if (f->p->exited)
		return;
	if (in_exec(f->p)) {
		f->p->retry = true;
		return;
	}
	look_at(pt, f);
	pull_in_sharers(pt, f);
	publish_early(pt, f);
}

static void finish_news(struct process_table *pt, struct fresh *f)
{
	if (!set_tables(pt, f)) {
		f->p->retry = true;
		pt->stats.late++;
	}
	commit(pt, f);
	drop_fresh(pt, f);
}

/* What only the report wants to know of a process: its samples did not wait for it. */
static void introduce(struct process_table *pt, struct process *p)
{
	int proc_fd = p->introduce && !p->exited ? open_proc_dir(p->tgid) : -1;

	p->introduce = false;
	if (proc_fd < 0)
		return;
	if (p->is_python && !p->ids_known)
		note_rights(p, proc_fd, &pt->text);
	if (!p->described) {
		describe(p, proc_fd, &pt->text);
		if (pt->opts.known)
			pt->opts.known(pt->opts.known_ctx, p, NULL);
	}
	close(proc_fd);
}

/* What is to be asked again, and what found no memory, stays in the list. */
static void keep_waiting(struct process_table *pt, size_t looked_at)
{
	size_t waiting = 0;

	for (size_t i = 0; i < pt->dirty_cnt; i++) {
		struct process *p = pt->dirty[i];

		p->dirty = !p->exited && (i >= looked_at || p->retry);
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

int process_table__refresh(struct process_table *pt)
{
	uint64_t start = now_ns();
	size_t cnt;

	file_table__begin(pt->files);
	check_the_unchecked(pt);
	for (cnt = 0; cnt < pt->dirty_cnt; cnt++) { /* grows in the loop */
		if (ARRAY_GROW(pt->fresh, pt->fresh_cap, cnt, UINT32_MAX))
			break;
		pt->fresh[cnt] = (struct fresh){ .p = pt->dirty[cnt] };
		look_for_news(pt, &pt->fresh[cnt]);
	}
	for (size_t i = 0; i < cnt; i++)
		build_tables(pt, &pt->fresh[i]);
	file_table__publish(pt->files);
	/* Backwards: those who share an image come behind the one who changes it. */
	for (size_t i = cnt; i-- > 0;)
		finish_news(pt, &pt->fresh[i]);
	for (size_t i = 0; i < cnt; i++)
		introduce(pt, pt->fresh[i].p);
	keep_waiting(pt, cnt);
	age_early(pt);
	pt->check_ns = next_check_ns(pt);
	pt->stats.refresh_ns += now_ns() - start;
	return (int)pt->dirty_cnt;
}

size_t process_table__restless(const struct process_table *pt)
{
	return pt->restless;
}

uint64_t process_table__check_ns(const struct process_table *pt)
{
	return pt->check_ns;
}

/* ---- events --------------------------------------------------------------------------------- */

static void inherit(struct process *child, const struct process *parent)
{
	child->exe_owned = parent->exe_owned ? strdup(parent->exe_owned) : NULL;
	child->exe = child->exe_owned ? child->exe_owned : "";
	child->container_owned = parent->container_owned ? strdup(parent->container_owned) : NULL;
	child->container = child->container_owned ? child->container_owned : "";
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

/* A mapping of this process was reported before the process itself. */
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
	p = add_process(pt, ev->space, ev->tgid, ev->comm, ev->time_ns);
	if (!p)
		return -ENOMEM;
	pt->sink.fork(pt->sink.ctx, ev->space, ev->parent);
	if (parent) {
		inherit(p, parent);
		want_check(pt, p);
		if (p->described && pt->opts.known)
			pt->opts.known(pt->opts.known_ctx, p, parent);
	}
	/* Sharing is right if BPF finds the parent's image where we think, and it is up to date. */
	if (parent && parent->image && parent->image->key == ev->image && !parent->dirty)
		use_image(p, parent->image);
	else
		mark_dirty(pt, p);
	if (was_early(pt, ev->tgid))
		mark_dirty(pt, p);
	return 0;
}

static int on_exec(struct process_table *pt, const struct ev_proc *ev)
{
	struct process *old = idmap__get(&pt->by_tgid, ev->tgid), *p;
	bool plain;

	if (idmap__get(&pt->by_space, ev->space))
		return 0;
	/* Nothing but files without an interpreter was mapped since perf announced the exec. */
	plain = !pt->opts.all && old && old->exec_ns && old->unclean_ns < old->exec_ns &&
		old->exec_ns <= ev->time_ns;
	p = add_process(pt, ev->space, ev->tgid, ev->comm, ev->time_ns);
	if (!p)
		return -ENOMEM;
	p->exe_key = ev->exe;
	p->plain = ev->status & PROC_PLAIN;
	if (plain && !publish(pt, &(struct fresh){ .p = p })) {
		p->analysed = true;
		pt->stats.exec_plain++;
		return 0;
	}
	mark_dirty(pt, p);
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
			retire(pt, p);
		return 0;
	case EV_UNSHARE:
		p = idmap__get(&pt->by_space, ev->space);
		if (p)
			mark_dirty(pt, p);
		return 0;
	case EV_DRAIN:
	case EV_AREA:
		return 0; /* they only wake */
	default:
		return -EINVAL;
	}
}

static void on_new_mapping(struct process_table *pt, struct process *p, const struct mmap_event *ev)
{
	/* Asked first: it remembers the inode's generation. */
	bool plain = file_table__is_plain(pt->files, ev->major, ev->minor, ev->inode,
					  ev->generation, ev->time_ns);

	if (!plain && ev->time_ns > p->unclean_ns)
		p->unclean_ns = ev->time_ns;
	if (ev->time_ns <= p->looked_ns)
		return; /* it was in the maps that we read */
	if (!plain || pt->opts.all || p->is_python || !p->image)
		mark_dirty(pt, p);
}

void process_table__on_mmap(void *table, const struct mmap_event *ev)
{
	struct process_table *pt = table;
	struct process *p;

	if (ev->type == MMAP_EVENT_LOST) {
		mark_all_dirty(pt);
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
		return; /* of its life before we knew it */
	if (ev->type == MMAP_EVENT_EXEC) {
		p->exec_ns = ev->time_ns; /* the name is the new program's */
		p->exec_wait = 0;
	} else if (ev->tid == ev->tgid) {
		memcpy(p->comm, ev->comm, sizeof(p->comm));
	}
}

/* ---- start ---------------------------------------------------------------------------------- */

/* Kernel threads and zombies have no executable. What we may not look at counts as a process. */
static bool has_program(int proc_fd)
{
	char byte;

	return readlinkat(proc_fd, "exe", &byte, 1) >= 0 || errno != ENOENT;
}

static uint32_t read_ppid(int proc_fd, struct strbuf *text)
{
	const char *behind;
	unsigned int ppid;

	if (read_proc(proc_fd, "stat", text) || !text->len)
		return 0;
	behind = strrchr(text->s, ')'); /* the name may hold anything */
	return behind && sscanf(behind + 1, " %*c %u", &ppid) == 1 ? ppid : 0;
}

static bool is_target(struct process_table *pt, uint32_t tgid, int proc_fd)
{
	if (!pt->opts.pid_cnt)
		return true;
	for (size_t i = 0; i < pt->opts.pid_cnt; i++) {
		if (pt->opts.pids[i] > 0 && (uint32_t)pt->opts.pids[i] == tgid)
			return true;
	}
	/* Rounds are repeated while they find someone: their order does not matter. */
	return pt->opts.children && idmap__get(&pt->by_tgid, read_ppid(proc_fd, &pt->text));
}

/* A process that is not known yet. True: it was added. */
static bool discover(struct process_table *pt, uint32_t tgid)
{
	struct proc val = { .flags = pt->opts.pid_cnt ? PROC_TARGET : 0 };
	int proc_fd = open_proc_dir(tgid);
	char comm[TASK_COMM_LEN + 1];
	struct process *p = NULL;

	if (proc_fd < 0)
		return false;
	if (pt->next_space >= SPACE_FIRST_BPF || !is_target(pt, tgid, proc_fd) ||
	    !has_program(proc_fd))
		goto out;
	read_comm(proc_fd, comm);
	val.space = val.image = pt->next_space;
	/* A process that BPF knows already, by fork or exec, is announced to us by it. */
	if (bpf_map_update_elem(pt->maps.procs_fd, &tgid, &val, BPF_NOEXIST)) {
		pt->stats.procs_full += errno == E2BIG;
		goto out;
	}
	pt->next_space++;
	p = add_process(pt, val.space, tgid, comm, now_ns());
	if (!p)
		goto out;
	mark_dirty(pt, p);
	/*
	 * It may have died before it was in procs, unseen. Its entry is left: it does no harm and
	 * the next fork that gets the number overwrites it, while a deletion could hit just that.
	 */
	if (!has_program(proc_fd))
		retire(pt, p);
out:
	close(proc_fd);
	return p;
}

static bool entry_tgid(const struct dirent *de, uint32_t *tgid)
{
	long long n;

	if (de->d_name[0] < '0' || de->d_name[0] > '9' || parse_int(de->d_name, 1, INT32_MAX, &n))
		return false;
	*tgid = (uint32_t)n;
	return true;
}

/* One pass over /proc. The number of new processes or negative errno. */
static int discover_all(struct process_table *pt)
{
	DIR *dir = opendir("/proc");
	struct dirent *de;
	uint32_t tgid;
	int cnt = 0;

	if (!dir)
		return -errno;
	while ((de = readdir(dir))) {
		if (entry_tgid(de, &tgid) && !idmap__get(&pt->by_tgid, tgid))
			cnt += discover(pt, tgid);
	}
	closedir(dir);
	return cnt;
}

/*
 * A fork is followed once the parent is in procs. So after a pass that found no one new, everyone
 * is known: each child was born of a parent in procs, or was there to be found.
 */
static int discover_until_settled(struct process_table *pt)
{
	int cnt = 0;

	for (int i = 0; i < MAX_SCAN_ROUNDS; i++) {
		cnt = discover_all(pt);
		if (cnt <= 0)
			break;
	}
	return cnt < 0 ? cnt : 0;
}

static bool is_everywhere(const struct map_line *line)
{
	static const char *const names[] = { "/libc.so", "/libc-2", "/libm.so", "/libm-2", "/ld-" };

	if (!line->inode)
		return true; /* the vdso, or nothing */
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (memmem(line->name, line->name_len, names[i], strlen(names[i])))
			return true;
	}
	return false;
}

static void prepare_file(struct process_table *pt, int proc_fd, const struct map_line *line)
{
	struct mapped_file *file = file_table__get(pt->files, proc_fd, line);

	if (!file)
		return;
	file_table__build(pt->files, file);
	file_table__put(pt->files, file);
}

static bool is_of_use(struct process_table *pt, int proc_fd, const struct map_line *line)
{
	return pt->opts.all || file_table__is_python(pt->files, proc_fd, line) == 1;
}

/* Of our own executable mappings that of the file `inode`; 0: those that every process has. */
static void prepare_own(struct process_table *pt, uint64_t inode)
{
	int proc_fd = open_proc_dir((uint32_t)getpid());

	if (proc_fd < 0)
		return;
	if (exec_maps__read(&pt->exec, proc_fd))
		pt->exec.cnt = 0;
	for (size_t i = 0; i < pt->exec.cnt; i++) {
		const struct map_line *line = &pt->exec.lines[i];

		if (inode ? line->inode == inode && is_of_use(pt, proc_fd, line)
			  : is_everywhere(line))
			prepare_file(pt, proc_fd, line);
	}
	close(proc_fd);
}

/*
 * The C library takes a third of the time until a first Python has all its tables. We have it too,
 * as a rule the same, and nothing is in a hurry yet.
 */
static void prepare_common_files(struct process_table *pt)
{
	prepare_own(pt, 0);
}

/*
 * What is about to be run would lack its tables in its first milliseconds. We have it mapped for as
 * long as it takes to look at it as at any process's; nothing of it runs here.
 */
static void prepare_program(struct process_table *pt)
{
	/* Neither a terminal nor a pipe may hold us up. */
	int fd = open(pt->opts.program, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	void *at = MAP_FAILED;
	struct stat st;

	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size)
		at = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (at != MAP_FAILED) {
		prepare_own(pt, st.st_ino);
		munmap(at, (size_t)st.st_size);
	}
	if (fd >= 0)
		close(fd);
}

/* What a look at it would ask of its files. */
static void prepare_files_of(struct process_table *pt, int proc_fd)
{
	if (exec_maps__read(&pt->exec, proc_fd) ||
	    (!pt->opts.all && !maps_have_python(pt, proc_fd)))
		return;
	for (size_t i = 0; i < pt->exec.cnt; i++)
		prepare_file(pt, proc_fd, &pt->exec.lines[i]);
}

/* One process of each program. What only others have mapped is left to the scan. */
static void prepare_once(struct process_table *pt, uint32_t tgid, struct idmap *programs)
{
	int proc_fd = open_proc_dir(tgid);
	struct stat st;

	/* Two programs of one number on two file systems: one of them is left to the scan. */
	if (proc_fd >= 0 && !fstatat(proc_fd, "exe", &st, 0) && !idmap__get(programs, st.st_ino) &&
	    !idmap__set(programs, st.st_ino, pt))
		prepare_files_of(pt, proc_fd);
	if (proc_fd >= 0)
		close(proc_fd);
}

void process_table__prepare(struct process_table *pt)
{
	DIR *dir = pt->opts.pid_cnt ? NULL : opendir("/proc");
	struct idmap programs = { 0 };
	struct dirent *de;
	uint32_t tgid;

	if (pt->opts.program)
		prepare_program(pt);
	for (size_t i = 0; i < pt->opts.pid_cnt; i++)
		prepare_once(pt, (uint32_t)pt->opts.pids[i], &programs);
	while (dir && (de = readdir(dir))) {
		if (entry_tgid(de, &tgid))
			prepare_once(pt, tgid, &programs);
	}
	if (dir)
		closedir(dir);
	idmap__free(&programs);
}

int process_table__scan(struct process_table *pt)
{
	int err = discover_until_settled(pt);

	if (err)
		return err;
	prepare_common_files(pt);
	process_table__refresh(pt);
	err = file_table__go_live(pt->files);
	if (err)
		log_warn("new processes will be noticed late: %s", strerror(-err));
	pt->live = true;
	return 0;
}

/* Takes over the entries of procs that no event told us of. */
static int adopt_procs(struct process_table *pt)
{
	uint32_t tgid, *prev = NULL, at;
	char comm[TASK_COMM_LEN + 1];
	struct process *p;
	struct proc val;
	int proc_fd;

	/* A key that is deleted meanwhile makes the walk start over: not for ever. */
	for (int i = 0; i < MAX_ADOPT && !bpf_map_get_next_key(pt->maps.procs_fd, prev, &tgid);
	     i++) {
		at = tgid;
		prev = &at;
		if (bpf_map_lookup_elem(pt->maps.procs_fd, &tgid, &val) ||
		    idmap__get(&pt->by_space, val.space))
			continue;
		proc_fd = open_proc_dir(tgid);
		if (proc_fd < 0) { /* its exit could not be noted: see count_refusal() */
			bpf_map_delete_elem(pt->maps.procs_fd, &tgid);
			continue;
		}
		read_comm(proc_fd, comm);
		close(proc_fd);
		p = add_process(pt, val.space, tgid, comm, now_ns());
		if (!p)
			return -ENOMEM;
		mark_dirty(pt, p);
	}
	return 0;
}

/* Those that procs has no more, or has under another space, are gone. */
static void retire_vanished(struct process_table *pt)
{
	struct process *p;
	struct proc val;

	for (size_t at = 0; (p = idmap__next(&pt->by_space, &at));) {
		if (!p->exited && (bpf_map_lookup_elem(pt->maps.procs_fd, &p->tgid, &val) ||
				   val.space != p->space))
			retire(pt, p);
	}
}

int process_table__resync(struct process_table *pt)
{
	int err;

	retire_vanished(pt);
	mark_all_dirty(pt); /* BPF may have taken an image away from any of them */
	err = adopt_procs(pt);
	if (err)
		return err;
	/* Those that a full procs turned away are in neither. */
	err = pt->opts.pid_cnt ? 0 : discover_until_settled(pt);
	process_table__refresh(pt);
	return err;
}

/* ---- end ------------------------------------------------------------------------------------ */

void process_table__reclaim(struct process_table *pt)
{
	extent__reclaim(&pt->extents);
}

bool process_table__waits(const struct process_table *pt)
{
	struct file_stats fs;

	file_table__stats(pt->files, &fs);
	return pt->extents.buried_cnt || fs.tables_evicted || fs.tables_refused;
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

/* The version, and why it is not walked, are those of its interpreters. */
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
			mark_dirty(pt, p);
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
	out->mappings_used = pt->extents.used;
}

void process_table__file_stats(const struct process_table *pt, struct file_stats *out)
{
	file_table__stats(pt->files, out);
}
