/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CPUS_H
#define PYPERF_CPUS_H
/*
 * Watches which CPUs are online.
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
	bool *came;   /* came online between the last two looks, by number */
	/* private */
	bool *seen;
	int fd;
	char list[4096]; /* as the kernel writes it */
};

/* 0 or -ENOMEM. */
int cpus__init(struct cpus *c, int cap);
void cpus__free(struct cpus *c);
/* Reads which CPUs are online. True: not the same as at the last look. */
bool cpus__look(struct cpus *c);
/* Makes the next look return true. */
void cpus__again(struct cpus *c);
/*
 * The number of CPUs that were online at any look; all possible ones if the kernel does not tell.
 */
uint32_t cpus__seen(const struct cpus *c);
/* Marks the CPUs of a list such as "0-3,5". Ignores the list from the first error on. */
void cpus__parse(const char *list, bool *online, int cap);

#endif /* PYPERF_CPUS_H */
