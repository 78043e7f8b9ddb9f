/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Any bytes as a profile file: what is taken must come out of every format. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "export/export.h"
#include "import/import_build.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_indexes(const struct profile *p)
{
	for (size_t i = 0; i < p->frame_cnt; i++)
		if (p->frame_syms[i] >= p->sym_cnt)
			abort();
	for (size_t i = 0; i < p->stack_cnt; i++)
		if (p->stacks[i].proc >= p->proc_cnt ||
		    p->stacks[i].first + p->stacks[i].cnt > p->frame_cnt)
			abort();
	for (size_t i = 0; i < p->sym_cnt; i++)
		if (p->syms[i].module >= (int32_t)p->module_cnt || p->syms[i].inlined >= (int32_t)i)
			abort();
}

static void write_all(const struct profile *p)
{
	static const struct export_opts o = { .lines = true, .threads = true, .width = 80 };
	static const char *const suffixes[] = { "x.pb.gz", "x.folded",		"x.txt",
						"x.json",  "x.speedscope.json", "x.firefox.json" };
	FILE *f = fopen("/dev/null", "w");

	if (!f)
		abort();
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		if (export__find(suffixes[i])->write(p, &o, f))
			abort();
	fclose(f);
}

static int folded(struct import *im, const uint8_t *data, size_t size)
{
	return import_folded(im, (const char *)data, size);
}

static int perf(struct import *im, const uint8_t *data, size_t size)
{
	return import_perf(im, (const char *)data, size);
}

static int speedscope(struct import *im, const uint8_t *data, size_t size)
{
	return import_speedscope(im, (const char *)data, size);
}

/* By the content, as the commands do. */
static int any(struct import *im, const uint8_t *data, size_t size)
{
	return import__add_data(im, "fuzz", data, size);
}

static int (*const readers[])(struct import *im, const uint8_t *data, size_t size) = {
	import_pprof, folded, perf, speedscope, any,
};

/* What any() hands to one of the others as it is has been written by then. */
static bool is_new(size_t reader, const uint8_t *data, size_t size)
{
	return readers[reader] != any || (size > 1 && data[0] == 0x1f && data[1] == 0x8b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
		struct import *im = import__new(&(struct import_opts){ 0 });
		int err;

		if (!im)
			abort();
		im->path = "fuzz";
		err = readers[i](im, data, size);
		if (!err && !import__finish(im)) {
			check_indexes(import__profile(im));
			if (is_new(i, data, size))
				write_all(import__profile(im));
		}
		import__free(im);
	}
	return 0;
}
