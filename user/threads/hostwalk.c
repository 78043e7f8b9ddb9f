/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "threads/hostwalk.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HOST_NOTES_TSTATES
#include "base/host_seam.h"
#include "base/idmap.h"
#include "base/readmem.h"
#include "elf/ehframe.h"
#include "symbolize/symbolize.h"

static struct stack *the_stack(void); /* of the seam, but for the merge only */
static void note_tstate(const struct walk *w, __u64 tstate);

/* There is no verifier here, and the states that a search passes are noted. */
#undef MAX_THREAD_SCAN
#define MAX_THREAD_SCAN 65536

#include "bpf/image.bpf.h"
#include "bpf/walk_python.bpf.h"
#include "bpf/walk_native.bpf.h"
#include "bpf/merge.bpf.h"

#define READ_PAGE  4096U
#define READ_PAGES 4U
/* read the neighbourhood as well, because a question takes 20 us */
#define READ_SIZE  (READ_PAGES * READ_PAGE)
#define STATES_MAX (1U << 17)
#define KEPT	   64U

struct table {
	struct unwind_table *rows; /* NULL: there is none, which is known then */
};

/* Memory of the process, as another process of ours has read it. */
struct block_question {
	uint32_t tgid;
	uint64_t addr;
};

struct block {
	uint64_t addr;
	uint32_t pages; /* bit n: page n is there */
	uint8_t bytes[READ_SIZE];
};

struct kept {
	uint64_t walk; /* of which it is */
	struct block block;
};

struct hostwalk {
	const struct process_table *pt;
	struct process_maps maps;
	struct ring_sink sink;
	uint32_t tgid, space;
	struct image image;
	struct mapping *mappings; /* of the process; `table` is the file's id */
	uint32_t mapping_cnt;
	struct interp interps[IMAGE_INTERPS]; /* with what was learned */
	uint32_t interp_index[IMAGE_INTERPS];
	struct idmap tables;		    /* file id -> struct table */
	struct idmap states, state_interps; /* of a thread's pointer; both an address */
	struct idmap codes; /* hash of address and fingerprint -> id, as a pointer */
	uint64_t next_code;
	uint64_t walks;
	struct kept kept[KEPT];
	struct walk walk;
	struct stack stack;
	__u64 deep[DEEP_WORDS(STACK_DEPTH_DEFAULT)];
	struct ev_code code;
	struct ev_blob blob;
};

/* The walkers have no argument for it: set for the time of one walk. */
static _Thread_local struct hostwalk *at_hand;

/* ---- the seam -------------------------------------------------------------------------------- */

/* Pages that are not there are left out. */
static int read_block(const void *question, void *answer)
{
	const struct block_question *q = question;
	struct block *b = answer;

	b->addr = q->addr;
	b->pages = 0;
	if (!read_process(q->tgid, b->bytes, READ_SIZE, q->addr)) {
		b->pages = (1U << READ_PAGES) - 1;
		return 0;
	}
	for (uint32_t i = 0; i < READ_PAGES; i++)
		if (!read_process(q->tgid, b->bytes + i * READ_PAGE, READ_PAGE,
				  q->addr + i * READ_PAGE))
			b->pages |= 1U << i;
	return 0;
}

READER_OPERATION(read_block);

/* As it was at its first read of this walk. */
static const struct block *get_block(struct hostwalk *h, uint64_t addr)
{
	const struct block_question q = { .tgid = h->tgid,
					  .addr = addr & ~(uint64_t)(READ_SIZE - 1) };
	struct kept *k = &h->kept[mix64(0, q.addr) % KEPT];

	if (k->walk == h->walks && k->block.addr == q.addr)
		return &k->block;
	k->walk = h->walks;
	if (reader__call(process_table__readers(h->pt), h->tgid, &op_read_block, &q, sizeof(q),
			 &k->block, sizeof(k->block)) < 0)
		k->block.pages = 0;
	k->block.addr = q.addr;
	return &k->block;
}

int hostwalk__read(struct hostwalk *h, void *dst, size_t size, uint64_t src)
{
	while (size) {
		uint32_t at = (uint32_t)(src & (READ_SIZE - 1));
		size_t part = READ_PAGE - at % READ_PAGE;
		const struct block *b = get_block(h, src);

		part = part < size ? part : size;
		if (!(b->pages >> at / READ_PAGE & 1))
			return -EFAULT;
		memcpy(dst, b->bytes + at, part);
		dst = (uint8_t *)dst + part;
		src += part;
		size -= part;
	}
	return 0;
}

/*
 * Remembers the states that a walk of the list passes; otherwise each of thousands of threads would
 * look for its own.
 */
static void note_tstate(const struct walk *w, __u64 tstate)
{
	uint64_t key = mix64(w->image.bias, buf64(w, w->interp.layout.tstate_thread_id));

	if (at_hand->states.cnt < STATES_MAX &&
	    !idmap__set(&at_hand->states, key, (void *)(uintptr_t)tstate))
		idmap__set(&at_hand->state_interps, key, (void *)(uintptr_t)w->scan.interp);
}

static int read_user(void *dst, __u32 sz, __u64 src)
{
	if (!hostwalk__read(at_hand, dst, sz, src))
		return 0;
	memset(dst, 0, sz);
	return E_FAULT;
}

static struct walk *the_walk(void)
{
	return &at_hand->walk;
}

static struct stack *the_stack(void)
{
	return &at_hand->stack;
}

static __u64 *the_deep(void)
{
	return at_hand->deep;
}

static const struct mapping *get_mapping(__u32 index)
{
	return index < at_hand->mapping_cnt ? &at_hand->mappings[index] : NULL;
}

static void note_frame(const struct walk *w, __u64 frame)
{
	(void)w, (void)frame;
}

/*
 * Builds the table again, once per file with a frame: the kernel's copy can only be read with
 * CAP_SYS_ADMIN (bpf_map_get_fd_by_id()).
 */
static void *uw_table(__u32 index)
{
	struct table *t = idmap__get(&at_hand->tables, index);
	const struct elf_file *elf = process_table__file(at_hand->pt, index);

	if (!t && elf) {
		t = calloc(1, sizeof(*t));
		if (!t || idmap__set(&at_hand->tables, index, t)) {
			free(t);
			return NULL;
		}
		t->rows = unwind_table__build(elf);
		elf_file__forget(elf);
	}
	return t ? t->rows : NULL;
}

static const __u32 *uw_words(void *table, __u32 word, __u32 cnt)
{
	const struct unwind_table *t = table;

	return word <= t->word_cnt && cnt <= t->word_cnt - word ? t->words + word : NULL;
}

static struct interp *get_interp(__u32 index)
{
	for (uint32_t i = 0; i < at_hand->image.interp_cnt; i++)
		if (at_hand->interp_index[i] == index)
			return &at_hand->interps[i];
	return NULL;
}

static __u64 code_lookup(__u64 addr, __u64 fingerprint)
{
	return (uintptr_t)idmap__get(&at_hand->codes, mix64(fingerprint, addr));
}

/* Without memory it is announced again at its next sight. */
static int code_insert(struct walk *w)
{
	int err = announce_code(0);

	if (!err)
		idmap__set(&at_hand->codes, mix64(w->code.fingerprint, w->code.addr),
			   (void *)(uintptr_t)w->code.id);
	return err;
}

static __u64 code_new_id(void)
{
	return CODE_IDS_HOST + at_hand->next_code++;
}

static struct ev_blob *blob_scratch(void)
{
	return &at_hand->blob;
}

static struct ev_code *code_scratch(void)
{
	return &at_hand->code;
}

static int blob_send(const void *data, __u32 size, int wake_now)
{
	const __u32 *type = data;

	(void)wake_now;
	if (*type == EV_CODE)
		at_hand->sink.code(at_hand->sink.ctx, data, size);
	else
		at_hand->sink.blob(at_hand->sink.ctx, data, size);
	return 0;
}

/* ---- the process ----------------------------------------------------------------------------- */

static int find_image(const struct hostwalk *h, struct image *image)
{
	struct proc proc;

	if (bpf_map_lookup_elem(h->maps.procs_fd, &h->tgid, &proc) || proc.space != h->space)
		return -ENODATA;
	if (bpf_map_lookup_elem(h->maps.images_fd, &proc.space, image) &&
	    bpf_map_lookup_elem(h->maps.images_fd, &proc.image, image))
		return -ENODATA;
	return image->interp_cnt <= IMAGE_INTERPS && image->map_first < h->maps.mapping_cap &&
			       image->map_cnt <= h->maps.mapping_cap - image->map_first
		       ? 0
		       : -ENODATA;
}

static int take_mappings(struct hostwalk *h)
{
	size_t size = h->image.map_cnt * sizeof(*h->mappings);
	struct mapping *mappings = malloc(size + 1);

	if (!mappings)
		return -ENOMEM;
	memcpy(mappings, h->maps.mappings + h->image.map_first, size);
	for (uint32_t i = 0; i < h->image.map_cnt; i++)
		mappings[i].table = mappings[i].file;
	free(h->mappings);
	h->mappings = mappings;
	h->mapping_cnt = h->image.map_cnt;
	h->image.map_first = 0;
	return 0;
}

int hostwalk__begin(struct hostwalk *h, const struct process *p)
{
	uint64_t word;
	int err;

	idmap__free(&h->states);
	idmap__free(&h->state_interps);
	h->states = h->state_interps = (struct idmap){ 0 };
	h->tgid = p->tgid;
	h->space = p->space;
	err = find_image(h, &h->image);
	if (!err)
		err = take_mappings(h);
	for (uint32_t i = 0; i < h->image.interp_cnt && !err; i++) {
		h->interp_index[i] = h->image.interps[i].interp;
		err = bpf_map_lookup_elem(h->maps.interps_fd, &h->interp_index[i], &h->interps[i]);
	}
	if (!err && h->mapping_cnt)
		err = reader__read(process_table__readers(h->pt), h->tgid, &word, sizeof(word),
				   h->mappings[0].start);
	if (err == -EFAULT || err == -EIO) /* allowed, but not there */
		err = 0;
	if (err)
		h->image.interp_cnt = h->mapping_cnt = 0;
	return err;
}

/* ---- walking --------------------------------------------------------------------------------- */

static void load_thread(struct walk *w, const struct thread_now *t)
{
	memcpy(w->native.regs, t->regs, sizeof(w->native.regs));
	w->native.pc = t->pc;
	w->native.sp = t->regs[ARCH_REG_SP];
	w->native.fp = t->regs[ARCH_REG_FP];
	w->thread.tp = t->tp;
	w->native.exact_pc = !!(t->flags & THREAD_REGS);
}

/* Whether it still is the thread's the scan finds out. */
static void recall_state(struct walk *w)
{
	uint64_t key = mix64(w->image.bias, w->thread.tp);

	w->cache.sample = at_hand->walks; /* other states of the list are noted by each walk */
	w->scan.known_interp = (uintptr_t)idmap__get(&at_hand->state_interps, key);
	w->scan.known = w->scan.known_interp ? (uintptr_t)idmap__get(&at_hand->states, key) : 0;
}

/*
 * All Python frames in interpreter n of the process; 0: it has none there. As in bpf/sample.bpf.h.
 */
static bool walk_interp(struct walk *w, uint32_t n, bool frames)
{
	if (n >= w->image.interp_cnt || load_interp(w, n))
		return true;
	reset_python(w);
	recall_state(w);
	if (scan_thread_states(0) || !w->tstate.addr) {
		reset_python(w);
		scan_thread_states(0);
	}
	if (frames)
		walk_python(w);
	return w->python.cnt || w->flags & WALK_PY_LOST || (!frames && w->tstate.addr);
}

/*
 * The innermost state of a thread that has one in each of several interpreters; 0: not known
 * without a walk.
 */
static uint64_t innermost_state(const struct walk *w, bool walked)
{
	if (w->tstate.run_cnt > 1 && !walked)
		return 0;
	for (uint32_t i = 0; i < w->tstate.run_cnt && i < MAX_TSTATES; i++)
		if (w->tstate.run_cnt == 1 || w->tstate.run[i].interp_id == w->tstate.interp_id)
			return w->tstate.run[i].tstate;
	return w->tstate.addr;
}

static void describe(const struct hostwalk *h, bool walked, struct hoststack *out)
{
	const struct walk *w = &h->walk;

	*out = (struct hoststack){ .frames = h->deep + deep_frame(0), .cnt = h->stack.cnt };
	if (w->image.has_python)
		out->tstate = innermost_state(w, walked);
	if (!out->tstate)
		return;
	out->bias = w->image.bias;
	out->python = process_table__interp(h->pt, w->image.interp);
}

static void begin_walk(struct hostwalk *h, const struct thread_now *t)
{
	struct walk *w = &h->walk;

	h->walks++;
	reset_walk(w);
	load_image(w, &h->image);
	load_thread(w, t);
	w->thread.tgid = h->tgid;
	w->thread.tid = t->tid;
	w->thread.space = h->space;
	h->stack.cnt = h->stack.cut = 0;
}

static void push_kernel(const struct thread_now *t)
{
	for (uint32_t i = 0; i < t->kernel_cnt && i < THREAD_KERN_FRAMES; i++)
		push_frame(FRAME_WORD(FRAME_KERNEL, t->kernel[i]));
}

void hostwalk__walk(struct hostwalk *h, const struct thread_now *t, struct hoststack *out)
{
	at_hand = h;
	begin_walk(h, t);
	push_kernel(t);
	for (uint32_t n = 0; n < IMAGE_INTERPS; n++)
		if (walk_interp(&h->walk, n, true))
			break;
	walk_native(0);
	merge(0);
	describe(h, true, out);
	at_hand = NULL;
}

void hostwalk__find(struct hostwalk *h, const struct thread_now *t, struct hoststack *out)
{
	at_hand = h;
	begin_walk(h, t);
	for (uint32_t n = 0; n < IMAGE_INTERPS; n++)
		if (walk_interp(&h->walk, n, false))
			break;
	describe(h, false, out);
	at_hand = NULL;
}

/* ---- the object ------------------------------------------------------------------------------ */

struct hostwalk *hostwalk__new(const struct process_table *pt, const struct process_maps *maps,
			       const struct ring_sink *sink)
{
	struct hostwalk *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->pt = pt;
	h->maps = *maps;
	h->sink = *sink;
	return h;
}

uint64_t hostwalk__dealt_codes(const struct hostwalk *h)
{
	return h->next_code;
}

void hostwalk__skip_codes(struct hostwalk *h, uint64_t cnt)
{
	h->next_code = cnt;
}

void hostwalk__free(struct hostwalk *h)
{
	struct table *t;

	if (!h)
		return;
	for (size_t at = 0; (t = idmap__next(&h->tables, &at));) {
		unwind_table__free(t->rows);
		free(t);
	}
	idmap__free(&h->tables);
	idmap__free(&h->codes);
	idmap__free(&h->states);
	idmap__free(&h->state_interps);
	free(h->mappings);
	free(h);
}
