/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PYPERF_SHARES_H
#define PYPERF_SHARES_H
/*
 * Beside the stages: no user takes the room of others in tables that each process or thread has an
 * entry in. See struct shares.
 * Input:   a task, and the struct shares of a table.
 * Output:  whether the task's user may have one more entry.
 * Cost:    four reads of kernel memory for a new entry, seven for root's, and in a user namespace
 *          two more for each level.
 * Fails:   two CPUs may both take the last entry of a share.
 */
#include "task.bpf.h"

BPF_INLINE __u32 share_slot(struct task_struct *task)
{
	__u32 uid = task_payer(task);

	return SHARE_SLOT(uid ? uid : BPF_CORE_READ(task, nsproxy, mnt_ns, ns.inum));
}

/* May a new entry be added? */
BPF_INLINE int share_has_room(const struct shares *s, __u32 slot, __u32 cap)
{
	return !s || SHARE_HAS_ROOM(s, BOUND(slot, SHARE_SLOTS), cap);
}

BPF_INLINE void add_to_share(struct shares *s, __u32 slot, __s32 cnt)
{
	if (!s)
		return;
	__sync_fetch_and_add(&s->taken, cnt);
	__sync_fetch_and_add(&s->of[BOUND(slot, SHARE_SLOTS)], cnt);
}

/* What a map of SHARES_MAP() holds. */
BPF_INLINE struct shares *shares_of(void *map)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(map, &zero);
}

/* Adds an entry that is not there yet to a table of `cap`. 0, or an error: there is no room. */
BPF_INLINE int share_insert(void *table, const void *key, const void *val, struct shares *s,
			    __u32 slot, __u32 cap)
{
	int err;

	if (!share_has_room(s, slot, cap))
		return E_2BIG;
	err = bpf_map_update_elem(table, key, val, BPF_NOEXIST);
	if (!err)
		add_to_share(s, slot, 1);
	return err;
}

/* Deletes an entry of this slot. 0, or an error: it was not there. */
BPF_INLINE int share_delete(void *table, const void *key, struct shares *s, __u32 slot)
{
	int err = bpf_map_delete_elem(table, key);

	if (!err)
		add_to_share(s, slot, -1);
	return err;
}

#endif /* PYPERF_SHARES_H */
