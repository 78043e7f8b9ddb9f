/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/stream.h"

#include <errno.h>

static int reason(int err)
{
	return err ? -err : -EIO;
}

int stream__put(FILE *f, const char *s, size_t len)
{
	errno = 0;
	return len && fwrite(s, 1, len, f) != len ? reason(errno) : 0;
}

/*
 * What could not be written is still in the buffer, so the attempt fails again, for the same
 * reason. A stream without a buffer has just failed: errno is of that.
 */
int stream__flush(FILE *f)
{
	int before = errno;

	errno = 0;
	if (fflush(f))
		return reason(errno);
	return ferror(f) ? reason(before) : 0;
}
