/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/generated.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/libbpf.h>

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
	struct cpu {
		int fd;
		uint8_t *base; /* a control page, then one of data; NULL: there is none */
	} * cpus;
	int cpu_cnt;
	size_t page;
	uint64_t ips[SAMPLES_MAX];
	size_t ip_cnt;
	uint64_t in, all;
};

/* 0: it is offline, or there is no such event. */
static int open_cpu(struct generated *g, int cpu)
{
	struct perf_event_attr attr = { .size = sizeof(attr),
					.type = PERF_TYPE_SOFTWARE,
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.freq = 1,
					.sample_freq = HZ,
					.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID,
					.exclude_kernel = 1 };
	struct cpu *c = &g->cpus[cpu];

	c->fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (c->fd < 0)
		return 0;
	c->base = mmap(NULL, 2 * g->page, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
	if (c->base != MAP_FAILED)
		return 1;
	c->base = NULL;
	return 0;
}

struct generated *generated__new(pid_t pid, struct readers *readers)
{
	struct generated *g = calloc(1, sizeof(*g));
	int cnt = libbpf_num_possible_cpus(), opened = 0;
	char path[32];

	if (!g)
		return NULL;
	snprintf(path, sizeof(path), "/proc/%d", pid);
	g->pid = pid;
	g->readers = readers;
	g->page = (size_t)sysconf(_SC_PAGESIZE);
	g->proc_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	g->cpus = cnt > 0 ? calloc((size_t)cnt, sizeof(*g->cpus)) : NULL;
	for (int i = 0; i < cnt && g->cpus; i++, g->cpu_cnt++)
		opened += open_cpu(g, i);
	if (opened && g->proc_fd >= 0)
		return g;
	generated__free(g);
	return NULL;
}

void generated__free(struct generated *g)
{
	if (!g)
		return;
	for (int i = 0; i < g->cpu_cnt; i++) {
		if (g->cpus[i].base)
			munmap(g->cpus[i].base, 2 * g->page);
		if (g->cpus[i].fd >= 0)
			close(g->cpus[i].fd);
	}
	if (g->proc_fd >= 0)
		close(g->proc_fd);
	exec_maps__free(&g->maps);
	free(g->cpus);
	free(g);
}

/* A record may wrap around the end of the page. */
static void copy_out(const struct generated *g, const struct cpu *c, uint64_t at, void *to,
		     size_t size)
{
	for (size_t i = 0; i < size; i++)
		((uint8_t *)to)[i] = c->base[g->page + ((at + i) & (g->page - 1))];
}

static void drain(struct generated *g, struct cpu *c)
{
	struct perf_event_mmap_page *control = (struct perf_event_mmap_page *)c->base;
	/* Pairs with the barrier between data and data_head in perf_output_put_handle(). */
	uint64_t head = __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = control->data_tail;

	while (tail < head) {
		struct sample s = { .ip = 0 };

		copy_out(g, c, tail, &s.header, sizeof(s.header));
		if (s.header.size < sizeof(s.header))
			break;
		if (s.header.type == PERF_RECORD_SAMPLE && s.header.size == sizeof(s)) {
			copy_out(g, c, tail, &s, sizeof(s));
			if (s.pid == (uint32_t)g->pid && g->ip_cnt < SAMPLES_MAX)
				g->ips[g->ip_cnt++] = s.ip;
		}
		tail += s.header.size;
	}
	__atomic_store_n(&control->data_tail, head, __ATOMIC_RELEASE);
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
	for (int i = 0; i < g->cpu_cnt; i++)
		if (g->cpus[i].base)
			drain(g, &g->cpus[i]);
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

double generated__share(const struct generated *g)
{
	return g && g->all >= ENOUGH ? 100 * (double)g->in / (double)g->all : -1;
}
