/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * pyperf-bpf-agent: the program that `pyperf-bpf agent` executes. Its help is in
 * user/cmd/cmd_agent.c.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/agent.h"
#include "agent/config.h"
#include "base/child.h"
#include "base/libbpf_text.h"
#include "base/log.h"
#include "base/setting.h"
#include "cmd/cmdline.h"

enum long_only {
	OPT_CONFIG = CMDLINE_LONG_ONLY,
	OPT_CHECK_CONFIG,
	OPT_LINK,
	OPT_PRINT_CONFIG,
	OPT_REMOVE_SPOOLS,
};

static const struct option long_options[] = {
	{ "config", required_argument, NULL, OPT_CONFIG },
	{ "check-config", no_argument, NULL, OPT_CHECK_CONFIG },
	{ "link", no_argument, NULL, OPT_LINK },
	{ "print-config", no_argument, NULL, OPT_PRINT_CONFIG },
	{ "remove-spools", no_argument, NULL, OPT_REMOVE_SPOOLS },
	CMDLINE_LONG_OPTIONS,
	{ NULL, 0, NULL, 0 },
};

struct main_opts {
	struct agent_opts agent;
	int (*instead)(const struct agent_opts *o); /* of running; NULL: it runs */
};

static void usage(void)
{
	printf("Usage: pyperf-bpf-agent [OPTION]...\n"
	       "This is what 'pyperf-bpf agent' runs; see 'pyperf-bpf agent --help'.\n");
}

static int set_option(void *ctx, int opt, const char *arg)
{
	struct main_opts *o = ctx;

	if (opt == OPT_CONFIG) {
		o->agent.config_path = arg;
		o->agent.config_required = true;
	}
	if (opt == OPT_CHECK_CONFIG)
		o->instead = agent__check_config;
	if (opt == OPT_PRINT_CONFIG)
		o->instead = agent__print_config;
	if (opt == OPT_REMOVE_SPOOLS)
		o->instead = agent__remove_spools;
	if (opt == OPT_LINK)
		o->instead = agent__print_link;
	return 0;
}

static enum cmdline_result parse(struct main_opts *o, int argc, char **argv)
{
	struct cmdline c = {
		.command = "agent",
		.usage = usage,
		.shorts = CMDLINE_SHORT_OPTIONS,
		.longs = long_options,
		.set = set_option,
		.ctx = o,
	};
	enum cmdline_result result = cmdline__parse(&c, argc, argv);

	if (result != CMDLINE_RUN)
		return result;
	o->agent.verbosity = c.verbosity;
	if (!c.words[0])
		return CMDLINE_RUN;
	log_err("unexpected '%s'; see 'pyperf-bpf agent --help'", c.words[0]);
	return CMDLINE_USAGE;
}

int main(int argc, char **argv)
{
	struct main_opts o = { .agent = { .config_path = CONFIG_PATH_DEFAULT } };
	enum cmdline_result result = parse(&o, argc, argv);

	child__reserve();
	libbpf_set_print(libbpf_text);
	setting__use_keys();
	if (result != CMDLINE_RUN)
		return cmdline__status(result);
	/* A debuginfod server may take half a minute, in which nothing would be drained. */
	unsetenv("DEBUGINFOD_URLS");
	if (o.instead)
		return o.instead(&o.agent) ? 1 : 0;
	return agent__run(&o.agent) ? 1 : 0;
}
