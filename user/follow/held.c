/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "follow/held.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

#define PAUSES	      10	      /* times as long as the question took */
#define HELD_PAUSE_NS (60 * NS_PER_S) /* a reader is given up each time */

/* Nothing is mapped at address 0, but the kernel locks the mappings to find that out. */
static int read_nothing(struct readers *rs, uint32_t tgid)
{
	uint8_t byte;

	return reader__read(rs, tgid, &byte, sizeof(byte), 0);
}

/* 0, the number of the process if it does not answer, or -ECHILD: so does our own memory. */
static int check(struct readers *rs, uint32_t tgid)
{
	int err = read_nothing(rs, tgid);

	if (err == -ETIMEDOUT)
		return read_nothing(rs, (uint32_t)getpid()) == err ? -ECHILD : (int)tgid;
	return err == -ECHILD ? err : 0;
}

static int find(struct readers *rs)
{
	DIR *dir = opendir("/proc");
	struct dirent *de;
	int found = dir ? 0 : -errno;
	long long pid;

	while (!found && dir && (de = readdir(dir)))
		if (!parse_int(de->d_name, 1, INT32_MAX, &pid) && pid != getpid())
			found = check(rs, (uint32_t)pid);
	if (dir)
		closedir(dir);
	return found;
}

int held__find(struct readers *rs)
{
	struct readers *own = rs ? NULL : readers__new();
	int found = rs || own ? find(rs ? rs : own) : -ENOMEM;

	readers__free(own);
	return found;
}

int held__refuse(struct readers *rs)
{
	int found = held__find(rs);

	if (!found)
		return 0;
	if (found < 0)
		log_err("no breakpoints: whether all processes answer cannot be told: %s",
			reader__why(found));
	else
		log_err("no breakpoints: the memory of process %d does not answer: the kernel "
			"might wait for it too, and let no process of this machine start another "
			"one meanwhile; end that process",
			found);
	return -EBUSY;
}

static void say_held(int found)
{
	if (found < 0)
		log_warn("no further breakpoints for now: whether all processes answer cannot be "
			 "told: %s",
			 reader__why(found));
	else
		log_warn("no further breakpoints for now: the memory of process %d does not "
			 "answer: the kernel might wait for it too, and let no process of this "
			 "machine start another one meanwhile; end that process",
			 found);
}

/* There is an answer, and it still holds. */
static bool is_fresh(const struct held_watch *w, uint64_t now)
{
	bool ended = w->found > 0 && kill(w->found, 0) && errno == ESRCH;

	return now < w->next_ns && !ended;
}

bool held__permits(struct held_watch *w)
{
	uint64_t start = thread_cpu_ns();
	int before = w->found;

	if (is_fresh(w, now_ns()))
		return false;
	/* The old ones would not ask again those who have not answered them. */
	if (before)
		held__end(w);
	if (!w->readers)
		w->readers = readers__new();
	w->found = w->readers ? find(w->readers) : -ENOMEM;
	w->next_ns = now_ns() + (w->found > 0 ? HELD_PAUSE_NS
					      : NS_PER_MS + PAUSES * (thread_cpu_ns() - start));
	if (w->found && !before)
		say_held(w->found);
	return !w->found;
}

void held__end(struct held_watch *w)
{
	readers__free(w->readers);
	*w = (struct held_watch){ 0 };
}
