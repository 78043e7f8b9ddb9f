/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* When the interpreters of a process are checked, and whether they are trusted. */
#include "process/process_parts.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"

#define CHECK_BUDGET_NS 2000000ULL /* of one round */

static bool is_open(const struct process *p)
{
	for (size_t i = 0; i < IMAGE_INTERPS; i++) {
		if (selfcheck__open(&p->checks[i]))
			return true;
	}
	return false;
}

void trust__want(struct process_table *pt, struct process *p)
{
	if (p->unchecked || !is_open(p) ||
	    ARRAY_GROW(pt->trust.spaces, pt->trust.cap, pt->trust.cnt, UINT32_MAX))
		return;
	p->unchecked = true;
	pt->trust.spaces[pt->trust.cnt++] = p->space;
}

static void warn_unable(struct process_table *pt, const struct process *p, int err)
{
	if (pt->trust.warned || (err != -EPERM && err != -ENOSYS))
		return;
	log_warn("process %u: its interpreter cannot be checked: %s", p->tgid, strerror(-err));
	pt->trust.warned = true;
}

const char *trust__why_not(struct process_table *pt, struct process *p, struct selfcheck *sc,
			   const struct mapped_file *file, uint64_t bias)
{
	selfcheck__begin(pt->opts.readers, sc, file->py, file->id, p->tgid, bias, now_ns());
	file_table__update_interp(pt->files, file);
	warn_unable(pt, p, sc->err);
	trust__want(pt, p);
	return sc->state == SELFCHECK_REFUSED ? sc->why : NULL;
}

const char *process__why_no_python(const struct process *p)
{
	const char *why = p->native_only ? p->native_only : selfcheck__doubt(&p->checks[0]);

	/* One interpreter that passed its check is enough. */
	for (size_t i = 1; i < IMAGE_INTERPS && why; i++) {
		if (p->checks[i].state == SELFCHECK_PASSED)
			return NULL;
	}
	return why;
}

static void check_again(struct process_table *pt, struct process *p, struct selfcheck *sc)
{
	struct mapped_file *file = file_table__find(pt->files, sc->file);
	bool changed =
		selfcheck__again(pt->opts.readers, sc, file ? file->py : NULL, p->tgid, now_ns());

	if (file && file->py)
		file_table__update_interp(pt->files, file);
	if (!changed)
		return;
	log_debug("process %u: self-check: %s", p->tgid,
		  sc->state == SELFCHECK_REFUSED ? sc->why : "passed");
	process_table__mark_dirty(pt, p);
}

static void check_all_again(struct process_table *pt, struct process *p, uint64_t round_ns)
{
	for (size_t i = 0; i < IMAGE_INTERPS; i++) {
		struct selfcheck *sc = &p->checks[i];

		if (!p->exited && sc->due_ns <= round_ns && now_ns() - round_ns < CHECK_BUDGET_NS)
			check_again(pt, p, sc);
	}
}

void trust__check_due(struct process_table *pt)
{
	size_t cnt = pt->trust.cnt, kept = 0;
	uint64_t now = now_ns();

	for (size_t i = 0; i < cnt; i++) {
		struct process *p = idmap__get(&pt->by_space, pt->trust.spaces[i]);

		if (!p)
			continue;
		check_all_again(pt, p, now);
		p->unchecked = !p->exited && is_open(p);
		if (p->unchecked)
			pt->trust.spaces[kept++] = p->space;
	}
	pt->trust.cnt = kept;
}

uint64_t trust__next_ns(const struct process_table *pt)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < pt->trust.cnt; i++) {
		const struct process *p = idmap__get(&pt->by_space, pt->trust.spaces[i]);

		for (size_t k = 0; p && k < IMAGE_INTERPS; k++) {
			const struct selfcheck *sc = &p->checks[k];

			if (selfcheck__open(sc) && sc->wait_ms < SELFCHECK_SOON_MS &&
			    sc->due_ns < next)
				next = sc->due_ns;
		}
	}
	return next;
}
