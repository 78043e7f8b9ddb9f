/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The opcodes of tail-call interpreters, in files made by hand: their table, as code names it that
 * may move and code that may not; copies behind comparisons; what is no table and no copy.
 */
#include "trace/handlers.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elfgen.h"

#define HANDLERS   200 /* different ones */
#define SIZE	   64  /* bytes of each function */
#define EVAL	   (GEN_TEXT_ADDR + 0x400)
#define COLD	   (GEN_TEXT_ADDR + 0x800)
#define HANDLER(i) (GEN_TEXT_ADDR + 0x1000 + SIZE * (uint64_t)(i))
#define TABLE	   (GEN_TEXT_ADDR + 0x6000)
#define TEXT_SIZE  0x8000
#define FUNCTIONS  (HANDLERS + 2)
#define CIE_BYTES  24
#define FDE_BYTES  20
#define HEAD_BYTES 12
#define WANTED	   3  /* the handler whose copies are looked for */
#define AT	   10 /* the handler in which they are */

/* ---- a file ---------------------------------------------------------------------------------- */

struct file {
	uint8_t *image;
	size_t size;
	bool moves;
	struct elf_file *ef;
	struct handlers h;
};

static void put32(uint8_t *at, uint64_t value)
{
	uint32_t word = (uint32_t)value;

	memcpy(at, &word, 4);
}

/* .eh_frame with a CIE and an FDE of 64 bytes for each start, and its sorted table. */
static void make_frames(const uint64_t *starts, size_t cnt, uint8_t *eh, uint8_t *hdr,
			uint64_t hdr_addr)
{
	static const uint8_t cie[CIE_BYTES] = { 20,   0,    0,	 0, 0,	  0,	0,  0,
						1,    'z',  'R', 0, 1,	  0x78, 16, 1,
						0x1b, 0x0c, 7,	 8, 0x90, 1,	0,  0 };

	memcpy(eh, cie, sizeof(cie));
	hdr[0] = 1;
	hdr[1] = 0x1b;
	hdr[2] = 0x03;
	hdr[3] = 0x3b;
	put32(hdr + 4, GEN_EH_ADDR - (hdr_addr + 4));
	put32(hdr + 8, cnt);
	for (size_t i = 0; i < cnt; i++) {
		size_t at = CIE_BYTES + i * FDE_BYTES;

		put32(eh + at, FDE_BYTES - 4);
		put32(eh + at + 4, at + 4);
		put32(eh + at + 8, starts[i] - (GEN_EH_ADDR + at + 8));
		put32(eh + at + 12, SIZE);
		put32(hdr + HEAD_BYTES + 8 * i, starts[i] - hdr_addr);
		put32(hdr + HEAD_BYTES + 8 * i + 4, GEN_EH_ADDR + at - hdr_addr);
	}
}

static uint8_t *code_at(struct file *f, uint64_t addr)
{
	return f->image + GEN_TEXT_OFF + (addr - GEN_TEXT_ADDR);
}

/* call (/2) or jmp (/4) by the table, at the end of what is there. The number of bytes. */
static size_t put_dispatch(struct file *f, uint64_t addr, uint8_t op)
{
	uint8_t *code = code_at(f, addr);

	if (!f->moves) {
		memcpy(code, (uint8_t[]){ 0xff, (uint8_t)(4 | op << 3), 0xc5 }, 3);
		put32(code + 3, TABLE);
		return 7;
	}
	memcpy(code, (uint8_t[]){ 0x48, 0x8d, 0x0d }, 3);
	put32(code + 3, TABLE - (addr + 7));
	memcpy(code + 7, (uint8_t[]){ 0xff, (uint8_t)(4 | op << 3), 0xc1 }, 3);
	return 10;
}

static void put_word(struct file *f, size_t opcode, uint64_t word)
{
	memcpy(code_at(f, TABLE + 8 * opcode), &word, 8);
}

/* An interpreter: opcodes from HANDLERS on are the last handler, for those that do not exist. */
static struct file make_file(bool moves)
{
	static uint8_t eh[CIE_BYTES + FUNCTIONS * FDE_BYTES + 4], hdr[HEAD_BYTES + 8 * FUNCTIONS];
	struct elfgen g = { .machine = EM_X86_64,
			    .text_size = TEXT_SIZE,
			    .eh = eh,
			    .eh_size = sizeof(eh),
			    .hdr = hdr,
			    .hdr_size = sizeof(hdr) };
	struct file f = { .moves = moves };
	uint64_t starts[FUNCTIONS] = { EVAL, COLD };

	for (size_t i = 0; i < HANDLERS; i++)
		starts[2 + i] = HANDLER(i);
	make_frames(starts, FUNCTIONS, eh, hdr, elfgen_hdr_addr(&g));
	f.image = elfgen_make(&g, &f.size);
	((Elf64_Ehdr *)f.image)->e_type = moves ? ET_DYN : ET_EXEC;
	put_dispatch(&f, EVAL + 16, 2);
	for (size_t i = 0; i < HANDLERS; i++)
		put_dispatch(&f, HANDLER(i) + 48, 4);
	for (size_t i = 0; i < OPCODE_CNT; i++)
		put_word(&f, i, HANDLER(i < HANDLERS ? i : HANDLERS - 1));
	return f;
}

static int find(struct file *f)
{
	const struct code_range eval = { EVAL, EVAL + SIZE };

	f->ef = elf_file__open_memory(f->image, f->size, "forged");
	assert_non_null(f->ef);
	return handlers__find(&f->h, f->ef, &eval, 1);
}

static void drop(struct file *f)
{
	handlers__free(&f->h);
	elf_file__close(f->ef);
	free(f->image);
}

/* ---- the table ------------------------------------------------------------------------------- */

static void test_table(void **state)
{
	(void)state;
	for (int moves = 0; moves < 2; moves++) {
		struct file f = make_file(moves);

		assert_int_equal(find(&f), 0);
		assert_int_equal(f.h.addr, TABLE);
		for (size_t i = 0; i < OPCODE_CNT; i++)
			assert_int_equal(f.h.table[i], HANDLER(i < HANDLERS ? i : HANDLERS - 1));
		drop(&f);
	}
}

static void no_call(struct file *f)
{
	memset(code_at(f, EVAL), 0x90, SIZE);
}

static void no_function(struct file *f)
{
	put_word(f, 77, HANDLER(77) + 4);
}

static void few_functions(struct file *f)
{
	for (size_t i = 100; i < OPCODE_CNT; i++)
		put_word(f, i, HANDLER(99));
}

static void few_jumps(struct file *f)
{
	for (size_t i = 100; i < HANDLERS; i++)
		memset(code_at(f, HANDLER(i)), 0x90, SIZE);
}

static void short_table(struct file *f)
{
	put_word(f, OPCODE_CNT - 1, 0);
}

static void test_no_table(void **state)
{
	void (*const breaks[])(struct file *) = { no_call, no_function, few_functions, few_jumps,
						  short_table };

	(void)state;
	for (int moves = 0; moves < 2; moves++) {
		for (size_t i = 0; i < sizeof(breaks) / sizeof(*breaks); i++) {
			struct file f = make_file(moves);

			breaks[i](&f);
			if (find(&f) != -ENOENT)
				fail_msg("case %zu", i);
			drop(&f);
		}
	}
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* In `code` T stands for the address of a handler, R for the way to it from there. */
#define T   'T', 'T', 'T', 'T'
#define R   'R', 'R', 'R', 'R'
/* cmpq $T, 0x406000(,%rax,8) */
#define CMP 0x48, 0x81, 0x3c, 0xc5, 0, 0x70, 0x40, 0, T

struct copy_case {
	uint8_t code[32];
	uint8_t size;
	int err;
	uint8_t copy; /* bytes from the beginning of the code; 0: none */
};

static void put_code(struct file *f, const struct copy_case *c)
{
	uint8_t *code = code_at(f, HANDLER(AT));

	memcpy(code, c->code, c->size);
	for (size_t i = 0; i + 4 <= c->size; i++) {
		if (!memcmp(code + i, "TTTT", 4))
			put32(code + i, HANDLER(WANTED));
		if (!memcmp(code + i, "RRRR", 4))
			put32(code + i, HANDLER(WANTED) - (HANDLER(AT) + i + 4));
	}
}

static void check_copies(const struct copy_case *c, bool moves)
{
	const uint64_t wanted[] = { HANDLER(1), HANDLER(WANTED) };
	struct handler_copy copies[4];
	struct file f = make_file(moves);
	size_t cnt;

	put_code(&f, c);
	assert_int_equal(find(&f), 0);
	assert_int_equal(handlers__find_copies(&f.h, wanted, 2, copies, &cnt, 4), c->err);
	if (!c->err)
		assert_int_equal(cnt, c->copy != 0);
	if (!c->err && c->copy) {
		assert_int_equal(copies[0].addr, HANDLER(AT) + c->copy);
		assert_int_equal(copies[0].of, 1);
		assert_int_equal(handlers__find_copies(&f.h, wanted, 2, copies, &cnt, 0), -E2BIG);
	}
	drop(&f);
}

static void test_copies(void **state)
{
	static const struct copy_case cases[] = {
		{ { 0x90 }, 1, 0, 0 },
		{ { CMP, 0x75, 0x10, 0x55 }, 15, 0, 14 }, /* jne 1f; push */
		{ { CMP, 0x0f, 0x85, 0x10, 0, 0, 0, 0x55 }, 19, 0, 18 },
		{ { CMP, 0x74, 0x06, 0x55 }, 15, 0, 20 }, /* je 1f */
		{ { CMP, 0x0f, 0x84, 2, 0, 0, 0, 0x55 }, 19, 0, 20 },
		{ { CMP, 0x75, 0x10, 0xe9, R }, 19, 0, 0 },		 /* jne 1f; jmp T */
		{ { CMP, 0x75, 0x10, 0xe8, R }, 19, 0, 0 },		 /* jne 1f; call T */
		{ { CMP, 0x0f, 0x84, R }, 18, 0, 0 },			 /* je T */
		{ { 0x48, 0x3d, T, 0x75, 0x10, 0x55 }, 9, 0, 8 },	 /* cmp $T, %rax */
		{ { 0x49, 0x81, 0xfb, T, 0x75, 0x10, 0x55 }, 10, 0, 9 }, /* cmp $T, %r11 */
		{ { 0xe9, R }, 5, 0, 0 },
		{ { 0x0f, 0x84, R }, 6, 0, 0 },
		{ { CMP, 0x90, 0x75, 0x10 }, 15, -ENOTSUP, 0 }, /* no branch behind it */
		{ { CMP, 0x7f, 0x10 }, 14, -ENOTSUP, 0 },	/* jg */
		{ { 0xb8, T }, 5, -ENOTSUP, 0 },		/* mov $T, %eax */
		{ { 0x48, 0xc7, 0xc0, T }, 7, -ENOTSUP, 0 },	/* mov $T, %rax */
		{ { 0x48, 0x8d, 0x05, R }, 7, -ENOTSUP, 0 },	/* lea T(%rip), %rax */
		{ { 0x48, 0x8b, 0x80, T }, 7, 0, 0 },		/* mov T(%rax), %rax */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		check_copies(&cases[i], false);
}

/* Where code moves, no instruction has an address in it. */
static void test_copies_that_move(void **state)
{
	static const struct copy_case cases[] = {
		{ { CMP, 0x75, 0x10, 0x55 }, 15, 0, 0 },
		{ { 0xe9, R }, 5, 0, 0 },
		{ { 0x4c, 0x8d, 0x1d, R }, 7, -ENOTSUP, 0 }, /* lea T(%rip), %r11 */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		check_copies(&cases[i], true);
}

/* ---- parts, registers ------------------------------------------------------------------------ */

/* A jump to another handler leads out of the function, one to what is in no table does not. */
static void test_parts(void **state)
{
	struct file f = make_file(false);
	struct code_range parts[2];
	uint8_t *code = code_at(&f, HANDLER(AT));
	size_t cnt;

	(void)state;
	code[0] = 0xe9;
	put32(code + 1, HANDLER(WANTED) - (HANDLER(AT) + 5));
	code[5] = 0xe8;
	put32(code + 6, EVAL - (HANDLER(AT) + 10));
	assert_int_equal(find(&f), 0);
	assert_int_equal(handlers__parts(&f.h, HANDLER(AT), parts, &cnt, 2), 0);
	assert_int_equal(cnt, 1);
	drop(&f);

	f = make_file(false);
	code = code_at(&f, HANDLER(AT));
	code[0] = 0xe9;
	put32(code + 1, COLD + 8 - (HANDLER(AT) + 5));
	assert_int_equal(find(&f), 0);
	assert_int_equal(handlers__parts(&f.h, HANDLER(AT), parts, &cnt, 2), 0);
	assert_int_equal(cnt, 2);
	assert_int_equal(parts[1].start, COLD);
	assert_int_equal(handlers__parts(&f.h, HANDLER(AT), parts, &cnt, 1), -E2BIG);
	drop(&f);
}

static void test_convention(void **state)
{
	static const struct {
		uint8_t code[16];
		uint8_t size;
		bool is;
	} cases[] = {
		/* push %rbp; mov %rsp, %rbp; mov %r15, 0x38(%r12) */
		{ { 0x55, 0x48, 0x89, 0xe5, 0x4d, 0x89, 0x7c, 0x24, 0x38 }, 9, true },
		{ { 0x4d, 0x89, 0x7c, 0x24, 0x38 }, 5, true },
		{ { 0x4d, 0x89, 0x7c, 0x24, 0x40 }, 5, false },
		{ { 0x4d, 0x89, 0x74, 0x24, 0x38 }, 5, false }, /* %r14 */
		{ { 0x4d, 0x89, 0x7d, 0x38 }, 4, false },	/* (%r13) */
		{ { 0x75, 0x10, 0x4d, 0x89, 0x7c, 0x24, 0x38 }, 7, false },
		{ { 0x90 }, 1, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct file f = make_file(false);

		memcpy(code_at(&f, HANDLER(AT)), cases[i].code, cases[i].size);
		assert_int_equal(find(&f), 0);
		assert_int_equal(handlers__is_by_convention(f.ef, HANDLER(AT), 0x38), cases[i].is);
		drop(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),  cmocka_unit_test(test_no_table),
		cmocka_unit_test(test_copies), cmocka_unit_test(test_copies_that_move),
		cmocka_unit_test(test_parts),  cmocka_unit_test(test_convention),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
