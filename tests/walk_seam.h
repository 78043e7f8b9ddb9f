/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_WALK_SEAM_H
#define PYPERF_WALK_SEAM_H
/*
 * What the walkers ask of the world (bpf/seam.bpf.h, and what they declare themselves), answered
 * from the_world: its memory, scratch, mappings, tables, and what it was told of code objects.
 */
#include "walk_memory.h"

int read_user(void *dst, __u32 sz, uaddr_t src)
{
	struct world *w = the_world;
	const void *at = world__mem(w, src, sz);

	for (__u32 i = 0; i < w->hole_cnt; i++)
		if (src < w->hole[i].end && w->hole[i].start < src + sz)
			at = NULL;
	if (++w->reads == w->fail_at) {
		w->faulted = 1;
		at = NULL;
	}
	if (!at) {
		memset(dst, 0, sz);
		return E_FAULT;
	}
	memcpy(dst, at, sz);
	return 0;
}

struct walk *the_walk(void)
{
	return the_world->walk;
}

struct stack *the_stack(void)
{
	return the_world->out;
}

__u64 *the_deep(void)
{
	return the_world->deep;
}

__u32 deep_parts(void)
{
	return WORLD_DEPTH;
}

__u32 max_frames(void)
{
	return WORLD_DEPTH;
}

/* Word `i` of the merged stack, innermost first. */
static __u64 out_word(const struct world *w, __u32 i)
{
	return w->deep[deep_frame(i)];
}

struct known_place *the_places(void)
{
	return the_world->places;
}

/* Few, so that code objects compete for them. */
struct known_code *code_slot(__u32 index)
{
	return &the_world->known_codes[index % WORLD_SLOTS];
}

struct code_row *code_row(__u32 index)
{
	return &the_world->code_rows[index % WORLD_SLOTS];
}

void note_tstate(const struct walk *w, __u64 tstate)
{
	(void)w, (void)tstate;
}

void note_frame(const struct walk *w, __u64 frame)
{
	(void)w, (void)frame;
}

void note_seen(__u32 file)
{
	(void)file;
}

const struct mapping *get_mapping(__u32 index)
{
	return index < 3 ? &the_world->map[index] : NULL;
}

void *uw_table(__u32 index)
{
	return index == 1 ? the_world : NULL;
}

const __u32 *uw_words(void *table, __u32 word, __u32 cnt)
{
	struct world *w = table;

	return word <= w->word_cnt && cnt <= w->word_cnt - word ? w->words + word : NULL;
}

struct interp *get_interp(__u32 index)
{
	return index ? NULL : &the_world->interp;
}

__u64 code_lookup(__u64 addr, __u64 fingerprint)
{
	struct world *w = the_world;

	for (__u32 i = 0; i < w->key_cnt; i++)
		if (w->keys[i].addr == addr && w->keys[i].fingerprint == fingerprint)
			return w->ids[i];
	return 0;
}

__u64 code_new_id(void)
{
	return the_world->next_id++;
}

int code_insert(struct walk *walk)
{
	struct world *w = the_world;

	if (announce_code(0))
		return -1;
	if (w->key_cnt < MAX_SEEN) {
		w->keys[w->key_cnt].addr = walk->code.addr;
		w->keys[w->key_cnt].fingerprint = walk->code.fingerprint;
		w->ids[w->key_cnt++] = walk->code.id;
	}
	return 0;
}

struct ev_blob *blob_scratch(void)
{
	return &the_world->blob;
}

struct ev_code *code_scratch(void)
{
	return &the_world->code_ev;
}

static struct seen_code *world__seen(struct world *w, __u64 id)
{
	for (__u32 i = 0; i < w->seen_cnt; i++)
		if (w->seen[i].ev.id == id)
			return &w->seen[i];
	if (w->seen_cnt == MAX_SEEN)
		abort();
	w->seen[w->seen_cnt].ev.id = id;
	return &w->seen[w->seen_cnt++];
}

int blob_send(const void *data, __u32 size, int wake_now)
{
	struct world *w = the_world;
	const struct ev_blob *b = data;
	struct seen_code *s;
	__u32 end;

	(void)wake_now;
	if (w->ring_full)
		return -11;
	s = world__seen(w, b->id);
	if (b->type == EV_CODE) {
		assert(size == sizeof(s->ev));
		memcpy(&s->ev, data, size);
		return 0;
	}
	assert(b->type == EV_BLOB && b->kind < BLOB_CNT);
	assert(b->size && b->size <= BLOB_DATA && size == offsetof(struct ev_blob, data) + b->size);
	assert(b->offset == s->size[b->kind]);
	end = b->offset + b->size;
	s->data[b->kind] = realloc(s->data[b->kind], end);
	if (!s->data[b->kind])
		abort();
	memcpy(s->data[b->kind] + b->offset, b->data, b->size);
	s->size[b->kind] = end;
	return 0;
}

#endif /* PYPERF_WALK_SEAM_H */
