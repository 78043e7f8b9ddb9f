/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "agent/unit.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/network.h"

#define UNIT	   "pyperf-bpf-agent.service"
#define ASK_MS	   2000
#define ANSWER_MAX (16U << 10)

/* The properties that are asked for. */
enum { LOAD_STATE, EXEC_START, PRIVATE_NETWORK, FAMILIES, ADDRESS_DENY, ADDRESS_ALLOW, PROPERTIES };

static const char *const names[PROPERTIES] = {
	"LoadState",	 "ExecStart",	   "PrivateNetwork", "RestrictAddressFamilies",
	"IPAddressDeny", "IPAddressAllow",
};

struct unit {
	char answer[ANSWER_MAX];
	const char *value[PROPERTIES]; /* "" when it is empty, or was not told */
};

/* In the child. */
static void execute_systemctl(void)
{
	int null = open("/dev/null", O_RDWR);
	char wanted[128] = "";

	for (int i = 0; i < PROPERTIES; i++)
		snprintf(wanted + strlen(wanted), sizeof(wanted) - strlen(wanted), "%s%s",
			 i ? "," : "", names[i]);
	if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDERR_FILENO) >= 0 &&
	    dup2(CHILD_OUT, STDOUT_FILENO) >= 0)
		execlp("systemctl", "systemctl", "--no-pager", "show", "--property", wanted, UNIT,
		       (char *)NULL);
	_exit(1);
}

/* False: it is too long, or comes too late. */
static bool read_answer(struct unit *u, int fd)
{
	uint64_t until_ms = now_ms() + ASK_MS;
	size_t len = 0;
	ssize_t n = 1;

	while (n > 0 && len < sizeof(u->answer) - 1) {
		if (child__poll(fd, until_ms))
			return false;
		n = read(fd, u->answer + len, sizeof(u->answer) - 1 - len);
		len += n > 0 ? (size_t)n : 0;
	}
	u->answer[len] = '\0';
	return n == 0;
}

static bool ask(struct unit *u)
{
	int ends[2], status;
	bool answered;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return false;
	pid = child__fork(-1, ends[1]);
	if (!pid)
		execute_systemctl();
	close(ends[1]);
	answered = pid > 0 && read_answer(u, ends[0]);
	close(ends[0]);
	status = pid > 0 ? child__wait(pid, !answered) : -1;
	return answered && !status;
}

/* Cuts the answer, of lines "NAME=VALUE". */
static void cut(struct unit *u)
{
	char *rest = u->answer, *line;

	for (int i = 0; i < PROPERTIES; i++)
		u->value[i] = "";
	while ((line = strsep(&rest, "\n"))) {
		const char *name = strsep(&line, "=");

		for (int i = 0; line && i < PROPERTIES; i++)
			if (!strcmp(name, names[i]))
				u->value[i] = line;
	}
}

static bool has_word(const char *words, const char *word)
{
	size_t len = strlen(word), n;

	for (; *words; words += n + (words[n] != '\0')) {
		n = strcspn(words, " ");
		if (n == len && !strncmp(words, word, n))
			return true;
	}
	return false;
}

/* Does the unit start the agent with this configuration? What systemd prints is not quoted. */
static bool reads(const struct unit *u, const char *path)
{
	static const char option[] = "--config";
	const char *at = strstr(u->value[EXEC_START], option);
	char own[PATH_MAX] = CONFIG_PATH_DEFAULT;
	struct stat a, b;

	if (at && (at[strlen(option)] == ' ' || at[strlen(option)] == '=')) {
		at += strlen(option) + 1;
		snprintf(own, sizeof(own), "%.*s", (int)strcspn(at, " "), at);
	}
	return !stat(own, &a) && !stat(path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* "AF_UNIX ...": only these; "~AF_INET ...": not these. */
static bool has_family(const struct unit *u, const char *family)
{
	const char *families = u->value[FAMILIES];

	if (*families == '~')
		return !has_word(families + 1, family);
	return !*families || has_word(families, family);
}

/* What takes the network away; NULL: it has one, as far as this shows. */
static const char *what_closes(const struct unit *u)
{
	const char *deny = u->value[ADDRESS_DENY];

	if (!strcmp(u->value[PRIVATE_NETWORK], "yes"))
		return names[PRIVATE_NETWORK];
	if (!has_family(u, "AF_INET") && !has_family(u, "AF_INET6"))
		return names[FAMILIES];
	if (has_word(deny, "0.0.0.0/0") && has_word(deny, "::/0") && !*u->value[ADDRESS_ALLOW])
		return names[ADDRESS_DENY];
	return NULL;
}

void unit__check_network(const struct config *c, const char *path)
{
	const char *closed;
	struct unit u;

	if (!c->push_cnt || !ask(&u))
		return;
	cut(&u);
	if (strcmp(u.value[LOAD_STATE], "loaded") || !reads(&u, path))
		return;
	closed = what_closes(&u);
	if (closed)
		log_warn("%s: [push.%s]: %s has no network (%s=): windows would wait in the "
			 "spools; %s",
			 path, c->push[0].name, UNIT, closed, NETWORK_REMEDY);
}
