/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_TAKE_H
#define PYPERF_TAKE_H
/*
 * The pipeline as one call, for all programs that take stacks: select, walk, merge, aggregate.
 * Input:   struct trigger: where the stack begins, and what it is worth.
 * Output:  one more in a count; the counter that says what became of it.
 * Cost:    that of the stages.
 * Fails:   as they do; each failure has its counter.
 *
 * The caller holds the scratch of its CPU: no other program of its object runs there meanwhile.
 */
#include "sample.bpf.h"
#include "aggregate.bpf.h"

/* Why a program takes the stack of the current task. */
struct trigger {
	const user_regs
		*regs;	  /* at the trigger; of the kernel: the task's user registers are used */
	void *kernel_ctx; /* of the program, for kernel frames */
	__u64 value;	  /* in units of `type` */
	__u32 type;	  /* number of the value type: see COUNT_WORD() */
};

/* User part of the stack: Python, native, merged behind the kernel frames. 0: there is none. */
BPF_INLINE int walk_user(const user_regs *regs, struct walk *w, struct task_struct *task)
{
	struct mm_struct *mm = CURRENT_READ(task, mm);
	int verdict;

	if (!mm) /* a thread's end outlives its memory */
		return 0;
	verdict = use_regs(w, regs);
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
	w->tp = current_tp(task);
	w->stack_start = CURRENT_READ(mm, start_stack);
	for (__u32 n = 0; n < IMAGE_INTERPS; n++)
		if (walk_interp(w, n))
			break;
	if (cfg.flags & CFG_NATIVE)
		walk_native(0);
	merge(0);
	return 1;
}

/*
 * Plain additions: nothing else that counts here runs on the CPU while its scratch is held, whether
 * in NMI or not.
 */
BPF_INLINE void count_quality(struct counters *c, const struct walk *w, __u32 kernel_cnt)
{
	__u32 lost = w->flags & (WALK_NATIVE_LOST | WALK_PY_LOST | WALK_PY_UNMERGED |
				 WALK_TRUNCATED | WALK_NO_REGS);

	c->n[CTR_user_stacks]++;
	c->n[CTR_frames_native] += w->native_cnt;
	c->n[CTR_frames_python] += w->py_cnt;
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

/* It has a user stack, of which nothing is known. */
BPF_INLINE void count_pending(struct counters *c)
{
	c->n[CTR_user_stacks]++;
	c->n[CTR_note_pending]++;
}

/* Everything but counting the outcome; returns the counter to increment. */
BPF_INLINE __u32 take(const struct trigger *t, struct counters *c)
{
	struct task_struct *task = current_task();
	struct walk *w = the_walk();
	struct stack *st = the_stack();
	__u32 verdict, pending, has_user = 0, kernel_cnt;

	if (!w || !st)
		return CTR_lost_internal;
	w->value = t->value; /* in memory: the BPF stack is full below the walks */
	w->type = t->type;
	verdict = select_sample(w, task);
	pending = verdict == CTR_note_pending;
	if (verdict != SAMPLE_TAKE && !pending)
		return verdict;
	st->cnt = st->cut = 0;
	if (cfg.flags & CFG_KERNEL)
		walk_kernel(t->kernel_ctx, t->regs, st);
	kernel_cnt = st->cnt;
	if (pending)
		push_frame(MARKER_WORD(MARK_PENDING, 0));
	else
		has_user = walk_user(t->regs, w, task);
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
