/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_TOPVIEW_H
#define PYPERF_TOPVIEW_H
/*
 * The view of `top` on a model, and its keys: which value type, which table of which process, how
 * it is sorted and filtered, where the cursor is. Draws on a canvas; needs no terminal.
 *
 *	pyperf-bpf top - 0:42, 99 Hz on 8 CPUs, every 1 s
 *	792 samples asked, 790 delivered = 198 counted + 592 filtered + 0 lost; 99.9% complete
 *	4 processes, 199.0% CPU
 *
 *	    PID   CPU%    CPU s  THR PYTHON   COMMAND
 *	   4211   99.0    41.58    1 3.11.2   python3 worker.py --fast
 *	...
 *	q quit  h help  Enter open  ...
 *
 * The cursor stays on the first row until it is moved; then it stays with the process, thread or
 * function that it is on.
 */
#include <stdbool.h>
#include <stdint.h>

#include "profile/profile.h"
#include "top/canvas.h"
#include "top/topmodel.h"

/* Keys that are not characters. */
enum top_key {
	TOP_KEY_NONE = 0,
	TOP_KEY_ENTER = '\r',
	TOP_KEY_ESCAPE = 27,
	TOP_KEY_BACKSPACE = 127,
	TOP_KEY_UP = 0x110000, /* above every character */
	TOP_KEY_DOWN,
	TOP_KEY_LEFT,
	TOP_KEY_RIGHT,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_HELP,
	TOP_KEY_OTHER,
};

/* The state of the run, which is not in the model. */
struct top_status {
	uint32_t frequency_hz;	   /* as asked for; 0: not asked for */
	uint64_t every_ns;	   /* between two pictures, as asked for */
	struct profile_stats now;  /* value types, CPUs; counters since the start */
	struct profile_stats last; /* ... of the last interval; duration_ns, too */
	const char *message;	   /* in the place of the help line; "": none */
};

struct topview;

/* Starts with the processes. NULL and errno on lack of memory. */
struct topview *topview__new(bool native);
void topview__free(struct topview *v);

/* Handles a key. False: quit. */
bool topview__key(struct topview *v, const struct topmodel *m, uint32_t key);
/* The user has paused it: do not add intervals. */
bool topview__paused(const struct topview *v);
/* The process whose threads are shown, to be set in the model; 0: none. */
uint32_t topview__process(const struct topview *v);

/* 0 or -ENOMEM. */
int topview__draw(struct topview *v, struct topmodel *m, const struct top_status *st,
		  struct canvas *c);

#endif /* PYPERF_TOPVIEW_H */
