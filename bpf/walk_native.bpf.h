/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef PYPERF_WALK_NATIVE_H
#define PYPERF_WALK_NATIVE_H
/*
 * Stage 2: user frames by unwind rows.
 * Input:   w->native.pc, sp, fp, regs; mappings and tables; the anchors of the Python segments.
 * Output:  DEEP_NATIVE, DEEP_NATIVE_SEG; WALK_NATIVE_END, or WALK_NATIVE_LOST and w->native.marker.
 * Cost:    one row search and one 16-byte read per frame.
 * Fails:   no rows (then: the code itself, the next Python anchor, the frame pointer), unreadable
 *          stack.
 */
#include "arch/arch.bpf.h"
#include "state.bpf.h"
#include "walk_rows.bpf.h"

#define SETUP_BYTES  256 /* of the eval loop, before it has linked what it keeps on its stack */
#define FP_FRAME_MAX (1ULL << 20) /* limit for the size of a frame found by frame pointer */
#define BASE_ROOM    2048
#define ENTRY_ROOM   4096 /* above the first stack pointer: ld.so drops its own arguments */

BPF_INLINE int native_lost(struct walk *w, __u32 why, __u64 detail)
{
	w->native.marker = MARKER_WORD(why, detail);
	w->flags |= WALK_NATIVE_LOST;
	return 1;
}

BPF_INLINE int in_eval(const struct walk *w, __u64 pc)
{
	if (!w->image.has_python)
		return 0;
	for (int i = 0; i < MAX_EVAL_RANGES; i++)
		if (pc >= w->interp.eval[i].start && pc < w->interp.eval[i].end)
			return 1;
	return 0;
}

/*
 * The value of a register that a CFA rule names. Beyond the leaf, a register that a call may change
 * still has the leaf's value: such rules are of assembler whose callees leave it alone (OpenSSL's),
 * and libdwfl does the same. False: not known.
 */
BPF_INLINE int reg_value(const struct walk *w, __u32 reg, __u64 *value)
{
	if (reg == ARCH_REG_SP)
		*value = w->native.sp;
	else if (reg == ARCH_REG_FP)
		*value = w->native.fp;
	else if (reg < GREG_CNT && (w->native.exact_pc || !(ARCH_CALLEE_SAVED >> reg & 1) ||
				    (reg == ARCH_REG_EXTRA && w->flags & WALK_HAVE_EXTRA)))
		*value = w->native.regs[BOUND(reg, GREG_CNT)];
	else
		return 0;
	return 1;
}

/* The thread stands where the eval loop sets up an activation. */
BPF_INLINE int in_prologue(const struct walk *w)
{
	return w->native.exact_pc && w->native.pc - w->interp.eval[0].start < SETUP_BYTES;
}

/* The segment with number `s`, counted from the innermost. */
BPF_INLINE __u64 segment_anchor(const __u64 *deep, __u32 s)
{
	return deep[deep_at(DEEP_ANCHOR, (__u32)deep[deep_at(DEEP_SEG_ORDER, s)])];
}

/*
 * The next segment has no anchor and belongs to the eval loop's native frame of `size` bytes from
 * sp on.
 */
BPF_INLINE int owns_unanchored(const struct walk *w, const __u64 *deep, __u64 size)
{
	if (w->segs.next >= w->segs.cnt || w->interp.layout.chain == PY_CHAIN_FRAME ||
	    next_is_compiled(w) || segment_anchor(deep, w->segs.next) != NO_ANCHOR)
		return 0;
	return !in_prologue(w) || w->python.set_up - w->native.sp < size;
}

/*
 * Adds a native frame, and the segments whose anchors lie in it; cfa 0: none. A dozen places in
 * walk_native_step() call it: inline, it would be a fifth of all that the verifier has to follow.
 */
BPF_NOINLINE int push_native(__u64 word, __u64 cfa, int is_eval)
{
	struct walk *w = the_walk();
	__u64 *deep = the_deep(), seg = SEG_NONE, size;
	__u32 first;

	if (!w || !deep)
		return -1;
	first = w->segs.next;
	size = cfa > w->native.sp ? cfa - w->native.sp : 0;
	if (is_eval && owns_unanchored(w, deep, size))
		w->segs.next++;
	for (int k = 0; k < FRAME_SEGMENTS && w->segs.next < w->segs.cnt; k++) {
		if (segment_anchor(deep, w->segs.next) - w->native.sp >= size)
			break;
		w->segs.next++;
	}
	if (w->segs.next != first)
		seg = w->segs.next;
	else if (is_eval && w->interp.layout.chain == PY_CHAIN_FRAME)
		seg = SEG_EVAL;
	deep[deep_at(DEEP_NATIVE, w->native.cnt)] = word;
	deep[deep_at(DEEP_NATIVE_SEG, w->native.cnt)] = seg;
	w->native.cnt++;
	if (seg != SEG_NONE && (seg != SEG_EVAL || w->native.eval_cnt < w->segs.total))
		w->native.own_cnt = w->native.cnt;
	if (is_eval)
		w->native.eval_cnt++;
	return 0;
}

/* The distances from the CFA of an eval-loop frame to what it keeps on its stack never change. */
BPF_INLINE void learn_anchor(struct walk *w, __u64 cfa, __u32 first)
{
	const __u64 *deep = the_deep();
	struct interp *in;
	__u64 anchor, delta;

	if (!deep || first >= w->segs.cnt || w->interp.layout.chain == PY_CHAIN_FRAME)
		return;
	anchor = segment_anchor(deep, first);
	delta = cfa - anchor;
	if (anchor < w->native.sp || delta > 65536 || w->place.rule.fp_rule != REG_CFA_OFF)
		return;
	in = get_interp(w->image.interp);
	if (!in)
		return;
	if (!w->interp.anchor_delta) {
		w->interp.anchor_fp_off = in->anchor_fp_off = w->place.rule.fp_off;
		__asm__ volatile("" ::: "memory"); /* who sees the delta sees this, too */
		w->interp.anchor_delta = in->anchor_delta = (__s32)delta;
	}
	if (!w->interp.cframe_delta && first == 0 && w->python.leaf_anchor >= w->native.sp &&
	    w->python.leaf_anchor < cfa)
		w->interp.cframe_delta = in->cframe_delta = (__s32)(cfa - w->python.leaf_anchor);
}

/* Continues where the signal came: all registers are in its frame. */
BPF_NOINLINE int step_signal(__u64 uc)
{
	struct walk *w = the_walk();
	const __u64 *saved;

	if (!w)
		return -1;
	if (buf_read(w, uc + ARCH_UC_REGS, ARCH_UC_SIZE))
		return native_lost(w, MARK_READ_FAILED, 0);
	saved = (const __u64 *)w->buf;
	arch_signal_regs(w->native.regs, saved);
	w->native.fp = w->native.regs[ARCH_REG_FP];
	w->native.sp = w->native.regs[ARCH_REG_SP];
	if (w->flags & WALK_WANT_EXTRA)
		w->flags |= WALK_HAVE_EXTRA;
	w->native.pc = arch_signal_pc(saved);
	w->native.exact_pc = 1;
	return 0;
}

/*
 * No rows here: continue behind the next Python activation, whose frame size is known. Code of a
 * file whose table is not there (yet) may have called more than is seen: such a stack is not
 * complete. What runs without a file is an interpreter's generated code, which calls no other.
 */
BPF_INLINE int shim_jump(struct walk *w, __u64 word)
{
	const __u64 *deep = the_deep();
	__u64 anchor, cfa, ra, fp;

	if (!deep || !w->interp.anchor_delta || w->segs.next >= w->segs.cnt)
		return -1;
	anchor = segment_anchor(deep, w->segs.next);
	if (anchor < w->native.sp)
		return -1;
	cfa = anchor + w->interp.anchor_delta;
	if (read_user(&ra, 8, arch_ra_at(cfa, cfa + w->interp.anchor_fp_off)) ||
	    read_user(&fp, 8, cfa + w->interp.anchor_fp_off))
		return -1;
	push_native(word, 0, 0);   /* where the thread stands ... */
	push_native(word, cfa, 1); /* ... and the activation, which its Python frames replace */
	w->native.pc = arch_code_address(ra);
	w->native.sp = cfa;
	w->native.fp = fp;
	w->native.exact_pc = 0;
	w->flags &= ~WALK_HAVE_EXTRA;
	w->flags |= WALK_SHIM_JUMP;
	if (FRAME_TAG(word) == FRAME_NATIVE || w->image.is_cut)
		w->flags |= WALK_SKIPPED;
	return 0;
}

/*
 * No rows and no anchor: {caller's fp, return address} at the frame pointer, if it is behind a
 * call.
 */
BPF_INLINE int step_frame_pointer(struct walk *w, __u64 word)
{
	__u64 fp = w->native.fp, ra;

	if (fp & 7 || fp < w->native.sp || fp - w->native.sp > FP_FRAME_MAX ||
	    read_user(&w->native.saved, 16, fp))
		return -1;
	ra = arch_code_address(w->native.saved.ra);
	if (ra < 4096 || ra >= ARCH_USER_MAX || find_mapping(ra - 1) || !arch_is_call_before(ra))
		return -1;
	push_native(word, fp + 16, 0);
	w->flags &= ~WALK_HAVE_EXTRA;
	w->native.sp = fp + 16;
	w->native.fp = w->native.saved.fp;
	w->native.pc = ra;
	w->native.exact_pc = 0;
	return 0;
}

/* A register that is not tracked may have another value by now. */
BPF_INLINE int in_frame_range(const struct walk *w, __u64 cfa)
{
	return w->native.exact_pc || w->place.rule.cfa_reg == ARCH_REG_SP ||
	       w->place.rule.cfa_reg == ARCH_REG_FP || cfa - w->native.sp < FP_FRAME_MAX;
}

/* The word at `at`, and cfa_add, make the CFA. */
BPF_INLINE int deref_cfa(struct walk *w, __u64 at)
{
	if (read_user(&w->native.cfa, 8, at))
		return -1;
	w->native.cfa += (__s64)w->place.rule.cfa_add;
	return 0;
}

/*
 * Finds w->native.cfa by the rule of the frame. This and rule_caller() are functions of their own
 * so that their ways add up for the verifier; in walk_native_step() they would multiply.
 */
BPF_NOINLINE int rule_cfa(NO_ARG)
{
	struct walk *w = the_walk();
	__u64 base, index;

	if (!w)
		return -1;
	switch (w->place.rule.cfa_kind) {
	case CFA_REG:
		if (!reg_value(w, w->place.rule.cfa_reg, &base))
			return -1;
		w->native.cfa = base + (__s64)w->place.rule.cfa_off;
		return in_frame_range(w, w->native.cfa) ? 0 : -1;
	case CFA_DEREF_REG:
		if (!reg_value(w, w->place.rule.cfa_reg, &base))
			return -1;
		return deref_cfa(w, base + (__s64)w->place.rule.cfa_off);
	case CFA_DEREF_INDEX:
		if (!reg_value(w, w->place.rule.cfa_reg & 15, &base) ||
		    !reg_value(w, w->place.rule.cfa_reg >> 4, &index))
			return -1;
		return deref_cfa(w, base + 8 * index + (__s64)w->place.rule.cfa_off);
	case CFA_PLT:
		w->native.cfa = w->native.sp + (__s64)w->place.rule.cfa_off +
				((__s64)(w->native.pc & 15) >= w->place.rule.cfa_add ? 8 : 0);
		return 0;
	}
	return -1;
}

/* The return address of a frame that arch_rule_fits(). */
BPF_INLINE int rule_ra(struct walk *w)
{
	if (!arch_ra_in_register(&w->place.rule))
		return read_user(&w->native.caller_pc, 8,
				 w->native.cfa + (__s64)w->place.rule.ra_off);
	w->native.caller_pc = arch_ra_register(w->native.regs);
	return 0;
}

/*
 * Finds w->native.caller_pc and w->native.caller_fp by the rule and w->native.cfa; with one read
 * when they lie side by side.
 */
BPF_NOINLINE int rule_caller(NO_ARG)
{
	struct walk *w = the_walk();

	if (!w)
		return -1;
	w->native.caller_fp = w->place.rule.fp_rule == REG_SAME ? w->native.fp : 0;
	if (w->place.rule.fp_rule == REG_CFA_OFF &&
	    w->place.rule.fp_off == w->place.rule.ra_off - 8 &&
	    !arch_ra_in_register(&w->place.rule)) {
		if (read_user(&w->native.saved, 16, w->native.cfa + (__s64)w->place.rule.fp_off))
			return -1;
		w->native.caller_fp = w->native.saved.fp;
		w->native.caller_pc = w->native.saved.ra;
		return 0;
	}
	if (rule_ra(w))
		return -1;
	if (w->place.rule.fp_rule == REG_CFA_OFF)
		return read_user(&w->native.caller_fp, 8,
				 w->native.cfa + (__s64)w->place.rule.fp_off);
	/*
	 * GCC's rows of a realigned function's last instruction still say so when fp is restored
	 * already and may be anything. Then it reads as 0: lost, and most callers do not need it.
	 */
	if (w->place.rule.fp_rule == REG_FP_OFF)
		read_user(&w->native.caller_fp, 8, w->native.fp + (__s64)w->place.rule.fp_off);
	return 0;
}

/* The thread stands right behind a system call: it is in the kernel, or was just now. */
BPF_INLINE int behind_syscall(const struct walk *w)
{
	return w->native.exact_pc && arch_is_syscall_before(w->native.pc);
}

/*
 * The process began here: the kernel put its arguments where the stack pointer is, so nothing lies
 * below. ld.so's _start and _dl_start_user, musl's _start and many written in assembler have no
 * FDE.
 */
BPF_INLINE int step_entry(struct walk *w, __u64 word)
{
	if (!w->thread.stack_start || w->native.sp - w->thread.stack_start >= ENTRY_ROOM)
		return -1;
	push_native(word, 0, 0);
	w->flags |= WALK_NATIVE_END | WALK_ENTRY;
	return 0;
}

/*
 * A leaf without rows that has pushed nothing. Behind a system call: glibc ends the FDE of clone()
 * and clone3() before the instruction (sysdeps/unix/sysv/linux/, clone3.S), because it would be
 * wrong in the child, where the call returned 0 and they are the outermost frame.
 */
BPF_INLINE int step_stub(struct walk *w, __u64 word)
{
	int in_syscall = behind_syscall(w), in_vfork = in_syscall && arch_is_vfork_at(w->native.pc);
	__u64 ra;

	if (in_syscall && !in_vfork && !arch_syscall_result(w->native.regs)) {
		push_native(word, 0, 0);
		w->flags |= WALK_NATIVE_END;
		return 0;
	}
	if (!in_syscall && !(w->native.exact_pc && arch_is_entry_at(w->native.pc)))
		return -1;
	if (arch_leaf_ra(w->native.regs, w->native.sp, in_vfork, &ra))
		return -1;
	ra = arch_code_address(ra);
	if (find_mapping(ra - 1))
		return -1;
	push_native(word, w->native.sp + arch_leaf_size(0), 0);
	w->native.pc = ra;
	w->native.sp += arch_leaf_size(in_vfork);
	w->native.exact_pc = 0;
	return 0;
}

/*
 * Code without rows that is about to return says itself how: that of the perf trampolines
 * (Python/asm_trampoline.S).
 */
BPF_INLINE int step_epilogue(struct walk *w, __u64 word)
{
	int how = w->native.exact_pc ? EPILOGUE_NONE : arch_epilogue_at(w->native.pc);

	if (how == EPILOGUE_NONE || read_user(&w->native.saved, 16, w->native.sp))
		return -1;
	push_native(word, w->native.sp + 16, 0);
	w->native.sp += 16;
	w->native.pc = arch_code_address(w->native.saved.ra);
	if (how == EPILOGUE_POPS)
		w->native.fp = w->native.saved.fp;
	return 0;
}

/* No Python frame is left for the native frames that follow. */
BPF_INLINE int python_passed(const struct walk *w)
{
	const __u64 *deep = the_deep();
	__u32 seg;

	if (!deep || !w->python.cnt)
		return 1;
	if (w->interp.layout.chain == PY_CHAIN_FRAME)
		return w->native.eval_cnt + !!w->python.compiled >= w->segs.cnt;
	if (next_is_compiled(w))
		return 1;
	if (!w->segs.next)
		return 0;
	seg = (__u32)deep[deep_at(DEEP_SEG_ORDER, w->segs.next - 1)];
	return deep[deep_at(DEEP_SEG_END, seg)] >= w->python.cnt;
}

/*
 * At the base of the stack, code without rows has called what has some: main(), or a thread's
 * function. musl has neither rows nor frame pointers, which would lead further. There is room for
 * its own frames, and for a thread's variables, which lie between its stack and its thread pointer
 * (src/env/__libc_start_main.c, src/thread/pthread_create.c).
 */
BPF_INLINE int step_base(struct walk *w, __u64 word)
{
	if (w->native.exact_pc || !python_passed(w) ||
	    (w->thread.stack_start - w->native.sp >= BASE_ROOM &&
	     w->thread.tp - w->native.sp >= BASE_ROOM))
		return -1;
	push_native(word, 0, 0);
	w->flags |= WALK_NATIVE_END;
	return 0;
}

/* No rule says how to leave this frame. 0: go on; else the walk is over. */
BPF_NOINLINE int no_rows(__u64 word, __u32 why, __u64 detail)
{
	struct walk *w = the_walk();

	if (!w)
		return -1;
	if (!step_entry(w, word) || !step_stub(w, word))
		return !!(w->flags & WALK_NATIVE_END);
	if (!step_epilogue(w, word) || !shim_jump(w, word) || !step_frame_pointer(w, word))
		return 0;
	if (!step_base(w, word))
		return 1;
	push_native(word, 0, 0);
	return native_lost(w, why, detail);
}

/* Reads the extra register of the caller when it is tracked. */
BPF_INLINE void rule_extra(struct walk *w, __u64 cfa)
{
	__s64 off = w->place.rule.cfa_add;

	if (!(w->flags & WALK_HAVE_EXTRA) || w->place.rule.cfa_kind == CFA_PLT ||
	    (w->place.rule.cfa_kind == CFA_REG && off == UW_EXTRA_SAME))
		return;
	if (w->place.rule.cfa_kind != CFA_REG || off == UW_EXTRA_LOST ||
	    read_user(&w->native.regs[ARCH_REG_EXTRA], 8, cfa + off))
		w->flags &= ~WALK_HAVE_EXTRA;
}

/* The frame's CFA is in the extra register, which nobody has looked at on the way here. */
BPF_INLINE int wants_extra(struct walk *w)
{
	if (!ARCH_HAS_EXTRA || w->native.exact_pc || w->place.rule.cfa_kind != CFA_REG ||
	    w->place.rule.cfa_reg != ARCH_REG_EXTRA || w->flags & WALK_WANT_EXTRA)
		return 0;
	w->flags |= WALK_WANT_EXTRA;
	return 1;
}

/* An FDE may end with the system call that does not return: __restore_rt's. */
BPF_INLINE int no_rule(struct walk *w, __u64 off)
{
	if (!find_rule(w, off) && w->place.rule.cfa_kind != CFA_NONE)
		return 0;
	return !behind_syscall(w) || find_rule(w, off - 1) || w->place.rule.cfa_kind == CFA_NONE;
}

/*
 * The frame just added is an activation of the eval loop, all Python frames of the thread have
 * theirs, and C functions lie between: so this is another greenlet's stack, of a greenlet that was
 * not recognised. Up to 3.9 the innermost activation may have no frame. Not chosen: to take each
 * part of an eval loop that is split into functions for an activation.
 */
BPF_INLINE int is_foreign(const struct walk *w)
{
	if (!w->native.own_cnt || w->flags & (WALK_PY_LOST | WALK_PY_CUT) ||
	    w->native.cnt < w->native.own_cnt + 2)
		return 0;
	if (w->interp.layout.chain == PY_CHAIN_FRAME)
		return w->native.eval_cnt > w->segs.total + 1;
	return w->tstate.run_cnt > 1 ? w->segs.next >= w->segs.cnt : python_passed(w);
}

/* The stack ends here: outwards lies another greenlet's. */
BPF_INLINE int end_of_greenlet(struct walk *w)
{
	w->flags |= WALK_NATIVE_END | WALK_GREENLET;
	return 1;
}

/*
 * In the first function of a greenlet, or the one that switches greenlets (enum cfa_kind): does the
 * stack end here? The first function is called by the one that starts the greenlet, whose Python
 * frames are still to come then. While stacks are switched, the thread state may be of one greenlet
 * and the stack of another one, and from 3.12 on the links to the shims are taken out of the chain
 * (greenlet's expose_frames()). So what happens there belongs to neither, unless it runs Python
 * code.
 */
BPF_INLINE int is_base(struct walk *w, __u32 kind)
{
	if (kind == CFA_BASE)
		return python_passed(w) || w->flags & WALK_PY_LOST;
	if (kind != CFA_SWITCH || w->segs.next || w->native.eval_cnt)
		return 0;
	w->merge.py_left = 0;
	w->flags &= ~WALK_PY_LOST;
	return 1;
}

/* Makes the caller the current frame. 0: go on; 1: there is none. */
BPF_INLINE int enter_caller(struct walk *w)
{
	w->native.pc = arch_code_address(w->native.caller_pc);
	w->native.sp = w->native.cfa;
	w->native.fp = w->native.caller_fp;
	w->native.exact_pc = 0;
	if (!w->native.pc) { /* set up by a thread library without CFI for its first frame */
		w->flags |= WALK_NATIVE_END;
		return 1;
	}
	return 0;
}

/* Leaves a frame whose rule names its CFA. 0: go on; else the walk is over. */
BPF_INLINE int leave_by_rule(struct walk *w, __u64 word, int is_eval, __u32 kind)
{
	__u32 first;

	if (rule_cfa(0))
		return wants_extra(w) || no_rows(word, MARK_NO_UNWIND_INFO, w->place.map.file);
	if (!arch_rule_fits(&w->place.rule, w->native.cfa, w->native.sp, (int)w->native.exact_pc)) {
		push_native(word, 0, is_eval);
		return native_lost(w, MARK_BAD_FRAME, w->place.map.file);
	}
	if (rule_caller(0)) {
		push_native(word, w->native.cfa, is_eval);
		return native_lost(w, MARK_READ_FAILED, w->place.map.file);
	}
	rule_extra(w, w->native.cfa);
	first = w->segs.next;
	push_native(word, w->native.cfa, is_eval);
	if (is_eval) {
		learn_anchor(w, w->native.cfa, first);
		if (is_foreign(w)) {
			w->native.cnt = w->native.own_cnt;
			return end_of_greenlet(w);
		}
	}
	if (kind == CFA_BASE && w->segs.next != first && !(w->flags & WALK_PY_LOST)) {
		/*
		 * 3.10: greenlet's own CFrame. No activation lies here, so frames stand one too far
		 * outwards.
		 */
		w->python.marker = MARKER_WORD(MARK_PY_SETUP, 0);
		w->flags |= WALK_PY_LOST;
	}
	if (kind >= CFA_BASE && is_base(w, kind))
		return end_of_greenlet(w);
	return enter_caller(w);
}

/* Walks one native frame. 0: go on; else the walk is over. */
BPF_NOINLINE int walk_native_step(NO_ARG)
{
	struct walk *w = the_walk();
	__u64 look, off, word;
	__u32 kind;
	int is_eval, is_new_map;

	if (!w)
		return -1;
	if (w->native.cnt + 2 > max_frames()) { /* shim_jump() adds two */
		w->flags |= WALK_TRUNCATED;
		return native_lost(w, MARK_TRUNCATED, 0);
	}
	look = w->native.exact_pc ? w->native.pc : w->native.pc - 1;
	is_new_map = look - w->place.map.start >= w->place.map.end - w->place.map.start;
	if (find_mapping(look)) {
		if (look >= ARCH_USER_MAX || look < 4096)
			return native_lost(w, MARK_BAD_FRAME, 0);
		return no_rows(FRAME_WORD(FRAME_ANON, look),
			       w->image.is_cut ? MARK_NO_ROOM : MARK_UNMAPPED, 0);
	}
	off = look - w->place.map.start + w->place.map.offset;
	word = w->place.map.file ? NATIVE_WORD(w->place.map.file, off)
				 : FRAME_WORD(FRAME_ANON, look);
	if (no_rule(w, off))
		return no_rows(word, MARK_NO_UNWIND_INFO, w->place.map.file);
	if (is_new_map)
		remember_address(w, look, word);
	is_eval = in_eval(w, look);
	kind = w->place.rule.cfa_kind;
	if (kind >= CFA_BASE)
		w->place.rule.cfa_kind = CFA_REG;
	if (w->place.rule.cfa_kind == CFA_END) {
		push_native(word, 0, is_eval);
		w->flags |= WALK_NATIVE_END;
		return 1;
	}
	if (w->place.rule.cfa_kind == CFA_SIGNAL) {
		push_native(word, 0, 0);
		return step_signal(w->native.sp + (__s64)w->place.rule.cfa_off);
	}
	return leave_by_rule(w, word, is_eval, kind);
}

/* The walk begins again where it began. */
BPF_INLINE void rewind_native(struct walk *w, __u64 pc, __u64 sp, __u64 fp)
{
	__builtin_memcpy(w->native.regs, w->native.leaf_regs, sizeof(w->native.regs));
	w->native.pc = pc;
	w->native.sp = sp;
	w->native.fp = fp;
	w->native.exact_pc = 1;
	w->native.cnt = w->native.eval_cnt = w->segs.next = w->native.own_cnt = 0;
	w->flags &= ~(WALK_NATIVE_END | WALK_NATIVE_LOST | WALK_TRUNCATED | WALK_SHIM_JUMP |
		      WALK_SKIPPED | WALK_WANT_EXTRA | WALK_HAVE_EXTRA | WALK_GREENLET);
}

/* ---- frames of places that are known --------------------------------------------------------- */

#define KNOWN_STEPS 4

/*
 * Reads the stack from `addr` on, at most to the end of its page, which is readable if its first
 * word is.
 */
BPF_NOINLINE int move_window(__u64 addr)
{
	struct walk *w = the_walk();
	__u32 size = PAGE_BYTES - ((__u32)addr & (PAGE_BYTES - 1));

	if (!w || addr & 7)
		return -1;
	if (size > STACK_BYTES)
		size = STACK_BYTES;
	w->stack.size = 0;
	if (read_user(w->stack.words, size, addr))
		return -1;
	w->stack.addr = addr;
	w->stack.size = size;
	return 0;
}

/*
 * [start, end) of less than 1 << 32 bytes begins in the window, `left` bytes before its end.
 * verifier: one comparison, because it follows both ways of each; the sign is that of any of the
 * three
 */
BPF_INLINE int in_window(const struct walk *w, __u64 start, __u64 end)
{
	__u64 off = start - w->stack.addr, left = w->stack.size - off - (end - start);

	return (__s64)(off | left | -(off & 7)) >= 0;
}

BPF_INLINE __u64 window_word(const struct walk *w, __u64 addr)
{
	return w->stack.words[BOUND((addr - w->stack.addr) / 8, STACK_BYTES / 8)];
}

/* Makes the mapping of a place the last one hit, if `addr` is that place in it. */
BPF_INLINE int use_mapping(struct walk *w, const struct known_place *p, __u64 addr)
{
	const struct mapping *m;

	if (p->map >= w->image.map_cnt)
		return 0;
	m = get_mapping(w->image.map_first + p->map);
	if (!m || addr - m->start >= m->end - m->start ||
	    p->word != NATIVE_WORD(m->file, addr - m->start + m->offset))
		return 0;
	w->place.map = *m;
	w->place.map_index = p->map;
	note_seen(m->file);
	return 1;
}

/*
 * Finds the known place at `addr`, with the rule to leave it. In the mapping of the last frame,
 * which is the common case, by the place of the file: all processes share it, and no more cache
 * lines are touched.
 */
BPF_INLINE const struct known_place *find_place(struct walk *w, struct known_place *places,
						__u64 addr)
{
	__u64 off = addr - w->place.map.start,
	      word = NATIVE_WORD(w->place.map.file, off + w->place.map.offset);
	int here = off < w->place.map.end - w->place.map.start;
	__u32 slot = place_slot(here ? word : addr);
	const struct known_place *p = &places[slot];

	note_place_slot(w, slot);
	if (!p->how || !(here ? p->word == word : use_mapping(w, p, addr)))
		return NULL;
	return p;
}

/*
 * Finds the next segment for walk_known_frames(); in memory, or the verifier would follow each
 * combination.
 */
BPF_INLINE void next_anchor(struct walk *w, const __u64 *deep)
{
	w->known.anchor = !w->known.eval_seg && w->segs.next < w->segs.cnt
				  ? segment_anchor(deep, w->segs.next)
				  : 0;
}

BPF_INLINE void begin_known(struct walk *w, const __u64 *deep)
{
	int by_frame = w->image.has_python && w->interp.layout.chain == PY_CHAIN_FRAME;

	w->known.eval_seg = by_frame ? SEG_EVAL : SEG_NONE;
	next_anchor(w, deep);
	w->known.learning =
		w->image.has_python && !by_frame &&
		(!w->interp.anchor_delta || (w->python.leaf_anchor && !w->interp.cframe_delta));
}

/* in_eval() without a branch, for addresses below 1 << 63. 0 or 1. */
BPF_INLINE __u32 is_eval_at(const struct walk *w, __u64 pc)
{
	__u64 in = 0;

	for (int i = 0; i < MAX_EVAL_RANGES; i++)
		in |= ~(pc - w->interp.eval[i].start) & (pc - w->interp.eval[i].end);
	return (__u32)(in >> 63) & w->image.has_python;
}

enum known {
	KNOWN_NEXT = 0, /* there may be more */
	KNOWN_END = 1,	/* that was the outermost frame */
	KNOWN_NOT = 2,	/* nothing was done */
};

BPF_INLINE void push_known(struct walk *w, __u64 *deep, __u64 word, __u64 seg)
{
	deep[deep_at(DEEP_NATIVE, w->native.cnt)] = word;
	deep[deep_at(DEEP_NATIVE_SEG, w->native.cnt)] = seg;
	w->native.cnt++;
	w->native.exact_pc = 0;
}

/* Takes the segment that lies in the frame. False: another one does, too. */
BPF_INLINE int take_segment(struct walk *w, const __u64 *deep, __u64 sp, __u64 cfa)
{
	w->segs.next++;
	next_anchor(w, deep);
	if (w->known.anchor - sp >= cfa - sp)
		return 1;
	w->segs.next--;
	return 0;
}

BPF_INLINE __u64 has_flag(__u32 flags, __u32 flag)
{
	return flags / flag & 1;
}

/* Up to 3.9: the next activation has no Python frame. 0 or 1. */
BPF_INLINE __u64 beyond_frames(const struct walk *w)
{
	return w->known.eval_seg & 1 & not_above(w->segs.total, w->native.eval_cnt);
}

/* Leaves one more frame, if all that its rule needs has been read. enum known */
BPF_INLINE int known_frame(struct walk *w, struct known_place *places, __u64 *deep, __u64 *pc,
			   __u64 *sp, __u64 *fp)
{
	const struct known_place *p = find_place(w, places, *pc);
	__u64 cfa, low, end, ra, seg, is_eval = is_eval_at(w, *pc);

	if (!p || w->native.cnt + 2 > max_frames())
		return KNOWN_NOT;
	if (p->how & HOW_END) {
		push_known(w, deep, p->word, SEG_NONE);
		return KNOWN_END;
	}
	cfa = choose(has_flag(p->how, HOW_FROM_FP), *fp, *sp) + (__s64)p->rule.cfa_off;
	low = cfa - choose(has_flag(p->how, HOW_FP_SAVED), -(__s64)p->rule.fp_off, ARCH_RA_BELOW);
	end = arch_saved_end(cfa, low);
	if (cfa <= *sp ||
	    (!in_window(w, low, end) && (move_window(low) || !in_window(w, low, end))))
		return KNOWN_NOT;
	ra = arch_code_address(window_word(w, arch_ra_at(cfa, low)));
	if (is_zero(ra) |
	    (is_eval & (w->known.learning | is_zero(~w->known.anchor) | beyond_frames(w))))
		return KNOWN_NOT;
	seg = is_eval * w->known.eval_seg;
	if (w->known.anchor - *sp < cfa - *sp) {
		if (!take_segment(w, deep, *sp, cfa))
			return KNOWN_NOT;
		seg = w->segs.next;
	}
	if (is_eval & is_zero(seg)) /* another greenlet's? */
		return KNOWN_NOT;
	push_known(w, deep, p->word, seg);
	w->native.own_cnt = (__u32)choose(is_zero(seg), w->native.own_cnt, w->native.cnt);
	w->native.eval_cnt += is_eval;
	*fp = choose(has_flag(p->how, HOW_FP_SAVED), window_word(w, low), *fp);
	*pc = ra - 1;
	*sp = cfa;
	return KNOWN_NEXT;
}

/*
 * Leaves frames as long as they have rules of the common kind and known places: nine in ten. The
 * position is in registers meanwhile. walk_native_step() handles all others.
 */
BPF_NOINLINE int walk_known_frames(NO_ARG)
{
	struct walk *w = the_walk();
	struct known_place *places = the_places();
	__u64 *deep = the_deep(), pc, sp, fp;
	int known = KNOWN_NOT;

	if (!w || !places || !deep || w->flags & WALK_HAVE_EXTRA)
		return KNOWN_NOT;
	begin_known(w, deep);
	pc = w->native.exact_pc ? w->native.pc : w->native.pc - 1;
	sp = w->native.sp;
	fp = w->native.fp;
	/* verifier: 64 bits, because 5.11 to 5.14 do not follow a spilled counter of 32 */
	for (__u64 i = 0; i < KNOWN_STEPS; i++) {
		known = known_frame(w, places, deep, &pc, &sp, &fp);
		if (known)
			break;
	}
	w->native.pc = w->native.exact_pc ? pc : pc + 1;
	w->native.sp = sp;
	w->native.fp = fp;
	if (known == KNOWN_END)
		w->flags |= WALK_NATIVE_END;
	return known;
}

/* 0: go on; else the walk is over. */
BPF_NOINLINE int walk_native_block(NO_ARG)
{
	for (__u32 i = 0; i < BLOCK; i++) {
		int known = walk_known_frames(0);

		if (known == KNOWN_END || (known == KNOWN_NOT && walk_native_step(0)))
			return 1;
	}
	return 0;
}

/* A function of its own, because there are two passes. */
BPF_NOINLINE int native_pass(NO_ARG)
{
	return RUN_BLOCKS(walk_native_block, deep_parts());
}

/*
 * From w->native.pc to the root of the stack. Where the dynamic linker binds a symbol at its first
 * call, a frame's CFA may be in the extra register: only then is it worth a read per frame.
 */
BPF_NOINLINE int walk_native(NO_ARG)
{
	struct walk *w = the_walk();
	__u64 pc, sp, fp;
	__u32 flags;

	if (!w)
		return 0;
	flags = w->flags;
	pc = w->native.pc;
	sp = w->native.sp;
	fp = w->native.fp;
	__builtin_memcpy(w->native.leaf_regs, w->native.regs, sizeof(w->native.regs));
	native_pass(0);
	if (!(w->flags & WALK_WANT_EXTRA))
		return 0;
	rewind_native(w, pc, sp, fp);
	w->flags = flags | WALK_WANT_EXTRA | WALK_HAVE_EXTRA;
	native_pass(0);
	return 0;
}

#endif /* PYPERF_WALK_NATIVE_H */
