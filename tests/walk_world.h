/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_WALK_WORLD_H
#define PYPERF_WALK_WORLD_H
/*
 * A process made by hand, for the walkers of bpf/ compiled on the host.
 *
 * A test describes a thread as a list of activations, outermost first:
 *
 *	static const struct act prog[] = { { FN_START }, { FN_MAIN }, { FN_EVAL, .py = 2 }, { FN_C }
 *	};
 *	world__build(w, CHAIN_313, prog, 4);
 *	world__sample(w);
 *
 * world__build() lays out the native stack, the thread state, frames, code objects, and writes down
 * the stack that must come out. What it writes down follows from the description, never from the
 * memory.
 *
 *	heap   runtime, interpreters, thread states, frames, code objects, strings
 *	stack  native frames; in the eval loop's: its CFrame and its shim frame
 *	text addresses only: functions of FN_LEN bytes with one unwind rule each; instructions where
 *	       the walkers look at them, which is in functions without a rule
 *
 * The machine is PYPERF_ARCH; walk_arm64.h says which functions there are on aarch64.
 */
#include "walk_objects.h"
#include "walk_seam.h"

/* ---- text ------------------------------------------------------------------------------------ */

static __u64 fn_addr(enum fn fn)
{
	switch (fn) {
	case FN_LIB:
	case FN_LIB_FP:
	case FN_CLONE:
	case FN_VFORK:
	case FN_FIRST_INSN:
	case FN_ENTRY:
		return LIB_BASE + FN_FIRST + (__u64)(fn - FN_LIB) * FN_STRIDE;
	case FN_ANON:
	case FN_TRAMP:
	case FN_TRAMP_312:
		return ANON_BASE + FN_FIRST + (__u64)(fn - FN_ANON) * FN_STRIDE;
	case FN_UNMAPPED:
		return NO_MAP;
	default:
		return TEXT_BASE + FN_FIRST + (__u64)fn * FN_STRIDE;
	}
}

static void place_last(struct world *w, __u64 at, int exact);

/*
 * The machine. Each has
 *   fn_rules[]     one rule per function, so that row i * 2 is function i with rule i + 1
 *   make_insns()   the instructions that the walkers look at, at insn_at()
 *   enter_fn()     the registers and the stack when a function has been called and made its frame
 *   add_signal()   the same, when a signal handler is to be called
 *   EVAL_FP_OFF    where the eval loop saves the frame pointer, from the CFA
 */
#if PYPERF_ARCH == PYPERF_X86
#include "walk_x86.h"
#else
#include "walk_arm64.h"
#endif

static void make_table(struct world *w)
{
	__u32 pages = (FN_TABLE_CNT * FN_STRIDE + 255) >> UW_PAGE_BITS, row = 0, rows;
	struct unwind_header h = { .first_page = FN_FIRST >> UW_PAGE_BITS, .page_cnt = pages };

	rows = 2 * FN_TABLE_CNT;
	h.index_word = 8;
	h.row_word = (8 + pages + 1 + 3) & ~3U;
	h.row_cnt = rows;
	h.rule_word = (h.row_word + rows + 3) & ~3U;
	h.rule_cnt = FN_TABLE_CNT + 1;
	w->word_cnt = h.rule_word + h.rule_cnt * 4;
	w->word_cnt += -w->word_cnt % UW_CHUNK_WORDS; /* as in the map: whole chunks */
	w->words = calloc(w->word_cnt, 4);
	if (!w->words)
		abort();
	memcpy(w->words, &h, sizeof(h));
	for (__u32 f = 0; f < FN_TABLE_CNT; f++) {
		__u32 off = FN_FIRST + f * FN_STRIDE;

		w->words[h.row_word + 2 * f] = off << 16 | (f + 1);
		w->words[h.row_word + 2 * f + 1] = (off + FN_LEN) << 16;
		memcpy(&w->words[h.rule_word + 4 * (f + 1)], &fn_rules[f], 16);
	}
	for (__u32 p = 0; p <= pages; p++) {
		while (row < rows && w->words[h.row_word + row] >> 16 < (h.first_page + p)
										<< UW_PAGE_BITS)
			row++;
		w->words[h.index_word + p] = row;
	}
	w->map[0] = (struct mapping){ TEXT_BASE, TEXT_BASE + MAP_LEN, 0, TEXT_FILE, 1 };
	w->map[1] = (struct mapping){ LIB_BASE, LIB_BASE + MAP_LEN, 0x2000, LIB_FILE, 0 };
	w->map[2] = (struct mapping){ ANON_BASE, ANON_BASE + MAP_LEN, 0, 0, 0 };
}

/* ---- the stack ------------------------------------------------------------------------------- */

static struct item *add_item(struct world *w, __u64 word)
{
	if (w->item_cnt == MAX_ITEMS)
		abort();
	w->item[w->item_cnt] = (struct item){ .word = word };
	return &w->item[w->item_cnt++];
}

static __u64 native_word(enum fn fn, __u64 addr)
{
	if (fn >= FN_LIB && fn < FN_ANON)
		return NATIVE_WORD(LIB_FILE, addr - LIB_BASE + 0x2000);
	if (fn >= FN_ANON)
		return FRAME_WORD(FRAME_ANON, addr);
	return NATIVE_WORD(TEXT_FILE, addr - TEXT_BASE);
}

/* The last native frame is at `at` of its function, and a caller's word is one byte below. */
static void place_last(struct world *w, __u64 at, int exact)
{
	__u64 addr = fn_addr(w->last_fn) + at;

	if (w->last_native >= 0)
		w->item[w->last_native].word = native_word(w->last_fn, exact ? addr : addr - 1);
}

/* The root chunk's first word stays free (push_chunk(), Python/pystate.c). */
static void new_chunk(struct world *w)
{
	__u64 before = w->chunk, chunk = heap_alloc(w, DATA_STACK);

	if (before)
		put64(w, before + CHUNK_TOP, (w->data_top - before - CHUNK_DATA) / 8);
	put64(w, chunk, before);
	w->chunk = chunk;
	w->data_top = chunk + CHUNK_DATA + (before ? 0 : 8);
}

static void set_data_stack(struct world *w, __u64 chunk, __u64 top)
{
	put64(w, w->tstate + w->interp.layout.tstate_chunk, chunk);
	put64(w, w->tstate + w->interp.layout.tstate_chunk + 8, top);
}

/*
 * Room for a frame: in the data stack behind the last one, in a generator that runs, or anywhere.
 */
static __u64 alloc_frame(struct world *w, __u32 flags, __u64 code)
{
	const struct py_layout *lay = &w->interp.layout;
	__u64 addr = w->data_top;

	if (!addr)
		return heap_alloc(w, 96);
	if (flags & ACT_GENERATORS) {
		addr = heap_alloc(w, 16 + FRAME_ROOM) + 16;
		put8(w, addr - GENERATOR_STATE, FRAME_EXECUTING);
		put8(w, addr + lay->frame_owner, OWNER_GENERATOR);
		return addr;
	}
	w->data_top += lay->frame_locals + 8ULL * (get32(w, code + lay->code_stacksize) +
						   get32(w, code + lay->code_nlocalsplus));
	return addr;
}

static __u64 make_frame(struct world *w, __u32 flags, int code, __u32 off)
{
	const struct py_layout *lay = &w->interp.layout;
	__u64 addr = alloc_frame(w, flags, w->codes[code]);
	__u64 bytecode = w->codes[code] + LAY_BYTECODE;

	put64(w, addr + lay->frame_back, w->top_frame);
	put64(w, addr + lay->frame_code, w->codes[code] | (w->chain == CHAIN_314T ? 1 : 0));
	if (flags & ACT_TLBC && lay->frame_tlbc_index != PY_OFF_NONE) {
		put32(w, addr + lay->frame_tlbc_index, 1);
		bytecode += 2048;
	}
	if (lay->lasti == PY_LASTI_POINTER)
		put64(w, addr + lay->frame_lasti,
		      off == OFFSET_NOT_STARTED ? bytecode - 2 : bytecode + off);
	else if (off == OFFSET_NOT_STARTED)
		put32(w, addr + lay->frame_lasti, ~0U);
	else
		put32(w, addr + lay->frame_lasti, lay->lasti == PY_LASTI_UNITS ? off / 2 : off);
	if (lay->frame_executing != PY_OFF_NONE)
		put8(w, addr + lay->frame_executing, 1);
	w->top_frame = addr;
	w->frame[w->frame_cnt++] = addr;
	return addr;
}

static void add_shim(struct world *w, __u64 addr)
{
	const struct py_layout *lay = &w->interp.layout;

	put64(w, addr + lay->frame_code, 0x5150); /* None, or the trampoline */
	put64(w, addr + lay->frame_back, w->top_frame);
	put8(w, addr + lay->frame_owner, 3);
	w->top_frame = addr;
	w->shim[w->shim_cnt++] = addr;
}

static void add_python_frames(struct world *w, const struct act *a, __u32 cnt, int last)
{
	__u32 first = w->next_code;

	for (__u32 i = 0; i < cnt; i++) {
		int code = (int)((a->flags & ACT_RECURSE ? first : w->next_code++) % CODE_CNT);
		__u32 off = 2 + w->frame_cnt * 6 % 1000;
		struct item *it;

		if (a->flags & ACT_HIDDEN && i == cnt - 1)
			make_frame(w, 0, CODE_INIT, 4);
		if (a->flags & ACT_CHUNK && i == cnt - 1 && w->chunk)
			new_chunk(w);
		if (last && a->flags & ACT_NOT_STARTED && i == cnt - 1)
			off = OFFSET_NOT_STARTED;
		make_frame(w,
			   i == cnt - 1 && a->flags & ACT_GENERATOR ? a->flags | ACT_GENERATORS
								    : a->flags,
			   code, off);
		if (!i && w->chain == CHAIN_311)
			put8(w, w->top_frame + w->interp.layout.frame_owner - IS_ENTRY, 1);
		it = add_item(w, 0);
		it->code = code;
		it->off = off;
		w->own_cnt = w->item_cnt;
		w->compiled = 0;
	}
	if (a->flags & ACT_RECURSE)
		w->next_code++;
	if (last && a->flags & ACT_PHANTOM) {
		__u64 f = make_frame(w, a->flags, 3, 8);
		struct item *it = add_item(w, 0);

		it->code = 3;
		it->off = 8;
		if (w->interp.layout.frame_executing != PY_OFF_NONE) {
			put8(w, f + w->interp.layout.frame_executing, 0);
			put64(w, f + w->interp.layout.frame_back, 0);
		} else if (w->chain == CHAIN_27) {
			put32(w, f + w->interp.layout.frame_lasti, ~0U);
			put32(w, w->codes[3] + w->interp.layout.code_stacksize, 0);
			it->off = OFFSET_NOT_STARTED;
		}
	}
}

/* The eval loop's frame has been made: what it links into the thread state. */
static void add_activation(struct world *w, const struct act *a, __u32 cnt, int last)
{
	const struct py_layout *lay = &w->interp.layout;
	__u64 cfa = w->sp + EVAL_SIZE, cframe = cfa - CFR_BELOW;
	int eval_item = w->last_native;

	if (a->flags & ACT_NO_FRAME)
		return;
	if (lay->root_cframe != PY_OFF_NONE && !(a->flags & ACT_NO_CFRAME)) {
		put64(w, cframe + lay->cframe_previous, w->top_cframe);
		w->below_cframe = w->top_cframe;
		w->top_cframe = cframe;
	}
	if (a->flags & ACT_GARBAGE) { /* an old frame that looks like one */
		put64(w, cframe + lay->cframe_frame, w->frame_cnt ? w->frame[0] : STACK_BASE);
		put64(w, cframe + lay->cframe_previous, JUNK & ~7ULL);
		w->data_top += FRAME_ROOM; /* its new one is there */
		return;
	}
	if (lay->chain >= PY_CHAIN_CFRAME_SHIM)
		add_shim(w, cfa - SHIM_BELOW);
	if (!(a->flags & ACT_EMPTY)) {
		add_python_frames(w, a, cnt, last);
		w->item[eval_item].replaced = !(a->flags & ACT_NO_CFRAME);
	}
	if (w->chain == CHAIN_311 || w->chain == CHAIN_312)
		put64(w, cframe + lay->cframe_frame, w->top_frame);
}

/* The walk must end here: what lies outside of the native frame is expected behind the marker. */
static void add_stop(struct world *w, const struct act *a)
{
	__u64 detail = a->fn < FN_TABLE_CNT ? TEXT_FILE : a->fn < FN_ANON ? LIB_FILE : 0;
	__u32 kept = 0;

	for (__u32 i = 0; i < w->item_cnt; i++)
		if (!w->item[i].word)
			w->item[kept++] = w->item[i];
	w->item_cnt = kept;
	add_item(w, MARKER_WORD(a->why, detail));
}

static void add_native(struct world *w, const struct act *a, enum fn fn)
{
	if (fn == FN_SIGRET || fn == FN_SIGRET_ALT)
		add_signal(w, fn);
	else
		enter_fn(w, fn);
	if (a->flags & ACT_STOP)
		add_stop(w, a);
	w->last_fn = fn;
	w->started = 1;
	w->last_native = (int)w->item_cnt;
	add_item(w, 1);
	if (a->flags & ACT_JUMPED)
		w->last_native = -1, w->item_cnt--;
}

static void insert_item(struct world *w, const struct item *it)
{
	add_item(w, 0);
	memmove(w->item + w->own_cnt + 1, w->item + w->own_cnt,
		(w->item_cnt - 1 - w->own_cnt) * sizeof(*it));
	w->item[w->own_cnt++] = *it;
	w->last_native++;
}

/* Up to 3.10: an ordinary frame, whose code has no instructions. */
static void make_compiled(struct world *w, int code, __u32 line)
{
	const struct py_layout *lay = &w->interp.layout;

	put32(w, w->codes[code] + lay->code_stacksize, 0);
	put32(w, make_frame(w, 0, code, OFFSET_NOT_STARTED) + lay->frame_lasti + 4, line);
}

/* From 3.11 on it lies in its frame object. */
static void link_compiled(struct world *w, int code, __u32 line)
{
	const struct py_layout *lay = &w->interp.layout;
	__u64 object = heap_alloc(w, COMPILED_AT + 96), addr = object + COMPILED_AT;

	put32(w, object + LAY_F_LINENO, line);
	put64(w, addr + lay->frame_lasti - (w->chain == CHAIN_311 ? 16 : 8), object);
	put64(w, addr + lay->frame_lasti, w->codes[code] + LAY_BYTECODE);
	put64(w, addr + lay->frame_back, w->top_frame);
	put64(w, addr + lay->frame_code, w->codes[code] | (w->chain == CHAIN_314T ? 1 : 0));
	put8(w, addr + lay->frame_owner, OWNER_GENERATOR);
	if (lay->root_cframe != PY_OFF_NONE)
		put64(w, w->top_cframe + lay->cframe_frame, addr);
	w->top_frame = addr;
	w->frame[w->frame_cnt++] = addr;
}

/*
 * A frame that Nuitka links for a function that it has compiled. It comes out behind the Python
 * frames of the activation outwards.
 */
static void add_compiled(struct world *w)
{
	int code = (int)(w->next_code++ % CODE_CNT);
	__u32 line = 100 + w->frame_cnt;
	struct item it = { .code = code, .off = OFFSET_LINE + line };

	if (w->interp.layout.chain < PY_CHAIN_CFRAME)
		make_compiled(w, code, line);
	else
		link_compiled(w, code, line);
	if (!w->compiled) {
		insert_item(w, &(struct item){ .word = MARKER_WORD(MARK_PY_COMPILED, 0) });
		w->own_cnt--; /* inwards of all of them */
	}
	w->compiled = 1;
	insert_item(w, &it);
}

static void add_act(struct world *w, const struct act *a)
{
	__u32 chain = w->interp.layout.chain;
	static const struct act call = { .fn = FN_C };

	if (a->fn != FN_EVAL && a->fn != FN_EVAL_COLD) {
		add_native(w, a, a->fn);
		for (__u32 i = 0; i < a->py; i++)
			add_compiled(w);
		return;
	}
	if (chain != PY_CHAIN_FRAME && chain != PY_CHAIN_FRAME_C) {
		add_native(w, a, a->fn);
		add_activation(w, a, a->py, 1);
		return;
	}
	for (__u32 i = 0; i < a->py || !i; i++) { /* every Python call goes through C */
		if (i)
			add_native(w, &call, FN_C);
		add_native(w, a, a->fn);
		add_activation(w, a, a->py ? 1 : 0, i + 1 >= a->py);
	}
}

static void reverse_items(struct world *w)
{
	for (__u32 i = 0, j = w->item_cnt; i + 1 < j; i++) {
		struct item t = w->item[i];

		w->item[i] = w->item[--j];
		w->item[j] = t;
	}
}

/* ---- building -------------------------------------------------------------------------------- */

static void make_process(struct world *w, enum chain_case chain)
{
	w->chain = chain;
	w->interp = (struct interp){ .layout = world__layout(chain) };
	w->runtime = heap_alloc(w, 64);
	w->code_type = heap_alloc(w, 64);
	w->interp_state = heap_alloc(w, 64);
	put64(w, w->runtime, w->interp_state);
	w->interp.interp_head = w->runtime;
	w->interp.code_type = w->code_type;
	w->interp.eval[0].start = fn_addr(FN_EVAL);
	w->interp.eval[0].end = fn_addr(FN_EVAL) + FN_LEN;
	w->interp.eval[1].start = fn_addr(FN_EVAL_COLD);
	w->interp.eval[1].end = fn_addr(FN_EVAL_COLD) + FN_LEN;
	make_codes(w);
	if (chain == CHAIN_311 || chain == CHAIN_312)
		new_chunk(w);
	w->tstate = make_tstate(w, make_tstate(w, 0, WORLD_TP + 8192), WORLD_TP);
	put64(w, w->interp_state + w->interp.layout.interp_threads_head, w->tstate);
	w->top_cframe = w->tstate + LAY_ROOT_CFRAME;
	if (chain == CHAIN_315)
		add_shim(w, get64(w, w->tstate + LAY_BASE_FRAME));
}

static void world__clear(struct world *w)
{
	for (__u32 i = 0; i < w->seen_cnt; i++)
		for (int k = 0; k < BLOB_CNT; k++)
			free(w->seen[i].data[k]);
	memset(w->seen, 0, w->seen_cnt * sizeof(w->seen[0]));
	memset(w->known_codes, 0, sizeof(w->known_codes));
	memset(w->code_rows, 0, sizeof(w->code_rows));
	w->seen_cnt = w->key_cnt = 0;
	w->next_id = 0x1000;
}

static void world__free(struct world *w)
{
	if (!w)
		return;
	world__clear(w);
	free(w->heap);
	free(w->stack);
	free(w->alt);
	free(w->words);
	free(w->walk);
	free(w->out);
	free(w);
}

static struct world *world__new(void)
{
	struct world *w = calloc(1, sizeof(*w));

	if (!w)
		abort();
	w->heap = calloc(1, HEAP_SIZE);
	w->stack = calloc(1, STACK_SIZE);
	w->alt = calloc(1, ALT_SIZE);
	w->walk = malloc(sizeof(*w->walk));
	w->out = malloc(sizeof(*w->out));
	if (!w->heap || !w->stack || !w->alt || !w->walk || !w->out)
		abort();
	w->next_id = 0x1000;
	w->last_native = -1;
	make_table(w);
	make_insns(w);
	the_world = w;
	return w;
}

static struct world *world__build(enum chain_case chain, const struct act *acts, __u32 cnt)
{
	struct world *w = world__new();
	__u64 at = LEAF_AT;

	make_process(w, chain);
	w->sp = STACK_BASE + STACK_SIZE - 256;
	w->fp = 0;
	for (__u32 i = 0; i < cnt; i++)
		add_act(w, &acts[i]);
	if (cnt && acts[cnt - 1].flags & (ACT_GARBAGE | ACT_SETUP))
		at = SETUP_AT;
	if (cnt && acts[cnt - 1].flags & ACT_EMPTY && chain == CHAIN_310)
		at = SETUP_AT; /* only there the frame is not linked when the CFrame is */
	if (cnt && acts[cnt - 1].flags & ACT_NO_FRAME) {
		at = SETUP_AT;
		w->interp.cframe_delta = CFR_BELOW;
	}
	for (__u32 i = 0; i < cnt; i++)
		if (acts[i].flags & (ACT_NO_FRAME | ACT_EMPTY | ACT_NO_CFRAME | ACT_PHANTOM))
			w->uneven = chain == CHAIN_27 || chain == CHAIN_39 || chain == CHAIN_310;
	if (w->last_fn == FN_PLT_PUSHED)
		at = LEAF_AT + 11;
	if (w->last_fn == FN_SYSCALL)
		at = FN_LEN;
	place_last(w, at, 1);
	w->pc = fn_addr(w->last_fn) + at;
	set_leaf(w, w->tstate, w->top_frame, w->top_cframe);
	if (w->data_top)
		set_data_stack(w, w->chunk, w->data_top);
	reverse_items(w);
	return w;
}

/* ---- sampling -------------------------------------------------------------------------------- */

/* A sample's beginning: what select_sample() and load_regs() do. */
static void world__load(struct world *w)
{
	struct walk *k = w->walk;

	memset(k, 0xa5, sizeof(*k)); /* of the sample before */
	k->image.is_cut = 0;
	memset(w->out, 0xa5, sizeof(*w->out));
	memset(w->deep, 0xa5, sizeof(w->deep));
	w->reads = 0;
	w->faulted = 0;
	w->out->cnt = 0;
	k->cache.sample = w->samples++;
	reset_walk(k);
	k->thread.tgid = k->thread.tid = 4711;
	k->thread.space = 5;
	k->cache.row = w->row;
	k->cache.by_row = w->by_row;
	k->cache.code_epoch = w->code_epoch;
	k->image.map_first = 0;
	k->image.map_cnt = 3;
	k->place.map.start = k->place.map.end = 0;
	k->image.interp = 0;
	k->image.has_python = 1;
	k->image.bias = 0;
	k->interp = w->interp;
	k->thread.tp = WORLD_TP;
	k->thread.stack_start = w->start_sp;
	k->native.pc = w->pc;
	k->native.sp = w->sp;
	k->native.fp = w->fp;
	memcpy(k->native.regs, w->regs, sizeof(k->native.regs));
	k->native.regs[ARCH_REG_SP] = w->sp;
	k->native.regs[ARCH_REG_FP] = w->fp;
	k->native.exact_pc = 1;
}

/* One sample, as walk_user() takes it. */
static void world__sample(struct world *w)
{
	world__load(w);
	scan_thread_states(0);
	walk_python(w->walk);
	walk_native(0);
	merge(0);
}

#endif /* PYPERF_WALK_WORLD_H */
