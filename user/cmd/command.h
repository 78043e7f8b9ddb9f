/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef PYPERF_COMMAND_H
#define PYPERF_COMMAND_H
/*
 * The table of commands. Each command is a cmd_*.c; main.c lists them, and the first word of the
 * command line selects one.
 *
 * To add a command, define its struct command in cmd_NAME.c, declare it here, and add it to the
 * table of main.c. A command only parses its options (cmdline.h) and calls the stages.
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
	/*
	 * Returns the exit status. argv[0] is not an option: it is the name of the command or of
	 * the program.
	 */
	int (*run)(int argc, char **argv);
};

extern const struct command cmd_agent;
extern const struct command cmd_check;
extern const struct command cmd_dump;
extern const struct command cmd_trace;
extern const struct command cmd_probes;
extern const struct command cmd_heap;
extern const struct command cmd_memory;
extern const struct command cmd_record;
extern const struct command cmd_top;
extern const struct command cmd_report;
extern const struct command cmd_diff;

/*
 * Runs the command that the words select, and returns the exit status. `commands` ends in NULL. Its
 * first command is the default: it runs if the first word is not the name of a command. `overview`
 * prints the text of --help.
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
