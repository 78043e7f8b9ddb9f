/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_PIDNS_H
#define PYPERF_PIDNS_H
/*
 * Our own pid namespace, by which the BPF half uses the same process numbers as we do: struct
 * pid.numbers[level] is the number of the process in its namespace at that level, which is ours if
 * its inode number is that of ours.
 *
 * A process cannot ask how deep its namespace is: /proc/self/status lists only the levels that the
 * mounted /proc can see, and NS_GET_PARENT ends with EPERM at our own. The kernel knows, so outside
 * the initial namespace (level 0) a BPF program of seven instructions reads
 * current->thread_pid->level.
 */
#include <stdbool.h>
#include <stdint.h>

struct pidns {
	uint32_t level; /* 0: the initial namespace */
	uint32_t inum;	/* st_ino of /proc/self/ns/pid */
};

/* 0 or negative errno: /proc is not mounted, or the level could not be read (needs CAP_BPF, BTF).
 */
int pidns__self(struct pidns *ns);
bool pidns__is_initial(const struct pidns *ns);

/*
 * What BPF needs to number the current process as we do: device and inode of our namespace for
 * bpf_get_ns_current_pid_tgid(), and its level for processes in namespaces within it. All are 0 in
 * the initial one, where the kernel's own numbers are ours.
 */
struct pidns_file {
	uint64_t dev;
	uint32_t inum;
	uint32_t level; /* 0: it could not be read */
};
struct pidns_file pidns__file(void);

/*
 * Reads the level by BPF in any namespace. The level or negative errno. For tests; see
 * pidns__self().
 */
int pidns__level_by_bpf(void);

#endif /* PYPERF_PIDNS_H */
