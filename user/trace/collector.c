/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/collector.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "elf/ehframe.h"
#include "elf/insn.h"

#define CHUNK	  65536 /* of the file */
#define OVERLAP	  64	/* bytes that a chunk shares with the next one: more than the text */
#define TEXTS_MAX 4
#define PARTS_MAX 8
#define PART_MAX  (1U << 20) /* bytes */

static const char wanted[] = "gc: collecting generation %d...\n";

/* A function or a part of one: the range of one FDE. */
struct part {
	uint64_t start, end;
	bool called;   /* it begins a function */
	uint64_t from; /* else: an instruction elsewhere that jumps into it; 0: none */
};

struct finder {
	const struct elf_file *ef;
	uint64_t texts[TEXTS_MAX];
	size_t text_cnt;
	struct part parts[PARTS_MAX];
	size_t part_cnt;
	struct collector *out;
	int err;
};

/* ---- the file -------------------------------------------------------------------------------- */

typedef void look_fn(struct finder *f, const uint8_t *at, uint64_t addr);

/* Shows each byte of the file's segments, or of its code alone, with OVERLAP bytes behind it. */
static int each_byte(struct finder *f, bool code, look_fn *look)
{
	size_t cnt;
	const struct elf_segment *s = elf_file__segments(f->ef, &cnt);
	uint8_t *chunk = malloc(CHUNK + OVERLAP);

	if (!chunk)
		return -ENOMEM;
	for (size_t i = 0; i < cnt && !f->err; i++) {
		if (code && !s[i].exec)
			continue;
		for (uint64_t at = 0; at < s[i].file_size && !f->err; at += CHUNK) {
			uint64_t left = s[i].file_size - at;
			size_t size = left < CHUNK + OVERLAP ? left : CHUNK + OVERLAP;
			size_t own = size < CHUNK ? size : CHUNK;

			if (elf_file__read(f->ef, s[i].addr + at, chunk, size))
				break;
			memset(chunk + size, 0, CHUNK + OVERLAP - size);
			for (size_t k = 0; k < own && !f->err; k++)
				look(f, chunk + k, s[i].addr + at + k);
		}
	}
	free(chunk);
	return f->err;
}

static void look_for_text(struct finder *f, const uint8_t *at, uint64_t addr)
{
	if (*at == 'g' && !memcmp(at, wanted, sizeof(wanted)) && f->text_cnt < TEXTS_MAX)
		f->texts[f->text_cnt++] = addr;
}

/* ---- the functions --------------------------------------------------------------------------- */

static struct part *part_at(struct finder *f, uint64_t addr)
{
	for (size_t i = 0; i < f->part_cnt; i++)
		if (addr >= f->parts[i].start && addr < f->parts[i].end)
			return &f->parts[i];
	return NULL;
}

/* Adds the part that covers an address to the search. */
static void add_part(struct finder *f, uint64_t addr)
{
	struct part p = { 0 };

	if (part_at(f, addr) || !ehframe__fde_at(f->ef, addr, &p.start, &p.end))
		return;
	if (f->part_cnt == PARTS_MAX)
		f->err = -E2BIG;
	else
		f->parts[f->part_cnt++] = p;
}

static uint64_t relative(const uint8_t *disp, uint64_t behind)
{
	int32_t value;

	memcpy(&value, disp, sizeof(value));
	return behind + (uint64_t)(int64_t)value;
}

/* The address that an instruction here puts into a register: lea, or mov of a number. 0: none. */
static uint64_t address_in(const uint8_t *at, uint64_t addr)
{
	uint32_t number;

	if ((at[0] & 0xfb) == 0x48 && at[1] == 0x8d && (at[2] & 0xc7) == 0x05)
		return relative(at + 3, addr + 7);
	if ((at[0] & 0xf8) != 0xb8)
		return 0;
	memcpy(&number, at + 1, sizeof(number));
	return number;
}

static void look_for_use(struct finder *f, const uint8_t *at, uint64_t addr)
{
	uint64_t used = address_in(at, addr);

	for (size_t i = 0; i < f->text_cnt && used; i++)
		if (f->texts[i] == used)
			add_part(f, addr);
}

/* Who calls or jumps to the parts that are known. */
static void look_for_branch(struct finder *f, const uint8_t *at, uint64_t addr)
{
	bool call = at[0] == 0xe8, jump = at[0] == 0xe9;
	bool conditional = at[0] == 0x0f && (at[1] & 0xf0) == 0x80;
	uint64_t target;
	struct part *p;

	if (!call && !jump && !conditional)
		return;
	target = relative(at + 1 + conditional, addr + 5 + conditional);
	p = part_at(f, target);
	if (!p || p == part_at(f, addr))
		return;
	if (call && target == p->start)
		p->called = true;
	else if (!call)
		p->from = addr;
}

/*
 * The functions: parts that are called, and what jumps into parts that are not. Each round looks at
 * all of the code again, with one function more.
 */
static int find_functions(struct finder *f)
{
	size_t known = 0;

	while (known < f->part_cnt && !f->err) {
		known = f->part_cnt;
		if (each_byte(f, true, look_for_branch))
			break;
		for (size_t i = 0; i < known; i++)
			if (!f->parts[i].called && f->parts[i].from)
				add_part(f, f->parts[i].from);
	}
	return f->err;
}

/* ---- their ends ------------------------------------------------------------------------------ */

static bool is_ret(const uint8_t *code)
{
	return code[0] == 0xc3 || (code[0] == 0xf3 && code[1] == 0xc3);
}

static int take_insn(struct finder *f, const uint8_t *code, uint64_t addr, const struct insn *insn)
{
	struct collector *out = f->out;

	if (is_ret(code)) {
		if (out->ret_cnt == COLLECTOR_RETS_MAX)
			return -E2BIG;
		out->rets[out->ret_cnt++] = addr;
	} else if (insn->direct && !insn->ends && code[0] != 0xe8) {
		add_part(f, insn->target); /* only a part of the same function is jumped to so */
	}
	return f->err;
}

static int find_rets(struct finder *f, const struct part *p)
{
	uint64_t start = p->start;
	size_t size = p->end - p->start;
	uint8_t *code = size && size <= PART_MAX ? malloc(size + INSN_MAX) : NULL;
	int err = 0;

	if (!code)
		return size && size <= PART_MAX ? -ENOMEM : -ENOTSUP;
	memset(code + size, 0, INSN_MAX);
	if (elf_file__read(f->ef, start, code, size))
		err = -ENOTSUP;
	for (size_t at = 0; at < size && !err;) {
		struct insn insn;

		err = insn__decode(code + at, size - at, start + at, &insn) ? -ENOTSUP : 0;
		if (!err)
			err = take_insn(f, code + at, start + at, &insn);
		at += insn.size;
	}
	free(code);
	return err;
}

int collector__find(const struct elf_file *ef, struct collector *out)
{
	struct finder f = { .ef = ef, .out = out };
	int err;

	*out = (struct collector){ 0 };
	err = each_byte(&f, false, look_for_text);
	if (!err && f.text_cnt)
		err = each_byte(&f, true, look_for_use);
	if (!err)
		err = find_functions(&f);
	for (size_t i = 0; i < f.part_cnt && !err; i++) {
		if (f.parts[i].called && out->entry_cnt == COLLECTOR_ENTRIES_MAX)
			err = -E2BIG;
		else if (f.parts[i].called)
			out->entries[out->entry_cnt++] = f.parts[i].start;
	}
	for (size_t i = 0; i < f.part_cnt && !err; i++)
		err = find_rets(&f, &f.parts[i]);
	if (!err && (!out->entry_cnt || !out->ret_cnt))
		err = -ENOENT;
	return err;
}
