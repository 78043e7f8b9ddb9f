/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_USERS_H
#define PYPERF_USERS_H
/*
 * Beside the stages: what the programs cost is charged to the user of the thread for which they
 * run, and a user who costs too much is sampled less often, alone.
 * Input:   the current task's payer; one_of, which user/ writes.
 * Output:  users; counters.stands_for; CTR_filtered_share.
 * Cost:    a look-up per timed sample, and per fork, exec, exit and mapping; per sample while a
 *          user is cut.
 * Fails:   table full: the user's cost is charged to nobody.
 */
#include "maps.bpf.h"
#include "task.bpf.h"

/* task_payer() of the current task, which is seldom in a user namespace. */
BPF_INLINE __u32 current_payer(void)
{
	struct task_struct *task = current_task();
	struct cred *cred = (void *)CURRENT_READ(task, cred);
	struct user_namespace *ns = CURRENT_READ(cred, user_ns);

	return CURRENT_READ(ns, level) ? task_payer(task) : CURRENT_READ(cred, uid.val);
}

BPF_INLINE struct user_cost *this_user(void)
{
	__u32 uid = current_payer();

	return bpf_map_lookup_elem(&users, &uid);
}

/* Samples insert nothing: see CFG_NMI. */
BPF_INLINE void charge_sample(__u64 ns)
{
	struct user_cost *u = cfg.flags & CFG_TIMED ? this_user() : NULL;

	if (u)
		__sync_fetch_and_add(&u->sample_ns, ns);
}

BPF_INLINE void charge_following(__u64 ns)
{
	struct user_cost *u, fresh = { .follow_ns = ns };
	__u32 uid = current_payer();

	u = bpf_map_lookup_elem(&users, &uid);
	if (u)
		__sync_fetch_and_add(&u->follow_ns, ns);
	else
		bpf_map_update_elem(&users, &uid, &fresh, BPF_NOEXIST);
}

/* One of how many samples of the current user is taken? */
BPF_INLINE __u32 user_one_of(void)
{
	const struct user_cost *u = *(volatile __u32 *)&users_cut ? this_user() : NULL;
	__u32 one_of = u ? u->one_of : 0;

	return one_of > 1 ? one_of : 1;
}

/*
 * Is the current sample taken? Decided by chance, not by turns, so that a program in step with the
 * clock is sampled evenly.
 */
BPF_INLINE int in_share(struct counters *c)
{
	__u32 one_of = user_one_of();

	c->stands_for = one_of;
	return one_of == 1 || !(bpf_get_prandom_u32() % one_of);
}

#endif /* PYPERF_USERS_H */
