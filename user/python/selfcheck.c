/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "python/selfcheck.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/host_seam.h"
#include "base/reader.h"
#include "base/readmem.h"

#include "bpf/walk_python.bpf.h"

#define MAX_INTERPS  16
#define MAX_THREADS  64	 /* of one interpreter */
#define MAX_TRIES    24	 /* stacks that did not hold, for different reasons */
#define SURE_TRIES   6	 /* ... for one reason, one after the other */
#define MAX_READS    512 /* limit of system calls for one stack: deeper frames are believed */
#define PAGES	     64	 /* a power of two */
#define MAX_KEPT     128 /* frames whose place in the code is checked */
#define MAX_CODES    64	 /* limit of code objects whose names are checked */
#define NAME_BYTES   1024
#define TABLE_BYTES  4096 /* a longer line table is believed */
#define NAME_LIMIT   (64U << 10)
#define TABLE_LIMIT  (2U << 20)
#define CODE_LIMIT   (2U << 20)
#define FIRST_WAIT   2	   /* ms, doubled each time: Python starts in some ten */
#define LONGEST_WAIT 10000 /* ms */
#define START_WAIT   80	   /* ms: between its interpreter and its first thread is less */

struct kept_frame {
	uint64_t code, lasti;
	uint32_t tlbc;
};

struct kept_code {
	uint64_t addr, size; /* of the bytecode in bytes, 0: not known */
};

struct check {
	struct py_binary *bin;
	uint32_t tgid;
	uint64_t bias;
	struct walk w;
	__u64 deep[DEEP_WORDS(STACK_DEPTH_DEFAULT)];
	uint32_t reads;
	bool fault; /* the last read failed */
	uint32_t threads, tries, same;
	char last_why[SELFCHECK_WHY_LEN];
	char *why;
	/* of the current stack */
	struct kept_frame frames[MAX_KEPT];
	uint32_t frame_cnt; /* kept ones */
	bool ends_well, circle, bad_owner;
	uint32_t owner_frame;
	struct kept_code codes[MAX_CODES];
	uint32_t code_cnt, bad_codes, bad_code_frame;
	uint32_t tables;      /* of the checked code objects */
	const char *bad_code; /* the fault of the first bad one */
	/* Pages of the process as they were at the first read of this stack, by page number. */
	uint64_t tag[PAGES];
	uint8_t page[PAGES][PAGE_BYTES];
};

/* The walkers have no argument for it: set for the time of one selfcheck__walk(). */
static _Thread_local struct check *at_hand;

static int fail(struct check *ck, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(ck->why, SELFCHECK_WHY_LEN, format, args);
	va_end(args);
	return -EBADMSG;
}

/* ---- the seam -------------------------------------------------------------------------------- */

/* 3.11: thread, generator, frame object; 3.12: the C stack, too; 3.14: the interpreter, too. */
static bool legal_owner(const struct py_layout *lay, uint8_t owner)
{
	if (lay->version < 0x030c)
		return owner <= 2;
	return owner <= (lay->version < 0x030e ? 3 : 4);
}

/* Is it of compiled code? See is_compiled() and is_empty(). */
static bool has_compiled_code(const struct walk *w, uint64_t frame)
{
	return is_compiled(w, frame) ||
	       (!has_pseudo(w) &&
		is_empty(w, frame64(w, w->interp.layout.frame_code) & ~TAG_BITS) > 0);
}

/*
 * May the chain end in the current frame? 3.12+: in an activation's shim, or in 3.15's base_frame,
 * which is a shim, too. 3.11: in an activation's outermost frame, whose is_entry stands before
 * owner (Include/internal/pycore_frame.h@3.11.7). Before, every frame is an activation. Compiled
 * frames have none.
 */
static bool ends_well(const struct check *ck, uint64_t frame)
{
	const struct walk *w = &ck->w;

	if (is_compiled(w, frame))
		return true;
	if (w->interp.layout.chain == PY_CHAIN_CFRAME)
		return frame8(w, w->interp.layout.frame_owner - 1U) == 1;
	return w->interp.layout.chain < PY_CHAIN_CFRAME || is_shim(w);
}

static void note_frame(const struct walk *w, __u64 frame)
{
	struct check *ck = at_hand;
	const struct py_layout *lay = &w->interp.layout;
	struct kept_frame *k = &ck->frames[ck->frame_cnt];

	ck->ends_well = ends_well(ck, frame);
	ck->circle = frame64(w, lay->frame_back) == frame;
	if (!ck->bad_owner &&
	    ((lay->frame_owner != PY_OFF_NONE && !legal_owner(lay, frame8(w, lay->frame_owner))) ||
	     (lay->frame_executing != PY_OFF_NONE && frame8(w, lay->frame_executing) > 1))) {
		ck->bad_owner = true;
		ck->owner_frame = w->python.cnt;
	}
	if (is_shim(w) || ck->frame_cnt == MAX_KEPT)
		return;
	k->code = has_compiled_code(w, frame) ? 0 : frame64(w, lay->frame_code) & ~TAG_BITS;
	k->lasti = lay->lasti == PY_LASTI_POINTER
			   ? frame64(w, lay->frame_lasti)
			   : (uint64_t)(int64_t)(int32_t)frame32(w, lay->frame_lasti);
	k->tlbc = lay->frame_tlbc_index == PY_OFF_NONE ? 0 : frame32(w, lay->frame_tlbc_index);
	ck->frame_cnt++;
}

static bool read_counted(struct check *ck, void *dst, size_t size, uint64_t src)
{
	return ck->reads++ < MAX_READS && !read_process(ck->tgid, dst, size, src);
}

/*
 * By pages: fewer system calls, and the frames of a running thread, which lie side by side, are of
 * one moment nearly.
 */
static bool read_cached(struct check *ck, void *dst, uint32_t size, uint64_t src)
{
	uint64_t base = src & ~(PAGE_BYTES - 1);
	uint32_t slot = (src / PAGE_BYTES) & (PAGES - 1);

	if (size > PAGE_BYTES || src - base > PAGE_BYTES - size)
		return read_counted(ck, dst, size, src);
	if (ck->tag[slot] != base + 1) {
		ck->tag[slot] = 0;
		if (!read_counted(ck, ck->page[slot], PAGE_BYTES, base))
			return false;
		ck->tag[slot] = base + 1;
	}
	memcpy(dst, ck->page[slot] + (src - base), size);
	return true;
}

static int read_user(void *dst, __u32 sz, __u64 src)
{
	struct check *ck = at_hand;

	ck->fault = !read_cached(ck, dst, sz, src);
	if (!ck->fault)
		return 0;
	memset(dst, 0, sz);
	return E_FAULT;
}

static struct walk *the_walk(void)
{
	return &at_hand->w;
}

/* Nothing is unwound, and nothing is announced. */
static const struct mapping *get_mapping(__u32 index)
{
	(void)index;
	return NULL;
}

static __u64 *the_deep(void)
{
	return at_hand->deep;
}

static void *uw_table(__u32 index)
{
	(void)index;
	return NULL;
}

static const __u32 *uw_words(void *table, __u32 word, __u32 cnt)
{
	(void)table, (void)word, (void)cnt;
	return NULL;
}

static struct interp *get_interp(__u32 index)
{
	(void)index;
	return NULL;
}

static struct ev_blob *blob_scratch(void)
{
	return NULL;
}

static struct ev_code *code_scratch(void)
{
	return NULL;
}

static int blob_send(const void *data, __u32 size, int wake_now)
{
	(void)data, (void)size, (void)wake_now;
	return E_FAULT;
}

/* ---- code objects ---------------------------------------------------------------------------- */

static uint32_t character(const uint8_t *p, unsigned width)
{
	uint16_t two;
	uint32_t four;

	if (width == 1)
		return *p;
	if (width == 2) {
		memcpy(&two, p, sizeof(two));
		return two;
	}
	memcpy(&four, p, sizeof(four));
	return four;
}

static bool printable(uint32_t c, bool ascii)
{
	return c >= 0x20 && c != 0x7f && c <= (ascii ? 0x7e : 0x10ffff);
}

static const char *check_characters(const struct blob_info *info, uint64_t addr)
{
	uint8_t text[NAME_BYTES + 4];
	uint32_t size = info->size < NAME_BYTES ? info->size : NAME_BYTES;

	if (!info->size)
		return "has an empty name";
	if (read_user(text, size + info->width, addr))
		return "has a name that cannot be read";
	for (uint32_t i = 0; i < size; i += info->width) {
		if (!printable(character(text + i, info->width), info->flags & BLOB_ASCII))
			return "has a name that is not text";
	}
	/*
	 * Every string of CPython ends in a NUL: so length and place of the data belong together.
	 */
	if (size == info->size && character(text + size, info->width))
		return "has a name that does not end";
	return NULL;
}

static const char *check_type(uint64_t object, uint64_t type, const char *wrong)
{
	struct check *ck = at_hand;
	uint64_t is;

	if (read_user(&is, sizeof(is), object + ck->w.interp.layout.ob_type))
		return wrong;
	return !type || is == type + ck->bias ? NULL : wrong;
}

static const char *check_name(struct check *ck, uint64_t addr)
{
	struct blob_info info = { 0 };
	const char *wrong;
	__u64 data;

	wrong = check_type(addr, ck->bin->str_type, "has a name that is not a str");
	if (wrong)
		return wrong;
	if (!string_info(&ck->w, addr, &info, &data) || info.size > NAME_LIMIT)
		return "has a name of no plausible length";
	return check_characters(&info, data);
}

/*
 * Bytes of bytecode that a line table speaks of: exactly all from 3.10 on (Objects/lnotab_notes.txt
 * @3.10.13, Objects/locations.md@3.11.7); before, up to where the last line begins.
 */
static uint64_t table_extent(const struct py_layout *lay, const uint8_t *table, uint32_t size)
{
	uint64_t sum = 0;

	if (lay->linetable_kind == PY_LINES_311) {
		for (uint32_t i = 0; i < size; i++)
			sum += table[i] & 0x80 ? 2 * ((table[i] & 7) + 1) : 0;
		return sum;
	}
	for (uint32_t i = 0; i + 1 < size; i += 2)
		sum += table[i];
	return sum;
}

static bool table_fits(const struct py_layout *lay, const uint8_t *table, uint32_t size,
		       uint64_t code_size)
{
	uint64_t extent = table_extent(lay, table, size);

	switch (lay->linetable_kind) {
	case PY_LINES_311:
		return size && table[0] & 0x80 && extent == code_size;
	case PY_LINES_310:
		return size && !(size & 1) && extent == code_size;
	default:
		return !(size & 1) && extent < code_size;
	}
}

static const char *check_line_table(struct check *ck, uint64_t addr, uint64_t code_size)
{
	const struct py_layout *lay = &ck->w.interp.layout;
	struct blob_info info = { 0 };
	uint8_t table[TABLE_BYTES + 1];
	const char *wrong;
	__u64 data;

	wrong = check_type(addr, ck->bin->bytes_type, "has a line table that is not bytes");
	if (wrong)
		return wrong;
	if (!bytes_info(&ck->w, addr, &info, &data) || info.size > TABLE_LIMIT)
		return "has a line table of no plausible size";
	if (info.size > TABLE_BYTES)
		return NULL;
	if (read_user(table, info.size + 1, data))
		return "has a line table that cannot be read";
	if (table[info.size] || !table_fits(lay, table, info.size, code_size))
		return "has a line table that is not its own";
	return NULL;
}

/*
 * Bytes of bytecode; 0: not known. From 3.11 it is in the code object, whose ob_size counts units
 * (_PyCode_NBYTES, Include/cpython/code.h@3.11.7). Before, co_code is a bytes object, so far behind
 * the object's head, whose size differs in debug builds: Include/code.h@2.7.18, @3.6.15 (the same
 * in 3.7), Include/cpython/code.h@3.8.18 (and up to 3.10).
 */
static uint64_t bytecode_size(struct check *ck, uint64_t code)
{
	const struct py_layout *lay = &ck->w.interp.layout;
	uint32_t co_code = lay->ob_type + (lay->version < 0x0300   ? 24
					   : lay->version < 0x0308 ? 32
								   : 40);
	uint64_t size;

	if (lay->lasti == PY_LASTI_POINTER) {
		if (read_user(&size, sizeof(size), code + lay->bytes_size) || size > CODE_LIMIT)
			return 0;
		return size * 2;
	}
	if (read_user(&code, sizeof(code), code + co_code) ||
	    read_user(&size, sizeof(size), code + lay->bytes_size) || size > CODE_LIMIT)
		return 0;
	return size;
}

/* NULL, or the fault of the code object that the walker has just identified. */
static const char *check_code(struct check *ck, struct kept_code *code)
{
	uint64_t name, file = ck->w.code.blob_addr[BLOB_FILENAME];
	const char *wrong;
	bool compiled;

	if (ck->w.code.firstlineno < 0)
		return "has a negative first line";
	/* Two fields next to each other, both str; see is_init_shim() for the one that has both. */
	if (read_user(&name, sizeof(name), code->addr + ck->w.interp.layout.code_name) ||
	    name == file)
		return "is named like its file";
	code->size = bytecode_size(ck, code->addr);
	compiled = !code->size && !has_pseudo(&ck->w) && is_empty(&ck->w, code->addr) > 0;
	if (!code->size && !compiled)
		return "has no plausible bytecode";
	wrong = check_name(ck, ck->w.code.blob_addr[BLOB_NAME]);
	if (!wrong)
		wrong = check_name(ck, file);
	if (!wrong && !compiled) /* up to 3.10, those have an empty one */
		wrong = check_line_table(ck, ck->w.code.blob_addr[BLOB_LINETABLE], code->size);
	return wrong;
}

static __u64 code_new_id(void)
{
	return 1;
}

static __u64 code_lookup(__u64 addr, __u64 fingerprint)
{
	const struct check *ck = at_hand;

	(void)fingerprint;
	for (uint32_t i = 0; i < ck->code_cnt; i++)
		if (ck->codes[i].addr == addr)
			return 1;
	return ck->code_cnt == MAX_CODES;
}

/* A code object at first sight. */
static int code_insert(struct walk *w)
{
	struct check *ck = at_hand;
	struct kept_code *code = &ck->codes[ck->code_cnt];
	const char *wrong;

	*code = (struct kept_code){ .addr = w->code.addr };
	wrong = check_code(ck, code);
	if (wrong && ck->reads > MAX_READS) /* we stopped in the middle of it: it is not counted */
		return 0;
	ck->code_cnt++;
	if (wrong && !ck->bad_codes++) {
		ck->bad_code = wrong;
		ck->bad_code_frame = w->python.cnt;
	}
	return 0;
}

/* ---- one stack ------------------------------------------------------------------------------- */

static int fail_in_the_middle(struct check *ck)
{
	return fail(ck, "frame %u: the chain ends in the middle", ck->w.python.cnt - 1);
}

/* The walk did not come to the chain's end. */
static int explain_loss(struct check *ck)
{
	const struct walk *w = &ck->w;

	switch (MARKER_WHY(w->python.marker)) {
	case MARK_PY_TRUNCATED:
		return 0;
	case MARK_PY_SETUP:
		return fail_in_the_middle(ck);
	case MARK_PY_READ_FAILED:
		return fail(ck,
			    w->python.frame ? "frame %u cannot be read"
					    : "its CFrames cannot be read",
			    w->python.cnt);
	default:
		if (ck->fault)
			return fail(ck, "frame %u: code object cannot be read", w->python.cnt);
		if (ck->circle)
			return fail(ck, "frame %u is its own caller", w->python.cnt);
		return fail(ck, "frame %u: code object's type is not PyCode_Type", w->python.cnt);
	}
}

static int check_end(struct check *ck)
{
	const struct walk *w = &ck->w;

	if (ck->reads > MAX_READS)
		return 0;
	if (w->flags & WALK_PY_LOST)
		return explain_loss(ck);
	if (!ck->frame_cnt)
		return -EAGAIN;
	if (!w->python.cnt)
		return fail(ck, "frame 0: code object is named like its file");
	if (!ck->ends_well)
		return fail_in_the_middle(ck);
	return 0;
}

/* Finds the beginning of the thread's own copy of the bytecode, or of the code object's. */
static bool bytecode_start(struct check *ck, const struct kept_frame *f, uint64_t *start)
{
	const struct py_layout *lay = &ck->w.interp.layout;
	uint64_t array;

	*start = f->code + lay->code_bytecode;
	return !f->tlbc || (!read_user(&array, sizeof(array), f->code + lay->code_tlbc) &&
			    !read_user(start, sizeof(*start), array + 8 + 8 * (uint64_t)f->tlbc));
}

/* The frame's place in its code in bytes, -2 or -1: nothing was executed yet. False: unreadable. */
static bool frame_at(struct check *ck, const struct kept_frame *f, int64_t *at)
{
	const struct py_layout *lay = &ck->w.interp.layout;
	uint64_t start;

	*at = (int64_t)f->lasti;
	if (lay->lasti == PY_LASTI_POINTER) {
		if (!bytecode_start(ck, f, &start))
			return false;
		*at = (int64_t)(f->lasti - start);
	} else if (lay->lasti == PY_LASTI_UNITS) {
		*at = *at < 0 ? *at : *at * 2;
	}
	return true;
}

static const struct kept_code *find_code(const struct check *ck, uint64_t addr)
{
	for (uint32_t i = 0; i < ck->code_cnt; i++)
		if (ck->codes[i].addr == addr)
			return &ck->codes[i];
	return NULL;
}

/* Before a call is made, its function is loaded: three bytes in 2.7, then a unit of two. */
static bool can_call_at(const struct py_layout *lay, int64_t at)
{
	return lay->version < 0x0300 ? at >= 3 : at >= 2 && !(at & 1);
}

/*
 * Each frame stands inside of its code, and a caller at a call: but for signal handlers and
 * finalizers, which can run anywhere. So it is a matter of most callers.
 */
static int check_offsets(struct check *ck)
{
	uint32_t callers = 0, odd = 0;

	for (uint32_t i = 0; i < ck->frame_cnt; i++) {
		const struct kept_code *code = find_code(ck, ck->frames[i].code);
		int64_t at;

		if (!code || !code->size)
			continue;
		if (!frame_at(ck, &ck->frames[i], &at) || at < -2 || at > (int64_t)code->size)
			return fail(ck, "frame %u: its instruction is outside of its code", i);
		callers += i > 0;
		odd += i > 0 && !can_call_at(&ck->w.interp.layout, at);
	}
	if (odd * 2 > callers)
		return fail(ck, "frame 1: its instruction is not a call");
	return 0;
}

/*
 * The walkers find a thread's state by its thread pointer. On x86-64 that is where the thread
 * pointer itself is stored (ELF Handling For Thread-Local Storage, 3.4.6), for every C library.
 */
static bool is_thread_pointer(const struct check *ck, uint64_t id)
{
#ifdef __x86_64__
	uint64_t self;

	return !read_process(ck->tgid, &self, sizeof(self), id) && self == id;
#else
	(void)ck;
	return id != 0;
#endif
}

/*
 * A program can name its code as it likes, so one bad name in a stack says nothing; a wrong layout
 * makes all of them bad.
 */
static int judge(struct check *ck)
{
	int err = check_end(ck);

	if (err)
		return err;
	if (ck->bad_owner)
		return fail(ck, "frame %u: its owner is not one that there is", ck->owner_frame);
	if (ck->bad_codes * 2 >= ck->code_cnt)
		return fail(ck, "frame %u: code object %s", ck->bad_code_frame,
			    ck->bad_code ? ck->bad_code : "has a name that cannot be read");
	ck->reads = 0;
	return check_offsets(ck);
}

static int check_stack(struct check *ck, uint64_t tstate, uint64_t thread_id)
{
	struct walk *w = &ck->w;

	reset_walk(w);
	w->thread.tp = thread_id;
	w->tstate.addr = tstate;
	ck->reads = ck->frame_cnt = ck->code_cnt = ck->bad_codes = 0;
	memset(ck->tag, 0, sizeof(ck->tag));
	ck->ends_well = ck->circle = ck->bad_owner = false;
	ck->bad_code = NULL;
	walk_python(w);
	return judge(ck);
}

/* ---- the count of code objects --------------------------------------------------------------- */

/* FUNC_VERSION_CACHE_SIZE, Include/internal/pycore_function.h@3.13.0 */
#define VERSION_SLOTS 4096
#define PROBES	      32 /* slots that are read, unless they are empty */
#define MAX_TABLES    8	 /* that are looked at */
#define RUNTIME_MAX   (1U << 20)
#define FEW	      8 /* of them say nothing */

struct version_slot {
	uint64_t func, code;
};

static bool read_version(struct check *ck, uint64_t code, uint32_t *version)
{
	const struct py_layout *lay = &ck->w.interp.layout;
	uint64_t type;

	return !read_process(ck->tgid, &type, sizeof(type), code + lay->ob_type) &&
	       type == ck->w.interp.code_type &&
	       !read_process(ck->tgid, version, sizeof(*version), code + lay->code_version);
}

/*
 * Most slots hold the code object whose version is theirs; a function may have got another one
 * since.
 */
static bool are_slots(struct check *ck, const struct version_slot *slots, uint64_t next)
{
	uint32_t found = 0, fit = 0, version;

	for (uint32_t i = 0; i < VERSION_SLOTS && found < PROBES; i++) {
		if (!slots[i].code)
			continue;
		found++;
		fit += read_version(ck, slots[i].code, &version) && version < next &&
		       version % VERSION_SLOTS == i;
	}
	return found >= FEW && fit * 4 >= found * 3;
}

/*
 * Finds the table of slots in `words`, of an interpreter: one of the slots has `code`. 0: not
 * found.
 */
static size_t find_slots(struct check *ck, const uint64_t *words, size_t cnt, uint64_t code)
{
	uint32_t version;
	size_t own;

	if (!read_version(ck, code, &version))
		return 0;
	own = 2 * (size_t)(version % VERSION_SLOTS) + 1;
	for (size_t at = 1; at + 2 * VERSION_SLOTS <= cnt && ck->tables < MAX_TABLES; at++) {
		if (words[at + own] != code || version >= words[at - 1] ||
		    words[at - 1] > UINT32_MAX)
			continue;
		ck->tables++;
		if (are_slots(ck, (const struct version_slot *)&words[at], words[at - 1]))
			return at;
	}
	return 0;
}

/*
 * Finds the next number for a code object. 3.13 numbers its code objects, but does not say where
 * the next number is. It is in front of a table by that number (struct _py_func_state), which the
 * code objects of a stack identify. Only for the main interpreter, which is part of _PyRuntime.
 * Builds without GIL have no such table.
 */
static void find_code_count(struct check *ck, struct py_binary *bin, uint64_t interp)
{
	uint64_t at = interp - ck->bias - bin->runtime;
	size_t size = bin->runtime_size - at, slots = 0;
	uint64_t *words;

	if (bin->interp.layout.version != 0x030d || bin->free_threaded ||
	    bin->interp.layout.interp_codes || at >= bin->runtime_size || size > RUNTIME_MAX)
		return;
	words = malloc(size);
	if (words && !read_process(ck->tgid, words, size, interp)) {
		for (uint32_t i = 0; i < ck->code_cnt && !slots; i++)
			slots = find_slots(ck, words, size / 8, ck->codes[i].addr);
	}
	free(words);
	if (slots && slots - 1 <= UINT16_MAX)
		bin->interp.layout.interp_codes = (uint16_t)(slots - 1);
}

/* ---- all threads ----------------------------------------------------------------------------- */

struct threads {
	uint64_t state[MAX_THREADS], id[MAX_THREADS];
	uint32_t cnt;
};

/*
 * The thread states of one interpreter that have a thread: 0 is the id of one that is being made.
 */
static int list_threads(struct check *ck, uint64_t interp, struct threads *out)
{
	const struct py_layout *lay = &ck->w.interp.layout;
	uint64_t at;

	out->cnt = 0;
	if (read_process(ck->tgid, &at, sizeof(at), interp + lay->interp_threads_head))
		return fail(ck, "interpreter's list of threads cannot be read");
	for (int i = 0; at && i < MAX_THREADS; i++) {
		out->state[out->cnt] = at;
		if (read_process(ck->tgid, &out->id[out->cnt], 8, at + lay->tstate_thread_id) ||
		    read_process(ck->tgid, &at, sizeof(at), at + lay->tstate_next))
			return fail(ck, "thread state cannot be read");
		out->cnt += is_thread_pointer(ck, out->id[out->cnt]);
	}
	return 0;
}

/* Counts what did not hold. True: enough is known. */
static bool is_sure(struct check *ck)
{
	ck->same = strcmp(ck->why, ck->last_why) ? 1 : ck->same + 1;
	memcpy(ck->last_why, ck->why, sizeof(ck->last_why));
	return ++ck->tries >= MAX_TRIES || ck->same >= SURE_TRIES;
}

/*
 * Checks the threads of one interpreter. 0: a stack is valid. -EAGAIN: there is none. -EBADMSG:
 * those that were tried are not.
 */
static int check_interp(struct check *ck, uint64_t interp, bool *sure)
{
	struct threads list;
	int err = list_threads(ck, interp, &list), sum = -EAGAIN;

	if (err) {
		*sure = is_sure(ck);
		return err;
	}
	ck->threads += list.cnt;
	for (uint32_t i = 0; i < list.cnt && !*sure; i++) {
		err = check_stack(ck, list.state[i], list.id[i]);
		if (!err) {
			find_code_count(ck, ck->bin, interp);
			return 0;
		}
		if (err == -EAGAIN)
			continue;
		*sure = is_sure(ck);
		sum = err;
	}
	return sum;
}

static int check_round(struct check *ck, bool *sure)
{
	const struct py_layout *lay = &ck->w.interp.layout;
	int err = -EAGAIN, one;
	uint64_t interp;

	if (read_process(ck->tgid, &interp, sizeof(interp), ck->w.interp.interp_head))
		goto unreadable;
	for (int i = 0; i < MAX_INTERPS && interp && !*sure; i++) {
		one = check_interp(ck, interp, sure);
		if (!one)
			return 0;
		if (one != -EAGAIN)
			err = one;
		if (read_process(ck->tgid, &interp, sizeof(interp), interp + lay->interp_next))
			goto unreadable;
	}
	return err;
unreadable:
	fail(ck, "list of interpreters cannot be read");
	*sure = is_sure(ck);
	return -EBADMSG;
}

/* All interpreters; again, while there are stacks that do not hold. */
static int check_process(struct check *ck)
{
	bool sure = false;
	int err;

	do {
		err = check_round(ck, &sure);
	} while (err == -EBADMSG && !sure);
	if (err != -EAGAIN || ck->threads)
		return err;
	fail(ck, "no thread state has the id of a thread");
	return -ENODATA;
}

static int walk_here(struct py_binary *bin, uint32_t tgid, uint64_t bias,
		     char why[SELFCHECK_WHY_LEN])
{
	uint64_t head, head_addr = bias + bin->interp.interp_head;
	struct check *ck;
	int err;

	why[0] = '\0';
	err = read_process(tgid, &head, sizeof(head), head_addr);
	if (err && err != -EFAULT)
		return err; /* gone, or not permitted */
	if (!err && !head)
		return -EAGAIN;
	ck = calloc(1, sizeof(*ck));
	if (!ck)
		return -ENOMEM;
	ck->bin = bin;
	ck->tgid = tgid;
	ck->bias = bias;
	ck->why = why;
	ck->w.interp = bin->interp;
	ck->w.interp.interp_head += bias;
	ck->w.interp.code_type += bias;
	at_hand = ck;
	err = check_process(ck);
	at_hand = NULL;
	free(ck);
	if (err != -EBADMSG && err != -ENODATA)
		why[0] = '\0'; /* of a stack that changed under the walk */
	if (err == -EBADMSG && read_process(tgid, &head, sizeof(head), head_addr) == -ESRCH)
		return -ESRCH; /* it ended under the walk */
	return err;
}

struct question {
	struct py_binary bin;
	uint64_t bias;
	uint32_t tgid;
};

struct answer {
	int err;
	uint16_t interp_codes;
	char why[SELFCHECK_WHY_LEN];
};

static int walk_it(const void *question, void *answer)
{
	struct question q = *(const struct question *)question;
	struct answer a = { 0 };

	a.err = walk_here(&q.bin, q.tgid, q.bias, a.why);
	a.interp_codes = q.bin.interp.layout.interp_codes;
	memcpy(answer, &a, sizeof(a));
	return 0;
}

READER_OPERATION(walk_it);

int selfcheck__walk(struct readers *rs, struct py_binary *bin, uint32_t tgid, uint64_t bias,
		    char why[SELFCHECK_WHY_LEN])
{
	struct question q = { .bin = *bin, .bias = bias, .tgid = tgid };
	struct answer a = { 0 };
	int err;

	q.bin.why_not = NULL; /* an address of ours */
	err = reader__call(rs, tgid, &op_walk_it, &q, sizeof(q), &a, sizeof(a));
	why[0] = '\0';
	if (err == -ETIMEDOUT || err == -ECHILD || err == -EBUSY) {
		snprintf(why, SELFCHECK_WHY_LEN, "%s",
			 err == -ETIMEDOUT ? "its memory does not answer when it is read"
					   : reader__why(err));
		return err == -EBUSY ? err : -EBADMSG;
	}
	if (err)
		return err < 0 ? err : -EBADMSG;
	a.why[SELFCHECK_WHY_LEN - 1] = '\0';
	memcpy(why, a.why, SELFCHECK_WHY_LEN);
	bin->interp.layout.interp_codes = a.interp_codes;
	return a.err > 0 ? -EBADMSG : reader__claimed(a.err);
}

/* ---- the state of a process ------------------------------------------------------------------ */

static void wait_for(struct selfcheck *sc, uint64_t now_ns, uint32_t ms)
{
	sc->wait_ms = ms < LONGEST_WAIT ? ms : LONGEST_WAIT;
	sc->due_ns = now_ns + sc->wait_ms * 1000000ULL;
}

static void run(struct readers *rs, struct selfcheck *sc, struct py_binary *bin, uint32_t tgid)
{
	sc->err = selfcheck__walk(rs, bin, tgid, sc->bias, sc->why);
	switch (sc->err) {
	case 0:
		sc->state = SELFCHECK_PASSED;
		bin->validated = true;
		return;
	case -EBADMSG:
		sc->state = SELFCHECK_REFUSED;
		return;
	case -EBUSY: /* it is asked again, and what was known of it holds until then */
		sc->state = sc->state == SELFCHECK_NEW ? SELFCHECK_REFUSED : sc->state;
		return;
	case -EPERM:
	case -ENOSYS: /* yama's ptrace_scope 3, or seccomp: the kernel's own walk still works */
		sc->state = SELFCHECK_PASSED;
		return;
	case -ENODATA:
		if (sc->wait_ms >= START_WAIT) {
			sc->state = SELFCHECK_REFUSED;
			return;
		}
		/* fallthrough */
	default:
		/* Nothing is known, or nothing new: no thread runs Python now. */
		if (sc->state == SELFCHECK_NEW)
			sc->state = SELFCHECK_TRUSTED;
	}
}

void selfcheck__begin(struct readers *rs, struct selfcheck *sc, struct py_binary *bin,
		      uint32_t file, uint32_t tgid, uint64_t bias, uint64_t now_ns)
{
	if (sc->state != SELFCHECK_NEW && sc->file == file && sc->bias == bias)
		return;
	*sc = (struct selfcheck){ .file = file, .bias = bias };
	if (bin->validated) {
		sc->state = SELFCHECK_TRUSTED;
		wait_for(sc, now_ns, SELFCHECK_SOON_MS);
		return;
	}
	run(rs, sc, bin, tgid);
	wait_for(sc, now_ns, FIRST_WAIT);
}

const char *selfcheck__doubt(const struct selfcheck *sc)
{
	if (sc->state != SELFCHECK_TRUSTED || sc->err != -EAGAIN || sc->wait_ms < START_WAIT)
		return NULL;
	return "no thread was in Python when it was looked at";
}

bool selfcheck__again(struct readers *rs, struct selfcheck *sc, struct py_binary *bin,
		      uint32_t tgid, uint64_t now_ns)
{
	bool refused = sc->state == SELFCHECK_REFUSED;

	if (!selfcheck__open(sc) || now_ns < sc->due_ns)
		return false;
	if (bin)
		run(rs, sc, bin, tgid);
	wait_for(sc, now_ns, sc->wait_ms * 2);
	return refused != (sc->state == SELFCHECK_REFUSED);
}
