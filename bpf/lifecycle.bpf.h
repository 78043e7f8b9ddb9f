/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_LIFECYCLE_H
#define PYPERF_LIFECYCLE_H
/*
 * Beside the stages: fork, exec, exit and new address ranges keep `procs` and `mappings` true at
 * once, in the kernel; user space is told.
 * Input:   the tracepoints' tasks.
 * Output:  procs; struct ev_proc in `events`.
 * Cost:    1 us per fork, exec, exit of a process; nothing for threads but the test. 25 ns for
 *          memory that is mapped to read and write; two look-ups and a binary search, 0.2 us, for
 *          any other address range that is given out. 6 us to wake user space, once until it has
 *          looked.
 * Fails:   table or ring full: counted (note_proc_full, note_event_lost).
 */
#include "task.bpf.h"

/* include/uapi/asm-generic/mman-common.h */
#define PROT_READ     0x1
#define PROT_WRITE    0x2
#define PROT_EXEC     0x4
#define MAP_PRIVATE   0x02
#define MAP_ANONYMOUS 0x20

/*
 * Wakes user space, unless it was woken and has not read since: see rings__consume(). Whoever calls
 * this has submitted a record before, which is a full barrier; user space clears `told` before it
 * reads. The wake-up comes with a record of its own, which user space must see: if it reads that
 * before the wake-up arrives, it would sleep on while `told` says that it was woken. Without room
 * for it there are others, and user space finds them at its next tick.
 */
BPF_INLINE void wake_user(void)
{
	__u64 *only_wakes;

	if (*(volatile __u32 *)&told)
		return;
	only_wakes = bpf_ringbuf_reserve(&events, sizeof(*only_wakes), 0);
	if (!only_wakes)
		return;
	*only_wakes = 0;
	told = 1;
	bpf_ringbuf_submit(only_wakes, BPF_RB_FORCE_WAKEUP);
}

/*
 * A new program must be known before its next sample, unless it is one of those that start all the
 * time and are not Python. A child is known, until it calls exec, by its parent's image; most do so
 * within a ms. With -p an exit may be the end of the run, and a child one of the few that are
 * wanted.
 */
BPF_INLINE int is_urgent(__u32 type, const struct proc *p)
{
	if (type == EV_EXEC)
		return !(p->flags & PROC_PLAIN);
	return (cfg.flags & CFG_TARGETS) || (type != EV_EXIT && type != EV_FORK);
}

BPF_INLINE void send_event(__u32 type, __u32 tgid, const struct proc *p, __u32 parent,
			   struct task_struct *task, const struct exe_key *exe)
{
	struct ev_proc *ev = bpf_ringbuf_reserve(&events, sizeof(*ev), 0);

	if (!ev) {
		stat_inc(CTR_note_event_lost);
		__sync_fetch_and_add(&events_lost, 1);
		return;
	}
	__builtin_memset(ev, 0, sizeof(*ev));
	ev->type = type;
	ev->tgid = tgid;
	ev->space = p->space;
	ev->image = p->image;
	ev->parent = parent;
	ev->time_ns = bpf_ktime_get_ns();
	BPF_CORE_READ_STR_INTO(&ev->comm, task, comm);
	if (type == EV_EXIT)
		ev->status = (__u32)BPF_CORE_READ(task, exit_code);
	if (exe) {
		ev->exe = *exe;
		ev->status = p->flags;
	}
	bpf_ringbuf_submit(ev, BPF_RB_NO_WAKEUP);
	if (is_urgent(type, p))
		wake_user();
}

/* A function of its own: the sampler calls it, and seldom. */
BPF_NOINLINE int tell_code(__u32 tgid, __u32 space, __u32 state)
{
	struct ev_proc ev = { .type = EV_AREA, .tgid = tgid, .space = space, .status = state };

	if (*(volatile __u32 *)&told) /* user space looks soon, whatever it was told */
		return 0;
	ev.time_ns = bpf_ktime_get_ns();
	if (!bpf_ringbuf_output(&events, &ev, sizeof(ev), BPF_RB_NO_WAKEUP))
		wake_user();
	return 0;
}

/*
 * A change of `procs` failed. No room, or no number, is one thing. The other is a lock that could
 * not be had: -EBUSY when this CPU was in the same bucket already (map_locked, up to 6.14),
 * -EDEADLK or -ETIMEDOUT after a quarter of a second (rqspinlock, from 6.15 on; a virtual CPU that
 * does not run may hold one so long). User space compares the table with /proc then:
 * process_table__resync().
 */
BPF_INLINE void count_refusal(long err)
{
	stat_inc(err == E_2BIG ? CTR_note_proc_full : CTR_note_proc_busy);
	if (err != E_2BIG)
		__sync_fetch_and_add(&events_lost, 1);
}

/* The child shares the parent's image until it maps something or calls exec. */
BPF_INLINE void follow_fork(struct task_struct *parent, struct task_struct *child)
{
	__u32 tgid = task_tgid(child), parent_tgid = task_tgid(parent);
	struct proc p = {}, *from;
	long err;

	if (BPF_CORE_READ(child, pid) != BPF_CORE_READ(child, tgid) || !tgid)
		return; /* a thread */
	from = bpf_map_lookup_elem(&procs, &parent_tgid);
	if (!from)
		return;
	if ((cfg.flags & CFG_TARGETS) && !(cfg.flags & CFG_CHILDREN))
		return;
	p.space = new_space(SPACE_FORK);
	p.image = bpf_map_lookup_elem(&images, &from->space) ? from->space : from->image;
	p.flags = from->flags;
	p.code_pages = from->code_pages;
	stat_inc(CTR_note_fork);
	err = p.space ? bpf_map_update_elem(&procs, &tgid, &p, BPF_ANY) : E_2BIG;
	if (err)
		count_refusal(err);
	else
		send_event(EV_FORK, tgid, &p, from->space, child, NULL);
}

/* Of the current task. Only if processes without Python are of no interest. */
BPF_INLINE int is_plain_exe(struct task_struct *task, struct exe_key *key)
{
	struct mm_struct *mm = CURRENT_READ(task, mm);
	struct file *file = mm ? CURRENT_READ(mm, exe_file) : NULL;
	struct inode *inode = file ? CURRENT_READ(file, f_inode) : NULL;
	struct super_block *sb = inode ? CURRENT_READ(inode, i_sb) : NULL;

	if (!sb)
		return 0;
	key->ino = CURRENT_READ(inode, i_ino);
	key->dev = CURRENT_READ(sb, s_dev);
	return (cfg.flags & CFG_PYTHON_ONLY) && bpf_map_lookup_elem(&plain_exes, key);
}

/* A new address space: nothing that was known of the old one holds. */
BPF_INLINE void follow_exec(struct task_struct *task)
{
	__u32 tgid = task_tgid(task);
	struct proc p = {}, *old;
	struct exe_key exe = {};
	long err;

	if (!tgid)
		return;
	old = bpf_map_lookup_elem(&procs, &tgid);
	if (!old && (cfg.flags & CFG_TARGETS))
		return;
	p.space = p.image = new_space(SPACE_EXEC);
	p.flags = old ? old->flags & PROC_TARGET : 0;
	if (is_plain_exe(task, &exe))
		p.flags |= PROC_PLAIN;
	stat_inc(CTR_note_exec);
	if (!p.space)
		bpf_map_delete_elem(&procs, &tgid);
	err = p.space ? bpf_map_update_elem(&procs, &tgid, &p, BPF_ANY) : E_2BIG;
	if (err)
		count_refusal(err);
	else
		send_event(EV_EXEC, tgid, &p, 0, task,
			   &exe); /* `old` points to what is reused by now */
}

/* do_exit() has counted the thread off signal->live by now: 0 is the last one. */
BPF_INLINE void follow_exit(struct task_struct *task)
{
	__u32 tgid = task_tgid(task);
	struct proc *p, last;
	long err;

	if (BPF_CORE_READ(task, signal, live.counter) > 0)
		return;
	p = bpf_map_lookup_elem(&procs, &tgid);
	if (!p)
		return;
	last = *p;
	err = bpf_map_delete_elem(&procs, &tgid);
	if (err == E_NOENT)
		/* two last threads on two CPUs may both find nobody alive: one of them tells */
		return;
	if (err)
		count_refusal(err);
	stat_inc(CTR_note_exit);
	send_event(EV_EXIT, tgid, &last, 0, task, NULL);
}

/* ---- addresses that are used again ----------------------------------------------------------- */

#define EMPTY_STEP  128 /* mappings of one step, and steps: together an image */
#define EMPTY_STEPS ((1 << IMAGE_MAX_BITS) / EMPTY_STEP)
#define PAGE_OFFSET 0xfff

/*
 * The first of the mappings [lo, hi) that lies, or lay, in [start, end); hi: there is none. Nothing
 * here uses the scratch: a sample may interrupt.
 */
BPF_NOINLINE __u32 mapping_in(__u32 lo, __u32 hi, __u64 start, __u64 end)
{
	__u32 mid, last = hi;
	const struct mapping *m;

	for (int i = 0; i < MAP_STEPS && lo < hi; i++) {
		mid = (lo + hi) / 2;
		m = get_mapping(mid);
		if (!m)
			return last;
		if (m->end <= start)
			lo = mid + 1;
		else
			hi = mid;
	}
	m = lo < last ? get_mapping(lo) : NULL;
	return m && m->start < end ? lo : last;
}

/* Empties the mappings from `at` on that begin below `end`. Where to go on; hi: all is done. */
BPF_NOINLINE __u32 empty_some(__u32 at, __u32 hi, __u64 end)
{
	for (int i = 0; i < EMPTY_STEP && at < hi; i++, at++) {
		struct mapping *m = bpf_map_lookup_elem(&mappings, &at);

		if (!m || m->start >= end)
			return hi;
		m->end = m->start;
	}
	return at;
}

BPF_NOINLINE int empty_mappings(__u32 at, __u32 hi, __u64 end)
{
	for (int i = 0; i < EMPTY_STEPS && at < hi; i++)
		at = empty_some(at, hi, end);
	return 0;
}

/* The mappings that user space is about to give the process: see `draft` in maps.bpf.h. */
BPF_INLINE void follow_area_in_draft(const struct proc *p, __u64 start, __u64 end)
{
	__u64 word = *(volatile __u64 *)&draft;
	__u32 hi = DRAFT_FIRST(word) + DRAFT_CNT(word);

	if (DRAFT_SPACE(word) == p->space)
		empty_mappings(mapping_in(DRAFT_FIRST(word), hi, start, end), hi, end);
}

/*
 * An image that is shared stays as it is for the others; this process has none until it gets its
 * own.
 */
BPF_INLINE void follow_area_in_image(struct proc *p, const struct image *im, int own, __u64 start,
				     __u64 end, struct task_struct *task)
{
	__u32 at, hi;

	at = im->map_first;
	hi = at + im->map_cnt;
	at = mapping_in(at, hi, start, end);
	if (at == hi)
		return;
	stat_inc(CTR_note_remapped);
	if (own) {
		empty_mappings(at, hi, end);
		return;
	}
	p->image = 0;
	send_event(EV_UNSHARE, task_tgid(task), p, 0, task, NULL);
}

/* Of the system call in which the current task is. */
struct mmap_args {
	__u64 nr, prot, flags;
};

BPF_INLINE struct mmap_args mmap_args_of(const user_regs *r)
{
	return (struct mmap_args){ (__u64)arch_syscall(r), arch_syscall_arg2(r),
				   arch_syscall_arg3(r) };
}

BPF_INLINE void load_mmap_args(struct mmap_args *a)
{
	const user_regs *r;
	user_regs copy;

	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs)) {
		r = (const user_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
		*a = mmap_args_of(r);
		return;
	}
	if (bpf_probe_read_kernel(&copy, sizeof(copy), task_user_regs()))
		arch_forget_syscall(&copy);
	*a = mmap_args_of(&copy);
}

/*
 * mmap() of memory to read and write: nothing is executed there, and there is a lot of it. Or the
 * kernel maps a program in execve(): on_exec() comes after it, and until then the process has no
 * user stack.
 */
BPF_INLINE int is_no_news(const struct mmap_args *a)
{
	if (a->nr == ARCH_NR_MMAP)
		return a->flags & MAP_ANONYMOUS && a->prot == (PROT_READ | PROT_WRITE);
	return a->nr == ARCH_NR_EXECVE || a->nr == ARCH_NR_EXECVEAT;
}

/*
 * mmap() of code, or of what a dynamic linker maps at first of a library, before it puts the code
 * there: a file, private and not to be written.
 */
BPF_INLINE int maps_code(const struct mmap_args *a)
{
	if (a->nr != ARCH_NR_MMAP)
		return 0;
	return a->prot & PROT_EXEC || ((a->flags & (MAP_ANONYMOUS | MAP_PRIVATE)) == MAP_PRIVATE &&
				       !(a->prot & PROT_WRITE));
}

/* Does user space want to know what code the process has? `im` is its image, or NULL. */
BPF_INLINE int code_matters(const struct image *im)
{
	if (!(cfg.flags & CFG_PYTHON_ONLY))
		return 1;
	return im && im->flags & (IMAGE_PYTHON | IMAGE_NOT_WALKED);
}

/*
 * The kernel has chosen an address range for a new mapping (mm/mmap.c, vm_unmapped_area(); the
 * tracepoint is of 5.7, df529cabb7a2). It is free, so what an image has there is gone: a library
 * that was closed. Until user space knows, samples there are of no file. It counts that `areas` is
 * first, with a full barrier, and the draft comes before the image: see make_draft() in
 * user/process/process.c.
 */
BPF_INLINE void follow_area(__u64 start, const struct vm_unmapped_area_info *info,
			    const struct mmap_args *args)
{
	struct task_struct *task = current_task();
	__u32 tgid = current_tgid(task);
	struct proc *p = bpf_map_lookup_elem(&procs, &tgid);
	const struct image *own, *im;
	__u64 end;

	if (!p || start & PAGE_OFFSET) /* an error: no room */
		return;
	end = start + BPF_CORE_READ(info, length);
	__sync_fetch_and_add(&p->areas, 1);
	follow_area_in_draft(p, start, end);
	own = bpf_map_lookup_elem(&images, &p->space);
	im = own || p->image == p->space ? own : bpf_map_lookup_elem(&images, &p->image);
	if (im)
		follow_area_in_image(p, im, own != NULL, start, end, task);
	/* A program that is not known to be plain may be about to load Python. */
	if ((code_matters(im) || !(p->flags & PROC_PLAIN)) && maps_code(args))
		tell_code(tgid, p->space, AREA_COMING);
}

/* ---- other code, seen by a sample ------------------------------------------------------------ */

/* No library with an interpreter is smaller: 512 KiB. */
#define INTERP_PAGES 128

/* Should user space look at a process that had `was` executable pages and has `now`? */
BPF_INLINE int is_news(const struct proc *p, const struct image *im, __u16 was, __u16 now)
{
	__u16 more = now - was;

	if (!was) /* its first sample: whoever may be Python was told of at exec */
		return !im && p->flags & PROC_PLAIN;
	return !im || code_matters(im) || (more >= INTERP_PAGES && more < 1 << 15);
}

/*
 * What no address range is given out for, or nothing is attached to see: mprotect(), MAP_FIXED, a
 * library that is loaded after a long time. Not in NMI: another program of this CPU may have the
 * ring's lock.
 */
BPF_INLINE void watch_code(struct proc *p, const struct image *im, struct task_struct *task,
			   __u32 tgid)
{
	struct mm_struct *mm = CURRENT_READ(task, mm);
	__u16 now, was = p->code_pages;

	if (!mm || cfg.flags & CFG_NMI)
		return;
	now = (__u16)CURRENT_READ(mm, exec_vm);
	if (now == was)
		return;
	p->code_pages = now;
	if (is_news(p, im, was, now))
		tell_code(tgid, p->space, AREA_THERE);
}

#endif /* PYPERF_LIFECYCLE_H */
