/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The frames of running functions, which hold objects by their local variables. Until 3.10 frames
 * are objects, and so found like all others. From 3.11 on they lie in memory of the thread's. The
 * process runs meanwhile: a frame counts if its code is a code object, and what it seems to hold
 * may be gone.
 *
 * Bounded: INTERPS_MAX interpreters, THREADS_MAX threads of each, FRAMES_MAX frames of all.
 */
#include "heap/ref_parts.h"

#define INTERPS_MAX	64
#define THREADS_MAX	4096
#define FRAMES_MAX	(1U << 17)
#define OWNER_GENERATOR 1 /* enum _frameowner: the frame is a part of that object */

/* Frames that are no objects have the word for those that are. */
const struct heap_type ref_frame_type = { .name = (char *)"frame" };

void ref_look_at_frame(struct ref_finder *f, const struct heap_type *type, uint64_t holder,
		       uint64_t frame)
{
	uint64_t code, size;

	if (frame % 8 || ref_read(f, &code, 8, frame + f->src->layout->frame_code))
		return;
	code &= ~3ULL; /* tagged from 3.14 on */
	if (ref_read(f, &size, 8, code + f->src->code_locals) ||
	    ref_read(f, &size, 8, size + heap_field(&f->names, 16)) || size > STORAGE_CHUNK ||
	    ref_read(f, f->words, size * 8, frame + f->src->frame_locals))
		return;
	for (uint32_t i = 0; i < size; i++) {
		uint64_t target = ref_target(f, f->words[i]);

		if (target)
			f->hit(f, &(struct ref_group){ .type = type,
						       .kind = REF_LOCAL,
						       .key = code,
						       .index = i,
						       .cnt = 1,
						       .holder = holder,
						       .target = target });
	}
}

static bool is_code(struct ref_finder *f, uint64_t frame)
{
	uint64_t code;

	if (ref_read(f, &code, 8, frame + f->src->layout->frame_code))
		return false;
	return pyobject__is(&f->names.mem, code & ~3ULL, "code");
}

static bool is_of_generator(struct ref_finder *f, uint64_t frame)
{
	uint8_t owner;

	return f->src->layout->frame_owner != PY_OFF_NONE &&
	       (ref_read(f, &owner, 1, frame + f->src->layout->frame_owner) ||
		owner == OWNER_GENERATOR);
}

/* The frame that a thread executes; 0: none. */
static uint64_t leaf_of(struct ref_finder *f, uint64_t tstate)
{
	const struct py_layout *l = f->src->layout;
	uint64_t frame;

	if (ref_read(f, &frame, 8, tstate + l->tstate_frame))
		return 0;
	if ((l->chain == PY_CHAIN_CFRAME || l->chain == PY_CHAIN_CFRAME_SHIM) &&
	    ref_read(f, &frame, 8, frame + l->cframe_frame))
		return 0;
	return frame;
}

static void find_frames(struct ref_finder *f, uint64_t tstate)
{
	uint64_t frame = leaf_of(f, tstate);

	while (frame && frame % 8 == 0 && f->running.cnt < FRAMES_MAX) {
		if (idmap__get(&f->running, frame))
			return;
		/* A frame of the interpreter's own, and the end of the chain, have no code. */
		if (is_code(f, frame) && idmap__set(&f->running, frame, f))
			return;
		if (ref_read(f, &frame, 8, frame + f->src->layout->frame_back))
			return;
	}
}

void ref_frames__find(struct ref_finder *f)
{
	const struct py_layout *l = f->src->layout;
	uint64_t interp, tstate;

	idmap__free(&f->running);
	f->running = (struct idmap){ 0 };
	if (!f->src->interp_head || ref_read(f, &interp, 8, f->src->interp_head))
		return;
	for (unsigned i = 0; i < INTERPS_MAX && interp; i++) {
		if (ref_read(f, &tstate, 8, interp + l->interp_threads_head))
			return;
		for (unsigned k = 0; k < THREADS_MAX && tstate; k++) {
			find_frames(f, tstate);
			if (ref_read(f, &tstate, 8, tstate + l->tstate_next))
				break;
		}
		if (ref_read(f, &interp, 8, interp + l->interp_next))
			return;
	}
}

void ref_frames__report(struct ref_finder *f)
{
	if (ref_version(f) < 0x030b)
		return;
	for (size_t i = 0; i < f->running.cap; i++) {
		const struct idmap_slot *slot = &f->running.slots[i];

		if (slot->value && !is_of_generator(f, slot->key))
			ref_look_at_frame(f, &ref_frame_type, slot->key, slot->key);
	}
}
