/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_POD_H
#define PYPERF_AGENT_POD_H
/*
 * The names that Kubernetes gives a pod, without asking its API.
 *
 *	/var/log/pods, /var/log/containers	the kubelet's, on the host: by the pod's uid and the
 *						container's id
 *	/proc/PID/root				files of the pod, where the host's are not to be
 *						seen
 *
 * Files of a pod are its own claim: each is opened below the process's root directory, must be a
 * small regular file that is not on FUSE, and is only believed when it has the form of a name.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
/* What is not known yet, from files of the pod that process `tgid` is in. */
void pod_names__from_root(struct pod_names *n, const char *root, uint32_t tgid);
/* Takes a name that somebody else claims, unless there is one or it is none. */
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

#endif /* PYPERF_AGENT_POD_H */
