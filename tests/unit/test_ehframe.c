/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* .eh_frame -> rows: sections made by hand, one instruction at a time, and damaged ones. */
#include "elf/ehframe.h"

#include <dwarf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "elfgen.h"

/* ---- Writing sections ---------------------------------------------------------------------- */

struct section {
	uint8_t *b;
	size_t n, cap;
	size_t record, id;  /* where the open record and its id begin */
	bool wide;	    /* 64-bit lengths */
	bool debug;	    /* .debug_frame */
	uint8_t enc;	    /* of FDE pointers */
	uint32_t text_size; /* 0: 4096 */
	uint16_t machine;   /* 0: x86-64 */
};

static void put(struct section *s, const void *data, size_t size)
{
	if (s->n + size > s->cap) {
		s->cap = 2 * s->cap + size + 256;
		s->b = realloc(s->b, s->cap);
		assert_non_null(s->b);
	}
	if (size)
		memcpy(s->b + s->n, data, size);
	s->n += size;
}

static void put_int(struct section *s, uint64_t v, size_t size)
{
	put(s, &v, size);
}

static void put_uleb(struct section *s, uint64_t v)
{
	do {
		put_int(s, (v & 0x7f) | (v > 0x7f ? 0x80 : 0), 1);
		v >>= 7;
	} while (v);
}

static void begin(struct section *s)
{
	s->record = s->n;
	put_int(s, s->wide ? UINT32_MAX : 0, 4);
	if (s->wide)
		put_int(s, 0, 8);
	s->id = s->n;
}

static void finish(struct section *s)
{
	uint64_t length;

	while ((s->n - s->id) % 8)
		put_int(s, DW_CFA_nop, 1);
	length = s->n - s->id;
	memcpy(s->b + s->record + (s->wide ? 4 : 0), &length, s->wide ? 8 : 4);
}

/* A pointer to `addr` in the section's encoding. */
static void put_pointer(struct section *s, uint64_t addr)
{
	size_t size = 8;

	if ((s->enc & 0x70) == DW_EH_PE_pcrel)
		addr -= GEN_EH_ADDR + s->n;
	else if ((s->enc & 0x70) == DW_EH_PE_datarel)
		addr -= GEN_TEXT_ADDR; /* DT_PLTGOT */
	if ((s->enc & 7) == 3)
		size = 4;
	else if ((s->enc & 7) == 2)
		size = 2;
	put_int(s, addr, size);
}

/* A CIE; `aug` may be "", or 'z' and letters of RPLSB. Returns its position. */
static size_t cie(struct section *s, const char *aug, const void *insns, size_t size)
{
	bool arm = s->machine == EM_AARCH64;
	size_t pos = s->n, len = 0;

	begin(s);
	put_int(s, s->debug ? UINT64_MAX : 0, s->wide ? 8 : 4);
	put_int(s, 1, 1);
	put(s, aug, strlen(aug) + 1);
	put_uleb(s, arm ? 4 : 1);
	put_int(s, 0x78, 1); /* -8 */
	put_int(s, arm ? 30 : 16, 1);
	for (const char *a = aug; *a; a++)
		len += *a == 'R' || *a == 'L' ? 1 : *a == 'P' ? 5 : 0;
	if (*aug)
		put_uleb(s, len);
	for (const char *a = aug; *a; a++) {
		if (*a == 'P')
			put(s, "\x9b\x01\x02\x03\x04", 5); /* indirect, into nowhere */
		else if (*a == 'R')
			put_int(s, s->enc, 1);
		else if (*a == 'L')
			put_int(s, DW_EH_PE_omit, 1);
	}
	put(s, insns, size);
	finish(s);
	return pos;
}

static void fde(struct section *s, size_t cie_pos, uint64_t addr, uint64_t size, const void *insns,
		size_t insns_size)
{
	size_t len = (s->enc & 7) == 3 ? 4 : (s->enc & 7) == 2 ? 2 : 8;

	begin(s);
	put_int(s, s->debug ? cie_pos : s->n - cie_pos, s->wide ? 8 : 4);
	put_pointer(s, addr);
	put_int(s, size, len);
	if (!s->debug)
		put_uleb(s, 0);
	put(s, insns, insns_size);
	finish(s);
}

static const uint8_t x86_cie[] = { DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1 };
static const uint8_t arm_cie[] = { DW_CFA_def_cfa, 31, 0 };

static struct section new_section(void)
{
	return (struct section){ .enc = DW_EH_PE_pcrel | DW_EH_PE_sdata4 };
}

/* ---- Building ------------------------------------------------------------------------------ */

static struct elf_file *open_section(const struct section *s, const void *hdr, size_t hdr_size)
{
	struct elfgen g = { .machine = s->machine ? s->machine : EM_X86_64,
			    .text_size = s->text_size ? s->text_size : 4096,
			    .eh = s->b,
			    .eh_size = (uint32_t)s->n,
			    .hdr = hdr,
			    .hdr_size = (uint32_t)hdr_size,
			    .debug_frame = s->debug };
	struct elf_file *ef;
	uint8_t *image;
	size_t size;

	image = elfgen_make(&g, &size);
	ef = elf_file__open_memory(image, size, "made by hand");
	free(image);
	assert_non_null(ef);
	return ef;
}

/* Frees the section. */
static struct unwind_table *build(struct section *s)
{
	struct elf_file *ef = open_section(s, NULL, 0);
	struct unwind_table *t = unwind_table__build(ef);
	int err = errno;

	elf_file__close(ef);
	free(s->b);
	s->b = NULL;
	errno = err;
	return t;
}

/* The rule at GEN_TEXT_ADDR + at; rule 0 when there is none. */
static struct unwind_rule rule_at(const struct unwind_table *t, uint64_t at)
{
	struct unwind_rule r = { .cfa_kind = 99 };
	bool found = unwind_table__find(t, GEN_TEXT_OFF + at, &r);

	if (!found)
		return (struct unwind_rule){ 0 };
	assert_int_not_equal(r.cfa_kind, 0);
	return r;
}

static void assert_rule(const char *what, struct unwind_rule got, struct unwind_rule want)
{
	if (!memcmp(&got, &want, sizeof(got)))
		return;
	fail_msg("%s: kind %u reg %u off %d add %d fp %u %d ra %u %d", what, got.cfa_kind,
		 got.cfa_reg, got.cfa_off, got.cfa_add, got.fp_rule, got.fp_off, got.ra_rule,
		 got.ra_off);
}

#define SP(off, ...)                                                                               \
	{                                                                                          \
		.cfa_kind = CFA_REG, .cfa_reg = 7, .cfa_off = (off), .ra_rule = REG_CFA_OFF,       \
		.ra_off = -8, ##__VA_ARGS__                                                        \
	}
#define NONE                                                                                       \
	{                                                                                          \
		0                                                                                  \
	}

/* ---- One instruction at a time ------------------------------------------------------------- */

#define INSNS(...)                                                                                 \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}

struct opcode_case {
	const char *name;
	const char *aug; /* NULL: zR */
	uint8_t insns[64];
	size_t size;
	struct unwind_rule at0, at4; /* at the start of the FDE, and 4 bytes on */
	int why;		     /* 1 + enum unwind_reason of a rule 0 */
	bool fp_lost;
};

#define CASE(name, insns, ...)                                                                     \
	{                                                                                          \
		name, NULL, insns, sizeof((uint8_t[])insns), __VA_ARGS__                           \
	}
#define SIGNAL_CASE(name, insns, ...)                                                              \
	{                                                                                          \
		name, "zRS", insns, sizeof((uint8_t[])insns), __VA_ARGS__                          \
	}
#define RBP_SAVED(off) .fp_rule = REG_CFA_OFF, .fp_off = (off)
#define ADV4	       DW_CFA_advance_loc | 4
/* 160, 120 and 168 as SLEB128: where struct ucontext has rsp, rbp and rip */
#define UC_RSP	       0xa0, 1
#define UC_RBP	       0xf8, 0
#define UC_RIP	       0xa8, 1
#define SIGNAL_INSNS(cfa_rsp, rbp, rip, rsp)                                                       \
	{                                                                                          \
		DW_CFA_def_cfa_expression, 4, DW_OP_breg7, cfa_rsp, DW_OP_deref,                   \
			DW_CFA_expression, 6, 3, DW_OP_breg7, rbp, DW_CFA_expression, 16, 3,       \
			DW_OP_breg7, rip, DW_CFA_expression, 7, 3, DW_OP_breg7, rsp                \
	}

static const struct opcode_case cases[] = {
	CASE("none", INSNS(DW_CFA_nop), SP(8), SP(8), 0, false),
	CASE("advance_loc", INSNS(ADV4, DW_CFA_def_cfa_offset, 16), SP(8), SP(16), 0, false),
	CASE("advance_loc1", INSNS(DW_CFA_advance_loc1, 4, DW_CFA_def_cfa_offset, 16), SP(8),
	     SP(16), 0, false),
	CASE("advance_loc2", INSNS(DW_CFA_advance_loc2, 4, 0, DW_CFA_def_cfa_offset, 16), SP(8),
	     SP(16), 0, false),
	CASE("advance_loc4", INSNS(DW_CFA_advance_loc4, 4, 0, 0, 0, DW_CFA_def_cfa_offset, 16),
	     SP(8), SP(16), 0, false),
	CASE("advance behind the end", INSNS(DW_CFA_advance_loc2, 0xff, 0xff, 0x3f), SP(8), SP(8),
	     0, false),
	CASE("def_cfa", INSNS(ADV4, DW_CFA_def_cfa, 6, 16), SP(8),
	     { .cfa_kind = CFA_REG,
	       .cfa_reg = 6,
	       .cfa_off = 16,
	       .ra_rule = REG_CFA_OFF,
	       .ra_off = -8 },
	     0, false),
	CASE("def_cfa_sf", INSNS(ADV4, DW_CFA_def_cfa_sf, 7, 0x7e), SP(8), SP(16), 0, false),
	CASE("def_cfa_register", INSNS(ADV4, DW_CFA_def_cfa_register, 6), SP(8),
	     { .cfa_kind = CFA_REG,
	       .cfa_reg = 6,
	       .cfa_off = 8,
	       .ra_rule = REG_CFA_OFF,
	       .ra_off = -8 },
	     0, false),
	CASE("def_cfa_offset of two bytes", INSNS(ADV4, DW_CFA_def_cfa_offset, 0x80, 2), SP(8),
	     SP(256), 0, false),
	CASE("def_cfa_offset_sf", INSNS(ADV4, DW_CFA_def_cfa_offset_sf, 0x7d), SP(8), SP(24), 0,
	     false),
	CASE("offset", INSNS(ADV4, DW_CFA_offset | 6, 2), SP(8), SP(8, RBP_SAVED(-16)), 0, false),
	CASE("offset of another register", INSNS(ADV4, DW_CFA_offset | 12, 2), SP(8), SP(8), 0,
	     false),
	CASE("offset of rbx", INSNS(ADV4, DW_CFA_offset | 3, 2), SP(8), SP(8, .cfa_add = -16), 0,
	     false),
	CASE("offset of rbx, out of range", INSNS(ADV4, DW_CFA_offset | 3, 0x80, 0x80, 4), SP(8),
	     SP(8, .cfa_add = UW_EXTRA_LOST), 0, false),
	CASE("restored rbx", INSNS(DW_CFA_offset | 3, 2, ADV4, DW_CFA_restore | 3),
	     SP(8, .cfa_add = -16), SP(8), 0, false),
	CASE("undefined rbx", INSNS(ADV4, DW_CFA_undefined, 3), SP(8),
	     SP(8, .cfa_add = UW_EXTRA_LOST), 0, false),
	CASE("rbx beside a CFA by an expression",
	     INSNS(DW_CFA_offset | 3, 2, ADV4, DW_CFA_def_cfa_expression, 3, DW_OP_breg6, 0x78,
		   DW_OP_deref),
	     SP(8, .cfa_add = -16),
	     { .cfa_kind = CFA_DEREF_REG,
	       .cfa_reg = 6,
	       .cfa_off = -8,
	       .ra_rule = REG_CFA_OFF,
	       .ra_off = -8 },
	     0, false),
	CASE("offset_extended", INSNS(ADV4, DW_CFA_offset_extended, 6, 3), SP(8),
	     SP(8, RBP_SAVED(-24)), 0, false),
	CASE("offset_extended_sf", INSNS(ADV4, DW_CFA_offset_extended_sf, 6, 0x7f), SP(8),
	     SP(8, RBP_SAVED(8)), 0, false),
	CASE("GNU_negative_offset_extended", INSNS(ADV4, DW_CFA_GNU_negative_offset_extended, 6, 1),
	     SP(8), SP(8, RBP_SAVED(8)), 0, false),
	CASE("restore", INSNS(DW_CFA_offset | 6, 2, ADV4, DW_CFA_restore | 6),
	     SP(8, RBP_SAVED(-16)), SP(8), 0, false),
	CASE("restore_extended", INSNS(DW_CFA_offset | 6, 2, ADV4, DW_CFA_restore_extended, 6),
	     SP(8, RBP_SAVED(-16)), SP(8), 0, false),
	CASE("same_value", INSNS(DW_CFA_offset | 6, 2, ADV4, DW_CFA_same_value, 6),
	     SP(8, RBP_SAVED(-16)), SP(8), 0, false),
	CASE("undefined rbp", INSNS(ADV4, DW_CFA_undefined, 6), SP(8), SP(8, .fp_rule = REG_UNDEF),
	     0, false),
	CASE("undefined rip", INSNS(ADV4, DW_CFA_undefined, 16), SP(8), { .cfa_kind = CFA_END }, 0,
	     false),
	CASE("register rbp", INSNS(ADV4, DW_CFA_register, 6, 3), SP(8), SP(8, .fp_rule = REG_UNDEF),
	     0, true),
	CASE("register rip", INSNS(ADV4, DW_CFA_register, 16, 3), SP(8), NONE, 1 + UNWIND_ra_rule,
	     false),
	CASE("remember, restore",
	     INSNS(DW_CFA_remember_state, DW_CFA_def_cfa_offset, 32, DW_CFA_offset | 6, 2, ADV4,
		   DW_CFA_restore_state),
	     SP(32, RBP_SAVED(-16)), SP(8), 0, false),
	CASE("restore without remember", INSNS(ADV4, DW_CFA_restore_state), SP(8), NONE,
	     1 + UNWIND_damaged, false),
	CASE("GNU_args_size", INSNS(DW_CFA_GNU_args_size, 0x90, 1, ADV4, DW_CFA_def_cfa_offset, 16),
	     SP(8), SP(16), 0, false),
	CASE("val_offset of rsp", INSNS(ADV4, DW_CFA_val_offset, 7, 0), SP(8), SP(8), 0, false),
	CASE("val_offset of rsp elsewhere", INSNS(ADV4, DW_CFA_val_offset, 7, 2), SP(8), NONE,
	     1 + UNWIND_sp_rule, false),
	CASE("val_offset of rbp", INSNS(ADV4, DW_CFA_val_offset, 6, 2), SP(8),
	     SP(8, .fp_rule = REG_UNDEF), 0, true),
	CASE("val_offset_sf of rbx", INSNS(ADV4, DW_CFA_val_offset_sf, 3, 2), SP(8),
	     SP(8, .cfa_add = UW_EXTRA_LOST), 0, false),
	CASE("val_expression of rip", INSNS(ADV4, DW_CFA_val_expression, 16, 2, DW_OP_breg7, 0),
	     SP(8), NONE, 1 + UNWIND_ra_rule, false),
	CASE("expression of rbp, by rbp", INSNS(ADV4, DW_CFA_expression, 6, 2, DW_OP_breg6, 0x70),
	     SP(8), SP(8, .fp_rule = REG_FP_OFF, .fp_off = -16), 0, false),
	CASE("expression of rbp, by the CFA's register",
	     INSNS(ADV4, DW_CFA_expression, 6, 2, DW_OP_breg7, 0x70), SP(8), SP(8, RBP_SAVED(-24)),
	     0, false),
	CASE("expression of rbp, by rbx", INSNS(ADV4, DW_CFA_expression, 6, 2, DW_OP_breg3, 0),
	     SP(8), SP(8, .fp_rule = REG_UNDEF), 0, true),
	CASE("expression of the CFA: reg + off",
	     INSNS(ADV4, DW_CFA_def_cfa_expression, 4, DW_OP_breg7, 8, DW_OP_plus_uconst, 24),
	     SP(8), SP(32), 0, false),
	CASE("expression of the CFA: DRAP",
	     INSNS(ADV4, DW_CFA_def_cfa_expression, 3, DW_OP_breg6, 0x78, DW_OP_deref), SP(8),
	     { .cfa_kind = CFA_DEREF_REG,
	       .cfa_reg = 6,
	       .cfa_off = -8,
	       .ra_rule = REG_CFA_OFF,
	       .ra_off = -8 },
	     0, false),
	CASE("expression of the CFA: OpenSSL",
	     INSNS(ADV4, DW_CFA_def_cfa_expression, 5, DW_OP_breg7, 40, DW_OP_deref,
		   DW_OP_plus_uconst, 8),
	     SP(8),
	     { .cfa_kind = CFA_DEREF_REG,
	       .cfa_reg = 7,
	       .cfa_off = 40,
	       .cfa_add = 8,
	       .ra_rule = REG_CFA_OFF,
	       .ra_off = -8 },
	     0, false),
	CASE("expression of the CFA: a literal added",
	     INSNS(ADV4, DW_CFA_def_cfa_expression, 5, DW_OP_breg7, 40, DW_OP_deref, DW_OP_lit8,
		   DW_OP_plus),
	     SP(8),
	     { .cfa_kind = CFA_DEREF_REG,
	       .cfa_reg = 7,
	       .cfa_off = 40,
	       .cfa_add = 8,
	       .ra_rule = REG_CFA_OFF,
	       .ra_off = -8 },
	     0, false),
	CASE("expression of the CFA: .plt",
	     INSNS(ADV4, DW_CFA_def_cfa_expression, 11, DW_OP_breg7, 8, DW_OP_breg16, 0,
		   DW_OP_lit15, DW_OP_and, DW_OP_lit11, DW_OP_ge, DW_OP_lit3, DW_OP_shl,
		   DW_OP_plus),
	     SP(8),
	     { .cfa_kind = CFA_PLT,
	       .cfa_reg = 7,
	       .cfa_off = 8,
	       .cfa_add = 11,
	       .ra_rule = REG_CFA_OFF,
	       .ra_off = -8 },
	     0, false),
	CASE("expression of the CFA: an array and more",
	     INSNS(ADV4, DW_CFA_def_cfa_expression, 9, DW_OP_breg7, 8, DW_OP_breg9, 0, DW_OP_lit8,
		   DW_OP_mul, DW_OP_plus, DW_OP_deref, DW_OP_nop),
	     SP(8), NONE, 1 + UNWIND_cfa_expression, false),
	CASE("expression of the CFA: behind an array",
	     INSNS(ADV4, DW_CFA_def_cfa_expression, 10, DW_OP_breg7, 8, DW_OP_breg9, 0, DW_OP_lit8,
		   DW_OP_mul, DW_OP_plus, DW_OP_deref, DW_OP_plus_uconst, 8),
	     SP(8),
	     { .cfa_kind = CFA_DEREF_INDEX,
	       .cfa_reg = 7 | 9 << 4,
	       .cfa_off = 8,
	       .cfa_add = 8,
	       .ra_rule = REG_CFA_OFF,
	       .ra_off = -8 },
	     0, false),
	CASE("expression of the CFA: an array of other elements",
	     INSNS(ADV4, DW_CFA_def_cfa_expression, 8, DW_OP_breg7, 8, DW_OP_breg9, 0, DW_OP_lit4,
		   DW_OP_mul, DW_OP_plus, DW_OP_deref),
	     SP(8), NONE, 1 + UNWIND_cfa_expression, false),
	CASE("expression of the CFA: unknown",
	     INSNS(ADV4, DW_CFA_def_cfa_expression, 3, DW_OP_lit8, DW_OP_lit8, DW_OP_plus), SP(8),
	     NONE, 1 + UNWIND_cfa_expression, false),
	CASE("def_cfa_offset on an expression",
	     INSNS(DW_CFA_def_cfa_expression, 3, DW_OP_breg6, 0x78, DW_OP_deref, ADV4,
		   DW_CFA_def_cfa_offset, 8),
	     { .cfa_kind = CFA_DEREF_REG,
	       .cfa_reg = 6,
	       .cfa_off = -8,
	       .ra_rule = REG_CFA_OFF,
	       .ra_off = -8 },
	     NONE, 1 + UNWIND_damaged, false),
	CASE("def_cfa_offset out of range",
	     INSNS(ADV4, DW_CFA_def_cfa_offset, 0x80, 0x80, 0x80, 0x80, 0x10), SP(8), NONE,
	     1 + UNWIND_cfa_range, false),
	CASE("register of the CFA out of range", INSNS(ADV4, DW_CFA_def_cfa, 0x80, 0x10, 8), SP(8),
	     NONE, 1 + UNWIND_cfa_expression, false),
	CASE("return address out of range", INSNS(ADV4, DW_CFA_offset | 16, 0x80, 0x80, 4), SP(8),
	     NONE, 1 + UNWIND_ra_rule, false),
	CASE("unknown instruction", INSNS(ADV4, 0x3f), SP(8), NONE, 1 + UNWIND_damaged, false),
	CASE("aarch64's instruction", INSNS(ADV4, 0x2d), SP(8), NONE, 1 + UNWIND_damaged, false),
	CASE("too many remembered",
	     INSNS(ADV4, DW_CFA_remember_state, DW_CFA_remember_state, DW_CFA_remember_state,
		   DW_CFA_remember_state, DW_CFA_remember_state, DW_CFA_remember_state,
		   DW_CFA_remember_state, DW_CFA_remember_state, DW_CFA_remember_state,
		   DW_CFA_remember_state, DW_CFA_remember_state, DW_CFA_remember_state,
		   DW_CFA_remember_state, DW_CFA_remember_state, DW_CFA_remember_state,
		   DW_CFA_remember_state, DW_CFA_remember_state),
	     SP(8), NONE, 1 + UNWIND_damaged, false),
	SIGNAL_CASE("signal frame", SIGNAL_INSNS(UC_RSP, UC_RBP, UC_RIP, UC_RSP),
		    { .cfa_kind = CFA_SIGNAL, .cfa_reg = 7 },
		    { .cfa_kind = CFA_SIGNAL, .cfa_reg = 7 }, 0, false),
	/* 176, 136, 184: a ucontext 16 bytes above rsp */
	SIGNAL_CASE("signal frame above rsp",
		    INSNS(DW_CFA_def_cfa_expression, 4, DW_OP_breg7, 0xb0, 1, DW_OP_deref,
			  DW_CFA_expression, 6, 3, DW_OP_breg7, 0x88, 1, DW_CFA_expression, 16, 3,
			  DW_OP_breg7, 0xb8, 1, DW_CFA_expression, 7, 3, DW_OP_breg7, 0xb0, 1),
		    { .cfa_kind = CFA_SIGNAL, .cfa_reg = 7, .cfa_off = 16 },
		    { .cfa_kind = CFA_SIGNAL, .cfa_reg = 7, .cfa_off = 16 }, 0, false),
	SIGNAL_CASE("signal frame of another layout", SIGNAL_INSNS(UC_RSP, UC_RBP, UC_RBP, UC_RSP),
		    NONE, NONE, 1 + UNWIND_sp_rule, false),
	CASE("a signal frame's rules without the letter S",
	     SIGNAL_INSNS(UC_RSP, UC_RBP, UC_RIP, UC_RSP), NONE, NONE, 1 + UNWIND_sp_rule, false),
};

static struct unwind_table *build_case(const struct opcode_case *c)
{
	struct section s = new_section();
	size_t pos = cie(&s, c->aug ? c->aug : "zR", x86_cie, sizeof(x86_cie));

	fde(&s, pos, GEN_TEXT_ADDR + 0x100, 16, c->insns, c->size);
	return build(&s);
}

static void each_opcode(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct opcode_case *c = &cases[i];
		struct unwind_table *t = build_case(c);

		assert_non_null(t);
		assert_rule(c->name, rule_at(t, 0xff), (struct unwind_rule){ 0 });
		assert_rule(c->name, rule_at(t, 0x100), c->at0);
		assert_rule(c->name, rule_at(t, 0x103), c->at0);
		assert_rule(c->name, rule_at(t, 0x104), c->at4);
		assert_rule(c->name, rule_at(t, 0x10f), c->at4);
		assert_rule(c->name, rule_at(t, 0x110), (struct unwind_rule){ 0 });
		if (t->stats.row_inexpressible != (c->why != 0) ||
		    (c->why && t->stats.row_reason[c->why - 1] != 1) ||
		    t->stats.row_fp_lost != c->fp_lost ||
		    t->stats.fde_bad != (c->why == 1 + UNWIND_damaged))
			fail_msg("%s: statistics", c->name);
		unwind_table__free(t);
	}
}

static void set_loc(void **state)
{
	struct section s = new_section();
	uint8_t insns[5] = { DW_CFA_set_loc };
	struct unwind_table *t;
	size_t pos;
	int32_t rel;

	(void)state;
	pos = cie(&s, "zR", x86_cie, sizeof(x86_cie));
	/* record: length, CIE pointer, start, size, augmentation, set_loc, and then the pointer */
	rel = (int32_t)(GEN_TEXT_ADDR + 0x108 - (GEN_EH_ADDR + s.n + 18));
	memcpy(insns + 1, &rel, sizeof(rel));
	fde(&s, pos, GEN_TEXT_ADDR + 0x100, 16,
	    (uint8_t[]){ DW_CFA_set_loc, insns[1], insns[2], insns[3], insns[4],
			 DW_CFA_def_cfa_offset, 16 },
	    7);
	t = build(&s);
	assert_non_null(t);
	assert_rule("before", rule_at(t, 0x107), (struct unwind_rule)SP(8));
	assert_rule("behind", rule_at(t, 0x108), (struct unwind_rule)SP(16));
	unwind_table__free(t);
}

/* ---- Headers ------------------------------------------------------------------------------- */

static void assert_plain(struct section *s, const char *what)
{
	struct unwind_table *t = build(s);

	if (!t)
		fail_msg("%s: %s", what, strerror(errno));
	assert_rule(what, rule_at(t, 0x100), (struct unwind_rule)SP(8));
	assert_rule(what, rule_at(t, 0x10f), (struct unwind_rule)SP(8));
	assert_rule(what, rule_at(t, 0x110), (struct unwind_rule){ 0 });
	assert_int_equal(t->stats.fde_cnt, 1);
	assert_int_equal(t->stats.fde_bad, 0);
	unwind_table__free(t);
}

static void encodings(void **state)
{
	static const uint8_t encs[] = {
		DW_EH_PE_absptr,
		DW_EH_PE_udata4,
		DW_EH_PE_sdata8,
		DW_EH_PE_pcrel | DW_EH_PE_sdata4,
		DW_EH_PE_pcrel | DW_EH_PE_sdata8,
		DW_EH_PE_pcrel | DW_EH_PE_absptr,
		DW_EH_PE_datarel | DW_EH_PE_sdata4,
		DW_EH_PE_datarel | DW_EH_PE_udata2,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(encs); i++) {
		for (int wide = 0; wide < 2; wide++) {
			struct section s = { .enc = encs[i], .wide = wide };
			char what[32];
			size_t pos = cie(&s, "zR", x86_cie, sizeof(x86_cie));

			snprintf(what, sizeof(what), "encoding 0x%x wide %d", encs[i], wide);
			fde(&s, pos, GEN_TEXT_ADDR + 0x100, 16, NULL, 0);
			assert_plain(&s, what);
		}
	}
}

/* The first word of the text holds GEN_TEXT_ADDR + 0x100. */
static void indirect_encoding(void **state)
{
	struct section s = { .enc = DW_EH_PE_indirect | DW_EH_PE_pcrel | DW_EH_PE_sdata4 };
	size_t pos = cie(&s, "zR", x86_cie, sizeof(x86_cie));

	(void)state;
	fde(&s, pos, GEN_TEXT_ADDR, 16, NULL, 0);
	assert_plain(&s, "indirect");
}

static void augmentations(void **state)
{
	static const char *const good[] = { "zR", "zPLR", "zRS", "zLPR", "zRB" };
	struct section s;
	size_t pos;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		s = new_section();
		pos = cie(&s, good[i], x86_cie, sizeof(x86_cie));
		fde(&s, pos, GEN_TEXT_ADDR + 0x100, 16, NULL, 0);
		assert_plain(&s, good[i]);
	}
	s = new_section();
	pos = cie(&s, "zQR", x86_cie, sizeof(x86_cie));
	fde(&s, pos, GEN_TEXT_ADDR + 0x100, 16, NULL, 0);
	assert_null(build(&s));
	assert_int_equal(errno, EBADMSG);
}

static void debug_frame(void **state)
{
	struct section s = { .enc = DW_EH_PE_absptr, .debug = true };
	size_t pos = cie(&s, "", x86_cie, sizeof(x86_cie));

	(void)state;
	fde(&s, pos, GEN_TEXT_ADDR + 0x100, 16, NULL, 0);
	assert_plain(&s, ".debug_frame");
}

static void aarch64_rules(void **state)
{
	static const uint8_t insns[] = {
		0x2d, /* negate_ra_state */
		DW_CFA_advance_loc | 1,
		DW_CFA_def_cfa_offset,
		32,
		DW_CFA_offset | 29,
		4,
		DW_CFA_offset | 30,
		3,
		DW_CFA_advance_loc | 1,
		DW_CFA_def_cfa_register,
		29,
	};
	struct section s = new_section();
	struct unwind_rule want = { .cfa_kind = CFA_REG, .cfa_reg = 31 };
	struct unwind_table *t;
	size_t pos;

	(void)state;
	s.machine = EM_AARCH64;
	pos = cie(&s, "zRB", arm_cie, sizeof(arm_cie));
	fde(&s, pos, GEN_TEXT_ADDR + 0x100, 16, insns, sizeof(insns));
	pos = cie(&s, "zRS", arm_cie, sizeof(arm_cie));
	fde(&s, pos, GEN_TEXT_ADDR + 0x200, 8, NULL, 0);
	t = build(&s);
	assert_non_null(t);
	assert_rule("leaf", rule_at(t, 0x100), want);
	want.cfa_off = 32;
	want.fp_rule = want.ra_rule = REG_CFA_OFF;
	want.fp_off = -32;
	want.ra_off = -24;
	assert_rule("saved", rule_at(t, 0x104), want);
	want.cfa_reg = 29;
	assert_rule("by fp", rule_at(t, 0x108), want);
	assert_rule("signal", rule_at(t, 0x204),
		    (struct unwind_rule){ .cfa_kind = CFA_SIGNAL, .cfa_reg = 31, .cfa_off = 128 });
	assert_int_equal(t->stats.row_inexpressible, 0);
	unwind_table__free(t);
}

/* ---- Ranges -------------------------------------------------------------------------------- */

/* An FDE whose CFA is rsp + off. */
static void fde_off(struct section *s, size_t pos, uint64_t at, uint64_t size, uint8_t off)
{
	fde(s, pos, GEN_TEXT_ADDR + at, size, (uint8_t[]){ DW_CFA_def_cfa_offset, off }, 2);
}

static int32_t off_at(const struct unwind_table *t, uint64_t at)
{
	return rule_at(t, at).cfa_off;
}

static void order_and_overlap(void **state)
{
	struct section s = new_section();
	size_t pos = cie(&s, "zR", x86_cie, sizeof(x86_cie));
	struct unwind_table *t;

	(void)state;
	fde_off(&s, pos, 0x400, 0x10, 40);
	fde_off(&s, pos, 0x120, 0x20, 16); /* overlaps the next one, which starts first */
	fde_off(&s, pos, 0x110, 0x20, 24);
	fde_off(&s, pos, 0x200, 0x10, 32);
	fde_off(&s, pos, 0x200, 0x20, 48); /* the same start: the larger one */
	fde_off(&s, pos, 0x208, 0x08, 56); /* inside */
	fde_off(&s, pos, 0x220, 0x10, 48); /* continues: no row */
	fde(&s, pos, 0, 0x10, NULL, 0);	   /* dropped by the linker */
	fde_off(&s, pos, 0x300, 0, 64);
	fde(&s, pos, GEN_EH_ADDR, 0x10, NULL, 0);	      /* not text */
	fde(&s, pos, GEN_TEXT_ADDR + 0xff0, 0x1000, NULL, 0); /* ends with the segment */
	t = build(&s);
	assert_non_null(t);
	assert_int_equal(off_at(t, 0x10f), 0);
	assert_int_equal(off_at(t, 0x110), 24);
	assert_int_equal(off_at(t, 0x12f), 24);
	assert_int_equal(off_at(t, 0x130), 16);
	assert_int_equal(off_at(t, 0x13f), 16);
	assert_int_equal(off_at(t, 0x140), 0);
	assert_int_equal(off_at(t, 0x200), 48);
	assert_int_equal(off_at(t, 0x22f), 48);
	assert_int_equal(off_at(t, 0x230), 0);
	assert_int_equal(off_at(t, 0x300), 0);
	assert_int_equal(off_at(t, 0x400), 40);
	assert_int_equal(off_at(t, 0xfff), 8);
	assert_int_equal(off_at(t, 0x1000), 0);
	/* 0x100 none, 0x110, 0x130, 0x140 none, 0x200, 0x230 none, 0x400, 0x410 none, 0xff0, end */
	assert_int_equal(t->stats.row_cnt, 10);
	assert_int_equal(t->stats.fde_bad, 0);
	unwind_table__free(t);
}

static void overlap_clips_inside(void **state)
{
	struct section s = new_section();
	size_t pos = cie(&s, "zR", x86_cie, sizeof(x86_cie));
	struct unwind_table *t;

	(void)state;
	fde_off(&s, pos, 0x100, 0x10, 16);
	/* its rows at 0x108 and 0x10c are hidden, the one that holds at 0x110 is not */
	fde(&s, pos, GEN_TEXT_ADDR + 0x108, 0x18,
	    (uint8_t[]){ DW_CFA_def_cfa_offset, 24, ADV4, DW_CFA_def_cfa_offset, 32,
			 DW_CFA_advance_loc | 12, DW_CFA_def_cfa_offset, 40 },
	    8);
	t = build(&s);
	assert_non_null(t);
	assert_int_equal(off_at(t, 0x10f), 16);
	assert_int_equal(off_at(t, 0x110), 32);
	assert_int_equal(off_at(t, 0x117), 32);
	assert_int_equal(off_at(t, 0x118), 40);
	assert_int_equal(off_at(t, 0x120), 0);
	unwind_table__free(t);
}

static void nothing(void **state)
{
	struct section s = new_section();

	(void)state;
	put_int(&s, 0, 4); /* a terminator alone */
	assert_null(build(&s));
	assert_int_equal(errno, ENOENT);
	s = new_section();
	assert_null(build(&s));
	assert_int_equal(errno, ENOENT);
}

/* Text of many pages, rows of many lengths: every answer against a plain array. */
static void every_offset(void **state)
{
	enum { SIZE = 3 << 16 };
	struct section s = new_section();
	int32_t *want = calloc(SIZE, sizeof(*want));
	size_t pos = cie(&s, "zR", x86_cie, sizeof(x86_cie));
	struct unwind_table *t;
	uint32_t x = 1, at = 0x900;

	(void)state;
	assert_non_null(want);
	s.text_size = SIZE;
	while (at < SIZE - 0x3000) {
		uint32_t size, off;

		x = x * 1103515245 + 12345;
		size = 1 + (x >> 16) % ((x >> 8) % 13 ? 40 : 5000);
		off = 8 + (x >> 12) % 16;
		if ((x >> 9) % 4) {
			fde_off(&s, pos, at, size, (uint8_t)off);
			for (uint32_t i = 0; i < size; i++)
				want[at + i] = (int32_t)off;
		}
		at += size;
	}
	t = build(&s);
	assert_non_null(t);
	for (uint32_t i = 0; i < SIZE; i++) {
		if (off_at(t, i) != want[i])
			fail_msg("at 0x%x: %d, not %d", i, off_at(t, i), want[i]);
	}
	assert_int_equal(off_at(t, 0 - (uint64_t)GEN_TEXT_OFF), 0);
	assert_int_equal(off_at(t, 1ULL << 32), 0);
	assert_int_equal(off_at(t, 1ULL << 60), 0);
	assert_int_equal(t->word_cnt % UW_CHUNK_WORDS, 0);
	unwind_table__free(t);
	free(want);
}

/* More different rules than a row can name: the rest is rule 0, and counted. */
static void rules_full(void **state)
{
	enum { RULES = 70000 };
	struct section s = new_section(), insns = { 0 };
	size_t pos = cie(&s, "zR", x86_cie, sizeof(x86_cie));
	struct unwind_table *t;

	(void)state;
	for (unsigned int i = 0; i < RULES; i++) {
		put_int(&insns, DW_CFA_def_cfa_offset, 1);
		put_uleb(&insns, 1 + i);
		put_int(&insns, DW_CFA_advance_loc | 1, 1);
	}
	s.text_size = 0x20000;
	fde(&s, pos, GEN_TEXT_ADDR, RULES, insns.b, insns.n);
	free(insns.b);
	t = build(&s);
	assert_non_null(t);
	assert_int_equal(off_at(t, 65534), 65535);
	assert_int_equal(off_at(t, 65535), 0);
	assert_int_equal(off_at(t, RULES - 1), 0);
	assert_true(t->stats.row_reason[UNWIND_rules_full] > 0);
	unwind_table__free(t);
}

/* ---- fde_at -------------------------------------------------------------------------------- */

static void check_fde_at(const struct elf_file *ef)
{
	uint64_t start = 0, end = 0;

	assert_false(ehframe__fde_at(ef, GEN_TEXT_ADDR + 0xff, &start, &end));
	for (uint64_t at = 0x100; at < 0x110; at++) {
		assert_true(ehframe__fde_at(ef, GEN_TEXT_ADDR + at, &start, &end));
		assert_int_equal(start, GEN_TEXT_ADDR + 0x100);
		assert_int_equal(end, GEN_TEXT_ADDR + 0x110);
	}
	assert_false(ehframe__fde_at(ef, GEN_TEXT_ADDR + 0x110, &start, &end));
	assert_true(ehframe__fde_at(ef, GEN_TEXT_ADDR + 0x21f, &start, &end));
	assert_int_equal(start, GEN_TEXT_ADDR + 0x200);
	assert_false(ehframe__fde_at(ef, 0, &start, &end));
	assert_false(ehframe__fde_at(ef, UINT64_MAX, &start, &end));
}

static void fde_at(void **state)
{
	struct section s = new_section();
	size_t pos = cie(&s, "zR", x86_cie, sizeof(x86_cie)), first, second;
	struct elfgen g = { 0 };
	struct elf_file *ef;
	uint64_t base;

	(void)state;
	second = s.n;
	fde_off(&s, pos, 0x200, 0x20, 16);
	first = s.n;
	fde_off(&s, pos, 0x100, 0x10, 16);
	g.eh_size = (uint32_t)s.n;
	base = elfgen_hdr_addr(&g);
	struct {
		uint8_t head[4];
		int32_t eh_frame;
		uint32_t cnt;
		int32_t table[4];
	} hdr = { { 1, 0x1b, 0x03, 0x3b },
		  (int32_t)(GEN_EH_ADDR - base - 4),
		  2,
		  { (int32_t)(GEN_TEXT_ADDR + 0x100 - base), (int32_t)(GEN_EH_ADDR + first - base),
		    (int32_t)(GEN_TEXT_ADDR + 0x200 - base),
		    (int32_t)(GEN_EH_ADDR + second - base) } };
	ef = open_section(&s, &hdr, sizeof(hdr));
	check_fde_at(ef);
	elf_file__forget(ef);
	check_fde_at(ef);
	elf_file__close(ef);
	hdr.cnt = 1U << 30; /* not a table that can be: scan */
	ef = open_section(&s, &hdr, sizeof(hdr));
	check_fde_at(ef);
	elf_file__close(ef);
	ef = open_section(&s, NULL, 0);
	check_fde_at(ef);
	elf_file__close(ef);
	free(s.b);
}

/* ---- Damage -------------------------------------------------------------------------------- */

static struct section sample(void)
{
	static const uint8_t signal[] = SIGNAL_INSNS(UC_RSP, UC_RBP, UC_RIP, UC_RSP);
	static const uint8_t body[] = { DW_CFA_remember_state,
					DW_CFA_def_cfa_offset,
					32,
					DW_CFA_offset | 6,
					2,
					ADV4,
					DW_CFA_restore_state,
					DW_CFA_def_cfa_expression,
					3,
					DW_OP_breg6,
					0x78,
					DW_OP_deref };
	struct section s = new_section();
	size_t pos = cie(&s, "zPLR", x86_cie, sizeof(x86_cie));

	fde_off(&s, pos, 0x100, 0x10, 16);
	fde(&s, pos, GEN_TEXT_ADDR + 0x200, 0x20, body, sizeof(body));
	pos = cie(&s, "zRS", x86_cie, sizeof(x86_cie));
	fde(&s, pos, GEN_TEXT_ADDR + 0x300, 16, signal, sizeof(signal));
	return s;
}

/* Any answer, as long as it is one. */
static void survive(const struct section *s)
{
	struct elf_file *ef = open_section(s, NULL, 0);
	struct unwind_table *t = unwind_table__build(ef);
	uint64_t start, end;

	if (t) {
		for (uint64_t at = 0; at < 0x400; at += 7)
			rule_at(t, at);
		assert_true(t->stats.row_cnt <= s->n + 1);
	} else {
		assert_true(errno == EBADMSG || errno == ENOENT);
	}
	ehframe__fde_at(ef, GEN_TEXT_ADDR + 0x204, &start, &end);
	unwind_table__free(t);
	elf_file__close(ef);
}

static void cut_short(void **state)
{
	struct section s = sample();
	size_t whole = s.n;

	(void)state;
	for (s.n = 0; s.n < whole; s.n++)
		survive(&s);
	free(s.b);
}

static void wrong_bytes(void **state)
{
	static const uint8_t values[] = { 0, 1, 0x7f, 0x80, 0xff };
	struct section s = sample();

	(void)state;
	for (size_t i = 0; i < s.n; i++) {
		uint8_t good = s.b[i];

		for (size_t k = 0; k < sizeof(values); k++) {
			s.b[i] = values[k];
			survive(&s);
		}
		s.b[i] = good;
	}
	free(s.b);
}

/* What comes before the damage is kept. */
static void part_beats_none(void **state)
{
	struct section s = new_section();
	size_t pos = cie(&s, "zR", x86_cie, sizeof(x86_cie));
	struct unwind_table *t;

	(void)state;
	fde_off(&s, pos, 0x100, 0x10, 16);
	put_int(&s, 0x7fffffff, 4);
	put_int(&s, 0, 8);
	t = build(&s);
	assert_non_null(t);
	assert_int_equal(off_at(t, 0x100), 16);
	assert_int_equal(t->stats.fde_bad, 1);
	unwind_table__free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_opcode),
		cmocka_unit_test(set_loc),
		cmocka_unit_test(encodings),
		cmocka_unit_test(indirect_encoding),
		cmocka_unit_test(augmentations),
		cmocka_unit_test(debug_frame),
		cmocka_unit_test(aarch64_rules),
		cmocka_unit_test(order_and_overlap),
		cmocka_unit_test(overlap_clips_inside),
		cmocka_unit_test(nothing),
		cmocka_unit_test(every_offset),
		cmocka_unit_test(rules_full),
		cmocka_unit_test(fde_at),
		cmocka_unit_test(cut_short),
		cmocka_unit_test(wrong_bytes),
		cmocka_unit_test(part_beats_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
