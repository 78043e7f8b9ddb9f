/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_CONFIG_H
#define PYPERF_AGENT_CONFIG_H
/*
 * The configuration file: sections of "key = value" lines, comments from # or ; at the start of a line on.
 *
 * Each part of the agent knows the keys of its own section (labels_config__set() of labels.h, for one); this reads
 * the file, finds the part, and says what is wrong: FILE:LINE: KEY: what is wanted, every mistake, each once.
 *
 *	c = config__new(path);
 *	config__put(c);
 */
#include <stdbool.h>
#include <stdint.h>

#include "agent/http.h"
#include "agent/labels.h"
#include "agent/push.h"
#include "log.h"
#include "store.h"

#define CONFIG_PATH_DEFAULT "/etc/pyperf-bpf/agent.conf"
#define STATE_DIR_DEFAULT   "/var/lib/pyperf-bpf"
#define GROUP_WORDS	    8
#define PUSHES_MAX	    16 /* destinations */

struct agent_config {
	uint32_t frequency_hz;
	uint32_t window_s;
	char *state_dir;
	char *directory; /* NULL: windows are not written to files */
	char *group[GROUP_WORDS + 1];
	char *comm, *cgroup; /* NULL: all */
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
};

/* What the file says over the defaults; NULL `path`: these alone. NULL and errno after messages; EINVAL: mistakes. */
struct config *config__new(const char *path);
/*
 * The same of a file that need not be there: then it is the defaults. Once it was there it is *required: a reload while
 * somebody replaces it does not go back to them.
 */
struct config *config__load(const char *path, bool *required);
struct config *config__hold(struct config *c);
void config__put(struct config *c);

/*
 * A configuration that is read while `running` holds: what only counts from the next start on stays as it is. The
 * first key that this is about, or NULL.
 */
const char *config__stay(struct config *c, const struct config *running);

#endif /* PYPERF_AGENT_CONFIG_H */
