/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_TRACE_FRAME_BPF_H
#define PYPERF_TRACE_FRAME_BPF_H
/*
 * At a breakpoint: which one it is, which register has the frame, and who calls that.
 *
 * Input:   the registers.
 * Output:  struct place; which registers have been right, by breakpoint, in `ways`.
 * Fails:   no register has a frame: 0.
 */
#include "trace_state.bpf.h"

/*
 * The number of the breakpoint. Global, so that the code after it is verified once for any number,
 * not for each of them.
 */
BPF_NOINLINE __u32 spot_at(__u64 pc)
{
	for (__u32 i = 0; i < TRACE_SPOTS && i < cfg.spot_cnt; i++)
		if (cfg.spots[i].pc == pc)
			return i;
	return TRACE_SPOTS;
}

/* Global, as spot_at(). */
BPF_NOINLINE __u32 spot_by_cookie(__u64 cookie)
{
	return cookie < TRACE_SPOTS ? (__u32)cookie : TRACE_SPOTS;
}

BPF_INLINE __u32 spot_of(user_regs *ctx)
{
	if (cfg.by_cookie)
		return spot_by_cookie(bpf_get_attach_cookie(ctx));
	return spot_at(arch_pc(ctx));
}

/* ---- where the frame is ---------------------------------------------------------------------- */

/*
 * Bytes of the bytecode: ob_size (Include/cpython/code.h, _PyCode_NBYTES()), which is behind
 * ob_type.
 */
BPF_INLINE __u64 code_bytes(__u64 code)
{
	return 2 * read64(code + cfg.layout.ob_type + 8);
}

/*
 * Reads RESUME, with its argument, `back` bytes before `instr` in this code object; 0: it is not
 * there. In free-threaded builds from 3.14 on each thread has its own bytecode, which may be
 * anywhere.
 */
BPF_INLINE __u32 resume_before(__u64 code, __u64 size, __u64 instr, __u32 back)
{
	__u64 at = instr - back;
	__u16 word;

	if (at & 1)
		return 0;
	if (cfg.layout.code_tlbc == PY_OFF_NONE && at - code - cfg.layout.code_bytecode >= size)
		return 0;
	if (read_user(&word, sizeof(word), at) || !is_resume((__u8)word))
		return 0;
	return word;
}

/*
 * How well registers fit, in one word, which the verifier need not follow: from the low bits on
 * RESUME with its argument, trace_way.back, enum fit, trace_way.instr and trace_way.frame. 0: not.
 */
enum fit {
	FIT_CODE =
		1, /* the two belong together, as they do for a caller that is left in registers */
	FIT_HERE = 2, /* and the frame itself is there */
};

#define FIT_BACK    16
#define FIT_FIT	    24
#define FIT_INSTR   32
#define FIT_FRAME   40

#define RESUME_NEAR 64 /* bytes: what may run before RESUME without a trace in the frame */

/*
 * Is `reg` the next instruction of this frame, behind RESUME or still at it? Global, so that the
 * verifier checks it once, not for each pair of registers.
 */
BPF_NOINLINE __u64 fit_of(__u64 frame, __u64 code, __u64 size, __u64 reg)
{
	__u64 back = cfg.resume_size, fit = FIT_CODE;
	__u32 word = resume_before(code, size, reg, (__u32)back);

	if (!word) {
		back = 0;
		word = resume_before(code, size, reg, 0);
	}
	if (!word)
		return 0;
	if (reg - back - read64(frame + cfg.layout.frame_lasti) <= RESUME_NEAR)
		fit = FIT_HERE;
	return word | back << FIT_BACK | fit << FIT_FIT;
}

BPF_INLINE int is_here(__u64 fit)
{
	return (fit >> FIT_FIT & 3) == FIT_HERE;
}

/* Global, as fit_of(). The first of two that fit as well. */
BPF_NOINLINE __u64 better_fit(__u64 a, __u64 b)
{
	return (b >> FIT_FIT & 3) > (a >> FIT_FIT & 3) ? b : a;
}

/* Global, as spot_at(): 16 comparisons would be 65,536 paths. */
BPF_NOINLINE __u32 is_same(__u64 a, __u64 b)
{
	return a == b;
}

BPF_INLINE int is_code(__u64 addr, __u64 type)
{
	return addr && is_same(read64(addr + cfg.layout.ob_type), type);
}

/* Decides by the opcode and its argument. */
BPF_INLINE void set_resumed(struct place *p, __u32 word)
{
	__u32 where = word >> 8 & cfg.resume_mask;

	p->opcode = (__u8)word;
	p->resumed = where != 0;
	p->other = where == TRACE_RESUME_GENEXPR || !is_resume((__u8)word);
}

/*
 * Is regs[i] the frame? A function of its own: otherwise clang enters the loop of the caller behind
 * a call, which kernels before 6.1 take for an endless loop.
 */
TRACE_NOINLINE __u64 try_register(const __u64 *regs, __u32 i, __u64 type)
{
	__u64 code = code_of(regs[i]), size, best = 0;

	if (!is_code(code, type))
		return 0;
	size = code_bytes(code);
	for (__u64 k = 0; k < TRACE_REG_CNT; k++)
		best = better_fit(best, fit_of(regs[i], code, size, regs[k]) | k << FIT_INSTR);
	return best | (__u64)i << FIT_FRAME;
}

/* A caller that is left in registers fits, too: the frame that is FIT_HERE is the one. */
TRACE_NOINLINE __u64 best_fit(user_regs *ctx, __u64 type)
{
	__u64 regs[GREG_CNT], best = 0;

	arch_copy_regs(regs, ctx);
	for (__u32 i = 0; i < TRACE_REG_CNT; i++)
		best = better_fit(best, try_register(regs, i, type));
	return best;
}

/* -bit, of which clang makes no branch: 16 of them would be 65,536 paths. */
BPF_INLINE __u64 all_bits_if(__u64 bit)
{
	__u64 bits = -bit;

	__asm__ volatile("" : "+r"(bits));
	return bits;
}

/* As arch_reg(), without a path for each register. */
BPF_INLINE __u64 register_at(const __u64 *regs, __u64 n)
{
	__u64 value = 0;

	for (__u32 i = 0; i < TRACE_REG_CNT; i++)
		value |= regs[i] & all_bits_if(((n ^ i) - 1) >> 63);
	return value;
}

/* The registers that were right so far. */
TRACE_NOINLINE __u64 fit_again(user_regs *ctx, const struct trace_way *known, __u64 type)
{
	__u64 regs[GREG_CNT], frame, code;

	if (!known || !known->agreed)
		return 0;
	arch_copy_regs(regs, ctx);
	frame = register_at(regs, known->frame);
	code = code_of(frame);
	if (!is_code(code, type))
		return 0;
	return fit_of(frame, code, code_bytes(code), register_at(regs, known->instr)) |
	       (__u64)known->instr << FIT_INSTR | (__u64)known->frame << FIT_FRAME;
}

/* A search reads the process 50 times and more, mostly where nothing is. */
TRACE_NOINLINE int search_frame(user_regs *ctx, const struct trace_way *known,
				struct trace_way *way, struct place *p)
{
	__u64 fit = fit_again(ctx, known, p->type);

	if (!is_here(fit)) {
		count(TRACE_CTR_note_searched);
		fit = best_fit(ctx, p->type);
	}
	if (!fit)
		return 0;
	way->back = (__u8)(fit >> FIT_BACK);
	way->instr = (__u8)(fit >> FIT_INSTR);
	way->frame = (__u8)(fit >> FIT_FRAME);
	p->frame = arch_reg(ctx, way->frame);
	p->code = code_of(p->frame);
	set_resumed(p, (__u32)fit & 0xffff);
	return 1;
}

/* A bit for each register that has this value. */
BPF_INLINE __u32 registers_with(user_regs *ctx, __u64 value)
{
	__u64 regs[GREG_CNT];
	__u32 mask = 0;

	arch_copy_regs(regs, ctx);
	for (__u32 i = 0; i < TRACE_REG_CNT; i++)
		mask |= (is_same(regs[i], value) & 1) << i;
	return mask;
}

/* Global, as spot_at(). TRACE_REG_CNT: none. */
BPF_NOINLINE __u32 first_of(__u32 mask)
{
	for (__u32 i = 0; i < TRACE_REG_CNT; i++)
		if (mask >> i & 1)
			return i;
	return TRACE_REG_CNT;
}

BPF_INLINE int is_single(__u32 mask)
{
	return !(mask & (mask - 1));
}

/*
 * One more hit agrees. Hits that are alike, as those of one recursive function are, agree on
 * registers that others do not: as long as several have been right each time, it takes longer.
 */
BPF_INLINE void agree(__u32 spot)
{
	__u32 at = spot & (TRACE_SPOTS - 1);
	__u8 agreed = ways[at].agreed;

	if (agreed < TRACE_LEARNED)
		agreed++;
	if (agreed >= TRACE_AGREED && is_single(candidates[at]) && is_single(pointers[at]))
		agreed = TRACE_LEARNED;
	ways[at].agreed = agreed;
}

/* From then on only the learned registers are read. */
BPF_INLINE int is_learned(__u32 spot)
{
	return ways[spot & (TRACE_SPOTS - 1)].agreed >= TRACE_LEARNED;
}

/* In which bits these registers differ from each other. */
BPF_INLINE __u64 differences(const __u64 *regs, __u32 mask)
{
	__u64 any = 0, all = -1ULL;

	for (__u32 i = 0; i < TRACE_REG_CNT; i++) {
		__u64 bits = all_bits_if(mask >> i & 1);

		any |= regs[i] & bits;
		all &= regs[i] | ~bits;
	}
	return any & ~all;
}

/*
 * A hit has nothing to say if all registers that have been right each time are the same in it: it
 * counts as one that agrees, at the price of one after learning.
 */
TRACE_NOINLINE int agrees(user_regs *ctx, __u32 spot)
{
	__u32 at = spot & (TRACE_SPOTS - 1);
	__u64 regs[GREG_CNT];

	if (ways[at].agreed < TRACE_AGREED)
		return 0;
	arch_copy_regs(regs, ctx);
	if (differences(regs, candidates[at]) || differences(regs, pointers[at]))
		return 0;
	agree(spot);
	return 1;
}

/* Learns the registers that have been right at this spot each time. */
TRACE_NOINLINE int learn(user_regs *ctx, __u32 spot, const struct trace_way *way)
{
	__u32 at = spot & (TRACE_SPOTS - 1), frames, instrs;
	struct trace_way *known = &ways[at];

	if (!way)
		return 0;
	frames = registers_with(ctx, arch_reg(ctx, way->frame));
	instrs = registers_with(ctx, arch_reg(ctx, way->instr));
	if (known->agreed && known->back == way->back && frames & candidates[at] &&
	    instrs & pointers[at]) {
		frames &= candidates[at];
		instrs &= pointers[at];
	} else {
		known->agreed = 0;
	}
	candidates[at] = frames;
	pointers[at] = instrs;
	known->frame = (__u8)first_of(frames);
	known->instr = (__u8)first_of(instrs);
	known->back = way->back;
	agree(spot);
	return 0;
}

/* PyCode_Type in this process. */
BPF_INLINE __u64 code_type_at(user_regs *ctx, __u32 spot)
{
	return cfg.code_type + arch_pc(ctx) - cfg.spots[spot & (TRACE_SPOTS - 1)].pc;
}

/* Global, as spot_at(). Does a code object hang on it? */
BPF_NOINLINE __u32 is_frame(__u64 frame, __u64 type)
{
	return frame && is_code(code_of(frame), type);
}

/* Global, as spot_at(). Is `instr` in the bytecode of this code object? */
BPF_NOINLINE __u32 is_instr_of(__u64 instr, __u64 code, __u64 type)
{
	__u64 head[2]; /* ob_type, ob_size */

	if (read_user(head, sizeof(head), code + cfg.layout.ob_type) || head[0] != type)
		return 0;
	return cfg.layout.code_tlbc != PY_OFF_NONE ||
	       instr - code - cfg.layout.code_bytecode < 2 * head[1];
}

/*
 * Uses the learned registers. 0: they are wrong for this hit. What is learned in one process is
 * used in all that execute the same file, and a process can execute a breakpoint with any
 * registers: so with several processes each hit is checked.
 */
BPF_INLINE int known_frame(user_regs *ctx, const struct trace_way *way, struct place *p)
{
	__u16 word = 0;

	p->frame = arch_reg(ctx, way->frame);
	p->code = code_of(p->frame);
	if (!p->code)
		return 0;
	p->instr = arch_reg(ctx, way->instr) - way->back;
	if (by_process && !is_instr_of(p->instr, p->code, p->type))
		return 0;
	if (read_user(&word, sizeof(word), p->instr))
		return 0;
	set_resumed(p, word);
	return 1;
}

#define FRAME_BYTES 128

/*
 * Up to 3.10: the frame is an argument of the eval function. f_lasti is -1 until it has run; both
 * fields are read at once.
 */
TRACE_NOINLINE int entered_frame(user_regs *ctx, struct trace_way *known, struct place *p)
{
	__u32 size = (cfg.layout.frame_lasti + 4 - cfg.layout.frame_code) & (FRAME_BYTES - 1);
	__u32 at = (cfg.layout.frame_lasti - cfg.layout.frame_code) & (FRAME_BYTES - 4);
	__u8 buf[FRAME_BYTES] __attribute__((aligned(8))) = { 0 };
	__s32 lasti;

	if (!known || !p)
		return 0;
	p->frame = arch_reg(ctx, cfg.entry_reg);
	if (read_user(buf, size, p->frame + cfg.layout.frame_code))
		return 0;
	__builtin_memcpy(&p->code, buf, 8);
	__builtin_memcpy(&lasti, buf + at, 4);
	p->resumed = lasti >= 0;
	if (known->agreed >= TRACE_AGREED)
		return p->code != 0;
	count(TRACE_CTR_note_searched);
	if (!is_code(p->code, p->type))
		return 0;
	known->agreed++;
	return 1;
}

/* `learned`: the learned registers may be used. */
BPF_INLINE int find_frame(user_regs *ctx, __u32 spot, struct place *p, int learned)
{
	struct trace_way way = { 0 }, *known = &ways[spot & (TRACE_SPOTS - 1)];
	__u8 other = 0;

	p->type = code_type_at(ctx, spot);
	if (!cfg.by_opcode)
		return entered_frame(ctx, known, p);
	if (learned && known_frame(ctx, known, p)) {
		if (!p->other)
			return 1;
		other = 1;
	}
	*p = (struct place){ .type = p->type };
	if (search_frame(ctx, known, &way, p)) {
		learn(ctx, spot, &way);
		return 1;
	}
	p->other = other;
	return other;
}

/* Is this hit of a breakpoint the first one that the call has, whatever opcode is in memory? */
BPF_INLINE int is_first(__u32 spot)
{
	return !cfg.spots[BOUND(spot, TRACE_SPOTS)].before[0];
}

/*
 * The code of the opcode in memory has jumped here, and there the call had a hit already: this is
 * RESUME's code, and the dispatch comes to it only if RESUME is in memory.
 */
BPF_INLINE int came_before(const struct place *p, __u32 spot)
{
	const volatile struct trace_spot *s = &cfg.spots[BOUND(spot, TRACE_SPOTS)];

	return p->opcode && (s->before[0] == p->opcode || s->before[1] == p->opcode);
}

/* ---- who calls it ---------------------------------------------------------------------------- */

BPF_INLINE int is_shim(__u64 frame)
{
	__u8 owner = 0;

	return cfg.layout.frame_owner != PY_OFF_NONE &&
	       !read_user(&owner, 1, frame + cfg.layout.frame_owner) && owner >= 3;
}

/* From 3.12 on, a call from C has a frame of its own in between (FRAME_OWNED_BY_CSTACK). */
BPF_INLINE __u64 back_of(__u64 frame)
{
	__u64 back = read64(frame + cfg.layout.frame_back);

	return back && is_shim(back) ? read64(back + cfg.layout.frame_back) : back;
}

/* As is_init_shim() of codes.bpf.h: a frame of this code object runs nothing of the program. */
BPF_NOINLINE int is_init_shim(__u64 code)
{
	__u64 known = mix(code, this_process()), *slot;
	__u32 at = (__u32)(known >> 32) & (TRACE_PLAIN - 1);

	if (cfg.layout.chain != PY_CHAIN_SHIM || !code)
		return 0;
	slot = bpf_map_lookup_elem(&plain, &at);
	if (slot && *slot == known)
		return 0;
	if (read64(code + cfg.layout.code_name) == read64(code + cfg.layout.code_filename))
		return 1;
	if (slot)
		*slot = known;
	return 0;
}

/* Of a frame, what tells who has called another one. */
struct link {
	__u64 back, code;
	__u8 is_shim;
};

#define LINK_BYTES 128

/* Reads it at once: the members are in the first 80 bytes (_PyInterpreterFrame). */
BPF_INLINE int read_link(struct link *l, __u64 frame)
{
	__u32 size = (cfg.layout.frame_owner + 1) & (LINK_BYTES - 1);
	__u32 back = cfg.layout.frame_back & (LINK_BYTES - 8);
	__u32 code = cfg.layout.frame_code & (LINK_BYTES - 8);
	__u8 buf[LINK_BYTES] __attribute__((aligned(8))) = { 0 };

	if (read_user(buf, size, frame))
		return -14; /* EFAULT */
	__builtin_memcpy(&l->back, buf + back, 8);
	__builtin_memcpy(&l->code, buf + code, 8);
	l->code &= ~7ULL;
	l->is_shim = buf[cfg.layout.frame_owner & (LINK_BYTES - 1)] >= 3;
	return 0;
}

/*
 * A call from C has a frame of its own in between from 3.12 on, as in back_of(); from 3.13 on, one
 * of a class may have a frame between the caller and __init__().
 */
BPF_NOINLINE __u64 caller_of(__u64 frame)
{
	__u64 back = read64(frame + cfg.layout.frame_back);
	struct link l;

	if (!back || cfg.layout.frame_owner == PY_OFF_NONE || read_link(&l, back))
		return back;
	if (l.is_shim) {
		back = l.back;
		if (!back || cfg.layout.chain != PY_CHAIN_SHIM || read_link(&l, back))
			return back;
	}
	return is_init_shim(l.code) ? back_of(back) : back;
}

#endif /* PYPERF_TRACE_FRAME_BPF_H */
