/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/payer.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "bpf/pyperf.h"

/* Are both the same namespace? Also if they cannot be asked. */
static bool is_same(int fd, const struct stat *ns)
{
	struct stat st;

	return fstat(fd, &st) || (st.st_ino == ns->st_ino && st.st_dev == ns->st_dev);
}

/*
 * The user who made the outermost namespace around `fd` below ours, 0 if nobody says so;
 * PAYER_TOO_DEEP: there are too many between. Closes `fd`.
 */
static uid_t owner_of(int fd, const struct stat *ours)
{
	uid_t owner = 0;

	for (int i = 0; i < PAYER_LEVELS && fd >= 0; i++) {
		int parent = ioctl(fd, NS_GET_PARENT);
		bool outermost = parent >= 0 && is_same(parent, ours);

		if (outermost && ioctl(fd, NS_GET_OWNER_UID, &owner))
			owner = 0;
		close(fd);
		fd = parent;
		if (outermost) {
			close(fd);
			return owner;
		}
	}
	if (fd < 0)
		return 0;
	close(fd);
	return PAYER_TOO_DEEP;
}

uint32_t payer__of(int proc_fd, uint32_t uid)
{
	int fd = openat(proc_fd, "ns/user", O_RDONLY | O_CLOEXEC);
	struct stat ours;
	uid_t owner = 0;

	if (fd < 0)
		return uid;
	if (stat("/proc/self/ns/user", &ours) || is_same(fd, &ours))
		close(fd);
	else
		owner = owner_of(fd, &ours);
	return owner ? owner : uid;
}
