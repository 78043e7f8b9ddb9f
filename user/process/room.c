/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Divides `mappings` among the images when there is not enough for all. */
#include "process/process_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/opener.h"

/*
 * While the table is full, an image of more mappings than SMALL_IMAGE gets at most an eighth of the
 * free slots that are not reserved for small images. An image of fewer than LEAST_IMAGE is never
 * cut for another.
 */
#define SMALL_IMAGE   256
#define LEAST_IMAGE   32
#define TAKE_EVERY_NS 100000000ULL

/* The priority of a mapping: 2 for those of interpreters, 1 for the first one of a file. */
static int worth(const struct process_table *pt, const struct mapping *maps, uint32_t i)
{
	const struct mapped_file *file = file_table__find(pt->files, maps[i].file);

	if (file && file->py)
		return 2;
	return file && (!i || maps[i - 1].file != maps[i].file);
}

/* Keeps the `cnt` most useful mappings. */
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
			image__put_files(pt, &gone, 1);
	}
	f->val.map_cnt = kept;
	f->val.flags |= IMAGE_CUT;
	free(keep);
	return 0;
}

/* The mappings that the images of a user take. Found by user + 1. */
struct holder {
	uint64_t mappings;
	struct image_ref *largest;
};

static uint32_t user_of(struct process_table *pt, struct process *p)
{
	int proc_fd = p->ids_known || p->exited ? -1 : opener__proc_dir(p->tgid);

	if (proc_fd >= 0) {
		look__rights(p, proc_fd, &pt->text);
		close(proc_fd);
	}
	return p->ids_known ? p->payer : 0;
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

/*
 * The largest image of the user who has most mappings; NULL if the user of `p`, who wants `cnt`
 * more, would then have more.
 */
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

/* The same, unless there was none a moment ago. */
static struct image_ref *seek_victim(struct process_table *pt, struct process *p, uint32_t cnt)
{
	uint32_t user = user_of(pt, p);
	struct image_ref *victim;

	if (pt->room.sought_for == user && now_ns() < pt->room.sought_ns + TAKE_EVERY_NS)
		return NULL;
	victim = find_victim(pt, p, cnt);
	pt->room.sought_for = user;
	pt->room.sought_ns = victim ? 0 : now_ns();
	return victim;
}

/* The next refresh cuts the image of these processes. */
static void take_room(struct process_table *pt, struct image_ref *image)
{
	for (struct process *q = image->users; q; q = q->next_user) {
		q->share = LEAST_IMAGE;
		process_table__mark_dirty(pt, q);
	}
	pt->stats.mappings_taken++;
	pt->room.took_ns = now_ns();
}

static void warn_cut(struct process_table *pt, struct process *p, uint32_t of)
{
	pt->stats.mappings_full++;
	if (!pt->room.warned)
		log_warn("no room for all %u mappings of process %u of user %u, and of others: "
			 "their native stacks end early, at [no-room-for-mappings]",
			 of, p->tgid, user_of(pt, p));
	pt->room.warned = true;
}

/* Will there be more room soon: from its own old image, or from another one? */
static bool room_comes(struct process_table *pt, struct fresh *f, uint32_t cnt)
{
	const struct image_ref *image = f->p->image;
	struct image_ref *victim;

	if (f->p->share == LEAST_IMAGE)
		return image && image->key == f->p->space && image->val.map_cnt > cnt;
	if (pt->room.took_ns && now_ns() < pt->room.took_ns + TAKE_EVERY_NS)
		return true; /* the range that was taken is not free yet */
	victim = seek_victim(pt, f->p, f->val.map_cnt);
	if (victim)
		take_room(pt, victim);
	return victim;
}

/*
 * Keeps as many mappings as there is room for. If more room comes soon, the process is read again.
 */
static int cut_to_room(struct process_table *pt, struct fresh *f)
{
	uint32_t all = f->val.map_cnt, cnt = all;
	bool comes;
	int err;

	while (cnt && extent__alloc(&pt->room.extents, cnt, &f->val.map_first))
		cnt /= 2;
	if (cnt == all)
		return 0;
	comes = room_comes(pt, f, cnt);
	err = cut_mappings(pt, f, cnt);
	if (err) {
		extent__release(&pt->room.extents, f->val.map_first, cnt);
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
	return pt->room.extents.slots - pt->room.extents.used;
}

/* Large images leave so many slots to others. */
static uint32_t reserve_slots(const struct process_table *pt)
{
	return pt->room.extents.slots / 8;
}

/* Who has most of a table that is nearly full gets no more of it, however small the images are. */
static bool has_its_share(struct process_table *pt, struct process *p)
{
	uint32_t spare = free_slots(pt), slot = process_table__slot(pt, p);

	return slot && spare < reserve_slots(pt) && pt->room.of[slot] > SHARE_OF_FREE * spare;
}

/*
 * The number of mappings that an image of `cnt` may have. Sets `waits` if it may have more later.
 */
static uint32_t share_of(struct process_table *pt, struct process *p, uint32_t cnt, bool *waits)
{
	uint32_t spare = free_slots(pt), kept = reserve_slots(pt), most;
	const struct image *own = p->image && p->image->key == p->space ? &p->image->val : NULL;

	if (p->share)
		return p->share < cnt ? p->share : cnt;
	if ((!own || own->map_cnt < cnt) && has_its_share(pt, p))
		return own ? own->map_cnt : 0;
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

int room__keep_share(struct process_table *pt, struct fresh *f)
{
	uint32_t all = f->val.map_cnt, cnt = share_of(pt, f->p, all, &f->p->retry);

	if (cnt == all)
		return 0;
	if (!f->p->retry && !f->p->share) {
		f->p->share = cnt ? cnt : 1;
		warn_cut(pt, f->p, all);
	}
	return cut_mappings(pt, f, cnt);
}

/* Takes room before the table is full, because it takes seconds until the range is free. */
static void keep_reserve(struct process_table *pt, const struct fresh *f)
{
	struct image_ref *victim;

	if (free_slots(pt) >= reserve_slots(pt) || now_ns() < pt->room.took_ns + TAKE_EVERY_NS)
		return;
	victim = seek_victim(pt, f->p, f->val.map_cnt);
	if (victim)
		take_room(pt, victim);
}

int room__write(struct process_table *pt, struct fresh *f)
{
	int err;

	/* Again: other images of this round may have taken slots since look__at(). */
	err = room__keep_share(pt, f);
	if (err || !f->val.map_cnt)
		return err;
	err = extent__alloc(&pt->room.extents, f->val.map_cnt, &f->val.map_first);
	if (err)
		err = cut_to_room(pt, f);
	if (err)
		return err;
	keep_reserve(pt, f);
	memcpy(pt->maps.mappings + f->val.map_first, f->maps, f->val.map_cnt * sizeof(*f->maps));
	/* The system call that publishes the range orders these writes before it. */
	return 0;
}
