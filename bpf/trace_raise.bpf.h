/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_TRACE_RAISE_BPF_H
#define PYPERF_TRACE_RAISE_BPF_H
/*
 * Exceptions where they are raised, with the stack there.
 *
 * Output:  struct trace_raise in the ring buffer `events`.
 * Fails:   no state of the thread: counted as unknown_raise.
 */
#include "trace_stack.bpf.h"
#include "trace_values.bpf.h"

/*
 * The type of the exception, if this is the first frame that it reaches. 0: it has a traceback. Up
 * to 3.11 type, value and traceback are three fields of the state.
 */
BPF_INLINE __u64 fresh_type(__u64 tstate)
{
	__u64 exc = read64(tstate + cfg.exc_at);

	if (!cfg.exc_traceback)
		return read64(tstate + cfg.exc_at + 16) ? 0 : exc;
	return read64(exc + cfg.exc_traceback) ? 0 : read64(exc + cfg.layout.ob_type);
}

#define CLASSOBJ 0x6a626f7373616c63ULL /* "classobj", a type */

/* 2.7: a class without `object` is a PyClassObject: cl_name, behind cl_bases and cl_dict. */
BPF_INLINE void read_type(struct trace_raise *e, __u64 type)
{
	__u64 at = type_name(type);

	if (cfg.layout.str == PY_STR_BYTES &&
	    read64(type_name(read64(type + cfg.layout.ob_type))) == CLASSOBJ)
		at = read64(type + cfg.layout.ob_type + 24) + cfg.layout.bytes_data;
	if (bpf_probe_read_user_str(e->type, sizeof(e->type), (void *)(unsigned long)at) < 0)
		e->type[0] = 0;
}

TRACE_NOINLINE int send_raise(__u64 tstate, __u64 type, __u64 frame)
{
	struct trace_raise *e;
	__u32 before;

	e = RESERVE_EVENT(sizeof(*e), &before);
	if (!e)
		return 0;
	e->ns = bpf_ktime_get_ns();
	e->tgid = this_process();
	e->tid = this_thread();
	e->lost = before;
	e->pad = 0;
	read_type(e, type);
	walk_raise(e, frame, cfg.frame_of_object ? running_frame(tstate) : 0);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

/*
 * PyTraceBack_Here(PyFrameObject *): an exception reaches a frame. The first frame is where it was
 * raised.
 */
SEC("uprobe")
int on_raise(user_regs *ctx)
{
	__u64 frame = arch_reg(ctx, ARCH_REG_ARG0), type, tstate;

	KEEP_OWN_STACK(ctx);
	if (is_over())
		return 0;
	tstate = find_state(arch_pc(ctx) - cfg.spots[0].pc);
	if (!tstate) {
		count(TRACE_CTR_unknown_raise);
		return 0;
	}
	type = fresh_type(tstate);
	if (!type) {
		count(TRACE_CTR_passed);
		return 0;
	}
	if (cfg.frame_of_object)
		frame = read64(frame + cfg.frame_of_object);
	return send_raise(tstate, type, frame);
}

#endif /* PYPERF_TRACE_RAISE_BPF_H */
