/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/waits.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define NAME_SIZE 64

/* Which argument names the object of the call. */
enum about { ABOUT_NOTHING, ABOUT_FD, ABOUT_PATH, ABOUT_PATH_AT, ABOUT_PROCESS };

static const struct {
	long number;
	const char *name;
	enum about about;
} calls[] = {
	{ SYS_read, "read", ABOUT_FD },
	{ SYS_pread64, "pread64", ABOUT_FD },
	{ SYS_write, "write", ABOUT_FD },
	{ SYS_pwrite64, "pwrite64", ABOUT_FD },
	{ SYS_writev, "writev", ABOUT_FD },
	{ SYS_fsync, "fsync", ABOUT_FD },
	{ SYS_fdatasync, "fdatasync", ABOUT_FD },
	{ SYS_ftruncate, "ftruncate", ABOUT_FD },
	{ SYS_fallocate, "fallocate", ABOUT_FD },
	{ SYS_close, "close", ABOUT_FD },
	{ SYS_flock, "flock", ABOUT_FD },
	{ SYS_fcntl, "fcntl", ABOUT_FD },
	{ SYS_ioctl, "ioctl", ABOUT_FD },
	{ SYS_fstat, "fstat", ABOUT_FD },
	{ SYS_getdents64, "getdents64", ABOUT_FD },
	{ SYS_openat, "openat", ABOUT_PATH_AT },
	{ SYS_newfstatat, "stat", ABOUT_PATH_AT },
	{ SYS_statx, "statx", ABOUT_PATH_AT },
	{ SYS_faccessat, "access", ABOUT_PATH_AT },
	{ SYS_readlinkat, "readlink", ABOUT_PATH_AT },
	{ SYS_unlinkat, "unlink", ABOUT_PATH_AT },
	{ SYS_renameat, "rename", ABOUT_PATH_AT },
	{ SYS_mkdirat, "mkdir", ABOUT_PATH_AT },
	{ SYS_statfs, "statfs", ABOUT_PATH },
#ifdef SYS_open /* not on architectures that came later */
	{ SYS_open, "open", ABOUT_PATH },
	{ SYS_stat, "stat", ABOUT_PATH },
	{ SYS_access, "access", ABOUT_PATH },
	{ SYS_readlink, "readlink", ABOUT_PATH },
	{ SYS_unlink, "unlink", ABOUT_PATH },
	{ SYS_rename, "rename", ABOUT_PATH },
	{ SYS_mkdir, "mkdir", ABOUT_PATH },
#endif
	{ SYS_process_vm_readv, "process_vm_readv", ABOUT_PROCESS },
	{ SYS_futex, "futex", ABOUT_NOTHING },
	{ SYS_bpf, "bpf", ABOUT_NOTHING },
	{ SYS_epoll_wait, "epoll_wait", ABOUT_NOTHING },
	{ SYS_munmap, "munmap", ABOUT_NOTHING },
};

/* The first line of a file of the thread in /proc; "" when there is none. */
static void read_of(pid_t tid, const char *name, char *out, size_t size)
{
	char path[64];
	FILE *f;

	*out = '\0';
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)tid, name);
	f = fopen(path, "re");
	if (!f)
		return;
	if (!fgets(out, (int)size, f))
		*out = '\0';
	fclose(f);
	out[strcspn(out, "\n")] = '\0';
}

static void add_fd(struct strbuf *out, pid_t tid, uint64_t fd)
{
	char link[64], path[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/fd/%d", (int)tid, (int)fd);
	n = readlink(link, path, sizeof(path));
	if (n > 0) {
		strbuf__addz(out, " of ");
		strbuf__add(out, path, (size_t)n);
	}
}

/*
 * Reads through the kernel: the thread may have continued, and the stack that held the path may
 * hold something else by now.
 */
static void add_path(struct strbuf *out, pid_t tid, uint64_t address)
{
	char path[PATH_MAX];
	/* Not beyond the page, behind which nothing may be mapped. */
	size_t room = 4096 - address % 4096;
	struct iovec local = { path, room < sizeof(path) ? room : sizeof(path) };
	struct iovec remote = { (void *)(uintptr_t)address, local.iov_len };
	ssize_t n = process_vm_readv(tid, &local, 1, &remote, 1, 0);

	if (n > 0 && *path) {
		strbuf__addz(out, " of ");
		strbuf__add(out, path, strnlen(path, (size_t)n));
	}
}

static void add_call(struct strbuf *out, pid_t tid, long number, const uint64_t args[2])
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (calls[i].number != number)
			continue;
		strbuf__addf(out, "%s()", calls[i].name);
		if (calls[i].about == ABOUT_FD)
			add_fd(out, tid, args[0]);
		else if (calls[i].about == ABOUT_PATH)
			add_path(out, tid, args[0]);
		else if (calls[i].about == ABOUT_PATH_AT)
			add_path(out, tid, args[1]);
		else if (calls[i].about == ABOUT_PROCESS)
			strbuf__addf(out, " of process %d", (int)args[0]);
		return;
	}
	strbuf__addf(out, "system call %ld", number);
}

void waits__describe(pid_t tid, struct strbuf *out)
{
	char text[256], where[NAME_SIZE];
	uint64_t args[2];
	long number;

	read_of(tid, "syscall", text, sizeof(text));
	read_of(tid, "wchan", where, sizeof(where));
	if (sscanf(text, "%ld %" SCNx64 " %" SCNx64, &number, &args[0], &args[1]) != 3 ||
	    number < 0) {
		strbuf__addz(out, *text ? "it runs" : "it is not to be seen what for");
		return;
	}
	add_call(out, tid, number, args);
	if (*where && strcmp(where, "0"))
		strbuf__addf(out, " (in the kernel: %s)", where);
}
