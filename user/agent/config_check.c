/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Checks that need the whole configuration, or the machine. */
#include "agent/config.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_listed(char *const *words, const char *name)
{
	for (; words && *words; words++)
		if (!strcmp(*words, name))
			return true;
	return false;
}

static bool sets_label(const struct rule *r, const char *name)
{
	for (size_t i = 0; i < r->set_cnt; i++)
		if (!strcmp(r->set[i].name, name))
			return true;
	return false;
}

bool config__has_label(const struct config *c, const char *name)
{
	/* The labels of labels.h that exist without configuration. */
	static const char *const always[] = { "service_name", "host",	       "comm",
					      "exe",	      "python",	       "container_id",
					      "unit",	      "k8s_namespace", "container_runtime",
					      "k8s_pod",      "k8s_container", "k8s_pod_uid",
					      "k8s_workload", "k8s_app" };

	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		if (!strcmp(always[i], name))
			return true;
	for (size_t i = 0; i < c->labels.fixed_cnt; i++)
		if (!strcmp(c->labels.fixed[i].name, name))
			return true;
	for (size_t i = 0; i < c->labels.rule_cnt; i++)
		if (sets_label(&c->labels.rules[i], name))
			return true;
	if (!strncmp(name, "env_", 4))
		return is_listed(c->labels.environment, name + 4);
	return !strcmp(name, "cmdline") && c->labels.command_line;
}

/* 0 or an errno. */
static int look_at(const struct config_file *f)
{
	struct stat st;

	if (stat(f->path, &st))
		return errno;
	if (f->directory && !S_ISDIR(st.st_mode))
		return ENOTDIR;
	if (!f->directory && S_ISDIR(st.st_mode))
		return EISDIR;
	return access(f->path, f->directory ? W_OK | X_OK : R_OK) ? errno : 0;
}

static const char *remedy(int err)
{
	switch (err) {
	case ENOENT:
	case ENOTDIR:
		return "make it, or correct the path";
	case EACCES:
		return "let the agent's user read it";
	default:
		return "correct the path";
	}
}

size_t config__check_files(const struct config *c, const char *path, enum log_level level)
{
	size_t bad = 0;

	for (size_t i = 0; i < c->file_cnt; i++) {
		const struct config_file *f = &c->files[i];
		int err = look_at(f);

		if (!err || (!strcmp(f->section, "http") && c->http.off))
			continue;
		log_msg(level, "%s:%u: %s: %s: %s: %s", path, f->line, f->key, f->path,
			strerror(err), remedy(err));
		bad++;
	}
	return bad;
}
