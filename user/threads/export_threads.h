/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_EXPORT_THREADS_H
#define PYPERF_EXPORT_THREADS_H
/*
 * The threads of one process, each with its state and stack, as text and as JSON.
 *
 *	Process 4711 (python3), Python 3.11.2, /usr/bin/python3.11
 *	2 threads, most recent call first
 *
 *	Thread 4711 "python3": running, holds the GIL
 *	    spin (/srv/app.py:12)
 *	    <module> (/srv/app.py:40)
 *
 *	Thread 4712 "python3": sleeping in clock_nanosleep
 *	    worker (/srv/app.py:20)
 *
 * Both need nothing but what they are given. All names are foreign, and made safe here.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/str.h"
#include "profile/export_text.h"
#include "profile/profile.h"

enum dumped_state {
	DUMPED_RUNNING = 0,  /* on a CPU */
	DUMPED_RUNNABLE = 1, /* waiting for a CPU */
	DUMPED_SLEEPING = 2,
	DUMPED_BLOCKED = 3, /* asleep in a way that no signal ends */
	DUMPED_STOPPED = 4,
	DUMPED_TRACED = 5,
	DUMPED_ENDED = 6,
};

enum dumped_gil {
	GIL_UNKNOWN = 0, /* or there is none, or Python does not know the thread */
	GIL_NONE = 1,	 /* neither has it nor waits for it */
	GIL_HOLDS = 2,
	GIL_WAITS = 3,
};

struct dumped_thread {
	uint32_t tid;
	str_id name;
	enum dumped_state state;
	int64_t syscall; /* the system call that it is in; negative: none, or not known */
	enum dumped_gil gil;
	int stack;	       /* index in the profile's stacks; negative: none */
	bool changing;	       /* the thread ran while its stack was read: it may be wrong */
	const char *waits_for; /* static; "lock": the word of a profile of waits; NULL: none */
};

struct dumped_process {
	const struct profile *p; /* symbolized; its first process is this one */
	const struct dumped_thread *threads;
	size_t thread_cnt;
	bool native; /* all frames, not only those of Python */
	/* A part of a text that is written as it is read. 0 and false: it is all. */
	size_t all_cnt;	   /* threads of the process */
	bool is_continued; /* the lines about the process stand above */
};

/* Lines are not cut. 0, -ENOMEM, or the error of the stream. */
int export_threads__text(FILE *f, const struct dumped_process *d, bool color);
/* One object; the manual page says what is in it. */
int export_threads__json(FILE *f, const struct dumped_process *d);

/* Parts of such an object: the first process of `p`, and one frame. */
struct json;
void export_threads__json_process(struct json *j, const struct profile *p);
void export_threads__json_frame(struct json *j, const struct profile *p, const struct sym *s);
/* An array of the objects that export_threads__json() writes. The same. */
int export_threads__json_all(FILE *f, const struct dumped_process *all, size_t cnt);

/* ---- parts, for export_groups.c ---- */

/* "sleeping in futex (waits: lock)" */
void thread_add_state(struct strbuf *b, const struct dumped_thread *t);
/* The frames that are shown, a line each. */
void thread_put_frames(struct text_out *o, const struct dumped_process *d,
		       const struct dumped_thread *t);
/* Appends a text that is the same for equal stacks. */
void thread_add_stack(struct strbuf *b, const struct dumped_process *d,
		      const struct dumped_thread *t);
/* "spin (/srv/app.py:12)": the innermost frame that is shown. */
void thread_add_place(struct strbuf *b, const struct dumped_process *d,
		      const struct dumped_thread *t);

#endif /* PYPERF_EXPORT_THREADS_H */
