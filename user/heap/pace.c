/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "heap/pace.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/resources.h"

#define NICE_LOWEST 19
#define PATIENT_NS  NS_PER_S
#define SHARE_LEAST 5 /* the fifth part: half of it is usual, the helpers have the rest */

static int set_priority(const struct pace *p, int nice)
{
	int err = resources__set_nice(0, nice);

	return err ? err : readers__renice(p->readers, nice);
}

void pace__begin(struct pace *p, struct readers *readers)
{
	int err;

	if (!p->known)
		p->own = getpriority(PRIO_PROCESS, 0);
	p->known = true;
	p->readers = readers;
	p->hurries = false;
	p->start_ns = now_ns();
	p->cpu_ns = thread_cpu_ns();
	err = set_priority(p, NICE_LOWEST);
	if (err)
		log_debug("priority: %s", strerror(-err));
}

/* Who may not raise the priority goes on slowly. */
void pace__look(struct pace *p)
{
	uint64_t past = now_ns() - p->start_ns;
	int err;

	if (!p->known || p->hurries || past < PATIENT_NS ||
	    thread_cpu_ns() - p->cpu_ns > past / SHARE_LEAST)
		return;
	p->hurries = true;
	err = set_priority(p, p->own);
	log_debug("no CPU is free: the reading goes on at priority %d%s%s", p->own, err ? ": " : "",
		  err ? strerror(-err) : "");
}
