/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_LABELS_H
#define PYPERF_AGENT_LABELS_H
/*
 * The labels of a process, read once, when it is first seen.
 *
 *	host, comm, exe, python			of every process
 *	container_id, container_runtime		from its control group (docker, containerd, cri-o,
 *						podman)
 *	k8s_pod_uid				likewise
 *	k8s_namespace, k8s_pod, k8s_container	from the names in /var/log/containers or
 *						/var/log/pods, if they are there, else what
 *						environment and files of the pod say (pod.h)
 *	k8s_workload				the pod's name without what Kubernetes appends
 *	k8s_app					the label app.kubernetes.io/name, where the pod
 *						mounts its labels
 *	unit					the systemd service or scope
 *	env_NAME				the configured environment variables
 *	cmdline					if configured
 *	service_name				the first of: OTEL_SERVICE_NAME, service.name of
 *						OTEL_RESOURCE_ATTRIBUTES, DD_SERVICE, k8s_app,
 *						k8s_workload, the application (application.h), unit,
 *						k8s_container, container_id, the script, comm
 *
 * All of it is the process's own claim or that of who started it: values are cut at LABEL_VALUE_MAX
 * characters and sanitised, files are read up to a bound, and nothing that a process says is ever
 * opened as a path.
 *
 * Rules (rules.h) apply last.
 *
 * Reads below a directory, which is "/" except in tests. A set never changes and is
 * reference-counted: threads may share it.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/rules.h"
#include "base/str.h"
#include "store/window.h"

#define LABEL_VALUE_MAX 256
#define LABELS_MAX	48 /* of a set; further labels are left out */

struct label_set {
	size_t cnt;
	int refs;  /* private */
	bool drop; /* leave out its samples */
	/* Keep one of so many samples, which stands for all; 0 and 1: keep all. */
	uint32_t one_in;
	struct label labels[];
};

/* What is already known of a process; borrowed. */
struct labelled_process {
	struct readers *readers; /* who reads its files; or NULL */
	uint32_t tgid;
	const char *comm, *exe, *python, *container;
};

struct labels_config {
	struct strbuf host;  /* of the machine */
	char **environment;  /* names, NULL-terminated; NULL: none */
	struct label *fixed; /* for every process */
	size_t fixed_cnt, fixed_cap;
	bool command_line;
	struct rule *rules; /* in the order of the file */
	size_t rule_cnt, rule_cap;
};

/* The defaults: host as the kernel has it. 0 or -ENOMEM. */
int labels_config__init(struct labels_config *c);
void labels_config__free(struct labels_config *c);
/*
 * One key of the section. 0, -ENOENT: there is none; -EINVAL: *why says what is allowed; -ENOMEM.
 */
int labels_config__set(struct labels_config *c, const char *key, const char *value,
		       const char **why);

/* A rule that is empty, behind the others, or NULL: no memory, or RULES_MAX are there. */
struct rule *labels_config__add_rule(struct labels_config *c);

/* NULL: out of memory. */
struct label_set *labels__read(const char *root, const struct labels_config *c,
			       const struct labelled_process *p);
/* The same for a process that has ended: only what is already known. */
struct label_set *labels__of_gone(const struct labels_config *c, const struct labelled_process *p);
struct label_set *label_set__hold(struct label_set *set);
void label_set__put(struct label_set *set);
/* The value of a label, or NULL. Borrowed. */
const char *label_set__get(const struct label_set *set, const char *name);

#endif /* PYPERF_AGENT_LABELS_H */
