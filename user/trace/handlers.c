/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/handlers.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "elf/insn.h"

#define MAX_CANDIDATES 64	    /* addresses in the eval function */
#define MAX_PART       (1U << 20)   /* bytes of one function */
#define MAX_WALKED     (16U << 20)  /* bytes of all functions: a file may say anything */
#define MIN_HANDLERS   128	    /* different ones */
#define MAX_SCANNED    (128U << 20) /* bytes of all executable segments of a file */
#define RELOCS_MAX     (1U << 20)
#define CHUNK	       (256U << 10) /* bytes of the file at a time */
#define NOTE_INSNS     8	    /* of a handler, until it has noted where it is */
#define TABLE_BYTES    (OPCODE_CNT * sizeof(uint64_t))

/* ---- code ------------------------------------------------------------------------------------ */

/* `code`: the bytes of the instruction at address `at`. Not 0 ends the walk. */
typedef int visit_fn(void *ctx, const uint8_t *code, uint64_t at, const struct insn *insn);

/*
 * Visits the instructions of a function or a part of it. Compilers put no data between them. 0;
 * what visit() has returned; -ENOENT: it cannot be read; -ENOMEM.
 */
static int walk(struct handlers *h, uint64_t start, uint64_t end, visit_fn *visit, void *ctx)
{
	size_t size = end - start;
	uint8_t *code;
	int err = 0;

	if (!size || size > MAX_PART || size > h->left)
		return -ENOENT;
	h->left -= size;
	code = malloc(size);
	if (!code)
		return -ENOMEM;
	if (elf_file__read(h->ef, start, code, size))
		err = -ENOENT;
	for (size_t at = 0; at < size && !err;) {
		struct insn insn;

		if (insn__decode(code + at, size - at, start + at, &insn)) {
			at++;
			continue;
		}
		err = visit(ctx, code + at, start + at, &insn);
		at += insn.size;
	}
	free(code);
	return err;
}

/* The number that an instruction ends with. */
static uint64_t last_word(const uint8_t *code, const struct insn *insn)
{
	int32_t word;

	memcpy(&word, code + insn->size - 4, 4);
	return (uint64_t)(int64_t)word;
}

/* SDM vol. 2, 2.2.1. */
static bool is_rex(uint8_t byte)
{
	return (byte & 0xf0) == 0x40;
}

/*
 * Does it jump or call by a table: ff /2 and ff /4 of an operand that is base + index * 8? `addr`:
 * of the table; 0: a register has it.
 */
static bool is_by_table(const uint8_t *code, const struct insn *insn, uint64_t *addr)
{
	size_t i = is_rex(code[0]) ? 1 : 0;
	uint8_t op;

	if (insn->size < i + 3 || code[i] != 0xff)
		return false;
	op = code[i + 1] >> 3 & 7;
	if ((op != 2 && op != 4) || (code[i + 1] & 7) != 4 || code[i + 1] >> 6 == 3 ||
	    code[i + 2] >> 6 != 3)
		return false;
	*addr = code[i + 1] >> 6 == 0 && (code[i + 2] & 7) == 5 ? last_word(code, insn) : 0;
	return true;
}

/* lea X(%rip), %REGISTER */
static bool is_lea(const uint8_t *code, const struct insn *insn)
{
	return insn->size == 7 && is_rex(code[0]) && code[1] == 0x8d && (code[2] & 0xc7) == 5;
}

/* ---- the table ------------------------------------------------------------------------------- */

struct candidates {
	uint64_t at[MAX_CANDIDATES], named[MAX_CANDIDATES];
	size_t cnt, named_cnt;
	bool by_register; /* the eval function calls by a table whose address a register has */
};

static void add_once(uint64_t *all, size_t *cnt, uint64_t addr)
{
	for (size_t i = 0; i < *cnt; i++)
		if (all[i] == addr)
			return;
	if (*cnt < MAX_CANDIDATES)
		all[(*cnt)++] = addr;
}

static int take_candidate(void *ctx, const uint8_t *code, uint64_t at, const struct insn *insn)
{
	struct candidates *c = ctx;
	uint64_t addr;

	if (is_by_table(code, insn, &addr) && addr)
		add_once(c->named, &c->named_cnt, addr);
	else if (is_by_table(code, insn, &addr))
		c->by_register = true;
	else if (is_lea(code, insn))
		add_once(c->at, &c->cnt, at + insn->size + last_word(code, insn));
	return 0;
}

/* Where code moves, the words are the addends of relative relocations. */
static void relocate(const struct elf_file *ef, uint64_t addr, uint64_t table[OPCODE_CNT])
{
	struct elf_section s;
	Elf64_Rela rela;

	if (!elf_file__section(ef, ".rela.dyn", &s) || !s.data)
		return;
	for (uint64_t i = 0; i < s.size / sizeof(rela) && i < RELOCS_MAX; i++) {
		memcpy(&rela, s.data + i * sizeof(rela), sizeof(rela));
		if (ELF64_R_TYPE(rela.r_info) == R_X86_64_RELATIVE && rela.r_offset >= addr &&
		    rela.r_offset - addr < TABLE_BYTES && (rela.r_offset - addr) % 8 == 0)
			table[(rela.r_offset - addr) / 8] = (uint64_t)rela.r_addend;
	}
}

static int dispatches(void *ctx, const uint8_t *code, uint64_t at, const struct insn *insn)
{
	uint64_t addr, table = *(const uint64_t *)ctx;

	(void)at;
	return insn->ends && is_by_table(code, insn, &addr) && (!addr || addr == table);
}

static bool is_repeated(const uint64_t table[OPCODE_CNT], size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (table[k] == table[i])
			return true;
	return false;
}

/*
 * All 256 words are functions, many are different, and so many of these jump by the table in turn.
 * 1 or 0; -ENOMEM.
 */
static int is_table(struct handlers *h, uint64_t addr, uint64_t table[OPCODE_CNT])
{
	unsigned cnt = 0;

	if (addr % 8 || elf_file__read(h->ef, addr, table, TABLE_BYTES))
		return 0;
	relocate(h->ef, addr, table);
	for (size_t i = 0; i < OPCODE_CNT; i++) {
		const struct fde_range *f;
		int found;

		if (is_repeated(table, i))
			continue;
		f = fde_range__find(h->functions, h->function_cnt, table[i]);
		if (!f || f->start != table[i])
			return 0;
		found = walk(h, f->start, f->end, dispatches, &addr);
		if (found == -ENOMEM)
			return found;
		cnt += found == 1;
	}
	return cnt >= MIN_HANDLERS;
}

static int try_tables(struct handlers *h, const uint64_t *all, size_t cnt)
{
	uint64_t words[OPCODE_CNT];
	unsigned found = 0;

	for (size_t i = 0; i < cnt; i++) {
		int is = is_table(h, all[i], words);

		if (is < 0)
			return is;
		if (!is)
			continue;
		found++;
		h->addr = all[i];
		memcpy(h->table, words, sizeof(words));
	}
	return found > 1 ? -EEXIST : found ? 0 : -ENOENT;
}

int handlers__find(struct handlers *h, const struct elf_file *ef, const struct code_range *eval,
		   size_t cnt)
{
	struct candidates c = { 0 };
	int err;

	*h = (struct handlers){ .ef = ef, .left = MAX_WALKED };
	err = ehframe__ranges(ef, &h->functions, &h->function_cnt);
	for (size_t i = 0; i < cnt && err != -ENOMEM; i++)
		err = walk(h, eval[i].start, eval[i].end, take_candidate, &c);
	if (err != -ENOMEM)
		err = try_tables(h, c.named, c.named_cnt);
	if (err == -ENOENT && c.by_register)
		err = try_tables(h, c.at, c.cnt);
	return err;
}

void handlers__free(struct handlers *h)
{
	free(h->functions);
	*h = (struct handlers){ 0 };
}

/* ---- registers ------------------------------------------------------------------------------- */

bool handlers__is_by_convention(const struct elf_file *ef, uint64_t handler, uint32_t instr_offset)
{
	/* mov %r15, X(%r12) */
	const uint8_t note[] = { 0x4d, 0x89, 0x7c, 0x24, (uint8_t)instr_offset };
	uint8_t code[INSN_MAX];
	struct insn insn;

	for (size_t i = 0; i < NOTE_INSNS && instr_offset < 128; i++) {
		if (insn__at(ef, handler, code, &insn) || insn.direct || insn.ends)
			return false;
		if (insn.size == sizeof(note) && !memcmp(code, note, sizeof(note)))
			return true;
		handler += insn.size;
	}
	return false;
}

/* ---- copies ---------------------------------------------------------------------------------- */

struct copies {
	struct handlers *h;
	const uint64_t *wanted;
	size_t wanted_cnt;
	uint64_t low, high; /* of them */
	uint64_t left;	    /* of MAX_SCANNED */
	bool moves;	    /* where the file lies is decided when it is loaded */
	struct handler_copy *out;
	size_t *cnt, max;
};

struct reference {
	uint64_t end; /* where the instruction ends that has the address */
	bool compared;
	uint64_t copy; /* where the handler is executed if it is equal; 0: not known */
	int err;
};

/* cmp $X with a word in memory or in a register: 81 /7, 3d */
static bool is_compare(const uint8_t *code)
{
	return is_rex(code[0]) && (code[0] & 8) &&
	       (code[1] == 0x3d || (code[1] == 0x81 && (code[2] >> 3 & 7) == 7));
}

/* mov $X, push $X: b8, c7 /0, 68 */
static bool is_constant(const uint8_t *code)
{
	size_t i = is_rex(code[0]) ? 1 : 0;

	return (code[i] & 0xf8) == 0xb8 || code[i] == 0xc7 || code[i] == 0x68;
}

/* Behind the comparison: where the handler is executed. 0: no such branch. */
static uint64_t equal_side(const uint8_t *code, uint64_t at, const struct insn *insn)
{
	uint8_t condition = code[0] == 0x0f ? code[1] & 0xf : code[0] & 0xf;

	if (!insn->direct || (code[0] != 0x0f && (code[0] & 0xf0) != 0x70))
		return 0;
	return condition == 4 ? insn->target : condition == 5 ? at + insn->size : 0;
}

static int take_reference(void *ctx, const uint8_t *code, uint64_t at, const struct insn *insn)
{
	struct reference *r = ctx;

	if (r->compared) {
		r->copy = equal_side(code, at, insn);
		r->err = r->copy ? 0 : -ENOTSUP;
		return 1;
	}
	if (at + insn->size < r->end)
		return 0;
	/* Other words have that value by chance. */
	if (at + insn->size > r->end || insn->size < 5)
		return 1;
	if (is_compare(code)) {
		r->compared = true;
		return 0;
	}
	if (is_lea(code, insn) || is_constant(code))
		r->err = -ENOTSUP;
	return 1;
}

static int add_copy(struct copies *c, size_t of, uint64_t addr)
{
	uint8_t code[INSN_MAX];
	struct insn insn;

	if (addr == c->wanted[of])
		return 0;
	if (insn__at(c->h->ef, addr, code, &insn))
		return -ENOTSUP;
	if (insn.direct && insn.target == c->wanted[of])
		return 0;
	for (size_t i = 0; i < *c->cnt; i++)
		if (c->out[i].addr == addr)
			return 0;
	if (*c->cnt == c->max)
		return -E2BIG;
	c->out[(*c->cnt)++] = (struct handler_copy){ .addr = addr, .of = of };
	return 0;
}

/* Four bytes before `end` are the address of a handler. Is that an instruction of a function? */
static int check_word(struct copies *c, size_t of, uint64_t end)
{
	const struct fde_range *f = fde_range__find(c->h->functions, c->h->function_cnt, end - 4);
	struct reference r = { .end = end };
	int err;

	if (!f)
		return 0;
	err = walk(c->h, f->start, f->end, take_reference, &r);
	if (err == -ENOMEM)
		return err;
	if (err == -ENOENT || r.err || (r.compared && !r.copy))
		return -ENOTSUP;
	return r.copy ? add_copy(c, of, r.copy) : 0;
}

static int check_value(struct copies *c, uint64_t value, uint64_t end)
{
	int err = 0;

	if (value < c->low || value > c->high)
		return 0;
	for (size_t i = 0; i < c->wanted_cnt && !err; i++)
		if (value == c->wanted[i])
			err = check_word(c, i, end);
	return err;
}

static int scan_chunk(struct copies *c, const uint8_t *bytes, size_t size, uint64_t addr)
{
	int err = 0;

	for (size_t i = 0; i + 4 <= size && !err; i++) {
		uint64_t end = addr + i + 4, value;
		int32_t word;

		memcpy(&word, bytes + i, 4);
		value = (uint64_t)(int64_t)word;
		if (!c->moves)
			err = check_value(c, value, end);
		/* lea; a jump goes to the handler itself */
		if (!err && i >= 2 && bytes[i - 2] == 0x8d && (bytes[i - 1] & 0xc7) == 5)
			err = check_value(c, end + value, end);
	}
	return err;
}

static int scan_segment(struct copies *c, const struct elf_segment *s)
{
	bool too_big = s->file_size > c->left;
	uint8_t *bytes = too_big ? NULL : malloc(CHUNK);
	int err = bytes ? 0 : too_big ? -ENOTSUP : -ENOMEM;

	c->left -= too_big ? 0 : s->file_size;
	/* Chunks overlap by the bytes of a lea. */
	for (uint64_t at = 0; at + 4 <= s->file_size && !err; at += CHUNK - 5) {
		size_t size = s->file_size - at < CHUNK ? s->file_size - at : CHUNK;

		if (elf_file__read(c->h->ef, s->addr + at, bytes, size))
			err = -ENOTSUP;
		else
			err = scan_chunk(c, bytes, size, s->addr + at);
	}
	free(bytes);
	return err;
}

int handlers__find_copies(struct handlers *h, const uint64_t *wanted, size_t wanted_cnt,
			  struct handler_copy *out, size_t *cnt, size_t max)
{
	struct copies c = { .h = h,
			    .wanted = wanted,
			    .wanted_cnt = wanted_cnt,
			    .low = UINT64_MAX,
			    .left = MAX_SCANNED,
			    .moves = elf_file__is_pie_or_so(h->ef),
			    .out = out,
			    .cnt = cnt,
			    .max = max };
	size_t segment_cnt;
	const struct elf_segment *s = elf_file__segments(h->ef, &segment_cnt);
	int err = 0;

	*cnt = 0;
	for (size_t i = 0; i < wanted_cnt; i++) {
		c.low = wanted[i] < c.low ? wanted[i] : c.low;
		c.high = wanted[i] > c.high ? wanted[i] : c.high;
	}
	for (size_t i = 0; i < segment_cnt && !err; i++)
		if (s[i].exec)
			err = scan_segment(&c, &s[i]);
	return err;
}

/* ---- parts ----------------------------------------------------------------------------------- */

struct parts {
	struct handlers *h;
	struct code_range *at;
	size_t cnt, max;
};

static bool is_handler(const struct handlers *h, uint64_t addr)
{
	for (size_t i = 0; i < OPCODE_CNT; i++)
		if (h->table[i] == addr)
			return true;
	return false;
}

static int add_part(struct parts *p, uint64_t addr)
{
	const struct fde_range *f;

	for (size_t i = 0; i < p->cnt; i++)
		if (addr >= p->at[i].start && addr < p->at[i].end)
			return 0;
	f = fde_range__find(p->h->functions, p->h->function_cnt, addr);
	if (!f)
		return -ENOENT;
	if (p->cnt == p->max)
		return -E2BIG;
	p->at[p->cnt++] = (struct code_range){ f->start, f->end };
	return 0;
}

static int take_jump(void *ctx, const uint8_t *code, uint64_t at, const struct insn *insn)
{
	struct parts *p = ctx;

	(void)at;
	if (!insn->direct || code[0] == 0xe8 || is_handler(p->h, insn->target))
		return 0;
	return add_part(p, insn->target) == -E2BIG ? -E2BIG : 0;
}

int handlers__parts(struct handlers *h, uint64_t addr, struct code_range *parts, size_t *cnt,
		    size_t max)
{
	struct parts p = { .h = h, .at = parts, .max = max };
	int err = add_part(&p, addr);

	for (size_t i = 0; i < p.cnt && !err; i++)
		err = walk(h, p.at[i].start, p.at[i].end, take_jump, &p);
	*cnt = p.cnt;
	return err;
}
