/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Reads what /proc and the memory of a process say about it. */
#include "process/process_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/foreign.h"
#include "base/log.h"
#include "base/opener.h"
#include "base/payer.h"
#include "base/reader.h"
#include "base/source.h"
#include "base/tenant.h"
#include "process/cgroup.h"

#define RETRY_FOR_NS   10000000000ULL /* an interpreter that does not start */
#define MAX_CANDIDATES 8	      /* interpreters of one process */

int look__enter(struct process_table *pt, uint32_t tgid, int proc_fd)
{
	int err = exec_maps__ask(&pt->exec, pt->opts.readers, tgid, proc_fd);

	file_table__enter(pt->files, tgid, proc_fd, pt->exec.lines, err ? 0 : pt->exec.cnt);
	return err;
}

void look__leave(struct process_table *pt, int proc_fd)
{
	file_table__leave(pt->files);
	if (proc_fd >= 0)
		close(proc_fd);
}

/* ---- reading /proc -------------------------------------------------------------------------- */

void look__comm(int proc_fd, char *comm)
{
	int fd = openat(proc_fd, "comm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, comm, TASK_COMM_LEN);

	if (fd >= 0)
		close(fd);
	if (n > 0 && comm[n - 1] == '\n')
		n--;
	if (n > TASK_COMM_LEN - 1)
		n = TASK_COMM_LEN - 1;
	comm[n > 0 ? n : 0] = '\0';
}

void look__describe(struct process *p, int proc_fd, struct strbuf *text)
{
	char buf[PATH_MAX], id[CONTAINER_ID_LEN + 1];
	ssize_t n = readlinkat(proc_fd, "exe", buf, sizeof(buf) - 1);

	if (n > 0) {
		buf[n] = '\0';
		free(p->exe_owned);
		p->exe_owned = strdup(buf);
		p->exe = p->exe_owned ? p->exe_owned : "";
	}
	if (!read_proc(proc_fd, "cgroup", text) && text->len &&
	    !cgroup__container(text->s, text->len, id)) {
		free(p->container_owned);
		p->container_owned = strdup(id);
		p->container = p->container_owned ? p->container_owned : "";
	}
	p->described = true;
}

void look__rights(struct process *p, int proc_fd, struct strbuf *text)
{
	struct stat root, ours;

	p->ids_known = !read_proc(proc_fd, "status", text) && text->len &&
		       source__parse_ids(text->s, &p->uid, &p->gid);
	p->payer = p->ids_known ? payer__of(proc_fd, p->uid) : 0;
	p->own_root = !foreign__stat_at(proc_fd, "root", &root) && !stat("/", &ours) &&
		      root.st_dev == ours.st_dev && root.st_ino == ours.st_ino;
}

/* ---- one look at a process ------------------------------------------------------------------ */

/* An interpreter that a process has mapped. */
struct candidate {
	struct mapped_file *file;
	uint64_t bias;
	bool running; /* it has an interpreter state; known only if there are several */
};

struct candidates {
	struct candidate c[MAX_CANDIDATES];
	unsigned cnt;
};

/* Load address minus link address, by any byte of the text that the mapping covers. */
static bool find_bias(const struct mapped_file *file, const struct mapping *m, uint64_t *bias)
{
	uint64_t offset = m->offset, first, limit, addr;

	if (!elf_file__text(file->elf, &first, &limit))
		return false;
	/* A mapping begins at a page boundary, a segment may begin within the page. */
	if (offset < first)
		offset = first;
	if (offset - m->offset >= m->end - m->start ||
	    !elf_file__off_to_addr(file->elf, offset, &addr))
		return false;
	*bias = m->start + (offset - m->offset) - addr;
	return true;
}

static bool is_running(const struct process_table *pt, uint32_t tgid, const struct candidate *c)
{
	uint64_t head = 0;

	return !c->file->python &&
	       !reader__read(pt->opts.readers, tgid, &head, sizeof(head),
			     c->bias + c->file->py->interp.interp_head) &&
	       head;
}

static void add_candidate(struct candidates *list, const struct candidate *c)
{
	for (unsigned i = 0; i < list->cnt; i++) {
		if (list->c[i].file == c->file && list->c[i].bias == c->bias)
			return;
	}
	if (list->cnt < MAX_CANDIDATES)
		list->c[list->cnt++] = *c;
}

/*
 * A process may map several interpreters, such as one in its executable and a libpython that a
 * library needs. Running ones come first, and IMAGE_INTERPS are kept.
 */
static void choose_interps(const struct process_table *pt, uint32_t tgid, struct candidates *list)
{
	struct candidates all = *list;

	if (all.cnt < 2)
		return;
	for (unsigned i = 0; i < all.cnt; i++)
		all.c[i].running = is_running(pt, tgid, &all.c[i]);
	list->cnt = 0;
	for (int running = 1; running >= 0; running--) {
		for (unsigned i = 0; i < all.cnt && list->cnt < IMAGE_INTERPS; i++) {
			if (all.c[i].running == running)
				list->c[list->cnt++] = all.c[i];
		}
	}
}

/* Second stage of the analysis, from the process's memory. */
static void finish_analysis(const struct process_table *pt, struct process *p,
			    const struct candidate *c)
{
	uint8_t bytes[PY_DEBUG_OFFSETS_MAX];

	if (c->file->python != -EAGAIN)
		return;
	if (!reader__read(pt->opts.readers, p->tgid, bytes, sizeof(bytes),
			  c->bias + c->file->py->runtime))
		c->file->python = py_binary__from_process(c->file->py, bytes, sizeof(bytes));
	if (c->file->python != -EAGAIN)
		return;
	if (!p->retry_since_ns)
		p->retry_since_ns = now_ns();
	p->retry = now_ns() - p->retry_since_ns < RETRY_FOR_NS;
}

static void warn_interps(struct process_table *pt, const struct process *p)
{
	if (!pt->warned_interps)
		log_warn("no room for the interpreter of process %u: processes of user %u have too "
			 "many different ones; those without room are native only",
			 p->tgid, tenant__user(tenant__of_process(p->tgid)));
	pt->warned_interps = true;
}

/* Adds an interpreter to f->val. NULL, or why it is not walked. */
static const char *add_interp(struct process_table *pt, struct fresh *f, const struct candidate *c,
			      struct selfcheck *sc)
{
	const char *why;
	int err;

	finish_analysis(pt, f->p, c);
	if (c->file->python == -ENOTSUP)
		return c->file->py->why_not;
	if (c->file->python)
		return "the interpreter did not initialise its debug offsets";
	err = file_table__add_interp(pt->files, c->file);
	if (err == -ENOSPC)
		warn_interps(pt, f->p);
	if (err)
		return err == -ENOSPC ? "its user has too many different interpreters"
				      : "the kernel refused the interpreter's entry";
	why = trust__why_not(pt, f->p, sc, c->file, c->bias);
	if (!why)
		f->val.interps[f->val.interp_cnt++] =
			(struct image_interp){ .bias = c->bias,
					       .interp = (uint32_t)c->file->interp };
	return why;
}

/* Names the interpreters that run, and always the first. */
static void name_interp(struct process *p, const struct candidates *list, unsigned i,
			const char *why)
{
	size_t len = strlen(p->python);

	if (!i || list->c[i].running)
		snprintf(p->python + len, sizeof(p->python) - len, "%s%s%s", i ? ", " : "",
			 list->c[i].file->py->version,
			 why && list->cnt > 1 ? " (native only)" : "");
}

static void set_interps(struct process_table *pt, struct fresh *f, const struct candidates *list)
{
	struct process *p = f->p;

	p->is_python = true;
	process_table__note_not_plain(pt, p);
	p->python_file = list->c[0].file->id;
	p->native_only = NULL;
	p->python[0] = '\0';
	for (unsigned i = 0; i < IMAGE_INTERPS; i++) {
		const char *why;

		if (i >= list->cnt) {
			p->checks[i] = (struct selfcheck){ 0 };
			continue;
		}
		why = add_interp(pt, f, &list->c[i], &p->checks[i]);
		name_interp(p, list, i, why);
		if (!p->native_only)
			p->native_only = why;
	}
	if (f->val.interp_cnt)
		p->native_only = NULL;
	f->val.flags = f->val.interp_cnt ? IMAGE_PYTHON : IMAGE_NOT_WALKED;
}

/* `likely`: only the files with a promising name, or only the others. */
static bool some_is_python(struct process_table *pt, bool likely)
{
	for (size_t i = 0; i < pt->exec.cnt; i++) {
		const struct map_line *line = &pt->exec.lines[i];
		bool named = memmem(line->name, line->name_len, "python", 6) != NULL;

		if (named == likely && file_table__is_python(pt->files, line) == 1)
			return true;
	}
	return false;
}

/* Likely files first: once one is found, the others are opened only once, to be kept. */
bool look__finds_python(struct process_table *pt)
{
	return some_is_python(pt, true) || some_is_python(pt, false);
}

/* Copies all executable mappings to pt->scratch, and finds interpreters. Returns their number. */
static uint32_t take_mappings(struct process_table *pt, struct candidates *found)
{
	struct candidate c = { 0 };
	bool coming;

	for (size_t i = 0; i < pt->exec.cnt; i++) {
		const struct map_line *line = &pt->exec.lines[i];
		struct mapping *m = &pt->scratch[i];

		c.file = file_table__get(pt->files, line);
		*m = (struct mapping){
			.start = line->start,
			.end = line->end,
			.offset = c.file ? line->offset : 0,
			.file = c.file ? c.file->id : 0,
			.table = c.file ? file_table__index(pt->files, c.file, &coming) : 0
		};
		if (c.file && c.file->py && find_bias(c.file, m, &c.bias))
			add_candidate(found, &c);
	}
	pt->stats.maps_truncated += pt->exec.truncated;
	return (uint32_t)pt->exec.cnt;
}

/* Libraries that generate code tell debuggers of it. */
static void look_for_lists(struct process_table *pt, const struct process *p)
{
	for (size_t i = 0; i < pt->exec.cnt; i++) {
		const struct mapping *m = &pt->scratch[i];
		struct mapped_file *file = file_table__find(pt->files, m->file);
		uint64_t list = file ? file_table__list(pt->files, file) : 0, bias;

		if (list && find_bias(file, m, &bias))
			pt->sink.list_generated(pt->sink.ctx, p->space, bias + list);
	}
}

/* Announces a process that has generated code, which needs names (sym_jit.h). */
static void look_for_generated(struct process_table *pt, const struct process *p, int proc_fd)
{
	const struct map_line *dump = NULL;
	const struct process *origin;
	bool generated = false;

	for (size_t i = 0; i < pt->exec.cnt; i++) {
		generated |= !pt->scratch[i].file && map_line__is_generated(&pt->exec.lines[i]);
		if (map_line__is_jitdump(&pt->exec.lines[i]))
			dump = &pt->exec.lines[i];
	}
	if (generated || dump)
		pt->sink.look_generated(pt->sink.ctx, p->space, p->tgid, proc_fd,
					dump ? file_table__open(pt->files, dump) : OPENED_NONE);
	if (!generated)
		return;
	look_for_lists(pt, p);
	origin = p->parent ? NULL : discover__origin(pt, p, proc_fd);
	if (origin)
		pt->sink.fork(pt->sink.ctx, p->space, origin->space);
}

/* Fills in f from /proc. 0, or negative errno: f is not valid. */
static int look(struct process_table *pt, struct fresh *f, int proc_fd)
{
	struct candidates found = { 0 };
	int err = look__enter(pt, f->p->tgid, proc_fd);

	pt->stats.refreshed++;
	if (err)
		return err;
	if (!pt->opts.all && !f->p->is_python && !look__finds_python(pt)) {
		f->valid = true;
		return 0;
	}
	f->val.map_cnt = take_mappings(pt, &found);
	f->valid = true;
	f->maps = malloc((f->val.map_cnt + 1) * sizeof(*f->maps));
	if (!f->maps) {
		image__put_files(pt, pt->scratch, f->val.map_cnt);
		f->valid = false;
		return -ENOMEM;
	}
	memcpy(f->maps, pt->scratch, f->val.map_cnt * sizeof(*f->maps));
	choose_interps(pt, f->p->tgid, &found);
	if (found.cnt)
		set_interps(pt, f, &found);
	look_for_generated(pt, f->p, proc_fd);
	err = room__keep_share(pt, f);
	if (err)
		return err;
	f->p->introduce = !f->p->described || (f->p->is_python && !f->p->ids_known);
	return 0;
}

static void note_unreadable(struct process_table *pt, const struct process *p, int err)
{
	if (err != -EACCES && err != -EPERM)
		return; /* it has ended: the event comes later */
	pt->stats.unreadable++;
	/*
	 * Even root may not read some processes (user namespaces, security modules): warn only
	 * about those of -p.
	 */
	if (!pt->warned_permission)
		log_msg(pt->opts.pid_cnt ? LOG_LEVEL_WARN : LOG_LEVEL_DEBUG,
			"process %u: cannot read its mappings: %s (needs CAP_SYS_PTRACE)", p->tgid,
			strerror(-err));
	pt->warned_permission = true;
}

void look__at(struct process_table *pt, struct fresh *f)
{
	int proc_fd = opener__proc_dir(f->p->tgid), err;
	uint64_t start = now_ns();

	f->p->retry = false;
	f->areas = image__areas_given(pt, f->p);
	if (proc_fd < 0) {
		note_unreadable(pt, f->p, proc_fd);
		return;
	}
	err = look(pt, f, proc_fd);
	look__leave(pt, proc_fd);
	if (err) {
		note_unreadable(pt, f->p, err);
		fresh__drop(pt, f);
		return;
	}
	f->p->looked_ns = start;
	f->p->analysed = true;
}
