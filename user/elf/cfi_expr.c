/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* DWARF expressions of CFAs and saved registers. See cfi_expr.h. */
#include "elf/cfi_expr.h"

#include <dwarf.h>

#define MAX_EXPR_OPS 9

struct expr {
	struct expr_op {
		uint8_t op;  /* constants and bregN as DW_OP_constu and DW_OP_breg0 */
		uint8_t reg; /* of DW_OP_breg0 */
		int64_t arg;
	} ops[MAX_EXPR_OPS];
	size_t cnt;
};

static bool decode_op(struct cfi_reader *r, struct expr_op *o)
{
	uint8_t op = read_u8(r);

	*o = (struct expr_op){ .op = op };
	if (op >= DW_OP_lit0 && op <= DW_OP_lit31) {
		o->op = DW_OP_constu;
		o->arg = op - DW_OP_lit0;
	} else if (op >= DW_OP_breg0 && op <= DW_OP_breg31) {
		o->op = DW_OP_breg0;
		o->reg = op - DW_OP_breg0;
		o->arg = read_sleb(r);
	} else if (op == DW_OP_const1u) {
		o->op = DW_OP_constu;
		o->arg = read_u8(r);
	} else if (op == DW_OP_constu || op == DW_OP_plus_uconst) {
		o->arg = (int64_t)read_uleb(r);
	} else {
		return op == DW_OP_deref || op == DW_OP_plus || op == DW_OP_and || op == DW_OP_ge ||
		       op == DW_OP_shl || op == DW_OP_mul;
	}
	return true;
}

/* Decodes an expression. False: it is too long, or has unknown operations. */
static bool decode_expr(struct cfi_reader r, struct expr *e)
{
	e->cnt = 0;
	while (r.p < r.end) {
		if (e->cnt == MAX_EXPR_OPS || !decode_op(&r, &e->ops[e->cnt]) || r.bad)
			return false;
		e->cnt++;
	}
	return true;
}

static bool ops_are(const struct expr *e, const uint8_t *ops, size_t cnt)
{
	if (e->cnt != cnt)
		return false;
	for (size_t i = 0; i < cnt; i++) {
		if (e->ops[i].op != ops[i])
			return false;
	}
	return true;
}

/*
 * sp + off + ((pc & 15) >= add) * 8, as linkers write it for .plt, where each entry of 16 bytes
 * pushes one word half-way (bfd/elf64-x86-64.c, elf_x86_64_eh_frame_plt).
 */
static bool plt_cfa(const struct expr *e, const struct cfi_machine *m, struct cfa *cfa)
{
	static const uint8_t ops[] = { DW_OP_breg0,  DW_OP_breg0,  DW_OP_constu,
				       DW_OP_and,    DW_OP_constu, DW_OP_ge,
				       DW_OP_constu, DW_OP_shl,	   DW_OP_plus };
	const struct expr_op *o = e->ops;

	if (m->aarch64 || !ops_are(e, ops, sizeof(ops)) || o[0].reg != m->reg[SLOT_SP] ||
	    o[1].reg != m->reg[SLOT_RA] || o[1].arg != 0 || o[2].arg != 15 || o[4].arg < 0 ||
	    o[4].arg > 16 || o[6].arg != 3)
		return false;
	*cfa = (struct cfa){
		.kind = CFA_PLT, .reg = o[0].reg, .off = o[0].arg, .add = (int16_t)o[4].arg
	};
	return true;
}

/* The constant that the operations from `i` to the end add. False: they do something else. */
static bool added(const struct expr *e, size_t i, int64_t *sum)
{
	uint64_t v = 0;

	while (i < e->cnt) {
		const struct expr_op *o = &e->ops[i];

		if (o->op == DW_OP_plus_uconst)
			i++;
		else if (o->op == DW_OP_constu && i + 1 < e->cnt && o[1].op == DW_OP_plus)
			i += 2;
		else
			return false;
		v += (uint64_t)o->arg;
	}
	*sum = (int64_t)v;
	return true;
}

/*
 * *(reg + 8 * index + off) + add: where functions with an array on their stack keep the caller's
 * stack pointer behind it (OpenSSL's crypto/bn/asm/x86_64-mont.pl).
 */
static bool index_cfa(const struct expr *e, const struct cfi_machine *m, struct cfa *cfa)
{
	static const uint8_t ops[] = { DW_OP_breg0, DW_OP_breg0, DW_OP_constu,
				       DW_OP_mul,   DW_OP_plus,	 DW_OP_deref };
	struct expr head = *e;
	int64_t sum;

	if (m->aarch64 || e->cnt < sizeof(ops))
		return false;
	head.cnt = sizeof(ops);
	if (!ops_are(&head, ops, sizeof(ops)) || e->ops[0].reg > 15 || e->ops[1].reg > 15 ||
	    e->ops[1].arg || e->ops[2].arg != 8 || !added(e, sizeof(ops), &sum) ||
	    sum != (int16_t)sum)
		return false;
	*cfa = (struct cfa){ .kind = CFA_DEREF_INDEX,
			     .reg = (uint8_t)(e->ops[0].reg | e->ops[1].reg << 4),
			     .off = e->ops[0].arg,
			     .add = (int16_t)sum };
	return true;
}

struct cfa cfi_expr_cfa(struct cfi_reader r, const struct cfi_machine *m)
{
	struct cfa cfa = { .kind = CFA_UNKNOWN };
	struct expr e;
	int64_t sum;

	if (!decode_expr(r, &e) || !e.cnt || e.ops[0].op != DW_OP_breg0 || plt_cfa(&e, m, &cfa) ||
	    index_cfa(&e, m, &cfa))
		return cfa;
	if (e.cnt > 1 && e.ops[1].op == DW_OP_deref) {
		if (added(&e, 2, &sum) && sum >= INT16_MIN && sum <= INT16_MAX)
			cfa = (struct cfa){ .kind = CFA_DEREF_REG,
					    .reg = e.ops[0].reg,
					    .off = e.ops[0].arg,
					    .add = (int16_t)sum };
	} else if (added(&e, 1, &sum)) {
		cfa = (struct cfa){ .kind = CFA_REG, .reg = e.ops[0].reg };
		cfa.off = (int64_t)((uint64_t)e.ops[0].arg + (uint64_t)sum);
	}
	return cfa;
}

struct saved cfi_expr_saved(struct cfi_reader r)
{
	struct saved s = { .rule = SAVED_OTHER };
	struct expr e;
	int64_t sum;

	if (decode_expr(r, &e) && e.cnt && e.ops[0].op == DW_OP_breg0 && added(&e, 1, &sum)) {
		s = (struct saved){ .rule = SAVED_AT, .reg = e.ops[0].reg };
		s.off = (int64_t)((uint64_t)e.ops[0].arg + (uint64_t)sum);
	}
	return s;
}
