/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "threads/export_tasks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/str.h"
#include "base/stream.h"
#include "profile/export_text.h"
#include "threads/export_threads.h"

#define INDENT	    4
#define DEPTH_MAX   64 /* of what is shown, and compared */
#define NAMES_SHOWN 3  /* of a group */

struct writer {
	struct text_out o;
	const struct task_forest *f;
	uint64_t *alike; /* of each task: the same for those that are shown together */
	uint8_t *shown;
	struct strbuf b;
	bool all;
	int err;
};

static void put(struct writer *w, const char *sgr)
{
	if (w->b.len)
		text_out__put(&w->o, sgr, w->b.s, w->b.len);
	strbuf__clear(&w->b);
}

static const char *plural(size_t cnt)
{
	return cnt == 1 ? "" : "s";
}

/* ---- the first line -------------------------------------------------------------------------- */

static bool has_part(const struct task_forest *f, const struct sym *s, const char *part)
{
	return strstr(profile__str(f->p, s->file), part) != NULL;
}

/* Is the task's code the interpreter's, or installed beside it? */
static bool is_library(const struct task_forest *f, const struct sym *s)
{
	return has_part(f, s, "/lib/python") || has_part(f, s, "/site-packages/") ||
	       has_part(f, s, "/dist-packages/") || profile__str(f->p, s->file)[0] == '<';
}

/* The innermost frame that is the program's own, or else the innermost one. NULL: there is none. */
static const struct sym *own_frame(const struct task_forest *f, const struct forest_task *t)
{
	for (uint32_t i = 0; i < task_frame_cnt(f, t); i++)
		if (!is_library(f, task_frame(f, t, i)))
			return task_frame(f, t, i);
	return task_frame_cnt(f, t) ? task_frame(f, t, 0) : NULL;
}

/* "fetch (app.py:31)"; of a library with its folder: "sleep (asyncio/tasks.py:605)". */
static void add_place(struct writer *w, const struct sym *s)
{
	const char *file = profile__str(w->f->p, s->file), *at = file + strlen(file);
	int parts = is_library(w->f, s) ? 2 : 1;

	while (at > file && (at[-1] != '/' || --parts))
		at--;
	text_add_func(&w->b, w->f->p, s, "?");
	strbuf__addz(&w->b, " (");
	str_sanitise(&w->b, at, strlen(at), TEXT_PATH_MAX);
	if (s->line)
		strbuf__addf(&w->b, ":%" PRIu32, s->line);
	strbuf__addc(&w->b, ')');
}

/* One of the tasks that wait at the commonest place. NULL: none waits. */
static const struct forest_task *most_common(const struct task_forest *f, uint32_t *most)
{
	uint32_t *cnt = calloc(f->p->stack_cnt + 1, sizeof(*cnt));
	const struct forest_task *best = NULL;

	*most = 0;
	for (size_t i = 0; cnt && i < f->task_cnt; i++) {
		const struct forest_task *t = &f->tasks[i];

		if (t->stack < 0 || t->state != TASK_WAITING || ++cnt[t->stack] <= *most)
			continue;
		*most = cnt[t->stack];
		best = t;
	}
	free(cnt);
	return best;
}

static void put_sentence(struct writer *w)
{
	const struct task_forest *f = w->f;
	size_t loops = 0;
	uint32_t most;
	const struct forest_task *t = most_common(f, &most);

	for (size_t i = 0; i < f->loop_cnt; i++)
		loops += f->loops[i].task_cnt != 0;
	strbuf__addf(&w->b, "%zu task%s", f->task_cnt, plural(f->task_cnt));
	if (f->task_cnt)
		strbuf__addf(&w->b, " in %zu event loop%s", loops, plural(loops));
	/* A place of one of several is none of most. */
	if (t && own_frame(f, t) && (most > 1 || f->task_cnt == 1)) {
		strbuf__addf(&w->b, "; %" PRIu32 " wait%s in ", most, most == 1 ? "s" : "");
		add_place(w, own_frame(f, t));
		if (own_frame(f, t) != task_frame(f, t, 0)) {
			strbuf__addz(&w->b, " -> ");
			add_place(w, task_frame(f, t, 0));
		}
	}
	if (f->ring_cnt)
		strbuf__addf(&w->b, "; %zu await each other, for ever", f->ring_cnt);
	put(w, SGR_BOLD);
	text_out__newline(&w->o);
}

static void put_text(struct writer *w, const char *sgr, const char *text)
{
	text_out__puts(&w->o, sgr, text);
	text_out__newline(&w->o);
}

static void put_warning(struct writer *w, const char *text)
{
	put_text(w, SGR_YELLOW, text);
}

static void put_head(struct writer *w)
{
	const struct profile_proc *proc = &w->f->p->procs[0];

	put_sentence(w);
	strbuf__addf(&w->b, "Process %" PRIu32 " (", proc->tgid);
	text_add_name(&w->b, w->f->p, profile_proc__name(proc), "?");
	strbuf__addz(&w->b, "), Python ");
	text_add_name(&w->b, w->f->p, proc->python, "?");
	strbuf__addz(&w->b, ", ");
	text_add_name(&w->b, w->f->p, proc->exe, "executable not known");
	strbuf__addz(&w->b, "; most recent call first");
	put(w, NULL);
	text_out__newline(&w->o);
	if (!w->f->task_cnt && !w->f->cut)
		put_text(w, NULL, "Tasks of asyncio are read, not those of trio or gevent");
	if (w->f->cycle)
		put_warning(w, "Its list of tasks leads back into itself: some may be missing");
	else if (w->f->cut)
		put_warning(w, "There are more tasks, which could not be read");
}

/* ---- what is alike --------------------------------------------------------------------------- */

static uint64_t mix(uint64_t a, uint64_t b)
{
	const struct hash_key key = hash_key();
	const uint64_t words[] = { a, b };

	return hash_bytes(&key, words, sizeof(words));
}

/* Itself, and all that it awaits, whatever their order. What is deeper is like nothing else. */
static uint64_t find_alike(struct writer *w, uint32_t task, unsigned depth)
{
	const struct forest_task *t = &w->f->tasks[task];
	uint64_t sum = 0, own;

	if (w->alike[task])
		return w->alike[task];
	own = mix((uint64_t)task + 1, 0);
	if (w->all || depth == DEPTH_MAX || t->in_ring || t->changing)
		return w->alike[task] = own;
	w->alike[task] = own; /* should it await itself */
	for (uint32_t i = 0; i < t->child_cnt; i++)
		sum += find_alike(w, task_children(w->f, t)[i], depth + 1);
	own = mix((uint64_t)(uint32_t)t->stack << 32 | t->state << 8 | t->cut, sum);
	return w->alike[task] = mix(own, t->loop);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static const char *state_word(const struct forest_task *t)
{
	static const char *const words[] = {
		[TASK_UNKNOWN] = "state not known", [TASK_RUNNING] = "running",
		[TASK_WAITING] = "waiting",	    [TASK_READY] = "ready to run",
		[TASK_NEW] = "not started yet",
	};

	return words[t->state];
}

/* 3.7 has no names: then its coroutine stands for the task. */
static void add_task(struct writer *w, const struct forest_task *t)
{
	uint32_t cnt = task_frame_cnt(w->f, t);

	if (!profile__str_len(w->f->p, t->name)) {
		if (cnt)
			text_add_func(&w->b, w->f->p, task_frame(w->f, t, cnt - 1), "?");
		else
			strbuf__addc(&w->b, '?');
		return;
	}
	strbuf__addc(&w->b, '"');
	text_add_name(&w->b, w->f->p, t->name, "?");
	strbuf__addc(&w->b, '"');
}

static void put_state(struct writer *w, const struct forest_task *t)
{
	strbuf__addz(&w->b, state_word(t));
	if (t->tid)
		strbuf__addf(&w->b, " in thread %" PRIu32, t->tid);
	put(w, t->state == TASK_RUNNING ? SGR_GREEN : NULL);
	if (t->in_ring)
		text_out__puts(&w->o, SGR_YELLOW, ", awaits itself through others");
	if (t->changing)
		text_out__puts(&w->o, SGR_YELLOW, " (it ran while it was read)");
}

static void put_names(struct writer *w, const uint32_t *tasks, size_t cnt)
{
	strbuf__addz(&w->b, ": ");
	for (size_t i = 0; i < cnt && i < NAMES_SHOWN; i++) {
		strbuf__addz(&w->b, i ? ", " : "");
		add_task(w, &w->f->tasks[tasks[i]]);
	}
	if (cnt > NAMES_SHOWN)
		strbuf__addf(&w->b, " and %zu more", cnt - NAMES_SHOWN);
	put(w, NULL);
}

/* Writes the title of `cnt` equal tasks. */
static void put_title(struct writer *w, const uint32_t *tasks, size_t cnt, unsigned depth)
{
	const struct forest_task *t = &w->f->tasks[tasks[0]];

	text_out__skip_to(&w->o, depth * INDENT);
	if (depth)
		text_out__puts(&w->o, SGR_DIM, "awaits ");
	if (cnt == 1) {
		strbuf__addz(&w->b, depth ? "task " : "Task ");
		add_task(w, t);
		strbuf__addz(&w->b, ": ");
		put(w, SGR_BOLD);
		put_state(w, t);
	} else {
		strbuf__addf(&w->b, "%zu tasks", cnt);
		put(w, SGR_BOLD);
		strbuf__addz(&w->b, ", ");
		put_state(w, t);
		if (profile__str_len(w->f->p, t->name))
			put_names(w, tasks, cnt);
	}
	text_out__newline(&w->o);
}

static void put_note(struct writer *w, unsigned depth, const char *text)
{
	text_out__skip_to(&w->o, depth * INDENT);
	text_out__puts(&w->o, SGR_DIM, text);
	text_out__newline(&w->o);
}

static void put_frames(struct writer *w, const struct forest_task *t, unsigned depth)
{
	for (uint32_t i = 0; i < task_frame_cnt(w->f, t); i++) {
		const struct sym *s = task_frame(w->f, t, i);

		text_out__skip_to(&w->o, depth * INDENT);
		text_add_func(&w->b, w->f->p, s, "?");
		put(w, SGR_CYAN);
		strbuf__addz(&w->b, " (");
		text_add_place(&w->b, w->f->p, s, s->line);
		strbuf__addc(&w->b, ')');
		put(w, SGR_DIM);
		text_out__newline(&w->o);
	}
	if (t->cut)
		put_note(w, depth, "(frames are missing)");
	else if (!task_frame_cnt(w->f, t))
		put_note(w, depth, "(no Python frames)");
}

static void put_level(struct writer *w, uint32_t *tasks, size_t cnt, unsigned depth);

/* Writes the new tasks that all of `tasks` await; the others are only named. */
static void put_children(struct writer *w, const uint32_t *tasks, size_t cnt, unsigned depth)
{
	size_t all = 0, fresh = 0;
	uint32_t *children;

	for (size_t i = 0; i < cnt; i++)
		all += w->f->tasks[tasks[i]].child_cnt;
	children = malloc((all + 1) * sizeof(*children));
	if (!children) {
		w->err = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < cnt; i++) {
		const struct forest_task *t = &w->f->tasks[tasks[i]];

		for (uint32_t k = 0; k < t->child_cnt; k++) {
			uint32_t child = task_children(w->f, t)[k];

			if (!w->shown[child])
				children[fresh++] = child;
			w->shown[child]++;
			if (w->shown[child] == 1)
				continue;
			w->shown[child] = 2;
			if (cnt > 1)
				continue;
			strbuf__addz(&w->b, "awaits task ");
			add_task(w, &w->f->tasks[child]);
			strbuf__addz(&w->b, ", which is shown elsewhere");
			text_out__skip_to(&w->o, depth * INDENT);
			put(w, SGR_DIM);
			text_out__newline(&w->o);
		}
	}
	if (depth > DEPTH_MAX && fresh)
		put_note(w, depth, "(it awaits more, which is not shown)");
	else
		put_level(w, children, fresh, depth);
	free(children);
}

static void put_group(struct writer *w, const uint32_t *tasks, size_t cnt, unsigned depth)
{
	const struct forest_task *t = &w->f->tasks[tasks[0]];

	put_title(w, tasks, cnt, depth);
	put_frames(w, t, depth + 1);
	put_children(w, tasks, cnt, depth + 1);
}

/* Tasks side by side: groups, in the order of their first ones. `tasks` is put in order. */
static void put_level(struct writer *w, uint32_t *tasks, size_t cnt, unsigned depth)
{
	uint32_t *group = malloc((cnt + 1) * sizeof(*group));

	if (!group)
		w->err = -ENOMEM;
	while (cnt && group) {
		uint64_t alike = w->alike[tasks[0]];
		size_t size = 0, left = 0;

		for (size_t i = 0; i < cnt; i++) {
			if (w->alike[tasks[i]] == alike)
				group[size++] = tasks[i];
			else
				tasks[left++] = tasks[i];
		}
		if (!depth)
			text_out__newline(&w->o);
		put_group(w, group, size, depth);
		cnt = left;
	}
	free(group);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void put_loop(struct writer *w, uint32_t loop, uint32_t *roots)
{
	size_t cnt = 0, task_cnt = 0;

	for (size_t i = 0; i < w->f->task_cnt; i++) {
		const struct forest_task *t = &w->f->tasks[i];

		task_cnt += t->loop == loop;
		if (t->loop != loop || !t->is_root)
			continue;
		roots[cnt++] = (uint32_t)i;
		w->shown[i] = 1;
	}
	if (!task_cnt)
		return;
	text_out__newline(&w->o);
	strbuf__addz(&w->b, loop < w->f->loop_cnt ? "Event loop" : "No event loop");
	if (loop < w->f->loop_cnt && w->f->loops[loop].tid)
		strbuf__addf(&w->b, " of thread %" PRIu32, w->f->loops[loop].tid);
	strbuf__addf(&w->b, ": %zu task%s", task_cnt, plural(task_cnt));
	put(w, SGR_BOLD);
	text_out__newline(&w->o);
	put_level(w, roots, cnt, 0);
}

int export_tasks__text(FILE *f, const struct task_forest *forest, bool all, bool color)
{
	struct writer w = { .f = forest, .all = all };
	uint32_t *roots = calloc(forest->task_cnt + 1, sizeof(*roots));
	int err;

	w.alike = calloc(forest->task_cnt + 1, sizeof(*w.alike));
	w.shown = calloc(forest->task_cnt + 1, 1);
	text_out__begin(&w.o, f, 0, color);
	if (!w.alike || !w.shown || !roots)
		w.err = -ENOMEM;
	for (size_t i = 0; i < forest->task_cnt && !w.err; i++)
		find_alike(&w, (uint32_t)i, 0);
	if (!w.err)
		put_head(&w);
	for (uint32_t i = 0; i <= forest->loop_cnt && !w.err; i++)
		put_loop(&w, i, roots);
	err = text_out__end(&w.o);
	strbuf__free(&w.b);
	free(w.alike);
	free(w.shown);
	free(roots);
	err = w.err ? w.err : err;
	return err;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_id(struct json *j, const char *key, uint64_t addr)
{
	char text[24]; /* a number in JSON is a double to many, of 53 bits */

	snprintf(text, sizeof(text), "0x%" PRIx64, addr);
	json__stringz(j, key, text);
}

static void json_tid(struct json *j, const char *key, uint32_t tid)
{
	if (tid)
		json__uint(j, key, tid);
	else
		json__null(j, key);
}

static void json_task(struct json *j, const struct task_forest *f, const struct forest_task *t)
{
	static const char *const states[] = {
		[TASK_RUNNING] = "running",
		[TASK_WAITING] = "waiting",
		[TASK_READY] = "ready",
		[TASK_NEW] = "new",
	};

	json__newline(j);
	json__object(j, NULL);
	json_id(j, "id", t->addr);
	if (profile__str_len(f->p, t->name))
		json__string(j, "name", profile__str(f->p, t->name),
			     profile__str_len(f->p, t->name));
	else
		json__null(j, "name");
	if (t->state == TASK_UNKNOWN)
		json__null(j, "state");
	else
		json__stringz(j, "state", states[t->state]);
	json_tid(j, "tid", t->tid);
	if (t->loop < f->loop_cnt)
		json__uint(j, "loop", t->loop);
	else
		json__null(j, "loop");
	json__bool(j, "consistent", !t->changing);
	json__bool(j, "complete", !t->cut && !t->awaiters_cut);
	json__array(j, "awaited_by");
	for (uint32_t i = 0; i < t->awaiter_cnt; i++)
		json_id(j, NULL, f->tasks[task_awaiters(f, t)[i]].addr);
	json__end(j, ']');
	json__array(j, "frames");
	for (uint32_t i = 0; i < task_frame_cnt(f, t); i++)
		export_threads__json_frame(j, f->p, task_frame(f, t, i));
	json__end(j, ']');
	json__end(j, '}');
}

int export_tasks__json(FILE *f, const struct task_forest *forest)
{
	struct json j = { .f = f };

	json__object(&j, NULL);
	export_threads__json_process(&j, forest->p);
	json__bool(&j, "complete", !forest->cut && !forest->cycle);
	json__array(&j, "loops");
	for (size_t i = 0; i < forest->loop_cnt; i++) {
		json__newline(&j);
		json__object(&j, NULL);
		json_id(&j, "id", forest->loops[i].addr);
		json_tid(&j, "tid", forest->loops[i].tid);
		json__end(&j, '}');
	}
	json__end(&j, ']');
	json__array(&j, "tasks");
	for (size_t i = 0; i < forest->task_cnt; i++)
		json_task(&j, forest, &forest->tasks[i]);
	json__end(&j, ']');
	json__end(&j, '}');
	fputc('\n', f);
	return stream__flush(f);
}
