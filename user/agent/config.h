/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_CONFIG_H
#define PYPERF_AGENT_CONFIG_H
/*
 * The configuration file: sections of "key = value" lines, comments from # or ; at the start of a
 * line on.
 *
 * Each part of the agent knows the keys of its own section, as labels_config__set() of labels.h
 * does. This module reads the file, calls the part, and reports each error once: FILE:LINE: KEY:
 * what is allowed.
 *
 *	c = config__new(path);
 *	config__print(c, stdout);	the values in effect, to be read back
 *	config__put(c);
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "agent/http/http.h"
#include "agent/labels.h"
#include "agent/push/push.h"
#include "base/log.h"
#include "sources/sources.h"
#include "store/store.h"

#define CONFIG_PATH_DEFAULT "/etc/pyperf-bpf/agent.conf"
#define STATE_DIR_DEFAULT   "/var/lib/pyperf-bpf"
/* Only processes in pods have the last three. */
#define GROUP_DEFAULT	    "service_name, k8s_namespace, k8s_workload, k8s_container"
#define GROUP_WORDS	    8
#define PUSHES_MAX	    16 /* destinations */

struct agent_config {
	const struct source *events[SAMPLED_MAX]; /* the first one is a clock */
	uint32_t event_cnt;
	uint32_t frequency_hz;
	uint32_t window_s;
	uint32_t small; /* services with fewer samples share a window */
	char *state_dir;
	char *directory; /* NULL: windows are not written to files */
	char *group[GROUP_WORDS + 1];
	bool group_attribute[GROUP_WORDS]; /* written as attribute.NAME */
	char *comm, *cgroup;		   /* NULL: all */
	bool native, kernel, lines;
	uint32_t table_mib;
	enum log_level log_level;
	bool log_json;
};

struct budget_config {
	double cpu_percent; /* of one CPU */
	uint32_t memory_mib;
	uint32_t processes, stacks;
};

/* A file that the configuration names, and the line that does. */
struct config_file {
	unsigned line;
	bool directory;
	char *section, *key, *path;
};

/* Reference-counted: threads share it, and it never changes after it was read. */
struct config {
	int refs;
	struct agent_config agent;
	struct labels_config labels;
	struct budget_config budget;
	struct store_config store; /* without `path`, store.db in the state directory */
	bool store_enabled;
	bool store_path_set;
	struct push_config push[PUSHES_MAX];
	size_t push_cnt;
	struct http_config http;
	struct config_file *files;
	size_t file_cnt, file_cap;
};

/* Stands for a secret in the output of config__print(). */
#define CONFIG_MASK "***"

/*
 * Reads the file over the defaults; with a NULL `path` only the defaults. NULL and errno after
 * messages; EINVAL: the file has errors.
 */
struct config *config__new(const char *path);
/*
 * The same for a file that need not exist: without it the defaults hold. Once it existed it is
 * *required, so that a reload while somebody replaces it does not return to the defaults.
 */
struct config *config__load(const char *path, bool *required);
struct config *config__hold(struct config *c);
void config__put(struct config *c);

/*
 * For a configuration that is read while `running` is in effect: a key that takes effect only after
 * a restart keeps its value. Returns the first such key that differs, or NULL.
 */
const char *config__stay(struct config *c, const struct config *running);

/*
 * Reports each named file that cannot be read at `level`: the line, the reason, the remedy. Returns
 * how many there are. Some of them, like a token, may come later: a running agent waits for them.
 * `path`: of the configuration.
 */
size_t config__check_files(const struct config *c, const char *path, enum log_level level);

/*
 * Writes every key with the value in effect, as a configuration that can be read back. The values
 * of headers and the query of an address are masked.
 */
void config__print(const struct config *c, FILE *f);

/* Can there be a label of this name, as far as the configuration tells? */
bool config__has_label(const struct config *c, const char *name);

#endif /* PYPERF_AGENT_CONFIG_H */
