/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CPUS_H
#define PYPERF_CPUS_H
/*
 * Which CPUs are online.
 *
 *	struct cpus c;
 *
 *	cpus__init(&c, possible);
 *	if (cpus__look(&c)) ... c.online[cpu]		each second: cheap, reads one file
 *	cpus__free(&c);
 */
#include <stdbool.h>
#include <stdint.h>

#define CPUS_PATH "/sys/devices/system/cpu/online"

struct cpus {
	int cap;
	bool *online; /* by number */
	bool *came;   /* ... since the look before the last */
	/* private */
	bool *seen;
	int fd;
	char list[4096]; /* as the kernel writes it */
};

/* 0 or -ENOMEM. */
int cpus__init(struct cpus *c, int cap);
void cpus__free(struct cpus *c);
/* Are others online than at the last look? */
bool cpus__look(struct cpus *c);
/* The next look says yes. */
void cpus__again(struct cpus *c);
/* CPUs that were online at some look; where the kernel does not tell, all. */
uint32_t cpus__seen(const struct cpus *c);
/* Marks those of a list like "0-3,5". For the tests. */
void cpus__parse(const char *list, bool *online, int cap);

#endif /* PYPERF_CPUS_H */
