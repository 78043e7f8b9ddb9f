/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Makes a profile like that of a large service and writes it in a format: what that costs.
 *
 *	bench_export STACKS FILE...
 *
 * Stacks are random walks through a made call graph of 4,000 Python functions, which call each
 * other through an interpreter's frames and end in native code or the kernel. The same number
 * gives the same profile. Prints seconds and the most memory that was resident, of the whole
 * program.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "export/export.h"

#define FUNCTIONS 4000
#define LINES	  6 /* of each that call */
#define CALLEES	  4
#define DEPTH	  45

static uint64_t state = 1;

/* xorshift64* (Vigna, 2016): the same everywhere */
static uint32_t random_below(uint32_t n)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (uint32_t)((state * 0x2545f4914f6cdd1dULL) >> 32) % n;
}

static struct profile *p;
static int python[FUNCTIONS][LINES], plumbing[3], native[200], kernel[40];
static uint16_t callees[FUNCTIONS][CALLEES];

static int add(struct sym s, const char *format, unsigned number, const char *file)
{
	char text[128];

	snprintf(text, sizeof(text), format, number);
	s.func = profile__intern_z(p, text);
	snprintf(text, sizeof(text), file, number % 97, number % 13);
	s.file = profile__intern_z(p, text);
	s.inlined = -1;
	return profile__add_sym(p, &s);
}

static void make_syms(void)
{
	static const char *const eval[] = { "_PyEval_EvalFrameDefault", "_PyFunction_Vectorcall",
					    "PyObject_Call" };
	int exe = profile__add_module(
		p, &(struct profile_module){ .path = profile__intern_z(p, "/usr/bin/python3.11") });
	int lib = profile__add_module(
		p,
		&(struct profile_module){ .path = profile__intern_z(p, "/srv/lib/libengine.so") });

	for (unsigned i = 0; i < FUNCTIONS; i++) {
		for (unsigned l = 0; l < LINES; l++)
			python[i][l] = add(
				(struct sym){ .kind = SYM_PYTHON,
					      .module = -1,
					      .line = 10 + 3 * l,
					      .start_line = 9 },
				"Service.<locals>.handler_%u", i,
				"/srv/app/venv/lib/python3.11/site-packages/package%u/module%u.py");
		for (unsigned c = 0; c < CALLEES; c++)
			callees[i][c] = (uint16_t)random_below(FUNCTIONS);
	}
	for (unsigned i = 0; i < 3; i++)
		plumbing[i] =
			add((struct sym){ .kind = SYM_NATIVE, .module = exe }, eval[i], i, "");
	for (unsigned i = 0; i < 200; i++)
		native[i] = add((struct sym){ .kind = SYM_NATIVE, .module = lib },
				"engine::detail::step_%u", i, "");
	for (unsigned i = 0; i < 40; i++)
		kernel[i] =
			add((struct sym){ .kind = SYM_KERNEL, .module = -1 }, "tcp_step_%u", i, "");
}

static void add_stack(int proc)
{
	uint64_t words[256];
	size_t cnt = 0;
	uint32_t function = random_below(3), depth = 5 + random_below(DEPTH - 5);

	for (uint32_t d = 0; d < depth; d++) {
		words[cnt++] =
			(uint64_t)python[function][random_below(8) ? 0 : random_below(LINES)];
		if (random_below(4) == 0)
			words[cnt++] = (uint64_t)plumbing[random_below(3)];
		/* mostly the first callee: some paths are hot */
		function = callees[function][random_below(3) ? 0 : random_below(CALLEES)];
	}
	for (uint32_t d = random_below(6); d > 0; d--)
		words[cnt++] = (uint64_t)native[random_below(200)];
	for (uint32_t d = random_below(8) ? 0 : 3; d > 0; d--)
		words[cnt++] = (uint64_t)kernel[random_below(40)];
	profile__add_stack(p, (uint32_t)proc, 1 + random_below(4), words, cnt,
			   1 + random_below(4) / 3 * random_below(20));
}

static int make_profile(size_t stacks)
{
	int procs[16];

	p = profile__new();
	if (!p)
		return -1;
	make_syms();
	for (uint32_t i = 0; i < 16; i++)
		procs[i] = profile__add_proc(
			p, &(struct profile_proc){
				   .space = i + 1,
				   .tgid = 1000 + i,
				   .comm = profile__intern_z(p, "service"),
				   .exe = profile__intern_z(p, "/usr/bin/python3.11"),
				   .python = profile__intern_z(p, "3.11.2"),
			   });
	for (size_t i = 0; p->stack_cnt < stacks && i < 4 * stacks; i++)
		add_stack(procs[random_below(16)]);
	p->frame_syms = calloc(p->frame_cnt + 1, sizeof(*p->frame_syms));
	for (size_t i = 0; p->frame_syms && i < p->frame_cnt; i++)
		p->frame_syms[i] = (uint32_t)p->frames[i];
	p->stats.values[0].frequency_hz = 99;
	p->stats.cpus = 16;
	p->stats.duration_ns = 60000000000;
	p->stats.counters[CTR_delivered] = p->stats.counters[CTR_counted] = profile__total(p);
	p->stats.counters[CTR_user_stacks] = p->stats.counters[CTR_complete] = profile__total(p);
	return p->frame_syms ? 0 : -1;
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void measure(const char *path)
{
	const struct export_opts o = { .lines = true, .threads = true };
	struct export_file *x = export__open(path, export__find(path));
	double begin = seconds();
	struct rusage before, after;
	struct stat st;

	getrusage(RUSAGE_SELF, &before);
	if (!x || export__commit(x, p, &o) || stat(path, &st))
		exit(1);
	getrusage(RUSAGE_SELF, &after);
	export__close(x);
	printf("%-24s %6.2f s CPU  %7.1f MiB more resident  %8.1f KiB\n", path, seconds() - begin,
	       (double)(after.ru_maxrss - before.ru_maxrss) / 1024, (double)st.st_size / 1024);
}

int main(int argc, char **argv)
{
	size_t stacks = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;

	if (make_profile(stacks))
		return 1;
	printf("%zu stacks, %zu frames, %" PRIu64 " samples\n", p->stack_cnt, p->frame_cnt,
	       profile__total(p));
	for (int i = 2; i < argc; i++)
		measure(argv[i]);
	profile__free(p);
	return 0;
}
