/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/exits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/insn.h"

#define PART_MAX     (1U << 20) /* bytes */
#define RETS_MAX     8
#define EPILOGUE_MAX 512 /* bytes before ret that have no emulated instruction */

/* The straight code before a ret: (before, ret]. */
struct tail {
	uint64_t start; /* behind the last emulated instruction, or behind the last that ends */
	uint64_t ret;
};

struct finder {
	const struct elf_file *ef;
	const struct code_range *parts;
	size_t part_cnt;
	struct tail tails[RETS_MAX];
	size_t tail_cnt;
	struct exit_point *out;
	size_t cnt, max;
};

static bool is_inside(const struct finder *f, uint64_t addr)
{
	for (size_t i = 0; i < f->part_cnt; i++)
		if (addr >= f->parts[i].start && addr < f->parts[i].end)
			return true;
	return false;
}

static bool is_ret(const uint8_t *code, size_t size)
{
	return (size == 1 && code[0] == 0xc3) || (size == 2 && code[0] == 0xf3 && code[1] == 0xc3);
}

static bool is_call(const uint8_t *code)
{
	return code[0] == 0xe8 || (code[0] == 0xff && (code[1] & 0x38) == 0x10) ||
	       (code[0] == 0x41 && code[1] == 0xff && (code[2] & 0x38) == 0x10);
}

/* enum trace_condition of a branch that is an exit if it is taken, or else. */
static uint8_t condition_of(const uint8_t *code, bool taken)
{
	uint8_t kind = taken ? CONDITION_TAKEN : CONDITION_NOT_TAKEN;

	if ((code[0] & 0xf0) == 0x70)
		return kind | (code[0] & 0xf);
	if (code[0] == 0x0f && (code[1] & 0xf0) == 0x80)
		return kind | (code[1] & 0xf);
	return CONDITION_ALWAYS;
}

/* The bytes that the code from `at` to ret takes from the stack. Negative: not known. */
static int64_t popped(const struct finder *f, uint64_t at, uint64_t ret)
{
	uint8_t code[EPILOGUE_MAX + INSN_MAX] = { 0 };
	size_t size = ret - at;
	int64_t sum = 0;
	int32_t imm;

	if (ret < at || size > EPILOGUE_MAX || elf_file__read(f->ef, at, code, size))
		return -ENOTSUP;
	for (size_t i = 0; i < size;) {
		const uint8_t *c = code + i;
		struct insn insn;

		if (insn__decode(c, size - i, at + i, &insn))
			return -ENOTSUP;
		if (c[0] == 0x48 && c[1] == 0x83 && c[2] == 0xc4) {
			sum += (int8_t)c[3];
		} else if (c[0] == 0x48 && c[1] == 0x81 && c[2] == 0xc4) {
			memcpy(&imm, c + 3, 4);
			sum += imm;
		} else if ((c[0] & 0xf8) == 0x58 || (c[0] == 0x41 && (c[1] & 0xf8) == 0x58)) {
			sum += 8;
		} else if (c[0] == 0xc9 ||
			   (c[0] == 0x48 && c[1] == 0x8d && (c[2] & 0x38) == 0x20)) {
			return -ENOTSUP; /* leave; lea ..., %rsp: by the frame pointer */
		}
		i += insn.size;
	}
	return sum;
}

/* The DWARF number of a register (System V ABI x86-64, figure 3.36), by that in instructions. */
static uint8_t dwarf_reg(unsigned reg)
{
	static const uint8_t low[8] = { 0, 2, 1, 3, 7, 6, 4, 5 };

	return reg < 8 ? low[reg] : (uint8_t)reg;
}

/* The code between an exit and ret, as far as it was followed. */
struct way {
	struct exit_value v;
	int64_t sum; /* so far away the stack pointer is from where it was at the exit */
	/* A place on the stack that was set to 0, and whether other ones may have been changed. */
	struct exit_value zeroed;
	bool stored;
};

/* The operand of an instruction behind its prefix and opcode, if it is on the stack. */
static bool is_on_stack(const uint8_t *modrm, const struct way *w, struct exit_value *out,
			const uint8_t **behind)
{
	unsigned mod = modrm[0] >> 6, rm = modrm[0] & 7;
	bool sp = rm == 4 && modrm[1] == 0x24;
	const uint8_t *at = modrm + (rm == 4 ? 2 : 1);
	int32_t offset = 0;

	if (mod == 3 || (!sp && (rm != 5 || !mod)))
		return false;
	if (mod == 1)
		offset = (int8_t)*at;
	else if (mod == 2)
		memcpy(&offset, at, 4);
	*behind = at + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
	*out = (struct exit_value){ .place = PLACE_MEMORY,
				    .reg = sp ? ARCH_REG_SP : ARCH_REG_FP,
				    .offset = offset + (sp ? (int32_t)w->sum : 0) };
	return true;
}

/* A store: mov of a register or a constant; any other instruction may be one. */
static void follow_store(const uint8_t *c, struct way *w)
{
	const uint8_t *behind;
	struct exit_value to;
	uint32_t imm;

	w->v = (struct exit_value){ .place = PLACE_UNKNOWN };
	if (!is_on_stack(c + 2, w, &to, &behind)) {
		/* Through a pointer: to objects. */
		return;
	}
	memcpy(&imm, behind, 4);
	if (c[0] == 0x48 && c[1] == 0xc7 && !imm)
		w->zeroed = to;
	else if (c[1] != 0x8b)
		w->stored = true;
}

/* The place from which an instruction loads rax. */
static void follow_load(const struct exit_value *from, struct way *w)
{
	w->v = *from;
	if (w->zeroed.place && w->zeroed.reg == from->reg && w->zeroed.offset == from->offset)
		w->v = (struct exit_value){ .place = PLACE_NOTHING };
	else if (w->stored)
		w->v = (struct exit_value){ .place = PLACE_UNKNOWN };
}

/*
 * What one instruction makes of the place of the value, which is to be in rax at last. The value is
 * not known behind one that is not known here.
 */
static void follow(const uint8_t *c, struct way *w)
{
	bool wide = (c[0] & 0xf8) == 0x48, direct = c[2] >> 6 == 3;
	unsigned reg = (c[2] >> 3 & 7) | (c[0] & 4) << 1, rm = (c[2] & 7) | (c[0] & 1) << 3;
	struct exit_value from;
	const uint8_t *behind;

	if (c[0] == 0x48 && (c[1] == 0x81 || c[1] == 0x83) && c[2] == 0xc4)
		return;								/* add $..., %rsp */
	if ((c[0] & 0xf8) == 0x58 || (c[0] == 0x41 && (c[1] & 0xf8) == 0x58)) { /* pop */
		if (c[0] == 0x58)
			w->v = (struct exit_value){ .place = PLACE_UNKNOWN };
		return;
	}
	if (((c[0] == 0x31 || c[0] == 0x33) && c[1] == 0xc0) || /* xor %eax, %eax */
	    (c[0] == 0xb8 && !(c[1] | c[2] | c[3] | c[4])))	/* mov $0, %eax */
		w->v = (struct exit_value){ .place = PLACE_NOTHING };
	else if (wide && c[1] == 0x89 && direct && rm == 0)
		w->v = (struct exit_value){ .place = PLACE_REGISTER, .reg = dwarf_reg(reg) };
	else if (wide && c[1] == 0x8b && direct && reg == 0)
		w->v = (struct exit_value){ .place = PLACE_REGISTER, .reg = dwarf_reg(rm) };
	else if (c[0] == 0x48 && c[1] == 0x8b && reg == 0 && is_on_stack(c + 2, w, &from, &behind))
		follow_load(&from, w);
	else
		follow_store(c, w);
}

/*
 * The value on the way from `at` to ret, if it is `v` in front of it. What saves registers or moves
 * the stack pointer is as in popped().
 */
static struct exit_value value_at(const struct finder *f, uint64_t at, uint64_t ret,
				  struct exit_value v)
{
	uint8_t code[EPILOGUE_MAX + INSN_MAX] = { 0 };
	size_t size = ret - at;
	struct way w = { .v = v };
	struct insn insn;

	if (ret < at || size > EPILOGUE_MAX || elf_file__read(f->ef, at, code, size))
		return (struct exit_value){ .place = PLACE_UNKNOWN };
	for (size_t i = 0; i < size; i += insn.size) {
		w.sum = popped(f, at, at + i);
		if (w.sum < 0 || insn__decode(code + i, size - i, at + i, &insn))
			return (struct exit_value){ .place = PLACE_UNKNOWN };
		follow(code + i, &w);
	}
	return w.v;
}

static int add_exit(struct finder *f, uint64_t at, int64_t below, uint8_t condition,
		    struct exit_value value)
{
	if (below < 0 || below > INT32_MAX)
		return -ENOTSUP;
	if (f->cnt == f->max)
		return -E2BIG;
	f->out[f->cnt++] = (struct exit_point){
		.addr = at, .sp_below = (uint32_t)below, .condition = condition, .value = value
	};
	return 0;
}

/* A branch into a tail, or a jump out of the function: the tail call of another one. */
static int take_branch(struct finder *f, uint64_t at, const uint8_t *code, const struct insn *insn)
{
	const struct exit_value in_rax = { .place = PLACE_REGISTER, .reg = ARCH_REG_RETURN };

	if (!insn->direct || code[0] == 0xe8)
		return 0;
	for (size_t i = 0; i < f->tail_cnt; i++) {
		const struct tail *t = &f->tails[i];

		if (insn->target >= t->start && insn->target <= t->ret)
			return add_exit(f, at, popped(f, insn->target, t->ret),
					condition_of(code, true),
					value_at(f, insn->target, t->ret, in_rax));
	}
	if (insn->ends && !is_inside(f, insn->target))
		return add_exit(f, at, 0, CONDITION_ALWAYS, (struct exit_value){ .called = true });
	return 0;
}

struct sweep {
	uint64_t start; /* of the straight code without an emulated instruction */
	uint64_t emulated;
	uint8_t condition; /* of the emulated instruction before it */
	bool follows;	   /* there is one */
	bool calls;	   /* it calls a function */
};

/* A ret, and the emulated instruction that the code falls through from. */
static int take_ret(struct finder *f, const struct sweep *s, uint64_t at)
{
	struct exit_value v = { .place = PLACE_REGISTER, .reg = ARCH_REG_RETURN };

	if (s->calls)
		v = (struct exit_value){ .called = true };
	if (f->tail_cnt == RETS_MAX)
		return -E2BIG;
	f->tails[f->tail_cnt++] = (struct tail){ .start = s->start, .ret = at };
	if (!s->follows)
		return 0;
	return add_exit(f, s->emulated, popped(f, s->start, at), s->condition,
			value_at(f, s->start, at, v));
}

static int find_tails(struct finder *f, const uint8_t *code, size_t size, uint64_t start)
{
	struct sweep s = { .start = start };
	int err = 0;

	for (size_t at = 0; at < size && !err;) {
		struct insn insn;

		if (insn__decode(code + at, size - at, start + at, &insn))
			return -ENOTSUP;
		if (is_ret(code + at, insn.size))
			err = take_ret(f, &s, start + at);
		if (insn.ends || insn.emulated)
			s = (struct sweep){ .start = start + at + insn.size,
					    .emulated = start + at,
					    .condition = condition_of(code + at, false),
					    .follows = !insn.ends,
					    .calls = is_call(code + at) };
		at += insn.size;
	}
	return err;
}

static int find_branches(struct finder *f, const uint8_t *code, size_t size, uint64_t start)
{
	int err = 0;

	for (size_t at = 0; at < size && !err;) {
		struct insn insn;

		if (insn__decode(code + at, size - at, start + at, &insn))
			return -ENOTSUP;
		err = take_branch(f, start + at, code + at, &insn);
		at += insn.size;
	}
	return err;
}

static int each_part(struct finder *f,
		     int (*search)(struct finder *, const uint8_t *, size_t, uint64_t))
{
	int err = 0;

	for (size_t i = 0; i < f->part_cnt && !err; i++) {
		size_t size = f->parts[i].end - f->parts[i].start;
		uint8_t *code;

		if (!size || size > PART_MAX)
			return -ENOTSUP;
		code = malloc(size);
		if (!code)
			return -ENOMEM;
		err = elf_file__read(f->ef, f->parts[i].start, code, size) ? -ENOTSUP : 0;
		if (!err)
			err = search(f, code, size, f->parts[i].start);
		free(code);
	}
	return err;
}

int exits__find(const struct elf_file *ef, const struct code_range *parts, size_t part_cnt,
		struct exit_point *out, size_t *cnt, size_t max)
{
	struct finder f = {
		.ef = ef, .parts = parts, .part_cnt = part_cnt, .out = out, .max = max
	};
	int err = each_part(&f, find_tails);

	if (!err)
		err = each_part(&f, find_branches);
	if (!err && !f.cnt)
		err = -ENOTSUP;
	*cnt = err ? 0 : f.cnt;
	return err;
}
