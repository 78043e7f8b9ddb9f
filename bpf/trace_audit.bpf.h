/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_TRACE_AUDIT_BPF_H
#define PYPERF_TRACE_AUDIT_BPF_H
/*
 * Audit events where they are raised, with the stack there.
 *
 * Output:  struct trace_raise in the ring buffer `events`, with the event's name as its type.
 * Fails:   it is none of those that are wanted: counted as refused.
 */
#include "trace_stack.bpf.h"

/* Global, as spot_at(). One of the events that are wanted. */
BPF_NOINLINE int is_audited(__u64 event)
{
	union {
		char text[8 * TRACE_AUDIT_WORDS];
		__u64 words[TRACE_AUDIT_WORDS];
	} name = { 0 };
	__u32 found = 0;

	if (bpf_probe_read_user_str(name.text, sizeof(name.text), (void *)(unsigned long)event) < 0)
		return 0;
	for (__u32 i = 0; i < TRACE_AUDITS; i++) {
		__u64 other = 0;

		for (int k = 0; k < TRACE_AUDIT_WORDS; k++)
			other |= (name.words[k] & cfg.audits[i].mask[k]) ^ cfg.audits[i].name[k];
		found |= (i < cfg.audit_cnt) & !other;
	}
	return found;
}

/* The characters of a string of ASCII alone, which a zero ends. 0: it is another one. */
BPF_INLINE __u64 ascii_text(__u64 str)
{
	__u32 shift = cfg.layout.str == PY_STR_STATE_T14 ? 8 : 2, state = 0;

	if (!str || read_user(&state, sizeof(state), str + cfg.layout.str_state))
		return 0;
	return (state >> (shift + 4)) & 1 ? str + cfg.layout.str_ascii : 0;
}

TRACE_NOINLINE int send_audit(__u64 event, __u64 frame)
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
	if (bpf_probe_read_user_str(e->type, sizeof(e->type), (void *)(unsigned long)event) < 0)
		e->type[0] = 0;
	walk_raise(e, frame, 0);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

/*
 * The name of the event here; 0: it has been counted. If there is a hook, sys.audit() raises its
 * event in C, too: with the same characters, next in this thread.
 */
BPF_INLINE __u64 audited_here(user_regs *ctx, __u32 kind)
{
	__u64 event, second = arch_reg(ctx, ARCH_REG_ARG1), *last;
	__u32 tid = this_thread();

	if (kind == POINT_AUDIT_PYTHON) {
		event = ascii_text(read64(second));
		bpf_map_update_elem(&running, &tid, &event, BPF_ANY);
		return event;
	}
	event = kind == POINT_AUDIT ? arch_reg(ctx, ARCH_REG_ARG0) : second;
	last = bpf_map_lookup_elem(&running, &tid);
	if (!last || *last != event)
		return event;
	*last = 0;
	return 0;
}

/* Where an audit event is raised, in the thread that does it. */
SEC("uprobe")
int on_audit(user_regs *ctx)
{
	__u32 spot = spot_of(ctx);
	const volatile struct trace_spot *s = &cfg.spots[BOUND(spot, TRACE_SPOTS)];
	__u64 event, tstate;

	KEEP_OWN_STACK(ctx);
	if (spot == TRACE_SPOTS || is_over())
		return 0;
	event = audited_here(ctx, s->kind);
	if (!event || !is_audited(event)) {
		count(TRACE_CTR_refused);
		return 0;
	}
	tstate = find_state(arch_pc(ctx) - s->pc);
	return send_audit(event, tstate ? running_frame(tstate) : 0);
}

#endif /* PYPERF_TRACE_AUDIT_BPF_H */
