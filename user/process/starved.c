/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/starved.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TASKS_MAX  4096 /* threads whose times are added up */
#define LEVELS_MAX 16	/* of control groups, from the process upwards */
#define TEXT_SIZE  4096

static bool read_text(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0)
		return false;
	len = read(fd, out, size - 1);
	close(fd);
	out[len > 0 ? len : 0] = '\0';
	return len > 0;
}

/* ---- Run queues ---- */

/* /proc/PID/task/TID/schedstat: time on a CPU, time in run queues, time slices */
static uint64_t ready_ns(pid_t pid, const char *tid)
{
	char path[64 + NAME_MAX], text[128];
	uint64_t ns;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", (int)pid, tid);
	return read_text(path, text, sizeof(text)) && sscanf(text, "%*s %" SCNu64, &ns) == 1 ? ns
											     : 0;
}

static bool read_tasks(pid_t pid, uint64_t *ns)
{
	struct dirent *de;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (!dir)
		return false;
	for (int i = 0; i < TASKS_MAX && (de = readdir(dir)); i++)
		*ns += *de->d_name != '.' ? ready_ns(pid, de->d_name) : 0;
	closedir(dir);
	return true;
}

/* ---- Limits of control groups ---- */

void starved__parse(const char *text, struct starved *out)
{
	for (const char *line = text; line; line = strchr(line, '\n')) {
		uint64_t n;

		line += *line == '\n';
		if (sscanf(line, "nr_periods %" SCNu64, &n) == 1)
			out->periods = n;
		else if (sscanf(line, "nr_throttled %" SCNu64, &n) == 1)
			out->stopped = n;
		else if (sscanf(line, "throttled_usec %" SCNu64, &n) == 1)
			out->throttled_ns = n < UINT64_MAX / 1000 ? n * 1000 : 0;
		else if (sscanf(line, "throttled_time %" SCNu64, &n) == 1)
			out->throttled_ns = n;
	}
}

/* The longest of the group and those above it. `group` is cut. */
static void read_groups(const char *root, char *group, struct starved *out)
{
	for (int i = 0; i < LEVELS_MAX; i++) {
		char path[PATH_MAX + 128], text[TEXT_SIZE];
		struct starved s = { 0 };
		char *slash;

		snprintf(path, sizeof(path), "%s%s/cpu.stat", root, group);
		if (read_text(path, text, sizeof(text)))
			starved__parse(text, &s);
		if (s.throttled_ns > out->throttled_ns) {
			out->throttled_ns = s.throttled_ns;
			out->stopped = s.stopped;
			out->periods = s.periods;
		}
		slash = strrchr(group, '/');
		if (!slash)
			return;
		*slash = '\0';
	}
}

/* "4:cpu,cpuacct:/docker/6f2c..." of v1, "0::/system.slice/app.service" of v2 */
static void read_limits(pid_t pid, struct starved *out)
{
	char path[64], text[TEXT_SIZE], *rest = text, *line;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	if (!read_text(path, text, sizeof(text)))
		return;
	while ((line = strsep(&rest, "\n"))) {
		char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;

		if (!group || strstr(group, "/.."))
			continue;
		*group++ = '\0';
		names++;
		if (!*names) {
			read_groups("/sys/fs/cgroup", group, out);
		} else if (!strncmp(names, "cpu", 3) && (!names[3] || names[3] == ',')) {
			snprintf(path, sizeof(path), "/sys/fs/cgroup/%.40s", names);
			read_groups(path, group, out);
		}
	}
}

bool starved__read(pid_t pid, struct starved *out)
{
	*out = (struct starved){ 0 };
	if (!read_tasks(pid, &out->ready_ns))
		return false;
	read_limits(pid, out);
	return true;
}

uint64_t starved__throttled(const struct starved *then, const struct starved *now, uint64_t ns)
{
	uint64_t periods = now->periods - then->periods, stopped = now->stopped - then->stopped;
	double most;

	if (now->throttled_ns <= then->throttled_ns || now->periods <= then->periods ||
	    now->stopped <= then->stopped)
		return 0;
	most = (double)ns * (stopped < periods ? (double)stopped / (double)periods : 1);
	return now->throttled_ns - then->throttled_ns < (uint64_t)most
		       ? now->throttled_ns - then->throttled_ns
		       : (uint64_t)most;
}
