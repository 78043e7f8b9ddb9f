/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_IDLE_H
#define PYPERF_IDLE_H
/*
 * Finds threads that wait for work. Only the user knows whether a waiting thread is blocked or has
 * nothing to do. But a worker of a pool that waits for its queue, an event loop that polls, and a
 * server in accept() mostly have nothing to do, and hide what other threads wait for. Outputs for
 * people fold them into one line:
 *
 *	Idle, in no share below: ThreadPoolExecutor 60.0 s, asyncio's event loop 30.0 s
 *
 * A stack is idle if it ends in a wait and the waiting function is a known place, or matches
 * idle_rules.idle and not idle_rules.busy. A wait for a CPU, for the GIL, for a disk or for a page
 * is never idle.
 *
 *	struct idle idle;
 *
 *	err = idle__init(&idle, p, rules);
 *	use(idle.busy);
 *	idle_add_line(&b, &idle);
 *	idle__free(&idle);
 */
#include <regex.h>
#include <stdbool.h>

#include "base/str.h"
#include "profile/profile.h"

/* Matched against each frame of a stack, as "function (file)". NULL: none. */
struct idle_rules {
	const regex_t *idle, *busy;
};

/* Views of a profile with one value type; each may be `p` itself. None outlives it. */
struct idle {
	const struct profile *p;
	const struct profile *folded; /* each idle stack is one frame, "[waits: idle]" */
	const struct profile *busy;   /* ... and is left out, unless all are idle */
};

/* 0 or -ENOMEM; then there is nothing to free. `rules` may be NULL. */
int idle__init(struct idle *idle, const struct profile *p, const struct idle_rules *rules);
void idle__free(struct idle *idle);

/*
 * Appends the line above, without a newline; nothing if no stack is idle. If nearly all stacks are
 * idle, the line is
 *
 *	It used 0.2% of a CPU; it waits in ThreadPoolExecutor 60.0 s (in no share below)
 */
void idle_add_line(struct strbuf *b, const struct idle *idle);

#endif /* PYPERF_IDLE_H */
