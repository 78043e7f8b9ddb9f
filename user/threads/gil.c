/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "threads/gil.h"

#include <string.h>

#include "base/syscalls.h"
#include "python/pyproc.h"

static int read_u64(struct hostwalk *h, uint64_t addr, uint64_t *value)
{
	return hostwalk__read(h, value, sizeof(*value), addr);
}

static uint64_t find_gil(struct hostwalk *h, const struct hoststack *st)
{
	const struct interp *in = &st->python->interp;
	uint64_t interp, gil;

	if (!in->gil_size)
		return 0;
	if (in->gil)
		return st->bias + in->gil;
	if (read_u64(h, st->tstate + in->gil_interp, &interp) ||
	    read_u64(h, interp + in->gil_of_interp, &gil))
		return 0;
	return gil;
}

/* Its locks, and whether a thread has it. False: not created yet, or it cannot be read. */
static bool read_gil(struct hostwalk *h, const struct interp *in, uint64_t gil, uint64_t *locks,
		     bool *taken)
{
	int32_t locked;

	*locks = gil + in->gil_locks;
	*taken = true;
	if (in->gil_locked == PY_OFF_NONE)
		return !read_u64(h, *locks, locks) && *locks;
	if (hostwalk__read(h, &locked, sizeof(locked), gil + in->gil_locked))
		return false;
	*taken = locked == 1;
	return locked >= 0;
}

/*
 * A waiter sleeps on a futex in one of the GIL's locks (take_gil() and drop_gil(),
 * Python/ceval_gil.c; 2.7: interpreter_lock, Python/ceval.c).
 */
static bool waits_for(const struct thread_now *t, uint64_t locks, uint64_t size)
{
	const char *name = t->flags & THREAD_REGS ? syscall_name(t->syscall) : NULL;
	uint64_t uaddr = t->regs[ARCH_REG_ARG0];

	return name && !strcmp(name, "futex") && uaddr - locks < size;
}

void gil__look(struct hostwalk *h, const struct thread_now *t, const struct hoststack *st,
	       struct gil_look *out)
{
	const struct interp *in;
	uint64_t gil, locks, holder;
	bool taken;

	*out = (struct gil_look){ 0 };
	gil = st->python ? find_gil(h, st) : 0;
	if (!gil)
		return;
	in = &st->python->interp;
	if (!read_gil(h, in, gil, &locks, &taken) || read_u64(h, gil + in->gil_holder, &holder))
		return;
	out->addr = gil;
	out->waits = waits_for(t, locks, in->gil_size);
	out->holds = !out->waits && taken && holder == st->tstate;
}
