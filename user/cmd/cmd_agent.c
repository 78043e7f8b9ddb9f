/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * pyperf-bpf agent: a program of its own, so that the libraries it needs cost the other commands
 * nothing.
 */
#include "cmd/command.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/cmdline.h"

#define AGENT "pyperf-bpf-agent"

static void usage(void)
{
	printf("Usage: pyperf-bpf agent [OPTION]...\n"
	       "Profile every Python process of this machine, for months.\n"
	       "\n"
	       "Samples at 19 Hz, and makes one profile per service and window of time, which is\n"
	       "stored, pushed and shown as the configuration says. Runs in the foreground.\n"
	       "\n"
	       "What to do\n"
	       "      --config FILE      the configuration; default: /etc/pyperf-bpf/agent.conf,\n"
	       "                         if it is there\n"
	       "      --check-config     check it, report what is wrong, and exit\n"
	       "      --link             print the address of the page with its token, and exit\n"
	       "      --print-config     print all keys with their values in effect, and exit\n"
	       "      --remove-spools    remove spools that no destination uses, and exit\n"
	       "Other\n" CMDLINE_HELP "\n"
	       "Signals\n"
	       "  SIGHUP reads the configuration again, SIGTERM ends it after the last window,\n"
	       "  SIGUSR1 and SIGUSR2 raise and lower the log level.\n"
	       "\n"
	       "Examples\n"
	       "  sudo pyperf-bpf agent                       with the defaults\n"
	       "  sudo pyperf-bpf agent --link                for a browser\n"
	       "  sudo pyperf-bpf agent --config a.conf -v    as configured, with more messages\n"
	       "  pyperf-bpf agent --config a.conf --check-config\n");
}

/* Returns only if that fails. */
static void become(char **argv)
{
	/*
	 * From where this program is: as built, and as installed (LIBEXECDIR of the Makefile),
	 * wherever that is.
	 */
	static const char *const places[] = { ".", "../libexec/pyperf-bpf" };
	char self[PATH_MAX] = "", path[PATH_MAX + 64];
	const char *dir;

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0) {
		log_err("/proc/self/exe: %s", strerror(errno));
		return;
	}
	argv[0] = AGENT;
	dir = dirname(self);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s/" AGENT, dir, places[i]);
		execv(path, argv);
		if (errno != ENOENT)
			break;
	}
	if (errno == ENOENT)
		log_err(AGENT ": not installed beside this program. The Debian package and "
			      "`make install` have it, wheels and the program of one file do "
			      "not");
	else
		log_err("%s: %s", path, strerror(errno));
}

static int run(int argc, char **argv)
{
	/* Help needs no second program. */
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return cmdline__status(cmdline__print_help(usage));
	become(argv);
	return 1;
}

const struct command cmd_agent = {
	.name = "agent",
	.summary = "profile all the time: store, push and serve windows",
	.usage = usage,
	.run = run,
};
