/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/label_cache.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/idmap.h"
#include "base/reader.h"

#define WAITING_MAX 65536U

struct entry {
	uint32_t space;
	struct label_set *set;
};

struct label_cache {
	const char *root;
	const struct labels_config *config;
	struct idmap entries; /* by space */
	uint32_t *waiting;    /* spaces that were noted but not read yet */
	size_t waiting_cnt, waiting_cap;
	uint64_t missed;
};

struct label_cache *label_cache__new(const char *root, const struct labels_config *c)
{
	struct label_cache *k = calloc(1, sizeof(*k));

	if (k) {
		k->root = root;
		k->config = c;
	}
	return k;
}

static void free_entry(struct entry *e)
{
	label_set__put(e->set);
	free(e);
}

void label_cache__free(struct label_cache *k)
{
	struct entry *e;

	if (!k)
		return;
	for (size_t at = 0; (e = idmap__next(&k->entries, &at));)
		free_entry(e);
	idmap__free(&k->entries);
	free(k->waiting);
	free(k);
}

void label_cache__set_config(struct label_cache *k, const struct labels_config *c)
{
	k->config = c;
}

static void wait_for(struct label_cache *k, uint32_t space)
{
	if (!ARRAY_GROW(k->waiting, k->waiting_cap, k->waiting_cnt, WAITING_MAX))
		k->waiting[k->waiting_cnt++] = space;
}

/* Takes ownership of the set. Without memory the process has what the profile says. */
static void remember(struct label_cache *k, uint32_t space, struct label_set *set)
{
	struct entry *e = set ? malloc(sizeof(*e)) : NULL, *old;

	if (!e) {
		label_set__put(set);
		return;
	}
	old = idmap__get(&k->entries, space);
	*e = (struct entry){ .space = space, .set = set };
	if (idmap__set(&k->entries, space, e)) {
		free_entry(e);
		return;
	}
	if (old)
		free_entry(old);
}

void label_cache__note(struct label_cache *k, const struct process *p, const struct process *parent)
{
	struct entry *e = parent ? idmap__get(&k->entries, parent->space) : NULL;

	if (e) {
		remember(k, p->space, label_set__hold(e->set));
		return;
	}
	wait_for(k, p->space);
}

static void read_one(struct label_cache *k, const struct process_table *procs, uint32_t space)
{
	const struct process *p = process_table__find(procs, space);
	const struct labelled_process what = {
		.readers = process_table__readers(procs),
		.tgid = p ? p->tgid : 0,
		.comm = p ? p->comm : "",
		.exe = p ? p->exe : "",
		.python = p ? p->python : "",
		.container = p ? p->container : "",
	};

	if (p && !p->exited)
		remember(k, space, labels__read(k->root, k->config, &what));
}

void label_cache__read(struct label_cache *k, const struct process_table *procs)
{
	const struct readers *rs = process_table__readers(procs);
	size_t cnt = k->waiting_cnt;

	k->waiting_cnt = 0;
	for (size_t i = 0; i < cnt; i++) {
		uint32_t space = k->waiting[i];
		uint64_t put_off = readers__put_off(rs);

		read_one(k, procs, space);
		if (readers__put_off(rs) != put_off)
			wait_for(k, space); /* with what there is */
	}
}

struct label_set *label_cache__labels(struct label_cache *k, const struct profile *p,
				      const struct profile_proc *proc)
{
	struct entry *e = idmap__get(&k->entries, proc->space);
	const struct labelled_process what = {
		.comm = profile__str(p, proc->comm),
		.exe = profile__str(p, proc->exe),
		.python = profile__str(p, proc->python),
		.container = profile__str(p, proc->container),
	};

	if (e)
		return label_set__hold(e->set);
	k->missed += proc->tgid != 0; /* the process of those beyond the budget does not count */
	return labels__of_gone(k->config, &what);
}

void label_cache__forget(struct label_cache *k, const struct process_table *procs)
{
	struct entry *e, **gone = calloc(k->entries.cnt + 1, sizeof(struct entry *));
	size_t cnt = 0;

	for (size_t at = 0; gone && (e = idmap__next(&k->entries, &at));)
		if (!process_table__find(procs, e->space))
			gone[cnt++] = e;
	for (size_t i = 0; i < cnt; i++) {
		idmap__remove(&k->entries, gone[i]->space);
		free_entry(gone[i]);
	}
	free(gone);
}

uint64_t label_cache__missed(const struct label_cache *k)
{
	return k->missed;
}
