/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/generated.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/perf_rings.h"
#include "process/maps_read.h"

#define HZ	    499
#define ENOUGH	    20	 /* samples */
#define SAMPLES_MAX 4096 /* between two looks */

/* PERF_SAMPLE_IP | PERF_SAMPLE_TID */
struct sample {
	struct perf_event_header header;
	uint64_t ip;
	uint32_t pid, tid;
};

struct generated {
	pid_t pid;
	int proc_fd;
	struct readers *readers;
	struct exec_maps maps;
	struct perf_rings *rings;
	uint64_t ips[SAMPLES_MAX];
	size_t ip_cnt;
	uint64_t in, all;
};

struct generated *generated__new(pid_t pid, struct readers *readers)
{
	struct perf_event_attr attr = { .size = sizeof(attr),
					.type = PERF_TYPE_SOFTWARE,
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.freq = 1,
					.sample_freq = HZ,
					.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID,
					.exclude_kernel = 1 };
	struct generated *g = calloc(1, sizeof(*g));
	bool opened = false;
	char path[32];

	if (!g)
		return NULL;
	snprintf(path, sizeof(path), "/proc/%d", pid);
	g->pid = pid;
	g->readers = readers;
	g->proc_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	g->rings = perf_rings__new(&attr, 1);
	for (int i = 0; g->rings && i < perf_rings__cnt(g->rings); i++)
		opened |= !perf_rings__open(g->rings, i);
	if (opened && g->proc_fd >= 0)
		return g;
	generated__free(g);
	return NULL;
}

void generated__free(struct generated *g)
{
	if (!g)
		return;
	perf_rings__free(g->rings);
	if (g->proc_fd >= 0)
		close(g->proc_fd);
	exec_maps__free(&g->maps);
	free(g);
}

static void take_sample(void *ctx, const struct perf_event_header *record)
{
	struct generated *g = ctx;
	struct sample s;

	if (record->type != PERF_RECORD_SAMPLE || record->size != sizeof(s))
		return;
	memcpy(&s, record, sizeof(s));
	if (s.pid == (uint32_t)g->pid && g->ip_cnt < SAMPLES_MAX)
		g->ips[g->ip_cnt++] = s.ip;
}

static const struct map_line *line_of(const struct generated *g, uint64_t ip)
{
	for (size_t i = 0; i < g->maps.cnt; i++)
		if (ip >= g->maps.lines[i].start && ip < g->maps.lines[i].end)
			return &g->maps.lines[i];
	return NULL;
}

void generated__look(struct generated *g)
{
	if (!g)
		return;
	perf_rings__read(g->rings, take_sample, g);
	/* What is left when the process has ended cannot be told apart. */
	if (g->ip_cnt && !exec_maps__ask(&g->maps, g->readers, (uint32_t)g->pid, g->proc_fd)) {
		for (size_t i = 0; i < g->ip_cnt; i++) {
			const struct map_line *line = line_of(g, g->ips[i]);

			g->all += line != NULL;
			g->in += line && !line->inode && !line->name_len;
		}
	}
	g->ip_cnt = 0;
}

double generated__share(const struct generated *g, double least)
{
	double in = g ? (double)g->in : 0, all = g ? (double)g->all : 0;

	if (all < ENOUGH || 100 * (in - 2 * sqrt(in)) < least * all)
		return -1;
	return 100 * in / all;
}
