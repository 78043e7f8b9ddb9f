/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/narrowed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

bool narrowed__takes(int opt)
{
	return opt == 'p' || (opt >= NARROWED_NO_NATIVE && opt <= NARROWED_COMM);
}

static int add_narrowed_pid(struct narrowed *n, pid_t pid)
{
	pid_t *pids = reallocarray(n->pids, n->what.pid_cnt + 1, sizeof(*pids));

	if (!pids)
		return log_no_memory();
	pids[n->what.pid_cnt++] = pid;
	n->what.pids = n->pids = pids;
	return 0;
}

static int add_narrowed_pids(struct narrowed *n, const char *arg)
{
	char word[16];
	pid_t pid;
	int err = 0;

	for (const char *at = arg; !err; at++) {
		size_t len = strcspn(at, ",");

		snprintf(word, sizeof(word), "%.*s", (int)(len < 15 ? len : 15), at);
		if (len >= sizeof(word) || cmdline__pid(word, &pid)) {
			log_err("-p %s: must be the numbers of processes, with commas between",
				arg);
			return -EINVAL;
		}
		err = add_narrowed_pid(n, pid);
		at += len;
		if (!*at)
			break;
	}
	return err;
}

int narrowed__set(struct narrowed *n, int opt, const char *arg)
{
	switch (opt) {
	case 'p':
		return add_narrowed_pids(n, arg);
	case NARROWED_COMM:
		n->what.comm = arg;
		break;
	case NARROWED_NO_NATIVE:
		n->what.no_native = true;
		break;
	case NARROWED_NO_KERNEL:
		n->what.no_kernel = true;
		break;
	}
	return 0;
}

int narrowed__apply(const struct narrowed *n, struct profile *p, const char *name)
{
	bool had = profile__total(p) != 0;

	profile__narrow(p, &n->what);
	if (!had || profile__total(p))
		return 0;
	log_err("%s: has no sample of the processes asked for", name);
	return -ENOENT;
}

void narrowed__free(struct narrowed *n)
{
	free(n->pids);
	*n = (struct narrowed){ 0 };
}
