/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cmd/command.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cmd/cmdline.h"

#define NAME_MAX_LEN 31 /* of words that are compared: no command's name is longer */

/* ---- which one --------------------------------------------------------------------------------- */

static const struct command *find(const struct command *const *commands, const char *name)
{
	for (; *commands; commands++)
		if (!strcmp((*commands)->name, name))
			return *commands;
	return NULL;
}

static size_t min3(size_t a, size_t b, size_t c)
{
	size_t least = a < b ? a : b;

	return least < c ? least : c;
}

/*
 * Letters to add, drop, replace or swap with their neighbour to make one word of the other: the
 * "optimal string alignment" distance, by its recurrence. Both words have at most NAME_MAX_LEN.
 */
static size_t distance(const char *a, const char *b)
{
	size_t d[NAME_MAX_LEN + 1][NAME_MAX_LEN + 1];
	size_t la = strlen(a), lb = strlen(b);

	for (size_t i = 0; i <= la; i++)
		d[i][0] = i;
	for (size_t j = 0; j <= lb; j++)
		d[0][j] = j;
	for (size_t i = 1; i <= la; i++) {
		for (size_t j = 1; j <= lb; j++) {
			bool same = a[i - 1] == b[j - 1];

			d[i][j] = min3(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + !same);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    d[i - 2][j - 2] + 1 < d[i][j])
				d[i][j] = d[i - 2][j - 2] + 1;
		}
	}
	return d[la][lb];
}

/* The command that was probably meant, or NULL: more than half of its letters are right. */
static const struct command *closest(const struct command *const *commands, const char *word)
{
	const struct command *best = NULL;
	size_t least = NAME_MAX_LEN, len = strlen(word);

	if (len < 2 || len > NAME_MAX_LEN)
		return NULL;
	for (; *commands; commands++) {
		const char *name = (*commands)->name;
		size_t d = strncmp(name, word, len) ? distance(word, name) : 1;

		if (2 * d < strlen(name) && d < least) {
			least = d;
			best = *commands;
		}
	}
	return best;
}

/* ---- help -------------------------------------------------------------------------------------- */

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

/* ---- all --------------------------------------------------------------------------------------- */

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
	/* What resembles no command may be a program to run: the default one says how. */
	if (*word != '-' && closest(commands, word))
		return unknown(commands, word);
	return commands[0]->run(argc, argv);
}
