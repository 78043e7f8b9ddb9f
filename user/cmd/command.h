/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_COMMAND_H
#define PYPERF_COMMAND_H
/*
 * The commands of the program: one cmd_*.c each, listed in main.c, chosen by the first word.
 *
 * A new command is a struct command in cmd_NAME.c, declared here, and a line in main.c's table. It
 * is thin: its options (cmdline.h), then the stages.
 *
 *	const struct command cmd_report = {
 *		.name = "report",
 *		.summary = "profile files in another format, or as a report",
 *		.usage = usage,
 *		.run = run,
 *	};
 */
struct command {
	const char *name;
	const char *summary; /* its line in the list of commands */
	void (*usage)(void); /* prints the help: synopsis, options, examples; at most one screen */
	/* The exit status. argv[0] is no option: the command's name, or the program's. */
	int (*run)(int argc, char **argv);
};

extern const struct command cmd_agent;
extern const struct command cmd_check;
extern const struct command cmd_dump;
extern const struct command cmd_trace;
extern const struct command cmd_probes;
extern const struct command cmd_heap;
extern const struct command cmd_record;
extern const struct command cmd_top;
extern const struct command cmd_report;
extern const struct command cmd_diff;

/*
 * Runs what the words ask for, and returns the exit status. The first command of the list (which
 * ends in NULL) is the default: it gets the line when that does not begin with a name. `overview`
 * prints what --help shows.
 *
 *	pyperf-bpf [COMMAND] ...
 *	pyperf-bpf help [COMMAND]	the same as COMMAND --help
 *	pyperf-bpf --help, -h, --version
 */
int command__main(const struct command *const *commands, void (*overview)(void), int argc,
		  char **argv);

/* Prints the lines of a help that list the commands. */
void command__list(const struct command *const *commands);

#endif /* PYPERF_COMMAND_H */
