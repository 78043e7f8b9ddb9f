/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * .eh_frame -> unwind rows. See ehframe.h.
 *
 * Two passes. The first reads every record once: CIEs are run and kept, of each FDE its range of
 * file offsets and its place are kept. These are sorted, and the second pass runs each FDE's
 * instructions in the order of the text, so rows and index are written once, in their final place.
 *
 * Work and memory are linear in the section: an FDE may only name a CIE that the first pass has met
 * as a record, so no byte is run twice; the stack of remembered states is bounded; each row costs
 * at least one byte of instructions.
 *
 * Sources: DWARF 5 section 6.4; Linux Standard Base, Core, 10.6 (.eh_frame, .eh_frame_hdr);
 * System V ABI x86-64, section 3.7; DWARF for the Arm 64-bit Architecture (aadwarf64).
 */
#include "elf/ehframe.h"

#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/greenlet.h"

#define MAX_SECTION	 (512U << 20) /* positions in it are 31 bits wide */
#define MAX_PAGES	 (1U << 24)   /* 4 GiB from the first FDE to the last */
#define MAX_REMEMBERED	 16	      /* compilers use one or two */
#define MAX_EXPR_OPS	 9
#define MIN_TABLE_SLOTS	 4096
#define NO_RULE		 UINT32_MAX
#define AARCH64_UCONTEXT 128  /* offset in struct rt_sigframe, behind a siginfo_t */
#define CFA_NEGATE_RA_PC 0x2c /* aarch64, beside 0x2d: not in dwarf.h everywhere */
#define CFA_NEGATE_RA	 0x2d

/* ---- Bytes -------------------------------------------------------------------------------- */

struct reader {
	const uint8_t *p, *end;
	bool bad; /* read past the end: the values since are 0 */
};

/* Inlined with a constant size, or memcpy() is a call. */
static inline __attribute__((always_inline)) uint64_t read_bytes(struct reader *r, size_t size)
{
	uint64_t v = 0;

	if ((size_t)(r->end - r->p) < size) {
		r->bad = true;
		r->p = r->end;
		return 0;
	}
	memcpy(&v, r->p, size); /* both machines are little-endian */
	r->p += size;
	return v;
}

static inline uint8_t read_u8(struct reader *r)
{
	if (r->p == r->end) {
		r->bad = true;
		return 0;
	}
	return *r->p++;
}

static void skip(struct reader *r, uint64_t size)
{
	if ((uint64_t)(r->end - r->p) < size) {
		r->bad = true;
		r->p = r->end;
	} else {
		r->p += size;
	}
}

static uint64_t read_leb_rest(struct reader *r, uint64_t v, bool is_signed)
{
	unsigned int shift = 7;
	uint8_t byte;

	do {
		byte = read_u8(r);
		if (shift < 64)
			v |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (is_signed && (byte & 0x40) && shift < 64)
		v |= ~0ULL << shift;
	return v;
}

static inline uint64_t read_uleb(struct reader *r)
{
	uint8_t byte = read_u8(r);

	return byte & 0x80 ? read_leb_rest(r, byte & 0x7f, false) : byte;
}

static inline int64_t read_sleb(struct reader *r)
{
	uint8_t byte = read_u8(r);

	if (byte & 0x80)
		return (int64_t)read_leb_rest(r, byte & 0x7f, true);
	return (int64_t)(byte & 0x40 ? byte | ~0x7fULL : byte);
}

/* Offsets are scaled in two's complement: a wrong product is out of every range. */
static inline int64_t scaled(uint64_t v, int64_t factor)
{
	return (int64_t)(v * (uint64_t)factor);
}

/* ---- The section and its pointers --------------------------------------------------------- */

struct frame_section {
	const struct elf_file *ef;
	const uint8_t *data;
	uint64_t addr, size;
	bool debug;	  /* .debug_frame */
	struct cie *cies; /* ascending by pos */
	size_t cie_cnt, cie_cap, cie_last;
};

/* The value part of an encoded pointer. */
static uint64_t read_format(struct reader *r, uint8_t format)
{
	switch (format) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		return read_bytes(r, 8);
	case DW_EH_PE_udata2:
		return read_bytes(r, 2);
	case DW_EH_PE_udata4:
		return read_bytes(r, 4);
	case DW_EH_PE_sdata2:
		return (uint64_t)(int16_t)read_bytes(r, 2);
	case DW_EH_PE_sdata4:
		return (uint64_t)(int32_t)read_bytes(r, 4);
	case DW_EH_PE_uleb128:
		return read_uleb(r);
	case DW_EH_PE_sleb128:
		return (uint64_t)read_sleb(r);
	}
	r->bad = true;
	return 0;
}

/* A pointer of the section: the place of the pointer and DT_PLTGOT are its possible bases. */
static uint64_t read_pointer(struct reader *r, const struct frame_section *sec, uint8_t enc)
{
	uint64_t place = sec->addr + (uint64_t)(r->p - sec->data), v;

	if (enc == DW_EH_PE_aligned) {
		skip(r, -place & 7);
		return read_bytes(r, 8);
	}
	v = read_format(r, enc & 0x0f);
	switch (enc & 0x70) {
	case DW_EH_PE_absptr:
		break;
	case DW_EH_PE_pcrel:
		v += place;
		break;
	case DW_EH_PE_datarel:
		v += elf_file__pltgot(sec->ef);
		break;
	default: /* textrel, funcrel: nothing emits them for these machines */
		r->bad = true;
	}
	if (enc & DW_EH_PE_indirect && elf_file__read(sec->ef, v, &v, sizeof(v)))
		r->bad = true;
	return r->bad ? 0 : v;
}

/* One record: its body is [r.p, r.end), behind the CIE id or pointer. */
struct record {
	uint32_t pos, next;
	bool cie;
	uint32_t cie_pos; /* of an FDE; NO_RULE: nowhere */
	struct reader r;
};

/* False: no record here that makes sense, nor behind it. A record of size 0 is a terminator. */
static bool read_record(const struct frame_section *sec, uint32_t pos, struct record *rec)
{
	struct reader r = { .p = sec->data + pos, .end = sec->data + sec->size };
	uint64_t length = read_bytes(&r, 4), id, id_pos, distance;
	size_t id_size = 4;

	rec->pos = pos;
	if (length == UINT32_MAX) {
		length = read_bytes(&r, 8);
		id_size = 8;
	}
	if (r.bad || length > (uint64_t)(r.end - r.p))
		return false;
	r.end = r.p + length;
	rec->next = (uint32_t)(r.end - sec->data);
	rec->r = r;
	if (!length)
		return true;
	id_pos = (uint64_t)(r.p - sec->data);
	id = id_size == 4 ? read_bytes(&r, 4) : read_bytes(&r, 8);
	if (sec->debug) {
		rec->cie = id == (id_size == 4 ? UINT32_MAX : UINT64_MAX);
		rec->cie_pos = id < id_pos ? (uint32_t)id : NO_RULE;
	} else {
		distance = id;
		rec->cie = id == 0;
		rec->cie_pos = distance <= id_pos ? (uint32_t)(id_pos - distance) : NO_RULE;
	}
	if (r.bad) /* too short for an id: skipped as an FDE without a CIE */
		rec->cie_pos = NO_RULE;
	rec->r = r;
	return true;
}

/* ---- The state of the call frame machine -------------------------------------------------- */

enum saved_rule {
	SAVED_UNSET = 0, /* nothing said: the ABI's default; off is 0 */
	SAVED_CFA = 1,	 /* in memory at CFA + off */
	SAVED_SAME,
	SAVED_UNDEF,
	SAVED_AT,	 /* in memory at reg + off */
	SAVED_CFA_VALUE, /* the value CFA + off */
	SAVED_OTHER,
};

struct saved {
	uint8_t rule; /* enum saved_rule */
	uint8_t reg;
	int64_t off;
};

enum { CFA_UNSET = 0x80, CFA_UNKNOWN = 0x81 }; /* beside enum cfa_kind, in this file only */

struct cfa {
	uint8_t kind;
	uint8_t reg;
	int16_t add;
	int64_t off;
};

/* The registers that are followed. */
enum { SLOT_FP, SLOT_RA, SLOT_SP, SLOT_RBX, SLOT_CNT };

struct state {
	struct cfa cfa;
	struct saved regs[SLOT_CNT];
};

struct machine {
	uint8_t reg[SLOT_CNT]; /* DWARF numbers */
	bool aarch64;
};

#define NO_REGISTER 0xff /* not one of either machine */

static const struct machine x86_64 = { .reg = { 6, 16, 7, 3 } };
static const struct machine aarch64 = { .reg = { 29, 30, 31, NO_REGISTER }, .aarch64 = true };

static inline int slot_of(const struct machine *m, uint64_t reg)
{
	for (int i = 0; i < SLOT_CNT; i++) {
		if (reg == m->reg[i])
			return i;
	}
	return -1;
}

/* ---- Expressions -------------------------------------------------------------------------- */

struct expr {
	struct expr_op {
		uint8_t op;  /* constants and bregN as DW_OP_constu and DW_OP_breg0 */
		uint8_t reg; /* of DW_OP_breg0 */
		int64_t arg;
	} ops[MAX_EXPR_OPS];
	size_t cnt;
};

static bool decode_op(struct reader *r, struct expr_op *o)
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
static bool decode_expr(struct reader r, struct expr *e)
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
static bool plt_cfa(const struct expr *e, const struct machine *m, struct cfa *cfa)
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
static bool index_cfa(const struct expr *e, const struct machine *m, struct cfa *cfa)
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

/* reg + off; *(reg + off) + add: realigned functions (GCC's DRAP) and OpenSSL's assembler. */
static struct cfa cfa_of_expr(struct reader r, const struct machine *m)
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

static struct saved saved_of_expr(struct reader r)
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

/* ---- State -> rule ------------------------------------------------------------------------ */

static bool fits32(int64_t v)
{
	return v >= INT32_MIN && v <= INT32_MAX;
}

/* Finds the place of a saved register, relative to the CFA. */
static bool cfa_relative(const struct state *st, const struct saved *s, int64_t *off)
{
	*off = s->off;
	if (s->rule == SAVED_CFA)
		return true;
	if (s->rule != SAVED_AT || st->cfa.kind != CFA_REG || s->reg != st->cfa.reg)
		return false;
	*off = (int64_t)((uint64_t)s->off - (uint64_t)st->cfa.off);
	return true;
}

static bool saved_at(const struct saved *s, uint8_t reg, int64_t off)
{
	return s->rule == SAVED_AT && s->reg == reg && s->off == off;
}

/*
 * struct unwind_rule as two words, as it lies in memory (both machines are little-endian). Hashed
 * and compared as such: read back from the members' bytes they would wait for the stores, which
 * was a third of all the time.
 */
struct packed {
	uint64_t w[2];
};

static inline uint64_t pack_cfa(uint8_t kind, uint8_t reg, int64_t off)
{
	return kind | (uint64_t)reg << 8 | (uint64_t)(uint32_t)off << 32;
}

static inline uint64_t pack_rules(enum reg_rule fp, enum reg_rule ra)
{
	return (uint64_t)fp << 16 | (uint64_t)ra << 24;
}

static inline uint64_t pack_offs(int64_t fp_off, int64_t ra_off, int16_t cfa_add)
{
	return (uint32_t)fp_off | (uint64_t)(uint16_t)ra_off << 32 |
	       (uint64_t)(uint16_t)cfa_add << 48;
}

/*
 * The return trampoline of a signal handler. x86-64: all registers are said to be in the gregs of
 * the ucontext (glibc sysdeps/unix/sysv/linux/x86_64/libc_sigaction.c; offsets of the kernel's
 * struct sigcontext, asm/sigcontext.h, 40 bytes into struct ucontext). Where that lies from sp is
 * taken from the CFA's expression, and the others must agree. aarch64: the kernel's vdso describes
 * the frame record that it leaves below the frame; the registers themselves are in the ucontext.
 */
static bool signal_rule(const struct machine *m, const struct state *st, struct packed *rule)
{
	enum { UC_RBP = 120, UC_RSP = 160, UC_RIP = 168 };
	uint8_t sp = m->reg[SLOT_SP];
	int64_t off;

	if (m->aarch64) {
		*rule = (struct packed){ { pack_cfa(CFA_SIGNAL, sp, AARCH64_UCONTEXT) } };
		return true;
	}
	if (st->cfa.kind != CFA_DEREF_REG || st->cfa.reg != sp || st->cfa.add ||
	    !fits32(st->cfa.off))
		return false;
	off = st->cfa.off - UC_RSP;
	if (!fits32(off) || !saved_at(&st->regs[SLOT_FP], sp, off + UC_RBP) ||
	    !saved_at(&st->regs[SLOT_RA], sp, off + UC_RIP) ||
	    !saved_at(&st->regs[SLOT_SP], sp, off + UC_RSP))
		return false;
	*rule = (struct packed){ { pack_cfa(CFA_SIGNAL, sp, off) } };
	return true;
}

/*
 * *lost: saved at a place that a rule cannot express. The walk continues without the register,
 * which most frames do not need.
 */
static inline enum reg_rule fp_rule(const struct machine *m, const struct state *st, int64_t *off,
				    bool *lost)
{
	const struct saved *fp = &st->regs[SLOT_FP];
	enum reg_rule rule = REG_UNDEF;

	*off = 0;
	*lost = false;
	if (fp->rule == SAVED_UNSET || fp->rule == SAVED_SAME)
		return REG_SAME;
	if (fp->rule == SAVED_UNDEF)
		return REG_UNDEF;
	if (cfa_relative(st, fp, off))
		rule = REG_CFA_OFF;
	else if (fp->rule == SAVED_AT && fp->reg == m->reg[SLOT_FP])
		rule = REG_FP_OFF;
	if (rule != REG_UNDEF && fits32(*off))
		return rule;
	*off = 0;
	*lost = true;
	return REG_UNDEF;
}

/* For cfa_add of CFA_REG. */
static inline int16_t rbx_rule(const struct state *st)
{
	const struct saved *rbx = &st->regs[SLOT_RBX];
	int64_t off;

	if (rbx->rule == SAVED_UNSET || rbx->rule == SAVED_SAME)
		return UW_EXTRA_SAME;
	if (!cfa_relative(st, rbx, &off) || off != (int16_t)off || off == UW_EXTRA_SAME ||
	    off == UW_EXTRA_LOST)
		return UW_EXTRA_LOST;
	return (int16_t)off;
}

/* False: not in memory relative to the CFA, nor, on aarch64, still in its register. */
static inline bool ra_rule(const struct machine *m, const struct state *st, enum reg_rule *rule,
			   int64_t *off)
{
	const struct saved *ra = &st->regs[SLOT_RA];

	*rule = REG_CFA_OFF;
	if (cfa_relative(st, ra, off) && *off >= INT16_MIN && *off <= INT16_MAX)
		return true;
	*rule = REG_SAME;
	*off = 0;
	return m->aarch64 && (ra->rule == SAVED_UNSET || ra->rule == SAVED_SAME);
}

/*
 * make_rule() for nearly all states: CFA by a register, and of the others only said where they are
 * saved, if at all. False: not one of these.
 */
static inline bool make_plain_rule(const struct state *st, struct packed *rule)
{
	const struct saved *fp = &st->regs[SLOT_FP], *ra = &st->regs[SLOT_RA];
	const struct saved *rbx = &st->regs[SLOT_RBX];

	_Static_assert((int)SAVED_UNSET == (int)REG_SAME && (int)SAVED_CFA == (int)REG_CFA_OFF, "");
	_Static_assert((int)SAVED_UNSET == UW_EXTRA_SAME, "");
	if (st->cfa.kind != CFA_REG || ra->rule != SAVED_CFA ||
	    (fp->rule | rbx->rule) > SAVED_CFA || st->regs[SLOT_SP].rule != SAVED_UNSET ||
	    !fits32(st->cfa.off) || !fits32(fp->off) || ra->off != (int16_t)ra->off ||
	    rbx->off != (int16_t)rbx->off)
		return false;
	if (rbx->rule == SAVED_CFA && (rbx->off == UW_EXTRA_SAME || rbx->off == UW_EXTRA_LOST))
		return false;
	rule->w[0] = pack_cfa(CFA_REG, st->cfa.reg, st->cfa.off) |
		     pack_rules((enum reg_rule)fp->rule, REG_CFA_OFF);
	rule->w[1] = pack_offs(fp->off, ra->off, (int16_t)rbx->off);
	return true;
}

/* 0, or 1 + enum unwind_reason. */
static int make_rule(const struct machine *m, const struct state *st, bool signal,
		     struct packed *rule, bool *fp_lost)
{
	const struct saved *sp = &st->regs[SLOT_SP];
	const struct cfa *cfa = &st->cfa;
	enum reg_rule fp, ra;
	int64_t fp_off, ra_off;

	if (!signal && make_plain_rule(st, rule))
		return 0;
	if (st->regs[SLOT_RA].rule == SAVED_UNDEF) {
		*rule = (struct packed){ { CFA_END } };
		return 0;
	}
	if (signal && signal_rule(m, st, rule))
		return 0;
	if (cfa->kind == CFA_UNKNOWN)
		return 1 + UNWIND_cfa_expression;
	if (cfa->kind == CFA_UNSET)
		return 1 + UNWIND_damaged;
	if (!fits32(cfa->off))
		return 1 + UNWIND_cfa_range;
	if (sp->rule != SAVED_UNSET && (sp->rule != SAVED_CFA_VALUE || sp->off))
		return 1 + UNWIND_sp_rule;
	if (!ra_rule(m, st, &ra, &ra_off))
		return 1 + UNWIND_ra_rule;
	fp = fp_rule(m, st, &fp_off, fp_lost);
	rule->w[0] = pack_cfa(cfa->kind, cfa->reg, cfa->off) | pack_rules(fp, ra);
	rule->w[1] = pack_offs(fp_off, ra_off, cfa->kind == CFA_REG ? rbx_rule(st) : cfa->add);
	return 0;
}

/* ---- The table under construction --------------------------------------------------------- */

struct cie {
	uint32_t pos;
	bool bad, signal, augmented;
	uint8_t fde_enc;
	uint64_t code_align;
	int64_t data_align;
	struct state initial;
};

#define FDE_DEBUG (1U << 31) /* in fde.pos: of .debug_frame; sections are smaller */

struct fde {
	uint64_t start; /* file offset */
	uint32_t size;
	uint32_t pos;
};

struct builder {
	const struct machine *m;
	struct frame_section eh, debug; /* size 0: there is none, or it is not needed */
	struct greenlet_function special[MAX_GREENLET_FUNCTIONS]; /* their rows have another kind */
	size_t special_cnt;
	const struct elf_segment *segments;
	size_t segment_cnt, segment; /* the last one that matched */
	struct fde *fdes;
	size_t fde_cnt, fde_cap;
	uint32_t *words; /* header, index, rows; rules are added at the end */
	size_t word_cnt, word_cap;
	uint32_t first_page, page_cnt, next_page, row_word;
	uint32_t last_rule;
	struct packed *rules;
	uint32_t rule_cnt, rule_cap;
	uint32_t *slots; /* hash of a rule -> its number; 0: free */
	uint32_t slot_mask;
	struct unwind_stats stats;
	int err;
};

/* Room for one more element; the size doubles. False: b->err is set. */
static bool grow(struct builder *b, void **array, size_t cnt, size_t *cap, size_t size)
{
	size_t want = *cap ? 2 * *cap : 64;
	void *p;

	if (cnt < *cap)
		return true;
	p = reallocarray(*array, want, size);
	if (!p) {
		b->err = -ENOMEM;
		return false;
	}
	*array = p;
	*cap = want;
	return true;
}

static inline uint32_t packed_hash(struct packed p)
{
	return (uint32_t)(((p.w[0] ^ p.w[1] * 0x9e3779b97f4a7c15ULL) * 0xff51afd7ed558ccdULL) >>
			  32);
}

static bool rehash(struct builder *b)
{
	uint32_t cnt = b->slot_mask ? 2 * (b->slot_mask + 1) : MIN_TABLE_SLOTS;
	uint32_t *slots = calloc(cnt, sizeof(*slots));

	if (!slots) {
		b->err = -ENOMEM;
		return false;
	}
	for (uint32_t n = 1; n < b->rule_cnt; n++) {
		uint32_t i = packed_hash(b->rules[n]) & (cnt - 1);

		while (slots[i])
			i = (i + 1) & (cnt - 1);
		slots[i] = n;
	}
	free(b->slots);
	b->slots = slots;
	b->slot_mask = cnt - 1;
	return true;
}

/* The number of a rule, which is added when it is new. 0: no room for it, or b->err. */
static uint32_t rule_number(struct builder *b, struct packed p)
{
	size_t cap = b->rule_cap;
	uint32_t i, n;

	if (b->rule_cnt * 4 > b->slot_mask && !rehash(b))
		return 0;
	i = packed_hash(p) & b->slot_mask;
	while ((n = b->slots[i])) {
		if (b->rules[n].w[0] == p.w[0] && b->rules[n].w[1] == p.w[1])
			return n;
		i = (i + 1) & b->slot_mask;
	}
	if (b->rule_cnt == UW_MAX_RULES ||
	    !grow(b, (void **)&b->rules, b->rule_cnt, &cap, sizeof(p)))
		return 0;
	b->rule_cap = (uint32_t)cap;
	b->rules[b->rule_cnt] = p;
	b->slots[i] = b->rule_cnt;
	return b->rule_cnt++;
}

/* Rows come in ascending order. True: a row was added; false: it continues the last one. */
static bool add_row(struct builder *b, uint64_t off, uint32_t rule)
{
	uint32_t page = (uint32_t)(off >> UW_PAGE_BITS) - b->first_page;

	if (rule == b->last_rule ||
	    !grow(b, (void **)&b->words, b->word_cnt, &b->word_cap, sizeof(*b->words)))
		return false;
	while (b->next_page <= page)
		b->words[8 + b->next_page++] = (uint32_t)b->word_cnt - b->row_word;
	b->words[b->word_cnt++] = (uint32_t)(off & 0xffff) << 16 | rule;
	b->last_rule = rule;
	return true;
}

/* ---- Running instructions ----------------------------------------------------------------- */

struct run {
	struct builder *b; /* NULL while a CIE is run: no rows */
	const struct machine *m;
	const struct frame_section *sec;
	const struct cie *cie;
	struct state st;
	struct state stack[MAX_REMEMBERED];
	size_t depth;
	bool dirty;		   /* st is not in a row yet */
	enum cfa_kind kind;	   /* of rows that would be CFA_REG */
	uint64_t addr;		   /* of the FDE */
	uint64_t off, limit, clip; /* file offsets: now, end of the FDE, end of the FDE before */
};

static void add_reason(struct builder *b, enum unwind_reason why)
{
	b->stats.row_inexpressible++;
	b->stats.row_reason[why]++;
}

/* The state holds from run->off to `next`: make it a row. */
static void flush(struct run *run, uint64_t next)
{
	uint64_t off = run->off > run->clip ? run->off : run->clip;
	struct builder *b = run->b;
	struct packed rule;
	bool fp_lost = false;
	uint32_t number = 0;
	int why;

	if (!run->dirty || next <= off)
		return;
	run->dirty = false;
	why = make_rule(run->m, &run->st, run->cie->signal, &rule, &fp_lost);
	if (!why) {
		if ((uint8_t)rule.w[0] == CFA_REG)
			rule.w[0] += run->kind - CFA_REG;
		number = rule_number(b, rule);
		if (!number)
			why = 1 + UNWIND_rules_full;
	}
	if (!add_row(b, off, number))
		return;
	if (why)
		add_reason(b, why - 1);
	b->stats.row_fp_lost += fp_lost;
}

/* False: at or behind the end of the FDE, or not an FDE. */
static inline bool advance(struct run *run, uint64_t delta)
{
	uint64_t code_align = run->cie->code_align, room;

	if (!run->b)
		return false;
	room = run->limit - run->off;
	if (delta >= room || delta * code_align >= room)
		return false; /* code_align is below 2^32, delta below the 2^32 of an FDE */
	delta *= code_align;
	flush(run, run->off + delta);
	run->off += delta;
	return true;
}

static bool advance_to(struct run *run, uint64_t addr, uint64_t start)
{
	uint64_t delta = addr - run->addr;

	/* Backwards, or outside: the FDE is damaged, and there it ends. */
	if (!run->b || delta >= run->limit - start || start + delta < run->off)
		return false;
	flush(run, start + delta);
	run->off = start + delta;
	return true;
}

static inline void set_saved(struct run *run, uint64_t reg, struct saved s)
{
	int slot = slot_of(run->m, reg);

	if (slot < 0)
		return;
	run->st.regs[slot] = s;
	run->dirty = true;
}

static inline void save_at_cfa(struct run *run, uint64_t reg, int64_t off)
{
	set_saved(run, reg, (struct saved){ .rule = SAVED_CFA, .off = off });
}

static inline void restore(struct run *run, uint64_t reg)
{
	int slot = slot_of(run->m, reg);

	if (slot >= 0)
		set_saved(run, reg, run->cie->initial.regs[slot]);
}

static void def_cfa(struct run *run, uint64_t reg, int64_t off)
{
	run->st.cfa = (struct cfa){ .kind = reg <= UINT8_MAX ? CFA_REG : CFA_UNKNOWN,
				    .reg = (uint8_t)reg,
				    .off = off };
	run->dirty = true;
}

/* Changes one half of reg + off; any other CFA has no halves. */
static bool change_cfa(struct run *run, bool is_reg, uint64_t v)
{
	if (run->st.cfa.kind != CFA_REG)
		return false;
	def_cfa(run, is_reg ? v : run->st.cfa.reg, is_reg ? run->st.cfa.off : (int64_t)v);
	return true;
}

static struct reader read_block(struct reader *r)
{
	uint64_t size = read_uleb(r);
	struct reader block = { .p = r->p };

	skip(r, size);
	block.end = r->bad ? block.p : r->p;
	return block;
}

static bool remember(struct run *run)
{
	if (run->depth == MAX_REMEMBERED)
		return false;
	run->stack[run->depth++] = run->st;
	return true;
}

static bool restore_state(struct run *run)
{
	if (!run->depth)
		return false;
	run->st = run->stack[--run->depth];
	run->dirty = true;
	return true;
}

enum step { STEP_ON, STEP_END, STEP_BAD };

static inline enum step on_if(bool ok)
{
	return ok ? STEP_ON : STEP_BAD;
}

static inline enum step on_advance(struct run *run, uint64_t delta)
{
	return advance(run, delta) ? STEP_ON : STEP_END;
}

/* Instructions that save or restore one register. */
static enum step step_register(struct run *run, struct reader *r, uint8_t op)
{
	int64_t align = run->cie->data_align;
	uint64_t reg = read_uleb(r);

	switch (op) {
	case DW_CFA_offset_extended:
		save_at_cfa(run, reg, scaled(read_uleb(r), align));
		break;
	case DW_CFA_offset_extended_sf:
		save_at_cfa(run, reg, scaled((uint64_t)read_sleb(r), align));
		break;
	case DW_CFA_GNU_negative_offset_extended:
		save_at_cfa(run, reg, scaled(-read_uleb(r), align));
		break;
	case DW_CFA_restore_extended:
		restore(run, reg);
		break;
	case DW_CFA_undefined:
		set_saved(run, reg, (struct saved){ .rule = SAVED_UNDEF });
		break;
	case DW_CFA_same_value:
		set_saved(run, reg, (struct saved){ .rule = SAVED_SAME });
		break;
	case DW_CFA_register:
		read_uleb(r);
		set_saved(run, reg, (struct saved){ .rule = SAVED_OTHER });
		break;
	case DW_CFA_val_offset:
		set_saved(run, reg,
			  (struct saved){ .rule = SAVED_CFA_VALUE,
					  .off = scaled(read_uleb(r), align) });
		break;
	case DW_CFA_val_offset_sf:
		set_saved(run, reg,
			  (struct saved){ .rule = SAVED_CFA_VALUE,
					  .off = scaled((uint64_t)read_sleb(r), align) });
		break;
	case DW_CFA_expression:
		set_saved(run, reg, saved_of_expr(read_block(r)));
		break;
	case DW_CFA_val_expression:
		read_block(r);
		set_saved(run, reg, (struct saved){ .rule = SAVED_OTHER });
		break;
	default:
		return STEP_BAD;
	}
	return STEP_ON;
}

static enum step step_cfa(struct run *run, struct reader *r, uint8_t op)
{
	int64_t align = run->cie->data_align;
	uint64_t reg;

	switch (op) {
	case DW_CFA_def_cfa:
		reg = read_uleb(r);
		def_cfa(run, reg, (int64_t)read_uleb(r));
		return STEP_ON;
	case DW_CFA_def_cfa_sf:
		reg = read_uleb(r);
		def_cfa(run, reg, scaled((uint64_t)read_sleb(r), align));
		return STEP_ON;
	case DW_CFA_def_cfa_register:
		return on_if(change_cfa(run, true, read_uleb(r)));
	case DW_CFA_def_cfa_offset:
		return on_if(change_cfa(run, false, read_uleb(r)));
	case DW_CFA_def_cfa_offset_sf:
		return on_if(
			change_cfa(run, false, (uint64_t)scaled((uint64_t)read_sleb(r), align)));
	case DW_CFA_def_cfa_expression:
		run->st.cfa = cfa_of_expr(read_block(r), run->m);
		run->dirty = true;
		return STEP_ON;
	}
	return step_register(run, r, op);
}

/* `start` is the file offset of run->addr. */
static enum step step(struct run *run, struct reader *r, uint64_t start)
{
	uint8_t op = read_u8(r), low = op & 0x3f;

	switch (op & 0xc0) {
	case DW_CFA_advance_loc:
		return on_advance(run, low);
	case DW_CFA_offset:
		save_at_cfa(run, low, scaled(read_uleb(r), run->cie->data_align));
		return STEP_ON;
	case DW_CFA_restore:
		restore(run, low);
		return STEP_ON;
	}
	switch (op) {
	case DW_CFA_nop:
		return STEP_ON;
	case DW_CFA_set_loc:
		return on_if(advance_to(run, read_pointer(r, run->sec, run->cie->fde_enc), start));
	case DW_CFA_advance_loc1:
		return on_advance(run, read_u8(r));
	case DW_CFA_advance_loc2:
		return on_advance(run, read_bytes(r, 2));
	case DW_CFA_advance_loc4:
		return on_advance(run, read_bytes(r, 4));
	case DW_CFA_MIPS_advance_loc8:
		return on_advance(run, read_bytes(r, 8));
	case DW_CFA_remember_state:
		return on_if(remember(run));
	case DW_CFA_restore_state:
		return on_if(restore_state(run));
	case DW_CFA_GNU_args_size:
		read_uleb(r);
		return STEP_ON;
	case CFA_NEGATE_RA: /* signed return addresses: the walker strips the signature always */
	case CFA_NEGATE_RA_PC:
		return on_if(run->m->aarch64);
	}
	return step_cfa(run, r, op);
}

/*
 * step() for nine instructions out of ten, with operands of one byte, on a position that stays in a
 * register (a fifth of all the time). Stops at the first one that it leaves to step().
 */
static inline const uint8_t *run_common(struct run *run, const uint8_t *p, const uint8_t *end)
{
	while (end - p >= 2) {
		uint8_t op = p[0], arg = p[1];

		if ((op & 0xc0) == DW_CFA_advance_loc) {
			if (!advance(run, op & 0x3f))
				break;
			p++;
			continue;
		}
		if (arg & 0x80)
			break;
		if ((op & 0xc0) == DW_CFA_offset)
			save_at_cfa(run, op & 0x3f, scaled(arg, run->cie->data_align));
		else if (op != DW_CFA_def_cfa_offset || !change_cfa(run, false, arg))
			break;
		p += 2;
	}
	return p;
}

/* False: damaged; the state is the one before the damage. */
static bool run_instructions(struct run *run, struct reader r, uint64_t start)
{
	enum step s = STEP_ON;

	while (s == STEP_ON && (r.p = run_common(run, r.p, r.end)) < r.end) {
		s = step(run, &r, start);
		if (r.bad)
			return false;
	}
	return s != STEP_BAD;
}

/* ---- First pass: CIEs, ranges of FDEs ------------------------------------------------------ */

/* The letters behind 'z'. False: the encoding of the FDEs' pointers cannot be known. */
static bool read_augmentation(const struct frame_section *sec, struct reader *r, const char *aug,
			      struct cie *cie)
{
	struct reader data = read_block(r);

	for (; *aug; aug++) {
		switch (*aug) {
		case 'R':
			cie->fde_enc = read_u8(&data);
			break;
		case 'L':
			read_u8(&data);
			break;
		case 'P': /* its value is of no use; an indirect one may point anywhere */
			read_pointer(&data, sec, read_u8(&data) & ~DW_EH_PE_indirect);
			break;
		case 'S':
			cie->signal = true;
			break;
		case 'B': /* aarch64: return addresses are signed with key B */
		case 'G': /* aarch64: the frame's memory is tagged */
			break;
		default: /* its data has a length that is not known */
			return !strchr(aug, 'R') && !data.bad;
		}
	}
	return !data.bad;
}

static bool read_cie_fields(const struct machine *m, const struct frame_section *sec,
			    struct reader *r, struct cie *cie)
{
	const char *aug;
	uint8_t version = read_u8(r);
	uint64_t ra;

	aug = (const char *)r->p;
	if (!memchr(aug, '\0', (size_t)(r->end - r->p)))
		return false;
	skip(r, strlen(aug) + 1);
	if (version != 1 && version != 3 && version != 4)
		return false;
	if (version == 4 && (read_u8(r) != 8 || read_u8(r) != 0))
		return false; /* other addresses, or segments */
	cie->code_align = read_uleb(r);
	cie->data_align = read_sleb(r);
	ra = version == 1 ? read_u8(r) : read_uleb(r);
	if (r->bad || ra != m->reg[SLOT_RA] || cie->code_align > UINT32_MAX)
		return false;
	cie->augmented = aug[0] == 'z';
	if (cie->augmented)
		return read_augmentation(sec, r, aug + 1, cie);
	return !aug[0];
}

static void init_cie(const struct machine *m, const struct frame_section *sec, struct reader r,
		     struct cie *cie)
{
	struct run run = { .m = m, .sec = sec, .cie = cie };

	cie->fde_enc = DW_EH_PE_absptr;
	cie->initial = (struct state){ .cfa.kind = CFA_UNSET };
	run.st = cie->initial;
	cie->bad = !read_cie_fields(m, sec, &r, cie) || r.bad || !run_instructions(&run, r, 0);
	cie->initial = run.st;
}

static void add_cie(struct builder *b, struct frame_section *sec, const struct record *rec)
{
	struct cie *cie;

	if (!grow(b, (void **)&sec->cies, sec->cie_cnt, &sec->cie_cap, sizeof(*sec->cies)))
		return;
	cie = &sec->cies[sec->cie_cnt++];
	memset(cie, 0, sizeof(*cie));
	cie->pos = rec->pos;
	init_cie(b->m, sec, rec->r, cie);
}

static const struct cie *find_cie(struct frame_section *sec, uint32_t pos)
{
	size_t low = 0, high = sec->cie_cnt;

	if (sec->cie_last < sec->cie_cnt && sec->cies[sec->cie_last].pos == pos)
		return &sec->cies[sec->cie_last];
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (sec->cies[mid].pos < pos)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == sec->cie_cnt || sec->cies[low].pos != pos)
		return NULL;
	sec->cie_last = low;
	return &sec->cies[low];
}

/* Reads up to the instructions. False: damaged. */
static bool read_fde_range(const struct frame_section *sec, const struct cie *cie, struct reader *r,
			   uint64_t *addr, uint64_t *size)
{
	*addr = read_pointer(r, sec, cie->fde_enc);
	if (cie->fde_enc == DW_EH_PE_aligned)
		*size = read_bytes(r, 8);
	else
		*size = read_format(r, cie->fde_enc & 0x0f);
	if (cie->augmented)
		read_block(r);
	return !r->bad;
}

static const struct elf_segment *text_segment(struct builder *b, uint64_t addr)
{
	for (size_t i = 0; i < b->segment_cnt; i++) {
		const struct elf_segment *s = &b->segments[(b->segment + i) % b->segment_cnt];

		if (s->exec && addr >= s->addr && addr - s->addr < s->file_size) {
			b->segment = (size_t)(s - b->segments);
			return s;
		}
	}
	return NULL;
}

static void add_fde(struct builder *b, struct frame_section *sec, struct record *rec)
{
	const struct cie *cie = find_cie(sec, rec->cie_pos);
	const struct elf_segment *s;
	uint64_t addr, size;
	struct fde *fde;

	if (!cie || cie->bad || !read_fde_range(sec, cie, &rec->r, &addr, &size)) {
		b->stats.fde_bad++;
		return;
	}
	/* Linkers leave address 0 in the FDEs of functions that they have dropped. */
	s = addr && size ? text_segment(b, addr) : NULL;
	if (!s)
		return;
	if (size > s->file_size - (addr - s->addr))
		size = s->file_size - (addr - s->addr);
	if (size > UINT32_MAX) {
		b->stats.fde_bad++;
		return;
	}
	if (!grow(b, (void **)&b->fdes, b->fde_cnt, &b->fde_cap, sizeof(*b->fdes)))
		return;
	fde = &b->fdes[b->fde_cnt++];
	fde->start = s->off + (addr - s->addr);
	fde->size = (uint32_t)size;
	fde->pos = rec->pos | (sec->debug ? FDE_DEBUG : 0);
}

/* Terminators in the middle come from objects linked behind crtend.o: read on. */
static void read_records(struct builder *b, struct frame_section *sec)
{
	struct record rec = { 0 };

	for (uint32_t pos = 0; !b->err && sec->size - pos >= 4; pos = rec.next) {
		if (!read_record(sec, pos, &rec)) {
			b->stats.fde_bad++;
			break;
		}
		if (rec.r.p == rec.r.end)
			continue;
		if (rec.cie)
			add_cie(b, sec, &rec);
		else
			add_fde(b, sec, &rec);
	}
}

/* ---- Second pass: rows --------------------------------------------------------------------- */

static uint64_t fde_end(const struct fde *fde)
{
	return fde->start + fde->size;
}

static int compare_fdes(const void *x, const void *y)
{
	const struct fde *a = x, *b = y;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->size != b->size)
		return a->size > b->size ? -1 : 1;
	return a->pos < b->pos ? -1 : a->pos > b->pos;
}

/* Sorts the FDEs from `first` on. */
static void sort_fdes(struct builder *b, size_t first)
{
	for (size_t i = first + 1; i < b->fde_cnt; i++) {
		if (compare_fdes(&b->fdes[i - 1], &b->fdes[i]) > 0) {
			qsort(b->fdes + first, b->fde_cnt - first, sizeof(*b->fdes), compare_fdes);
			return;
		}
	}
}

/* The kind of the rows of an FDE that would be CFA_REG. */
static enum cfa_kind kind_of_rows(const struct builder *b, const struct fde *fde)
{
	for (size_t i = 0; i < b->special_cnt; i++) {
		if (b->special[i].off - fde->start < fde->size)
			return b->special[i].kind;
	}
	return CFA_REG;
}

static void compile_fde(struct builder *b, const struct fde *fde, uint64_t covered)
{
	struct frame_section *sec = fde->pos & FDE_DEBUG ? &b->debug : &b->eh;
	struct run run;
	struct record rec;
	uint64_t size;

	run.b = b;
	run.m = b->m;
	run.sec = sec;
	run.depth = 0;
	run.dirty = true;
	run.kind = kind_of_rows(b, fde);
	run.off = fde->start;
	run.limit = fde->start + fde->size;
	run.clip = covered;
	/* The first pass has done the same three steps with success. */
	if (!read_record(sec, fde->pos & ~FDE_DEBUG, &rec) ||
	    !(run.cie = find_cie(sec, rec.cie_pos)) ||
	    !read_fde_range(sec, run.cie, &rec.r, &run.addr, &size))
		return;
	run.st = run.cie->initial;
	b->stats.fde_cnt++;
	if (!run_instructions(&run, rec.r, fde->start)) {
		b->stats.fde_bad++;
		run.st = (struct state){ .cfa.kind = CFA_UNSET };
		run.dirty = true;
	}
	flush(&run, run.limit);
}

/* Drops those behind the first `cnt`, which cover what these have left open, where they do not. */
static void fill_gaps(struct builder *b, size_t cnt)
{
	size_t at = 0, kept = cnt;
	uint64_t covered = 0;

	for (size_t i = cnt; i < b->fde_cnt; i++) {
		const struct fde *fde = &b->fdes[i];

		/* Up to here, by the FDEs that start at or below this one's end. */
		for (; at < cnt && b->fdes[at].start < fde_end(fde); at++) {
			if (fde_end(&b->fdes[at]) > covered)
				covered = fde_end(&b->fdes[at]);
		}
		if (covered <= fde->start)
			b->fdes[kept++] = *fde;
	}
	b->fde_cnt = kept;
}

/* All FDEs, by offset: of .eh_frame, and those of .debug_frame whose text it leaves open. */
static void read_fdes(struct builder *b)
{
	size_t cnt;

	read_records(b, &b->eh);
	sort_fdes(b, 0);
	cnt = b->fde_cnt;
	if (!b->debug.size)
		return;
	read_records(b, &b->debug);
	sort_fdes(b, cnt);
	fill_gaps(b, cnt);
	sort_fdes(b, 0);
}

static void compile_fdes(struct builder *b)
{
	uint64_t covered = (uint64_t)b->first_page << UW_PAGE_BITS;

	for (size_t i = 0; i < b->fde_cnt && !b->err; i++) {
		if (fde_end(&b->fdes[i]) <= covered)
			continue;
		if (b->fdes[i].start > covered)
			add_row(b, covered, 0);
		compile_fde(b, &b->fdes[i], covered);
		covered = fde_end(&b->fdes[i]);
	}
	add_row(b, covered, 0);
	while (b->next_page <= b->page_cnt)
		b->words[8 + b->next_page++] = (uint32_t)b->word_cnt - b->row_word;
}

/* ---- Layout of the result ------------------------------------------------------------------ */

static size_t align_to(size_t v, size_t to)
{
	return (v + to - 1) / to * to;
}

/* Header and index have their final size before the first row. */
static int begin_words(struct builder *b)
{
	uint64_t last = 0, first = b->fdes[0].start >> UW_PAGE_BITS;

	for (size_t i = 0; i < b->fde_cnt; i++) {
		if (fde_end(&b->fdes[i]) > last)
			last = fde_end(&b->fdes[i]);
	}
	last >>= UW_PAGE_BITS;
	if (last > UINT32_MAX || last - first >= MAX_PAGES)
		return -E2BIG;
	b->first_page = (uint32_t)first;
	b->page_cnt = (uint32_t)(last - first) + 1;
	b->row_word = (uint32_t)align_to(8 + (size_t)b->page_cnt + 1, 4);
	b->word_cnt = b->row_word;
	/* Three rows per FDE, and rarely more than six. */
	b->word_cap = b->word_cnt + 4 * b->fde_cnt;
	b->words = calloc(b->word_cap, sizeof(*b->words));
	b->rules = calloc(64, sizeof(*b->rules));
	if (!b->words || !b->rules)
		return -ENOMEM;
	b->rule_cap = 64;
	b->rule_cnt = 1;
	b->last_rule = NO_RULE;
	return 0;
}

static int finish_words(struct builder *b)
{
	struct unwind_header h = { .first_page = b->first_page,
				   .page_cnt = b->page_cnt,
				   .index_word = 8,
				   .row_word = b->row_word,
				   .row_cnt = (uint32_t)b->word_cnt - b->row_word,
				   .rule_cnt = b->rule_cnt };
	size_t rule_word = align_to(b->word_cnt, 4);
	size_t total = align_to(rule_word + 4 * (size_t)b->rule_cnt, UW_CHUNK_WORDS);
	uint32_t *words;

	if (total > UW_MAX_WORDS)
		return -E2BIG;
	words = reallocarray(b->words, total, sizeof(*words));
	if (!words)
		return -ENOMEM;
	b->words = words;
	h.rule_word = (uint32_t)rule_word;
	memset(words + b->word_cnt, 0, (total - b->word_cnt) * sizeof(*words));
	memcpy(words, &h, sizeof(h));
	memcpy(words + rule_word, b->rules, b->rule_cnt * sizeof(*b->rules));
	b->word_cnt = total;
	b->stats.row_cnt = h.row_cnt;
	return 0;
}

static int compile(struct builder *b)
{
	int err;

	read_fdes(b);
	if (b->err)
		return b->err;
	if (!b->fde_cnt)
		return b->stats.fde_bad ? -EBADMSG : -ENOENT;
	err = begin_words(b);
	if (err)
		return err;
	compile_fdes(b);
	return b->err ? b->err : finish_words(b);
}

/*
 * A copy of a section, inflated: not through elf_file__section(), whose copy would stay with the
 * file. 0, also when there is none: size 0.
 */
static int load_section(const struct elf_file *ef, bool debug, struct frame_section *sec)
{
	struct elf_section s;
	uint8_t *data;
	int err;

	*sec = (struct frame_section){ .ef = ef, .debug = debug };
	if (debug ? !elf_file__section_info(ef, ".debug_frame", &s) || s.nobits
		  : !elf_file__eh_frame_info(ef, &s))
		return 0;
	err = elf_file__copy_section(ef, &s, MAX_SECTION, &data, &sec->size);
	if (err) {
		sec->size = 0;
		return err;
	}
	sec->data = data;
	sec->addr = s.addr;
	return 0;
}

/* .eh_frame alone is what nearly every file has. Without it .debug_frame must do. */
static int load_sections(struct builder *b, const struct elf_file *ef)
{
	int err = load_section(ef, false, &b->eh), debug_err = load_section(ef, true, &b->debug);

	if (err || b->eh.size)
		return err;
	return debug_err ? debug_err : b->debug.size ? 0 : -ENOENT;
}

static void free_section(struct frame_section *sec)
{
	free((void *)sec->data);
	free(sec->cies);
}

static const struct machine *machine_of(const struct elf_file *ef)
{
	return elf_file__machine(ef) == EM_AARCH64 ? &aarch64 : &x86_64;
}

struct unwind_table *unwind_table__build(const struct elf_file *ef)
{
	struct unwind_table *t = calloc(1, sizeof(*t));
	struct builder b = { .m = machine_of(ef) };
	int err = -ENOMEM;

	if (!t)
		goto out;
	b.segments = elf_file__segments(ef, &b.segment_cnt);
	b.special_cnt = greenlet__functions(ef, b.special);
	err = load_sections(&b, ef);
	if (err)
		goto out;
	b.stats.eh_bytes = b.eh.size + b.debug.size;
	err = compile(&b);
	if (err)
		goto out;
	t->words = b.words;
	t->word_cnt = b.word_cnt;
	t->stats = b.stats;
	b.words = NULL;
out:
	free_section(&b.eh);
	free_section(&b.debug);
	free(b.fdes);
	free(b.rules);
	free(b.slots);
	free(b.words);
	if (err) {
		free(t);
		errno = -err;
		return NULL;
	}
	return t;
}

void unwind_table__free(struct unwind_table *t)
{
	if (!t)
		return;
	free(t->words);
	free(t);
}

/* ---- Look-up ------------------------------------------------------------------------------- */

bool unwind_table__find(const struct unwind_table *t, uint64_t offset, struct unwind_rule *rule)
{
	const uint32_t *index, *rows;
	uint64_t page = offset >> UW_PAGE_BITS;
	struct unwind_header h;
	uint32_t low, high, number;

	memcpy(&h, t->words, sizeof(h));
	if (page < h.first_page || page - h.first_page >= h.page_cnt)
		return false;
	index = t->words + h.index_word + (page - h.first_page);
	rows = t->words + h.row_word;
	low = index[0];
	high = index[1];
	/* The first row of this page that is above the offset; within a page 16 bits are enough. */
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (rows[mid] >> 16 <= (offset & 0xffff))
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return false;
	number = rows[low - 1] & 0xffff;
	memcpy(rule, t->words + h.rule_word + 4 * (size_t)number, sizeof(*rule));
	return number;
}

/* ---- One FDE by address --------------------------------------------------------------------- */

/*
 * .eh_frame_hdr: version 1, three encodings, eh_frame_ptr, the number of FDEs, and then pairs of
 * (address, FDE), ascending, relative to the header. This form is what every linker writes.
 */
#define HDR_TABLE 12
#define HDR_PAIR  8
#define ENC_REL4  (DW_EH_PE_datarel | DW_EH_PE_sdata4)

static void get_pair(const struct elf_section *hdr, uint32_t i, uint64_t *addr, uint64_t *fde)
{
	int32_t pair[2];

	memcpy(pair, hdr->data + HDR_TABLE + (size_t)i * HDR_PAIR, sizeof(pair));
	*addr = hdr->addr + (uint64_t)(int64_t)pair[0];
	*fde = hdr->addr + (uint64_t)(int64_t)pair[1];
}

/* The header and the number of its pairs. False: there is none that can be searched. */
static bool read_hdr(const struct elf_file *ef, struct elf_section *hdr, uint32_t *cnt)
{
	const uint8_t *head;

	/* Read as a whole: a search by pread() made 3 ms of the analysis of an interpreter. */
	if (!elf_file__eh_frame_hdr(ef, hdr) || hdr->size < HDR_TABLE)
		return false;
	head = hdr->data;
	if (head[0] != 1 || head[1] != (DW_EH_PE_pcrel | DW_EH_PE_sdata4) ||
	    head[2] != DW_EH_PE_udata4 || head[3] != ENC_REL4)
		return false;
	memcpy(cnt, head + 8, sizeof(*cnt));
	return *cnt <= (hdr->size - HDR_TABLE) / HDR_PAIR;
}

/* The address of the last FDE that starts at or below `addr`. 1: found, 0: none, -1: no table. */
static int search_hdr(const struct elf_file *ef, uint64_t addr, uint64_t *fde)
{
	struct elf_section hdr;
	uint32_t low = 0, high;
	uint64_t start, found;

	if (!read_hdr(ef, &hdr, &high))
		return -1;
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		get_pair(&hdr, mid, &start, &found);
		if (start <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return 0;
	get_pair(&hdr, low - 1, &start, fde);
	return 1;
}

/* The range of the FDE that the table says is at the address `fde`. */
static bool fde_range(const struct builder *b, uint64_t fde, uint64_t *addr, uint64_t *size)
{
	struct record rec, of_cie;
	struct cie cie = { 0 };

	if (fde < b->eh.addr || fde - b->eh.addr >= b->eh.size ||
	    !read_record(&b->eh, (uint32_t)(fde - b->eh.addr), &rec) || rec.r.p == rec.r.end ||
	    rec.cie || rec.cie_pos == NO_RULE || !read_record(&b->eh, rec.cie_pos, &of_cie) ||
	    of_cie.r.p == of_cie.r.end || !of_cie.cie)
		return false;
	init_cie(b->m, &b->eh, of_cie.r, &cie);
	return !cie.bad && read_fde_range(&b->eh, &cie, &rec.r, addr, size);
}

static bool open_eh_frame(struct builder *b, const struct elf_file *ef)
{
	struct elf_section s;

	if (!elf_file__eh_frame(ef, &s) || s.size > MAX_SECTION)
		return false;
	b->eh = (struct frame_section){ .ef = ef, .data = s.data, .addr = s.addr, .size = s.size };
	return true;
}

const struct fde_range *fde_range__find(const struct fde_range *ranges, size_t cnt, uint64_t addr)
{
	size_t low = 0, high = cnt;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (ranges[mid].start <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low && addr < ranges[low - 1].end ? &ranges[low - 1] : NULL;
}

/* The end of the FDE at `fde` that the table says starts at `start`. False: it says otherwise. */
static bool end_of_fde(const struct builder *b, uint64_t fde, uint64_t start, uint64_t *end)
{
	uint64_t addr, size;

	if (!fde_range(b, fde, &addr, &size) || addr != start)
		return false;
	*end = start + size;
	return *end > start;
}

/*
 * Reads the `cnt` entries of `hdr`. Returns how many of them make sense, or 0 if they are not
 * ascending.
 */
static size_t read_ranges(const struct builder *b, const struct elf_section *hdr, uint32_t cnt,
			  struct fde_range *out)
{
	bool exact = cnt <= EHFRAME_RANGES_MAX;
	uint64_t fde, next = 0, unused;
	size_t n = 0;

	for (uint32_t i = 0; i < cnt; i++) {
		struct fde_range *r = &out[n];

		get_pair(hdr, i, &r->start, &fde);
		if (n && r->start < r[-1].start)
			return 0;
		if (i + 1 < cnt)
			get_pair(hdr, i + 1, &next, &unused);
		r->end = next;
		if ((exact || i + 1 == cnt) && !end_of_fde(b, fde, r->start, &r->end))
			continue;
		n++;
	}
	return n;
}

int ehframe__ranges(const struct elf_file *ef, struct fde_range **ranges, size_t *cnt)
{
	struct builder b = { .m = machine_of(ef) };
	struct elf_section hdr;
	uint32_t n;

	*cnt = 0;
	if (!read_hdr(ef, &hdr, &n) || !n || !open_eh_frame(&b, ef))
		return -ENOENT;
	b.segments = elf_file__segments(ef, &b.segment_cnt);
	*ranges = malloc((size_t)n * sizeof(**ranges));
	if (!*ranges)
		return -ENOMEM;
	*cnt = read_ranges(&b, &hdr, n, *ranges);
	free(b.eh.cies);
	if (*cnt)
		return 0;
	free(*ranges);
	*ranges = NULL;
	return -ENOENT;
}

/* 1: found, 0: not covered, -1: the table is not there or makes no sense. */
static int fde_by_hdr(const struct builder *b, uint64_t addr, uint64_t *start, uint64_t *end)
{
	uint64_t fde, size;
	int found = search_hdr(b->eh.ef, addr, &fde);

	if (found != 1)
		return found;
	if (!fde_range(b, fde, start, &size) || *start > addr)
		return -1;
	*end = *start + size;
	return addr - *start < size;
}

/* By all FDEs, for files without a table: the one that the table's rows would be from. */
static bool fde_by_scan(struct builder *b, struct frame_section *sec, uint64_t addr,
			uint64_t *start, uint64_t *end)
{
	const struct fde *best = NULL;
	uint64_t off;

	if (!elf_file__addr_to_off(sec->ef, addr, &off))
		return false;
	b->fde_cnt = 0;
	read_records(b, sec);
	for (size_t i = 0; i < b->fde_cnt; i++) {
		const struct fde *f = &b->fdes[i];

		if (off >= f->start && off - f->start < f->size &&
		    (!best || compare_fdes(f, best) < 0))
			best = f;
	}
	if (!best)
		return false;
	*start = addr - (off - best->start);
	*end = *start + best->size;
	return true;
}

static bool fde_in_eh_frame(struct builder *b, const struct elf_file *ef, uint64_t addr,
			    uint64_t *start, uint64_t *end)
{
	int found;

	if (!open_eh_frame(b, ef))
		return false;
	found = fde_by_hdr(b, addr, start, end);
	return found < 0 ? fde_by_scan(b, &b->eh, addr, start, end) : found;
}

bool ehframe__fde_at(const struct elf_file *ef, uint64_t addr, uint64_t *start, uint64_t *end)
{
	struct builder b = { .m = machine_of(ef) };
	bool found;

	b.segments = elf_file__segments(ef, &b.segment_cnt);
	found = fde_in_eh_frame(&b, ef, addr, start, end);
	if (!found && !load_section(ef, true, &b.debug) && b.debug.size)
		found = fde_by_scan(&b, &b.debug, addr, start, end);
	free(b.eh.cies);
	free_section(&b.debug);
	free(b.fdes);
	return found;
}
