/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_LIFECYCLE_H
#define PYPERF_LIFECYCLE_H
/*
 * Beside the stages: fork, exec, exit and new address ranges keep `procs` and `mappings` true at
 * once, in the kernel; user space is told.
 * Input:   the tracepoints' tasks.
 * Output:  procs; struct ev_proc in `events`.
 * Cost:    0.3 us per fork, exec, exit of a process that user space is not told of, 0.2 us more of
 *          others; a look-up for threads. 25 ns for memory that is mapped to read and write; two
 *          look-ups and a binary search, 0.2 us, for any other address range that is given out. 6
 *          us to wake user space, once until it has looked.
 * Fails:   table or ring full: counted (note_proc_full, note_event_lost).
 */
#include "shares.bpf.h"
#include "users.bpf.h"

/* include/uapi/asm-generic/mman-common.h */
#define PROT_READ     0x1
#define PROT_WRITE    0x2
#define PROT_EXEC     0x4
#define MAP_PRIVATE   0x02
#define MAP_ANONYMOUS 0x20

/*
 * Wakes user space, unless it was woken and has not read since: see rings__consume(). The caller
 * has submitted a record before, which is a full barrier; user space clears `user_woken` before it
 * reads. The wake-up comes with a record of its own, which user space must see: if user space read
 * that record before the wake-up arrived, it would sleep on while `user_woken` says that it was
 * woken. If the ring has no room for it, it contains other records, and user space finds those at
 * its next tick.
 */
BPF_INLINE void wake_user(void)
{
	__u64 *only_wakes;

	if (*(volatile __u32 *)&user_woken)
		return;
	only_wakes = bpf_ringbuf_reserve(&events, sizeof(*only_wakes), 0);
	if (!only_wakes)
		return;
	*only_wakes = 0;
	user_woken = 1;
	bpf_ringbuf_submit(only_wakes, BPF_RB_FORCE_WAKEUP);
}

/*
 * User space must know a new program before its next sample, unless it is a program that starts all
 * the time without Python. A child is known by its parent's image until it calls exec, which most
 * do within a millisecond. With -p an exit may end the run, and children are few and wanted. A user
 * who costs too much wakes nobody: nobody needs to look at processes that end meanwhile.
 */
BPF_INLINE int is_urgent(__u32 type, const struct proc *p)
{
	if (type == EV_EXEC)
		return !(p->flags & PROC_PLAIN) && user_one_of() == 1;
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

/* ---- processes that user space need not know of ---------------------------------------------- */

/*
 * Most processes of a busy machine are compilers, shells and the like, which end before they are
 * sampled once. If only Python counts, user space is not told about them (PROC_QUIET): a process
 * whose executable has never run Python, a child whose parent has none, or a child of vfork(),
 * which uses its parent's memory until it calls exec. The first sample that would count announces
 * the process.
 */
BPF_INLINE int may_be_quiet(void)
{
	return (cfg.flags & (CFG_PYTHON_ONLY | CFG_TARGETS | CFG_NMI)) == CFG_PYTHON_ONLY;
}

BPF_INLINE int is_quiet(const struct proc *p)
{
	return may_be_quiet() && p->flags & PROC_QUIET;
}

/* Do samples of a process with this image, or with none, count? */
BPF_INLINE int image_counts(const struct image *im)
{
	return !im || im->flags & (IMAGE_PYTHON | IMAGE_NOT_WALKED);
}

BPF_INLINE struct inode *exe_inode(struct task_struct *task)
{
	return BPF_CORE_READ(task, mm, exe_file, f_inode);
}

BPF_INLINE void read_exe_key(const struct inode *inode, struct exe_key *key)
{
	key->ino = BPF_CORE_READ(inode, i_ino);
	key->dev = BPF_CORE_READ(inode, i_sb, s_dev);
}

/*
 * Reports the current process, which is PROC_QUIET, to user space. EV_FORK: as a child of the
 * process whose image it uses; EV_EXEC: user space has to read it. A function of its own, because
 * the sampler calls it, but seldom.
 */
BPF_NOINLINE int announce(__u32 tgid, __u32 type)
{
	struct proc *p = bpf_map_lookup_elem(&procs, &tgid);
	struct task_struct *task = current_task();
	struct exe_key exe = {};
	struct inode *inode;

	if (!p)
		return 0;
	p->flags &= ~PROC_QUIET;
	inode = exe_inode(task);
	if (inode)
		read_exe_key(inode, &exe);
	if (type == EV_EXEC)
		send_event(type, tgid, p, 0, task, &exe);
	else
		send_event(type, tgid, p, p->image, task, NULL);
	wake_user();
	return 0;
}

/* A function of its own: the sampler calls it, and seldom. */
BPF_NOINLINE int tell_code(__u32 tgid, __u32 space, __u32 state)
{
	struct ev_proc ev = { .type = EV_AREA, .tgid = tgid, .space = space, .status = state };

	if (*(volatile __u32 *)&user_woken) /* user space looks soon in any case */
		return 0;
	ev.time_ns = bpf_ktime_get_ns();
	if (!bpf_ringbuf_output(&events, &ev, sizeof(ev), BPF_RB_NO_WAKEUP))
		wake_user();
	return 0;
}

/*
 * A change of `procs` failed, because there was no room or no number, or because a lock was not
 * available: -EBUSY when this CPU was in the same bucket already (map_locked, up to 6.14), -EDEADLK
 * or -ETIMEDOUT after a quarter of a second (rqspinlock, from 6.15 on; a virtual CPU that does not
 * run may hold one so long). User space then compares the table with /proc:
 * process_table__resync().
 */
BPF_INLINE void count_refusal(int err)
{
	stat_inc(err == E_2BIG ? CTR_note_proc_full : CTR_note_proc_busy);
	if (err != E_2BIG)
		__sync_fetch_and_add(&events_lost, 1);
}

/* Process and thread number of a task that is not the current one. */
struct task_ids {
	__u32 tid, tgid;
};

/* pid_t pid, tgid of struct task_struct, which are neighbours. */
BPF_INLINE struct task_ids ids_of(struct task_struct *task)
{
	struct task_ids ids = {};

	bpf_core_read(&ids, sizeof(ids), &task->pid);
	return ids;
}

/* vfork(), posix_spawn(): the child uses the parent's memory. */
BPF_INLINE int shares_memory(struct task_struct *parent, struct task_struct *child)
{
	return BPF_CORE_READ(child, mm) == BPF_CORE_READ(parent, mm);
}

/* Of `from`, which has the image `im`, or none. */
BPF_INLINE int is_quiet_child(const struct proc *from, const struct image *im,
			      struct task_struct *parent, struct task_struct *child)
{
	if (!im)
		return from->flags & PROC_QUIET;
	return !image_counts(im) || shares_memory(parent, child);
}

/* An entry that is not there yet. */
BPF_INLINE int add_proc(__u32 tgid, struct proc *p, struct task_struct *task)
{
	p->slot = share_slot(task);
	return share_insert(&procs, &tgid, p, shares_of(&proc_shares), p->slot, PROC_ENTRIES);
}

/* The user may be another one by now. */
BPF_INLINE int replace_proc(__u32 tgid, struct proc *p, struct task_struct *task)
{
	__u32 before = p->slot;
	int err;

	p->slot = share_slot(task);
	err = bpf_map_update_elem(&procs, &tgid, p, BPF_EXIST);
	if (!err && before != p->slot) {
		add_to_share(shares_of(&proc_shares), before, -1);
		add_to_share(shares_of(&proc_shares), p->slot, 1);
	}
	return err;
}

/* Deletes an entry that was there. */
BPF_INLINE int delete_proc(__u32 tgid, __u32 slot)
{
	return share_delete(&procs, &tgid, shares_of(&proc_shares), slot);
}

/* The child shares the parent's image until it maps something or calls exec. */
BPF_INLINE void follow_fork(struct task_struct *parent, struct task_struct *child)
{
	__u32 tgid, parent_tgid = current_tgid(parent);
	const struct image *im;
	struct proc p = {}, *from, *stale;
	struct task_ids ids;
	int err;

	if ((cfg.flags & CFG_TARGETS) && !(cfg.flags & CFG_CHILDREN))
		return;
	from = bpf_map_lookup_elem(&procs, &parent_tgid);
	if (!from)
		return;
	ids = ids_of(child);
	if (ids.tid != ids.tgid)
		return; /* a thread */
	tgid = cfg.flags & CFG_PIDNS ? task_tgid(child) : ids.tgid;
	if (!tgid)
		return;
	p.space = new_space(SPACE_FORK);
	im = bpf_map_lookup_elem(&images, &from->space);
	p.image = im ? from->space : from->image;
	p.flags = from->flags & ~PROC_QUIET;
	p.code_pages = from->code_pages;
	if (!im && from->image != from->space)
		im = bpf_map_lookup_elem(&images, &from->image);
	if (im && image_counts(im))
		p.flags &= ~PROC_PLAIN; /* an executable that turned out to run Python */
	if (may_be_quiet() && is_quiet_child(from, im, parent, child))
		p.flags |= PROC_QUIET;
	stat_inc(CTR_note_fork);
	stale = bpf_map_lookup_elem(&procs, &tgid); /* its exit was not noted */
	if (stale)
		delete_proc(tgid, stale->slot);
	err = p.space ? add_proc(tgid, &p, child) : E_2BIG;
	if (err)
		count_refusal(err);
	else if (!(p.flags & PROC_QUIET))
		send_event(EV_FORK, tgid, &p, from->space, child, NULL);
}

/*
 * Has the current task's executable never run Python? For runs that leave such processes out. Reads
 * by helper, because the verifier searches all types of the kernel for each pointer that is loaded
 * from a task, which costs a start of the profiler more than a thousand calls of the helper.
 */
BPF_INLINE int is_plain_exe(struct task_struct *task, struct exe_key *key)
{
	struct inode *inode = exe_inode(task);

	if (!inode)
		return 0;
	read_exe_key(inode, key);
	return (cfg.flags & CFG_PYTHON_ONLY) && bpf_map_lookup_elem(&plain_exes, key);
}

/* A new address space: all data of the old one are void. */
BPF_INLINE void follow_exec(struct task_struct *task)
{
	__u32 tgid = current_tgid(task), plain, told_of = 0;
	struct proc p = {}, last = {}, *old;
	struct exe_key exe = {};
	int err;

	if (!tgid)
		return;
	if (cfg.flags & CFG_TARGETS && !bpf_map_lookup_elem(&procs, &tgid))
		return;
	/*
	 * verifier: before the paths split. Each time that it sees a pointer loaded from a task, it
	 * searches all types of the kernel for one by name (btf_nested_type_is_trusted()).
	 */
	plain = is_plain_exe(task, &exe) ? PROC_PLAIN : 0;
	old = bpf_map_lookup_elem(&procs, &tgid);
	if (!old && (cfg.flags & CFG_TARGETS))
		return;
	if (old) {
		last = *old;
		told_of = !(last.flags & PROC_QUIET);
	}
	p.space = p.image = new_space(SPACE_EXEC);
	p.flags = plain | (last.flags & PROC_TARGET);
	if (plain && may_be_quiet())
		p.flags |= PROC_QUIET;
	p.slot = last.slot;
	stat_inc(CTR_note_exec);
	if (!p.space && old)
		delete_proc(tgid, p.slot);
	if (!p.space)
		err = E_2BIG;
	else if (old)
		err = replace_proc(tgid, &p, task);
	else
		err = add_proc(tgid, &p, task);
	if (err)
		count_refusal(err);
	else if (!(p.flags & PROC_QUIET))
		send_event(EV_EXEC, tgid, &p, 0, task, &exe);
	else if (told_of) /* of that user space knows, not of this one */
		send_event(EV_EXIT, tgid, &last, 0, task, NULL);
}

/* do_exit() has already decremented signal->live: 0 means the last thread. */
BPF_INLINE void follow_exit(struct task_struct *task)
{
	__u32 tgid = current_tgid(task);
	struct proc *p, last;
	int err;

	p = bpf_map_lookup_elem(&procs, &tgid);
	if (!p || BPF_CORE_READ(task, signal, live.counter) > 0)
		return;
	last = *p;
	err = delete_proc(tgid, last.slot);
	if (err == E_NOENT)
		/*
		 * two last threads on two CPUs may both find nobody alive: only one of them reports
		 * the exit
		 */
		return;
	if (err)
		count_refusal(err);
	stat_inc(CTR_note_exit);
	if (!(last.flags & PROC_QUIET))
		send_event(EV_EXIT, tgid, &last, 0, task, NULL);
}

/* ---- addresses that are used again ----------------------------------------------------------- */

/*
 * Mappings of one step, steps of a block, and blocks: together an image. The verifier follows the
 * sum of the three.
 */
#define EMPTY_STEP   32
#define EMPTY_BLOCK  32
#define EMPTY_BLOCKS ((1 << IMAGE_MAX_BITS) / EMPTY_BLOCK / EMPTY_STEP)
#define PAGE_OFFSET  0xfff

/*
 * Finds the first of the mappings [lo, hi) that lies, or lay, in [start, end); hi: there is none.
 * Uses no scratch, because a sample may interrupt.
 */
BPF_NOINLINE __u32 mapping_in(__u32 lo, __u32 hi, __u64 start, __u64 end)
{
	__u32 mid, last = hi;
	const struct mapping *m;
	__u64 below;

	for (int i = 0; i < MAP_STEPS && lo < hi; i++) {
		mid = (lo + hi) / 2;
		m = get_mapping(mid);
		if (!m)
			return last;
		below = not_above(m->end, start);
		lo = (__u32)choose(below, mid + 1, lo);
		hi = (__u32)choose(below, hi, mid);
	}
	m = lo < last ? get_mapping(lo) : NULL;
	return m && m->start < end ? lo : last;
}

/* Empties the mappings from `at` on that begin below `end`. Returns where to continue; hi: done. */
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

BPF_NOINLINE __u32 empty_block(__u32 at, __u32 hi, __u64 end)
{
	for (int i = 0; i < EMPTY_BLOCK && at < hi; i++)
		at = empty_some(at, hi, end);
	return at;
}

BPF_NOINLINE int empty_mappings(__u32 at, __u32 hi, __u64 end)
{
	for (int i = 0; i < EMPTY_BLOCKS && at < hi; i++)
		at = empty_block(at, hi, end);
	return 0;
}

/* The mappings that user space is about to publish for the process: see `draft` in maps.bpf.h. */
BPF_INLINE void follow_area_in_draft(const struct proc *p, __u64 start, __u64 end)
{
	__u64 word = *(volatile __u64 *)&draft;
	__u32 hi = DRAFT_FIRST(word) + DRAFT_CNT(word);

	if (DRAFT_SPACE(word) == p->space)
		empty_mappings(mapping_in(DRAFT_FIRST(word), hi, start, end), hi, end);
}

/*
 * A shared image stays unchanged for the other processes. This process has none until it gets its
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
	if (is_quiet(p))
		announce(current_tgid(task), EV_FORK);
	p->image = 0;
	send_event(EV_UNSHARE, current_tgid(task), p, 0, task, NULL);
}

/* Number and arguments of the current task's system call. */
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
 * Is this an mmap() of memory to read and write? No code runs there, and such calls are frequent.
 * Or does the kernel map a program in execve()? Then on_exec() follows, and until then the process
 * has no user stack.
 */
BPF_INLINE int is_no_news(const struct mmap_args *a)
{
	if (a->nr == ARCH_NR_MMAP)
		return a->flags & MAP_ANONYMOUS && a->prot == (PROT_READ | PROT_WRITE);
	return a->nr == ARCH_NR_EXECVE || a->nr == ARCH_NR_EXECVEAT;
}

/*
 * Is this an mmap() of code, or the first one of a dynamic linker for a library: a private file
 * mapping without write permission, into which it then maps the code?
 */
BPF_INLINE int maps_code(const struct mmap_args *a)
{
	if (a->nr != ARCH_NR_MMAP)
		return 0;
	return a->prot & PROT_EXEC || ((a->flags & (MAP_ANONYMOUS | MAP_PRIVATE)) == MAP_PRIVATE &&
				       !(a->prot & PROT_WRITE));
}

/* Does user space need the code of the process? `im` is its image, or NULL. */
BPF_INLINE int code_matters(const struct image *im)
{
	if (!(cfg.flags & CFG_PYTHON_ONLY))
		return 1;
	return im && im->flags & (IMAGE_PYTHON | IMAGE_NOT_WALKED);
}

/*
 * The kernel has chosen an address range for a new mapping (mm/mmap.c, vm_unmapped_area(); the
 * tracepoint is in 5.7 and later, df529cabb7a2). The range is free, so mappings of the image in it
 * are gone: a library was closed. Until user space knows the new mapping, samples there belong to
 * no file. The counter `areas` is incremented first, with a full barrier, and the draft is changed
 * before the image: see make_draft() in user/process/images.c.
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
	if (is_quiet(p) && p->flags & PROC_PLAIN)
		return; /* it is in no image, and user space makes none before it is announced */
	end = start + BPF_CORE_READ(info, length);
	__sync_fetch_and_add(&p->areas, 1);
	follow_area_in_draft(p, start, end);
	own = bpf_map_lookup_elem(&images, &p->space);
	im = own || p->image == p->space ? own : bpf_map_lookup_elem(&images, &p->image);
	if (im)
		follow_area_in_image(p, im, own != NULL, start, end, task);
	/* A program that may be about to load Python: it is not known to be plain. */
	if ((code_matters(im) || !(p->flags & PROC_PLAIN)) && maps_code(args)) {
		if (is_quiet(p))
			announce(tgid, im && image_counts(im) ? EV_FORK : EV_EXEC);
		tell_code(tgid, p->space, AREA_COMING);
	}
}

/* ---- other code, seen by a sample ------------------------------------------------------------ */

/* No library with an interpreter is smaller: 512 KiB. */
#define INTERP_PAGES 128

/*
 * Should user space read a process again whose number of executable pages changed from `was` to
 * `now`?
 */
BPF_INLINE int is_news(const struct proc *p, const struct image *im, __u16 was, __u16 now)
{
	__u16 more = now - was;

	if (!was) /* its first sample: exec has announced processes that may be Python */
		return !im && p->flags & PROC_PLAIN;
	return !im || code_matters(im) || (more >= INTERP_PAGES && more < 1 << 15);
}

/*
 * Finds new code for which the kernel chooses no address range, or while no program watches that:
 * mprotect(), MAP_FIXED, a library that is loaded late. Not in NMI: another program of this CPU may
 * hold the ring's lock.
 */
BPF_INLINE void watch_code(struct proc *p, const struct image *im, const struct walk *w)
{
	__u16 was = p->code_pages, now = w->thread.has_mm ? w->thread.code_pages : was;

	if (is_quiet(p)) {
		p->code_pages = now;
		if (image_counts(im) || (was && now != was && is_news(p, im, was, now)))
			announce(w->thread.tgid, im && image_counts(im) ? EV_FORK : EV_EXEC);
		return;
	}
	if (cfg.flags & CFG_NMI || now == was)
		return;
	p->code_pages = now;
	if (is_news(p, im, was, now))
		tell_code(w->thread.tgid, p->space, AREA_THERE);
}

#endif /* PYPERF_LIFECYCLE_H */
