/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_BILLS_H
#define PYPERF_BILLS_H
/*
 * Charges each user of the machine for its cost: the CPU time of our BPF programs and of user space
 * that its processes cause.
 *
 *	samples		run time of the sampler, as measured in one of TIMED_EVERY; reading, naming
 *			and writing stacks, by the number of stacks
 *	following	run time of the programs that follow fork, exec, exit and mappings; looks at
 *			processes, in the same proportion
 *
 *	struct bills b;
 *
 *	bills__init(&b, object);
 *	bills__note(&b, drained);		new stacks, whenever some were read
 *	bills__charge(&b, own_ns, looks_ns);	the costs of a period, in b.list
 *	bills__cut(&b, uid, 4);			take one of 4 samples of that user
 *	bills__begin(&b);			the next period
 *
 * The kernel multiplies the value of a cut user's samples, so sums stay right. A user stays in the
 * list as long as it costs something or is cut. At most USERS_MAX users; further ones are not
 * charged. For one thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "follow/object.h"
#include "profile/profile.h"

#define BILL_ONE_OF_MAX 64U

struct bill {
	uint32_t uid;
	uint32_t one_of;		/* one of so many samples is taken: a power of two */
	uint64_t samples_ns, follow_ns; /* of the last period */
	uint64_t all_samples_ns, all_follow_ns;
	uint64_t stacks; /* new in that period */
	/* private: the kernel's figures at the last look */
	uint64_t seen_sample_ns, seen_follow_ns;
	bool seen;
};

struct bills {
	struct object *object; /* borrowed */
	struct bill list[USERS_MAX];
	size_t cnt;
	uint64_t noted; /* stacks of all users in this period, also of those without a bill */
};

void bills__init(struct bills *b, struct object *object);
/* Counts new stacks by user. Stacks of processes whose user is not known are charged to nobody. */
void bills__note(struct bills *b, const struct profile *drained);
/* One more stack of a user: it was read for a thread that still waits. */
void bills__note_read(struct bills *b, uint32_t uid);
/*
 * Ends a period, in which we used `own_ns` of CPU time for stacks and `looks_ns` for looks at
 * processes.
 */
void bills__charge(struct bills *b, uint64_t own_ns, uint64_t looks_ns);
/* Begins the next period: forgets the figures of the last one, except for the sums. */
void bills__begin(struct bills *b);
/* `one_of`: 1 to BILL_ONE_OF_MAX. 0 or negative errno. */
int bills__cut(struct bills *b, uint32_t uid, uint32_t one_of);
/* The highest one_of of all users: 1 where none is cut. */
uint32_t bills__most_cut(const struct bills *b);
/* Copies the `max` users who cost most since the start, costliest first. Returns their number. */
size_t bills__costliest(const struct bills *b, struct bill *out, size_t max);

#endif /* PYPERF_BILLS_H */
