/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_TRACE_STACK_BPF_H
#define PYPERF_TRACE_STACK_BPF_H
/*
 * The Python stack of the thread, for events that have one.
 *
 * Input:   a frame, or the thread's own PyThreadState.
 * Output:  code objects and offsets, innermost first, in struct trace_raise.
 * Fails:   the thread has no state: 0. Deeper than cfg.frame_max: cut.
 */
#include "trace_codes.bpf.h"
#include "trace_events.bpf.h"

#define STATES_MAX 1024 /* looked at */

/*
 * All global, like spot_at(), because they are called in loops. 0: there is none, or it cannot be
 * read.
 */
BPF_NOINLINE __u64 next_state(__u64 tstate)
{
	return read64(tstate + cfg.layout.tstate_next);
}

BPF_NOINLINE __u64 first_state(__u64 interp)
{
	return read64(interp + cfg.layout.interp_threads_head);
}

BPF_NOINLINE __u64 next_interpreter(__u64 interp)
{
	return read64(interp + cfg.layout.interp_next);
}

/*
 * Does the state belong to the thread with this thread pointer, and have an exception, if one is
 * wanted?
 */
BPF_NOINLINE __u32 is_meant(__u64 tstate, __u64 tp)
{
	return tstate && read64(tstate + cfg.layout.tstate_thread_id) == tp &&
	       (!cfg.exc_at || read64(tstate + cfg.exc_at));
}

/* A thread may have a state in each of several interpreters. Finds the one with the exception. */
BPF_NOINLINE __u64 search_state(__u64 interp, __u64 tp)
{
	__u64 tstate = interp ? first_state(interp) : 0;

	for (__u32 i = 0; i < STATES_MAX && interp; i++) {
		if (is_meant(tstate, tp))
			return tstate;
		if (tstate)
			tstate = next_state(tstate);
		if (!tstate) {
			interp = next_interpreter(interp);
			tstate = first_state(interp);
		}
	}
	return 0;
}

/* `moved`: distance of this process's addresses from those in cfg. */
BPF_INLINE __u64 find_state(__u64 moved)
{
	__u64 tp = task_tp((void *)(unsigned long)bpf_get_current_task());
	__u32 tid = this_thread();
	__u64 *known = bpf_map_lookup_elem(&states, &tid), tstate = known ? *known : 0;

	if (is_meant(tstate, tp))
		return tstate;
	tstate = search_state(read64(cfg.interp_head + moved), tp);
	if (tstate)
		bpf_map_update_elem(&states, &tid, &tstate, BPF_ANY);
	return tstate;
}

/*
 * 3.13+: below __init__() of a class that is called there is a frame that runs nothing of the
 * program: is_init_shim() of codes.bpf.h. No id is even.
 */
#define CODE_OF_SHIM 2

/* The code object of a frame. */
struct sight {
	struct place p;
	struct identity id;
	struct trace_key key; /* all 0: it cannot be read */
};

/*
 * NULL: it was not seen yet, or cannot be read. A function of its own, because its copy of the code
 * object must not lie on the BPF stack while names are sent.
 */
TRACE_NOINLINE struct trace_count *look_up(__u64 frame, struct sight *s)
{
	if (!s)
		return NULL;
	*s = (struct sight){ .p = { .frame = frame, .code = code_of(frame) } };
	if (!s->p.code || identify(&s->p, &s->id))
		return NULL;
	s->key = (struct trace_key){ .addr = s->p.code, .fingerprint = s->id.fingerprint };
	return bpf_map_lookup_elem(&codes, &s->key);
}

/* The id of the code object of a frame; its names are sent at first sight. */
BPF_NOINLINE __u64 code_id_of(__u64 frame)
{
	struct trace_count *c;
	struct sight s;

	s.key.addr = 0; /* up to 6.1 the verifier believes that look_up() may see no `s` */
	c = look_up(frame, &s);
	if (!s.key.addr)
		return 0;
	if (s.id.name == s.id.file)
		return CODE_OF_SHIM;
	if (!c)
		add_code(&s.p, &s.id);
	else if (c->refused == TRACE_NAMELESS)
		send_names(&s.p, &s.id, c);
	return number_of(&s.key);
}

/* The frame's own bytecode, in builds where each thread has one (3.14t, _PyCodeArray). */
BPF_INLINE __u64 bytecode_of(__u64 frame, __u64 code)
{
	__u32 index = 0;

	if (cfg.layout.frame_tlbc_index != PY_OFF_NONE)
		read_user(&index, sizeof(index), frame + cfg.layout.frame_tlbc_index);
	if (!index)
		return code + cfg.layout.code_bytecode;
	return read64(read64(code + cfg.layout.code_tlbc) + 8 + 8 * (__u64)index);
}

/*
 * Bytes from the beginning of the bytecode to the frame's instruction; frame_offset() of
 * walk_python.bpf.h explains it.
 */
BPF_NOINLINE __u32 offset_of(__u64 frame)
{
	__u64 code, off;
	__u32 word = 0;

	if (cfg.layout.lasti != PY_LASTI_POINTER) {
		if (read_user(&word, sizeof(word), frame + cfg.layout.frame_lasti) ||
		    (__s32)word < 0)
			return OFFSET_NOT_STARTED;
		return cfg.layout.lasti == PY_LASTI_UNITS ? word * 2 : word;
	}
	code = code_of(frame);
	off = read64(frame + cfg.layout.frame_lasti) - bytecode_of(frame, code);
	return off < OFFSET_NOT_STARTED ? (__u32)off : OFFSET_NOT_STARTED;
}

/* 3.15: below all frames of a thread there is another frame that runs nothing (base_frame). */
BPF_NOINLINE __u64 caller_of_frame(__u64 frame)
{
	__u64 back = back_of(frame);

	return back && is_shim(back) ? 0 : back;
}

/*
 * C code (Cython) makes a frame to have its name in the traceback. From 3.11 on such a frame has no
 * caller: that is the frame that the thread runs.
 */
BPF_NOINLINE __u64 running_frame(__u64 tstate)
{
	__u64 frame = read64(tstate + cfg.layout.tstate_frame);

	if (cfg.layout.chain == PY_CHAIN_CFRAME || cfg.layout.chain == PY_CHAIN_CFRAME_SHIM)
		frame = read64(frame + cfg.layout.cframe_frame);
	return is_shim(frame) ? read64(frame + cfg.layout.frame_back) : frame;
}

BPF_INLINE void walk_raise(struct trace_raise *e, __u64 frame, __u64 running)
{
	__u32 cnt = 0;

	if (running && running != frame && !read64(frame + cfg.layout.frame_back)) {
		e->offsets[cnt] = offset_of(frame);
		e->codes[cnt++] = code_id_of(frame);
		frame = running;
	}
	for (__u32 i = 1; i < TRACE_RAISE_FRAMES && i < cfg.frame_max && frame; i++) {
		__u64 id = code_id_of(frame);

		e->codes[cnt & (TRACE_RAISE_FRAMES - 1)] = id;
		e->offsets[cnt & (TRACE_RAISE_FRAMES - 1)] = offset_of(frame);
		/* verifier: a branch here would double the paths with each frame */
		cnt += 1 - is_same(id, CODE_OF_SHIM);
		frame = caller_of_frame(frame);
	}
	e->code_cnt = cnt;
	e->cut = frame != 0;
}

/* Sends a beginning with its stack. The time of the walk is not charged to the function. */
BPF_NOINLINE int send_call(__u64 frame, __u64 id, __u32 kind)
{
	struct trace_call *c;
	__u32 before;

	send_waits(0);
	c = RESERVE_EVENT(sizeof(*c), &before);
	if (!c)
		return 0;
	c->e.lost = before;
	walk_raise(&c->at, frame, 0);
	fill_event(&c->e, kind, frame, caller_of(frame), id);
	bpf_ringbuf_submit(c, BPF_RB_NO_WAKEUP);
	return 0;
}

#endif /* PYPERF_TRACE_STACK_BPF_H */
