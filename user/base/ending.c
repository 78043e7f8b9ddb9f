/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/ending.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

#define LATE_NS	 NS_PER_S
#define STILL_NS (2 * NS_PER_S)

/* What children see, too. */
struct ending {
	atomic_bool asked, late;
};

/* Global because a signal is the process's. */
static atomic_bool begun;
static struct ending own;
static struct ending *ending = &own; /* or in memory that children share */
/* State of the thread that takes the signals. */
static uint64_t looked_ns, cpu_ns, still_ns, spent_ns;

static uint64_t process_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return timespec_ns(t);
}

void ending__share(void)
{
	void *shared = ending == &own ? mmap(NULL, sizeof(*ending), PROT_READ | PROT_WRITE,
					     MAP_SHARED | MAP_ANONYMOUS, -1, 0)
				      : MAP_FAILED;

	if (shared != MAP_FAILED)
		ending = shared;
}

void ending__ask(void)
{
	atomic_store(&ending->asked, true);
}

void ending__forget(void)
{
	atomic_store(&ending->asked, false);
}

bool ending__asked(void)
{
	return atomic_load(&ending->asked);
}

void ending__begin(void)
{
	if (atomic_load(&begun))
		return;
	looked_ns = now_ns();
	cpu_ns = process_cpu_ns();
	atomic_store(&begun, true);
}

bool ending__begun(void)
{
	return atomic_load(&begun);
}

bool ending__late(void)
{
	return atomic_load_explicit(&ending->late, memory_order_relaxed);
}

#define UNKNOWN '?' /* it could not be read */

/* 'R': it computes, or waits for a CPU. */
static char state_of(int tasks, const char *tid)
{
	char path[32], text[64] = "", *end;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%.16s/stat", tid);
	fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 'X' : UNKNOWN;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	end = n > 0 ? strrchr(text, ')') : NULL;
	return end && end[1] ? end[2] : n < 0 && errno != ESRCH ? UNKNOWN : 'X';
}

/* 'R' if another thread computes or waits for a CPU, UNKNOWN if that cannot be seen. */
static char state_of_others(void)
{
	DIR *dir = opendir("/proc/self/task");
	const struct dirent *e;
	char self[16], state, found = dir ? 'S' : UNKNOWN;

	if (!dir)
		return found;
	snprintf(self, sizeof(self), "%ld", (long)syscall(SYS_gettid));
	while (found != 'R' && (e = readdir(dir))) {
		if (*e->d_name == '.' || !strcmp(e->d_name, self))
			continue;
		state = state_of(dirfd(dir), e->d_name);
		found = state == 'R' || state == UNKNOWN ? state : found;
	}
	closedir(dir);
	return found;
}

bool ending__stands_still(void)
{
	uint64_t now = now_ns(), cpu = process_cpu_ns();
	uint64_t passed = now - looked_ns, used = cpu - cpu_ns;
	char others = state_of_others();

	spent_ns += others == 'R' ? used : passed;
	if (others == UNKNOWN)
		still_ns += passed > used ? passed - used : 0;
	else if (others != 'R')
		still_ns += passed;
	looked_ns = now;
	cpu_ns = cpu;
	if (spent_ns >= LATE_NS)
		atomic_store(&ending->late, true);
	return still_ns >= STILL_NS;
}
