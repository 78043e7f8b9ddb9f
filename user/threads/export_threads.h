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

#include "profile/profile.h"

enum dumped_state {
	DUMPED_RUNNING = 0,  /* on a CPU */
	DUMPED_RUNNABLE = 1, /* waiting for one */
	DUMPED_SLEEPING = 2,
	DUMPED_BLOCKED = 3, /* asleep, and no signal wakes it */
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
	int64_t syscall; /* that it is in; negative: none, or not known */
	enum dumped_gil gil;
	int stack;     /* index in the profile's stacks; negative: none */
	bool changing; /* the thread ran while its stack was read: it may be wrong */
};

struct dumped_process {
	const struct profile *p; /* symbolized; its first process is the one */
	const struct dumped_thread *threads;
	size_t thread_cnt;
	bool native; /* all frames, not only those of Python */
};

/* Lines are not cut. 0, -ENOMEM, or the error of the stream. */
int export_threads__text(FILE *f, const struct dumped_process *d, bool color);
/* One object; the manual page says what is in it. */
int export_threads__json(FILE *f, const struct dumped_process *d);

#endif /* PYPERF_EXPORT_THREADS_H */
