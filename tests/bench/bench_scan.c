/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * How long the start takes: scans with N Python processes (default 100) and M others (default 200),
 * and what one new mapping costs. Root. bench_scan [N [M [PYTHON]]]
 * NO_READERS in the environment: no other process opens files.
 */
#include <time.h>

#include "bpf/process_fixture.h"
#include "unit/pythons.h"

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Of this process: what the time would be on an idle machine, but for waiting. */
static double cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static pid_t start_other(void)
{
	pid_t pid = fork();

	if (!pid) {
		execl("/bin/sleep", "sleep", "1000", (char *)NULL);
		_exit(127);
	}
	return pid;
}

static void measure(const char *what, struct process_opts opts, pid_t pid)
{
	struct file_stats fs;
	struct process_stats st;
	struct process_table *pt;
	struct process *p;
	struct fixture fx;
	double start, cpu;

	if (fixture_open(&fx))
		return;
	opts.readers = getenv("NO_READERS") ? NULL : readers__new();
	readers__start(opts.readers);
	start = now_ms();
	cpu = cpu_ms();
	pt = process_table__new(&fx.maps, symbolizer__sink(fx.sym), &opts);
	process_table__scan(pt);
	printf("%s: scan %.1f ms, %.1f ms of CPU\n", what, now_ms() - start, cpu_ms() - cpu);
	process_table__stats(pt, &st);
	process_table__file_stats(pt, &fs);
	printf("  %llu processes, %llu Python; %llu files, %llu opened; %llu tables of %.1f MiB, "
	       "built in %.1f ms, handed over in %.1f ms; %llu mappings\n",
	       (unsigned long long)st.live, (unsigned long long)st.python,
	       (unsigned long long)fs.files, (unsigned long long)fs.opened,
	       (unsigned long long)fs.tables, (double)fs.table_bytes / (1 << 20),
	       (double)fs.table_ns / 1e6, (double)fs.publish_ns / 1e6,
	       (unsigned long long)st.mappings_used);
	cpu = cpu_ms();
	process_table__on_mmap(pt, &(struct mmap_event){ .type = MMAP_EVENT_LOST });
	process_table__refresh(pt);
	printf("  everything again: %.1f ms of CPU\n", cpu_ms() - cpu);
	cpu = cpu_ms();
	for (int i = 0; i < 100; i++) {
		p = process_table__find_tgid(pt, (uint32_t)pid);
		process_table__on_mmap(pt, &(struct mmap_event){ .type = MMAP_EVENT_MMAP,
								 .tgid = p->tgid,
								 .inode = 1,
								 .time_ns = UINT64_MAX });
		process_table__refresh(pt);
	}
	printf("  one process again: %.0f us of CPU\n", (cpu_ms() - cpu) * 10);
	symbolizer__free(fx.sym);
	fx.sym = NULL;
	process_table__free(pt);
	readers__free(opts.readers);
	fixture_close(&fx);
}

int main(int argc, char **argv)
{
	int pythons = argc > 1 ? atoi(argv[1]) : 100, others = argc > 2 ? atoi(argv[2]) : 200;
	struct child *c = calloc((size_t)pythons + 1, sizeof(*c));
	pid_t *o = calloc((size_t)others + 1, sizeof(*o));
	struct pythons found = { 0 };

	pythons_find(&found);
	for (int i = 0; i < pythons; i++) {
		/* With some extension modules; by turns of all versions unless one is named. */
		const char *python =
			argc > 3 ? argv[3] : found.path[(size_t)i % (found.cnt ? found.cnt : 1)];

		if (child_start(&c[i], python))
			return 1;
		child_ask(&c[i], "import ctypes, json, hashlib, socket, ssl, decimal, sqlite3");
	}
	for (int i = 0; i < others; i++)
		o[i] = start_other();
	for (int i = 0; i < 3; i++)
		measure("Python only", (struct process_opts){ 0 }, c[0].pid);
	measure("all", (struct process_opts){ .all = true }, c[0].pid);
	for (int i = 0; i < others; i++) {
		kill(o[i], SIGKILL);
		waitpid(o[i], NULL, 0);
	}
	for (int i = 0; i < pythons; i++)
		child_stop(&c[i]);
	pythons_free(&found);
	free(c);
	free(o);
	return 0;
}
