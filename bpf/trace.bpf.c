// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls of Python functions, counted by code object at breakpoints in the interpreter
 * (user/trace/points.h).
 *
 * Input:   the registers at a breakpoint: a function begins, or goes on behind yield or await.
 * Output:  its count in `codes`; for a new one, its names in the ring buffer `news`.
 * Cost:    one read of the process and two look-ups from 3.12 on, two on 3.11, else three. The trap
 *          itself costs more.
 * Fails:   the frame is not found: counted as `unknown`.
 *
 * An object of its own, because the sampler does not need it, and a sample may come in the middle
 * of it. Programs at breakpoints can be preempted by each other, so there is no scratch: what is
 * needed fits on the stack. The parts are in trace_*.bpf.h, each with its programs.
 */
#include "trace_state.bpf.h"
#include "trace_frame.bpf.h"
#include "trace_codes.bpf.h"
#include "trace_events.bpf.h"
#include "trace_values.bpf.h"
#include "trace_stack.bpf.h"
#include "trace_from.bpf.h"
#include "trace_pairs.bpf.h"
#include "trace_raise.bpf.h"
#include "trace_gc.bpf.h"
#include "trace_audit.bpf.h"
#include "trace_waits.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* ---- entry ----------------------------------------------------------------------------------- */

/* At first sight, or as long as its names are still to be sent. NULL: there is no room. */
TRACE_NOINLINE struct trace_count *introduce(struct place *p)
{
	struct identity id = { 0 };
	struct trace_count *c;
	struct trace_key key;

	if (!p || read_identity(p, &id))
		return NULL;
	p->fingerprint = id.fingerprint;
	key = key_of(p);
	c = bpf_map_lookup_elem(&codes, &key);
	if (!c)
		add_code(p, &id);
	else if (c->refused == TRACE_NAMELESS)
		send_names(p, &id, c);
	return c ? c : bpf_map_lookup_elem(&codes, &key);
}

/* The code object's id; 0: it is not counted. */
BPF_INLINE __u64 count_call(struct place *p)
{
	struct trace_key key = key_of(p);
	struct trace_count *c = bpf_map_lookup_elem(&codes, &key);

	if (!c || c->refused == TRACE_NAMELESS)
		c = introduce(p);
	if (!c) {
		count(TRACE_CTR_lost_full);
		return 0;
	}
	if (c->refused == TRACE_NAMELESS && (cfg.from || cfg.filtered)) {
		count(TRACE_CTR_nameless);
		if (!cfg.from)
			return 0;
	}
	if (cfg.from) {
		p->from = c->from != 0;
		p->sent = c->refused == TRACE_WANTED;
		return number_of(&key);
	}
	if (c->refused == TRACE_UNWANTED) {
		refuse(p);
		p->callee = p->callee || is_callee(p->frame);
		if (p->callee)
			return number_of(&key);
		count(TRACE_CTR_refused);
		return 0;
	}
	if (p->resumed)
		__sync_fetch_and_add(&c->resumed, 1);
	else
		__sync_fetch_and_add(&c->calls, 1);
	return number_of(&key);
}

/* The frame that begins or continues, and what identifies its function. 0: it does not count. */
TRACE_NOINLINE int find_call(user_regs *ctx, __u32 spot, struct place *p, int learned)
{
	struct identity id = { 0 };

	if (!p)
		return 0;
	if (spot == TRACE_SPOTS || !find_frame(ctx, spot, p, learned)) {
		count(TRACE_CTR_unknown);
		return 0;
	}
	if (p->other || came_before(p, spot)) {
		count(TRACE_CTR_other);
		return 0;
	}
	if (read_identity(p, &id)) {
		count(TRACE_CTR_unknown);
		return 0;
	}
	p->fingerprint = id.fingerprint;
	if (cfg.filtered || cfg.from)
		p->refused = is_refused(mark_by(p, &id));
	return 1;
}

/* The function is not wanted, and was not when it was called before. */
BPF_INLINE int stays_refused(struct place *p)
{
	if (cfg.from) { /* it is surely not that */
		if (!is_outside(p->frame))
			return 0;
		note_begin(p->frame);
		count(TRACE_CTR_outside);
		return 1;
	}
	p->callee = is_callee(p->frame) != 0;
	if (p->callee)
		return 0;
	count(TRACE_CTR_refused);
	return 1;
}

/*
 * The id of the function that begins or continues here, and its `frame` if it is wanted. 0: it does
 * not count. A function of its own, because otherwise its BPF stack would add to that of all that
 * follows it (512 bytes).
 */
TRACE_NOINLINE __u64 take_call(user_regs *ctx, __u32 spot, struct place *p, __u32 frame)
{
	int learned;

	if (!p)
		return 0;
	learned = cfg.by_opcode && spot != TRACE_SPOTS && (is_learned(spot) || agrees(ctx, spot));
	if (!learned || !is_first(spot) || !known_start(ctx, spot, p, frame)) {
		if (!find_call(ctx, spot, p, learned))
			return 0;
		note_start(p);
	}
	if (p->refused && stays_refused(p))
		return 0;
	return count_call(p);
}

SEC("uprobe")
int on_call(user_regs *ctx)
{
	struct place p = { 0 };

	KEEP_OWN_STACK(ctx);
	if (is_over())
		return 0;
	if (by_process)
		note_process();
	if (is_other_thread())
		return 0;
	take_call(ctx, spot_of(ctx), &p, 0);
	return 0;
}

/*
 * A function begins or ends, or an exception comes: sends the event to user space, which pairs
 * them.
 */
SEC("uprobe")
int on_event(user_regs *ctx)
{
	__u32 spot = spot_of(ctx);
	const volatile struct trace_spot *s = &cfg.spots[BOUND(spot, TRACE_SPOTS)];
	struct place p = { 0 };
	__u32 kind, with;
	__u64 id;

	KEEP_OWN_STACK(ctx);
	if (spot == TRACE_SPOTS || is_over())
		return 0;
	if (by_process)
		note_process();
	if (is_other_thread())
		return 0;
	if (s->kind == POINT_RETURN)
		return on_end(ctx, spot, EVENT_RETURN);
	if (s->kind == POINT_YIELD)
		return on_end(ctx, spot, EVENT_YIELD);
	if (s->kind == POINT_EXIT)
		return on_exit_insn(ctx, spot);
	if (s->kind == POINT_RAISE)
		return take_raise(arch_reg(ctx, ARCH_REG_ARG0));
	id = take_call(ctx, spot, &p, 1);
	if (!id)
		return 0;
	if (cfg.from && !is_thread_known())
		learn_stack(caller_of(p.frame));
	if (cfg.from && !take_inside(&p, id))
		return 0;
	if (cfg.slow)
		note_waiter(arch_pc(ctx) - s->pc);
	kind = p.resumed ? EVENT_RESUME : EVENT_CALL;
	with = take_begin(p.frame, id, arch_sp(ctx), kind, p.callee);
	if (with == BEGIN_WITH_VALUES)
		return send_args(p.frame, id, arch_pc(ctx) - s->pc);
	return with ? send_call(p.frame, id, kind) : 0;
}

/* ---- imports --------------------------------------------------------------------------------- */

TRACE_NOINLINE int send_import(__u64 frame, __u64 id)
{
	struct trace_import *e;
	__u32 before;

	e = RESERVE_EVENT(sizeof(*e), &before);
	if (!e)
		return 0;
	e->frame = frame;
	e->caller = caller_of(frame);
	e->at.ns = bpf_ktime_get_ns();
	e->at.tgid = this_process();
	e->at.tid = this_thread();
	e->at.lost = before;
	e->at.cut = e->at.pad = 0;
	e->at.type[0] = 0;
	e->at.codes[0] = id;
	e->at.offsets[0] = OFFSET_NOT_STARTED;
	e->at.code_cnt = 1;
	/* The low bits of a local variable are a tag from 3.14 on (_PyStackRef). */
	send_name(&e->name, read64(frame + cfg.local_at) & ~7ULL);
	if (e->name.sent)
		walk_raise(&e->at, frame, 0);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("uprobe")
int on_import(user_regs *ctx)
{
	struct place p = { 0 };
	__u64 id;

	KEEP_OWN_STACK(ctx);
	if (is_over())
		return 0;
	id = take_call(ctx, spot_of(ctx), &p, 1);
	return id && !p.resumed ? send_import(p.frame, id) : 0;
}

/* Measures the cost of the trap alone. */
SEC("uprobe")
int on_nothing(user_regs *ctx)
{
	KEEP_OWN_STACK(ctx);
	(void)ctx;
	return 0;
}
