/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_IMPORT_LOOPS_H
#define PYPERF_IMPORT_LOOPS_H
/*
 * What a saved profile says of event loops and tasks: the text of pprof.h, into the profile.
 */
#include <stddef.h>
#include <stdint.h>

#include "import/import_build.h"

/* What the numbers in the text name. */
struct loop_refs {
	void *ctx;
	/* The sym of a location id, or negative errno after a message. */
	int (*sym)(void *ctx, uint64_t location_id);
	/* The process of a sample; -1: none, so its loops are left out. */
	int (*proc)(void *ctx, uint64_t sample);
};

/* `text` is without its prefix. 0, -ENOMEM, or -EBADMSG after a message. */
int import_loops(struct import *im, const char *text, size_t len, const struct loop_refs *refs);

#endif /* PYPERF_IMPORT_LOOPS_H */
