/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Speed and size of unwind tables: the best of a few builds of each file.
 *
 *	bench_ehframe [FILE...]		default: the program itself
 */
#include "elf/ehframe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define RUNS 7

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static struct unwind_table *best_of(const struct elf_file *ef, double *best)
{
	struct unwind_table *t = NULL;

	*best = 1e9;
	for (int i = 0; i < RUNS; i++) {
		double start = now_s(), took;

		unwind_table__free(t);
		t = unwind_table__build(ef);
		took = now_s() - start;
		if (!t)
			return NULL;
		if (took < *best)
			*best = took;
	}
	return t;
}

static void print_row(const char *path, const struct unwind_table *t, double took)
{
	const struct unwind_stats *s = &t->stats;
	struct unwind_header h;
	struct rusage ru;

	memcpy(&h, t->words, sizeof(h));
	getrusage(RUSAGE_SELF, &ru);
	printf("%8.1f %7.1f %7.0f %8" PRIu64 " %8" PRIu64 " %6u %7" PRIu64
	       " %7.2f %7.1f %7ld  %s\n",
	       (double)s->eh_bytes / 1024, took * 1e3, (double)s->eh_bytes / took / 1e6, s->fde_cnt,
	       s->row_cnt, h.rule_cnt, s->row_inexpressible,
	       4.0 * (double)t->word_cnt / (double)s->row_cnt, 4.0 * (double)t->word_cnt / 1024,
	       ru.ru_maxrss / 1024, path);
}

static int bench(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf_file *ef = fd >= 0 ? elf_file__open(fd, path) : NULL;
	struct unwind_table *t;
	double took;

	t = ef ? best_of(ef, &took) : NULL;
	if (t)
		print_row(path, t, took);
	else
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
	unwind_table__free(t);
	elf_file__close(ef);
	return t ? 0 : 1;
}

int main(int argc, char **argv)
{
	int failed = 0;

	printf("%8s %7s %7s %8s %8s %6s %7s %7s %7s %7s  %s\n", "KiB in", "ms", "MB/s", "FDEs",
	       "rows", "rules", "no rule", "B/row", "KiB out", "RSS MiB", "file");
	if (argc < 2)
		return bench("/proc/self/exe");
	for (int i = 1; i < argc; i++)
		failed |= bench(argv[i]);
	return failed;
}
