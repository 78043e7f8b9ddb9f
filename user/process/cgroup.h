/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CGROUP_H
#define PYPERF_CGROUP_H
/*
 * Control groups: which one -C PATH means, and which container a process is in.
 *
 *	cgroup__resolve("/system.slice/app.service", &cg, why, sizeof(why));
 *	cgroup__container("0::/system.slice/docker-6f2c...e1.scope\n", len, id);
 */
#include <stddef.h>
#include <stdint.h>

struct cgroup {
	uint64_t id;	/* kernfs node id: st_ino of the directory (64-bit kernels, 5.5+) */
	int32_t subsys; /* index in css_set.subsys for a v1 hierarchy; -1: v2 */
};

/*
 * PATH is a directory of a mounted hierarchy (/sys/fs/cgroup/memory/app), or a name below the root
 * of one ("/app" or "app"); then v2 is asked first, after it each v1 hierarchy as mounted. A name
 * that several v1 hierarchies have is taken from the first one where it has processes.
 * 0; -ENOENT; -ENOTSUP: a v1 hierarchy without a controller (name=systemd), which the kernel
 * keeps where BPF cannot look it up. On failure `why` is a sentence for the user.
 */
int cgroup__resolve(const char *path, struct cgroup *out, char *why, size_t size);

/* The index of a v1 controller ("memory", "blkio") in css_set.subsys, or -ENOENT. */
int cgroup__subsys(const char *controller);

#define CONTAINER_ID_LEN 64

/*
 * The innermost container in the text of /proc/PID/cgroup: the 64 hexadecimal digits that Docker,
 * containerd, CRI-O and Podman use, in v1 and v2 and both drivers' shapes. `id` gets
 * CONTAINER_ID_LEN digits and a NUL. 0 or -ENOENT.
 */
int cgroup__container(const char *text, size_t len, char *id);

#endif /* PYPERF_CGROUP_H */
