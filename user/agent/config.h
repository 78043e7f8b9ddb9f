/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_CONFIG_H
#define PYPERF_AGENT_CONFIG_H
/*
 * The configuration file: sections of "key = value" lines, comments from # or ; at the start of a
 * line on.
 *
 * Each part of the agent knows the keys of its own section (labels_config__set() of labels.h, for
 * one); this reads the file, finds the part, and says what is wrong: FILE:LINE: KEY: what is
 * wanted, every mistake, each once.
 *
 *	c = config__new(path);
 *	config__print(c, stdout);	what is in effect, to be read back
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
/* Of the last three only processes in pods have any. */
#define GROUP_DEFAULT	    "service_name, k8s_namespace, k8s_workload, k8s_container"
#define GROUP_WORDS	    8
#define PUSHES_MAX	    16 /* destinations */

struct agent_config {
	const struct source *events[SAMPLED_MAX]; /* the first one is a clock */
	uint32_t event_cnt;
	uint32_t frequency_hz;
	uint32_t window_s;
	uint32_t small; /* services with fewer samples in a window are one */
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

/* A file that the configuration names, and where. */
struct config_file {
	unsigned line;
	bool directory;
	char *section, *key, *path;
};

/* Counted: threads share it, and it does not change once it is read. */
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

/* Where the masked part of a secret was, in what config__print() writes. */
#define CONFIG_MASK "***"

/*
 * What the file says over the defaults; NULL `path`: these alone. NULL and errno after messages;
 * EINVAL: mistakes.
 */
struct config *config__new(const char *path);
/*
 * The same of a file that need not be there: then it is the defaults. Once it was there it is
 * *required: a reload while somebody replaces it does not go back to them.
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
 * Says of each file that is named and cannot be read where that is, why, and what to do, at
 * `level`. How many there are. Some of them, like a token, may come later: an agent that runs waits
 * for them. `path`: of the configuration.
 */
size_t config__check_files(const struct config *c, const char *path, enum log_level level);

/*
 * Every key with the value that is in effect, as a configuration that can be read back. Of a header
 * and of the query of an address only the name is there.
 */
void config__print(const struct config *c, FILE *f);

/* There is a label of this name, or there may be, as far as the configuration tells. */
bool config__has_label(const struct config *c, const char *name);

#endif /* PYPERF_AGENT_CONFIG_H */
