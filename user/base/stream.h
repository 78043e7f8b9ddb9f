/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_STREAM_H
#define PYPERF_STREAM_H
/*
 * Writes to a stream, and says why it failed. A stream keeps that it failed, but not why, and errno
 * is soon of something else.
 *
 *	err = stream__put(stdout, line.s, line.len);
 *	err = stream__flush(stdout);	"No space left on device"
 */
#include <stddef.h>
#include <stdio.h>

/* 0 or negative errno. */
int stream__put(FILE *f, const char *s, size_t len);
/* Writes what is left. 0, or negative errno if anything was not written, now or before. */
int stream__flush(FILE *f);

#endif /* PYPERF_STREAM_H */
