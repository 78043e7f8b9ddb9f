/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "elf/insn.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "elf/elf.h"

/* The bytes after an opcode: Intel SDM vol. 2, appendix A. */
enum form {
	BAD = 0,
	NONE,
	MRM,   /* ModRM */
	MRM1,  /* ... and one byte */
	MRMZ,  /* ... and four, or two with the prefix 66 */
	IMM1,  /* one byte */
	IMM2,  /* two */
	IMM3,  /* enter: two and one */
	IMMZ,  /* four, or two with the prefix 66 */
	IMMV,  /* eight with REX.W, two with 66, else four */
	MOFFS, /* an address: eight bytes, four with the prefix 67 */
	REL1,
	REL4,
	GRP1, /* f6: a byte follows if ModRM says so */
	GRPZ, /* f7 */
};

/* clang-format off */
static const uint8_t one_byte[256] = {
	[0x00 ... 0x03] = MRM, [0x04] = IMM1, [0x05] = IMMZ,
	[0x08 ... 0x0b] = MRM, [0x0c] = IMM1, [0x0d] = IMMZ,
	[0x10 ... 0x13] = MRM, [0x14] = IMM1, [0x15] = IMMZ,
	[0x18 ... 0x1b] = MRM, [0x1c] = IMM1, [0x1d] = IMMZ,
	[0x20 ... 0x23] = MRM, [0x24] = IMM1, [0x25] = IMMZ,
	[0x28 ... 0x2b] = MRM, [0x2c] = IMM1, [0x2d] = IMMZ,
	[0x30 ... 0x33] = MRM, [0x34] = IMM1, [0x35] = IMMZ,
	[0x38 ... 0x3b] = MRM, [0x3c] = IMM1, [0x3d] = IMMZ,
	[0x50 ... 0x5f] = NONE,
	[0x63] = MRM, [0x68] = IMMZ, [0x69] = MRMZ, [0x6a] = IMM1, [0x6b] = MRM1,
	[0x6c ... 0x6f] = NONE,
	[0x70 ... 0x7f] = REL1,
	[0x80] = MRM1, [0x81] = MRMZ, [0x83] = MRM1,
	[0x84 ... 0x8f] = MRM,
	[0x90 ... 0x99] = NONE, [0x9b ... 0x9f] = NONE,
	[0xa0 ... 0xa3] = MOFFS, [0xa4 ... 0xa7] = NONE, [0xa8] = IMM1, [0xa9] = IMMZ,
	[0xaa ... 0xaf] = NONE,
	[0xb0 ... 0xb7] = IMM1, [0xb8 ... 0xbf] = IMMV,
	[0xc0 ... 0xc1] = MRM1, [0xc2] = IMM2, [0xc3] = NONE, [0xc6] = MRM1, [0xc7] = MRMZ,
	[0xc8] = IMM3, [0xc9] = NONE, [0xca] = IMM2, [0xcb ... 0xcc] = NONE,
	[0xcd] = IMM1, [0xcf] = NONE,
	[0xd0 ... 0xd3] = MRM, [0xd7] = NONE, [0xd8 ... 0xdf] = MRM,
	[0xe0 ... 0xe3] = REL1, [0xe4 ... 0xe7] = IMM1, [0xe8 ... 0xe9] = REL4, [0xeb] = REL1,
	[0xec ... 0xef] = NONE,
	[0xf1] = NONE, [0xf4 ... 0xf5] = NONE, [0xf6] = GRP1, [0xf7] = GRPZ, [0xf8 ... 0xfd] = NONE,
	[0xfe ... 0xff] = MRM,
};

/* Behind 0f. */
static const uint8_t two_byte[256] = {
	[0x00 ... 0x03] = MRM, [0x05 ... 0x09] = NONE, [0x0b] = NONE, [0x0d] = MRM,
	[0x10 ... 0x23] = MRM, [0x28 ... 0x2f] = MRM, [0x30 ... 0x35] = NONE, [0x37] = NONE,
	[0x40 ... 0x6f] = MRM, [0x70 ... 0x73] = MRM1, [0x74 ... 0x76] = MRM, [0x77] = NONE,
	[0x78 ... 0x7f] = MRM, [0x80 ... 0x8f] = REL4, [0x90 ... 0x9f] = MRM,
	[0xa0 ... 0xa2] = NONE, [0xa3] = MRM, [0xa4] = MRM1, [0xa5] = MRM, [0xa8 ... 0xaa] = NONE,
	[0xab] = MRM, [0xac] = MRM1, [0xad ... 0xb9] = MRM, [0xba] = MRM1, [0xbb ... 0xc1] = MRM,
	[0xc2] = MRM1, [0xc3] = MRM, [0xc4 ... 0xc6] = MRM1, [0xc7] = MRM, [0xc8 ... 0xcf] = NONE,
	[0xd0 ... 0xff] = MRM,
};
/* clang-format on */

/* The bytes of one x86-64 instruction, and what its prefixes say. */
struct insn_reader {
	const uint8_t *code;
	size_t left, at;
	bool opsize, addrsize, prefixed; /* 66; 67; any prefix but REX */
	uint8_t rex;			 /* 0: none */
};

static int take(struct insn_reader *r, uint8_t *byte)
{
	if (r->at >= r->left || r->at >= INSN_MAX)
		return -EINVAL;
	*byte = r->code[r->at++];
	return 0;
}

static int skip(struct insn_reader *r, size_t cnt)
{
	if (cnt > r->left - r->at || r->at + cnt > INSN_MAX)
		return -EINVAL;
	r->at += cnt;
	return 0;
}

static bool is_prefix(uint8_t byte)
{
	switch (byte) {
	case 0x26:
	case 0x2e:
	case 0x36:
	case 0x3e:
	case 0x64 ... 0x67:
	case 0xf0:
	case 0xf2:
	case 0xf3:
		return true;
	}
	return false;
}

/* Prefixes and the first byte of the opcode. */
static int take_opcode(struct insn_reader *r, uint8_t *opcode)
{
	int err;

	while (!(err = take(r, opcode)) && is_prefix(*opcode)) {
		r->prefixed = true;
		r->opsize |= *opcode == 0x66;
		r->addrsize |= *opcode == 0x67;
	}
	if (!err && (*opcode & 0xf0) == 0x40) {
		r->rex = *opcode;
		err = take(r, opcode);
	}
	return err;
}

/* SDM vol. 2, 2.1.5; `modrm` is what was taken. */
static int skip_operand(struct insn_reader *r, uint8_t *modrm)
{
	uint8_t sib, mod, rm;

	if (take(r, modrm))
		return -EINVAL;
	mod = *modrm >> 6;
	rm = *modrm & 7;
	if (mod == 3)
		return 0;
	if (rm == 4) {
		if (take(r, &sib))
			return -EINVAL;
		if (mod == 0 && (sib & 7) == 5)
			return skip(r, 4);
	}
	if (mod == 0)
		return skip(r, rm == 5 ? 4 : 0);
	return skip(r, mod == 1 ? 1 : 4);
}

static int skip_form(struct insn_reader *r, enum form form)
{
	size_t z = r->opsize ? 2 : 4;
	uint8_t modrm = 0;
	int err = 0;

	if (form == MRM || form == MRM1 || form == MRMZ || form == GRP1 || form == GRPZ)
		err = skip_operand(r, &modrm);
	if (err)
		return err;
	switch (form) {
	case BAD:
		return -EINVAL;
	case NONE:
	case MRM:
		return 0;
	case MRM1:
	case IMM1:
	case REL1:
		return skip(r, 1);
	case IMM2:
		return skip(r, 2);
	case IMM3:
		return skip(r, 3);
	case MRMZ:
	case IMMZ:
		return skip(r, z);
	case IMMV:
		return skip(r, r->rex & 8 ? 8 : z);
	case MOFFS:
		return skip(r, r->addrsize ? 4 : 8);
	case REL4:
		return skip(r, 4);
	case GRP1:
		return skip(r, modrm & 0x30 ? 0 : 1);
	case GRPZ:
		return skip(r, modrm & 0x30 ? 0 : z);
	}
	return -EINVAL;
}

/*
 * VEX and EVEX: SDM vol. 2, 2.3 and 2.6. The map of opcodes is in the low bits of the second byte.
 */
static int skip_vector(struct insn_reader *r, uint8_t first)
{
	uint8_t map = 1, opcode;
	size_t more = first == 0x62 ? 2 : first == 0xc4 ? 1 : 0;
	enum form form;

	if (take(r, &opcode))
		return -EINVAL;
	if (first != 0xc5)
		map = opcode & (first == 0x62 ? 7 : 0x1f);
	if (skip(r, more) || take(r, &opcode))
		return -EINVAL;
	if (map == 1)
		form = (enum form)two_byte[opcode];
	else
		form = map == 3 ? MRM1 : map == 2 || map == 5 || map == 6 ? MRM : BAD;
	return skip_form(r, form);
}

static int skip_two_byte(struct insn_reader *r, uint8_t *opcode)
{
	uint8_t third;

	if (take(r, opcode))
		return -EINVAL;
	if (*opcode == 0x38 || *opcode == 0x3a)
		return take(r, &third) ? -EINVAL : skip_form(r, *opcode == 0x3a ? MRM1 : MRM);
	return skip_form(r, (enum form)two_byte[*opcode]);
}

/* A relative branch: its displacement is what the instruction ends with. */
static void set_target(const struct insn_reader *r, uint64_t pc, size_t bytes, struct insn *out)
{
	int8_t rel1;
	int32_t rel4;

	out->direct = true;
	out->target = pc + r->at;
	if (bytes == 1) {
		memcpy(&rel1, r->code + r->at - 1, 1);
		out->target += (uint64_t)(int64_t)rel1;
	} else {
		memcpy(&rel4, r->code + r->at - 4, 4);
		out->target += (uint64_t)(int64_t)rel4;
	}
}

/*
 * Of one byte: nop, push, jcc, jmp, call (branch_setup_xol_ops(), push_setup_xol_ops()). The kernel
 * takes no prefix but the REX that names one of the upper registers of push; 0f 1f is left alone:
 * newer kernels rewrite its five-byte form to a call.
 */
static void describe_one_byte(const struct insn_reader *r, uint64_t pc, uint8_t opcode,
			      struct insn *out)
{
	bool branch = (opcode & 0xf0) == 0x70 || opcode == 0xeb || opcode == 0xe8 || opcode == 0xe9;

	if (branch || (opcode & 0xfc) == 0xe0)
		set_target(r, pc, one_byte[opcode] == REL1 ? 1 : 4, out);
	out->ends = opcode == 0xeb || opcode == 0xe9 || opcode == 0xc3 || opcode == 0xc2;
	if (r->prefixed)
		return;
	if ((opcode & 0xf8) == 0x50)
		out->emulated = !r->rex || r->rex == 0x41;
	else
		out->emulated = !r->rex && (branch || opcode == 0x90);
}

int insn__decode(const uint8_t *code, size_t left, uint64_t pc, struct insn *out)
{
	struct insn_reader r = { .code = code, .left = left };
	uint8_t opcode, second;
	size_t at;
	int err = take_opcode(&r, &opcode);

	*out = (struct insn){ 0 };
	if (err)
		return err;
	at = r.at;
	if (opcode == 0xc4 || opcode == 0xc5 || opcode == 0x62) {
		err = skip_vector(&r, opcode);
	} else if (opcode == 0x0f) {
		err = skip_two_byte(&r, &second);
		if (!err && (second & 0xf0) == 0x80) {
			set_target(&r, pc, 4, out);
			out->emulated = !r.prefixed && !r.rex;
		}
		out->ends = !err && second == 0x0b;
	} else {
		err = skip_form(&r, (enum form)one_byte[opcode]);
		if (!err)
			describe_one_byte(&r, pc, opcode, out);
		if (!err && opcode == 0xff) /* jmp *... */
			out->ends = (code[at] >> 3 & 7) == 4;
	}
	out->size = (uint8_t)r.at;
	return err;
}

int insn__at(const struct elf_file *ef, uint64_t addr, uint8_t code[INSN_MAX], struct insn *out)
{
	size_t left = INSN_MAX;

	if (elf_file__machine(ef) != EM_X86_64)
		return -EINVAL;
	memset(code, 0, INSN_MAX);
	/* Close to the end of a segment there are fewer bytes. */
	while (left && elf_file__read(ef, addr, code, left))
		left--;
	return insn__decode(code, left, addr, out);
}

int insn__find_emulated(const struct elf_file *ef, uint64_t from, unsigned max,
			insn_pass_fn *may_pass, uint64_t *found)
{
	uint8_t code[INSN_MAX];
	uint64_t at = from;
	struct insn insn;

	for (unsigned i = 0; i < max; i++) {
		if (insn__at(ef, at, code, &insn))
			return i ? -ENOENT : -EINVAL;
		if (insn.emulated) {
			*found = at;
			return 0;
		}
		if (!may_pass(code, &insn))
			break;
		at += insn.size;
	}
	return -ENOENT;
}
