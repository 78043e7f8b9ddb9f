/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_TRACE_PAIRS_BPF_H
#define PYPERF_TRACE_PAIRS_BPF_H
/*
 * Beginnings and ends of functions, which user space pairs: how an end finds the frame that began.
 *
 * Input:   the registers at the end of a function; the beginnings before it.
 * Output:  events; `running`, `frames_by_sp`, `candidates`.
 * Fails:   the frame is not known: counted as unknown_end.
 */
#include "trace_from.bpf.h"
#include "trace_values.bpf.h"

enum begin_with {
	BEGIN_WITH_STACK = 1,  /* send_call() */
	BEGIN_WITH_VALUES = 2, /* send_args() */
};

/*
 * Notes a beginning, by which the ends of functions find the frame. Not 0: the caller sends the
 * beginning, by a function whose BPF stack must not add to this one's.
 */
BPF_NOINLINE int take_begin(__u64 frame, __u64 id, __u64 sp, __u32 kind, __u32 callee)
{
	struct trace_entry at = { .sp = sp, .task = this_task() };

	if (!cfg.by_opcode) {
		bpf_map_update_elem(&frames_by_sp, &at, &frame, BPF_ANY);
	} else {
		note_begin(frame);
	}
	if (cfg.slow && !callee)
		return BEGIN_WITH_STACK;
	if (cfg.values.args && kind == EVENT_CALL)
		return BEGIN_WITH_VALUES;
	send_event(kind, frame, caller_of(frame), id);
	return 0;
}

/* The register that has the frame where functions begin; another number: not known. */
BPF_INLINE __u32 entry_register(void)
{
	for (__u32 i = 0; i < TRACE_SPOTS && i < cfg.spot_cnt; i++)
		if (cfg.spots[i].kind == POINT_RESUME && ways[i].agreed)
			return ways[i].frame;
	return TRACE_REG_CNT;
}

/* Global, as spot_at(). */
BPF_NOINLINE __u32 choose_register(__u32 mask)
{
	__u32 entry = entry_register();

	if (entry < TRACE_REG_CNT && (mask >> entry & 1))
		return entry;
	return first_of(mask);
}

/*
 * Learns the registers that have held the frame at this spot each time: a register with it by
 * chance, or left over, does not each time.
 */
BPF_INLINE void learn_register(__u32 spot, __u32 same)
{
	struct trace_way *known = &ways[spot & (TRACE_SPOTS - 1)];
	__u32 both = same & candidates[spot & (TRACE_SPOTS - 1)];

	if (known->agreed && both)
		same = both;
	else
		known->agreed = 0;
	candidates[spot & (TRACE_SPOTS - 1)] = same;
	known->frame = (__u8)choose_register(same);
	agree(spot);
}

/* A function ends: its frame is the one that the thread runs. */
TRACE_NOINLINE int learn_end(user_regs *ctx, __u32 spot)
{
	__u32 tid = this_thread(), same;
	__u64 *last = bpf_map_lookup_elem(&running, &tid);

	unsettled = TRACE_UNSETTLED;
	if (!last || !*last)
		return 0;
	same = registers_with(ctx, *last);
	if (same)
		learn_register(spot, same);
	return 0;
}

BPF_INLINE int leave_outside(__u64 frame)
{
	leave(frame);
	count(TRACE_CTR_outside);
	return 0;
}

/* If not, it is counted why. */
BPF_NOINLINE int is_end_wanted(__u64 frame)
{
	int is_filtered = cfg.filtered && !cfg.from;
	__u64 code = is_filtered || cfg.layout.chain == PY_CHAIN_SHIM ? code_of(frame) : 0;

	if (is_filtered && is_refused_code(code) && !is_callee(frame)) {
		count(TRACE_CTR_refused);
		return 0;
	}
	if (is_init_shim(code)) { /* no beginning of it was seen */
		count(TRACE_CTR_other);
		return 0;
	}
	return 1;
}

/* `frame`: 0: it is not known. 1: the caller sends the end with its value. */
BPF_NOINLINE int take_end(__u64 frame, __u32 kind)
{
	if (unsettled)
		note_running(frame ? back_of(frame) : 0);
	if (!frame)
		count(TRACE_CTR_unknown_end);
	else if (cfg.from && !is_sent(frame))
		return leave_outside(frame);
	else if (is_end_wanted(frame)) {
		if (cfg.values.returns && kind == EVENT_RETURN)
			return 1;
		send_event(kind, frame, 0, 0);
	}
	if (cfg.from)
		leave(frame);
	return 0;
}

BPF_INLINE int on_end(user_regs *ctx, __u32 spot, __u32 kind)
{
	struct trace_way *known = &ways[spot & (TRACE_SPOTS - 1)];
	const volatile struct trace_spot *s = &cfg.spots[BOUND(spot, TRACE_SPOTS)];
	__u64 frame;

	if (!is_learned(spot) && !agrees(ctx, spot))
		learn_end(ctx, spot);
	frame = known->agreed ? arch_reg(ctx, known->frame) : 0;
	if (by_process && !is_frame(frame, code_type_at(ctx, spot)))
		frame = known->agreed = 0; /* see known_frame() */
	if (!take_end(frame, kind))
		return 0;
	send_return(frame, returned_bits(frame, s->constant), kind, arch_pc(ctx) - s->pc);
	return cfg.from ? leave(frame) : 0;
}

/* Does the branch that is about to be executed leave the function? */
BPF_INLINE int leaves(user_regs *ctx, __u32 condition)
{
	if (condition == CONDITION_ALWAYS)
		return 1;
	return arch_condition(ctx, condition & 15) == !!(condition & CONDITION_TAKEN);
}

/* Like learn_end(), if the stack pointer tells the frame. */
TRACE_NOINLINE int learn_exit(user_regs *ctx, __u32 spot, __u64 frame)
{
	struct trace_way *known = &ways[spot & (TRACE_SPOTS - 1)];
	__u32 same = registers_with(ctx, frame);

	/* No register: that does not change any more. */
	if (known->agreed)
		same &= candidates[spot & (TRACE_SPOTS - 1)];
	candidates[spot & (TRACE_SPOTS - 1)] = same;
	known->frame = (__u8)choose_register(same);
	agree(spot);
	return 0;
}

/* What the eval function is about to return; 0: an exception, or it is not known. */
BPF_INLINE __u64 left_bits(user_regs *ctx, const volatile struct trace_spot *s)
{
	__u64 value = s->reg == ARCH_REG_SP ? arch_sp(ctx) : arch_reg(ctx, s->reg);

	if (s->place == PLACE_REGISTER)
		return value;
	return s->place == PLACE_MEMORY ? read64(value + (__u64)(__s64)s->offset) : 0;
}

/* The frame by the register that is known; `by_sp` if that has none. */
BPF_INLINE __u64 exit_frame(user_regs *ctx, __u32 spot, __u64 by_sp)
{
	struct trace_way *known = &ways[spot & (TRACE_SPOTS - 1)];
	__u64 frame = arch_reg(ctx, known->frame);

	if (!by_process || is_frame(frame, code_type_at(ctx, spot)))
		return frame;
	known->agreed = 0; /* see known_frame() */
	return by_sp;
}

/*
 * The frame by the stack pointer at entry. Greenlets have several frames at one address, so a
 * register is better, if one is known.
 */
TRACE_NOINLINE int on_exit_insn(user_regs *ctx, __u32 spot)
{
	const volatile struct trace_spot *s = &cfg.spots[BOUND(spot, TRACE_SPOTS)];
	struct trace_entry at = { .sp = arch_sp(ctx) + s->sp_below, .task = this_task() };
	__u64 *entry, frame;

	if (!leaves(ctx, s->condition))
		return 0;
	entry = bpf_map_lookup_elem(&frames_by_sp, &at);
	if (!entry)
		return 0;
	frame = *entry;
	if (!is_learned(spot) && !agrees(ctx, spot))
		learn_exit(ctx, spot, frame);
	else if (candidates[spot & (TRACE_SPOTS - 1)])
		frame = exit_frame(ctx, spot, frame);
	if (cfg.from && !is_sent(frame))
		count(TRACE_CTR_outside);
	else if (cfg.values.returns)
		send_return(frame, left_bits(ctx, s), EVENT_LEFT, arch_pc(ctx) - s->pc);
	else
		send_event(EVENT_LEFT, frame, 0, 0);
	if (cfg.from)
		leave(frame);
	if (frame == *entry)
		bpf_map_delete_elem(&frames_by_sp, &at);
	return 0;
}

/* PyTraceBack_Here(PyFrameObject *) */
BPF_NOINLINE int take_raise(__u64 frame)
{
	if (cfg.frame_of_object)
		frame = read64(frame + cfg.frame_of_object);
	if (cfg.by_opcode && unsettled)
		note_running(frame);
	if (cfg.from && !raises_inside(frame)) {
		count(TRACE_CTR_outside);
		return 0;
	}
	send_event(EVENT_RAISE, frame, caller_of(frame), 0);
	return cfg.from ? raised(frame) : 0;
}

#endif /* PYPERF_TRACE_PAIRS_BPF_H */
