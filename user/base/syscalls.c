/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/syscalls.h"

#include <asm/unistd.h>
#include <stddef.h>
#include <string.h>

#include "bpf/pyperf.h"

static const char *const names[] = {
#include "syscall_names.h"
};

const char *syscall_name(int64_t number)
{
	if (number < 0 || (uint64_t)number >= sizeof(names) / sizeof(names[0]))
		return NULL;
	return names[number];
}

static uint8_t class_of(const char *name)
{
	static const char *const of_files[] = {
		"read",	     "write",	  "readv",     "writev",	  "pread64", "pwrite64",
		"preadv",    "pwritev",	  "preadv2",   "pwritev2",	  "fsync",   "fdatasync",
		"fallocate", "ftruncate", "getdents",  "getdents64",	  "ioctl",   "flock",
		"fcntl",     "lseek",	  "readahead", "sync_file_range", "syncfs",
	};

	if (!strncmp(name, "futex", strlen("futex")))
		return WAIT_CALL_FUTEX;
	if (!strcmp(name, "select") || !strcmp(name, "pselect6")) /* sleep() of Python up to 3.10 */
		return WAIT_CALL_SELECT;
	if (!strcmp(name, "nanosleep") || !strcmp(name, "clock_nanosleep"))
		return WAIT_CALL_SLEEP;
	if (!strcmp(name, "poll") || !strcmp(name, "ppoll"))
		return WAIT_CALL_POLL;
	if (!strncmp(name, "epoll_wait", strlen("epoll_wait")) ||
	    !strncmp(name, "epoll_pwait", strlen("epoll_pwait")))
		return WAIT_CALL_EPOLL;
	for (size_t i = 0; i < sizeof(of_files) / sizeof(of_files[0]); i++)
		if (!strcmp(name, of_files[i]))
			return WAIT_CALL_FILE;
	return WAIT_CALL_OTHER;
}

uint8_t syscall_wait_class(int64_t number)
{
	const char *name = syscall_name(number);

	return name ? class_of(name) : WAIT_CALL_OTHER;
}
