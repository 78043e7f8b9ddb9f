/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "trace/uprobe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "process/maps_read.h"

#define PMU_TYPE "/sys/bus/event_source/devices/uprobe/type"
#define ROUNDS	 7
#define CALLS	 200 /* of a round */

/* The number that the kernel has given its PMU. */
static int pmu_type(void)
{
	FILE *f = fopen(PMU_TYPE, "re");
	int type = -ENOSYS;

	if (!f)
		return -ENOSYS;
	if (fscanf(f, "%d", &type) != 1)
		type = -ENOSYS;
	fclose(f);
	return type;
}

int uprobe__open(pid_t pid, int fd, uint64_t offset, int prog_fd)
{
	struct perf_event_attr attr = { .size = sizeof(attr),
					.sample_period = 1,
					.wakeup_events = 1 };
	int type = pmu_type(), event, err = 0;
	char path[32];

	if (type < 0)
		return type;
	/* The file itself: its name may lead to another one by now. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	attr.type = (uint32_t)type;
	attr.config1 = (uintptr_t)path;
	attr.config2 = offset;
	event = (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (event < 0)
		return -errno;
	if (ioctl(event, PERF_EVENT_IOC_SET_BPF, prog_fd) || ioctl(event, PERF_EVENT_IOC_ENABLE, 0))
		err = -errno;
	if (!err)
		return event;
	close(event);
	return err;
}

/* ---- the price ------------------------------------------------------------------------------- */

/*
 * Where the breakpoint goes: a function that begins with an instruction which the kernel emulates.
 */
#if defined(__x86_64__)
static __attribute__((noinline)) void measured(void)
{
	__asm__ volatile(".globl pyperf_measured\npyperf_measured:\n\tnop" ::: "memory");
}
extern const char pyperf_measured[];
#endif

/* Where an address of this program lies in its file. */
static int find_offset(uint64_t addr, uint64_t *offset)
{
	struct exec_maps maps = { 0 };
	int fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int err = fd < 0 ? -errno : exec_maps__read(&maps, fd);

	if (!err)
		err = -ENOENT;
	for (size_t i = 0; i < maps.cnt && err == -ENOENT; i++) {
		if (addr < maps.lines[i].start || addr >= maps.lines[i].end)
			continue;
		*offset = addr - maps.lines[i].start + maps.lines[i].offset;
		err = 0;
	}
	exec_maps__free(&maps);
	if (fd >= 0)
		close(fd);
	return err;
}

#if defined(__x86_64__)
/* The shortest of several rounds: others have the CPU, too. */
static uint64_t time_calls(void)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t start = thread_cpu_ns(), ns;

		for (int k = 0; k < CALLS; k++)
			measured();
		ns = thread_cpu_ns() - start;
		if (ns < best)
			best = ns;
	}
	return best / CALLS;
}

int64_t uprobe__measure(int prog_fd)
{
	uint64_t offset, plain, hit;
	int exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), event, err;

	if (exe < 0)
		return -errno;
	err = find_offset((uintptr_t)pyperf_measured, &offset);
	plain = time_calls();
	event = err ? err : uprobe__open(getpid(), exe, offset, prog_fd);
	close(exe);
	if (event < 0)
		return event;
	hit = time_calls();
	close(event);
	return hit > plain ? (int64_t)(hit - plain) : 0;
}
#else
int64_t uprobe__measure(int prog_fd)
{
	(void)prog_fd, (void)find_offset;
	return -ENOTSUP;
}
#endif
