/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/reduce_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

bool reduce_options__takes(int opt)
{
	return opt == 'p' || (opt >= REDUCE_NO_NATIVE && opt <= REDUCE_COMM);
}

static int add_narrowed_pid(struct reduce_options *n, pid_t pid)
{
	pid_t *pids = reallocarray(n->pids, n->what.pid_cnt + 1, sizeof(*pids));

	if (!pids)
		return log_no_memory();
	pids[n->what.pid_cnt++] = pid;
	n->what.pids = n->pids = pids;
	return 0;
}

static int add_narrowed_pids(struct reduce_options *n, const char *arg)
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

int reduce_options__set(struct reduce_options *n, int opt, const char *arg)
{
	switch (opt) {
	case 'p':
		return add_narrowed_pids(n, arg);
	case REDUCE_COMM:
		n->what.comm = arg;
		break;
	case REDUCE_NO_NATIVE:
		n->what.no_native = true;
		break;
	case REDUCE_NO_KERNEL:
		n->what.no_kernel = true;
		break;
	}
	return 0;
}

int reduce_options__apply(const struct reduce_options *n, struct profile *p, const char *name)
{
	bool had = profile__total(p) != 0;

	profile__reduce(p, &n->what);
	if (!had || profile__total(p))
		return 0;
	log_err("%s: has no sample of the processes asked for", name);
	return -ENOENT;
}

void reduce_options__free(struct reduce_options *n)
{
	free(n->pids);
	*n = (struct reduce_options){ 0 };
}
