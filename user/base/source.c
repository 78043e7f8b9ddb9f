/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "base/source.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/below.h"
#include "base/foreign.h"
#include "base/opener.h"
#include "base/procfield.h"
#include "base/tenant.h"

#define NOBODY	   65534
#define GROUPS_MAX 256

bool source__is_name(const char *path)
{
	static const char *const suffixes[] = { ".py", ".pyw", ".pyx", ".pxd", ".pxi", ".pyi" };
	const char *dot = strrchr(path, '.');

	for (size_t i = 0; dot && i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		if (!strcmp(dot, suffixes[i]))
			return true;
	return false;
}

/* ---- The rights of another user, for this thread ---- */

/*
 * glibc's setgroups() is for all threads of a program; the system call is for the one that makes
 * it. setfsuid() and setfsgid() are the system calls.
 */
struct rights {
	bool taken;
	int fsuid, fsgid;
	gid_t groups[GROUPS_MAX];
	int group_cnt;
	struct __user_cap_data_struct caps[2];
};

static int get_caps(struct __user_cap_data_struct caps[2])
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };

	return syscall(SYS_capget, &head, caps) ? -errno : 0;
}

static int set_caps(const struct __user_cap_data_struct caps[2])
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };

	return syscall(SYS_capset, &head, caps) ? -errno : 0;
}

static void give_back(const struct rights *r)
{
	if (!r->taken)
		return;
	/* In this order: to change groups takes a capability that caps has. */
	setfsuid((uid_t)r->fsuid);
	set_caps(r->caps);
	setfsgid((gid_t)r->fsgid);
	syscall(SYS_setgroups, (size_t)r->group_cnt, r->groups);
}

static int take(struct rights *r, uid_t uid, gid_t gid)
{
	struct __user_cap_data_struct caps[2];

	r->taken = false;
	if (!uid)
		return 0; /* a process of root may read what root may */
	r->group_cnt = getgroups(GROUPS_MAX, r->groups);
	if (r->group_cnt < 0 || get_caps(r->caps))
		return -EPERM;
	/* -1 is not a user: returns the present one and changes nothing */
	r->fsuid = setfsuid((uid_t)-1);
	r->fsgid = setfsgid((gid_t)-1);
	r->taken = true;
	/* Our own groups are what a process of ours may use, too. */
	if (syscall(SYS_setgroups, 0, NULL) && uid != geteuid())
		goto refused;
	setfsgid(gid);
	setfsuid(uid);
	if (setfsuid((uid_t)-1) != (int)uid || setfsgid((gid_t)-1) != (int)gid || get_caps(caps))
		goto refused;
	caps[0].effective &= ~(1U << CAP_DAC_OVERRIDE | 1U << CAP_DAC_READ_SEARCH);
	if (!set_caps(caps))
		return 0;
refused:
	give_back(r);
	return -EPERM;
}

/* ---- Where it is ---- */

bool source__parse_ids(const char *status, uint32_t *uid, uint32_t *gid)
{
	const char *users = procfield__find(status, "Uid");
	const char *groups = procfield__find(status, "Gid");
	struct proc_ids u, g;

	if (!users || !groups || !procfield__ids(users, &u) || !procfield__ids(groups, &g))
		return false;
	*uid = u.real;
	*gid = g.real;
	return true;
}

/* The user of a living process now: it may have changed since it was first seen. */
static bool read_ids(int proc, struct source_owner *who)
{
	int fd = openat(proc, "status", O_RDONLY | O_CLOEXEC);
	char status[4096];
	ssize_t n = fd < 0 ? -1 : read(fd, status, sizeof(status) - 1);

	if (fd >= 0)
		close(fd);
	status[n > 0 ? n : 0] = '\0';
	return source__parse_ids(status, &who->uid, &who->gid);
}

/* The directory of a living process from which its names start: root or working directory. */
static int open_living(struct source_owner *who, const char *path)
{
	int proc, fd = -ESRCH;

	/* One descriptor for both: it stays with this process, even if its number is used again. */
	proc = opener__proc_dir(who->tgid);
	if (proc < 0)
		return proc;
	if (read_ids(proc, who)) {
		fd = openat(proc, *path == '/' ? "root" : "cwd", O_PATH | O_DIRECTORY | O_CLOEXEC);
		fd = fd < 0 ? -errno : fd;
	}
	close(proc);
	return fd;
}

/* Opens the directory at which a path starts. A descriptor or negative errno; updates *who. */
static int open_start(struct source_owner *who, const char *path)
{
	int fd = who->tgid ? open_living(who, path) : -ESRCH;

	if (fd >= 0)
		return fd;
	if (!who->own_root || *path != '/')
		return -ESRCH;
	if (!who->ids_known)
		who->uid = who->gid = NOBODY;
	fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* ---- The file ---- */

/* A relative path stays in the working directory, because its root is not known. */
static int open_in(int start, const char *path)
{
	return below__find(start, path, BELOW_FOLLOW | (*path == '/' ? BELOW_ROOT : 0));
}

/* Nothing of the file is touched before it is known to be a file. */
static int open_regular(int start, const char *path, struct stat *st)
{
	int place = open_in(start, path), fd;

	if (place < 0)
		return place;
	if (fstat(place, st))
		fd = -errno;
	else if (st->st_size > SOURCE_MAX)
		fd = -EFBIG;
	else
		fd = foreign__reopen(place);
	close(place);
	return fd;
}

/* At most SOURCE_MAX bytes, even if it grows meanwhile. */
static int read_all(int fd, struct strbuf *text)
{
	char buf[16384];
	size_t room = SOURCE_MAX;
	ssize_t n;

	while (room && (n = read(fd, buf, room < sizeof(buf) ? room : sizeof(buf)))) {
		if (n < 0)
			return -errno;
		strbuf__add(text, buf, (size_t)n);
		room -= (size_t)n;
	}
	return text->err;
}

static int read_source(const struct source_owner *owner, const char *path, struct strbuf *text,
		       struct stat *st)
{
	struct source_owner who = *owner;
	struct rights rights;
	struct stat own;
	int start, fd, err;

	if (!source__is_name(path))
		return -EINVAL;
	start = open_start(&who, path);
	if (start < 0)
		return start;
	err = take(&rights, who.uid, who.gid);
	if (!err) {
		fd = open_regular(start, path, st ? st : &own);
		give_back(&rights);
		err = fd < 0 ? fd : read_all(fd, text);
		if (fd >= 0)
			close(fd);
	}
	close(start);
	return err;
}

/* ---- by another process ---------------------------------------------------------------------- */

struct question {
	struct source_owner owner;
	char path[PATH_MAX];
};

static int read_it(struct reader_job *job)
{
	const struct question *q = job->question;
	struct strbuf text = { 0 };
	struct stat st;
	int err = read_source(&q->owner, q->path, &text, &st), n = 0;

	if (!err) {
		memcpy(job->answer, &st, sizeof(st));
		if (text.len)
			memcpy(job->answer + sizeof(st), text.s, text.len);
		n = (int)(sizeof(st) + text.len);
	}
	strbuf__free(&text);
	return err ? err : n;
}

READER_JOB(read_it);

int source__read(struct readers *rs, const struct source_owner *owner, const char *path,
		 struct strbuf *text, struct stat *st)
{
	struct strbuf answer = { 0 };
	struct question q = { .owner = *owner };
	const struct reader_call c = { .whose = { .tgid = owner->tgid,
						  .tenant = tenant__of_user(owner->uid) },
				       .op = &op_read_it,
				       .question = &q,
				       .size = sizeof(q),
				       .in = -1,
				       .text = &answer };
	int n;

	if (!source__is_name(path))
		return -EINVAL;
	if (strlen(path) >= sizeof(q.path))
		return -ENAMETOOLONG;
	strcpy(q.path, path);
	n = reader__files(rs, &c);
	if (n >= 0 && answer.len < sizeof(*st))
		n = -EBADMSG;
	if (n >= 0) {
		if (st)
			memcpy(st, answer.s, sizeof(*st));
		strbuf__add(text, answer.s + sizeof(*st), answer.len - sizeof(*st));
		n = text->err;
	}
	strbuf__free(&answer);
	return n;
}
