/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CGROUP_H
#define PYPERF_CGROUP_H
/*
 * Control groups: finds the one that -C PATH names, and the container and the pod of a process.
 *
 *	cgroup__resolve("/system.slice/app.service", &cg, why, sizeof(why));
 *	cgroup__container("0::/system.slice/docker-6f2c...e1.scope\n", len, id);
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

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

#define POD_UID_LEN 36 /* of a UUID; a static pod has 32 digits */

/*
 * Finds the outermost Kubernetes pod in the text of /proc/PID/cgroup, NUL-terminated: `uid` gets
 * its id with "-" where the path may have "_". Returns where in the text the pod's name stands;
 * NULL: there is none.
 */
const char *cgroup__pod(const char *text, char uid[POD_UID_LEN + 1]);
/*
 * Appends the path of the group whose name is, or holds, what stands at `at` in that text:
 * "/docker/ID" for the ID in "4:cpu:/docker/ID/init.scope". Appends nothing if that is no path.
 */
void cgroup__path_at(const char *text, const char *at, struct strbuf *path);
/* Is one of the text's groups the one with this path, or below it? */
bool cgroup__is_below(const char *text, const char *path);

#endif /* PYPERF_CGROUP_H */
