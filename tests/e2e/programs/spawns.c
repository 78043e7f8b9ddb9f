/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Starts a program: the child shares our memory until it executes it. Its status is ours. */
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

int main(int argc, char **argv)
{
	int status;
	pid_t pid;

	if (argc < 2 || posix_spawnp(&pid, argv[1], 0, 0, argv + 1, environ))
		return 127;
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return 126;
	return WEXITSTATUS(status);
}
