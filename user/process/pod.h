/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_POD_H
#define PYPERF_POD_H
/*
 * The names that Kubernetes gives a pod, without asking its API.
 *
 *	/var/log/pods, /var/log/containers	of the kubelet, on the host: by the pod's uid and
 *						the container's id
 *	/proc/PID/root				files of the pod, if the host's cannot be read
 *
 * Files of a pod are its own claim: each is opened below the process's root directory, must be a
 * small regular file that is not on FUSE, and counts only if it has the form of a name.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reader.h"
#include "base/str.h"

#define POD_NAME_MAX 253 /* DNS-1123, what Kubernetes allows */

/* Empty: not known. */
struct pod_names {
	char pod[POD_NAME_MAX + 1];
	char namespace[POD_NAME_MAX + 1];
	char container[POD_NAME_MAX + 1];
	char app[POD_NAME_MAX + 1]; /* the label app.kubernetes.io/name */
};

/* From the kubelet's logs below `root`; `container` is an id or "". */
void pod_names__from_logs(struct pod_names *n, const char *root, const char *uid,
			  const char *container);
/* Adds what is not known yet from files of the pod of process `tgid`. */
void pod_names__from_root(struct pod_names *n, const char *root, struct readers *rs, uint32_t tgid);
/* Takes a claimed name, unless there is one already or it is not valid. */
void pod_names__claim(char name[POD_NAME_MAX + 1], const char *value);

/*
 * What the pods of a workload have in common: their name without what Kubernetes appends.
 *
 *	shop-6955765f44-x2k8p	shop	Deployment: the ReplicaSet's hash, and 5 characters
 *	shop-x2k8p		shop	DaemonSet, ReplicaSet, Job
 *	shop-0			shop	StatefulSet
 *	shop-29123456-x2k8p	shop	CronJob, indexed Job
 *	shop-node7		shop	static pod, on host node7
 */
void pod_workload(const char *pod, const char *host, struct strbuf *out);

#endif /* PYPERF_POD_H */
