/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef PYPERF_CODES_H
#define PYPERF_CODES_H
/*
 * Stage 3: code objects: identity, and their names at first sight.
 * Input:   the address of a code object of the stopped thread.
 * Output:  w->code.id; for a new one, its names and line table in the ring buffer `blobs`.
 * Cost:    two look-ups in arrays, and one in a hash for what is in neither; 3.12+ one read, 3.13+
 *          none while no code is made (see set_epoch()); below, three reads more (see
 *          mix_contents()).
 * Fails:   not a code object: -EINVAL; unreadable: -EFAULT. Names that cannot be read now are
 *          marked BLOB_MISSING, and user space reads them.
 *
 * Invariant: one id is one code object's contents. The fingerprint is part of the key, so an
 * address that is freed and reused is another key. Nothing is ever updated in place.
 */
#include "state.bpf.h"

#define E_FAULT (-14)
#define E_INVAL (-22)

enum { CODE_HIDDEN = 1 }; /* code_identify(): a frame that is not shown */

#ifdef __bpf__
BPF_INLINE __u64 code_lookup(__u64 addr, __u64 fingerprint);
BPF_INLINE int code_insert(struct walk *w);
BPF_INLINE __u64 code_new_id(void);
BPF_INLINE struct ev_blob *blob_scratch(void);
BPF_INLINE struct ev_code *code_scratch(void);
BPF_INLINE int blob_send(const void *data, __u32 size, int wake_now);
#else
__u64 code_lookup(__u64 addr, __u64 fingerprint);
int code_insert(struct walk *w);
__u64 code_new_id(void);
struct ev_blob *blob_scratch(void);
struct ev_code *code_scratch(void);
int blob_send(const void *data, __u32 size, int wake_now);
#endif

#define CODE_MULT 0x9e3779b97f4a7c15ULL /* 2^64 / golden ratio, odd */

BPF_INLINE __u64 mix64(__u64 h, __u64 x)
{
	h = (h ^ x) * CODE_MULT;
	return h ^ (h >> 32);
}

/* ---- identity ------------------------------------------------------------------------------ */

#define OBJECT_WORDS 12 /* of an object, from its length on */

/*
 * Hashes an object whose length is at the start of w->buf: the length, and data[start, start +
 * size). The bytes between and behind them are counts and caches, which change.
 */
BPF_INLINE __u64 hash_object(struct walk *w, __u32 start, __u64 size)
{
	__u32 first = start / 8, end = OBJECT_WORDS * 8;
	__u64 h = mix64(0, buf64(w, 0));

	if (size < end - start)
		end = start + (__u32)size;
	*buf_word(w, start) &= ~0ULL << (start % 8 * 8);
	if (end % 8)
		*buf_word(w, end) &= ~(~0ULL << (end % 8 * 8));
	for (__u32 i = 0; i < OBJECT_WORDS && (first + i) * 8 < end; i++)
		h = mix64(h, buf64(w, (first + i) * 8));
	return h;
}

/* Reads the state of a string in w->buf. False: the old API made it, its data are elsewhere. */
BPF_INLINE int string_shape(const struct walk *w, __u32 *kind, __u32 *ascii)
{
	const struct py_layout *lay = &w->interp.layout;
	__u32 state = buf32(w, (__u32)lay->str_state - lay->str_length);
	__u32 shift = lay->str == PY_STR_STATE_T14 ? 8 : 2;

	*kind = (state >> shift) & 7;
	*ascii = (state >> (shift + 4)) & 1;
	return (state >> (shift + 3)) & 1 && (*kind == 1 || *kind == 2 || *kind == 4);
}

/* 0: it cannot be read, or its characters are elsewhere. */
BPF_INLINE __u64 read_object(struct walk *w, __u64 addr, __u32 is_bytes)
{
	const struct py_layout *lay = &w->interp.layout;
	__u32 length = is_bytes ? lay->bytes_size : lay->str_length, start = lay->bytes_data;
	__u32 kind = 1, ascii;
	__u64 hash = 0;

	if (buf_read(w, addr + length, OBJECT_WORDS * 8))
		return 0;
	if (!is_bytes) {
		if (!string_shape(w, &kind, &ascii))
			return 0;
		start = ascii ? lay->str_ascii : lay->str_compact;
		hash = buf64(w, lay->str_hash - length);
	}
	return mix64(hash, hash_object(w, start - length, buf64(w, 0) * kind));
}

/*
 * Hashes the object at `addr`. Functions share the name of their file. Objects that were read in
 * this sample cannot have changed: a frame of the stopped thread holds them.
 */
BPF_NOINLINE __u64 object_hash(__u64 addr, __u32 is_bytes)
{
	struct walk *w = the_walk();
	struct known_object *o;

	if (!w)
		return 0;
	o = &w->objects[BOUND(addr * CODE_MULT >> 32, OBJECT_SLOTS)];
	if (o->addr != addr || o->sample != w->cache.sample) {
		o->hash = read_object(w, addr, is_bytes);
		o->addr = addr;
		o->sample = w->cache.sample;
	}
	return o->hash;
}

/*
 * From 3.12 on co_version numbers code objects. Below, allocation patterns repeat so well that code
 * made by exec() in a loop has the same address and the same pointers each time, so the contents
 * count: of the name and the file name the length, the cached hash and the first characters, of the
 * line table the size and the first bytes.
 */
BPF_NOINLINE int mix_contents(NO_ARG)
{
	struct walk *w = the_walk();
	__u32 is_bytes;

	if (!w)
		return 0;
	for (__u32 kind = 0; kind < BLOB_CNT; kind++) {
		is_bytes = kind == BLOB_LINETABLE || w->interp.layout.str == PY_STR_BYTES;
		w->code.fingerprint =
			mix64(w->code.fingerprint, object_hash(w->code.blob_addr[kind], is_bytes));
	}
	return 0;
}

/* From the code object in w->buf: what names it. */
BPF_INLINE void load_code(struct walk *w)
{
	const struct py_layout *lay = &w->interp.layout;
	__u16 name = lay->code_qualname != PY_OFF_NONE ? lay->code_qualname : lay->code_name;

	w->code.blob_addr[BLOB_NAME] = buf64(w, name);
	w->code.blob_addr[BLOB_FILENAME] = buf64(w, lay->code_filename);
	w->code.blob_addr[BLOB_LINETABLE] = buf64(w, lay->code_linetable);
	w->code.firstlineno = (__s32)buf32(w, lay->code_firstlineno);
}

/* Sets w->code.fingerprint from the code object in w->buf. */
BPF_INLINE void set_fingerprint(struct walk *w)
{
	__u32 version = 0;
	__u64 h;

	if (w->interp.layout.code_version != PY_OFF_NONE)
		version = buf32(w, w->interp.layout.code_version);
	h = mix64(w->thread.space, ((__u64)version << 32) | (__u32)w->code.firstlineno);
	h += w->code.blob_addr[BLOB_NAME] * 0xc2b2ae3d27d4eb4fULL; /* three primes */
	h += w->code.blob_addr[BLOB_FILENAME] * 0x165667b19e3779f9ULL;
	h += w->code.blob_addr[BLOB_LINETABLE] * 0x27d4eb2f165667c5ULL;
	w->code.fingerprint = h;
	if (!version)
		mix_contents(0);
}

/* ---- first sight --------------------------------------------------------------------------- */

/* Length and kind of a name, from the header of its string object. False: cannot be read. */
BPF_INLINE int string_info(struct walk *w, __u64 addr, struct blob_info *info, __u64 *data)
{
	const struct py_layout *lay = &w->interp.layout;
	__u32 kind, ascii;
	__u64 length;

	if (lay->str == PY_STR_BYTES) {
		if (buf_read(w, addr + lay->bytes_size, 8))
			return 0;
		length = buf64(w, 0);
		kind = 1;
		info->flags |= BLOB_PY2;
		*data = addr + lay->bytes_data;
	} else {
		if (buf_read(w, addr + lay->str_length, 24)) /* length, hash, state */
			return 0;
		length = buf64(w, 0);
		if (!string_shape(w, &kind, &ascii))
			return 0;
		if (ascii)
			info->flags |= BLOB_ASCII;
		*data = addr + (ascii ? lay->str_ascii : lay->str_compact);
	}
	if (length > 0x1fffffff)
		return 0;
	info->size = (__u32)length * kind;
	info->width = (__u8)kind;
	return 1;
}

BPF_INLINE int bytes_info(struct walk *w, __u64 addr, struct blob_info *info, __u64 *data)
{
	__u64 size;

	if (read_user(&size, 8, addr + w->interp.layout.bytes_size) || size > 0x7fffffff)
		return 0;
	info->size = (__u32)size;
	info->width = 1;
	*data = addr + w->interp.layout.bytes_data;
	return 1;
}

/* Sends the next piece of a name or line table. 0: go on. */
BPF_NOINLINE int send_piece(__u32 kind)
{
	struct walk *w = the_walk();
	struct ev_blob *b = blob_scratch();
	__u64 left;
	__u32 size;

	if (!w || !b)
		return -1;
	left = w->code.piece_left;
	if (!left)
		return 1;
	size = left > BLOB_DATA ? BLOB_DATA : (__u32)left;
	if (size &
	    (BLOB_DATA - 1)) { /* verifier: either all of the buffer or a masked part of it */
		size &= BLOB_DATA - 1;
		if (read_user(b->data, size, w->code.piece_addr))
			return E_FAULT;
	} else {
		size = BLOB_DATA;
		if (read_user(b->data, BLOB_DATA, w->code.piece_addr))
			return E_FAULT;
	}
	b->type = EV_BLOB;
	b->kind = kind;
	b->id = w->code.id;
	b->size = size;
	if (blob_send(b, offsetof(struct ev_blob, data) + size, 0))
		return E_FAULT;
	b->offset += size;
	w->code.piece_addr += size;
	w->code.piece_left -= size;
	return 0;
}

/* All pieces of one name or line table. 0, or negative: user space has to read it. */
BPF_NOINLINE int send_blob(__u32 kind)
{
	struct walk *w = the_walk();
	struct ev_code *ev = code_scratch();
	struct ev_blob *b = blob_scratch();
	struct blob_info *info;
	__u64 data = 0;
	int ok, err;

	if (!w || !ev || !b || kind >= BLOB_CNT)
		return -1;
	info = &ev->blob[kind];
	__builtin_memset(info, 0, sizeof(*info));
	info->uaddr = w->code.blob_addr[kind];
	info->flags = 0;
	ok = kind == BLOB_LINETABLE ? bytes_info(w, info->uaddr, info, &data)
				    : string_info(w, info->uaddr, info, &data);
	if (!ok) {
		info->flags = BLOB_MISSING;
		return E_FAULT;
	}
	w->code.piece_addr = data;
	w->code.piece_left = info->size;
	b->offset = 0;
	for (int i = 0; i < MAX_BLOB_PIECES; i++) {
		err = send_piece(kind);
		if (err)
			break;
	}
	if (w->code.piece_left) {
		info->flags |= BLOB_MISSING;
		return E_FAULT;
	}
	return 0;
}

/* Sends everything that names the code object at hand. 0, or negative: the ring buffer is full. */
BPF_NOINLINE int announce_code(NO_ARG)
{
	struct walk *w = the_walk();
	struct ev_code *ev = code_scratch();
	int missing = 0;

	if (!w || !ev)
		return -1;
	ev->type = EV_CODE;
	ev->tgid = w->thread.tgid;
	ev->id = w->code.id;
	ev->addr = w->code.addr;
	ev->space = w->thread.space;
	ev->firstlineno = w->code.firstlineno;
	ev->interp = w->image.interp;
	ev->fingerprint = w->code.fingerprint;
	ev->pad = 0;
	for (__u32 kind = 0; kind < BLOB_CNT; kind++)
		if (send_blob(kind))
			missing = 1;
	return blob_send(ev, sizeof(*ev), missing);
}

/*
 * The __init__ shim that an inlined class call pushes (3.13+, _Py_InitCleanup in
 * Objects/codeobject.c): its name and its file name are one object, which no compiled code has.
 */
BPF_INLINE int is_init_shim(const struct walk *w, __u64 name)
{
	return w->interp.layout.chain == PY_CHAIN_SHIM && name == w->code.blob_addr[BLOB_FILENAME];
}

/*
 * The fingerprint in the form of the cache. Raising the epoch makes all entries of earlier epochs
 * unknown.
 */
BPF_INLINE __u64 known_fingerprint(const struct walk *w)
{
	return w->code.fingerprint + w->cache.code_epoch;
}

/*
 * Sets w->code.id for the contents at hand of w->code.addr. False: the names could not be
 * announced.
 */
BPF_INLINE int code_find(struct walk *w, const struct known_code *known)
{
	if (known && known->addr == w->code.addr && known->fingerprint == known_fingerprint(w)) {
		w->code.id = known->id;
		return 1;
	}
	w->code.id = code_lookup(w->code.addr, w->code.fingerprint);
	if (w->code.id)
		return 1;
	w->code.id = code_new_id();
	return code_insert(w) >= 0;
}

/*
 * The code object at `code` is the one that was seen there before: its identity is unchanged, so
 * the rest need not be read.
 */
BPF_INLINE int is_unchanged(struct walk *w, __u64 code, const struct known_code *known)
{
	__u32 first = w->interp.layout.code_first & (BUF_BYTES / 2 - 1);
	__u32 size = (w->interp.layout.code_last - first) & (BUF_BYTES / 2 - 1);

	if (read_user(w->buf + first, size, code + first))
		return 0;
	load_code(w);
	set_fingerprint(w);
	return known_fingerprint(w) == known->fingerprint;
}

#define EPOCH_HASH  (1ULL << 63) /* of epochs that are no number of a sample */
#define EPOCH_FIRST 8		 /* the smallest count that can be relied on */

/*
 * The time for which what was seen at an address is still there, because a frame of the stopped
 * thread holds it: this sample. Or longer, where the interpreter counts the code objects that it
 * makes (func_state.next_version, 3.13: init_code(), Objects/codeobject.c) or frees
 * (_code_object_generation, 3.14+: code_dealloc()): an object that was there when the count was the
 * same is still that one. The first stays 0 when it has overflowed, and has a mutex below it in the
 * same word where there is no GIL. An interpreter counts what its own threads do, so it has to be
 * the only one, now and when the object was seen. And user space must not have forgotten the names
 * meanwhile (code_epoch).
 */
BPF_INLINE void set_epoch(struct walk *w)
{
	__u64 count;

	w->cache.epoch = w->cache.sample;
	if (!w->interp.layout.interp_codes || !w->tstate.only_interp ||
	    read_user(&count, 8,
		      w->tstate.only_interp + 8 * (__u64)w->interp.layout.interp_codes) ||
	    count < EPOCH_FIRST)
		return;
	/* One by one: sums of small numbers are soon the same. */
	w->cache.epoch =
		EPOCH_HASH | mix64(mix64(mix64(mix64(0, w->thread.space), w->tstate.only_interp),
					 w->cache.code_epoch),
				   count);
}

/* ---- what was seen before -------------------------------------------------------------------- */

#define ROW_FRAMES 40 /* of a deeper stack: the outer ones would only push the others out */

/*
 * The key of a code object in a row. 0: it is in no row, because its entry is valid for this sample
 * only, or is kept in the slots.
 */
BPF_INLINE __u64 row_tag(const struct walk *w, __u64 code)
{
	return w->cache.epoch & EPOCH_HASH && w->python.cnt < ROW_FRAMES
		       ? mix64(w->cache.epoch, code)
		       : 0;
}

BPF_INLINE struct row_code *row_line(const struct walk *w, __u64 tag)
{
	struct code_row *row = tag ? code_row(w->cache.row) : NULL;

	return row ? row->line[tag >> 32 & (ROW_LINES - 1)] : NULL;
}

/*
 * Sets w->code.id if the code object was seen in this epoch, in this thread or another one with
 * this row.
 */
BPF_INLINE int find_in_row(struct walk *w, const struct row_code *line, __u64 tag)
{
	__u64 id;

	for (__u32 i = 0; line && i < LINE_CODES; i++) {
		if (line[i].tag != tag)
			continue;
		id = line[i].id;
		if (id >> ROW_ID_SHIFT != (tag & (~0ULL >> ROW_ID_SHIFT)))
			continue; /* one half is of another entry */
		w->code.id = id & ((1ULL << ROW_ID_SHIFT) - 1);
		return 1;
	}
	return 0;
}

/*
 * Replaces a random entry if none is free. Frames are looked up in the same order each time: if the
 * oldest entry went, a stack with one frame too many for the row would never hit.
 */
BPF_INLINE void add_to_row(const struct walk *w, struct row_code *line, __u64 tag)
{
	__u32 at = (__u32)(tag >> 36 ^ w->cache.sample);

	if (!line)
		return;
	for (__u32 i = 0; i < LINE_CODES; i++)
		if (!line[i].tag)
			at = i;
	at = BOUND(at, LINE_CODES);
	line[at].tag = tag;
	line[at].id = tag << ROW_ID_SHIFT | w->code.id;
}

BPF_INLINE int find_in_slot(struct walk *w, __u64 code, struct known_code *known)
{
	if (!known || known->addr != code ||
	    (known->epoch != w->cache.epoch && !is_unchanged(w, code, known)))
		return 0;
	known->epoch = w->cache.epoch;
	w->code.id = known->id;
	return 1;
}

/* Fills a slot for w->code.id. `fingerprint`: 0 if unknown; the next epoch reads it again. */
BPF_INLINE void keep_slot(const struct walk *w, struct known_code *known, __u64 code,
			  __u64 fingerprint, __u64 epoch)
{
	if (!known)
		return;
	known->addr = code;
	known->fingerprint = fingerprint;
	known->id = w->code.id;
	known->epoch = epoch;
}

/*
 * While a process keeps the CPU, the slots and their cache lines are its own. After another process
 * ran, they are that one's, each on a line of its own. The entries of a row are neighbours.
 */
BPF_INLINE int was_seen(struct walk *w, __u64 code, struct known_code *known, struct row_code *line,
			__u64 tag)
{
	if (w->cache.by_row && find_in_row(w, line, tag))
		return 1;
	if (find_in_slot(w, code, known)) {
		if (w->cache.by_row)
			add_to_row(w, line, tag);
		return 1;
	}
	if (w->cache.by_row || !find_in_row(w, line, tag))
		return 0;
	keep_slot(w, known, code, 0, w->cache.epoch);
	return 1;
}

/* Processes that were forked from one have their code objects at the same addresses. */
BPF_INLINE __u32 code_slot_of(const struct walk *w, __u64 code)
{
	__u64 hash = (code + w->thread.space * 0xc2b2ae3d27d4eb4fULL) * CODE_MULT;

	return (__u32)(hash >> 32) % CODE_SLOTS;
}

/*
 * Identifies a code object that is in no cache. A function of its own: code_identify() is in the
 * step for each frame.
 */
BPF_NOINLINE int read_code(__u64 code)
{
	struct walk *w = the_walk();
	struct known_code *known;
	__u64 tag;

	if (!w || code & 7 || buf_read(w, code, w->interp.layout.code_read))
		return E_FAULT;
	if (buf64(w, w->interp.layout.ob_type) != w->interp.code_type)
		return E_INVAL;
	load_code(w);
	if (is_init_shim(w, buf64(w, w->interp.layout.code_name)))
		return CODE_HIDDEN;
	set_fingerprint(w);
	w->code.addr = code;
	known = code_slot(code_slot_of(w, code));
	if (!code_find(w, known)) { /* announced again by the next sample */
		keep_slot(w, known, code, 0, w->cache.sample);
		return 0;
	}
	keep_slot(w, known, code, known_fingerprint(w), w->cache.epoch);
	tag = row_tag(w, code);
	add_to_row(w, row_line(w, tag), tag);
	return 0;
}

/*
 * Sets w->code.id for the code object at `code`. 0, CODE_HIDDEN, or negative errno. What was seen
 * in this epoch is not read again.
 */
BPF_INLINE int code_identify(struct walk *w, __u64 code)
{
	__u64 tag = row_tag(w, code);
	__u32 slot = code_slot_of(w, code);

	if (!code)
		return E_INVAL;
	note_code_slot(w, slot);
	if (was_seen(w, code, code_slot(slot), row_line(w, tag), tag))
		return 0;
	return read_code(code);
}

#endif /* PYPERF_CODES_H */
