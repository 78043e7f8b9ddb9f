/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_AGENT_CONFIG_H
#define PYPERF_AGENT_CONFIG_H
/*
 * The configuration file: sections of "key = value" lines, comments from # or ; at the start of a line on.
 *
 * Each part of the agent knows the keys of its own section (labels_config__set() of labels.h, for one); this reads
 * the file, finds the part, and says what is wrong: FILE:LINE: KEY: what is wanted, every mistake, each once.
 *
 *	struct config c;
 *
 *	err = config__init(&c);
 *	if (!err)
 *		err = config__read(&c, path);
 *	config__free(&c);
 */
#include <stdbool.h>
#include <stdint.h>

#include "agent/labels.h"
#include "log.h"

#define CONFIG_PATH_DEFAULT "/etc/pyperf-bpf/agent.conf"
#define STATE_DIR_DEFAULT   "/var/lib/pyperf-bpf"
#define GROUP_WORDS	    8

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

struct config {
	struct agent_config agent;
	struct labels_config labels;
	struct budget_config budget;
};

/* The defaults. 0 or -ENOMEM; config__free() is due in both cases. */
int config__init(struct config *c);
void config__free(struct config *c);
/* Over the defaults. 0; -EINVAL after messages; another negative errno, printed. */
int config__read(struct config *c, const char *path);

/* What of `now` differs from `then` and only counts at the next start; NULL: nothing. */
const char *config__needs_restart(const struct config *then, const struct config *now);

#endif /* PYPERF_AGENT_CONFIG_H */
