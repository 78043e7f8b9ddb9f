/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "threads/waiter.h"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/syscalls.h"

bool waiter__sleeps(const struct thread_now *t)
{
	return !(t->flags & THREAD_ON_CPU) && !t->exit_state;
}

enum dumped_state waiter__state(const struct thread_now *t)
{
	if (t->exit_state)
		return DUMPED_ENDED;
	if (t->flags & THREAD_ON_CPU)
		return DUMPED_RUNNING;
	if (t->state & THREAD_SLEEPING)
		return DUMPED_SLEEPING;
	if (t->state & THREAD_BLOCKED)
		return DUMPED_BLOCKED;
	if (t->state & THREAD_STOPPED)
		return DUMPED_STOPPED;
	return t->state & THREAD_TRACED ? DUMPED_TRACED : DUMPED_RUNNABLE;
}

/* As bpf/sample.bpf.h. */
bool waiter__is_chosen(const struct session *s, const struct process_maps *maps,
		       const struct thread_now *t, const struct process *p)
{
	const struct session_opts *o = session__opts(s);
	const struct sample_spec *spec = o->targets;
	bool chosen = !spec->tid_cnt;
	struct proc proc;

	if (p->exited || bpf_map_lookup_elem(maps->procs_fd, &p->tgid, &proc) ||
	    proc.space != p->space)
		return false;
	if ((spec->pid_cnt || o->command) && !(proc.flags & PROC_TARGET))
		return false;
	if (!spec->all && !o->command && !p->is_python && !p->native_only)
		return false;
	for (uint32_t i = 0; i < spec->tid_cnt; i++)
		chosen |= spec->tids[i] == t->tid;
	return chosen && !(spec->by_user && p->ids_known && p->uid != spec->uid) &&
	       !(spec->comm && fnmatch(spec->comm, t->comm, 0));
}

/* The kind of the file, from what the kernel has cached: does not ask a server. */
static uint32_t kind_of_file(const struct thread_now *t)
{
	struct statx st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/fd/%u", t->tgid, (uint32_t)t->regs[ARCH_REG_ARG0]);
	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE, &st))
		return WAIT_CALL;
	switch (st.stx_mode & S_IFMT) {
	case S_IFSOCK:
		return WAIT_SOCKET;
	case S_IFIFO:
		return WAIT_PIPE;
	case S_IFCHR:
		return WAIT_TERMINAL;
	case S_IFREG:
	case S_IFBLK:
	case S_IFDIR:
		return WAIT_DISK;
	}
	return WAIT_CALL;
}

/* As kind_of_call() of bpf/wait.bpf.h. */
uint64_t waiter__reason(const struct thread_now *t)
{
	uint64_t nr = (uint64_t)t->syscall;
	uint8_t what = nr < WAIT_CALLS ? syscall_wait_class(t->syscall) : WAIT_CALL_OTHER;
	uint32_t kind = WAIT_CALL;

	if (!(t->flags & THREAD_REGS) || t->syscall < 0)
		return WAIT_WORD(WAIT_FAULT, WAIT_NO_CALL);
	if (what == WAIT_CALL_FUTEX)
		kind = WAIT_LOCK;
	else if (what == WAIT_CALL_SLEEP || (what == WAIT_CALL_SELECT && !t->regs[ARCH_REG_ARG0]))
		kind = WAIT_SLEEP;
	else if (what == WAIT_CALL_FILE)
		kind = kind_of_file(t);
	if (kind == WAIT_CALL && t->state & THREAD_BLOCKED && what == WAIT_CALL_FILE)
		kind = WAIT_DISK;
	return WAIT_WORD(kind, nr);
}
