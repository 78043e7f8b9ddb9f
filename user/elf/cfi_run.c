/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Call frame instructions -> rows. See cfi_run.h. */
#include "elf/cfi_run.h"

#include <dwarf.h>

#include "elf/cfi_expr.h"
#include "elf/cfi_rule.h"

#define CFA_NEGATE_RA_PC 0x2c /* aarch64, beside 0x2d: not in dwarf.h everywhere */
#define CFA_NEGATE_RA	 0x2d

/* Offsets are scaled in two's complement: a wrong product is out of every range. */
static inline int64_t scaled(uint64_t v, int64_t factor)
{
	return (int64_t)(v * (uint64_t)factor);
}

static void add_reason(struct cfi_rows *t, enum unwind_reason why)
{
	t->stats.row_inexpressible++;
	t->stats.row_reason[why]++;
}

void cfi_run__flush(struct cfi_run *run, uint64_t next)
{
	uint64_t off = run->off > run->clip ? run->off : run->clip;
	struct cfi_rows *t = run->rows;
	struct packed_rule rule;
	bool fp_lost = false;
	uint32_t number = 0;
	int why;

	if (!run->dirty || next <= off)
		return;
	run->dirty = false;
	why = cfi_make_rule(run->m, &run->st, run->cie->signal, &rule, &fp_lost);
	if (!why) {
		if ((uint8_t)rule.w[0] == CFA_REG)
			rule.w[0] += run->kind - CFA_REG;
		number = cfi_rows__rule_number(t, rule);
		if (!number)
			why = 1 + UNWIND_rules_full;
	}
	if (!cfi_rows__add(t, off, number))
		return;
	if (why)
		add_reason(t, why - 1);
	t->stats.row_fp_lost += fp_lost;
}

/* False: at or behind the end of the FDE, or not an FDE. */
static inline bool advance(struct cfi_run *run, uint64_t delta)
{
	uint64_t code_align = run->cie->code_align, room;

	if (!run->rows)
		return false;
	room = run->limit - run->off;
	if (delta >= room || delta * code_align >= room)
		return false; /* code_align is below 2^32, delta below the 2^32 of an FDE */
	delta *= code_align;
	cfi_run__flush(run, run->off + delta);
	run->off += delta;
	return true;
}

static bool advance_to(struct cfi_run *run, uint64_t addr, uint64_t start)
{
	uint64_t delta = addr - run->addr;

	/* Backwards, or outside: the FDE is damaged, and there it ends. */
	if (!run->rows || delta >= run->limit - start || start + delta < run->off)
		return false;
	cfi_run__flush(run, start + delta);
	run->off = start + delta;
	return true;
}

static inline void set_saved(struct cfi_run *run, uint64_t reg, struct saved s)
{
	int slot = slot_of(run->m, reg);

	if (slot < 0)
		return;
	run->st.regs[slot] = s;
	run->dirty = true;
}

static inline void save_at_cfa(struct cfi_run *run, uint64_t reg, int64_t off)
{
	set_saved(run, reg, (struct saved){ .rule = SAVED_CFA, .off = off });
}

static inline void restore(struct cfi_run *run, uint64_t reg)
{
	int slot = slot_of(run->m, reg);

	if (slot >= 0)
		set_saved(run, reg, run->cie->initial.regs[slot]);
}

static void def_cfa(struct cfi_run *run, uint64_t reg, int64_t off)
{
	run->st.cfa = (struct cfa){ .kind = reg <= UINT8_MAX ? CFA_REG : CFA_UNKNOWN,
				    .reg = (uint8_t)reg,
				    .off = off };
	run->dirty = true;
}

/* Changes one half of reg + off; any other CFA has no halves. */
static bool change_cfa(struct cfi_run *run, bool is_reg, uint64_t v)
{
	if (run->st.cfa.kind != CFA_REG)
		return false;
	def_cfa(run, is_reg ? v : run->st.cfa.reg, is_reg ? run->st.cfa.off : (int64_t)v);
	return true;
}

static bool remember(struct cfi_run *run)
{
	if (run->depth == MAX_REMEMBERED)
		return false;
	run->stack[run->depth++] = run->st;
	return true;
}

static bool restore_state(struct cfi_run *run)
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

static inline enum step on_advance(struct cfi_run *run, uint64_t delta)
{
	return advance(run, delta) ? STEP_ON : STEP_END;
}

/* Instructions that save or restore one register. */
static enum step step_register(struct cfi_run *run, struct cfi_reader *r, uint8_t op)
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
		set_saved(run, reg, cfi_expr_saved(cfi_read_block(r)));
		break;
	case DW_CFA_val_expression:
		cfi_read_block(r);
		set_saved(run, reg, (struct saved){ .rule = SAVED_OTHER });
		break;
	default:
		return STEP_BAD;
	}
	return STEP_ON;
}

static enum step step_cfa(struct cfi_run *run, struct cfi_reader *r, uint8_t op)
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
		run->st.cfa = cfi_expr_cfa(cfi_read_block(r), run->m);
		run->dirty = true;
		return STEP_ON;
	}
	return step_register(run, r, op);
}

/* `start` is the file offset of run->addr. */
static enum step step(struct cfi_run *run, struct cfi_reader *r, uint64_t start)
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
		return on_if(
			advance_to(run, cfi_read_pointer(r, run->sec, run->cie->fde_enc), start));
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
static inline const uint8_t *run_common(struct cfi_run *run, const uint8_t *p, const uint8_t *end)
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

bool cfi_run__instructions(struct cfi_run *run, struct cfi_reader r, uint64_t start)
{
	enum step s = STEP_ON;

	while (s == STEP_ON && (r.p = run_common(run, r.p, r.end)) < r.end) {
		s = step(run, &r, start);
		if (r.bad)
			return false;
	}
	return s != STEP_BAD;
}
