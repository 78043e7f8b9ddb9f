/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "threads/export_threads.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "base/stream.h"
#include "base/syscalls.h"
#include "profile/export_text.h"

/* ---- frames ---------------------------------------------------------------------------------- */

/* Number i from the innermost. */
static const struct sym *frame(const struct profile *p, const struct dumped_thread *t, uint32_t i)
{
	const struct profile_stack *st = &p->stacks[t->stack];

	return &p->syms[p->frame_syms[st->first + st->cnt - 1 - i]];
}

static uint32_t frame_cnt(const struct profile *p, const struct dumped_thread *t)
{
	return t->stack < 0 ? 0 : p->stacks[t->stack].cnt;
}

/* Markers of the native stack say nothing of the Python frames: these are read from elsewhere. */
static bool is_python_marker(const struct profile *p, const struct dumped_thread *t, uint32_t i)
{
	const struct profile_stack *st = &p->stacks[t->stack];

	switch (MARKER_WHY(p->frames[st->first + st->cnt - 1 - i])) {
	case MARK_PY_READ_FAILED:
	case MARK_PY_BAD_CODE:
	case MARK_PY_TRUNCATED:
	case MARK_PY_SCAN_LIMIT:
	case MARK_PY_SETUP:
	case MARK_TRUNCATED:
	case MARK_COMPAT32:
		return true;
	}
	return false;
}

static bool is_shown(const struct dumped_process *d, const struct dumped_thread *t, uint32_t i)
{
	const struct sym *s = frame(d->p, t, i);

	return d->native || s->kind == SYM_PYTHON ||
	       (s->kind == SYM_MARKER && is_python_marker(d->p, t, i));
}

/* The innermost native function that has a name, above the innermost Python frame. NULL: none. */
static const struct sym *native_leaf(const struct dumped_process *d, const struct dumped_thread *t)
{
	for (uint32_t i = 0; i < frame_cnt(d->p, t); i++) {
		const struct sym *s = frame(d->p, t, i);

		if (s->kind == SYM_NATIVE && profile__str_len(d->p, s->func))
			return s;
		if (s->kind == SYM_PYTHON)
			break;
	}
	return NULL;
}

/* ---- text ------------------------------------------------------------------------------------ */

#define FRAME_INDENT 4

static void put(struct text_out *o, const char *sgr, struct strbuf *b)
{
	if (b->len)
		text_out__put(o, sgr, b->s, b->len);
	strbuf__clear(b);
}

static void add_syscall(struct strbuf *b, int64_t number)
{
	const char *name = syscall_name(number);

	if (name)
		strbuf__addz(b, name);
	else
		strbuf__addf(b, "system call %" PRId64, number);
}

/* Unless the system call has said it. */
static void add_reason(struct strbuf *b, const struct dumped_thread *t)
{
	const char *call = syscall_name(t->syscall);

	if (t->waits_for && t->state != DUMPED_RUNNABLE && !(call && !strcmp(call, t->waits_for)))
		strbuf__addf(b, " (waits: %s)", t->waits_for);
}

void thread_add_state(struct strbuf *b, const struct dumped_thread *t)
{
	static const char *const words[] = {
		[DUMPED_RUNNING] = "running",	[DUMPED_RUNNABLE] = "waiting for a CPU",
		[DUMPED_SLEEPING] = "sleeping", [DUMPED_BLOCKED] = "blocked",
		[DUMPED_STOPPED] = "stopped",	[DUMPED_TRACED] = "stopped by a tracer",
		[DUMPED_ENDED] = "has ended",
	};

	if (t->gil == GIL_WAITS) {
		strbuf__addz(b, "waiting for the GIL");
		return;
	}
	strbuf__addz(b, words[t->state]);
	if (t->state != DUMPED_ENDED && t->syscall >= 0) {
		strbuf__addz(b, " in ");
		add_syscall(b, t->syscall);
	} else if (t->state == DUMPED_SLEEPING || t->state == DUMPED_BLOCKED) {
		strbuf__addz(b, " in the kernel"); /* a page fault, mostly */
	}
	add_reason(b, t);
	if (t->gil == GIL_HOLDS)
		strbuf__addz(b, ", holds the GIL");
	else if (t->gil == GIL_NONE && t->state == DUMPED_RUNNING)
		strbuf__addz(b, ", without the GIL");
}

static const char *state_sgr(const struct dumped_thread *t)
{
	if (t->gil == GIL_WAITS)
		return SGR_YELLOW;
	return t->state == DUMPED_RUNNING || t->gil == GIL_HOLDS ? SGR_GREEN : NULL;
}

static void put_thread_line(struct text_out *o, const struct dumped_process *d,
			    const struct dumped_thread *t)
{
	struct strbuf b = { 0 };

	strbuf__addf(&b, "Thread %" PRIu32 " \"", t->tid);
	text_add_name(&b, d->p, t->name, "");
	strbuf__addz(&b, "\": ");
	put(o, SGR_BOLD, &b);
	thread_add_state(&b, t);
	put(o, state_sgr(t), &b);
	if (t->changing)
		text_out__puts(o, SGR_YELLOW,
			       " (it ran while its stack was read, which may be wrong)");
	text_out__newline(o);
	strbuf__free(&b);
}

static void put_frame(struct text_out *o, const struct profile *p, const struct sym *s)
{
	struct strbuf b = { 0 };

	text_out__skip_to(o, FRAME_INDENT);
	if (s->kind == SYM_NATIVE && !profile__str_len(p, s->func))
		strbuf__addf(&b, "0x%" PRIx64, s->addr);
	else
		text_add_func(&b, p, s, "?");
	put(o, s->kind == SYM_PYTHON ? SGR_CYAN : NULL, &b);
	if (s->kind != SYM_MARKER) {
		strbuf__addz(&b, s->kind == SYM_KERNEL ? " " : " (");
		text_add_place(&b, p, s, s->line);
		if (s->kind != SYM_KERNEL)
			strbuf__addc(&b, ')');
	}
	put(o, SGR_DIM, &b);
	text_out__newline(o);
	strbuf__free(&b);
}

static void put_leaf(struct text_out *o, const struct dumped_process *d,
		     const struct dumped_thread *t)
{
	const struct sym *s = d->native || t->syscall >= 0 ? NULL : native_leaf(d, t);
	struct strbuf b = { 0 };

	if (!s)
		return;
	text_out__skip_to(o, FRAME_INDENT);
	strbuf__addz(&b, "in native code: ");
	text_add_func(&b, d->p, s, "?");
	strbuf__addz(&b, " [");
	text_add_module(&b, d->p, s->module);
	strbuf__addc(&b, ']');
	put(o, SGR_DIM, &b);
	text_out__newline(o);
	strbuf__free(&b);
}

void thread_put_frames(struct text_out *o, const struct dumped_process *d,
		       const struct dumped_thread *t)
{
	uint32_t shown = 0;

	put_leaf(o, d, t);
	for (uint32_t i = 0; i < frame_cnt(d->p, t); i++) {
		if (!is_shown(d, t, i))
			continue;
		put_frame(o, d->p, frame(d->p, t, i));
		shown++;
	}
	if (shown || t->state == DUMPED_ENDED)
		return;
	text_out__skip_to(o, FRAME_INDENT);
	text_out__puts(o, SGR_DIM,
		       t->stack < 0 ? "(its stack could not be read)" : "(no Python frames)");
	text_out__newline(o);
}

static void put_thread(struct text_out *o, const struct dumped_process *d,
		       const struct dumped_thread *t)
{
	text_out__newline(o);
	put_thread_line(o, d, t);
	thread_put_frames(o, d, t);
}

void thread_add_stack(struct strbuf *b, const struct dumped_process *d,
		      const struct dumped_thread *t)
{
	for (uint32_t i = 0; i < frame_cnt(d->p, t); i++) {
		const struct sym *s = frame(d->p, t, i);

		if (!is_shown(d, t, i))
			continue;
		text_add_func(b, d->p, s, "?");
		strbuf__addz(b, " (");
		text_add_place(b, d->p, s, s->line);
		strbuf__addf(b, ":%" PRIx64 ")\n", s->kind == SYM_NATIVE ? s->addr : 0);
	}
}

void thread_add_place(struct strbuf *b, const struct dumped_process *d,
		      const struct dumped_thread *t)
{
	for (uint32_t i = 0; i < frame_cnt(d->p, t); i++) {
		const struct sym *s = frame(d->p, t, i);

		if (!is_shown(d, t, i) || s->kind == SYM_MARKER)
			continue;
		text_add_func(b, d->p, s, "?");
		strbuf__addz(b, " (");
		text_add_place(b, d->p, s, s->line);
		strbuf__addc(b, ')');
		return;
	}
	strbuf__addz(b, "no Python function");
}

static void put_process(struct text_out *o, const struct dumped_process *d)
{
	const struct profile *p = d->p;
	const struct profile_proc *proc = &p->procs[0];
	size_t cnt = d->all_cnt ? d->all_cnt : d->thread_cnt;
	struct strbuf b = { 0 };

	strbuf__addf(&b, "Process %" PRIu32 " (", proc->tgid);
	text_add_name(&b, p, profile_proc__name(proc), "?");
	strbuf__addc(&b, ')');
	put(o, SGR_BOLD, &b);
	if (proc->python) {
		strbuf__addz(&b, ", Python ");
		text_add_name(&b, p, proc->python, "");
	}
	strbuf__addz(&b, ", ");
	text_add_name(&b, p, proc->exe, "executable not known");
	put(o, NULL, &b);
	text_out__newline(o);
	strbuf__addf(&b, "%zu thread%s, most recent call first", cnt, cnt == 1 ? "" : "s");
	put(o, NULL, &b);
	text_out__newline(o);
	if (proc->native_only) {
		strbuf__addz(&b, "No Python frames: ");
		text_add_name(&b, p, proc->native_only, "");
		put(o, SGR_YELLOW, &b);
		text_out__newline(o);
	}
	strbuf__free(&b);
}

int export_threads__text(FILE *f, const struct dumped_process *d, bool color)
{
	struct text_out o;

	text_out__begin(&o, f, 0, color); /* a path that is cut is of no use */
	if (!d->is_continued)
		put_process(&o, d);
	for (size_t i = 0; i < d->thread_cnt; i++)
		put_thread(&o, d, &d->threads[i]);
	return text_out__end(&o);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_str(struct json *j, const char *key, const struct profile *p, str_id id)
{
	if (profile__str_len(p, id))
		json__string(j, key, profile__str(p, id), profile__str_len(p, id));
	else
		json__null(j, key);
}

void export_threads__json_frame(struct json *j, const struct profile *p, const struct sym *s)
{
	static const char *const kinds[] = {
		[SYM_PYTHON] = "python", [SYM_NATIVE] = "native", [SYM_KERNEL] = "kernel",
		[SYM_MARKER] = "marker", [SYM_PLAIN] = "native",
	};

	json__newline(j);
	json__object(j, NULL);
	json__stringz(j, "kind", kinds[s->kind]);
	json_str(j, "function", p, s->func);
	json_str(j, "file", p, s->file);
	if (s->line)
		json__uint(j, "line", s->line);
	else
		json__null(j, "line");
	json_str(j, "module", p, s->module >= 0 ? p->modules[s->module].path : 0);
	if (s->kind == SYM_NATIVE) {
		char text[24]; /* a number in JSON is a double to many, of 53 bits */

		snprintf(text, sizeof(text), "0x%" PRIx64, s->addr);
		json__stringz(j, "address", text);
	} else {
		json__null(j, "address");
	}
	json__end(j, '}');
}

static void json_state(struct json *j, const struct dumped_thread *t)
{
	static const char *const states[] = {
		[DUMPED_RUNNING] = "running",	[DUMPED_RUNNABLE] = "runnable",
		[DUMPED_SLEEPING] = "sleeping", [DUMPED_BLOCKED] = "blocked",
		[DUMPED_STOPPED] = "stopped",	[DUMPED_TRACED] = "traced",
		[DUMPED_ENDED] = "ended",
	};
	static const char *const gils[] = {
		[GIL_NONE] = "none",
		[GIL_HOLDS] = "holds",
		[GIL_WAITS] = "waits",
	};
	const char *name = syscall_name(t->syscall);

	json__stringz(j, "state", states[t->state]);
	if (t->syscall >= 0)
		json__int(j, "syscall_number", t->syscall);
	else
		json__null(j, "syscall_number");
	if (name)
		json__stringz(j, "syscall", name);
	else
		json__null(j, "syscall");
	if (t->waits_for)
		json__stringz(j, "waits_for", t->waits_for);
	else
		json__null(j, "waits_for");
	if (t->gil != GIL_UNKNOWN)
		json__stringz(j, "gil", gils[t->gil]);
	else
		json__null(j, "gil");
}

static void json_thread(struct json *j, const struct dumped_process *d,
			const struct dumped_thread *t)
{
	json__newline(j);
	json__object(j, NULL);
	json__uint(j, "tid", t->tid);
	json_str(j, "name", d->p, t->name);
	json_state(j, t);
	json__bool(j, "consistent", !t->changing && (t->stack >= 0 || t->state == DUMPED_ENDED));
	json__array(j, "frames");
	for (uint32_t i = 0; i < frame_cnt(d->p, t); i++)
		if (is_shown(d, t, i))
			export_threads__json_frame(j, d->p, frame(d->p, t, i));
	json__end(j, ']');
	json__end(j, '}');
}

void export_threads__json_process(struct json *j, const struct profile *p)
{
	const struct profile_proc *proc = &p->procs[0];

	json__uint(j, "pid", proc->tgid);
	json_str(j, "comm", p, proc->comm);
	json_str(j, "title", p, proc->title);
	json_str(j, "exe", p, proc->exe);
	json_str(j, "python", p, proc->python);
	json_str(j, "native_only", p, proc->native_only);
	json_str(j, "container", p, proc->container);
}

static void json_process(struct json *j, const struct dumped_process *d)
{
	json__object(j, NULL);
	export_threads__json_process(j, d->p);
	json__array(j, "threads");
	for (size_t i = 0; i < d->thread_cnt; i++)
		json_thread(j, d, &d->threads[i]);
	json__end(j, ']');
	json__end(j, '}');
}

static int end_json(FILE *f)
{
	fputc('\n', f);
	return stream__flush(f);
}

int export_threads__json(FILE *f, const struct dumped_process *d)
{
	struct json j = { .f = f };

	json_process(&j, d);
	return end_json(f);
}

int export_threads__json_all(FILE *f, const struct dumped_process *all, size_t cnt)
{
	struct json j = { .f = f };

	json__array(&j, NULL);
	for (size_t i = 0; i < cnt; i++) {
		json__newline(&j);
		json_process(&j, &all[i]);
	}
	json__end(&j, ']');
	return end_json(f);
}
