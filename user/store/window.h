/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_WINDOW_H
#define PYPERF_AGENT_WINDOW_H
/*
 * The samples of one service in one window: the unit that the agent makes, stores and pushes.
 *
 * A window is complete when it is made, and never changes. Its id is made of host, service and
 * start, so a receiver can recognise a duplicate. A caller that passes on a window owns all of it
 * until the call returns.
 */
#include <stddef.h>
#include <stdint.h>

#define WINDOW_ID_LEN 32 /* lower-case hex digits */

struct label {
	const char *name;  /* [a-zA-Z_][a-zA-Z0-9_]*, see window_label__valid() */
	const char *value; /* UTF-8 without control characters, never NULL */
};

struct window {
	char id[WINDOW_ID_LEN + 1];
	uint64_t start_unix_ns;
	uint64_t duration_ns;
	/* Sorted by name, no name twice; "service_name" and "host" among them. */
	const struct label *labels;
	size_t label_cnt;
	uint64_t samples;
	uint32_t frequency_hz;
	const void *pprof; /* gzip-compressed, as export__pprof() writes it */
	size_t pprof_size;
};

/* The value of a label, or NULL. Borrowed from the window. */
const char *window__label(const struct window *w, const char *name);

/* Is the name valid for every backend: 1 to 128 of the characters above? */
int window_label__valid(const char *name);

#endif /* PYPERF_AGENT_WINDOW_H */
