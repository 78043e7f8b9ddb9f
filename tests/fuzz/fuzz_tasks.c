/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A process whose whole memory is the input, over and over: its asyncio tasks are read, counted in
 * the book of tasks, and shown. And a reader whose answers are the input: they are as untrusted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/reader.h"
#include "base/readmem.h"
#include "export/export.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap);

static int read_world(uint32_t tgid, void *dst, size_t size, uint64_t src);
static int ask_world(struct readers *rs, uint32_t tgid, const struct reader_operation *op,
		     const void *question, size_t size, void *answer, size_t answer_size);
static int ask_bytes(struct readers *rs, uint32_t tgid, void *dst, size_t size, uint64_t src);

/* Instead of a helper and a process. */
#define read_process read_world
#define reader__call ask_world
#define reader__read ask_bytes
#include "../../user/python/pytasks.c"
#undef TRIES
#include "../../user/threads/taskbook.c"
#undef read_process
#undef reader__call
#undef reader__read

/* What names threads needs the kernel half; it is not asked. */
int threadlist__read(struct threadlist *list)
{
	(void)list;
	return -ENOTSUP;
}

size_t threadlist__cnt(const struct threadlist *list)
{
	(void)list;
	return 0;
}

const struct thread_now *threadlist__at(const struct threadlist *list, size_t i)
{
	(void)list;
	(void)i;
	return NULL;
}

#define BASE	  0x7f0000000000ULL
#define SPAN	  (1ULL << 20)
#define RUNTIME	  BASE
#define STR_TYPE  (BASE + 0x1000)
#define CODES	  (BASE + 0x2000)
#define TASK	  (BASE + 0x300)
#define FUTURE	  (BASE + 0x440)
#define SET	  (BASE + 0xd00)
#define ANSWER	  1536 /* bytes of an answer that the input gives; the rest is 0 */
#define ASKED_MAX 400  /* of one look: a list of 100,000 tasks takes too long */

static struct {
	const uint8_t *data;
	size_t size;
	size_t answer; /* where the next answer begins, if answers are the input */
	uint32_t asked;
	bool answers;
} world;

static int read_world(uint32_t tgid, void *dst, size_t size, uint64_t src)
{
	uint8_t *out = dst;

	(void)tgid;
	if (!world.size || src < BASE || src - BASE > SPAN || size > SPAN - (src - BASE))
		return -EFAULT;
	for (size_t done = 0, at, len; done < size; done += len) {
		at = (src - BASE + done) % world.size;
		len = world.size - at < size - done ? world.size - at : size - done;
		memcpy(out + done, world.data + at, len);
	}
	return 0;
}

static int ask_bytes(struct readers *rs, uint32_t tgid, void *dst, size_t size, uint64_t src)
{
	(void)rs;
	return read_world(tgid, dst, size, src);
}

/* Up to 3.13 roots are deep in modules: there the second byte says what the root is. */
static int answer_it(const struct reader_operation *op, const void *question, void *answer)
{
	struct roots *a = answer;
	int err = op->read(question, answer);

	if (op->read != read_roots || a->cnt || world.size < 2)
		return err;
	a->cnt = 1;
	a->roots[0].kind = 1 + world.data[1] % ROOT_LOOP;
	a->roots[0].addr = a->roots[0].kind == ROOT_TASK ? TASK : SET;
	return err;
}

/* All of an answer is set, as the helper's is. */
static int ask_world(struct readers *rs, uint32_t tgid, const struct reader_operation *op,
		     const void *question, size_t size, void *answer, size_t answer_size)
{
	size_t left = world.size - world.answer;

	(void)rs;
	(void)tgid;
	(void)size;
	if (world.asked++ == ASKED_MAX)
		return -ETIMEDOUT;
	memset(answer, 0, answer_size);
	if (!world.answers)
		return answer_it(op, question, answer);
	if (left > ANSWER)
		left = ANSWER;
	if (left > answer_size)
		left = answer_size;
	memcpy(answer, world.data + world.answer, left);
	world.answer += left;
	return left ? 0 : -ESRCH;
}

static void check_place(const struct watched *w, const struct place *at)
{
	if (at->sym >= w->names->sym_cnt || at->looks > w->looks || at->came > at->tasks)
		abort();
}

static void fill(const struct taskbook *b)
{
	struct profile *p = profile__new();
	FILE *f = fopen("/dev/null", "w");

	if (!p || !f || taskbook__fill(b, p))
		abort();
	for (size_t i = 0; i < p->await_cnt; i++) {
		const struct profile_await *a = &p->awaits[i];

		if (a->looks > a->of || !a->stack.cnt || a->stack.cnt > PYCORO_FRAMES)
			abort();
	}
	if (export__find("x.json")->write(p, &(struct export_opts){ .width = 80 }, f))
		abort();
	fclose(f);
	profile__free(p);
}

/* Fields of 3.14 are those of 3.12 here: where they are makes no difference to the reader. */
static void make_layout(struct py_layout *lay, uint16_t version)
{
	uint32_t hex = (uint32_t)(version < 0x030c ? version : 0x030c) << 16;

	if (py_layout__get(lay, hex, false, NULL, 0, NULL))
		abort();
	lay->version = version;
}

/* A process of one version, at which the book looks twice. */
static void look_twice(uint16_t version, bool answers)
{
	static const struct pytasks_debug debug = {
		.task_name = 72,
		.task_awaited_by = 144,
		.task_is_task = 120,
		.task_awaited_by_is_set = 121,
		.task_coro = 88,
		.task_node = 152,
		.interp_tasks_head = 256,
		.thread_running_loop = 64,
		.thread_running_task = 72,
		.thread_tasks_head = 80,
	};
	struct taskbook *b = taskbook__new(NULL);
	const struct process p = { .space = 1, .tgid = 1 };
	struct watched *w = b ? watch(b, &p) : NULL;

	if (!w)
		abort();
	make_layout(&w->bin.interp.layout, version);
	w->bin.runtime = RUNTIME;
	w->bin.runtime_size = 300000;
	w->bin.str_type = STR_TYPE;
	w->bin.interp.interp_head = RUNTIME + 32;
	w->src = (struct pytasks_source){ .bin = &w->bin, .patience_ns = PATIENCE_NS };
	w->src.debug = version >= 0x030e ? &debug : NULL;
	w->mem = taskdump__mem(&w->src, read_by_reader, w);
	w->codes = (struct pycodes){ .mem = &w->mem, .code_type = CODES };
	w->found = true;
	world.answers = answers;
	for (int i = 0; i < 2; i++) {
		world.answer = 0;
		world.asked = 0;
		look_at(b, w);
		for (size_t k = 0; k < w->place_cnt; k++)
			check_place(w, &w->places[k]);
	}
	fill(b);
	taskbook__free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint16_t versions[] = { 0x030e, 0x030c, 0x030b, 0x0309, 0x0307 };
	uint16_t version = versions[size ? data[0] % 5 : 0];

	world.data = data;
	world.size = size;
	look_twice(version, size && data[size - 1] & 1);
	return 0;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static void put(uint8_t *buf, size_t at, uint64_t word, size_t size)
{
	memcpy(buf + at, &word, size);
}

/* An object, whose type is at `type`, and that type's name at `name`. */
static void put_object(uint8_t *buf, size_t at, size_t type, size_t name, const char *text)
{
	put(buf, at, 1, 8);
	put(buf, at + 8, BASE + type, 8);
	put(buf, type + PYTYPE_NAME, BASE + name, 8);
	strcpy((char *)buf + name, text);
}

static void put_str(uint8_t *buf, size_t at, const char *text)
{
	put(buf, at, 1, 8);
	put(buf, at + 8, STR_TYPE, 8);
	put(buf, at + 16, strlen(text), 8);
	put(buf, at + 32, 0x64, 4); /* compact, ASCII, of one byte each */
	strcpy((char *)buf + at + 40, text);
}

/* price(), which awaits a future. */
static void put_coroutine(uint8_t *buf, bool newest)
{
	put_object(buf, 0x900, 0x680, 0x820, "coroutine");
	buf[0x900 + 67] = 0xff; /* it waits in an await */
	put(buf, 0x948, BASE + 0xa00, 8);
	put(buf, 0x948 + 56, BASE + 0xa00 + 192 + 2, 8);
	buf[0xa00 + 192 + 5] = 2; /* RESUME's argument */
	if (newest)
		put(buf, 0x948 + 64, BASE + 0x948 + 80, 8);
	else
		put(buf, 0x948 + 64, 1, 4);
	put(buf, 0x948 + 72, FUTURE, 8);
	put(buf, 0xa00 + 8, CODES, 8);
	put(buf, 0xa00 + 68, 3, 4);
	put(buf, 0xa00 + 112, BASE + 0xb80, 8);
	put(buf, 0xa00 + 128, BASE + 0xb40, 8);
	put(buf, 0xa00 + 136, BASE + 0xb00, 8);
	put(buf, 0xb00 + 16, 4, 8);
	put(buf, 0xb00 + 32, 0x80808080, 4);
	put_str(buf, 0xb40, "price");
	put_str(buf, 0xb80, "/srv/app.py");
}

/* Three answers: of a list, that it has one task, and that task. */
static size_t seed_answers(uint8_t *buf)
{
	const struct root root = { .addr = TASK, .kind = ROOT_CHAIN, .tid = 1 };
	struct pytask t = { .addr = TASK, .loop = BASE, .waiter = FUTURE, .awaiter_cnt = 1 };

	memset(buf, 0, 3 * ANSWER);
	put(buf, 0, 1, 4);
	memcpy(buf + offsetof(struct roots, roots), &root, sizeof(root));
	put(buf, ANSWER, 1, 4);
	put(buf, ANSWER + 4, 1, 4);
	put(buf, ANSWER + offsetof(struct members, addrs), TASK, 8);
	t.awaiters[0] = TASK + 8;
	t.coro.state = PYCORO_WAITS;
	t.coro.cnt = 2;
	t.coro.frames[1].code = BASE + 0xa00;
	put(buf, 2 * ANSWER, 1, 4);
	memcpy(buf + 2 * ANSWER + offsetof(struct tasks, tasks), &t,
	       ANSWER - offsetof(struct tasks, tasks));
	buf[3 * ANSWER - 1] = 1;
	return 3 * ANSWER;
}

/* A task in a list of its interpreter, as 3.14 has it; or of 3.12: the root is it, or a set. */
size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap)
{
	const size_t size = 4096;

	if (i > 3 || cap < 3 * ANSWER)
		return 0;
	if (i == 3)
		return seed_answers(buf);
	memset(buf, 0, size);
	buf[0] = i > 0;
	buf[1] = (i == 2 ? ROOT_SET : ROOT_TASK) - 1;
	put(buf, 0x20, BASE + 0x100, 8);	/* the interpreter ... */
	put(buf, 0x200, TASK + 152, 8);		/* ... its list ... */
	put(buf, 0x300 + 152, BASE + 0x200, 8); /* ... back to its head */
	put_object(buf, 0x300, 0x500, 0x7e0, "_asyncio.Task");
	put_object(buf, 0x440, 0x620, 0x800, "_asyncio.Future");
	put(buf, 0x300 + 16, BASE + 0x480, 8);
	put(buf, 0x300 + (i ? 128 : 80), FUTURE, 8);
	put(buf, 0x300 + (i ? 136 : 88), BASE + 0x900, 8);
	put(buf, 0x300 + (i ? 144 : 72), BASE + 0xb40, 8);
	put_coroutine(buf, !i);
	put_object(buf, 0xd00, 0xe00, 0x840, "set");
	put(buf, 0xd00 + 32, 7, 8);
	put(buf, 0xd00 + 40, BASE + 0xd80, 8);
	put(buf, 0xd80 + 16, TASK, 8);
	return size;
}
