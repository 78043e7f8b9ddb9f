/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/waitword.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/syscalls.h"

static enum wait_call class_of(const char *name)
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

enum wait_call wait_class_of(uint64_t nr)
{
	const char *name = nr < WAIT_CALLS ? syscall_name((int64_t)nr) : NULL;

	return name ? class_of(name) : WAIT_CALL_OTHER;
}

/* The kind of the file, from what the kernel has cached: does not ask a server. */
static uint32_t kind_of_file(const struct thread_now *t)
{
	struct statx st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/fd/%u", t->tgid, (uint32_t)t->regs[ARCH_REG_ARG0]);
	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE, &st))
		return WAIT_CALL;
	switch (st.stx_mode & S_IFMT) {
	case S_IFSOCK:
		return WAIT_SOCKET;
	case S_IFIFO:
		return WAIT_PIPE;
	case S_IFCHR:
		return WAIT_TERMINAL;
	case S_IFREG:
	case S_IFBLK:
	case S_IFDIR:
		return WAIT_DISK;
	}
	return WAIT_CALL;
}

uint64_t wait_word_of_sleeper(const struct thread_now *t)
{
	uint64_t nr = (uint64_t)t->syscall;
	enum wait_call what = wait_class_of(nr);
	uint32_t kind = WAIT_CALL;

	if (!(t->flags & THREAD_REGS) || t->syscall < 0)
		return WAIT_WORD(WAIT_FAULT, WAIT_NO_CALL);
	if (what == WAIT_CALL_FUTEX)
		kind = WAIT_LOCK;
	else if (what == WAIT_CALL_SLEEP || (what == WAIT_CALL_SELECT && !t->regs[ARCH_REG_ARG0]))
		kind = WAIT_SLEEP;
	else if (what == WAIT_CALL_FILE)
		kind = kind_of_file(t);
	if (kind == WAIT_CALL && t->state & THREAD_BLOCKED && what == WAIT_CALL_FILE)
		kind = WAIT_DISK;
	return WAIT_WORD(kind, nr);
}

/* The name of a kind of wait; NULL: that of its system call. */
static const char *kind_text(uint64_t word)
{
	switch (WAIT_KIND(word)) {
#define X(name, number, text)                                                                      \
	case number:                                                                               \
		return text;
		PYPERF_WAITS(X)
#undef X
	}
	return NULL;
}

/* Many calls, one reason. */
static const char *call_text(uint64_t nr)
{
	static const struct {
		const char *call, *text;
	} texts[] = {
		{ "ppoll", "poll" },
		{ "select", "poll" },
		{ "pselect6", "poll" },
		{ "epoll_pwait", "epoll_wait" },
		{ "epoll_pwait2", "epoll_wait" },
		{ "wait4", "child process" },
		{ "waitid", "child process" },
		{ "vfork", "child process" },
		{ "recvfrom", "net" },
		{ "recvmsg", "net" },
		{ "recvmmsg", "net" },
		{ "sendto", "net" },
		{ "sendmsg", "net" },
		{ "sendmmsg", "net" },
		{ "accept4", "accept" },
		{ "pause", "signal" },
		{ "rt_sigsuspend", "signal" },
		{ "rt_sigtimedwait", "signal" },
	};
	const char *name = syscall_name((int64_t)nr);

	for (size_t i = 0; name && i < sizeof(texts) / sizeof(texts[0]); i++)
		if (!strcmp(texts[i].call, name))
			return texts[i].text;
	return name;
}

const char *wait_word_text(uint64_t word)
{
	const char *text = kind_text(word);

	return text ? text : call_text(WAIT_CALL(word));
}
