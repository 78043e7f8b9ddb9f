/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/chosen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/procfield.h"
#include "base/str.h"
#include "process/called.h"
#include "process/containers.h"
#include "process/descendants.h"
#include "process/stand_in.h"
#include "process/unsupported.h"

int chosen__add(struct sample_spec *t, pid_t pid)
{
	pid_t *pids;

	for (size_t i = 0; i < t->pid_cnt; i++)
		if (t->pids[i] == pid)
			return 0;
	pids = reallocarray(t->pids, t->pid_cnt + 1, sizeof(*pids));
	if (!pids)
		return log_no_memory();
	t->pids = pids;
	t->pids[t->pid_cnt++] = pid;
	return 0;
}

static int add_named(struct sample_spec *t)
{
	pid_t *pids = NULL;
	struct readers *rs;
	size_t cnt = 0;
	regex_t re;
	int err;

	if (regcomp(&re, t->name, REG_EXTENDED | REG_NOSUB))
		return log_no_memory();
	rs = readers__new();
	err = rs ? called__find(rs, &re, &pids, &cnt) : -ENOMEM;
	readers__free(rs);
	regfree(&re);
	if (err)
		log_err("--name %s: %s", t->name, strerror(-err));
	for (size_t i = 0; i < cnt && !err; i++)
		err = chosen__add(t, pids[i]);
	free(pids);
	if (err || cnt)
		return err;
	log_err("--name %s: no running process has such a name", t->name);
	return -ESRCH;
}

/* The process that a thread belongs to, or 0. */
static pid_t process_of(uint32_t tid)
{
	char path[64], pid[32];

	snprintf(path, sizeof(path), "/proc/%u/status", tid);
	return procfield__read(path, "Tgid", pid, sizeof(pid)) ? 0 : atoi(pid);
}

static int add_threads(struct sample_spec *t)
{
	int err = 0;

	for (uint32_t i = 0; i < t->tid_cnt && !err; i++) {
		pid_t pid = process_of(t->tids[i]);

		if (!pid) {
			log_err("-t %u: there is no such thread", t->tids[i]);
			return -ESRCH;
		}
		err = chosen__add(t, pid);
	}
	return err;
}

/* The option and its value that a message is about: "--container web". */
static void say_group(struct strbuf *out, const struct sample_spec *t)
{
	if (t->pod)
		strbuf__addf(out, "--pod %s", t->pod);
	if (t->container)
		strbuf__addf(out, "%s--container %s", t->pod ? " " : "", t->container);
}

/* Finds the control group. `why` gets a sentence on failure. */
static int choose_group(struct sample_spec *t, struct strbuf *path, struct strbuf *why)
{
	struct containers c = { 0 };
	int err = containers__read(&c, "");

	if (!err)
		err = containers__choose(&c, t->pod, t->container, path, why);
	containers__free(&c);
	if (err == -E2BIG)
		strbuf__addz(why, "too many containers run; choose its control group with -C");
	/* How the kernel writes groups outside of the reader's cgroup namespace. */
	if (!err && str_starts_with(path->s, "/.."))
		strbuf__addz(why, "it is outside of the cgroup namespace of this program, which "
				  "has to run in that of the host");
	if (!err && why->len)
		err = -ENOENT;
	if (err && !why->len)
		strbuf__addz(why, strerror(-err));
	return err;
}

static int find_group(struct sample_spec *t)
{
	struct strbuf path = { 0 }, why = { 0 }, option = { 0 };
	int err = choose_group(t, &path, &why);

	say_group(&option, t);
	if (option.err || why.err) {
		err = log_no_memory();
	} else if (err) {
		log_err("%s: %s", option.s, why.s);
	} else {
		log_debug("%s: control group %s", option.s, path.s);
		t->group = path.s; /* it is ours now */
		t->cgroup = t->group;
		path = (struct strbuf){ 0 };
	}
	strbuf__free(&path);
	strbuf__free(&why);
	strbuf__free(&option);
	return err;
}

int chosen__find(struct sample_spec *t)
{
	int err = t->name ? add_named(t) : 0;

	if (!err && (t->pod || t->container))
		err = find_group(t);
	return err ? err : add_threads(t);
}

static bool is_among(const pid_t *pids, size_t cnt, pid_t pid)
{
	for (size_t i = 0; i < cnt; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

/* Leaves of the chosen processes those that are among `pids`. */
static void keep_among(struct sample_spec *t, const pid_t *pids, size_t cnt)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->pid_cnt; i++)
		if (is_among(pids, cnt, t->pids[i]))
			t->pids[kept++] = t->pids[i];
	t->pid_cnt = kept;
}

int chosen__in_group(struct sample_spec *t)
{
	pid_t *pids = NULL;
	size_t cnt = 0;
	int err = t->group ? containers__processes("", t->group, &pids, &cnt) : 0;

	if (err)
		log_err("%s: cannot list its processes: %s", t->group, strerror(-err));
	else if (t->group && t->pid_cnt)
		keep_among(t, pids, cnt);
	else
		for (size_t i = 0; i < cnt && !err; i++)
			err = chosen__add(t, pids[i]);
	free(pids);
	if (!err && t->group && !t->pid_cnt) {
		log_err("%s: none of the processes that were chosen is in this control group",
			t->group);
		err = -ESRCH;
	}
	return err;
}

static struct readers *start_readers(void)
{
	struct readers *rs = readers__new();

	if (rs)
		readers__start(rs);
	return rs;
}

/* "4712, 4713, 4714 and more" */
static void list_pids(const struct stand_ins *s, char *out, size_t size)
{
	size_t len = 0;

	for (size_t i = 0; i < s->cnt && len < size; i++)
		len += (size_t)snprintf(out + len, size - len, "%s%d", i ? ", " : "", s->pids[i]);
	if (s->cnt == STAND_INS_MAX && len < size)
		snprintf(out + len, size - len, " and more");
}

struct family {
	struct sample_spec pythons; /* those with an interpreter; owned */
	struct readers *rs;
};

/* A descendants_fn. */
static int add_if_python(void *ctx, uint32_t tgid)
{
	struct family *family = ctx;
	int err = 0;

	if (stand_ins__is_python(family->rs, tgid))
		err = chosen__add(&family->pythons, (pid_t)tgid);
	return err ? err : 1;
}

int chosen__add_children(struct sample_spec *t)
{
	struct family family = { .rs = start_readers() };
	int err = family.rs ? 0 : -ENOMEM;

	if (!err)
		err = descendants__visit(t->pids, t->pid_cnt, add_if_python, &family);
	readers__free(family.rs);
	if (err)
		log_err("--children: %s", strerror(-err));
	if (err || !family.pythons.pid_cnt) {
		free(family.pythons.pids);
		return err;
	}
	free(t->pids);
	t->pids = family.pythons.pids;
	t->pid_cnt = family.pythons.pid_cnt;
	return 0;
}

static int stand_in(struct readers *rs, pid_t *pid, bool *several)
{
	char pids[STAND_INS_MAX * 16 + 16], why[UNSUPPORTED_LEN];
	struct stand_ins s;

	stand_ins__find(&s, rs, *pid);
	if (!s.cnt || s.pids[0] == *pid)
		return 0;
	list_pids(&s, pids, sizeof(pids));
	if (s.cnt > 1 && !several) {
		log_err("process %d is not Python; name one that it started: %s", *pid, pids);
		return -EINVAL;
	}
	if (unsupported__unread(rs, *pid, why))
		log_warn("process %d: %s; taking %s, which it started", *pid, why, pids);
	else
		log_info("process %d is not Python: taking %s, which it started", *pid, pids);
	if (s.cnt > 1)
		*several = true;
	else
		*pid = s.pids[0];
	return 0;
}

int chosen__stand_in(pid_t *pid, bool *several)
{
	struct readers *rs = start_readers();
	int err = stand_in(rs, pid, several);

	readers__free(rs);
	return err;
}

struct children {
	uint32_t of; /* it is not asked about again */
	size_t cnt;
	struct readers *rs;
};

/* A descendants_fn. */
static int count_if_python(void *ctx, uint32_t tgid)
{
	struct children *c = ctx;

	c->cnt += tgid != c->of && stand_ins__is_python(c->rs, tgid);
	return 1;
}

int chosen__stand_in_of(pid_t *pid, size_t *children)
{
	struct children c = { .rs = start_readers() };
	int err = stand_in(c.rs, pid, NULL);

	c.of = (uint32_t)*pid;
	if (!err)
		descendants__visit(pid, 1, count_if_python, &c);
	readers__free(c.rs);
	*children = c.cnt;
	return err;
}
