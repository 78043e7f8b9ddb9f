/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Calls in Chrome's trace event format, an array in JSON that Perfetto's page, chrome://tracing and
 * speedscope show as a timeline:
 *
 *	[{"ph":"M","pid":4711,"tid":4711,"name":"thread_name","args":{"name":"python3"}}
 *	,{"ph":"B","pid":4711,"tid":4711,"ts":12.104,"name":"price","args":{"file":...,"line":5}}
 *	,{"ph":"E","pid":4711,"tid":4711,"ts":15.87,"name":"price","args":{}}
 *	]
 *
 * Times are microseconds since the trace began. On one track a viewer nests all that overlaps. Of
 * one thread only greenlets overlap without one having called the other: the outermost calls of
 * theirs that are open at the same time have tracks of their own, whose numbers are no thread's.
 */
#include <stdlib.h>
#include <string.h>

#include "trace/timing_parts.h"

#define TRACKS_MAX  64
#define TRACK_SHIFT 22 /* beyond the number of any thread: PID_MAX_LIMIT is 4,194,304 */

static void begin_event(struct timing *t, struct json *j, const char *phase, uint32_t tgid,
			uint64_t tid)
{
	fputc(timing__heads(t) ? '[' : ',', stdout);
	json__object(j, NULL);
	json__stringz(j, "ph", phase);
	json__uint(j, "pid", tgid);
	json__uint(j, "tid", tid);
}

static void end_event(struct json *j)
{
	json__end(j, '}');
	fputc('\n', stdout);
}

static void write_name(struct timing *t, uint32_t tgid, uint64_t tid, const char *what,
		       const char *name)
{
	struct json j = { .f = stdout };

	begin_event(t, &j, "M", tgid, tid);
	json__stringz(&j, "name", what);
	json__object(&j, "args");
	json__stringz(&j, "name", name);
	json__end(&j, '}');
	end_event(&j);
}

/* The names of a thread and, with its first thread, of a process. NULL: no room. */
static struct thread_name *tell_names(struct timing *t, const struct activation *a)
{
	uint32_t tgid = a->tgid, tid = a->tid;
	struct thread_name *n = thread_names__of(&t->threads, tgid, tgid);

	if (n && !n->told) {
		n->told = true;
		write_name(t, tgid, tgid, "process_name",
			   t->blocks ? blocks__name(t->blocks, (pid_t)tgid, a->start_ns) : n->name);
		write_name(t, tgid, tgid, "thread_name", n->name);
	}
	if (tid == tgid)
		return n;
	n = thread_names__of(&t->threads, tgid, tid);
	if (n && !n->told) {
		n->told = true;
		write_name(t, tgid, tid, "thread_name", n->name);
	}
	return n;
}

static uint64_t number_of(uint32_t tid, unsigned track)
{
	return tid + ((uint64_t)track << TRACK_SHIFT);
}

static unsigned track_of(const struct activation *a)
{
	return a->note ? *(const unsigned *)a->note : 0;
}

/* The first one that no other outermost call of the thread has. */
static unsigned take_track(struct timing *t, const struct activation *a, struct thread_name *n)
{
	unsigned track = 0;
	char name[64];

	while (track < TRACKS_MAX - 1 && n->tracks >> track & 1)
		track++;
	n->tracks |= 1ULL << track;
	if (!track)
		return 0;
	snprintf(name, sizeof(name), "%s, greenlet %u", n->name, track);
	write_name(t, a->tgid, number_of(a->tid, track), "thread_name", name);
	return track;
}

/* Without memory all are on the track of their thread. */
static unsigned choose_track(struct timing *t, struct activation *a)
{
	struct thread_name *n = tell_names(t, a);
	unsigned track = a->below ? track_of(a->below) : n ? take_track(t, a, n) : 0;

	a->note = track ? malloc(sizeof(track)) : NULL;
	if (!a->note)
		return 0;
	memcpy(a->note, &track, sizeof(track));
	return track;
}

static void release_track(struct timing *t, const struct activation *a)
{
	struct thread_name *n = a->below ? NULL : thread_names__of(&t->threads, a->tgid, a->tid);

	if (n)
		n->tracks &= ~(1ULL << track_of(a));
}

static void add_time(struct timing *t, struct json *j, uint64_t ns)
{
	if (ns > t->latest_ns)
		t->latest_ns = ns;
	json__double(j, "ts", ns > t->start_ns ? (double)(ns - t->start_ns) / 1e3 : 0);
}

static bool is_plain(enum pairs_how how)
{
	return how == PAIRS_CALL || how == PAIRS_RETURN || how == PAIRS_LEFT;
}

void timing_chrome__begin(struct timing *t, struct activation *a, const struct py_function *f,
			  enum pairs_how how)
{
	unsigned track = choose_track(t, a);
	struct json j = { .f = stdout };

	begin_event(t, &j, "B", a->tgid, number_of(a->tid, track));
	add_time(t, &j, a->start_ns);
	json__string(&j, "name", f->name, f->name_len);
	json__object(&j, "args");
	json__string(&j, "file", f->file, f->file_len);
	json__uint(&j, "line", f->first_line);
	if (!is_plain(how))
		json__stringz(&j, "begins", timing_hows[how]);
	timing__values_json(t, &j, a, f, how);
	json__end(&j, '}');
	end_event(&j);
}

void timing_chrome__end(struct timing *t, const struct activation *a, const struct py_function *f,
			enum pairs_how how, const struct pairs_times *times)
{
	struct json j = { .f = stdout };

	begin_event(t, &j, "E", a->tgid, number_of(a->tid, track_of(a)));
	add_time(t, &j, how == PAIRS_LOST ? t->latest_ns : times->at_ns);
	json__string(&j, "name", f->name, f->name_len); /* speedscope ends no other one's */
	json__object(&j, "args");
	if (!is_plain(how))
		json__stringz(&j, "ends", timing_hows[how]);
	timing__values_json(t, &j, a, f, how);
	json__end(&j, '}');
	end_event(&j);
	release_track(t, a);
}

void timing_chrome__write_lost(struct timing *t, uint32_t cnt)
{
	struct json j = { .f = stdout };
	char name[64];

	snprintf(name, sizeof(name), "%u events were lost here", cnt);
	begin_event(t, &j, "i", 0, 0);
	add_time(t, &j, t->latest_ns);
	json__stringz(&j, "s", "g"); /* of all processes */
	json__stringz(&j, "name", name);
	end_event(&j);
}

void timing__end_lines(enum timing_format format, bool any)
{
	if (format == TIMING_CHROME)
		fputs(any ? "]\n" : "[]\n", stdout);
}
