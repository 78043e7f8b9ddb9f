/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "heap/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/opener.h"
#include "base/reader.h"
#include "base/readmem.h"
#include "elf/elf.h"
#include "process/called.h"
#include "process/interpreter.h"
#include "process/maps_read.h"
#include "process/unsupported.h"

#define DATA_MAX	(64ULL << 20) /* bytes of an interpreter's variables */
#define DATA_CHUNK	(64U << 10)
#define DATA_RANGES_MAX 64
#define ARRAYS_MAX	64
#define TITLE_CHARS	64 /* of up to 4 bytes */

/* ---- memory ---------------------------------------------------------------------------------- */

/*
 * By the process that may hang: a page may lie in a file whose server does not answer. Once one did
 * not answer, nothing more is asked.
 */
static int note_silence(struct heap_target *t, int err)
{
	if (err == -ETIMEDOUT)
		t->silent = true;
	return err;
}

static int ask_target(struct heap_target *t, void *dst, size_t size, uint64_t src)
{
	if (t->silent)
		return -ETIMEDOUT;
	pace__look(&t->pace);
	return note_silence(t, reader__read(t->readers, (uint32_t)t->pid, dst, size, src));
}

/*
 * A question costs two changes of process, and what an object holds lies near what the one before
 * it holds. So a small read fetches its page, and the page serves the reads of the next
 * milliseconds: as old as an answer may be that is a few questions late. Most words that might be
 * addresses are none, so it is remembered as well that nothing is there. The kernel makes no page
 * resident that the small read would not have.
 */
#define PAGE_SIZE     4096U
#define PAGE_SLOTS    1024U
#define PAGE_FRESH_NS (5 * NS_PER_MS)
#define GAP_FRESH_NS  (50 * NS_PER_MS)

struct heap_page {
	uint64_t addr, until_ns;
	uint32_t generation;
	int err; /* it cannot be read */
	uint8_t bytes[PAGE_SIZE];
};

/* The page of an address, perhaps one that cannot be read. */
static const struct heap_page *page_of(struct heap_target *t, uint64_t addr)
{
	struct heap_page *p = &t->pages[addr / PAGE_SIZE % PAGE_SLOTS];
	uint64_t now = now_ns();

	addr -= addr % PAGE_SIZE;
	if (p->addr == addr && p->generation == t->generation && now < p->until_ns)
		return p;
	p->addr = addr;
	p->generation = t->generation;
	p->err = ask_target(t, p->bytes, PAGE_SIZE, addr);
	p->until_ns = now + (p->err ? GAP_FRESH_NS : PAGE_FRESH_NS);
	return p;
}

static int read_target(void *ctx, void *dst, size_t size, uint64_t src)
{
	struct heap_target *t = ctx;

	if (!t->pages || size > PAGE_SIZE / 2)
		return ask_target(t, dst, size, src);
	for (size_t done = 0, part; done < size; done += part) {
		uint64_t at = src + done;
		const struct heap_page *p = page_of(t, at);

		if (p->err)
			return p->err;
		part = PAGE_SIZE - at % PAGE_SIZE;
		part = part < size - done ? part : size - done;
		memcpy((uint8_t *)dst + done, p->bytes + at % PAGE_SIZE, part);
	}
	return 0;
}

static void renew_target(void *ctx)
{
	struct heap_target *t = ctx;

	t->generation++;
}

struct places {
	uint32_t tgid, cnt;
	uint64_t addrs[HEAP_GATHER_MAX]; /* last: those behind `cnt` are not sent */
};

/* The kernel reads what comes before the first word of a call that it cannot read. */
static int gather_words(const void *question, void *answer)
{
	const struct places *q = question;
	struct iovec remote[HEAP_GATHER_MAX];
	uint64_t *words = answer;

	for (uint32_t done = 0; done < q->cnt; done++) {
		uint32_t left = q->cnt - done;
		struct iovec local = { words + done, left * sizeof(*words) };
		ssize_t n;

		for (uint32_t i = 0; i < left; i++)
			remote[i] = (struct iovec){ (void *)(uintptr_t)q->addrs[done + i],
						    sizeof(*words) };
		n = process_vm_readv((pid_t)q->tgid, &local, 1, remote, left, 0);
		done += n > 0 ? (uint32_t)n / (uint32_t)sizeof(*words) : 0;
		if (done < q->cnt)
			words[done] = 0;
	}
	return 0;
}

READER_OPERATION(gather_words);

static void gather_target(void *ctx, uint64_t *words, const uint64_t *addrs, size_t cnt)
{
	struct heap_target *t = ctx;
	struct places q = { .tgid = (uint32_t)t->pid };
	int err = 0;

	if (cnt == 1) {
		if (read_target(t, words, sizeof(*words), *addrs))
			*words = 0;
		return;
	}
	for (size_t done = 0; done < cnt; done += q.cnt) {
		q.cnt = (uint32_t)(cnt - done < HEAP_GATHER_MAX ? cnt - done : HEAP_GATHER_MAX);
		memcpy(q.addrs, addrs + done, q.cnt * sizeof(*addrs));
		if (!t->silent)
			err = reader__call(t->readers, q.tgid, &op_gather_words, &q,
					   offsetof(struct places, addrs) + q.cnt * sizeof(*addrs),
					   words + done, q.cnt * sizeof(*words));
		if (note_silence(t, err) || t->silent)
			memset(words + done, 0, q.cnt * sizeof(*words));
	}
}

/* ---- the interpreter ------------------------------------------------------------------------- */

static int add_data(struct heap_target *t, uint64_t start, uint64_t end)
{
	if (t->data_cnt == DATA_RANGES_MAX)
		return 0;
	if (ARRAY_GROW(t->data, t->data_cap, t->data_cnt, DATA_RANGES_MAX))
		return -ENOMEM;
	t->data[t->data_cnt++] = (struct heap_range){ start, end };
	return 0;
}

/* The segments in memory: .bss, too, which the file does not have. */
static int take_segments(struct heap_target *t, const struct elf_file *ef)
{
	size_t cnt;
	const struct elf_segment *segments = elf_file__segments(ef, &cnt);
	int err = 0;

	t->module = (struct heap_range){ UINT64_MAX, 0 };
	for (size_t i = 0; i < cnt && !err; i++) {
		uint64_t start = t->bias + segments[i].addr;
		uint64_t end = start + segments[i].mem_size;

		if (end < start)
			continue;
		if (start < t->module.start)
			t->module.start = start;
		if (end > t->module.end)
			t->module.end = end;
		if (!segments[i].exec)
			err = add_data(t, start, end);
	}
	return err;
}

static uint64_t symbol_addr(const struct heap_target *t, const struct elf_file *ef,
			    const char *name)
{
	struct elf_symbol sym;

	return elf_file__symbol(ef, name, &sym) ? t->bias + sym.addr : 0;
}

static int set_shape(struct heap_target *t, const struct elf_file *ef, char *why)
{
	const struct py_layout *l = &t->py.interp.layout;

	t->shape = (struct heap_shape){
		.version = l->version,
		.ob_type = l->ob_type,
		.free_threaded = t->py.free_threaded,
		.gc_size = t->py.free_threaded	  ? 0
			   : l->version <= 0x0307 ? 32
						  : 16,
		.str_min = l->str_ascii,
		.type_type = symbol_addr(t, ef, "PyType_Type"),
		.str_type = t->py.str_type ? t->bias + t->py.str_type : 0,
	};
	if (!t->shape.type_type) {
		snprintf(why, HEAP_WHY_LEN, "its interpreter does not export PyType_Type");
		return -ENOTSUP;
	}
	return take_segments(t, ef);
}

static void explain(struct heap_target *t, const struct interpreter *in, int err, char *why)
{
	if (err == -ETIMEDOUT)
		snprintf(why, HEAP_WHY_LEN, READER_FILES_HANG);
	else if (err == -ENOTSUP)
		snprintf(why, HEAP_WHY_LEN, "CPython %s in %.128s: %s", in->py.version,
			 elf_file__path(in->ef),
			 in->py.why_not ? in->py.why_not : "it is not supported");
	else if (err != -ENOENT)
		snprintf(why, HEAP_WHY_LEN, "its interpreter cannot be read: %s", reader__why(err));
	else if (!unsupported__explain(t->readers, t->pid, why) &&
		 !unsupported__unread(t->readers, t->pid, why))
		snprintf(why, HEAP_WHY_LEN, "it is not Python");
}

static int find_interpreter(struct heap_target *t, char *why)
{
	struct exec_maps maps = { 0 };
	struct interpreter in = { 0 };
	int err = exec_maps__ask(&maps, t->readers, (uint32_t)t->pid, t->proc_fd);

	if (err) {
		exec_maps__free(&maps);
		snprintf(why, HEAP_WHY_LEN,
			 "its mappings cannot be read: %s (needs CAP_SYS_PTRACE)",
			 reader__why(err));
		return err;
	}
	err = interpreter__find(&in, t->readers, (uint32_t)t->pid, t->proc_fd, &maps);
	exec_maps__free(&maps);
	t->py = in.py;
	t->bias = in.bias;
	if (err)
		explain(t, &in, err, why);
	else
		err = set_shape(t, in.ef, why);
	interpreter__close(&in);
	return err;
}

static void read_comm(struct heap_target *t)
{
	struct strbuf safe = { 0 };
	size_t len;

	if (!read_proc(t->proc_fd, "comm", &t->text) && t->text.len) {
		len = t->text.len - (t->text.s[t->text.len - 1] == '\n');
		str_sanitise(&safe, t->text.s, len, 16);
	}
	snprintf(t->comm, sizeof(t->comm), "%s", safe.err || !safe.s ? "?" : safe.s);
	strbuf__free(&safe);
}

static void read_title(struct heap_target *t)
{
	struct strbuf title = { 0 }, safe = { 0 };

	if (called__title(t->readers, t->pid, &title))
		str_sanitise(&safe, title.s, title.len, TITLE_CHARS);
	snprintf(t->title, sizeof(t->title), "%s", safe.err || !safe.len ? t->comm : safe.s);
	strbuf__free(&title);
	strbuf__free(&safe);
}

int heap_target__open(struct heap_target *t, pid_t pid, char why[HEAP_WHY_LEN])
{
	uint8_t probe;
	int err;

	*t = (struct heap_target){ .pid = pid, .readers = readers__new() };
	readers__start(t->readers);
	pace__begin(&t->pace, t->readers);
	t->pages = calloc(PAGE_SLOTS, sizeof(*t->pages)); /* without it each read is asked */
	t->mem = (struct heap_mem){ t, read_target, gather_target, renew_target };
	t->proc_fd = opener__proc_dir((uint32_t)pid);
	if (t->proc_fd < 0) {
		err = t->proc_fd;
		snprintf(why, HEAP_WHY_LEN, "there is no such process");
		return err;
	}
	read_comm(t);
	read_title(t);
	err = find_interpreter(t, why);
	if (!err)
		err = t->mem.read(t, &probe, 1, t->shape.type_type);
	else
		return err;
	if (err)
		snprintf(why, HEAP_WHY_LEN,
			 "its memory cannot be read: %s (needs CAP_SYS_PTRACE, and "
			 "kernel.yama.ptrace_scope below 3)",
			 reader__why(err));
	return err;
}

void heap_target__close(struct heap_target *t)
{
	if (t->proc_fd > 0)
		close(t->proc_fd);
	readers__free(t->readers);
	free(t->pages);
	strbuf__free(&t->text);
	free(t->data);
}

/* ---- arenas ---------------------------------------------------------------------------------- */

static bool is_known(const uint64_t *arrays, size_t cnt, uint64_t addr)
{
	for (size_t i = 0; i < cnt; i++)
		if (arrays[i] == addr)
			return true;
	return false;
}

static int cmp_range(const void *addr, const void *range)
{
	const struct heap_range *r = range;
	uint64_t at = *(const uint64_t *)addr;

	return at < r->start ? -1 : at >= r->end;
}

#define CANDIDATES_MAX 1024

/* The places where arrays may be. */
struct candidates {
	uint32_t tgid, cnt;
	uint64_t arrays[CANDIDATES_MAX]; /* last: those behind `cnt` are not sent */
};

/* The first entries there. */
struct entries {
	uint8_t first[CANDIDATES_MAX][ARENA_ENTRY_SIZE];
};

static int read_entries(const void *question, void *answer)
{
	const struct candidates *c = question;
	struct entries *e = answer;

	for (uint32_t i = 0; i < c->cnt; i++)
		if (read_process(c->tgid, e->first[i], ARENA_ENTRY_SIZE, c->arrays[i]))
			memset(e->first[i], 0, ARENA_ENTRY_SIZE);
	return 0;
}

READER_OPERATION(read_entries);

struct searching {
	const struct heap_target *t;
	struct heap_scan *s;
	const struct heap_range *ranges;
	size_t range_cnt;
	uint64_t found[ARRAYS_MAX];
	size_t found_cnt;
	struct candidates candidates;
	struct entries entries;
};

/*
 * Nearly none is an array, which the first entry shows, so first entries are read together: each
 * question costs two switches of process.
 */
static int try_candidates(struct searching *x)
{
	struct heap_target *t = x->t->mem.ctx;
	struct candidates *c = &x->candidates;
	size_t size = offsetof(struct candidates, arrays) + c->cnt * sizeof(c->arrays[0]);
	int err = t->silent ? -ETIMEDOUT
			    : reader__call(t->readers, c->tgid, &op_read_entries, c, size,
					   &x->entries, c->cnt * ARENA_ENTRY_SIZE);
	uint32_t cnt = note_silence(t, err) < 0 ? 0 : c->cnt;

	for (uint32_t i = 0; i < cnt && x->found_cnt < ARRAYS_MAX && err != -ENOMEM; i++) {
		uint64_t array = c->arrays[i];

		if (!arena__is_first(x->entries.first[i], array, x->s->geometry) ||
		    is_known(x->found, x->found_cnt, array))
			continue;
		err = heap_scan__add_array(x->s, array);
		if (!err)
			x->found[x->found_cnt++] = array;
	}
	c->cnt = 0;
	return err == -ENOMEM ? err : 0;
}

/* The words of the interpreter's variables that point into `ranges`. */
static int search(struct searching *x, const uint8_t *bytes, size_t size)
{
	int err = 0;

	for (size_t at = 0; at + 8 <= size && !err; at += 8) {
		uint64_t word = heap_word(bytes + at);

		if (word % 8 ||
		    !bsearch(&word, x->ranges, x->range_cnt, sizeof(*x->ranges), cmp_range))
			continue;
		x->candidates.arrays[x->candidates.cnt++] = word;
		if (x->candidates.cnt == CANDIDATES_MAX)
			err = try_candidates(x);
	}
	return err;
}

int heap_target__find_arenas(const struct heap_target *t, const struct heap_range *ranges,
			     size_t range_cnt, struct heap_scan *s)
{
	struct searching *x = calloc(1, sizeof(*x));
	uint8_t *bytes = malloc(DATA_CHUNK);
	uint64_t budget = DATA_MAX;
	int err = bytes && x ? 0 : -ENOMEM, cnt;

	s->module = t->module;
	if (!err) {
		x->t = t;
		x->s = s;
		x->ranges = ranges;
		x->range_cnt = range_cnt;
		x->candidates.tgid = (uint32_t)t->pid;
	}
	for (size_t i = 0; i < t->data_cnt; i++) {
		for (uint64_t at = t->data[i].start; at < t->data[i].end && !err && budget;) {
			uint64_t left = t->data[i].end - at, part = DATA_CHUNK - at % DATA_CHUNK;

			part = part < left ? part : left;
			part = part < budget ? part : budget;
			if (!t->mem.read(t->mem.ctx, bytes, part, at))
				err = search(x, bytes + (-at & 7), part - (-at & 7));
			at += part;
			budget -= part;
		}
	}
	if (!err && x->candidates.cnt)
		err = try_candidates(x);
	cnt = x ? (int)x->found_cnt : 0;
	free(x);
	free(bytes);
	return err ? err : cnt;
}
