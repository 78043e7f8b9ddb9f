/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/terminal.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

unsigned terminal__width(bool *color)
{
	struct winsize ws;

	*color = false;
	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) || !ws.ws_col)
		return 0;
	*color = !getenv("NO_COLOR");
	return ws.ws_col;
}
