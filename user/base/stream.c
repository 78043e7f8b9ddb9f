/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/stream.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>

static int reason(int err)
{
	return err ? -err : -EIO;
}

int stream__put(FILE *f, const char *s, size_t len)
{
	errno = 0;
	return len && fwrite(s, 1, len, f) != len ? reason(errno) : 0;
}

/* Of a pipe or socket that nobody reads any more, which says so at any time. */
static bool is_unread(FILE *f)
{
	struct pollfd fd = { .fd = fileno(f) };

	return poll(&fd, 1, 0) > 0 && fd.revents & POLLERR;
}

/*
 * What could not be written may still be in the buffer: the attempt fails again, for the same
 * reason. If it was thrown away errno may be of that, or of something else since: but a reader who
 * has gone does not come back.
 */
int stream__flush(FILE *f)
{
	int before = errno;

	errno = 0;
	if (fflush(f))
		return reason(errno);
	if (!ferror(f))
		return 0;
	return is_unread(f) ? -EPIPE : reason(before);
}
