/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/terminal.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

/*
 * COLUMNS is not asked for what goes to a pipe: libreadline exports it, as 80, from any program
 * that loads it, and lines would be cut that somebody reads with a program.
 */
unsigned terminal__width(bool *color)
{
	struct winsize ws;

	*color = false;
	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) || !ws.ws_col)
		return 0;
	*color = !getenv("NO_COLOR");
	return ws.ws_col;
}
