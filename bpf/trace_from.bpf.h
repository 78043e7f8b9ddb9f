/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_TRACE_FROM_BPF_H
#define PYPERF_TRACE_FROM_BPF_H
/*
 * What runs inside of one function, cfg.from: a frame is inside if it is that function's, or if its
 * caller is inside. So neither threads nor greenlets nor generators need a rule of their own, and
 * what an exception has left needs none either: the caller is not inside.
 *
 * Input:   a frame that begins, ends, or has an exception.
 * Output:  `inside`.
 * Cost:    outside: three look-ups.
 * Fails:   the function is called below more than FROM_FRAMES frames when the trace, or a process,
 *          begins: that call is not seen.
 */
#include "trace_stack.bpf.h"

#define FROM_FRAMES 128

BPF_NOINLINE int forget_frame(__u64 frame)
{
	struct trace_inside_key key = { .frame = frame, .process = this_process() };

	/* Most are not there, and a look costs less. */
	if (bpf_map_lookup_elem(&inside, &key))
		bpf_map_delete_elem(&inside, &key);
	return 0;
}

BPF_NOINLINE int put_frame(__u64 frame, __u64 outer, __u64 inner, __u64 caller, __u32 state)
{
	struct trace_inside_key key = { .frame = frame, .process = this_process() };
	struct trace_inside in = { .from = { outer, inner }, .caller = caller };

	in.state = state & 0xff;
	in.sent = state >> 8;
	return (int)bpf_map_update_elem(&inside, &key, &in, BPF_ANY);
}

/* ---- calls that began before ----------------------------------------------------------------- */

/* A beginning of this thread was seen before. */
BPF_NOINLINE int is_thread_known(void)
{
	struct trace_inside_key key = { .process = this_task() };

	return bpf_map_lookup_elem(&inside, &key) != 0;
}

BPF_NOINLINE int know_thread(void)
{
	struct trace_inside_key key = { .process = this_task() };
	struct trace_inside in = { .state = INSIDE_SEEN };

	return (int)bpf_map_update_elem(&inside, &key, &in, BPF_ANY);
}

/* The id of the frame's function, if it may be cfg.from and its code object was seen; else 0. */
BPF_NOINLINE __u64 known_from(__u64 frame)
{
	struct sight s;
	struct trace_count *c = look_up(frame, &s);

	return c && c->from ? c->id : 0;
}

/* verifier: a branch in the loop would double the paths with each frame */
BPF_NOINLINE __u64 pick(__u64 which, __u64 a, __u64 b)
{
	return which ? a : b;
}

/*
 * The stack of a thread that is seen for the first time: the trace, or a fork, began inside. What
 * is there already is no event.
 */
BPF_NOINLINE int learn_stack(__u64 frame)
{
	__u64 at = frame, root = 0, depth = 0;

	know_thread();

	for (__u32 i = 0; i < FROM_FRAMES && at; i++) {
		__u64 id;

		code_id_of(at); /* makes it known */
		id = known_from(at);
		root = pick(id, id, root);
		depth = pick(id, i + 1, depth);
		at = caller_of_frame(at);
	}
	for (__u32 i = 0; i < FROM_FRAMES && i < depth; i++) {
		put_frame(frame, root, root, 0, INSIDE_RUNS);
		frame = caller_of_frame(frame);
	}
	return 0;
}

/* ---- beginnings ------------------------------------------------------------------------------ */

/* A function that is surely not cfg.from begins outside. */
BPF_NOINLINE int is_outside(__u64 frame)
{
	if (inside_of(caller_of(frame)) || !is_thread_known())
		return 0;
	forget_frame(frame);
	return 1;
}

/* What it has called has ended by an exception, if it can run again. */
BPF_NOINLINE int end_callee(__u64 frame, __u64 caller, __u32 send)
{
	struct trace_inside *up = inside_of(caller);

	if (!up || up->state != INSIDE_CALLS)
		return 0;
	if (send)
		send_event(EVENT_CALL, frame, caller, 0);
	return forget_frame(caller);
}

/* 1: the frame that begins is inside. `from`: it may be cfg.from itself. */
BPF_NOINLINE int enter(__u64 frame, __u64 id, __u32 from, __u32 sent)
{
	__u64 caller = caller_of(frame), outer = 0, inner = 0;
	struct trace_inside *up = inside_of(caller);
	__u32 state = INSIDE_RUNS | sent << 8;

	forget_frame(frame);
	if (up && up->state == INSIDE_RUNS) {
		outer = up->from[0];
		inner = up->from[1];
		put_frame(frame, outer, from ? id : inner, 0, state);
		return 1;
	}
	if (up)
		end_callee(frame, caller, !from || !sent);
	if (!from)
		return 0;
	put_frame(frame, id, id, caller, state);
	if (caller)
		put_frame(caller, id, id, 0, INSIDE_CALLS);
	return 1;
}

/* 0: it is no event. */
TRACE_NOINLINE int take_inside(struct place *p, __u64 id)
{
	if (!p)
		return 0;
	if (enter(p->frame, id, p->from, p->sent)) {
		if (!p->sent)
			count(TRACE_CTR_refused);
	} else {
		if (!p->from)
			refuse(p);
		count(TRACE_CTR_outside);
		note_begin(p->frame);
		return 0;
	}
	if (!p->sent)
		note_begin(p->frame);
	return p->sent;
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* The end of a frame, or of what it has called, is an event. */
BPF_NOINLINE int is_sent(__u64 frame)
{
	struct trace_inside *in = inside_of(frame);

	return in && (in->sent || in->state == INSIDE_CALLS);
}

BPF_NOINLINE int leave(__u64 frame)
{
	struct trace_inside *in = inside_of(frame);
	__u64 caller = in ? in->caller : 0;

	if (!in)
		return 0;
	forget_frame(frame);
	return caller ? end_callee(frame, caller, 0) : 0;
}

/*
 * An exception is in a frame. It may have been thrown into a generator, which goes on without a
 * beginning.
 */
BPF_NOINLINE int raises_inside(__u64 frame)
{
	struct trace_inside *up;
	__u64 id;

	if (inside_of(frame))
		return 1;
	up = inside_of(caller_of(frame));
	id = known_from(frame);
	return (up || id) && enter(frame, id, id != 0, 1);
}

/* What a frame had called has ended, as the exception is in that frame now. */
BPF_NOINLINE int raised(__u64 frame)
{
	return end_callee(0, frame, 0);
}

#endif /* PYPERF_TRACE_FROM_BPF_H */
