// SPDX-License-Identifier: GPL-2.0-only
/*
 * The object of `trace --native-from`: a program at the functions of a file, which sends what a
 * thread calls while it is inside of one of them. Outside, a hit costs the trap and two look-ups.
 *
 * A function is known by its CFA, which neither recursion nor a call of the same function by
 * another one repeats. Programs interrupt each other only in another thread: a thread has its own
 * entry of `inside`, and a breakpoint is hit in user space.
 */
#include "seam.bpf.h"
#include "taskinfo.bpf.h"
#include "own_stack.bpf.h"
#include "probe_cost.bpf.h"
#include "native.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct native_cfg native_cfg = {};

/* user/ writes, before the breakpoints are there. 256 KiB. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NATIVE_PLACES_MAX);
	__type(key, __u32);
	__type(value, struct native_place);
} native_places SEC(".maps");

/*
 * Full: the thread that was here longest ago is taken for outside; most often it has ended inside,
 * which nobody says.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct native_inside);
} native_inside SEC(".maps");

/* Full: counted in `lost`, and the next event says so. 8 MiB. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 23);
} native_events SEC(".maps");

/* Set when the trace is over: to remove the breakpoints takes a while. */
__u32 over;
__u32 lost;

BPF_INLINE void send(__u32 kind, __u32 function, __u64 cfa)
{
	/* Before the event has its place: what is lost meanwhile comes behind it. */
	__u32 before = *(volatile __u32 *)&lost;
	struct native_event *e = bpf_ringbuf_reserve(&native_events, sizeof(*e), 0);

	if (!e) {
		__sync_fetch_and_add(&lost, 1);
		return;
	}
	e->ns = bpf_ktime_get_ns();
	e->cfa = cfa;
	e->tid = (__u32)task_seen_from(native_cfg.pidns_dev, native_cfg.pidns_inum,
				       native_cfg.pidns_level);
	e->function = function;
	e->kind = kind;
	e->lost = before;
	bpf_ringbuf_submit(e, 0);
}

BPF_INLINE __u64 return_address(__u64 cfa)
{
	__u64 ra = 0;

	read_user(&ra, sizeof(ra), cfa - native_cfg.ra_below);
	return ra;
}

/* Its frame is gone: something runs where its caller was, or another return address is there. */
BPF_INLINE int is_gone(const struct native_inside *in, __u64 cfa)
{
	return cfa > in->cfa || return_address(in->cfa) != in->ra;
}

SEC("uprobe")
int on_place(user_regs *ctx)
{
	__u32 number = (__u32)bpf_get_attach_cookie(ctx);
	const struct native_place *p = bpf_map_lookup_elem(&native_places, &number);
	__u64 thread = bpf_get_current_pid_tgid(), cfa;
	struct native_inside *in, now = {};
	int is_first;

	KEEP_OWN_STACK(ctx);
	if (!p || *(volatile __u32 *)&over)
		return 0;
	note_cost(p->stepped);
	in = bpf_map_lookup_elem(&native_inside, &thread);
	is_first = p->function == native_cfg.first;
	if (!in && (!is_first || p->is_end))
		return 0;
	cfa = arch_sp(ctx) + p->cfa_off;
	if (in && is_gone(in, cfa)) {
		send(NATIVE_OVER, native_cfg.first, in->cfa);
		bpf_map_delete_elem(&native_inside, &thread);
		in = NULL;
		if (!is_first || p->is_end)
			return 0;
	}
	if (!in) {
		now.cfa = cfa;
		now.ra = return_address(cfa);
		if (bpf_map_update_elem(&native_inside, &thread, &now, BPF_ANY))
			return 0;
	}
	send(p->is_end ? NATIVE_RETURN : NATIVE_CALL, p->function, cfa);
	/* Also of a function that it jumped to in its place. */
	if (in && p->is_end && cfa == in->cfa)
		bpf_map_delete_elem(&native_inside, &thread);
	return 0;
}
