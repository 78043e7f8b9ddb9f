/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * How other tools for Python write folded stacks. One line of each:
 *
 *	py-spy	process 9:"python3 app.py";thread (9): MainThread;main (app.py:3);f (lib.so) 12
 *		the first two elements are there if it was asked for them
 *	austin	P9;T0:9;/srv/app.py:main:3;... 12		T is INTERPRETER:THREAD
 *	CPython	tid:9;app.py:main:3;...;<GC> 12			profiling.sampling --collapsed
 */
#include "import/import_text.h"

#include <string.h>

/* ---- py-spy ---- */

/* 'process 9:"python3 app.py"'; a command line may hold the ';' at which the line was split. */
static size_t pyspy_process(const struct text *elems, size_t cnt, size_t at, struct head *h)
{
	static const char start[] = "process ";
	struct text t = elems[at], number;
	size_t colon = text__find(t, ":\"", false);

	if (!text__begins(t, start) || colon == t.len)
		return at;
	number = text__part(t, strlen(start), colon);
	if (!text__number(number, 10, &h->tgid) || h->tgid > UINT32_MAX)
		return at;
	h->process = text__part(t, colon + 2, t.len);
	for (size_t end = at; end < cnt; end++) {
		size_t past = (size_t)(elems[end].s + elems[end].len - h->process.s);

		if (!text__ends(elems[end], "\"") || (end == at && t.len == colon + 2))
			continue;
		h->process.len = past - 1;
		return end + 1;
	}
	return at;
}

/* "thread (9): MainThread" */
static bool pyspy_thread(struct text t, struct head *h)
{
	static const char start[] = "thread (";
	size_t close = text__find(t, ")", false);
	uint64_t tid;

	if (!text__begins(t, start) || close == t.len ||
	    !text__number(text__part(t, strlen(start), close), 10, &tid) || !tid ||
	    tid > THREAD_TID(UINT32_MAX))
		return false;
	h->tid = THREAD_WORD((uint32_t)tid, 0);
	h->thread = text__trim(text__part(t, close + 1 + (close + 1 < t.len), t.len));
	return true;
}

/*
 * "main (app.py:3)", "SHA256_Final (libcrypto.so.3)". Python names have no blank; C++ has them and
 * parentheses, but then its file has none.
 */
static bool pyspy_frame(struct text t, struct frame *f)
{
	size_t at = text__find(t, " (", false);

	*f = (struct frame){ .func = t };
	if (!text__ends(t, ")") || at == t.len || !at)
		return false;
	if (memchr(t.s, '(', at))
		at = text__find(t, " (", true);
	f->func = text__part(t, 0, at);
	frame__set_place(f, text__part(t, at + 2, t.len - 1));
	if (!f->file.len)
		return false;
	frame__set_kind_by_file(f);
	return true;
}

static bool pyspy_head(const struct text *elems, size_t cnt, struct head *h)
{
	struct frame f;
	size_t at;

	*h = (struct head){ 0 };
	/* Of a child there are those that started it, too: the last is its own. */
	for (; h->first < cnt; h->first = at) {
		at = pyspy_process(elems, cnt, h->first, h);
		if (at == h->first)
			break;
	}
	if (h->first < cnt && pyspy_thread(elems[h->first], h))
		h->first++;
	/* Ours begin with a name, which has no line of a file behind it. */
	return h->first || (pyspy_frame(elems[0], &f) && (f.line || text__ends(f.file, ".py")));
}

/* ---- austin and profiling.sampling ---- */

/* "path:function:LINE", split from the right: a path may hold a colon. */
static bool colon_frame(struct text t, struct frame *f)
{
	size_t line = text__find(t, ":", true), func;
	uint64_t number;

	*f = (struct frame){ .kind = SYM_MARKER, .func = t };
	if (line == t.len || !text__number(text__part(t, line + 1, t.len), 10, &number) ||
	    number > UINT32_MAX)
		return false;
	func = text__find(text__part(t, 0, line), ":", true);
	if (func == line)
		return false;
	f->func = text__part(t, func + 1, line);
	f->file = text__part(t, 0, func);
	f->line = (uint32_t)number;
	frame__set_kind_by_file(f);
	return f->func.len;
}

/* ":GC:", ":INVALID:" */
static bool austin_special(struct text t, struct frame *f)
{
	if (t.len < 3 || *t.s != ':' || t.s[t.len - 1] != ':')
		return false;
	*f = (struct frame){ .kind = SYM_MARKER, .func = text__part(t, 1, t.len - 1) };
	if (text__is(f->func, "GC"))
		f->func = (struct text){ "garbage collection", strlen("garbage collection") };
	return true;
}

static bool austin_frame(struct text t, struct frame *f)
{
	if (austin_special(t, f))
		return true;
	if (!colon_frame(t, f))
		return false;
	if (text__is(f->file, "kernel")) {
		f->kind = SYM_KERNEL;
		f->file.len = f->module.len = 0;
		f->line = 0;
	}
	return true;
}

/* "P9;T0:9" or, before interpreters were told apart, "P9;T9" */
static bool austin_head(const struct text *elems, size_t cnt, struct head *h)
{
	uint64_t interp = 0, tid;
	struct text t;
	size_t colon;

	*h = (struct head){ .first = 2 };
	if (cnt < 2 || !text__begins(elems[0], "P") || !text__begins(elems[1], "T") ||
	    !text__number(text__part(elems[0], 1, elems[0].len), 10, &h->tgid) ||
	    h->tgid > UINT32_MAX)
		return false;
	t = text__part(elems[1], 1, elems[1].len);
	colon = text__find(t, ":", false);
	if (colon < t.len && !text__number(text__part(t, 0, colon), 10, &interp))
		return false;
	if (!text__number(text__part(t, colon < t.len ? colon + 1 : 0, t.len), 16, &tid))
		return false;
	/* On Linux a decimal thread id, elsewhere a hexadecimal handle, which is too large. */
	if (text__number(text__part(t, colon < t.len ? colon + 1 : 0, t.len), 10, &tid) && tid &&
	    tid <= THREAD_TID(UINT32_MAX) && interp <= THREAD_INTERP_MAX)
		h->tid = THREAD_WORD((uint32_t)tid, (uint32_t)interp);
	if (tid == h->tgid)
		h->thread = (struct text){ "MainThread", strlen("MainThread") };
	return true;
}

/* "<GC>", "<native>" and other frames that are no code have no file. */
static bool sampling_frame(struct text t, struct frame *f)
{
	if (colon_frame(t, f))
		return true;
	*f = (struct frame){ .kind = SYM_MARKER, .func = t };
	if (text__is(t, "<GC>"))
		f->func = (struct text){ "garbage collection", strlen("garbage collection") };
	else if (text__begins(t, "<") && text__ends(t, ">"))
		f->func = text__part(t, 1, t.len - 1);
	return f->func.len;
}

/* "tid:9"; where it is a handle that is too large for a thread id, threads are not told apart. */
static bool sampling_head(const struct text *elems, size_t cnt, struct head *h)
{
	static const char start[] = "tid:";
	uint64_t tid;

	*h = (struct head){ .first = 1 };
	if (!cnt || !text__begins(elems[0], start) ||
	    !text__number(text__part(elems[0], strlen(start), elems[0].len), 10, &tid))
		return false;
	h->tid = tid && tid <= THREAD_TID(UINT32_MAX) ? THREAD_WORD((uint32_t)tid, 0) : 0;
	return true;
}

const struct dialect import_dialects[] = {
	{ "py-spy", pyspy_head, pyspy_frame },
	{ "austin", austin_head, austin_frame },
	{ "profiling.sampling", sampling_head, sampling_frame },
};
const size_t import_dialect_cnt = sizeof(import_dialects) / sizeof(import_dialects[0]);
