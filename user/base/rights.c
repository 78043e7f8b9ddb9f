/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

const struct right rights__needed[] = {
	{ "CAP_BPF", CAP_BPF, CAP_SYS_ADMIN, true, "BPF programs cannot be loaded" },
	{ "CAP_PERFMON", CAP_PERFMON, CAP_SYS_ADMIN, true,
	  "programs may not read memory, nor be run by a clock" },
	{ "CAP_SYS_PTRACE", CAP_SYS_PTRACE, CAP_SYS_PTRACE, false,
	  "processes of other users cannot be read" },
	{ "CAP_DAC_READ_SEARCH", CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE, false,
	  "an interpreter in a file that this user may not read is not recognised" },
	{ "CAP_SYSLOG", CAP_SYSLOG, CAP_SYSLOG, false,
	  "kernel functions have no names where kernel.kptr_restrict is not 0" },
	{ "CAP_CHECKPOINT_RESTORE", RIGHT_CHECKPOINT, CAP_SYS_ADMIN, false,
	  "libraries that were replaced or deleted while a process runs (by an upgrade) are not "
	  "recognised" },
	{ NULL, 0, 0, false, NULL },
};

static bool has_capability(int cap)
{
	struct __user_cap_header_struct hdr = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	if (syscall(SYS_capget, &hdr, data))
		return false;
	return data[cap / 32].effective & (1U << (cap % 32));
}

bool rights__has(const struct right *right)
{
	return has_capability(right->cap) || has_capability(right->or_cap);
}

int rights__keep(uint64_t mask, bool inherit)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];

	if (syscall(SYS_capget, &head, caps))
		return -errno;
	for (int i = 0; i < 2; i++) {
		caps[i].permitted &= (uint32_t)(mask >> (32 * i));
		caps[i].effective = caps[i].permitted;
		caps[i].inheritable = inherit ? caps[i].permitted : 0;
	}
	return syscall(SYS_capset, &head, caps) ? -errno : 0;
}

bool rights__locked_down(void)
{
	char text[128] = "";
	FILE *f = fopen("/sys/kernel/security/lockdown", "re");

	if (!f)
		return false;
	if (!fgets(text, sizeof(text), f))
		text[0] = '\0';
	fclose(f);
	return strstr(text, "[confidentiality]");
}

long rights__sysctl(const char *name)
{
	char path[128], text[32], *end;
	ssize_t n = -1;
	long value;
	int fd;

	snprintf(path, sizeof(path), "/proc/sys/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
	value = strtol(text, &end, 10);
	return end == text ? -2 : value;
}
