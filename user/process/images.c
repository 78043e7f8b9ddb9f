/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Images: which process uses which, and how one is published while its process runs on. */
#include "process/process_parts.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/opener.h"

void image__put_files(struct process_table *pt, const struct mapping *maps, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++) {
		struct mapped_file *file = file_table__find(pt->files, maps[i].file);

		if (file)
			file_table__put(pt->files, file);
	}
}

/* The range of an unused image becomes free when the BPF programs that may read it have ended. */
static void bury_image(struct process_table *pt, const struct image *val, uint32_t slot)
{
	pt->room.of[slot] -= val->map_cnt;
	image__put_files(pt, pt->maps.mappings + val->map_first, val->map_cnt);
	extent__bury(&pt->room.extents, val->map_first, val->map_cnt);
}

void image__use(struct process *p, struct image_ref *image)
{
	p->image = image;
	p->prev_user = NULL;
	p->next_user = image->users;
	if (image->users)
		image->users->prev_user = p;
	image->users = p;
}

void image__leave(struct process_table *pt, struct process *p)
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
	bury_image(pt, &image->val, image->slot);
	free(image);
}

bool image__same(const struct process_table *pt, const struct image *old, const struct fresh *f)
{
	return old->flags == f->val.flags && old->interp_cnt == f->val.interp_cnt &&
	       !memcmp(old->interps, f->val.interps, sizeof(old->interps)) &&
	       old->map_cnt == f->val.map_cnt &&
	       (!old->map_cnt || !memcmp(pt->maps.mappings + old->map_first, f->maps,
					 old->map_cnt * sizeof(*f->maps)));
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

/* The entry of a process in `procs`. False: it has none, or the entry is of a later space. */
static bool read_proc_entry(const struct process_table *pt, const struct process *p,
			    struct proc *val)
{
	return !bpf_map_lookup_elem(pt->maps.procs_fd, &p->tgid, val) && val->space == p->space;
}

uint32_t image__areas_given(const struct process_table *pt, const struct process *p)
{
	struct proc val;

	return read_proc_entry(pt, p, &val) ? val.areas : 0;
}

/* BPF has ended the sharing of its parent's image. */
static bool lost_image(const struct process_table *pt, const struct process *p)
{
	struct proc val;

	return read_proc_entry(pt, p, &val) && !val.image;
}

static bool is_mapped(struct process_table *pt, const struct map_line *line,
		      const struct mapping *m)
{
	struct mapped_file *file;
	bool same;

	if (line->start != m->start || line->end != m->end)
		return false;
	file = file_table__get(pt->files, line);
	same = file ? file->id == m->file && line->offset == m->offset : !m->file;
	if (file)
		file_table__put(pt->files, file);
	return same;
}

/* Empties mappings that were unmapped since the look; all of them if /proc cannot be read. */
static void empty_unmapped(struct process_table *pt, struct fresh *f)
{
	struct mapping *written = pt->maps.mappings + f->val.map_first;
	int proc_fd = opener__proc_dir(f->p->tgid);
	size_t at = 0;

	if (proc_fd < 0 || look__enter(pt, f->p->tgid, proc_fd))
		pt->exec.cnt = 0;
	for (uint32_t i = 0; i < f->val.map_cnt; i++) {
		while (at < pt->exec.cnt && pt->exec.lines[at].start < f->maps[i].start)
			at++;
		if (at < pt->exec.cnt && is_mapped(pt, &pt->exec.lines[at], &f->maps[i]))
			continue;
		written[i].end = written[i].start;
		f->p->retry = true;
		pt->stats.overtaken++;
	}
	look__leave(pt, proc_fd);
}

/*
 * The mappings were read some time ago. Since then the kernel may have given their addresses to
 * another file. BPF empties such mappings (follow_area() in bpf/lifecycle.bpf.h), but only in
 * images that it knows. From here until `images` is updated it does so in the draft, too. Either
 * BPF sees the draft, or we see that it counted an address range before: both sides have a full
 * barrier between their write and their read.
 */
static void make_draft(struct process_table *pt, struct fresh *f)
{
	if (!f->val.map_cnt)
		return;
	__atomic_store_n(pt->maps.draft, DRAFT_WORD(f->p->space, f->val.map_first, f->val.map_cnt),
			 __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (image__areas_given(pt, f->p) != f->areas)
		empty_unmapped(pt, f);
}

/* Sets the image under the process's own key, a new one or instead of the old one. */
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
		pt->room.of[image->slot] += f->val.map_cnt;
		bury_image(pt, &old, image->slot);
		return 0;
	}
	image = calloc(1, sizeof(*image));
	err = image ? idmap__set(&pt->images, p->space, image) : -ENOMEM;
	if (!err) {
		*image = (struct image_ref){ .key = p->space,
					     .val = f->val,
					     .slot = process_table__slot(pt, p) };
		err = set_image(pt, p->space, &f->val);
		if (!err) {
			pt->room.of[image->slot] += f->val.map_cnt;
			image__leave(pt, p);
			image__use(p, image);
			return 0;
		}
		idmap__remove(&pt->images, p->space);
	}
	free(image);
	return err;
}

/* Is a file gone from an address where the process had it mapped? */
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

/* Until an image says that there is no Python, a process counts. */
static uint64_t python_since(const struct image *old, const struct image *new)
{
	const uint32_t counts = IMAGE_PYTHON | IMAGE_NOT_WALKED;

	if (old && !(old->flags & counts) && new->flags & counts)
		return now_ns();
	return old ? old->python_ns : 0;
}

uint64_t process__python_ns(const struct process *p)
{
	return p->image ? p->image->val.python_ns : 0;
}

int image__publish(struct process_table *pt, struct fresh *f)
{
	int err;

	f->val.python_ns = python_since(f->p->image ? &f->p->image->val : NULL, &f->val);
	note_closed(pt, f);
	err = room__write(pt, f);

	if (err)
		return err;
	make_draft(pt, f);
	err = set_own_image(pt, f);
	/* Not earlier: a program that does not see the draft must see the image. */
	__atomic_store_n(pt->maps.draft, 0, __ATOMIC_SEQ_CST);
	if (err)
		extent__release(&pt->room.extents, f->val.map_first, f->val.map_cnt);
	return err;
}

void image__log_published(const struct process *p, const char *how)
{
	log_debug("process %u: published %s, %llu us after its start", p->tgid, how,
		  (unsigned long long)(now_ns() - p->since_ns) / 1000);
}

void fresh__drop(struct process_table *pt, struct fresh *f)
{
	if (f->valid)
		image__put_files(pt, f->maps, f->val.map_cnt);
	free(f->maps);
	f->maps = NULL;
	f->valid = false;
}

void image__commit(struct process_table *pt, struct fresh *f)
{
	struct image_ref *image = f->p->image;
	bool own = image && image->key == f->p->space;

	if (!f->valid)
		return;
	/* A child shares its parent's image only while that does not change and BPF allows it. */
	if (image && image__same(pt, &image->val, f) &&
	    (own || (!image->changing && !lost_image(pt, f->p))))
		pt->stats.unchanged++;
	else if (!image__publish(pt, f)) {
		f->valid = false; /* the image holds the files now */
		image__log_published(f->p,
				     f->val.flags & IMAGE_PYTHON ? "as Python" : "as not Python");
	}
	if (own)
		image->changing = false;
}
