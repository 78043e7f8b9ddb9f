/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "sample/awaited.h"

#include <errno.h>
#include <sys/types.h>

#include "base/log.h"
#include "process/called.h"
#include "process/unsupported.h"

/* It runs Python, or nobody knows yet. */
static bool is_useful(const struct process *p)
{
	return p->is_python || p->native_only || !p->analysed;
}

/*
 * A wrapper (sh -c, timeout, tini, sudo) is named by -p because of the process that it has started.
 */
static bool leads_to_python(const struct awaited *a, pid_t pid)
{
	const struct process *p = process_table__find_tgid(a->procs, (uint32_t)pid);

	if (p && is_useful(p))
		return true;
	if (!a->spec->children)
		return false;
	for (size_t at = 0; (p = process_table__next(a->procs, &at));)
		if (is_useful(p) && !p->exited && called__descends((pid_t)p->tgid, pid))
			return true;
	return false;
}

/*
 * A process without Python, and without descendants that have it, may become Python by exec, or
 * start some. Whoever runs a Python that is not walked, or is alone, is of no use. True: it may.
 */
static bool say_not_python(const struct awaited *a, pid_t pid, bool others)
{
	const struct process *p = process_table__find_tgid(a->procs, (uint32_t)pid);
	enum log_level level = others ? LOG_LEVEL_WARN : LOG_LEVEL_ERR;
	const char *comm = p ? p->comm : "?";
	char why[UNSUPPORTED_LEN];

	if (p && unsupported__explain(process_table__readers(a->procs), pid, why)) {
		log_msg(level, "process %d is %s (-a profiles it anyway)", pid, why);
		return false;
	}
	if (!a->spec->children) {
		log_msg(level, "process %d (%s) is not Python (-a profiles it anyway)", pid, comm);
		return false;
	}
	log_info("process %d (%s) is not Python yet: waiting for it and what it starts", pid, comm);
	return true;
}

/*
 * If none of the processes of -p is of use, that is an error, unless -a was given. Processes that
 * --name chose besides others are not mentioned.
 */
int awaited__begin(struct awaited *a, const struct sample_spec *t,
		   const struct process_table *procs, bool command)
{
	size_t useful = 0, awaited = 0;

	*a = (struct awaited){ t, procs, .open = command && !t->pid_cnt && !t->all };
	for (size_t i = 0; i < t->pid_cnt && !t->all; i++)
		useful += leads_to_python(a, t->pids[i]);
	if (t->all || useful == t->pid_cnt || (useful && t->name))
		return 0;
	for (size_t i = 0; i < t->pid_cnt; i++)
		if (!leads_to_python(a, t->pids[i]))
			awaited += say_not_python(a, t->pids[i], useful > 0);
	a->open = !useful && !command;
	return useful || awaited ? 0 : -EINVAL;
}

void awaited__look(struct awaited *a)
{
	const struct process *p;

	/* Also one that has ended since the last look. */
	for (size_t at = 0; a->open && (p = process_table__next(a->procs, &at));)
		a->open = !p->is_python && !p->native_only;
}

int awaited__end(const struct awaited *a, const char *command)
{
	const struct sample_spec *t = a->spec;

	if (a->open && command) {
		log_info("%s: neither it nor what it started was Python; what a daemon runs for it "
			 "(docker, systemd) is not its child: choose that process instead",
			 command);
		return 0;
	}
	for (size_t i = 0; a->open && i < t->pid_cnt; i++)
		log_err("process %d did not become Python, nor did any process that it has started "
			"(-a profiles it anyway)",
			t->pids[i]);
	return a->open ? -ESRCH : 0;
}
