/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/thread_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define THREADS_MAX 65536

static void read_name(struct thread_name *n)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/comm", n->tgid, n->tid);
	f = fopen(path, "re");
	if (!f || !fgets(n->name, sizeof(n->name), f))
		strcpy(n->name, "python"); /* it has ended */
	n->name[strcspn(n->name, "\n")] = '\0';
	if (f)
		fclose(f);
}

struct thread_name *thread_names__of(struct thread_names *t, uint32_t tgid, uint32_t tid)
{
	size_t i = (size_t)(uintptr_t)idmap__get(&t->numbers, tid);
	struct thread_name *n;

	if (i && t->all[i - 1].tgid == tgid)
		return &t->all[i - 1];
	if (!i) {
		i = t->cnt + 1;
		if (ARRAY_GROW(t->all, t->cap, t->cnt, THREADS_MAX) ||
		    idmap__set(&t->numbers, tid, (void *)i))
			return NULL;
		t->cnt++;
	}
	n = &t->all[i - 1];
	*n = (struct thread_name){ .tgid = tgid, .tid = tid };
	read_name(n);
	return n;
}

void thread_names__end_process(struct thread_names *t, uint32_t tgid)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->cnt; i++) {
		const struct thread_name *n = &t->all[i];

		if (n->tgid == tgid) {
			idmap__remove(&t->numbers, n->tid);
			continue;
		}
		idmap__set(&t->numbers, n->tid, (void *)(kept + 1)); /* it is there */
		t->all[kept++] = *n;
	}
	t->cnt = kept;
}

void thread_names__free(struct thread_names *t)
{
	free(t->all);
	idmap__free(&t->numbers);
}
