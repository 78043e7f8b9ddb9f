/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PRICE_H
#define PYPERF_PRICE_H
/*
 * What breakpoints cost a process: a share of the CPU time that it would use without them, and of
 * one CPU. The rate of the first 100 ms is judged, and that of each second from then on.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PRICE_MEASURE_MS 100  /* before the rate is judged first */
#define PRICE_AGAIN_MS	 1000 /* ... and then each time */
/* percent of a CPU: nobody notices so little, however idle the process is */
#define PRICE_NO_LOAD	 1

/*
 * The slowdown in percent: breakpoints took `cost_ns` of `used_ns` of CPU time. At most
 * PRICE_SLOWDOWN_MAX, which means that or more; -1: not known.
 */
double price__slowdown(double cost_ns, double used_ns);
#define PRICE_SLOWDOWN_MAX 2000
/* Too high for who allows `max_slowdown` percent? `load`: the cost in percent of one CPU. */
bool price__is_high(double slowdown, double load, double max_slowdown);

/* What hits cost between two looks. Begins with the first three set, and slowdown -1. */
struct price_look {
	uint64_t ns, cpu_ns, hits; /* the last time, and the sums until then */
	double rate;		   /* hits per second */
	double cost_ns, used_ns;
	double slowdown, load; /* percent, as above */
};

void price__look(struct price_look *l, uint64_t now_ns, uint64_t cpu_ns, uint64_t hits,
		 double hit_ns);

/*
 * CPU time of several processes: grows by what each uses, and does not fall when one ends, as the
 * others would look slowed down then. Valid when all zero.
 */
struct price_sum {
	uint64_t ns;
	uint64_t *used; /* by the number of the process; owned */
	size_t cnt, cap;
};

/* `used_ns`: of that process since it began; 0: it has ended. 0 or -ENOMEM. */
int price_sum__take(struct price_sum *s, size_t process, uint64_t used_ns);
void price_sum__free(struct price_sum *s);

/*
 * What a run of a BPF program takes, from the kernel's sums. These also have the time in which
 * others had the CPU, where a run was interrupted, and what only the first call of each function
 * costs. So it is the median of short slices. Valid when all zero.
 */
#define PRICE_SLICES	64
#define PRICE_SLICE_MS	2  /* the least between two looks: shorter than a turn of the scheduler */
#define PRICE_SLICE_CNT 50 /* runs that a slice has at least */
struct price_runs {
	uint64_t at_ns, ns, cnt; /* the last slice ended then, with these sums */
	double each[PRICE_SLICES];
	uint32_t slice_cnt;
};

/* The sums so far. */
void price_runs__look(struct price_runs *r, uint64_t now_ns, uint64_t ns, uint64_t cnt);
/* In ns; 0: there were too few. */
double price_runs__median(const struct price_runs *r);

/* The CPU time of a process since it began. false: there is no such process. */
bool price__cpu_ns(pid_t pid, uint64_t *ns);
/* The CPU time of the children that it has waited for. */
uint64_t price__reaped_ns(pid_t pid);

#endif /* PYPERF_PRICE_H */
