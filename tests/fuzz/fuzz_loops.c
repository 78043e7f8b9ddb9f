/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Any text as what a saved profile says of event loops and tasks: what is taken comes out of every
 * format that shows it, and out of the profile that is written with it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/export.h"
#include "import/import_build.h"
#include "import/import_loops.h"
#include "profile/loops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap);
extern const char *const fuzz_words[];

/* What the numbers name: four syms, of one process. */
static const char stacks[] = "_run_once (asyncio/base_events.py:1);select (selectors.py:2) 2\n"
			     "_run_once (asyncio/base_events.py:1);price (app.py:5) 3\n"
			     "_run_once (asyncio/base_events.py:1);get (app.py:6) 4\n";

static int sym(void *ctx, uint64_t location_id)
{
	const struct import *im = ctx;

	return location_id < im->p->sym_cnt ? (int)location_id : -EBADMSG;
}

static int proc(void *ctx, uint64_t sample)
{
	const struct import *im = ctx;

	return sample < im->p->proc_cnt ? (int)sample : -1;
}

static void check_stack(const struct profile *p, const struct profile_loop_stack *s)
{
	if (!s->cnt)
		return;
	if (s->cnt > p->loop_sym_cnt || s->first > p->loop_sym_cnt - s->cnt)
		abort();
	for (uint32_t i = 0; i < s->cnt; i++)
		if (p->loop_syms[s->first + i] >= p->sym_cnt)
			abort();
}

static void check_loops(const struct profile *p)
{
	for (size_t i = 0; i < p->loop_cnt; i++) {
		const struct profile_loop *l = &p->loops[i];

		check_stack(p, &l->poll);
		if (l->longest_cnt > LOOP_LONGEST + 1 || profile__find_proc(p, l->space) < 0)
			abort();
		for (uint32_t k = 0; k < l->longest_cnt; k++) {
			if (l->longest[k].stack_cnt > LOOP_STACKS)
				abort();
			for (uint32_t n = 0; n < l->longest[k].stack_cnt; n++)
				check_stack(p, &l->longest[k].stacks[n]);
		}
	}
	for (size_t i = 0; i < p->await_cnt; i++) {
		const struct profile_await *a = &p->awaits[i];

		check_stack(p, &a->stack);
		if (!a->looks || a->looks > a->of || profile__find_proc(p, a->space) < 0)
			abort();
	}
}

static void write_as(const struct profile *p, const char *suffix, FILE *f)
{
	static const struct export_opts o = { .lines = true, .threads = true, .width = 80 };

	if (!f || export__find(suffix)->write(p, &o, f))
		abort();
	fclose(f);
}

static size_t count_loops(const struct profile *p)
{
	const struct profile_loop **of = calloc(p->loop_cnt + 1, sizeof(*of));
	size_t cnt = of ? loops_list(p, of) : 0;

	free(of);
	return cnt;
}

/* A profile that was written can be read, and has all that a reader is shown. */
static void read_again(const struct profile *p)
{
	struct import *im = import__new(&(struct import_opts){ 0 });
	char *file = NULL;
	size_t size = 0;

	write_as(p, "x.pb.gz", open_memstream(&file, &size));
	if (!im || import__add_data(im, "fuzz", (const uint8_t *)file, size) || import__finish(im))
		abort();
	check_loops(import__profile(im));
	if (count_loops(import__profile(im)) != count_loops(p) ||
	    import__profile(im)->await_cnt != p->await_cnt)
		abort();
	import__free(im);
	free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct import *im = import__new(&(struct import_opts){ 0 });
	const struct loop_refs refs = { .ctx = im, .sym = sym, .proc = proc };

	if (!im)
		abort();
	im->path = "fuzz";
	if (import_folded(im, stacks, strlen(stacks)))
		abort();
	if (!import_loops(im, (const char *)data, size, &refs) && !import__finish(im)) {
		const struct profile *p = import__profile(im);

		check_loops(p);
		if (p->loop_cnt || p->await_cnt) {
			write_as(p, "x.txt", fopen("/dev/null", "w"));
			write_as(p, "x.json", fopen("/dev/null", "w"));
			read_again(p);
		}
	}
	import__free(im);
	return 0;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Numbers at and behind the bounds. */
const char *const fuzz_words[] = { " 0",
				   " 1",
				   " 2",
				   " 3",
				   " 20",
				   " 256",
				   " 257",
				   " 4294967295",
				   " 4294967296",
				   " 9223372036854775807",
				   " 18446744073709551615",
				   " 18446744073709551616",
				   " 1 0 7 20 900 3 700 0 0 0 0",
				   " 2 0 1 5 9 0 40 3 0 2 0 1",
				   NULL };

/* A loop with as many buckets, iterations and stacks of an iteration. */
static size_t seed_loop(unsigned buckets, unsigned iterations, unsigned of_one, uint8_t *buf,
			size_t cap)
{
	FILE *f = fmemopen(buf, cap, "w");
	size_t size;

	if (!f)
		abort();
	fprintf(f, " 1 0 7 20 900 3 700 %u", buckets);
	for (unsigned i = 0; i < buckets; i++)
		fputs(" 5", f);
	fprintf(f, " 0 2 0 1 %u", iterations);
	for (unsigned i = 0; i < iterations; i++) {
		fprintf(f, " 250 340 0 %u", of_one);
		for (unsigned k = 0; k < of_one; k++)
			fputs(" 10 1 2", f);
	}
	size = (size_t)ftell(f);
	fclose(f);
	return size;
}

/* As many as there may be, and one more of each. */
static size_t seed_at_bound(size_t i, uint8_t *buf, size_t cap)
{
	return i > 3 ? 0
		     : seed_loop(LOOP_BUCKETS + (i == 1), LOOP_LONGEST + 1 + (i == 2),
				 LOOP_STACKS + (i == 3), buf, cap);
}

size_t fuzz_seed(size_t i, uint8_t *buf, size_t cap)
{
	static const char *const seeds[] = {
		/* a loop with a histogram of 3, a poll of 2 frames, an iteration of 2 stacks */
		" 1 0 7 20 900000000 3 700000000 3 0 12 3 5000 2 0 1"
		" 1 250000000 340000000 0 2 290000000 2 0 1 10000000 1 2",
		/* a place of tasks */
		" 2 0 1 5 9 0 40 3 0 2 0 1",
		" 1 0 7 20 900 3 700 0 0 0 0 2 0 0 9 9 1 40 3 0 1 2 2 0 1 1 1 0 1 0 0 1 1",
		/* of no process */
		" 1 9 7 20 900 3 700 1 1 5 1 0 1 2 3 1 1 5 1 2",
	};
	const size_t cnt = sizeof(seeds) / sizeof(seeds[0]);

	if (i >= cnt)
		return seed_at_bound(i - cnt, buf, cap);
	if (strlen(seeds[i]) > cap)
		return 0;
	memcpy(buf, seeds[i], strlen(seeds[i]));
	return strlen(seeds[i]);
}
