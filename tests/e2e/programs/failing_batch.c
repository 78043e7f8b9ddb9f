/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * To be preloaded: while the file that $FAILING_BATCH names is there, libbpf's reading of counts
 * fails for want of memory, every time, or with an "s" in it every second time; or, with a "d", it
 * passes and is dear: a quarter of a second of CPU time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef int batch_fn(int fd, void *in, void *out, void *keys, void *values, uint32_t *cnt,
		     const void *opts);

batch_fn bpf_map_lookup_and_delete_batch;

#define DEAR_CLOCKS (CLOCKS_PER_SEC / 4)

static void be_dear(void)
{
	clock_t end = clock() + DEAR_CLOCKS;

	while (clock() < end)
		;
}

static int must_fail(void)
{
	static unsigned calls;
	FILE *f = fopen(getenv("FAILING_BATCH"), "re");
	int mode;

	if (!f)
		return 0;
	mode = fgetc(f);
	fclose(f);
	if (mode == 'd')
		be_dear();
	return mode == 's' ? calls++ % 2 : mode != 'd';
}

int bpf_map_lookup_and_delete_batch(int fd, void *in, void *out, void *keys, void *values,
				    uint32_t *cnt, const void *opts)
{
	static batch_fn *real;

	if (!real)
		real = (batch_fn *)dlsym(RTLD_NEXT, "bpf_map_lookup_and_delete_batch");
	if (must_fail()) {
		errno = ENOMEM;
		return -ENOMEM;
	}
	return real(fd, in, out, keys, values, cnt, opts);
}
