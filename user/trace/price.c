/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/price.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"

#define SLICES_LEAST 5 /* else the median says little */

/* If the cost is almost all that was used, what is left is noise: then it is a lower bound. */
double price__slowdown(double cost_ns, double used_ns)
{
	if (cost_ns <= 0)
		return 0;
	if (used_ns <= 0)
		return -1;
	return 100 * cost_ns / fmax(used_ns - cost_ns, 100 * cost_ns / PRICE_SLOWDOWN_MAX);
}

bool price__is_high(double slowdown, double load, double max_slowdown)
{
	return slowdown > max_slowdown && load >= PRICE_NO_LOAD;
}

void price__look(struct price_look *l, uint64_t now_ns, uint64_t cpu_ns, uint64_t hits,
		 double hit_ns)
{
	double seconds = now_ns > l->ns ? (double)(now_ns - l->ns) / 1e9 : 0;

	l->cost_ns = hits > l->hits ? (double)(hits - l->hits) * hit_ns : 0;
	l->used_ns = cpu_ns > l->cpu_ns ? (double)(cpu_ns - l->cpu_ns) : 0;
	l->rate = seconds > 0 && hits > l->hits ? (double)(hits - l->hits) / seconds : 0;
	l->slowdown = price__slowdown(l->cost_ns, l->used_ns);
	l->load = seconds > 0 ? 100 * l->cost_ns / (seconds * 1e9) : 0;
	l->ns = now_ns;
	l->cpu_ns = cpu_ns;
	l->hits = hits;
}

void price_runs__look(struct price_runs *r, uint64_t now_ns, uint64_t ns, uint64_t cnt)
{
	if (r->slice_cnt == PRICE_SLICES || now_ns - r->at_ns < PRICE_SLICE_MS * NS_PER_MS)
		return;
	if (r->at_ns && cnt >= r->cnt + PRICE_SLICE_CNT)
		r->each[r->slice_cnt++] = (double)(ns - r->ns) / (double)(cnt - r->cnt);
	r->at_ns = now_ns;
	r->ns = ns;
	r->cnt = cnt;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double price_runs__median(const struct price_runs *r)
{
	double each[PRICE_SLICES];

	if (r->slice_cnt < SLICES_LEAST)
		return 0;
	memcpy(each, r->each, sizeof(each));
	qsort(each, r->slice_cnt, sizeof(*each), by_size);
	return each[r->slice_cnt / 2];
}

int price_sum__take(struct price_sum *s, size_t process, uint64_t used_ns)
{
	while (s->cnt <= process) {
		if (ARRAY_GROW(s->used, s->cap, s->cnt, SIZE_MAX / 64))
			return -ENOMEM;
		s->used[s->cnt++] = 0;
	}
	if (used_ns <= s->used[process])
		return 0;
	s->ns += used_ns - s->used[process];
	s->used[process] = used_ns;
	return 0;
}

void price_sum__free(struct price_sum *s)
{
	free(s->used);
	*s = (struct price_sum){ 0 };
}

bool price__cpu_ns(pid_t pid, uint64_t *ns)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
		return false;
	*ns = timespec_ns(t);
	return true;
}

uint64_t price__reaped_ns(pid_t pid)
{
	unsigned long user, system;
	char path[32], text[1024];
	uint64_t ticks = 0;
	const char *at;
	size_t len;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	len = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[len] = '\0';
	at = strrchr(text, ')'); /* proc(5): fields 16 and 17 are cutime and cstime */
	if (at && sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %lu %lu", &user,
			 &system) == 2)
		ticks = (uint64_t)user + system;
	return ticks * (1000000000ULL / (uint64_t)sysconf(_SC_CLK_TCK));
}
