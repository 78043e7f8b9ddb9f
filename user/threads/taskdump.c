/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "threads/taskdump.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/opener.h"
#include "base/reader.h"
#include "base/str.h"
#include "process/mapped.h"
#include "process/maps_read.h"
#include "python/pycode.h"
#include "python/pytasks.h"

#define SECTION	   ".AsyncioDebug"
#define MODULE	   "/_asyncio."
#define OBJECT_MAX (PYTASK_BYTES - 8) /* offsets in a task */
#define STATE_MAX  (1U << 22)	      /* ... in the state of an interpreter, and of a thread */

struct taskdump {
	struct readers *readers;
	const struct process *p;
	struct profile *profile;
	struct task_forest *forest;
	struct pymem mem;
	struct pycodes codes;
};

/* ---- where _asyncio says that things are ----------------------------------------------------- */

static bool take_section(const struct elf_file *ef, struct pytasks_debug *d)
{
	struct elf_section s;

	if (!ef || !elf_file__section(ef, SECTION, &s) || !s.data || s.size < sizeof(*d))
		return false;
	memcpy(d, s.data, sizeof(*d));
	return d->task_name < OBJECT_MAX && d->task_awaited_by < OBJECT_MAX &&
	       d->task_awaited_by_is_set < OBJECT_MAX && d->task_coro < OBJECT_MAX &&
	       d->task_coro >= 8 && d->task_node < OBJECT_MAX && d->interp_tasks_head < STATE_MAX &&
	       d->thread_running_loop < STATE_MAX && d->thread_running_task < STATE_MAX &&
	       d->thread_tasks_head < STATE_MAX;
}

static bool is_module(const struct map_line *line)
{
	const char *name = line->name_len ? memrchr(line->name, '/', line->name_len) : NULL;

	return name && line->inode &&
	       (size_t)(line->name + line->name_len - name) > strlen(MODULE) &&
	       !memcmp(name, MODULE, strlen(MODULE));
}

static bool find_module(struct readers *rs, uint32_t tgid, struct pytasks_debug *d)
{
	struct exec_maps maps = { 0 };
	bool found = false;
	int fd = opener__proc_dir(tgid), err;

	if (fd < 0)
		return false;
	err = exec_maps__ask(&maps, rs, tgid, fd);
	for (size_t i = 0; !err && !found && i < maps.cnt; i++) {
		struct elf_file *ef;

		if (!is_module(&maps.lines[i]))
			continue;
		ef = mapped__open(rs, tgid, fd, &maps.lines[i]);
		found = take_section(ef, d);
		elf_file__close(ef);
	}
	exec_maps__free(&maps);
	close(fd);
	return found;
}

/* In the interpreter itself, or in the module's own file. */
static bool find_debug(const struct process_table *pt, const struct process *p,
		       struct pytasks_debug *d)
{
	struct process_interp interp;

	if (process_table__interp_of(pt, p, &interp) && take_section(interp.file, d))
		return true;
	return find_module(process_table__readers(pt), p->tgid, d);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static int read_by_reader(void *ctx, void *dst, size_t size, uint64_t src)
{
	const struct taskdump *d = ctx;

	return reader__read(d->readers, d->p->tgid, dst, size, src);
}

/* The index of a frame's sym, or -ENOMEM. */
static int add_frame(struct taskdump *d, const struct pycoro_frame *f)
{
	const struct pycode *code = pycodes__get(&d->codes, f->code);
	struct sym s = { .kind = SYM_PYTHON, .module = -1, .inlined = -1 };

	if (!code)
		return -ENOMEM;
	s.func = profile__intern(d->profile, code->name ? code->name : "", code->name_len);
	s.file = profile__intern(d->profile, code->file ? code->file : "", code->file_len);
	s.line = pycode__line(d->mem.lay, code, f->offset);
	if (!s.func)
		s.func = profile__intern_z(d->profile, "<unknown>");
	for (size_t i = 0; i < d->profile->sym_cnt; i++) {
		const struct sym *had = &d->profile->syms[i];

		if (had->func == s.func && had->file == s.file && had->line == s.line)
			return (int)i;
	}
	return profile__add_sym(d->profile, &s);
}

/* A pytask_fn. */
static int take_task(void *ctx, const struct pytask *t)
{
	struct taskdump *d = ctx;
	uint64_t words[PYCORO_FRAMES];
	int stack = -1;

	for (uint32_t i = 0; i < t->coro.cnt; i++) {
		int sym = add_frame(d, &t->coro.frames[i]);

		if (sym < 0)
			return sym;
		words[i] = (uint64_t)sym;
	}
	if (t->coro.cnt)
		stack = profile__add_stack(d->profile, 0, 0, words, t->coro.cnt, 1);
	if (t->coro.cnt && stack < 0)
		return stack;
	return task_forest__add(d->forest, t, stack);
}

/* Numbers of threads as this process sees them. */
static void translate(struct threadlist *list, uint32_t *tid)
{
	for (size_t i = 0; *tid && i < threadlist__cnt(list); i++) {
		const struct thread_now *t = threadlist__at(list, i);

		if (t->inner_tid == *tid) {
			*tid = t->tid;
			return;
		}
	}
	*tid = 0;
}

static void translate_all(struct threadlist *list, struct task_forest *f)
{
	for (size_t i = 0; i < f->task_cnt; i++)
		translate(list, &f->tasks[i].tid);
	for (size_t i = 0; i < f->loop_cnt; i++)
		translate(list, &f->loops[i].tid);
}

static int read_all(struct taskdump *d, const struct pytasks_source *src)
{
	struct pytasks_found found;
	int err = pytasks__read(src, take_task, d, &found);

	if (!err)
		err = task_forest__link(d->forest, found.loops, found.loop_cnt);
	d->forest->cut = found.cut;
	d->forest->cycle = found.cycle;
	pytasks__free(&found);
	return err;
}

static int explain(const struct process *p, const struct py_binary *bin, int err)
{
	if (err == -ENOTSUP)
		log_err("process %u (%s): the tasks of CPython %s%s cannot be read (3.7 to 3.15 "
			"can, but no free-threaded build before 3.14)",
			p->tgid, p->comm, bin->version,
			bin->trace_refs ? ", built with Py_TRACE_REFS," : "");
	else if (err)
		log_err("process %u (%s): its tasks cannot be read: %s", p->tgid, p->comm,
			strerror(-err));
	return err;
}

bool taskdump__find(const struct process_table *pt, const struct process *p,
		    struct pytasks_source *src, struct pytasks_debug *debug)
{
	*src = (struct pytasks_source){ .readers = process_table__readers(pt), .tgid = p->tgid };
	src->bin = process_table__python(pt, p, &src->bias);
	if (!src->bin)
		return false;
	if (src->bin->interp.layout.version >= 0x030e && find_debug(pt, p, debug))
		src->debug = debug;
	return true;
}

struct pymem taskdump__mem(const struct pytasks_source *src,
			   int (*read)(void *ctx, void *dst, size_t size, uint64_t at), void *ctx)
{
	const struct py_layout *lay = &src->bin->interp.layout;

	return (struct pymem){
		.read = read,
		.ctx = ctx,
		.lay = lay,
		.str_type = src->bin->str_type + src->bias,
		.version = (uint16_t)lay->version,
		.shift = (uint16_t)(lay->ob_type - 8),
	};
}

int taskdump__read(const struct process_table *pt, const struct process *p, struct threadlist *list,
		   struct profile *profile, struct task_forest *forest)
{
	struct taskdump d = {
		.readers = process_table__readers(pt), .p = p, .profile = profile, .forest = forest
	};
	struct pytasks_source src;
	struct pytasks_debug debug;
	int err;

	*forest = (struct task_forest){ .p = profile };
	if (!taskdump__find(pt, p, &src, &debug)) {
		log_err("process %u (%s): its interpreter is not known well enough to read its "
			"tasks",
			p->tgid, p->comm);
		return -ENOTSUP;
	}
	d.mem = taskdump__mem(&src, read_by_reader, &d);
	d.codes = (struct pycodes){ .mem = &d.mem,
				    .code_type = src.bin->interp.code_type + src.bias };
	err = read_all(&d, &src);
	if (!err)
		err = threadlist__read(list);
	if (!err)
		translate_all(list, forest);
	pycodes__free(&d.codes);
	return explain(p, src.bin, err);
}
