/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_TAKE_H
#define PYPERF_TAKE_H
/*
 * The pipeline as one call, for all programs that take stacks: select, walk, merge, aggregate.
 * Input:   struct trigger: where the stack begins, and its value.
 * Output:  one more in a count; the counter of the outcome.
 * Cost:    that of the stages.
 * Fails:   as they do; each failure has its counter.
 *
 * The caller holds the scratch of its CPU: no other program of its object runs there meanwhile.
 */
#include "sample.bpf.h"
#include "aggregate.bpf.h"

enum waited {
	WAITED_NOT = 0,	  /* not a wait: the GIL is no reason */
	WAITED_SELF = 1,  /* the GIL may be the reason, or the thread held it meanwhile */
	WAITED_OTHER = 2, /* ... of a thread of the same process, or the GIL is not the reason */
};

/* Why a program takes the stack of the current task. */
struct trigger {
	/* At the trigger. The kernel's, or NULL: the task's user registers are used. */
	const user_regs *regs;
	void *kernel_ctx;  /* context of the program, for kernel frames; NULL: there are none */
	__u64 leaf;	   /* a frame word to put innermost; 0: none */
	__u64 value;	   /* in units of `type` */
	__u32 type;	   /* number of the value type: see COUNT_WORD() */
	__u8 bare;	   /* it has no stack */
	__u8 waited;	   /* enum waited: whose wait `leaf` is, so that name_gil() can refine it */
	__u16 kernel_skip; /* innermost kernel frames that are only how the program was called */
	__u64 futex;	   /* that the thread of `leaf` waited on; 0: none */
};

/*
 * Walks the user part of the stack, Python and native, and merges it behind the kernel frames. 0:
 * there is none.
 */
BPF_INLINE int walk_user(const user_regs *regs, struct walk *w, struct task_struct *task)
{
	int verdict;

	if (!w->thread.has_mm) /* the memory of an ending thread is gone */
		return 0;
	verdict = regs ? use_regs(w, regs) : REGS_NONE;
	if (verdict == REGS_NONE) /* the trigger came in the kernel */
		verdict = load_task_regs(0);
	if (verdict == REGS_GONE)
		return 0;
	if (verdict == REGS_NONE) {
		w->flags |= WALK_NO_REGS;
		push_frame(MARKER_WORD(MARK_NO_REGS, 0));
		return 1;
	}
	if (verdict != REGS_LOADED) {
		w->flags |= WALK_NATIVE_LOST;
		push_frame(MARKER_WORD(MARK_COMPAT32, 0));
		return 1;
	}
	w->thread.tp = current_tp(task);
	for (__u32 n = 0; n < IMAGE_INTERPS; n++)
		if (walk_interp(w, n))
			break;
	if (cfg.flags & CFG_NATIVE)
		walk_native(0);
	merge(0);
	return 1;
}

/* The address of the GIL of the thread's interpreter; 0: not known, or there is none. */
BPF_INLINE __u64 gil_of_walk(const struct walk *w)
{
	__u64 interp, gil = w->interp.gil + w->image.bias;

	if (!w->tstate.addr || !w->interp.gil_size)
		return 0;
	if (!w->interp.gil && (read_user(&interp, 8, w->tstate.addr + w->interp.gil_interp) ||
			       read_user(&gil, 8, interp + w->interp.gil_of_interp)))
		return 0;
	return gil;
}

/* Where the futexes of the GIL at `gil` are; 0: nowhere yet. */
BPF_INLINE __u64 locks_of_gil(const struct walk *w, __u64 gil)
{
	__u64 locks = gil + w->interp.gil_locks;

	if (w->interp.gil_locked == PY_OFF_NONE && read_user(&locks, sizeof(locks), locks))
		return 0;
	return locks;
}

/* Is the int 1 that is so while somebody holds a GIL? Also true if there is none. */
BPF_INLINE int is_locked(__u64 gil, __u32 at)
{
	__u32 locked;

	return at == PY_OFF_NONE || (!read_user(&locked, sizeof(locked), gil + at) && locked == 1);
}

/* Does the walked thread hold the GIL at `gil`? */
BPF_INLINE int holds_gil(const struct walk *w, __u64 gil)
{
	__u64 holder;

	return is_locked(gil, w->interp.gil_locked) &&
	       !read_user(&holder, sizeof(holder), gil + w->interp.gil_holder) &&
	       holder == w->tstate.addr;
}

/*
 * Refines the reason of a wait in a system call by the walk: the futex lies in the GIL (take_gil()
 * and drop_gil(), Python/ceval_gil.c; 2.7: interpreter_lock, Python/ceval.c), or the thread held
 * the GIL all the while. It has not run since, so it cannot have taken the GIL meanwhile.
 */
BPF_INLINE void name_gil(const struct walk *w, __u64 futex, __u32 waited)
{
	__u64 gil = gil_of_walk(w), *deep = the_deep();

	if (!deep || !gil)
		return;
	if (futex && futex - locks_of_gil(w, gil) < w->interp.gil_size)
		deep[deep_frame(0)] = WAIT_WORD(WAIT_GIL, WAIT_CALL(deep[deep_frame(0)])) |
				      (deep[deep_frame(0)] & WAIT_ENDED);
	else if (waited == WAITED_SELF && holds_gil(w, gil))
		deep[deep_frame(0)] |= WAIT_HELD;
}

/* The stack that was taken last, as its key has it: of a sample that was counted. */
BPF_INLINE __u64 taken_stack(void)
{
	const struct stack *st = the_stack();
	const __u64 *deep = the_deep();
	__u32 last = st && st->cnt ? (st->cnt - 1) / CHUNK_FRAMES : 0;

	return deep ? deep[deep_hash(last)] : 0;
}

/*
 * Plain additions are enough: no other program increments these counters on this CPU while its
 * scratch is held, in NMI or not.
 */
BPF_INLINE void count_quality(struct counters *c, const struct walk *w, __u32 kernel_cnt)
{
	__u32 lost = w->flags & (WALK_NATIVE_LOST | WALK_PY_LOST | WALK_PY_UNMERGED |
				 WALK_TRUNCATED | WALK_NO_REGS | WALK_SKIPPED);

	c->n[CTR_user_stacks]++;
	c->n[CTR_frames_native] += w->native.cnt;
	c->n[CTR_frames_python] += w->python.cnt;
	c->n[CTR_frames_kernel] += kernel_cnt;
	if (!lost && (w->flags & WALK_NATIVE_END || !(cfg.flags & CFG_NATIVE)))
		c->n[CTR_complete]++;
	if (w->flags & WALK_TRUNCATED)
		c->n[CTR_note_truncated]++;
	if (w->flags & WALK_NATIVE_LOST)
		c->n[CTR_note_native_lost]++;
	if (w->flags & WALK_PY_LOST)
		c->n[CTR_note_python_lost]++;
	if (w->flags & WALK_NO_REGS)
		c->n[CTR_note_no_regs]++;
	if (w->flags & WALK_SHIM_JUMP)
		c->n[CTR_note_shim_jump]++;
}

/* Counts a user stack of a process that is not analysed yet. */
BPF_INLINE void count_pending(struct counters *c)
{
	c->n[CTR_user_stacks]++;
	c->n[CTR_note_pending]++;
}

/*
 * Claims the scratch of this CPU, in objects whose programs interrupt each other. The program that
 * increments the counter from 0 to 1 has the scratch until it decrements it. Uses an addition and a
 * read, because compare-and-exchange needs Linux 5.12. Two programs that come at once may both be
 * refused, but never both admitted: a program that reads 1 was alone between its addition and its
 * read, and the next one adds to that. All of this is on one CPU, as BPF programs do not migrate.
 */
BPF_INLINE int claim_scratch(struct counters *c)
{
	__sync_fetch_and_add(&c->claims, 1);
	if (*(volatile __u32 *)&c->claims == 1)
		return 1;
	__sync_fetch_and_add(&c->claims, -1);
	return 0;
}

BPF_INLINE void release_scratch(struct counters *c)
{
	__asm__ volatile("" ::: "memory"); /* accesses to the scratch come first */
	__sync_fetch_and_add(&c->claims, -1);
}

/*
 * Counts `cnt` samples as delivered and claims the scratch of this CPU for them. 0: another program
 * of the object holds it, and the samples are counted as lost_busy. Atomic, because such programs
 * interrupt each other here.
 */
BPF_INLINE int claim_delivered(struct counters *c, __u32 cnt)
{
	__sync_fetch_and_add(&c->n[CTR_delivered], cnt);
	if (claim_scratch(c))
		return 1;
	__sync_fetch_and_add(&c->n[CTR_lost_busy], cnt);
	return 0;
}

/*
 * Continues in the program that takes the stack, which releases the scratch. Returns only if that
 * program is missing: then the `cnt` samples are lost.
 */
BPF_INLINE void enter_sampler(void *ctx, struct counters *c, __u32 cnt)
{
	bpf_tail_call(ctx, &samplers, 0);
	c->n[CTR_lost_internal] += cnt;
	release_scratch(c);
}

/* Does everything except incrementing the counter of the outcome, which it returns. */
BPF_INLINE __u32 take(const struct trigger *t, struct counters *c)
{
	struct task_struct *task = current_task();
	struct walk *w = the_walk();
	struct stack *st = the_stack();
	__u32 verdict, pending, has_user = 0, kernel_cnt;

	if (!w || !st)
		return CTR_lost_internal;
	w->count.value = t->value; /* in memory: the BPF stack is full below the walks */
	w->count.type = t->type;
	verdict = select_sample(w, task);
	pending = verdict == CTR_note_pending;
	if (verdict != SAMPLE_TAKE && !pending)
		return verdict;
	st->cnt = st->cut = 0;
	if (t->leaf)
		push_frame(t->leaf);
	if (t->kernel_ctx && cfg.flags & CFG_KERNEL)
		walk_kernel(t->kernel_ctx, t->regs, st, t->kernel_skip);
	kernel_cnt = st->cnt - (t->leaf != 0);
	if (pending)
		push_frame(MARKER_WORD(MARK_PENDING, 0));
	else if (t->bare)
		push_frame(MARKER_WORD(MARK_NOT_TAKEN, 0));
	else
		has_user = walk_user(t->regs, w, task);
	if (t->waited && has_user)
		name_gil(w, t->futex, t->waited);
	if (!st->cnt) /* a thread without Python under --no-native */
		push_frame(MARKER_WORD(MARK_EMPTY, 0));
	verdict = (__u32)aggregate(0);
	if (verdict == CTR_counted && pending)
		count_pending(c);
	else if (verdict == CTR_counted && has_user)
		count_quality(c, w, kernel_cnt);
	return verdict;
}

#endif /* PYPERF_TAKE_H */
