/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/command.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/nearest.h"
#include "cmd/cmdline.h"

#define COMMANDS_MAX 32 /* that are compared with a word */

/* ---- which one ------------------------------------------------------------------------------- */

static const struct command *find(const struct command *const *commands, const char *name)
{
	for (; *commands; commands++)
		if (!strcmp((*commands)->name, name))
			return *commands;
	return NULL;
}

/* The command that was probably meant, or NULL. */
static const struct command *closest(const struct command *const *commands, const char *word)
{
	const char *names[COMMANDS_MAX];
	size_t cnt = 0, at;

	for (; cnt < COMMANDS_MAX && commands[cnt]; cnt++)
		names[cnt] = commands[cnt]->name;
	at = nearest_name(word, names, cnt);
	return at < cnt ? commands[at] : NULL;
}

/* ---- help ------------------------------------------------------------------------------------ */

void command__list(const struct command *const *commands)
{
	for (; *commands; commands++)
		printf("  %-8s %s\n", (*commands)->name, (*commands)->summary);
	printf("  %-8s %s\n", "help", "all options of a command: pyperf-bpf help COMMAND");
}

static int unknown(const struct command *const *commands, const char *word)
{
	const struct command *near = closest(commands, word);

	if (near)
		log_err("unknown command '%s'; did you mean '%s'?", word, near->name);
	else
		log_err("unknown command '%s'; see 'pyperf-bpf --help'", word);
	return 2;
}

static int help(const struct command *const *commands, void (*overview)(void), char **words)
{
	const struct command *command = words[0] ? find(commands, words[0]) : NULL;

	if (words[0] && !command && strcmp(words[0], "help") && *words[0] != '-')
		return unknown(commands, words[0]);
	return cmdline__status(cmdline__print_help(command ? command->usage : overview));
}

/* ---- all ------------------------------------------------------------------------------------- */

int command__main(const struct command *const *commands, void (*overview)(void), int argc,
		  char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";
	const struct command *command = find(commands, word);

	if (command)
		return command->run(argc - 1, argv + 1);
	if (!strcmp(word, "help"))
		return help(commands, overview, argv + 2);
	if (!strcmp(word, "--help") || !strcmp(word, "-h"))
		return help(commands, overview, (char *[]){ NULL });
	if (!strcmp(word, "--version"))
		return cmdline__status(cmdline__print_version());
	/*
	 * A word that resembles no command may be a program to run: the default command says how.
	 */
	if (*word != '-' && closest(commands, word))
		return unknown(commands, word);
	return commands[0]->run(argc, argv);
}
