/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "threads/gil.h"

#include <string.h>

#include "base/syscalls.h"
#include "python/pylayout.h"

static int read_u64(struct hostwalk *h, uint64_t addr, uint64_t *value)
{
	return hostwalk__read(h, value, sizeof(*value), addr);
}

static uint64_t find_gil(struct hostwalk *h, const struct hoststack *st, const struct py_gil *lay)
{
	uint64_t interp, gil;

	if (lay->interp_gil == PY_OFF_NONE)
		return st->python->runtime ? st->bias + st->python->runtime + lay->runtime_gil : 0;
	if (read_u64(h, st->tstate + lay->tstate_interp, &interp) ||
	    read_u64(h, interp + lay->interp_gil, &gil))
		return 0;
	return gil;
}

/*
 * A waiter sleeps on a futex in one of the GIL's locks (take_gil() and drop_gil(),
 * Python/ceval_gil.c).
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
	struct py_gil lay;
	uint64_t gil, holder;
	int32_t locked;

	*out = (struct gil_look){ 0 };
	if (!st->python || py_layout__gil(&lay, st->python->version_hex, st->python->free_threaded))
		return;
	gil = find_gil(h, st, &lay);
	if (!gil || read_u64(h, gil + lay.last_holder, &holder) ||
	    hostwalk__read(h, &locked, sizeof(locked), gil + lay.locked))
		return;
	out->addr = gil;
	out->waits = waits_for(t, gil + lay.locks, lay.locks_size);
	out->holds = !out->waits && locked == 1 && holder == st->tstate;
}
