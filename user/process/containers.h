/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_CONTAINERS_H
#define PYPERF_CONTAINERS_H
/*
 * The containers that run on this machine, by the names that people call them: finds the control
 * group that --pod and --container mean.
 *
 *	containers__read(&c, "");
 *	err = containers__choose(&c, "shop/web-0", "app", &path, &why);
 *	err = containers__processes("", path.s, &pids, &cnt);
 *	containers__free(&c);
 *
 * Each fact has one source. Only the first can be changed by a tenant:
 *
 *	/proc/PID/cgroup				ids of containers, uids of pods, paths
 *	/var/log/containers, /var/log/pods		pod, namespace, container: the kubelet's
 *	/var/lib/docker/containers/ID/config.v2.json	the name in Docker
 *	.../storage/overlay-containers/containers.json	... in Podman, below /var/lib/containers
 *
 * The files below /var belong to root. The environment, the host name and the files of a container
 * are not read, as it could give itself any name. A container that those files do not name has its
 * id only.
 *
 * What a tenant can forge: whoever may make control groups below one that is his can give them the
 * id of any container or pod, and with it that one's name. The group that is chosen is the forged
 * one itself, and it holds only processes that he could move there: his own. While the real
 * container runs as well, its name and id are refused as ambiguous; -C chooses by path. The uid of
 * a pod is the outermost in a path, and the kubelet's name for it goes before that of a container's
 * id: what runs in one pod cannot pass for another.
 *
 * Bounds: 8192 containers, 16 KiB of a cgroup file, 4 MiB of a runtime's file, 65,536 entries of a
 * directory. A name has up to 253 characters, those that its runtime allows; others are no names.
 *
 * `root` goes before all paths: "" or, in tests, a directory.
 */
#include <stddef.h>
#include <sys/types.h>

#include "base/str.h"
#include "process/cgroup.h"
#include "process/pod.h"

struct container {
	char id[CONTAINER_ID_LEN + 1];
	char uid[POD_UID_LEN + 1];	/* of its pod, or "" */
	char pod[2 * POD_NAME_MAX + 2]; /* "NAMESPACE/NAME", or "" */
	char name[POD_NAME_MAX + 1];	/* in the pod, else its runtime's; or "" */
	struct strbuf path;		/* of its control group */
	struct strbuf pod_path;		/* ... of its pod; empty: it has none of its own */
};

/* Valid when all zero. */
struct containers {
	struct container *all; /* each once */
	size_t cnt, cap;
	size_t max; /* for tests: how many are listed at most; 0: 8192 */
};

/* Fills an empty list. 0, -E2BIG: more run than are listed, or negative errno. Free it always. */
int containers__read(struct containers *c, const char *root);
void containers__free(struct containers *c);
/*
 * Appends to `path` the control group of the container `name`, or with `name` NULL that of the pod
 * `pod`. Either may be NULL, not both.
 *
 *	pod	"NAMESPACE/NAME", "NAME", or its uid
 *	name	its name, or else the beginning of its id, 4 digits at least
 *
 * 0; -ESRCH: there is none, or -ENOTUNIQ: there are several; `why` gets a sentence then. -ENOMEM.
 */
int containers__choose(const struct containers *c, const char *pod, const char *name,
		       struct strbuf *path, struct strbuf *why);
/*
 * Finds the processes, but the caller, in the control group with this path (as /proc/PID/cgroup
 * has it, in any hierarchy) and in those below it. The caller frees *pids. 0 or negative errno.
 */
int containers__processes(const char *root, const char *path, pid_t **pids, size_t *cnt);

#endif /* PYPERF_CONTAINERS_H */
